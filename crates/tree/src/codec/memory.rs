//! Our patterns, chains and beliefs as bytes.

use super::{DecodeError, Numbers, name};
use crate::bytes::{Reader, Writer};
use crate::event::Access;
use crate::names::Name;
use crate::numbered::NumberMap;
use crate::ours::{
    Beliefs, Cases, Chain, ChildEntry, Evidence, FileEntry, Link, Memory, Pattern, RUNS_MAX,
    Touched,
};

pub(super) fn encode(memory: &Memory, numbers: &Numbers, writer: &mut Writer) {
    let patterns = memory.patterns.iter();
    let mut patterns: Vec<(u64, Name, &Pattern)> =
        patterns.filter_map(|(&key, pattern)| Some((key, pattern.program?, pattern))).collect();
    patterns.sort_unstable_by_key(|(key, ..)| *key);
    writer.count(patterns.len());
    for (key, program, pattern) in patterns {
        writer.fixed(key);
        writer.number(numbers.names[&program]);
        writer.number(u64::from(pattern.runs));
        writer.number(pattern.used);
        encode_pattern(pattern, numbers, writer);
    }
    let mut chains: Vec<(&Name, &Chain)> = memory.chains.iter().collect();
    chains.sort_unstable_by_key(|(name, _)| **name);
    writer.count(chains.len());
    for (executable, chain) in chains {
        writer.number(numbers.names[executable]);
        encode_chain(chain, numbers, writer);
    }
    encode_chain(&memory.chain, numbers, writer);
    encode_beliefs(&memory.beliefs, numbers, writer);
    // In the order in which they were noted.
    let mut touched: Vec<(&Name, &Touched)> = memory.touched.iter().collect();
    touched.sort_unstable_by_key(|(_, known)| known.note);
    writer.count(touched.len());
    for (file, Touched { extents, .. }) in touched {
        writer.number(numbers.names[file]);
        writer.count(extents.len());
        for extent in extents {
            writer.number(extent.start);
            writer.number(extent.end);
        }
    }
}

fn encode_pattern(pattern: &Pattern, numbers: &Numbers, writer: &mut Writer) {
    writer.count(pattern.files.len());
    let mut before = 0;
    for file in &pattern.files {
        let number = numbers.names[&file.name];
        writer.number(number - before);
        before = number;
        writer.number(u64::from(file.history) << 1 | u64::from(file.access == Access::Write));
        writer.number(u64::from(file.at));
        writer.number(u64::from(file.order));
    }
    writer.count(pattern.children.len());
    for child in &pattern.children {
        writer.fixed(child.invocation);
        writer.number(u64::from(child.history));
        writer.number(u64::from(child.at));
    }
}

fn encode_chain(chain: &Chain, numbers: &Numbers, writer: &mut Writer) {
    let mut links: Vec<(&Name, &Link)> = chain.links.iter().collect();
    links.sort_unstable_by_key(|(name, _)| **name);
    writer.count(links.len());
    for (file, link) in links {
        for name in [*file, link.first, link.second] {
            writer.number(numbers.names[&name]);
        }
        for times in [link.first_times, link.second_times, link.total] {
            writer.number(u64::from(times));
        }
    }
}

fn encode_beliefs(beliefs: &Beliefs, numbers: &Numbers, writer: &mut Writer) {
    let cases = |cases: &Cases, writer: &mut Writer| {
        writer.number(u64::from(cases.came));
        writer.number(u64::from(cases.all));
    };
    let mut shared: Vec<(&Evidence, &Cases)> = beliefs.shared.iter().collect();
    shared.sort_unstable_by_key(|(evidence, _)| **evidence);
    writer.count(shared.len());
    for (evidence, counted) in shared {
        writer.number(u64::from(evidence.0));
        cases(counted, writer);
    }
    let mut own: Vec<(&(Name, Evidence), &Cases)> = beliefs.own.iter().collect();
    own.sort_unstable_by_key(|(key, _)| **key);
    writer.count(own.len());
    for ((program, evidence), counted) in own {
        writer.number(numbers.names[program]);
        writer.number(u64::from(evidence.0));
        cases(counted, writer);
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, names: usize) -> Result<Memory, DecodeError> {
    let mut patterns = NumberMap::default();
    for _ in 0..reader.count()? {
        let key = reader.fixed()?;
        let program = Some(name(reader, names)?);
        let runs = reader.within(u64::from(RUNS_MAX))?;
        let used = reader.number()?;
        let files = decode_files(reader, names)?;
        let children = decode_children(reader)?;
        patterns.insert(key, Pattern { program, runs, used, files, children });
    }
    let mut chains = NumberMap::default();
    for _ in 0..reader.count()? {
        let executable = name(reader, names)?;
        chains.insert(executable, decode_chain(reader, names)?);
    }
    let chain = decode_chain(reader, names)?;
    let beliefs = decode_beliefs(reader, names)?;
    let mut touched = Vec::new();
    for _ in 0..reader.count()? {
        let file = name(reader, names)?;
        let mut extents = Vec::new();
        for _ in 0..reader.count()? {
            extents.push(reader.number()?..reader.number()?);
        }
        let damaged = extents.is_empty() || extents.iter().any(std::ops::Range::is_empty);
        if damaged || extents.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err(reader.damaged());
        }
        touched.push((file, extents));
    }
    Ok(Memory::new(patterns, (chains, chain), beliefs, touched))
}

fn decode_files(reader: &mut Reader<'_>, names: usize) -> Result<Vec<FileEntry>, DecodeError> {
    let mut files: Vec<FileEntry> = Vec::new();
    let mut before = 0_u32;
    for _ in 0..reader.count()? {
        let step: u32 = reader.within(u64::from(u32::MAX))?;
        let number = before.checked_add(step).filter(|&number| (number as usize) < names);
        let number = number.ok_or_else(|| reader.damaged())?;
        if step == 0 && !files.is_empty() {
            return Err(reader.damaged());
        }
        before = number;
        let history: u32 = reader.within(u64::from(u16::MAX) << 1 | 1)?;
        files.push(FileEntry {
            name: Name(number),
            history: u16::try_from(history >> 1).map_err(|_| reader.damaged())?,
            access: if history & 1 == 1 { Access::Write } else { Access::Read },
            at: reader.within(u64::from(u32::MAX))?,
            order: reader.within(u64::from(u32::MAX))?,
        });
    }
    Ok(files)
}

fn decode_children(reader: &mut Reader<'_>) -> Result<Vec<ChildEntry>, DecodeError> {
    let mut children: Vec<ChildEntry> = Vec::new();
    for _ in 0..reader.count()? {
        let invocation = reader.fixed()?;
        if children.last().is_some_and(|before| before.invocation >= invocation) {
            return Err(reader.damaged());
        }
        let history = reader.within(u64::from(u16::MAX))?;
        children.push(ChildEntry { invocation, history, at: reader.within(u64::from(u32::MAX))? });
    }
    Ok(children)
}

fn decode_chain(reader: &mut Reader<'_>, names: usize) -> Result<Chain, DecodeError> {
    let mut chain = Chain::default();
    for _ in 0..reader.count()? {
        let file = name(reader, names)?;
        let (first, second) = (name(reader, names)?, name(reader, names)?);
        let most = u64::from(u16::MAX / 2);
        let (first_times, second_times) = (reader.within(most)?, reader.within(most)?);
        let total = reader.within(most)?;
        if first_times > total || second_times > first_times {
            return Err(reader.damaged());
        }
        chain.links.insert(file, Link { first, first_times, second, second_times, total });
    }
    Ok(chain)
}

fn decode_beliefs(reader: &mut Reader<'_>, names: usize) -> Result<Beliefs, DecodeError> {
    let mut beliefs = Beliefs::default();
    let evidence =
        |reader: &mut Reader<'_>| reader.within(u64::from(Evidence::LARGEST)).map(Evidence);
    let cases = |reader: &mut Reader<'_>| {
        let came = reader.within(u64::from(u16::MAX / 2))?;
        let all = reader.within(u64::from(u16::MAX / 2))?;
        if came <= all { Ok(Cases { came, all }) } else { Err(reader.damaged()) }
    };
    for _ in 0..reader.count()? {
        let evidence = evidence(reader)?;
        beliefs.shared.insert(evidence, cases(reader)?);
    }
    for _ in 0..reader.count()? {
        let key = (name(reader, names)?, evidence(reader)?);
        beliefs.own.insert(key, cases(reader)?);
    }
    Ok(beliefs)
}
