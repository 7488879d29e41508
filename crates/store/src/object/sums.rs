//! The sums that Google and Azure tell of a whole object with the bytes of a range of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{Algorithm, Checksum};

/// What the head of an answer tells, if that can be understood.
pub(super) fn told(headers: &[(String, String)]) -> Option<Checksum> {
    let values = |asked: &'static str| {
        headers.iter().filter(move |(name, _)| name == asked).map(|(_, value)| value.as_str())
    };
    // What is kept packed comes unpacked from Google, and its sums are of what is kept.
    if values("x-goog-stored-content-encoding").any(|coding| coding != "identity") {
        return None;
    }
    let google = values("x-goog-hash").flat_map(|value| value.split(','));
    let google = |asked: &str| {
        google.clone().find_map(|sum| sum.trim().strip_prefix(asked)?.strip_prefix('='))
    };
    // An object that was made of others has no MD5 sum there.
    let (algorithm, sum) = google("crc32c")
        .map(|sum| (Algorithm::Crc32c, sum))
        .or_else(|| Some((Algorithm::Md5, google("md5")?)))
        .or_else(|| Some((Algorithm::Md5, values("x-ms-blob-content-md5").next()?)))?;
    let sum = STANDARD.decode(sum).ok().filter(|sum| sum.len() == algorithm.sum_bytes())?;
    Some(Checksum { algorithm, sum, parts: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &str)]) -> Option<(Algorithm, Vec<u8>)> {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        told(&headers).map(|sum| (sum.algorithm, sum.sum))
    }

    #[test]
    fn sums_are_told_by_name() {
        let crc = (Algorithm::Crc32c, vec![0xe3, 0x06, 0x92, 0x83]);
        assert_eq!(of(&[("x-goog-hash", "crc32c=4waSgw==")]), Some(crc.clone()));
        let md5 = "md5=JfnnlDI7RTiF9RgfG2JNCw==";
        assert_eq!(of(&[("x-goog-hash", &format!("{md5}, crc32c=4waSgw=="))]), Some(crc.clone()));
        assert_eq!(of(&[("x-goog-hash", md5), ("x-goog-hash", "crc32c=4waSgw==")]), Some(crc));
        let told = of(&[("x-goog-hash", md5)]).expect("a sum");
        assert_eq!((told.0, told.1.len()), (Algorithm::Md5, 16));
        assert_eq!(of(&[("x-ms-blob-content-md5", "JfnnlDI7RTiF9RgfG2JNCw==")]), Some(told));
    }

    #[test]
    fn what_is_no_sum_of_what_comes_is_none() {
        for headers in [
            &[][..],
            &[("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==")],
            &[("x-goog-hash", "crc32c=????")],
            &[("x-goog-hash", "crc32c=JfnnlDI7RTiF9RgfG2JNCw==")],
            &[("x-goog-hash", "sha1")],
            &[("x-goog-hash", "crc32c=4waSgw=="), ("x-goog-stored-content-encoding", "gzip")],
        ] {
            assert_eq!(of(headers), None, "{headers:?}");
        }
    }
}
