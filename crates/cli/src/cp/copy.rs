//! Moves the bytes of members to their files, in several threads.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::executor::{block_on, block_on_stream};
use futures::{StreamExt as _, stream};
use nearfirst::{
    Algorithm, Backing, Checksum, Engine, Entry, Error, Local, Member, MemberError, Set,
    SetOptions, Version,
};
use rustix::io::Errno;
use store::lock;
use tokio::sync::watch;

use super::checksum::{Sum, Sums};
use super::part::{self, Part};
use super::plan::{Plan, Task};
use crate::sets::interrupt::{self, Prepared};
use crate::sets::{self, Tally};
use crate::wary::Wary;
use crate::{human, messages, progress};

/// Smaller objects are begun anew after a break: to note of each what would let it go on takes longer.
const RESUMED_BYTES_MIN: u64 = 256 << 10;
/// Folders with new names kept until they are synced.
const FOLDERS_MAX: usize = 1024;
/// The unit of a file's blocks, whatever its file system's.
const BLOCK_BYTES: u64 = 512;
/// Permission bits of a file whose object has none, less those that the umask takes.
const MODE_NEW: u32 = 0o666;

/// Copies for several threads.
#[derive(Debug)]
pub(super) struct Copier<'a> {
    engine: &'a Engine,
    plan: &'a Plan,
    tally: &'a Tally,
    verbose: bool,
    stall: Duration,
    sums: Sums,
    resumed: AtomicU64,
    verified: AtomicU64,
    unchecked: AtomicU64,
    /// Folders whose new names are not on disk yet.
    folders: Mutex<HashSet<PathBuf>>,
    /// Why nothing more can be written, and so nothing more is fetched.
    full: watch::Sender<Option<String>>,
    /// Objects that were begun, and not copied for that reason.
    kept_out: AtomicU64,
    written: Mutex<io::Result<()>>,
}

/// A part on a mount that may die.
type WaryPart<'a> = Wary<'a, Part>;

/// What was made of an object.
enum Made {
    Copy,
    /// That of which an earlier run had made the beginning.
    RestOfCopy,
    /// Nothing: what is there by now stands for it.
    Nothing,
}

/// Why a copy was not made.
enum Trouble {
    /// The object could not be read; what is here may be gone on with.
    Source(String),
    /// The file could not be written.
    Target(io::Error),
    /// What was read is not what the store has, by a sum that it keeps, or by its tag.
    Wrong(Option<Algorithm>),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Target(error)
    }
}

impl From<MemberError> for Trouble {
    fn from(error: MemberError) -> Self {
        Self::Source(sets::reason(&error.cause))
    }
}

impl<'a> Copier<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        plan: &'a Plan,
        tally: &'a Tally,
        verbose: bool,
        stall: Duration,
    ) -> Self {
        Self {
            engine,
            plan,
            tally,
            verbose,
            stall,
            sums: Sums::default(),
            resumed: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            unchecked: AtomicU64::new(0),
            folders: Mutex::default(),
            full: watch::Sender::default(),
            kept_out: AtomicU64::new(0),
            written: Mutex::new(Ok(())),
        }
    }

    /// Objects that an earlier run had begun.
    pub(super) fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Objects whose sum was the store's.
    pub(super) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    /// Objects that were copied, and of which no sum was told.
    pub(super) fn unchecked(&self) -> u64 {
        self.unchecked.load(Ordering::Relaxed)
    }

    /// Says what was not copied because there was no room, if anything was.
    pub(super) fn say_if_full(&self) {
        if let Some(cause) = &*self.full.borrow() {
            let count = self.kept_out.load(Ordering::Relaxed) + self.plan.waiting();
            let objects = human::counted(count, "object");
            messages::error(format_args!("{cause}; not copied: {objects} known so far"));
        }
    }

    /// Has all new names on disk; whether what was said on stdout could be.
    pub(super) fn end(self) -> io::Result<()> {
        let folders = self.folders.into_inner().unwrap_or_else(PoisonError::into_inner);
        sync(self.engine.costs().local(), folders);
        self.written.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what is ready, until nothing is left or there is no room for more.
    pub(super) fn work(&self, set: &Set) {
        let mut full = self.full.subscribe();
        let is_full = async move { drop(full.wait_for(Option::is_some).await) };
        for member in block_on_stream(pin!(set.stream().take_until(is_full))) {
            match member {
                Ok(member) => self.copy(member),
                Err(error) => {
                    drop(self.plan.take(&error.name));
                    self.tally.failed();
                    sets::complain(&error);
                }
            }
        }
    }

    /// The error of a full disk, once one was met.
    fn has_room(&self) -> io::Result<()> {
        if self.full.borrow().is_some() { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    fn write(
        &self,
        part: &mut WaryPart<'_>,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> io::Result<()> {
        self.has_room()?;
        part.call(move |part| part.write(bytes.as_ref()))
    }

    fn copy(&self, member: Member) {
        let Some(task) = self.plan.take(member.name()) else { return };
        let entry = member.entry().clone();
        let made = self.made(member, &entry, &task);
        if matches!(made, Ok(Made::RestOfCopy)) {
            self.resumed.fetch_add(1, Ordering::Relaxed);
        }
        self.tell(&entry, &task, made);
    }

    fn made(&self, member: Member, entry: &Entry, task: &Task) -> Result<Made, Trouble> {
        let begun = interrupt::making(|| {
            let part = self.needed_part(entry, task)?;
            // Not before it is ours: another run may be writing it.
            let is_useless = part.is_some() && noted_version(entry, task.resume_at).is_none();
            let dest = task.dest.clone();
            let undo = is_useless.then(|| interrupt::prepare(move || part::remove(&dest)));
            Ok::<_, Trouble>(part.map(|part| (part, undo)))
        });
        let Some((mut part, undo)) = begun? else { return Ok(Made::Nothing) };
        let from = match task.resume_at {
            from if from > 0 && part.call(move |part| part.cut(from))? => from,
            _ => 0,
        };
        let whole;
        let member = if from == task.resume_at {
            member
        } else {
            // Another run has made something else of what was here.
            drop(member);
            whole = self.set_of(entry);
            whole.next().expect("it is listed")?
        };
        if from > 0 && entry.version.is_none() {
            let reason = "what is here of it is of a version, and its server does not say of which it \
                          sends; the same command begins it anew";
            discard(part);
            return Err(Trouble::Source(reason.into()));
        }
        let mut sum = self.sum_of(entry)?;
        self.tally.expects(entry.size.unwrap_or(0).saturating_sub(from));
        if from > 0 {
            self.read(member, &mut part, &mut None)?;
        } else {
            if length(&mut part)? > 0 {
                begin_anew(&mut part, entry)?;
            }
            self.read(member, &mut part, &mut sum)?;
        }
        let came = length(&mut part)?;
        if let Some(size) = entry.size.filter(|&size| size != came)
            && !self.is_made_as_read(entry)
        {
            discard(part);
            return Err(Trouble::Source(format!("{came} bytes came of {size}")));
        }
        if from > 0 {
            // Not before: a member that nobody reads keeps others waiting.
            sum = sum.map(|begun| sum_of_part(&mut part, begun)).transpose()?;
        }
        Ok(match self.ended(part, entry, task, sum, undo)? {
            Made::Copy if from > 0 => Made::RestOfCopy,
            made => made,
        })
    }

    /// A set of one object, whole.
    fn set_of(&self, entry: &Entry) -> Set {
        let entry = entry.clone();
        let source = move || stream::iter([Ok(entry.clone())]).boxed();
        Set::from_source(self.engine, Arc::new(source), SetOptions::default())
    }

    /// Appends what comes of a member.
    fn read(
        &self,
        mut member: Member,
        part: &mut WaryPart<'_>,
        sum: &mut Option<Sum>,
    ) -> Result<(), Trouble> {
        loop {
            let chunk = member.chunk()?;
            if chunk.is_empty() {
                return Ok(part.call(Part::end)?);
            }
            if let Some(sum) = sum {
                sum.add(&chunk);
            }
            self.tally.read(chunk.len() as u64);
            self.write(part, chunk)?;
        }
    }

    /// The part of an object, unless another run has made the file before this run had the part to itself.
    fn needed_part<'t>(
        &'t self,
        entry: &Entry,
        task: &'t Task,
    ) -> Result<Option<WaryPart<'t>>, Trouble> {
        let mut part = self.part(entry, task)?;
        if task.replaces || !part.call(|part| Ok(part.is_made()))? {
            return Ok(Some(part));
        }
        drop(part);
        if self.stands(entry, task)? { Ok(None) } else { self.part(entry, task).map(Some) }
    }

    /// Whether what is there by now stands for an object; its part is nobody's meanwhile.
    fn stands(&self, entry: &Entry, task: &Task) -> Result<bool, Trouble> {
        let _entered = self.engine.handle().enter();
        let stands = block_on(self.plan.stands_by_now(entry, &task.dest));
        stands.map_err(|error| Trouble::Source(sets::reason(&error)))
    }

    /// The part of an object: what is here of it, or nothing yet.
    fn part<'t>(&'t self, entry: &Entry, task: &'t Task) -> Result<WaryPart<'t>, Trouble> {
        self.has_room()?;
        let there = self.about(&task.dest);
        let source = self.file_of(entry).and_then(|path| self.about(&path));
        if let (Some(source), Some(there)) = (&source, &there)
            && (source.dev(), source.ino()) == (there.dev(), there.ino())
        {
            let reason = format!("{} is the same file", shown(&task.dest));
            return Err(Trouble::Source(reason));
        }
        // Who may read it is never more than who may read what it was copied from, or replaces.
        let has_holes =
            source.as_ref().is_some_and(|about| about.blocks() < about.len() / BLOCK_BYTES);
        let mode = source.or(there).map_or(MODE_NEW, |about| about.mode() & 0o777);
        let version = noted_version(entry, task.resume_at).cloned();
        let (dest, size) = (task.dest.clone(), entry.size);
        let open = move || {
            let part = Part::open(&dest, version.as_ref(), size, mode)?;
            Ok(part.with_holes(has_holes))
        };
        Ok(Wary::open(self.engine.costs().local(), &task.dest, open)?)
    }

    /// The file of this machine that an object is, if it is one.
    fn file_of(&self, entry: &Entry) -> Option<PathBuf> {
        self.engine.stores().of(&entry.name).ok()?.file(&entry.name)
    }

    /// What is at a path, if its mount says it.
    fn about(&self, path: &Path) -> Option<Metadata> {
        let at = path.to_owned();
        self.engine.costs().local().bounded(path, move || fs::metadata(at)).ok()?.ok()
    }

    /// A sum to check an object by: of its tag, or asked of its store, where that keeps one.
    fn sum_of(&self, entry: &Entry) -> Result<Option<Sum>, Trouble> {
        self.sums.of_tag(entry).map_or_else(|| self.kept_sum(entry), |sum| Ok(Some(sum)))
    }

    /// A sum that the store keeps, if it does.
    fn kept_sum(&self, entry: &Entry) -> Result<Option<Sum>, Trouble> {
        let told = self.patiently(|| async {
            let store = self.engine.stores().of(&entry.name)?;
            let asked = tokio::time::timeout(self.stall, store.checksum(entry)).await;
            asked.map_err(|_| self.stalled(entry))?
        });
        let Some(mut kept) = if_told(told)? else { return Ok(None) };
        if kept.parts.as_ref().is_some_and(Vec::is_empty) {
            let Some(lengths) = self.part_lengths(entry)? else { return Ok(None) };
            kept.parts = Some(lengths);
        }
        Ok(Sum::of_kept(kept))
    }

    /// How long the parts of an object are, if its store tells of all of it.
    fn part_lengths(&self, entry: &Entry) -> Result<Option<Vec<u64>>, Trouble> {
        let Some(size) = entry.size else { return Ok(None) };
        let told = self.patiently(|| async {
            let store = self.engine.stores().of(&entry.name)?;
            let mut told = store.part_lengths(entry);
            let (mut lengths, mut left) = (Vec::new(), size);
            while let Some(length) = tokio::time::timeout(self.stall, told.next())
                .await
                .map_err(|_| self.stalled(entry))?
            {
                let length = length?;
                lengths.push(length);
                let Some(rest) = left.checked_sub(length) else { return Ok(None) };
                left = rest;
            }
            Ok((left == 0 && !lengths.is_empty()).then_some(lengths))
        });
        if_told(told)
    }

    /// What `ask` gives, asked as often as it is worth trying.
    fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let _entered = self.engine.handle().enter();
        block_on(self.plan.looks().patiently(ask))
    }

    fn stalled(&self, entry: &Entry) -> Error {
        let reason = format!("no byte came for {} s", self.stall.as_secs_f32());
        Error::interrupted(entry.name.clone(), reason)
    }

    /// Checks what is here, and makes it the file.
    fn ended(
        &self,
        mut part: WaryPart<'_>,
        entry: &Entry,
        task: &Task,
        sum: Option<Sum>,
        undo: Option<Prepared>,
    ) -> Result<Made, Trouble> {
        let is_checked = match sum.map_or(Ok(false), |sum| self.check(sum, &mut part, entry)) {
            Ok(is_checked) => is_checked,
            Err(trouble @ Trouble::Wrong(_)) => {
                discard(part);
                return Err(trouble);
            }
            Err(trouble) => return Err(trouble),
        };
        if !is_checked && self.sums.is_to_be_told(entry) {
            // One may be damaged where it lies; whoever knows its server can tell.
            let what = "its bucket has ETags that look like MD5 sums and are not those of what comes, twice the same: objects there are checked only where another sum is kept";
            messages::note(format_args!("{}: {what}", sets::shown(&entry.name)));
        }
        let (modified, replaces) = (entry.modified, task.replaces);
        part.call(move |part| part.settle(modified))?;
        let finished = interrupt::making(|| {
            // What lies under its name from then on may be another run's.
            if let Some(undo) = undo {
                undo.becomes(|| ());
            }
            part.end(move |mut part| part.finish(replaces))
        });
        match finished {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return if self.stands(entry, task)? {
                    Ok(Made::Nothing)
                } else {
                    Err(error.into())
                };
            }
            finished => finished?,
        }
        self.has_new_name(task.dest.parent().unwrap_or(Path::new("")));
        let count = if is_checked { &self.verified } else { &self.unchecked };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Made::Copy)
    }

    /// Whether it is one of the kernel's files, whose size tells nothing.
    fn is_made_as_read(&self, entry: &Entry) -> bool {
        let path = self.file_of(entry);
        let status = path.and_then(|path| self.engine.costs().local().stat(&path).ok());
        status.is_some_and(|status| status.backing == Backing::Pseudo)
    }

    /// A folder is synced once for many files: that takes as long as to sync a file.
    fn has_new_name(&self, folder: &Path) {
        let mut folders = lock(&self.folders);
        if !folders.contains(folder) {
            folders.insert(folder.to_owned());
        }
        if folders.len() > FOLDERS_MAX {
            let full = std::mem::take(&mut *folders);
            drop(folders);
            sync(self.engine.costs().local(), full);
        }
    }

    /// Checks what is here by its sum; whether that is one.
    fn check(&self, sum: Sum, part: &mut WaryPart<'_>, entry: &Entry) -> Result<bool, Trouble> {
        let kept = sum.kept().cloned();
        let (is_right, first) = sum.end();
        if is_right {
            return Ok(true);
        }
        match kept {
            Some(kept) => self.check_parts(kept, part, entry).map(|()| true),
            None if self.is_same_again(part, entry, &first)? => {
                self.sums.is_opaque(entry);
                let Some(sum) = self.kept_sum(entry)? else { return Ok(false) };
                self.check(sum_of_part(part, sum)?, part, entry)
            }
            None => Err(Trouble::Wrong(None)),
        }
    }

    /// Checks what is here, and is wrong by a sum of supposed parts, by what its parts really are.
    fn check_parts(
        &self,
        kept: Checksum,
        part: &mut WaryPart<'_>,
        entry: &Entry,
    ) -> Result<(), Trouble> {
        let wrong = Err(Trouble::Wrong(Some(kept.algorithm)));
        if kept.parts.is_none() {
            return wrong;
        }
        let Some(parts) = self.part_lengths(entry)? else {
            let unknown = "its sum differs, and the lengths of its parts cannot be had";
            return Err(Trouble::Source(unknown.into()));
        };
        let parts = Some(parts);
        if parts == kept.parts {
            return wrong;
        }
        let Some(sum) = Sum::of_kept(Checksum { parts, ..kept }) else { return wrong };
        if sum_of_part(part, sum)?.end().0 { Ok(()) } else { wrong }
    }

    /// Reads an object once more: whether the bytes are the same as before.
    fn is_same_again(
        &self,
        part: &mut WaryPart<'_>,
        entry: &Entry,
        first: &[u8],
    ) -> Result<bool, Trouble> {
        begin_anew(part, entry)?;
        let mut sum = self.sums.of_tag(entry);
        let set = self.set_of(entry);
        let member = set.next().expect("it is listed")?;
        self.read(member, part, &mut sum)?;
        Ok(sum.is_none_or(|sum| sum.end().1 == first))
    }

    fn tell(&self, entry: &Entry, task: &Task, made: Result<Made, Trouble>) {
        let reason = match made {
            Ok(Made::Nothing) => return,
            Ok(Made::Copy | Made::RestOfCopy) => {
                self.tally.done();
                if self.verbose {
                    self.say(&sets::shown(&entry.name), &task.dest);
                }
                return;
            }
            Err(Trouble::Source(reason)) => reason,
            Err(Trouble::Target(error)) if is_of_a_full_disk(&error) => {
                self.kept_out.fetch_add(1, Ordering::Relaxed);
                self.is_full(&task.dest, &error);
                return;
            }
            Err(Trouble::Target(error)) => {
                format!("{}: {}", shown(&task.dest), messages::reason(&error))
            }
            Err(Trouble::Wrong(None)) => {
                "what came is not what its ETag is the MD5 sum of; nothing was kept".to_owned()
            }
            Err(Trouble::Wrong(Some(algorithm))) => {
                let name = algorithm.name();
                format!("what came is not what the store has the {name} sum of; nothing was kept")
            }
        };
        self.tally.failed();
        sets::say_of(&entry.name, reason);
    }

    /// It would be the same for all that follow: said once.
    fn is_full(&self, dest: &Path, error: &io::Error) {
        self.full.send_if_modified(|full| {
            let is_first = full.is_none();
            full.get_or_insert_with(|| format!("{}: {}", shown(dest), messages::reason(error)));
            is_first
        });
    }

    fn say(&self, name: &dyn Display, dest: &Path) {
        progress::wipe();
        let line = format!("{name} -> {}\n", shown(dest));
        let said = io::stdout().lock().write_all(line.as_bytes());
        if said.is_err() {
            let mut written = lock(&self.written);
            *written = said;
        }
    }
}

/// The version by which what is here of an object is known to be of it, where that is worth a note, or
/// has been one: of a size that was not told at first.
fn noted_version(entry: &Entry, resume_at: u64) -> Option<&Version> {
    let is_small = entry.size.is_some_and(|size| size < RESUMED_BYTES_MIN);
    entry.version.as_ref().filter(|_| !is_small || resume_at > 0)
}

/// What a store told of a sum, or that it tells none; not that it could not be asked: it may have one.
fn if_told<T>(told: Result<Option<T>, Error>) -> Result<Option<T>, Trouble> {
    match told {
        Ok(told) => Ok(told),
        Err(
            Error::NotFound { .. }
            | Error::Denied { .. }
            | Error::Refused { .. }
            | Error::Unsupported { .. },
        ) => Ok(None),
        Err(error) => {
            let reason = sets::reason(&error);
            Err(Trouble::Source(format!("its sum cannot be asked for: {reason}")))
        }
    }
}

/// How many bytes are here.
fn length(part: &mut WaryPart<'_>) -> io::Result<u64> {
    part.call(|part| part.length())
}

fn begin_anew(part: &mut WaryPart<'_>, entry: &Entry) -> io::Result<()> {
    let version = noted_version(entry, 0).cloned();
    part.call(move |part| part.begin_anew(version.as_ref()))
}

fn discard(part: WaryPart<'_>) {
    // What cannot be removed is left.
    drop(part.end(|part| {
        part.discard();
        Ok(())
    }));
}

/// The sum with what is here added.
fn sum_of_part(part: &mut WaryPart<'_>, mut sum: Sum) -> io::Result<Sum> {
    part.call(move |part| {
        part.reread(|bytes| sum.add(bytes))?;
        Ok(sum)
    })
}

/// Has the names in folders on disk.
fn sync(local: &Local, folders: HashSet<PathBuf>) {
    for folder in folders {
        let at = folder.clone();
        let whole = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        match local.while_answered(whole, move || part::sync_folder(&at)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => messages::error(format_args!(
                "{}: what was copied to it may be lost if the power fails: {}",
                shown(whole),
                messages::reason(&error)
            )),
            Err(dead) => messages::error(dead),
        }
    }
}

/// Whether there is no room, on the disk or for this user.
fn is_of_a_full_disk(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}

/// A path for people, on one line.
pub(super) fn shown(path: &Path) -> String {
    human::name(path.as_os_str()).to_string()
}
