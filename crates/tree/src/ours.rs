//! What is expected of a run by all runs that resemble it: our rules, where the paper's fall short.
//!
//! A run resembles others by its [`Invocation`]: the same arguments in the same folder, the same
//! options, the same program, the same interpreter. Of each such circumstance a [`Pattern`] holds
//! which files and programs its last runs had, without order; how often a file with such a history
//! was then really opened is counted ([`Beliefs`]), so that a chance means what it says. Where no
//! pattern knows what comes next, the order of earlier runs does ([`Chain`]).

mod belief;
mod chain;
mod invocation;
mod memory;
mod pattern;
mod template;
mod working;

pub(crate) use belief::{Beliefs, Cases, Evidence};
pub(crate) use chain::{Chain, Link};
pub(crate) use invocation::Invocation;
pub(crate) use memory::Memory;
pub(crate) use pattern::{ChildEntry, FileEntry, Pattern, RUNS_MAX};
pub(crate) use template::is_template;
pub(crate) use working::{Advice, Guess, WINDOW_MAX, Working};
