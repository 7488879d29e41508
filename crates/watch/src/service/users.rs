//! Whose is what happens, and who is told: an attendant for each user whose programs do something.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use store::Clock;
use tree::{Event, User};

use super::counts::{Counts, Heard};
use super::folders;
use super::lent::Lent;
use super::metrics::OTHERS;
use super::owners::Owners;
use super::wire::{Message, put};

/// Attendants at a time: beyond it the one that was idle for longest ends, if it was idle for a while, or if its
/// user's number is lent and the other's is not, or to one who has fewer.
const ATTENDANTS_MAX: usize = 32;
/// Who was told something since is not ended for another user, who would be ended for the next.
const SPARED: Duration = Duration::from_secs(30);
/// Who has more numbers than there may be attendants could keep everybody else out: these numbers come last.
const LENT: &str = "/etc/subuid";
/// An attendant of a user whose programs do nothing for so long saves and ends.
const IDLE_MAX: Duration = Duration::from_mins(10);
/// One of a user of whose processes none is left does so sooner: it keeps its user from being removed, and
/// of who comes back at once it would have to be started anew.
pub(crate) const LEFT_MAX: Duration = Duration::from_secs(3);
/// How long one that ended by itself is not started again.
const PAUSE: Duration = Duration::from_mins(1);
/// What attendants have of the service's environment, which is root's: the rest may be secret, or say where
/// root's own files are.
const ENVIRONMENT: [&str; 2] = ["PATH", "RUST_BACKTRACE"];
/// What attendants are called where processes are listed.
const NAME: &str = "nearfirst";
/// How long attendants may take to save and end; then they are killed, as their users may keep them from it.
/// Lost is then what they have not saved, and all that programs read which have not ended: of these they
/// learn at the end. Whoever attends to the same user next waits for so long.
const LEAVES_WITHIN: Duration = Duration::from_mins(1);
/// The same once the service ends, which many do at once; the unit gives it 30 s.
const END_WITHIN: Duration = Duration::from_secs(20);
/// How long the kernel may take to end those.
const KILLED_WITHIN: Duration = Duration::from_secs(1);
/// What a pipe holds, and what waits to go into it: about 10,000 events each.
const PIPE_BYTES: usize = 1 << 20;
const WAITING_MAX: usize = 1 << 20;
/// Users that are counted by themselves, of those whose attendants have ended: more lines are too many for
/// who reads them.
const COUNTED_MAX: usize = 1000;

/// How attendants are started.
#[derive(Debug, Clone)]
pub(crate) struct Starting {
    /// The program and its arguments, before the user's number, its folder, and what is excluded.
    pub(crate) command: Vec<OsString>,
    /// The folder with a folder for each user.
    pub(crate) folder: PathBuf,
    /// What nobody is to fetch.
    pub(crate) excluded: Vec<PathBuf>,
    /// Whether it is heard what they count.
    pub(crate) counts: bool,
}

/// All users whose programs were seen.
#[derive(Debug)]
pub(crate) struct Users {
    starting: Starting,
    owners: Owners,
    attendants: HashMap<User, Attendant>,
    /// Users whose attendant ended by itself, until it may be started again.
    paused: HashMap<User, Duration>,
    /// Attendants that were told to end, or did by themselves.
    ending: Vec<Ending>,
    /// How attendants ended by themselves, or failed when they were to end, if nobody was told.
    untold: Vec<String>,
    failed: u64,
    /// What those counted that have ended.
    counted: BTreeMap<User, Counts>,
    lost: u64,
    /// The file of lent numbers.
    lent: PathBuf,
}

/// One user's attendant.
#[derive(Debug)]
struct Attendant {
    child: Child,
    heard: Option<Heard>,
    pipe: OwnedFd,
    /// What the pipe had no room for, from its first message that is not whole in the pipe.
    waiting: Vec<u8>,
    /// Whether messages were dropped since, and it was not told.
    has_lost: bool,
    /// Whether it was to be told that the device table changed, and there was no room.
    is_to_reload: bool,
    /// Whether its user has other groups than it: it ends once nothing waits.
    is_outgrown: bool,
    active: Duration,
}

/// An attendant that is about to end.
#[derive(Debug)]
struct Ending {
    user: User,
    child: Child,
    heard: Option<Heard>,
    /// Whether nobody told it to.
    by_itself: bool,
    /// When it is killed; `None`: nobody has looked yet.
    until: Option<Duration>,
}

impl Users {
    pub(crate) fn new(starting: Starting) -> Self {
        Self {
            starting,
            owners: Owners::default(),
            attendants: HashMap::new(),
            paused: HashMap::new(),
            ending: Vec::new(),
            untold: Vec::new(),
            failed: 0,
            counted: BTreeMap::new(),
            lost: 0,
            lent: LENT.into(),
        }
    }

    /// How many attendants there are.
    pub(crate) fn attendants(&self) -> usize {
        self.attendants.len()
    }

    /// How many ended by themselves.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// How attendants ended by themselves, or failed when they were to end, since the last call, for people.
    pub(crate) fn take_untold(&mut self) -> Vec<String> {
        std::mem::take(&mut self.untold)
    }

    /// Messages that attendants were too slow for.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether an attendant is about to end, since its user has no process left or it was told to.
    pub(crate) fn has_leaving(&self) -> bool {
        let is_left = |user: &User| !self.owners.has_some(*user);
        !self.ending.is_empty() || self.attendants.keys().any(is_left)
    }

    /// Whether something waits for room in a pipe.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting_bytes() > 0
    }

    /// What waits for room in pipes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.attendants.values().map(|attendant| attendant.waiting.len()).sum()
    }

    /// What was counted of each user, as far as it was told.
    pub(crate) fn counts(&mut self) -> BTreeMap<User, Counts> {
        let mut counts = self.counted.clone();
        let attending = self.attendants.iter_mut().map(|(user, it)| (*user, &mut it.heard));
        let ending = self.ending.iter_mut().map(|it| (it.user, &mut it.heard));
        for (user, heard) in attending.chain(ending) {
            if let Some(heard) = heard {
                *counts.entry(user).or_default() += heard.counts();
            }
        }
        counts
    }

    /// Tells each event to the attendant of its user. What cannot be told is lost, and that is told.
    ///
    /// # Errors
    /// The system's, of an attendant that could not be started: its user is passed over for a while.
    pub(crate) fn tell(&mut self, events: Vec<(Duration, Event)>, now: Duration) -> io::Result<()> {
        let mut error = Ok(());
        for (at, event) in events {
            let age = now.saturating_sub(at);
            if event == (Event::Lost { process: None }) {
                self.owners.clear();
                self.tell_all(&Message::Seen { age, event });
                continue;
            }
            let Some(user) = self.owners.of(&event) else { continue };
            if !self.attendants.contains_key(&user) && !self.is_paused(user, now) {
                let has_room = self.makes_room(user, now);
                let started = if has_room { self.start(user, now) } else { Ok(()) };
                if started.is_err() || !has_room {
                    self.paused.insert(user, now + PAUSE);
                }
                error = error.and(started.map_err(|source| {
                    io::Error::new(source.kind(), format!("user {}: {source}", user.0))
                }));
            }
            if let Some(attendant) = self.attendants.get_mut(&user) {
                attendant.active = now;
                self.lost += attendant.tell(&Message::Seen { age, event });
            }
        }
        self.flush(now);
        error
    }

    /// Tells all attendants.
    pub(crate) fn tell_all(&mut self, message: &Message) {
        for attendant in self.attendants.values_mut() {
            self.lost += attendant.tell(message);
        }
    }

    fn is_paused(&mut self, user: User, now: Duration) -> bool {
        let is_over = self.paused.get(&user).is_some_and(|until| *until <= now);
        if is_over {
            self.paused.remove(&user);
        }
        self.paused.contains_key(&user)
    }

    /// Whether an attendant of `user` may be started; ends another for it if need be. Whose number is lent
    /// takes the place only of such.
    fn makes_room(&mut self, user: User, now: Duration) -> bool {
        if self.attendants.len() < ATTENDANTS_MAX {
            return true;
        }
        let lent = Lent::by(&self.lent);
        let to = lent.to(user);
        let all = self.attendants.iter().map(|(user, it)| (lent.to(*user), it.active, *user));
        let all: Vec<_> = all.collect();
        let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
        for (to, ..) in &all {
            *counts.entry(*to).or_default() += 1;
        }
        let have = |to: Option<&str>| counts.get(&to).copied().unwrap_or(0);
        let is_busy = |active| now.saturating_sub(active) < SPARED;
        let others = all.iter().filter(|(others, ..)| others.is_some() || to.is_none());
        // Of lent numbers first, of these one that is idle, and one of who has most.
        let rank = |&&(to, active, _): &&(Option<&str>, Duration, User)| {
            (to.is_none(), is_busy(active), Reverse(have(to)), active)
        };
        let Some(&(others, active, other)) = others.min_by_key(rank) else { return false };
        let has_less = to.is_none() || have(to) + 1 < have(others);
        let gives_way = others.is_some() && has_less || !is_busy(active);
        if gives_way {
            self.end_one(other);
        }
        gives_way
    }

    fn start(&mut self, user: User, now: Duration) -> io::Result<()> {
        let folder = folders::of(&self.starting.folder, user, &self.lent)?;
        let (program, arguments) =
            self.starting.command.split_first().expect("a command has a program");
        let mut command = Command::new(program);
        // Its file may be /proc/self/exe.
        command.arg0(NAME);
        command.args(arguments).arg(user.0.to_string()).arg(folder).args(&self.starting.excluded);
        command.env_clear().envs(environment());
        // What a terminal sends to this process is not for it.
        command.stdin(Stdio::piped()).process_group(0).current_dir("/");
        let (heard, told) = self.starting.counts.then(Heard::new).transpose()?.unzip();
        command.stdout(told.map_or_else(Stdio::null, Stdio::from));
        let mut child = command.spawn()?;
        let pipe = OwnedFd::from(child.stdin.take().expect("piped"));
        rustix::io::ioctl_fionbio(&pipe, true)?;
        // Less will do if the system does not give as much.
        rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES).ok();
        let mut attendant = Attendant {
            child,
            heard,
            pipe,
            waiting: Vec::new(),
            has_lost: false,
            is_to_reload: false,
            is_outgrown: false,
            active: now,
        };
        // What its programs did before is not known to it, but that they are there.
        for process in self.owners.processes(user) {
            let event = Event::Found { process, user };
            self.lost += attendant.tell(&Message::Seen { age: Duration::ZERO, event });
        }
        self.attendants.insert(user, attendant);
        Ok(())
    }

    /// Ends the attendants of users whose groups are others than theirs, once all that they were told is
    /// written; they are started anew when they are needed.
    pub(crate) fn regroup(&mut self, users: impl IntoIterator<Item = User>) {
        for user in users {
            let Some(attendant) = self.attendants.get_mut(&user) else { continue };
            attendant.is_outgrown = true;
            if attendant.flush().is_ok() && attendant.waiting.is_empty() {
                self.end_one(user);
            }
        }
    }

    /// Closes an attendant's pipe: it saves and ends.
    fn end_one(&mut self, user: User) {
        self.let_go(user, false);
    }

    fn let_go(&mut self, user: User, by_itself: bool) {
        if let Some(Attendant { child, heard, .. }) = self.attendants.remove(&user) {
            // Its user may have stopped it; of one that has ended another may have the number by now.
            if !by_itself {
                signal(&child, Signal::CONT);
            }
            self.ending.push(Ending { user, child, heard, by_itself, until: None });
        }
    }

    /// Writes what waits; lets the idle and the outgrown end, and those that ended by themselves go.
    pub(crate) fn flush(&mut self, now: Duration) {
        let (mut done, mut ended) = (Vec::new(), Vec::new());
        for (user, attendant) in &mut self.attendants {
            let idle_max = if self.owners.has_some(*user) { IDLE_MAX } else { LEFT_MAX };
            let is_idle = now.saturating_sub(attendant.active) >= idle_max;
            if attendant.flush().is_err() || has_ended(&mut attendant.child) {
                ended.push(*user);
            } else if is_idle || attendant.is_outgrown && attendant.waiting.is_empty() {
                done.push(*user);
            }
        }
        for user in done {
            self.end_one(user);
        }
        for user in ended {
            self.let_go(user, true);
            self.failed += 1;
            self.paused.insert(user, now + PAUSE);
        }
        for Ending { child, until, .. } in &mut self.ending {
            if *until.get_or_insert(now + LEAVES_WITHIN) <= now {
                signal(child, Signal::KILL);
            }
        }
        self.settle();
    }

    /// Keeps what those counted that have ended, and how they did.
    fn settle(&mut self) {
        let have_ended = |it: &mut Ending| has_ended(&mut it.child);
        for ending in self.ending.extract_if(.., have_ended) {
            let Ending { user, mut child, heard, by_itself, .. } = ending;
            let how = child.try_wait().ok().flatten();
            if let Some(how) = how.filter(|how| by_itself || !how.success()) {
                let then = if by_itself { "; passed over for a minute" } else { "" };
                let how = how_said(how);
                self.untold.push(format!("user {}: its attendant ended ({how}){then}", user.0));
            }
            let Some(mut heard) = heard else { continue };
            let is_one = self.counted.len() < COUNTED_MAX || self.counted.contains_key(&user);
            let user = if is_one { user } else { OTHERS };
            *self.counted.entry(user).or_default() += heard.counts();
        }
    }

    /// Has all attendants save and end; those that do not in time are killed.
    pub(crate) fn end(&mut self, clock: &Clock) {
        for attendant in self.attendants.values_mut() {
            attendant.flush().ok();
        }
        let users: Vec<_> = self.attendants.keys().copied().collect();
        for user in users {
            self.end_one(user);
        }
        for (within, then) in [(END_WITHIN, Some(Signal::KILL)), (KILLED_WITHIN, None)] {
            let until = clock.now() + within;
            for Ending { child, .. } in &self.ending {
                wait(child, until.saturating_sub(clock.now()));
            }
            self.settle();
            if let Some(then) = then {
                self.ending.iter().for_each(|ending| signal(&ending.child, then));
            }
        }
    }
}

fn environment() -> impl Iterator<Item = (&'static str, OsString)> {
    ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// Whether a child has ended, or is none any more.
fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Sends a signal to a child that was not waited for yet; without the right to, the service manager does.
fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

fn how_said(how: ExitStatus) -> String {
    let signal = how.signal().map(|signal| format!("signal {signal}"));
    signal.unwrap_or_else(|| format!("exit code {}", how.code().unwrap_or_default()))
}

/// Waits for a child that is about to end.
fn wait(child: &Child, within: Duration) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(Ok(ends)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    let within = Timespec::try_from(within).ok();
    let mut ready = [PollFd::new(&ends, PollFlags::IN)];
    let _ = poll(&mut ready, within.as_ref());
}

impl Attendant {
    /// Puts a message behind those that wait; returns how many were lost for want of room.
    fn tell(&mut self, message: &Message) -> u64 {
        if self.waiting.len() >= WAITING_MAX {
            // Of an error the next flush tells, too.
            self.flush().ok();
        }
        if self.waiting.len() >= WAITING_MAX {
            let is_reload = *message == Message::Reload;
            self.is_to_reload |= is_reload;
            self.has_lost |= !is_reload;
            return u64::from(!is_reload);
        }
        if std::mem::take(&mut self.is_to_reload) {
            put(&Message::Reload, &mut self.waiting);
        }
        if std::mem::take(&mut self.has_lost) {
            let event = Event::Lost { process: None };
            put(&Message::Seen { age: Duration::ZERO, event }, &mut self.waiting);
        }
        put(message, &mut self.waiting);
        0
    }

    /// Writes what the pipe takes.
    fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            if written == self.waiting.len() {
                break Ok(());
            }
            match rustix::io::write(&self.pipe, &self.waiting[written..]) {
                Ok(bytes) => written += bytes,
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => break Err(error.into()),
            }
        };
        self.waiting.drain(..written);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use testkit::{Dir, Facility, skip_unless, until};

    use tree::Process;

    use super::*;

    /// Whether a user is attended to whose program begins at that second.
    fn begins(users: &mut Users, user: u32, second: u64) -> bool {
        let event = Event::Found { process: Process(user.into()), user: User(user) };
        let now = Duration::from_secs(second);
        users.tell(vec![(now, event)], now).expect("started");
        users.attendants.contains_key(&User(user))
    }

    fn starting(command: Vec<OsString>, dir: &Dir) -> Starting {
        Starting { command, folder: dir.path().to_owned(), excluded: Vec::new(), counts: true }
    }

    /// Of whom two have lent numbers.
    fn users(dir: &Dir) -> Users {
        // Attends to nothing, until its pipe is closed.
        let command = ["sh", "-c", "cat > /dev/null"].map(OsString::from).to_vec();
        let mut users = Users::new(starting(command, dir));
        users.lent = dir.create("subuid", "me:100000:65536\nyou:200000:65536\n");
        users
    }

    /// Events of user 0, whose attendant has a pipe, of which some have to wait.
    fn more_than_the_pipe_holds(users: &Users) -> Vec<(Duration, Event)> {
        let path = b"/some/folder/and/a/file/in/it"[..].into();
        let file = tree::File { path, identity: None, size: Some(1) };
        let event = Event::Opened { process: Process(0), file, access: tree::Access::Read };
        let mut bytes = Vec::new();
        put(&Message::Seen { age: Duration::ZERO, event: event.clone() }, &mut bytes);
        let pipe = &users.attendants[&User(0)].pipe;
        let pipe_bytes = rustix::pipe::fcntl_getpipe_size(pipe).expect("the machine allows it");
        vec![(Duration::ZERO, event); (WAITING_MAX + pipe_bytes / 2) / bytes.len()]
    }

    #[test]
    fn what_the_pipe_has_room_for_is_not_lost_however_much_comes_at_once() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        // Reads nothing.
        let command = ["sh", "-c", "exec sleep 1000"].map(OsString::from).to_vec();
        let mut users = Users::new(starting(command, &dir));
        assert!(begins(&mut users, 0, 0));
        let (many, now) = (more_than_the_pipe_holds(&users), Duration::ZERO);
        users.tell(many.clone(), now).expect("told");
        assert_eq!(users.lost(), 0);
        users.tell(many, now).expect("told");
        let lost = users.lost();
        assert!(lost > 0 && users.attendants[&User(0)].waiting.len() >= WAITING_MAX);
        users.tell_all(&Message::Reload);
        assert_eq!(users.lost(), lost, "the device table is read anew");
        users.attendants.values_mut().for_each(|it| it.child.kill().expect("ours"));
        users.end(&Clock::real());
    }

    #[test]
    fn what_is_counted_of_a_user_outlives_who_counts() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        // All bytes of its numbers are 1.
        let bytes = size_of::<Counts>();
        let script = format!("head -c {bytes} /dev/zero | tr '\\0' '\\1'; cat > /dev/null");
        let command = ["sh", "-c", &script].map(OsString::from).to_vec();
        let mut users = Users::new(starting(command, &dir));
        let now = Duration::ZERO;
        let ones = |times: u64| Counts(Counts::default().0.map(|_| times * 0x0101_0101_0101_0101));
        for times in 1..3 {
            assert!(begins(&mut users, 1000, 0));
            until("it is told", || users.counts()[&User(1000)] == ones(times));
            users.regroup([User(1000)]);
            assert_eq!(users.counts()[&User(1000)], ones(times), "as long as it ends");
            until("it has ended", || {
                users.flush(now);
                users.ending.is_empty()
            });
            assert_eq!(users.counts()[&User(1000)], ones(times));
        }
    }

    #[test]
    fn how_an_attendant_ended_by_itself_is_told_once_and_not_of_one_that_was_to_end() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let now = Duration::ZERO;
        for (end, how) in [("kill -9 $$", "signal 9"), ("exit 3", "exit code 3")] {
            let script = format!("if read -r line; then {end}; fi");
            let command = ["sh", "-c", &script].map(OsString::from).to_vec();
            let mut users = Users::new(starting(command, &dir));
            assert!(begins(&mut users, 1000, 0) && begins(&mut users, 1001, 0));
            users.regroup([User(1001)]);
            // Ends the line that it waits for.
            let attendant = users.attendants.get_mut(&User(1000)).expect("it is there");
            attendant.waiting.push(b'\n');
            let mut said = Vec::new();
            until("it is told, though nothing more happens", || {
                users.flush(now);
                said.extend(users.take_untold());
                users.attendants.is_empty() && users.ending.is_empty()
            });
            let expected =
                format!("user 1000: its attendant ended ({how}); passed over for a minute");
            assert_eq!((said, users.failed()), (vec![expected], 1));
            assert!(users.is_paused(User(1000), now));
        }
    }

    #[test]
    fn how_an_attendant_failed_that_was_to_end_is_told() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let script = "cat > /dev/null; [ $0 = 1001 ] || exit 3";
        let command = ["sh", "-c", script].map(OsString::from).to_vec();
        let mut users = Users::new(starting(command, &dir));
        assert!(begins(&mut users, 1000, 0) && begins(&mut users, 1001, 0));
        users.end(&Clock::real());
        assert_eq!(users.take_untold(), ["user 1000: its attendant ended (exit code 3)"]);
        assert_eq!(users.failed(), 0, "not by itself");
    }

    #[test]
    fn who_has_no_process_left_is_soon_attended_to_no_more() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let mut users = users(&dir);
        assert!(begins(&mut users, 1000, 0) && begins(&mut users, 1001, 0));
        let (parent, child) = (Process(1000), Process(7));
        let mut told = |event, at| users.tell(vec![(at, event)], at).expect("started");
        told(Event::Forked { parent, child }, Duration::ZERO);
        told(Event::Exited { process: parent }, Duration::ZERO);
        let (later, last) = (LEFT_MAX * 2, LEFT_MAX * 3);
        users.flush(later);
        assert!(users.attendants.len() == 2 && !users.has_leaving(), "another one runs");
        users.tell(vec![(later, Event::Exited { process: child })], later).expect("told");
        assert!(users.attendants.len() == 2 && users.has_leaving(), "it may come back at once");
        users.flush(last);
        assert_eq!(users.attendants.keys().collect::<Vec<_>>(), [&User(1001)]);
        assert!(begins(&mut users, 1000, 60), "not as after one that failed");
        users.end(&Clock::real());
    }

    #[test]
    fn who_had_a_process_before_a_loss_is_attended_to_until_it_is_seen_that_none_is_left() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let mut users = users(&dir);
        assert!(begins(&mut users, 1000, 0) && begins(&mut users, 1001, 0));
        let lost = Event::Lost { process: None };
        users.tell(vec![(Duration::ZERO, lost)], Duration::ZERO).expect("told");
        users.flush(LEFT_MAX * 2);
        assert!(users.attendants.len() == 2 && !users.has_leaving(), "its programs may run");
        assert!(begins(&mut users, 1000, 10));
        let (at, exited) = (Duration::from_secs(10), Event::Exited { process: Process(1000) });
        users.tell(vec![(at, exited)], at).expect("told");
        users.flush(at + LEFT_MAX);
        assert_eq!(users.attendants.keys().collect::<Vec<_>>(), [&User(1001)]);
        users.flush(IDLE_MAX);
        assert!(users.attendants.is_empty(), "as of who does nothing");
        users.end(&Clock::real());
    }

    #[test]
    fn who_is_stopped_ends_all_the_same_and_who_does_not_end_is_killed() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let mut users = users(&dir);
        assert!(begins(&mut users, 1000, 0));
        signal(&users.attendants[&User(1000)].child, Signal::STOP);
        users.end(&Clock::real());
        assert!(users.ending.is_empty() && users.take_untold().is_empty(), "it went on");
        // Does not end with its pipe.
        let command = ["sh", "-c", "exec sleep 1000"].map(OsString::from).to_vec();
        let mut users = Users::new(starting(command, &dir));
        assert!(begins(&mut users, 1000, 0));
        users.regroup([User(1000)]);
        users.flush(Duration::ZERO);
        assert!(users.has_leaving());
        until("it is killed", || {
            users.flush(LEAVES_WITHIN);
            users.ending.is_empty()
        });
        assert_eq!(users.take_untold(), ["user 1000: its attendant ended (signal 9)"]);
    }

    #[test]
    fn who_has_other_groups_has_another_attendant() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let mut users = users(&dir);
        assert!(begins(&mut users, 1000, 0) && begins(&mut users, 1001, 0));
        users.regroup([User(1000), User(1002)]);
        assert_eq!(users.attendants.keys().collect::<Vec<_>>(), [&User(1001)]);
        assert!(begins(&mut users, 1000, 0), "not as after one that failed");
        users.end(&Clock::real());
    }

    #[test]
    fn an_attendant_that_is_slow_has_all_that_it_was_told_before_another_has_its_place() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let (begin, now) = (dir.join("begin"), Duration::ZERO);
        mknodat(CWD, &begin, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a fifo");
        let slow = format!("cat '{}' && cat > /dev/null", begin.display());
        let command = ["sh", "-c", &slow].map(OsString::from).to_vec();
        let mut users = Users::new(starting(command, &dir));
        assert!(begins(&mut users, 0, 0));
        users.tell(more_than_the_pipe_holds(&users), now).expect("told");
        users.regroup([User(0)]);
        assert!(users.has_waiting(), "it is there as long as something waits");
        fs::write(&begin, "").expect("it is read");
        until("it has all", || {
            users.flush(now);
            users.attendants.is_empty()
        });
        assert!(users.lost() == 0 && !users.is_paused(User(0), now), "another may begin at once");
        users.end(&Clock::real());
    }

    #[test]
    fn who_is_idle_gives_way_before_who_is_busy_whoever_has_more() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let mut users = users(&dir);
        assert!(begins(&mut users, 200_000, 0));
        let mut mine = 100_000..100_000 + u32::try_from(ATTENDANTS_MAX).expect("few");
        assert!(mine.clone().all(|user| begins(&mut users, user, 30)));
        assert!(!users.attendants.contains_key(&User(200_000)), "it was idle");
        assert!(mine.all(|user| users.attendants.contains_key(&User(user))));
        users.end(&Clock::real());
    }

    #[test]
    fn who_has_many_lent_numbers_keeps_nobody_else_out() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let mut users = users(&dir);
        let lent = 100_000..100_000 + u32::try_from(ATTENDANTS_MAX).expect("few");
        for second in [0, 29] {
            assert!(lent.clone().all(|user| begins(&mut users, user, second)));
        }
        assert!(!begins(&mut users, 165_535, 29), "one of mine spares another");
        let yours = (200_000..200_032).filter(|&user| begins(&mut users, user, 29)).count();
        assert_eq!(yours, ATTENDANTS_MAX / 2, "who has fewer comes before who has more");
        assert!(begins(&mut users, 1000, 29), "and gives way to what is not lent");
        let all_lent = lent.clone().filter(|&user| begins(&mut users, user, 200)).count();
        assert!(
            all_lent > 0 && users.attendants.contains_key(&User(1000)),
            "which they never replace"
        );
        users.end(&Clock::real());
    }
}
