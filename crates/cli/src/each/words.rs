//! The command line of a member: the given words, with what stands for the member replaced.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use bstr::ByteSlice as _;
use nearfirst::Name;

const PATH: &[u8] = b"{}";

/// The words as they were given.
#[derive(Debug, Clone)]
pub(super) struct Words(Vec<OsString>);

impl Words {
    /// Of a command; `{}` is added where no word has it.
    pub(super) fn new(command: &[OsString]) -> Self {
        let mut words = command.to_vec();
        if !words.iter().any(|word| word.as_bytes().contains_str(PATH)) {
            words.push(OsString::from_vec(PATH.to_vec()));
        }
        Self(words)
    }

    /// For one member.
    pub(super) fn of(&self, path: &Path, name: &Name, size: u64) -> Vec<OsString> {
        let size = size.to_string();
        let path = argument(path);
        let stands_for: [(&[u8], &[u8]); 3] =
            [(PATH, &path), (b"{name}", name.as_bytes()), (b"{size}", size.as_bytes())];
        self.0.iter().map(|word| replaced(word, &stands_for)).collect()
    }
}

/// A path that no program takes for an option.
fn argument(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let dot: &[u8] = if bytes.starts_with(b"-") { b"./" } else { b"" };
    [dot, bytes].concat()
}

/// In one pass: what a name holds is never replaced in turn.
fn replaced(word: &OsStr, stands_for: &[(&[u8], &[u8])]) -> OsString {
    let mut rest = word.as_bytes();
    let mut made = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        if let Some((mark, value)) = stands_for.iter().find(|(mark, _)| rest.starts_with(mark)) {
            made.extend_from_slice(value);
            rest = &rest[mark.len()..];
        } else {
            made.push(*first);
            rest = after;
        }
    }
    OsString::from_vec(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(command: &[&str], path: &str) -> Vec<OsString> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        Words::new(&command).of(Path::new(path), &Name::from("s3://b/{size}"), 7)
    }

    #[test]
    fn marks_are_replaced_everywhere_once() {
        assert_eq!(
            made(&["cp", "{}", "out/{size}-{name}.x"], "/t/a"),
            ["cp", "/t/a", "out/7-s3://b/{size}.x"]
        );
        assert_eq!(made(&["wc", "-l"], "a b"), ["wc", "-l", "a b"]);
        assert_eq!(made(&["wc"], "-l"), ["wc", "./-l"]);
        assert_eq!(made(&["echo", "{name}"], "{}"), ["echo", "s3://b/{size}", "{}"]);
    }
}
