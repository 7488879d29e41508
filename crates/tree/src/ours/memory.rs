//! All that is known of one user's runs, by circumstance.

use std::ops::Range;
use std::time::Duration;

use super::{Beliefs, Chain, ChildEntry, Evidence, FileEntry, Guess, Pattern};
use crate::event::{Access, PARTS_BYTES_MIN};
use crate::names::Name;
use crate::numbered::{NumberMap, NumberSet};
use crate::ours::belief::{Alike, Bond, Kind};

/// Programs above one another that are looked through for what a program will have invoked.
const DEPTH_MAX: usize = 16;
/// Files expected of one run with all that it invokes.
pub(crate) const GUESSES_MAX: usize = 1 << 16;

/// Bytes between two parts that are fetched with them: they cost less than another read.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// Parts of one file; of more the nearest are joined. A large program has some hundred.
const PARTS_MAX: usize = 512;
/// Parts of all files that are known. Beyond it those go that were noted longest ago, an eighth at a
/// time: to find them takes a look at all.
const ALL_PARTS_MAX: usize = 1 << 18;
/// Memory for a file of which parts are known, about, beside them.
const TOUCHED_BYTES: usize = 64;

/// The parts of a file that were read last.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    pub(crate) extents: Vec<Range<u64>>,
    /// The number of the note: larger is later.
    pub(crate) note: u64,
}

/// The circumstance whose pattern tells of programs, and how they belong to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From(pub(crate) u64, pub(crate) Bond);

/// Patterns by circumstance, chains by executable, and beliefs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) patterns: NumberMap<u64, Pattern>,
    pub(crate) chains: NumberMap<Name, Chain>,
    /// The chain of all executables.
    pub(crate) chain: Chain,
    pub(crate) beliefs: Beliefs,
    /// The parts of files that were read last; of others, the whole was.
    pub(crate) touched: NumberMap<Name, Touched>,
    /// How many these are.
    parts: usize,
    /// How often parts were noted.
    notes: u64,
    /// Memory of the patterns, about.
    bytes: usize,
}

impl Memory {
    /// A memory of these; parts in the order in which they were noted.
    pub(crate) fn new(
        patterns: NumberMap<u64, Pattern>,
        (chains, chain): (NumberMap<Name, Chain>, Chain),
        beliefs: Beliefs,
        touched: Vec<(Name, Vec<Range<u64>>)>,
    ) -> Self {
        let bytes = patterns.values().map(Pattern::bytes).sum();
        let mut memory = Self { patterns, chains, chain, beliefs, bytes, ..Self::default() };
        for (file, extents) in touched {
            memory.note(file, extents);
        }
        memory
    }

    /// Takes a run into the pattern of a circumstance.
    pub(crate) fn learn(
        &mut self,
        circumstance: u64,
        program: Name,
        files: &[FileEntry],
        children: &[ChildEntry],
        tick: u64,
    ) {
        let pattern = self.patterns.entry(circumstance).or_insert_with(|| {
            self.bytes += size_of::<Pattern>();
            Pattern { program: Some(program), ..Pattern::default() }
        });
        self.bytes -= pattern.bytes() - size_of::<Pattern>();
        pattern.learn(files, children);
        pattern.used = tick;
        self.bytes += pattern.bytes() - size_of::<Pattern>();
    }

    /// Has a circumstance of which nothing is known begin with what is known of another one, whose
    /// program was `old` and is `program`.
    pub(crate) fn inherit(&mut self, (from, old): (u64, Name), (to, program): (u64, Name)) {
        if self.patterns.contains_key(&to) {
            return;
        }
        let Some(known) = self.patterns.get(&from) else { return };
        let mut known = Pattern { program: Some(program), ..known.clone() };
        // Its own file has another name.
        known.files.retain(|file| file.name != old);
        self.bytes += known.bytes();
        self.patterns.insert(to, known);
    }

    /// A run of an executable read a file first after another one.
    pub(crate) fn followed(&mut self, executable: Name, file: Name, next: Name) {
        self.chains.entry(executable).or_default().learn(file, next);
        self.chain.learn(file, next);
    }

    /// Notes which parts of a file were read.
    pub(crate) fn touched(&mut self, file: Name, size: Option<u64>, extents: Vec<Range<u64>>) {
        let extents = joined(extents);
        let read: u64 = extents.iter().map(|extent| extent.end - extent.start).sum();
        let size = size.or(extents.last().map(|extent| extent.end)).unwrap_or(0);
        self.parts -= self.touched.remove(&file).map_or(0, |known| known.extents.len());
        if size < PARTS_BYTES_MIN || read == 0 {
            return;
        }
        // That all of it is read is worth knowing: of a large one nobody saw less is fetched.
        let extents =
            if read >= size / 8 * 7 { vec![Range { start: 0, end: size }] } else { extents };
        self.note(file, extents);
    }

    fn note(&mut self, file: Name, extents: Vec<Range<u64>>) {
        self.parts += extents.len();
        self.notes += 1;
        let replaced = self.touched.insert(file, Touched { extents, note: self.notes });
        self.parts -= replaced.map_or(0, |known| known.extents.len());
        if self.parts > ALL_PARTS_MAX {
            self.forget_parts();
        }
    }

    /// Forgets an eighth of the parts, those that were noted longest ago.
    fn forget_parts(&mut self) {
        let mut notes: Vec<(u64, Name)> =
            self.touched.iter().map(|(&file, known)| (known.note, file)).collect();
        notes.sort_unstable();
        for (_, file) in notes {
            if self.parts <= ALL_PARTS_MAX / 8 * 7 {
                break;
            }
            self.parts -= self.touched.remove(&file).map_or(0, |known| known.extents.len());
        }
    }

    /// The parts of a file to fetch; none: the whole.
    pub(crate) fn extents(&self, file: Name) -> Vec<Range<u64>> {
        self.touched.get(&file).map(|known| known.extents.clone()).unwrap_or_default()
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
            + self.beliefs.bytes()
            + self.chains.values().map(Chain::bytes).sum::<usize>()
            + self.chain.bytes()
            + self.touched.len() * TOUCHED_BYTES
            + self.parts * size_of::<Range<u64>>()
    }

    /// What the programs that a run invokes will probably read, from the run's start on: so many
    /// files at most, of that chance at least.
    pub(crate) fn below(
        &self,
        program: Name,
        from: From,
        (most, least): (usize, f32),
    ) -> Vec<Guess> {
        let mut guesses = Vec::new();
        let mut seen = NumberSet::default();
        seen.insert(from.0);
        let bounds = (most.min(GUESSES_MAX), least);
        self.descend(program, from, (0, 1.0), bounds, DEPTH_MAX, &mut seen, &mut guesses);
        guesses
    }

    #[expect(clippy::too_many_arguments, reason = "a recursion carries what it was called with")]
    fn descend(
        &self,
        program: Name,
        from: From,
        (start, chance): (u32, f32),
        (most, least): (usize, f32),
        depth: usize,
        seen: &mut NumberSet<u64>,
        guesses: &mut Vec<Guess>,
    ) {
        let Some(pattern) = self.patterns.get(&from.0) else { return };
        for child in &pattern.children {
            let evidence = Evidence::of_child(child.history, pattern.runs, from.1);
            let chance = chance * self.beliefs.chance(program, evidence);
            if guesses.len() >= most {
                return;
            }
            if chance < least || depth == 0 || !seen.insert(child.invocation) {
                continue;
            }
            let Some(known) = self.patterns.get(&child.invocation) else { continue };
            let Some(program) = known.program else { continue };
            let start = start.saturating_add(child.at);
            for file in known.files.iter().filter(|file| file.access == Access::Read) {
                let own = (Some(file.history), known.runs);
                let evidence = Evidence::of_file(Alike::Exact, own, own, Kind::Literal, false);
                let chance = chance * self.beliefs.chance(program, evidence);
                if chance >= least && guesses.len() < most {
                    let at = Duration::from_millis(u64::from(start.saturating_add(file.at)));
                    let order = file.order;
                    guesses.push(Guess { file: file.name, at, order, chance, below: true });
                }
            }
            let from = From(child.invocation, Bond::Below);
            let start = (start, chance);
            self.descend(program, from, start, (most, least), depth - 1, seen, guesses);
        }
    }

    /// Forgets the pattern of a circumstance.
    pub(crate) fn forget(&mut self, circumstance: u64) {
        self.bytes -= self.patterns.remove(&circumstance).map_or(0, |pattern| pattern.bytes());
    }

    /// Forgets what is known of programs that are not to be kept.
    pub(crate) fn retain(&mut self, kept: impl Fn(Name) -> bool) {
        self.patterns.retain(|_, pattern| pattern.program.is_some_and(&kept));
        self.chains.retain(|executable, _| kept(*executable));
        self.beliefs.retain(&kept);
        self.bytes = self.patterns.values().map(Pattern::bytes).sum();
    }

    /// Forgets what followed but once, of files that are not to be kept.
    pub(crate) fn retain_repeated(&mut self, kept: impl Fn(Name) -> bool) {
        self.chains.values_mut().for_each(|chain| chain.retain_repeated(&kept));
        self.chain.retain_repeated(kept);
    }

    /// Forgets what is known of no program in particular, but of files that are not to be kept.
    pub(crate) fn retain_files(&mut self, kept: impl Fn(Name) -> bool) {
        self.chain.retain(&kept);
        self.retain_touched(kept);
    }

    /// Forgets the parts of files that are not to be kept.
    pub(crate) fn retain_touched(&mut self, kept: impl Fn(Name) -> bool) {
        self.touched.retain(|file, _| kept(*file));
        self.parts = self.touched.values().map(|known| known.extents.len()).sum();
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.names_of_programs(each);
        self.chain.names(each);
        self.touched.keys().for_each(|&file| each(file));
    }

    /// The names that are held because of what one program or another did.
    pub(crate) fn names_of_programs(&self, each: &mut impl FnMut(Name)) {
        self.names_of_patterns(each);
        for (&executable, chain) in &self.chains {
            each(executable);
            chain.names(each);
        }
        self.beliefs.own.keys().for_each(|(program, _)| each(*program));
    }

    /// The names in patterns.
    pub(crate) fn names_of_patterns(&self, each: &mut impl FnMut(Name)) {
        for pattern in self.patterns.values() {
            pattern.program.iter().for_each(|&program| each(program));
            pattern.files.iter().for_each(|file| each(file.name));
        }
    }
}

/// Extents in order, without small gaps and without being too many.
pub(super) fn joined(mut extents: Vec<Range<u64>>) -> Vec<Range<u64>> {
    extents.retain(|extent| extent.start < extent.end);
    extents.sort_unstable_by_key(|extent| extent.start);
    let mut gap = GAP_BYTES_MAX;
    loop {
        extents.dedup_by(|next, last| {
            let joins = next.start <= last.end.saturating_add(gap);
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        if extents.len() <= PARTS_MAX {
            return extents;
        }
        gap = gap.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_parts_those_that_were_read_longest_ago_are_forgotten() {
        let mut memory = Memory::default();
        let count = u32::try_from(ALL_PARTS_MAX).unwrap() + 1000;
        for file in 0..count {
            memory.touched(Name(file), Some(PARTS_BYTES_MIN), vec![Range { start: 0, end: 1 }]);
            // One that is read all the time is never the oldest.
            memory.touched(Name(0), Some(PARTS_BYTES_MIN), vec![Range { start: 0, end: 1 }]);
        }
        let knows = |file| !memory.extents(Name(file)).is_empty();
        assert!(knows(0) && !knows(1) && knows(count / 2) && knows(count - 1));
        assert!(memory.touched.len() <= ALL_PARTS_MAX);
    }
}
