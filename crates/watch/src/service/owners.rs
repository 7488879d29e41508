//! Whose processes are, as far as that was seen.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use tree::{Event, Process, User};

/// Users of processes that run.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    users: HashMap<Process, User>,
    /// How many each user has; none has 0.
    counts: HashMap<User, usize>,
    /// Who had some before what was known was lost, and was not seen since.
    unsure: HashSet<User>,
}

impl Owners {
    /// Whose an event is; keeps that of processes in mind.
    pub(crate) fn of(&mut self, event: &Event) -> Option<User> {
        match event {
            Event::Found { process, user } => {
                self.add(*process, *user);
                Some(*user)
            }
            Event::Forked { parent, child } => {
                let user = *self.users.get(parent)?;
                self.add(*child, user);
                Some(user)
            }
            Event::Exited { process } => self.remove(*process),
            Event::Executed { process, .. }
            | Event::Opened { process, .. }
            | Event::Touched { process, .. }
            | Event::Lost { process: Some(process) } => self.users.get(process).copied(),
            Event::Lost { process: None }
            | Event::Fetched { .. }
            | Event::Swept { .. }
            | Event::Refused { .. } => None,
        }
    }

    /// Which of a user's run.
    pub(crate) fn processes(&self, user: User) -> impl Iterator<Item = Process> {
        self.users.iter().filter(move |(_, owner)| **owner == user).map(|(process, _)| *process)
    }

    /// Whether some of a user's run, or may.
    pub(crate) fn has_some(&self, user: User) -> bool {
        self.counts.contains_key(&user) || self.unsure.contains(&user)
    }

    /// Nothing is known any more, but that who had some may have some.
    pub(crate) fn clear(&mut self) {
        self.users.clear();
        self.unsure.extend(self.counts.drain().map(|(user, _)| user));
    }

    fn add(&mut self, process: Process, user: User) {
        self.remove(process);
        self.users.insert(process, user);
        self.unsure.remove(&user);
        *self.counts.entry(user).or_default() += 1;
    }

    fn remove(&mut self, process: Process) -> Option<User> {
        let user = self.users.remove(&process)?;
        if let Entry::Occupied(mut count) = self.counts.entry(user) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_found_again_is_only_its_last_users() {
        let (first, last, process) = (User(1), User(2), Process(7));
        let mut owners = Owners::default();
        for user in [first, last, last] {
            owners.of(&Event::Found { process, user });
        }
        assert_eq!((owners.has_some(first), owners.has_some(last)), (false, true));
        assert_eq!(owners.of(&Event::Exited { process }), Some(last));
        assert!(!owners.has_some(last));
    }
}
