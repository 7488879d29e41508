//! Patterns as bytes: for a file that outlives the learner.

mod course;
mod memory;

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::bytes::{Reader, Writer};
use crate::event::{Access, User};
use crate::names::{Name, Names, OVERHEAD_BYTES, SIZE_MAX};
use crate::numbered::NumberMap;
use crate::ours::WINDOW_MAX;
use crate::paper::{AccessTree, DEPTH_MAX, Leaf, NODES_MAX, Node};
use crate::patterns::{Habits, Patterns, Program};

/// What every encoding begins with.
const MAGIC: &[u8] = b"nearfirst patterns\n";
/// The form that follows. Others are refused: patterns are soon learned again.
const VERSION: u64 = 5;
/// The same, but that the time saved counts waits for other files: it is left out.
const VERSION_SAVED_TOO_MUCH: u64 = 4;
/// Memory for names: twice what learners keep of all that they know, by default. Bytes that
/// tell more were written by nobody who learned, and a short name takes many times its bytes.
const NAMES_BYTES_MAX: usize = 128 << 20;
/// Bytes of the checksum of all before it, at the end: there in every form, so that damage is not taken for
/// another form.
const CHECKSUM_BYTES: usize = 8;

/// Bytes are no patterns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They are something else.
    #[error("these bytes are no patterns of nearfirst")]
    NotPatterns,
    /// They are patterns of an earlier version of this library.
    #[error(
        "patterns of form {found}, of which this version knows nothing: it reads form {VERSION}"
    )]
    Version {
        /// The form's number.
        found: u64,
    },
    /// They are patterns of a later version of this library, which may still read them.
    #[error("patterns of form {found}, which a later version wrote: this one reads form {VERSION}")]
    Later {
        /// The form's number.
        found: u64,
    },
    /// They were patterns, but bytes changed or are missing.
    #[error("patterns are damaged at byte {at}")]
    Damaged {
        /// Where that was noticed.
        at: usize,
    },
}

impl Patterns {
    /// These patterns as bytes, which [`Self::decode`] understands; the same for the same patterns.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(MAGIC.to_vec());
        writer.number(VERSION);
        writer.count(self.users.len());
        for (user, habits) in &self.users {
            writer.number(u64::from(user.0));
            encode_habits(habits, &mut writer);
        }
        let checksum = checksum(&writer.0);
        writer.0.extend_from_slice(&checksum.to_le_bytes());
        writer.0
    }

    /// The patterns that [`Self::encode`] made bytes of.
    ///
    /// # Errors
    /// What is wrong with the bytes, which may be any.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if !bytes.starts_with(MAGIC) {
            return Err(DecodeError::NotPatterns);
        }
        let cut = DecodeError::Damaged { at: bytes.len() };
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(cut.clone())?;
        if checksum(content) != u64::from_le_bytes(*sum) {
            return Err(cut);
        }
        let mut reader = Reader::new(content.strip_prefix(MAGIC).ok_or(cut)?);
        let found = reader.number()?;
        match found.cmp(&VERSION) {
            Ordering::Less if found == VERSION_SAVED_TOO_MUCH => {}
            Ordering::Less => return Err(DecodeError::Version { found }),
            Ordering::Equal => {}
            Ordering::Greater => return Err(DecodeError::Later { found }),
        }
        let mut patterns = Self::default();
        let mut names_left = NAMES_BYTES_MAX;
        for _ in 0..reader.count()? {
            let user = User(reader.within(u64::from(u32::MAX))?);
            let habits = decode_habits(&mut reader, names_left)?;
            names_left -= habits.names.bytes();
            patterns.users.insert(user, habits);
        }
        reader.end()?;
        if found == VERSION_SAVED_TOO_MUCH {
            let programs = patterns.users.values_mut().flat_map(|it| it.programs.values_mut());
            programs.for_each(|program| program.account.saved = Duration::ZERO);
        }
        Ok(patterns)
    }
}

/// FNV-1a in 64 bits: it tells of damage, not of malice.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn encode_habits(habits: &Habits, writer: &mut Writer) {
    let mut used = vec![false; habits.names.len()];
    habits.names(&mut |name| used[name.0 as usize] = true);
    let mut numbers = Numbers::default();
    let all = (0..).map(Name).zip(&used).filter(|(_, used)| **used).map(|(name, _)| name);
    let all: Vec<Name> = all.collect();
    writer.count(all.len());
    for name in all {
        numbers.names.insert(name, numbers.names.len() as u64);
        writer.string(habits.names.path(name));
        // No file has the number 0.
        writer.number(habits.names.inode(name).unwrap_or(0));
        writer.number(habits.names.told_size(name).map_or(0, |size| size.min(SIZE_MAX) + 1));
    }
    let mut programs: Vec<(&Name, &Program)> = habits.programs.iter().collect();
    programs.sort_unstable_by_key(|(name, _)| **name);
    let mut trees = Writer::default();
    for (_, program) in &programs {
        program.trees.iter().for_each(|tree| numbers.tree(tree, &mut trees));
    }
    writer.count(numbers.trees.len());
    writer.0.append(&mut trees.0);
    writer.number(habits.ticks);
    writer.count(programs.len());
    for (name, program) in programs {
        writer.number(numbers.names[name]);
        writer.number(program.used);
        writer.count(program.inodes.len());
        program.inodes.iter().for_each(|&inode| writer.number(inode));
        encode_account(&program.account, writer);
        writer.count(program.trees.len());
        program.trees.iter().for_each(|tree| writer.number(numbers.trees[&Arc::as_ptr(tree)]));
    }
    writer.count(habits.window);
    memory::encode(&habits.memory, &numbers, writer);
    course::encode(&habits.course, &numbers, writer);
    for bar in habits.bars {
        writer.number(u64::from(bar.to_bits()));
    }
}

/// What names and trees are called in an encoding.
#[derive(Default)]
struct Numbers {
    names: NumberMap<Name, u64>,
    trees: std::collections::HashMap<*const AccessTree, u64>,
}

impl Numbers {
    /// Writes a tree after those below it, each once.
    fn tree(&mut self, tree: &Arc<AccessTree>, writer: &mut Writer) {
        if self.trees.contains_key(&Arc::as_ptr(tree)) {
            return;
        }
        for node in tree.children() {
            if let Node::Program { tree: Some(tree), .. } = node {
                self.tree(tree, writer);
            }
        }
        writer.count(tree.children().len());
        for node in tree.children() {
            match node {
                Node::Data { leaf, at } => {
                    writer.number(u64::from(leaf.access == Access::Write));
                    writer.number(self.names[&leaf.file]);
                    writer.number(milliseconds(*at));
                }
                Node::Program { program, file, at, tree } => {
                    writer.number(2);
                    writer.number(self.names[program]);
                    writer.number(self.names[file]);
                    writer.number(milliseconds(*at));
                    let tree = tree.as_ref().map(|tree| self.trees[&Arc::as_ptr(tree)] + 1);
                    writer.number(tree.unwrap_or(0));
                }
            }
        }
        self.trees.insert(Arc::as_ptr(tree), self.trees.len() as u64);
    }
}

fn decode_habits(reader: &mut Reader<'_>, names_bytes_max: usize) -> Result<Habits, DecodeError> {
    let mut names = Names::default();
    let count = reader.count()?;
    names.reserve(count.min(names_bytes_max / OVERHEAD_BYTES));
    for number in 0..count {
        // A name that comes twice would be one number less than those after it expect.
        if names.intern(&Arc::from(reader.string()?)).0 as usize != number {
            return Err(reader.damaged());
        }
        if names.bytes() > names_bytes_max {
            return Err(reader.damaged());
        }
        let name = Name(u32::try_from(number).map_err(|_| reader.damaged())?);
        let inode = reader.number()?;
        names.identify(name, (inode != 0).then_some(inode));
        let size: u64 = reader.within(SIZE_MAX + 1)?;
        names.resize(name, size.checked_sub(1));
    }
    let mut trees: Vec<Arc<AccessTree>> = Vec::new();
    for _ in 0..reader.count()? {
        let tree = decode_tree(reader, count, &trees)?;
        trees.push(Arc::new(tree));
    }
    let ticks = reader.number()?;
    let mut programs = NumberMap::default();
    for _ in 0..reader.count()? {
        let name = name(reader, count)?;
        let mut program = Program { used: reader.within(ticks)?, ..Program::default() };
        for _ in 0..reader.count()? {
            program.inodes.push(reader.number()?);
        }
        program.account = decode_account(reader)?;
        for _ in 0..reader.count()? {
            let number = reader.number()?;
            let tree = usize::try_from(number).ok().and_then(|number| trees.get(number));
            program.trees.push(Arc::clone(tree.ok_or_else(|| reader.damaged())?));
        }
        programs.insert(name, program);
    }
    let window = reader.within(WINDOW_MAX as u64)?;
    let memory = memory::decode(reader, count)?;
    let course = course::decode(reader, count)?;
    let bars = [bar(reader)?, bar(reader)?];
    Ok(Habits { names, programs, memory, ticks, window, course, bars, ..Habits::default() })
}

fn bar(reader: &mut Reader<'_>) -> Result<f32, DecodeError> {
    let chance = f32::from_bits(reader.within(u64::from(u32::MAX))?);
    if (0.0..=1.0).contains(&chance) { Ok(chance) } else { Err(reader.damaged()) }
}

fn name(reader: &mut Reader<'_>, count: usize) -> Result<Name, DecodeError> {
    let number: u32 = reader.within(u64::from(u32::MAX))?;
    if (number as usize) < count { Ok(Name(number)) } else { Err(reader.damaged()) }
}

fn decode_tree(
    reader: &mut Reader<'_>,
    names: usize,
    below: &[Arc<AccessTree>],
) -> Result<AccessTree, DecodeError> {
    let mut children = Vec::new();
    for _ in 0..reader.count()? {
        children.push(match reader.within(2)? {
            2_u8 => {
                let (program, file) = (name(reader, names)?, name(reader, names)?);
                let at = Duration::from_millis(reader.number()?);
                let tree = match reader.within(below.len() as u64)? {
                    0_usize => None,
                    number => Some(Arc::clone(&below[number - 1])),
                };
                Node::Program { program, file, at, tree }
            }
            access => {
                let access = if access == 0 { Access::Read } else { Access::Write };
                let leaf = Leaf { file: name(reader, names)?, access };
                Node::Data { leaf, at: Duration::from_millis(reader.number()?) }
            }
        });
    }
    let tree = AccessTree::new(children);
    if tree.depth() <= DEPTH_MAX && tree.nodes() <= NODES_MAX {
        Ok(tree)
    } else {
        Err(reader.damaged())
    }
}

fn encode_account(account: &Account, writer: &mut Writer) {
    for number in [
        account.runs,
        account.predicted,
        account.in_time,
        account.late,
        account.missed,
        account.near,
        account.unused,
        account.fetched_bytes,
        account.wasted_bytes,
        milliseconds(account.saved),
    ] {
        writer.number(number);
    }
}

fn decode_account(reader: &mut Reader<'_>) -> Result<Account, DecodeError> {
    Ok(Account {
        runs: reader.number()?,
        predicted: reader.number()?,
        in_time: reader.number()?,
        late: reader.number()?,
        missed: reader.number()?,
        near: reader.number()?,
        unused: reader.number()?,
        fetched_bytes: reader.number()?,
        wasted_bytes: reader.number()?,
        saved: Duration::from_millis(reader.number()?),
        ..Account::default()
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_take_more_memory_than_any_learner_has_are_damage() {
        let count = NAMES_BYTES_MAX / 100;
        let mut writer = Writer(MAGIC.to_vec());
        for number in [VERSION, 1, 0] {
            writer.number(number);
        }
        writer.count(count);
        for name in 0..count {
            writer.string(&name.to_le_bytes()[..4]);
            writer.number(0);
            writer.number(0);
        }
        let names_end = writer.0.len();
        let checksum = checksum(&writer.0);
        writer.0.extend_from_slice(&checksum.to_le_bytes());
        let Err(DecodeError::Damaged { at }) = Patterns::decode(&writer.0) else { panic!("read") };
        assert!(at + MAGIC.len() < names_end, "before the end of the names: {at}");
    }
}
