//! The name of a device.

use std::fmt;
use std::sync::Arc;

/// Anything with one latency and one bandwidth, by its name: `memory`,
/// `disk:vda`, `nfs:host:/export`, `fuse.sshfs:user@host:/dir`, `cold:nfs:host:/export`.
///
/// Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device(Arc<str>);

impl Device {
    /// The device of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Primary memory: what the page cache holds, holes, and file systems in memory.
    pub fn memory() -> Self {
        static MEMORY: std::sync::OnceLock<Device> = std::sync::OnceLock::new();
        MEMORY.get_or_init(|| Self::new("memory")).clone()
    }

    /// The tier that data of this device must be recalled from: a device of its own, whose costs are
    /// unknown until somebody says them.
    #[must_use]
    pub fn cold_tier(&self) -> Self {
        Self::new(format!("cold:{}", self.0))
    }

    /// Whether this is the [`Device::cold_tier`] of another.
    pub fn is_cold_tier(&self) -> bool {
        self.is_of("cold")
    }

    /// Whether it is of this family, as `disk:vda` is of `disk`: `disk://vda` is where objects of a scheme
    /// lie that is called so.
    pub fn is_of(&self, family: &str) -> bool {
        let after = self.0.strip_prefix(family).and_then(|after| after.strip_prefix(':'));
        after.is_some_and(|after| !after.starts_with("//"))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether this is [`Device::memory`].
    pub fn is_memory(&self) -> bool {
        &*self.0 == "memory"
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_no_family() {
        for (name, family, is_of) in [
            ("disk:vda", "disk", true),
            ("disk://vda", "disk", false),
            ("diskette:vda", "disk", false),
            ("disk", "disk", false),
        ] {
            assert_eq!(Device::new(name).is_of(family), is_of, "{name}");
        }
        assert!(Device::new("s3://bucket").cold_tier().is_cold_tier());
        assert!(!Device::new("cold://bucket").is_cold_tier());
    }
}
