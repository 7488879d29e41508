//! The names of a set, each once: compact, since a set may have ten million.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hashbrown::{DefaultHashBuilder, HashTable};
use sled::Device;
use store::{Entry, Error, Name, Tier, Version};

/// Bytes of one block of records: large enough to waste little at its end,
/// small enough that a small set is small.
const BLOCK_BYTES: usize = 256 << 10;

/// Entries by number, in the order they became known, and by name.
///
/// A record is the name and what is known of it, written one after the other
/// in blocks that never move: 25 bytes a name beside the name, its version and
/// the table's slot.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    blocks: Vec<Vec<u8>>,
    /// Where each record begins: block and offset.
    records: Vec<(u32, u32)>,
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
    devices: Vec<Device>,
    /// What is not a plain object: errors of listing, and objects of other tiers, by number.
    special: std::collections::BTreeMap<u32, Special>,
}

#[derive(Debug, Clone)]
enum Special {
    Error(Arc<Error>),
    Tier(Tier),
}

impl Roster {
    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether a name is known, as a member that could be listed.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// Adds an entry; `false` if its name is known already.
    pub(crate) fn add(&mut self, entry: &Entry) -> bool {
        let name = entry.name.as_bytes();
        if self.contains(name) {
            return false;
        }
        let index = self.push(entry);
        let hash = self.hasher.hash_one(name);
        let (records, blocks, hasher) = (&self.records, &self.blocks, &self.hasher);
        let rehash = |&index: &u32| hasher.hash_one(name_at(blocks, records[index as usize]));
        self.by_name.insert_unique(hash, index, rehash);
        if entry.tier != Tier::Online {
            self.special.insert(index, Special::Tier(entry.tier.clone()));
        }
        true
    }

    /// Adds what could not be listed. It is not found by its name.
    pub(crate) fn add_error(&mut self, error: Error) {
        let index = self.push(&Entry::named(error.name()));
        self.special.insert(index, Special::Error(Arc::new(error)));
    }

    /// The entry of this number.
    pub(crate) fn get(&self, index: usize) -> Result<Entry, Arc<Error>> {
        let special = u32::try_from(index).ok().and_then(|index| self.special.get(&index));
        if let Some(Special::Error(error)) = special {
            return Err(Arc::clone(error));
        }
        let mut entry = self.read(self.records[index]);
        if let Some(Special::Tier(tier)) = special {
            entry.tier = tier.clone();
        }
        Ok(entry)
    }

    /// The name of this number.
    pub(crate) fn name(&self, index: usize) -> &[u8] {
        name_at(&self.blocks, self.records[index])
    }

    /// How many of these are errors of listing.
    pub(crate) fn errors(&self) -> usize {
        self.special.values().filter(|special| matches!(special, Special::Error(_))).count()
    }

    /// The first of them that leaves open what there is.
    pub(crate) fn doubt(&self) -> Option<Arc<Error>> {
        self.special.values().find_map(|special| match special {
            Special::Error(error) if leaves_doubt(error) => Some(Arc::clone(error)),
            Special::Error(_) | Special::Tier(_) => None,
        })
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        let same = |&index: &u32| name_at(&self.blocks, self.records[index as usize]) == name;
        self.by_name.find(hash, same).copied()
    }

    fn push(&mut self, entry: &Entry) -> u32 {
        let device = entry.device.as_ref().map_or(0, |device| self.device(device));
        let mut record = Vec::with_capacity(64 + entry.name.as_bytes().len());
        write_bytes(&mut record, entry.name.as_bytes());
        write_size(&mut record, entry.size);
        write_size(&mut record, entry.size_said);
        write_number(&mut record, device);
        write_number(&mut record, time_number(entry.modified));
        let version = entry.version.as_ref().map_or("", Version::as_str);
        write_bytes(&mut record, version.as_bytes());
        let fits = |block: &Vec<u8>| block.capacity() - block.len() >= record.len();
        if !self.blocks.last().is_some_and(fits) {
            self.blocks.push(Vec::with_capacity(BLOCK_BYTES.max(record.len())));
        }
        let at = u32::try_from(self.blocks.len() - 1).expect("blocks are counted by 32 bits");
        let block = self.blocks.last_mut().expect("pushed above");
        let offset = u32::try_from(block.len()).expect("a block is small");
        block.extend_from_slice(&record);
        self.records.push((at, offset));
        u32::try_from(self.records.len() - 1).expect("a set has fewer than 2^32 names")
    }

    /// The number of a device, from 1.
    fn device(&mut self, device: &Device) -> u64 {
        let known = self.devices.iter().position(|known| known == device);
        let index = known.unwrap_or_else(|| {
            self.devices.push(device.clone());
            self.devices.len() - 1
        });
        index as u64 + 1
    }

    fn read(&self, (block, offset): (u32, u32)) -> Entry {
        let mut rest = &self.blocks[block as usize][offset as usize..];
        let name = Name::new(read_bytes(&mut rest));
        let size = read_number(&mut rest).checked_sub(1);
        let size_said = read_number(&mut rest).checked_sub(1);
        let device = usize::try_from(read_number(&mut rest)).unwrap_or(0);
        let modified = time_of(read_number(&mut rest));
        let version = std::str::from_utf8(read_bytes(&mut rest)).expect("written from a str");
        Entry {
            name,
            size,
            size_said,
            version: (!version.is_empty()).then(|| Version::new(version)),
            modified,
            tier: Tier::Online,
            device: device.checked_sub(1).map(|index| self.devices[index].clone()),
        }
    }
}

fn name_at(blocks: &[Vec<u8>], (block, offset): (u32, u32)) -> &[u8] {
    read_bytes(&mut &blocks[block as usize][offset as usize..])
}

/// 0 if not known, or centuries away; else one more than twice the nanoseconds from 1970, and one more
/// before that.
fn time_number(time: Option<SystemTime>) -> u64 {
    let Some(time) = time else { return 0 };
    let (away, before) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since, 0),
        Err(error) => (error.duration(), 1),
    };
    u64::try_from(away.as_nanos() * 2 + before + 1).unwrap_or(0)
}

fn time_of(number: u64) -> Option<SystemTime> {
    let number = number.checked_sub(1)?;
    let away = Duration::from_nanos(number / 2);
    Some(if number % 2 == 0 { UNIX_EPOCH + away } else { UNIX_EPOCH - away })
}

fn write_size(record: &mut Vec<u8>, size: Option<u64>) {
    write_number(record, size.map_or(0, |size| size.saturating_add(1)));
}

/// Seven bits a byte, the lowest first, the top bit set on all but the last (LEB128).
fn write_number(record: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        record.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    record.push(low_bits(number));
}

fn low_bits(number: u64) -> u8 {
    u8::try_from(number & 0x7F).expect("seven bits")
}

fn read_number(rest: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().expect("records are whole");
        *rest = after;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn write_bytes(record: &mut Vec<u8>, bytes: &[u8]) {
    write_number(record, bytes.len() as u64);
    record.extend_from_slice(bytes);
}

fn read_bytes<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(read_number(rest)).expect("it was in memory");
    let (bytes, after) = rest.split_at(length);
    *rest = after;
    bytes
}

/// Whether an error leaves open what there is: that there is nothing does not.
pub(crate) fn leaves_doubt(error: &Error) -> bool {
    !matches!(error, Error::NotFound { .. } | Error::NamesNothing { .. })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &[u8], size: Option<u64>, version: Option<&str>) -> Entry {
        Entry {
            size,
            size_said: size.map(|size| size / 2),
            version: version.map(Version::new),
            modified: Some(UNIX_EPOCH + Duration::from_secs(77)),
            device: Some(Device::new("s3://b")),
            ..Entry::named(Name::new(name))
        }
    }

    #[test]
    fn what_could_not_be_listed_keeps_its_place_and_no_name() {
        let mut roster = Roster::default();
        roster.add_error(Error::refused("q", "no"));
        assert!(roster.add(&Entry::named(Name::from("q"))));
        assert!(roster.get(0).is_err() && roster.get(1).is_ok());
        assert_eq!((roster.len(), roster.errors()), (2, 1));
    }

    #[test]
    fn a_cold_tier_is_kept() {
        let mut roster = Roster::default();
        let tier = Tier::Cold { class: "GLACIER".into() };
        roster.add(&Entry { tier: tier.clone(), ..entry(b"a", Some(1), None) });
        assert_eq!(roster.get(0).expect("no error was added").tier, tier);
    }

    #[test]
    fn times_are_kept_whenever_they_are() {
        let day = Duration::from_hours(24);
        for time in [UNIX_EPOCH, UNIX_EPOCH + 77 * day, UNIX_EPOCH - day, UNIX_EPOCH - day / 7] {
            assert_eq!(time_of(time_number(Some(time))), Some(time));
        }
        let far = UNIX_EPOCH + 200_000 * day;
        assert_eq!((time_of(time_number(Some(far))), time_of(time_number(None))), (None, None));
    }

    proptest! {
        #[test]
        fn entries_come_back_as_they_were_and_names_once(
            entries in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..40), any::<Option<u64>>(), "[a-z0-9]{0,6}"),
                0..60,
            ),
        ) {
            let mut roster = Roster::default();
            let mut kept: Vec<Entry> = Vec::new();
            for (name, size, version) in &entries {
                let version = Some(version.as_str()).filter(|version| !version.is_empty());
                let size = size.filter(|&size| size < u64::MAX);
                let entry = entry(name, size, version);
                let is_new = kept.iter().all(|known| known.name != entry.name);
                prop_assert_eq!(roster.add(&entry), is_new);
                if is_new {
                    kept.push(entry);
                }
            }
            prop_assert_eq!(roster.len(), kept.len());
            for (index, entry) in kept.iter().enumerate() {
                prop_assert_eq!(&roster.get(index).expect("no error was added"), entry);
                prop_assert_eq!(roster.name(index), entry.name.as_bytes());
                prop_assert!(roster.contains(entry.name.as_bytes()));
            }
        }
    }
}
