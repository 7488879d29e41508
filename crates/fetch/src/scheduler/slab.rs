//! Slots that are used again, and lists that run through them: no allocation per member.

use std::ops::{Index, IndexMut};

/// No slot.
const NONE: u32 = u32::MAX;

/// Values by slot. A slot's generation tells its uses apart.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.entries[slot as usize];
            entry.generation = entry.generation.wrapping_add(1);
            entry.value = Some(value);
            return slot;
        }
        let slot = u32::try_from(self.entries.len()).expect("fewer things at a time than 2^32");
        self.entries.push(Entry { generation: 0, value: Some(value) });
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        debug_assert!(entry.value.is_some(), "a slot is freed once");
        entry.value = None;
        self.free.push(slot);
    }

    /// A name for the present use of a slot, never given for another one.
    pub(super) fn name(&self, slot: u32) -> u64 {
        u64::from(self.entries[slot as usize].generation) << 32 | u64::from(slot)
    }

    /// The slot of this name, if that use has not ended.
    pub(super) fn find(&self, name: u64) -> Option<u32> {
        let slot = u32::try_from(name & u64::from(u32::MAX)).expect("32 bits");
        let entry = self.entries.get(slot as usize)?;
        (entry.value.is_some() && u64::from(entry.generation) == name >> 32).then_some(slot)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        self.entries[slot as usize].value.as_ref().expect("a slot in use")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        self.entries[slot as usize].value.as_mut().expect("a slot in use")
    }
}

/// Where a value stands in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    before: u32,
    after: u32,
    listed: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self { before: NONE, after: NONE, listed: false }
    }
}

/// What can stand in the list of this number.
pub(super) trait Linked<const LIST: usize> {
    fn link(&mut self) -> &mut Link;
    fn link_of(&self) -> Link;
}

/// An order of slots; a slot is in one list of a number at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<const LIST: usize> {
    first: u32,
    last: u32,
    len: u32,
}

impl<const LIST: usize> Default for List<LIST> {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl<const LIST: usize> List<LIST> {
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn last(&self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn after<T: Linked<LIST>>(slab: &Slab<T>, slot: u32) -> Option<u32> {
        let after = slab[slot].link_of().after;
        (after != NONE).then_some(after)
    }

    pub(super) fn before<T: Linked<LIST>>(slab: &Slab<T>, slot: u32) -> Option<u32> {
        let before = slab[slot].link_of().before;
        (before != NONE).then_some(before)
    }

    pub(super) fn push<T: Linked<LIST>>(&mut self, slab: &mut Slab<T>, slot: u32) {
        if slab[slot].link_of().listed {
            return;
        }
        *slab[slot].link() = Link { before: self.last, after: NONE, listed: true };
        if self.last == NONE {
            self.first = slot;
        } else {
            slab[self.last].link().after = slot;
        }
        self.last = slot;
        self.len += 1;
    }

    /// Takes a slot out; one that is in no list stays so.
    pub(super) fn remove<T: Linked<LIST>>(&mut self, slab: &mut Slab<T>, slot: u32) {
        let link = std::mem::take(slab[slot].link());
        if !link.listed {
            return;
        }
        if link.before == NONE {
            self.first = link.after;
        } else {
            slab[link.before].link().after = link.after;
        }
        if link.after == NONE {
            self.last = link.before;
        } else {
            slab[link.after].link().before = link.before;
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked<0> for (u64, Link) {
        fn link(&mut self) -> &mut Link {
            &mut self.1
        }
        fn link_of(&self) -> Link {
            self.1
        }
    }

    #[test]
    fn a_name_ends_with_its_use() {
        let mut slab = Slab::default();
        let slot = slab.insert('a');
        let name = slab.name(slot);
        assert_eq!(slab.find(name), Some(slot));
        slab.remove(slot);
        assert_eq!(slab.find(name), None);
        assert_eq!(slab.insert('b'), slot);
        assert_eq!(slab.find(name), None);
        assert_ne!(slab.name(slot), name);
    }

    #[test]
    fn a_list_is_a_deque_with_removal() {
        let mut slab = Slab::default();
        let mut list = List::<0>::default();
        let slots: Vec<u32> = (0..5).map(|n| slab.insert((n, Link::default()))).collect();
        for &slot in &slots {
            list.push(&mut slab, slot);
        }
        for gone in [2, 0, 4, 2] {
            list.remove(&mut slab, slots[gone]);
        }
        assert_eq!((list.first(), list.last(), list.len()), (Some(slots[1]), Some(slots[3]), 2));
        assert_eq!(List::after(&slab, slots[1]), Some(slots[3]));
        assert_eq!(List::before(&slab, slots[3]), Some(slots[1]));
        list.push(&mut slab, slots[0]);
        assert_eq!(list.last(), Some(slots[0]));
    }
}
