//! Leases on files: who opens one of those takes the lease from its holder, who is told by a signal
//! that ends a program which does not expect it (`F_SETLEASE` in fcntl(2)).

/// Whether anybody seems to hold a lease on a file of this number, on whatever file system.
pub(super) fn is_leased(inode: u64) -> bool {
    // Where it cannot be read, nobody can tell.
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| is_lease_on(line, inode))
}

/// Of a line such as `7: LEASE  ACTIVE    WRITE 4711 fe:00:1234 0 EOF`.
fn is_lease_on(line: &str, inode: u64) -> bool {
    let mut words = line.split_ascii_whitespace();
    let kind = words.nth(1);
    let file = words.nth(3).and_then(|file| file.rsplit(':').next());
    matches!(kind, Some("LEASE" | "DELEG"))
        && file.and_then(|file| file.parse().ok()) == Some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_told_from_a_lock() {
        let lease = "2: LEASE  ACTIVE    WRITE 4711 fe:00:1234 0 EOF";
        assert!(is_lease_on(lease, 1234));
        assert!(is_lease_on("1: DELEG  BREAKER   READ 4711 00:2a:1234 0 EOF", 1234));
        assert!(!is_lease_on(lease, 234));
        assert!(!is_lease_on("2: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234));
        assert!(!is_lease_on("2: -> POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", 1234));
        assert!(!is_lease_on("", 1234));
    }
}
