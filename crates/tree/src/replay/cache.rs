//! The model of memory: whole files, the least recently used out first.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::names::Name;

/// How much a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// So many bytes of files; a file larger than that is read past the cache.
    Bytes(u64),
    /// So many files, whatever their size, as in the simulation of Lei & Duchamp.
    Files(u64),
}

#[derive(Debug)]
struct Held {
    used: u64,
    cost: u64,
    ready: Duration,
}

/// Files that are in memory, or on their way there.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: Capacity,
    held: HashMap<Name, Held>,
    by_use: BTreeMap<u64, Name>,
    cost: u64,
    uses: u64,
}

impl Cache {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self { capacity, held: HashMap::new(), by_use: BTreeMap::new(), cost: 0, uses: 0 }
    }

    /// When a file is or was there whole, if it is there or on its way.
    pub(super) fn ready(&self, name: Name) -> Option<Duration> {
        self.held.get(&name).map(|held| held.ready)
    }

    /// What may be held, in bytes or files.
    pub(super) fn most(&self) -> u64 {
        match self.capacity {
            Capacity::Bytes(most) | Capacity::Files(most) => most,
        }
    }

    /// What a file takes of that.
    pub(super) fn cost(&self, bytes: u64) -> u64 {
        match self.capacity {
            Capacity::Bytes(_) => bytes,
            Capacity::Files(_) => 1,
        }
    }

    /// A file is used: it goes out last.
    pub(super) fn touch(&mut self, name: Name) {
        if let Some(held) = self.held.get_mut(&name) {
            self.by_use.remove(&held.used);
            self.uses += 1;
            held.used = self.uses;
            self.by_use.insert(self.uses, name);
        }
    }

    /// Puts a file in, or gives the one there another size and time; returns what has to go for it.
    pub(super) fn insert(&mut self, name: Name, bytes: u64, ready: Duration) -> Vec<Name> {
        self.remove(name);
        let (cost, most) = (self.cost(bytes), self.most());
        if cost > most {
            return Vec::new();
        }
        let mut gone = Vec::new();
        while self.cost > most - cost {
            let (_, oldest) = self.by_use.pop_first().expect("what costs something is held");
            self.cost -= self.held.remove(&oldest).expect("both tables hold the same").cost;
            gone.push(oldest);
        }
        self.uses += 1;
        self.cost += cost;
        self.by_use.insert(self.uses, name);
        self.held.insert(name, Held { used: self.uses, cost, ready });
        gone
    }

    fn remove(&mut self, name: Name) {
        if let Some(held) = self.held.remove(&name) {
            self.by_use.remove(&held.used);
            self.cost -= held.cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::names::Names;
    use super::*;

    proptest! {
        #[test]
        fn as_a_list_in_the_order_of_use(
            steps in prop::collection::vec((0..9_u8, 0..60_u64), 0..80), bytes in any::<bool>(),
        ) {
            let most = if bytes { 100 } else { 3 };
            let capacity = if bytes { Capacity::Bytes(most) } else { Capacity::Files(most) };
            let mut names = Names::default();
            let mut cache = Cache::new(capacity);
            let mut model: Vec<(Name, u64)> = Vec::new();
            for (name, size) in steps {
                let name = names.number(&[name][..].into());
                let cost = if bytes { size } else { 1 };
                if let Some(at) = model.iter().position(|&(held, _)| held == name) {
                    prop_assert!(cache.ready(name).is_some());
                    cache.touch(name);
                    let held = model.remove(at);
                    model.push(held);
                } else {
                    prop_assert!(cache.ready(name).is_none());
                    let mut out = Vec::new();
                    while model.iter().map(|&(_, cost)| cost).sum::<u64>() + cost > most {
                        out.push(model.remove(0).0);
                    }
                    model.push((name, cost));
                    prop_assert_eq!(cache.insert(name, size, Duration::ZERO), out);
                }
            }
        }
    }
}
