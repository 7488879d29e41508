//! The device model: when is a request answered, and how.
//!
//! Pure: takes `now`, returns delays. The model has these parts.
//!
//! - A device has `parallel` servers (one, if nothing is said). A request takes the server that is
//!   free first, waits for it, and keeps it for `seek` (if it seeks) + bytes / `bandwidth`. So
//!   concurrent requests queue as on a disk, and share its bandwidth.
//! - `latency` comes on top and keeps nothing busy: requests that overlap wait for it together.
//! - A read seeks unless it continues a stream: it begins within `slack` (plus its own length) of
//!   where an earlier read of that file ended. A file has `streams` remembered ends; the least
//!   recently continued one is forgotten. The slack takes in readahead windows that arrive out of
//!   order, and small steps back and forth, which a drive's own buffer would serve.
//! - `jitter` scales each request's time as a whole.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::rule::{Fault, Opens, Profile};

/// Files whose streams a device remembers; beyond it the table starts anew, and each costs one seek.
const FILES_MAX: usize = 65_536;

/// How a read ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Whole,
    Short,
    Fail,
}

/// When a read ends (`None`: it hangs), how, and whether it was charged a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) due: Option<Duration>,
    pub(crate) verdict: Verdict,
    pub(crate) seek: bool,
}

#[derive(Debug)]
pub(crate) struct Device {
    profile: Profile,
    seed: u64,
    chance: Chance,
    /// Until when each server is busy.
    servers: Vec<Duration>,
    /// Ends of the streams of each file, the most recently continued last.
    streams: HashMap<u64, Vec<u64>>,
    /// Files that were opened, where only the first open is a request.
    opened: HashSet<u64>,
    reads: u64,
    looks: u64,
}

impl Device {
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        Self {
            chance: Chance(seed),
            servers: vec![Duration::ZERO; profile.parallel.max(1)],
            streams: HashMap::new(),
            opened: HashSet::new(),
            reads: 0,
            looks: 0,
            seed,
            profile,
        }
    }

    /// Forgets streams, queue and the numbering of reads and look-ups.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.profile.clone(), self.seed);
    }

    pub(crate) fn read(&mut self, now: Duration, file: u64, offset: u64, length: u64) -> Answer {
        self.reads += 1;
        let mut verdict = Verdict::Whole;
        let mut extra = Some(Duration::ZERO);
        for fault in &self.profile.faults {
            match *fault {
                Fault::Fail(read) if read == self.reads => verdict = Verdict::Fail,
                Fault::FailFrom(read) if read <= self.reads => verdict = Verdict::Fail,
                Fault::FailAt(at) if (offset..offset.saturating_add(length)).contains(&at) => {
                    verdict = Verdict::Fail;
                }
                Fault::Short(read) if read == self.reads => verdict = Verdict::Short,
                Fault::Stall { read, time } if read == self.reads => extra = time,
                _ => {}
            }
        }
        let seek = self.moves_head(file, offset, length);
        let done = self.serve(now, seek, length);
        let due = if self.profile.hang { None } else { extra.map(|extra| done + extra) };
        Answer { due, verdict, seek }
    }

    /// When a write ends; `None`: it hangs.
    pub(crate) fn write(
        &mut self,
        now: Duration,
        file: u64,
        offset: u64,
        length: u64,
    ) -> Option<Duration> {
        if self.profile.hang {
            return None;
        }
        if !self.profile.slow_writes {
            return Some(now);
        }
        let seek = self.moves_head(file, offset, length);
        Some(self.serve(now, seek, length))
    }

    /// Whether the next look-up is late.
    pub(crate) fn is_late(&mut self) -> bool {
        self.looks += 1;
        self.profile.faults.contains(&Fault::Late(self.looks))
    }

    /// When a request without file data ends; `None`: it hangs.
    pub(crate) fn metadata(&self, now: Duration) -> Option<Duration> {
        (!self.profile.hang).then(|| now + self.profile.metadata)
    }

    /// When a file is closed; `None`: it hangs.
    pub(crate) fn close(&self, now: Duration) -> Option<Duration> {
        (!self.profile.hang).then_some(now)
    }

    /// Whether opening a file is a request at all.
    pub(crate) fn is_asked_to_open(&mut self, file: u64) -> bool {
        match self.profile.opens {
            Opens::Each => true,
            Opens::First => self.opened.insert(file),
            Opens::Never => false,
        }
    }

    fn serve(&mut self, now: Duration, seek: bool, length: u64) -> Duration {
        let scale = 1.0 + self.profile.jitter * self.chance.next_signed();
        let transfer = self.profile.bandwidth.map_or(0.0, |bandwidth| length as f64 / bandwidth);
        let seek = if seek { self.profile.seek } else { Duration::ZERO };
        let busy = (seek + Duration::from_secs_f64(transfer)).mul_f64(scale);
        let server = self.servers.iter_mut().min().expect("a device has a server");
        *server = now.max(*server) + busy;
        *server + self.profile.latency.mul_f64(scale)
    }

    fn moves_head(&mut self, file: u64, offset: u64, length: u64) -> bool {
        if self.streams.len() >= FILES_MAX && !self.streams.contains_key(&file) {
            self.streams.clear();
        }
        let ends = self.streams.entry(file).or_default();
        let reach = self.profile.slack.saturating_add(length);
        let end = offset + length;
        if let Some(at) = ends.iter().rposition(|&stream| stream.abs_diff(offset) <= reach) {
            let stream = ends.remove(at);
            ends.push(stream.max(end));
            return false;
        }
        if ends.len() >= self.profile.streams.max(1) {
            ends.remove(0);
        }
        ends.push(end);
        true
    }
}

/// A seeded generator (`SplitMix64`, Steele, Lea & Flood 2014).
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    /// Evenly from `-1.0..1.0`.
    fn next_signed(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const KIB: u64 = 1024;

    fn device(profile: &str) -> Device {
        Device::new(profile.parse().unwrap(), 7)
    }

    /// Milliseconds until the read is answered, rounded down.
    fn ms(device: &mut Device, now: Duration, file: u64, offset: u64, length: u64) -> u128 {
        let due = device.read(now, file, offset, length).due.unwrap();
        due.checked_sub(now).unwrap().as_millis()
    }

    #[test]
    fn a_stream_pays_one_seek_and_then_only_bandwidth() {
        let mut disk = device("seek=8ms, bandwidth=1M");
        assert_eq!(ms(&mut disk, MS, 1, 0, 1000), 9);
        assert_eq!(ms(&mut disk, 100 * MS, 1, 1000, 1000), 1);
        assert_eq!(ms(&mut disk, 200 * MS, 2, 0, 1000), 9);
    }

    #[test]
    fn concurrent_requests_queue_unless_the_device_is_parallel() {
        let mut disk = device("seek=8ms");
        assert_eq!(ms(&mut disk, MS, 1, 0, 1), 8);
        assert_eq!(ms(&mut disk, MS, 2, 0, 1), 16);
        let mut array = device("seek=8ms, parallel=2");
        assert_eq!(ms(&mut array, MS, 1, 0, 1), 8);
        assert_eq!(ms(&mut array, MS, 2, 0, 1), 8);
        assert_eq!(ms(&mut array, MS, 3, 0, 1), 16);
    }

    #[test]
    fn latency_overlaps() {
        let mut wire = device("latency=30ms, bandwidth=1M");
        assert_eq!(ms(&mut wire, MS, 1, 0, 1000), 31);
        assert_eq!(ms(&mut wire, MS, 1, 1000, 1000), 32);
    }

    #[test]
    fn windows_out_of_order_stay_in_their_stream() {
        let mut disk = device("seek=8ms, streams=1");
        let window = 128 * KIB;
        let seeks: Vec<bool> = [0, 2, 1, 3, 100, 101, 4]
            .iter()
            .map(|n| disk.read(MS, 1, n * window, window).seek)
            .collect();
        assert_eq!(seeks, [true, false, false, false, true, false, true]);
    }

    #[test]
    fn as_many_streams_are_followed_as_asked() {
        let far = |n: u64| n * 1024 * KIB;
        let mut two = device("seek=8ms, streams=2, slack=0");
        assert!(two.read(MS, 1, far(1), KIB).seek);
        assert!(two.read(MS, 1, far(9), KIB).seek);
        assert!(!two.read(MS, 1, far(1) + KIB, KIB).seek);
        assert!(!two.read(MS, 1, far(9) + KIB, KIB).seek);
        assert!(two.read(MS, 1, far(20), KIB).seek);
        assert!(two.read(MS, 1, far(1) + 2 * KIB, KIB).seek, "the oldest stream is forgotten");
    }

    #[test]
    fn faults_strike_the_read_they_name() {
        let mut bad = device("fail=2, short=3, stall=4:2, stall=5:forever, fail_at=1000, fail=7+");
        let mut next = |offset| bad.read(MS, 1, offset, 10);
        assert_eq!(next(0).verdict, Verdict::Whole);
        assert_eq!(next(0).verdict, Verdict::Fail);
        assert_eq!(next(0).verdict, Verdict::Short);
        assert_eq!(next(0).due, Some(MS + Duration::from_secs(2)));
        assert_eq!(next(0).due, None);
        assert_eq!(next(995).verdict, Verdict::Fail);
        assert_eq!(next(0).verdict, Verdict::Fail);
        assert_eq!(next(0).verdict, Verdict::Fail);
        bad.reset();
        assert_eq!(bad.read(MS, 1, 0, 10).verdict, Verdict::Whole);
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_repeats_with_its_seed() {
        let run = |seed| -> Vec<u128> {
            let mut disk = Device::new("seek=10ms, jitter=20%".parse().unwrap(), seed);
            (0..1000).map(|n| ms(&mut disk, Duration::from_secs(n), n, 0, 1)).collect()
        };
        let times = run(1);
        assert!(times.iter().all(|ms| (8..=12).contains(ms)));
        assert!(times.iter().any(|&ms| ms < 9) && times.iter().any(|&ms| ms >= 11));
        assert_eq!(times, run(1));
        assert_ne!(times, run(2));
    }
}
