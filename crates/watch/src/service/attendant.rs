//! An attendant: a process with the rights of one user, which learns from that user's programs and
//! fetches for them.
//!
//! It reads what it is told from a pipe, and ends with it.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getpriority_process, setpriority_process};
use store::{Clock, Costs, Local, TableFiles};
use tree::{Event, Learner, Options, Patterns, Predicted, User};

use super::counts::Counts;
use super::folders;
use super::notice::Notice;
use super::rights;
use super::wire::{self, Message};
use crate::carrier::Carrier;
use crate::driver::Driver;
use crate::parts::Parts;
use crate::{Attended, CarrierOptions, Held, PatternStore, Source, StoreWarning};

/// How long messages are waited for at a time; what is fetched meanwhile is told to the learner then.
const PATIENCE: Duration = Duration::from_millis(500);
/// What is learned is saved no more often, and no more than a half percent of the time is spent on it; so
/// much is lost if the machine stops, or the attendant is killed.
const SAVE_EVERY: Duration = Duration::from_mins(1);
const SAVE_SHARE: u32 = 200;
/// How often it is looked whether something is to be forgotten.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How long one's forerunner may take to save, and be killed.
const HELD_FOR: Duration = Duration::from_secs(70);
/// How long it goes on without a folder that it could claim, for which it has no rights any more: the next one
/// tries again.
const UNCLAIMED_MAX: Duration = Duration::from_mins(1);
const READ_BYTES: usize = 256 << 10;

/// How an attendant goes about it.
#[derive(Debug, Clone)]
pub struct AttendantOptions {
    /// Whose, by number.
    pub user: u32,
    /// Where its patterns are.
    pub folder: PathBuf,
    /// Where the service has the devices' table; root's attendant adds to it.
    pub tables: TableFiles,
    /// Whether to say what would be fetched instead of fetching it.
    pub dry_run: bool,
    /// How to learn.
    pub learning: Options,
    /// What fetching may use.
    pub carrying: CarrierOptions,
}

/// Attends to a user until standard input ends; what there is to say goes to `say`. Where nothing
/// can be kept, as on a full disk, it is said, and tried again each minute.
///
/// # Errors
/// The system's, if it cannot become that user; that another holds the patterns; what keeps them from being read; or
/// after a minute what keeps the folder from being claimed, which only one that begins can do.
pub fn attend(options: &AttendantOptions, say: &mut dyn FnMut(Notice)) -> io::Result<()> {
    let user = User(options.user);
    // Otherwise it is called by its file, which may be /proc/self/exe; a name is no more than that.
    rustix::thread::set_name(c"nearfirst").ok();
    // It may have to wait for the user database, and the service for nobody.
    let claimed = folders::claim(&options.folder, user, rights::name_of(user).as_deref());
    rights::become_user(user)?;
    give_way()?;
    let costs = Arc::new(Costs::with(Local::default(), options.tables.clone(), Clock::real()));
    costs.warnings().iter().for_each(|warning| say(warning.to_string().into()));
    let store = PatternStore::at(&options.folder);
    let learning = Options { fetches: !options.dry_run, ..options.learning.clone() };
    let is_claimed = claimed.is_ok();
    let mut unclaimed = None;
    let (held, patterns) = match claimed.and_then(|()| store.hold(HELD_FOR, costs.clock())) {
        Ok(Some(held)) => match known(&held, &learning, say) {
            Err(warning) if warning.is_of_later() => {
                // They are for the version that wrote them, until they are forgotten.
                drop(held);
                say(format!("{warning}; nothing is learned or fetched for user {}", user.0).into());
                return io::copy(&mut io::stdin(), &mut io::sink()).map(drop);
            }
            known => (Some(held), known.map_err(|warning| ends(&warning))?),
        },
        Ok(None) => {
            let what = format!("{}: another process holds the patterns", options.folder.display());
            return Err(io::Error::other(what));
        }
        Err(warning) => {
            say(format!("{warning}; what is learned for user {} is not kept", user.0).into());
            unclaimed = (!is_claimed).then_some(warning);
            // What is saved may be what was to be forgotten, or another's.
            (None, Patterns::default())
        }
    };
    let carrying = CarrierOptions { looks: options.dry_run, ..options.carrying.clone() };
    let carrier = Carrier::new(Arc::clone(&costs), carrying);
    let mut attendant = Attendant {
        user,
        dry_run: options.dry_run,
        saved_runs: 0,
        told: Counts::default(),
        learner: Learner::new(learning, patterns),
        parts: Parts::new(Arc::clone(&costs)),
        costs: Arc::clone(&costs),
        driver: Driver::new(carrier),
        is_said: held.is_none(),
        held,
        store: is_claimed.then_some(store),
        looked_at: costs.clock().now(),
        forgotten: Vec::new(),
        stuck: 0,
        saved_at: costs.clock().now(),
        save_took: Duration::ZERO,
    };
    // What could not be saved without it is not predicted either.
    attendant.forget(say);
    let mut told = Told::new(io::stdin(), costs.clock().clone());
    let begun = costs.clock().now();
    let is_late = || costs.clock().now().saturating_sub(begun) >= UNCLAIMED_MAX;
    while !(told.is_over || unclaimed.is_some() && is_late()) {
        attendant.turn(&mut told, say)?;
    }
    attendant.learner.end();
    attendant.tell();
    attendant.keep(say)?;
    if user.0 == 0 {
        // What fetches taught is worth keeping, but not worth a word if it cannot be kept.
        drop(costs.save());
    }
    let failed = unclaimed.filter(|_| !told.is_over);
    failed.map_or(Ok(()), |warning| Err(ends(&warning)))
}

/// An attendant ends with this; what the system said is in the text, and not again its source.
fn ends(warning: &StoreWarning) -> io::Error {
    io::Error::other(warning.to_string())
}

/// The patterns that are held, with what others left; what is wrong with them goes to `say`.
fn known(
    held: &Held,
    learning: &Options,
    say: &mut dyn FnMut(Notice),
) -> Result<Patterns, StoreWarning> {
    let patterns = loaded(held, say)?;
    held.absorb(patterns, learning).or_else(|warning| {
        say(warning.to_string().into());
        loaded(held, say)
    })
}

/// The same without what others left.
fn loaded(held: &Held, say: &mut dyn FnMut(Notice)) -> Result<Patterns, StoreWarning> {
    let (patterns, warning) = held.load()?;
    if let Some(warning) = warning {
        say(warning.to_string().into());
    }
    Ok(patterns)
}

/// Goes behind the programs that it fetches for, where the service was put before them to see them in time.
fn give_way() -> io::Result<()> {
    if getpriority_process(None)? < 0 {
        setpriority_process(None, 0)?;
    }
    Ok(())
}

struct Attendant {
    user: User,
    dry_run: bool,
    /// What the service was told last of what is counted.
    told: Counts,
    learner: Learner,
    costs: Arc<Costs>,
    parts: Parts,
    driver: Driver,
    /// `None` where nothing can be kept as yet.
    held: Option<Held>,
    /// What is held, once it can be; `None` where it was not claimed, and may be another's.
    store: Option<PatternStore>,
    /// When it was looked last whether something is to be forgotten.
    looked_at: Duration,
    /// The requests for what is forgotten, but still saved.
    forgotten: Vec<OsString>,
    /// How many of them could not be removed once it was saved.
    stuck: usize,
    saved_at: Duration,
    save_took: Duration,
    /// Runs that had ended by then: with these come most changes of patterns, and the others are saved with
    /// them.
    saved_runs: u64,
    /// Whether it was said that nothing can be saved: once, not each time until somebody comes.
    is_said: bool,
}

impl Attendant {
    fn turn(&mut self, told: &mut Told<impl AsFd>, say: &mut dyn FnMut(Notice)) -> io::Result<()> {
        let Self { learner, parts, dry_run, .. } = self;
        self.driver.turn(told, PATIENCE, |event, now| {
            let mut decisions = Vec::new();
            for event in parts.before(&event).into_iter().chain([event]) {
                decisions.extend(learner.on(event, now));
            }
            if !*dry_run {
                parts.decided(&decisions);
            }
            decisions
        })?;
        self.would_fetch(say);
        let now = self.driver.carrier().clock().now();
        if now.saturating_sub(self.looked_at) >= LOOKS_EVERY {
            self.looked_at = now;
            self.forget(say);
            self.tell();
        }
        let asked = std::mem::take(&mut told.asked);
        if asked.contains(&Message::Report) {
            self.report(say);
        }
        if asked.contains(&Message::Reload) {
            self.costs.reload().iter().for_each(|warning| say(Notice::Line(warning.to_string())));
        }
        if asked.contains(&Message::Save) || self.is_to_save(now) {
            self.keep(say)?;
        }
        Ok(())
    }

    fn runs(&self) -> u64 {
        self.learner.account().runs
    }

    fn is_to_save(&self, now: Duration) -> bool {
        let every = SAVE_EVERY.max(SAVE_SHARE * self.save_took);
        let is_anew = self.runs() != self.saved_runs || self.forgotten.len() > self.stuck;
        now.saturating_sub(self.saved_at) >= every && (is_anew || self.held.is_none())
    }

    /// Forgets what others asked to be forgotten.
    fn forget(&mut self, say: &mut dyn FnMut(Notice)) {
        let Some(held) = &self.held else { return };
        let mut is_asked = false;
        while let Some((name, what)) = held.next_asked(&self.forgotten) {
            is_asked = true;
            self.driver.carrier_mut().give_up();
            self.learner.forget(|patterns| drop(what.apply(patterns)));
            held.has_forgotten(name, &what, &mut self.forgotten);
        }
        if is_asked {
            self.save(say);
        }
    }

    /// Saves what is learned, once it can be kept.
    ///
    /// # Errors
    /// What keeps from being read what was saved before.
    fn keep(&mut self, say: &mut dyn FnMut(Notice)) -> io::Result<()> {
        if self.held.is_none() {
            self.hold(say)?;
        }
        self.save(say);
        Ok(())
    }

    /// Holds what could not be held before, and forgets what is asked for there. Where something was saved, it is
    /// known in the place of what was learned without it.
    fn hold(&mut self, say: &mut dyn FnMut(Notice)) -> io::Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let clock = self.driver.carrier().clock();
        // Why it cannot be is said already.
        let Ok(Some(held)) = store.hold(Duration::ZERO, clock) else { return Ok(()) };
        let saved = loaded(&held, say).map_err(|warning| ends(&warning))?;
        if !saved.programs().is_empty() {
            self.driver.carrier_mut().give_up();
            self.learner.forget(|learned| *learned = saved);
        }
        self.held = Some(held);
        self.forget(say);
        Ok(())
    }

    fn save(&mut self, say: &mut dyn FnMut(Notice)) {
        let (began, runs) = (self.driver.carrier().clock().now(), self.runs());
        self.saved_at = began;
        let Some(held) = &self.held else { return };
        self.learner.keep_within_memory();
        let saved = held.save(self.learner.patterns());
        self.saved_at = self.driver.carrier().clock().now();
        self.save_took = self.saved_at.saturating_sub(began);
        match saved {
            Ok(()) => {
                (self.saved_runs, self.is_said) = (runs, false);
                held.let_go(&mut self.forgotten);
                self.stuck = self.forgotten.len();
            }
            Err(warning) if !self.is_said => {
                self.is_said = true;
                say(warning.to_string().into());
            }
            Err(_) => {}
        }
    }

    fn would_fetch(&mut self, say: &mut dyn FnMut(Notice)) {
        let spared = self.driver.carrier_mut().take_spared();
        for (Predicted { path, chance, needed_in, .. }, bytes) in spared {
            let line = format!(
                "user {}: would fetch {} ({bytes} bytes, {:.0} %, in {:.3} s)",
                self.user.0,
                String::from_utf8_lossy(&path).escape_debug(),
                100.0 * chance,
                needed_in.as_secs_f64()
            );
            say(line.into());
        }
    }

    /// Tells the service what is counted, if that changed.
    fn tell(&mut self) {
        let counts = Counts::of(&self.learner.account(), &self.driver.carrier().counts());
        // What does not go now goes with the next.
        if counts != self.told && counts.tell(io::stdout()).is_ok() {
            self.told = counts;
        }
    }

    fn report(&self, say: &mut dyn FnMut(Notice)) {
        let carried = self.driver.carrier().counts();
        let attended = Attended { account: self.learner.account(), carried };
        say(Notice::Came { user: self.user.0, attended, dry_run: self.dry_run });
    }
}

/// What is told through a pipe.
struct Told<F> {
    pipe: F,
    clock: Clock,
    bytes: Vec<u8>,
    is_over: bool,
    /// What is to be done beside.
    asked: Vec<Message>,
}

impl<F: AsFd> Told<F> {
    fn new(pipe: F, clock: Clock) -> Self {
        Self { pipe, clock, bytes: Vec::new(), is_over: false, asked: Vec::new() }
    }

    fn read(&mut self, patience: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(patience).ok();
        let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        self.bytes.reserve(READ_BYTES);
        match rustix::io::read(&self.pipe, spare_capacity(&mut self.bytes)) {
            Ok(0) => self.is_over = true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl<F: AsFd> Source for Told<F> {
    fn next(&mut self, patience: Duration) -> io::Result<Vec<(Duration, Event)>> {
        self.read(patience)?;
        let now = self.clock.now();
        let mut events = Vec::new();
        let mut rest = &self.bytes[..];
        while let Some(message) = wire::take(&mut rest).map_err(io::Error::other)? {
            match message {
                Message::Seen { age, event } => events.push((now.saturating_sub(age), event)),
                asked => self.asked.push(asked),
            }
        }
        let left = rest.len();
        self.bytes.drain(..self.bytes.len() - left);
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Dir;
    use tree::{Access, File, Process};

    use super::*;
    use crate::Forget;

    /// One who attends to root, and keeps patterns in this folder where that can be held.
    fn attendant(dir: &Dir) -> Attendant {
        let tables = TableFiles::at(dir.join("devices.toml"));
        let costs = Arc::new(Costs::with(Local::default(), tables, Clock::real()));
        let store = PatternStore::at(dir.path());
        let held = store.hold(HELD_FOR, costs.clock()).ok().flatten();
        let carrier = Carrier::new(Arc::clone(&costs), CarrierOptions::default());
        Attendant {
            user: User(0),
            dry_run: false,
            told: Counts::default(),
            learner: Learner::new(Options::default(), Patterns::default()),
            parts: Parts::new(Arc::clone(&costs)),
            costs,
            driver: Driver::new(carrier),
            is_said: held.is_none(),
            held,
            store: Some(store),
            looked_at: Duration::ZERO,
            forgotten: Vec::new(),
            stuck: 0,
            saved_at: Duration::ZERO,
            save_took: Duration::ZERO,
            saved_runs: 0,
        }
    }

    /// Has it learn of the program `reads`, which still runs.
    fn learn(attendant: &mut Attendant, process: Process) {
        learn_of(attendant, "reads", process);
    }

    fn learn_of(attendant: &mut Attendant, program: &str, process: Process) {
        let file = |path: &[u8]| File { path: path.into(), identity: None, size: None };
        let (program, folder) = (file(format!("/bin/{program}").as_bytes()), b"/"[..].into());
        let events = [
            Event::Found { process, user: User(0) },
            Event::Executed { process, program, arguments: Vec::new(), folder },
            Event::Opened { process, file: file(b"/a"), access: Access::Read },
        ];
        for event in events {
            attendant.learner.on(event, Duration::ZERO);
        }
    }

    #[test]
    fn what_is_learned_is_saved_once_a_run_has_ended_and_not_before_that_is_worth_it() {
        let dir = Dir::new();
        let mut attendant = attendant(&dir);
        let process = Process(1);
        learn(&mut attendant, process);
        assert!(!attendant.is_to_save(2 * SAVE_EVERY), "it still runs");
        attendant.learner.on(Event::Exited { process }, Duration::ZERO);
        assert!(!attendant.is_to_save(SAVE_EVERY / 2) && attendant.is_to_save(SAVE_EVERY));
        attendant.save_took = Duration::from_secs(1);
        assert!(
            !attendant.is_to_save(SAVE_EVERY)
                && attendant.is_to_save(SAVE_SHARE * attendant.save_took)
        );
        attendant.save(&mut |said| panic!("{said:?}"));
        assert!(dir.join("trees").exists() && !attendant.is_to_save(Duration::MAX));
    }

    /// The names of the programs that are known.
    fn programs(attendant: &Attendant) -> Vec<String> {
        let programs = attendant.learner.patterns().programs().into_iter();
        programs.map(|it| String::from_utf8_lossy(&it.name).into_owned()).collect()
    }

    /// One who cannot hold what it is to keep in this folder, as long as there is what is returned with it.
    fn unheld(dir: &Dir) -> (Attendant, PathBuf) {
        let lock = dir.join("trees.lock");
        drop(std::fs::remove_file(&lock));
        std::os::unix::fs::symlink("elsewhere", &lock).expect("ours");
        let attendant = attendant(dir);
        assert!(attendant.held.is_none());
        (attendant, lock)
    }

    #[test]
    fn what_is_learned_where_nothing_can_be_kept_is_kept_once_it_can_be() {
        let dir = Dir::new();
        let (mut attendant, lock) = unheld(&dir);
        for (process, program) in [(Process(1), "reads"), (Process(2), "secret")] {
            learn_of(&mut attendant, program, process);
            attendant.learner.on(Event::Exited { process }, Duration::ZERO);
        }
        let mut quiet = |said| panic!("{said:?}");
        attendant.keep(&mut quiet).expect("nothing is read");
        assert!(!dir.join("trees").exists());
        assert!(attendant.is_to_save(Duration::MAX) && !attendant.is_to_save(attendant.saved_at));
        let store = PatternStore::at(dir.path());
        let asked = store.ask_to_forget(&Forget::Programs(vec!["secret".into()])).expect("written");
        std::fs::remove_file(lock).expect("ours");
        attendant.keep(&mut quiet).expect("nothing is saved yet");
        assert!(!asked.is_there() && !attendant.is_to_save(Duration::MAX));
        assert_eq!(programs(&attendant), ["/bin/reads"]);
        let (saved, warning) = store.load();
        assert!(saved.programs().len() == 1 && warning.is_none());
    }

    #[test]
    fn when_it_is_told_to_it_goes_by_the_device_table_as_it_is_then() {
        let dir = Dir::new();
        let mut attendant = attendant(&dir);
        let device = sled::Device::new("fuse:a");
        let keeps_cache = |attendant: &Attendant| attendant.costs.table().keeps_cache(&device);
        attendant.costs.saw_cache_kept(&device);
        dir.create("devices.toml", "version = 1\n[device.\"fuse:a\"]\nkeeps_cache = false\n");
        let (read, write) = rustix::pipe::pipe().expect("the machine allows it");
        let mut told = Told::new(read, attendant.costs.clock().clone());
        let mut tell = |attendant: &mut Attendant| {
            let mut said = Vec::new();
            let mut bytes = Vec::new();
            wire::put(&Message::Reload, &mut bytes);
            let written = rustix::io::write(&write, &bytes);
            assert_eq!(written, Ok(bytes.len()));
            attendant.turn(&mut told, &mut |line| said.push(line)).expect("it is told");
            said
        };
        assert_eq!(keeps_cache(&attendant), Some(true));
        assert!(tell(&mut attendant).is_empty());
        assert_eq!(keeps_cache(&attendant), Some(false));
        dir.create("devices.toml", "no table [");
        let said = tell(&mut attendant);
        let is_set_aside =
            matches!(&said[..], [Notice::Line(line)] if line.contains("set aside as "));
        assert!(is_set_aside, "{said:?}");
        assert_eq!(keeps_cache(&attendant), Some(false), "what is known stays");
    }

    #[test]
    fn what_was_saved_is_known_again_once_it_can_be_held() {
        let dir = Dir::new();
        let mut before = attendant(&dir);
        learn_of(&mut before, "before", Process(1));
        before.learner.end();
        before.save(&mut |said| panic!("{said:?}"));
        drop(before);
        let (mut attendant, lock) = unheld(&dir);
        learn(&mut attendant, Process(2));
        std::fs::remove_file(lock).expect("ours");
        attendant.keep(&mut |said| panic!("{said:?}")).expect("it can be read");
        assert_eq!(programs(&attendant), ["/bin/before"]);
    }

    #[test]
    fn what_cannot_be_read_once_it_can_be_held_is_not_replaced() {
        let dir = Dir::new();
        let (mut attendant, lock) = unheld(&dir);
        std::fs::remove_file(lock).expect("ours");
        dir.create_dir("trees");
        let failed = attendant.keep(&mut |said| panic!("{said:?}")).expect_err("a folder");
        assert!(failed.to_string().contains("a folder, as the service has it"), "{failed}");
        assert!(std::error::Error::source(&failed).is_none(), "it is said twice");
        assert!(attendant.held.is_none());
    }

    #[test]
    fn what_is_forgotten_and_cannot_be_saved_stays_asked_for_until_it_is() {
        let dir = Dir::new();
        let mut attendant = attendant(&dir);
        learn(&mut attendant, Process(1));
        attendant.learner.on(Event::Exited { process: Process(1) }, Duration::ZERO);
        let mut quiet = |said| panic!("{said:?}");
        attendant.save(&mut quiet);
        // A folder in the place of what is written.
        let part = dir.join("trees.part");
        std::fs::create_dir(&part).expect("ours");
        let store = PatternStore::at(dir.path());
        let asked = store.ask_to_forget(&Forget::Programs(vec!["reads".into()])).expect("written");
        let mut said = Vec::new();
        attendant.forget(&mut |line| said.push(line));
        assert!(asked.is_there() && said.len() == 1, "{said:?}");
        assert!(attendant.learner.patterns().programs().is_empty());
        // It is forgotten once, and not again at each look.
        learn(&mut attendant, Process(2));
        attendant.forget(&mut quiet);
        attendant.learner.on(Event::Exited { process: Process(2) }, Duration::ZERO);
        assert_eq!(attendant.learner.patterns().programs().len(), 1);
        std::fs::remove_dir(part).expect("ours");
        assert!(attendant.is_to_save(Duration::MAX));
        attendant.save(&mut quiet);
        assert!(!asked.is_there() && attendant.forgotten.is_empty());
    }
}
