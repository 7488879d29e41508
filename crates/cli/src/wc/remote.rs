//! Inputs among which some stand for objects of stores: sets of them, opened as their turn comes.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, OnceLock};

use nearfirst::{Costs, Order, Spec};

use super::count::Encoding;
use super::files::Input;
use super::objects;
use crate::messages;
use crate::sets::flags::{FetchFlags, StoreFlags};
use crate::sets::{self, Sets, Tally};

/// Names that are one set, at most: a list that arrives slowly is not waited for without end, nor
/// kept whole.
const TOGETHER_MAX: usize = 1024;

/// Where objects come from.
#[derive(Debug)]
pub(super) struct Remote<'a> {
    pub(super) stores: &'a StoreFlags,
    pub(super) fetching: &'a FetchFlags,
    pub(super) budget_bytes: Option<u64>,
    pub(super) costs: &'a Arc<Costs>,
    pub(super) encoding: Encoding,
    /// Nothing is to be fetched: listing tells what is wanted.
    pub(super) only_sizes: bool,
    /// That of what is fetched.
    pub(super) order: Order,
    /// Opened with the first name that needs it; nothing if that cannot be done.
    pub(super) sets: OnceLock<Option<Sets>>,
    /// What was counted of them.
    pub(super) tally: Arc<Tally>,
}

impl Remote<'_> {
    /// What was fetched, if anything was.
    pub(super) fn used(&self) -> Option<&Sets> {
        self.sets.get()?.as_ref()
    }

    /// Whether a name is one of objects.
    pub(super) fn is_of_objects(&self, name: &OsStr) -> bool {
        sets::needs_engine(self.costs.local(), name)
    }

    fn sets(&self) -> Option<&Sets> {
        let open = || {
            let sets = Sets::reading(self.stores, self.fetching, self.budget_bytes, self.costs);
            sets.map_err(|error| messages::failure(&error)).ok()
        };
        self.sets.get_or_init(open).as_ref()
    }

    fn inputs(&self, names: &[OsString]) -> Box<dyn Iterator<Item = Input> + Send> {
        let Some(sets) = self.sets() else { return Box::new(std::iter::empty()) };
        let specs = sets.specs(names);
        if self.only_sizes {
            Box::new(objects::sizes(sets, specs, self.encoding))
        } else {
            Box::new(objects::inputs(sets, specs, self.order.clone(), self.encoding, &self.tally))
        }
    }
}

/// The same inputs, with objects in place of the names that stand for them.
pub(super) struct Mixed<'a, I: Iterator<Item = Input>> {
    remote: &'a Remote<'a>,
    names: Peekable<I>,
    objects: Option<Box<dyn Iterator<Item = Input> + Send>>,
}

impl<'a, I: Iterator<Item = Input>> Mixed<'a, I> {
    pub(super) fn new(names: I, remote: &'a Remote<'a>) -> Self {
        Self { remote, names: names.peekable(), objects: None }
    }
}

impl<I: Iterator<Item = Input>> Mixed<'_, I> {
    /// The next names, if they are of objects: one set of all that stand together, since what
    /// comes later in it is fetched meanwhile.
    fn together(&mut self) -> Vec<OsString> {
        let mut together = Together::default();
        let mut is_next = |input: &Input| match input {
            Input::File(name) => self.remote.is_of_objects(name) && together.admits(name),
            _ => false,
        };
        let mut names = Vec::new();
        while names.len() < TOGETHER_MAX
            && let Some(Input::File(name)) = self.names.next_if(&mut is_next)
        {
            names.push(name);
        }
        names
    }
}

impl<I: Iterator<Item = Input>> Iterator for Mixed<'_, I> {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        loop {
            if let Some(input) = self.objects.as_mut().and_then(Iterator::next) {
                return Some(input);
            }
            self.objects = None;
            let names = self.together();
            if names.is_empty() {
                return self.names.next();
            }
            self.objects = Some(self.remote.inputs(&names));
        }
    }
}

/// Names that can be one set: none may stand for an object that another stands for, since a set
/// has each once, and what is named twice is to be counted twice.
#[derive(Debug, Default)]
struct Together {
    names: HashSet<Vec<u8>>,
    /// What all names begin with that a pattern can match.
    prefixes: Vec<Vec<u8>>,
    /// It holds what may stand for anything: a query, a program, a list.
    is_closed: bool,
}

impl Together {
    /// Takes a name in, if it can be.
    fn admits(&mut self, name: &OsStr) -> bool {
        if self.is_closed {
            return false;
        }
        let Ok(Spec::Glob(glob)) = Spec::parse(name.as_bytes()) else {
            self.is_closed = true;
            return self.names.is_empty() && self.prefixes.is_empty();
        };
        let alternatives: Vec<Vec<u8>> = glob.alternatives().into_iter().flatten().collect();
        if !alternatives.iter().all(|text| self.is_apart(text)) {
            return false;
        }
        for text in alternatives {
            match wildcard(&text) {
                None => drop(self.names.insert(text)),
                Some(end) => self.prefixes.push(text[..end].to_vec()),
            }
        }
        true
    }

    /// Whether a pattern can match nothing that is here.
    fn is_apart(&self, text: &[u8]) -> bool {
        let Some(end) = wildcard(text) else {
            let matched = self.prefixes.iter().any(|prefix| text.starts_with(prefix));
            return !matched && !self.names.contains(text);
        };
        let head = &text[..end];
        let may_match = |other: &Vec<u8>| head.starts_with(other) || other.starts_with(head);
        !self.prefixes.iter().any(may_match)
            && !self.names.iter().any(|name| name.starts_with(head))
    }
}

/// Where a pattern stops to say what its names are, byte for byte; `None`: it is one name.
fn wildcard(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| b"*?[\\".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these names are one set.
    fn together(names: &[&str]) -> usize {
        let mut together = Together::default();
        names.iter().take_while(|name| together.admits(OsStr::new(name))).count()
    }

    #[test]
    fn a_set_ends_before_what_it_may_have_already() {
        assert_eq!(together(&["s3://b/a", "s3://b/b", "s3://b/a"]), 2);
        assert_eq!(together(&["s3://b/x*", "s3://b/y*", "s3://b/yz"]), 2);
        assert_eq!(together(&["s3://b/yz", "s3://b/{x,y}*"]), 1);
        assert_eq!(together(&["s3://b/*", "s3://b/a*"]), 1);
        assert_eq!(together(&["s3://b/x*", "s3://c/*", "s3://b/yz"]), 3);
        assert_eq!(together(&["@list", "s3://b/yz"]), 1);
        assert_eq!(together(&["s3://b/yz", "https://h/p.html\\a\\"]), 1);
    }
}
