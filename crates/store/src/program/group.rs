//! A program and all that it started, which end when nobody listens any more.

use std::collections::HashSet;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStdout, Command};
use tokio::runtime::Handle;

/// A program that was asked to end may tidy up so long.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// The groups that were started and did not end.
#[derive(Debug, Default)]
pub(super) struct Running {
    groups: Mutex<Groups>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Groups {
    alive: HashSet<Pid>,
    /// Nothing is started any more.
    closed: bool,
}

impl Running {
    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, group: Pid) {
        self.groups().alive.remove(&group);
        self.ended.notify_all();
    }

    /// Asks all to end, and then makes them.
    pub(super) fn end_all(&self) {
        let mut groups = self.groups();
        groups.closed = true;
        groups.signal(Signal::TERM);
        let waited =
            self.ended.wait_timeout_while(groups, ENDS_WITHIN, |groups| !groups.alive.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.signal(Signal::KILL);
    }
}

impl Groups {
    fn signal(&self, signal: Signal) {
        for &group in &self.alive {
            // It may have ended this moment.
            kill_process_group(group, signal).ok();
        }
    }
}

/// The process group of a child that leads one.
///
/// The child is not waited for before its group is signalled for the last
/// time: as long as it is not, its number cannot become another's.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<(Child, Pid)>,
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
        let mut groups = running.groups();
        if groups.closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // Held until its group is known, so that none escapes.
        let mut child = command.process_group(0).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        groups.alive.extend(pid);
        drop(groups);
        let printed = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let leader = pid.map(|pid| (child, pid));
        let group = Self { leader, runtime: Handle::current(), running: Arc::clone(running) };
        Ok((group, printed))
    }

    /// Whether it is stopped because it is in the background of a terminal and would read from it.
    pub(super) fn is_stopped_at_terminal(&self) -> bool {
        let Some((_, leader)) = &self.leader else { return false };
        let looks = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stopped = waitid(WaitId::Pid(*leader), looks).ok().flatten();
        let signal = stopped.and_then(|stopped| stopped.stopping_signal());
        [Signal::TTIN, Signal::TTOU].iter().any(|stops| Some(stops.as_raw()) == signal)
    }

    /// How the leader ended, when it does.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        let Some((child, group)) = &mut self.leader else {
            return Err(io::Error::other("it was waited for before"));
        };
        let status = child.wait().await;
        self.running.remove(*group);
        self.leader = None;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some((child, pid)) = self.leader.take() else { return };
        kill_process_group(pid, Signal::TERM).ok();
        let mut doomed = Doomed(Some((child, pid)), Arc::clone(&self.running));
        // If the runtime ends before this does, it drops `doomed` and with it the group.
        self.runtime.spawn(async move {
            tokio::time::sleep(ENDS_WITHIN).await;
            if let Some(mut child) = doomed.kill() {
                child.wait().await.ok();
            }
        });
    }
}

/// A group that was asked to end, and is killed if it has not by the time this is dropped.
struct Doomed(Option<(Child, Pid)>, Arc<Running>);

impl Doomed {
    fn kill(&mut self) -> Option<Child> {
        let (child, pid) = self.0.take()?;
        kill_process_group(pid, Signal::KILL).ok();
        self.1.remove(pid);
        Some(child)
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        drop(self.kill());
    }
}
