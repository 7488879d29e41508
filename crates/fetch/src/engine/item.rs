//! What the driver keeps of a member between its listing and its release.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sled::Device;
use store::{Entry, Name, Opened, Store};

use super::beginning::Beginning;
use super::buffer::Buffer;
use crate::scheduler::{Contact, DeviceId, Kind, Origin};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// A member on its way.
#[derive(Debug)]
pub(crate) struct Item {
    /// What its set knows it by.
    pub(crate) tag: u64,
    pub(crate) source: Source,
    /// The device that it lies on, as far as its name tells.
    pub(crate) device: Option<(Device, DeviceId)>,
    pub(crate) buffer: Buffer,
    /// What attempts must have in common, of an object without a version.
    pub(crate) beginning: Beginning,
    /// The parts that are wanted, in file order; empty: the whole.
    pub(crate) parts: Vec<Range<u64>>,
    /// Whether nobody asked for it: then what is opened is known to be harmless first.
    pub(crate) is_guess: bool,
    known: Mutex<Known>,
}

/// Where a member's bytes come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file of this machine.
    File {
        /// Where it is.
        path: PathBuf,
        /// Whether a call to its mount may never return, by the names of mounts.
        may_stall: bool,
    },
    /// A store that sends bytes.
    Store(Arc<dyn Store>),
    /// Nowhere: listing it failed.
    Nowhere,
}

#[derive(Debug)]
struct Known {
    entry: Entry,
    /// Whether an answer has told which version it is.
    is_pinned: bool,
    contact: Option<Contact>,
    file: Option<KeptFile>,
    error: Option<Arc<store::Error>>,
    headers: Vec<(String, String)>,
    /// What its reads took, those side by side each for itself.
    took: Duration,
    /// Whether it was found on a mount that may never answer: names may be of mounts that are gone.
    may_stall: bool,
}

/// An open file that waits for its reader: descriptors are few, so they are counted.
#[derive(Debug)]
pub(crate) struct KeptFile {
    file: Opened,
    _counted: Counted,
}

/// One of what is counted, while it lives.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Item {
    pub(crate) fn new(
        tag: u64,
        entry: Entry,
        source: Source,
        device: Option<(Device, DeviceId)>,
    ) -> Self {
        let known = Mutex::new(Known {
            entry,
            is_pinned: false,
            contact: None,
            file: None,
            error: None,
            headers: Vec::new(),
            took: Duration::ZERO,
            may_stall: false,
        });
        let (buffer, beginning) = (Buffer::default(), Beginning::default());
        let (parts, is_guess) = (Vec::new(), false);
        Self { tag, source, device, buffer, beginning, parts, is_guess, known }
    }

    /// Of these parts, and for whom.
    pub(crate) fn wanted(self, parts: Vec<Range<u64>>, origin: Origin) -> Self {
        let wanted = Self { parts, is_guess: origin == Origin::Guessed, ..self };
        Self { buffer: Buffer::from(wanted.start()), ..wanted }
    }

    /// The first byte that is wanted.
    pub(crate) fn start(&self) -> u64 {
        self.parts.first().map_or(0, |first| first.start)
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.source {
            Source::File { .. } => Kind::Cache,
            Source::Store(_) | Source::Nowhere => Kind::Bytes,
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File { path, .. } => Some(path),
            Source::Store(_) | Source::Nowhere => None,
        }
    }

    /// The object as it is known by now: pinned once it was met.
    pub(crate) fn entry(&self) -> Entry {
        lock(&self.known).entry.clone()
    }

    pub(crate) fn name(&self) -> Name {
        lock(&self.known).entry.name.clone()
    }

    pub(crate) fn may_stall(&self) -> bool {
        matches!(self.source, Source::File { may_stall: true, .. }) || lock(&self.known).may_stall
    }

    /// It lies on a mount that may never answer.
    pub(crate) fn found_to_stall(&self) {
        lock(&self.known).may_stall = true;
    }

    /// Pins what first contact found; a later contact must have found the same version.
    pub(crate) fn pin(&self, found: &Entry) -> Result<(), store::Error> {
        let mut known = lock(&self.known);
        let (was_met, is_pinned) = (known.contact.is_some(), known.is_pinned);
        let entry = &mut known.entry;
        entry.unchanged(found)?;
        let differs = entry.size.is_some() && found.size.is_some() && entry.size != found.size;
        // A listing may be older than the object; what was read of it may not.
        if differs && (was_met || entry.version.is_some()) {
            return Err(store::Error::Changed { name: entry.name.clone() });
        }
        // What was read of it before had one: whether this is of that cannot be told.
        if is_pinned && entry.version.is_some() && found.version.is_none() {
            return Err(store::Error::Changed { name: entry.name.clone() });
        }
        // One that was listed, and that what is read does not have, tells nothing of it. And if what was
        // read of it before had none, this one need not be the version of that.
        if !is_pinned {
            entry.version.clone_from(&found.version);
        }
        entry.size = found.size.or(entry.size);
        entry.modified = found.modified.or(entry.modified);
        entry.tier = found.tier.clone();
        if found.device.is_some() {
            entry.device.clone_from(&found.device);
        }
        known.is_pinned = true;
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

    /// A read of it is over, and took so long.
    pub(crate) fn add_took(&self, took: Duration) {
        lock(&self.known).took += took;
    }

    pub(crate) fn took(&self) -> Duration {
        lock(&self.known).took
    }

    /// Keeps an open file for its reader, unless `most` are kept already.
    pub(crate) fn keep_file(&self, file: File, count: &Arc<AtomicUsize>, most: usize) {
        let (counted, may_stall) = (Counted(Arc::clone(count)), self.may_stall());
        let kept = KeptFile { file: Opened::new(file, may_stall), _counted: counted };
        if count.fetch_add(1, Ordering::Relaxed) < most {
            lock(&self.known).file = Some(kept);
        }
    }

    /// The open file, taken out; `None` if it was never opened or was closed to save descriptors.
    pub(crate) fn take_file(&self) -> Option<File> {
        self.take_kept().map(|kept| kept.file.into_file())
    }

    /// As [`Item::take_file`], for who only closes it.
    pub(crate) fn take_kept(&self) -> Option<KeptFile> {
        lock(&self.known).file.take()
    }

    /// Uses the open file, if there is one.
    pub(crate) fn clone_file(&self) -> Option<std::io::Result<File>> {
        lock(&self.known).file.as_ref().map(|kept| kept.file.try_clone())
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
    use super::*;

    #[test]
    fn a_version_that_what_is_read_does_not_have_is_not_pinned() {
        let of = |version: Option<&str>| Entry {
            version: version.map(store::Version::new),
            ..Entry::named(Name::from("s3://bucket/x"))
        };
        let item = Item::new(0, of(Some("1")), Source::Nowhere, None);
        assert!(item.pin(&of(None)).is_ok());
        assert_eq!(item.entry().version, None);
        let item = Item::new(0, of(Some("1")), Source::Nowhere, None);
        assert!(item.pin(&of(Some("1"))).is_ok());
        assert!(matches!(item.pin(&of(None)), Err(store::Error::Changed { .. })));
        assert!(item.pin(&of(Some("1"))).is_ok());
    }

    #[test]
    fn what_has_no_version_is_told_from_another_by_its_size_once_it_was_met() {
        let of = |size| Entry { size, ..Entry::named(Name::from("http://host/x")) };
        let item = Item::new(0, of(Some(10)), Source::Nowhere, None);
        assert!(item.pin(&of(Some(12))).is_ok(), "the listing was older");
        assert!(item.pin(&of(Some(11))).is_ok(), "of the answer before, nothing was kept");
        let contact = Contact {
            device: DeviceId(0),
            size: Some(11),
            far: Vec::new(),
            covers: 0..11,
            position: 0,
        };
        item.set_contact(contact);
        let device = Some(Device::new("http://host"));
        assert!(item.pin(&Entry { device, ..of(Some(11)) }).is_ok());
        assert!(matches!(item.pin(&of(Some(13))), Err(store::Error::Changed { .. })));
    }
}
