//! Whose a line is that names no thread: where strace writes to a terminal or a pipe, it names threads
//! only while it follows several.

use std::collections::HashSet;

use super::line::{Line, Said};

/// The threads that live, as the lines so far tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Living {
    /// The numbers of all that the calls of all lines made.
    made: HashSet<u64>,
    /// The number of the thread that was named by no line at first; 0 stands for it to its end.
    first: Option<u64>,
    seen: HashSet<u64>,
    /// Made, and in no line yet.
    unseen: HashSet<u64>,
    /// Seen before the end of the call that makes them.
    early: HashSet<u64>,
}

impl Living {
    pub(super) fn of<'a>(lines: impl Iterator<Item = Line<'a>>) -> Self {
        let made = lines.filter_map(|line| line.said.made()).collect();
        Self { made, ..Self::default() }
    }

    /// The same lines, each with its thread; `None` of one that may be of several.
    pub(super) fn named<'a>(
        mut self,
        lines: impl Iterator<Item = Line<'a>>,
    ) -> impl Iterator<Item = Option<Line<'a>>> {
        lines.map(move |line| {
            let thread = if line.thread == 0 { self.only()? } else { self.known(line.thread) };
            let line = Line { thread, ..line };
            self.note(&line);
            Some(line)
        })
    }

    /// The one that lives.
    fn only(&self) -> Option<u64> {
        // Who was made and not followed is never seen.
        let candidates = if self.seen.is_empty() { &self.unseen } else { &self.seen };
        let mut candidates = candidates.iter();
        let only = candidates.next().copied().unwrap_or(0);
        candidates.next().is_none().then_some(only)
    }

    /// By what number a thread goes that a line names.
    fn known(&mut self, thread: u64) -> u64 {
        let is_new = !self.seen.contains(&thread) && !self.made.contains(&thread);
        // Where no call is seen that makes threads, any number may be another's.
        if is_new && self.first.is_none() && self.seen.contains(&0) && !self.made.is_empty() {
            self.first = Some(thread);
        }
        if self.first == Some(thread) { 0 } else { thread }
    }

    fn note(&mut self, line: &Line<'_>) {
        if self.seen.insert(line.thread) && !self.unseen.remove(&line.thread) {
            self.early.insert(line.thread);
        }
        match line.said {
            Said::Ended => self.end(line.thread),
            Said::Superseded(caller) => self.end(caller),
            Said::Begun(_) | Said::Resumed { .. } | Said::Call(_) => {}
        }
        if let Some(child) = line.said.made()
            && !self.early.remove(&child)
        {
            self.unseen.insert(child);
        }
    }

    fn end(&mut self, thread: u64) {
        self.seen.remove(&thread);
        self.first.take_if(|_| thread == 0);
    }
}
