//! Names as numbers, so that caches and tables of the simulation compare no bytes.

use std::collections::HashMap;
use std::sync::Arc;

/// A name's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(u32);

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
        let next = Name(u32::try_from(self.bytes.len()).expect("fewer than 2^32 names fit memory"));
        self.numbers.insert(Arc::clone(bytes), next);
        self.bytes.push(Arc::clone(bytes));
        next
    }

    pub(super) fn bytes(&self, name: Name) -> Arc<[u8]> {
        Arc::clone(&self.bytes[name.0 as usize])
    }
}
