//! How the service tells the attendants of users what it sees: messages through a pipe.
//!
//! Both ends are one program, so no version is needed. A message is its length in four bytes and
//! what it says; times are ages, since the clocks of two processes begin at different times.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tree::{Access, Event, File, Identity, Process, User};

/// What an attendant is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// Something that its user's programs did that long ago.
    Seen { age: Duration, event: Event },
    /// To save what was learned.
    Save,
    /// To go by the device table as it is by then.
    Reload,
    /// To say what came of predictions.
    Report,
}

/// Longer messages are none: a path has 4 KiB, arguments are cut at 64 KiB.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Bytes that make no sense; what follows them cannot be read either.
#[derive(Debug, thiserror::Error)]
#[error("the service sent what it never sends")]
pub(crate) struct Garbled;

/// Adds a message; what attendants tell themselves ([`Event::Fetched`], [`Event::Swept`],
/// [`Event::Refused`]) is none.
pub(crate) fn put(message: &Message, to: &mut Vec<u8>) {
    let begin = to.len();
    to.extend([0; 4]);
    match message {
        Message::Save => to.push(b'S'),
        Message::Reload => to.push(b'D'),
        Message::Report => to.push(b'R'),
        Message::Seen {
            event: Event::Fetched { .. } | Event::Swept { .. } | Event::Refused { .. },
            ..
        } => {
            return to.truncate(begin);
        }
        Message::Seen { age, event } => put_event(*age, event, to),
    }
    let length = u32::try_from(to.len() - begin - 4).unwrap_or(u32::MAX);
    to[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes a message off the front of `bytes`; `None` until all of it is there.
pub(crate) fn take(bytes: &mut &[u8]) -> Result<Option<Message>, Garbled> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(Garbled);
    }
    let Some((message, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    let mut fields = Fields(message);
    let message = fields.message().filter(|_| fields.0.is_empty()).ok_or(Garbled)?;
    *bytes = rest;
    Ok(Some(message))
}

fn put_number(number: u64, to: &mut Vec<u8>) {
    to.extend(number.to_le_bytes());
}

fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    put_number(bytes.len() as u64, to);
    to.extend(bytes);
}

fn put_file(file: &File, to: &mut Vec<u8>) {
    put_bytes(&file.path, to);
    to.push(u8::from(file.identity.is_some()) | u8::from(file.size.is_some()) << 1);
    if let Some(Identity { device, inode }) = file.identity {
        put_number(device, to);
        put_number(inode, to);
    }
    if let Some(size) = file.size {
        put_number(size, to);
    }
}

fn put_event(age: Duration, event: &Event, to: &mut Vec<u8>) {
    let kind_at = to.len();
    to.push(0);
    put_number(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX), to);
    to[kind_at] = match event {
        Event::Found { process, user } => {
            put_number(process.0, to);
            put_number(u64::from(user.0), to);
            b'f'
        }
        Event::Forked { parent, child } => {
            put_number(parent.0, to);
            put_number(child.0, to);
            b'k'
        }
        Event::Executed { process, program, arguments, folder } => {
            put_number(process.0, to);
            put_file(program, to);
            put_bytes(folder, to);
            put_number(arguments.len() as u64, to);
            for argument in arguments {
                put_bytes(argument, to);
            }
            b'e'
        }
        Event::Opened { process, file, access } => {
            put_number(process.0, to);
            put_file(file, to);
            match access {
                Access::Read => b'r',
                Access::Write => b'w',
            }
        }
        Event::Touched { process, file, extents } => {
            put_number(process.0, to);
            put_file(file, to);
            put_number(extents.len() as u64, to);
            for extent in extents {
                put_number(extent.start, to);
                put_number(extent.end, to);
            }
            b't'
        }
        Event::Exited { process } => {
            put_number(process.0, to);
            b'x'
        }
        Event::Lost { process: Some(process) } => {
            put_number(process.0, to);
            b'l'
        }
        Event::Lost { process: None }
        | Event::Fetched { .. }
        | Event::Swept { .. }
        | Event::Refused { .. } => b'L',
    };
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn process(&mut self) -> Option<Process> {
        self.number().map(Process)
    }

    fn bytes(&mut self) -> Option<Arc<[u8]>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first.into())
    }

    fn file(&mut self) -> Option<File> {
        let path = self.bytes()?;
        let known = self.byte()?;
        let identity = if known & 1 == 0 {
            None
        } else {
            Some(Identity { device: self.number()?, inode: self.number()? })
        };
        let size = if known & 2 == 0 { None } else { Some(self.number()?) };
        Some(File { path, identity, size })
    }

    fn extents(&mut self) -> Option<Vec<Range<u64>>> {
        let count = self.number()?;
        (0..count).map(|_| Some(self.number()?..self.number()?)).collect()
    }

    fn message(&mut self) -> Option<Message> {
        let kind = self.byte()?;
        match kind {
            b'S' => return Some(Message::Save),
            b'D' => return Some(Message::Reload),
            b'R' => return Some(Message::Report),
            _ => {}
        }
        let age = Duration::from_nanos(self.number()?);
        let event = match kind {
            b'f' => {
                let process = self.process()?;
                Event::Found { process, user: User(u32::try_from(self.number()?).ok()?) }
            }
            b'k' => Event::Forked { parent: self.process()?, child: self.process()? },
            b'e' => {
                let (process, program, folder) = (self.process()?, self.file()?, self.bytes()?);
                let count = self.number()?;
                let arguments = (0..count).map(|_| self.bytes()).collect::<Option<_>>()?;
                Event::Executed { process, program, arguments, folder }
            }
            b'r' | b'w' => {
                let access = if kind == b'r' { Access::Read } else { Access::Write };
                Event::Opened { process: self.process()?, file: self.file()?, access }
            }
            b't' => Event::Touched {
                process: self.process()?,
                file: self.file()?,
                extents: self.extents()?,
            },
            b'x' => Event::Exited { process: self.process()? },
            b'l' => Event::Lost { process: Some(self.process()?) },
            b'L' => Event::Lost { process: None },
            _ => return None,
        };
        Some(Message::Seen { age, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let process = Process(7);
        let path: Arc<[u8]> = Arc::from(&b"/\xff\n a"[..]);
        let file = File {
            path: Arc::clone(&path),
            identity: Some(Identity { device: 1, inode: u64::MAX }),
            size: Some(9),
        };
        let plain = File { path: Arc::clone(&path), identity: None, size: None };
        let arguments = vec![Arc::from(&b"cc"[..]), Arc::from(&b""[..])];
        let extents = vec![0..4096, 8192..u64::MAX];
        let (program, folder) = (file.clone(), path);
        let events = vec![
            Event::Found { process, user: User(1000) },
            Event::Forked { parent: process, child: Process(8) },
            Event::Executed { process, program, arguments, folder },
            Event::Opened { process, file: plain, access: Access::Read },
            Event::Opened { process, file: file.clone(), access: Access::Write },
            Event::Touched { process, file, extents },
            Event::Exited { process },
            Event::Lost { process: Some(process) },
            Event::Lost { process: None },
        ];
        let age = Duration::from_micros(3);
        let seen = events.into_iter().map(|event| Message::Seen { age, event });
        [Message::Save, Message::Reload, Message::Report].into_iter().chain(seen).collect()
    }

    #[test]
    fn what_is_put_is_taken_however_it_is_cut() {
        let mut bytes = Vec::new();
        for message in &messages() {
            put(message, &mut bytes);
        }
        for cut in 0..=bytes.len() {
            let mut taken = Vec::new();
            let mut front = &bytes[..cut];
            while let Some(message) = take(&mut front).unwrap() {
                taken.push(message);
            }
            let left = [front, &bytes[cut..]].concat();
            let mut rest = &left[..];
            while let Some(message) = take(&mut rest).unwrap() {
                taken.push(message);
            }
            assert_eq!((taken, rest), (messages(), &[][..]), "cut at {cut}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_never_a_panic() {
        let mut bytes = Vec::new();
        for message in &messages() {
            put(message, &mut bytes);
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = value;
                let mut rest = &broken[..];
                while let Ok(Some(_)) = take(&mut rest) {}
            }
        }
        assert!(take(&mut &[0xff; 16][..]).is_err());
        assert!(take(&mut &[1, 0, 0, 0, b'?'][..]).is_err());
    }
}
