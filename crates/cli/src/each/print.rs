//! Writes what commands wrote, each in one piece, as they end or in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::child::Output;
use crate::progress;

/// Outputs that wait for their turn: each holds two open files.
const WAITING_MAX: u64 = 128;
/// Bytes that are copied at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Writes outputs for several threads.
#[derive(Debug)]
pub(super) struct Printer {
    is_ordered: bool,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug)]
struct State {
    /// The number whose turn it is.
    next: u64,
    waiting: BTreeMap<u64, Option<Output>>,
    written: io::Result<()>,
}

impl Printer {
    pub(super) fn new(is_ordered: bool) -> Self {
        let state = State { next: 0, waiting: BTreeMap::new(), written: Ok(()) };
        Self { is_ordered, state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Writes the output of the member of this number, if it is its turn; `false` once nobody reads.
    pub(super) fn write(&self, number: u64, output: Option<Output>) -> bool {
        let mut state = self.state();
        if !self.is_ordered {
            state.put(output);
            return state.written.is_ok();
        }
        state = self
            .moved
            .wait_while(state, |state| number >= state.next + WAITING_MAX && state.written.is_ok())
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting.insert(number, output);
        loop {
            let turn = state.next;
            let Some(output) = state.waiting.remove(&turn) else { break };
            state.put(output);
            state.next += 1;
        }
        self.moved.notify_all();
        state.written.is_ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all could be written.
    pub(super) fn into_written(self) -> io::Result<()> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).written
    }
}

impl State {
    fn put(&mut self, output: Option<Output>) {
        if let (Some(output), Ok(())) = (output, &self.written) {
            progress::wipe();
            // Messages of a command are lost where nobody reads them; its output is not.
            drop(copied(&output.stderr, &mut io::stderr().lock()));
            self.written = copied(&output.stdout, &mut io::stdout().lock());
        }
    }
}

/// Copies what is there now. Whoever the command has left behind writes on where the file's position
/// is, which is his, too.
fn copied(from: &File, to: &mut impl Write) -> io::Result<()> {
    let (mut at, end) = (0, from.metadata()?.len());
    let mut block = vec![0; usize::try_from(end).unwrap_or(usize::MAX).min(BLOCK_BYTES)];
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        let read = match from.read_at(&mut block[..most], at) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        to.write_all(&block[..read])?;
        at += read as u64;
    }
    to.flush()
}
