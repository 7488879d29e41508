//! A program and all that it started, which end when nobody listens any more.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sync::lock;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open,
    waitid,
};
use tokio::process::{Child, ChildStdout, Command};
use tokio::runtime::Handle;

/// A program that was asked to end may tidy up so long.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
/// A program that has closed its output has ended a moment later, mostly: how long to look away at
/// first, and at most.
const LOOKS_AFTER: Duration = Duration::from_millis(1);
const LOOKS_AFTER_MAX: Duration = Duration::from_millis(50);

/// The groups that were started and did not end.
#[derive(Debug, Default)]
pub(super) struct Running {
    groups: Mutex<Groups>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Groups {
    alive: Vec<Arc<Leader>>,
    /// Those whose leaders have ended: what these left behind was asked to end.
    left: Vec<Arc<Leader>>,
    /// How many are being started, which may take for ever.
    starting: usize,
    /// Nothing is started any more.
    closed: bool,
}

impl Running {
    fn remove(&self, leader: &Arc<Leader>) {
        let mut groups = lock(&self.groups);
        let is_another = |other: &Arc<Leader>| !Arc::ptr_eq(other, leader);
        groups.alive.retain(is_another);
        groups.left.retain(is_another);
        drop(groups);
        self.ended.notify_all();
    }

    fn leave(&self, leader: &Arc<Leader>) {
        let mut groups = lock(&self.groups);
        groups.alive.retain(|other| !Arc::ptr_eq(other, leader));
        groups.left.push(Arc::clone(leader));
        drop(groups);
        self.ended.notify_all();
    }

    /// Asks all to end, and then makes them.
    pub(super) fn end_all(&self) {
        let mut groups = lock(&self.groups);
        groups.closed = true;
        groups.signal(Signal::TERM);
        let (mut waited, mut pause) = (Duration::ZERO, LOOKS_AFTER);
        while groups.are_alive() && waited < ENDS_WITHIN {
            let changed = self.ended.wait_timeout_while(groups, pause, |groups| !groups.is_over());
            groups = changed.unwrap_or_else(PoisonError::into_inner).0;
            waited += pause;
            pause = (2 * pause).min(LOOKS_AFTER_MAX);
        }
        groups.signal(Signal::KILL);
    }
}

impl Groups {
    fn signal(&self, signal: Signal) {
        self.alive.iter().chain(&self.left).for_each(|leader| leader.signal(signal));
    }

    fn is_over(&self) -> bool {
        self.starting == 0 && self.alive.is_empty()
    }

    /// Whether leaders live or begin to, as far as can be seen: nobody may be there to tell of their ends.
    fn are_alive(&mut self) -> bool {
        for leader in std::mem::take(&mut self.alive) {
            match leader.ended() {
                Ok(None) => self.alive.push(leader),
                Ok(Some(_)) => self.left.push(leader),
                Err(_) => {}
            }
        }
        !self.is_over()
    }
}

/// A child that leads a process group.
#[derive(Debug)]
struct Leader {
    group: Pid,
    /// The child, and no other that has its number once somebody waited for it; `None` where the system
    /// does not know such, or a sandbox refuses it.
    child: Option<OwnedFd>,
}

impl Leader {
    /// Of a child that was started this moment.
    ///
    /// # Errors
    /// There is no room for its descriptor; its group was killed.
    fn new(group: Pid) -> rustix::io::Result<Self> {
        let child = match pidfd_open(group, PidfdFlags::empty()) {
            Ok(child) => Some(child),
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => None,
            Err(error) => {
                kill_process_group(group, Signal::KILL).ok();
                return Err(error);
            }
        };
        Ok(Self { group, child })
    }

    fn looked_at(&self, how: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        let child = self.child.as_ref().map(|child| WaitId::PidFd(child.as_fd()));
        let child = child.unwrap_or(WaitId::Pid(self.group));
        waitid(child, how | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
    }

    /// How it has ended, if it has; it is not waited for.
    ///
    /// # Errors
    /// Somebody waited for it: its number may be another's.
    fn ended(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        self.looked_at(WaitIdOptions::EXITED)
    }

    /// Signals its group, as long as its number is its own.
    fn signal(&self, signal: Signal) {
        if self.ended().is_ok() {
            // It may have ended this moment.
            kill_process_group(self.group, signal).ok();
        }
    }
}

/// The process group of a child that leads one.
///
/// The child is not waited for before its group is signalled for the last
/// time: as long as it is not, its number cannot become another's. Its program may wait for any child;
/// then nothing is signalled any more.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<(Child, Arc<Leader>)>,
    runtime: Handle,
    running: Arc<Running>,
}

impl Group {
    /// Starts a command as the leader of its own group; what it prints comes beside.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Interrupted`] once all are to end.
    pub(super) fn start(
        command: &mut Command,
        running: &Arc<Running>,
    ) -> io::Result<(Self, ChildStdout)> {
        let mut groups = lock(&running.groups);
        if groups.closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        groups.starting += 1;
        drop(groups);
        let child = command.process_group(0).spawn();
        let pid = child.as_ref().ok().and_then(Child::id);
        let pid = pid.and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = pid.map(|pid| Leader::new(pid).map(Arc::new)).transpose();
        let mut groups = lock(&running.groups);
        groups.starting -= 1;
        groups.alive.extend(leader.iter().flatten().cloned());
        let closed = groups.closed;
        drop(groups);
        running.ended.notify_all();
        let mut child = child?;
        let printed = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let leader = leader?.map(|leader| (child, leader));
        let group = Self { leader, runtime: Handle::current(), running: Arc::clone(running) };
        // So that none escapes: it ends as this is dropped.
        if closed { Err(io::ErrorKind::Interrupted.into()) } else { Ok((group, printed)) }
    }

    /// Whether it is stopped because it is in the background of a terminal and would read from it.
    pub(super) fn is_stopped_at_terminal(&self) -> bool {
        let Some((_, leader)) = &self.leader else { return false };
        let stopped = leader.looked_at(WaitIdOptions::STOPPED).ok().flatten();
        let signal = stopped.and_then(|stopped| stopped.stopping_signal());
        [Signal::TTIN, Signal::TTOU].iter().any(|stops| Some(stops.as_raw()) == signal)
    }

    /// How the leader ended, when it does; what it left behind ends with it.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        let Some((_, leader)) = &self.leader else {
            return Err(io::Error::other("it was waited for before"));
        };
        let (leader, mut pause) = (Arc::clone(leader), LOOKS_AFTER);
        loop {
            match leader.ended() {
                Ok(Some(ended)) => {
                    self.running.leave(&leader);
                    self.end();
                    return Ok(status(&ended));
                }
                Ok(None) => tokio::time::sleep(pause).await,
                Err(error) => {
                    self.running.remove(&leader);
                    self.leader = None;
                    return Err(error.into());
                }
            }
            pause = (2 * pause).min(LOOKS_AFTER_MAX);
        }
    }

    /// Asks all of the group to end, and has those killed that do not.
    fn end(&mut self) {
        let Some((child, leader)) = self.leader.take() else { return };
        leader.signal(Signal::TERM);
        let mut doomed = Doomed(Some((child, leader)), Arc::clone(&self.running));
        // If the runtime ends before this does, it drops `doomed` and with it the group.
        self.runtime.spawn(async move {
            tokio::time::sleep(ENDS_WITHIN).await;
            if let Some(mut child) = doomed.kill() {
                child.wait().await.ok();
            }
        });
    }
}

fn status(ended: &WaitIdStatus) -> ExitStatus {
    const CORE: i32 = 0x80;
    let code = ended.exit_status().map(|code| code << 8);
    let core = if ended.dumped() { CORE } else { 0 };
    ExitStatus::from_raw(code.or(ended.terminating_signal()).unwrap_or_default() | core)
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// A group that was asked to end, and is killed if it has not by the time this is dropped.
struct Doomed(Option<(Child, Arc<Leader>)>, Arc<Running>);

impl Doomed {
    fn kill(&mut self) -> Option<Child> {
        let (child, leader) = self.0.take()?;
        leader.signal(Signal::KILL);
        self.1.remove(&leader);
        Some(child)
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_ended_is_seen_though_nobody_tells_of_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let running = Arc::default();
        let _entered = runtime.enter();
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::piped());
        let group = Group::start(&mut command, &running).expect("started");
        running.end_all();
        assert!(lock(&running.groups).alive.is_empty());
        drop(group);
    }

    #[test]
    fn who_ends_all_does_not_wait_for_ever_for_one_that_is_being_started() {
        let running = Running::default();
        lock(&running.groups).starting = 1;
        running.end_all();
        assert!(lock(&running.groups).closed);
    }
}
