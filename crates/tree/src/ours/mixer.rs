//! One chance from several kinds of evidence for the same file.

use super::{Beliefs, Evidence};
use crate::names::Name;

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

/// Evidence for a file, each in the place of its kind.
pub(crate) type Reasons = [Option<Evidence>; KINDS];

type Weights = [f32; KINDS + 1];

/// Weighs the chances that [`Beliefs`] give for each kind, by which kinds there are, as odds (as
/// mixers of contexts in compression do: Mahoney 2005). Every case that was foreseen teaches it.
#[derive(Debug, Clone)]
pub(crate) struct Mixer {
    weights: [Weights; 1 << KINDS],
}

impl Mixer {
    pub(crate) fn new() -> Self {
        let courses = |kinds: usize| (kinds & 3).count_ones().max(1) as f32;
        let weights = |kinds| [1.0 / courses(kinds), 1.0 / courses(kinds), PATTERNS_WEIGHT, 0.0];
        Self { weights: std::array::from_fn(weights) }
    }

    /// The chance that a program reads a file soon for which there are these reasons.
    pub(crate) fn chance(&self, beliefs: &Beliefs, program: Name, reasons: &Reasons) -> f32 {
        let (kinds, said) = said(beliefs, program, reasons);
        mixed(&self.weights[kinds], &said)
    }

    /// It did, or did not.
    pub(crate) fn count(
        &mut self,
        beliefs: &mut Beliefs,
        (program, reasons): (Name, &Reasons),
        came: bool,
    ) {
        let (kinds, said) = said(beliefs, program, reasons);
        let weights = &mut self.weights[kinds];
        let missed = f32::from(u8::from(came)) - mixed(weights, &said);
        for (weight, said) in weights.iter_mut().zip(said) {
            *weight += STEP * missed * said;
        }
        for &reason in reasons.iter().flatten() {
            beliefs.count(program, reason, came);
        }
    }
}

/// Which kinds there are, and the logarithm of the odds by each.
fn said(beliefs: &Beliefs, program: Name, reasons: &Reasons) -> (usize, Weights) {
    let mut kinds = 0;
    let mut said = [ALWAYS; KINDS + 1];
    for (place, reason) in reasons.iter().enumerate() {
        said[place] = reason.map_or(0.0, |reason| {
            kinds |= 1 << place;
            let chance = beliefs.chance(program, reason).clamp(1.0 - SUREST, SUREST);
            (chance / (1.0 - chance)).ln()
        });
    }
    (kinds, said)
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
            mixer.count(&mut beliefs, (PROGRAM, &reasons), !before);
        }
        let chance = |before| {
            let reasons = [course(Stream::Run), course(Stream::All), opened(before)].map(Some);
            mixer.chance(&beliefs, PROGRAM, &reasons)
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
            mixer.count(&mut beliefs, (PROGRAM, &both), true);
            mixer.count(&mut beliefs, (PROGRAM, &one), false);
        }
        assert!(mixer.chance(&beliefs, PROGRAM, &both) > 0.9);
        assert!(mixer.chance(&beliefs, PROGRAM, &one) < 0.5);
    }
}
