//! What can go wrong while a file is read, by what the caller can do next; as text, and as a source, told as
//! `store` tells its errors.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused, or the device failed.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file became shorter while it was read; reading again may succeed.
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its size when reading began.
        expected: u64,
        /// Its size when that was noticed.
        found: u64,
    },
    /// The device did not answer in time.
    Stalled {
        /// The file.
        path: PathBuf,
        /// Where the read that hangs began.
        offset: u64,
        /// How long was waited.
        limit: Duration,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Io { path, .. } | Self::Truncated { path, .. } | Self::Stalled { path, .. }) =
            self;
        write!(f, "{}: {}", path.display(), self.reason())
    }
}

impl From<Error> for store::Error {
    fn from(error: Error) -> Self {
        let reason = error.reason();
        match error {
            Error::Io { path, source } => Self::io(path, source),
            Error::Truncated { path, .. } => Self::Changed { name: path.as_path().into() },
            Error::Stalled { path, .. } => {
                Self::io(path, io::Error::new(io::ErrorKind::TimedOut, reason))
            }
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        store::Error::from(error).into()
    }
}

impl Error {
    /// The reason without the path, for messages that name the path themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } => store::io_reason(source),
            Self::Truncated { expected, found, .. } => {
                format!("truncated while being read: {expected} bytes expected, {found} found")
            }
            Self::Stalled { offset, limit, .. } => format!(
                "no answer for {} s at byte {offset}; its mount may be unreachable",
                limit.as_secs_f32()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_what_stands_behind_the_path_whatever_that_is_called() {
        let path = PathBuf::from("a: b.log");
        let limit = Duration::from_secs(2);
        for (error, reason) in [
            (
                Error::Io { path: path.clone(), source: io::Error::from_raw_os_error(libc::EIO) },
                "Input/output error",
            ),
            (
                Error::Truncated { path: path.clone(), expected: 5, found: 3 },
                "truncated while being read: 5 bytes expected, 3 found",
            ),
            (
                Error::Stalled { path, offset: 7, limit },
                "no answer for 2 s at byte 7; its mount may be unreachable",
            ),
        ] {
            assert_eq!(error.reason(), reason);
            assert_eq!(error.to_string(), format!("a: b.log: {reason}"));
        }
    }

    #[test]
    fn what_a_scan_meets_is_an_error_of_its_file() {
        let path = || PathBuf::from("a");
        let lost = Error::Io { path: path(), source: io::Error::from_raw_os_error(libc::EIO) };
        let short = Error::Truncated { path: path(), expected: 5, found: 3 };
        let late = Error::Stalled { path: path(), offset: 7, limit: Duration::from_secs(2) };
        let told = late.to_string();
        for (error, number) in [(lost, libc::EIO), (short, libc::ESTALE), (late, libc::ETIMEDOUT)] {
            let error = store::Error::from(error);
            assert_eq!(error.system_number(), Some(number), "{error}");
            if number == libc::ETIMEDOUT {
                assert_eq!(error.to_string(), told);
            }
        }
    }
}
