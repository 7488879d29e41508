//! How a set is opened, from what C callers ask for.

#![expect(unsafe_code, reason = "strings of C callers are read")]

use std::ffi::{CStr, OsStr, c_char, c_double, c_int, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nearfirst::{
    Duplicates, Engine, Limits, Name, Order, Permissions, Recalls, Setup, Spec, StorageOptions,
};
use rustix::fs::Access;

use crate::callback::{Data, Rank, Release, ranked};
use crate::error::Failure;
use crate::memory::{sized, string, strings};

/// What is ready first; of that the highest rank, then the largest.
pub const NF_ORDER_READY: c_int = 0;
/// As the names are listed: a slow member holds up all behind it.
pub const NF_ORDER_LISTED: c_int = 1;
/// By name, byte by byte: nothing comes before all names are known.
pub const NF_ORDER_NAME: c_int = 2;
/// By rank, which is to be given, the highest first, then by name: nothing comes before all names
/// are known.
pub const NF_ORDER_RANK: c_int = 3;
/// The names of `replay` first, in that order, then others as they are listed: nothing comes before
/// all names are known.
pub const NF_ORDER_REPLAY: c_int = 4;

/// Members of the same name are one: known before anything is fetched.
pub const NF_SAME_NAME: c_int = 0;
/// Members of the same content are one too: known when they have been fetched.
pub const NF_SAME_CONTENT: c_int = 1;

/// How a set is opened; all zero is the default. Later versions may add fields at its end, which is why its
/// size is passed with it.
///
/// Sets for which `allow_private_links`, `recall_days` and all from `budget_bytes` on are the same
/// share what these allow: the memory, the disk and the requests are those of all of them together.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SetOptions {
    /// `NF_ORDER_READY` or another `NF_ORDER_`.
    pub order: c_int,
    /// `NF_SAME_NAME` or `NF_SAME_CONTENT`.
    pub duplicates: c_int,
    /// 1: programs that specs name are run; 0: they are `EPERM`.
    pub allow_programs: c_int,
    /// 1: links of public pages to private networks and to files of this machine are followed; 0: they
    /// are not.
    pub allow_private_links: c_int,
    /// The priority of each member; null: all the same.
    pub rank: Rank,
    /// Passed to `rank` and `release`.
    pub data: *mut c_void,
    /// Called when `data` is not used any more, also if the set cannot be opened, but not if `size` is
    /// wrong; may be null.
    pub release: Release,
    /// With `NF_ORDER_REPLAY`, and only then: the names to come first, as `nf_set_order_taken` told
    /// them; they are copied.
    pub replay: *const *const c_char,
    /// How many there are.
    pub replay_count: usize,
    /// 1: specs are the names of objects as they stand, and nothing in them is a wildcard, a list or
    /// a query; 0: they are specs.
    pub names_as_they_stand: c_int,
    /// Days that what lies in cold storage is asked to be restored for, which its store charges for;
    /// 0: nothing is asked for. It is asked for when the first member is, and only what is to be
    /// handed out; of files of this machine that are offline nothing is asked.
    pub recall_days: u32,
    /// Seconds that each of them is waited for, at most, while others come, as far as the order
    /// allows; `INFINITY`: as long as it takes; 0: it is not waited for, and is `EREMOTEIO`.
    pub wait_s: c_double,
    /// Bytes of memory for what is fetched and not read yet; 0: 256 MiB, or a quarter of what this
    /// process could still have if that is less.
    pub budget_bytes: u64,
    /// Bytes that may lie on disk because the budget was full; 0: 4 GiB; less than 0: none.
    pub spill_bytes: i64,
    /// The folder for them, and for copies that descriptors of members above 8 MiB are made of;
    /// null: `$TMPDIR`, else `/tmp`, or `/var/tmp` where that is in memory.
    pub spill_folder: *const c_char,
    /// Requests to one server or bucket at a time, at most; 0: 256.
    pub window_max: u32,
    /// How often a part of a member is tried without getting on, at most; 0: 5.
    pub attempts_max: u32,
    /// Seconds that a request may bring nothing; 0: 20, 30 where it lists or asks a question, and 600 for a
    /// program that prints names.
    pub stall_s: c_double,
    /// Options of object stores, each as `NAME=VALUE`, over those of the environment; they are copied.
    pub storage: *const *const c_char,
    /// How many there are.
    pub storage_count: usize,
}

impl SetOptions {
    /// What its first version has; fields that come later follow these.
    const FIRST_BYTES: usize = offset_of!(Self, storage_count) + size_of::<usize>();

    /// The caller's, or the default.
    ///
    /// # Errors
    /// `size` is that of something else.
    ///
    /// # Safety
    /// `options` is null or may be read for `size` bytes.
    pub(crate) unsafe fn at(options: *const Self, size: usize) -> Result<Self, Failure> {
        if options.is_null() {
            // SAFETY: numbers, pointers and functions that may be null.
            return Ok(unsafe { std::mem::zeroed() });
        }
        // SAFETY: not null; numbers, pointers and functions that may be null; the caller promises the rest.
        unsafe { sized(options, "options", size, Self::FIRST_BYTES) }
    }

    /// # Safety
    /// `specs` is null or `count` strings, each null or ended by a NUL.
    pub(crate) unsafe fn specs(
        &self,
        specs: *const *const c_char,
        count: usize,
    ) -> Result<Vec<Spec>, Failure> {
        let allows_programs = flag(self.allow_programs, "allow_programs")?;
        // SAFETY: as promised to this function.
        let texts = unsafe { strings(specs, count, "specs", "spec") }?;
        if flag(self.names_as_they_stand, "names_as_they_stand")? {
            return Ok(vec![Spec::list(names(&texts))]);
        }
        let parsed = texts.iter().map(|text| Spec::parse(text.to_bytes()).and_then(Spec::checked));
        let specs: Vec<Spec> = parsed
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::new(libc::EINVAL, error.to_string()))?;
        if !allows_programs {
            no_programs(&specs)?;
        }
        Ok(specs)
    }

    /// In what order, by which rank, and what makes two members one.
    ///
    /// # Safety
    /// `replay` is null or as many strings as `replay_count` says, each null or ended by a NUL.
    pub(crate) unsafe fn how(&self, data: Data) -> Result<nearfirst::SetOptions, Failure> {
        if self.order == NF_ORDER_RANK && self.rank.is_none() {
            let message = "NF_ORDER_RANK is an order by rank, and none is given";
            return Err(Failure::new(libc::EINVAL, message));
        }
        if self.order != NF_ORDER_REPLAY && self.replay_count > 0 {
            let message = "names to replay are given, and NF_ORDER_REPLAY is not";
            return Err(Failure::new(libc::EINVAL, message));
        }
        let order = match self.order {
            NF_ORDER_READY => Order::Ready,
            NF_ORDER_LISTED => Order::Listed,
            NF_ORDER_NAME => Order::Name,
            NF_ORDER_RANK => Order::Rank,
            NF_ORDER_REPLAY => {
                let (replay, count) = (self.replay, self.replay_count);
                // SAFETY: as promised to this function.
                let texts = unsafe { strings(replay, count, "replay", "a name of replay") }?;
                Order::Replay(names(&texts))
            }
            other => {
                let message = format!("{other} is no order: use one of the NF_ORDER_ numbers");
                return Err(Failure::new(libc::EINVAL, message));
            }
        };
        let duplicates = match self.duplicates {
            NF_SAME_NAME => Duplicates::ByName,
            NF_SAME_CONTENT => Duplicates::ByContent,
            other => {
                let message = format!("{other}: duplicates are NF_SAME_NAME or NF_SAME_CONTENT");
                return Err(Failure::new(libc::EINVAL, message));
            }
        };
        let rank = self.rank.map(|rank| ranked(rank, data));
        Ok(nearfirst::SetOptions { order, rank, duplicates, ..nearfirst::SetOptions::default() })
    }

    /// What has cold members restored, if they are to be.
    pub(crate) fn recalls(
        &self,
        engine: &Engine,
        limits: &Limits,
    ) -> Result<Option<Recalls>, Failure> {
        let wait = seconds(self.wait_s, "wait_s")?;
        if self.recall_days == 0 && !wait.is_zero() {
            let message = "wait_s is for what is restored: it goes with recall_days";
            return Err(Failure::new(libc::EINVAL, message));
        }
        Ok((self.recall_days > 0).then(|| Recalls::new(engine.stores(), limits, wait)))
    }

    /// What the engine is made with.
    ///
    /// # Safety
    /// `spill_folder` is null or ends with a NUL; `storage` is null or as many strings as
    /// `storage_count` says, each null or ended by a NUL.
    pub(crate) unsafe fn setup(&self) -> Result<Setup, Failure> {
        // SAFETY: as promised to this function.
        let storage = unsafe {
            strings(self.storage, self.storage_count, "storage", "an option of storage")
        }?;
        let spill_folder = if self.spill_folder.is_null() {
            None
        } else {
            // SAFETY: as promised to this function.
            Some(folder(unsafe { string(self.spill_folder, "spill_folder") }?)?)
        };
        let mut storage = storage_of(&storage)?;
        if self.recall_days > 0 {
            storage.insert("s3_restore_days", self.recall_days.to_string())?;
        }
        Ok(Setup {
            budget_bytes: (self.budget_bytes > 0).then_some(self.budget_bytes),
            spill_bytes: (self.spill_bytes != 0).then(|| self.spill_bytes.try_into().unwrap_or(0)),
            spill_folder,
            window_max: (self.window_max > 0).then_some(self.window_max),
            attempts_max: (self.attempts_max > 0).then_some(self.attempts_max),
            stall: stall(self.stall_s)?,
            permissions: Permissions {
                // Sets whose caller does not allow them are refused when they are opened.
                programs: true,
                private_links: flag(self.allow_private_links, "allow_private_links")?,
            },
            storage,
        })
    }
}

fn names(texts: &[&CStr]) -> Vec<Name> {
    texts.iter().map(|text| Name::new(text.to_bytes())).collect()
}

fn no_programs(specs: &[Spec]) -> Result<(), Failure> {
    match specs.iter().find(|spec| matches!(spec, Spec::Program { .. })) {
        None => Ok(()),
        Some(spec) => {
            let message =
                format!("{spec}: programs are not allowed; allow_programs of nf_set_options does");
            Err(Failure::new(libc::EPERM, message))
        }
    }
}

/// Nothing but 1 is a yes: another number may be of memory that nobody set.
fn flag(value: c_int, name: &str) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Failure::new(libc::EINVAL, format!("{other}: {name} is 0 or 1"))),
    }
}

/// A folder that can be written to.
fn folder(path: &CStr) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
    // By its dot, which a file has not.
    rustix::fs::access(path.join("."), Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| nearfirst::Error::io(&path, error))?;
    Ok(path)
}

/// A number of seconds from 0 on.
///
/// # Errors
/// `EINVAL`.
pub(crate) fn seconds(seconds: f64, name: &str) -> Result<Duration, Failure> {
    if seconds.is_nan() || seconds < 0.0 {
        let message = format!("{seconds}: {name} is a number of seconds from 0 on");
        return Err(Failure::new(libc::EINVAL, message));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn stall(seconds: f64) -> Result<Option<Duration>, Failure> {
    if seconds == 0.0 {
        return Ok(None);
    }
    // Less than half a nanosecond is no time.
    let stall = Duration::try_from_secs_f64(seconds).ok().filter(|stall| !stall.is_zero());
    stall.map(Some).ok_or_else(|| {
        let message = format!(
            "{seconds}: stall_s is a number of seconds, 0 or from 1e-9 on, and not for ever"
        );
        Failure::new(libc::EINVAL, message)
    })
}

fn storage_of(options: &[&CStr]) -> Result<StorageOptions, Failure> {
    let pair = |option: &&CStr| {
        let (name, value) = option.to_str().ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    // What is none may be a secret.
    let pairs = options.iter().map(pair).collect::<Option<Vec<_>>>();
    let pairs = pairs.ok_or_else(|| {
        Failure::new(libc::EINVAL, "storage: an option is NAME=VALUE, such as region=eu-west-1")
    })?;
    Ok(StorageOptions::new(pairs)?)
}
