//! The order that a set's members were delivered in, beyond the life of the set.

use std::sync::{Arc, Mutex};

use store::{Name, lock};

use crate::roster::Roster;

/// Which members a set delivered, in the order it did. It keeps what the set knew of names, and neither
/// what lists them nor what is under way; of each member it takes four bytes beside that.
#[derive(Debug)]
pub struct Taken {
    roster: Arc<Mutex<Roster>>,
    indices: Vec<u32>,
}

impl Taken {
    pub(crate) fn new(roster: Arc<Mutex<Roster>>, indices: Vec<u32>) -> Self {
        Self { roster, indices }
    }

    /// Their names: what [`crate::Order::Replay`] takes.
    pub fn names(&self) -> Vec<Name> {
        let known = lock(&self.roster);
        self.indices.iter().map(|&index| Name::new(known.name(index as usize))).collect()
    }
}
