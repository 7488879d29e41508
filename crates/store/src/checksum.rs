//! Sums of objects' bytes that their stores keep.

/// A sum of an object's bytes, as its store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// How it is computed.
    pub algorithm: Algorithm,
    /// The sum; of a CRC its bytes from the highest.
    pub sum: Vec<u8>,
    /// `None`: of all bytes. Otherwise the lengths of the parts that the object was put in, and this
    /// is the sum of the sums of these, one after the other (Amazon S3 user guide, "Checking object
    /// integrity", composite checksums).
    ///
    /// They may be supposed, or not known, and then there is none;
    /// [`part_lengths`](crate::Store::part_lengths) tells what they are.
    pub parts: Option<Vec<u64>>,
}

/// How a sum is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// CRC-32 of ISO HDLC, as in gzip.
    Crc32,
    /// CRC-32 of Castagnoli, as in iSCSI.
    Crc32c,
    /// CRC-64 of NVM Express.
    Crc64Nvme,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
}

impl Algorithm {
    /// Bytes of a sum.
    #[cfg(feature = "object")]
    pub(crate) fn sum_bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The name that people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC-32",
            Self::Crc32c => "CRC-32C",
            Self::Crc64Nvme => "CRC-64/NVME",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
        }
    }
}
