//! Picking: the `nf_pick_` calls.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Failure, answer};
use crate::memory::{null, put};
use crate::pick::{Pick, Picks, how};
use crate::sleds::{lasting_name, place_number, plan_of};

/// In place of a separator: pieces are cut anywhere.
pub const NF_NO_RECORDS: c_int = -1;

/// A pick under way: a positive number, never used twice in a process, so that
/// a finished pick is an error and not a crash.
pub type PickId = i64;

/// A piece of a file to read next.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Piece {
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 at the end only.
    pub length: u64,
    /// The device it would be fetched from; valid until the process ends, not
    /// to be freed. Null at the end.
    pub device: *const c_char,
    /// Where it was when last asked: `NF_NEAR`, `NF_FAR`, `NF_UNKNOWN` or `NF_COLD`.
    pub place: c_int,
}

static PICKS: Picks = Picks::new();

/// Begins to pick from the regular file open at `fd`: the pieces that
/// `nf_pick_next` hands out are at most `piece_bytes` long (0 leaves the size
/// to the library) and come by `plan`, `NF_BEST` (near first) or `NF_LINEAR`.
///
/// With a `separator`, a byte from 0 to 255, every piece starts at the start of
/// a record and ends with one or at the end of the file; a record longer than
/// `piece_bytes` comes whole; to find the ends of records the library reads
/// from the file. `NF_NO_RECORDS` asks for plain pieces.
///
/// The descriptor stays the caller's, who keeps it open while picking; its
/// file offset is never moved. What is handed out is the file as long as it is
/// now: what is appended later is not.
///
/// Returns the pick, or -1 with `errno`: `EBADF` (not open, or not for reading), `EISDIR`,
/// `ESPIPE`, `EINVAL` for another separator or plan, `EREMOTEIO` with a separator if the file is
/// offline and reading would recall it, or what reading the file gave.
#[unsafe(no_mangle)]
pub extern "C" fn nf_pick_init(
    fd: c_int,
    piece_bytes: u64,
    separator: c_int,
    plan: c_int,
) -> PickId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    answer(-1, || {
        let how = how(piece_bytes, separator_of(separator)?, plan_of(plan)?);
        let pick = Pick::new(fd, how)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        PICKS.insert(number, pick);
        Ok(number)
    })
}

/// Hands out the next piece; over all calls each byte of the file once.
/// Threads may share a pick: each piece goes to one of them.
///
/// Where the file is, is asked again now and then (`nf_pick_refresh`): once a
/// 32nd of the file has been handed out and nothing near is left, and once an
/// eighth has while something is.
///
/// Returns 1 with a piece; 0, with a length of 0, when nothing is left; -1 with
/// `errno`: `EINVAL` (no such pick, or `piece` is null), `EBADF` (the
/// descriptor was closed, or is another file by now), or what looking for the
/// end of a record gave: then nothing was handed out, and the next call tries again.
///
/// # Safety
/// `piece` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_pick_next(pick: PickId, piece: *mut Piece) -> c_int {
    answer(-1, || {
        if piece.is_null() {
            return Err(null("piece"));
        }
        let next = with(pick, |pick| pick.next_if(|piece| Ok(piece.cloned())))?;
        let answer = c_int::from(next.is_some());
        let next = next.map_or(
            Piece { offset: 0, length: 0, device: std::ptr::null(), place: 0 },
            |next| Piece {
                offset: next.offset,
                length: next.length,
                device: lasting_name(&next.device),
                place: place_number(next.place),
            },
        );
        // SAFETY: the C caller promises that it may be written.
        unsafe { put(piece, "piece", next) }?;
        Ok(answer)
    })
}

/// Asks again where the rest of the file is: what arrived in memory meanwhile
/// is handed out early, what left is put back.
///
/// Returns 0, or -1 with `errno` as `nf_pick_next`; after a failure the pick
/// goes on by the last answer.
#[unsafe(no_mangle)]
pub extern "C" fn nf_pick_refresh(pick: PickId) -> c_int {
    answer(-1, || with(pick, Pick::refresh).map(|()| 0))
}

/// Ends a pick; the descriptor stays open.
///
/// Returns 0, or -1 with `errno` `EINVAL` if there is no such pick (any more).
#[unsafe(no_mangle)]
pub extern "C" fn nf_pick_finish(pick: PickId) -> c_int {
    answer(-1, || if PICKS.remove(pick) { Ok(0) } else { Err(no_such(pick)) })
}

fn with<T>(
    pick: PickId,
    use_it: impl FnOnce(&mut Pick) -> Result<T, Failure>,
) -> Result<T, Failure> {
    PICKS.with(pick, use_it).unwrap_or_else(|| Err(no_such(pick)))
}

fn no_such(pick: PickId) -> Failure {
    Failure::new(libc::EINVAL, format!("there is no pick {pick}: not begun, or finished"))
}

fn separator_of(separator: c_int) -> Result<Option<u8>, Failure> {
    if separator == NF_NO_RECORDS {
        return Ok(None);
    }
    u8::try_from(separator).map(Some).map_err(|_| {
        let message = format!("{separator} is no separator: use 0 to 255 or NF_NO_RECORDS (-1)");
        Failure::new(libc::EINVAL, message)
    })
}
