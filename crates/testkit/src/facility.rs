//! What a machine must offer for a test, and saying so where it does not.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// With this variable set to 1, a missing facility fails a test instead of skipping it.
const REQUIRE_ALL: &str = "NEARFIRST_REQUIRE_ALL";

/// The file to which, if this names one, all that is skipped is added, a line each.
const SKIPPED: &str = "NEARFIRST_SKIPPED";

/// The folder of programs that `scripts/setup.sh` built for tests only, seen from the root of the
/// repository as there; `target/peers` if not set.
const PEERS: &str = "NEARFIRST_PEERS";

/// Something that not every machine or user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Facility<'a> {
    /// The right to mount, to limit and to see residency of all files.
    Root,
    /// A folder whose files can leave memory, as those of tmpfs cannot.
    Disk(&'a Path),
    /// `/dev/fuse`.
    Fuse,
    /// `/dev/loop-control`.
    Loop,
    /// A file system that the kernel has or can load.
    FileSystem(&'a str),
    /// A program: see [`program`].
    Tool(&'a str),
    /// Several programs, as a server needs them: `skip_unless!(S3::NEEDS)`.
    Tools(&'a [&'a str]),
    /// A controller of cgroups (`memory`, `pids`); either version will do.
    Cgroup(&'a str),
}

/// Why the first missing one is missing; `None` if all are there. Use [`crate::skip_unless`] in tests.
pub fn missing<'a>(needed: impl IntoIterator<Item = Facility<'a>>) -> Option<String> {
    needed.into_iter().find_map(Facility::missing)
}

/// Says, also of a test that passes, that something of it is skipped and why; `scripts/test.sh`
/// counts it by `NEARFIRST_SKIPPED`.
///
/// Panics instead if `NEARFIRST_REQUIRE_ALL` is 1, so that a machine that should test everything
/// cannot skip in silence.
#[track_caller]
pub fn skip(reason: &str) {
    let required = std::env::var_os(REQUIRE_ALL).is_some_and(|value| value == "1");
    assert!(!required, "{reason}, and {REQUIRE_ALL} is 1");
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("test");
    writeln!(std::io::stderr().lock(), "skipped {name}: {reason}").ok();
    if let Some(list) = std::env::var_os(SKIPPED) {
        let list = std::fs::File::options().append(true).open(list);
        let added =
            list.and_then(|mut list| list.write_all(format!("{name}\t{reason}\n").as_bytes()));
        added.unwrap_or_else(|error| panic!("{SKIPPED}: {error}"));
    }
}

impl Facility<'_> {
    fn missing(self) -> Option<String> {
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Self::Root => (!is_root).then(|| "not root".to_owned()),
            Self::Disk(folder) => crate::lies_in_memory(folder)
                .then(|| format!("{} lies in memory", folder.display())),
            Self::Fuse => unusable("/dev/fuse"),
            Self::Loop => absent("/dev/loop-control"),
            Self::FileSystem(name) => {
                let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
                let known = known.lines().any(|line| line.split_whitespace().last() == Some(name));
                let loads = || {
                    let mut modprobe = std::process::Command::new("modprobe");
                    modprobe.arg("-q").arg(name).status().is_ok_and(|status| status.success())
                };
                (!(known || is_root && loads())).then(|| format!("the kernel has no {name}"))
            }
            Self::Tool(name) => program(name).is_none().then(|| format!("{name} is not installed")),
            Self::Tools(names) => names.iter().find_map(|name| Facility::Tool(name).missing()),
            Self::Cgroup(controller) => crate::limit::lacks(controller),
        }
    }
}

/// Where a program is: among those built for tests (`NEARFIRST_PEERS`), in `PATH`, in `/usr/sbin` and
/// `/sbin`, or in Debian's folder of the newest `PostgreSQL`.
pub fn program(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os(PEERS).filter(|peers| !peers.is_empty());
    let peers = root.join(peers.unwrap_or_else(|| "target/peers".into()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![peers.join("bin"), peers.join("venv/bin")];
    folders.extend(std::env::split_paths(&path));
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let releases = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = releases.map(|release| release.path()).max_by_key(number);
    folders.extend(newest.map(|release| release.join("bin")));
    folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn absent(path: &str) -> Option<String> {
    (!Path::new(path).exists()).then(|| format!("no {path}"))
}

fn unusable(path: &str) -> Option<String> {
    let opened = std::fs::File::options().read(true).write(true).open(path);
    opened.err().map(|error| format!("{path}: {error}"))
}

/// Returns from the test, saying why ([`skip`]), unless all the facilities are there.
#[macro_export]
macro_rules! skip_unless {
    ($($facility:expr),+ $(,)?) => {
        if let Some(reason) = $crate::missing([$($facility),+]) {
            $crate::skip(&reason);
            return;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dir, cmd};

    /// What is tested as root of a machine is tested whole, or it is seen that it cannot be.
    #[test]
    fn root_has_what_most_tests_of_root_need() {
        crate::skip_unless!(
            Facility::Root,
            Facility::Fuse,
            Facility::Loop,
            Facility::Cgroup("memory"),
            Facility::Cgroup("pids"),
        );
    }

    #[test]
    #[ignore = "the next one runs it"]
    fn skips() {
        skip("no reason");
    }

    #[test]
    fn what_is_skipped_is_said_and_counted_or_refused() {
        let dir = Dir::new();
        let list = dir.create("list", "");
        let name = "facility::tests::skips";
        let this = std::env::current_exe().expect("a test has a path");
        let run = || cmd(&this, ["--ignored", "--exact", name]).env(SKIPPED, &list);
        let said = format!("skipped {name}: no reason");
        run().without_env(REQUIRE_ALL).run().succeeds().complains(&said);
        assert_eq!(std::fs::read_to_string(&list).unwrap(), format!("{name}\tno reason\n"));
        run().env(REQUIRE_ALL, "1").run().ends_with(101);
    }

    #[test]
    fn a_missing_facility_has_a_reason() {
        let tool = "no-such-program";
        assert_eq!(
            Facility::Tool(tool).missing().as_deref(),
            Some("no-such-program is not installed")
        );
        assert_eq!(Facility::Tool("sh").missing(), None);
        assert_eq!(Facility::Tools(&["sh", "cat"]).missing(), None);
        assert_eq!(Facility::Tools(&["sh", tool]).missing(), Facility::Tool(tool).missing());
        assert_eq!(Facility::FileSystem("proc").missing(), None);
        assert!(Facility::FileSystem("no-such-fs").missing().is_some());
    }
}
