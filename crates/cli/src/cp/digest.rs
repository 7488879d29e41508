//! Sums in the making, of any algorithm that a store may keep one of.

use std::fmt;

use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, CRC_64_NVME, Crc, Table};
use md5::{Digest as _, Md5};
use nearfirst::Algorithm;
use sha1::Sha1;
use sha2::Sha256;

/// Tables that take sixteen bytes at a step: as fast as a server sends.
type Tables = Table<16>;

static CRC32: Crc<u32, Tables> = Crc::<u32, Tables>::new(&CRC_32_ISO_HDLC);
static CRC32C: Crc<u32, Tables> = Crc::<u32, Tables>::new(&CRC_32_ISCSI);
static CRC64: Crc<u64, Tables> = Crc::<u64, Tables>::new(&CRC_64_NVME);

/// A sum of the bytes so far.
#[derive(Clone)]
pub(super) enum Digest {
    Md5(Md5),
    Crc32(crc::Digest<'static, u32, Tables>),
    Crc64(crc::Digest<'static, u64, Tables>),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").finish_non_exhaustive()
    }
}

impl Digest {
    pub(super) fn md5() -> Self {
        Self::Md5(Md5::new())
    }

    /// `None` for an algorithm that is not known here.
    pub(super) fn new(algorithm: Algorithm) -> Option<Self> {
        Some(match algorithm {
            Algorithm::Crc32 => Self::Crc32(CRC32.digest()),
            Algorithm::Crc32c => Self::Crc32(CRC32C.digest()),
            Algorithm::Crc64Nvme => Self::Crc64(CRC64.digest()),
            Algorithm::Md5 => Self::md5(),
            Algorithm::Sha1 => Self::Sha1(Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            _ => return None,
        })
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(state) => state.update(bytes),
            Self::Crc32(state) => state.update(bytes),
            Self::Crc64(state) => state.update(bytes),
            Self::Sha1(state) => state.update(bytes),
            Self::Sha256(state) => state.update(bytes),
        }
    }

    /// The sum; of a CRC its bytes from the highest.
    pub(super) fn end(self) -> Vec<u8> {
        match self {
            Self::Md5(state) => state.finalize().to_vec(),
            Self::Crc32(state) => state.finalize().to_be_bytes().to_vec(),
            Self::Crc64(state) => state.finalize().to_be_bytes().to_vec(),
            Self::Sha1(state) => state.finalize().to_vec(),
            Self::Sha256(state) => state.finalize().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_catalogues() {
        let of = |algorithm| {
            let mut digest = Digest::new(algorithm).expect("known");
            digest.add(b"1234");
            digest.add(b"56789");
            digest.end().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
        };
        assert_eq!(of(Algorithm::Crc32), "cbf43926");
        assert_eq!(of(Algorithm::Crc32c), "e3069283");
        assert_eq!(of(Algorithm::Crc64Nvme), "ae8b14860a799888");
        assert_eq!(of(Algorithm::Md5), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(of(Algorithm::Sha1), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
        assert_eq!(
            of(Algorithm::Sha256),
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"
        );
    }
}
