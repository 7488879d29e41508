//! How much is done at a time where this process may have few files open.

use rustix::process::{Resource, getrlimit};

/// What a run has open beside its members.
const ELSEWHERE: usize = 12;
/// What one member takes: itself, or the pipe that its command is begun with; and what is written of it.
const OF_A_MEMBER: usize = 3;

/// How many members may be worked on at a time of as many as are asked for: each has files open.
pub(crate) fn shared_by(jobs: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    jobs.min(members_of(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)))
}

/// A quarter is for files that are opened ahead.
fn members_of(limit: usize) -> usize {
    ((limit - limit / 4).saturating_sub(ELSEWHERE) / OF_A_MEMBER).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_are_worked_on_where_few_files_may_be_open() {
        assert_eq!([3, 24, 64, 1024].map(members_of), [1, 2, 12, 252]);
        assert!(members_of(usize::MAX) > 1 << 32);
    }
}
