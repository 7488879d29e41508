//! The sums that S3 keeps of objects which were put with one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{CONTENT_LENGTH, HeaderMap};

use crate::{Algorithm, Checksum};

/// What asks for a sum along with the head of an object.
pub(super) const MODE: &str = "x-amz-checksum-mode";

const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("x-amz-checksum-crc64nvme", Algorithm::Crc64Nvme),
    ("x-amz-checksum-crc32c", Algorithm::Crc32c),
    ("x-amz-checksum-crc32", Algorithm::Crc32),
    ("x-amz-checksum-sha256", Algorithm::Sha256),
    ("x-amz-checksum-sha1", Algorithm::Sha1),
];

/// A sum as the head of an answer gives it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    algorithm: Algorithm,
    sum: Vec<u8>,
    /// How many parts it is made of the sums of.
    parts: Option<u64>,
}

impl Told {
    /// What the head of an answer says, if that can be understood.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let (value, algorithm) =
            ALGORITHMS.iter().find_map(|(name, algorithm)| Some((text(name)?, *algorithm)))?;
        let (sum, parts) = match value.split_once('-') {
            Some((sum, parts)) => (sum, Some(parts.parse().ok()?)),
            None if text("x-amz-checksum-type") == Some("COMPOSITE") => return None,
            None => (value, None),
        };
        let sum = STANDARD.decode(sum).ok().filter(|sum| sum.len() == algorithm.sum_bytes())?;
        Some(Self { algorithm, sum, parts })
    }

    /// How many parts it is of, if their lengths must be known, too.
    pub(super) fn parts(&self) -> Option<u64> {
        self.parts
    }

    /// The sum of an object of `size` bytes, with the heads of the answers about its first and its
    /// last part. `None` if these are not what parts of one length leave.
    pub(super) fn in_parts(
        self,
        size: u64,
        first: &HeaderMap,
        last: &HeaderMap,
    ) -> Option<Checksum> {
        let length = |head: &HeaderMap| head.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
        let (first, last): (u64, u64) = (length(first)?, length(last)?);
        let before = self.parts?.checked_sub(1)?.checked_mul(first)?;
        let is_even = last <= first && before.checked_add(last) == Some(size);
        (first > 0 && is_even).then_some(Checksum {
            algorithm: self.algorithm,
            sum: self.sum,
            part_bytes: Some(first),
        })
    }

    /// The sum of all bytes.
    pub(super) fn whole(self) -> Checksum {
        Checksum { algorithm: self.algorithm, sum: self.sum, part_bytes: None }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn head(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn sums_of_all_bytes_and_of_parts_are_told_apart() {
        let whole =
            head(&[("x-amz-checksum-crc32", "n1l/VQ=="), ("x-amz-checksum-type", "FULL_OBJECT")]);
        let told = Told::of(&whole).expect("a sum");
        assert_eq!(told.parts(), None);
        let sum = Checksum {
            algorithm: Algorithm::Crc32,
            sum: vec![0x9f, 0x59, 0x7f, 0x55],
            part_bytes: None,
        };
        assert_eq!(told.whole(), sum);
        let parts = || Told::of(&head(&[("x-amz-checksum-crc32", "n1l/VQ==-2")])).expect("a sum");
        let (ten, one) = (head(&[("content-length", "10")]), head(&[("content-length", "1")]));
        assert_eq!(parts().in_parts(11, &ten, &one).expect("two parts").part_bytes, Some(10));
        assert_eq!(parts().in_parts(12, &ten, &one), None, "parts of other lengths");
        assert_eq!(parts().in_parts(11, &one, &ten), None, "the last one is the longest");
        assert_eq!(parts().in_parts(11, &head(&[]), &one), None);
    }

    #[test]
    fn what_is_no_sum_is_none() {
        for fields in [
            &[][..],
            &[("x-amz-checksum-crc32", "????")],
            &[("x-amz-checksum-crc32", "n1l/VQAA")],
            &[("x-amz-checksum-sha1", "n1l/VQ==")],
            &[("x-amz-checksum-crc32", "n1l/VQ==-x")],
            &[("x-amz-checksum-crc32", "n1l/VQ=="), ("x-amz-checksum-type", "COMPOSITE")],
        ] {
            assert_eq!(Told::of(&head(fields)), None, "{fields:?}");
        }
    }
}
