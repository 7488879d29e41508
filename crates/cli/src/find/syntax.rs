//! The regular expressions of `-regex`: Emacs' and POSIX's kinds, translated to
//! the `regex` crate's.
//!
//! A path matches as a whole, so the difference between POSIX's longest and
//! other engines' first alternative cannot show. Back-references are refused:
//! no automaton can match them in bounded time.

use std::fmt::Write as _;

use bstr::ByteSlice as _;
use regex::bytes::{Regex, RegexBuilder};

/// How an operator is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Bare,
    Backslashed,
    Never,
}
use Written::{Backslashed, Bare, Never};

/// What an operator is that has nothing to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lone {
    Literal,
    Ignored,
    Invalid,
}

/// What a pattern and a path consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letters {
    /// Characters; nothing matches what is not UTF-8.
    Utf8,
    /// Bytes, of which those beyond ASCII are no letters.
    Bytes,
}

impl Letters {
    /// Those of the locale, as for GNU find.
    pub(crate) fn of_locale() -> Self {
        if crate::locale::is_utf8() { Self::Utf8 } else { Self::Bytes }
    }
}

/// A kind of regular expression: what `-regextype` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "kinds differ in so many independent points")]
pub(crate) struct Syntax {
    groups: Written,
    bars: Written,
    plus_and_question: Written,
    braces: Written,
    dot_takes_newline: bool,
    newline_is_bar: bool,
    /// `[:alpha:]` in brackets is a class, and not the characters that it is written with.
    classes: bool,
    backslash_in_brackets: bool,
    gnu_escapes: bool,
    /// `^` and `$` are anchors and `*` an operator everywhere.
    anchors_anywhere: bool,
    lone_operators: Lone,
    lone_intervals: Lone,
    /// What was repeated is not repeated again by `*` or an interval.
    repeats_once: bool,
    /// A brace that begins no interval is a literal.
    braces_may_be_literal: bool,
    /// A range in brackets that ends before it begins has no characters; otherwise it is an error.
    ranges_may_be_empty: bool,
}

const EMACS: Syntax = Syntax {
    groups: Backslashed,
    bars: Backslashed,
    plus_and_question: Bare,
    braces: Never,
    dot_takes_newline: false,
    newline_is_bar: false,
    classes: false,
    backslash_in_brackets: false,
    gnu_escapes: true,
    anchors_anywhere: false,
    lone_operators: Lone::Literal,
    lone_intervals: Lone::Literal,
    repeats_once: false,
    braces_may_be_literal: false,
    ranges_may_be_empty: true,
};
const BASIC: Syntax = Syntax {
    ranges_may_be_empty: false,
    plus_and_question: Backslashed,
    braces: Backslashed,
    dot_takes_newline: true,
    classes: true,
    lone_intervals: Lone::Invalid,
    repeats_once: true,
    ..EMACS
};
/// As [`BASIC`], and GNU's leave to repeat.
const LENIENT_BASIC: Syntax =
    Syntax { lone_intervals: Lone::Literal, repeats_once: false, ..BASIC };
const EXTENDED: Syntax = Syntax {
    groups: Bare,
    bars: Bare,
    plus_and_question: Bare,
    braces: Bare,
    anchors_anywhere: true,
    lone_operators: Lone::Invalid,
    repeats_once: false,
    ..BASIC
};
const EGREP: Syntax = Syntax {
    newline_is_bar: true,
    lone_operators: Lone::Ignored,
    lone_intervals: Lone::Ignored,
    braces_may_be_literal: true,
    ..EXTENDED
};
const POSIX_AWK: Syntax = Syntax {
    backslash_in_brackets: true,
    gnu_escapes: false,
    braces_may_be_literal: true,
    ..EXTENDED
};
const GNU_AWK: Syntax = Syntax {
    gnu_escapes: true,
    lone_operators: Lone::Literal,
    lone_intervals: Lone::Literal,
    ..POSIX_AWK
};

const NAMES: &[(&str, Syntax)] = &[
    ("findutils-default", Syntax { dot_takes_newline: true, ..EMACS }),
    ("ed", BASIC),
    ("emacs", EMACS),
    ("gnu-awk", GNU_AWK),
    ("grep", Syntax { newline_is_bar: true, ..LENIENT_BASIC }),
    ("posix-awk", POSIX_AWK),
    ("awk", Syntax { gnu_escapes: false, braces: Never, ..GNU_AWK }),
    ("posix-basic", BASIC),
    ("posix-egrep", EGREP),
    ("egrep", EGREP),
    ("posix-extended", EXTENDED),
    ("posix-minimal-basic", Syntax { bars: Never, plus_and_question: Never, ..LENIENT_BASIC }),
    ("sed", BASIC),
];

impl Default for Syntax {
    /// GNU find's without `-regextype`: unlike the kind it calls `findutils-default`, its dot takes
    /// no newline.
    fn default() -> Self {
        EMACS
    }
}

impl Syntax {
    /// The kind of this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, syntax)| syntax)
    }

    /// All names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|&(name, _)| name)
    }

    /// Compiles a pattern that must match a whole path. The error is a reason in words.
    pub(crate) fn compile(
        self,
        pattern: &[u8],
        fold: bool,
        letters: Letters,
    ) -> Result<Regex, String> {
        let text = match letters {
            Letters::Utf8 => std::str::from_utf8(pattern)
                .map_err(|_| "the pattern is not UTF-8".to_owned())?
                .to_owned(),
            Letters::Bytes => pattern.iter().copied().map(char::from).collect(),
        };
        let translated = Translation::new(self, fold, letters, &text).run()?;
        RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
            .unicode(letters == Letters::Utf8)
            .case_insensitive(fold)
            .dot_matches_new_line(self.dot_takes_newline)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "Regular expression too big".to_owned(),
                _ => "Invalid regular expression".to_owned(),
            })
    }
}

/// The character classes of POSIX.
const CLASSES: &[&str] = &[
    "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "cntrl", "xdigit",
    "print", "graph",
];

const NOT_TO_REPEAT: &str = "Invalid preceding regular expression";

struct Translation<'a> {
    syntax: Syntax,
    /// Letter case does not count.
    fold: bool,
    /// As bytes, the characters of `rest` are numbers of bytes.
    letters: Letters,
    rest: std::str::Chars<'a>,
    out: String,
    /// Where the last complete atom begins in `out`; none at the start of a branch.
    atom: Option<usize>,
    /// Where the last repetition ends in `out`.
    repeated: Option<usize>,
    /// Where the open groups begin in `out`.
    open: Vec<usize>,
}

/// What the next piece of a pattern is.
#[derive(Clone, Copy)]
enum Piece {
    Literal(char),
    Dot,
    Bracket,
    Open,
    Close,
    Bar,
    Repeat(char),
    Brace,
    Start,
    End,
    Assertion(&'static str),
    Class(&'static str),
}

impl<'a> Translation<'a> {
    fn new(syntax: Syntax, fold: bool, letters: Letters, pattern: &'a str) -> Self {
        Self {
            syntax,
            fold,
            letters,
            rest: pattern.chars(),
            out: String::new(),
            atom: None,
            repeated: None,
            open: Vec::new(),
        }
    }

    fn run(mut self) -> Result<String, String> {
        while let Some(character) = self.rest.next() {
            let piece = self.piece(character)?;
            self.translate(piece)?;
        }
        if self.open.is_empty() { Ok(self.out) } else { Err("Unmatched ( or \\(".to_owned()) }
    }

    fn piece(&mut self, character: char) -> Result<Piece, String> {
        let syntax = self.syntax;
        if character == '\\' {
            let Some(quoted) = self.rest.next() else {
                return Err("Trailing backslash".to_owned());
            };
            return self.escaped(quoted);
        }
        Ok(match character {
            '.' => Piece::Dot,
            '[' => Piece::Bracket,
            '(' if syntax.groups == Bare => Piece::Open,
            ')' if syntax.groups == Bare && !self.open.is_empty() => Piece::Close,
            '|' if syntax.bars == Bare => Piece::Bar,
            '\n' if syntax.newline_is_bar => Piece::Bar,
            '*' => Piece::Repeat('*'),
            '+' | '?' if syntax.plus_and_question == Bare => Piece::Repeat(character),
            '{' if syntax.braces == Bare => Piece::Brace,
            '^' if syntax.anchors_anywhere || self.at_branch_start() => Piece::Start,
            '$' if syntax.anchors_anywhere || self.at_branch_end() => Piece::End,
            _ => Piece::Literal(character),
        })
    }

    fn escaped(&self, quoted: char) -> Result<Piece, String> {
        let syntax = self.syntax;
        Ok(match quoted {
            '(' if syntax.groups == Backslashed => Piece::Open,
            ')' if syntax.groups == Backslashed => Piece::Close,
            '|' if syntax.bars == Backslashed => Piece::Bar,
            '+' | '?' if syntax.plus_and_question == Backslashed => Piece::Repeat(quoted),
            '{' if syntax.braces == Backslashed => Piece::Brace,
            '1'..='9' if syntax.gnu_escapes => {
                return Err("back-references are not supported".to_owned());
            }
            'w' if syntax.gnu_escapes => Piece::Class(r"[\w]"),
            'W' if syntax.gnu_escapes => Piece::Class(r"[\W]"),
            's' if syntax.gnu_escapes => Piece::Class(r"[\s]"),
            'S' if syntax.gnu_escapes => Piece::Class(r"[\S]"),
            'b' if syntax.gnu_escapes => Piece::Assertion(r"\b"),
            'B' if syntax.gnu_escapes => Piece::Assertion(r"\B"),
            '<' if syntax.gnu_escapes => Piece::Assertion(r"\b{start}"),
            '>' if syntax.gnu_escapes => Piece::Assertion(r"\b{end}"),
            '`' if syntax.gnu_escapes => Piece::Start,
            '\'' if syntax.gnu_escapes => Piece::End,
            _ => Piece::Literal(quoted),
        })
    }

    fn at_branch_start(&self) -> bool {
        self.atom.is_none() && (self.out.is_empty() || self.out.ends_with(['(', '|', ':']))
    }

    /// Whether what follows a `$` in a basic expression ends the branch.
    fn at_branch_end(&self) -> bool {
        let rest = self.rest.as_str();
        rest.is_empty()
            || rest.starts_with("\\)")
            || rest.starts_with("\\|") && self.syntax.bars == Backslashed
            || rest.starts_with('\n') && self.syntax.newline_is_bar
    }

    fn translate(&mut self, piece: Piece) -> Result<(), String> {
        match piece {
            Piece::Literal(character) => self.literal(character),
            Piece::Dot => self.atom_text("."),
            Piece::Class(class) => self.atom_text(class),
            Piece::Bracket => {
                let start = self.out.len();
                self.bracket()?;
                self.atom = Some(start);
            }
            Piece::Open => {
                self.open.push(self.out.len());
                self.out.push_str("(?:");
                self.atom = None;
            }
            Piece::Close => {
                let Some(start) = self.open.pop() else {
                    return Err("Unmatched ) or \\)".to_owned());
                };
                self.out.push(')');
                self.atom = Some(start);
            }
            Piece::Bar => {
                self.out.push('|');
                self.atom = None;
            }
            Piece::Repeat('*') | Piece::Brace if self.is_repeated() => {
                return Err(NOT_TO_REPEAT.to_owned());
            }
            Piece::Repeat(operator) => match self.atom {
                Some(start) => self.repeat(start, operator.encode_utf8(&mut [0; 4])),
                None => self.lone(operator, self.syntax.lone_operators)?,
            },
            Piece::Brace => match self.atom {
                Some(start) => self.interval(start)?,
                None => self.lone('{', self.syntax.lone_intervals)?,
            },
            Piece::Start => self.assertion(r"\A"),
            Piece::End => self.assertion(r"\z"),
            Piece::Assertion(text) => self.assertion(text),
        }
        Ok(())
    }

    /// An assertion is nothing that could be repeated.
    fn assertion(&mut self, text: &str) {
        self.out.push_str(text);
        self.atom = None;
    }

    fn atom_text(&mut self, text: &str) {
        self.atom = Some(self.out.len());
        self.out.push_str(text);
    }

    fn literal(&mut self, character: char) {
        let start = self.out.len();
        if character.is_ascii() || self.letters == Letters::Utf8 {
            self.out.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
        } else {
            self.push_number(character);
        }
        self.atom = Some(start);
    }

    /// Repeats the atom that begins at `start`.
    fn repeat(&mut self, start: usize, text: &str) {
        self.out.insert_str(start, "(?:");
        self.out.push(')');
        self.out.push_str(text);
        self.repeated = Some(self.out.len());
    }

    /// Whether what comes next follows a repetition that may not be repeated.
    fn is_repeated(&self) -> bool {
        self.syntax.repeats_once && self.repeated == Some(self.out.len())
    }

    fn lone(&mut self, operator: char, lone: Lone) -> Result<(), String> {
        match lone {
            Lone::Literal => self.literal(operator),
            Lone::Ignored if self.rest.as_str().starts_with(')') => {
                // GNU's parser is past the point where it would close a group.
                self.rest.next();
                self.literal(')');
            }
            Lone::Ignored => {}
            Lone::Invalid => return Err(NOT_TO_REPEAT.to_owned()),
        }
        Ok(())
    }

    /// Repeats the atom that begins at `start` as often as the rest of an interval says.
    fn interval(&mut self, start: usize) -> Result<(), String> {
        let close = if self.syntax.braces == Bare { "}" } else { "\\}" };
        let rest = self.rest.as_str();
        let parsed = rest.find(close).and_then(|end| {
            let (low, high) = rest[..end].split_once(',').unwrap_or((&rest[..end], &rest[..end]));
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            (is_number(low) && is_number(high)).then_some((end, low, high))
        });
        let Some((end, low, high)) = parsed else {
            if self.syntax.braces_may_be_literal {
                self.literal('{');
                return Ok(());
            }
            let is_closed = rest.contains(close);
            let why = if is_closed { "Invalid content of \\{\\}" } else { "Unmatched \\{" };
            return Err(why.to_owned());
        };
        let times = |text: &str| text.parse::<u16>().ok();
        let low = if low.is_empty() && end > 0 { Some(0) } else { times(low) };
        let valid =
            low.filter(|low| high.is_empty() || times(high).is_some_and(|high| *low <= high));
        let Some(low) = valid else {
            return Err("Invalid content of \\{\\}".to_owned());
        };
        self.rest = rest[end + close.len()..].chars();
        self.repeat(start, &format!("{{{low},{high}}}"));
        Ok(())
    }

    fn bracket(&mut self) -> Result<(), String> {
        let unmatched = || "Unmatched [, [^, [:, [., or [=".to_owned();
        self.out.push('[');
        if self.rest.as_str().starts_with('^') {
            self.rest.next();
            self.out.push('^');
        }
        let begin = self.out.len();
        let mut first = true;
        loop {
            let rest = self.rest.as_str();
            let next = self.rest.next().ok_or_else(unmatched)?;
            if next == ']' && !first {
                if self.out.len() == begin {
                    self.out.push_str("a&&b");
                }
                self.out.push(']');
                return Ok(());
            }
            first = false;
            if self.syntax.classes && rest.starts_with("[:") {
                let end = rest.find(":]").ok_or_else(unmatched)?;
                let name = &rest[2..end];
                if !CLASSES.contains(&name) {
                    return Err("Invalid character class name".to_owned());
                }
                self.out.push_str(match name {
                    _ if self.letters == Letters::Bytes => &rest[..end + 2],
                    "alpha" => r"\p{Alphabetic}",
                    "alnum" => r"\p{Alphabetic}\d",
                    "upper" => r"\p{Uppercase}",
                    "lower" => r"\p{Lowercase}",
                    "space" => r"\s",
                    _ => &rest[..end + 2],
                });
                self.rest = rest[end + 2..].chars();
                continue;
            }
            let low = self.bracket_member(next, rest).ok_or_else(unmatched)?;
            let rest = self.rest.as_str();
            if rest.starts_with('-') && !rest[1..].starts_with(']') && rest.len() > 1 {
                self.rest.next();
                let rest = self.rest.as_str();
                let next = self.rest.next().ok_or_else(unmatched)?;
                let high = self.bracket_member(next, rest).ok_or_else(unmatched)?;
                self.range(low, high)?;
            } else {
                self.push_number(low);
            }
        }
    }

    /// The characters from `low` to `high`. As for GNU's, letters of ASCII are capitals where case does
    /// not count: `[Z-a]` ends before it begins, and `[_-~]` has no letters.
    fn range(&mut self, low: char, high: char) -> Result<(), String> {
        let is_of_capitals = self.fold && low.is_ascii() && high.is_ascii();
        let (low, high) = if is_of_capitals {
            (low.to_ascii_uppercase(), high.to_ascii_uppercase())
        } else {
            (low, high)
        };
        if high < low {
            let is_error = !self.syntax.ranges_may_be_empty;
            return if is_error { Err("Invalid range end".to_owned()) } else { Ok(()) };
        }
        let around = [(low, high.min('`')), (low.max('{'), high)];
        let parts = if is_of_capitals { &around[..] } else { &[(low, high)] };
        for &(low, high) in parts.iter().filter(|(low, high)| low <= high) {
            self.push_number(low);
            self.out.push('-');
            self.push_number(high);
        }
        Ok(())
    }

    /// A character in brackets, also as `[.x.]`, `[=x=]` or, in awk, quoted.
    fn bracket_member(&mut self, next: char, rest: &'a str) -> Option<char> {
        if next == '\\' && self.syntax.backslash_in_brackets {
            return self.rest.next();
        }
        for (open, close) in [("[.", ".]"), ("[=", "=]")] {
            if let Some(inside) = rest.strip_prefix(open) {
                let end = inside.as_bytes().find(close)?;
                let mut characters = inside[..end].chars();
                let one = characters.next()?;
                if characters.next().is_some() {
                    return None;
                }
                self.rest = rest[open.len() + end + close.len()..].chars();
                return Some(one);
            }
        }
        Some(next)
    }

    /// A character by its number: none needs to be told apart from an operator.
    fn push_number(&mut self, character: char) {
        let number = u32::from(character);
        match self.letters {
            Letters::Utf8 => write!(self.out, r"\u{{{number:x}}}"),
            Letters::Bytes => write!(self.out, r"\x{number:02x}"),
        }
        .expect("a String takes all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(kind: &str, pattern: &str, text: &str) -> bool {
        Syntax::named(kind.as_bytes())
            .expect("a known kind")
            .compile(pattern.as_bytes(), false, Letters::Utf8)
            .expect("a good pattern")
            .is_match(text.as_bytes())
    }

    #[test]
    fn the_default_is_emacs_with_any_dot() {
        assert!(matches("findutils-default", r".*/\(a\|b\)+x", "./abx"));
        assert!(matches("findutils-default", "a.b", "a\nb"));
        assert!(!matches("emacs", "a.b", "a\nb"));
        assert!(matches("emacs", "a{2}", "a{2}"));
    }

    #[test]
    fn basic_and_extended_write_operators_differently() {
        assert!(matches("posix-basic", r"a\{2\}b\+c+", "aabbc+"));
        assert!(matches("posix-extended", "a{2}b+(c|d)?", "aabbd"));
        assert!(matches("posix-basic", "*a^b$c", "*a^b$c"));
        assert!(matches("posix-minimal-basic", r"a\|b", "a|b"));
    }

    #[test]
    fn an_operator_without_an_operand_is_what_its_kind_says() {
        for pattern in ["+", "*a", "{1}a", "(+a)", "a|*b", "^*"] {
            for (kind, is_valid) in [
                ("posix-egrep", true),
                ("egrep", true),
                ("awk", true),
                ("gnu-awk", true),
                ("posix-awk", false),
                ("posix-extended", false),
            ] {
                let compiled = Syntax::named(kind.as_bytes()).expect("a known kind").compile(
                    pattern.as_bytes(),
                    false,
                    Letters::Utf8,
                );
                assert_eq!(compiled.is_ok(), is_valid, "{kind} {pattern}");
            }
        }
        assert!(matches("egrep", "(*a)|{1}b", "a") && matches("egrep", "(*a)|{1}b", "1}b"));
        assert!(matches("gnu-awk", "(*a)|{1}b", "*a") && matches("gnu-awk", "{1}b", "{1}b"));
    }

    #[test]
    fn brackets_take_operators_and_classes() {
        assert!(matches("posix-extended", r"[]^\-]+", r"]\^"));
        assert!(matches("posix-extended", "[[:digit:][.-.]]+", "1-2"));
        assert!(matches("posix-awk", r"[\]a]+", "]a"));
        assert!(matches("posix-extended", "[&~[-]+", "&~["));
        assert!(
            matches("emacs", "a[[:alpha:]*", "a[:ahp") && !matches("emacs", "[[:alpha:]]", "b")
        );
        assert!(matches("findutils-default", "[[:alpha:]]", "l]"));
    }

    #[test]
    fn what_cannot_be_compiled_is_an_error() {
        for pattern in [r"\(", r"\)", "[a", r"\(a\)\1", "a\\", "[[.no.]]"] {
            assert!(
                Syntax::default().compile(pattern.as_bytes(), false, Letters::Utf8).is_err(),
                "{pattern}"
            );
        }
        assert!(Syntax::default().compile(b"\xff", false, Letters::Utf8).is_err());
    }
}
