//! Makes events of what a command's programs are seen to ask for.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rustix::event::epoll;
use store::Clock;
use tree::{Access, Event, File, Process, User};

use super::inbox::{Call, Inbox, What};
use super::listener::{arguments, link};
use super::names::{Found, Names};
use super::parents;
use crate::Source;

/// How often calls are taken while programs run: to be woken for every call would cost more than
/// answering it. What a new program will need is guessed at once; the bell rings for it.
const PACE: Duration = Duration::from_millis(10);
/// How long they are taken for as long as somebody ends meanwhile: predictions wait for that.
const TURN_MAX: Duration = Duration::from_millis(100);
/// Without calls for so long, the observer rests until it is woken.
const RESTS_AFTER: Duration = Duration::from_millis(20);
/// How long an answer is waited for as to what an opened name stands for, if its program makes no
/// other call.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);

/// How long what came later is held back for such answers: learners go by the order in which programs
/// did things, and most answers come at once.
const ORDERED_WITHIN: Duration = Duration::from_millis(2);

/// Tokens of the descriptors that are waited for; others are numbers of processes.
const BELL: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Sees a command and all that comes of it, until the last of its processes has ended.
#[derive(Debug)]
pub struct Observer {
    inbox: Arc<Inbox>,
    /// Calls that were taken; empty but while they are looked at.
    taken: Vec<Call>,
    /// Who made calls in this turn and when, in their order; of one that was met, who made it, too.
    made: Vec<(u32, Duration)>,
    waits: OwnedFd,
    clock: Clock,
    user: User,
    processes: HashMap<u32, Seen>,
    /// Those of which something is not told yet.
    unsettled: BTreeSet<u32>,
    ordered_within: Duration,
    names: Names,
    next: u64,
    command: u32,
    /// When a call was last taken.
    active: Duration,
    command_ended: bool,
    is_over: bool,
}

/// What is known of a process.
#[derive(Debug)]
struct Seen {
    process: Process,
    /// Who made it, as far as that is seen.
    parent: Option<u32>,
    /// When it made its last call.
    last: Duration,
    /// Tells of its end; kept open for that.
    _end: Option<OwnedFd>,
    program: Option<Vec<u8>>,
    executes: Option<Executes>,
    /// Names that it is about to open.
    opens: Vec<Opens>,
    /// Whether its names mean something else than ours, as it lives in a container or a changed root, or
    /// it has not our rights: what it is denied we might read.
    is_elsewhere: bool,
}

#[derive(Debug)]
struct Executes {
    at: Duration,
    whole: Vec<u8>,
    folder: Arc<[u8]>,
}

#[derive(Debug)]
struct Opens {
    at: Duration,
    thread: u32,
    whole: Vec<u8>,
    /// What for; `None` if the file's bytes tell.
    access: Option<Access>,
    /// Its thread went on since, so the kernel knew the name if it stands for anything.
    is_done: bool,
    /// The kernel does not know it any more, and it is looked up.
    is_asked: bool,
}

impl Observer {
    /// Over what a listener puts into `inbox`, of the process `command` and what comes of it.
    pub(super) fn new(
        inbox: Arc<Inbox>,
        listener: &OwnedFd,
        command: u32,
        clock: Clock,
    ) -> io::Result<Self> {
        let waits = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = epoll::EventData::new_u64(BELL);
        epoll::add(&waits, inbox.bell(), bell, epoll::EventFlags::IN)?;
        // Told without being asked for: that nobody is left who could call.
        let token = epoll::EventData::new_u64(LISTENER);
        epoll::add(&waits, listener, token, epoll::EventFlags::empty())?;
        let (active, names) = (clock.now(), Names::new(clock.clone(), Arc::clone(inbox.aside())));
        Ok(Self {
            inbox,
            taken: Vec::new(),
            made: Vec::new(),
            waits,
            clock,
            user: User(rustix::process::getuid().as_raw()),
            processes: HashMap::new(),
            unsettled: BTreeSet::new(),
            ordered_within: ORDERED_WITHIN,
            names,
            next: 0,
            command,
            active,
            command_ended: false,
            is_over: false,
        })
    }

    /// The numbers of its processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// Whether the command itself has ended; what it left behind may still run.
    pub fn command_ended(&self) -> bool {
        self.command_ended
    }

    /// Whether all its processes have ended: nothing more will be seen.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Waits for something to happen; gives processes that ended.
    fn wait(&mut self, patience: Duration) -> io::Result<Vec<u32>> {
        let is_lively = self.clock.now().saturating_sub(self.active) < RESTS_AFTER;
        let patience = if is_lively || !self.unsettled.is_empty() {
            patience.min(PACE)
        } else if self.inbox.rest() {
            patience
        } else {
            Duration::ZERO
        };
        self.ends(patience)
    }

    /// Waits for something to happen, whatever there is to do; gives some of the processes that ended.
    fn ends(&mut self, patience: Duration) -> io::Result<Vec<u32>> {
        let limit = rustix::time::Timespec::try_from(patience).ok();
        let mut happened = Vec::with_capacity(64);
        match epoll::wait(
            &self.waits,
            rustix::buffer::spare_capacity(&mut happened),
            limit.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ended = Vec::new();
        for event in happened {
            match event.data.u64() {
                BELL => self.inbox.hush(),
                LISTENER => self.is_over = true,
                process => ended.extend(u32::try_from(process)),
            }
        }
        Ok(ended)
    }

    fn note(&mut self, call: Call, events: &mut Vec<(Duration, Event)>) {
        let Call { at, thread, process, what } = call;
        if let What::Met { parent, end, is_elsewhere } = what {
            self.meet(at, process, parent, end, is_elsewhere, events);
            return;
        }
        let Some(seen) = self.processes.get_mut(&process) else { return };
        seen.last = at;
        self.made.push((process, at));
        // It makes another call, so what it was about to open is open, or not there. What it opened
        // before that is done already.
        if let Some(opens) = seen.opens.iter_mut().rev().find(|opens| opens.thread == thread) {
            opens.is_done = true;
        }
        match what {
            What::Opens { whole, flags } => {
                let access = access(flags);
                seen.opens.push(Opens {
                    at,
                    thread,
                    whole,
                    access,
                    is_done: false,
                    is_asked: false,
                });
            }
            What::Executes { whole, folder } => {
                seen.executes = Some(Executes { at, whole, folder });
            }
            What::Runs { program, arguments } => {
                self.settle_last(process, events);
                self.runs(process, program, arguments, events);
            }
            What::ChangedRoot => seen.is_elsewhere = true,
            What::BecameAnothers => {
                self.settle_last(process, events);
                self.processes.entry(process).and_modify(|seen| seen.is_elsewhere = true);
            }
            What::Met { .. } => {}
        }
        self.unsettled.insert(process);
    }

    fn meet(
        &mut self,
        at: Duration,
        number: u32,
        parent: u32,
        end: Option<OwnedFd>,
        is_elsewhere: bool,
        events: &mut Vec<(Duration, Event)>,
    ) {
        // It was met before calls were lost.
        if let Some(seen) = self.processes.get_mut(&number) {
            seen.is_elsewhere |= is_elsewhere;
            return;
        }
        if let Some(end) = &end {
            let token = epoll::EventData::new_u64(number.into());
            // Without it the process is taken to live on, which costs some memory.
            let _ = epoll::add(&self.waits, end, token, epoll::EventFlags::IN);
        }
        let process = Process(self.next);
        self.next += 1;
        let known = parents::nearest(parent, |number| self.processes.contains_key(&number));
        self.made.extend(known.map(|parent| (parent, at)));
        let above = known.and_then(|number| self.processes.get(&number));
        // Whose parents are gone came of the command all the same.
        let above = above.or_else(|| self.processes.get(&self.command));
        let (program, elsewhere) =
            above.map_or_else(|| (link(std::process::id(), "exe"), false), Seen::inherited);
        events.push(match above {
            Some(above) => (at, Event::Forked { parent: above.process, child: process }),
            None => (at, Event::Found { process, user: self.user }),
        });
        let is_elsewhere = elsewhere || is_elsewhere;
        let seen = Seen {
            process,
            parent: known,
            last: at,
            _end: end,
            program,
            executes: None,
            opens: Vec::new(),
            is_elsewhere,
        };
        self.processes.insert(number, seen);
    }

    /// A process runs a program, or still the same one if it could not.
    fn runs(
        &mut self,
        number: u32,
        program: Option<Vec<u8>>,
        arguments: Vec<Arc<[u8]>>,
        events: &mut Vec<(Duration, Event)>,
    ) {
        let Some(seen) = self.processes.get_mut(&number) else { return };
        let Some(Executes { at, whole, folder }) = seen.executes.take() else { return };
        let asked = match self.names.find_out(&whole) {
            Found::File(file) => Some(file),
            Found::NoFile | Found::NotYet => None,
        };
        let runs_asked = asked.as_ref().is_some_and(|file| program.as_deref() == Some(&file.path));
        let is_script = asked.is_some() && interprets(&arguments, &folder, &whole);
        if !runs_asked && !is_script && program.is_some() && program == seen.program {
            return;
        }
        let file = match (program, asked) {
            (Some(program), _) if !runs_asked => match self.names.find_out(&program) {
                Found::File(file) => file,
                Found::NoFile | Found::NotYet => {
                    File { path: program.as_slice().into(), identity: None, size: None }
                }
            },
            (_, Some(file)) => file,
            (_, None) => return,
        };
        seen.program = Some(file.path.to_vec());
        if !seen.is_elsewhere {
            let process = seen.process;
            events.push((at, Event::Executed { process, program: file, arguments, folder }));
        }
    }

    /// The program that a process asked to run and runs by now, as far as that can be told: of one that
    /// runs itself only its next call tells.
    fn started(&mut self, number: u32) -> Option<Vec<u8>> {
        let seen = self.processes.get(&number)?;
        let asked = &seen.executes.as_ref()?.whole;
        // A shell tries one folder after the other, and most have no such program.
        let Found::File(file) = self.names.find(asked) else { return None };
        let program = link(number, "exe").filter(|program| *program == *file.path);
        program.filter(|program| seen.program.as_ref() != Some(program))
    }

    /// Tells of the files that a process opened, each once its name is known.
    fn settle_opens(&mut self, number: u32, events: &mut Vec<(Duration, Event)>) {
        let now = self.clock.now();
        let Some(seen) = self.processes.get_mut(&number) else { return };
        let mut waiting: Vec<u32> = Vec::new();
        let (process, is_elsewhere) = (seen.process, seen.is_elsewhere);
        seen.opens.retain_mut(|opens| {
            // A thread's files are told in the order in which it opened them.
            let is_behind = waiting.contains(&opens.thread);
            if is_behind && (opens.is_asked || !opens.is_done) {
                return true;
            }
            let found = match opens.access {
                Some(Access::Write) | None if !opens.is_asked => self.names.find_anew(&opens.whole),
                _ => self.names.find(&opens.whole),
            };
            match found {
                Found::File(_) | Found::NoFile if is_behind => return true,
                Found::File(file) if !is_elsewhere => {
                    let access = opens.access.unwrap_or_else(|| Access::by_bytes(&file));
                    events.push((opens.at, Event::Opened { process, file, access }));
                }
                Found::NotYet if !is_elsewhere && now.saturating_sub(opens.at) < SETTLES_WITHIN => {
                    opens.is_asked |= opens.is_done && self.names.ask(&opens.whole);
                    waiting.push(opens.thread);
                    return true;
                }
                Found::File(_) | Found::NoFile | Found::NotYet => {}
            }
            false
        });
    }

    /// As [`Self::settle_opens`], before another program or nobody is there to have opened them.
    fn settle_last(&mut self, number: u32, events: &mut Vec<(Duration, Event)>) {
        let Some(seen) = self.processes.get_mut(&number) else { return };
        seen.opens.iter_mut().for_each(|opens| opens.is_done = true);
        let mut left = usize::MAX;
        loop {
            self.settle_opens(number, events);
            let Some(seen) = self.processes.get_mut(&number) else { return };
            if seen.opens.is_empty() || seen.opens.len() == left {
                seen.opens.clear();
                return;
            }
            left = seen.opens.len();
            self.names.wait();
        }
    }

    /// Tells what can be told by now of what programs were about to do.
    fn settle(&mut self, events: &mut Vec<(Duration, Event)>) {
        let unsettled = std::mem::take(&mut self.unsettled);
        let end = self.clock.now() + self.ordered_within;
        loop {
            for &number in &unsettled {
                self.settle_opens(number, events);
            }
            if !self.names.hear(end.saturating_sub(self.clock.now())) {
                break;
            }
        }
        for number in unsettled {
            if let Some(program) = self.started(number) {
                let arguments = arguments(number);
                // A program that is being started has none for a moment.
                if arguments.iter().any(|argument| !argument.is_empty()) {
                    self.runs(number, Some(program), arguments, events);
                }
            }
            if self.processes.get(&number).is_some_and(Seen::is_unsettled) {
                self.unsettled.insert(number);
            }
        }
    }

    /// Takes what programs did, until nobody ends meanwhile, or for [`TURN_MAX`]: what was made after an end must not be told
    /// before it, nor an end before all that its program did. Whether some of it was lost.
    fn take(
        &mut self,
        ended: &mut Vec<u32>,
        events: &mut Vec<(Duration, Event)>,
    ) -> io::Result<bool> {
        let mut lost = false;
        let until = self.clock.now() + TURN_MAX;
        loop {
            let mut taken = std::mem::take(&mut self.taken);
            lost |= self.inbox.take(&mut taken);
            let is_quiet = taken.is_empty();
            if !is_quiet {
                self.active = self.clock.now();
            }
            for call in taken.drain(..) {
                self.note(call, events);
            }
            self.taken = taken;
            // After the command's end nobody asks any more.
            if is_quiet && !ended.contains(&self.command) {
                return Ok(lost);
            }
            // Those that end from now on are told in the next turn.
            if self.clock.now() >= until {
                return Ok(lost);
            }
            let known = ended.len();
            ended.extend(self.ends(Duration::ZERO)?);
            ended.sort_unstable();
            ended.dedup();
            if ended.len() == known {
                return Ok(lost);
            }
        }
    }

    /// Tells of those that ended since they were last looked for. Whoever made one probably waited for it:
    /// it ended before that one's next call, or end.
    fn all_ended(&mut self, mut ended: Vec<u32>, events: &mut Vec<(Duration, Event)>) {
        let now = self.clock.now();
        ended.sort_by_key(|number| self.processes.get(number).map(|seen| seen.process));
        let mut ends = HashMap::new();
        for number in &ended {
            let Some(seen) = self.processes.get(number) else { continue };
            let is_next =
                |(who, at): &&(u32, Duration)| Some(*who) == seen.parent && *at > seen.last;
            let next = self
                .made
                .iter()
                .find(is_next)
                .map(|(_, at)| at.saturating_sub(Duration::from_nanos(1)));
            let parents = seen.parent.and_then(|parent| ends.get(&parent).copied());
            let at = next.into_iter().chain(parents).min().unwrap_or(now).max(seen.last);
            ends.insert(*number, at);
        }
        for number in ended.into_iter().rev() {
            self.ended(number, ends.get(&number).copied().unwrap_or(now), events);
        }
        self.made.clear();
    }

    fn ended(&mut self, number: u32, at: Duration, events: &mut Vec<(Duration, Event)>) {
        self.settle_last(number, events);
        // It may have run what it asked for and ended before anyone looked.
        self.runs(number, None, Vec::new(), events);
        self.inbox.forget(number);
        self.command_ended |= number == self.command;
        if let Some(seen) = self.processes.remove(&number) {
            events.push((at, Event::Exited { process: seen.process }));
        }
    }
}

impl Source for Observer {
    fn next(&mut self, patience: Duration) -> io::Result<Vec<(Duration, Event)>> {
        let mut ended = self.wait(patience)?;
        let mut events = Vec::new();
        let lost = self.take(&mut ended, &mut events)?;
        if lost {
            events.push((self.clock.now(), Event::Lost { process: None }));
        }
        self.settle(&mut events);
        if self.is_over {
            ended = self.processes.keys().copied().collect();
            self.command_ended = true;
        }
        self.all_ended(ended, &mut events);
        events.sort_by_key(|(at, _)| *at);
        Ok(events)
    }

    fn stands_aside(&self) -> bool {
        self.inbox.aside().holds(self.clock.now())
    }

    fn has_stood_aside(&self) {
        self.inbox.aside().is_done();
    }

    fn waker(&self) -> Option<Waker> {
        Some(Arc::clone(&self.inbox).into())
    }
}

impl Seen {
    /// What a process has of the one that made it: its program, and whether it is elsewhere.
    fn inherited(&self) -> (Option<Vec<u8>>, bool) {
        (self.program.clone(), self.is_elsewhere)
    }

    fn is_unsettled(&self) -> bool {
        !self.opens.is_empty() || self.executes.is_some()
    }
}

/// Whether a program was called as the kernel calls what interprets a script: with the script's name
/// after its own, or after one word for it.
fn interprets(arguments: &[Arc<[u8]>], folder: &[u8], script: &[u8]) -> bool {
    let is_script = |word: &Arc<[u8]>| match word.first() {
        Some(b'/') => **word == *script,
        _ => [folder, b"/", word].concat() == script,
    };
    arguments.iter().skip(1).take(2).any(is_script)
}

/// What a file is opened for, by the flags of the call; `None` of what may be read as well as written, or
/// made: by its bytes it is told whether there was anything to read.
fn access(flags: u32) -> Option<Access> {
    let flags = flags.cast_signed();
    let is_made = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    match flags & libc::O_ACCMODE {
        _ if is_made || flags & libc::O_TRUNC != 0 => Some(Access::Write),
        libc::O_WRONLY => Some(Access::Write),
        libc::O_RDONLY if flags & libc::O_CREAT == 0 => Some(Access::Read),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::{Child, Command, Stdio};

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use slowfs::Options;
    use testkit::{Dir, Facility, SlowDir, skip_unless};

    use super::*;

    fn met(child: &Child, parent: u32) -> Call {
        let pid = Pid::from_child(child);
        let end = Some(pidfd_open(pid, PidfdFlags::empty()).expect("it is ours"));
        let what = What::Met { parent, end, is_elsewhere: false };
        Call { at: Duration::ZERO, thread: child.id(), process: child.id(), what }
    }

    fn begin() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().expect("it is there")
    }

    fn observer(command: u32) -> Observer {
        let inbox = Arc::new(Inbox::new().expect("a bell"));
        let listener = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        Observer::new(inbox, &listener, command, Clock::real()).expect("observed")
    }

    #[test]
    fn who_is_met_only_as_the_command_ends_has_ended_before_it() {
        let (mut command, mut child) = (begin(), begin());
        let mut observer = observer(command.id());
        observer.inbox.add([met(&command, 0)].into_iter());
        observer.next(Duration::ZERO).expect("seen");
        observer.inbox.add([met(&child, command.id())].into_iter());
        child.wait().expect("ended");
        command.wait().expect("ended");
        let mut exited = Vec::new();
        while !observer.command_ended() {
            let events = observer.next(PACE).expect("seen");
            exited.extend(events.into_iter().filter_map(|(_, event)| match event {
                Event::Exited { process } => Some(process.0),
                _ => None,
            }));
        }
        assert_eq!(exited, [1, 0]);
    }

    #[test]
    fn who_was_waited_for_ended_before_the_next_was_made() {
        let (mut command, mut first, mut second) = (begin(), begin(), begin());
        let mut observer = observer(command.id());
        let of = |child: &Child, parent, at| Call { at, ..met(child, parent) };
        let [one, two, three] = [1, 2, 3].map(Duration::from_nanos);
        observer.inbox.add([of(&command, 0, one), of(&first, command.id(), two)].into_iter());
        observer.inbox.add([of(&second, command.id(), three)].into_iter());
        first.kill().expect("ours");
        first.wait().expect("ended");
        let events = observer.next(Duration::ZERO).expect("seen");
        let told = events.iter().map(|(_, event)| match event {
            Event::Found { .. } => "found",
            Event::Forked { .. } => "forked",
            Event::Exited { process: Process(1) } => "first exited",
            _ => "other",
        });
        assert_eq!(told.collect::<Vec<_>>(), ["found", "forked", "first exited", "forked"]);
        for program in [&mut command, &mut second] {
            program.kill().expect("ours");
            program.wait().expect("ended");
        }
    }

    #[test]
    fn who_is_met_again_is_the_same() {
        let mut command = begin();
        let mut observer = observer(command.id());
        observer.inbox.add([met(&command, 0), met(&command, 0)].into_iter());
        let events = observer.next(Duration::ZERO).expect("seen");
        assert!(matches!(&*events, [(_, Event::Found { .. })]), "{events:?}");
        command.kill().expect("ours");
        command.wait().expect("ended");
    }

    #[test]
    fn what_had_to_be_looked_up_is_told_before_what_came_later() {
        skip_unless!(Facility::Root, Facility::Fuse);
        // The kernel forgets its names at once.
        let forgets = Options { time_to_live: Duration::ZERO, ..Options::default() };
        let (slow, known) = (SlowDir::new(forgets), Dir::new());
        let files = [slow.create("a", "a"), known.create("b", "b")];
        let programs = [(); 2].map(|()| begin());
        let mut observer = observer(programs[0].id());
        // Longer than any answer takes on a busy machine.
        observer.ordered_within = SETTLES_WITHIN;
        observer.inbox.add(programs.iter().map(|program| met(program, 0)));
        let calls = files.iter().zip(&programs).enumerate().flat_map(|(at, (path, program))| {
            let (thread, process) = (program.id(), program.id());
            let whole = path.as_os_str().as_bytes().to_vec();
            let opens = What::Opens { whole, flags: libc::O_RDONLY.cast_unsigned() };
            let goes_on = What::Opens { whole: b"/none".to_vec(), flags: 0 };
            let at = Duration::from_micros(at as u64);
            [opens, goes_on].map(|what| Call { at, thread, process, what })
        });
        observer.inbox.add(calls);
        let events = observer.next(Duration::ZERO).expect("seen");
        let opened = events.into_iter().filter_map(|(_, event)| match event {
            Event::Opened { file, .. } => Some(file.path),
            _ => None,
        });
        let opened: Vec<_> = opened.collect();
        assert_eq!(opened, files.map(|path| Arc::from(path.as_os_str().as_bytes())));
        for mut program in programs {
            program.kill().expect("ours");
            program.wait().expect("ended");
        }
    }

    #[test]
    fn what_may_be_read_of_what_has_bytes_is_a_read() {
        let of = |flags: i32| access(flags.cast_unsigned());
        assert_eq!(of(libc::O_RDONLY | libc::O_CLOEXEC), Some(Access::Read));
        for flags in [libc::O_RDWR, libc::O_RDWR | libc::O_CREAT, libc::O_CREAT] {
            assert_eq!(of(flags), None);
        }
        let made = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        for flags in [libc::O_WRONLY | libc::O_CREAT, libc::O_RDWR | libc::O_TRUNC, made] {
            assert_eq!(of(flags), Some(Access::Write));
        }
    }
}
