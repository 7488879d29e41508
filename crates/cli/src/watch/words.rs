//! What the service says, in words.

use std::path::PathBuf;

use watch::Attended;
use watch::service::Notice;

use crate::guessing::uncounted;

/// One line of text, whatever is in the names in it.
pub(super) fn words(notice: Notice) -> String {
    match notice {
        Notice::Below { path, point } => format!(
            "--on {}: no mount point, and so the file system at {} is meant, until one is mounted \
             on the way",
            path.display(),
            point.display()
        ),
        Notice::Watching(paths) if paths.is_empty() => {
            "watching nothing: no device here is slow (--on PATH names a file system), or what --on \
             names cannot be listened to"
                .to_owned()
        }
        Notice::Watching(paths) => format!("watching {}", listed(&paths)),
        Notice::WatchingAnew { came, went } => match (&*listed(&came), &*listed(&went)) {
            (came, "") => format!("watching {came} too"),
            ("", went) => format!("not watching {went} any more"),
            (came, went) => format!("watching {came} too, not {went} any more"),
        },
        Notice::Came { user, attended, dry_run } => {
            let came = if dry_run { would_be(&attended) } else { came(&attended) };
            format!("user {user}: {came}")
        }
        Notice::Line(line) => line,
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" ")
}

/// What came of predictions.
fn came(Attended { account, carried }: &Attended) -> String {
    format!(
        "of {} predicted, {} read in time, {} late, {} not at all; {} read unpredicted{}; \
         {} fetched ({} bytes), {} near, {} that could not be read, {} given up \
         for want of memory, {} left alone as too many waited, {} on battery; \
         about {:.3} s saved, {} bytes fetched and not read",
        account.predicted,
        account.in_time,
        account.late,
        account.unused,
        account.missed,
        uncounted(account.uncounted),
        carried.fetched,
        carried.fetched_bytes,
        carried.near,
        carried.refused,
        carried.dropped,
        carried.crowded,
        carried.unpowered,
        account.saved.as_secs_f64(),
        account.wasted_bytes
    )
}

/// The same where nothing is fetched.
fn would_be(Attended { account, carried }: &Attended) -> String {
    format!(
        "of {} predicted, {} read, {} not; {} read unpredicted{}; \
         {} that would have been fetched ({} bytes), {} near, {} that could not be read, {} given up \
         for want of memory or time, {} left alone on battery",
        account.predicted,
        account.in_time + account.late,
        account.unused,
        account.missed,
        uncounted(account.uncounted),
        carried.spared,
        carried.spared_bytes,
        carried.near,
        carried.refused,
        carried.dropped,
        carried.unpowered
    )
}

#[cfg(test)]
mod tests {
    use tree::Account;

    use super::*;

    #[test]
    fn what_is_watched_and_no_more() {
        let paths = |words: &str| words.split_whitespace().map(PathBuf::from).collect::<Vec<_>>();
        let anew =
            |came, went| words(Notice::WatchingAnew { came: paths(came), went: paths(went) });
        assert_eq!(anew("/b /c", ""), "watching /b /c too");
        assert_eq!(anew("", "/a /c"), "not watching /a /c any more");
        assert_eq!(anew("/c", "/a"), "watching /c too, not /a any more");
        assert_eq!(words(Notice::Watching(paths("/b /c"))), "watching /b /c");
        assert!(words(Notice::Watching(Vec::new())).starts_with("watching nothing: "));
    }
    #[test]
    fn reads_that_are_not_counted_are_told_whether_it_fetches_or_not() {
        let account = Account { uncounted: 1, ..Account::default() };
        let attended = Attended { account, ..Attended::default() };
        for dry_run in [false, true] {
            let said = words(Notice::Came { user: 7, attended, dry_run });
            assert!(said.starts_with("user 7: of 0 predicted, "), "{said}");
            assert!(said.contains(", and not counted 1 open beyond "), "{said}");
        }
    }
}
