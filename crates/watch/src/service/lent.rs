//! Numbers of users that are lent to others, for containers of their own (`subuid(5)`): one person may have
//! programs run by thousands of them.

use std::fs;
use std::ops::Range;
use std::path::Path;

use tree::User;

/// Ranges of such numbers, each with the user it is lent to, as the file has that one.
#[derive(Debug)]
pub(crate) struct Lent(Vec<(String, Range<u64>)>);

impl Lent {
    /// By a file of the form of `/etc/subuid`; without one nobody's are. What only a server knows of,
    /// which nobody waits for here, is not among them.
    pub(crate) fn by(file: &Path) -> Self {
        Self::parse(&String::from_utf8_lossy(&fs::read(file).unwrap_or_default()))
    }

    fn parse(text: &str) -> Self {
        let range = |line: &str| {
            let mut fields = line.trim().rsplitn(3, ':');
            let count: u64 = fields.next()?.parse().ok()?;
            let first: u64 = fields.next()?.parse().ok()?;
            Some((fields.next()?.to_owned(), first..first.saturating_add(count)))
        };
        Self(text.lines().filter_map(range).collect())
    }

    /// Whom a number is lent to, if it is.
    pub(crate) fn to(&self, number: User) -> Option<&str> {
        let lent = self.0.iter().find(|(_, range)| range.contains(&number.0.into()));
        lent.map(|(to, _)| &**to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_lent_are_in_a_range_of_a_user() {
        let lent = Lent::parse("# users\nme:100000:65536\n\n1000:300000:1\nno:such\n");
        let to = |number| lent.to(User(number));
        assert_eq!([100_000, 165_535].map(to), [Some("me"); 2]);
        assert_eq!(to(300_000), Some("1000"));
        assert_eq!([1000, 99_999, 165_536, 300_001, 0].map(to), [None; 5]);
        assert_eq!(Lent::by(Path::new("/no/such/file")).to(User(100_000)), None);
    }
}
