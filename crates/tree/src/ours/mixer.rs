//! One chance from several kinds of evidence for the same file.

use super::{Beliefs, Cases, Evidence};
use crate::names::{Name, ending_of};
use crate::numbered::NumberMap;

/// Kinds of evidence: the course of the run, that of all programs, and what the run's patterns say.
pub(crate) const KINDS: usize = 3;
/// How far one case moves the weights of its evidence: some hundred of them make a difference.
const STEP: f32 = 0.01;
/// What patterns weigh at first, where what the courses say together weighs one.
const PATTERNS_WEIGHT: f32 = 0.3;
/// What always speaks, so that all kinds together may be believed less or more.
const ALWAYS: f32 = 0.3;
/// No evidence says more than this, or less than what is as sure of the contrary.
const SUREST: f32 = 0.998;

/// What the chance of all files of a program weighs against the cases of those that end alike.
const PROGRAM_CASES: f32 = 6.0;
/// Evidence by subject that is counted: some megabytes, and much more than a day's work has.
const CASES_MAX: usize = 1 << 17;

/// Files of a program whose names end alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) program: Name,
    /// A number made of the ending.
    ending: u32,
}

impl Subject {
    /// That of a file that this program may read.
    pub(crate) fn of(program: Name, path: &[u8]) -> Self {
        let numbered = |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        Self { program, ending: ending_of(path).iter().fold(0x811c_9dc5, numbered) }
    }
}

/// Evidence for a file, each in the place of its kind.
pub(crate) type Reasons = [Option<Evidence>; KINDS];

type Weights = [f32; KINDS + 1];

/// Weighs the chances that [`Beliefs`] give for each kind, and the cases of the same subject, by which
/// kinds there are, as odds (as mixers of contexts in compression do: Mahoney 2005). Every case that
/// was foreseen teaches it.
#[derive(Debug, Clone)]
pub(crate) struct Mixer {
    weights: [Weights; 1 << KINDS],
    cases: NumberMap<(Subject, Evidence), Cases>,
}

impl Mixer {
    pub(crate) fn new() -> Self {
        let courses = |kinds: usize| (kinds & 3).count_ones().max(1) as f32;
        let weights = |kinds| [1.0 / courses(kinds), 1.0 / courses(kinds), PATTERNS_WEIGHT, 0.0];
        Self { weights: std::array::from_fn(weights), cases: NumberMap::default() }
    }

    /// The chance that a program reads a file soon for which there are these reasons.
    pub(crate) fn chance(&self, beliefs: &Beliefs, subject: Subject, reasons: &Reasons) -> f32 {
        let (kinds, said) = self.said(beliefs, subject, reasons);
        mixed(&self.weights[kinds], &said)
    }

    /// It did, or did not.
    pub(crate) fn count(
        &mut self,
        beliefs: &mut Beliefs,
        (subject, reasons): (Subject, &Reasons),
        came: bool,
    ) {
        let (kinds, said) = self.said(beliefs, subject, reasons);
        let weights = &mut self.weights[kinds];
        let missed = f32::from(u8::from(came)) - mixed(weights, &said);
        for (weight, said) in weights.iter_mut().zip(said) {
            *weight += STEP * missed * said;
        }
        if self.cases.len() + KINDS > CASES_MAX {
            self.cases.clear();
        }
        for &reason in reasons.iter().flatten() {
            beliefs.count(subject.program, reason, came);
            self.cases.entry((subject, reason)).or_default().count(came);
        }
    }

    /// Which kinds there are, and the logarithm of the odds by each.
    fn said(&self, beliefs: &Beliefs, subject: Subject, reasons: &Reasons) -> (usize, Weights) {
        let mut kinds = 0;
        let mut said = [ALWAYS; KINDS + 1];
        for (place, reason) in reasons.iter().enumerate() {
            said[place] = reason.map_or(0.0, |reason| {
                kinds |= 1 << place;
                let of_program = beliefs.chance(subject.program, reason);
                let cases = self.cases.get(&(subject, reason)).copied().unwrap_or_default();
                let chance = cases.chance(of_program, PROGRAM_CASES);
                let chance = chance.clamp(1.0 - SUREST, SUREST);
                (chance / (1.0 - chance)).ln()
            });
        }
        (kinds, said)
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.cases.capacity() * size_of::<((Subject, Evidence), Cases)>()
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.cases.keys().for_each(|(subject, _)| each(subject.program));
    }
}

fn mixed(weights: &Weights, said: &Weights) -> f32 {
    let odds: f32 = weights.iter().zip(said).map(|(weight, said)| weight * said).sum();
    1.0 / (1.0 + (-odds).exp())
}

#[cfg(test)]
mod tests {
    use super::super::course::Stream;
    use super::*;

    const PROGRAM: Name = Name(7);

    fn subject(path: &str) -> Subject {
        Subject::of(PROGRAM, path.as_bytes())
    }

    fn course(stream: Stream) -> Evidence {
        Evidence::of_course(stream, (0, 3), (2, 1), (false, false))
    }

    #[test]
    fn evidence_of_which_one_kind_decides_is_weighed_by_it() {
        let (mut mixer, mut beliefs) = (Mixer::new(), Beliefs::default());
        let opened = |opened| Evidence::of_run(opened, 0, 1);
        for round in 0..600_u32 {
            // The courses always say the same; what was opened before is not read again.
            let before = round % 3 == 0;
            let reasons = [course(Stream::Run), course(Stream::All), opened(before)].map(Some);
            mixer.count(&mut beliefs, (subject("/a"), &reasons), !before);
        }
        let chance = |before| {
            let reasons = [course(Stream::Run), course(Stream::All), opened(before)].map(Some);
            mixer.chance(&beliefs, subject("/a"), &reasons)
        };
        assert!(chance(true) < 0.2 && chance(false) > 0.9, "{} {}", chance(true), chance(false));
    }

    #[test]
    fn the_weights_of_some_kinds_are_not_those_of_others() {
        let (mut mixer, mut beliefs) = (Mixer::new(), Beliefs::default());
        let (both, one) = (
            [Some(course(Stream::Run)), Some(course(Stream::All)), None],
            [None, Some(course(Stream::All)), None],
        );
        for _ in 0..300 {
            mixer.count(&mut beliefs, (subject("/a"), &both), true);
            mixer.count(&mut beliefs, (subject("/a"), &one), false);
        }
        assert!(mixer.chance(&beliefs, subject("/a"), &both) > 0.9);
        assert!(mixer.chance(&beliefs, subject("/a"), &one) < 0.5);
    }

    #[test]
    fn files_that_end_alike_are_told_from_others_of_their_program() {
        let (mut mixer, mut beliefs) = (Mixer::new(), Beliefs::default());
        let reasons = [Some(course(Stream::Run)), None, None];
        for _ in 0..300 {
            mixer.count(&mut beliefs, (subject("/d/a.pyc"), &reasons), false);
        }
        for text in ["/d/a.rst", "/d/b.rst", "/c/c.rst"].iter().cycle().take(60) {
            mixer.count(&mut beliefs, (subject(text), &reasons), true);
        }
        let chance = |path| mixer.chance(&beliefs, subject(path), &reasons);
        assert!(chance("/e/new.rst") > 0.8, "{}", chance("/e/new.rst"));
        assert!(chance("/e/new.pyc") < 0.2 && chance("/e/new") < 0.5);
    }
}
