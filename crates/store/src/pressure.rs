//! Whether memory is short, and how much of it this process could still have.
//!
//! Files are charged to the memory group of who brings them in, so the limit of a group counts as
//! the machine's memory does.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer holds: a few small files of the kernel are read for it.
const HOLDS: Duration = Duration::from_millis(250);
/// Share of the last ten seconds in which some task waited for memory, in percent.
const STALLED_PERCENT: f32 = 5.0;
/// Below this share of all memory that programs could still have, in percent.
const AVAILABLE_PERCENT: u64 = 5;
/// What is fetched and not read yet may take one part in so many of what programs could still have:
/// beyond it, what came first would be gone again before it is read.
const SHARE: u64 = 4;

/// What the kernel last said of memory.
#[derive(Debug, Default)]
pub struct Pressure {
    /// Who says it; `None` before it was asked first.
    tellers: Option<Tellers>,
    asked: Option<Duration>,
    is_high: bool,
    /// Bytes, in the tightest of the machine and the groups.
    available: Option<u64>,
}

/// What tells of memory, held open: it is asked again and again.
#[derive(Debug)]
struct Tellers {
    machine: Option<Text>,
    /// What tells who waits for memory, of the machine and of groups.
    stalls: Vec<Text>,
    groups: Vec<Group>,
}

/// A memory group that this process is in, or one above it.
#[derive(Debug)]
struct Group {
    files: &'static Files,
    limit: Text,
    /// Beyond it the group is slowed down and its memory taken back; of the second version alone.
    high: Option<Text>,
    used: Text,
    stat: Text,
}

/// A small file of the kernel, whose text is made anew each time that it is read.
#[derive(Debug)]
struct Text(File);

/// More than the kernel says at once here.
const TEXT_BYTES: usize = 16 << 10;

/// What tells of a group, by the version of its kind.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    root: &'static str,
    limit: &'static str,
    high: Option<&'static str>,
    used: &'static str,
    /// Keys in `memory.stat` of what is used by files and can be taken back: rarely and lately used.
    inactive: &'static str,
    active: &'static str,
}

const FIRST: Files = Files {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    high: None,
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file ",
    active: "total_active_file ",
};

const SECOND: Files = Files {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    high: Some("memory.high"),
    used: "memory.current",
    inactive: "inactive_file ",
    active: "active_file ",
};

/// What programs could still have, and of how much, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    available: u64,
    total: u64,
}

impl Pressure {
    /// Whether memory is so short at `now` that nothing may be fetched on a guess.
    pub fn is_high(&mut self, now: Duration) -> bool {
        self.ask(now);
        self.is_high
    }

    /// Bytes that one may take at `now` and leave others theirs, such as for what is fetched and not read
    /// yet; `None` if nobody tells.
    pub fn room(&mut self, now: Duration) -> Option<u64> {
        self.ask(now);
        self.available.map(|available| available / SHARE)
    }

    fn ask(&mut self, now: Duration) {
        if self.asked.is_some_and(|asked| now.saturating_sub(asked) < HOLDS) {
            return;
        }
        self.asked = Some(now);
        let tellers = self.tellers.get_or_insert_with(Tellers::new);
        let mut text = Vec::with_capacity(TEXT_BYTES);
        let rooms = tellers.rooms(&mut text);
        self.is_high = rooms.iter().any(|room| room.is_used_up()) || tellers.are_stalled(&mut text);
        self.available = rooms.iter().map(|room| room.available).min();
    }
}

/// As [`Pressure::room`], of this moment.
pub fn memory_room() -> Option<u64> {
    Pressure::default().room(Duration::ZERO)
}

impl Tellers {
    fn new() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let groups = groups(&own);
        let pressures = groups.iter().map(|(folder, _)| folder.join("memory.pressure"));
        let stalls = pressures.chain(["/proc/pressure/memory".into()]);
        Self {
            machine: Text::open(Path::new("/proc/meminfo")),
            stalls: stalls.filter_map(|path| Text::open(&path)).collect(),
            groups: groups.iter().filter_map(|(folder, files)| Group::at(folder, files)).collect(),
        }
    }

    fn rooms(&self, text: &mut Vec<u8>) -> Vec<Room> {
        let machine = self.machine.as_ref().and_then(|machine| room_of_machine(machine.read(text)));
        let of_machine = machine.map_or(u64::MAX, |room| room.total);
        let groups = self.groups.iter().filter_map(|group| group.room(of_machine, text));
        groups.chain(machine).collect()
    }

    fn are_stalled(&self, text: &mut Vec<u8>) -> bool {
        self.stalls.iter().any(|teller| stalls(teller.read(text)))
    }
}

impl Group {
    fn at(folder: &Path, files: &'static Files) -> Option<Self> {
        let open = |name| Text::open(&folder.join(name));
        let (limit, used) = (open(files.limit)?, open(files.used)?);
        let high = files.high.and_then(open);
        Some(Self { files, limit, high, used, stat: open("memory.stat")? })
    }

    /// `None` of a group without a limit, or with one that it cannot reach where the machine has no
    /// more than `of_machine`.
    fn room(&self, of_machine: u64, text: &mut Vec<u8>) -> Option<Room> {
        let mut limit = |of: &Text| of.read(text).trim().parse::<u64>().ok();
        let limits = [limit(&self.limit), self.high.as_ref().and_then(limit)];
        let total = limits.into_iter().flatten().min()?;
        if total > of_machine {
            return None;
        }
        let used: u64 = self.used.read(text).trim().parse().ok()?;
        Some(room_of_group(total, used, self.stat.read(text), self.files))
    }
}

impl Text {
    fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// What it says by now, by way of `text`; nothing if it is gone.
    fn read<'a>(&self, text: &'a mut Vec<u8>) -> &'a str {
        text.resize(TEXT_BYTES, 0);
        let read = self.0.read_at(text, 0).unwrap_or(0);
        std::str::from_utf8(&text[..read]).unwrap_or_default()
    }
}

impl Room {
    fn is_used_up(self) -> bool {
        self.available < self.total / 100 * AVAILABLE_PERCENT
    }
}

/// The folders of the groups that bound a process, by its `/proc/PID/cgroup`.
fn groups(own: &str) -> Vec<(PathBuf, &'static Files)> {
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let files = match controllers {
            "" => &SECOND,
            _ if controllers.split(',').any(|name| name == "memory") => &FIRST,
            _ => return None,
        };
        let folder = Path::new(files.root).join(path.trim_start_matches('/'));
        let above = folder.ancestors().take_while(|folder| folder.starts_with(files.root));
        Some(above.map(|folder| (folder.to_owned(), files)).collect::<Vec<_>>())
    };
    own.lines().filter_map(of).flatten().collect()
}

/// Whether tasks wait for memory, by a text such as `some avg10=0.00 avg60=0.00 …`; a kernel
/// without it says nothing.
fn stalls(pressure: &str) -> bool {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some avg10="));
    let percent = some.and_then(|rest| rest.split(' ').next()?.parse::<f32>().ok());
    percent.is_some_and(|percent| percent > STALLED_PERCENT)
}

/// By `/proc/meminfo`.
fn room_of_machine(meminfo: &str) -> Option<Room> {
    let bytes = |key| {
        let kibibytes = value(meminfo, key)?.trim_end_matches(" kB").parse::<u64>().ok()?;
        Some(kibibytes << 10)
    };
    Some(Room { available: bytes("MemAvailable:")?, total: bytes("MemTotal:")? })
}

/// By its `memory.stat`. Of the files that were used lately half are taken to be needed, much as the
/// kernel reckons for the machine.
fn room_of_group(total: u64, used: u64, stat: &str, files: &Files) -> Room {
    let bytes = |key| value(stat, key).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let reclaimable = bytes(files.inactive) + bytes(files.active) / 2;
    // More may be used than `memory.high` says.
    Room { available: total.saturating_add(reclaimable).saturating_sub(used).min(total), total }
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_wait_for_memory_are_pressure() {
        let said = |avg10: &str| {
            format!("some avg10={avg10} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 total=0\n")
        };
        assert!(!stalls(&said("0.00")));
        assert!(stalls(&said("12.34")));
        assert!(!stalls(""));
    }

    #[test]
    fn little_available_memory_is_pressure() {
        let said = |available: u64| {
            room_of_machine(&format!(
                "MemTotal:       1000000 kB\nMemFree: 1 kB\nMemAvailable:   {available} kB\n"
            ))
        };
        assert_eq!(said(500_000).map(Room::is_used_up), Some(false));
        assert_eq!(said(40_000).map(Room::is_used_up), Some(true));
        assert_eq!(room_of_machine("what no kernel says"), None);
    }

    #[test]
    fn a_group_has_what_is_free_and_what_files_can_give_back() {
        let stat = "cache 9\ninactive_file 50\nactive_file 20\ntotal_inactive_file 30\n\
                    total_active_file 10\n";
        assert_eq!(room_of_group(100, 90, stat, &SECOND), Room { available: 70, total: 100 });
        assert_eq!(room_of_group(100, 90, stat, &FIRST), Room { available: 45, total: 100 });
        assert!(room_of_group(10_000, 10_000, stat, &FIRST).is_used_up());
    }

    #[test]
    fn a_group_is_asked_anew_and_bounds_nothing_beyond_the_machine() {
        let dir = testkit::Dir::new();
        dir.create("memory.stat", "inactive_file 50\n");
        let says = |limit: &str, used: &str| {
            dir.create("memory.max", format!("{limit}\n"));
            dir.create("memory.current", format!("{used}\n"));
        };
        says("100", "90");
        let group = Group::at(dir.path(), &SECOND).expect("it is there");
        let room = |of_machine| group.room(of_machine, &mut Vec::new());
        assert_eq!(room(100), Some(Room { available: 60, total: 100 }));
        assert_eq!(room(99), None);
        says("100", "70");
        assert_eq!(room(100), Some(Room { available: 80, total: 100 }));
        says("max", "70");
        assert_eq!(room(100), None);
        dir.create("memory.high", "80\n");
        let group = Group::at(dir.path(), &SECOND).expect("it is there");
        let room = |of_machine| group.room(of_machine, &mut Vec::new());
        assert_eq!(room(100), Some(Room { available: 60, total: 80 }));
        says("75", "70");
        assert_eq!(room(100), Some(Room { available: 55, total: 75 }));
        says("max", "110");
        assert_eq!(room(100), Some(Room { available: 20, total: 80 }));
        says("75", "70");
        dir.create("memory.high", "max\n");
        assert_eq!(room(100), Some(Room { available: 55, total: 75 }));
    }

    #[test]
    fn a_process_is_bound_by_its_groups_and_those_above() {
        let folders =
            |text| -> Vec<PathBuf> { groups(text).into_iter().map(|(folder, _)| folder).collect() };
        let at = |path: &str| Path::new("/sys/fs/cgroup").join(path);
        assert_eq!(folders("0::/a/b\n"), [at("a/b"), at("a"), at("")]);
        assert_eq!(folders("5:cpu,memory:/x\n4:pids:/y\n"), [at("memory/x"), at("memory")]);
        assert!(folders("nonsense").is_empty());
    }
}
