//! The format of `-printf`, read once into pieces.

use super::expr::Stamp;

/// A piece of a format.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Literal(Vec<u8>),
    Field(Layout, Field),
    /// `\c`: the rest of the format is dropped and the output flushed.
    Stop,
}

/// Flags, width and precision of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of printf(3)")]
pub(crate) struct Layout {
    pub(crate) left: bool,
    pub(crate) zeros: bool,
    pub(crate) plus: bool,
    pub(crate) space: bool,
    pub(crate) alternate: bool,
    pub(crate) width: usize,
    pub(crate) precision: Option<usize>,
}

/// What a field shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// A time in the form of `ctime(3)`.
    Time(Stamp),
    /// A time, through this `strftime(3)` letter.
    TimePart(Stamp, u8),
    /// `%{latency}`: the delivery time in seconds.
    Latency,
    /// `%{device}`: where the file's parts are.
    Device,
    /// Everything with a one-letter directive.
    Letter(u8),
}

impl Field {
    /// Whether the name and the type are not enough.
    pub(crate) fn needs_properties(self) -> bool {
        match self {
            Self::Time(_) | Self::TimePart(..) => true,
            Self::Latency | Self::Device => false,
            Self::Letter(letter) => !b"pfhHPdlyYZ".contains(&letter),
        }
    }

    /// Whether the name is not enough, but the type is.
    pub(crate) fn needs_type(self) -> bool {
        matches!(self, Self::Letter(b'l' | b'y' | b'Y'))
    }
}

/// Widths above this are cut: no line needs them, and memory is finite.
const WIDTH_MAX: usize = 1 << 16;

const LETTERS: &[u8] = b"bdDfFgGhHiklmMnpPsSuUyYZ";

/// Reads a format. Odd escapes and directives are kept as they stand and named in `warnings`.
pub(crate) fn parse(format: &[u8], warnings: &mut Vec<String>) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut rest = format;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => {
                if !escape(&mut rest, &mut literal, warnings) {
                    push_literal(&mut pieces, &mut literal);
                    pieces.push(Piece::Stop);
                    return Ok(pieces);
                }
            }
            b'%' => match directive(&mut rest, warnings)? {
                Directive::Text(text) => literal.extend_from_slice(&text),
                Directive::Field(layout, field) => {
                    push_literal(&mut pieces, &mut literal);
                    pieces.push(Piece::Field(layout, field));
                }
            },
            _ => literal.push(byte),
        }
    }
    push_literal(&mut pieces, &mut literal);
    Ok(pieces)
}

fn push_literal(pieces: &mut Vec<Piece>, literal: &mut Vec<u8>) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal)));
    }
}

/// Reads what follows a backslash; false for `\c`.
fn escape(rest: &mut &[u8], literal: &mut Vec<u8>, warnings: &mut Vec<String>) -> bool {
    let Some((&letter, after)) = rest.split_first() else {
        warnings.push(r"escape `\' followed by nothing at all".to_owned());
        literal.push(b'\\');
        return true;
    };
    if (b'0'..=b'7').contains(&letter) {
        let digits = rest.iter().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
        let value =
            rest[..digits].iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
        literal.push(value.to_le_bytes()[0]);
        *rest = &rest[digits..];
        return true;
    }
    *rest = after;
    let meant = match letter {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        b'c' => return false,
        _ => {
            warnings.push(format!(r"unrecognized escape `\{}'", letter.escape_ascii()));
            literal.push(b'\\');
            letter
        }
    };
    literal.push(meant);
    true
}

enum Directive {
    Text(Vec<u8>),
    Field(Layout, Field),
}

fn directive(rest: &mut &[u8], warnings: &mut Vec<String>) -> Result<Directive, String> {
    let start = *rest;
    let mut layout = Layout::default();
    while let Some((&flag, after)) = rest.split_first() {
        match flag {
            b'-' => layout.left = true,
            b'0' => layout.zeros = true,
            b'+' => layout.plus = true,
            b' ' => layout.space = true,
            b'#' => layout.alternate = true,
            _ => break,
        }
        *rest = after;
    }
    layout.width = number(rest).unwrap_or(0);
    if let [b'.', after @ ..] = rest {
        *rest = after;
        layout.precision = Some(number(rest).unwrap_or(0));
    }
    let Some((&letter, after)) = rest.split_first() else {
        return Err("error: % at end of format string".to_owned());
    };
    *rest = after;
    let text_so_far = |rest: &[u8]| {
        let mut text = vec![b'%'];
        text.extend_from_slice(&start[..start.len() - rest.len()]);
        text
    };
    let stamp = match letter {
        b'a' | b'A' => Some(Stamp::Access),
        b'B' => Some(Stamp::Birth),
        b'c' | b'C' => Some(Stamp::Change),
        b't' | b'T' => Some(Stamp::Modify),
        _ => None,
    };
    Ok(match (letter, stamp) {
        (b'%', _) if start.len() - rest.len() == 1 => Directive::Text(vec![b'%']),
        // GNU find drops the second sign of `%5%`.
        (b'%', _) => {
            let mut text = text_so_far(rest);
            text.pop();
            Directive::Text(text)
        }
        (b'a' | b'c' | b't', Some(stamp)) => Directive::Field(layout, Field::Time(stamp)),
        (_, Some(stamp)) => match rest.split_first() {
            Some((&part, after)) if super::time::PARTS.contains(&part) => {
                *rest = after;
                Directive::Field(layout, Field::TimePart(stamp, part))
            }
            Some((&part, after)) => {
                *rest = after;
                Directive::Text(vec![b'%', part])
            }
            None => {
                warnings.push(format!(
                    "format directive `%{}' should be followed by another character",
                    char::from(letter)
                ));
                Directive::Text(text_so_far(rest))
            }
        },
        (b'{', _) => {
            let named = [(&b"latency}"[..], Field::Latency), (b"device}", Field::Device)];
            let Some((name, field)) = named.into_iter().find(|(name, _)| rest.starts_with(name))
            else {
                return Err("error: the format directive `%{' is reserved for future use, \
                            apart from %{latency} and %{device}"
                    .to_owned());
            };
            *rest = &rest[name.len()..];
            Directive::Field(layout, field)
        }
        (b'[' | b'(', _) => {
            return Err(format!(
                "error: the format directive `%{}' is reserved for future use",
                char::from(letter)
            ));
        }
        _ if LETTERS.contains(&letter) => Directive::Field(layout, Field::Letter(letter)),
        _ => {
            warnings.push(format!("unrecognized format directive `%{}'", letter.escape_ascii()));
            Directive::Text(text_so_far(rest))
        }
    })
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = rest[..digits]
        .iter()
        .fold(0_usize, |sum, digit| (sum * 10 + usize::from(digit - b'0')).min(WIDTH_MAX));
    *rest = &rest[digits..];
    (digits > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(format: &str) -> Vec<Piece> {
        parse(format.as_bytes(), &mut Vec::new()).expect("a good format")
    }

    #[test]
    fn literals_and_escapes_join() {
        assert_eq!(pieces(r"a\tb\101\\%%"), [Piece::Literal(b"a\tbA\\%".to_vec())]);
        assert_eq!(pieces(r"x\cy"), [Piece::Literal(b"x".to_vec()), Piece::Stop]);
    }

    #[test]
    fn fields_keep_their_layout() {
        let layout = Layout { left: true, width: 12, precision: Some(3), ..Layout::default() };
        assert_eq!(pieces("%-12.3p"), [Piece::Field(layout, Field::Letter(b'p'))]);
        let plain = Layout::default();
        assert_eq!(pieces("%T@"), [Piece::Field(plain, Field::TimePart(Stamp::Modify, b'@'))]);
    }

    #[test]
    fn odd_directives_warn_and_stay() {
        let mut warnings = Vec::new();
        assert_eq!(parse(b"%q\\q", &mut warnings), Ok(vec![Piece::Literal(b"%q\\q".to_vec())]));
        assert_eq!(warnings.len(), 2);
        assert!(parse(b"%", &mut warnings).is_err());
        assert!(parse(b"%{x}", &mut warnings).is_err());
    }
}
