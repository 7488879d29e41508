//! What a copy is checked by: the sum that its store keeps, or an `ETag` that is an MD5 sum, as
//! S3's is of objects that were put in one piece.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearfirst::{Algorithm, Checksum, Entry};

use super::digest::Digest;

/// What is known of the sums of a run.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Prefixes of names whose `ETags` look like MD5 sums and are none: of servers other than S3,
    /// or of buckets that encrypt with a key of their own.
    opaque: Mutex<HashSet<Vec<u8>>>,
}

impl Sums {
    /// A sum for this object's bytes, if its tag is one to compare with.
    pub(super) fn of_tag(&self, entry: &Entry) -> Option<Sum> {
        let expected = tag(entry)?;
        (!self.opaque().contains(bucket(entry))).then(|| Sum {
            digest: Digest::md5(),
            expected: expected.to_vec(),
            kept: None,
            parts: None,
        })
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
    digest: Digest,
    expected: Vec<u8>,
    /// See [`Sum::kept`].
    kept: Option<Algorithm>,
    /// Of what is the sum of its parts' sums.
    parts: Option<Parts>,
}

#[derive(Debug, Clone)]
struct Parts {
    bytes: u64,
    /// Bytes until the part ends that is being added.
    left: u64,
    /// Of those before it.
    sums: Vec<u8>,
}

impl Sum {
    /// For comparing with a sum that a store keeps; `None` if that is not known here.
    pub(super) fn of_kept(kept: Checksum) -> Option<Self> {
        let parts = kept.part_bytes.map(|bytes| Parts { bytes, left: bytes, sums: Vec::new() });
        let digest = Digest::new(kept.algorithm)?;
        Some(Self { digest, expected: kept.sum, kept: Some(kept.algorithm), parts })
    }

    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        let (Some(parts), Some(algorithm)) = (&mut self.parts, self.kept) else {
            return self.digest.add(bytes);
        };
        while !bytes.is_empty() {
            let left = usize::try_from(parts.left).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(left));
            self.digest.add(now);
            parts.left -= now.len() as u64;
            if parts.left == 0 {
                parts.end(&mut self.digest, algorithm);
            }
            bytes = later;
        }
    }

    /// The algorithm of a sum that the store keeps; `None` for a tag, which may be no sum.
    pub(super) fn kept(&self) -> Option<Algorithm> {
        self.kept
    }

    /// Whether it is the store's; the sum itself tells two readings apart.
    pub(super) fn end(mut self) -> (bool, Vec<u8>) {
        if let (Some(mut parts), Some(algorithm)) = (self.parts.take(), self.kept) {
            if parts.left < parts.bytes {
                parts.end(&mut self.digest, algorithm);
            }
            self.digest.add(&parts.sums);
        }
        let sum = self.digest.end();
        (sum == self.expected, sum)
    }
}

impl Parts {
    /// Ends a part; `digest` begins anew.
    fn end(&mut self, digest: &mut Digest, algorithm: Algorithm) {
        let anew = Digest::new(algorithm).expect("it was known for the part before");
        self.sums.extend(std::mem::replace(digest, anew).end());
        self.left = self.bytes;
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
        let mut sum = sums.of_tag(&entry("s3://b/a", abc)).expect("a sum");
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
        for (text, parts) in
            [("abcdefgh", vec!["abc", "def", "gh"]), ("abcdef", vec!["abc", "def"])]
        {
            let sums: Vec<u8> = parts.iter().flat_map(|part| of(part.as_bytes())).collect();
            let kept = Checksum { algorithm: Algorithm::Sha1, sum: of(&sums), part_bytes: Some(3) };
            for chunk in 1..=text.len() {
                let mut sum = Sum::of_kept(kept.clone()).expect("known");
                text.as_bytes().chunks(chunk).for_each(|chunk| sum.add(chunk));
                assert!(sum.end().0, "{text} in chunks of {chunk}");
            }
        }
    }
}
