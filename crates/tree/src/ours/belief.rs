//! How often what looked alike came true: so that a chance means what it says.

use super::course::Stream;
use crate::names::Name;
use crate::numbered::NumberMap;
use crate::program::basename;

/// Why a file or a program is expected: its history under the circumstance most like the run's,
/// and what is known besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Evidence(pub(crate) u16);

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

/// What is known of a name besides its histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Libraries, locales, settings of the system: a program mostly wants them, whatever it does.
    System,
    /// Another path, which has nothing to do with how the program was called.
    Literal,
    /// A path in the working folder, or beside what an argument names.
    Local,
    /// A path that follows from how the program was called.
    Template,
}

impl Kind {
    /// The kind of a path; `local` if it has to do with how the program was called.
    pub(crate) fn of(path: &[u8], local: bool) -> Self {
        let system = [&b"/etc/"[..], b"/usr/lib/locale/", b"/usr/share/locale/"];
        if basename(path).windows(3).any(|part| part == b".so")
            || system.iter().any(|folder| path.starts_with(folder))
        {
            Self::System
        } else if local {
            Self::Local
        } else {
            Self::Literal
        }
    }
}

/// How a program that is expected belongs to what it is expected by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bond {
    /// It is invoked by it.
    Below,
    /// It is one of the next to be invoked by the same shell.
    After,
}

/// What evidence is of: a file if none of these.
const OF_STEP: u16 = 1 << 11;
const OF_SWEEP: u16 = 1 << 11 | 1 << 7;
const OF_CHILD: u16 = 1 << 11 | 1 << 10;
const OF_COURSE: u16 = 1 << 12;
const OF_RUN: u16 = 1 << 13;

impl Evidence {
    /// No evidence has a larger number.
    pub(crate) const LARGEST: u16 = (1 << 14) - 1;

    /// Of a file by its histories under the most alike circumstance that is known and under the
    /// most general one; `None` where that never had it, out of so many runs.
    pub(crate) fn of_file(
        alike: Alike,
        own: (Option<u16>, u8),
        general: (Option<u16>, u8),
        kind: Kind,
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
                | (kind as u16) << 8
                | u16::from(replaced) << 10,
        )
    }

    /// Of a program, by its history under the circumstance of what is above or before it.
    pub(crate) fn of_child(history: u16, runs: u8, bond: Bond) -> Self {
        Self(OF_CHILD | class(Some(history), runs) | (bond as u16) << 4)
    }

    /// Of a file that followed another one, so many steps behind a file that was opened, `times`
    /// out of `total` at the weakest step; `foreign` if some step was one of other programs only.
    pub(crate) fn of_step(times: u16, total: u16, steps: usize, foreign: bool) -> Self {
        let total_class = few(total.into());
        let share = match u32::from(times) * 8 / u32::from(total.max(1)) {
            8.. => 0,
            7 => 1,
            4..=6 => 2,
            _ => 3,
        };
        let steps = few(steps);
        Self(OF_STEP | total_class | share << 2 | steps << 4 | u16::from(foreign) << 6)
    }

    /// Of a file in a folder of which its run has read others, so many times as many as are enough
    /// to look; `kin` if it is of their kind, and all of them of one.
    pub(crate) fn of_sweep(times: usize, kin: bool) -> Self {
        let class = few(times);
        Self(OF_SWEEP | class | u16::from(kin) << 2)
    }

    /// Of a file by the course of earlier reads: where that was found again by the so-manieth
    /// context and has come as earlier for a streak of reads since, so many steps ahead, of which
    /// the weakest has this class ([`Held::class`](super::course::Held::class)); `contested` if the
    /// file's run knows something else to come next; `kin` if it is a file of the latest one's
    /// kind.
    pub(crate) fn of_course(
        stream: Stream,
        (order, streak): (usize, usize),
        (class, steps): (u16, usize),
        (contested, kin): (bool, bool),
    ) -> Self {
        let alike = match streak {
            0 => u16::try_from(order).unwrap_or(3).min(3),
            1 => 4,
            2..=3 => 5,
            4..=7 => 6,
            _ => 7,
        };
        let distance = match steps {
            0..=1 => 0,
            2 => 1,
            3..=4 => 2,
            5..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        let stream = u16::from(stream == Stream::Run);
        let (contested, kin) = (u16::from(contested), u16::from(kin));
        let found = alike | class << 3 | distance << 6;
        Self(OF_COURSE | found | stream << 9 | contested << 10 | kin << 11)
    }

    /// Of a file that is foreseen so many steps ahead, by its run: whether that has `opened` it
    /// already, and what class of chance it was given
    /// ([`Working::knows`](super::Working::knows)).
    pub(crate) fn of_run(opened: bool, known: u16, steps: usize) -> Self {
        let distance = match steps {
            0..=1 => 0,
            2..=4 => 1,
            5..=12 => 2,
            _ => 3,
        };
        Self(OF_RUN | known | u16::from(opened) << 3 | distance << 4)
    }

    /// The chance that it deserves before any case was counted.
    fn prior(self) -> f32 {
        let bits = |place: u16, mask: u16| usize::from(self.0 >> place & mask);
        if self.0 & OF_RUN != 0 {
            // It says nothing, until cases do.
            return 0.5;
        }
        if self.0 & OF_COURSE != 0 {
            let alike = [0.9, 0.8, 0.7, 0.6, 0.85, 0.9, 0.95, 0.97][bits(0, 7)];
            let class = [1.0, 0.98, 0.95, 0.9, 0.8, 0.6, 0.5, 0.3][bits(3, 7)];
            let distance = [1.0, 0.98, 0.96, 0.93, 0.9, 0.85, 0.8, 0.8][bits(6, 7)];
            return alike * class * distance;
        }
        if self.0 & OF_CHILD == OF_CHILD {
            return CLASS_PRIORS[bits(0, 15)] * [1.0, 0.7][bits(4, 1)];
        }
        if self.0 & OF_SWEEP == OF_SWEEP {
            return [0.5, 0.7, 0.8, 0.9][bits(0, 3)];
        }
        if self.0 & OF_STEP != 0 {
            let total = [0.75, 0.85, 0.92, 0.96][bits(0, 3)];
            let share = [1.0, 0.85, 0.6, 0.3][bits(2, 3)];
            let steps = [1.0, 0.98, 0.95, 0.9][bits(4, 3)];
            return total * share * steps * [1.0, 0.8][bits(6, 1)];
        }
        let general = [0.9, 0.9, 1.0, 1.05][bits(4, 3)];
        let alike = ALIKE_PRIORS[bits(8, 3)][bits(6, 3)];
        let replaced = [1.0, 0.85][bits(10, 1)];
        f32::min(CLASS_PRIORS[bits(0, 15)] * general * alike * replaced, 0.99)
    }
}

/// What a history is worth by how alike its runs are, for each [`Kind`].
const ALIKE_PRIORS: [[f32; 4]; 4] =
    [[1.0, 0.95, 0.92, 0.85], [1.0, 0.8, 0.75, 0.7], [1.0, 0.7, 0.5, 0.4], [1.0, 0.95, 0.9, 0.8]];
/// Chances by [`class`].
const CLASS_PRIORS: [f32; 16] =
    [0.9, 0.96, 0.7, 0.25, 0.98, 0.93, 0.75, 0.8, 0.5, 0.4, 0.1, 0.1, 0.05, 0.02, 0.1, 0.99];

/// How many these are: a number under 4.
fn few(count: usize) -> u16 {
    match count {
        0..=1 => 0,
        2..=3 => 1,
        4..=7 => 2,
        _ => 3,
    }
}

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
    /// One more.
    pub(crate) fn count(&mut self, came: bool) {
        if self.all >= CASES_MAX {
            self.came /= 2;
            self.all /= 2;
        }
        self.all += 1;
        self.came += u16::from(came);
    }

    /// The chance, where `prior` counts as so many cases.
    pub(crate) fn chance(self, prior: f32, cases: f32) -> f32 {
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
        debug_assert!(evidence.0 <= Evidence::LARGEST, "fourteen bits");
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
        let all = (Some(!0), 16);
        let file = Evidence::of_file(Alike::Executable, all, all, Kind::Template, true);
        assert!(file.0 < OF_STEP);
        for stream in [Stream::All, Stream::Run] {
            let course = Evidence::of_course(stream, (9, 99), (7, 99), (true, true));
            assert!(course.0 >= OF_COURSE && course.0 < OF_RUN);
        }
        let run = Evidence::of_run(true, 7, 99);
        assert!(run.0 >= OF_RUN && run.0 <= Evidence::LARGEST);
        let step = Evidence::of_step(1, 9, 99, true);
        assert!(step.0 >= OF_STEP && step.0 & OF_CHILD != OF_CHILD);
        assert!(step.0 & OF_SWEEP != OF_SWEEP);
        let sweep = Evidence::of_sweep(99, true);
        assert!(sweep.0 < OF_COURSE && sweep.0 & OF_CHILD != OF_CHILD);
        assert!(Evidence::of_child(!0, 16, Bond::After).0 <= Evidence::LARGEST);
    }

    #[test]
    fn a_chance_goes_where_the_cases_are() {
        let (mut beliefs, evidence) = (Beliefs::default(), Evidence::of_child(1, 1, Bond::Below));
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
            Evidence::of_file(Alike::Exact, own, (None, 0), Kind::Literal, false).prior()
        };
        assert!(chance(0b1111, 4) > chance(1, 1));
        assert!(chance(1, 1) > chance(0b11, 4) && chance(0b11, 4) > chance(0b1000, 4));
    }
}
