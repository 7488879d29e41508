//! What is known of a run before it does anything: program, arguments, folder.

use std::sync::Arc;

use crate::program::resolve;

/// Arguments that are looked at as names of files: what a program is given more of, it mostly reads
/// in the order given, and the reader's own read-ahead of names is a set's business.
const NAMED_MAX: usize = 64;
/// Digits in a row from which on a number is a time, a process or chance, not a choice.
const DIGITS_CHOSEN_MAX: usize = 4;

/// Letters and digits that the names of temporary files end in.
const CHANCE_MIN: usize = 6;

/// Named arguments whose folders are compared with a path.
pub(super) const FOLDERS_MAX: usize = 8;

/// An argument that may name a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The option it belongs to, or its place among those without: `0`, `1`, `2` for all later.
    pub(crate) role: Vec<u8>,
    /// The absolute path it would be the name of.
    pub(crate) path: Vec<u8>,
}

/// Which runs a run resembles, the most alike first, and what its arguments name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Invocation {
    /// Same program, arguments and folder.
    pub(crate) exact: u64,
    /// Same program and options, whatever the files.
    pub(crate) shape: u64,
    /// Same program.
    pub(crate) program: u64,
    /// Same interpreter; as `program` if there is none.
    pub(crate) executable: u64,
    pub(crate) folder: Vec<u8>,
    pub(crate) named: Vec<Named>,
}

impl Invocation {
    pub(crate) fn new(
        program: &[u8],
        executable: &[u8],
        arguments: &[Arc<[u8]>],
        folder: &[u8],
    ) -> Self {
        let mut exact = Circumstance::new(b'x', program);
        let mut shape = Circumstance::new(b's', program);
        let mut named = Vec::new();
        let mut option: &[u8] = b"";
        let mut places = 0;
        let plain = Circumstance::new(b'p', program).0;
        let mut shaped = false;
        for argument in arguments.iter().skip(1) {
            exact.add_varying(argument);
            let (role, value) = match option_of(argument) {
                Some((name, value)) => {
                    shape.add(name);
                    shaped = true;
                    option = if value.is_empty() { name } else { b"" };
                    (name, value)
                }
                None => (std::mem::take(&mut option), &**argument),
            };
            if value.is_empty() {
                continue;
            }
            let file = names_file(value);
            if !file && role.is_empty() && places == 0 {
                shape.add_varying(value); // a subcommand: `git status`
                shaped = true;
            }
            if file && named.len() < NAMED_MAX {
                let place = [b"0", b"1", b"2"][places.min(2)];
                let role = if role.is_empty() { place } else { role };
                named.push(Named { role: role.to_vec(), path: resolve(folder, value) });
            }
            places += usize::from(role.is_empty() || option_of(argument).is_none());
        }
        exact.add(folder);
        Self {
            exact: exact.0,
            shape: if shaped { shape.0 } else { plain },
            program: plain,
            executable: Circumstance::new(b'p', executable).0,
            folder: folder.to_vec(),
            named,
        }
    }
}

impl Invocation {
    /// The contexts in which the run begins, the most alike first.
    pub(crate) fn starts(&self) -> Vec<u64> {
        let mut starts = vec![self.exact, self.shape, self.program, self.executable];
        starts.dedup();
        starts
    }

    /// Whether a path has to do with how the program was called: it is in the working folder, or in
    /// one that an argument names or has its file in.
    pub(crate) fn concerns(&self, path: &[u8]) -> bool {
        let within = |folder: &[u8]| {
            folder.len() > 1
                && path.strip_prefix(folder).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        let around = |named: &Named| {
            let end = named.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            within(&named.path) || within(&named.path[..end])
        };
        within(&self.folder) || self.named.iter().take(FOLDERS_MAX).any(around)
    }
}

/// An option's name and the value within the same argument, which may be empty.
fn option_of(argument: &[u8]) -> Option<(&[u8], &[u8])> {
    if argument.len() < 2 || argument[0] != b'-' {
        return None;
    }
    if let Some(place) = argument.iter().position(|&byte| byte == b'=') {
        return Some((&argument[..place], &argument[place + 1..]));
    }
    // `-Ipath`: a short option with what looks like a path right after it.
    if argument[1] != b'-' && argument.len() > 2 && argument[2..].contains(&b'/') {
        return Some((&argument[..2], &argument[2..]));
    }
    Some((argument, b""))
}

/// Whether an argument looks like the name of a file: it has a folder or an extension.
fn names_file(value: &[u8]) -> bool {
    value.len() <= 4096
        && !value.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
        && (value.contains(&b'/') && !value.windows(3).any(|part| part == b"://")
            || value.iter().rposition(|&byte| byte == b'.').is_some_and(|place| {
                place + 1 < value.len()
                    && value.len() - place <= 9
                    && value[place + 1].is_ascii_alphabetic()
            }))
}

/// A circumstance under construction: FNV-1a, the same at every start, since patterns outlive us.
struct Circumstance(u64);

impl Circumstance {
    fn new(kind: u8, program: &[u8]) -> Self {
        let mut new = Self(0xcbf2_9ce4_8422_2325);
        new.byte(kind);
        new.add(program);
        new
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    fn add(&mut self, part: &[u8]) {
        for &byte in part {
            self.byte(byte);
        }
        self.byte(0);
    }

    /// Takes in a part without what differs in every run: chance names in temporary folders, long
    /// numbers.
    fn add_varying(&mut self, part: &[u8]) {
        if part.starts_with(b"/tmp/") || part.starts_with(b"/var/tmp/") {
            for name in part.split(|&byte| byte == b'/') {
                let dot = name.iter().rposition(|&byte| byte == b'.');
                let extension = dot.filter(|dot| name.len() - dot < CHANCE_MIN);
                let extension = extension.unwrap_or(name.len());
                self.add(if is_by_chance(&name[..extension]) { b"*" } else { &name[..extension] });
                self.add(&name[extension..]);
            }
            return;
        }
        let mut digits = 0;
        for &byte in part {
            digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
            if digits <= DIGITS_CHOSEN_MAX {
                self.byte(byte);
            }
        }
        self.byte(0);
    }
}

/// Whether a name ends in what `mkstemp` and its like make: six letters and digits or more, with a
/// digit before a letter, or a capital after a small letter.
fn is_by_chance(name: &[u8]) -> bool {
    let plain = name.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let end = &name[name.len() - plain..];
    let mixed = |pair: &[u8]| {
        pair[0].is_ascii_digit() && pair[1].is_ascii_alphabetic()
            || pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()
    };
    plain >= CHANCE_MIN && end.windows(2).any(mixed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of a command line, by its first word.
    pub(crate) fn invocation(line: &str, folder: &str) -> Invocation {
        let words: Vec<Arc<[u8]>> =
            line.split(' ').map(|word| Arc::from(word.as_bytes())).collect();
        Invocation::new(&words[0], &words[0], &words, folder.as_bytes())
    }

    #[test]
    fn temporary_names_and_long_numbers_are_no_other_invocation() {
        let exact = |line| invocation(line, "/w").exact;
        assert_eq!(exact("as -o /tmp/ccA1b2Z3.o x.s"), exact("as -o /tmp/ccwXz9y8.o x.s"));
        assert_ne!(exact("as -o /tmp/ccA1b2Z3.o x.s"), exact("as -o /tmp/ccA1b2Z3.s x.s"));
        assert_eq!(exact("cat /tmp/tmp.8kQ2xYz/f1"), exact("cat /tmp/tmp.Zb31cDe/f1"));
        assert_ne!(exact("cat /tmp/job/f1"), exact("cat /tmp/job/f2"));
        assert_eq!(exact("tool --at=1700000000"), exact("tool --at=1700099999"));
        assert_ne!(exact("tool -j4"), exact("tool -j8"));
        assert_ne!(exact("tool"), invocation("tool", "/v").exact);
    }

    #[test]
    fn the_shape_is_options_and_subcommand() {
        let shape = |line| invocation(line, "/w").shape;
        assert_eq!(shape("git diff a.c"), shape("git diff src/b.c"));
        assert_ne!(shape("git diff a.c"), shape("git log a.c"));
        assert_eq!(shape("cc -c a.c -o a.o"), shape("cc -c b.c -o b.o"));
        assert_ne!(shape("cc -c a.c"), shape("cc -E a.c"));
    }

    #[test]
    fn arguments_that_look_like_files_are_named_by_their_role() {
        let named = invocation("cc -c src/a.c -o a.o -I../include -DX=1 --sysroot=/s", "/w").named;
        let named: Vec<(String, String)> = (named.into_iter())
            .map(|named| {
                (String::from_utf8(named.role).unwrap(), String::from_utf8(named.path).unwrap())
            })
            .collect();
        let expected =
            [("-c", "/w/src/a.c"), ("-o", "/w/a.o"), ("-I", "/include"), ("--sysroot", "/s")];
        let expected: Vec<_> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        assert_eq!(named, expected);
    }
}
