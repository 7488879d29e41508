//! The device table: what each device takes, learned from what it took.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::quantile::DecayingSamples;
use crate::{Device, Estimate, Spread};

/// Latency of memory where the table has none: a cached `pread` of a page, measured on 2020s servers.
const MEMORY_LATENCY_S: f64 = 400e-9;
/// Bandwidth of memory where the table has none: one core copying from the page cache.
const MEMORY_BANDWIDTH: f64 = 8e9;
/// The format of the text form.
const VERSION: u32 = 1;
/// No device is taken to be faster than so many bytes per second, so that a time of zero means zero bytes.
/// It is the estimate where only so little was read that the latency is all: see
/// [`Estimate::known_bandwidth`].
pub(crate) const BANDWIDTH_MAX: f64 = 1e12;
/// Of a smaller read what follows the first byte is so little that the time which it takes is that of
/// those who pass it on, and says nothing of the bandwidth.
const FLOW_BYTES_MIN: u64 = 16 << 10;

/// So many reads of a calibration stand alone.
const ALONE_MIN: usize = 8;

/// One read and what it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Bytes read.
    pub bytes: u64,
    /// Seconds to the first byte; `None` where the read continued the one
    /// before it and so paid no latency of its own.
    pub first_byte: Option<f64>,
    /// Seconds in all.
    pub whole: f64,
}

/// How much is read at once: bandwidth is kept apart for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeClass {
    /// Up to 128 KiB: one request of most file systems.
    Small,
    /// Up to 4 MiB: within a readahead window.
    Medium,
    /// More.
    Large,
}

impl SizeClass {
    /// The class of a read of so many bytes.
    pub fn of(bytes: u64) -> Self {
        match bytes {
            0..=0x2_0000 => Self::Small,
            0x2_0001..=0x40_0000 => Self::Medium,
            _ => Self::Large,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Entry {
    latency_s: DecayingSamples,
    bandwidth: [DecayingSamples; 3],
    /// Of what is in memory of its files.
    near_bandwidth: DecayingSamples,
    keeps_cache: Option<bool>,
    has_stubs: Option<bool>,
    updated: u64,
}

/// Latency and bandwidth per device, corrected by what reads really took.
///
/// Estimates are decaying quantiles per device and size class, so they follow
/// load. A device never seen has no estimate, but for memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceTable {
    entries: BTreeMap<Device, Entry>,
}

impl DeviceTable {
    /// Learns from a read. Readings that are not finite or not positive teach nothing.
    pub fn observe(&mut self, device: &Device, seen: Observation) {
        if seen.bytes == 0 || !is_positive(seen.whole) || !seen.first_byte.is_none_or(is_positive) {
            return;
        }
        let entry = self.entries.entry(device.clone()).or_default();
        if let Some(first_byte) = seen.first_byte {
            entry.latency_s.push(first_byte.min(seen.whole));
        }
        let flowing = seen.whole - seen.first_byte.unwrap_or(0.0);
        let flows = seen.first_byte.is_none() || seen.bytes >= FLOW_BYTES_MIN;
        if flows && flowing > 0.0 {
            let bandwidth = (seen.bytes as f64 / flowing).min(BANDWIDTH_MAX);
            entry.bandwidth[SizeClass::of(seen.bytes) as usize].push(bandwidth);
        }
    }

    /// What fetching `bytes` from `device` takes; `None` where nobody knows.
    ///
    /// Where the size class has no reading, the next larger one that has
    /// stands in, then the next smaller one. Where none has, a latency tells what little takes.
    pub fn estimate(&self, device: &Device, bytes: u64) -> Option<Estimate> {
        let known = self.entries.get(device).and_then(|entry| {
            let of_little = || entry.estimate_of_little().filter(|_| bytes < FLOW_BYTES_MIN);
            entry.estimate(SizeClass::of(bytes)).or_else(of_little)
        });
        match known {
            None if device.is_memory() => Some(Estimate::exact(MEMORY_LATENCY_S, MEMORY_BANDWIDTH)),
            known => known,
        }
    }

    /// Learns from a read of `bytes` of a file of `device` that were in memory, in `seconds`.
    /// Values that are not finite or not positive teach nothing.
    pub fn observe_near(&mut self, device: &Device, bytes: u64, seconds: f64) {
        if bytes > 0 && is_positive(seconds) {
            let bandwidth = (bytes as f64 / seconds).min(BANDWIDTH_MAX);
            self.entries.entry(device.clone()).or_default().near_bandwidth.push(bandwidth);
        }
    }

    /// What reading `bytes` takes that are in memory of a file of `device`.
    ///
    /// File systems keep their files in memory in pieces of different size, which take different
    /// time to copy: so it is what was observed there, and of [`Device::memory`] elsewhere.
    pub fn estimate_near(&self, device: &Device, bytes: u64) -> Option<Estimate> {
        let memory = self.estimate(&Device::memory(), bytes);
        let near = self.entries.get(device).and_then(|entry| entry.near_bandwidth.quantiles());
        match near {
            Some(near) => {
                let bandwidth = Spread { p50: near.p50, p90: near.p10 };
                memory.map(|memory| Estimate { bandwidth, ..memory })
            }
            None => memory,
        }
    }

    /// The devices it knows something of, by name.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.entries.keys()
    }

    /// The part of the table that is about `devices`.
    #[must_use]
    pub fn only(&self, devices: &BTreeSet<Device>) -> Self {
        let entries = self.entries.iter().filter(|(device, _)| devices.contains(*device));
        Self { entries: entries.map(|(device, entry)| (device.clone(), entry.clone())).collect() }
    }

    /// Forgets a device.
    pub fn forget(&mut self, device: &Device) {
        self.entries.remove(device);
    }

    /// Takes over what a calibration found of `device`. It replaces what was known; but where that rests
    /// on more reads and the calibration on fewer than eight, after which half of what was before
    /// would be forgotten anyhow, its reads are added to those. Whether it stands alone.
    pub fn renew(&mut self, device: &Device, mut found: Self) -> bool {
        let Some(found) = found.entries.remove(device) else { return true };
        let known = self.entries.entry(device.clone()).or_default();
        let reads = |entry: &Entry| entry.latency_s.samples().len();
        let stands_alone = reads(&found) >= reads(known).min(ALONE_MIN);
        known.keeps_cache = found.keeps_cache.or(known.keeps_cache);
        if stands_alone {
            known.latency_s = found.latency_s;
            known.bandwidth = found.bandwidth;
            known.near_bandwidth = found.near_bandwidth;
        } else {
            known.latency_s.extend(found.latency_s);
            known.near_bandwidth.extend(found.near_bandwidth);
            for (known, found) in known.bandwidth.iter_mut().zip(found.bandwidth) {
                known.extend(found);
            }
        }
        stands_alone
    }

    /// Sets one device's estimate exactly, in seconds and bytes per second
    /// (the paper's `FSLEDS_FILL`, section 4.1). What reads take corrects it from then on.
    /// Values below 1e-15 or above 1e18, or that are no numbers, set nothing; whether they did.
    #[must_use]
    pub fn fill(&mut self, device: &Device, latency_s: f64, bandwidth: f64) -> bool {
        if ![latency_s, bandwidth].into_iter().all(is_positive) {
            return false;
        }
        let entry = self.entries.entry(device.clone()).or_default();
        entry.latency_s = DecayingSamples::from_samples(vec![latency_s]);
        let bandwidth = DecayingSamples::from_samples(vec![bandwidth.min(BANDWIDTH_MAX)]);
        entry.bandwidth = std::array::from_fn(|_| bandwidth.clone());
        true
    }

    /// Whether a file of this device keeps its cached pages when it is opened
    /// again; `None` where nobody tried. Only FUSE file systems may not.
    pub fn keeps_cache(&self, device: &Device) -> Option<bool> {
        self.entries.get(device).and_then(|entry| entry.keeps_cache)
    }

    /// Records what a trial showed for [`DeviceTable::keeps_cache`].
    pub fn set_keeps_cache(&mut self, device: &Device, keeps: bool) {
        self.entries.entry(device.clone()).or_default().keeps_cache = Some(keeps);
    }

    /// Whether a file of this device that has a size but no blocks is a stub
    /// whose data must be recalled; `None` where nobody said. Written by hand.
    pub fn has_stubs(&self, device: &Device) -> Option<bool> {
        self.entries.get(device).and_then(|entry| entry.has_stubs)
    }

    /// When `device` was last learned about, in seconds of Unix time; 0 if never said.
    pub fn updated(&self, device: &Device) -> u64 {
        self.entries.get(device).map_or(0, |entry| entry.updated)
    }

    /// Notes that `device` was learned about at `now`, in seconds of Unix time.
    pub fn set_updated(&mut self, device: &Device, now: u64) {
        self.entries.entry(device.clone()).or_default().updated = now;
    }

    /// The table as it is read at `now`, in seconds of Unix time: what was dated later, by a clock
    /// that was wrong, is of nobody knows when: older than all that is learned from now on, and learned.
    #[must_use]
    pub fn known_by(mut self, now: u64) -> Self {
        for entry in self.entries.values_mut().filter(|entry| entry.updated > now) {
            entry.updated = 1;
        }
        self
    }

    /// Takes over every device of `other` that was not learned about earlier
    /// than here. What only one of the two says beside costs, by hand or by a trial, stays.
    pub fn merge(&mut self, other: Self) {
        for (device, theirs) in other.entries {
            let ours = self.entries.remove(&device).unwrap_or_default();
            let (newer, older) =
                if ours.updated > theirs.updated { (ours, theirs) } else { (theirs, ours) };
            let merged = Entry {
                keeps_cache: newer.keeps_cache.or(older.keeps_cache),
                has_stubs: newer.has_stubs.or(older.has_stubs),
                ..newer
            };
            self.entries.insert(device, merged);
        }
    }

    /// Forgets what was learned about longest ago, until at most `most` devices are left; stores, of
    /// whose names there is no end, before the devices of this machine. What was written by hand, and so
    /// has no date or says of stubs, stays, and is not counted.
    pub fn keep_latest(&mut self, most: usize) {
        let is_learned = |entry: &Entry| entry.updated > 0 && entry.has_stubs.is_none();
        let here = |device: &Device| !device.name().contains("://");
        let mut by_age: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| is_learned(entry))
            .map(|(device, entry)| (here(device), entry.updated, device.clone()))
            .collect();
        let excess = by_age.len().saturating_sub(most);
        by_age.sort_unstable();
        for (_, _, device) in &by_age[..excess] {
            self.entries.remove(device);
        }
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`TableError`] if the text is not a table of this format.
    pub fn from_toml(text: &str) -> Result<Self, TableError> {
        let text: TableText = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(start).filter(|&byte| byte == b'\n').count();
            TableError::Syntax { line, reason: error.message().to_owned() }
        })?;
        if text.version != VERSION {
            return Err(TableError::Version { found: text.version });
        }
        let mut entries = BTreeMap::new();
        for (name, row) in text.device {
            entries.insert(Device::new(name.as_str()), row.into_entry(&name)?);
        }
        Ok(Self { entries })
    }

    /// Writes the text form: TOML, a table per device, samples oldest first,
    /// in seconds and bytes per second.
    pub fn to_toml(&self) -> String {
        let device = self
            .entries
            .iter()
            .map(|(device, entry)| (device.name().to_owned(), RowText::from_entry(entry)))
            .collect();
        toml::to_string(&TableText { version: VERSION, device })
            .expect("a map of numbers and arrays is TOML")
    }
}

/// Whether seconds or bytes a second are what a device can take: sums of what it cannot are no numbers.
fn is_positive(value: f64) -> bool {
    (1e-15..=1e18).contains(&value)
}

impl Entry {
    fn estimate(&self, class: SizeClass) -> Option<Estimate> {
        let larger = self.bandwidth[class as usize..].iter();
        let smaller = self.bandwidth[..class as usize].iter().rev();
        let bandwidth = larger.chain(smaller).find_map(DecayingSamples::quantiles)?;
        let bandwidth = Spread { p50: bandwidth.p50, p90: bandwidth.p10 };
        Some(Estimate { bandwidth, ..self.estimate_of_little()? })
    }

    /// What so little takes that the latency is all of it.
    fn estimate_of_little(&self) -> Option<Estimate> {
        let latency = self.latency_s.quantiles()?;
        Some(Estimate {
            latency: Spread { p50: latency.p50, p90: latency.p90 },
            bandwidth: Spread { p50: BANDWIDTH_MAX, p90: BANDWIDTH_MAX },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct TableText {
    version: u32,
    #[serde(default)]
    device: BTreeMap<String, RowText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowText {
    #[serde(default)]
    updated: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keeps_cache: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    has_stubs: Option<bool>,
    #[serde(default)]
    latency_s: Vec<f64>,
    #[serde(default)]
    bandwidth_small: Vec<f64>,
    #[serde(default)]
    bandwidth_medium: Vec<f64>,
    #[serde(default)]
    bandwidth_large: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bandwidth_near: Vec<f64>,
}

impl RowText {
    fn from_entry(entry: &Entry) -> Self {
        let [small, medium, large] = &entry.bandwidth;
        Self {
            updated: entry.updated,
            keeps_cache: entry.keeps_cache,
            has_stubs: entry.has_stubs,
            latency_s: entry.latency_s.samples().to_vec(),
            bandwidth_small: small.samples().to_vec(),
            bandwidth_medium: medium.samples().to_vec(),
            bandwidth_large: large.samples().to_vec(),
            bandwidth_near: entry.near_bandwidth.samples().to_vec(),
        }
    }

    fn into_entry(self, name: &str) -> Result<Entry, TableError> {
        let check = |samples: Vec<f64>| match samples.iter().find(|value| !is_positive(**value)) {
            Some(&value) => Err(TableError::Value { device: name.to_owned(), value }),
            None => Ok(DecayingSamples::from_samples(samples)),
        };
        Ok(Entry {
            latency_s: check(self.latency_s)?,
            bandwidth: [
                check(self.bandwidth_small)?,
                check(self.bandwidth_medium)?,
                check(self.bandwidth_large)?,
            ],
            near_bandwidth: check(self.bandwidth_near)?,
            keeps_cache: self.keeps_cache,
            has_stubs: self.has_stubs,
            updated: self.updated,
        })
    }
}

/// Why a text is not a device table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not TOML, or not the fields of a table.
    #[error("not a device table: line {line}: {reason}")]
    Syntax {
        /// Where, from 1.
        line: usize,
        /// What the parser says; none of the text, which may be anything.
        reason: String,
    },
    /// Written by another version of this library.
    #[error("device table of version {found}, this program reads version {VERSION}")]
    Version {
        /// The version it gives.
        found: u32,
    },
    /// A latency or bandwidth that cannot be.
    #[error("device {device}: {value} is no latency or bandwidth")]
    Value {
        /// The device.
        device: String,
        /// What stands there.
        value: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: u64, first_byte: Option<f64>, whole: f64) -> Observation {
        Observation { bytes, first_byte, whole }
    }

    #[test]
    fn a_tiny_object_teaches_the_latency_of_its_server_and_no_bandwidth() {
        let (mut table, server) = (DeviceTable::default(), Device::new("https://h"));
        table.observe(&server, read(6, Some(0.009), 0.0091));
        let of_little = table.estimate(&server, 100).expect("a latency is known");
        assert!((of_little.latency.p50 - 0.009).abs() < 1e-9);
        assert_eq!(table.estimate(&server, 1 << 20), None);
        table.observe(&server, read(1 << 20, Some(0.009), 0.019));
        let bandwidth = |bytes| table.estimate(&server, bytes).expect("known").bandwidth.p50;
        assert!((bandwidth(100) / 104_857_600.0 - 1.0).abs() < 1e-6, "{}", bandwidth(100));
        assert!((bandwidth(1 << 17) - bandwidth(100)).abs() < 1.0);
    }

    #[test]
    fn a_glance_does_not_make_many_reads_forgotten_and_a_calibration_does() {
        let disk = Device::new("disk:a");
        let seen = |reads: usize, bytes: u64| {
            let mut table = DeviceTable::default();
            (0..reads).for_each(|_| table.observe(&disk, read(bytes, Some(0.01), 0.02)));
            table
        };
        let known = seen(30, 8 << 20);
        let bandwidth = |table: &DeviceTable| table.estimate(&disk, 8 << 20).map(|e| e.bandwidth);
        let small = bandwidth(&seen(1, 64 << 10));
        for (reads, stands_alone) in [(ALONE_MIN - 1, false), (ALONE_MIN, true)] {
            let mut table = known.clone();
            assert_eq!(table.renew(&disk, seen(reads, 64 << 10)), stands_alone);
            // What is known of another size is of another time.
            let expected = if stands_alone { small } else { bandwidth(&known) };
            assert_eq!(bandwidth(&table), expected);
        }
        let mut table = seen(1, 8 << 20);
        assert!(table.renew(&disk, seen(2, 64 << 10)));
    }

    #[test]
    fn a_device_never_seen_is_unknown_and_memory_is_not() {
        let table = DeviceTable::default();
        assert_eq!(table.estimate(&Device::new("disk:a"), 1), None);
        assert!(table.estimate(&Device::memory(), 1).is_some());
    }

    #[test]
    fn latency_comes_from_first_bytes_and_bandwidth_from_the_rest() {
        let mut table = DeviceTable::default();
        let disk = Device::new("disk:a");
        table.observe(&disk, read(9_000_000, Some(0.018), 1.018));
        let estimate = table.estimate(&disk, 9_000_000).expect("it was seen");
        assert!((estimate.latency.p50 - 0.018).abs() < 1e-12);
        assert!((estimate.bandwidth.p50 - 9e6).abs() < 1.0);
    }

    #[test]
    fn the_bad_case_is_a_long_latency_and_a_low_bandwidth() {
        let mut table = DeviceTable::default();
        let disk = Device::new("disk:a");
        for number in 1..=20 {
            let seconds = 0.01 * f64::from(number);
            table.observe(&disk, read(1 << 20, Some(seconds), 2.0 * seconds));
            table.observe_near(&disk, 1 << 20, seconds);
        }
        let far = table.estimate(&disk, 1 << 20).expect("seen");
        assert!(far.latency.p90 > far.latency.p50, "{far:?}");
        assert!(far.bandwidth.p90 < far.bandwidth.p50, "{far:?}");
        let near = table.estimate_near(&disk, 1 << 20).expect("seen");
        assert!(near.bandwidth.p90 < near.bandwidth.p50, "{near:?}");
    }

    #[test]
    fn a_first_byte_came_no_later_than_all_of_them() {
        let mut table = DeviceTable::default();
        let disk = Device::new("disk:a");
        table.observe(&disk, read(1, Some(2.0), 1.0));
        let latency = table.estimate(&disk, 1).expect("a latency is known").latency.p50;
        assert!((latency - 1.0).abs() < 1e-12, "{latency}");
    }

    #[test]
    fn one_reading_without_a_latency_is_no_estimate() {
        let mut table = DeviceTable::default();
        let disk = Device::new("disk:a");
        table.observe(&disk, read(1 << 20, None, 1.0));
        assert_eq!(table.estimate(&disk, 1 << 20), None);
    }

    #[test]
    fn size_classes_are_kept_apart_and_stand_in_for_each_other() {
        let mut table = DeviceTable::default();
        let nfs = Device::new("nfs:h:/e");
        table.observe(&nfs, read(1 << 16, Some(0.25), 0.25 + 0.1));
        table.observe(&nfs, read(1 << 24, None, 1.0));
        let small = table.estimate(&nfs, 1).expect("seen").bandwidth.p50;
        let medium = table.estimate(&nfs, 1 << 20).expect("stood in for").bandwidth.p50;
        let large = table.estimate(&nfs, 1 << 30).expect("seen").bandwidth.p50;
        assert!((small - 655_360.0).abs() < 1.0);
        assert!((medium - large).abs() < f64::EPSILON);
    }

    #[test]
    fn what_is_near_costs_what_it_did_on_its_file_system_or_what_memory_does() {
        let mut table = DeviceTable::default();
        let (disk, fuse) = (Device::new("disk:a"), Device::new("fuse:b"));
        assert!(table.fill(&Device::memory(), 1e-6, 8e9));
        table.observe_near(&fuse, 4 << 20, 0.002);
        let near = |device| table.estimate_near(device, 1 << 20).expect("memory is known");
        assert!((near(&disk).bandwidth.p50 - 8e9).abs() < 1.0);
        assert!((near(&fuse).bandwidth.p50 - f64::from(4 << 20) / 0.002).abs() < 1.0);
        assert!((near(&fuse).latency.p50 - 1e-6).abs() < 1e-12);
        assert_eq!(table.estimate(&fuse, 1), None);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        let mut table = DeviceTable::default();
        let disk = Device::new("disk:a");
        for seen in [
            read(0, None, 1.0),
            read(1, None, 0.0),
            read(1, Some(f64::NAN), 1.0),
            read(1, None, f64::INFINITY),
        ] {
            table.observe(&disk, seen);
        }
        table.observe_near(&disk, 0, 1.0);
        table.observe_near(&disk, 1, f64::NAN);
        for (latency_s, bandwidth) in
            [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)]
        {
            assert!(!table.fill(&disk, latency_s, bandwidth));
        }
        assert_eq!(table, DeviceTable::default());
    }

    #[test]
    fn what_a_person_said_outlives_what_reads_taught_later() {
        let by_hand = "version = 1\n[device.a]\nhas_stubs = true\n";
        let mut table = DeviceTable::from_toml(by_hand).expect("a table");
        let a = Device::new("a");
        let mut learned = DeviceTable::default();
        assert!(learned.fill(&a, 1.0, 1.0));
        learned.set_updated(&a, 10);
        table.merge(learned);
        assert_eq!(table.has_stubs(&a), Some(true));
        assert_eq!((table.updated(&a), table.estimate(&a, 1).is_some()), (10, true));
    }

    #[test]
    fn the_text_form_round_trips() {
        let mut table = DeviceTable::default();
        let odd = Device::new("nfs:h:/e \"x\"\n");
        table.observe(&odd, read(1 << 20, Some(0.27), 1.3));
        table.observe_near(&odd, 1 << 20, 0.001);
        table.set_keeps_cache(&odd, true);
        table.set_updated(&odd, 1_700_000_000);
        assert!(table.fill(&Device::memory(), 175e-9, 48e6));
        assert_eq!(DeviceTable::from_toml(&table.to_toml()).expect("our own text"), table);
    }

    #[test]
    fn broken_texts_are_named() {
        let error = |text| DeviceTable::from_toml(text).expect_err("broken").to_string();
        assert!(error("version = 1\n[device.a]\nlatency_s = 3").contains("line 3: "));
        assert!(error("version = 9").contains("version 9"));
        assert!(error("version = 1\n[device.a]\nlatency_s = [-1.0]").contains("device a"));
        assert!(error("\u{0}").contains("not a device table"));
        let shown = error("version = 1\n\u{1b}[31m");
        assert!(!shown.contains(['\u{1b}', '\n']), "{shown}");
    }

    #[test]
    fn merging_keeps_the_newer_of_two() {
        let (a, b) = (Device::new("a"), Device::new("b"));
        let mut ours = DeviceTable::default();
        assert!(ours.fill(&a, 1.0, 1.0));
        ours.set_updated(&a, 10);
        let mut theirs = DeviceTable::default();
        assert!(theirs.fill(&a, 2.0, 2.0));
        theirs.set_updated(&a, 5);
        assert!(theirs.fill(&b, 3.0, 3.0));
        ours.merge(theirs);
        assert!((ours.estimate(&a, 1).expect("filled").latency.p50 - 1.0).abs() < 1e-9);
        assert!(ours.estimate(&b, 1).is_some());
    }

    #[test]
    fn merging_keeps_the_newer_answer_whosever_it_is() {
        let a = Device::new("a");
        let table = |says: bool, updated: u64| {
            let text = format!(
                "version = 1\n[device.a]\nupdated = {updated}\nkeeps_cache = {says}\nhas_stubs = {says}\n"
            );
            DeviceTable::from_toml(&text).expect("a table")
        };
        let (older, newer) = (table(true, 5), table(false, 10));
        for (mut ours, theirs) in [(older.clone(), newer.clone()), (newer, older)] {
            ours.merge(theirs);
            assert_eq!((ours.keeps_cache(&a), ours.has_stubs(&a)), (Some(false), Some(false)));
        }
    }
}
