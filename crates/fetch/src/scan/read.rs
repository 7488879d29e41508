//! Reads the pieces of a scan, to the end of their last record, and says what failed.

use std::io;
use std::ops::Range;
use std::time::Duration;

use sled::{Piece, Place};

use super::Source;
use super::ways::{TRY_BYTES, Way};
use super::work::Shared;
use crate::Error;
use crate::apart::is_given_up;
use crate::far::{BEHIND_BYTES_MAX, FarReader};
use crate::mapping::Mapping;
use crate::sync::lock;

/// A record longer than this is not copied: it is brought into the page cache and handed out mapped.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// What a read at about `offset` that failed, or found less than the file had, means.
pub(crate) fn short_or_failed(
    source: &Source<'_>,
    size: u64,
    offset: u64,
    error: io::Error,
) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => shrunk(source, size),
        io::ErrorKind::TimedOut if is_given_up(&error) => Error::Stalled {
            path: source.path.to_owned(),
            offset,
            limit: source.costs.local().wait_max(),
        },
        _ => Error::Io { path: source.path.to_owned(), source: error },
    }
}

pub(crate) fn shrunk(source: &Source<'_>, size: u64) -> Error {
    let path = source.path.to_owned();
    let found = source.file.metadata().map_or(0, |metadata| metadata.len());
    if found < size {
        Error::Truncated { path, expected: size, found }
    } else {
        Error::Io { path, source: io::Error::from_raw_os_error(libc::EIO) }
    }
}

impl Shared<'_> {
    /// Makes a near piece readable: in `buffer` or, if that is left empty, mapped.
    pub(super) fn bring_near(&self, piece: &Piece, buffer: &mut Vec<u8>) -> Result<(), Error> {
        let may_leave = self.is_near_in_part || self.near.may_stall();
        let brought = match &self.mapping {
            None => self.copy(&piece.range(), buffer),
            Some(mapping) if may_leave => {
                buffer.clear();
                self.near.hold(mapping, &piece.range())
            }
            Some(mapping) => self.bring_quickest(mapping, &piece.range(), buffer),
        };
        brought.map_err(|error| short_or_failed(&self.source, self.size, piece.offset, error))
    }

    fn bring_quickest(
        &self,
        mapping: &Mapping,
        range: &Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut way = self.ways.of(range.end - range.start);
        if way == Way::Trial {
            self.try_ways(mapping, range, buffer)?;
            way = self.ways.found();
        }
        if way == Way::Copied {
            return self.copy(range, buffer);
        }
        buffer.clear();
        Ok(())
    }

    fn copy(&self, range: &Range<u64>, buffer: &mut Vec<u8>) -> io::Result<()> {
        let bytes = usize::try_from(range.end - range.start).expect("a piece fits in memory");
        // What is there will be written over: only more of it has to be cleared.
        buffer.resize(bytes, 0);
        self.near.read_exact_at(buffer, range.start)
    }

    /// Copies the first of a range and, to see what takes longer once it is in a processor's cache, copies
    /// that again and maps it.
    fn try_ways(
        &self,
        mapping: &Mapping,
        range: &Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let clock = self.source.costs.clock();
        let (mut copying, mut mapping_took) = (Duration::MAX, Duration::MAX);
        for start in [range.start, range.start + TRY_BYTES] {
            let tried = start..start + TRY_BYTES;
            self.copy(&tried, buffer)?;
            let begun = clock.now();
            self.copy(&tried, buffer)?;
            let copied = clock.now();
            mapping.hold(&tried);
            copying = copying.min(copied.saturating_sub(begun));
            mapping_took = mapping_took.min(clock.now().saturating_sub(copied));
        }
        self.ways.tried(TRY_BYTES, copying, mapping_took);
        Ok(())
    }

    /// Reads a far piece into `buffer`, to the end of its last record; what
    /// is left over goes back. A record too long to copy is left to the mapping.
    pub(super) fn read_far(
        &self,
        piece: &Piece,
        far: &mut FarReader<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Range<u64>, Error> {
        self.read_part(far, piece, piece.range(), buffer)?;
        let mut end = piece.range().end;
        let goes_on = {
            let mut state = lock(&self.state);
            state.far_since_refresh += piece.length;
            state.picker.follows(end) || self.is_cut(&state, end)
        };
        let Some(separator) = self.options.separator.filter(|_| goes_on) else {
            return Ok(piece.range());
        };
        let mut searched = 0;
        let mut is_beyond = false;
        loop {
            // Beyond a stop only the end of the record is ours.
            let unsearched = &buffer[searched..];
            let found = if is_beyond {
                memchr::memchr(separator, unsearched)
            } else {
                memchr::memrchr(separator, unsearched)
            };
            if let Some(at) = found {
                let cut = searched + at + 1;
                let cut_at = piece.offset + cut as u64;
                buffer.truncate(cut);
                self.give_back(piece, cut_at..end);
                far.continue_at(cut_at);
                return Ok(piece.offset..cut_at);
            }
            searched = buffer.len();
            let (more, is_cut) = self.take_on(end);
            if more.is_empty() {
                return Ok(piece.offset..end);
            }
            is_beyond = is_cut;
            end = more.end;
            if buffer.len() > RECORD_BYTES_MAX && self.mapping.is_some() {
                return self.bring_long_record(far, piece, more, separator, buffer);
            }
            self.read_part(far, piece, more, buffer)?;
        }
    }

    /// Brings the rest of a record that began with `piece` into the page cache and leaves it there.
    fn bring_long_record(
        &self,
        far: &mut FarReader<'_>,
        piece: &Piece,
        mut part: Range<u64>,
        separator: u8,
        buffer: &mut Vec<u8>,
    ) -> Result<Range<u64>, Error> {
        // By its end what came first may have left again.
        if let Some(mapping) = &self.mapping {
            mapping.is_read_in_order(&(piece.offset..self.size));
        }
        loop {
            buffer.clear();
            self.read_part(far, piece, part.clone(), buffer)?;
            let found = memchr::memchr(separator, buffer).map(|at| part.start + at as u64 + 1);
            if let Some(cut) = found {
                buffer.clear();
                self.give_back(piece, cut..part.end);
                return Ok(piece.offset..cut);
            }
            let (more, _) = self.take_on(part.end);
            if more.is_empty() {
                buffer.clear();
                return Ok(piece.offset..part.end);
            }
            part = more;
        }
    }

    /// Where reading ahead of a far `part` must stop, and what is far behind that, if `enters` it.
    fn far_beyond(&self, part: &Range<u64>, enters: bool) -> (u64, Vec<Range<u64>>) {
        // Beyond a file of which nothing is near there is nothing to spare.
        if !self.has_near {
            return (u64::MAX, Vec::new());
        }
        let picker = &lock(&self.state).picker;
        let end = picker.far_end(part.end);
        let close = end..if enters { end.saturating_add(BEHIND_BYTES_MAX) } else { end };
        (end, FarReader::behind(picker.far_in(close)))
    }

    /// Appends a part of the file to `buffer`.
    fn read_part(
        &self,
        far: &mut FarReader<'_>,
        piece: &Piece,
        part: Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let kept = if part.start == piece.offset { 0 } else { buffer.len() };
        let bytes = usize::try_from(part.end - part.start).expect("a part fits in memory");
        // What is there will be written over: only more of it has to be cleared.
        buffer.resize(kept + bytes, 0);
        // Of what may be in memory a read says nothing about the device.
        let learn = (piece.place == Place::Far).then_some(&piece.device);
        let (end, behind) = self.far_beyond(&part, !far.goes_on_at(part.start));
        far.within(part.start, end, behind);
        if far.read(learn, part.start, &mut buffer[kept..])? < bytes {
            return Err(shrunk(&self.source, self.size));
        }
        Ok(())
    }
}
