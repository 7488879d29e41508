//! What was asked of the device: requests and bytes, in total, per file and in order.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Counts of the requests that reached the device: what the kernel's page cache answered is not in them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Sums over all files.
    pub total: Counts,
    /// Per file, by its path relative to the mount point when it was opened.
    #[serde(serialize_with = "with_printable_paths")]
    pub files: BTreeMap<PathBuf, Counts>,
    /// The latest reads in the order in which they arrived, at most [`crate::Options::log_reads_max`].
    pub log: VecDeque<Read>,
    /// Reads that were pushed out of the log.
    pub log_dropped: u64,
}

/// Requests and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Read requests, failed ones included.
    pub reads: u64,
    /// Reads that were answered, failed ones included: what they brought is in memory, but for what
    /// left it since.
    pub answered: u64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Reads that were charged a seek.
    pub seeks: u64,
    /// Reads that were made to fail, or that the source failed.
    pub failed: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Times that it was opened, also where its device is not asked about that.
    pub opens: u64,
    /// Requests without data: look-ups, attributes, opens, listings. Counted in
    /// the total only.
    pub metadata: u64,
}

/// One read request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Read {
    /// The file's path relative to the mount point when it was opened.
    #[serde(serialize_with = "with_printable_path")]
    pub path: PathBuf,
    /// Where it began.
    pub offset: u64,
    /// Bytes asked for.
    pub length: u64,
}

impl Stats {
    /// The counts of one file by its path relative to the mount point; zero if nothing was asked.
    pub fn file(&self, path: impl AsRef<Path>) -> Counts {
        self.files.get(path.as_ref()).copied().unwrap_or_default()
    }

    /// The logged reads of one file as (offset, length), in the order in which they arrived.
    pub fn reads_of(&self, path: impl AsRef<Path>) -> Vec<(u64, u64)> {
        let path = path.as_ref();
        self.log.iter().filter(|r| r.path == path).map(|r| (r.offset, r.length)).collect()
    }

    /// The JSON of the control file; bytes of a path that are not UTF-8 are written `\xNN`, and a
    /// backslash twice.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("keys are strings and values are numbers and strings")
    }

    fn count(&mut self, path: &Path, change: impl Fn(&mut Counts)) {
        change(&mut self.total);
        if let Some(counts) = self.files.get_mut(path) {
            change(counts);
        } else {
            change(self.files.entry(path.to_owned()).or_default());
        }
    }

    /// Counts a read that returned `bytes`, or failed, and logs what it asked for.
    pub(crate) fn count_read(
        &mut self,
        asked: Read,
        bytes: Option<u64>,
        seek: bool,
        log_max: usize,
    ) {
        self.count(&asked.path, |counts| {
            counts.reads += 1;
            counts.read_bytes += bytes.unwrap_or(0);
            counts.seeks += u64::from(seek);
            counts.failed += u64::from(bytes.is_none());
        });
        self.log.push_back(asked);
        while self.log.len() > log_max {
            self.log.pop_front();
            self.log_dropped += 1;
        }
    }

    /// Counts the answer of a read, unless its request was counted before the counts began anew.
    pub(crate) fn count_answer(&mut self, path: &Path) {
        if self.file(path).answered < self.file(path).reads {
            self.count(path, |counts| counts.answered += 1);
        }
    }

    /// Counts a request without data; in total only, since what is looked up may not be there.
    pub(crate) fn count_metadata(&mut self) {
        self.total.metadata += 1;
    }

    pub(crate) fn count_open(&mut self, path: &Path) {
        self.count(path, |counts| counts.opens += 1);
    }

    pub(crate) fn count_write(&mut self, path: &Path, bytes: u64) {
        self.count(path, |counts| {
            counts.writes += 1;
            counts.written_bytes += bytes;
        });
    }
}

fn printable(path: &OsStr) -> String {
    let mut text = String::new();
    for chunk in path.as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a String takes all that is written");
        }
    }
    text
}

fn with_printable_path<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&printable(path.as_os_str()))
}

fn with_printable_paths<S: serde::Serializer>(
    files: &BTreeMap<PathBuf, Counts>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(files.iter().map(|(path, counts)| (printable(path.as_os_str()), counts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &OsStr, offset: u64) -> Read {
        Read { path: path.into(), offset, length: 100 }
    }

    #[test]
    fn reads_are_counted_per_file_and_the_log_is_bounded() {
        let mut stats = Stats::default();
        for offset in [0, 100, 200] {
            stats.count_read(read(OsStr::new("a"), offset), Some(100), offset == 0, 2);
        }
        stats.count_read(read(OsStr::new("b"), 0), None, false, 2);
        assert_eq!(stats.file("a").read_bytes, 300);
        assert_eq!(stats.file("a").seeks, 1);
        assert_eq!((stats.total.reads, stats.total.failed), (4, 1));
        assert_eq!(stats.log_dropped, 2);
        assert_eq!(stats.reads_of("a"), [(200, 100)]);
        assert_eq!(stats.file("c"), Counts::default());
    }

    #[test]
    fn answers_are_counted_of_reads_that_are() {
        let mut stats = Stats::default();
        let path = Path::new("a");
        stats.count_answer(path);
        assert_eq!(stats.total.answered, 0, "its read was counted before these counts began");
        (0..2).for_each(|_| stats.count_read(read(path.as_os_str(), 0), Some(100), false, 2));
        stats.count_answer(path);
        assert_eq!((stats.file("a").reads, stats.file("a").answered), (2, 1));
        assert_eq!(stats.total.answered, 1);
    }

    #[test]
    fn any_name_is_valid_json() {
        let mut stats = Stats::default();
        stats.count_write(Path::new(OsStr::from_bytes(b"a\xff\\\n")), 5);
        let json: serde_json::Value = serde_json::from_str(&stats.to_json()).unwrap();
        assert_eq!(json["files"]["a\\xff\\\\\n"]["written_bytes"], 5);
    }
}
