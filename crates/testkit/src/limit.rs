//! Limits on commands: memory (and so page cache) and processes, by cgroups of either version.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cmd::{Cmd, Output};
use crate::wait::happens_within;

/// How long it is tried to remove a group whose processes are ending.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A limit on the memory of the commands run in it, the page cache they fill included.
///
/// A page is charged to whoever brings it in first: evict a file before, or its pages are free.
#[derive(Debug)]
pub struct MemoryCgroup {
    group: Group,
}

impl MemoryCgroup {
    /// A group that holds at most `bytes`.
    #[track_caller]
    pub fn new(bytes: u64) -> Self {
        let group = Group::new("memory");
        let limit = group.of_version("memory.limit_in_bytes", "memory.max");
        group.write(limit, &bytes.to_string());
        Self { group }
    }

    /// The command, to be run inside. [`Cmd::named`] is lost by it.
    #[must_use]
    pub fn wrap(&self, cmd: Cmd) -> Cmd {
        cmd.in_cgroup(&self.group.procs())
    }

    /// Runs the command inside.
    pub fn run(&self, cmd: Cmd) -> Output {
        self.wrap(cmd).run()
    }

    /// The file that tells the bytes charged now, for who is inside.
    pub fn usage_file(&self) -> PathBuf {
        self.group.path.join(self.group.of_version("memory.usage_in_bytes", "memory.current"))
    }

    /// Bytes charged now.
    #[track_caller]
    pub fn usage(&self) -> u64 {
        let text = fs::read_to_string(self.usage_file()).expect("the kernel tells");
        text.trim().parse().expect("the kernel writes a number")
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // Lets go of cached pages, which would keep a group of version 1 alive.
        fs::write(self.group.path.join("memory.force_empty"), "0").ok();
    }
}

/// A limit on the processes and threads of the commands run in it, all together.
#[derive(Debug)]
pub struct PidsCgroup {
    group: Group,
}

impl PidsCgroup {
    /// A group of at most `most`.
    #[track_caller]
    pub fn new(most: u32) -> Self {
        let group = Group::new("pids");
        group.write("pids.max", &most.to_string());
        Self { group }
    }

    /// Runs the command inside.
    pub fn run(&self, cmd: Cmd) -> Output {
        cmd.in_cgroup(&self.group.procs()).run()
    }

    /// How many there are now.
    #[track_caller]
    pub fn count(&self) -> u32 {
        self.group.read("pids.current").trim().parse().expect("the kernel writes a number")
    }

    /// How many were refused.
    #[track_caller]
    pub fn refused(&self) -> u32 {
        let text = self.group.read("pids.events");
        let count = text.lines().find_map(|line| line.strip_prefix("max "));
        count.and_then(|count| count.parse().ok()).expect("the kernel writes a number")
    }
}

/// Where cgroups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

#[derive(Debug, Clone, Copy)]
enum Version {
    One,
    Two,
}

/// Why there are no cgroups of a controller, `None` if there are.
pub(crate) fn lacks(controller: &str) -> Option<String> {
    version(controller).is_none().then(|| format!("no cgroups for {controller}"))
}

fn version(controller: &str) -> Option<Version> {
    let root = Path::new(ROOT);
    if root.join(controller).join("cgroup.procs").exists() {
        return Some(Version::One);
    }
    let known = fs::read_to_string(root.join("cgroup.controllers")).ok()?;
    if !known.split_whitespace().any(|known| known == controller) {
        return None;
    }
    // In a container it may be known, and not to be had.
    let given = fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"));
    given.is_ok().then_some(Version::Two)
}

/// A cgroup of our own, removed on drop.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    version: Version,
}

impl Group {
    #[track_caller]
    fn new(controller: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearfirst-{}-{number}", std::process::id());
        let version = version(controller).expect("who asks for a group saw that there are some");
        let above = match version {
            Version::One => Path::new(ROOT).join(controller),
            Version::Two => PathBuf::from(ROOT),
        };
        let group = Self { path: above.join(name), version };
        fs::create_dir(&group.path).unwrap_or_else(|e| panic!("{}: {e}", group.path.display()));
        group
    }

    /// What is called otherwise in the other version.
    fn of_version<T>(&self, first: T, second: T) -> T {
        match self.version {
            Version::One => first,
            Version::Two => second,
        }
    }

    fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    #[track_caller]
    fn write(&self, setting: &str, value: &str) {
        let path = self.path.join(setting);
        fs::write(&path, value).unwrap_or_else(|e| panic!("{} = {value}: {e}", path.display()));
    }

    #[track_caller]
    fn read(&self, setting: &str) -> String {
        let path = self.path.join(setting);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Who watched over a command ends a moment after it, and a group goes with its last process.
        happens_within(ENDS_WITHIN, || fs::remove_dir(&self.path).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dir, Facility, cmd, evict, noise, resident_bytes, skip_unless};

    #[test]
    fn a_command_fills_no_more_of_the_page_cache_than_its_limit() {
        skip_unless!(Facility::Root, Facility::Cgroup("memory"));
        let limit = 16 << 20;
        let dir = Dir::new();
        let path = dir.create("a", noise(64 << 20, 1));
        evict(&path);
        let memory = MemoryCgroup::new(limit);
        memory.run(cmd("cat", [&path])).succeeds();
        let resident = resident_bytes(&path);
        assert!((1..=limit).contains(&resident), "{resident}");
        assert!(memory.usage() <= limit);
    }

    #[test]
    fn a_command_makes_no_more_processes_than_its_limit() {
        skip_unless!(Facility::Root, Facility::Cgroup("pids"));
        let pids = PidsCgroup::new(2);
        // Itself, a child, and a grandchild, which is one too many.
        pids.run(cmd("sh", ["-c", "(sleep 0; exit 3); exit 5"])).complains("fork");
        assert!(pids.refused() > 0);
        assert_eq!(pids.count(), 0);
    }
}
