//! What a process executes and opens, taken into its run.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::Learner;
use super::predict::Source;
use crate::account::Account;
use crate::event::{Access, Decision, File, PredictionId, Process, User, is_on_a_device};
use crate::names::Name;
use crate::numbered::NumberSet;
use crate::options::{Matching, Options};
use crate::ours::{self, Advice, Guess, Invocation};
use crate::paper::{self, Leaf};
use crate::program::{Role, role};
use crate::run::{ALL_FILES_MAX, FILES_MAX, Run, RunId, Working};

/// Runs that one process may have after one another before their trees end early: a program that
/// executes itself for ever holds no more.
const REPLACEMENTS_MAX: usize = 16;

/// What was executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) program: &'a File,
    pub(super) arguments: &'a [Arc<[u8]>],
    pub(super) folder: &'a [u8],
}

/// What was executed, as it is known to its user's habits.
struct Called {
    /// What it is learned as.
    program: Name,
    /// The file that was executed.
    file: Name,
    invocation: Invocation,
    is_session: bool,
    /// Whether the program is another one than when it was learned.
    is_replaced: bool,
}

impl Learner {
    pub(super) fn executed(
        &mut self,
        process: Process,
        call: Call<'_>,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(seen) = self.processes.get_mut(&process) else { return };
        seen.active = self.events;
        let (user, above) = (seen.user, seen.run);
        let Some(called) = self.called(user, call) else { return };
        let (program, file) = (called.program, called.file);
        let is_ours = self.options.matching == Matching::Ours;
        let own = Source { run: None, process, user, program };
        let own = is_ours.then(|| self.foresee_itself(own, file, now, decisions)).flatten();
        self.used(user, (file, call.program.size, program), now, decisions);
        if let Some(own) = own {
            self.close_one(user, own, decisions);
        }
        let invoked = above.and_then(|above| {
            let exact = called.invocation.exact;
            self.invoked(above, (process, user), (program, file), exact, now)
        });
        let mut invoked = invoked.unwrap_or_default();
        if is_ours {
            self.foresight(user);
        }
        let inherited = invoked.inherited.take();
        let Some(working) = self.working(user, called, inherited) else { return };
        let run = Run {
            user,
            program,
            started: now,
            owner: process,
            holders: 1,
            parent: invoked.parent,
            replaced: invoked.replaced,
            replacements: invoked.replacements,
            spoiled: false,
            predictions: Vec::new(),
            opened: NumberSet::from_iter([file]),
            working,
        };
        let id = self.begin(run);
        if let Some(above) = above {
            self.withdraw(above, invoked.stale, decisions);
            self.predict(above, &invoked.foreseen, now, decisions);
            self.advance(above, now, decisions);
            if invoked.replaced.is_none() {
                self.release(above, decisions);
            }
        }
        self.advance(id, now, decisions);
        self.foresee(id, file, now, decisions);
    }

    /// What a call is to the habits of its user; `None` if it is none of a program to learn.
    fn called(&mut self, user: User, call: Call<'_>) -> Option<Called> {
        let is_ours = self.options.matching == Matching::Ours;
        let role = role(&call.program.path, call.arguments, call.folder);
        let is_session = role == Role::Session;
        let key = match role {
            Role::Program(key) => key,
            // The paper cuts these out, since they run under too many circumstances; ours tell
            // circumstances apart.
            _ if !is_ours => return None,
            Role::Session => call.program.path.to_vec(),
            Role::Wrapper => [&call.program.path, &b" -c"[..]].concat(),
        };
        let habits = self.patterns.users.entry(user).or_default();
        habits.ticks += 1;
        let file = habits.names.intern(&call.program.path);
        habits.names.identify(file, call.program.identity.map(|identity| identity.inode));
        let invocation = Invocation::new(&key, &call.program.path, call.arguments, call.folder);
        let is_itself = *key == *call.program.path;
        let program = habits.names.intern(&Arc::from(key));
        if is_itself && is_ours {
            habits.inherit(call.program, program, |path| {
                Invocation::new(path, path, call.arguments, call.folder)
            });
        }
        // An interpreter is known too: what its scripts have in common.
        habits.programs.entry(file).or_default().used = habits.ticks;
        let known = habits.programs.entry(program).or_default();
        known.used = habits.ticks;
        let is_replaced = known.identify(call.program.identity);
        Some(Called { program, file, invocation, is_session, is_replaced })
    }

    /// What a run begins with, by what its user's are known to do.
    fn working(
        &mut self,
        user: User,
        called: Called,
        inherited: Option<Arc<paper::AccessTree>>,
    ) -> Option<Working> {
        let (room, options) = (self.room(), self.options_now(user));
        let habits = self.patterns.users.get_mut(&user)?;
        let Called { program, file, invocation, is_session, is_replaced } = called;
        Some(match self.options.matching {
            Matching::Paper => {
                let known = habits.programs.get(&program).map_or(&[][..], |known| &known.trees);
                Working::Paper(paper::Working::new(known, inherited))
            }
            Matching::Ours => Working::Ours(Box::new(ours::Working::new(
                &habits.memory,
                &mut habits.names,
                (program, file),
                invocation,
                (is_session, is_replaced, habits.window),
                (room, &options),
            ))),
        })
    }

    /// Takes a run up, as that of its owner.
    fn begin(&mut self, run: Run) -> RunId {
        self.files += run.opened.len();
        self.watched += run.working.watched();
        let id = RunId(self.next_run);
        self.next_run += 1;
        if let Some(seen) = self.processes.get_mut(&run.owner) {
            seen.run = Some(id);
        }
        self.runs.insert(id, run);
        id
    }

    /// A program that begins is read as it goes on: where it is known which parts of a large one
    /// are, they are predicted, if too late for the first of them.
    fn foresee_itself(
        &mut self,
        source: Source,
        file: Name,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) -> Option<PredictionId> {
        let habits = self.patterns.users.get(&source.user)?;
        let is_worth_it = habits.memory.touched.contains_key(&file)
            && !habits.is_near(file, &self.options, now)
            && !self.outstanding.get(&source.user).is_some_and(|known| known.awaits(file));
        is_worth_it.then(|| self.announce(source, vec![(file, now, 1.0)], now, decisions))
    }

    /// The options, with the least chances that make enough of a user's predictions right.
    fn options_now(&self, user: User) -> Options {
        let bar = self.foresights.get(&user).map_or(0.0, |foresight| foresight.run_bar.chance());
        let mut options = self.options.clone();
        options.chance_min = options.chance_min.max(bar);
        options.next_chance_min = options.next_chance_min.max(bar);
        options
    }

    /// Tells the run above that it invoked a program.
    fn invoked(
        &mut self,
        above: RunId,
        (process, user): (Process, User),
        (program, file): (Name, Name),
        exact: u64,
        now: Duration,
    ) -> Option<Invoked> {
        let options = self.options_now(user);
        // What another user runs from here on is none of this one's business.
        let run = self.runs.get_mut(&above).filter(|above| above.user == user)?;
        let habits = self.patterns.users.get_mut(&run.user)?;
        let at = now.saturating_sub(run.started);
        let mut invoked = Invoked::default();
        match &mut run.working {
            Working::Paper(working) => {
                let threshold = self.options.match_threshold;
                invoked.foreseen = guesses(working.invoked((program, file), at, threshold));
                let (count, inherited) = working.last_invoked();
                invoked.parent = Some((above, count.saturating_sub(1)));
                invoked.inherited = inherited;
            }
            Working::Ours(working) => {
                let context = (habits.ticks, &options);
                let memory = &mut habits.memory;
                invoked.foreseen = working.invoked(memory, (file, exact), at, context);
                invoked.parent = Some((above, 0));
            }
        }
        let session = matches!(&run.working, Working::Ours(working) if working.is_session());
        invoked.stale = if session { run.predictions.len().saturating_sub(1) } else { 0 };
        if run.owner == process && run.replacements < REPLACEMENTS_MAX {
            invoked.replaced = Some(above);
            invoked.replacements = run.replacements + 1;
        }
        Some(invoked)
    }

    pub(super) fn opened(
        &mut self,
        process: Process,
        (file, access): (&File, Access),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(seen) = self.processes.get_mut(&process) else { return };
        seen.active = self.events;
        let Some(id) = seen.run else { return };
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !is_on_a_device(&file.path) {
            return;
        }
        let user = run.user;
        let Some(habits) = self.patterns.users.get_mut(&user) else { return };
        let full = run.opened.len() >= FILES_MAX || self.files >= ALL_FILES_MAX;
        // A tree without its end is not the paper's.
        run.spoiled |= full && self.options.matching == Matching::Paper;
        let name = match habits.names.find(&file.path) {
            Some(name) => name,
            None if full => {
                let uncounted = u64::from(access == Access::Read);
                self.account += Account { uncounted, ..Account::default() };
                return;
            }
            None => habits.names.intern(&file.path),
        };
        habits.names.identify(name, file.identity.map(|identity| identity.inode));
        let program = run.program;
        let first = !full && run.opened.insert(name);
        self.files += usize::from(first);
        let near = first && habits.is_near(name, &self.options, now);
        if access == Access::Read && (first || full) {
            self.used(user, (name, file.size, program), now, decisions);
        } else if first {
            habits.access(name, file.size, now);
        } else if access == Access::Read && self.options.matching == Matching::Ours {
            self.used_again(user, (name, file.size), now, decisions);
        }
        self.follow(id, (name, access), (first, near), now, decisions);
        if access == Access::Read {
            self.foresee(id, name, now, decisions);
        }
    }

    /// Takes a file that was opened into the run.
    fn follow(
        &mut self,
        id: RunId,
        (name, access): (Name, Access),
        (first, near): (bool, bool),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(user) = self.runs.get(&id).map(|run| run.user) else { return };
        let (room, options) = (self.room(), self.options_now(user));
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(habits) = self.patterns.users.get_mut(&user) else { return };
        let at = now.saturating_sub(run.started);
        let advice = match &mut run.working {
            Working::Paper(working) => {
                let leaf = Leaf { file: name, access };
                let fetch = guesses(working.opened(leaf, at, self.options.match_threshold));
                Advice { fetch, withdraw: false }
            }
            Working::Ours(working) if first => {
                let known = (&mut habits.memory, &habits.names);
                let file = (name, access);
                self.watched -= working.watched();
                let advice = working.opened(known, file, at, (&run.opened, near), (room, &options));
                self.watched += working.watched();
                advice
            }
            Working::Ours(_) => return,
        };
        if advice.withdraw {
            self.withdraw(id, usize::MAX, decisions);
        }
        self.predict(id, &advice.fetch, now, decisions);
        self.advance(id, now, decisions);
    }

    /// A file was read for the first time in a run.
    fn used(
        &mut self,
        user: User,
        (file, size, program): (Name, Option<u64>, Name),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(habits) = self.patterns.users.get_mut(&user) else { return };
        let near = habits.is_near(file, &self.options, now);
        habits.access(file, size, now);
        if !self.awaited(user, file, now, decisions) {
            let ours = self.options.matching == Matching::Ours;
            let account = Account {
                near: u64::from(near && ours),
                missed: u64::from(!(near && ours)),
                ..Account::default()
            };
            self.credit(user, program, account);
        }
    }

    /// A file was read once more by a run.
    fn used_again(
        &mut self,
        user: User,
        (file, size): (Name, Option<u64>),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(habits) = self.patterns.users.get_mut(&user) else { return };
        habits.access_again(file, size, &self.options, now);
        self.awaited(user, file, now, decisions);
    }

    /// Whether a file that was read had been predicted; the run that waits for it goes on.
    fn awaited(
        &mut self,
        user: User,
        file: Name,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) -> bool {
        let Some(used) = self.outstanding.entry(user).or_default().read(file) else { return false };
        self.credit(user, used.program, used.account);
        let Some(habits) = self.patterns.users.get_mut(&user) else { return true };
        if let Some(foresight) = self.foresights.get_mut(&user) {
            foresight.bar(used.foreseen).right();
        }
        let late = used.account.late > 0 && self.options.fetches;
        if used.foreseen && late {
            habits.window = (ours::window_from(habits.window) + 1).min(ours::WINDOW_MAX);
        }
        if let Some((id, needed)) = used.run
            && let Some(run) = self.runs.get_mut(&id)
            && let Working::Ours(working) = &mut run.working
        {
            let early = needed.saturating_sub(now);
            working.came(habits.names.size(file), early, late && !used.foreseen);
            if used.foreseen {
                working.was_told_again();
            }
            self.advance(id, now, decisions);
        }
        true
    }

    /// Notes which parts of a file were read.
    pub(super) fn touched(&mut self, process: Process, file: &File, extents: Vec<Range<u64>>) {
        let Some(seen) = self.processes.get(&process) else { return };
        let Some(habits) = self.patterns.users.get_mut(&seen.user) else { return };
        if let Some(name) = habits.names.find(&file.path) {
            habits.memory.touched(name, file.size, extents);
        }
    }
}

/// What came of telling a run that it invoked another program.
#[derive(Debug, Default)]
struct Invoked {
    foreseen: Vec<Guess>,
    parent: Option<(RunId, usize)>,
    inherited: Option<Arc<paper::AccessTree>>,
    replaced: Option<RunId>,
    replacements: usize,
    /// Predictions of a session that were for what it should have invoked by now.
    stale: usize,
}

/// The paper knows no chances: a tree matches or does not.
fn guesses(foreseen: Vec<paper::Foreseen>) -> Vec<Guess> {
    let guess =
        |paper::Foreseen { file, at }| Guess { file, at, order: 0, chance: 1.0, below: false };
    foreseen.into_iter().map(guess).collect()
}
