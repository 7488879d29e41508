//! Quantities and names as people read them.

use std::ffi::OsStr;
use std::fmt::{self, Display, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use nearfirst::Estimate;

use crate::locale;

/// A byte count: `512 B`, `4.0 KiB`, `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    if count < 1024 { format!("{count} B") } else { scaled(count as f64, "B") }
}

/// What nobody reads by its digits: only a device table that somebody wrote by hand says such things.
const HUGE: f64 = 1e12;

/// A rate in bytes per second: `2.7 GiB/s`.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, "B/s")
}

/// The bandwidth of an estimate: a rate, or a question mark.
pub(crate) fn bandwidth(estimate: &Estimate) -> String {
    estimate.known_bandwidth().map_or_else(|| "?".to_owned(), |known| rate(known.p50))
}

fn scaled(value: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter().peekable();
    let mut prefix = prefixes.next().unwrap_or_default();
    // 1023.96 would be printed as 1024.
    while value >= 1023.5
        && let Some(next) = prefixes.next()
    {
        value /= 1024.0;
        prefix = next;
    }
    if value >= HUGE {
        return format!("{value:.1e} {prefix}{unit}");
    }
    let decimals = usize::from(value < 99.95 && !prefix.is_empty());
    format!("{value:.decimals$} {prefix}{unit}")
}

/// A time in seconds: `175 ns`, `18.0 ms`, `3.52 s`, `2 min 5 s`, `3 d 4 h`; `3.52 µs`, or `3.52 us` where the
/// locale has no µ.
pub(crate) fn seconds(value: f64) -> String {
    seconds_with(if locale::is_utf8() { "µs" } else { "us" }, value)
}

fn seconds_with(microseconds: &str, value: f64) -> String {
    if value <= 0.0 {
        return "0 s".to_owned();
    }
    if value < 99.95 {
        let units = [(1e-9, "ns"), (1e-6, microseconds), (1e-3, "ms"), (1.0, "s")];
        // 999.6 µs would be printed as 1000 µs.
        let (unit, name) =
            units.into_iter().find(|(unit, _)| value / unit < 999.5).unwrap_or((1.0, "s"));
        let count = value / unit;
        let decimals = match count {
            ..9.995 => 2,
            9.995..99.95 => 1,
            _ => 0,
        };
        let decimals = if unit < 1e-8 { 0 } else { decimals };
        return format!("{count:.decimals$} {name}");
    }
    if value >= HUGE {
        return format!("{value:.1e} s");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
    let whole = value.round() as u64;
    let (large, large_name, small, small_name) = match whole {
        ..3600 => (whole / 60, "min", whole % 60, "s"),
        3600..86_400 => (whole / 3600, "h", whole % 3600 / 60, "min"),
        _ => (whole / 86_400, "d", whole % 86_400 / 3600, "h"),
    };
    match small {
        0 => format!("{large} {large_name}"),
        _ => format!("{large} {large_name} {small} {small_name}"),
    }
}

/// A share of a whole in percent; never 0 % of something or 100 % of not quite all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if part == whole {
        return "100 %".to_owned();
    }
    if part == 0 {
        return "0 %".to_owned();
    }
    let percent = (part as f64 / whole as f64 * 100.0).clamp(0.1, 99.9);
    if (10.0..=99.0).contains(&percent) {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// A count with its noun: `1 file`, `3 files`, `2 entries`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

/// A file name as it can be shown on one line: control characters and bytes
/// that are not UTF-8 as `\n` or `\xff`; no name at all as `''`.
pub(crate) fn name(name: &(impl AsRef<OsStr> + ?Sized)) -> impl Display + '_ {
    Name(name.as_ref().as_bytes())
}

struct Name<'a>(&'a [u8]);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("''");
        }
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\n' | '\t' | '\r' => write!(f, "{}", character.escape_default())?,
                    _ if character.is_control() => write!(f, "\\x{:02x}", u32::from(character))?,
                    _ if turns_text(character) => write!(f, "{}", character.escape_unicode())?,
                    _ => f.write_char(character)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Whether it has what follows be shown from right to left, or the other way, so that a name looks
/// like another one.
fn turns_text(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_have_one_decimal_where_it_says_something() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (102_400, "100 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(rate(48e6), "45.8 MiB/s");
        assert_eq!(rate(1e308), "8.7e289 EiB/s");
        assert_eq!(seconds(1e308), "1.0e308 s");
    }

    #[test]
    fn times_have_three_digits_up_to_a_minute_and_two_units_beyond() {
        let cases = [
            (0.0, "0 s"),
            (175e-9, "175 ns"),
            (0.000_999_9, "1.00 ms"),
            (0.018, "18.0 ms"),
            (3.518, "3.52 s"),
            (125.0, "2 min 5 s"),
            (7200.0, "2 h"),
            (273_600.0, "3 d 4 h"),
        ];
        for (value, text) in cases {
            assert_eq!(seconds_with("µs", value), text);
        }
    }

    #[test]
    fn a_share_is_nothing_or_all_only_if_it_is() {
        assert_eq!(percent(0, 5), "0 %");
        assert_eq!(percent(1, 1_000_000), "0.1 %");
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(5, 5), "100 %");
        assert_eq!(percent(1, 3), "33 %");
    }

    #[test]
    fn nouns_agree_with_their_counts() {
        let files = [0, 1, 2].map(|count| counted(count, "file"));
        assert_eq!(files, ["0 files", "1 file", "2 files"]);
        assert_eq!([counted(1, "entry"), counted(3, "entry")], ["1 entry", "3 entries"]);
    }

    #[test]
    fn names_stay_on_one_line() {
        let shown = |bytes: &[u8]| name(OsStr::from_bytes(bytes)).to_string();
        assert_eq!(shown(b"a\nb\xff\x1b[31m"), "a\\nb\\xff\\x1b[31m");
        assert_eq!(shown("größe".as_bytes()), "größe");
        assert_eq!(shown(b""), "''");
        assert_eq!(shown("a\u{202e}gpj.exe".as_bytes()), "a\\u{202e}gpj.exe");
    }
}
