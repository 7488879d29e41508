//! The order of the last reads as bytes.

use super::{DecodeError, Numbers, name};
use crate::bytes::{Reader, Writer};
use crate::names::Name;
use crate::ours::{Held, KEPT_MAX, Kept, Start, Step};

pub(super) fn encode(course: &[Kept], numbers: &Numbers, writer: &mut Writer) {
    writer.count(course.len());
    let mut before = 0_u32;
    for Kept { step, start } in course {
        writer.number(numbers.names[&step.file]);
        writer.number(u64::from(step.at.wrapping_sub(before)));
        before = step.at;
        writer.number(u64::from(step.next) << 1 | u64::from(step.parted));
        for held in [step.all, step.run] {
            writer.number(u64::from(held.bits) << 4 | u64::from(held.times));
        }
        writer.number(start.as_ref().map_or(0, |start| numbers.names[&start.executable] + 1));
        if let Some(Start { contexts, .. }) = start {
            writer.count(contexts.len());
            for &context in contexts {
                writer.fixed(context);
            }
        }
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, names: usize) -> Result<Vec<Kept>, DecodeError> {
    let count = reader.count()?;
    if count > KEPT_MAX {
        return Err(reader.damaged());
    }
    let mut course = Vec::new();
    let mut before = 0_u32;
    for _ in 0..count {
        let file = name(reader, names)?;
        let at = before.wrapping_add(reader.within(u64::from(u32::MAX))?);
        before = at;
        let next: u32 = reader.within(u64::from(u16::MAX) << 1 | 1)?;
        let parted = next & 1 == 1;
        let next = u16::try_from(next >> 1).map_err(|_| reader.damaged())?;
        let (all, run) = (held(reader)?, held(reader)?);
        let start = match reader.within(names as u64)? {
            0 => None,
            number => {
                let executable = Name(number - 1);
                let contexts =
                    (0..reader.count()?).map(|_| reader.fixed()).collect::<Result<_, _>>()?;
                Some(Start { executable, contexts })
            }
        };
        course.push(Kept { step: Step { file, at, next, parted, all, run }, start });
    }
    Ok(course)
}

fn held(reader: &mut Reader<'_>) -> Result<Held, DecodeError> {
    let number: u16 = reader.within(u64::from(u8::MAX) << 4 | u64::from(Held::TIMES_MAX))?;
    let narrow = |number: u16| u8::try_from(number).map_err(|_| reader.damaged());
    let (bits, times) = (narrow(number >> 4)?, narrow(number & 15)?);
    if times <= Held::TIMES_MAX { Ok(Held { bits, times }) } else { Err(reader.damaged()) }
}
