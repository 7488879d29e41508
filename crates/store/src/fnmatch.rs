//! Shell patterns as `fnmatch(3)` understands them without flags: `*` and `?`
//! match any character, also `/` and a leading dot.
//!
//! Names are bytes. Where pattern and name are UTF-8 a character is one character; otherwise each
//! byte is one, as glibc has it, and in the C locale.

use bstr::ByteSlice as _;

/// A pattern of one text, as `fnmatch(3)` has it: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:alpha:]]`, and a
/// backslash that quotes. Where pattern and text are UTF-8 a character is one, whatever its bytes;
/// otherwise each byte is.
#[derive(Debug, Clone)]
pub struct Fnmatch {
    shape: Shape,
    fold: bool,
    flaw: Option<&'static str>,
}

/// Shapes that need no backtracking are told apart, since `*.c` is what people write.
#[derive(Debug, Clone)]
enum Shape {
    Whole(Vec<u8>),
    Prefix(Vec<u8>),
    Suffix(Vec<u8>),
    Inside(Vec<u8>),
    Any(Tokens),
    /// A pattern that ends in a lone backslash matches nothing.
    Nothing,
}

/// A pattern of any shape.
#[derive(Debug, Clone)]
struct Tokens {
    /// Of characters; `None` where each byte is one.
    characters: Option<Vec<Token>>,
    /// For texts that are not UTF-8.
    bytes: Vec<Token>,
}

#[derive(Debug, Clone)]
enum Token {
    One(u32),
    Any,
    Star,
    Set(Set),
}

#[derive(Debug, Clone, Default)]
struct Set {
    negated: bool,
    ranges: Vec<(u32, u32)>,
    classes: Vec<Class>,
}

type Class = fn(char) -> bool;

/// What decodes the first character of a text that is not empty, and says how long it is.
type Unit = fn(&[u8]) -> (u32, usize);

/// Stands above all characters, so that a byte beyond ASCII equals no character.
const STRAY_BYTE: u32 = 0x11_0000;

impl Fnmatch {
    /// Compiles a pattern; every byte string is one.
    pub fn new(pattern: &[u8]) -> Self {
        Self::of(pattern, false, std::str::from_utf8(pattern).is_ok())
    }

    /// As [`Fnmatch::new`], but letter case does not count.
    pub fn ignoring_case(pattern: &[u8]) -> Self {
        Self::of(pattern, true, std::str::from_utf8(pattern).is_ok())
    }

    /// As [`Fnmatch::new`], but each byte is a character, of which those beyond ASCII are no letters: as
    /// in the C locale.
    pub fn of_bytes(pattern: &[u8]) -> Self {
        Self::of(pattern, false, false)
    }

    /// As [`Fnmatch::of_bytes`], but letter case does not count.
    pub fn of_bytes_ignoring_case(pattern: &[u8]) -> Self {
        Self::of(pattern, true, false)
    }

    fn of(pattern: &[u8], fold: bool, has_characters: bool) -> Self {
        let unit = if has_characters { character } else { byte };
        let (tokens, has_open_bracket) = tokens(pattern, fold, unit);
        let backwards = |&(low, high): &(u32, u32)| low > high;
        let flaw = if has_open_bracket {
            Some("a [ has no ]")
        } else if tokens
            .iter()
            .flatten()
            .any(|token| matches!(token, Token::Set(set) if set.ranges.iter().any(backwards)))
        {
            Some("a range ends before it begins")
        } else {
            None
        };
        let simple = tokens.as_deref().filter(|_| !fold).and_then(simple);
        let shape = simple.unwrap_or_else(|| match tokens {
            Some(characters) if has_characters => {
                let (bytes, _) = self::tokens(pattern, fold, byte);
                // No text that is not UTF-8 matches no tokens.
                let bytes = bytes.unwrap_or_default();
                Shape::Any(Tokens { characters: Some(characters), bytes })
            }
            Some(bytes) => Shape::Any(Tokens { characters: None, bytes }),
            None => Shape::Nothing,
        });
        Self { shape, fold, flaw }
    }

    /// Whether the pattern matches the whole text.
    pub fn matches(&self, text: &[u8]) -> bool {
        match &self.shape {
            Shape::Whole(literal) => text == literal,
            Shape::Prefix(literal) => text.starts_with(literal),
            Shape::Suffix(literal) => text.ends_with(literal),
            Shape::Inside(literal) => text.find(literal).is_some(),
            Shape::Any(Tokens { characters: Some(tokens), .. })
                if std::str::from_utf8(text).is_ok() =>
            {
                matches_tokens(tokens, text, self.fold, character)
            }
            Shape::Any(tokens) => matches_tokens(&tokens.bytes, text, self.fold, byte),
            Shape::Nothing => false,
        }
    }

    /// Whether every text matches.
    pub(crate) fn is_any(&self) -> bool {
        matches!(&self.shape, Shape::Suffix(literal) if literal.is_empty())
    }

    /// What was hardly meant, though it has a meaning.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        self.flaw
    }
}

fn byte(text: &[u8]) -> (u32, usize) {
    let above = if text[0].is_ascii() { 0 } else { STRAY_BYTE };
    (above + u32::from(text[0]), 1)
}

fn character(text: &[u8]) -> (u32, usize) {
    if text[0].is_ascii() {
        return (u32::from(text[0]), 1);
    }
    match bstr::decode_utf8(text) {
        (Some(character), size) => (u32::from(character), size),
        (None, _) => (STRAY_BYTE + u32::from(text[0]), 1),
    }
}

fn folded(unit: u32) -> u32 {
    let Some(character) = char::from_u32(unit) else { return unit };
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => u32::from(one),
        _ => unit,
    }
}

/// `None` of a pattern that ends in a lone backslash; and whether a `[` stands for itself because no
/// `]` follows.
fn tokens(pattern: &[u8], fold: bool, unit: Unit) -> (Option<Vec<Token>>, bool) {
    let mut tokens = Vec::new();
    let mut has_open_bracket = false;
    let mut rest = pattern;
    while !rest.is_empty() {
        match rest[0] {
            b'*' => {
                if !matches!(tokens.last(), Some(Token::Star)) {
                    tokens.push(Token::Star);
                }
                rest = &rest[1..];
                continue;
            }
            b'?' => {
                tokens.push(Token::Any);
                rest = &rest[1..];
                continue;
            }
            b'[' => {
                if let Some((set, after)) = set(&rest[1..], fold, unit) {
                    tokens.push(Token::Set(set));
                    rest = after;
                    continue;
                }
                has_open_bracket = true;
            }
            b'\\' => {
                rest = &rest[1..];
                if rest.is_empty() {
                    return (None, has_open_bracket);
                }
            }
            _ => {}
        }
        let (one, size) = unit(rest);
        tokens.push(Token::One(if fold { folded(one) } else { one }));
        rest = &rest[size..];
    }
    (Some(tokens), has_open_bracket)
}

/// Reads a bracket expression after its `[`; `None` when it is not closed and `[` stands for itself.
fn set(pattern: &[u8], fold: bool, unit: Unit) -> Option<(Set, &[u8])> {
    let mut set = Set::default();
    let mut rest = pattern;
    if let Some(b'!' | b'^') = rest.first() {
        set.negated = true;
        rest = &rest[1..];
    }
    let mut first = true;
    loop {
        match *rest.first()? {
            b']' if !first => return Some((set, &rest[1..])),
            b'[' if rest.get(1) == Some(&b':') => {
                if let Some(end) = rest[2..].find(b":]") {
                    // An unknown class makes the whole pattern match nothing in glibc; a set
                    // that has no members does the same for this position.
                    set.classes.push(class(&rest[2..2 + end]).unwrap_or(|_| false));
                    rest = &rest[2 + end + 2..];
                    first = false;
                    continue;
                }
            }
            _ => {}
        }
        first = false;
        let (low, after) = member(rest, unit)?;
        rest = after;
        let mut high = low;
        if rest.first() == Some(&b'-') && rest.get(1).is_some_and(|&next| next != b']') {
            (high, rest) = member(&rest[1..], unit)?;
        }
        set.ranges.push(if fold { (folded(low), folded(high)) } else { (low, high) });
    }
}

/// One end of a range: a character, a quoted one, `[.x.]` or `[=x=]`.
fn member(pattern: &[u8], unit: Unit) -> Option<(u32, &[u8])> {
    let (&first, rest) = pattern.split_first()?;
    if first == b'[' && matches!(rest.first(), Some(b'.' | b'=')) && rest.len() > 1 {
        let (one, size) = unit(&rest[1..]);
        let after = &rest[1 + size..];
        if after.starts_with(&[rest[0], b']']) {
            return Some((one, &after[2..]));
        }
    }
    let text = if first == b'\\' { rest } else { pattern };
    if text.is_empty() {
        return None;
    }
    let (one, size) = unit(text);
    Some((one, &text[size..]))
}

/// A character class by its POSIX name.
fn class(name: &[u8]) -> Option<Class> {
    Some(match name {
        b"alpha" => char::is_alphabetic,
        b"digit" => |c: char| c.is_ascii_digit(),
        b"alnum" => char::is_alphanumeric,
        b"upper" => char::is_uppercase,
        b"lower" => char::is_lowercase,
        b"space" => char::is_whitespace,
        b"blank" => |c: char| c == ' ' || c == '\t',
        b"punct" => |c: char| c.is_ascii_punctuation(),
        b"cntrl" => char::is_control,
        b"xdigit" => |c: char| c.is_ascii_hexdigit(),
        b"print" => |c: char| !c.is_control(),
        b"graph" => |c: char| !c.is_control() && !c.is_whitespace(),
        _ => return None,
    })
}

impl Set {
    /// With `fold`, both ends of ranges were folded too; a class sees the character as it is, as in
    /// glibc.
    fn has(&self, unit: u32, fold: bool) -> bool {
        let end = if fold { folded(unit) } else { unit };
        let found = self.ranges.iter().any(|&(low, high)| (low..=high).contains(&end))
            || char::from_u32(unit).is_some_and(|c| self.classes.iter().any(|class| class(c)));
        found != self.negated
    }
}

/// The shape of tokens among which there is only one literal, and stars around it. Bytes tell where it
/// is, of characters, too.
fn simple(tokens: &[Token]) -> Option<Shape> {
    let stars = |token: Option<&Token>| matches!(token, Some(Token::Star));
    let open_start = stars(tokens.first());
    let open_end = tokens.len() > 1 && stars(tokens.last());
    let middle = &tokens[usize::from(open_start)..tokens.len() - usize::from(open_end)];
    let mut literal = Vec::new();
    for token in middle {
        let Token::One(unit) = *token else { return None };
        match char::from_u32(unit) {
            Some(character) => {
                literal.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => literal.push(u8::try_from(unit - STRAY_BYTE).ok()?),
        }
    }
    Some(match (open_start, open_end) {
        (false, false) => Shape::Whole(literal),
        (false, true) => Shape::Prefix(literal),
        (true, false) => Shape::Suffix(literal),
        (true, true) => Shape::Inside(literal),
    })
}

/// Matches by going back to the last star only: enough, and never exponential.
fn matches_tokens(tokens: &[Token], text: &[u8], fold: bool, unit_of: Unit) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if let Some(Token::Star) = tokens.get(token) {
            token += 1;
            star = Some((token, at));
            continue;
        }
        if at == text.len() {
            return token == tokens.len();
        }
        let (unit, size) = unit_of(&text[at..]);
        let fits = match tokens.get(token) {
            Some(Token::One(one)) => *one == if fold { folded(unit) } else { unit },
            Some(Token::Any) => true,
            Some(Token::Set(set)) => set.has(unit, fold),
            Some(Token::Star) | None => false,
        };
        if fits {
            token += 1;
            at += size;
        } else if let Some((after, from)) = star {
            let (_, size) = unit_of(&text[from..]);
            token = after;
            at = from + size;
            star = Some((after, at));
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Fnmatch::new(pattern.as_bytes()).matches(text.as_bytes())
    }

    #[test]
    fn stars_cross_slashes_and_dots() {
        assert!(matches("*.c", ".x/y.c"));
        assert!(matches("a*b*c", "aXbXbXc"));
        assert!(!matches("a*b*c", "aXbXbX"));
        assert!(matches("*", ""));
        assert!(!matches("?", ""));
    }

    #[test]
    fn brackets() {
        assert!(matches("[a-c]x", "bx"));
        assert!(matches("[!a-c]x", "dx"));
        assert!(matches("[]x]", "]"));
        assert!(matches("[[:digit:]]*", "7up"));
        assert!(matches("[a\\]b]", "]"));
        assert!(matches("[a", "[a"));
        assert!(matches("[[.-.]]", "-"));
    }

    #[test]
    fn each_byte_is_a_character_where_pattern_or_text_is_not_utf8() {
        assert!(matches("?", "é") && !matches("??", "é"));
        assert!(Fnmatch::new(b"a?b").matches(b"a\xffb"));
        assert!(Fnmatch::new(b"*\xff*").matches(b"a\xffb"));
        assert!(Fnmatch::new(b"*\xa9*").matches("é".as_bytes()));
        assert!(Fnmatch::new(b"???").matches(b"\xc3\xa9\xff"));
        assert!(!Fnmatch::new(b"??").matches(b"\xc3\xa9\xff"));
        assert!(Fnmatch::new("[é]??".as_bytes()).matches(b"\xc3\xa9\xff"));
        let folding = Fnmatch::ignoring_case("É*".as_bytes());
        assert!(folding.matches("éa".as_bytes()) && !folding.matches(b"\xc3\xa9\xff"));
    }

    #[test]
    fn bytes_are_characters_where_that_is_asked_for() {
        let matches = |pattern: &str, text: &str| {
            Fnmatch::of_bytes(pattern.as_bytes()).matches(text.as_bytes())
        };
        assert!(matches("??", "é") && !matches("?", "é") && matches("[é][é]", "é"));
        assert!(matches("é*", "éa") && matches("[![:alpha:]]*", "é"));
        assert!(!Fnmatch::of_bytes_ignoring_case("É".as_bytes()).matches("é".as_bytes()));
        assert!(Fnmatch::of_bytes_ignoring_case(b"A\xff").matches(b"a\xff"));
    }

    #[test]
    fn backslashes_quote() {
        assert!(matches("\\*", "*"));
        assert!(!matches("\\*", "a"));
        assert!(!matches("a\\", "a\\"));
    }
}
