//! Several inputs counted by several threads, and printed in the order they were named.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard};

use nearfirst::Kind;

use super::count::{Counts, Encoding};
use super::files::Input;
use super::objects::{Content, Object, complaint};
use super::print::{self, Shown};
use super::quote;
use super::read::Reader;
use crate::divide::together;
use crate::{messages, progress};

/// Inputs counted ahead of the one whose turn it is to be printed: bounds what is held.
const AHEAD_MAX: usize = 1024;

/// Bytes of lines written at once when nobody watches.
const OUTPUT_BYTES: usize = 64 << 10;

/// What came of one input.
struct Outcome {
    /// `None`: standard input that nobody named.
    name: Option<OsString>,
    messages: Vec<String>,
    /// `None`: there is no line to print.
    counts: Option<Counts>,
}

/// Writes lines and messages, and sums up.
pub(super) struct Report {
    pub(super) shown: Shown,
    pub(super) width: usize,
    pub(super) encoding: Encoding,
    /// Whether each input gets its line.
    pub(super) each: bool,
    total: Counts,
    inputs: usize,
    out: BufWriter<Stdout>,
    at_once: bool,
}

impl Report {
    pub(super) fn new(shown: Shown, width: usize, encoding: Encoding, each: bool) -> Report {
        let stdout = io::stdout();
        let at_once = stdout.is_terminal();
        let out = BufWriter::with_capacity(OUTPUT_BYTES, stdout);
        Report { shown, width, encoding, each, total: Counts::default(), inputs: 0, out, at_once }
    }

    /// How many inputs were reported.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Writes the sum of all counts, under that name.
    pub(super) fn total(&mut self, name: Option<&str>) -> io::Result<()> {
        let name = name.map(str::as_ref);
        print::line(&mut self.out, &self.total, name, self.shown, self.width, self.encoding)
    }

    /// Hands on what is held back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.at_once {
            return self.out.flush();
        }
        let mut flushed = Ok(());
        progress::without(|| flushed = self.out.flush());
        flushed
    }

    fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.inputs += 1;
        for message in &outcome.messages {
            // Lines and messages may go to the same place: their order there is the operands'.
            self.flush()?;
            messages::error(message);
        }
        let Some(counts) = &outcome.counts else { return Ok(()) };
        self.total.add(counts);
        if self.each {
            let name = outcome.name.as_deref();
            print::line(&mut self.out, counts, name, self.shown, self.width, self.encoding)?;
        }
        if self.at_once { self.flush() } else { Ok(()) }
    }
}

/// Counts every input on that many threads and reports each in its turn.
///
/// # Errors
/// The error of writing a line; nothing is counted after it.
pub(super) fn all<I>(
    inputs: I,
    threads: usize,
    reader: &Reader<'_>,
    report: &mut Report,
) -> io::Result<()>
where
    I: Iterator<Item = Input> + Send,
{
    let queue = Queue {
        inputs: Mutex::new(inputs.enumerate()),
        turn: Mutex::new(Turn { next: 0, done: BTreeMap::new(), report, failed: None }),
        next_turn: Condvar::new(),
    };
    together(threads, || queue.work(reader));
    let turn = queue.turn.into_inner().expect("a thread that panicked has ended the scope");
    turn.failed.map_or(Ok(()), Err)
}

struct Queue<'a, I: Iterator<Item = Input>> {
    inputs: Mutex<std::iter::Enumerate<I>>,
    turn: Mutex<Turn<'a>>,
    next_turn: Condvar,
}

struct Turn<'a> {
    /// The input to be reported next.
    next: usize,
    done: BTreeMap<usize, Outcome>,
    report: &'a mut Report,
    failed: Option<io::Error>,
}

impl<'a, I: Iterator<Item = Input>> Queue<'a, I> {
    fn work(&self, reader: &Reader<'_>) {
        let mut buffer = Vec::new();
        while let Some((index, input)) = self.take() {
            let outcome = self.count(index, input, reader, &mut buffer);
            if !self.deliver(index, outcome) {
                return;
            }
        }
    }

    fn take(&self) -> Option<(usize, Input)> {
        self.inputs.lock().expect("taking an input does not panic").next()
    }

    /// Waits until fewer than `ahead` inputs come before this one.
    fn wait(&self, index: usize, ahead: usize) -> MutexGuard<'_, Turn<'a>> {
        let turn = self.turn.lock().expect("reporting does not panic");
        self.next_turn
            .wait_while(turn, |turn| index >= turn.next + ahead && turn.failed.is_none())
            .expect("reporting does not panic")
    }

    fn count(
        &self,
        index: usize,
        input: Input,
        reader: &Reader<'_>,
        buffer: &mut Vec<u8>,
    ) -> Outcome {
        if let Input::Bad(message) = input {
            let messages = vec![message];
            return Outcome { name: None, messages, counts: None };
        }
        if let Input::Object(object) = input {
            return counted(object, reader, buffer);
        }
        let shown = input.name().unwrap_or("standard input".as_ref());
        let complain = |reason: String| {
            let name = quote::redacted(shown);
            vec![format!("{}: {reason}", quote::quoted(&name, reader.task.encoding))]
        };
        let (messages, counts) = match input.open(reader.task.costs) {
            Err(reason) => (complain(reason), None),
            Ok((file, status)) => {
                let status = status.filter(|status| status.kind == Kind::File);
                if status.is_none() || matches!(input, Input::Stdin(_)) {
                    // Two inputs may be one pipe: the one named first gets what is in it.
                    drop(self.wait(index, 1));
                }
                let counted = reader.count(file, status.as_ref(), shown.as_ref(), buffer);
                (counted.error.map_or(Vec::new(), complain), Some(counted.counts))
            }
        };
        Outcome { name: input.name().map(ToOwned::to_owned), messages, counts }
    }

    /// Reports this input and those that waited for it; false when there is no use in going on.
    fn deliver(&self, index: usize, outcome: Outcome) -> bool {
        let mut turn = self.wait(index, AHEAD_MAX);
        turn.done.insert(index, outcome);
        let turn = &mut *turn;
        while turn.failed.is_none()
            && let Some(outcome) = turn.done.remove(&turn.next)
        {
            turn.failed = turn.report.outcome(&outcome).err();
            turn.next += 1;
        }
        self.next_turn.notify_all();
        turn.failed.is_none()
    }
}

/// Counts an object of a store.
fn counted(object: Object, reader: &Reader<'_>, buffer: &mut Vec<u8>) -> Outcome {
    let Object { name, content } = object;
    let member = match content {
        Content::Size(bytes) => {
            // Characters are wanted here only where each is a byte.
            let counts = Counts { bytes, characters: bytes, ..Counts::default() };
            return Outcome { name: Some(name), messages: Vec::new(), counts: Some(counts) };
        }
        Content::Bytes(member) => *member,
    };
    match reader.count_member(member, buffer) {
        Ok(counts) => Outcome { name: Some(name), messages: Vec::new(), counts: Some(counts) },
        Err(error) => {
            let messages = vec![complaint(&name, &error.cause, reader.task.encoding)];
            Outcome { name: None, messages, counts: None }
        }
    }
}
