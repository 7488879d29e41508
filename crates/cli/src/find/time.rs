//! Dates: how a file's times are shown, and what words mean as a time.

use std::cell::LazyCell;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// One second, in nanoseconds.
pub(crate) const SECOND: i128 = 1_000_000_000;
/// One day, in nanoseconds; GNU find's days are all this long.
pub(crate) const DAY: i128 = 86_400 * SECOND;

/// The letters that may follow `%A`, `%B`, `%C` and `%T`.
pub(crate) const PARTS: &[u8] = b"@HIklMprSTXZaAbBcdDFhjmUwWxyYgGuVsenRtCz+";

/// Ages of which `-ls` shows the time of day and not the year, as GNU find counts them: from one hour
/// ahead, as clocks of servers may be, to six months back.
const RECENT_SECONDS: RangeInclusive<i128> = -3_600..=6 * 30 * 86_400;

/// Shows times in one zone.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Found when a time is first shown or read: that takes a look through all zones there are.
    zone: LazyCell<TimeZone>,
}

impl Calendar {
    /// In the zone of `TZ` or of the system.
    pub(crate) fn local() -> Self {
        Self { zone: LazyCell::new(TimeZone::system) }
    }

    #[cfg(test)]
    fn utc() -> Self {
        Self { zone: LazyCell::new(|| TimeZone::UTC) }
    }

    /// A time through a `strftime` pattern; as a number when no calendar reaches it.
    fn show(&self, nanoseconds: i128, pattern: &str) -> String {
        match Timestamp::from_nanosecond(nanoseconds) {
            Ok(stamp) => stamp.to_zoned(TimeZone::clone(&self.zone)).strftime(pattern).to_string(),
            Err(_) => nanoseconds.div_euclid(SECOND).to_string(),
        }
    }

    /// The time as `%t` shows it: `ctime`'s form with a fraction.
    pub(crate) fn whole(&self, nanoseconds: i128) -> String {
        let fraction = fraction(nanoseconds);
        self.show(nanoseconds, &format!("%a %b %e %H:%M:%S.{fraction} %Y"))
    }

    /// The part of a time that a letter of [`PARTS`] names.
    pub(crate) fn part(&self, nanoseconds: i128, letter: u8) -> String {
        let fraction = fraction(nanoseconds);
        match letter {
            b'@' => format!("{}.{fraction}", nanoseconds.div_euclid(SECOND)),
            b's' => nanoseconds.div_euclid(SECOND).to_string(),
            b'S' => self.show(nanoseconds, &format!("%S.{fraction}")),
            b'T' | b'X' => self.show(nanoseconds, &format!("%H:%M:%S.{fraction}")),
            b'r' => self.show(nanoseconds, "%I:%M:%S %p"),
            b'+' => self.show(nanoseconds, &format!("%Y-%m-%d+%H:%M:%S.{fraction}")),
            b'c' => self.show(nanoseconds, "%a %b %e %H:%M:%S %Y"),
            b'D' | b'x' => self.show(nanoseconds, "%m/%d/%y"),
            letter => self.show(nanoseconds, &format!("%{}", char::from(letter))),
        }
    }

    /// The date column of `-ls`.
    pub(crate) fn listed(&self, nanoseconds: i128, now: i128) -> String {
        let age = now.div_euclid(SECOND) - nanoseconds.div_euclid(SECOND);
        let recent = RECENT_SECONDS.contains(&age);
        self.show(nanoseconds, if recent { "%b %e %H:%M" } else { "%b %e  %Y" })
    }

    /// The end of the day that holds `now`: where `-daystart` counts from.
    pub(crate) fn end_of_day(&self, now: i128) -> i128 {
        let Ok(stamp) = Timestamp::from_nanosecond(now) else { return now };
        let zoned = stamp.to_zoned(TimeZone::clone(&self.zone));
        zoned.start_of_day().map_or(now, |start| start.timestamp().as_nanosecond() + DAY)
    }

    /// What words such as `2024-02-03 10:00`, `@17` or `2 days ago` mean, seen from `now`; none
    /// mean the beginning of today.
    pub(crate) fn read(&self, text: &str, now: i128) -> Option<i128> {
        let now = Timestamp::from_nanosecond(now).ok()?.to_zoned(TimeZone::clone(&self.zone));
        if text.trim().is_empty() {
            return now.start_of_day().ok().map(|start| start.timestamp().as_nanosecond());
        }
        let parsed = parse_datetime::parse_datetime_at_date(now, text).ok()?;
        parsed.as_zoned().map(|zoned| zoned.timestamp().as_nanosecond())
    }
}

/// Nine digits and the `0` that GNU find adds.
fn fraction(nanoseconds: i128) -> String {
    format!("{:09}0", nanoseconds.rem_euclid(SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i128 = 1_709_208_000 * SECOND; // 2024-02-29 12:00:00 UTC

    #[test]
    fn parts_carry_the_fraction() {
        let calendar = Calendar::utc();
        assert_eq!(calendar.part(NOON + 5, b'@'), "1709208000.0000000050");
        assert_eq!(calendar.part(NOON + 5, b'T'), "12:00:00.0000000050");
        assert_eq!(calendar.part(NOON, b'+'), "2024-02-29+12:00:00.0000000000");
        assert_eq!(calendar.whole(NOON), "Thu Feb 29 12:00:00.0000000000 2024");
        assert_eq!(calendar.part(-1, b'@'), "-1.9999999990");
    }

    #[test]
    fn every_part_can_be_shown() {
        for &letter in PARTS {
            let shown = Calendar::utc().part(NOON, letter);
            assert!(!shown.is_empty() && !shown.starts_with('%'), "{} {shown}", char::from(letter));
        }
    }

    #[test]
    fn words_are_read_from_now() {
        let calendar = Calendar::utc();
        assert_eq!(calendar.read("@17", NOON), Some(17 * SECOND));
        assert_eq!(calendar.read("2024-02-28 12:00", NOON), Some(NOON - DAY));
        assert_eq!(calendar.read("2 days ago", NOON), Some(NOON - 2 * DAY));
        assert_eq!(calendar.read("", NOON), Some(NOON - DAY / 2));
        assert_eq!(calendar.read("garbage", NOON), None);
    }

    #[test]
    fn days_start_at_midnight() {
        assert_eq!(Calendar::utc().end_of_day(NOON), NOON + DAY / 2);
    }
}
