//! How many requests a server turns away, and whether fewer at a time would help.
//!
//! A server that has too much to do turns away more, the more it is asked at once. Large ones turn away a few of
//! any number, for reasons of their own: to ask these less would fetch less, and no fewer would be turned
//! away. So a small share is borne, as BBR bears a small loss (Cardwell et al., BBR version 2, IETF 104, 2019), and
//! the share that is turned away of requests made one at a time, and half as much again.

/// The share that any server may turn away.
const BORNE: f64 = 0.1;
/// The most that is borne of a server that turns away single ones, too.
const BORNE_MAX: f64 = 0.9;
/// What is borne of that which is turned away of single ones: the share of late differs from it by chance.
const MARGIN: f64 = 1.5;
/// Requests that what happened of late is about.
const LATE: f64 = 128.0;
/// By how much the share of so many differs by chance, hardly ever by more: who is asked less each time that it
/// comes near what is borne is asked for more again only slowly.
const CHANCE: f64 = 0.05;
/// Single requests after which the share of them is known.
const SINGLE: u32 = 16;

/// What became of the requests to one server.
#[derive(Debug)]
pub(super) struct Refusals {
    /// The share that was turned away of late.
    share: f64,
    borne: f64,
    /// Requests, and those turned away, since one was made at a time.
    single: u32,
    single_refused: u32,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { share: 0.0, borne: BORNE, single: 0, single_refused: 0 }
    }
}

impl Refusals {
    /// A request ended, made while one was made at a time or more. Whether it was learned by it that
    /// single ones are turned away, too.
    pub(super) fn ended(&mut self, is_refused: bool, is_single: bool) -> bool {
        self.share += (f64::from(u8::from(is_refused)) - self.share) / LATE;
        // What was learned of single ones holds while about as many are turned away.
        self.borne = self.borne.min((2.0 * MARGIN * self.share).max(BORNE));
        if !is_single {
            (self.single, self.single_refused) = (0, 0);
            return false;
        }
        self.single += 1;
        self.single_refused += u32::from(is_refused);
        if self.single < SINGLE {
            return false;
        }
        self.share = f64::from(self.single_refused) / f64::from(SINGLE);
        self.borne = (MARGIN * self.share).clamp(BORNE, BORNE_MAX);
        (self.single, self.single_refused) = (0, 0);
        self.borne > BORNE
    }

    /// Whether fewer requests at a time may help.
    pub(super) fn are_too_many(&self) -> bool {
        self.share > self.borne + CHANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `count` requests every `nth` is turned away. Whether single ones are, by the last of them.
    fn turn_away(refusals: &mut Refusals, nth: u32, count: u32, is_single: bool) -> bool {
        (1..=count).fold(false, |_, request| refusals.ended(request % nth == 0, is_single))
    }

    #[test]
    fn a_few_are_borne_and_more_are_not() {
        let mut refusals = Refusals::default();
        turn_away(&mut refusals, 20, 1000, false);
        assert!(!refusals.are_too_many());
        turn_away(&mut refusals, 3, 200, false);
        assert!(refusals.are_too_many());
        turn_away(&mut refusals, 20, 300, false);
        assert!(!refusals.are_too_many());
    }

    #[test]
    fn a_few_are_borne_however_they_come() {
        for (percent, are_borne) in [(3, true), (8, true), (25, false)] {
            let (mut refusals, mut random) = (Refusals::default(), 1_u64);
            let mut were_too_many = false;
            for _ in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                refusals.ended((random >> 33) % 100 < percent, false);
                were_too_many |= refusals.are_too_many();
            }
            assert_ne!(were_too_many, are_borne, "{percent} %");
        }
    }

    #[test]
    fn what_single_ones_meet_is_borne_of_many_and_no_longer_than_they_meet_it() {
        let mut refusals = Refusals::default();
        turn_away(&mut refusals, 3, 100, false);
        assert!(turn_away(&mut refusals, 3, SINGLE, true));
        turn_away(&mut refusals, 3, 1000, false);
        assert!(!refusals.are_too_many());
        turn_away(&mut refusals, 20, 1000, false);
        turn_away(&mut refusals, 3, 200, false);
        assert!(refusals.are_too_many());
    }

    #[test]
    fn what_many_met_is_forgotten_where_single_ones_do_not() {
        let mut refusals = Refusals::default();
        turn_away(&mut refusals, 1, 100, false);
        assert!(refusals.are_too_many());
        assert!(!turn_away(&mut refusals, 100, SINGLE, true));
        assert!(!refusals.are_too_many());
        turn_away(&mut refusals, 3, 200, false);
        assert!(refusals.are_too_many());
    }
}
