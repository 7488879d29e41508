//! The groups that users have by themselves. Of others, of a setgid program or of one session alone, nothing
//! may be told to a user's attendant, which has not got them.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use store::{Clock, lock};
use tree::User;

use crate::service::rights::groups_of;

/// Users whose groups are kept: who has many numbers must not fill memory.
const USERS_MAX: usize = 1024;
/// Users that wait to be asked about; the others, and those of whom the database knows nothing, are asked
/// about when they are met again.
const WAITING_MAX: usize = 64;
/// How long an answer is taken as it is: users get and lose groups while the service runs.
const KEPT_FOR: Duration = Duration::from_mins(5);

/// What is known of them. A thread of its own asks: the user database may lie on a server.
#[derive(Debug)]
pub(crate) struct Groups {
    known: Arc<Mutex<Known>>,
    /// Made for the first user, when the rights of this process are what they will be.
    asks: OnceLock<SyncSender<User>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Known {
    users: HashMap<User, Answer>,
    /// Who has other groups than before, until somebody was told.
    regrouped: HashSet<User>,
}

#[derive(Debug, Default)]
struct Answer {
    /// In order; none until the database has told some.
    groups: Vec<u32>,
    /// Those of them that the last answer lacked.
    lacking: Vec<u32>,
    /// Whether somebody asks.
    is_asked: bool,
    /// When that began last.
    asked_at: Duration,
}

impl Groups {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { known: Arc::default(), asks: OnceLock::new(), clock }
    }

    /// Has somebody ask about a user, if nobody has, or not of late.
    pub(crate) fn meet(&self, user: User) {
        self.ask(user, &mut lock(&self.known));
    }

    /// Whether a user is known to have all of these. Who has not may have got them since.
    pub(crate) fn has(&self, user: User, groups: &[u32]) -> bool {
        let mut known = lock(&self.known);
        let own = known.users.get(&user).map_or(&[][..], |answer| &answer.groups);
        if own.is_empty() {
            return false;
        }
        let has = groups.iter().all(|group| own.contains(group));
        if !has {
            self.ask(user, &mut known);
        }
        has
    }

    /// Who has other groups than before, since this was asked.
    pub(crate) fn regrouped(&self) -> HashSet<User> {
        mem::take(&mut lock(&self.known).regrouped)
    }

    fn ask(&self, user: User, known: &mut Known) {
        let now = self.clock.now();
        if known.is_due(user, now) && self.asks().try_send(user).is_ok() {
            known.asked(user, now);
        }
    }

    fn asks(&self) -> &SyncSender<User> {
        self.asks.get_or_init(|| {
            let (asks, asked) = sync_channel(WAITING_MAX);
            let known = Arc::clone(&self.known);
            let name = "nearfirst-groups".to_owned();
            // Without a thread nobody is known to have groups.
            drop(thread::Builder::new().name(name).spawn(move || answer(&asked, &known)));
            asks
        })
    }
}

impl Known {
    fn is_due(&self, user: User, now: Duration) -> bool {
        self.users.get(&user).is_none_or(|answer| {
            let is_old = now.saturating_sub(answer.asked_at) >= KEPT_FOR;
            !answer.is_asked && (is_old || answer.groups.is_empty())
        })
    }

    fn asked(&mut self, user: User, now: Duration) {
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&user) {
            // Numbers that are lent, of which somebody may have many, are in no database.
            self.users.retain(|_, answer| answer.is_asked || !answer.groups.is_empty());
            if self.users.len() >= USERS_MAX {
                self.users.clear();
            }
        }
        let answer = self.users.entry(user).or_default();
        answer.is_asked = true;
        answer.asked_at = now;
    }

    /// Who is in no database that answers keeps what it had, and a group that is lacking is kept until the
    /// next answer lacks it, too: a server may be away for a while, and local files answer without it.
    fn answered(&mut self, user: User, groups: Option<(u32, Vec<u32>)>) {
        let answer = self.users.entry(user).or_default();
        answer.is_asked = false;
        let Some((group, mut groups)) = groups else { return };
        groups.push(group);
        let has_lost = |group: &&u32| !groups.contains(*group);
        let lacking: Vec<u32> = answer.groups.iter().filter(has_lost).copied().collect();
        groups.extend(lacking.iter().filter(|group| !answer.lacking.contains(*group)));
        answer.lacking = lacking;
        groups.sort_unstable();
        groups.dedup();
        let former = mem::replace(&mut answer.groups, groups);
        if !former.is_empty() && former != answer.groups {
            self.regrouped.insert(user);
        }
    }
}

fn answer(asked: &Receiver<User>, known: &Mutex<Known>) {
    for user in asked {
        let groups = groups_of(user);
        lock(known).answered(user, groups);
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
        let groups = Groups::new(Clock::manual());
        assert!(!groups.has(user, &own));
        until("the database has answered", || {
            groups.meet(user);
            groups.has(user, &own)
        });
        assert!(!groups.has(user, &[own[0], 4242]) && !groups.has(User(4_000_000), &own));
    }

    #[test]
    fn who_lacks_a_group_is_asked_about_again_after_a_while() {
        let user = User(rustix::process::getuid().as_raw());
        let clock = Clock::manual();
        let groups = Groups::new(clock.clone());
        lock(&groups.known).asked(user, Duration::ZERO);
        lock(&groups.known).answered(user, Some((4242, Vec::new())));
        let own = [uzers::get_user_by_uid(user.0).expect("in the database").primary_group_id()];
        assert!(groups.has(user, &[4242]) && !groups.has(user, &own));
        assert!(!lock(&groups.known).users[&user].is_asked, "it was just asked");
        clock.advance(KEPT_FOR);
        until("the database has answered", || groups.has(user, &own));
        assert!(groups.has(user, &[4242]), "one answer without it may be that of a part");
        clock.advance(KEPT_FOR);
        until("it is the second", || {
            groups.meet(user);
            !groups.has(user, &[4242])
        });
        assert_eq!(groups.regrouped(), HashSet::from([user]));
        assert!(groups.regrouped().is_empty(), "it was told");
    }

    #[test]
    fn a_database_that_is_away_takes_nobodys_groups() {
        let (user, mut known) = (User(1000), Known::default());
        known.answered(user, None);
        assert!(known.is_due(user, Duration::ZERO), "it may know of who is met again");
        known.answered(user, Some((1, vec![3, 2, 1])));
        known.asked(user, KEPT_FOR);
        assert!(!known.is_due(user, 2 * KEPT_FOR), "somebody asks already");
        known.answered(user, None);
        assert_eq!(known.users[&user].groups, [1, 2, 3]);
        assert!(!known.is_due(user, KEPT_FOR) && known.is_due(user, 2 * KEPT_FOR));
        known.answered(user, Some((1, vec![2, 3])));
        assert!(known.regrouped.is_empty(), "they are the same");
        known.answered(user, Some((1, Vec::new())));
        known.answered(user, Some((1, vec![2, 3])));
        known.answered(user, Some((1, vec![2])));
        assert!(known.regrouped.is_empty(), "none is lacking twice in a row");
        known.answered(user, Some((1, vec![4])));
        assert_eq!(known.users[&user].groups, [1, 2, 4]);
    }
}
