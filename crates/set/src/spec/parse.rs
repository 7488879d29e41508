//! The text form of specs: where a query or a program begins and ends in it.

use store::Name;

use super::glob::{class_end, is_database, is_wild};
use super::words::{self, Closing};
use super::{Glob, ListSource, Spec, SpecError};

/// What opens first in a text.
enum Opening {
    /// The backslash of a query.
    Query(usize),
    /// The `%` of a program.
    Program(usize),
}

pub(super) fn parse(text: &[u8]) -> Result<Spec, SpecError> {
    if text == b"-" || text == b"@-" {
        return Ok(Spec::ListFile(ListSource::Stdin));
    }
    match text.strip_prefix(b"@") {
        Some([]) => {
            return Err(SpecError::new(
                text,
                "`@` is followed by the name of a list; `\\@` is a name",
            ));
        }
        Some(name) => return Ok(Spec::ListFile(ListSource::Object(Name::new(name)))),
        None => {}
    }
    match opening(text, 0) {
        None => Ok(Spec::Glob(Glob::new(text))),
        Some(Opening::Query(at)) => query(text, at),
        Some(Opening::Program(at)) => program(text, at),
    }
}

/// The first query or program at or after `from`.
fn opening(text: &[u8], from: usize) -> Option<Opening> {
    let name = Name::new(text);
    let is_url = name.scheme().is_some();
    // Elsewhere a backslash may stand before a parenthesis of a name, as a shell wants it.
    let signs: &[u8] = if from == 0 && is_database(&name) { b".#(" } else { b".#" };
    let mut at = from;
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'\\', Some(next)) if next.is_ascii_alphabetic() || signs.contains(next) => {
                return Some(Opening::Query(at));
            }
            (b'\\', _) => at += 1,
            (b'[', _) => at = class_end(text, at).unwrap_or(at),
            (b'%', _)
                if !is_url
                    && (at == 0 || text[at - 1] == b'/')
                    && words::split(&text[at + 1..]) != Closing::Missing =>
            {
                return Some(Opening::Program(at));
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn query(text: &[u8], start: usize) -> Result<Spec, SpecError> {
    let refused = |reason: &str| SpecError::new(text, reason);
    let mut question = Vec::new();
    let mut at = start + 1;
    loop {
        match (text.get(at), text.get(at + 1)) {
            (None, _) => {
                return Err(refused(
                    "a backslash before a letter opens a query, and no `\\` ends it; \
                     a backslash in a name is written `\\\\`",
                ));
            }
            (Some(b'\\'), Some(b'\\')) => at += 1,
            (Some(b'\\'), _) => break,
            _ => {}
        }
        question.push(text[at]);
        at += 1;
    }
    let question = String::from_utf8(question).map_err(|_| refused("a query must be UTF-8"))?;
    let (prefix, suffix) = around(text, start, at + 1)?;
    Ok(Spec::Query { prefix, text: question, suffix })
}

fn program(text: &[u8], start: usize) -> Result<Spec, SpecError> {
    match words::split(&text[start + 1..]) {
        Closing::At(_, words) if words.is_empty() => {
            Err(SpecError::new(text, "there is no program between `%` and `%`; `\\%` is a name's"))
        }
        Closing::At(length, words) => {
            let (folder, suffix) = around(text, start, start + length + 2)?;
            Ok(Spec::Program { folder, words, suffix })
        }
        Closing::InQuote | Closing::Missing => {
            Err(SpecError::new(text, "a quote in the program has no end"))
        }
    }
}

/// What stands before a query or program, and the suffix after it.
fn around(text: &[u8], start: usize, end: usize) -> Result<(Glob, Glob), SpecError> {
    let prefix = Glob::new(&text[..start]);
    if is_wild(prefix.text()) {
        let reason = "a query or program has no wildcards before it; braces may stand there";
        return Err(SpecError::new(text, reason));
    }
    if opening(text, end).is_some() {
        return Err(SpecError::new(text, "a second query or program in one spec"));
    }
    Ok((prefix, Glob::new(&text[end..])))
}

/// A pattern so that [`parse`] reads it as one.
pub(super) fn glob_text(glob: &Glob) -> Vec<u8> {
    let text = glob.text();
    let is_url = Name::new(text).scheme().is_some();
    let mut result = Vec::with_capacity(text.len() + 1);
    let opens_list = text == b"-" || text.starts_with(b"@");
    let mut last = b'/';
    for (at, &byte) in text.iter().enumerate() {
        if (at == 0 && opens_list) || (byte == b'%' && last == b'/' && !is_url) {
            result.push(b'\\');
        }
        result.push(byte);
        last = byte;
    }
    result
}
