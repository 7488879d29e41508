//! What was learned, for people to look at and to have forgotten.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::event::{Access, User};
use crate::names::{Name, Names};
use crate::numbered::NumberSet;
use crate::ours::{Pattern, is_template};
use crate::paper::{AccessTree, Node};
use crate::patterns::{Habits, Patterns};
use crate::program::program_of;

/// Programs below one another that are drawn.
const DEPTH_MAX: usize = 16;
/// Branches in all: programs that run one another have more ways to do so than fit into memory.
const BRANCHES_MAX: usize = 1 << 16;

/// A program that was learned.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Whose.
    pub user: User,
    /// Its path; of what is interpreted, that of the script; of build tools and of interpreters
    /// without a script, besides what they were told: `/usr/bin/make /src`. A `-c` stands for any
    /// text or command that it was given to run: `/usr/bin/perl -c`, `/usr/bin/timeout -c`.
    pub name: Arc<[u8]>,
    /// What came of its predictions.
    pub account: Account,
    /// A number that is larger the later it ran last.
    pub used: u64,
}

impl Listed {
    /// The path of the program itself, where its name says what it was told to run or build besides.
    pub fn program(&self) -> &[u8] {
        program_of(&self.name)
    }
}

/// What a program opened or ran, as it is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The file.
    pub name: Arc<[u8]>,
    /// What for.
    pub what: What,
    /// When it did so first, from the program's start.
    pub at: Duration,
    /// In what share of the runs remembered, from 0 to 1.
    pub share: f32,
    /// Of a program, what that opened and ran.
    pub below: Vec<Branch>,
}

/// What a file was to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Read.
    Read,
    /// Written, made or cut.
    Written,
    /// Run.
    Run,
}

impl Patterns {
    /// What came of all predictions, of all programs and users.
    pub fn account(&self) -> Account {
        let programs = self.users.values().flat_map(|habits| habits.programs.values());
        programs.fold(Account::default(), |mut sum, program| {
            sum += program.account;
            sum
        })
    }

    /// The programs that were learned, by user, the last used first; not those of which no run has ended
    /// and nothing was predicted, as what is only known by what its scripts have in common.
    pub fn programs(&self) -> Vec<Listed> {
        let mut programs = self.known();
        programs.retain(|listed| listed.account != Account::default());
        programs
    }

    /// Those as well.
    fn known(&self) -> Vec<Listed> {
        let mut listed = Vec::new();
        for (&user, habits) in &self.users {
            listed.extend(habits.programs.iter().map(|(&name, program)| Listed {
                user,
                name: Arc::clone(habits.names.path(name)),
                account: program.account,
                used: program.used,
            }));
        }
        listed.sort_by(|a, b| (a.user, b.used, &a.name).cmp(&(b.user, a.used, &b.name)));
        listed
    }

    /// The programs of this name or path, or else of this last part of one: those that ran or, if none
    /// did, what is known by what others of their path have in common.
    pub fn named(&self, wanted: &[u8]) -> Vec<Listed> {
        let programs = self.known();
        let called = Called::of(&programs);
        let mut found: Vec<Listed> = called.by(wanted).iter().map(|&of| of.clone()).collect();
        if found.iter().any(|listed| listed.account.runs > 0) {
            found.retain(|listed| listed.account.runs > 0);
        }
        found
    }

    /// What a program is remembered to open and run, by time; `None` if it was not learned.
    ///
    /// Of several uses of a program this is the one that was learned or used last. What is run again
    /// below itself is not followed again, and not beyond some ten thousands of branches.
    pub fn tree(&self, user: User, program: &[u8]) -> Option<Vec<Branch>> {
        let habits = self.users.get(&user)?;
        let name = habits.names.find(program)?;
        let known = habits.programs.get(&name)?;
        let patterns = habits.memory.patterns.iter();
        let ours = patterns.filter(|(_, pattern)| pattern.program == Some(name));
        // Of what was learned from one run, what has its programs.
        let last = |&(key, pattern): &(&u64, &Pattern)| {
            (pattern.used, pattern.children.len(), pattern.runs, *key)
        };
        let branches = match ours.max_by_key(last) {
            Some((&invocation, _)) => {
                of_pattern(habits, invocation, &mut Vec::new(), &mut { BRANCHES_MAX })
            }
            None => known.trees.last().map(|tree| of_tree(&habits.names, tree)).unwrap_or_default(),
        };
        Some(branches)
    }

    /// Replaces what is known to have come of a program's predictions, if the program is known.
    pub fn set_account(&mut self, user: User, program: &[u8], account: Account) {
        let Some(habits) = self.users.get_mut(&user) else { return };
        let known = habits.names.find(program).and_then(|name| habits.programs.get_mut(&name));
        if let Some(known) = known {
            known.account = account;
        }
    }

    /// Whether anything is known of a program that is called so, as [`Patterns::forget`] has it.
    pub fn knows(&self, wanted: &[u8]) -> bool {
        !self.named(wanted).is_empty() || self.users.values().any(|habits| habits.ordered(wanted))
    }

    /// Forgets programs, which are called as in [`Patterns::named`], and the files that no other had to do
    /// with; what of this was no program's name. The order of the last reads goes with them; it may name a
    /// program of which nothing else is known any more.
    pub fn forget<'a>(&mut self, wanted: impl IntoIterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
        let programs = self.known();
        let called = Called::of(&programs);
        let wanted: HashSet<&[u8]> = wanted.into_iter().collect();
        let mut unknown = Vec::new();
        let mut names: HashMap<User, NumberSet<Name>> = HashMap::new();
        for wanted in wanted {
            let listed = called.by(wanted);
            let mut is_known = !listed.is_empty();
            for listed in listed {
                let habits = self.users.get(&listed.user);
                let name = habits.and_then(|habits| habits.names.find(&listed.name));
                names.entry(listed.user).or_default().extend(name);
            }
            for (&user, _) in self.users.iter().filter(|(_, habits)| habits.ordered(wanted)) {
                names.entry(user).or_default();
                is_known = true;
            }
            if !is_known {
                unknown.push(wanted);
            }
        }
        for (user, names) in names {
            self.users.entry(user).and_modify(|habits| habits.forget(&names));
        }
        unknown.sort_unstable();
        unknown
    }
}

/// Programs by what they may be called: their names and paths, or else the last parts of these.
#[derive(Default)]
struct Called<'a> {
    whole: HashMap<&'a [u8], Vec<&'a Listed>>,
    last: HashMap<&'a [u8], Vec<&'a Listed>>,
}

impl<'a> Called<'a> {
    fn of(programs: &'a [Listed]) -> Self {
        let mut called = Self::default();
        for listed in programs {
            for name in [&listed.name, listed.program()] {
                let whole = (&mut called.whole, name);
                for (by, name) in [whole, (&mut called.last, last_part(name))] {
                    let of = by.entry(name).or_default();
                    if !of.last().is_some_and(|of| ptr::eq(*of, listed)) {
                        of.push(listed);
                    }
                }
            }
        }
        called
    }

    fn by(&self, wanted: &[u8]) -> &[&'a Listed] {
        self.whole.get(wanted).or_else(|| self.last.get(wanted)).map_or(&[], Vec::as_slice)
    }
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

impl Habits {
    /// Whether the order of the last reads names a file by this path or this last part of one.
    fn ordered(&self, wanted: &[u8]) -> bool {
        let mut found = false;
        self.names_of_course(&mut |name| {
            let path = &**self.names.path(name);
            found |= path == wanted || last_part(path) == wanted;
        });
        found
    }
}

fn of_tree(names: &Names, tree: &AccessTree) -> Vec<Branch> {
    let branches = tree.children().iter().map(|node| match node {
        Node::Data { leaf, at } => {
            Branch { at: *at, share: 1.0, ..leaf_of(names, leaf.file, leaf.access) }
        }
        Node::Program { program, at, tree, .. } => {
            let below = tree.as_ref().map(|tree| of_tree(names, tree)).unwrap_or_default();
            let name = Arc::clone(names.path(*program));
            Branch { name, what: What::Run, at: *at, share: 1.0, below }
        }
    });
    branches.collect()
}

/// What is remembered of an invocation; `above` are those that it was run by, of which there may be
/// `left` branches in all.
fn of_pattern(
    habits: &Habits,
    invocation: u64,
    above: &mut Vec<u64>,
    left: &mut usize,
) -> Vec<Branch> {
    let Some(pattern) = habits.memory.patterns.get(&invocation) else { return Vec::new() };
    let is_over = above.len() >= DEPTH_MAX || above.contains(&invocation);
    let size = pattern.files.len() + pattern.children.len();
    // What was asked for is drawn however large it is.
    if is_over || !above.is_empty() && *left < size {
        return Vec::new();
    }
    *left = left.saturating_sub(size);
    let runs = pattern.runs.clamp(1, 16);
    let share = |history: u16| f32::from(pattern_runs(history, runs)) / f32::from(runs);
    let moment = |at: u32| Duration::from_millis(at.into());
    let paths = pattern.files.iter().filter(|file| !is_template(habits.names.path(file.name)));
    let files = paths.map(|file| Branch {
        at: moment(file.at),
        share: share(file.history),
        ..leaf_of(&habits.names, file.name, file.access)
    });
    above.push(invocation);
    let children = pattern.children.iter().filter_map(|child| {
        let program = habits.memory.patterns.get(&child.invocation)?.program?;
        Some(Branch {
            name: Arc::clone(habits.names.path(program)),
            what: What::Run,
            at: moment(child.at),
            share: share(child.history),
            below: of_pattern(habits, child.invocation, above, left),
        })
    });
    let mut branches: Vec<Branch> = files.chain(children).collect();
    above.pop();
    branches.sort_by_key(|branch| branch.at);
    branches
}

/// Of the last `runs`, those that a history has.
fn pattern_runs(history: u16, runs: u8) -> u8 {
    let mask = u16::MAX >> (16 - u32::from(runs));
    u8::try_from((history & mask).count_ones()).unwrap_or(u8::MAX)
}

fn leaf_of(names: &Names, file: Name, access: Access) -> Branch {
    let what = match access {
        Access::Read => What::Read,
        Access::Write => What::Written,
    };
    let name = Arc::clone(names.path(file));
    Branch { name, what, at: Duration::ZERO, share: 0.0, below: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::Memory;
    use crate::{Event, File, Learner, Matching, Options, Process};

    fn file(path: &str) -> File {
        File { path: Arc::from(path.as_bytes()), identity: None, size: None }
    }

    fn learned(matching: Matching) -> Patterns {
        let options = Options { matching, ..Options::default() };
        let mut learner = Learner::new(options, Patterns::default());
        let (make, cc) = (Process(0), Process(1));
        let at = Duration::from_millis(5);
        let executed = |process, path: &str| Event::Executed {
            process,
            program: file(path),
            arguments: vec![Arc::from(path.as_bytes())],
            folder: Arc::from(&b"/"[..]),
        };
        let read =
            |process, path: &str| Event::Opened { process, file: file(path), access: Access::Read };
        for event in [
            Event::Found { process: make, user: User(7) },
            executed(make, "/bin/builder"),
            read(make, "/src/rules"),
            Event::Forked { parent: make, child: cc },
            executed(cc, "/bin/cc"),
            read(cc, "/src/a.h"),
            Event::Exited { process: cc },
            Event::Exited { process: make },
        ] {
            drop(learner.on(event, at));
        }
        learner.keep_within_memory();
        learner.patterns().clone()
    }

    #[test]
    fn what_a_program_did_is_shown_with_what_it_ran() {
        for matching in [Matching::Paper, Matching::Ours] {
            let patterns = learned(matching);
            let names: Vec<_> = patterns.programs().into_iter().map(|listed| listed.name).collect();
            assert!(names.contains(&Arc::from(&b"/bin/builder"[..])), "{matching:?}");
            let tree = patterns.tree(User(7), b"/bin/builder").expect("learned");
            let shown: Vec<_> = tree.iter().map(|branch| (&*branch.name, branch.what)).collect();
            assert!(shown.contains(&(b"/bin/cc", What::Run)), "{matching:?}: {tree:?}");
            let cc = tree.iter().find(|branch| branch.what == What::Run).expect("it ran one");
            let is_header = |branch: &Branch| &*branch.name == b"/src/a.h";
            assert!(cc.below.iter().any(is_header), "{matching:?}: {tree:?}");
            assert_eq!(patterns.tree(User(8), b"/bin/builder"), None);
        }
    }

    #[test]
    fn what_only_ran_scripts_is_not_listed_beside_them() {
        let mut learner = Learner::new(Options::default(), Patterns::default());
        let mut run = |process, words: [&str; 3]| {
            for event in [
                Event::Found { process: Process(process), user: User(7) },
                Event::Executed {
                    process: Process(process),
                    program: file("/bin/dash"),
                    arguments: words.map(|word| Arc::from(word.as_bytes())).to_vec(),
                    folder: Arc::from(&b"/"[..]),
                },
                Event::Exited { process: Process(process) },
            ] {
                drop(learner.on(event, Duration::ZERO));
            }
        };
        run(1, ["sh", "/opt/script", "x"]);
        run(2, ["sh", "-c", "cat f"]);
        let mut patterns = learner.patterns().clone();
        let names = |listed: Vec<Listed>| {
            let mut names: Vec<_> = listed.into_iter().map(|listed| listed.name).collect();
            names.sort_unstable();
            names
        };
        let text = |name: &str| Arc::from(name.as_bytes());
        assert_eq!(names(patterns.programs()), [text("/bin/dash -c"), text("/opt/script")]);
        assert_eq!(names(patterns.named(b"/bin/dash")), [text("/bin/dash -c")]);
        assert!(patterns.forget([&b"/bin/dash -c"[..]]).is_empty());
        assert_eq!(names(patterns.named(b"dash")), [text("/bin/dash")]);
        assert!(patterns.forget([&b"dash"[..]]).is_empty());
        assert_eq!(names(patterns.named(b"dash")), []);
    }

    fn count(branches: &[Branch]) -> usize {
        branches.iter().map(|branch| 1 + count(&branch.below)).sum()
    }

    #[test]
    fn programs_that_run_one_another_are_drawn_to_an_end() {
        let mut learner = Learner::new(Options::default(), Patterns::default());
        let mut on = |event| drop(learner.on(event, Duration::ZERO));
        let executed = |process, uses: u64| Event::Executed {
            process,
            program: file("/bin/self"),
            arguments: vec![b"self"[..].into(), uses.to_string().into_bytes().into()],
            folder: Arc::from(&b"/"[..]),
        };
        for uses in 0..20 {
            let parent = Process(1000 * uses);
            on(Event::Found { process: parent, user: User(7) });
            on(executed(parent, uses));
            for other in 0..20 {
                let child = Process(1000 * uses + other + 1);
                on(Event::Forked { parent, child });
                on(executed(child, other));
                on(Event::Exited { process: child });
            }
            on(Event::Exited { process: parent });
        }
        let tree = learner.patterns().tree(User(7), b"/bin/self").expect("learned");
        assert!((20..=BRANCHES_MAX).contains(&count(&tree)), "{}", count(&tree));
        let again = |branch: &Branch| branch.what == What::Run && branch.below.is_empty();
        assert!(tree.iter().any(again), "itself");
    }

    #[test]
    fn what_only_the_order_of_reads_names_is_found_and_forgotten() {
        let mut patterns = learned(Matching::Ours);
        let habits = patterns.users.get_mut(&User(7)).expect("it was learned");
        // As where memory was short.
        habits.programs.clear();
        habits.memory = Memory::default();
        assert!(!habits.course.is_empty() && patterns.programs().is_empty());
        let mut patterns = Patterns::decode(&patterns.encode()).expect("just encoded");
        assert!(
            patterns.knows(b"cc") && patterns.knows(b"/bin/builder") && !patterns.knows(b"none")
        );
        assert_eq!(patterns.forget([&b"none"[..], b"cc"]), [&b"none"[..]]);
        assert!(!patterns.knows(b"cc"));
        let bytes = patterns.encode();
        assert!(!bytes.windows(5).any(|part| [&b"/src/"[..], b"/bin/"].contains(&part)));
    }

    #[test]
    fn what_is_forgotten_is_not_listed() {
        let mut patterns = learned(Matching::Ours);
        let wanted = [&b"cc"[..], b"none", b"cc", b"/bin/cc"];
        assert_eq!(patterns.forget(wanted), [&b"none"[..]]);
        assert_eq!(patterns.forget(wanted), [&b"/bin/cc"[..], b"cc", b"none"]);
        assert!(patterns.programs().iter().all(|listed| &*listed.name != b"/bin/cc"));
        assert_eq!(patterns.tree(User(7), b"/bin/cc"), None);
        // What only it read is not even named any more.
        let (before, after) = (learned(Matching::Ours).encode(), patterns.encode());
        let names = |bytes: &[u8]| bytes.windows(8).any(|part| part == b"/src/a.h");
        assert_eq!((names(&before), names(&after)), (true, false));
        let known = Patterns::decode(&after).expect("whole").programs().len();
        assert_eq!(known, patterns.programs().len());
    }
}
