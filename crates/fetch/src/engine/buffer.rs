//! The bytes of one member: put in from any attempt in any order, taken out in order by its reader.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use bytes::{Buf as _, Bytes, BytesMut};

use super::blocking::blocking;
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// Bytes read back from a spill file at a time.
const UNSPILL_BYTES: u64 = 1 << 20;

/// Of what a chunk holds of memory, the share that it may leave empty; beyond that copying it, fresh
/// from the network, costs less than the memory that others could have.
const EMPTY_SHARE: usize = 4;

/// Pieces that follow one another are put together up to here: some servers send their answers in pieces
/// of some bytes, each of which would take a hundred more to keep.
const JOINED_BYTES: usize = 4 << 10;

/// What one member's reader shares with the attempts that fetch it.
///
/// Attempts may overlap: what is here already is not taken twice, so that a
/// hedge costs its network and no memory.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    data: Mutex<Data>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Data {
    /// In memory, by offset, without overlaps.
    chunks: BTreeMap<u64, Bytes>,
    /// On disk: where ranges begin, and how long they are.
    spilled: BTreeMap<u64, u64>,
    spill: Option<Arc<File>>,
    /// All before this was taken.
    taken: u64,
    /// One past the last byte, once it is known.
    end: Option<u64>,
    error: Option<Arc<store::Error>>,
    wakers: Vec<Waker>,
}

impl Buffer {
    /// Of an object that is read from this byte on.
    pub(crate) fn from(start: u64) -> Self {
        let data = Data { taken: start, ..Data::default() };
        Self { data: Mutex::new(data), changed: Condvar::default() }
    }

    /// Puts bytes in; what is here already, or was taken, is left out.
    pub(crate) fn insert(&self, offset: u64, bytes: Bytes) {
        let mut data = lock(&self.data);
        data.insert(offset, bytes);
        self.wake(data);
    }

    /// Says where the object ends.
    pub(crate) fn set_end(&self, end: u64) {
        let mut data = lock(&self.data);
        data.end = Some(end);
        self.wake(data);
    }

    /// Says that no more will come: readers get this after what is here.
    pub(crate) fn fail(&self, error: Arc<store::Error>) {
        let mut data = lock(&self.data);
        data.error = Some(error);
        self.wake(data);
    }

    /// Bytes that were not taken, if it is known where they end.
    pub(crate) fn left(&self) -> Option<u64> {
        let data = lock(&self.data);
        data.end.map(|end| end.saturating_sub(data.taken))
    }

    fn wake(&self, mut data: MutexGuard<'_, Data>) {
        let wakers = std::mem::take(&mut data.wakers);
        drop(data);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the next bytes out, waiting for them; empty at the end.
    pub(crate) fn take(&self) -> Result<Bytes, Arc<store::Error>> {
        self.try_take().unwrap_or_else(|| blocking(|| self.waited_for()))
    }

    fn waited_for(&self) -> Result<Bytes, Arc<store::Error>> {
        let mut data = lock(&self.data);
        loop {
            let taken;
            (data, taken) = self.taken(data);
            if let Some(taken) = taken {
                return taken;
            }
            data = self.changed.wait(data).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Buffer::take`], without waiting.
    pub(crate) fn try_take(&self) -> Option<Result<Bytes, Arc<store::Error>>> {
        self.taken(lock(&self.data)).1
    }

    /// As [`Buffer::take`], for a task.
    pub(crate) fn poll_take(&self, waker: &Waker) -> Poll<Result<Bytes, Arc<store::Error>>> {
        let (mut data, taken) = self.taken(lock(&self.data));
        if let Some(taken) = taken {
            return Poll::Ready(taken);
        }
        if !data.wakers.iter().any(|other| other.will_wake(waker)) {
            data.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// The next bytes, if they are here. While the disk is read nobody is locked out.
    fn taken<'a>(
        &'a self,
        mut data: MutexGuard<'a, Data>,
    ) -> (MutexGuard<'a, Data>, Option<Result<Bytes, Arc<store::Error>>>) {
        loop {
            let Some(next) = data.next_spilled() else {
                let taken = data.take();
                return (data, taken);
            };
            drop(data);
            let bytes = next.read();
            data = lock(&self.data);
            // Another may have taken it, or let everything go.
            if data.next_spilled().is_some_and(|now| now.is(&next)) {
                if let Ok(bytes) = &bytes {
                    data.took_spilled(bytes.len() as u64);
                }
                return (data, Some(bytes));
            }
        }
    }

    /// Moves what is in memory to a file in `folder`; returns how many bytes that were, and what kept it
    /// from moving more.
    ///
    /// Writing holds up nobody: what is taken meanwhile counts as read.
    pub(crate) fn spill(&self, folder: &Path) -> (u64, io::Result<()>) {
        let mut moved = 0;
        let ended = self.spill_file(folder).and_then(|file| self.spill_to(&file, &mut moved));
        (moved, ended)
    }

    fn spill_to(&self, file: &File, moved: &mut u64) -> io::Result<()> {
        let mut from = 0;
        loop {
            let next = lock(&self.data).chunks.range(from..).next().map(|(at, b)| (*at, b.clone()));
            let Some((offset, bytes)) = next else { return Ok(()) };
            let length = bytes.len() as u64;
            file.write_all_at(&bytes, offset)?;
            from = offset + length;
            let mut data = lock(&self.data);
            if let Some(mut grown) = data.chunks.remove(&offset) {
                data.spilled.insert(offset, length);
                *moved += length;
                // What was put to it while the rest was written.
                grown.advance(bytes.len());
                if !grown.is_empty() {
                    data.chunks.insert(from, grown);
                }
            }
        }
    }

    /// The file that this buffer spills to, made when it is first needed.
    fn spill_file(&self, folder: &Path) -> io::Result<Arc<File>> {
        let made = lock(&self.data).spill.clone();
        if let Some(file) = made {
            return Ok(file);
        }
        let file = Arc::new(tempfile::tempfile_in(folder)?);
        Ok(Arc::clone(lock(&self.data).spill.get_or_insert(file)))
    }

    /// Lets everything go.
    pub(crate) fn clear(&self) {
        let mut data = lock(&self.data);
        data.chunks.clear();
        data.spilled.clear();
        data.spill = None;
    }
}

impl Data {
    fn insert(&mut self, offset: u64, mut bytes: Bytes) {
        let mut offset = offset;
        if self.joins(offset, &bytes) {
            return;
        }
        self.compact_before(offset);
        if offset < self.taken {
            let known = usize::try_from(self.taken - offset).unwrap_or(usize::MAX);
            bytes.advance(known.min(bytes.len()));
            offset = self.taken;
        }
        while !bytes.is_empty() {
            let covered = self.covered_to(offset);
            if covered > offset {
                let known = usize::try_from(covered - offset).unwrap_or(usize::MAX);
                bytes.advance(known.min(bytes.len()));
                offset = covered;
                continue;
            }
            let room = self.next_begin(offset).map_or(u64::MAX, |next| next - offset);
            let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            let piece = bytes.split_to(fits);
            let length = piece.len() as u64;
            self.chunks.insert(offset, piece);
            offset += length;
        }
    }

    /// Appends a small piece to the small one that ends where it begins, if it can be.
    fn joins(&mut self, offset: u64, bytes: &Bytes) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        if bytes.len() >= JOINED_BYTES || self.next_begin(offset).is_some_and(|next| next < end) {
            return false;
        }
        let Some((begin, chunk)) = self.chunks.range_mut(..offset).next_back() else {
            return false;
        };
        let length = chunk.len() + bytes.len();
        if begin + chunk.len() as u64 != offset || length > JOINED_BYTES {
            return false;
        }
        let mut joined = match std::mem::take(chunk).try_into_mut() {
            Ok(own) if own.capacity() >= length && own.capacity() <= JOINED_BYTES => own,
            Ok(other) => roomy(&other),
            Err(shared) => roomy(&shared),
        };
        joined.extend_from_slice(bytes);
        *chunk = joined.freeze();
        true
    }

    /// Gives back what the chunk that ends at `offset` holds beyond its bytes.
    ///
    /// A connection reads into as much memory as its largest read may fill, and lets go of what was
    /// left empty with its next read: from then on the chunk alone holds it.
    fn compact_before(&mut self, offset: u64) {
        let last = self.chunks.range_mut(..offset).next_back();
        if let Some((begin, chunk)) = last
            && begin + chunk.len() as u64 == offset
        {
            *chunk = compact(std::mem::take(chunk));
        }
    }

    /// The end of the stored range that covers `offset`, or `offset`.
    fn covered_to(&self, offset: u64) -> u64 {
        let chunk = self.chunks.range(..=offset).next_back();
        let chunk = chunk.map_or(0, |(begin, bytes)| begin + bytes.len() as u64);
        let spilled = self.spilled.range(..=offset).next_back();
        let spilled = spilled.map_or(0, |(begin, length)| begin + length);
        chunk.max(spilled).max(offset)
    }

    /// Where the next stored range after `offset` begins.
    fn next_begin(&self, offset: u64) -> Option<u64> {
        let chunk = self.chunks.range(offset..).next().map(|(begin, _)| *begin);
        let spilled = self.spilled.range(offset..).next().map(|(begin, _)| *begin);
        chunk.into_iter().chain(spilled).min()
    }

    fn take(&mut self) -> Option<Result<Bytes, Arc<store::Error>>> {
        if self.end.is_some_and(|end| self.taken >= end) {
            return Some(Ok(Bytes::new()));
        }
        if let Some(first) = self.chunks.first_entry()
            && *first.key() == self.taken
        {
            let bytes = first.remove();
            self.taken += bytes.len() as u64;
            return Some(Ok(bytes));
        }
        self.error.clone().map(Err)
    }

    /// The next bytes, if they are on disk.
    fn next_spilled(&self) -> Option<Spilled> {
        let length = *self.spilled.get(&self.taken)?;
        let file = Arc::clone(self.spill.as_ref()?);
        Some(Spilled { file, at: self.taken, length: length.min(UNSPILL_BYTES) })
    }

    /// So many bytes were taken from disk.
    fn took_spilled(&mut self, bytes: u64) {
        let length = self.spilled.remove(&self.taken).unwrap_or(bytes);
        self.taken += bytes;
        if length > bytes {
            self.spilled.insert(self.taken, length - bytes);
        }
    }
}

/// Bytes of a spill file.
struct Spilled {
    file: Arc<File>,
    at: u64,
    length: u64,
}

impl Spilled {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && (self.at, self.length) == (other.at, other.length)
    }

    fn read(&self) -> Result<Bytes, Arc<store::Error>> {
        let length = usize::try_from(self.length).expect("at most UNSPILL_BYTES");
        let mut bytes = BytesMut::zeroed(length);
        match self.file.read_exact_at(&mut bytes, self.at) {
            Ok(()) => Ok(bytes.freeze()),
            Err(source) => Err(Arc::new(store::Error::io("(spill file)", source))),
        }
    }
}

/// A copy with room for what may be appended.
fn roomy(bytes: &[u8]) -> BytesMut {
    let mut copy = BytesMut::with_capacity(JOINED_BYTES);
    copy.extend_from_slice(bytes);
    copy
}

fn compact(bytes: Bytes) -> Bytes {
    match bytes.try_into_mut() {
        Ok(held) if held.capacity() - held.len() > held.capacity() / EMPTY_SHARE => {
            Bytes::copy_from_slice(&held)
        }
        Ok(held) => held.freeze(),
        Err(shared) => shared,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(buffer: &Buffer) -> Vec<u8> {
        let mut found = Vec::new();
        loop {
            let bytes = buffer.take().expect("nothing failed");
            if bytes.is_empty() {
                return found;
            }
            found.extend_from_slice(&bytes);
        }
    }

    #[test]
    fn an_error_comes_after_what_is_here() {
        let buffer = Buffer::default();
        buffer.insert(0, Bytes::from_static(b"here"));
        buffer.fail(Arc::new(store::Error::interrupted("x", "gone")));
        assert_eq!(buffer.take().expect("it is here"), "here");
        assert!(buffer.take().is_err());
    }

    #[test]
    fn a_task_that_waits_is_woken_once_however_often_it_asks() {
        let buffer = Buffer::default();
        let task = std::future::poll_fn(|context| {
            for _ in 0..3 {
                assert!(buffer.poll_take(context.waker()).is_pending());
            }
            Poll::Ready(())
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("the machine allows it").block_on(task);
        assert_eq!(lock(&buffer.data).wakers.len(), 1);
    }

    #[test]
    fn what_a_connection_left_empty_is_not_held() {
        let buffer = Buffer::default();
        // As a connection reads: into one piece of memory, of which it keeps the rest for a while.
        let mut connection = BytesMut::with_capacity(100_000);
        let length = 5_000;
        for number in 0..3_u8 {
            connection.extend_from_slice(&[number; 5_000]);
            buffer.insert(u64::from(number) * length, connection.split().freeze());
            connection = BytesMut::with_capacity(100_000);
        }
        buffer.set_end(3 * length);
        let held = |bytes: Bytes| bytes.try_into_mut().expect("nobody else has it").capacity();
        for (number, most) in [(0, 5_000), (1, 5_000), (2, 100_000)] {
            let bytes = buffer.take().expect("it came");
            assert_eq!(bytes, [number; 5_000][..]);
            assert_eq!(held(bytes), most);
        }
    }

    #[test]
    fn pieces_of_a_byte_are_kept_together() {
        let buffer = Buffer::default();
        let content: Vec<u8> = (0..20_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        for (offset, byte) in content.iter().enumerate() {
            buffer.insert(offset as u64, Bytes::copy_from_slice(&[*byte]));
        }
        assert_eq!(lock(&buffer.data).chunks.len(), content.len().div_ceil(JOINED_BYTES));
        buffer.set_end(content.len() as u64);
        assert_eq!(all(&buffer), content);
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_and_overlapping_give_the_object(
            content in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec((0_usize..300, 0_usize..120), 0..20),
            spill_at in prop::collection::vec(0_usize..20, 0..3),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let buffer = Buffer::default();
            for (index, (offset, length)) in cuts.iter().enumerate() {
                if spill_at.contains(&index) {
                    buffer.spill(folder.path()).1.expect("there is room");
                }
                let offset = (*offset).min(content.len());
                let end = (offset + length).min(content.len());
                buffer.insert(offset as u64, Bytes::copy_from_slice(&content[offset..end]));
            }
            buffer.insert(0, Bytes::copy_from_slice(&content));
            buffer.set_end(content.len() as u64);
            prop_assert_eq!(all(&buffer), content);
        }
    }
}
