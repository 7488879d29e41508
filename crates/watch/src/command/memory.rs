//! Strings in the memory of a program that waits.

use super::sys;

/// The longest name the kernel takes, with the NUL that ends it.
const NAME_MAX: usize = 4096;
/// Bytes read first: most names are shorter.
const FIRST_BYTES: usize = 256;
/// Memory comes and ends in pages of this size or of a multiple.
const PAGE: usize = 4096;

/// A string without the NUL that ends it; `None` if it is not there, or longer than a name can be.
pub(super) fn string(thread: u32, at: u64) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(FIRST_BYTES);
    let mut buffer = [0; PAGE];
    while text.len() < NAME_MAX {
        let from = at.checked_add(text.len() as u64)?;
        // What lies beyond the page of a string's end may not be there.
        let page_left = PAGE - usize::try_from(from).ok()? % PAGE;
        let most = if text.is_empty() { page_left.min(FIRST_BYTES) } else { page_left };
        let read = sys::read_memory(thread, from, &mut buffer[..most]).ok()?;
        if let Some(end) = buffer[..read].iter().position(|&byte| byte == 0) {
            text.extend_from_slice(&buffer[..end]);
            return (text.len() < NAME_MAX).then_some(text);
        }
        if read == 0 {
            return None;
        }
        text.extend_from_slice(&buffer[..read]);
    }
    None
}

/// A word.
pub(super) fn word(thread: u32, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (sys::read_memory(thread, at, &mut bytes).ok()? == 8).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    fn own() -> u32 {
        std::process::id()
    }

    #[test]
    fn strings_of_any_length_are_read() {
        for length in [0, 1, 255, 256, 257, 4000] {
            let text = CString::new(vec![b'x'; length]).expect("no NUL");
            let read = string(own(), text.as_ptr().addr() as u64);
            assert!(read.as_deref() == Some(text.as_bytes()), "{length}");
        }
        let long = CString::new(vec![b'x'; 5000]).expect("no NUL");
        assert!(string(own(), long.as_ptr().addr() as u64).is_none());
        assert_eq!(string(own(), 8), None, "nothing is there");
    }
}
