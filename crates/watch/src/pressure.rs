//! Whether memory is short: then nothing is fetched on a guess.

use std::fs;
use std::time::Duration;

/// How long an answer holds: two small files of `/proc` are read for it.
const HOLDS: Duration = Duration::from_millis(250);
/// Share of the last ten seconds in which some task waited for memory, in percent.
const STALLED_PERCENT: f32 = 5.0;
/// Below this share of all memory that programs could still have, in percent.
const AVAILABLE_PERCENT: u64 = 5;

/// What the kernel last said of memory.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    asked: Option<Duration>,
    is_high: bool,
}

impl Pressure {
    pub(crate) fn is_high(&mut self, now: Duration) -> bool {
        if self.asked.is_none_or(|asked| now.saturating_sub(asked) >= HOLDS) {
            self.asked = Some(now);
            let read = |path| fs::read_to_string(path).unwrap_or_default();
            self.is_high =
                stalls(&read("/proc/pressure/memory")) || is_used_up(&read("/proc/meminfo"));
        }
        self.is_high
    }
}

/// Whether tasks wait for memory, by a text such as `some avg10=0.00 avg60=0.00 …`; a kernel
/// without it says nothing.
fn stalls(pressure: &str) -> bool {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some avg10="));
    let percent = some.and_then(|rest| rest.split(' ').next()?.parse::<f32>().ok());
    percent.is_some_and(|percent| percent > STALLED_PERCENT)
}

/// Whether little is left, by `/proc/meminfo`.
fn is_used_up(meminfo: &str) -> bool {
    let kibibytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let shares = kibibytes("MemAvailable:").zip(kibibytes("MemTotal:"));
    shares.is_some_and(|(available, total)| available < total / 100 * AVAILABLE_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_wait_for_memory_are_pressure() {
        let said = |avg10: &str| {
            format!("some avg10={avg10} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 total=0\n")
        };
        assert!(!stalls(&said("0.00")));
        assert!(stalls(&said("12.34")));
        assert!(!stalls(""));
    }

    #[test]
    fn little_available_memory_is_pressure() {
        let said = |available: u64| {
            format!("MemTotal:       1000000 kB\nMemFree: 1 kB\nMemAvailable:   {available} kB\n")
        };
        assert!(!is_used_up(&said(500_000)));
        assert!(is_used_up(&said(40_000)));
        assert!(!is_used_up("what no kernel says"));
    }
}
