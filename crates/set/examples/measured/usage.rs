//! What a run of an example takes, printed as JSON for `bench/`.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use fetch::engine::{Engine, EngineOptions};
use rustix::time::{ClockId, clock_gettime};
use store::{Clock, Costs, Stores, StoresOptions};

/// An engine as it comes: nothing is tuned for the experiment.
pub(crate) fn engine() -> io::Result<Engine> {
    let costs = Arc::new(Costs::load());
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
    Engine::new(stores, costs, EngineOptions::default())
}

/// Members and bytes so far, the time they were waited for, and when the first was whole.
#[derive(Debug)]
pub(crate) struct Usage {
    clock: Clock,
    first: Option<Duration>,
    waited: Duration,
    members: u64,
    bytes: u64,
}

impl Usage {
    /// Begins the time.
    pub(crate) fn begin() -> Self {
        let (clock, waited) = (Clock::real(), Duration::ZERO);
        Self { clock, first: None, waited, members: 0, bytes: 0 }
    }

    /// What `wait` gives; its time counts as waiting.
    pub(crate) fn waiting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let begin = self.clock.now();
        let result = wait();
        self.waited += self.clock.now().saturating_sub(begin);
        result
    }

    /// So many bytes of a member were read.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// A member was read whole.
    pub(crate) fn member(&mut self) {
        self.members += 1;
        self.first.get_or_insert_with(|| self.clock.now());
    }

    /// Writes it all to standard output.
    pub(crate) fn print(&self) -> io::Result<()> {
        let seconds = self.clock.now().as_secs_f64();
        let first = self.first.unwrap_or_default().as_secs_f64();
        let waited = self.waited.as_secs_f64();
        let (members, bytes) = (self.members, self.bytes);
        let (cpu, peak) = (cpu_time(ClockId::ProcessCPUTime).as_secs_f64(), peak_bytes()?);
        writeln!(
            io::stdout().lock(),
            r#"{{"seconds": {seconds}, "first_s": {first}, "waited_s": {waited}, "members": {members}, "bytes": {bytes}, "cpu_s": {cpu}, "peak_bytes": {peak}}}"#
        )
    }
}

/// Processor time of this process or thread.
pub(crate) fn cpu_time(of: ClockId) -> Duration {
    clock_gettime(of).try_into().expect("it begins at zero")
}

/// The most memory this process had.
fn peak_bytes() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}
