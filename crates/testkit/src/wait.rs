//! Waiting for what another process or thread brings about.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::OFlags;

const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// Longer than anything takes on a busy machine.
const A_MINUTE: Duration = Duration::from_mins(1);
/// Share of the last ten seconds, as `store::Pressure` has it.
const STALLED_PERCENT: f32 = 5.0;
const CGROUPS: &str = "/sys/fs/cgroup";

/// Looks again and again until `happened`.
///
/// Panics if it has not within a minute. For events of other processes and threads; where code takes
/// a clock, give it one that is advanced instead.
#[track_caller]
pub fn until(what: &str, happened: impl FnMut() -> bool) {
    assert!(happens_within(A_MINUTE, happened), "it has not happened in a minute: {what}");
}

/// The writing end of a FIFO, once somebody waits to read it.
#[track_caller]
pub fn writer_of(fifo: impl AsRef<Path>) -> File {
    let fifo = fifo.as_ref();
    let mut options = File::options();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut writer = None;
    until(&format!("{} is read", fifo.display()), || {
        writer = options.open(fifo).ok();
        writer.is_some()
    });
    writer.expect("it was opened")
}

/// Waits for a process to end, as [`until`] does.
#[track_caller]
pub fn end_of(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("it ends", || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    status.expect("it has ended")
}

/// Waits, but not for ever, until the machine and the groups of this process have memory for what is
/// fetched on a guess: nothing is while some task there has lately waited for memory for longer.
pub fn until_memory_suffices() {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let group = group.map(|group| Path::new(CGROUPS).join(group));
    let groups = group.iter().flat_map(|group| group.ancestors());
    let groups = groups.take_while(|folder| folder.starts_with(CGROUPS));
    let mut tellers: Vec<_> = groups.map(|folder| folder.join("memory.pressure")).collect();
    tellers.push("/proc/pressure/memory".into());
    happens_within(A_MINUTE, || {
        !tellers.iter().any(|teller| is_stalled(&fs::read_to_string(teller).unwrap_or_default()))
    });
}

fn is_stalled(told: &str) -> bool {
    let percent = told.strip_prefix("some avg10=").and_then(|rest| rest.split(' ').next());
    percent.and_then(|percent| percent.parse().ok()).is_some_and(|it: f32| it > STALLED_PERCENT)
}

/// Looks again and again until `happened`, for so long; whether it has.
pub fn happens_within(patience: Duration, mut happened: impl FnMut() -> bool) -> bool {
    let (_silent, waiting) = mpsc::channel::<()>();
    (0..patience.as_millis() / LOOKS_EVERY.as_millis()).any(|_| {
        let has = happened();
        if !has {
            waiting.recv_timeout(LOOKS_EVERY).ok();
        }
        has
    })
}
