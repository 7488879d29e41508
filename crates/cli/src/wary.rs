//! What lies on a mount that may not answer: what is done with it is given up once that mount is dead.

use std::io;
use std::path::Path;

use nearfirst::{Error, Local};
use store::Reached;

/// Something of a file, until it is lost to a call that does not return.
pub(crate) struct Wary<'a, T: Send + 'static> {
    at: Reached<'a>,
    what: Option<T>,
}

impl<'a, T: Send + 'static> Wary<'a, T> {
    /// What `open` makes of the file at `path`, in bounded time.
    ///
    /// # Errors
    /// Those of `open`; that the mount, or the file, does not answer.
    pub(crate) fn open(
        local: &'a Local,
        path: &'a Path,
        open: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<Self> {
        let at = local.reached(path).map_err(told)?;
        let what = at.bounded(open).map_err(told)??;
        Ok(Self { at, what: Some(what) })
    }

    /// Does something with it.
    ///
    /// # Errors
    /// Those of `call`; that the mount does not answer.
    pub(crate) fn call<R: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut T) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let mut what = self.what.take().ok_or_else(lost)?;
        let (what, done) = while_answered(&self.at, move || {
            let done = call(&mut what);
            (what, done)
        })?;
        self.what = Some(what);
        done
    }

    /// Does the last thing with it.
    ///
    /// # Errors
    /// As [`Wary::call`].
    pub(crate) fn end<R: Send + 'static>(
        mut self,
        call: impl FnOnce(T) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let what = self.what.take().ok_or_else(lost)?;
        while_answered(&self.at, move || call(what))?
    }
}

impl<T: Send + 'static> Drop for Wary<'_, T> {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            // What is left on a mount that is dead by now is left.
            drop(while_answered(&self.at, move || drop(what)));
        }
    }
}

fn while_answered<T: Send + 'static>(
    at: &Reached<'_>,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    at.while_answered(call).map_err(told)
}

fn told(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        dead => io::Error::other(dead.reason()),
    }
}

fn lost() -> io::Error {
    io::Error::other("an earlier call on it did not return")
}
