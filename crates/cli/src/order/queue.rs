//! Names that wait for their turn: 16 bytes each beside the name itself.

use nearfirst::Cost;

/// The names, with their costs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Each name, ended by NUL, which no name contains.
    text: Vec<u8>,
    /// Cost and where the name begins; names came in the order of their begin, so equal costs keep it.
    keys: Vec<(u64, usize)>,
}

impl Queue {
    /// Adds a name.
    pub(super) fn push(&mut self, cost: Cost, name: &[u8]) {
        self.keys.push((cost.key(), self.text.len()));
        self.text.extend_from_slice(name);
        self.text.push(0);
    }

    /// By cost; of equal ones, the first that came first.
    pub(super) fn sorted(mut self) -> Self {
        self.keys.sort_unstable();
        self
    }

    /// The names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|&(_, start)| {
            let rest = &self.text[start..];
            &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_by_cost_and_equals_as_they_came() {
        let mut queue = Queue::default();
        for (cost, name) in [
            (Cost::Unasked, "unasked"),
            (Cost::Cold(1), "cold"),
            (Cost::Unknown(u64::MAX), "unknown, much"),
            (Cost::Unknown(5), "unknown, first"),
            (Cost::Unknown(5), "unknown, second"),
            (Cost::Seconds(f64::INFINITY), "forever"),
            (Cost::Seconds(0.5), "slow"),
            (Cost::Seconds(1e-9), "fast"),
            (Cost::Nothing, "near"),
        ] {
            queue.push(cost, name.as_bytes());
        }
        let queue = queue.sorted();
        let names: Vec<_> =
            queue.names().map(|name| std::str::from_utf8(name).expect("text")).collect();
        assert_eq!(
            names,
            [
                "near",
                "fast",
                "slow",
                "forever",
                "unknown, first",
                "unknown, second",
                "unknown, much",
                "cold",
                "unasked"
            ]
        );
    }
}
