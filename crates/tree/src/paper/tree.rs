//! The access tree of one run of a program.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::event::Access;
use crate::names::Name;

/// A data file below a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Leaf {
    pub(crate) file: Name,
    pub(crate) access: Access,
}

/// What a program opened or invoked, and when, from its own start.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Data {
        leaf: Leaf,
        at: Duration,
    },
    Program {
        program: Name,
        /// The file that was executed, which for a script is another one.
        file: Name,
        at: Duration,
        /// Its own tree, once it has ended.
        tree: Option<Arc<AccessTree>>,
    },
}

/// What one run of a program opened and invoked, in order of time; consecutive accesses to one file
/// are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessTree {
    children: Vec<Node>,
    digest: u64,
    nodes: usize,
    depth: usize,
}

impl AccessTree {
    pub(crate) fn new(children: Vec<Node>) -> Self {
        let mut hasher = DefaultHasher::new();
        let (mut nodes, mut depth) = (1, 1);
        for child in &children {
            match child {
                Node::Data { leaf, .. } => {
                    leaf.hash(&mut hasher);
                    nodes += 1;
                }
                Node::Program { program, tree, .. } => {
                    let subtree = tree.as_ref().map(|tree| tree.digest);
                    (program, subtree).hash(&mut hasher);
                    let below = tree.as_ref().map_or(1, |tree| tree.nodes);
                    nodes = usize::saturating_add(nodes, below);
                    depth = depth.max(1 + tree.as_ref().map_or(0, |tree| tree.depth));
                }
            }
        }
        Self { children, digest: hasher.finish(), nodes, depth }
    }

    pub(crate) fn children(&self) -> &[Node] {
        &self.children
    }

    /// Programs and files, this one included.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Programs above one another, this one included.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }
}

/// Trees are equal if the same files and programs are in the same places; times do not count.
impl PartialEq for AccessTree {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.children.len() == other.children.len()
    }
}

impl Eq for AccessTree {}

impl Node {
    /// All names in it.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        match self {
            Self::Data { leaf, .. } => each(leaf.file),
            Self::Program { program, file, tree, .. } => {
                each(*program);
                each(*file);
                if let Some(tree) = tree {
                    tree.names(each);
                }
            }
        }
    }
}

impl AccessTree {
    /// All names in it.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.children.iter().for_each(|node| node.names(each));
    }
}
