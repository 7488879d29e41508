//! Prediction by partial match: a trie of the sequences of files (Kroeger & Long, USENIX '96).

use std::collections::HashMap;
use std::time::Duration;

use super::names::{Name, Names};
use super::predictor::{Predictor, Says, reference};
use crate::{Decision, Event};

/// More nodes than this are not made: a trie of 2^22 takes some 200 MB, far more than any trace
/// here fills.
const NODES_MAX: usize = 1 << 22;

#[derive(Debug, Default)]
struct Node {
    count: u32,
    children: Vec<(Name, usize)>,
}

/// Files that followed the last files, however many of them they followed, with at least a share of
/// the times as probability.
///
/// The trie counts every sequence of up to `order + 1` files; after each file the contexts of the
/// last `order` files and fewer, down to one, predict all that followed them often enough.
#[derive(Debug)]
pub struct Ppm {
    order: usize,
    threshold: f64,
    names: Names,
    says: Says,
    nodes: Vec<Node>,
    index: HashMap<(usize, Name), usize>,
    /// The nodes of the last files: the root, of the last file, of the last two, …
    contexts: Vec<usize>,
}

impl Ppm {
    /// The paper found 0.1 to 0.05 best.
    pub const THRESHOLD: f64 = 0.1;

    /// `order` files are looked back at; what had at least the probability `threshold` is
    /// predicted. The paper found an order of 2 best.
    pub fn new(order: usize, threshold: f64) -> Self {
        Self {
            order,
            threshold,
            names: Names::default(),
            says: Says::default(),
            nodes: vec![Node::default()],
            index: HashMap::new(),
            contexts: vec![0],
        }
    }

    fn count(&mut self, name: Name) {
        let mut contexts = vec![0];
        for context in std::mem::take(&mut self.contexts) {
            if let Some(node) = self.child(context, name) {
                self.nodes[node].count += 1;
                contexts.push(node);
            }
        }
        contexts.truncate(self.order + 1);
        self.contexts = contexts;
    }

    fn child(&mut self, node: usize, name: Name) -> Option<usize> {
        if let Some(&child) = self.index.get(&(node, name)) {
            return Some(child);
        }
        if self.nodes.len() == NODES_MAX {
            return None;
        }
        let child = self.nodes.len();
        self.nodes.push(Node::default());
        self.nodes[node].children.push((name, child));
        self.index.insert((node, name), child);
        Some(child)
    }

    fn likely(&self) -> Vec<(Name, f64)> {
        let mut likely: Vec<(Name, f64)> = Vec::new();
        for &context in self.contexts[1..].iter().rev() {
            let context = &self.nodes[context];
            // What follows this time is not known yet.
            let before = f64::from(context.count - 1);
            for &(name, child) in &context.children {
                let chance = f64::from(self.nodes[child].count) / before;
                if chance >= self.threshold && likely.iter().all(|&(known, _)| known != name) {
                    likely.push((name, chance));
                }
            }
        }
        likely.sort_by(|a, b| b.1.total_cmp(&a.1));
        likely
    }
}

impl Predictor for Ppm {
    fn on(&mut self, event: &Event, _now: Duration) -> Vec<Decision> {
        let Some((process, file)) = reference(event) else { return Vec::new() };
        let name = self.names.number(&file.path);
        self.count(name);
        #[expect(clippy::cast_possible_truncation, reason = "a chance has no more digits")]
        let said = |(name, chance): (Name, f64)| (self.names.bytes(name), chance as f32);
        let files = self.likely().into_iter().map(said).collect();
        self.says.fetch(process, files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, File, Process};

    fn told(ppm: &mut Ppm, name: &str) -> Vec<(String, f32)> {
        let path = name.as_bytes().into();
        let file = File { path, identity: None, size: None };
        let event = Event::Opened { process: Process(1), file, access: Access::Read };
        match ppm.on(&event, Duration::ZERO).pop() {
            Some(Decision::Fetch(prediction)) => {
                let said = |file: &crate::Predicted| {
                    (String::from_utf8(file.path.to_vec()).unwrap(), file.chance)
                };
                prediction.files.iter().map(said).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn longer_contexts_are_believed_first() {
        let mut ppm = Ppm::new(2, 0.3);
        for name in "abcxbdabcxbd".chars() {
            told(&mut ppm, &name.to_string());
        }
        told(&mut ppm, "x");
        // After b alone came c and d, twice each; after x and b only d.
        assert_eq!(told(&mut ppm, "b"), [("d".to_owned(), 1.0), ("c".to_owned(), 0.5)]);
    }

    #[test]
    fn what_followed_too_seldom_is_left_out() {
        let mut ppm = Ppm::new(1, 0.5);
        for name in "abababac".chars() {
            told(&mut ppm, &name.to_string());
        }
        assert_eq!(told(&mut ppm, "a"), [("b".to_owned(), 0.75)]);
    }
}
