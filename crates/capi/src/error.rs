//! What a C caller learns of a failure: an answer, `errno` and a message.

#![expect(unsafe_code, reason = "errno is set, and a C symbol exported")]

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nearfirst::{MemberError, Name, system_number, without_number};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    errno: c_int,
    message: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, message: impl Into<String>) -> Self {
        Self { errno, message: message.into() }
    }

    /// A failed call on the descriptor `fd`.
    pub(crate) fn of_descriptor(fd: c_int, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self::new(errno_of(&error), format!("descriptor {fd}: {}", without_number(&error)))
    }

    /// A failed call on the descriptor of a member.
    pub(crate) fn of_member(name: &Name, error: &io::Error) -> Self {
        Self::new(errno_of(error), format!("{}: {}", name.as_subject(), without_number(error)))
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message =
            format!("a bug in nearfirst: {}", said.unwrap_or("a panic without a message"));
        Self::new(libc::ENOTRECOVERABLE, message)
    }

    /// Sets `errno` and the message of this thread.
    pub(crate) fn tell(self) {
        let text: Vec<u8> =
            self.message.into_bytes().into_iter().filter(|&byte| byte != 0).collect();
        let text = CString::new(text).unwrap_or_default();
        // A thread that is ending has no place for a message left.
        let _told = LAST.try_with(|last| last.replace(text)).is_ok();
        // SAFETY: libc gives the address of this thread's errno, which lives as long as the thread.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(errno_of(&error), without_number(&error))
    }
}

impl From<&nearfirst::Error> for Failure {
    fn from(error: &nearfirst::Error) -> Self {
        Self::new(errno_of_store(error), error.to_string())
    }
}

impl From<nearfirst::Error> for Failure {
    fn from(error: nearfirst::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&MemberError> for Failure {
    fn from(error: &MemberError) -> Self {
        Self::new(errno_of_store(&error.cause), error.to_string())
    }
}

fn errno_of_store(error: &nearfirst::Error) -> c_int {
    error.system_number().unwrap_or(libc::EIO)
}

fn errno_of(error: &io::Error) -> c_int {
    system_number(error).unwrap_or(libc::EIO)
}

/// Runs a C call: its failure, or its panic, becomes `failed`, `errno` and a message.
pub(crate) fn answer<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    let _uncancelled = Uncancelled::new();
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::of_panic(&*panic),
    };
    failure.tell();
    failed
}

/// While it lives, this thread is not cancelled (`pthread_cancel`), which would unwind what may not be
/// unwound: a request waits for the next cancellation point of the caller's own.
struct Uncancelled(c_int);

/// cbindgen:ignore
const PTHREAD_CANCEL_DISABLE: c_int = 1;

#[expect(unused_doc_comments, reason = "what makes the headers reads it")]
/// cbindgen:ignore
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl Uncancelled {
    fn new() -> Self {
        let mut before = 0;
        // SAFETY: `before` lives across the call.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: nobody needs to know what it was.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The message of the last call that failed on this thread; empty if none has.
///
/// Never null. It stays until the next call that fails on this thread, or the
/// thread's end; it is not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn nf_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last() -> (c_int, String) {
        let errno = io::Error::last_os_error().raw_os_error().expect("set by the call");
        // SAFETY: never null and ended by a NUL, as its contract says.
        let text = unsafe { CStr::from_ptr(nf_last_error()) };
        (errno, text.to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_becomes_an_answer() {
        assert_eq!(answer(-1, || panic!("at {}", "sea")), -1);
        assert_eq!(last(), (libc::ENOTRECOVERABLE, "a bug in nearfirst: at sea".into()));
    }

    #[test]
    fn a_failure_is_told_and_stays_over_calls_that_succeed() {
        assert_eq!(answer(-1, || Err(Failure::new(libc::EINVAL, "a\0b"))), -1);
        assert_eq!(answer(-1, || Ok(5)), 5);
        assert_eq!(last().1, "ab");
    }

    #[test]
    fn no_message_shows_a_password() {
        let name = Name::from("webdav://me:secret@host/a");
        let failure = Failure::of_member(&name, &io::ErrorKind::BrokenPipe.into());
        assert_eq!(failure.message, "webdav://me@host/a: broken pipe");
    }

    #[test]
    fn each_thread_has_its_own_message() {
        answer(-1, || Err(Failure::new(libc::EINVAL, "mine")));
        let other = std::thread::spawn(|| answer(-1, || Err(Failure::new(libc::EIO, "theirs"))));
        assert_eq!(other.join().expect("no panic"), -1);
        assert_eq!(last().1, "mine");
    }
}
