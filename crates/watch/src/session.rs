//! What is done beside an observed command: learning from it, and fetching for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use store::{Clock, Costs, Local, TableFiles, io_reason};
use tree::replay::trace::Writer;
use tree::{Account, Event, Learner, Options, Patterns, User};

use crate::carrier::Carrier;
use crate::command::{Observer, Reporter};
use crate::driver::Driver;
use crate::parts::Parts;
use crate::pattern_store::{Held, StoreWarning, Version, learned};
use crate::{Carried, CarrierOptions, PatternStore};

/// How long events are waited for at a time.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long another run that saves its patterns is waited for when the command has ended.
const HELD_FOR: Duration = Duration::from_millis(200);
/// How long a reader of a FIFO that a trace goes to is waited for when the command has ended; that is
/// within what the command's caller waits for us.
const READER_WITHIN: Duration = Duration::from_millis(500);
/// How often it is looked.
const READER_PAUSE: Duration = Duration::from_millis(10);
/// Memory for what was seen of a run, to be recorded or to be learned again: a million events and
/// more.
const SEEN_BYTES_MAX: usize = 32 << 20;

/// How a command is attended to.
#[derive(Debug, Default)]
pub struct SessionOptions {
    /// What is done about what is predicted.
    pub effort: Effort,
    /// Where to write what was seen, as a trace.
    pub record: Option<Record>,
    /// Where devices' tables are.
    pub tables: TableFiles,
    /// How to learn.
    pub learning: Options,
    /// What fetching may use.
    pub carrying: CarrierOptions,
}

/// What is done about what is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Effort {
    /// It is fetched.
    #[default]
    Fetch,
    /// It is looked at, so that it is known what would be.
    Look,
    /// It is left alone: not even a name is looked up.
    Leave,
}

/// A file that a trace is written to.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    to: To,
}

/// What a trace is written to.
#[derive(Debug)]
enum To {
    /// This.
    File(File),
    /// A FIFO that nobody read from as yet, by what stands for its name.
    Unread(OwnedFd),
}

impl Record {
    /// Makes the file, or empties it. To be called before the command is run: beside that, what the
    /// name stands for may be closed.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let to = match open_to_write(&path) {
            Ok(file) => {
                // What is no file has no length.
                drop(file.set_len(0));
                To::File(file)
            }
            // The command is not kept waiting for a reader.
            Err(error) if is_unread(&error) && is_fifo(&path) => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                To::Unread(rustix::fs::open(&path, flags, Mode::empty())?)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path, to })
    }

    fn write(self, seen: &Seen, clock: &Clock, reporter: &Reporter) {
        let file = match self.to {
            To::File(file) => Ok(file),
            To::Unread(name) => open_when_read(&name, clock),
        };
        match file.and_then(|mut file| file.write_all(seen.trace.text().as_bytes())) {
            Ok(()) => seen.say_if_cut(&self.path, reporter),
            Err(error) if is_unread(&error) => {
                reporter
                    .say(format_args!("{}: nobody reads it; not recorded", self.path.display()));
            }
            Err(error) => {
                reporter.say(format_args!("{}: {}", self.path.display(), io_reason(&error)));
            }
        }
    }
}

/// Opens what a trace is written to; a FIFO only if somebody reads from it.
fn open_to_write(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    // Of a stream that the command writes to as well, nothing is overwritten.
    let file = File::options().append(true).create(true).custom_flags(flags).open(path)?;
    // Once it is open, it is written to at its reader's pace.
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

fn is_fifo(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whether nobody read from the FIFO that was to be opened.
fn is_unread(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

/// Opens a FIFO for which a reader may be about to come.
fn open_when_read(name: &OwnedFd, clock: &Clock) -> io::Result<File> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", name.as_raw_fd()));
    let begun = clock.now();
    loop {
        match open_to_write(&path) {
            Err(error)
                if is_unread(&error) && clock.now().saturating_sub(begun) < READER_WITHIN =>
            {
                // Nothing tells of readers.
                ::store::pause(READER_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// What came of attending to a command, or to a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attended {
    /// Of its predictions.
    pub account: Account,
    /// Of their fetching.
    pub carried: Carried,
}

/// Learns from a command until it ends, fetches for it, and saves what was learned.
///
/// What goes wrong is said to `reporter` and stops nothing. Of what the command leaves running, what it
/// did until then is learned.
pub fn attend(
    observer: &mut Observer,
    reporter: &Reporter,
    store: Option<&PatternStore>,
    mut options: SessionOptions,
) -> Attended {
    let costs = Arc::new(Costs::with(Local::default(), options.tables.clone(), Clock::real()));
    for warning in costs.warnings() {
        reporter.say(warning);
    }
    // What cannot be read is said when it would be replaced; another may be about to do so.
    let begun = store.and_then(|store| match store.read_within(store::memory_room) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            let path = store.path();
            reporter.say(format_args!(
                "{}: more than memory has room for; nothing is fetched by it",
                path.display()
            ));
            None
        }
        read => read.ok(),
    });
    let (patterns, version) =
        begun.map_or_else(Default::default, |(patterns, version)| (patterns, Some(version)));
    let programs = accounts(&patterns);
    options.learning.fetches = options.effort == Effort::Fetch;
    options.carrying.looks = options.effort == Effort::Look;
    let mut learner = Learner::new(options.learning.clone(), patterns);
    let carrier = Carrier::new(Arc::clone(&costs), options.carrying);
    let mut driver = Driver::new(carrier);
    let mut parts = Parts::new(Arc::clone(&costs));
    let mut seen = Seen::default();
    let keeps = options.record.is_some() || store.is_some();
    while !observer.command_ended() && !observer.is_over() {
        let patience = parts.look_within().map_or(PATIENCE, |within| within.min(PATIENCE));
        let turned = driver.turn(observer, patience, |event, now| {
            let mut decisions = Vec::new();
            for event in parts.before(&event).into_iter().chain([event]) {
                if keeps {
                    seen.add(now, &event);
                }
                decisions.extend(learner.on(event, now));
            }
            match options.effort {
                Effort::Fetch => parts.decided(&decisions),
                Effort::Look => {}
                Effort::Leave => decisions.clear(),
            }
            decisions
        });
        if let Err(error) = turned {
            let reason = io_reason(&error);
            reporter.say(format_args!("the command is not seen any more: {reason}"));
            // What was not over by then is no whole run.
            let (now, lost) = (costs.clock().now(), Event::Lost { process: None });
            if keeps {
                seen.add(now, &lost);
            }
            learner.on(lost, now);
            break;
        }
        // Their number is enough.
        drop(driver.carrier_mut().take_spared());
        parts.look_at(observer.processes());
    }
    learner.end();
    let attended = Attended { account: learner.account(), carried: driver.carrier().counts() };
    if let Some(record) = options.record.take() {
        record.write(&seen, costs.clock(), reporter);
    }
    if let Some(store) = store {
        learner.keep_within_memory();
        let (patterns, learning) = (learner.into_patterns(), &options.learning);
        let learned = Learned { patterns, version, before: programs, seen, learning };
        keep(store, learned, &costs, reporter);
    }
    // What fetches taught is worth keeping, but not worth a word if it cannot be kept.
    drop(costs.save());
    attended
}

/// What was seen, as a trace.
#[derive(Default)]
struct Seen {
    trace: Writer,
    is_cut: bool,
}

impl Seen {
    fn add(&mut self, now: Duration, event: &Event) {
        if self.is_cut {
            return;
        }
        self.is_cut = self.trace.bytes() > SEEN_BYTES_MAX;
        // What is not over by then is no whole run.
        let end = Event::Lost { process: None };
        self.trace.add(now, if self.is_cut { &end } else { event });
    }

    fn say_if_cut(&self, path: &Path, reporter: &Reporter) {
        if self.is_cut {
            let (path, mebibytes) = (path.display(), SEEN_BYTES_MAX >> 20);
            reporter.say(format_args!(
                "{path}: lacks the end of what was seen, of which {mebibytes} MiB are kept"
            ));
        }
    }
}

/// What came of the predictions of programs, by user and path.
type Accounts = HashMap<(User, Arc<[u8]>), Account>;

fn accounts(patterns: &Patterns) -> Accounts {
    let programs = patterns.programs().into_iter();
    programs.map(|listed| ((listed.user, listed.name), listed.account)).collect()
}

/// What was learned of a run.
struct Learned<'a> {
    patterns: Patterns,
    /// What it was learned on top of, if that could be read.
    version: Option<Version>,
    /// What had come of its programs' predictions then.
    before: Accounts,
    seen: Seen,
    learning: &'a Options,
}

/// Saves what was learned, together with what others saved and left meanwhile; or leaves it for the
/// next if another saves for too long.
fn keep(store: &PatternStore, new: Learned<'_>, costs: &Costs, reporter: &Reporter) {
    let path = store.path();
    let kept = match store.hold(HELD_FOR, costs.clock()) {
        // What had no room when the command began may have none to be learned upon.
        Ok(Some(held)) if new.version.is_some() || store.has_room(::store::memory_room) => {
            save(&held, store, new, reporter)
        }
        Ok(_) => {
            new.seen.say_if_cut(&path, reporter);
            store.leave(new.seen.trace.text())
        }
        Err(warning) => Err(warning),
    };
    if let Err(warning) = kept {
        reporter.say(format_args!("{warning}; what was learned is not kept"));
    }
}

fn save(
    held: &Held,
    store: &PatternStore,
    new: Learned<'_>,
    reporter: &Reporter,
) -> Result<(), StoreWarning> {
    let Learned { patterns, version, before, seen, learning } = new;
    let path = store.path();
    let patterns = if version.is_some_and(|version| held.is_still(&version)) {
        // Patterns take much memory while they are written.
        drop(seen);
        patterns
    } else {
        let (saved, warning) = match held.load() {
            Ok(loaded) => loaded,
            Err(warning) => {
                // For who can read what it belongs to.
                if store.leave(seen.trace.text()).is_err() {
                    return Err(warning);
                }
                seen.say_if_cut(&path, reporter);
                reporter.say(format_args!("{warning}; what was learned waits beside it"));
                return Ok(());
            }
        };
        if let Some(warning) = warning {
            reporter.say(warning);
        }
        seen.say_if_cut(&path, reporter);
        let others = accounts(&saved);
        let mut both = learned(saved, [seen.trace.text()], learning);
        // What would be predicted by now was not, and nothing came of it.
        for (program, account) in accounts(&patterns) {
            let mut sum = others.get(&program).copied().unwrap_or_default();
            sum += account.since(&before.get(&program).copied().unwrap_or_default());
            both.set_account(program.0, &program.1, sum);
        }
        both
    };
    // First, as the others may have left much.
    held.save(&patterns)?;
    if let Err(warning) = held.absorb(patterns, learning) {
        reporter.say(warning);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tree::replay::Trace;
    use tree::{Access, File, Process};

    use super::*;

    #[test]
    fn what_is_kept_is_bounded_by_the_lengths_of_names_and_is_a_trace() {
        let mut seen = Seen::default();
        let mut add = |name: usize| {
            let path = format!("/{name:0>4000}").into_bytes().into();
            let file = File { path, identity: None, size: None };
            let event = Event::Opened { process: Process(1), file, access: Access::Read };
            seen.add(Duration::ZERO, &event);
            seen.is_cut
        };
        // Each takes its bytes in the text and in the table of names, but those that are known.
        let fit = SEEN_BYTES_MAX / 8400;
        assert!(!(0..fit).any(&mut add));
        assert!(!(0..fit).any(&mut add));
        assert!((fit..2 * fit).any(&mut add));
        assert!(seen.trace.bytes() < SEEN_BYTES_MAX + 10_000);
        let kept = Trace::parse(seen.trace.text().as_bytes()).expect("a trace");
        assert!(kept.events.len() > 2 * fit);
        let is_lost = |(_, event): &(_, Event)| *event == Event::Lost { process: None };
        assert!(kept.events.last().is_some_and(is_lost));
        assert_eq!(kept.events.iter().filter(|event| is_lost(event)).count(), 1);
    }
}
