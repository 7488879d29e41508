//! What the service and its attendants have to say, for who words it.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::Attended;

/// Something to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A folder that was asked for is no mount point: the file system at `point`, on which it lies, is meant
    /// until one is mounted on the way.
    Below {
        /// What was asked for.
        path: PathBuf,
        /// Where its file system is mounted.
        point: PathBuf,
    },
    /// Where the file systems are mounted that are listened to, as it begins, or where there were none, or
    /// are none.
    Watching(Vec<PathBuf>),
    /// Which came and which went since the last notice.
    WatchingAnew {
        /// They are listened to, too.
        came: Vec<PathBuf>,
        /// They are not any more.
        went: Vec<PathBuf>,
    },
    /// What came so far of what was predicted for a user.
    Came {
        /// By number.
        user: u32,
        /// What is counted.
        attended: Attended,
        /// Whether nothing is fetched.
        dry_run: bool,
    },
    /// In words already: what was seen, what would be fetched, and what went wrong.
    Line(String),
}

impl From<String> for Notice {
    fn from(line: String) -> Self {
        Self::Line(line)
    }
}

impl Notice {
    /// What came and what went: where many come and go, all of them would fill the journal.
    pub(super) fn watching_anew(before: &[PathBuf], watched: &[PathBuf]) -> Option<Self> {
        if before.is_empty() || watched.is_empty() {
            return (before != watched).then(|| Self::Watching(watched.to_vec()));
        }
        let without = |paths: &[PathBuf], others: &[PathBuf]| {
            let others: HashSet<&PathBuf> = others.iter().collect();
            paths.iter().filter(|path| !others.contains(path)).cloned().collect()
        };
        let (came, went): (Vec<_>, Vec<_>) = (without(watched, before), without(before, watched));
        let is_same = came.is_empty() && went.is_empty();
        (!is_same).then_some(Self::WatchingAnew { came, went })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_watched_only_what_came_and_went_is_said_after_the_first_time() {
        let paths = |words: &str| words.split_whitespace().map(PathBuf::from).collect::<Vec<_>>();
        let said = |before, now| Notice::watching_anew(&paths(before), &paths(now));
        let anew = |came, went| Some(Notice::WatchingAnew { came: paths(came), went: paths(went) });
        assert_eq!(said("/a /b", "/b /a"), None);
        assert_eq!(said("/a", "/b /a /c"), anew("/b /c", ""));
        assert_eq!(said("/a /b /c", "/b"), anew("", "/a /c"));
        assert_eq!(said("/a /b", "/b /c"), anew("/c", "/a"));
        assert_eq!(said("", "/b /c"), Some(Notice::Watching(paths("/b /c"))));
        assert_eq!(said("/b", ""), Some(Notice::Watching(Vec::new())));
    }
}
