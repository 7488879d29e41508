//! What a csh pattern matches: `*`, `?`, `[a-z]` within a component of a name, `**` for any folders.
//!
//! Braces and `~` are replaced before a pattern is read. Which names are
//! looked at is the matter of the store that lists them.

use std::borrow::Cow;

use crate::{Error, Fnmatch};

/// Components of one pattern: what is matched so far is a bit for each.
const COMPONENTS_MAX: usize = 127;

/// A csh pattern, read once and matched against many names.
///
/// `*`, `?` and `[a-z]` (`[^a-z]`, `[!a-z]`, [as find has them](Fnmatch)) stay within a component,
/// and `*` is at least one character where it is the whole of it; `**` as a component is
/// any number of folders, also none, and at the end everything below (of a
/// tree of folders, all files). A component that
/// begins with a dot is met only by one that is written with it; `***` at the end, as rsync
/// has it, is everything below all the same, also what ends in `/` or begins with it. A
/// backslash quotes the byte after it. A pattern that ends in `/` matches only names that do.
///
/// A store that lists by prefix asks it from where on to list
/// ([`Pattern::literal_prefix`]), and whether a name is one
/// ([`Pattern::matches`]). For a URL that is all about the part after the
/// bucket or host:
///
/// ```
/// use nearfirst_store::Pattern;
///
/// let pattern = Pattern::new(b"logs/2026-*/**/*.gz")?;
/// assert_eq!(pattern.literal_prefix(), b"logs/2026-");
/// assert!(pattern.matches(b"logs/2026-07/a/b/x.gz") && pattern.matches(b"logs/2026-07/x.gz"));
/// assert!(!pattern.matches(b"logs/2026-07/.old/x.gz"));
/// # Ok::<(), nearfirst_store::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    components: Vec<Component>,
    prefix: Vec<u8>,
    is_rooted: bool,
    only_folders: bool,
    /// It ends in `***`.
    is_everything: bool,
}

/// What one component of a name must be.
#[derive(Debug, Clone)]
pub(crate) enum Component {
    /// These bytes.
    Literal(Vec<u8>),
    /// What matches; a leading dot only if `dot`.
    Matching {
        /// The wildcards.
        glob: Fnmatch,
        /// Whether the pattern begins with a dot itself.
        dot: bool,
        /// What stands before the first wildcard.
        #[cfg_attr(
            not(feature = "object"),
            expect(dead_code, reason = "buckets are listed by it")
        )]
        head: Vec<u8>,
    },
    /// Any folders, also none.
    AnyFolders {
        /// Also those that begin with a dot.
        dot: bool,
    },
}

impl Component {
    /// Whether this one component matches; of [`Component::AnyFolders`], whether it goes through.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Literal(text) => text == name,
            Self::Matching { glob, dot, .. } => match name.first() {
                // Only `***` ends in any name that may begin with a dot.
                None => *dot && glob.is_any(),
                Some(b'.') if !dot => false,
                Some(_) => glob.matches(name),
            },
            Self::AnyFolders { dot } => *dot || name.first() != Some(&b'.'),
        }
    }
}

impl Pattern {
    /// Reads a pattern; one without wildcards matches the name it is.
    ///
    /// # Errors
    /// [`Error::Refused`], with what is wrong: a `[` without its `]`, a range that ends before it begins,
    /// more than 127 components.
    pub fn new(text: &[u8]) -> Result<Self, Error> {
        Self::read(text, Empty::LeftOut)
    }

    /// As [`Pattern::new`], of keys in which `a//b` is not `a/b`.
    ///
    /// # Errors
    /// Those of [`Pattern::new`].
    #[cfg(feature = "object")]
    pub(crate) fn of_keys(text: &[u8]) -> Result<Self, Error> {
        Self::read(text, Empty::Kept)
    }

    fn read(text: &[u8], empty: Empty) -> Result<Self, Error> {
        let refused = |reason: String| Error::refused(text.to_vec(), reason);
        let mut components = Vec::new();
        let is_everything = text == b"***" || text.ends_with(b"/***");
        let text_before = if is_everything { &text[..text.len() - 3] } else { text };
        let is_kept = |part: &&[u8]| empty == Empty::Kept || !part.is_empty();
        for part in components_of(text_before).filter(is_kept) {
            if part == b"**" {
                if !matches!(components.last(), Some(Component::AnyFolders { .. })) {
                    components.push(Component::AnyFolders { dot: false });
                }
            } else if Self::is_wild(part) {
                let glob = Fnmatch::new(part);
                if let Some(flaw) = glob.flaw() {
                    return Err(refused(flaw.to_owned()));
                }
                let dot = part.starts_with(b".") || part.starts_with(b"\\.");
                components.push(Component::Matching {
                    glob,
                    dot,
                    head: literal_prefix(part, empty),
                });
            } else {
                components.push(Component::Literal(Self::unquoted(part).into_owned()));
            }
        }
        if is_everything {
            components.push(Component::AnyFolders { dot: true });
            components.push(any_name(true));
        } else if matches!(components.last(), Some(Component::AnyFolders { .. })) {
            components.push(any_name(false));
        }
        if components.len() > COMPONENTS_MAX {
            return Err(refused(format!("more than {COMPONENTS_MAX} components")));
        }
        Ok(Self {
            components,
            prefix: literal_prefix(text, empty),
            is_rooted: text.starts_with(b"/"),
            only_folders: text.ends_with(b"/"),
            is_everything,
        })
    }

    /// What every name begins with that matches: the text before the first
    /// wildcard, which may end within a component.
    pub fn literal_prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether a name matches, from its first byte to its last.
    pub fn matches(&self, name: &[u8]) -> bool {
        if self.is_all() {
            return !name.is_empty();
        }
        let may_be_rooted = self.is_everything && self.prefix.is_empty();
        let begins = name.starts_with(b"/") == self.is_rooted || may_be_rooted;
        let ends = name.ends_with(b"/") == self.only_folders || self.is_everything;
        if !begins || !ends {
            return false;
        }
        let is_whole = 1 << self.components.len();
        self.after(name) & is_whole != 0
    }

    /// Whether names of any depth match.
    pub fn is_recursive(&self) -> bool {
        self.components.iter().any(|component| matches!(component, Component::AnyFolders { .. }))
    }

    /// Whether it ends in `**`, `**/*` or `***`: where it matches a folder, it matches all in it.
    pub(crate) fn is_all_below(&self) -> bool {
        let ends = self.components.as_slice();
        let [.., Component::AnyFolders { .. }, Component::Matching { glob, .. }] = ends else {
            return false;
        };
        glob.is_any()
    }

    /// Whether it is `***`, and nothing before it.
    fn is_all(&self) -> bool {
        self.is_everything && !self.is_rooted && self.components.len() == 2
    }

    /// What the components must be, from the first.
    pub(crate) fn components(&self) -> &[Component] {
        &self.components
    }

    /// Whether matches begin at the root.
    pub(crate) fn is_rooted(&self) -> bool {
        self.is_rooted
    }

    /// Whether only names that end in `/` match.
    pub(crate) fn only_folders(&self) -> bool {
        self.only_folders
    }

    /// The components that may come after those of `name`, a bit for each; the
    /// bit after the last says that all were met.
    fn after(&self, name: &[u8]) -> u128 {
        let mut open = self.through(1);
        for part in components_of(name) {
            let mut next = 0;
            let mut rest = open;
            while rest != 0 {
                let at = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let Some(component) = self.components.get(at) else { continue };
                if component.matches(part) {
                    let stays = matches!(component, Component::AnyFolders { .. });
                    next |= 1 << if stays { at } else { at + 1 };
                }
            }
            open = self.through(next);
            if open == 0 {
                break;
            }
        }
        open
    }

    /// `open`, and what may come at once because folders may also be none.
    fn through(&self, mut open: u128) -> u128 {
        for (at, component) in self.components.iter().enumerate() {
            if matches!(component, Component::AnyFolders { .. }) && open & (1 << at) != 0 {
                open |= 1 << (at + 1);
            }
        }
        open
    }

    /// Whether something in `text` is a wildcard.
    pub fn is_wild(text: &[u8]) -> bool {
        first_wildcard(text).is_some()
    }

    /// `text` so that every byte stands for itself, also where braces are read.
    pub fn quoted(text: &[u8]) -> Vec<u8> {
        let mut result = Vec::with_capacity(text.len());
        for &byte in text {
            if b"\\*?[]{}".contains(&byte) {
                result.push(b'\\');
            }
            result.push(byte);
        }
        result
    }

    /// The text that a quoted one stands for.
    pub fn unquoted(text: &[u8]) -> Cow<'_, [u8]> {
        if !text.contains(&b'\\') {
            return Cow::Borrowed(text);
        }
        let mut quoted = false;
        let keep = |byte: &&u8| {
            quoted = !quoted && **byte == b'\\';
            !quoted
        };
        Cow::Owned(text.iter().filter(keep).copied().collect())
    }
}

/// Whether components of a pattern that are empty count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Empty {
    LeftOut,
    Kept,
}

/// The components of a name: what stands between slashes, without what stands around them all.
fn components_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let name = name.strip_prefix(b"/").unwrap_or(name);
    let is_empty = name.is_empty();
    let name = name.strip_suffix(b"/").unwrap_or(name);
    name.split(|&byte| byte == b'/').filter(move |_| !is_empty)
}

fn first_wildcard(text: &[u8]) -> Option<usize> {
    let mut quoted = false;
    text.iter().position(|&byte| {
        let wild = !quoted && b"*?[".contains(&byte);
        quoted = !quoted && byte == b'\\';
        wild
    })
}

/// What stands before the first wildcard, for itself and as [`Pattern::matches`] compares it:
/// `**` may be no folder, so that the slash before it belongs to what it matches.
fn literal_prefix(text: &[u8], empty: Empty) -> Vec<u8> {
    let literal = &text[..first_wildcard(text).unwrap_or(text.len())];
    let mut prefix = Vec::with_capacity(literal.len());
    for &byte in Pattern::unquoted(literal).iter() {
        if byte != b'/' || empty == Empty::Kept || prefix.last() != Some(&b'/') {
            prefix.push(byte);
        }
    }
    prefix
}

/// What `*` is, or with `dot` any name at all.
fn any_name(dot: bool) -> Component {
    Component::Matching { glob: Fnmatch::new(b"*"), dot, head: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text.as_bytes()).expect("well formed")
    }

    #[test]
    fn a_pattern_of_all_below_ends_in_any_name_in_any_folder() {
        let is = |text: &str| Pattern::new(text.as_bytes()).expect("a pattern").is_all_below();
        assert!(["**", "a/**", "a/**/*", "a/**/", "**/b/**/**", "a/***"].into_iter().all(is));
        assert!(
            !["a", "*", "a/*", "**/a", "**/*.c", "**/.*", "**/?*", "a/**/b/*"].into_iter().any(is)
        );
    }

    #[test]
    fn names_are_matched_component_by_component() {
        for (text, yes, no) in [
            ("*.gz", &["a.gz", "b.c.gz"][..], &["a/b.gz", ".a.gz", "a.gz/", "/a.gz", ""][..]),
            (".*", &[".a"], &["a"]),
            ("a/?/c", &["a/b/c"], &["a/bb/c", "a//c", "a/.b/c"]),
            ("[^a]x", &["bx"], &["ax"]),
            ("**/x", &["x", "a/x", "a/b/x"], &["ax", ".a/x", "a/x/y"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "a/", "b/a", "a/.b", "a/.b/c"]),
            ("a/**/b/**/c", &["a/b/c", "a/x/b/b/y/c"], &["a/c", "a/x/c"]),
            ("**/.*/**/b", &[".h/b", "x/.h/y/b"], &[".h/.h/b", "h/b"]),
            ("/a/*", &["/a/b"], &["a/b", "//a/b"]),
            ("*/", &["a/"], &["a", "a/b"]),
            ("a\\*", &["a*"], &["ab", "a\\*"]),
            ("plain/name", &["plain/name"], &["plain/names", "plain"]),
            ("a{b}*", &["a{b}c"], &["abc"]),
            ("a/***", &["a/b", "a/.b/.c", "a/b/", "a//b"], &["a", "a/", "/a/b", "b/.c"]),
            ("***", &["a", ".b/c", "a/", "/a/b"], &[""]),
            ("/a/***", &["/a/.b"], &["a/b"]),
            ("a***", &["ab", "a"], &["a/b", "b"]),
            ("?", &["é", "e"], &["éé", ""]),
            ("[à-ü]", &["é"], &["e", "ÿ"]),
            ("[!a]", &["é", "b"], &["a", ".", "éa"]),
            ("[[:upper:]]*", &["Éa"], &["éa"]),
        ] {
            let pattern = pattern(text);
            for name in yes {
                assert!(pattern.matches(name.as_bytes()), "{text} is to match {name}");
            }
            for name in no {
                assert!(!pattern.matches(name.as_bytes()), "{text} is not to match {name}");
            }
        }
    }

    #[test]
    fn what_is_no_character_is_one_all_the_same() {
        let pattern = Pattern::new(b"\xff?*").expect("well formed");
        assert!(pattern.matches(b"\xff\xfe") && !pattern.matches(b"\xff"));
    }

    #[test]
    fn all_below_is_also_what_has_empty_components() {
        for (text, yes, no) in [
            ("***", &["lead//", "/abs", "/", "//", "d//e", "//x", ".a/", "a"][..], &[""][..]),
            ("d/***", &["d//", "d//e", "d/e/", "d///"], &["d/", "d", "e//", "/d/e"]),
            ("/***", &["/abs", "//", "//x"], &["/", "a"]),
            ("**", &["d//e"], &["lead//", "/abs"]),
        ] {
            let pattern = pattern(text);
            for name in yes {
                assert!(pattern.matches(name.as_bytes()), "{text} is to match {name}");
            }
            for name in no {
                assert!(!pattern.matches(name.as_bytes()), "{text} is not to match {name}");
            }
        }
    }

    #[test]
    fn the_literal_prefix_is_what_all_matches_begin_with() {
        for (text, prefix) in [
            ("a/b*c/d", "a/b"),
            ("a/**/b", "a/"),
            ("*", ""),
            ("a\\*b?", "a*b"),
            ("a//b/*", "a/b/"),
            ("plain", "plain"),
        ] {
            assert_eq!(pattern(text).literal_prefix(), prefix.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_is_quoted_matches_itself_only() {
        for name in ["a*b", "x?[y]", "back\\slash", "{a,b}", "plain"] {
            let quoted = Pattern::quoted(name.as_bytes());
            assert!(!Pattern::is_wild(&quoted), "{name}");
            assert_eq!(Pattern::unquoted(&quoted), name.as_bytes());
            let pattern = Pattern::new(&quoted).expect("well formed");
            assert!(pattern.matches(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn broken_patterns_are_refused_with_a_reason() {
        for text in [&b"[a"[..], b"x/*[!]", b"[z-a]*", "a/".repeat(200).as_bytes()] {
            let error = Pattern::new(text).expect_err("broken");
            assert!(matches!(error, Error::Refused { .. }) && !error.reason().is_empty());
        }
    }
}
