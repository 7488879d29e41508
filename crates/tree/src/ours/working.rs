//! A run against what is expected of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::belief::{Alike, Bond, Kind};
use super::chain::ahead;
use super::memory::{From, GUESSES_MAX};
use super::template::{expand, is_template, templates};
use super::{ChildEntry, Evidence, FileEntry, Invocation, Memory, Pattern, Sweep, Trail};
use crate::event::Access;
use crate::names::{Name, Names};
use crate::numbered::{NumberMap, NumberSet};
use crate::options::Options;

/// How many programs that a session invokes after another one come after it: two, since those of a
/// pipeline start in any order.
const AFTER_MAX: usize = 2;
/// The last programs that a session invoked of which it is watched what comes after them: one that is
/// repeated is followed by no second one.
const LATEST_MAX: usize = 8;
/// Programs that one run invokes and that are remembered.
const CHILDREN_MAX: usize = 1 << 13;
/// Files that are watched for whether they come, whether they were predicted or not.
const CANDIDATES_MAX: usize = 1 << 16;
/// Files of a pattern of all runs of a program that are looked at: it has what the last runs of any
/// arguments had, and would else make each run cost what the largest one read.
const GENERAL_MAX: usize = 1 << 13;
/// Chance under which a file is not even watched for.
const CHANCE_WATCHED: f32 = 0.05;
/// Files that are predicted and have not come, at least: few enough that a pattern that does not
/// hold costs little, and that nothing is fetched so early that it is gone again when it is needed.
pub(crate) const WINDOW_FIRST: usize = 24;
/// The same, at least, where memory is so short that more is gone again when it is needed.
pub(crate) const WINDOW_MIN: usize = 6;
/// The same, at most: what keeps a slow device with many arms busy.
pub(crate) const WINDOW_MAX: usize = 256;
/// So many more for each that came too late: the device takes longer than the program.
const WINDOW_STEP: usize = 2;
/// Bytes of predicted files that have not come, for each file of the window: with less a large file
/// that is not needed would push out many that are.
const WINDOW_FILE_BYTES: u64 = 256 << 10;
/// One more for each so many that came, since a few of a pattern that holds never come.
const WINDOW_GROWTH: usize = 8;
/// How much the window of one run moves that of the next.
const WINDOW_PART: usize = 8;
/// Files predicted at a time where more are not needed at once.
const BATCH: usize = 6;
/// Files that follow and are predicted, from which on no more are looked for.
const FOLLOWING_MIN: usize = 6;
/// Files from which on it is judged whether a pattern still matches.
const JUDGED_MIN: usize = 8;

/// A file that will probably be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Guess {
    pub(crate) file: Name,
    /// From the start of the run.
    pub(crate) at: Duration,
    /// Which comes first of those at the same time.
    pub(crate) order: u32,
    pub(crate) chance: f32,
    /// By a program that the run invokes, not by itself.
    pub(crate) below: bool,
}

/// What to do after something happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Advice {
    /// Predict these.
    pub(crate) fetch: Vec<Guess>,
    /// First withdraw what was predicted.
    pub(crate) withdraw: bool,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    evidence: Evidence,
    /// It was predicted from the start; else it is watched for, or follows.
    expected: bool,
    /// It was predicted because it follows.
    follows: bool,
    chance: f32,
}

/// A run, and what is expected of it.
#[derive(Debug)]
pub(crate) struct Working {
    program: Name,
    executable: Name,
    invocation: Invocation,
    trail: Trail,
    files: Vec<(Name, Access, Duration)>,
    children: Vec<(u64, Duration)>,
    /// The files of the programs that it invoked.
    executed: NumberSet<Name>,
    candidates: NumberMap<Name, Candidate>,
    /// What is to be predicted, by time of need, and how much of it was.
    plan: Vec<Guess>,
    planned: usize,
    /// Predicted files that were read by the run or those below it.
    came: usize,
    /// Bytes of predicted files that have not been read.
    awaited_bytes: u64,
    /// How far the run is ahead of earlier ones.
    lead: Duration,
    window: usize,
    /// How much of the plan is told is not bounded.
    whole: bool,
    /// Expected files that came, others that came, and how many are expected.
    hits: usize,
    strays: usize,
    expected: usize,
    failed: bool,
    /// Files that were predicted because they follow, and have not come.
    following: usize,
    /// The last file that was read for the first time.
    last: Option<Name>,
    /// How far it is in folders that it reads.
    sweep: Sweep,
    /// What a session invoked last, each with what it invoked after that.
    latest: Option<VecDeque<(u64, Vec<ChildEntry>)>>,
}

impl Working {
    /// A run that begins: a `session` if it is a shell that will be told what to do; `replaced` if
    /// its program is another file than before; `window` files ahead. It may watch for and plan
    /// `room` files.
    pub(crate) fn new(
        memory: &Memory,
        names: &mut Names,
        (program, executable): (Name, Name),
        invocation: Invocation,
        (session, replaced, window): (bool, bool, usize),
        (room, options): (usize, &Options),
    ) -> Self {
        let mut working = Self {
            program,
            executable,
            trail: Trail::of_run(executable, invocation.starts()),
            invocation,
            files: Vec::new(),
            children: Vec::new(),
            executed: NumberSet::default(),
            candidates: NumberMap::default(),
            plan: Vec::new(),
            planned: 0,
            came: 0,
            awaited_bytes: 0,
            lead: Duration::ZERO,
            window: window_from(window),
            whole: false,
            hits: 0,
            strays: 0,
            expected: 0,
            failed: false,
            following: 0,
            last: None,
            sweep: Sweep::default(),
            latest: session.then(VecDeque::new),
        };
        working.expect(memory, names, replaced, (room, options));
        working
    }

    fn expect(
        &mut self,
        memory: &Memory,
        names: &mut Names,
        replaced: bool,
        (room, options): (usize, &Options),
    ) {
        let known = self.known(memory);
        let (Some((own_alike, own)), Some((_, general))) = (known.first(), known.last()) else {
            return;
        };
        let mut guesses: NumberMap<Name, (Guess, Evidence)> = NumberMap::default();
        for (alike, pattern) in &known {
            let reads = |file: &&FileEntry| file.access == Access::Read;
            // Its own file is in memory already.
            let others = |file: &&FileEntry| file.name != self.executable;
            let most = match alike {
                Alike::Exact | Alike::Shape => room,
                Alike::Program | Alike::Executable => room.min(GENERAL_MAX),
            };
            for file in pattern.fullest(most).iter().filter(reads).filter(others) {
                let path = names.path(file.name);
                let template = is_template(path);
                // A run of the same arguments says by itself what follows from them.
                if template && *own_alike == Alike::Exact {
                    continue;
                }
                let evidence = if template {
                    let history = (Some(file.history), pattern.runs);
                    Evidence::of_file(*alike, history, history, Kind::Template, replaced)
                } else if guesses.contains_key(&file.name) {
                    continue;
                } else {
                    let history = |pattern: &Pattern| {
                        (pattern.file(file.name).map(|file| file.history), pattern.runs)
                    };
                    let kind = Kind::of(path, self.invocation.concerns(path));
                    let own = history(own);
                    Evidence::of_file(*own_alike, own, history(general), kind, replaced)
                };
                let chance = memory.beliefs.chance(self.program, evidence);
                if chance < CHANCE_WATCHED {
                    continue;
                }
                let at = Duration::from_millis(u64::from(file.at));
                for name in self.instances(file.name, template, names) {
                    let new = (
                        Guess { file: name, at, order: file.order, chance, below: false },
                        evidence,
                    );
                    let kept = guesses.entry(name).or_insert(new);
                    if kept.0.chance < chance {
                        *kept = new;
                    }
                }
            }
        }
        let mut guesses: Vec<(Guess, Evidence)> = guesses.into_values().collect();
        guesses.sort_unstable_by_key(|(guess, _)| (guess.at, guess.order, guess.file));
        let is_expected = |guess: &Guess| guess.chance >= options.chance_min;
        // What is expected is watched for and planned, and so counts twice.
        let most = CANDIDATES_MAX.min(room / 2);
        if guesses.len() > most {
            guesses.retain(|(guess, _)| is_expected(guess));
            guesses.truncate(most);
        }
        for (guess, evidence) in guesses {
            let expected = is_expected(&guess);
            self.expected += usize::from(expected);
            let chance = guess.chance;
            let new = Candidate { evidence, expected, follows: false, chance };
            self.candidates.insert(guess.file, new);
            if expected {
                self.plan.push(guess);
            }
        }
        if self.latest.is_none() {
            let from = From(self.invocation.exact, Bond::Below);
            let bounds = (room - self.watched(), options.chance_min);
            self.plan.extend(memory.below(self.program, from, bounds));
        }
        self.plan.sort_by_key(|guess| (guess.at, guess.order));
        let mut seen = NumberSet::default();
        self.plan.retain(|guess| seen.insert(guess.file));
    }

    /// The patterns of the circumstances that are known, the most alike first.
    fn known<'a>(&self, memory: &'a Memory) -> Vec<(Alike, &'a Pattern)> {
        let Invocation { exact, shape, program, executable, .. } = self.invocation;
        let mut known: Vec<(Alike, &Pattern)> = Vec::new();
        let mut last = None;
        for (alike, key) in [
            (Alike::Exact, exact),
            (Alike::Shape, shape),
            (Alike::Program, program),
            (Alike::Executable, executable),
        ] {
            if last.replace(key) != Some(key)
                && let Some(pattern) = memory.patterns.get(&key)
            {
                known.push((alike, pattern));
            }
        }
        known
    }

    fn instances(&self, name: Name, template: bool, names: &mut Names) -> Vec<Name> {
        if !template {
            return vec![name];
        }
        let paths = expand(&Arc::clone(names.path(name)), &self.invocation);
        paths.into_iter().map(|path| names.intern(&Arc::from(path))).collect()
    }

    /// Files that are watched for, and those that are planned.
    pub(crate) fn watched(&self) -> usize {
        self.candidates.len() + self.plan.len()
    }

    /// From now on what is expected is told at once, however much later it is needed.
    pub(crate) fn tell_whole(&mut self) {
        self.whole = true;
    }

    /// What is to be predicted now: as far ahead as time and what came so far allow.
    pub(crate) fn ahead(
        &mut self,
        names: &Names,
        elapsed: Duration,
        horizon: Duration,
    ) -> Vec<Guess> {
        if self.whole {
            let rest = self.plan[self.planned..].to_vec();
            self.planned = self.plan.len();
            self.awaited_bytes += rest.iter().map(|guess| names.size(guess.file)).sum::<u64>();
            return rest;
        }
        // What does not hold shows before much is told.
        let window = self.window.min(WINDOW_FIRST + self.came) + self.came / WINDOW_GROWTH;
        // As far ahead in time as in files.
        let part = u32::try_from(self.window).unwrap_or(u32::MAX);
        let whole = u32::try_from(WINDOW_MAX).unwrap_or(u32::MAX);
        let until = elapsed + self.lead + horizon / whole * part;
        let room = (window + self.came).saturating_sub(self.planned);
        let rest = &self.plan[self.planned..];
        if room < BATCH.min(self.window / 4).min(rest.len()) {
            return Vec::new();
        }
        let bytes_max = window.max(WINDOW_FIRST) as u64 * WINDOW_FILE_BYTES;
        let mut next = Vec::new();
        for guess in rest.iter().take(room).take_while(|guess| guess.at <= until) {
            // Two large files that never come must not stop all others.
            let bytes = names.size(guess.file).min(bytes_max / 4);
            if self.awaited_bytes > 0 && self.awaited_bytes + bytes > bytes_max {
                break;
            }
            self.awaited_bytes += bytes;
            next.push(*guess);
        }
        self.planned += next.len();
        next
    }

    /// One of the files that were predicted for this run of so many bytes was read, so long before
    /// it was needed in earlier runs; `late` if it was not near yet.
    pub(crate) fn came(&mut self, bytes: u64, early: Duration, late: bool) {
        self.came += 1;
        self.awaited_bytes = self.awaited_bytes.saturating_sub(bytes);
        self.lead = self.lead.max(early);
        if late {
            self.window = (self.window + WINDOW_STEP).min(WINDOW_MAX);
        }
    }

    /// One of the files that were predicted for this run was gone again before it was needed.
    pub(crate) fn gone(&mut self) {
        self.window = (self.window - 1).max(WINDOW_MIN);
    }

    /// One of the files that were predicted for this run came so much later that the course told it
    /// again: it might have been gone.
    pub(crate) fn was_told_again(&mut self) {
        if self.window > WINDOW_FIRST {
            self.window -= 1;
        }
    }

    /// How many files ahead the next run should be, after one that was so many.
    pub(crate) fn window_of_next(&self, before: usize) -> usize {
        let short = self.planned < WINDOW_FIRST;
        let before = window_from(before);
        if short { before } else { (before * (WINDOW_PART - 1) + self.window) / WINDOW_PART }
    }

    /// The run opened a file for the first time; `near` if it is near anyhow.
    pub(crate) fn opened(
        &mut self,
        (memory, names): (&mut Memory, &Names),
        (file, access): (Name, Access),
        at: Duration,
        (opened, near): (&NumberSet<Name>, bool),
        (room, options): (usize, &Options),
    ) -> Advice {
        self.files.push((file, access, at));
        let mut advice = Advice::default();
        if access == Access::Write {
            return advice;
        }
        if let Some(evidence) = self.sweep.came(file) {
            memory.beliefs.count(self.program, evidence, true);
        }
        if let Some(last) = self.last.replace(file) {
            memory.followed(self.executable, last, file);
        }
        let candidate = self.candidates.get(&file);
        let expected = candidate.is_some_and(|candidate| candidate.expected);
        let follows = candidate.is_some_and(|candidate| candidate.follows);
        self.hits += usize::from(expected);
        self.following = self.following.saturating_sub(usize::from(follows));
        if follows && self.following >= FOLLOWING_MIN {
            // Enough of what follows is predicted.
        } else if !expected || self.failed {
            self.strays += usize::from(!near);
            advice.fetch = self.follow(memory, file, at, opened, (room, options));
            if let Some((evidence, others)) = self.sweep.others(file, names, at, opened) {
                let chance = memory.beliefs.chance(self.program, evidence);
                let guess = |(file, at)| Guess { file, at, order: 0, chance, below: false };
                let others = others.into_iter().filter(|_| chance >= options.chance_min);
                advice.fetch.extend(others.map(guess));
            }
        }
        advice.withdraw = self.fails(options);
        advice
    }

    /// What followed a file that nobody expected.
    fn follow(
        &mut self,
        memory: &Memory,
        file: Name,
        at: Duration,
        opened: &NumberSet<Name>,
        (room, options): (usize, &Options),
    ) -> Vec<Guess> {
        let chains = (memory.chains.get(&self.executable), &memory.chain);
        let mut guesses = Vec::new();
        self.following = 0;
        for (file, evidence) in ahead(chains, file, opened) {
            let known = self.candidates.get(&file);
            if known.is_some_and(|known| known.expected && !self.failed) {
                continue;
            }
            let chance = memory.beliefs.chance(self.program, evidence);
            let follows = chance >= options.next_chance_min;
            if self.candidates.len() < CANDIDATES_MAX.min(room) {
                let new = Candidate { evidence, expected: false, follows, chance };
                self.candidates.entry(file).or_insert(new).follows |= follows;
            }
            if !follows {
                break;
            }
            self.following += 1;
            guesses.push(Guess { file, at, order: 0, chance, below: false });
        }
        guesses
    }

    /// Whether what was expected stays away: judged by the share of expected files among those that
    /// came, as far as there were any to come. Once only: after that only what follows is
    /// predicted.
    fn fails(&mut self, options: &Options) -> bool {
        let due = self.hits + self.strays.min(self.expected - self.hits);
        let fails = !self.failed
            && due >= JUDGED_MIN
            && (self.hits as f64) < options.match_threshold * due as f64;
        if fails {
            self.failed = true;
            self.plan.truncate(self.planned);
        }
        fails
    }

    /// The run invoked a program; gives what is to be predicted.
    pub(crate) fn invoked(
        &mut self,
        memory: &mut Memory,
        (file, exact): (Name, u64),
        at: Duration,
        (tick, options): (u64, &Options),
    ) -> Vec<Guess> {
        let Some(latest) = &mut self.latest else {
            if self.children.len() < CHILDREN_MAX {
                self.children.push((exact, at));
                if self.executed.insert(file) {
                    self.files.push((file, Access::Read, at));
                }
            }
            return Vec::new();
        };
        for (_, after) in &mut *latest {
            if !after.iter().any(|child| child.invocation == exact) {
                let place = u32::try_from(after.len()).unwrap_or(u32::MAX);
                after.push(ChildEntry { invocation: exact, history: 1, at: place });
            }
        }
        // What came after a later one came after an earlier one, too: the first is full first.
        while latest.len() == LATEST_MAX
            || latest.front().is_some_and(|(_, after)| after.len() == AFTER_MAX)
        {
            let Some((before, mut after)) = latest.pop_front() else { break };
            after.sort_unstable_by_key(|child| child.invocation);
            let key = after_of(before);
            judge(memory, self.program, From(key, Bond::After), &after);
            memory.learn(key, self.program, &[], &after, tick);
        }
        latest.push_back((exact, Vec::new()));
        let from = From(after_of(exact), Bond::After);
        let bounds = (GUESSES_MAX, options.chance_min);
        let mut guesses = memory.below(self.program, from, bounds);
        guesses.sort_by_key(|guess| (guess.at, guess.order));
        guesses.truncate(self.window);
        for guess in &mut guesses {
            guess.at += at;
        }
        guesses
    }

    /// What the run's patterns say of a file: a number under 8.
    pub(crate) fn knows(&self, file: Name) -> u16 {
        match self.candidates.get(&file) {
            _ if self.failed => 0,
            None => 1 + u16::from(!self.candidates.is_empty()),
            Some(candidate) if candidate.follows => 3,
            Some(candidate) => match candidate.chance {
                ..0.3 => 4,
                ..0.6 => 5,
                ..0.9 => 6,
                _ => 7,
            },
        }
    }

    /// Where the run is in the course of earlier reads.
    pub(crate) fn trail(&mut self) -> &mut Trail {
        &mut self.trail
    }

    /// Whether the run is a shell that is told what to do.
    pub(crate) fn is_session(&self) -> bool {
        self.latest.is_some()
    }

    /// Learns from the run, which is over.
    pub(crate) fn finish(self, memory: &mut Memory, names: &mut Names, tick: u64) {
        let opened: NumberMap<Name, Access> =
            self.files.iter().map(|(file, access, _)| (*file, *access)).collect();
        for (file, candidate) in &self.candidates {
            let came = opened.get(file) == Some(&Access::Read);
            memory.beliefs.count(self.program, candidate.evidence, came);
        }
        for (_, evidence) in self.sweep.awaited() {
            memory.beliefs.count(self.program, evidence, false);
        }
        let children = self.learned_children(memory);
        let mut files = vec![entry(self.executable, (Access::Read, Duration::ZERO), 0)];
        let numbered = || self.files.iter().zip(1..);
        files.extend(
            numbered().map(|(&(file, access, at), order)| entry(file, (access, at), order)),
        );
        sort(&mut files);
        let Invocation { exact, shape, program, executable, .. } = self.invocation;
        memory.learn(exact, self.program, &files, &children, tick);
        for (&(file, access, at), order) in numbered() {
            if access == Access::Read {
                let found = templates(names.path(file), &self.invocation);
                let found = found.into_iter().map(|found| names.intern(&Arc::from(found)));
                files.extend(found.map(|name| entry(name, (access, at), order)));
            }
        }
        sort(&mut files);
        memory.learn(program, self.program, &files, &[], tick);
        if shape != program {
            memory.learn(shape, self.program, &files, &[], tick);
        }
        if executable != program {
            memory.learn(executable, self.executable, &files, &[], tick);
        }
    }

    /// What was invoked, once each; counts which of those that were expected were.
    fn learned_children(&self, memory: &mut Memory) -> Vec<ChildEntry> {
        let mut children: Vec<ChildEntry> = (self.children.iter())
            .map(|&(invocation, at)| ChildEntry { invocation, history: 1, at: milliseconds(at) })
            .collect();
        children.sort_by_key(|child| (child.invocation, child.at));
        children.dedup_by_key(|child| child.invocation);
        judge(memory, self.program, From(self.invocation.exact, Bond::Below), &children);
        children
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        [self.program, self.executable].into_iter().for_each(&mut *each);
        self.files.iter().for_each(|(file, ..)| each(*file));
        self.candidates.keys().for_each(|&file| each(file));
        self.plan.iter().for_each(|guess| each(guess.file));
        self.last.iter().for_each(|&file| each(file));
        self.executed.iter().for_each(|&file| each(file));
        self.sweep.awaited().for_each(|(file, _)| each(file));
    }
}

/// How many files ahead to be; 0: nothing is known of that.
pub(crate) fn window_from(known: usize) -> usize {
    if known == 0 { WINDOW_FIRST } else { known.clamp(WINDOW_MIN, WINDOW_MAX) }
}

/// Counts which of the programs that were expected came.
fn judge(memory: &mut Memory, program: Name, from: From, came: &[ChildEntry]) {
    let Some(pattern) = memory.patterns.get(&from.0) else { return };
    for child in &pattern.children {
        let evidence = Evidence::of_child(child.history, pattern.runs, from.1);
        let place = came.binary_search_by_key(&child.invocation, |new| new.invocation);
        memory.beliefs.count(program, evidence, place.is_ok());
    }
}

/// The circumstance of coming after a run.
fn after_of(exact: u64) -> u64 {
    exact.rotate_left(23) ^ 0x6166_7465_7220_6974
}

fn entry(name: Name, (access, at): (Access, Duration), order: u32) -> FileEntry {
    FileEntry { name, history: 1, access, at: milliseconds(at), order }
}

fn sort(files: &mut Vec<FileEntry>) {
    files.sort_by_key(|file| (file.name, file.order));
    files.dedup_by_key(|file| file.name);
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::invocation::tests::invocation;

    fn working(
        memory: &Memory,
        names: &mut Names,
        line: &str,
        (session, room): (bool, usize),
    ) -> Working {
        let program = names.intern(&Arc::from(line.as_bytes()));
        let invocation = invocation(line, "/");
        let kind = (session, false, 0);
        let options = Options::default();
        Working::new(memory, names, (program, program), invocation, kind, (room, &options))
    }

    #[test]
    fn what_a_session_repeats_is_held_a_few_times_and_learned() {
        let (mut memory, mut names) = (Memory::default(), Names::default());
        let mut session = working(&memory, &mut names, "/bin/bash", (true, 100));
        let (file, options) = (names.intern(&Arc::from(&b"/bin/test"[..])), Options::default());
        for tick in 0..1000 {
            session.invoked(&mut memory, (file, 7), Duration::ZERO, (tick, &options));
        }
        assert!(session.latest.is_some_and(|latest| latest.len() <= LATEST_MAX));
        let after = &memory.patterns[&after_of(7)].children;
        assert_eq!(after.iter().map(|child| child.invocation).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn where_there_is_little_room_only_what_is_expected_is_watched_for() {
        let (mut memory, mut names) = (Memory::default(), Names::default());
        let file = |names: &mut Names, file: usize| {
            names.intern(&Arc::from(format!("/data/{file}").into_bytes()))
        };
        for usual in [50, 50, 50, 100] {
            let mut run = working(&memory, &mut names, "/bin/reader", (false, 1000));
            for (number, at) in (0..usual).zip(1..) {
                let read = (file(&mut names, number), Access::Read, Duration::from_millis(at));
                run.files.push(read);
            }
            run.finish(&mut memory, &mut names, 1);
        }
        let mut run = |room| working(&memory, &mut names, "/bin/reader", (false, room));
        let all = run(1000);
        assert_eq!((all.candidates.len(), all.plan.len()), (100, 50));
        let expected = run(120);
        assert_eq!((expected.candidates.len(), expected.plan.len()), (50, 50));
        let first = run(40);
        assert_eq!((first.candidates.len(), first.plan.len()), (20, 20));
        assert!((0..20).all(|number| first.candidates.contains_key(&file(&mut names, number))));
    }
}
