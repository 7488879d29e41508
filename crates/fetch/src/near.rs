//! Reading what is in memory, from a mount that may not answer if it no longer is.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use store::Costs;

use crate::apart::Apart;
use crate::held::{Held, WINDOW_BYTES};
use crate::mapping::Mapping;

/// Bytes read of what is near at a time where that is bounded.
const STEP_BYTES: usize = 2 << 20;

/// Reads parts of a file that are thought to be in memory.
pub(crate) struct NearReader<'a> {
    file: &'a File,
    way: Way,
}

enum Way {
    Here,
    /// Where the mount may stall.
    Apart(Apart),
    /// There, of a file that is all in memory.
    Held(Held),
}

impl<'a> NearReader<'a> {
    /// Where `may_stall`, no call waits longer than a mount may take to answer.
    ///
    /// # Errors
    /// Where no thread can be had for that.
    pub(crate) fn new(file: &'a File, costs: &Costs, may_stall: bool) -> io::Result<Self> {
        let way = if may_stall { Way::Apart(Apart::new("near", file, costs)?) } else { Way::Here };
        Ok(Self { file, way })
    }

    /// Says that all of the file, which `mapping` shows, is thought to be in memory: then it is
    /// mapped ahead of the `readers` who read it at once.
    pub(crate) fn is_of_all(&mut self, mapping: &Arc<Mapping>, size: u64, readers: usize) {
        let Way::Apart(first) = std::mem::replace(&mut self.way, Way::Here) else { return };
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = (readers.min(processors) as u64).min(size.div_ceil(WINDOW_BYTES));
        // Where no thread can be had, fewer do the same work.
        let more: Vec<_> = (1..threads).map_while(|_| first.beside("near").ok()).collect();
        let threads = std::iter::once(first).chain(more).collect();
        self.way = Way::Held(Held::new(mapping, size, threads));
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof`; `TimedOut` where the mount does not answer.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let apart = match &self.way {
            Way::Here => return self.file.read_exact_at(buffer, offset),
            Way::Held(held) => {
                let range = offset..offset + buffer.len() as u64;
                buffer.copy_from_slice(held.bytes(&range)?);
                return Ok(());
            }
            Way::Apart(apart) => apart,
        };
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
        !matches!(self.way, Way::Here)
    }

    /// Maps the pages of `range`, so that loads from them wait for nothing: what is mapped does not
    /// leave memory for a while.
    ///
    /// # Errors
    /// `TimedOut` where the mount does not answer.
    pub(crate) fn hold(&self, mapping: &Arc<Mapping>, range: &Range<u64>) -> io::Result<()> {
        let apart = match &self.way {
            Way::Here => {
                mapping.hold(range);
                return Ok(());
            }
            Way::Held(held) => return held.bytes(range).map(drop),
            Way::Apart(apart) => apart,
        };
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
