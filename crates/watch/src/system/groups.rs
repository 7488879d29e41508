//! The groups that users have by themselves. Of others, of a setgid program or of one session alone, nothing
//! may be told to a user's attendant, which has not got them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tree::User;

use crate::service::rights::groups_of;

/// Users whose groups are kept: who has many numbers must not fill memory.
const USERS_MAX: usize = 1024;
/// Users that wait to be asked about; the others, and those of whom the database knows nothing, are asked
/// about when they are met again.
const WAITING_MAX: usize = 64;

type Known = Arc<Mutex<HashMap<User, Option<Vec<u32>>>>>;

/// What is known of them. A thread of its own asks: the user database may lie on a server.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// `None` until there is an answer; no groups of who is not in the database.
    known: Known,
    /// Made for the first user, when the rights of this process are what they will be.
    asks: Option<SyncSender<User>>,
}

impl Groups {
    /// Has somebody ask about a user, if nobody has.
    pub(crate) fn meet(&mut self, user: User) {
        let asks = self.asks.get_or_insert_with(|| {
            let (asks, asked) = sync_channel(WAITING_MAX);
            let known = Arc::clone(&self.known);
            let name = "nearfirst-groups".to_owned();
            // Without a thread nobody is known to have groups.
            drop(thread::Builder::new().name(name).spawn(move || answer(&asked, &known)));
            asks
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= USERS_MAX && !known.contains_key(&user) {
            // Numbers that are lent, of which somebody may have many, are in no database.
            known.retain(|_, groups| groups.as_ref().is_none_or(|groups| !groups.is_empty()));
            if known.len() >= USERS_MAX {
                known.clear();
            }
        }
        let is_open = known.get(&user).is_none_or(|it| it.as_ref().is_some_and(Vec::is_empty));
        if is_open && asks.try_send(user).is_ok() {
            known.entry(user).or_insert(None);
        }
    }

    /// Whether a user is known to have all of these.
    pub(crate) fn has(&self, user: User, groups: &[u32]) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.get(&user).and_then(Option::as_ref);
        own.is_some_and(|own| !own.is_empty() && groups.iter().all(|group| own.contains(group)))
    }
}

fn answer(asked: &Receiver<User>, known: &Known) {
    for user in asked {
        let groups = groups_of(user).map_or_else(Vec::new, |(group, mut groups)| {
            groups.push(group);
            groups
        });
        known.lock().unwrap_or_else(PoisonError::into_inner).insert(user, Some(groups));
    }
}

#[cfg(test)]
mod tests {
    use testkit::until;

    use super::*;

    #[test]
    fn groups_are_a_users_own_once_the_database_has_said_so() {
        let user = User(rustix::process::getuid().as_raw());
        let own = [uzers::get_user_by_uid(user.0).expect("in the database").primary_group_id()];
        let mut groups = Groups::default();
        assert!(!groups.has(user, &own));
        until("the database has answered", || {
            groups.meet(user);
            groups.has(user, &own)
        });
        assert!(!groups.has(user, &[own[0], 4242]) && !groups.has(User(4_000_000), &own));
    }
}
