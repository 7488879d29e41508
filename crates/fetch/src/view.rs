//! A part of a file, looked at without a copy.

use std::io;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use crate::Error;
use crate::mapping::Mapping;
use crate::near::NearReader;
use crate::scan::{Source, short_or_failed, shrunk};

/// Shows the bytes of `range` to `look`, and returns what it returns.
///
/// They are mapped where that can be done, and come as they are looked at: of a large range that is
/// looked at in part, the rest is not read. From a mount that may not answer all of it is brought
/// before, in bounded time. A file that shrinks meanwhile is an error and not a crash, even if
/// `look` panics over what it then saw.
///
/// # Errors
/// [`Error::Truncated`], [`Error::Io`], [`Error::Stalled`].
pub fn view<T>(
    source: &Source<'_>,
    range: &Range<u64>,
    look: impl FnOnce(&[u8]) -> T,
) -> Result<T, Error> {
    view_by_parts(source, range, |bytes, _| look(bytes))
}

/// As [`view`], for a `look` that hands on what it has seen before it has seen all: it asks before
/// whether the bytes that it saw were the file's.
///
/// # Errors
/// As [`view`].
pub fn view_by_parts<T>(
    source: &Source<'_>,
    range: &Range<u64>,
    look: impl FnOnce(&[u8], &(dyn Fn() -> bool + Sync)) -> T,
) -> Result<T, Error> {
    let failed = |error| short_or_failed(source, range.end, range.start, error);
    let status = source.costs.local().status(source.file).map_err(failed)?;
    let may_stall = status.backing.may_stall();
    let near = NearReader::new(source.file, source.costs, may_stall).map_err(failed)?;
    let Some(mapping) = Mapping::harmless(source.file, range.end, &status).map(Arc::new) else {
        let bytes = zeros(range.end - range.start);
        let mut bytes = bytes.map_err(failed)?;
        near.read_exact_at(&mut bytes, range.start).map_err(failed)?;
        return Ok(look(&bytes, &|| true));
    };
    if may_stall {
        near.hold(&mapping, range).map_err(failed)?;
    }
    let is_sound = || {
        let status = source.costs.local().status(source.file);
        mapping.is_sound() && status.is_ok_and(|status| status.size >= range.end)
    };
    let seen = panic::catch_unwind(AssertUnwindSafe(|| look(mapping.bytes(range), &is_sound)));
    if !is_sound() {
        return Err(shrunk(source, range.end));
    }
    Ok(seen.unwrap_or_else(|panic| panic::resume_unwind(panic)))
}

fn zeros(count: u64) -> io::Result<Vec<u8>> {
    let count = usize::try_from(count).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::path::Path;

    use store::Costs;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    #[test]
    fn a_part_is_shown_as_it_is() {
        let (file, costs) = (file_of(&[1, 2, 3, 4, 5]), Costs::load());
        let source = Source { file: &file, path: Path::new("x"), costs: &costs };
        assert_eq!(view(&source, &(1..4), <[u8]>::to_vec).expect("seen"), [2, 3, 4]);
        assert_eq!(view(&source, &(2..2), <[u8]>::len).expect("seen"), 0);
        assert!(matches!(view(&source, &(1..6), <[u8]>::len), Err(Error::Truncated { .. })));
    }

    #[test]
    fn a_file_that_shrinks_under_the_look_is_an_error() {
        let (file, costs) = (file_of(&vec![7; 1 << 16]), Costs::load());
        let source = Source { file: &file, path: Path::new("x"), costs: &costs };
        let seen = view_by_parts(&source, &(0..1 << 16), |bytes, is_sound| {
            assert!(is_sound());
            file.set_len(10).expect("shortened");
            assert!(!is_sound());
            bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>()
        });
        assert!(matches!(seen, Err(Error::Truncated { found: 10, .. })), "{seen:?}");
    }
}
