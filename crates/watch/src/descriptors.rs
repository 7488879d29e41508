//! How many files this process may have open at a time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows this process as many as it may allow itself.
pub(crate) fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    // Less will do where the system does not give as much.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::Command;

    use super::*;

    /// Says to a process that it is the one with the limit.
    const IS_LIMITED: &str = "NEARFIRST_TEST_IS_LIMITED";

    /// Whether at most so many files may be open here; if not, has a process run this test in which it is so.
    pub(crate) fn are_at_most(most: u32, test: &str) -> bool {
        if std::env::var_os(IS_LIMITED).is_some() {
            return true;
        }
        let script = format!("ulimit -S -n {most}; exec \"$0\" --nocapture --exact \"$1\"");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script]).arg(std::env::current_exe().expect("it runs")).arg(test);
        let ended = limited.env(IS_LIMITED, "1").output().expect("the machine allows it");
        let said = String::from_utf8_lossy(&ended.stdout);
        let complained = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("1 passed"), "{said}{complained}");
        false
    }

    #[test]
    fn as_many_as_may_be_allowed_are() {
        if are_at_most(64, "descriptors::tests::as_many_as_may_be_allowed_are") {
            assert_eq!(getrlimit(Resource::Nofile).current, Some(64));
            allow_all();
            let limit = getrlimit(Resource::Nofile);
            assert_eq!(limit.current, limit.maximum);
        }
    }
}
