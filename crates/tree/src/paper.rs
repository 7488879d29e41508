//! Access trees, their compatibility and their use as Lei & Duchamp have it.

mod compatibility;
mod matcher;
mod tree;
mod working;

pub(crate) use matcher::Matcher;
pub(crate) use tree::{AccessTree, Leaf, Node};
pub(crate) use working::{DEPTH_MAX, Foreseen, NODES_MAX, Working, save};
