//! How alike two access trees of a program are: Lei & Duchamp, section 2.3.

use super::{AccessTree, Leaf, Node};
use crate::names::Name;

/// The compatibility of a finished working tree with a pattern tree, from 0 to 1.
///
/// Half of it is the share of data files, of both trees, that can be paired without changing their
/// order; the other half the share of programs that root the same tree. 0 if the programs are not
/// the same in the same order. With no program the first share alone, with no data file the second.
pub(crate) fn compatibility(working: &AccessTree, pattern: &AccessTree) -> f64 {
    of(working.children(), pattern.children(), true)
}

/// The compatibility of a working tree that still grows: with what the pattern tree has up to the
/// place (its pivot) of the latest child of the working tree. Programs that still run count as the
/// same program, but not yet as the same tree.
///
/// The page of the paper breaks off before this case; this is the reading that its figure allows.
#[cfg(test)]
pub(crate) fn unfinished(working: &AccessTree, pattern: &AccessTree) -> f64 {
    match pivot(working.children(), pattern.children()) {
        Some(pivot) => of(working.children(), &pattern.children()[..pivot], false),
        None => 0.0,
    }
}

/// How many children of the pattern are behind or at the latest child of the working tree.
#[cfg(test)]
fn pivot(working: &[Node], pattern: &[Node]) -> Option<usize> {
    let mut pivot = 0;
    for child in working {
        let rest = pattern[pivot..].iter();
        match child {
            Node::Data { leaf, .. } => {
                let place = rest.take_while(|node| matches!(node, Node::Data { .. })).position(
                    |node| matches!(node, Node::Data { leaf: other, .. } if other == leaf),
                );
                pivot += place.map_or(0, |place| place + 1);
            }
            Node::Program { program, .. } => {
                let mut rest = rest.enumerate();
                let next = rest.find_map(|(place, node)| match node {
                    Node::Program { program, .. } => Some((place, program)),
                    Node::Data { .. } => None,
                });
                match next {
                    Some((place, other)) if other == program => pivot += place + 1,
                    _ => return None,
                }
            }
        }
    }
    Some(pivot)
}

fn of(working: &[Node], pattern: &[Node], finished: bool) -> f64 {
    let (ours, theirs) = (programs(working), programs(pattern));
    if ours.iter().map(|(name, _)| name).ne(theirs.iter().map(|(name, _)| name)) {
        return 0.0;
    }
    let compared = || ours.iter().zip(&theirs).filter(|(our, _)| finished || our.1.is_some());
    let alike = compared().filter(|(our, their)| our.1 == their.1).count();
    let pairs: usize = runs(working).iter().zip(&runs(pattern)).map(|(a, b)| common(a, b)).sum();
    let data = working.len() + pattern.len() - ours.len() - theirs.len();
    mean(2 * pairs, data, alike, compared().count())
}

/// The mean of two shares, `pairs / data` and `alike / programs`, of which one may be missing.
pub(super) fn mean(pairs: usize, data: usize, alike: usize, programs: usize) -> f64 {
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    match (data, programs) {
        (0, 0) => 0.0,
        (0, _) => share(alike, programs),
        (_, 0) => share(pairs, data),
        _ => f64::midpoint(share(pairs, data), share(alike, programs)),
    }
}

fn programs(children: &[Node]) -> Vec<(Name, Option<&AccessTree>)> {
    let mut programs = Vec::new();
    for node in children {
        if let Node::Program { program, tree, .. } = node {
            programs.push((*program, tree.as_deref()));
        }
    }
    programs
}

/// The data files between the programs: a pairing that keeps the order and pairs every program
/// pairs only files of the same stretch.
fn runs(children: &[Node]) -> Vec<Vec<Leaf>> {
    let mut runs = vec![Vec::new()];
    for child in children {
        match child {
            Node::Data { leaf, .. } => runs.last_mut().expect("there is a first").push(*leaf),
            Node::Program { .. } => runs.push(Vec::new()),
        }
    }
    runs
}

/// The length of the longest common subsequence.
fn common(a: &[Leaf], b: &[Leaf]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for leaf in a {
        super::matcher::extend(&mut row, b.iter().map(|other| other == leaf));
    }
    row[b.len()]
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "quotients of small numbers, rounded once")]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::event::Access;

    /// A tree from text: lower case is a data file, upper case a program; a program's tree follows
    /// in brackets, `~` means that it still runs.
    pub(crate) fn tree(text: &str) -> AccessTree {
        parse(&mut text.chars().peekable())
    }

    fn parse(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> AccessTree {
        let at = Duration::ZERO;
        let mut children = Vec::new();
        while let Some(letter) = text.next() {
            let name = Name(u32::from(letter));
            children.push(match letter {
                ')' => break,
                'A'..='Z' => {
                    let tree = match text.peek() {
                        Some('(') => {
                            text.next();
                            Some(parse(text))
                        }
                        Some('~') => text.next().and(None),
                        _ => Some(AccessTree::default()),
                    };
                    Node::Program { program: name, file: name, at, tree: tree.map(Arc::new) }
                }
                _ => Node::Data { leaf: Leaf { file: name, access: Access::Read }, at },
            });
        }
        AccessTree::new(children)
    }

    #[test]
    fn the_papers_example() {
        // Figure 2: four programs of which three root the same tree; of three data files and two
        // only the appearances of one pair: (2/5 + 3/4) / 2.
        let pattern = tree("B(x)C(y)eFGd");
        let working = tree("B(x)C(z)eFGab");
        let alpha = mean(2, 5, 0, 0);
        let beta = mean(0, 0, 3, 4);
        assert!((alpha - 0.4).abs() < 1e-12 && (beta - 0.75).abs() < 1e-12);
        assert!((compatibility(&working, &pattern) - 0.575).abs() < 1e-12);
    }

    #[test]
    fn other_programs_or_another_order_of_them_are_no_match() {
        assert_eq!(compatibility(&tree("aBC"), &tree("aB")), 0.0);
        assert_eq!(compatibility(&tree("aBC"), &tree("aCB")), 0.0);
        assert_eq!(compatibility(&tree("aBC"), &tree("aBC")), 1.0);
    }

    #[test]
    fn a_program_whose_end_is_not_known_roots_another_tree_once_the_run_is_over() {
        assert_eq!(compatibility(&tree("aB~"), &tree("aB(x)")), 0.5);
    }

    #[test]
    fn data_files_pair_in_order_only() {
        assert_eq!(compatibility(&tree("abc"), &tree("cab")), 4.0 / 6.0);
        assert_eq!(compatibility(&tree("aBb"), &tree("bBa")), 0.5);
        assert_eq!(compatibility(&tree(""), &tree("")), 0.0);
    }

    #[test]
    fn a_growing_tree_is_compared_up_to_its_pivot() {
        let pattern = tree("abB(x)cd");
        assert_eq!(unfinished(&tree("ab"), &pattern), 1.0);
        assert_eq!(unfinished(&tree("abB~"), &pattern), 1.0);
        assert_eq!(unfinished(&tree("abB(y)"), &pattern), 0.5);
        assert_eq!(unfinished(&tree("abC~"), &pattern), 0.0);
        assert_eq!(unfinished(&tree("zb"), &pattern), 0.5);
    }

    mod incremental {
        use proptest::prelude::*;

        use super::super::super::Matcher;
        use super::*;

        proptest! {
            #[test]
            fn a_matcher_is_the_definition_step_by_step(
                working in "([ab]|B~|B\\(a\\)|C~|C\\(b\\)){0,12}",
                pattern in "([ab]|B\\(a\\)|B\\(b\\)|C\\(b\\)){0,12}",
            ) {
                let (working, pattern) = (tree(&working), Arc::new(tree(&pattern)));
                let mut matcher = Matcher::new(Arc::clone(&pattern));
                let mut programs = 0;
                for (place, node) in working.children().iter().enumerate() {
                    match node {
                        Node::Data { leaf, .. } => matcher.opened(*leaf),
                        Node::Program { program, tree, .. } => {
                            matcher.invoked(*program);
                            if let Some(tree) = tree {
                                matcher.ended(programs, tree);
                            }
                            programs += 1;
                        }
                    }
                    let grown = AccessTree::new(working.children()[..=place].to_vec());
                    prop_assert_eq!(matcher.compatibility(), unfinished(&grown, &pattern));
                }
            }
        }
    }
}
