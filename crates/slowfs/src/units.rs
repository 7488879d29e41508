//! Times and byte counts as people write them: `8ms`, `50M`, `256Ki`.

use std::time::Duration;

/// Reads a time: a number followed by `ns`, `us`, `ms`, `s` or `m`, or a bare `0`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ns" => number / 1e9,
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(format!("`{text}` is not a time: expected such as 270ms, 8us, 1.5s")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{text}` is too long a time"))
}

/// Reads a byte count: a number followed by nothing, `k`, `M`, `G` (powers of 1000) or `Ki`, `Mi`, `Gi`.
pub(crate) fn parse_bytes(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => {
            return Err(format!("`{text}` is not a byte count: expected such as 4096, 50M, 256Ki"));
        }
    };
    Ok(number * scale)
}

/// Reads a byte count that must be a whole number.
pub(crate) fn parse_whole_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "split() refuses negative numbers, and the cast saturates"
    )]
    let whole = bytes.round() as u64;
    Ok(whole)
}

/// Reads `10%` or `0.1`.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let share = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(format!("`{text}` is not a share: expected such as 10% or 0.1")),
    };
    if share <= 1.0 { Ok(share) } else { Err(format!("`{text}` is more than the whole")) }
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number = digits
        .replace('_', "")
        .parse::<f64>()
        .map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_bytes_are_read_with_their_units() {
        assert_eq!(parse_time("270ms"), Ok(Duration::from_millis(270)));
        assert_eq!(parse_time("0.5 s"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("0"), Ok(Duration::ZERO));
        assert_eq!(parse_bytes("2.8M"), Ok(2.8e6));
        assert_eq!(parse_whole_bytes("256Ki"), Ok(262_144));
        assert_eq!(parse_share("10%"), Ok(0.1));
    }

    #[test]
    fn what_has_no_unit_or_a_wrong_one_is_refused() {
        for text in ["5", "ms", "-1ms", "1h", ""] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        for text in ["1MB", "x", "-3"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert!(parse_share("101%").is_err());
    }
}
