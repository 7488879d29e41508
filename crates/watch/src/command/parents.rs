//! Where a process comes from, and whether its names and its rights are ours.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::listener::{field, link, status};
use super::sys;
use crate::status::words;

/// Generations climbed for one that is known.
const GENERATIONS_MAX: usize = 64;

/// The nearest of a process and those it comes from that is known; `None` if none is.
///
/// One in between may never have made a call: it forked, and its child does the work.
pub(super) fn nearest(number: u32, is_known: impl Fn(u32) -> bool) -> Option<u32> {
    let mut number = number;
    for _ in 0..GENERATIONS_MAX {
        if is_known(number) {
            return Some(number);
        }
        number = field(&status(number), "PPid:").filter(|parent| *parent > 1)?;
    }
    None
}

/// Whether a thread has another root folder than we, or other mounts: then its names mean
/// something else. Of one of whom that is not told it is taken to be so.
pub(super) fn is_elsewhere(number: u32) -> bool {
    static OWN: OnceLock<[Option<Vec<u8>>; 2]> = OnceLock::new();
    let of = |number| ["root", "ns/mnt"].map(|name| link(number, name));
    let own = OWN.get_or_init(|| of(std::process::id()));
    of(number) != *own
}

/// A descriptor of a process, by its number.
pub(super) fn open(number: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether the kernel judges what a process may open by another user's rights than ours. One that is
/// gone has none.
pub(super) fn is_anothers(number: u32) -> bool {
    // The text that tells it, too, is several times as dear, and each program waits for this to begin.
    let told = open(number).and_then(|process| sys::info(&process)).map(|info| info.file_user);
    let user = told.or_else(|| file_user(&status(number)));
    user.is_some_and(|user| user != rustix::process::geteuid().as_raw())
}

/// The last of four: the real one, the effective, the saved, and the one that counts for files.
fn file_user(status: &str) -> Option<u32> {
    words(status, "Uid:").nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use testkit::{Facility, skip_unless};

    use super::*;

    #[test]
    fn a_process_that_gave_up_its_rights_is_anothers() {
        skip_unless!(Facility::Root);
        assert!(!is_anothers(std::process::id()));
        let mut child = Command::new("sleep").arg("1000").uid(65534).spawn().expect("it is there");
        assert!(is_anothers(child.id()));
        child.kill().expect("ours");
        child.wait().expect("ended");
        assert!(!is_anothers(child.id()), "it is gone");
        assert_eq!(file_user("Name:\tx\nUid:\t1\t2\t3\t4\n"), Some(4));
    }

    #[test]
    fn a_process_comes_from_those_that_started_it() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        assert_eq!(nearest(own, |number| number == own), Some(own));
        assert_eq!(nearest(own, |number| number == parent), Some(parent));
        assert_eq!(nearest(own, |_| false), None);
        assert!(!is_elsewhere(parent));
        let mut child = Command::new("true").spawn().expect("it is there");
        child.wait().expect("ended");
        assert!(is_elsewhere(child.id()), "nobody tells");
    }
}
