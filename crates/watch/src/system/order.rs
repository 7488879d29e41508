//! The order of two queues: opens come from one, forks, execs and exits from another, without common times.
//!
//! What is certain: each queue is in order; a process opens nothing before it is forked and after it
//! exits. What a program is loaded from is opened before its exec is told, and all else that it opens
//! is opened after: so the opens of programs say where among a process's opens its execs lie.

use std::collections::{HashMap, VecDeque};

use super::connector::{Change, Pid};
use super::opens::Open;

/// What happens next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Changed(Change),
    /// With what was opened to be run for it, in order: a script, what interprets it, what links that.
    Executed {
        pid: Pid,
        loaded: Vec<Open>,
    },
    Opened(Open),
}

/// Puts the changes and opens of one batch in order: each open as early as it can have happened. Exits
/// are not among the steps: see [`super::System`] for when they are told. What was opened to be run by
/// execs that are not among the changes goes to `loading`, to be looked at with the next batch.
pub(crate) fn ordered(changes: &[Change], opens: Vec<Open>, loading: &mut Vec<Open>) -> Vec<Step> {
    let mut plan = Plan::new(changes, &opens);
    let mut loaded: HashMap<usize, Vec<Open>> = HashMap::new();
    let mut later: VecDeque<(usize, Open)> = VecDeque::with_capacity(opens.len());
    let mut earliest = 0;
    for open in opens {
        match plan.place(&open) {
            Placed::Loaded { exec } => loaded.entry(exec).or_default().push(open),
            Placed::Loading => loading.push(open),
            Placed::InVain => {}
            // What is opened later cannot have happened earlier.
            Placed::After { changes } => {
                // Who opens something else could not run what it opened for that.
                loading.retain(|loading| loading.pid != open.pid);
                earliest = earliest.max(changes);
                later.push_back((earliest, open));
            }
        }
    }
    let mut steps = Vec::with_capacity(changes.len() + later.len());
    for (at, change) in changes.iter().enumerate() {
        let ready = later.iter().take_while(|(earliest, _)| *earliest <= at).count();
        steps.extend(later.drain(..ready).map(|(_, open)| Step::Opened(open)));
        match *change {
            Change::Executed { pid } => {
                let loaded = loaded.remove(&at).unwrap_or_default();
                steps.push(Step::Executed { pid, loaded });
            }
            Change::Exited { .. } | Change::ThreadExited { .. } => {}
            other => steps.push(Step::Changed(other)),
        }
    }
    steps.extend(later.into_iter().map(|(_, open)| Step::Opened(open)));
    steps
}

/// Where an open belongs.
enum Placed {
    /// To be run, by this of the changes.
    Loaded { exec: usize },
    /// To be run by an exec that is not told yet.
    Loading,
    /// To be run by an exec that failed.
    InVain,
    /// After that many changes.
    After { changes: usize },
}

/// What is known of each process before its opens are looked at one by one.
#[derive(Default)]
struct Plan {
    lives: HashMap<Pid, Life>,
}

#[derive(Default)]
struct Life {
    /// Changes up to its fork, which is one of them.
    forked: usize,
    /// Which of the changes are its execs.
    execs: Vec<usize>,
    /// Runs of opens of programs in all, and up to the open that is looked at.
    loads: usize,
    seen: usize,
    is_loading: bool,
}

impl Plan {
    fn new(changes: &[Change], opens: &[Open]) -> Self {
        let mut plan = Self::default();
        for (at, change) in changes.iter().enumerate() {
            match *change {
                Change::Forked { child, .. } => {
                    plan.lives.insert(child, Life { forked: at + 1, ..Life::default() });
                }
                Change::Executed { pid } => plan.lives.entry(pid).or_default().execs.push(at),
                Change::BecameUser { .. }
                | Change::BecameGroup { .. }
                | Change::Exited { .. }
                | Change::ThreadExited { .. } => {}
            }
        }
        for open in opens {
            if let Some(life) = plan.lives.get_mut(&open.pid) {
                life.look(open);
            }
        }
        for life in plan.lives.values_mut() {
            life.loads = std::mem::take(&mut life.seen);
            life.is_loading = false;
        }
        plan
    }

    fn place(&mut self, open: &Open) -> Placed {
        let is_loaded = open.deeds.executed();
        let Some(life) = self.lives.get_mut(&open.pid) else {
            return if is_loaded { Placed::Loading } else { Placed::After { changes: 0 } };
        };
        life.look(open);
        let exec = life.exec();
        if is_loaded {
            return match exec {
                Some(exec) => Placed::Loaded { exec },
                None if life.execs.is_empty() => Placed::Loading,
                None => Placed::InVain,
            };
        }
        Placed::After { changes: exec.map_or(life.forked, |exec| exec + 1) }
    }
}

impl Life {
    fn look(&mut self, open: &Open) {
        let is_loaded = open.deeds.executed();
        self.seen += usize::from(is_loaded && !self.is_loading);
        // What is opened between two programs may lie where nobody listens.
        self.is_loading = is_loaded && !open.is_loader();
    }

    /// The exec that the programs seen so far were opened for. The last of them are of the last exec: one too many
    /// is of an exec that failed, an exec too many was of a program that lies elsewhere.
    fn exec(&self) -> Option<usize> {
        let nth = (self.execs.len() + self.seen).checked_sub(self.loads + 1)?;
        self.execs.get(nth).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fanotify::Deeds;
    use super::*;

    fn open(pid: Pid, path: &str) -> Open {
        let mask = if path.starts_with("run:") { libc::FAN_OPEN_EXEC } else { 0 };
        let deeds = Deeds::from_mask(mask | libc::FAN_OPEN);
        let path = path.trim_start_matches("run:").as_bytes().into();
        let file = tree::File { path, identity: None, size: None };
        Open { pid, deeds, file, gives_capabilities: false }
    }

    /// The steps as text: `7!ld` is an exec of 7 that loaded `ld`.
    fn told(changes: &[Change], opens: &[(Pid, &str)]) -> Vec<String> {
        let opens = opens.iter().map(|&(pid, path)| open(pid, path)).collect();
        let path = |open: &Open| String::from_utf8(open.file.path.to_vec()).unwrap();
        let text = |step| match step {
            Step::Changed(Change::Forked { parent, child }) => format!("{parent}>{child}"),
            Step::Changed(other) => format!("{other:?}"),
            Step::Executed { pid, loaded } => {
                format!("{pid}!{}", loaded.iter().map(path).collect::<Vec<_>>().join("+"))
            }
            Step::Opened(open) => format!("{}:{}", open.pid, path(&open)),
        };
        ordered(changes, opens, &mut Vec::new()).into_iter().map(text).collect()
    }

    const FORK: Change = Change::Forked { parent: 1, child: 7 };
    const EXEC: Change = Change::Executed { pid: 7 };

    #[test]
    fn opens_follow_the_fork_and_exec_that_they_came_before() {
        let opens = [(7, "log"), (7, "run:cc"), (7, "run:ld"), (7, "a.c")];
        assert_eq!(told(&[FORK, EXEC], &opens), ["1>7", "7:log", "7!cc+ld", "7:a.c"]);
    }

    #[test]
    fn a_program_that_lies_elsewhere_opened_what_its_process_opened() {
        assert_eq!(told(&[FORK, EXEC], &[(7, "a.c")]), ["1>7", "7!", "7:a.c"]);
        let twice = [(7, "a"), (7, "run:cc"), (7, "b")];
        assert_eq!(told(&[EXEC, EXEC], &twice), ["7!", "7:a", "7!cc", "7:b"]);
    }

    #[test]
    fn an_exec_that_failed_is_none() {
        let opens = [(7, "run:text"), (7, "a"), (7, "run:sh"), (7, "b")];
        assert_eq!(told(&[EXEC], &opens), ["7:a", "7!sh", "7:b"]);
        assert_eq!(told(&[], &opens[..2]), ["7:a"]);
    }

    #[test]
    fn each_exec_has_its_own() {
        let opens = [(7, "run:env"), (7, "a"), (8, "x"), (7, "run:cc"), (7, "b")];
        assert_eq!(told(&[EXEC, EXEC], &opens), ["7!env", "7:a", "8:x", "7!cc", "7:b"]);
    }

    #[test]
    fn programs_whose_libraries_are_not_told_are_told_apart() {
        let opens =
            [(7, "run:env"), (7, "run:ld.so"), (7, "run:s"), (7, "run:sh"), (7, "run:ld.so")];
        assert_eq!(told(&[EXEC, EXEC], &opens), ["7!env+ld.so", "7!s+sh+ld.so"]);
    }

    #[test]
    fn opens_of_different_processes_stay_in_order() {
        let opens = [(1, "a"), (7, "run:cat"), (7, "b"), (1, "c")];
        assert_eq!(told(&[FORK, EXEC], &opens), ["1:a", "1>7", "7!cat", "7:b", "1:c"]);
        let exited =
            [FORK, EXEC, Change::Exited { pid: 7 }, Change::Forked { parent: 1, child: 8 }];
        assert_eq!(told(&exited, &[(8, "x"), (1, "y")]), ["1>7", "7!", "1>8", "8:x", "1:y"]);
    }

    #[test]
    fn what_was_opened_for_an_exec_that_is_told_later_is_kept_for_it() {
        let mut loading = Vec::new();
        assert!(ordered(&[], vec![open(7, "run:/s"), open(8, "run:/t")], &mut loading).is_empty());
        let opens = [std::mem::take(&mut loading), vec![open(8, "/x")]].concat();
        let steps = ordered(&[Change::Executed { pid: 7 }], opens, &mut loading);
        let loaded = vec![open(7, "run:/s")];
        assert!(steps.contains(&Step::Executed { pid: 7, loaded }), "{steps:?}");
        assert!(loading.is_empty(), "an exec that failed: {loading:?}");
    }
}
