//! The working tree of a program that runs, and when it makes a prediction: section 2.2.

use std::sync::Arc;
use std::time::Duration;

use super::compatibility::compatibility;
use super::{AccessTree, Leaf, Matcher, Node};
use crate::event::Access;
use crate::names::Name;

/// Children of one program that are recorded. A program with more reads a folder tree or serves
/// others; where it goes on is not told by where it began.
const CHILDREN_MAX: usize = 4096;
/// Nodes of a tree that is kept, programs below included: a large build has some hundred thousand.
pub(crate) const NODES_MAX: usize = 1 << 18;
/// Programs above one another in a tree that is kept: what recurses over a tree is bounded by it.
pub(crate) const DEPTH_MAX: usize = 64;
/// Files of one prediction.
const FORESEEN_MAX: usize = 1 << 16;

/// A file that a pattern tree has and the working tree does not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Foreseen {
    pub(crate) file: Name,
    /// From the start of the program.
    pub(crate) at: Duration,
}

/// The working tree of a run, against all pattern trees of its program.
#[derive(Debug)]
pub(crate) struct Working {
    children: Vec<Node>,
    /// Places of the programs among `children`.
    programs: Vec<usize>,
    matchers: Vec<Matcher>,
    /// Which of `matchers` was predicted from.
    predicted: Option<usize>,
    overfull: bool,
}

impl Working {
    /// A run that begins: `patterns` in the order they were saved, and the tree that a prediction
    /// for the program above holds for it.
    pub(crate) fn new(patterns: &[Arc<AccessTree>], inherited: Option<Arc<AccessTree>>) -> Self {
        let mut matchers: Vec<Matcher> =
            patterns.iter().map(|pattern| Matcher::new(Arc::clone(pattern))).collect();
        let predicted = inherited.map(|tree| {
            matchers.push(Matcher::new(tree));
            matchers.len() - 1
        });
        let (children, programs) = (Vec::new(), Vec::new());
        Self { children, programs, matchers, predicted, overfull: false }
    }

    /// The program opened a file; gives what is to be predicted.
    pub(crate) fn opened(&mut self, leaf: Leaf, at: Duration, threshold: f64) -> Vec<Foreseen> {
        if matches!(self.children.last(), Some(Node::Data { leaf: last, .. }) if *last == leaf) {
            return Vec::new();
        }
        if !self.append(Node::Data { leaf, at }) {
            return Vec::new();
        }
        self.matchers.iter_mut().for_each(|matcher| matcher.opened(leaf));
        self.decide(threshold)
    }

    /// The program invoked another one; gives what is to be predicted.
    pub(crate) fn invoked(
        &mut self,
        (program, file): (Name, Name),
        at: Duration,
        threshold: f64,
    ) -> Vec<Foreseen> {
        if !self.append(Node::Program { program, file, at, tree: None }) {
            return Vec::new();
        }
        self.programs.push(self.children.len() - 1);
        self.matchers.iter_mut().for_each(|matcher| matcher.invoked(program));
        self.decide(threshold)
    }

    /// How many programs this one invoked, and what is predicted for the last of them.
    pub(crate) fn last_invoked(&self) -> (usize, Option<Arc<AccessTree>>) {
        let predicted = self.predicted.and_then(|place| self.matchers[place].subtree());
        (self.programs.len(), predicted.map(Arc::clone))
    }

    /// The `nth` of the invoked programs ended.
    pub(crate) fn ended(&mut self, nth: usize, ended: &Arc<AccessTree>) {
        let Some(&place) = self.programs.get(nth) else { return };
        if let Node::Program { tree, .. } = &mut self.children[place] {
            *tree = Some(Arc::clone(ended));
        }
        self.matchers.iter_mut().for_each(|matcher| matcher.ended(nth, ended));
    }

    /// The run's tree; nothing if it was too large to be kept.
    pub(crate) fn finish(self) -> Option<AccessTree> {
        let tree = AccessTree::new(self.children);
        let fits = !self.overfull && tree.nodes() <= NODES_MAX && tree.depth() <= DEPTH_MAX;
        fits.then_some(tree)
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        for node in &self.children {
            node.names(each);
        }
        self.matchers.iter().for_each(|matcher| matcher.names(each));
    }

    fn append(&mut self, node: Node) -> bool {
        self.overfull |= self.children.len() == CHILDREN_MAX;
        if !self.overfull {
            self.children.push(node);
        }
        !self.overfull
    }

    fn decide(&mut self, threshold: f64) -> Vec<Foreseen> {
        let matches = |matcher: &Matcher| matcher.compatibility() > threshold;
        if self.predicted.is_some_and(|place| matches(&self.matchers[place])) {
            return Vec::new();
        }
        let best = (self.matchers.iter().enumerate()).filter(|(_, matcher)| matches(matcher));
        // Of equals the last: the one saved most recently.
        let best = best.max_by(|a, b| a.1.compatibility().total_cmp(&b.1.compatibility()));
        let Some((place, matcher)) = best else { return Vec::new() };
        self.predicted = Some(place);
        let mut files = Vec::new();
        flatten(matcher.rest(), Duration::ZERO, &mut files);
        files
    }
}

/// The files of a tree that may be predicted, in its order.
fn flatten(nodes: &[Node], start: Duration, files: &mut Vec<Foreseen>) {
    for node in nodes {
        if files.len() >= FORESEEN_MAX {
            return;
        }
        match node {
            Node::Data { leaf: Leaf { file, access: Access::Read }, at } => {
                files.push(Foreseen { file: *file, at: start + *at });
            }
            Node::Data { .. } => {}
            Node::Program { file, at, tree, .. } => {
                files.push(Foreseen { file: *file, at: start + *at });
                if let Some(tree) = tree {
                    flatten(tree.children(), start + *at, files);
                }
            }
        }
    }
}

/// Keeps the tree of a run that ended: in the place of the pattern tree it is most compatible with,
/// if one matches, else beside them, the one saved longest ago giving way.
///
/// The page of the paper breaks off here; this agrees with what is said of it elsewhere.
pub(crate) fn save(
    trees: &mut Vec<Arc<AccessTree>>,
    tree: Arc<AccessTree>,
    threshold: f64,
    trees_max: usize,
) {
    let alike = trees.iter().map(|pattern| compatibility(&tree, pattern)).enumerate();
    let best = alike.max_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((place, alike)) if alike > threshold => drop(trees.remove(place)),
        _ if trees.len() >= trees_max.max(1) => drop(trees.remove(0)),
        _ => {}
    }
    trees.push(tree);
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: f64 = 0.45;

    fn read(file: u32) -> Leaf {
        Leaf { file: Name(file), access: Access::Read }
    }

    fn data(file: u32, seconds: u64) -> Node {
        Node::Data { leaf: read(file), at: Duration::from_secs(seconds) }
    }

    fn program(name: u32, seconds: u64, children: Vec<Node>) -> Node {
        let (name, at) = (Name(name), Duration::from_secs(seconds));
        let tree = Some(Arc::new(AccessTree::new(children)));
        Node::Program { program: name, file: name, at, tree }
    }

    fn nothing_known() -> Working {
        Working::new(&[], None)
    }

    #[test]
    fn times_are_counted_from_the_start_of_the_program_that_is_predicted_for() {
        let lowest = program(4, 4, vec![data(5, 5)]);
        let below = program(2, 2, vec![data(3, 3), lowest]);
        let pattern = Arc::new(AccessTree::new(vec![data(1, 1), below]));
        let foreseen = Working::new(&[pattern], None).opened(read(1), Duration::ZERO, THRESHOLD);
        let times: Vec<_> = foreseen.iter().map(|file| (file.file.0, file.at.as_secs())).collect();
        assert_eq!(times, [(2, 2), (3, 2 + 3), (4, 2 + 4), (5, 2 + 4 + 5)]);
    }

    #[test]
    fn consecutive_reads_of_one_file_are_one() {
        let mut working = nothing_known();
        for file in [1, 1, 2, 1] {
            working.opened(read(file), Duration::ZERO, THRESHOLD);
        }
        let tree = working.finish().expect("it is small");
        let is_read = |(node, file): (&Node, u32)| matches!(node, Node::Data { leaf, .. } if *leaf == read(file));
        assert_eq!(tree.children().len(), 3);
        assert!(tree.children().iter().zip([1, 2, 1]).all(is_read), "{tree:?}");
    }

    #[test]
    fn of_a_run_with_too_many_children_no_tree_is_kept() {
        for (children, is_kept) in [(CHILDREN_MAX, true), (CHILDREN_MAX + 1, false)] {
            let mut working = nothing_known();
            for file in 0..u32::try_from(children).expect("small") {
                working.opened(read(file), Duration::ZERO, THRESHOLD);
            }
            assert_eq!(working.finish().is_some(), is_kept, "{children}");
        }
    }
}
