//! What can go wrong while a file is read, by what the caller can do next.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused, or the device failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file became shorter while it was read; reading again may succeed.
    #[error("{}: truncated while being read: {expected} bytes expected, {found} found", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its size when reading began.
        expected: u64,
        /// Its size when that was noticed.
        found: u64,
    },
    /// The device did not answer in time.
    #[error("{}: no answer for {} s at byte {offset}; its mount may be unreachable", path.display(), limit.as_secs_f32())]
    Stalled {
        /// The file.
        path: PathBuf,
        /// Where the read that hangs began.
        offset: u64,
        /// How long was waited.
        limit: Duration,
    },
}

impl Error {
    /// The reason without the path, for messages that name the path themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } => store::io_reason(source),
            Self::Truncated { .. } | Self::Stalled { .. } => {
                let text = self.to_string();
                text.split_once(": ").map_or(text.clone(), |(_, reason)| reason.to_owned())
            }
        }
    }
}
