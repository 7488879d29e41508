//! What the listener remembers of processes, so that a call is understood without asking the kernel.

use std::collections::HashMap;
use std::sync::Arc;

/// Threads and processes that made calls.
#[derive(Debug, Default)]
pub(super) struct Known {
    processes: HashMap<u32, u32>,
    of: HashMap<u32, Remembered>,
}

/// What is remembered of a process.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    threads: Vec<u32>,
    /// Its working folder, while nothing changed it.
    pub(super) folder: Option<Arc<[u8]>>,
    /// Whether it asked to run another program since.
    pub(super) executes: bool,
}

impl Known {
    /// The process that a thread belongs to, if that is known.
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        self.processes.get(&thread).copied()
    }

    /// Remembers a thread; whether its process is new.
    pub(super) fn meet(&mut self, thread: u32, process: u32) -> bool {
        self.processes.insert(thread, process);
        let is_new = !self.of.contains_key(&process);
        self.of.entry(process).or_default().threads.push(thread);
        is_new
    }

    /// What is remembered of a process, if anything is.
    pub(super) fn of(&mut self, process: u32) -> Option<&mut Remembered> {
        self.of.get_mut(&process)
    }

    /// A process is gone; its number may be given to another.
    pub(super) fn forget(&mut self, process: u32) {
        for thread in self.of.remove(&process).into_iter().flat_map(|known| known.threads) {
            self.processes.remove(&thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_forgotten_with_all_its_threads() {
        let mut known = Known::default();
        assert!(known.meet(7, 7));
        assert!(!known.meet(8, 7), "a thread of a process that is known");
        assert_eq!(known.process_of(8), Some(7));
        known.forget(7);
        assert_eq!((known.process_of(7), known.process_of(8)), (None, None));
        assert!(known.of(7).is_none());
        assert!(known.meet(8, 8), "its number was given to another");
    }
}
