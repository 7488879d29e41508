//! Entries that wait to be sorted: of each what is shown, in few bytes.

use std::str;
use std::sync::Arc;
use std::time::SystemTime;

use nearfirst::{Device, Entry, Name, Tier, Version};

/// What many entries have alike.
#[derive(Debug, PartialEq, Default)]
struct Alike {
    tier: Tier,
    device: Option<Device>,
}

/// An entry without what is not shown.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) size: Option<u64>,
    pub(super) modified: Option<SystemTime>,
    /// Its name, and behind that its version.
    text: Box<[u8]>,
    name_end: usize,
    has_version: bool,
    alike: Arc<Alike>,
}

/// Makes them of entries, with what is shown in detail or without.
#[derive(Debug)]
pub(super) struct Keeper {
    in_detail: bool,
    last: Arc<Alike>,
}

impl Keeper {
    pub(super) fn new(in_detail: bool) -> Keeper {
        Keeper { in_detail, last: Arc::default() }
    }

    pub(super) fn keep(&mut self, entry: Entry) -> Kept {
        let size = entry.likely_size();
        let Entry { name, version, modified, tier, device, .. } = entry;
        let version = version.filter(|_| self.in_detail);
        let alike = if self.in_detail { Alike { tier, device } } else { Alike::default() };
        if *self.last != alike {
            self.last = Arc::new(alike);
        }
        let behind = version.as_ref().map_or("", Version::as_str);
        Kept {
            size,
            modified,
            text: [name.as_bytes(), behind.as_bytes()].concat().into(),
            name_end: name.as_bytes().len(),
            has_version: version.is_some(),
            alike: Arc::clone(&self.last),
        }
    }
}

impl Kept {
    pub(super) fn name(&self) -> &[u8] {
        &self.text[..self.name_end]
    }

    /// An entry that is shown as the one that was kept.
    pub(super) fn entry(&self) -> Entry {
        let Alike { tier, device } = &*self.alike;
        let version = str::from_utf8(&self.text[self.name_end..]).expect("a version is text");
        Entry {
            size: self.size,
            version: self.has_version.then(|| Version::new(version)),
            modified: self.modified,
            tier: tier.clone(),
            device: device.clone(),
            ..Entry::named(Name::new(self.name()))
        }
    }
}
