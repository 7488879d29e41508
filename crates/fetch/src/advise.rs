//! Asking the kernel for ranges of files before they are waited for.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

use rustix::fs::{Advice, fadvise};

/// Bytes of one `WILLNEED`: of a longer one the kernel takes this, its default window, and passes
/// over the rest, unless the device says that it takes more.
const REQUEST_BYTES: u64 = 128 << 10;

/// Has a range brought into the page cache, and does not wait for it.
///
/// # Errors
/// The system's; where advice is not taken, the read itself fetches.
pub(crate) fn fetch(file: &File, range: Range<u64>) -> io::Result<()> {
    for start in range.clone().step_by(usize::try_from(REQUEST_BYTES).expect("it is small")) {
        let bytes = NonZeroU64::new(REQUEST_BYTES.min(range.end - start));
        fadvise(file, start, bytes, Advice::WillNeed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use testkit::{Dir, Facility, evict, noise, skip_unless, until_come};

    use super::*;

    #[test]
    fn all_that_is_asked_for_comes() {
        const BYTES: usize = 16 << 20;
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let path = dir.create("a", noise(BYTES, 1));
        evict(&path);
        fetch(&File::open(&path).expect("it is there"), 0..BYTES as u64).expect("asked");
        until_come(&path, std::iter::once(0..BYTES as u64));
    }
}
