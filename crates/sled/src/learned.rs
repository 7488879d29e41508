//! What one process learned of devices, apart from what was known of them.

use std::collections::{BTreeMap, VecDeque};

use crate::quantile::SAMPLES_MAX;
use crate::samples::{Observation, Samples, is_positive};
use crate::table::Entry;
use crate::{Device, DeviceTable};

/// Reads that are kept of a device until those are forgotten that would not stay in a table either. At least half
/// are: it keeps the last [`SAMPLES_MAX`] latencies, and bandwidths of each size.
const READS_MAX: usize = 8 * SAMPLES_MAX;
/// Calibrations kept that do not stand alone: each has a read at least.
const ANEW_MAX: usize = SAMPLES_MAX;

/// What was learned of devices, which a table takes over as it is by then ([`DeviceTable::learn`]).
#[derive(Debug, Clone, Default)]
pub struct Learned {
    lessons: BTreeMap<Device, Lesson>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Lesson {
    /// What was found or given, and when, in seconds of Unix time.
    anew: Vec<(u64, Anew)>,
    /// What reads took that still count, the latest last, each with when it was.
    reads: VecDeque<(u64, Observation)>,
    /// Whether opening a file anew was seen to leave what was in memory of it.
    keeps_cache: bool,
    updated: u64,
}

#[derive(Debug, Clone)]
enum Anew {
    /// By a calibration.
    Found { samples: Box<Samples>, keeps_cache: Option<bool>, stands_alone: bool },
    /// By somebody's word.
    Given { latency_s: f64, bandwidth: f64 },
}

impl Learned {
    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.lessons.is_empty()
    }

    /// Learns from a read at `now`, in seconds of Unix time, as [`DeviceTable::observe`] does.
    pub fn observe(&mut self, device: &Device, seen: Observation, now: u64) {
        if seen.teaches() {
            let lesson = self.lessons.entry(device.clone()).or_default();
            lesson.reads.push_back((now, seen));
            lesson.keep_latest();
            lesson.updated = now;
        }
    }

    /// Takes over what was set at `now`, in seconds of Unix time, as [`DeviceTable::fill`] does.
    pub fn fill(&mut self, device: &Device, latency_s: f64, bandwidth: f64, now: u64) {
        if [latency_s, bandwidth].into_iter().all(is_positive) {
            let lesson = self.lessons.entry(device.clone()).or_default();
            lesson.forget_costs();
            lesson.anew.push((now, Anew::Given { latency_s, bandwidth }));
            lesson.updated = now;
        }
    }

    /// Takes over what a calibration found at `now`, in seconds of Unix time. Where it stands alone
    /// ([`DeviceTable::renew`]) earlier reads count no more.
    pub fn renew(&mut self, device: &Device, found: &DeviceTable, stands_alone: bool, now: u64) {
        let Some(Entry { samples, keeps_cache, .. }) = found.entry(device).cloned() else { return };
        let lesson = self.lessons.entry(device.clone()).or_default();
        if stands_alone {
            lesson.forget_reads();
        }
        let samples = Box::new(samples);
        lesson.anew.push((now, Anew::Found { samples, keeps_cache, stands_alone }));
        lesson.keep_latest();
        lesson.updated = now;
    }

    /// Notes that opening a file of `device` anew was seen to leave in memory what was there of it.
    pub fn saw_cache_kept(&mut self, device: &Device) {
        self.lessons.entry(device.clone()).or_default().keeps_cache = true;
    }

    /// Adds what was learned later.
    pub fn add(&mut self, later: Self) {
        for (device, lesson) in later.lessons {
            self.lessons.entry(device).or_default().add(lesson);
        }
    }

    /// The devices of whose costs something was learned.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        let of_costs = self.lessons.iter().filter(|(_, lesson)| lesson.is_of_costs());
        of_costs.map(|(device, _)| device)
    }

    pub(crate) fn into_lessons(self) -> impl Iterator<Item = (Device, Lesson)> {
        self.lessons.into_iter()
    }
}

impl Lesson {
    fn forget_costs(&mut self) {
        self.anew.clear();
        self.reads.clear();
    }

    /// What a calibration that stands alone comes after counts no more, but for somebody's word: without that
    /// it might not stand alone.
    fn forget_reads(&mut self) {
        self.anew.retain(|(_, anew)| matches!(anew, Anew::Given { .. }));
        self.reads.clear();
    }

    fn keep_latest(&mut self) {
        self.anew.drain(..self.anew.len().saturating_sub(ANEW_MAX));
        if self.reads.len() <= READS_MAX {
            return;
        }
        let (mut latencies, mut bandwidths) = (0, [0; 3]);
        let mut counts = |seen: &Observation| {
            let latency = seen.first_byte.map(|_| &mut latencies);
            let bandwidth = seen.bandwidth().map(|(class, _)| &mut bandwidths[class as usize]);
            let counted = [latency, bandwidth].into_iter().flatten();
            counted.fold(false, |counts, of_kind| {
                *of_kind += 1;
                counts || *of_kind <= SAMPLES_MAX
            })
        };
        let mut kept: VecDeque<_> = VecDeque::with_capacity(READS_MAX);
        while let Some(read) = self.reads.pop_back() {
            if counts(&read.1) {
                kept.push_front(read);
            }
        }
        self.reads = kept;
    }

    fn add(&mut self, later: Self) {
        let mut anew = later.anew.iter().map(|(_, anew)| anew);
        if anew.clone().any(|anew| matches!(anew, Anew::Given { .. })) {
            self.forget_costs();
        } else if anew.any(|anew| matches!(anew, Anew::Found { stands_alone: true, .. })) {
            self.forget_reads();
        }
        self.anew.extend(later.anew);
        self.reads.extend(later.reads);
        self.keep_latest();
        self.keeps_cache |= later.keeps_cache;
        self.updated = self.updated.max(later.updated);
    }

    pub(crate) fn is_of_costs(&self) -> bool {
        !self.anew.is_empty() || !self.reads.is_empty()
    }

    /// Somebody else knows whether opening a file leaves what is in memory of it.
    pub(crate) fn saw_no_cache(&mut self) {
        self.keeps_cache = false;
    }

    /// Adds it to what is known at `now`, in seconds of Unix time: by the order of time, so that what was
    /// measured meanwhile is not forgotten for it.
    pub(crate) fn teach(self, known: &mut Entry, now: u64) {
        let known_at = known.dated_by(now);
        let anew = self.anew.into_iter().map(|(at, anew)| (at, Step::Anew(anew)));
        let reads = self.reads.into_iter().map(|(at, seen)| (at, Step::Read(seen)));
        let mut steps: Vec<_> = anew.chain(reads).collect();
        steps.sort_by_key(|(at, _)| *at);
        let late = steps.split_off(steps.partition_point(|(at, _)| *at < known_at));
        let mut early = Entry::default();
        for (_, step) in steps {
            step.teach(&mut early);
        }
        early.samples.extend(std::mem::take(&mut known.samples));
        known.samples = early.samples;
        known.keeps_cache = known.keeps_cache.or(early.keeps_cache);
        for (_, step) in late {
            step.teach(known);
        }
        // What somebody wrote, or a trial showed, stands.
        known.keeps_cache = known.keeps_cache.or(self.keeps_cache.then_some(true));
        if self.updated > 0 {
            known.updated = self.updated.max(known_at);
        }
    }
}

/// Something that was learned.
enum Step {
    Anew(Anew),
    Read(Observation),
}

impl Step {
    fn teach(self, known: &mut Entry) {
        match self {
            Self::Anew(Anew::Found { samples, keeps_cache, .. }) => {
                known.samples.renew(*samples);
                known.keeps_cache = keeps_cache.or(known.keeps_cache);
            }
            Self::Anew(Anew::Given { latency_s, bandwidth }) => {
                known.samples.set(latency_s, bandwidth);
            }
            Self::Read(seen) => known.samples.observe(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: u64, latency_s: f64) -> Observation {
        Observation { bytes, first_byte: Some(latency_s), whole: 2.0 * latency_s }
    }

    /// What a run learned by so many reads of a device, one a second from `begun` on.
    fn reads(disk: &Device, count: u64, latency_s: f64, begun: u64) -> Learned {
        let mut learned = Learned::default();
        (begun..begun + count).for_each(|at| learned.observe(disk, read(1 << 16, latency_s), at));
        learned
    }

    /// What a calibration found, at a time.
    fn calibrated(disk: &Device, count: usize, latency_s: f64, at: u64) -> Learned {
        let (mut found, mut learned) = (DeviceTable::default(), Learned::default());
        for bytes in [1 << 16, 1 << 20, 8 << 20] {
            (0..count).for_each(|_| found.observe(disk, read(bytes, latency_s)));
        }
        found.observe_near(disk, 1 << 20, 0.001);
        learned.renew(disk, &found, true, at);
        learned
    }

    fn given(disk: &Device, latency_s: f64, at: u64) -> Learned {
        let mut learned = Learned::default();
        learned.fill(disk, latency_s, 1e6, at);
        learned
    }

    fn taught(lessons: impl IntoIterator<Item = Learned>) -> DeviceTable {
        let mut table = DeviceTable::default();
        for learned in lessons {
            table.learn(learned, &DeviceTable::default(), 1000);
        }
        table
    }

    fn latency(table: &DeviceTable, disk: &Device) -> f64 {
        table.estimate(disk, 1 << 16).expect("known").latency.p50
    }

    #[test]
    fn what_was_read_before_a_calibration_does_not_make_it_forgotten() {
        let disk = Device::new("disk:a");
        for count in [1, 3, 40, 500] {
            let table = taught([calibrated(&disk, 11, 0.01, 600), reads(&disk, count, 9.0, 10)]);
            assert!((latency(&table, &disk) - 0.01).abs() < 1e-9, "{count} reads");
            assert_ne!(
                table.estimate_near(&disk, 1),
                DeviceTable::default().estimate_near(&disk, 1)
            );
            assert_eq!(table.updated(&disk), Some(600));
        }
        // What is read after it corrects it, by as many reads as it does in a table.
        let table = taught([calibrated(&disk, 11, 0.01, 600), reads(&disk, 12, 9.0, 601)]);
        assert!((latency(&table, &disk) - 9.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_learned_apart_is_what_a_table_learns() {
        let disk = Device::new("disk:a");
        let mut random = 1_u64;
        for _ in 0..100 {
            let (mut whole, mut parts) = (DeviceTable::default(), vec![Learned::default()]);
            for at in 0..600 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (what, bytes) = (random >> 56, 1 << (8 + (random >> 40) % 18));
                let learned = parts.last_mut().expect("never empty");
                let took = 0.001 * at as f64 + 0.001;
                match what {
                    0..8 => parts.push(Learned::default()),
                    8 => {
                        assert!(whole.fill(&disk, took, 1e6));
                        learned.fill(&disk, took, 1e6, at);
                    }
                    9..14 => {
                        let mut found = DeviceTable::default();
                        (8..what).for_each(|_| found.observe(&disk, read(bytes, took)));
                        let stands_alone = whole.renew(&disk, found.clone());
                        learned.renew(&disk, &found, stands_alone, at);
                    }
                    _ => {
                        let first_byte = (random >> 50).is_multiple_of(4).then_some(took);
                        let seen = Observation { bytes, first_byte, whole: 2.0 * took };
                        whole.observe(&disk, seen);
                        learned.observe(&disk, seen, at);
                    }
                }
                whole.set_updated(&disk, at);
            }
            let mut all = Learned::default();
            for part in &parts {
                all.add(part.clone());
            }
            let mut by_parts = taught(parts);
            let mut at_once = taught([all]);
            for table in [&mut by_parts, &mut at_once] {
                table.set_updated(&disk, 599);
            }
            assert_eq!(by_parts, whole);
            assert_eq!(at_once, whole);
        }
    }

    #[test]
    fn two_runs_at_once_both_count() {
        let disk = Device::new("disk:a");
        let table = taught([reads(&disk, 6, 1.0, 20), reads(&disk, 6, 2.0, 10)]);
        let samples = &table.entry(&disk).expect("known").samples;
        assert_eq!(samples.latency_s.samples().len(), 12);
    }

    #[test]
    fn a_run_of_days_keeps_so_many_reads() {
        let disk = Device::new("disk:a");
        let learned = reads(&disk, 100_000, 1.0, 10);
        assert!(learned.lessons[&disk].reads.len() <= READS_MAX);
        let mut twice = learned.clone();
        twice.add(learned);
        assert!(twice.lessons[&disk].reads.len() <= READS_MAX);
    }

    #[test]
    fn a_calibration_that_could_not_be_saved_does_not_hide_a_later_one() {
        let disk = Device::new("disk:a");
        let late = || calibrated(&disk, 11, 0.01, 600);
        for early in [calibrated(&disk, 11, 9.0, 100), given(&disk, 9.0, 100)] {
            let table = taught([late(), early]);
            assert!((latency(&table, &disk) - 0.01).abs() < 1e-9);
            assert_eq!(table.updated(&disk), Some(600));
        }
    }

    #[test]
    fn what_was_seen_of_a_cache_gives_way_to_what_the_table_below_says() {
        let disk = Device::new("fuse:a");
        let below =
            DeviceTable::from_toml("version = 1\n[device.\"fuse:a\"]\nkeeps_cache = false\n");
        let mut learned = Learned::default();
        learned.saw_cache_kept(&disk);
        let mut table = DeviceTable::default();
        table.learn(learned, &below.expect("a table"), 1000);
        assert_eq!(table.keeps_cache(&disk), None);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        let (disk, mut learned) = (Device::new("disk:a"), Learned::default());
        learned.observe(&disk, read(0, 1.0), 1);
        learned.observe(&disk, read(1, f64::NAN), 1);
        learned.fill(&disk, f64::INFINITY, 1.0, 1);
        learned.renew(&disk, &DeviceTable::default(), true, 1);
        assert!(learned.is_empty());
    }
}
