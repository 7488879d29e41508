//! What is expected of a run by all runs that resemble it: our rules, where the paper's fall short.
//!
//! A run resembles others by its [`Invocation`]: the same arguments in the same folder, the same
//! options, the same program, the same interpreter. Of each such circumstance a [`Pattern`] holds
//! which files and programs its last runs had, without order; how often a file with such a history
//! was then really opened is counted ([`Beliefs`]), so that a chance means what it says. Where no
//! pattern knows what comes next, the order of earlier runs does ([`Chain`]).
//!
//! Beside what a run will have there is what comes next, whoever reads it: all reads are remembered
//! in their order, of all programs and within each run (`course`), and after each read the place is
//! looked up where the same was read before (`trail`): by the two files before it, one, or none,
//! while what comes is what came then, a streak; some reads may be left out or come between. What
//! followed there is foreseen, also if the run had it before: a second pass over the same files,
//! what another program read in this order, what a shell is told next. There are up to three kinds
//! of evidence for a file: the course of its run, that of all programs, and what its run's patterns
//! say of it. Each is worth the share of cases with the same evidence in which it came: how it was
//! found, the streak, how often the way was gone again, how far ahead it is, whether the file is of
//! the latest one's kind, and whether its run knows better; of all programs, of this one, and of its
//! files whose names end alike. What they are worth together is learned as well (`mixer`). Two ways
//! through the course are kept for each trail: who writes a page for each of many texts reads the
//! texts by one and, for each, the style sheets by the other.
//!
//! Where neither knows more, who has read many files of a folder is expected to read the others
//! (`sweep`), whose order nobody can know.
//!
//! Four rules hold for all of it. The least chance at which a file is predicted moves so that the
//! share of predictions that [`right_share`](crate::Options::right_share) asks for is right
//! (`bar`), of those for runs and of those by the course alike. How far ahead is predicted grows
//! where files come too late and shrinks where they were gone again, and had to be fetched twice,
//! or were told so early that they had to be told twice. A predicted file that has not been read
//! for a while may be gone again, and is told once more when it is needed. And what is foreseen by
//! the course is given up after some reads, where what a run will have is given up when the run
//! ends or fails to match.
//!
//! Patterns, chains, beliefs and bars are kept when the learner ends, and of the course the last
//! reads ([`KEPT_MAX`]): the whole is large, and most of it never comes again. A chain is small,
//! since it knows of each file only what mostly followed its first read.

mod bar;
mod belief;
mod chain;
mod course;
mod foresight;
mod invocation;
mod memory;
mod mixer;
mod pattern;
mod sweep;
mod template;
mod trail;
mod working;

pub(crate) use belief::{Beliefs, Cases, Evidence};
pub(crate) use chain::{Chain, Link};
pub(crate) use course::{Held, KEPT_MAX, Kept, Start, Step};
pub(crate) use foresight::{Foresight, Soon};
pub(crate) use invocation::Invocation;
pub(crate) use memory::{Memory, Touched};
pub(crate) use mixer::{KINDS, Mixer, Reasons, Subject};
pub(crate) use pattern::{ChildEntry, FileEntry, Pattern, RUNS_MAX};
pub(crate) use sweep::Sweep;
pub(crate) use template::is_template;
pub(crate) use trail::Trail;
pub(crate) use working::{Advice, Guess, WINDOW_MAX, WINDOW_MIN, Working, window_from};
