//! Temporary directories and the files in them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary directory, removed on drop.
#[derive(Debug)]
pub struct Dir {
    temp: TempDir,
}

impl Default for Dir {
    fn default() -> Self {
        Self::new()
    }
}

impl Dir {
    /// A new directory in `TMPDIR`, or in `/tmp`.
    pub fn new() -> Self {
        Self { temp: TempDir::with_prefix("nearfirst-").expect("TMPDIR can be written") }
    }

    /// A new directory below `parent`, for instance on a mount.
    pub fn new_in(parent: impl AsRef<Path>) -> Self {
        let temp = TempDir::with_prefix_in("nearfirst-", parent);
        Self { temp: temp.expect("the parent can be written") }
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        self.temp.path()
    }

    /// The path of `name` in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, making the directories it needs; returns its path.
    pub fn create(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        let parent = path.parent().expect("a joined path has a parent");
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// Writes a file of one hole.
    pub fn create_sparse(&self, name: impl AsRef<Path>, length: u64) -> PathBuf {
        let path = self.create(name, "");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("just created");
        file.set_len(length).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// Makes a directory and its parents; returns its path.
    pub fn create_dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// Makes a symbolic link to `target`; returns its path.
    pub fn link(&self, name: impl AsRef<Path>, target: impl AsRef<Path>) -> PathBuf {
        let path = self.join(name);
        std::os::unix::fs::symlink(target, &path)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

impl AsRef<Path> for Dir {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl AsRef<OsStr> for Dir {
    fn as_ref(&self) -> &OsStr {
        self.path().as_os_str()
    }
}

/// Bytes without structure, the same for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    // By words: an iterator of bytes takes several times as long where nothing is optimised.
    while bytes.len() < length {
        bytes.extend_from_slice(&next(&mut state).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Lines of lower-case words, the same for the same seed: text of exactly `length` bytes that ends
/// with a newline.
pub fn lines(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut text = Vec::with_capacity(length + 16);
    let mut column = 0;
    while text.len() < length {
        let word = next(&mut state);
        let letters = 2 + word % 9;
        text.extend((0..letters).map(|n| b'a' + (word >> (8 + 5 * n) & 15) as u8));
        column += letters + 1;
        let ends = column > 20 + (word >> 56 & 63);
        text.push(if ends { b'\n' } else { b' ' });
        if ends {
            column = 0;
        }
    }
    text.truncate(length);
    if let Some(last) = text.last_mut() {
        *last = b'\n';
    }
    text
}

/// The next of a seeded sequence (`SplitMix64`, Steele, Lea & Flood 2014).
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_bytes_have_their_length_and_depend_on_the_seed() {
        assert_eq!(noise(1001, 1).len(), 1001);
        assert_eq!(noise(99, 1), noise(99, 1));
        assert_ne!(noise(99, 1), noise(99, 2));
        let text = lines(10_000, 3);
        assert_eq!(text.len(), 10_000);
        assert_eq!(text.last(), Some(&b'\n'));
        assert!(text.iter().all(|b| matches!(b, b'a'..=b'p' | b' ' | b'\n')));
        assert!(text.split(|&b| b == b'\n').all(|line| line.len() < 120));
        assert_eq!(lines(0, 1), b"");
    }
}
