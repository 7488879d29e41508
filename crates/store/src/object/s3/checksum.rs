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

/// Parts of an object (Amazon S3 user guide, "Multipart upload limits").
const PARTS_MAX: usize = 10_000;

/// A sum as the head of an answer gives it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    algorithm: Algorithm,
    sum: Vec<u8>,
    /// How many parts it is made of the sums of.
    parts: Option<usize>,
}

impl Told {
    /// What the head of an answer says, if that can be understood.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let (value, algorithm) =
            ALGORITHMS.iter().find_map(|(name, algorithm)| Some((text(name)?, *algorithm)))?;
        let (sum, parts) = match value.split_once('-') {
            Some((sum, parts)) => {
                (sum, Some(parts.parse().ok().filter(|parts| *parts <= PARTS_MAX)?))
            }
            None if text("x-amz-checksum-type") == Some("COMPOSITE") => return None,
            None => (value, None),
        };
        let sum = STANDARD.decode(sum).ok().filter(|sum| sum.len() == algorithm.sum_bytes())?;
        Some(Self { algorithm, sum, parts })
    }

    /// How many parts it is of, if their lengths must be known, too.
    pub(super) fn parts(&self) -> Option<usize> {
        self.parts
    }

    /// The sum of all bytes, or of those of `parts`, which are so long.
    pub(super) fn over(self, parts: Option<Vec<u64>>) -> Checksum {
        Checksum { algorithm: self.algorithm, sum: self.sum, parts }
    }
}

/// The lengths of the parts of an object of `size` bytes, if the first and the last of them are what
/// parts of one length leave. Some uneven ones leave the same.
pub(super) fn even_parts(size: u64, parts: usize, first: u64, last: u64) -> Option<Vec<u64>> {
    let before = parts.checked_sub(1)?;
    let is_even =
        last <= first && first.checked_mul(before as u64)?.checked_add(last) == Some(size);
    is_even.then(|| [vec![first; before], vec![last]].concat())
}

/// The length of the part that the head of an answer is about.
pub(super) fn length(head: &HeaderMap) -> Option<u64> {
    head.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
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
            parts: None,
        };
        assert_eq!(told.over(None), sum);
        let parts = Told::of(&head(&[("x-amz-checksum-crc32", "n1l/VQ==-2")])).expect("a sum");
        assert_eq!(parts.parts(), Some(2));
    }

    #[test]
    fn parts_are_supposed_to_be_even_where_the_first_and_the_last_leave_that() {
        assert_eq!(even_parts(11, 2, 10, 1), Some(vec![10, 1]));
        assert_eq!(even_parts(7, 1, 7, 7), Some(vec![7]));
        assert_eq!(even_parts(12, 2, 10, 1), None, "parts of other lengths");
        assert_eq!(even_parts(11, 2, 1, 10), None, "the last one is the longest");
        assert_eq!(even_parts(5, 0, 5, 5), None);
    }

    #[test]
    fn what_is_no_sum_is_none() {
        for fields in [
            &[][..],
            &[("x-amz-checksum-crc32", "????")],
            &[("x-amz-checksum-crc32", "n1l/VQAA")],
            &[("x-amz-checksum-sha1", "n1l/VQ==")],
            &[("x-amz-checksum-crc32", "n1l/VQ==-x")],
            &[("x-amz-checksum-crc32", "n1l/VQ==-10001")],
            &[("x-amz-checksum-crc32", "n1l/VQ=="), ("x-amz-checksum-type", "COMPOSITE")],
        ] {
            assert_eq!(Told::of(&head(fields)), None, "{fields:?}");
        }
    }
}
