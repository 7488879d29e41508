//! The chance from which on files are predicted, so that enough of the predictions are right.

/// How far one outcome moves the bar: up by nearly all of it where one was wrong, down by as little
/// where one was right that a hundred right ones weigh as much, for a share of 0.99. Some dozen wrong
/// ones make a difference, and some thousand right ones make good for them.
const STEP: f32 = 0.003;
/// Files that were wrong at once and count: those of one prediction are wrong for one reason.
const WRONG_AT_ONCE_MAX: u64 = 64;
/// Where it begins: what ran once before mostly does the same again.
const FIRST: f32 = 0.75;
/// With guesses of less chance than this too much is fetched for nothing, however well the rest
/// does.
const LOWEST: f32 = 0.25;
/// What has come nearly always must stay predictable after a bad hour: since that is counted
/// whether it is predicted or not, the bar sinks again.
const HIGHEST: f32 = 0.985;

/// A bar that rises where predictions were wrong and sinks where they were right, so that in the
/// long run a given share of them is right (the quantile estimate of Robbins & Monro, 1951).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    chance: f32,
    /// The share that shall be right.
    share: f32,
}

impl Bar {
    /// A bar for this share, where nothing is known yet.
    pub(crate) fn new(share: f32) -> Self {
        Self { chance: FIRST, share }
    }

    /// Goes where another was; a chance at which none can be says nothing.
    pub(crate) fn go_to(&mut self, chance: f32) {
        if (LOWEST..=HIGHEST).contains(&chance) {
            self.chance = chance;
        }
    }

    /// The least chance at which a file is predicted.
    pub(crate) fn chance(self) -> f32 {
        self.chance
    }

    /// A prediction was right.
    pub(crate) fn right(&mut self) {
        self.chance = (self.chance - STEP * (1.0 - self.share)).max(LOWEST);
    }

    /// So many files of one prediction were wrong.
    pub(crate) fn wrong(&mut self, count: u64) {
        let step = STEP * self.share * count.min(WRONG_AT_ONCE_MAX) as f32;
        self.chance = (self.chance + step).min(HIGHEST);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_share_is_kept_whatever_chances_there_are(
            chances in prop::collection::vec(0_u32..=100, 1..40),
            seed in 1_u64..1000,
        ) {
            let mut bar = Bar::new(0.9);
            let (mut right, mut all, mut state) = (0_u32, 0_u32, seed);
            for round in 0..20_000 {
                let chance = chances[round % chances.len()];
                if (chance as f32) < bar.chance() * 100.0 {
                    continue;
                }
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                all += 1;
                if (state >> 33) % 100 < u64::from(chance) {
                    right += 1;
                    bar.right();
                } else {
                    bar.wrong(1);
                }
            }
            prop_assert!(all < 2000 || f64::from(right) / f64::from(all) > 0.87, "{right} of {all}");
        }
    }

    #[test]
    fn many_wrong_ones_do_not_silence_for_ever() {
        let mut bar = Bar::new(0.95);
        bar.wrong(1_000_000);
        assert!(bar.chance() < 0.95);
        (0..3000).for_each(|_| bar.right());
        assert!(bar.chance() < 0.6);
    }

    #[test]
    fn after_a_bad_hour_it_sinks_to_where_the_share_is_kept() {
        let mut bar = Bar::new(0.99);
        (0..100).for_each(|_| bar.wrong(1000));
        assert!(bar.chance() < 0.99);
        let (mut right, mut all) = (0_u32, 0_u32);
        for round in 0..30_000_u32 {
            // Of every ten files eight come for certain, and two in nineteen cases of twenty.
            let (chance, came) =
                if round % 10 < 8 { (1.0, true) } else { (0.95, round % 200 > 19) };
            if chance < bar.chance() {
                continue;
            }
            all += 1;
            right += u32::from(came);
            if came { bar.right() } else { bar.wrong(1) }
        }
        assert!(all > 24_500, "{all}: some that are less sure are predicted");
        assert!(f64::from(right) / f64::from(all) > 0.985, "{right} of {all}");
    }
}
