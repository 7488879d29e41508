//! A search whose bytes change under it.
//!
//! A mapped file may be written or cut off while it is searched. The regex
//! engines look at some bytes twice, and panic where they differ: nothing is
//! wrong with the program then, and one file must not end the run.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `search`; its panic is an error that says so, and nothing of it is on stderr.
///
/// # Errors
/// Those of `search`, and its panic. What it worked with is then in an unknown state.
pub(super) fn caught<T>(search: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                usual(info);
            }
        }));
    });
    // One search may be within another.
    let was_caught = IS_CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(search));
    IS_CAUGHT.set(was_caught);
    result.unwrap_or_else(|panic| {
        let why = text(&*panic);
        Err(io::Error::other(format!(
            "the search failed, as when a file is written meanwhile: {why}"
        )))
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_file() {
        let error = caught(|| -> io::Result<()> { panic!("start {} end", "<=") });
        let text = error.expect_err("caught").to_string();
        assert!(text.ends_with("written meanwhile: start <= end"), "{text}");
        assert_eq!(caught(|| Ok(7)).expect("the next one is fine"), 7);
        let within = caught(|| caught(|| Ok(())).map(|()| IS_CAUGHT.get()));
        assert!(within.expect("sound"), "what comes after one within is still caught");
        assert!(!IS_CAUGHT.get());
    }
}
