//! The service: sees what all programs do, and has an attendant for each user learn and fetch.
//!
//! This process sees everything and reads no data of anybody. An attendant has the rights of its
//! user: what it predicts is read only if that user may read it, by the kernel's own judgement, and
//! what it learns is its user's alone. One that fails takes nobody else's with it.

mod attendant;
mod counts;
mod folders;
mod lent;
mod metrics;
mod notice;
mod owners;
pub(crate) mod rights;
mod signals;
mod users;
mod wire;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use store::{Clock, Costs, Local, TableFiles};
use tree::Event;

use crate::Source as _;
use crate::descriptors;
use crate::system::{self, Scope, System};
use metrics::Metrics;
use signals::{Asked, Signals};
use users::{Starting, Users};
use wire::Message;

pub use attendant::{AttendantOptions, attend};
pub use notice::Notice;

/// How long events are waited for at a time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same while an attendant has to catch up.
const PATIENCE_BEHIND: Duration = Duration::from_millis(5);

/// How often it is looked whether devices were measured anew.
const LOOKS_EVERY: Duration = Duration::from_mins(1);

/// How the service is set up.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// What it listens to.
    pub scope: Scope,
    /// The folder of its state: below `trees` there, patterns by the numbers of users.
    pub state: PathBuf,
    /// The command that attends to a user, which is given the user's number and folder and what the
    /// scope excludes, without links too, as its last arguments, and calls [`attend`].
    pub attendant: Vec<OsString>,
    /// The file that is written every some seconds, and at the end, with what was seen and what came of it, as
    /// Prometheus reads it. What is there already must be a regular file.
    pub metrics: Option<PathBuf>,
    /// Whether it began on a terminal: SIGHUP then says that this is gone, and ends it.
    pub on_terminal: bool,
}

/// Why the service cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Programs cannot be seen.
    #[error(transparent)]
    System(#[from] system::Error),
    /// It could see programs, and learn for none of their users.
    #[error("it may not act for the users of programs: {} missing", lacking.join(", "))]
    Rights {
        /// What it lacks.
        lacking: Vec<&'static str>,
    },
    /// Another one runs.
    #[error("{}: another service runs{}", lock.display(), by_number(process.as_deref()))]
    Runs {
        /// What it holds.
        lock: PathBuf,
        /// Its number, if it wrote it there.
        process: Option<String>,
    },
    /// A file or folder of its state.
    #[error("{}: {source}", path.display())]
    State {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file of numbers.
    #[error("{}: {source}", path.display())]
    Metrics {
        /// Which.
        path: PathBuf,
        /// Why it cannot be one.
        source: io::Error,
    },
    /// The system's.
    #[error("the system refuses what the service needs: {0}")]
    Io(#[from] io::Error),
}

impl ServiceError {
    /// Whether it may do well if it is tried again: what it needs may come, as a file system that is mounted
    /// later or room on a disk; usage and rights stay as they are, and one service is enough.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::System(error) => error.may_pass(),
            Self::Metrics { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Rights { .. } | Self::Runs { .. } => false,
            Self::State { .. } | Self::Io(_) => true,
        }
    }
}

fn by_number(process: Option<&str>) -> String {
    process.map(|process| format!(", process {process}")).unwrap_or_default()
}

/// What devices were measured to take, by root's table.
#[derive(Debug)]
struct Measured {
    files: TableFiles,
    /// When the table was written, if there was one.
    changed: Option<SystemTime>,
    looked_at: Duration,
}

/// What was seen since the service began.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    opens: u64,
    programs: u64,
    losses: u64,
}

/// Runs until SIGTERM or SIGINT; what there is to say goes to `say`.
///
/// SIGHUP has patterns saved, the device table read and file systems chosen anew by what their devices take,
/// or ends it if it began on a terminal; SIGUSR1 has what was seen and what came of it said.
///
/// # Errors
/// [`ServiceError`]. Whatever happens to one user's attendant is none.
pub fn serve(options: ServiceOptions, say: &mut dyn FnMut(Notice)) -> Result<(), ServiceError> {
    if !rights::may_listen() {
        return Err(system::Error::Refused { what: "files", source: Errno::PERM.into() }.into());
    }
    let lacking = rights::lacking();
    if !lacking.is_empty() {
        return Err(ServiceError::Rights { lacking });
    }
    let mut metrics = options.metrics.map(metrics).transpose()?;
    // Some file systems tell of opens by descriptors, and folders are kept open to name what is in them.
    descriptors::allow_all();
    let hangup = if options.on_terminal { Asked::End } else { Asked::Save };
    let signals = Signals::new(hangup)?;
    let folder = options.state.join("trees");
    let _lock = lock(&folder)?;
    let clock = Clock::real();
    let mut measured = Measured::new(&clock);
    let costs = measured.costs(&clock, say);
    for excluded in &options.scope.excluded {
        if let Err(error) = costs.local().stat(excluded) {
            let (excluded, why) = (excluded.display(), error.reason());
            say(format!("{excluded} is excluded, but cannot be looked at: {why}").into());
        }
    }
    let mut system = System::new(options.scope, costs)?;
    for (path, point) in system.on_others() {
        say(Notice::Below { path: path.to_owned(), point: point.to_owned() });
    }
    system.wake_by(signals.bell()?);
    rights::become_service()?;
    let (command, excluded) = (options.attendant, system.excluded().to_vec());
    let counts = metrics.is_some();
    let mut users = Users::new(Starting { command, folder, excluded, counts });
    let mut seen = Seen::default();
    let mut said: Vec<PathBuf> = system.watched().map(Path::to_owned).collect();
    say(Notice::Watching(said.clone()));
    loop {
        // File systems come and go, and one that answers late may refuse.
        let watched: Vec<PathBuf> = system.watched().map(Path::to_owned).collect();
        Notice::watching_anew(&said, &watched).into_iter().for_each(&mut *say);
        said = watched;
        if let Some(metrics) = metrics.as_mut().filter(|metrics| metrics.are_due(clock.now())) {
            metrics.write(&seen.metrics(&system, &mut users), clock.now(), &mut |line| {
                say(line.into());
            });
        }
        // Before the look, so that what happened before somebody asked is in the answer; a user whose
        // first program it was would be passed over otherwise.
        let asked: Vec<Asked> = iter::from_fn(|| signals.take()).collect();
        let patience = match (asked.is_empty(), users.has_waiting()) {
            (false, _) => Duration::ZERO,
            (true, true) => PATIENCE_BEHIND,
            (true, false) if users.has_leaving() => users::LEFT_MAX,
            (true, false) => PATIENCE,
        };
        let is_anew = measured.are_anew(clock.now()) || asked.contains(&Asked::Save);
        if is_anew {
            system.choose_anew(measured.costs(&clock, say));
        }
        let events = system.next(patience)?;
        seen.add(&events);
        users.regroup(system.regrouped());
        if let Err(error) = users.tell(events, clock.now()) {
            say(format!("programs are passed over for a minute: {error}").into());
        }
        if is_anew {
            users.tell_all(&Message::Reload);
        }
        for asked in asked {
            match asked {
                Asked::End => {
                    users.end(&clock);
                    users.take_untold().into_iter().map(Notice::from).for_each(&mut *say);
                    if let Some(metrics) = &mut metrics {
                        metrics.write(
                            &seen.metrics(&system, &mut users),
                            clock.now(),
                            &mut |line| say(line.into()),
                        );
                    }
                    return Ok(());
                }
                Asked::Save => users.tell_all(&Message::Save),
                Asked::Report => {
                    say(seen.report(&system, &users).into());
                    users.tell_all(&Message::Report);
                }
                Asked::Reap => {}
            }
            users.flush(clock.now());
        }
        users.take_untold().into_iter().map(Notice::from).for_each(&mut *say);
    }
}

fn metrics(path: PathBuf) -> Result<Metrics, ServiceError> {
    Metrics::new(path.clone()).map_err(|source| ServiceError::Metrics { path, source })
}

/// Which file systems are listened to, and which are not, and why.
fn heard(system: &System) -> (Vec<&Path>, HashMap<&Path, String>) {
    let unheard: HashMap<&Path, String> = system.unheard().collect();
    let heard = system.watched().filter(|path| !unheard.contains_key(path)).collect();
    (heard, unheard)
}

/// The same for people.
fn listening(system: &System) -> String {
    let (heard, unheard) = heard(system);
    let heard: Vec<_> = heard.into_iter().map(|path| path.display().to_string()).collect();
    let mut unheard: Vec<_> =
        unheard.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect();
    unheard.sort_unstable();
    let mut text = format!("file systems listened to: {}", heard.len());
    for (list, begin) in [(heard.join(" "), " ("), (unheard.join("; "), ", not (")] {
        if !list.is_empty() {
            text.extend([begin, &list, ")"]);
        }
    }
    text
}

/// Waits a moment for a service to end: one that was killed holds its lock until the kernel is done with it,
/// and a manager may have begun the next one by then.
fn wait_for_end(process: &str) {
    let process = process.parse().ok().and_then(Pid::from_raw);
    let end = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let Some(end) = end else { return };
    let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit));
}

/// Makes the folder of all users' patterns, and takes the place of the one service that has it.
fn lock(folder: &Path) -> Result<File, ServiceError> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ServiceError::State { path, source }
    };
    // A service manager's mask would keep users from the way to their folders; what is private is
    // made so by its own mode.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    // Users reach their own folder in it, and see no others.
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o711).create(folder).map_err(failed(folder))?;
    let open = fs::Permissions::from_mode(0o711);
    fs::set_permissions(folder, open).map_err(failed(folder))?;
    let path = folder.join("watch.lock");
    let mut opening = File::options();
    opening.write(true).create(true).truncate(false).mode(0o600);
    let mut file = opening.open(&path).map_err(failed(&path))?;
    let holder = || {
        let process = fs::read_to_string(&path).map(|text| text.trim().to_owned());
        process.ok().filter(|process| !process.is_empty())
    };
    let mut is_locked = file.try_lock();
    if let (Err(fs::TryLockError::WouldBlock), Some(process)) = (&is_locked, holder()) {
        wait_for_end(&process);
        is_locked = file.try_lock();
    }
    match is_locked {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let process = holder();
            return Err(ServiceError::Runs { lock: path, process });
        }
        Err(fs::TryLockError::Error(source)) => return Err(failed(&path)(source)),
    }
    // For people who ask who holds it; on a full disk they are not told.
    drop(file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())));
    Ok(file)
}

impl Measured {
    fn new(clock: &Clock) -> Self {
        let files = TableFiles::default();
        Self { changed: changed(files.own()), files, looked_at: clock.now() }
    }

    /// By the table as it is; what is wrong with it goes to `say`.
    fn costs(&self, clock: &Clock, say: &mut dyn FnMut(Notice)) -> Arc<Costs> {
        let costs = Costs::with(Local::default(), self.files.clone(), clock.clone());
        costs.warnings().iter().for_each(|warning| say(warning.to_string().into()));
        Arc::new(costs)
    }

    /// Whether the table was replaced since this was asked, as far as it was looked.
    fn are_anew(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.looked_at) < LOOKS_EVERY {
            return false;
        }
        self.looked_at = now;
        let changed = changed(self.files.own());
        std::mem::replace(&mut self.changed, changed) != changed
    }
}

fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}

impl Seen {
    fn add(&mut self, events: &[(Duration, Event)]) {
        self.events += events.len() as u64;
        for (_, event) in events {
            match event {
                Event::Opened { .. } => self.opens += 1,
                Event::Executed { .. } => self.programs += 1,
                Event::Lost { process: None } => self.losses += 1,
                _ => {}
            }
        }
    }

    /// As a monitor reads it.
    fn metrics(&self, system: &System, users: &mut Users) -> String {
        let (heard, unheard) = heard(system);
        let numbers = [
            ("nearfirst_events_total", "What was seen of programs.", self.events),
            ("nearfirst_executions_total", "Programs that were seen to begin.", self.programs),
            ("nearfirst_opened_files_total", "Files that were seen to be opened.", self.opens),
            (
                "nearfirst_event_losses_total",
                "Times that the kernel had no room for events: what ran then is not learned.",
                self.losses,
            ),
            (
                "nearfirst_lost_messages_total",
                "Events that attendants of users were too slow for.",
                users.lost(),
            ),
            (
                "nearfirst_waiting_bytes",
                "Events that wait until attendants of users take them.",
                users.waiting_bytes() as u64,
            ),
            ("nearfirst_attendants", "Users that are attended to.", users.attendants() as u64),
            (
                "nearfirst_failed_attendants_total",
                "Attendants that ended by themselves: their users are passed over for a minute.",
                users.failed(),
            ),
            (
                "nearfirst_heard_file_systems",
                "File systems that are listened to.",
                heard.len() as u64,
            ),
            (
                "nearfirst_unheard_file_systems",
                "File systems that should be listened to and are not.",
                unheard.len() as u64,
            ),
        ];
        metrics::text(&numbers, &users.counts())
    }

    fn report(&self, system: &System, users: &Users) -> String {
        format!(
            "saw events: {}, of these programs: {}, opens: {}; losses of events: {}, to slow attendants: {}; \
             users attended to: {}, {}",
            self.events,
            self.programs,
            self.opens,
            self.losses,
            users.lost(),
            users.attendants(),
            listening(system)
        )
    }
}
