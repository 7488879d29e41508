//! What the listener remembers of processes, so that a call is understood without asking the kernel.

use std::collections::HashMap;

use super::sys;

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
    /// The thread that asked to run another program, as long as it may still be about to.
    pub(super) executes: Option<u32>,
    /// The same of another root folder or other mounts.
    pub(super) leaves: Option<u32>,
}

/// What a process may have done that it asked for earlier.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// It has run another program, or could not.
    pub(super) ran: bool,
    /// Its names may mean something else.
    pub(super) left: bool,
}

impl Remembered {
    /// A thread of this process calls: what it asked for before is done by now, and what one asked for that is
    /// no more, as all others are once one has run a program.
    pub(super) fn calls(&mut self, process: u32, thread: u32) -> Done {
        let is_past = |asker: &mut u32| *asker == thread || !sys::has_thread(process, *asker);
        let left = self.leaves.is_some();
        self.leaves.take_if(is_past);
        Done { ran: self.executes.take_if(is_past).is_some(), left }
    }
}

impl Known {
    /// The process that a thread belongs to, if that is known.
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        let process = self.processes.get(&thread).copied()?;
        // Nobody tells when a thread ends, and its number may be given to another.
        (process == thread || sys::has_thread(process, thread)).then_some(process)
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
            // Its number may be another's by now.
            if self.processes.get(&thread) == Some(&process) {
                self.processes.remove(&thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::parent_id;
    use std::process;

    use super::*;

    fn own_thread() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
    }

    #[test]
    fn a_process_is_forgotten_with_all_its_threads() {
        let (own, thread) = (process::id(), own_thread());
        let mut known = Known::default();
        assert!(known.meet(own, own));
        assert!(!known.meet(thread, own), "a thread of a process that is known");
        assert_eq!(known.process_of(thread), Some(own));
        known.forget(own);
        assert_eq!((known.process_of(own), known.process_of(thread)), (None, None));
        assert!(known.of(own).is_none());
        assert!(known.meet(own, own), "its number was given to another");
    }

    #[test]
    fn what_a_thread_asked_for_is_done_when_it_calls_again_and_not_when_another_does() {
        let (own, thread) = (process::id(), own_thread());
        let asked = |asker| Remembered {
            executes: Some(asker),
            leaves: Some(asker),
            ..Remembered::default()
        };
        let mut known = asked(thread);
        assert_eq!(known.calls(own, own), Done { ran: false, left: true });
        assert_eq!(known.calls(own, thread), Done { ran: true, left: true });
        assert_eq!(known.calls(own, thread), Done::default());
        let ended = std::thread::spawn(own_thread).join().expect("it ends");
        assert_eq!(asked(ended).calls(own, own), Done { ran: true, left: true });
    }

    #[test]
    fn a_number_that_a_thread_had_may_be_of_another_process() {
        let (own, thread, before) = (process::id(), own_thread(), parent_id());
        let mut known = Known::default();
        assert!(known.meet(before, before));
        assert!(!known.meet(thread, before));
        assert_eq!(known.process_of(thread), None, "that thread has ended");
        assert!(known.meet(thread, own));
        assert_eq!(known.process_of(thread), Some(own));
        known.forget(before);
        assert_eq!(known.process_of(thread), Some(own));
    }
}
