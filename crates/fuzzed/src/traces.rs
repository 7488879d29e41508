//! The readers of recorded work: traces and the output of strace, which come from other machines.

use tree::replay::Trace;
use tree::replay::strace::{self, About};
use tree::{Event, User};

/// What is read is written so that it is read again.
pub fn trace(bytes: &[u8]) {
    let Ok(trace) = Trace::parse(bytes) else { return };
    assert!(trace.events.is_sorted_by_key(|(at, _)| *at));
    assert_eq!(Trace::parse(trace.text().as_bytes()), Ok(trace));
}

/// Any lines make a trace, in which every process begins before it does something.
pub fn strace_lines(bytes: &[u8]) {
    let about = |path: &[u8]| About { size: Some(path.len() as u64), ..About::default() };
    let interpreter = |path: &[u8]| {
        let words = path.ends_with(b".sh").then(|| b"/bin/sh"[..].into());
        words.into_iter().collect()
    };
    let Ok(trace) = strace::import(bytes, User(0), b"/folder", about, interpreter) else { return };
    let mut known = std::collections::HashSet::new();
    for (_, event) in &trace.events {
        match event {
            Event::Found { process, .. } => assert!(known.insert(*process)),
            Event::Forked { parent, child } => {
                assert!(known.contains(parent) && known.insert(*child));
            }
            Event::Executed { process, .. }
            | Event::Opened { process, .. }
            | Event::Exited { process } => assert!(known.contains(process)),
            other => panic!("strace tells nothing of {other:?}"),
        }
    }
    self::trace(trace.text().as_bytes());
}
