//! What the service says, in words.

use std::path::PathBuf;

use watch::service::Notice;

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
        Notice::Line(line) => line,
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" ")
}

#[cfg(test)]
mod tests {
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
}
