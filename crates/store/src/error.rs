//! What can go wrong when asking about a file, by what the caller can do next.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a file could not be asked about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused: missing, not permitted, a bad path.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mount did not answer in time; another file may.
    #[error("{}: {} has not answered for {} s; it may be unreachable", path.display(), mount.display(), limit.as_secs_f32())]
    Stalled {
        /// The file.
        path: PathBuf,
        /// Where the file system is mounted.
        mount: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// Reading it would recall it from a cold tier; it was not opened.
    #[error("{}: offline: reading it would recall {size} bytes", path.display())]
    Offline {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// There is nothing on this device that a calibration could read, and it may not write.
    #[error("{}: no file of at least {bytes_min} bytes to read, and none may be made here; name a larger file or a folder that may be written", path.display())]
    NothingToRead {
        /// The folder.
        path: PathBuf,
        /// The smallest file that is of use.
        bytes_min: u64,
    },
}

impl Error {
    /// An [`Error::Io`] about `path`.
    pub fn io(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: source.into() }
    }

    /// The reason without the path, for messages that name the path themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } => {
                let text = source.to_string();
                text.find(" (os error ").map_or(text.clone(), |at| text[..at].to_owned())
            }
            Self::Stalled { mount, limit, .. } => format!(
                "{} has not answered for {} s; it may be unreachable",
                mount.display(),
                limit.as_secs_f32()
            ),
            Self::Offline { size, .. } => format!("offline: reading it would recall {size} bytes"),
            Self::NothingToRead { bytes_min, .. } => {
                format!(
                    "no file of at least {bytes_min} bytes to read, and none may be made here; name a larger file or a folder that may be written"
                )
            }
        }
    }
}
