//! Whose opens may be by rights that its user has not: of a queue that tells of changes of rights, and one
//! that tells of opens, nobody knows which open came before the change.
//!
//! What a user may not reach is not told of that user then, who must not learn that it is there.

use std::collections::HashSet;

use super::connector::{Change, Pid};
use super::processes::Processes;

/// Who took on another user's rights, or may have before its user was asked for, until all that happened
/// before has been taken.
#[derive(Debug, Default)]
pub(crate) struct Turned {
    /// Told in this look, in which opens were taken first: some from before are taken in the next one.
    lately: Who,
    earlier: Who,
}

#[derive(Debug, Default)]
struct Who {
    pids: HashSet<Pid>,
    /// Anybody: changes were lost.
    are_all: bool,
}

impl Turned {
    /// Takes what was told; processes are as they were before that.
    pub(crate) fn look(&mut self, changes: &[Change], processes: &Processes) {
        let turns = |change: &Change| match *change {
            Change::BecameUser { pid, user } => {
                processes.get(pid).is_none_or(|known| known.rights.user.0 != user).then_some(pid)
            }
            _ => None,
        };
        self.lately.pids.extend(changes.iter().filter_map(turns));
    }

    /// The rights of this process are known by now, and not those by which it did what is still to be told.
    pub(crate) fn met(&mut self, pid: Pid) {
        self.lately.pids.insert(pid);
    }

    /// Some changes were not told.
    pub(crate) fn lost(&mut self) {
        self.lately.are_all = true;
    }

    /// Whether this process may have opened what it is told to have opened by rights that its user has not.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        [&self.lately, &self.earlier].iter().any(|who| who.are_all || who.pids.contains(&pid))
    }

    /// A look is over; whether it took all that happened before it.
    pub(crate) fn end_look(&mut self, emptied: bool) {
        let lately = std::mem::take(&mut self.lately);
        if emptied {
            self.earlier = lately;
            return;
        }
        self.earlier.pids.extend(lately.pids);
        self.earlier.are_all |= lately.are_all;
    }
}
