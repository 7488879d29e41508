//! MD5 sums, where an `ETag` is one: S3's of objects that were put in one piece.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use md5::{Digest as _, Md5};
use nearfirst::Entry;

/// What a copy is checked by.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Prefixes of names whose `ETags` look like MD5 sums and are none: of servers other than S3,
    /// or of buckets that encrypt with a key of their own.
    opaque: Mutex<HashSet<Vec<u8>>>,
}

impl Sums {
    /// A sum for this object's bytes, if its store gives one to compare with.
    pub(super) fn begin(&self, entry: &Entry) -> Option<Sum> {
        let expected = tag(entry)?;
        (!self.opaque().contains(bucket(entry))).then(|| Sum { state: Md5::new(), expected })
    }

    /// Two readings gave the same bytes, which the tag is not the sum of: it is none.
    pub(super) fn is_opaque(&self, entry: &Entry) {
        self.opaque().insert(bucket(entry).to_vec());
    }

    fn opaque(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.opaque.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sum in the making.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    state: Md5,
    expected: [u8; 16],
}

impl Sum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// Whether it is the store's, which may have none to give; the sum itself tells two readings apart.
    pub(super) fn end(self) -> (bool, [u8; 16]) {
        let sum: [u8; 16] = self.state.finalize().into();
        (sum == self.expected, sum)
    }
}

/// The tag of an S3 object, if it looks like an MD5 sum: those of objects put in parts end in `-N`.
fn tag(entry: &Entry) -> Option<[u8; 16]> {
    if entry.name.scheme() != Some("s3") {
        return None;
    }
    let text = entry.version.as_ref()?.as_str().strip_prefix('"')?.strip_suffix('"')?;
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

/// `s3://bucket/`.
fn bucket(entry: &Entry) -> &[u8] {
    let name = entry.name.as_bytes();
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| at).nth(2).map_or(name, |end| &name[..=end])
}

#[cfg(test)]
mod tests {
    use nearfirst::{Name, Version};

    use super::*;

    fn entry(name: &str, version: &str) -> Entry {
        Entry { version: Some(Version::new(version)), ..Entry::named(Name::from(name)) }
    }

    #[test]
    fn only_tags_that_look_like_sums_are_compared() {
        let sums = Sums::default();
        let abc = "\"900150983cd24fb0d6963f7d28e17f72\"";
        let mut sum = sums.begin(&entry("s3://b/a", abc)).expect("a sum");
        sum.add(b"a");
        let mut other = sum.clone();
        sum.add(b"bc");
        other.add(b"bd");
        assert_eq!((sum.end().0, other.end().0), (true, false));
        for (name, version) in [
            ("s3://b/a", "\"900150983cd24fb0d6963f7d28e17f72-3\""),
            ("s3://b/a", "W/\"900150983cd24fb0d6963f7d28e17f72\""),
            ("https://h/a", abc),
        ] {
            assert!(sums.begin(&entry(name, version)).is_none(), "{name} {version}");
        }
        sums.is_opaque(&entry("s3://b/a", abc));
        assert!(sums.begin(&entry("s3://b/other", abc)).is_none());
        assert!(sums.begin(&entry("s3://c/a", abc)).is_some());
    }
}
