//! Operands of tests: numbers, times, sizes, types. Texts of errors are GNU find's.

use super::expr::{Age, Compare, Latency, Number, Test, TypeSet};
use super::parse::Result;

/// Splits off a leading `+` or `-`.
fn compare(argument: &[u8]) -> (Compare, &[u8]) {
    match argument {
        [b'+', rest @ ..] => (Compare::More, rest),
        [b'-', rest @ ..] => (Compare::Less, rest),
        _ => (Compare::Equal, argument),
    }
}

pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(super) fn number(argument: &[u8]) -> Option<Number> {
    let (compare, rest) = compare(argument);
    Some(Number { compare, value: digits(rest)? })
}

/// A number with an optional fraction and exponent, never negative or endless.
fn decimal(text: &[u8]) -> Option<f64> {
    if !text.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte))
        || !text.first()?.is_ascii_digit() && text[0] != b'.'
    {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// A time far beyond the age of the universe is as good as that.
const NANOSECONDS_MAX: f64 = 1e27;

pub(super) fn age(argument: &[u8], unit: i128, from_day_start: bool) -> Option<Age> {
    let (compare, rest) = compare(argument);
    #[expect(clippy::cast_possible_truncation, reason = "bounded by NANOSECONDS_MAX")]
    let amount = (decimal(rest)? * unit as f64).min(NANOSECONDS_MAX) as i128;
    Some(Age { compare, amount, unit, from_day_start })
}

pub(super) fn latency(argument: &[u8]) -> Option<Latency> {
    let (compare, rest) = compare(argument);
    let (unit, rest) = match rest {
        [b'm' | b'M', rest @ ..] => (1e-3, rest),
        [b'u' | b'U', rest @ ..] => (1e-6, rest),
        _ => (1.0, rest),
    };
    Some(Latency { compare, amount: decimal(rest)?, unit })
}

pub(super) fn size(argument: &[u8]) -> Result<Test> {
    let Some(&last) = argument.last() else {
        return Err("invalid null argument to -size".to_owned().into());
    };
    let unit = match last {
        b'b' | b'0'..=b'9' => 512,
        b'c' => 1,
        b'w' => 2,
        b'k' => 1 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        _ => return Err(format!("invalid -size type `{}'", last.escape_ascii()).into()),
    };
    let text = if last.is_ascii_digit() { argument } else { &argument[..argument.len() - 1] };
    let number = number(text).ok_or_else(|| {
        format!("Invalid argument `{}' to -size", String::from_utf8_lossy(argument))
    })?;
    Ok(Test::Size(number, unit))
}

pub(super) fn types(argument: &[u8], text: &str) -> Result<TypeSet> {
    if argument.is_empty() {
        return Err(format!("Arguments to {text} should contain at least one letter").into());
    }
    let mut set = TypeSet::default();
    let mut rest = argument;
    while let Some((&letter, after)) = rest.split_first() {
        let shown = letter.escape_ascii();
        match set.add(letter) {
            None => return Err(format!("Unknown argument to {text}: {shown}").into()),
            Some(false) => {
                return Err(format!(
                    "Duplicate file type '{shown}' in the argument list to {text}."
                )
                .into());
            }
            Some(true) => {}
        }
        rest = match after {
            [] => after,
            [b','] => {
                return Err(format!(
                    "Last file type in list argument to {text} is missing, i.e., list is ending on: ','"
                )
                .into());
            }
            [b',', after @ ..] => after,
            _ => {
                return Err(format!("Must separate multiple arguments to {text} using: ','").into());
            }
        };
    }
    Ok(set)
}

/// What is said of an operand that is none.
pub(super) fn invalid(argument: &[u8], text: &str) -> String {
    format!("invalid argument `{}' to `{text}'", String::from_utf8_lossy(argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_takes_units_before_the_number() {
        assert_eq!(
            latency(b"+m1.5"),
            Some(Latency { compare: Compare::More, amount: 1.5, unit: 1e-3 })
        );
        assert_eq!(
            latency(b"-U7"),
            Some(Latency { compare: Compare::Less, amount: 7.0, unit: 1e-6 })
        );
        assert_eq!(
            latency(b"3"),
            Some(Latency { compare: Compare::Equal, amount: 3.0, unit: 1.0 })
        );
        for wrong in [&b""[..], b"+", b"m", b"1m", b"inf", b"--1", b"x1"] {
            assert_eq!(latency(wrong), None);
        }
    }
}
