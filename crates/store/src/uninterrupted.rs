//! Calls of the system that a signal breaks off.

use std::io;

/// What `call` returns once nothing interrupts it, as a signal or a FUSE server may.
///
/// # Errors
/// Those of `call`, but for that.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            returned => return returned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_interrupted_is_called_again() {
        let mut calls = 0;
        let returned = uninterrupted(|| {
            calls += 1;
            if calls < 3 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(calls) }
        });
        assert_eq!(returned.expect("the third is let be"), 3);
    }
}
