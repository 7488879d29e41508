//! Reading what is in memory, from a mount that may not answer if it no longer is.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use store::Costs;

use crate::apart::Apart;
use crate::held::Held;
use crate::mapping::Mapping;

/// Bytes read of what is near at a time where that is bounded.
const STEP_BYTES: usize = 2 << 20;

/// Reads parts of a file that are thought to be in memory.
pub(crate) struct NearReader<'a> {
    file: &'a File,
    /// Where the mount may stall.
    apart: Option<Apart>,
    /// There, of a file that is all in memory.
    held: Option<Held>,
}

impl<'a> NearReader<'a> {
    /// Where `may_stall`, no call waits longer than a mount may take to answer.
    ///
    /// # Errors
    /// Where no thread can be had for that.
    pub(crate) fn new(file: &'a File, costs: &Costs, may_stall: bool) -> io::Result<Self> {
        let apart = may_stall.then(|| Apart::new("near", file, costs)).transpose()?;
        Ok(Self { file, apart, held: None })
    }

    /// Says that all of the file, which `mapping` shows, is thought to be in memory: then it is
    /// mapped ahead of those who read it.
    pub(crate) fn is_of_all(&mut self, mapping: &Arc<Mapping>, size: u64) {
        self.held = self.apart.is_some().then(|| Held::new(mapping, size));
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof`; `TimedOut` where the mount does not answer.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let Some(apart) = &self.apart else { return self.file.read_exact_at(buffer, offset) };
        if let Some(held) = &self.held {
            let range = offset..offset + buffer.len() as u64;
            buffer.copy_from_slice(held.bytes(&range, apart)?);
            return Ok(());
        }
        let mut done = 0;
        while done < buffer.len() {
            match apart.read_at(offset + done as u64, &mut buffer[done..], STEP_BYTES, |_| {}) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the mount may not answer.
    pub(crate) fn may_stall(&self) -> bool {
        self.apart.is_some()
    }

    /// Maps the pages of `range`, so that loads from them wait for nothing: what is mapped does not
    /// leave memory for a while.
    ///
    /// # Errors
    /// `TimedOut` where the mount does not answer.
    pub(crate) fn hold(&self, mapping: &Arc<Mapping>, range: &Range<u64>) -> io::Result<()> {
        let Some(apart) = &self.apart else {
            mapping.hold(range);
            return Ok(());
        };
        if let Some(held) = &self.held {
            return held.bytes(range, apart).map(drop);
        }
        for start in range.clone().step_by(STEP_BYTES) {
            let part = start..range.end.min(start + STEP_BYTES as u64);
            let mapping = Arc::clone(mapping);
            apart.call(move |_| {
                mapping.hold(&part);
                Ok(())
            })?;
        }
        Ok(())
    }
}
