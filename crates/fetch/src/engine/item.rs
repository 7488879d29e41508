//! What the driver keeps of a member between its listing and its release.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Entry, Store};

use super::buffer::Buffer;
use crate::scheduler::{Contact, Kind};
use crate::sync::{Mutex, lock};

/// A member on its way.
#[derive(Debug)]
pub(crate) struct Item {
    /// What its set knows it by.
    pub(crate) tag: u64,
    pub(crate) source: Source,
    pub(crate) buffer: Buffer,
    known: Mutex<Known>,
}

/// Where a member's bytes come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file of this machine.
    File(PathBuf),
    /// A store that sends bytes.
    Store(Arc<dyn Store>),
    /// Nowhere: listing it failed.
    Nowhere,
}

#[derive(Debug)]
struct Known {
    entry: Entry,
    contact: Option<Contact>,
    file: Option<File>,
    error: Option<Arc<store::Error>>,
    headers: Vec<(String, String)>,
}

impl Item {
    pub(crate) fn new(tag: u64, entry: Entry, source: Source) -> Self {
        let known = Mutex::new(Known {
            entry,
            contact: None,
            file: None,
            error: None,
            headers: Vec::new(),
        });
        Self { tag, source, buffer: Buffer::default(), known }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.source {
            Source::File(_) => Kind::Cache,
            Source::Store(_) | Source::Nowhere => Kind::Bytes,
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Store(_) | Source::Nowhere => None,
        }
    }

    /// The object as it is known by now: pinned once it was met.
    pub(crate) fn entry(&self) -> Entry {
        lock(&self.known).entry.clone()
    }

    /// Pins what first contact found; a later contact must have found the same version.
    pub(crate) fn pin(&self, found: &Entry) -> Result<(), store::Error> {
        let mut known = lock(&self.known);
        let was_met = known.contact.is_some();
        let entry = &mut known.entry;
        if entry.version.is_some() && found.version.is_some() && entry.version != found.version {
            return Err(store::Error::Changed { name: entry.name.clone() });
        }
        let differs = entry.size.is_some() && found.size.is_some() && entry.size != found.size;
        // A listing may be older than the object; what was read of it may not.
        if differs && (was_met || entry.version.is_some()) {
            return Err(store::Error::Changed { name: entry.name.clone() });
        }
        if found.version.is_some() {
            entry.version.clone_from(&found.version);
        }
        entry.size = found.size.or(entry.size);
        entry.modified = found.modified.or(entry.modified);
        entry.tier = found.tier.clone();
        if found.device.is_some() {
            entry.device.clone_from(&found.device);
        }
        Ok(())
    }

    /// Keeps the headers of the first answer that has any.
    pub(crate) fn set_headers(&self, headers: Vec<(String, String)>) {
        let mut known = lock(&self.known);
        if known.headers.is_empty() {
            known.headers = headers;
        }
    }

    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        lock(&self.known).headers.clone()
    }

    pub(crate) fn contact(&self) -> Option<Contact> {
        lock(&self.known).contact.clone()
    }

    pub(crate) fn set_contact(&self, contact: Contact) {
        lock(&self.known).contact = Some(contact);
    }

    pub(crate) fn set_file(&self, file: File) {
        lock(&self.known).file = Some(file);
    }

    /// The open file, taken out; `None` if it was never opened or was closed to save descriptors.
    pub(crate) fn take_file(&self) -> Option<File> {
        lock(&self.known).file.take()
    }

    /// Uses the open file, if there is one.
    pub(crate) fn clone_file(&self) -> Option<std::io::Result<File>> {
        lock(&self.known).file.as_ref().map(File::try_clone)
    }

    pub(crate) fn set_error(&self, error: store::Error) {
        lock(&self.known).error = Some(Arc::new(error));
    }

    /// The last error of its attempts.
    pub(crate) fn error(&self) -> Option<Arc<store::Error>> {
        lock(&self.known).error.clone()
    }
}

#[cfg(test)]
mod tests {
    use sled::Device;
    use store::Name;

    use super::*;
    use crate::scheduler::DeviceId;

    #[test]
    fn what_has_no_version_is_told_from_another_by_its_size_once_it_was_met() {
        let of = |size| Entry { size, ..Entry::named(Name::from("http://host/x")) };
        let item = Item::new(0, of(Some(10)), Source::Nowhere);
        assert!(item.pin(&of(Some(12))).is_ok(), "the listing was older");
        let contact = Contact {
            device: DeviceId(0),
            size: Some(12),
            far: Vec::new(),
            covers: 0..12,
            position: 0,
        };
        item.set_contact(contact);
        let device = Some(Device::new("http://host"));
        assert!(item.pin(&Entry { device, ..of(Some(12)) }).is_ok());
        assert!(matches!(item.pin(&of(Some(13))), Err(store::Error::Changed { .. })));
    }
}
