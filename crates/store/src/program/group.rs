//! A program and all that it started, which end when nobody listens any more.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::runtime::Handle;

/// A program that was asked to end may tidy up so long.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// The process group of a child that leads one.
///
/// The child is not waited for before its group is signalled for the last
/// time: as long as it is not, its number cannot become another's.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<(Child, Pid)>,
    runtime: Handle,
}

impl Group {
    /// Of a child that was started as the leader of its own group.
    pub(super) fn led_by(child: Child) -> Self {
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { leader: pid.map(|pid| (child, pid)), runtime: Handle::current() }
    }

    /// How the leader ended, when it does.
    pub(super) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        let Some((child, _)) = &mut self.leader else {
            return Err(std::io::Error::other("it was waited for before"));
        };
        let status = child.wait().await;
        self.leader = None;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some((child, pid)) = self.leader.take() else { return };
        kill_process_group(pid, Signal::TERM).ok();
        let mut doomed = Doomed(Some((child, pid)));
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
struct Doomed(Option<(Child, Pid)>);

impl Doomed {
    fn kill(&mut self) -> Option<Child> {
        let (child, pid) = self.0.take()?;
        kill_process_group(pid, Signal::KILL).ok();
        Some(child)
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        drop(self.kill());
    }
}
