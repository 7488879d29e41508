//! What a copy is checked by: the sum that its store keeps, or an `ETag` that is an MD5 sum, as
//! S3's is of objects that were put in one piece.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use nearfirst::{Checksum, Entry};
use store::lock;

use super::digest::Digest;

/// What is known of the sums of a run.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Prefixes of names whose `ETags` look like MD5 sums and are none: of servers other than S3,
    /// or of buckets that encrypt with a key of their own.
    /// Whether that was said of them.
    opaque: Mutex<HashMap<Vec<u8>, bool>>,
}

impl Sums {
    /// A sum for this object's bytes, if its tag is one to compare with.
    pub(super) fn of_tag(&self, entry: &Entry) -> Option<Sum> {
        let expected = tag(entry)?;
        (!lock(&self.opaque).contains_key(bucket(entry))).then(|| Sum {
            digest: Digest::md5(),
            expected: expected.to_vec(),
            kept: None,
            parts: None,
        })
    }

    /// Two readings gave the same bytes, which the tag is not the sum of: it is none.
    pub(super) fn is_opaque(&self, entry: &Entry) {
        lock(&self.opaque).entry(bucket(entry).to_vec()).or_default();
    }

    /// Whether an object is the first of its bucket that is not checked because its tag is none.
    pub(super) fn is_to_be_told(&self, entry: &Entry) -> bool {
        let mut opaque = lock(&self.opaque);
        let told = opaque.get_mut(bucket(entry)).filter(|_| tag(entry).is_some());
        told.is_some_and(|told| !std::mem::replace(told, true))
    }
}

/// A sum in the making.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    digest: Digest,
    expected: Vec<u8>,
    /// See [`Sum::kept`].
    kept: Option<Checksum>,
    /// Of what is the sum of its parts' sums.
    parts: Option<Parts>,
}

#[derive(Debug, Clone)]
struct Parts {
    /// What each begins with.
    fresh: Digest,
    /// Bytes that are to come of each that has not ended.
    left: VecDeque<u64>,
    /// Of those that have.
    sums: Vec<u8>,
}

impl Sum {
    /// For comparing with a sum that a store keeps; `None` if that is not known here.
    pub(super) fn of_kept(kept: Checksum) -> Option<Self> {
        let digest = Digest::new(kept.algorithm)?;
        let parts = kept.parts.as_ref().map(|lengths| Parts {
            fresh: digest.clone(),
            left: lengths.iter().copied().collect(),
            sums: Vec::new(),
        });
        Some(Self { digest, expected: kept.sum.clone(), kept: Some(kept), parts })
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        match &mut self.parts {
            Some(parts) => parts.add(bytes, &mut self.digest),
            None => self.digest.add(bytes),
        }
    }

    /// What the store keeps; `None` for a tag, which may be no sum.
    pub(super) fn kept(&self) -> Option<&Checksum> {
        self.kept.as_ref()
    }

    /// Whether it is the store's; the sum itself tells two readings apart.
    pub(super) fn end(mut self) -> (bool, Vec<u8>) {
        if let Some(mut parts) = self.parts {
            // A last part may be empty.
            parts.add(&[], &mut self.digest);
            self.digest.add(&parts.sums);
        }
        let sum = self.digest.end();
        (sum == self.expected, sum)
    }
}

impl Parts {
    /// `digest` is that of the part that the bytes belong to; when one ends, it begins anew.
    fn add(&mut self, mut bytes: &[u8], digest: &mut Digest) {
        while let Some(left) = self.left.front_mut() {
            let now = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            digest.add(&bytes[..now]);
            bytes = &bytes[now..];
            *left -= now as u64;
            if *left > 0 {
                return;
            }
            self.left.pop_front();
            self.sums.extend(std::mem::replace(digest, self.fresh.clone()).end());
        }
        // Beyond all parts, so that it is not the sum.
        digest.add(bytes);
    }
}

/// The tag of an S3 object, if it looks like an MD5 sum: those of objects put in parts end in `-N`.
fn tag(entry: &Entry) -> Option<[u8; 16]> {
    if !matches!(entry.name.scheme(), Some("s3" | "s3a")) {
        return None;
    }
    let text = entry.version.as_ref()?.unquoted();
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
    use nearfirst::{Algorithm, Name, Version};

    use super::*;

    fn entry(name: &str, version: &str) -> Entry {
        Entry { version: Some(Version::new(version)), ..Entry::named(Name::from(name)) }
    }

    #[test]
    fn only_tags_that_look_like_sums_are_compared() {
        let sums = Sums::default();
        let abc = "\"900150983cd24fb0d6963f7d28e17f72\"";
        let mut sum = sums.of_tag(&entry("s3://b/a", abc)).expect("a sum");
        assert!(sums.of_tag(&entry("s3a://b/a", abc)).is_some());
        assert!(sums.of_tag(&entry("s3://b/a", abc.trim_matches('"'))).is_some());
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
            assert!(sums.of_tag(&entry(name, version)).is_none(), "{name} {version}");
        }
        sums.is_opaque(&entry("s3://b/a", abc));
        assert!(sums.of_tag(&entry("s3://b/other", abc)).is_none());
        assert!(sums.of_tag(&entry("s3://c/a", abc)).is_some());
    }

    #[test]
    fn a_sum_of_parts_is_that_of_their_sums_wherever_chunks_end() {
        let of = |bytes: &[u8]| {
            let mut digest = Digest::new(Algorithm::Sha1).expect("known");
            digest.add(bytes);
            digest.end()
        };
        for parts in [vec!["abc", "def", "gh"], vec!["a", "bcde", "", "fg", ""], vec![""]] {
            let text = parts.concat();
            let sums: Vec<u8> = parts.iter().flat_map(|part| of(part.as_bytes())).collect();
            let lengths = parts.iter().map(|part| part.len() as u64).collect();
            let kept =
                Checksum { algorithm: Algorithm::Sha1, sum: of(&sums), parts: Some(lengths) };
            let mut longer = Sum::of_kept(kept.clone()).expect("known");
            longer.add(format!("{text}+").as_bytes());
            assert!(!longer.end().0, "{text} and more");
            for chunk in 1..=text.len().max(1) {
                let mut sum = Sum::of_kept(kept.clone()).expect("known");
                text.as_bytes().chunks(chunk).for_each(|chunk| sum.add(chunk));
                assert!(sum.end().0, "{text} in chunks of {chunk}");
            }
        }
    }
}
