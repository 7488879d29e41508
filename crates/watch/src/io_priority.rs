//! At a device, what is read on a guess comes after what programs read.

#![expect(unsafe_code, reason = "no crate wraps `ioprio_set`")]

/// `IOPRIO_WHO_PROCESS`; of these, 0 is the calling thread.
const WHO_PROCESS: libc::c_int = 1;
/// `IOPRIO_CLASS_BE`, where it is in a priority.
const BEST_EFFORT: libc::c_int = 2 << 13;
/// Least within its class. Of the idle class nothing would come from a busy device, also of a page that its
/// program waits for by then.
const LEAST: libc::c_int = BEST_EFFORT | 7;

/// Gives the calling thread, and those that it starts from here on, the least priority at devices that
/// still has its share. Where the kernel has no such priorities nothing changes.
pub(crate) fn come_last() {
    // SAFETY: takes three numbers.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, LEAST) };
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn priority() -> libc::c_long {
        // SAFETY: takes two numbers.
        unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
    }

    #[test]
    fn threads_that_are_started_later_come_last_too() {
        let began = thread::spawn(|| {
            come_last();
            thread::spawn(priority).join()
        });
        let theirs = began.join().expect("no panic").expect("no panic");
        assert_eq!(theirs, libc::c_long::from(LEAST));
        assert_ne!(priority(), theirs);
    }
}
