//! The control files: `.slowfs/stats`, `.slowfs/reset` and `.slowfs/rules` in the root of the mount.
//!
//! They can be opened by name, are in no directory listing of the root, are never slow, counted or
//! cached, and hide a file of that name in the source.

use std::ffi::OsStr;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

use crate::engine::Engine;
use crate::rule::parse_rules;

/// The name of the hidden directory.
pub(crate) const DIRECTORY_NAME: &str = ".slowfs";

/// How long the kernel may keep what it knows of control files.
pub(crate) const TIME_TO_LIVE: Duration = Duration::from_hours(1);

const FIRST: u64 = 1 << 63;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    Directory,
    /// Read: the counts as JSON, as of the moment of opening.
    Stats,
    /// Write anything: counts become zero, and reads are numbered from 1.
    Reset,
    /// Read: the rules in force. Write: the rules that replace them, in one write.
    Rules,
}

const ALL: [Control; 4] = [Control::Directory, Control::Stats, Control::Reset, Control::Rules];

impl Control {
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        ALL.into_iter().find(|control| control.number() == number)
    }

    pub(crate) fn from_name(name: &OsStr) -> Option<Self> {
        Self::files().find(|(_, known)| name == *known).map(|(control, _)| control)
    }

    pub(crate) fn files() -> impl Iterator<Item = (Self, &'static str)> {
        [(Self::Stats, "stats"), (Self::Reset, "reset"), (Self::Rules, "rules")].into_iter()
    }

    pub(crate) fn number(self) -> u64 {
        FIRST + self as u64
    }

    pub(crate) fn attributes(self) -> FileAttr {
        let (kind, perm) = match self {
            Self::Directory => (FileType::Directory, 0o755),
            Self::Stats => (FileType::RegularFile, 0o444),
            Self::Reset => (FileType::RegularFile, 0o222),
            Self::Rules => (FileType::RegularFile, 0o666),
        };
        FileAttr {
            ino: INodeNo(self.number()),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    pub(crate) fn text(self, engine: &Engine) -> String {
        match self {
            Self::Stats => engine.stats().to_json() + "\n",
            Self::Rules => engine.rules_text(),
            Self::Directory | Self::Reset => String::new(),
        }
    }

    /// Carries out a write; false if the bytes are not what the file takes.
    pub(crate) fn write(self, engine: &Engine, bytes: &[u8]) -> bool {
        match self {
            Self::Reset => {
                engine.reset();
                true
            }
            Self::Rules => {
                let rules = std::str::from_utf8(bytes).ok().map(parse_rules);
                let Some(Ok(rules)) = rules else { return false };
                engine.set_rules(rules);
                true
            }
            Self::Directory | Self::Stats => false,
        }
    }
}
