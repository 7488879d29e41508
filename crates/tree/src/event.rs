//! What a learner is told, and what it answers: the seam between guessing and seeing.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Smaller files are fetched whole: a read of a disk or a network takes as long.
pub const PARTS_BYTES_MIN: u64 = 128 << 10;

/// A process; given by its source, which never uses one twice (a pid is used again, this is not).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u64);

/// Whose patterns a process adds to and is predicted from: a user's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u32);

/// Which file a name stood for: a program that was replaced is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Its file system, by a number that holds until the next boot.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
}

/// A file as it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its absolute path, as the kernel has it: any bytes.
    pub path: Arc<[u8]>,
    /// What the path stood for then, where the source tells.
    pub identity: Option<Identity>,
    /// Bytes, where the source tells.
    pub size: Option<u64>,
}

/// Whether a path, from the root, can be one of a file on a device: none other is learned or fetched.
pub fn is_on_a_device(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && ![&b"/proc/"[..], b"/sys/", b"/dev/"].iter().any(|apart| path.starts_with(apart))
}

/// What a file was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// To be read.
    Read,
    /// To be written, made or cut, and not to be read: never predicted, but it helps matching.
    Write,
}

impl Access {
    /// Of a file that may be read as well as written: it is read if it has bytes. Its size is asked for after
    /// the open: what the program made and wrote meanwhile counts as read.
    pub fn by_bytes(file: &File) -> Self {
        if file.size > Some(0) { Self::Read } else { Self::Write }
    }
}

/// A program did something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A process that runs already is seen for the first time.
    Found {
        /// The process.
        process: Process,
        /// Whose it is.
        user: User,
    },
    /// A process made another one.
    Forked {
        /// The one that was there.
        parent: Process,
        /// The new one.
        child: Process,
    },
    /// A process runs a program from now on.
    Executed {
        /// The process.
        process: Process,
        /// The file of the program; of a script, of what interprets it.
        program: File,
        /// What it was called with, its own name first; cut where the source keeps less.
        arguments: Vec<Arc<[u8]>>,
        /// Its working folder: what relative names in `arguments` begin at.
        folder: Arc<[u8]>,
    },
    /// A process opened a file.
    Opened {
        /// The process.
        process: Process,
        /// The file.
        file: File,
        /// For what.
        access: Access,
    },
    /// What has been read of a file of [`PARTS_BYTES_MIN`] bytes or more until it was closed, or until
    /// who read it ended, where the source tells.
    Touched {
        /// The process that read it.
        process: Process,
        /// The file.
        file: File,
        /// The parts that were read, in file order, without overlap.
        extents: Vec<Range<u64>>,
    },
    /// A process ended.
    Exited {
        /// The process.
        process: Process,
    },
    /// The source lost events: of one process and what came of it, or of all.
    Lost {
        /// The process; `None`: of any.
        process: Option<Process>,
    },
    /// A predicted file is near: the answer of who carries predictions out.
    Fetched {
        /// The prediction.
        prediction: PredictionId,
        /// The file's path.
        path: Arc<[u8]>,
        /// Bytes that had to be fetched; 0 if it was near already.
        bytes: u64,
        /// How long that took by itself, without the wait for its turn: what who reads it is saved.
        took: Duration,
    },
    /// Files of a prediction lie on a disk with a head, where many at a time cost little more than
    /// some: its run is worth being told of whole. That answer, if it is one, comes before others.
    Swept {
        /// The prediction.
        prediction: PredictionId,
    },
    /// A predicted file cannot be brought near, and is not waited for: that answer.
    Refused {
        /// The prediction.
        prediction: PredictionId,
        /// The file's path.
        path: Arc<[u8]>,
    },
}

/// A prediction; given by the learner, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PredictionId(pub u64);

/// A file that will probably be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Its path.
    pub path: Arc<[u8]>,
    /// The parts that were read last time, in file order; empty: the whole.
    pub extents: Vec<Range<u64>>,
    /// How long from now until it is needed, by what earlier runs took.
    pub needed_in: Duration,
    /// The chance that it will be read, by how many earlier runs did, from 0 to 1.
    pub chance: f32,
    /// Its inode's number when it was read last, if that is known: where files were made one after
    /// the other, they and the folders that name them mostly lie in this order.
    pub inode: Option<u64>,
}

/// What a run of a program will probably read, in the order in which it will be needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// What it is called from now on.
    pub id: PredictionId,
    /// Of which process.
    pub process: Process,
    /// Who must be allowed to read what is fetched.
    pub user: User,
    /// The files.
    pub files: Vec<Predicted>,
}

/// Something is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Bring these near, if they are far and nothing better is to be done.
    Fetch(Prediction),
    /// What of this prediction is not yet fetched is not wanted any more.
    Withdraw(PredictionId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_makes_up_is_on_no_device() {
        for path in ["/proc/1/maps", "/sys/power/state", "/dev/null", "relative", "pipe:[1]", ""] {
            assert!(!is_on_a_device(path.as_bytes()), "{path}");
        }
        for path in ["/procedure", "/home/u/proc/a", "/devices/x", "/"] {
            assert!(is_on_a_device(path.as_bytes()), "{path}");
        }
    }
}
