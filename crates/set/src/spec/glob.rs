//! The text of a pattern, in one spelling, and what braces and `~` in it stand for.

use std::borrow::Cow;
use std::ops::Range;

use store::{Name, Pattern};

use super::{SpecError, braces, home};

/// Bytes that a backslash keeps from meaning something; before all others it is dropped.
const QUOTABLE: &[u8] = b"\\*?[]{},~";

/// A pattern with braces and `~` not yet replaced. Equal if spelled the same
/// after backslashes that quote nothing are gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob(Vec<u8>);

impl Glob {
    /// Of a pattern's text; a backslash quotes any byte.
    pub fn new(text: &[u8]) -> Self {
        let mut kept = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match (byte, text.get(at + 1)) {
                (b'\\', None) => kept.extend_from_slice(b"\\\\"),
                (b'\\', Some(next)) => {
                    if QUOTABLE.contains(next) {
                        kept.push(byte);
                    }
                    kept.push(*next);
                    at += 1;
                }
                (b'[', Some(_)) => {
                    let end = class_end(text, at).unwrap_or(at);
                    kept.extend_from_slice(&text[at..=end]);
                    at = end;
                }
                _ => kept.push(byte),
            }
            at += 1;
        }
        Self(kept)
    }

    /// That means these bytes and nothing else.
    pub fn literal(text: &[u8]) -> Self {
        let wild = wild_range(text);
        let mut quoted = Vec::with_capacity(text.len());
        for (at, &byte) in text.iter().enumerate() {
            let means_more = if wild.contains(&at) { &b"\\*?[]{}"[..] } else { b"\\{}" };
            if means_more.contains(&byte) || (at == 0 && byte == b'~') {
                quoted.push(b'\\');
            }
            quoted.push(byte);
        }
        Self(quoted)
    }

    /// This, and then `suffix`.
    pub(crate) fn followed_by(&self, suffix: &Self) -> Self {
        Self([&*self.0, &*suffix.0].concat())
    }

    /// As it is spelled.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is the name `text`, and of nothing else.
    pub(super) fn is_plain(&self, text: &[u8]) -> bool {
        self.0 == text
            && !text.starts_with(b"~")
            && !text.iter().any(|byte| b"*?[{\\".contains(byte))
    }

    /// The names that it stands for, if nothing needs to be listed to know them.
    pub fn names(&self) -> Option<Vec<Name>> {
        let patterns: Result<Vec<Vec<u8>>, _> = self.alternatives().into_iter().collect();
        let patterns = patterns.ok()?;
        let name = |pattern: &Vec<u8>| Name::new(&*Pattern::unquoted(pattern));
        (!patterns.iter().any(|pattern| is_wild(pattern)))
            .then(|| patterns.iter().map(name).collect())
    }

    pub(super) fn check_braces(&self) -> Result<(), SpecError> {
        let expanded = braces::expand(&self.0);
        expanded.map(drop).map_err(|reason| SpecError::new(&self.0, reason))
    }

    /// The patterns without braces and `~` that it stands for, in order; an
    /// error among them concerns that one, or all if the braces are broken.
    pub fn alternatives(&self) -> Vec<Result<Vec<u8>, SpecError>> {
        match braces::expand(&self.0) {
            Ok(texts) => texts
                .iter()
                .map(|text| {
                    let expanded = home::expanded(text).map(Cow::into_owned);
                    expanded.map_err(|reason| SpecError::new(&self.0, reason))
                })
                .collect(),
            Err(reason) => vec![Err(SpecError::new(&self.0, reason))],
        }
    }
}

/// Whether a pattern (without braces) stands for more than one name.
pub(crate) fn is_wild(pattern: &[u8]) -> bool {
    Pattern::is_wild(&pattern[wild_range(pattern)])
}

/// Whether it is the URL of a database.
pub(super) fn is_database(name: &Name) -> bool {
    let schemes = ["postgres", "postgresql", "mysql", "mariadb", "sqlite"];
    name.scheme().is_some_and(|scheme| schemes.contains(&scheme))
}

/// Where in a pattern wildcards are read: not in the host of a URL (`[::1]`),
/// nor, on the web, in what follows a `?`, nor anywhere in the URL of a database.
fn wild_range(pattern: &[u8]) -> Range<usize> {
    let name = Name::new(pattern);
    let Some(scheme) = name.scheme() else { return 0..pattern.len() };
    if is_database(&name) {
        return 0..0;
    }
    let host = scheme.len() + 3;
    let slash = pattern[host..].iter().position(|&byte| byte == b'/');
    let start = slash.map_or(pattern.len(), |at| host + at);
    let is_web = name.is_of_web();
    let end = pattern[start..].iter().position(|byte| is_web && b"?#".contains(byte));
    start..end.map_or(pattern.len(), |at| start + at)
}

/// Where the class ends that the `[` at `start` opens, within its component.
pub(super) fn class_end(text: &[u8], start: usize) -> Option<usize> {
    let mut first = start + 1;
    if matches!(text.get(first), Some(b'^' | b'!')) {
        first += 1;
    }
    let rest = text.get(first + 1..)?;
    let found = rest.iter().position(|byte| b"]/".contains(byte))?;
    // A slash as the first member ends the component, too.
    (rest[found] == b']' && text[first] != b'/').then_some(first + 1 + found)
}
