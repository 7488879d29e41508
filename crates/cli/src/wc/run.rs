//! Several inputs counted by several threads, and printed in the order they were named, or as they are
//! counted.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::sync::Mutex;

use nearfirst::Kind;

use super::count::{Counts, Encoding};
use super::files::Input;
use super::objects::{Content, Object, complaint};
use super::print::{self, Shown};
use super::quote;
use super::read::Reader;
use crate::divide::together;
use crate::in_turn::InTurn;
use crate::{messages, progress};

/// Inputs counted ahead of the one whose turn it is to be printed: bounds what is held.
pub(super) const AHEAD_MAX: usize = 1024;

/// Bytes of lines written at once when nobody watches.
const OUTPUT_BYTES: usize = 64 << 10;

/// An input, with its place among all.
pub(super) struct Numbered {
    pub(super) number: usize,
    pub(super) input: Input,
    /// It was in memory, and is to be counted before what may push it out.
    pub(super) is_near: bool,
}

/// Inputs as they come.
pub(super) fn in_order(
    inputs: impl IntoIterator<Item = Input, IntoIter: Send>,
) -> impl Iterator<Item = Numbered> + Send {
    let numbered = |(number, input)| Numbered { number, input, is_near: false };
    inputs.into_iter().enumerate().map(numbered)
}

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
    /// Whether inputs are reported as they are counted.
    pub(super) unordered: bool,
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
        Report {
            shown,
            width,
            encoding,
            each,
            unordered: false,
            total: Counts::default(),
            inputs: 0,
            out,
            at_once,
        }
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
        if self.at_once || self.unordered { self.flush() } else { Ok(()) }
    }
}

/// Counts every input on that many threads and reports each in its turn, by the numbers of the inputs:
/// these may be in another order, but that each is among [`AHEAD_MAX`] that follow one another, and that
/// those that are no files follow all that are before them.
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
    I: Iterator<Item = Numbered> + Send,
{
    let queue = Queue {
        inputs: Mutex::new(inputs),
        unordered: report.unordered,
        streaming: Mutex::new(()),
        outcomes: InTurn::new((!report.unordered).then_some(AHEAD_MAX)),
        report: Mutex::new(report),
    };
    together(threads, || queue.work(reader));
    queue.outcomes.into_written()
}

struct Queue<'a, I: Iterator<Item = Numbered>> {
    inputs: Mutex<I>,
    unordered: bool,
    /// Held while what is no file is read, where there is no order.
    streaming: Mutex<()>,
    outcomes: InTurn<Outcome>,
    report: Mutex<&'a mut Report>,
}

impl<I: Iterator<Item = Numbered>> Queue<'_, I> {
    fn work(&self, reader: &Reader<'_>) {
        let mut buffer = Vec::new();
        loop {
            let mut inputs = self.inputs.lock().expect("neither taking nor counting panics");
            let Some(Numbered { number, input, is_near }) = inputs.next() else { return };
            // Nothing else is begun beside what is near: it is counted by threads of its own.
            let alone = is_near.then_some(inputs);
            let outcome = self.count(number, input, reader, &mut buffer);
            drop(alone);
            if !self.outcomes.deliver(number, outcome, |outcome| self.report(&outcome)) {
                return;
            }
        }
    }

    fn report(&self, outcome: &Outcome) -> io::Result<()> {
        self.report.lock().expect("reporting does not panic").outcome(outcome)
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
                // Two inputs may be one pipe: the one named first gets what is in it.
                let is_stream = status.is_none() || matches!(input, Input::Stdin(_));
                let alone = (is_stream && self.unordered).then(|| self.streaming.lock());
                if is_stream && !self.unordered {
                    self.outcomes.comes(index);
                }
                let counted = reader.count(file, status.as_ref(), shown.as_ref(), buffer);
                drop(alone);
                (counted.error.map_or(Vec::new(), complain), Some(counted.counts))
            }
        };
        Outcome { name: input.name().map(ToOwned::to_owned), messages, counts }
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
