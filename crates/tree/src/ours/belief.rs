//! How often what looked alike came true: so that a chance means what it says.

use crate::names::Name;
use crate::numbered::NumberMap;

/// Why a file or a program is expected: its history under the circumstance most like the run's,
/// and what is known besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Evidence(pub(crate) u16);

/// Different evidence there is.
const EVIDENCES: usize = 1 << 11;
/// What a chance from nowhere weighs against counted cases.
const PRIOR_CASES: f32 = 3.0;
/// What the chance of all programs weighs against a program's own cases.
const SHARED_CASES: f32 = 6.0;
/// Cases from which on older ones fade: some hundred, since those of one run come together.
const CASES_MAX: u16 = 512;

/// How alike the circumstance is that a history is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alike {
    /// Same arguments.
    Exact,
    /// Same options.
    Shape,
    /// Same program.
    Program,
    /// Same interpreter.
    Executable,
}

/// Bits of evidence: what it is of, then, for a file, `history`, `general`, template, replaced.
const OF_CHAIN: u16 = 1 << 10;
const OF_CHILD: u16 = 1 << 10 | 1 << 9;

impl Evidence {
    /// Of a file by its histories under the most alike circumstance that is known and under the
    /// most general one; `None` where that never had it, out of so many runs.
    pub(crate) fn of_file(
        alike: Alike,
        own: (Option<u16>, u8),
        general: (Option<u16>, u8),
        template: bool,
        replaced: bool,
    ) -> Self {
        let general = match general {
            (Some(history), runs) => 1 + share_class(history, runs),
            (None, _) => 0,
        };
        Self(
            class(own.0, own.1)
                | general << 4
                | (alike as u16) << 6
                | u16::from(template) << 8
                | u16::from(replaced) << 9,
        )
    }

    /// Of a program that is invoked, by its history under the same arguments of the one above.
    pub(crate) fn of_child(history: u16, runs: u8) -> Self {
        Self(OF_CHILD | class(Some(history), runs))
    }

    /// Of a file that followed another one, so many steps behind a file that was opened, `times`
    /// out of `total` at the weakest step.
    pub(crate) fn of_step(times: u16, total: u16, steps: usize) -> Self {
        let total_class = match total {
            0..=1 => 0,
            2..=3 => 1,
            4..=7 => 2,
            _ => 3,
        };
        let share = match u32::from(times) * 8 / u32::from(total.max(1)) {
            8.. => 0,
            7 => 1,
            4..=6 => 2,
            _ => 3,
        };
        let steps = match steps {
            0..=1 => 0,
            2..=3 => 1,
            4..=7 => 2,
            _ => 3,
        };
        Self(OF_CHAIN | total_class | share << 2 | steps << 4)
    }

    /// The chance that it deserves before any case was counted.
    fn prior(self) -> f32 {
        if self.0 & OF_CHILD == OF_CHILD {
            return CLASS_PRIORS[usize::from(self.0 & 15)];
        }
        if self.0 & OF_CHAIN != 0 {
            let total = [0.55, 0.8, 0.9, 0.95][usize::from(self.0 & 3)];
            let share = [1.0, 0.85, 0.6, 0.3][usize::from(self.0 >> 2 & 3)];
            let steps = [1.0, 0.97, 0.93, 0.87][usize::from(self.0 >> 4 & 3)];
            return total * share * steps;
        }
        let class = CLASS_PRIORS[usize::from(self.0 & 15)];
        let general = [0.9, 0.9, 1.0, 1.05][usize::from(self.0 >> 4 & 3)];
        let alike = [1.0, 0.8, 0.7, 0.6][usize::from(self.0 >> 6 & 3)];
        let replaced = if self.0 >> 9 & 1 == 1 { 0.85 } else { 1.0 };
        f32::min(class * general * alike * replaced, 0.99)
    }
}

/// Chances by [`class`].
const CLASS_PRIORS: [f32; 16] =
    [0.9, 0.96, 0.7, 0.25, 0.98, 0.93, 0.75, 0.8, 0.5, 0.4, 0.1, 0.1, 0.05, 0.02, 0.1, 0.99];

/// What kind of history this is: a number under 16.
fn class(history: Option<u16>, runs: u8) -> u16 {
    let Some(history) = history else {
        return match runs {
            0 => 14,
            1 => 11,
            2..=3 => 12,
            _ => 13,
        };
    };
    let (had, last) = (history.count_ones(), history & 1 == 1);
    let runs = u32::from(runs);
    match (runs, had) {
        (0..=1, _) => 0,
        (2..=3, had) if had >= runs => 1,
        (2..=3, _) if last => 2,
        (2..=3, _) => 3,
        (8.., had) if had >= runs => 15,
        (_, had) if had >= runs => 4,
        (_, had) if had + 1 >= runs && last => 5,
        (_, had) if had * 4 >= runs * 3 => 6,
        _ if history & 3 == 3 => 7,
        (_, had) if had * 2 >= runs => 8,
        _ if last => 9,
        _ => 10,
    }
}

fn share_class(history: u16, runs: u8) -> u16 {
    let (had, runs) = (history.count_ones(), u32::from(runs));
    if had * 10 >= runs * 9 { 2 } else { u16::from(had * 3 >= runs) }
}

/// Cases: how many came true, of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cases {
    pub(crate) came: u16,
    pub(crate) all: u16,
}

impl Cases {
    fn count(&mut self, came: bool) {
        if self.all >= CASES_MAX {
            self.came /= 2;
            self.all /= 2;
        }
        self.all += 1;
        self.came += u16::from(came);
    }

    /// The chance, where `prior` counts as so many cases.
    fn chance(self, prior: f32, cases: f32) -> f32 {
        (f32::from(self.came) + prior * cases) / (f32::from(self.all) + cases)
    }
}

/// Counted cases, of all programs and of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beliefs {
    pub(crate) shared: NumberMap<Evidence, Cases>,
    pub(crate) own: NumberMap<(Name, Evidence), Cases>,
}

impl Beliefs {
    /// The chance that what there is such evidence for, of this program, comes true.
    pub(crate) fn chance(&self, program: Name, evidence: Evidence) -> f32 {
        let cases = |cases: Option<&Cases>| cases.copied().unwrap_or_default();
        let shared = cases(self.shared.get(&evidence)).chance(evidence.prior(), PRIOR_CASES);
        cases(self.own.get(&(program, evidence))).chance(shared, SHARED_CASES)
    }

    /// It came true, or did not.
    pub(crate) fn count(&mut self, program: Name, evidence: Evidence, came: bool) {
        debug_assert!(usize::from(evidence.0) < EVIDENCES);
        self.shared.entry(evidence).or_default().count(came);
        self.own.entry((program, evidence)).or_default().count(came);
    }

    /// Forgets the programs that are not to be kept.
    pub(crate) fn retain(&mut self, kept: impl Fn(Name) -> bool) {
        self.own.retain(|(program, _), _| kept(*program));
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        (self.shared.len() + self.own.len()) * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_different_kinds_never_meets() {
        let file = Evidence::of_file(Alike::Executable, (Some(!0), 16), (Some(!0), 16), true, true);
        assert!(file.0 < OF_CHAIN);
        let step = Evidence::of_step(1, 9, 99);
        assert!(step.0 >= OF_CHAIN && step.0 & OF_CHILD != OF_CHILD);
        assert!(usize::from(Evidence::of_child(!0, 16).0) < EVIDENCES);
    }

    #[test]
    fn a_chance_goes_where_the_cases_are() {
        let (mut beliefs, evidence) = (Beliefs::default(), Evidence::of_child(1, 1));
        let before = beliefs.chance(Name(0), evidence);
        (0..50).for_each(|_| beliefs.count(Name(0), evidence, false));
        (0..50).for_each(|_| beliefs.count(Name(1), evidence, true));
        assert!(beliefs.chance(Name(0), evidence) < 0.1);
        assert!(beliefs.chance(Name(1), evidence) > 0.9);
        assert!(beliefs.chance(Name(2), evidence) < before);
    }

    #[test]
    fn longer_and_fuller_histories_deserve_more() {
        let chance = |history, runs| {
            let own = (Some(history), runs);
            Evidence::of_file(Alike::Exact, own, (None, 0), false, false).prior()
        };
        assert!(chance(0b1111, 4) > chance(1, 1));
        assert!(chance(1, 1) > chance(0b11, 4) && chance(0b11, 4) > chance(0b1000, 4));
    }
}
