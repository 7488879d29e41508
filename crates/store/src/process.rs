//! Which process this is, told from one that it is a fork of.

#![expect(unsafe_code, reason = "a function is registered with the C library")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, by its number and by how many forks made it: a fork may have the number of the process
/// that it is a fork of, in a name space of numbers of its own, or once that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    number: u32,
    forks: u32,
}

impl Process {
    /// The one that calls. What it is compared with was told by this function, too, before the fork.
    pub fn this() -> Self {
        static IS_COUNTED: AtomicBool = AtomicBool::new(false);
        // No lock, which a fork might find held. Of threads that meet here each has forks counted.
        if !IS_COUNTED.load(Ordering::Acquire) {
            // SAFETY: a function of this library, which the C library forgets when it is unloaded; it
            // does what may be done in the fork of a process with threads.
            let refused = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
            IS_COUNTED.store(refused == 0, Ordering::Release);
        }
        Self { number: std::process::id(), forks: FORKS.load(Ordering::Relaxed) }
    }

    /// The number that it was started with, which is not 0.
    pub fn number(self) -> u32 {
        self.number
    }

    /// As one number, which is not 0 and from which it can be had again.
    pub fn to_bits(self) -> u64 {
        u64::from(self.forks) << 32 | u64::from(self.number)
    }

    /// Of [`Process::to_bits`].
    #[expect(clippy::cast_possible_truncation, reason = "each half is one number")]
    pub fn from_bits(bits: u64) -> Self {
        Self { number: bits as u32, forks: (bits >> 32) as u32 }
    }
}

unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_another_process_though_it_had_the_same_number() {
        let this = Process::this();
        assert_eq!((Process::this(), Process::from_bits(this.to_bits())), (this, this));
        // SAFETY: the fork looks at two numbers, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_another = Process { number: this.number, ..Process::this() } != this;
            // SAFETY: nothing of its parent's is run.
            unsafe { libc::_exit(i32::from(!is_another)) }
        }
        let mut status = -1;
        // SAFETY: a child of this process, and a number of this function's.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
