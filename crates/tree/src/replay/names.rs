//! Names as numbers, so that caches and tables of the simulation compare no bytes.

use std::collections::HashMap;
use std::sync::Arc;

/// A name's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(u32);

impl Name {
    pub(super) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 names fit memory"))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// All names met so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    numbers: HashMap<Arc<[u8]>, Name>,
    bytes: Vec<Arc<[u8]>>,
}

impl Names {
    pub(super) fn number(&mut self, bytes: &Arc<[u8]>) -> Name {
        if let Some(&known) = self.numbers.get(bytes) {
            return known;
        }
        let next = Name::from_index(self.bytes.len());
        self.numbers.insert(Arc::clone(bytes), next);
        self.bytes.push(Arc::clone(bytes));
        next
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self, name: Name) -> Arc<[u8]> {
        Arc::clone(&self.bytes[name.index()])
    }
}
