//! At a device, what is read on a guess comes after what programs read.

#![expect(unsafe_code, reason = "no crate wraps `ioprio_get` and `ioprio_set`")]

/// `IOPRIO_WHO_PROCESS`; of these, 0 is the calling thread.
const WHO_PROCESS: libc::c_int = 1;
/// Where a priority has its class; of these, `IOPRIO_CLASS_BE` and `IOPRIO_CLASS_IDLE`.
const CLASS_AT: u32 = 13;
const BEST_EFFORT: libc::c_long = 2;
const IDLE: libc::c_long = 3;
/// Least within its class. Of the idle class nothing would come from a busy device, also of a page that its
/// program waits for by then.
const LEAST: libc::c_long = BEST_EFFORT << CLASS_AT | 7;

/// Gives the calling thread, and those that it starts from here on, the least priority at devices that
/// still has its share; one that somebody put into the idle class stays there. Where the kernel has no such
/// priorities nothing changes.
pub(crate) fn come_last() {
    if priority() >> CLASS_AT != IDLE {
        set(LEAST);
    }
}

fn priority() -> libc::c_long {
    // SAFETY: takes two numbers.
    unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
}

fn set(priority: libc::c_long) {
    // SAFETY: takes three numbers.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority) };
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The priority of a thread that is started by one of this priority which has come last.
    fn behind(first: libc::c_long) -> libc::c_long {
        let began = thread::spawn(move || {
            set(first);
            come_last();
            thread::spawn(priority).join()
        });
        began.join().expect("no panic").expect("no panic")
    }

    #[test]
    fn threads_that_are_started_later_come_last_too() {
        let own = priority();
        assert_eq!(behind(BEST_EFFORT << CLASS_AT), LEAST);
        assert_eq!(priority(), own);
    }

    #[test]
    fn who_is_idle_stays_so() {
        assert_eq!(behind(IDLE << CLASS_AT) >> CLASS_AT, IDLE);
    }
}
