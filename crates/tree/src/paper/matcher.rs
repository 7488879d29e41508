//! The compatibility of a working tree with one pattern tree, kept up to date while it grows.

use std::sync::Arc;

use super::compatibility::mean;
use super::{AccessTree, Leaf, Node};
use crate::names::Name;

/// A working tree against one pattern tree.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    pattern: Arc<AccessTree>,
    /// Children of the pattern behind or at the latest child of the working tree.
    pivot: usize,
    /// Where the stretch of data files begins that follows the last program that was paired.
    stretch: usize,
    /// Files paired before that stretch.
    paired: usize,
    /// The longest common subsequence of the working tree's files since `stretch` with the
    /// pattern's from there up to each place.
    row: Vec<usize>,
    /// Data files of the working tree, and of the pattern before the pivot.
    data: (usize, usize),
    /// Where in the pattern the programs are that were paired, in order.
    places: Vec<usize>,
    /// Programs that ended, and of these with the same tree.
    ended: usize,
    alike: usize,
    failed: bool,
}

impl Matcher {
    pub(crate) fn new(pattern: Arc<AccessTree>) -> Self {
        let mut matcher = Self {
            pattern,
            pivot: 0,
            stretch: 0,
            paired: 0,
            row: Vec::new(),
            data: (0, 0),
            places: Vec::new(),
            ended: 0,
            alike: 0,
            failed: false,
        };
        matcher.begin_stretch(0);
        matcher
    }

    /// The program opened a file.
    pub(crate) fn opened(&mut self, leaf: Leaf) {
        if self.failed {
            return;
        }
        self.data.0 += 1;
        let end = self.stretch + self.row.len() - 1;
        let stretch = &self.pattern.children()[self.stretch..end];
        let same = |node: &Node| matches!(node, Node::Data { leaf: other, .. } if *other == leaf);
        extend(&mut self.row, stretch.iter().map(same));
        if let Some(place) = stretch[self.pivot - self.stretch..].iter().position(same) {
            self.data.1 += place + 1;
            self.pivot += place + 1;
        }
    }

    /// The program invoked another one.
    pub(crate) fn invoked(&mut self, program: Name) {
        if self.failed {
            return;
        }
        let place = self.stretch + self.row.len() - 1;
        match self.pattern.children().get(place) {
            Some(Node::Program { program: other, .. }) if *other == program => {
                self.paired += self.row.last().copied().unwrap_or(0);
                self.data.1 += place - self.pivot;
                self.begin_stretch(place + 1);
                self.pivot = place + 1;
                self.places.push(place);
            }
            _ => self.failed = true,
        }
    }

    /// The program that was the `nth` to be invoked ended with this tree.
    pub(crate) fn ended(&mut self, nth: usize, tree: &AccessTree) {
        let Some(&place) = self.places.get(nth) else { return };
        self.ended += 1;
        self.alike += usize::from(self.subtree_at(place).map(|other| &**other) == Some(tree));
    }

    /// As `compatibility::unfinished` defines it, from 0 to 1.
    pub(crate) fn compatibility(&self) -> f64 {
        if self.failed {
            return 0.0;
        }
        let pairs = self.paired + self.row[self.pivot - self.stretch];
        mean(2 * pairs, self.data.0 + self.data.1, self.alike, self.ended)
    }

    /// What the pattern has after the latest child of the working tree.
    pub(crate) fn rest(&self) -> &[Node] {
        &self.pattern.children()[self.pivot..]
    }

    /// The tree that the pattern has for the program that was invoked last.
    pub(crate) fn subtree(&self) -> Option<&Arc<AccessTree>> {
        self.subtree_at(*self.places.last()?).filter(|_| !self.failed)
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.pattern.names(each);
    }

    fn subtree_at(&self, place: usize) -> Option<&Arc<AccessTree>> {
        match self.pattern.children().get(place) {
            Some(Node::Program { tree, .. }) => tree.as_ref(),
            _ => None,
        }
    }

    fn begin_stretch(&mut self, at: usize) {
        self.stretch = at;
        let files = self.pattern.children()[at..].iter();
        let files = files.take_while(|node| matches!(node, Node::Data { .. })).count();
        self.row.clear();
        self.row.resize(files + 1, 0);
    }
}

/// Takes one more element into the longest common subsequences of a sequence with the beginnings of
/// another: `row[i]` is that with the first `i`, `same` whether each is equal to the new one.
pub(super) fn extend(row: &mut [usize], same: impl Iterator<Item = bool>) {
    let mut diagonal = row[0];
    for (place, same) in same.enumerate() {
        let above = row[place + 1];
        row[place + 1] = if same { diagonal + 1 } else { above.max(row[place]) };
        diagonal = above;
    }
}
