//! The text form of recorded work.
//!
//! A trace is ASCII text, one thing a line, words between single spaces. Its first line is
//! `nearfirst-trace 1`: the version. Lines that are empty or begin with `#` say nothing.
//!
//! | line | meaning |
//! | --- | --- |
//! | `file N NAME [SIZE [DEVICE:INODE]]` | from here on `N` stands for this file; files are numbered from 0 in the order of their lines. `SIZE` in bytes, `-` if unknown |
//! | `T found PROCESS USER` | a process that runs already is seen for the first time |
//! | `T fork PARENT CHILD` | a process made another one |
//! | `T exec PROCESS N FOLDER ARGUMENT...` | a process runs file `N` from now on, called with these words, its own name first |
//! | `T read PROCESS N` | it opened file `N` to read it |
//! | `T write PROCESS N` | it opened file `N` to write, make or cut it |
//! | `T touch PROCESS N FROM-TO...` | what it had read of file `N` when it closed it, in bytes, ends excluded |
//! | `T exit PROCESS` | it ended |
//! | `T lost PROCESS` | events of this process, and of what came of it, are missing; of all, if `-` |
//!
//! `T` is the time since the line before that has one, in microseconds. A process is a number that
//! is never used twice, or `.`: the first process of the last of these lines. A user is a number.
//! Names, folders and arguments may hold any bytes: those up to the space, those from DEL on, and
//! `%` are written as `%` with two hexadecimal digits; nothing at all is written as `%_`. A `-` is
//! itself.
//! What is the same is written the same, so that traces compress well.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::{Access, Event, File, Identity, Process, User};

const FIRST_LINE: &str = "nearfirst-trace 1";

/// What programs did, with the time of each event, which never decreases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The events in their order.
    pub events: Vec<(Duration, Event)>,
}

/// Why bytes are no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// They begin otherwise.
    #[error("neither a trace (first line `{FIRST_LINE}`) nor output of `strace -f -ttt -y`")]
    Version,
    /// They are output of strace that does not say when each call was made, or not exactly.
    #[error("output of `strace` without times to the microsecond: add `-ttt` to its flags")]
    Untimed,
    /// A line says nothing of what the format has.
    #[error("line {line} of the trace: expected {what}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What was expected there.
        what: &'static str,
    },
    /// Lines of strace's name no process, and several live.
    #[error(
        "lines of `strace` do not say which process they are of, and several live: have it write to a file, with -o"
    )]
    Unnamed,
}

impl Trace {
    /// Reads the text form.
    ///
    /// # Errors
    /// If it is of another version or a line is not as the format says; a cut trace lacks its end,
    /// which is no error unless the cut left half a line.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut events = Vec::new();
        each(bytes, |at, event| events.push((at, event)))?;
        Ok(Self { events })
    }

    /// The same with times cut to whole grains: finer ones say little of work that was slowed down
    /// by being recorded, and half of a compressed trace would be their digits.
    #[must_use]
    pub fn with_grain(mut self, grain: Duration) -> Self {
        let grain = grain.as_nanos().max(1);
        for (at, _) in &mut self.events {
            let over = u64::try_from(at.as_nanos() % grain).unwrap_or(u64::MAX);
            *at = at.saturating_sub(Duration::from_nanos(over));
        }
        self
    }

    /// Writes the text form; [`Event::Fetched`] and [`Event::Refused`] are left out, as they are answers
    /// to predictions and no work.
    pub fn text(&self) -> String {
        let mut writer = Writer::default();
        for (at, event) in &self.events {
            writer.add(*at, event);
        }
        writer.text
    }
}

/// Reads the text form, an event at a time.
///
/// # Errors
/// As [`Trace::parse`]; then the events before it were given.
pub fn each(bytes: &[u8], mut to: impl FnMut(Duration, Event)) -> Result<(), TraceError> {
    let mut lines = bytes.split(|&byte| byte == b'\n').zip(1..);
    if lines.next().is_none_or(|(first, _)| first != FIRST_LINE.as_bytes()) {
        return Err(TraceError::Version);
    }
    let mut reader = Reader::default();
    for (text, line) in lines {
        if !text.is_empty() && text[0] != b'#' {
            let event = reader.line(text).map_err(|what| TraceError::Line { line, what })?;
            if let Some(event) = event {
                to(reader.now, event);
            }
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Reader {
    now: Duration,
    process: Option<Process>,
    files: Vec<File>,
}

type Words<'a> = std::slice::Split<'a, u8, fn(&u8) -> bool>;

impl Reader {
    /// What a line says happened, if it says that.
    fn line(&mut self, text: &[u8]) -> Result<Option<Event>, &'static str> {
        let is_space: fn(&u8) -> bool = |&byte| byte == b' ';
        let mut words = text.split(is_space);
        let first = words.next().ok_or("a word")?;
        if first == b"file" {
            self.file(&mut words)?;
            return Ok(None);
        }
        let step = Duration::from_micros(number(Some(first))?);
        let now = self.now.checked_add(step).ok_or("a time that can be counted")?;
        let event = self.event(&mut words)?;
        if words.next().is_some() {
            return Err("no more words");
        }
        self.now = now;
        Ok(Some(event))
    }

    fn file(&mut self, words: &mut Words<'_>) -> Result<(), &'static str> {
        if number(words.next())? != self.files.len() as u64 {
            return Err("the next number of a file");
        }
        let path = name(words.next())?;
        let size = match words.next() {
            None | Some(b"-") => None,
            word => Some(number(word)?),
        };
        let identity = words.next().map(identity).transpose()?;
        if words.next().is_some() {
            return Err("no more words");
        }
        self.files.push(File { path, identity, size });
        Ok(())
    }

    fn event(&mut self, words: &mut Words<'_>) -> Result<Event, &'static str> {
        let verb = words.next().ok_or("what happened")?;
        if verb == b"lost" {
            let word = words.next();
            let all = word == Some(b"-");
            let process = if all { None } else { Some(self.process(word)?) };
            return Ok(Event::Lost { process });
        }
        let process = self.process(words.next())?;
        Ok(match verb {
            b"found" => {
                let user = u32::try_from(number(words.next())?).map_err(|_| "a user's number")?;
                Event::Found { process, user: User(user) }
            }
            b"fork" => Event::Forked { parent: process, child: Process(number(words.next())?) },
            b"exec" => Event::Executed {
                process,
                program: self.known(words)?,
                folder: name(words.next())?,
                arguments: words.map(|word| name(Some(word))).collect::<Result<_, _>>()?,
            },
            b"read" => Event::Opened { process, file: self.known(words)?, access: Access::Read },
            b"write" => Event::Opened { process, file: self.known(words)?, access: Access::Write },
            b"touch" => {
                Event::Touched { process, file: self.known(words)?, extents: extents(words)? }
            }
            b"exit" => Event::Exited { process },
            _ => return Err("found, fork, exec, read, write, touch, exit or lost"),
        })
    }

    fn process(&mut self, word: Option<&[u8]>) -> Result<Process, &'static str> {
        let process = match word {
            Some(b".") => self.process.ok_or("a process on a line above")?,
            _ => Process(number(word)?),
        };
        self.process = Some(process);
        Ok(process)
    }

    fn known(&self, words: &mut Words<'_>) -> Result<File, &'static str> {
        let index = usize::try_from(number(words.next())?).map_err(|_| "a file's number")?;
        self.files.get(index).cloned().ok_or("the number of a file above")
    }
}

fn number(word: Option<&[u8]>) -> Result<u64, &'static str> {
    let digits = word.filter(|word| word.first().is_some_and(u8::is_ascii_digit));
    let text = digits.and_then(|word| str::from_utf8(word).ok());
    text.and_then(|text| text.parse().ok()).ok_or("a number")
}

fn identity(word: &[u8]) -> Result<Identity, &'static str> {
    let mut halves = word.splitn(2, |&byte| byte == b':');
    Ok(Identity { device: number(halves.next())?, inode: number(halves.next())? })
}

/// In order and apart, as the learner is promised.
fn extents(words: &mut Words<'_>) -> Result<Vec<Range<u64>>, &'static str> {
    let mut extents = Vec::new();
    let mut end = 0;
    for word in words {
        let mut halves = word.splitn(2, |&byte| byte == b'-');
        let extent = number(halves.next())?..number(halves.next())?;
        if extent.start < end || extent.is_empty() {
            return Err("parts in the order of the file");
        }
        end = extent.end;
        extents.push(extent);
    }
    Ok(extents)
}

const NOTHING: &[u8] = b"%_";

fn name(word: Option<&[u8]>) -> Result<Arc<[u8]>, &'static str> {
    const WHAT: &str = "a name";
    let word = word.filter(|word| !word.is_empty()).ok_or(WHAT)?;
    if word == NOTHING {
        return Ok(Arc::from([]));
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.iter();
    while let Some(&byte) = rest.next() {
        let byte = if byte == b'%' {
            let high = rest.next().and_then(|&digit| char::from(digit).to_digit(16)).ok_or(WHAT)?;
            let low = rest.next().and_then(|&digit| char::from(digit).to_digit(16)).ok_or(WHAT)?;
            u8::try_from(high * 16 + low).expect("two hexadecimal digits make a byte")
        } else {
            byte
        };
        bytes.push(byte);
    }
    Ok(bytes.into())
}

/// A file's path, identity and size.
type Known = (Arc<[u8]>, Option<Identity>, Option<u64>);

/// Memory for a file beside its name in the text and in the table of files, about.
const FILE_BYTES: usize = 128;

/// The text form, made of one event after the other, so that nobody need keep the events.
#[derive(Debug)]
pub struct Writer {
    text: String,
    now: Duration,
    process: Option<Process>,
    files: HashMap<Known, usize>,
    /// Memory of the table of files, about.
    files_bytes: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            text: format!("{FIRST_LINE}\n"),
            now: Duration::ZERO,
            process: None,
            files: HashMap::new(),
            files_bytes: 0,
        }
    }
}

impl Writer {
    /// The text of all that was added.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Memory, about.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.files_bytes
    }

    /// Adds an event; answers to predictions are left out, as by [`Trace::text`].
    pub fn add(&mut self, at: Duration, event: &Event) {
        let file = match event {
            Event::Executed { program: file, .. }
            | Event::Opened { file, .. }
            | Event::Touched { file, .. } => Some(self.file(file)),
            _ => None,
        };
        let (verb, process) = match event {
            Event::Found { process, .. } => ("found", Some(process)),
            Event::Forked { parent, .. } => ("fork", Some(parent)),
            Event::Executed { process, .. } => ("exec", Some(process)),
            Event::Opened { process, access: Access::Read, .. } => ("read", Some(process)),
            Event::Opened { process, access: Access::Write, .. } => ("write", Some(process)),
            Event::Touched { process, .. } => ("touch", Some(process)),
            Event::Exited { process } => ("exit", Some(process)),
            Event::Lost { process } => ("lost", process.as_ref()),
            Event::Fetched { .. } | Event::Swept { .. } | Event::Refused { .. } => return,
        };
        // Whole microseconds since the start, so that what is cut off does not add up.
        let step = at.as_micros().saturating_sub(self.now.as_micros());
        self.now = self.now.max(at);
        self.say(format_args!("{step} {verb} "));
        match process {
            Some(process) if self.process == Some(*process) => self.text.push('.'),
            Some(process) => self.say(format_args!("{}", process.0)),
            None => self.text.push('-'),
        }
        self.process = process.copied().or(self.process);
        if let Some(file) = file {
            self.say(format_args!(" {file}"));
        }
        self.more(event);
        self.text.push('\n');
    }

    fn say(&mut self, words: std::fmt::Arguments<'_>) {
        self.text.write_fmt(words).expect("a string takes all");
    }

    fn more(&mut self, event: &Event) {
        match event {
            Event::Found { user, .. } => self.say(format_args!(" {}", user.0)),
            Event::Forked { child, .. } => self.say(format_args!(" {}", child.0)),
            Event::Executed { arguments, folder, .. } => {
                self.name(folder);
                for argument in arguments {
                    self.name(argument);
                }
            }
            Event::Touched { extents, .. } => {
                for extent in extents {
                    self.say(format_args!(" {}-{}", extent.start, extent.end));
                }
            }
            _ => {}
        }
    }

    fn file(&mut self, file: &File) -> usize {
        let key = (Arc::clone(&file.path), file.identity, file.size);
        if let Some(&known) = self.files.get(&key) {
            return known;
        }
        let next = self.files.len();
        self.say(format_args!("file {next}"));
        self.name(&file.path);
        let size = file.size.map_or("-".to_owned(), |size| size.to_string());
        match file.identity {
            Some(Identity { device, inode }) => self.say(format_args!(" {size} {device}:{inode}")),
            None if file.size.is_some() => self.say(format_args!(" {size}")),
            None => {}
        }
        self.text.push('\n');
        self.files_bytes += FILE_BYTES + file.path.len();
        self.files.insert(key, next);
        next
    }

    fn name(&mut self, bytes: &[u8]) {
        self.text.push(' ');
        if bytes.is_empty() {
            self.text.push_str("%_");
        }
        for &byte in bytes {
            if byte <= b' ' || byte >= 0x7f || byte == b'%' {
                self.say(format_args!("%{byte:02x}"));
            } else {
                self.text.push(char::from(byte));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file() -> impl Strategy<Value = File> {
        let path = prop::collection::vec(any::<u8>(), 0..12);
        let identity = prop::option::of(any::<(u64, u64)>());
        (path, identity, prop::option::of(any::<u64>())).prop_map(|(path, identity, size)| File {
            path: path.into(),
            identity: identity.map(|(device, inode)| Identity { device, inode }),
            size,
        })
    }

    fn event() -> impl Strategy<Value = Event> {
        let process = || prop_oneof![0..3_u64, any::<u64>()].prop_map(Process);
        let bytes = || prop::collection::vec(any::<u8>(), 0..9).prop_map(Arc::from);
        let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
        let extents = prop::collection::vec((1..99_u64, 1..99_u64), 0..4).prop_map(|steps| {
            let mut at = 0;
            let next = steps.into_iter().map(|(gap, length)| {
                let extent = at + gap..at + gap + length;
                at = extent.end;
                extent
            });
            next.collect::<Vec<_>>()
        });
        prop_oneof![
            (process(), any::<u32>())
                .prop_map(|(process, user)| Event::Found { process, user: User(user) }),
            (process(), process()).prop_map(|(parent, child)| Event::Forked { parent, child }),
            (process(), file(), prop::collection::vec(bytes(), 0..4), bytes()).prop_map(
                |(process, program, arguments, folder)| {
                    Event::Executed { process, program, arguments, folder }
                }
            ),
            (process(), file(), access).prop_map(|(process, file, access)| Event::Opened {
                process,
                file,
                access
            }),
            (process(), file(), extents).prop_map(|(process, file, extents)| Event::Touched {
                process,
                file,
                extents
            }),
            process().prop_map(|process| Event::Exited { process }),
            prop::option::of(process()).prop_map(|process| Event::Lost { process }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(steps in prop::collection::vec((0..10_000_000_u64, event()), 0..20)) {
            let mut now = Duration::ZERO;
            let events = steps.into_iter().map(|(step, event)| {
                now += Duration::from_micros(step);
                (now, event)
            });
            let trace = Trace { events: events.collect() };
            prop_assert_eq!(Trace::parse(trace.text().as_bytes()), Ok(trace));
        }
    }

    #[test]
    fn the_example_of_the_documentation_reads_as_it_says() {
        let text = include_str!("../../../../docs/traces.md");
        let example = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
        let trace = Trace::parse(example.expect("an example").as_bytes()).unwrap();
        assert_eq!(trace.events.len(), 10);
        assert_eq!(Trace::parse(trace.text().as_bytes()), Ok(trace));
    }

    #[test]
    fn times_are_cut_and_not_rounded_away() {
        let text = b"nearfirst-trace 1\n1500 exit 1\n600 exit 2\n";
        let cut = Trace::parse(text).unwrap().with_grain(Duration::from_millis(1));
        let times = cut.events.iter().map(|(at, _)| at.as_micros()).collect::<Vec<_>>();
        assert_eq!(times, [1000, 2000]);
    }

    #[test]
    fn the_time_before_what_is_left_out_is_not() {
        let at = Duration::from_millis;
        let exited = |process| Event::Exited { process: Process(process) };
        let swept = Event::Swept { prediction: crate::PredictionId(1) };
        let trace = Trace { events: vec![(at(1), exited(1)), (at(2), swept), (at(4), exited(2))] };
        let read = Trace::parse(trace.text().as_bytes()).unwrap();
        assert_eq!(read.events, [(at(1), exited(1)), (at(4), exited(2))]);
    }

    #[test]
    fn errors_say_which_line_and_what_was_expected() {
        let error = |text: &str| {
            let text = format!("nearfirst-trace 1\n{text}\n");
            Trace::parse(text.as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(
            error("# a remark\n0 read 1 0"),
            "line 3 of the trace: expected the number of a file above"
        );
        assert_eq!(error("file 1 /a"), "line 2 of the trace: expected the next number of a file");
        assert_eq!(error("file 0 /a%4"), "line 2 of the trace: expected a name");
        assert_eq!(error("+1 exit 4"), "line 2 of the trace: expected a number");
        assert_eq!(error("0 exit 4 5"), "line 2 of the trace: expected no more words");
        assert_eq!(error("0 exit ."), "line 2 of the trace: expected a process on a line above");
        assert!(error("0 fell 1").ends_with("touch, exit or lost"));
        assert_eq!(Trace::parse(b"nearfirst-trace 2\n"), Err(TraceError::Version));
    }
}
