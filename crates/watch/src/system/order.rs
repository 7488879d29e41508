//! The order of two queues: opens come from one, forks, execs and exits from another, without common times.
//!
//! What is certain: a process opens nothing before it is forked and after it exits. What a program is
//! loaded from is opened before its exec is told, and all else that it opens is opened after: so
//! the opens of programs say where among a process's opens its execs lie.

use std::collections::HashMap;

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

/// The opens of one process in a batch: those before an exec, what was loaded for it, those after.
#[derive(Debug, Default)]
struct Life {
    before: Vec<Stage>,
    last: Vec<Open>,
}

#[derive(Debug, Default)]
struct Stage {
    opens: Vec<Open>,
    loaded: Vec<Open>,
}

/// Puts the changes and opens of one batch in order. Exits are not among the steps: see
/// [`super::System`] for when they are told.
pub(crate) fn ordered(changes: &[Change], opens: Vec<Open>) -> Vec<Step> {
    let mut execs: HashMap<Pid, usize> = HashMap::new();
    for change in changes {
        if let Change::Executed { pid } = change {
            *execs.entry(*pid).or_default() += 1;
        }
    }
    let mut steps = Vec::with_capacity(changes.len() + opens.len());
    let (executing, others): (Vec<_>, Vec<_>) =
        opens.into_iter().partition(|open| execs.contains_key(&open.pid));
    let mut lives = lives(executing);
    for change in changes {
        match *change {
            Change::Executed { pid } => {
                let left = execs.get_mut(&pid).expect("it was counted");
                let stages = lives.get_mut(&pid).map(|life| take_stages(&mut life.before, *left));
                let Stage { opens, loaded } = stages.unwrap_or_default();
                *left -= 1;
                steps.extend(opens.into_iter().map(Step::Opened));
                steps.push(Step::Executed { pid, loaded });
                // Those that follow the last exec must not wait behind what other processes do.
                if *left == 0
                    && let Some(life) = lives.remove(&pid)
                {
                    steps.extend(life.last.into_iter().map(Step::Opened));
                }
            }
            Change::Exited { .. } => {}
            other => steps.push(Step::Changed(other)),
        }
    }
    steps.extend(others.into_iter().filter(|open| !open.deeds.executed()).map(Step::Opened));
    steps
}

fn lives(opens: Vec<Open>) -> HashMap<Pid, Life> {
    let mut lives: HashMap<Pid, Life> = HashMap::new();
    for open in opens {
        let life = lives.entry(open.pid).or_default();
        match (open.deeds.executed(), life.last.is_empty(), life.before.last_mut()) {
            (true, true, Some(stage)) => stage.loaded.push(open),
            (true, ..) => {
                let opens = std::mem::take(&mut life.last);
                life.before.push(Stage { opens, loaded: vec![open] });
            }
            (false, ..) => life.last.push(open),
        }
    }
    lives
}

/// The stages that lie before the first of `left` execs: the last stage belongs to the last exec, since
/// a stage too many is of an exec that failed. An exec too many was of a program that lies elsewhere.
fn take_stages(stages: &mut Vec<Stage>, left: usize) -> Stage {
    let mut whole = Stage::default();
    if stages.len() < left {
        return whole;
    }
    let failed = stages.len() - left;
    for stage in stages.drain(..=failed) {
        whole.opens.extend(stage.opens);
        whole.loaded = stage.loaded;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::super::fanotify::Deeds;
    use super::*;

    fn open(pid: Pid, path: &str) -> Open {
        let mask = if path.starts_with("run:") { libc::FAN_OPEN_EXEC } else { 0 };
        let deeds = Deeds::from_mask(mask | libc::FAN_OPEN);
        let path = path.trim_start_matches("run:").as_bytes().into();
        Open { pid, deeds, file: tree::File { path, identity: None, size: None } }
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
        ordered(changes, opens).into_iter().map(text).collect()
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
        assert_eq!(told(&[EXEC, EXEC], &opens), ["7!env", "7:a", "7!cc", "7:b", "8:x"]);
    }
}
