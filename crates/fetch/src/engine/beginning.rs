//! The beginning of an object that its store gives no version of: nothing but its bytes tells whether two
//! answers are of the same content.
//!
//! Each attempt at such an object reads it from its start. What it brings beyond what others brought is
//! taken only if all before that was the same, so that no reader gets a mixture.

use crate::sync::{Mutex, lock};

/// What is known of the beginning, by the attempt that came farthest; nothing of most objects, and a
/// sum takes two kilobytes.
#[derive(Debug, Default)]
pub(crate) struct Beginning(Mutex<Option<Box<Prefix>>>);

/// What one attempt has read, from the start.
#[derive(Debug, Default, Clone)]
pub(crate) struct Prefix {
    length: u64,
    sum: blake3::Hasher,
}

impl Beginning {
    /// Takes the next bytes of an attempt; returns how many of them are known already, or `None` if
    /// what it read before the others is not what they read.
    pub(crate) fn take(&self, read: &mut Prefix, bytes: &[u8]) -> Option<usize> {
        let mut known = lock(&self.0);
        let known = known.get_or_insert_default();
        let ahead = usize::try_from(known.length - read.length).unwrap_or(usize::MAX);
        let again = ahead.min(bytes.len());
        read.add(&bytes[..again]);
        if again < bytes.len() {
            if !read.is(known) {
                return None;
            }
            read.add(&bytes[again..]);
            (**known).clone_from(read);
        }
        Some(again)
    }

    /// Whether an attempt that came to the object's end read what the others did.
    pub(crate) fn is_all(&self, read: &Prefix) -> bool {
        lock(&self.0).as_ref().map_or(read.length == 0, |known| read.is(known))
    }
}

impl Prefix {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.sum.update(bytes);
    }

    fn is(&self, other: &Self) -> bool {
        self.length == other.length && self.sum.finalize() == other.sum.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_taken_of_those_that_agree() {
        let beginning = Beginning::default();
        let (mut first, mut same, mut other) = Default::default();
        assert_eq!(beginning.take(&mut first, b"abcd"), Some(0));
        assert_eq!(beginning.take(&mut same, b"abc"), Some(3));
        assert_eq!(beginning.take(&mut other, b"abX"), Some(3), "it brings nothing new yet");
        assert_eq!(beginning.take(&mut same, b"def"), Some(1));
        assert_eq!(beginning.take(&mut other, b"def"), Some(3));
        assert_eq!(beginning.take(&mut other, b"g"), None);
        assert_eq!(beginning.take(&mut first, b"ef"), Some(2));
        assert!(beginning.is_all(&first) && beginning.is_all(&same) && !beginning.is_all(&other));
        assert!(!beginning.is_all(&Prefix::default()), "it ended before what others read");
    }
}
