//! What `/proc/PID/status` says of a process.

/// The words of a line, behind its key.
pub(crate) fn words<'a>(status: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_default().split_whitespace()
}
