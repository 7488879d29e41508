//! What is asked of S3 to have an archived object restored, and how long that takes.

use std::time::Duration;

use super::settings::Settings;
use crate::{Entry, Tier};

/// When a restore is worth another look: standard ones take hours, expedited ones minutes.
pub(super) const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// How objects of a bucket are restored.
#[derive(Debug)]
pub(super) struct Restore {
    /// The body of the request.
    pub(super) body: String,
    tier: String,
}

impl Restore {
    /// As the settings say.
    pub(super) fn of(settings: &Settings) -> Self {
        let body = format!(
            "<RestoreRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Days>{}</Days>\
             <GlacierJobParameters><Tier>{}</Tier></GlacierJobParameters></RestoreRequest>",
            settings.restore_days,
            quick_xml::escape::escape(&settings.restore_tier),
        );
        Self { body, tier: settings.restore_tier.clone() }
    }

    /// The longest that AWS says a restore of an object takes (Amazon S3 User Guide, "Understanding
    /// archive retrieval options").
    pub(super) fn within(&self, entry: &Entry) -> Option<Duration> {
        let (Tier::Cold { class } | Tier::Recalling { class }) = &entry.tier else { return None };
        match (&**class, self.tier.as_str()) {
            ("GLACIER", "Expedited") => Some(Duration::from_mins(5)),
            ("GLACIER" | "ARCHIVE_ACCESS", "Standard") => Some(Duration::from_hours(5)),
            ("GLACIER" | "ARCHIVE_ACCESS", "Bulk")
            | ("DEEP_ARCHIVE" | "DEEP_ARCHIVE_ACCESS", "Standard") => {
                Some(Duration::from_hours(12))
            }
            ("DEEP_ARCHIVE" | "DEEP_ARCHIVE_ACCESS", "Bulk") => Some(Duration::from_hours(48)),
            _ => None,
        }
    }
}
