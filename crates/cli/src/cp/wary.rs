//! A part on a mount that may not answer: what is done with it is given up once that mount is dead.

use std::io;
use std::path::Path;

use nearfirst::{Error, Local};

use super::part::Part;

/// A part, until it is lost to a call that does not return.
pub(super) struct Wary<'a> {
    local: &'a Local,
    dest: &'a Path,
    part: Option<Part>,
}

impl<'a> Wary<'a> {
    /// The part of `dest` that `open` opens.
    ///
    /// # Errors
    /// Those of `open`; that the mount does not answer.
    pub(super) fn open(
        local: &'a Local,
        dest: &'a Path,
        open: impl FnOnce() -> io::Result<Part> + Send + 'static,
    ) -> io::Result<Self> {
        let part = while_answered(local, dest, open)??;
        Ok(Self { local, dest, part: Some(part) })
    }

    /// Does something with it.
    ///
    /// # Errors
    /// Those of `call`; that the mount does not answer.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Part) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut part = self.part.take().ok_or_else(lost)?;
        let (part, done) = while_answered(self.local, self.dest, move || {
            let done = call(&mut part);
            (part, done)
        })?;
        self.part = Some(part);
        done
    }

    /// Does the last thing with it.
    ///
    /// # Errors
    /// As [`Wary::call`].
    pub(super) fn end(
        mut self,
        call: impl FnOnce(Part) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let part = self.part.take().ok_or_else(lost)?;
        while_answered(self.local, self.dest, move || call(part))?
    }

    /// How many bytes are here.
    ///
    /// # Errors
    /// As [`Wary::call`].
    pub(super) fn length(&mut self) -> io::Result<u64> {
        self.call(|part| part.length())
    }
}

impl Drop for Wary<'_> {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // What is left on a mount that is dead by now is left.
            drop(while_answered(self.local, self.dest, move || drop(part)));
        }
    }
}

fn while_answered<T: Send + 'static>(
    local: &Local,
    dest: &Path,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    local.while_answered(dest, call).map_err(|error| match error {
        Error::Io { source, .. } => source,
        dead => io::Error::other(dead.reason()),
    })
}

fn lost() -> io::Error {
    io::Error::other("an earlier call on it did not return")
}
