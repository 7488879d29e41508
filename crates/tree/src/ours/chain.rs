//! Which file follows which in the runs of one executable.

use crate::names::Name;
use crate::numbered::{NumberMap, NumberSet};
use crate::ours::Evidence;

/// Files whose followers are remembered, for one executable or for all: some megabytes.
const LINKS_MAX: usize = 1 << 17;
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

impl Link {
    /// The names that it and the file before it have.
    fn names(&self, file: Name) -> [Name; 3] {
        [file, self.first, self.second]
    }
}

/// Which file follows which: first reads of every file in a run only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    pub(crate) links: NumberMap<Name, Link>,
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

    /// The next file behind `at` that is not `opened`, or that was most often next if all are, with
    /// how often it was, of how many times.
    fn next(&self, at: Name, opened: &NumberSet<Name>) -> Option<(Name, u16, u16)> {
        let link = self.links.get(&at)?;
        let second = link.second_times > 0 && !opened.contains(&link.second);
        if opened.contains(&link.first) && second {
            // The most frequent one has been: what follows if not that, follows now.
            let others = link.total - link.first_times;
            return Some((link.second, link.second_times, others.max(1)));
        }
        Some((link.first, link.first_times, link.total))
    }

    /// Forgets what follows what, unless both are to be kept.
    pub(crate) fn retain(&mut self, kept: impl Fn(Name) -> bool) {
        self.links.retain(|&file, link| link.names(file).into_iter().all(&kept));
    }

    /// Forgets what followed but once, unless both are to be kept.
    pub(crate) fn retain_repeated(&mut self, kept: impl Fn(Name) -> bool) {
        self.links.retain(|&file, link| link.total > 1 || link.names(file).into_iter().all(&kept));
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        for (&file, link) in &self.links {
            link.names(file).into_iter().for_each(&mut *each);
        }
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.links.len() * 24
    }
}

/// The files that will probably follow `file`, passing over those that were `opened`, each with the
/// evidence for it: by an executable's own chain, and where that ends by the one of all.
pub(crate) fn ahead(
    (own, shared): (Option<&Chain>, &Chain),
    file: Name,
    opened: &NumberSet<Name>,
) -> Vec<(Name, Evidence)> {
    let mut files: Vec<(Name, Evidence)> = Vec::new();
    let (mut times, mut total, mut foreign) = (TIMES_MAX, TIMES_MAX, false);
    let mut at = file;
    for _ in 0..STEPS_MAX {
        let next = own.and_then(|own| own.next(at, opened));
        foreign |= next.is_none();
        let Some((next, often, of)) = next.or_else(|| shared.next(at, opened)) else { break };
        if u32::from(often) * u32::from(total) <= u32::from(times) * u32::from(of) {
            (times, total) = (often, of);
        }
        at = next;
        if opened.contains(&next) || next == file {
            continue;
        }
        if files.iter().any(|(known, _)| *known == next) {
            break;
        }
        files.push((next, Evidence::of_step(times, total, files.len() + 1, foreign)));
        if files.len() == AHEAD_MAX {
            break;
        }
    }
    files
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

    fn following(chain: &Chain, file: u32, opened: &[u32]) -> Vec<u32> {
        let opened = opened.iter().map(|&file| Name(file)).collect();
        let own = (Some(chain), &Chain::default());
        ahead(own, Name(file), &opened).into_iter().map(|(name, _)| name.0).collect()
    }

    #[test]
    fn what_followed_follows_passing_over_what_has_been() {
        let chain = learned(&[&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]]);
        assert_eq!(following(&chain, 2, &[1, 2]), [3, 4, 5]);
        assert_eq!(following(&chain, 2, &[1, 2, 3]), [4, 5]);
        assert_eq!(following(&chain, 9, &[]), [0; 0]);
    }

    #[test]
    fn a_circle_ends_and_the_frequent_follower_wins() {
        let chain = learned(&[&[1, 2, 1, 2, 1, 3], &[1, 2]]);
        assert_eq!(following(&chain, 1, &[1]), [2]);
        assert_eq!(following(&chain, 1, &[1, 2]), [3]);
    }

    #[test]
    fn what_followed_more_than_once_outlives_what_is_not_kept() {
        let mut chain = Chain::default();
        for (file, next) in [(1, 2), (1, 2), (3, 4), (5, 6)] {
            chain.learn(Name(file), Name(next));
        }
        chain.retain_repeated(|file| file.0 >= 5);
        let mut left: Vec<Name> = chain.links.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [Name(1), Name(5)]);
    }
}
