//! Strings in the memory of a program that waits.

use super::sys;

/// The longest name the kernel takes, with the NUL that ends it.
const NAME_MAX: usize = 4096;

/// Where a string is read to.
pub(super) type Text = [u8; NAME_MAX];
/// Bytes read first: most names are shorter.
const FIRST_BYTES: usize = 256;
/// Memory comes and ends in pages of this size or of a multiple.
const PAGE: usize = 4096;

/// Room for a string.
pub(super) fn text() -> Box<Text> {
    Box::new([0; NAME_MAX])
}

/// A string without the NUL that ends it; `None` if it is not there, or longer than a name can be.
pub(super) fn string(thread: u32, at: u64, text: &mut Text) -> Option<&[u8]> {
    let mut length = 0;
    while length < NAME_MAX {
        let from = at.checked_add(length as u64)?;
        // What lies beyond the page of a string's end may not be there.
        let page_left = PAGE - usize::try_from(from).ok()? % PAGE;
        let most = if length == 0 { page_left.min(FIRST_BYTES) } else { page_left };
        let end = NAME_MAX.min(length + most);
        let read = sys::read_memory(thread, from, &mut text[length..end]).ok()?;
        if let Some(last) = text[length..length + read].iter().position(|&byte| byte == 0) {
            return Some(&text[..length + last]);
        }
        if read == 0 {
            return None;
        }
        length += read;
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
        for length in [0, 1, 255, 256, 257, 4000, 4095] {
            let text = CString::new(vec![b'x'; length]).expect("no NUL");
            let mut room = super::text();
            let read = string(own(), text.as_ptr().addr() as u64, &mut room);
            assert!(read == Some(text.as_bytes()), "{length}");
        }
        let mut room = text();
        for length in [4096, 5000] {
            let long = CString::new(vec![b'x'; length]).expect("no NUL");
            assert!(string(own(), long.as_ptr().addr() as u64, &mut room).is_none(), "{length}");
        }
        assert_eq!(string(own(), 8, &mut room), None, "nothing is there");
    }
}
