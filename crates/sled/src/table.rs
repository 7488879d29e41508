//! The device table: what each device takes, learned from what it took.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantile::DecayingSamples;
use crate::samples::{Observation, Samples, is_positive};
use crate::{Device, Estimate, Learned, Spread};

/// Latency of memory where the table has none: a cached `pread` of a page, measured on 2020s servers.
const MEMORY_LATENCY_S: f64 = 400e-9;
/// Bandwidth of memory where the table has none: one core copying from the page cache.
const MEMORY_BANDWIDTH: f64 = 8e9;
/// The format of the text form.
const VERSION: u32 = 1;
const VERSION_LATER: u32 = VERSION + 1;
/// The date of what was learned nobody knows when: older than all that is learned with a date.
const SOMETIME: u64 = 1;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Entry {
    pub(crate) samples: Samples,
    pub(crate) keeps_cache: Option<bool>,
    has_stubs: Option<bool>,
    pub(crate) updated: u64,
    /// What the disk said of itself that this was learned of; `None` where nobody noted that.
    identity: Option<String>,
    /// Whether the name is another disk's here, of which this says nothing. It is not written down.
    is_of_another: bool,
}

impl Entry {
    /// What it says of the disk that has its name here: of another's, what somebody wrote by hand.
    fn of_this_disk(self) -> Self {
        if self.is_of_another {
            Self { has_stubs: self.has_stubs, ..Self::default() }
        } else {
            self
        }
    }

    /// Whether nothing is known by it, but for what somebody wrote by hand.
    fn says_nothing(&self) -> bool {
        self.samples.is_empty() && self.keeps_cache.is_none() && self.identity.is_none()
    }

    /// The date as it is read at `now`: see [`DeviceTable::known_by`].
    pub(crate) fn dated_by(&self, now: u64) -> u64 {
        if self.updated > now { SOMETIME } else { self.updated }
    }
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
        if seen.teaches() {
            self.entry_mut(device).samples.observe(seen);
        }
    }

    /// What fetching `bytes` from `device` takes; `None` where nobody knows.
    ///
    /// Where the size class has no reading, the next larger one that has
    /// stands in, then the next smaller one. Where none has, a latency tells what little takes.
    pub fn estimate(&self, device: &Device, bytes: u64) -> Option<Estimate> {
        match self.entry(device).and_then(|entry| entry.samples.estimate(bytes)) {
            None if device.is_memory() => Some(Estimate::exact(MEMORY_LATENCY_S, MEMORY_BANDWIDTH)),
            known => known,
        }
    }

    /// Learns from a read of `bytes` of a file of `device` that were in memory, in `seconds`.
    /// Values that are not finite or not positive teach nothing.
    pub fn observe_near(&mut self, device: &Device, bytes: u64, seconds: f64) {
        if bytes > 0 && is_positive(seconds) {
            self.entry_mut(device).samples.observe_near(bytes, seconds);
        }
    }

    /// What reading `bytes` takes that are in memory of a file of `device`.
    ///
    /// File systems keep their files in memory in pieces of different size, which take different
    /// time to copy: so it is what was observed there, and of [`Device::memory`] elsewhere.
    pub fn estimate_near(&self, device: &Device, bytes: u64) -> Option<Estimate> {
        let memory = self.estimate(&Device::memory(), bytes);
        let near = self.entry(device).and_then(|entry| entry.samples.near_bandwidth.quantiles());
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

    pub(crate) fn entry(&self, device: &Device) -> Option<&Entry> {
        self.entries.get(device).filter(|entry| !entry.is_of_another)
    }

    /// The entry of a device, to add to what is known of it: what is another disk's gives way.
    fn entry_mut(&mut self, device: &Device) -> &mut Entry {
        let entry = self.entries.entry(device.clone()).or_default();
        *entry = std::mem::take(entry).of_this_disk();
        entry
    }

    /// The devices of which is noted what their disks said of themselves, with that.
    pub fn identities(&self) -> impl Iterator<Item = (&Device, &str)> {
        self.entries.iter().filter_map(|(device, entry)| Some((device, entry.identity.as_deref()?)))
    }

    /// Notes what the disk says of itself that has the name of `device`, if it says anything.
    pub fn set_identity(&mut self, device: &Device, says: &str) {
        if !says.is_empty() {
            self.entry_mut(device).identity = Some(says.to_owned());
        }
    }

    /// Puts what is known of disks under the names that they have now: `here` are those of this machine, with
    /// what they say of themselves. What is known by a name that another disk has now, and of none that is
    /// here, is kept, but not believed, until that other is measured.
    pub fn find_disks(&mut self, here: &BTreeMap<Device, String>) {
        let has_moved = |device: &Device, entry: &mut Entry| {
            entry.identity.as_ref().is_some_and(|noted| here.get(device) != Some(noted))
        };
        let (mut left, mut by_hand) = (Vec::new(), Vec::new());
        for (device, mut entry) in self.entries.extract_if(.., has_moved).collect::<Vec<_>>() {
            // What somebody wrote stays with the name.
            by_hand.extend(entry.has_stubs.take().map(|stubs| (device.clone(), stubs)));
            let is_it = |(_, says): &(&Device, &String)| Some(*says) == entry.identity.as_ref();
            let mut found = here.iter().filter(is_it).map(|(device, _)| device);
            // Two that say the same are not told apart.
            match (found.next(), found.next()) {
                (Some(now), None) if self.entries.get(now).is_none_or(Entry::says_nothing) => {
                    let written = self.entries.remove(now).and_then(|known| known.has_stubs);
                    self.entries.insert(now.clone(), Entry { has_stubs: written, ..entry });
                }
                _ => left.push((device, entry)),
            }
        }
        for (device, entry) in left {
            let is_of_another = here.contains_key(&device);
            self.entries.entry(device).or_insert(Entry { is_of_another, ..entry });
        }
        for (device, stubs) in by_hand {
            self.entries.entry(device).or_default().has_stubs.get_or_insert(stubs);
        }
    }

    /// Whether what is known by the name of `device` is another disk's, and so is not believed.
    pub fn is_of_another(&self, device: &Device) -> bool {
        self.entries.get(device).is_some_and(|entry| entry.is_of_another)
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
        let known = self.entry_mut(device);
        known.keeps_cache = found.keeps_cache.or(known.keeps_cache);
        known.samples.renew(found.samples)
    }

    /// Sets one device's estimate exactly, in seconds and bytes per second
    /// (the paper's `FSLEDS_FILL`, section 4.1). What reads take corrects it from then on.
    /// Values below 1e-15 or above 1e18, or that are no numbers, set nothing; whether they did.
    #[must_use]
    pub fn fill(&mut self, device: &Device, latency_s: f64, bandwidth: f64) -> bool {
        if ![latency_s, bandwidth].into_iter().all(is_positive) {
            return false;
        }
        self.entry_mut(device).samples.set(latency_s, bandwidth);
        true
    }

    /// Whether a file of this device keeps its cached pages when it is opened
    /// again; `None` where nobody tried. Only FUSE file systems may not.
    pub fn keeps_cache(&self, device: &Device) -> Option<bool> {
        self.entry(device).and_then(|entry| entry.keeps_cache)
    }

    /// Records what a trial showed for [`DeviceTable::keeps_cache`].
    pub fn set_keeps_cache(&mut self, device: &Device, keeps: bool) {
        self.entry_mut(device).keeps_cache = Some(keeps);
    }

    /// Whether a file of this device that has a size but no blocks is a stub
    /// whose data must be recalled; `None` where nobody said. Written by hand.
    pub fn has_stubs(&self, device: &Device) -> Option<bool> {
        self.entries.get(device).and_then(|entry| entry.has_stubs)
    }

    /// When `device` was last learned about, in seconds of Unix time; `None` where nobody knows.
    pub fn updated(&self, device: &Device) -> Option<u64> {
        self.entry(device).map(|entry| entry.updated).filter(|updated| *updated > SOMETIME)
    }

    /// Whether `device` was learned about, and not only written of by hand.
    pub fn is_learned(&self, device: &Device) -> bool {
        self.entry(device).is_some_and(|entry| entry.updated > 0)
    }

    /// Notes that `device` was learned about at `now`, in seconds of Unix time.
    pub fn set_updated(&mut self, device: &Device, now: u64) {
        self.entries.entry(device.clone()).or_default().updated = now;
    }

    /// The table as it is read at `now`, in seconds of Unix time: what was dated later, by a clock
    /// that was wrong, is of nobody knows when: older than all that is learned from now on, and learned.
    #[must_use]
    pub fn known_by(mut self, now: u64) -> Self {
        for entry in self.entries.values_mut() {
            entry.updated = entry.dated_by(now);
        }
        self
    }

    /// Lays a table over this one: of each device what was learned later counts. What only one of the two
    /// says beside costs, by hand or by a trial, stays, and so do costs of which the later one says nothing.
    pub fn merge(&mut self, other: Self) {
        for (device, theirs) in other.entries {
            let unknown = || Entry { is_of_another: theirs.is_of_another, ..Entry::default() };
            let ours = self.entries.remove(&device).unwrap_or_else(unknown);
            let (ours, theirs) = if ours.is_of_another == theirs.is_of_another {
                (ours, theirs)
            } else {
                (ours.of_this_disk(), theirs.of_this_disk())
            };
            let (newer, older) =
                if ours.updated > theirs.updated { (ours, theirs) } else { (theirs, ours) };
            let keeps_cache = newer.keeps_cache.or(older.keeps_cache);
            let has_stubs = newer.has_stubs.or(older.has_stubs);
            let costs = if newer.samples.is_empty() { older } else { newer };
            self.entries.insert(device, Entry { keeps_cache, has_stubs, ..costs });
        }
    }

    /// Takes over at `now`, in seconds of Unix time, what was learned apart from this table, as if it had
    /// been learned here. `below` is the table that this one lies over: where that knows of a device
    /// what is newer, or all that is known, it is added to that.
    pub fn learn(&mut self, learned: Learned, below: &Self, now: u64) {
        for (device, mut lesson) in learned.into_lessons() {
            let below = below.entry(&device);
            if below.is_some_and(|below| below.keeps_cache.is_some()) {
                lesson.saw_no_cache();
            }
            let below = below.filter(|_| lesson.is_of_costs());
            let known = self.entry_mut(&device);
            if let Some(below) = below
                && (known.samples.is_empty() || below.dated_by(now) > known.dated_by(now))
            {
                known.samples.clone_from(&below.samples);
                known.identity.clone_from(&below.identity);
                known.updated = below.updated;
            }
            lesson.teach(known, now);
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
            // What a later version writes need not have this form.
            if let Ok(VersionText { version: found @ VERSION_LATER.. }) = toml::from_str(text) {
                return TableError::Version { found };
            }
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

#[derive(Serialize, Deserialize)]
struct TableText {
    version: u32,
    #[serde(default)]
    device: BTreeMap<String, RowText>,
}

#[derive(Deserialize)]
struct VersionText {
    version: u32,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
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
        let Samples { latency_s, bandwidth: [small, medium, large], near_bandwidth } =
            &entry.samples;
        Self {
            updated: entry.updated,
            keeps_cache: entry.keeps_cache,
            has_stubs: entry.has_stubs,
            identity: entry.identity.clone(),
            latency_s: latency_s.samples().to_vec(),
            bandwidth_small: small.samples().to_vec(),
            bandwidth_medium: medium.samples().to_vec(),
            bandwidth_large: large.samples().to_vec(),
            bandwidth_near: near_bandwidth.samples().to_vec(),
        }
    }

    fn into_entry(self, name: &str) -> Result<Entry, TableError> {
        let check = |samples: Vec<f64>| match samples.iter().find(|value| !is_positive(**value)) {
            Some(&value) => Err(TableError::Value { device: name.to_owned(), value }),
            None => Ok(DecayingSamples::from_samples(samples)),
        };
        Ok(Entry {
            samples: Samples {
                latency_s: check(self.latency_s)?,
                bandwidth: [
                    check(self.bandwidth_small)?,
                    check(self.bandwidth_medium)?,
                    check(self.bandwidth_large)?,
                ],
                near_bandwidth: check(self.bandwidth_near)?,
            },
            keeps_cache: self.keeps_cache,
            has_stubs: self.has_stubs,
            updated: self.updated,
            identity: self.identity.filter(|says| !says.is_empty()),
            is_of_another: false,
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

impl TableError {
    /// Whether a later version of this library wrote the table, which is whole for that one.
    pub fn is_of_later(&self) -> bool {
        matches!(self, Self::Version { found: VERSION_LATER.. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::ALONE_MIN;

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
        assert_eq!((table.updated(&a), table.estimate(&a, 1).is_some()), (Some(10), true));
    }

    #[test]
    fn the_text_form_round_trips() {
        let mut table = DeviceTable::default();
        let odd = Device::new("nfs:h:/e \"x\"\n");
        table.observe(&odd, read(1 << 20, Some(0.27), 1.3));
        table.observe_near(&odd, 1 << 20, 0.001);
        table.set_keeps_cache(&odd, true);
        table.set_updated(&odd, 1_700_000_000);
        table.set_identity(&odd, "t10.ATA  a \"disk\"");
        assert!(table.fill(&Device::memory(), 175e-9, 48e6));
        assert_eq!(DeviceTable::from_toml(&table.to_toml()).expect("our own text"), table);
    }

    #[test]
    fn broken_texts_are_named() {
        let error = |text| DeviceTable::from_toml(text).expect_err("broken").to_string();
        assert!(error("version = 1\n[device.a]\nlatency_s = 3").contains("line 3: "));
        assert!(error("version = 9").contains("version 9"));
        assert!(error("version = 9\n[device.a]\nwearout = 3").contains("version 9"));
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

    /// A table of disks, each known since a time, with what it said of itself and its latency.
    fn of_disks<'a>(known: impl IntoIterator<Item = (&'a str, u64, &'a str, f64)>) -> DeviceTable {
        let mut table = DeviceTable::default();
        for (name, updated, says, latency_s) in known {
            let disk = Device::new(name);
            assert!(table.fill(&disk, latency_s, 1.0));
            table.set_updated(&disk, updated);
            table.set_identity(&disk, says);
        }
        table
    }

    fn here<const N: usize>(disks: [(&str, &str); N]) -> BTreeMap<Device, String> {
        disks.map(|(name, says)| (Device::new(name), says.to_owned())).into()
    }

    fn latency_of(table: &DeviceTable, name: &str) -> Option<f64> {
        table.estimate(&Device::new(name), 1).map(|estimate| estimate.latency.p50)
    }

    #[test]
    fn what_is_known_of_disks_goes_where_they_are() {
        let known = of_disks([("a", 1, "A", 1.0), ("b", 2, "B", 2.0), ("c", 3, "", 3.0)]);
        let cases = [
            (here([]), [Some(1.0), Some(2.0), Some(3.0), None]),
            (here([("a", "A"), ("b", "B"), ("c", "C")]), [Some(1.0), Some(2.0), Some(3.0), None]),
            (here([("a", "B"), ("b", "A")]), [Some(2.0), Some(1.0), Some(3.0), None]),
            (here([("a", "B"), ("d", "A")]), [Some(2.0), None, Some(3.0), Some(1.0)]),
            // Another in its place, one that says nothing, and one of which there are two.
            (here([("a", "C"), ("b", "")]), [None, None, Some(3.0), None]),
            (here([("a", "B"), ("d", "B")]), [None, Some(2.0), Some(3.0), None]),
            // What says nothing of its disk is believed, and gives way to nothing.
            (here([("a", "C"), ("c", "A")]), [None, Some(2.0), Some(3.0), None]),
        ];
        for (here, expected) in cases {
            let mut table = known.clone();
            table.find_disks(&here);
            let found = ["a", "b", "c", "d"].map(|name| latency_of(&table, name));
            assert_eq!(found.map(|known| known.map(f64::round)), expected, "{here:?}");
            let is_of_another = table.is_of_another(&Device::new("a"));
            assert_eq!(is_of_another, expected[0].is_none(), "{here:?}");
        }
    }

    #[test]
    fn what_is_written_by_hand_stays_with_a_name_whoever_has_it() {
        let table = of_disks([("a", 1, "A", 1.0), ("b", 2, "B", 2.0)]).to_toml();
        let table = table.replacen("identity", "has_stubs = true\nidentity", 1)
            + "\n[device.\"c\"]\nhas_stubs = false\n";
        let mut table = DeviceTable::from_toml(&table).expect("a table");
        table.find_disks(&here([("a", "B"), ("c", "A")]));
        let stubs = ["a", "b", "c"].map(|name| table.has_stubs(&Device::new(name)));
        assert_eq!(stubs, [Some(true), None, Some(false)]);
        assert_eq!(
            ["a", "b", "c"].map(|name| latency_of(&table, name).map(f64::round)),
            [Some(2.0), None, Some(1.0)]
        );
    }

    #[test]
    fn what_is_another_disks_is_kept_until_this_one_is_measured() {
        let (a, mut table) = (Device::new("a"), of_disks([("a", 10, "A", 1.0)]));
        table.set_keeps_cache(&a, true);
        let by_hand = table.to_toml().replace("keeps_cache", "has_stubs = true\nkeeps_cache");
        let mut table = DeviceTable::from_toml(&by_hand).expect("a table");
        let written = table.to_toml();
        table.find_disks(&here([("a", "B")]));
        assert_eq!((table.keeps_cache(&a), table.has_stubs(&a)), (None, Some(true)));
        assert!(!table.is_learned(&a) && table.updated(&a).is_none());
        assert_eq!(table.to_toml(), written);
        let mut learned = Learned::default();
        learned.observe(&a, read(1 << 20, Some(3.0), 4.0), 5);
        assert_eq!(learned.devices().collect::<Vec<_>>(), [&a]);
        let below = table.clone();
        table.learn(learned, &below, 20);
        assert_eq!(latency_of(&table, "a").map(f64::round), Some(3.0));
        assert_eq!((table.keeps_cache(&a), table.has_stubs(&a)), (None, Some(true)));
        assert!(table.identities().next().is_none() && !table.is_of_another(&a));
    }

    #[test]
    fn of_two_tables_the_one_that_knows_this_disk_counts() {
        let (mut anothers, this) =
            (of_disks([("a", 20, "A", 1.0)]), of_disks([("a", 10, "B", 2.0)]));
        anothers.find_disks(&here([("a", "B")]));
        for (mut below, above) in [(anothers.clone(), this.clone()), (this, anothers.clone())] {
            below.merge(above);
            assert_eq!(latency_of(&below, "a").map(f64::round), Some(2.0));
            assert_eq!(below.identities().collect::<Vec<_>>(), [(&Device::new("a"), "B")]);
        }
        let mut nothing = DeviceTable::default();
        nothing.merge(anothers);
        assert!(nothing.is_of_another(&Device::new("a")));
    }
}
