//! The tests of an expression: a table of their words, and how each reads its operand.
//!
//! Texts of errors and warnings are GNU find's.

use nearfirst::Fnmatch;

use super::expr::{Access, Moment, Number, Owner, Same, Stamp, Test};
use super::mode::PermissionTest;
use super::operand::{age, invalid, latency, number, size, types};
use super::parse::{Follow, Reader, Result};
use super::quote::quoted;
use super::syntax::Letters;
use super::time;

/// Reads the operand of a test; the text is the test's word.
type Read = for<'a> fn(&mut Reader<'a>, &str) -> Result<Test>;

/// All tests but `-newerXY`, whose word has parts.
const TESTS: &[(&str, Read)] = &[
    ("-true", |_, _| Ok(Test::Constant(true))),
    ("-false", |_, _| Ok(Test::Constant(false))),
    ("-name", |reader, text| reader.name(text, false)),
    ("-iname", |reader, text| reader.name(text, true)),
    ("-path", |reader, text| reader.path(text, false)),
    ("-wholename", |reader, text| reader.path(text, false)),
    ("-ipath", |reader, text| reader.path(text, true)),
    ("-iwholename", |reader, text| reader.path(text, true)),
    ("-lname", |reader, text| Ok(Test::LinkTarget(fnmatch(reader.argument(text)?, false)))),
    ("-ilname", |reader, text| Ok(Test::LinkTarget(fnmatch(reader.argument(text)?, true)))),
    ("-regex", |reader, text| reader.regex(text, false)),
    ("-iregex", |reader, text| reader.regex(text, true)),
    ("-type", |reader, text| Ok(Test::Type(types(reader.argument(text)?, text)?))),
    ("-xtype", |reader, text| Ok(Test::OtherType(types(reader.argument(text)?, text)?))),
    ("-size", |reader, text| size(reader.argument(text)?)),
    ("-atime", |reader, text| reader.age(Stamp::Access, time::DAY, text)),
    ("-ctime", |reader, text| reader.age(Stamp::Change, time::DAY, text)),
    ("-mtime", |reader, text| reader.age(Stamp::Modify, time::DAY, text)),
    ("-amin", |reader, text| reader.age(Stamp::Access, MINUTE, text)),
    ("-cmin", |reader, text| reader.age(Stamp::Change, MINUTE, text)),
    ("-mmin", |reader, text| reader.age(Stamp::Modify, MINUTE, text)),
    ("-used", |reader, text| reader.used(text)),
    ("-newer", |reader, text| reader.newer(Stamp::Modify, text)),
    ("-anewer", |reader, text| reader.newer(Stamp::Access, text)),
    ("-cnewer", |reader, text| reader.newer(Stamp::Change, text)),
    ("-perm", |reader, text| reader.permission(text)),
    ("-user", |reader, text| reader.user(text)),
    ("-group", |reader, text| reader.group(text)),
    ("-uid", |reader, text| Ok(Test::UserId(reader.number(text)?))),
    ("-gid", |reader, text| Ok(Test::GroupId(reader.number(text)?))),
    ("-nouser", |_, _| Ok(Test::NoUser)),
    ("-nogroup", |_, _| Ok(Test::NoGroup)),
    ("-empty", |_, _| Ok(Test::Empty)),
    ("-links", |reader, text| Ok(Test::Links(reader.number(text)?))),
    ("-inum", |reader, text| Ok(Test::Inode(reader.number(text)?))),
    ("-samefile", |reader, text| reader.same_file(text)),
    ("-readable", |_, _| Ok(Test::Access(Access::Read))),
    ("-writable", |_, _| Ok(Test::Access(Access::Write))),
    ("-executable", |_, _| Ok(Test::Access(Access::Execute))),
    ("-fstype", |reader, text| Ok(Test::FsType(reader.argument(text)?.to_vec()))),
    ("-context", |_, _| {
        Err("invalid predicate -context: SELinux is not enabled.".to_owned().into())
    }),
    ("-latency", |reader, text| reader.latency(text)),
    ("-device", |reader, text| Ok(Test::Device(Fnmatch::new(reader.argument(text)?)))),
];

const MINUTE: i128 = 60 * time::SECOND;

impl Reader<'_> {
    /// Reads a test with its operand; `None` if the word is none.
    ///
    /// # Errors
    /// An operand that is missing or cannot be understood.
    pub(super) fn test(&mut self, word: &[u8], text: &str) -> Result<Option<Test>> {
        if let [b'-', b'n', b'e', b'w', b'e', b'r', first, second] = word {
            return self.newer_by(*first, *second, text).map(Some);
        }
        let found = TESTS.iter().find(|(known, _)| known.as_bytes() == word);
        found.map(|(_, read)| read(self, text)).transpose()
    }

    fn name(&mut self, text: &str, any_case: bool) -> Result<Test> {
        let pattern = self.argument(text)?;
        if pattern.contains(&b'/') && pattern != b"/" {
            let whole = if any_case { "-iwholename" } else { "-wholename" };
            self.warn(format!(
                "{} matches against basenames only, but the given pattern contains a directory \
                 separator ({}), thus the expression will evaluate to false all the time.  Did you \
                 mean {}?",
                quoted(text.as_bytes()),
                quoted(b"/"),
                quoted(whole.as_bytes())
            ));
        }
        Ok(Test::Name(fnmatch(pattern, any_case)))
    }

    fn path(&mut self, text: &str, any_case: bool) -> Result<Test> {
        let pattern = self.argument(text)?;
        if pattern.len() > 1 && pattern.ends_with(b"/") {
            self.warn_always(format!(
                "{text} {} will not match anything because it ends with /.",
                String::from_utf8_lossy(pattern)
            ));
        }
        Ok(Test::Path(fnmatch(pattern, any_case)))
    }

    fn regex(&mut self, text: &str, any_case: bool) -> Result<Test> {
        let pattern = self.argument(text)?;
        let regex =
            self.syntax.compile(pattern, any_case, Letters::of_locale()).map_err(|reason| {
                format!(
                    "failed to compile regular expression '{}': {reason}",
                    String::from_utf8_lossy(pattern)
                )
            })?;
        Ok(Test::Regex(regex))
    }

    fn used(&mut self, text: &str) -> Result<Test> {
        let argument = self.argument(text)?;
        Ok(Test::Used(age(argument, time::DAY, false).ok_or_else(|| {
            format!("Invalid argument {} to -used", String::from_utf8_lossy(argument))
        })?))
    }

    fn newer(&mut self, which: Stamp, text: &str) -> Result<Test> {
        Ok(Test::Newer(which, self.moment(Stamp::Modify, text)?))
    }

    /// `-newerXY`: `first` is X, `second` is Y.
    fn newer_by(&mut self, first: u8, second: u8, text: &str) -> Result<Test> {
        let which = stamp(first).ok_or_else(|| format!("invalid predicate `{text}'"))?;
        let than = match (second, stamp(second)) {
            (b't', _) => Moment::Text(self.file(text)?),
            (_, Some(stamp)) => self.moment(stamp, text)?,
            _ => return Err(format!("invalid predicate `{text}'").into()),
        };
        Ok(Test::Newer(which, than))
    }

    fn permission(&mut self, text: &str) -> Result<Test> {
        let argument = self.argument(text)?;
        let test = PermissionTest::parse(argument)
            .ok_or_else(|| format!("invalid mode {}", quoted(argument)))?;
        if argument.starts_with(b"/") && test.asks_for_nothing() {
            self.warn_always(format!(
                "you have specified a mode pattern {} (which is equivalent to /000). The meaning of \
                 -perm /000 has now been changed to be consistent with -perm -000; that is, while it \
                 used to match no files, it now matches all files.",
                String::from_utf8_lossy(argument)
            ));
        }
        Ok(Test::Permission(test))
    }

    fn user(&mut self, text: &str) -> Result<Test> {
        let name = self.file(text)?;
        if name.is_empty() {
            return Err("The argument to -user should not be empty".to_owned().into());
        }
        Ok(Test::User(Owner::Named(name)))
    }

    fn group(&mut self, text: &str) -> Result<Test> {
        let name = self.file(text)?;
        if name.is_empty() {
            return Err("argument to -group is empty, but should be a group name"
                .to_owned()
                .into());
        }
        Ok(Test::Group(Owner::Named(name)))
    }

    fn same_file(&mut self, text: &str) -> Result<Test> {
        let follow = self.parsed.follow != Follow::Never;
        Ok(Test::SameFile(Same::File { path: self.file(text)?, follow }))
    }

    fn latency(&mut self, text: &str) -> Result<Test> {
        let argument = self.argument(text)?;
        Ok(Test::Latency(latency(argument).ok_or_else(|| {
            format!(
                "invalid argument `{}' to `-latency': expected [+-]N in seconds, [+-]mN in \
                 milliseconds or [+-]uN in microseconds",
                String::from_utf8_lossy(argument)
            )
        })?))
    }

    fn age(&mut self, stamp: Stamp, unit: i128, text: &str) -> Result<Test> {
        let argument = self.argument(text)?;
        let age =
            age(argument, unit, self.from_day_start).ok_or_else(|| invalid(argument, text))?;
        Ok(Test::Age(stamp, age))
    }

    fn number(&mut self, text: &str) -> Result<Number> {
        let argument = self.argument(text)?;
        Ok(number(argument).ok_or_else(|| invalid(argument, text))?)
    }

    fn moment(&mut self, stamp: Stamp, text: &str) -> Result<Moment> {
        let follow = self.parsed.follow != Follow::Never;
        Ok(Moment::File { path: self.file(text)?, stamp, follow })
    }
}

/// The time that a letter of `-newerXY` stands for.
fn stamp(letter: u8) -> Option<Stamp> {
    Some(match letter {
        b'a' => Stamp::Access,
        b'B' => Stamp::Birth,
        b'c' => Stamp::Change,
        b'm' => Stamp::Modify,
        _ => return None,
    })
}

/// A pattern of names, in the characters of the locale.
fn fnmatch(pattern: &[u8], any_case: bool) -> Fnmatch {
    match (Letters::of_locale(), any_case) {
        (Letters::Utf8, false) => Fnmatch::new(pattern),
        (Letters::Utf8, true) => Fnmatch::ignoring_case(pattern),
        (Letters::Bytes, false) => Fnmatch::of_bytes(pattern),
        (Letters::Bytes, true) => Fnmatch::of_bytes_ignoring_case(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_there_once() {
        let mut words: Vec<&str> = TESTS.iter().map(|(word, _)| *word).collect();
        words.sort_unstable();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
    }
}
