//! Numbers of users that are lent to others, for containers of their own (`subuid(5)`): one person may have
//! programs run by thousands of them.

use std::fs;
use std::ops::Range;
use std::path::Path;

use tree::User;

/// Ranges of such numbers.
#[derive(Debug)]
pub(crate) struct Lent(Vec<Range<u64>>);

impl Lent {
    /// By a file of the form of `/etc/subuid`; without one nobody's are. What only a server knows of,
    /// which nobody waits for here, is not among them.
    pub(crate) fn by(file: &Path) -> Self {
        Self::parse(&String::from_utf8_lossy(&fs::read(file).unwrap_or_default()))
    }

    fn parse(text: &str) -> Self {
        let range = |line: &str| {
            let mut fields = line.trim().rsplit(':');
            let count: u64 = fields.next()?.parse().ok()?;
            let first: u64 = fields.next()?.parse().ok()?;
            Some(first..first.saturating_add(count))
        };
        Self(text.lines().filter_map(range).collect())
    }

    pub(crate) fn has(&self, user: User) -> bool {
        self.0.iter().any(|range| range.contains(&user.0.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_lent_are_in_a_range_of_a_user() {
        let lent = Lent::parse("# users\nme:100000:65536\n\n1000:300000:1\nno:such\n");
        let has = |number| lent.has(User(number));
        assert!(has(100_000) && has(165_535) && has(300_000));
        assert!(!has(1000) && !has(99_999) && !has(165_536) && !has(300_001) && !has(0));
        assert!(!Lent::by(Path::new("/no/such/file")).has(User(100_000)));
    }
}
