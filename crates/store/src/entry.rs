//! What a store says of an object without giving its bytes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::SystemTime;

use sled::{Cost, Device, Plan, Sled};

use crate::{Error, Name, Reason, Status};

/// What a store says of an object: as much as listing it told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its name, whole: it needs no folder or bucket beside it.
    pub name: Name,
    /// Bytes, as its own store tells; not known of what was only named.
    pub size: Option<u64>,
    /// Bytes, as somebody else says, such as a row of a database: for ranks and to be shown. Nothing
    /// is fetched by it.
    pub size_said: Option<u64>,
    /// What tells this content from a later one under the same name.
    pub version: Option<Version>,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
    /// Whether it must be recalled before it can be read.
    pub tier: Tier,
    /// The device that a read of it goes to, where listing tells.
    pub device: Option<Device>,
}

impl Entry {
    /// Of a name about which nothing else is known.
    pub fn named(name: Name) -> Self {
        Self {
            name,
            size: None,
            size_said: None,
            version: None,
            modified: None,
            tier: Tier::Online,
            device: None,
        }
    }

    /// What reading it by `plan` costs, with these sleds: unknown where its size is, as it has none then.
    pub fn cost(&self, sleds: &[Sled], plan: Plan) -> Cost {
        if self.size.is_some() { Cost::of(sleds, plan) } else { Cost::UNTOLD }
    }

    /// Why it is not known where an object is, or why it is left alone, if it is.
    pub fn reason(&self) -> Option<Reason> {
        match &self.tier {
            _ if self.size.is_none() => Some(Reason::SizeUntoldByServer),
            Tier::Cold { class } => Some(Reason::Cold(Arc::clone(class))),
            Tier::Recalling { class } => Some(Reason::Recalling(Arc::clone(class))),
            Tier::Online | Tier::Recalled { .. } => None,
        }
    }

    /// Of a file that the system was asked about.
    pub fn of_file(name: Name, status: &Status) -> Self {
        Self {
            size: Some(status.size),
            version: Some(status.version()),
            modified: status.modified(),
            device: Some(status.device.clone()),
            ..Self::named(name)
        }
    }

    /// That what is found `now` is no other version than this, as far as both are known.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub fn unchanged(&self, now: &Self) -> Result<(), Error> {
        match self.version.as_ref().zip(now.version.as_ref()) {
            Some((known, now)) if !known.is_same(now) => {
                Err(Error::Changed { name: self.name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The size, whoever tells it.
    pub fn likely_size(&self) -> Option<u64> {
        self.size.or(self.size_said)
    }

    /// Whether a file that this was said of has its content still, by what the system says of it
    /// `now`. What is longer is taken for a log that was added to, if it `begins_so` as before.
    ///
    /// # Errors
    /// Those of `begins_so`.
    pub fn is_still<E>(
        &self,
        now: &Metadata,
        begins_so: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.size.is_some_and(|size| now.len() > size) {
            return begins_so();
        }
        let seconds = (now.mtime(), u32::try_from(now.mtime_nsec()).unwrap_or_default());
        let version = Version::of_file(seconds.0, seconds.1, now.len());
        Ok(self.version.as_ref().is_none_or(|known| *known == version))
    }
}

/// Tells a content from a later one under the same name: an entity tag as the
/// server gives it, or modification time and size. Equal versions are equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(Arc<str>);

impl Version {
    /// As the store writes it.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// An entity tag as HTTP has it: some servers leave the quotes out where they list.
    #[cfg(feature = "object")]
    pub(crate) fn of_tag(tag: &str) -> Self {
        if tag.ends_with('"') { Self::new(tag) } else { Self::new(format!("\"{tag}\"")) }
    }

    /// Of a file, by when it was written and how long it is: the same however it was found.
    pub(crate) fn of_file(modified_s: i64, modified_ns: u32, size: u64) -> Self {
        Self::new(format!("{modified_s}.{modified_ns:09}-{size}"))
    }

    /// As the store writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without the quotes that an entity tag is in; a weak one is left as it is.
    pub fn unquoted(&self) -> &str {
        let inner = self.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(&self.0)
    }

    /// Whether both stand for the same bytes: a server may quote a tag in one place and not in
    /// another. A weak tag is none but itself, as it does not promise equal bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.unquoted() == other.unquoted()
    }
}

/// How near the store itself keeps an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Tier {
    /// It can be read.
    #[default]
    Online,
    /// It must be recalled first; the name of the class as the store gives it (`GLACIER`).
    Cold {
        /// The storage class.
        class: Arc<str>,
    },
    /// A recall is under way.
    Recalling {
        /// The storage class.
        class: Arc<str>,
    },
    /// Recalled: it can be read until this time, if the store says how long.
    Recalled {
        /// The storage class.
        class: Arc<str>,
        /// When the copy goes away.
        until: Option<SystemTime>,
    },
}

impl Tier {
    /// Whether a read would fail, or wait for a tape.
    pub fn is_cold(&self) -> bool {
        matches!(self, Self::Cold { .. } | Self::Recalling { .. })
    }
}
