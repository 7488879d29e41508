//! The columns of `ls -l`, aligned among the rows that become known together.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nearfirst::{Entry, Tier};

use crate::human;

/// Narrower columns would jump from batch to batch.
const SIZE_WIDTH_MIN: usize = 12;

/// What stands before each name; sizes in bytes, or as people read them.
pub(super) fn rows(entries: &[Entry], human_readable: bool) -> Vec<String> {
    let zone = TimeZone::system();
    let cells: Vec<[String; 4]> =
        entries.iter().map(|entry| cells(entry, human_readable, &zone)).collect();
    let width = |column: usize| {
        cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let size_width = width(0).max(SIZE_WIDTH_MIN);
    let (tier_width, version_width) = (width(2), width(3));
    let row = |[size, modified, tier, version]: &[String; 4]| {
        format!(
            "{size:>size_width$}  {modified:<19}  {tier:<tier_width$}  {version:<version_width$}  "
        )
    };
    cells.iter().map(row).collect()
}

fn cells(entry: &Entry, human_readable: bool, zone: &TimeZone) -> [String; 4] {
    let unknown = || "?".to_owned();
    let size = |size: u64| if human_readable { human::bytes(size) } else { size.to_string() };
    [
        entry.likely_size().map_or_else(unknown, size),
        entry.modified.and_then(|at| time(at, zone)).unwrap_or_else(unknown),
        tier(&entry.tier),
        entry
            .version
            .as_ref()
            .map_or_else(unknown, |version| human::name(version.as_str()).to_string()),
    ]
}

fn time(at: SystemTime, zone: &TimeZone) -> Option<String> {
    let at = Timestamp::try_from(at).ok()?.to_zoned(zone.clone());
    Some(at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn tier(tier: &Tier) -> String {
    match tier {
        Tier::Online => "-".to_owned(),
        Tier::Cold { class } => class.to_string(),
        Tier::Recalling { class } => format!("{class} (being restored)"),
        Tier::Recalled { class, .. } => format!("{class} (restored)"),
    }
}

#[cfg(test)]
mod tests {
    use nearfirst::{Name, Version};

    use super::*;

    #[test]
    fn rows_of_a_batch_are_aligned_and_what_is_unknown_is_said() {
        let small = Entry { size: Some(7), ..Entry::named(Name::from("s3://b/a")) };
        let class = "GLACIER".into();
        let cold = Entry {
            size: Some(12_345_678_901_234),
            tier: Tier::Cold { class },
            ..Entry::named(Name::from("s3://b/c"))
        };
        let entries = [small, cold];
        let rows = rows(&entries, false);
        assert_eq!(rows[0].len(), rows[1].len());
        assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), ["7", "?", "-", "?"]);
        assert!(rows[1].contains("12345678901234  ?") && rows[1].contains("GLACIER"));
        let human = super::rows(&entries, true);
        assert!(human[1].contains(" 11.2 TiB  ?"), "{}", human[1]);
    }

    #[test]
    fn a_version_that_a_listing_made_up_stays_on_its_line() {
        let version = Some(Version::new("\"a\n\x1b[31m\""));
        let entry = Entry { version, ..Entry::named(Name::from("s3://b/a")) };
        assert!(rows(&[entry], false)[0].ends_with("\"a\\n\\x1b[31m\"  "));
    }
}
