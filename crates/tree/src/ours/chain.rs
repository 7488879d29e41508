//! Which file follows which in the runs of one executable.

use crate::names::Name;
use crate::numbered::{NumberMap, NumberSet};
use crate::ours::Evidence;

/// Files of one executable whose followers are remembered.
const LINKS_MAX: usize = 1 << 15;
/// Times from which on older ones fade.
const TIMES_MAX: u16 = 32;
/// Files that are looked ahead.
const AHEAD_MAX: usize = 12;
/// Steps to find them, over files that were opened already.
const STEPS_MAX: usize = 48;

/// The files that followed one: the two most frequent of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) first: Name,
    pub(crate) first_times: u16,
    pub(crate) second: Name,
    pub(crate) second_times: u16,
    /// Times that anything followed.
    pub(crate) total: u16,
}

/// Which file follows which: first reads of every file in a run only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    pub(crate) links: NumberMap<Name, Link>,
    pub(crate) used: u64,
}

impl Chain {
    /// `next` was read first in a run after `file` was.
    pub(crate) fn learn(&mut self, file: Name, next: Name) {
        if self.links.len() >= LINKS_MAX && !self.links.contains_key(&file) {
            self.links.retain(|_, link| link.total > 1);
            if self.links.len() >= LINKS_MAX {
                self.links.clear();
            }
        }
        let new = Link { first: next, first_times: 0, second: next, second_times: 0, total: 0 };
        let link = self.links.entry(file).or_insert(new);
        if link.total >= TIMES_MAX {
            link.first_times /= 2;
            link.second_times /= 2;
            link.total /= 2;
        }
        link.total += 1;
        if link.first == next {
            link.first_times += 1;
        } else if link.second == next {
            link.second_times += 1;
        } else {
            (link.second, link.second_times) = (next, 1);
        }
        if link.second_times > link.first_times {
            (link.first, link.second) = (link.second, link.first);
            (link.first_times, link.second_times) = (link.second_times, link.first_times);
        }
    }

    /// The files that will probably follow `file`, passing over those that were `opened`, each with
    /// the evidence for it.
    pub(crate) fn ahead(&self, file: Name, opened: &NumberSet<Name>) -> Vec<(Name, Evidence)> {
        let mut files: Vec<(Name, Evidence)> = Vec::new();
        let (mut times, mut total) = (TIMES_MAX, TIMES_MAX);
        let mut at = file;
        for _ in 0..STEPS_MAX {
            let Some(link) = self.links.get(&at) else { break };
            let (next, often) = match opened.contains(&link.first) {
                true if link.second_times > 0 && !opened.contains(&link.second) => {
                    // The most frequent one has been: what follows it if not that, follows now.
                    (link.second, link.second_times)
                }
                _ => (link.first, link.first_times),
            };
            let of = if next == link.second { link.total - link.first_times } else { link.total };
            if u32::from(often) * u32::from(total) <= u32::from(times) * u32::from(of.max(1)) {
                (times, total) = (often, of.max(1));
            }
            at = next;
            if !opened.contains(&next) && next != file {
                if files.iter().any(|(known, _)| *known == next) {
                    break;
                }
                files.push((next, Evidence::of_step(times, total, files.len() + 1)));
                if files.len() == AHEAD_MAX {
                    break;
                }
            }
        }
        files
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.links.len() * 24
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(runs: &[&[u32]]) -> Chain {
        let mut chain = Chain::default();
        for run in runs {
            run.windows(2).for_each(|pair| chain.learn(Name(pair[0]), Name(pair[1])));
        }
        chain
    }

    fn ahead(chain: &Chain, file: u32, opened: &[u32]) -> Vec<u32> {
        let opened = opened.iter().map(|&file| Name(file)).collect();
        chain.ahead(Name(file), &opened).into_iter().map(|(name, _)| name.0).collect()
    }

    #[test]
    fn what_followed_follows_passing_over_what_has_been() {
        let chain = learned(&[&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]]);
        assert_eq!(ahead(&chain, 2, &[1, 2]), [3, 4, 5]);
        assert_eq!(ahead(&chain, 2, &[1, 2, 3]), [4, 5]);
        assert_eq!(ahead(&chain, 9, &[]), [0; 0]);
    }

    #[test]
    fn a_circle_ends_and_the_frequent_follower_wins() {
        let chain = learned(&[&[1, 2, 1, 2, 1, 3], &[1, 2]]);
        assert_eq!(ahead(&chain, 1, &[1]), [2]);
        assert_eq!(ahead(&chain, 1, &[1, 2]), [3]);
    }
}
