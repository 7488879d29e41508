//! An open file whose mount may not answer.

use std::fs::File;
use std::ops::Deref;

use super::bounded::{Lingering, begun};

/// An open file, which is closed where that holds up nobody.
#[derive(Debug)]
pub struct Opened {
    /// Until it is closed.
    file: Option<File>,
    /// Whether closing it may never return: FUSE has its server hear of each close, and waits.
    may_stall: bool,
}

impl Opened {
    /// With whether closing it may never return.
    pub fn new(file: File, may_stall: bool) -> Self {
        Self { file: Some(file), may_stall }
    }

    /// Whether closing it may never return.
    pub fn may_stall(&self) -> bool {
        self.may_stall
    }

    /// The file, which is closed by whoever has it.
    pub fn into_file(mut self) -> File {
        self.file.take().expect("it is taken once")
    }
}

impl Deref for Opened {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("it is taken when this is dropped")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(file) = self.file.take().filter(|_| self.may_stall) else { return };
        let file = Lingering::new(file);
        // Where no thread can be had for that, it is closed here.
        drop(begun(move || drop(file)));
    }
}
