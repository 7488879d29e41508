//! Searches one file after another, in one thread.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use grep::cli::{CommandReaderBuilder, DecompressionReaderBuilder};
use grep::matcher::Matcher;
use grep::searcher::{BinaryDetection, Searcher};
use nearfirst::{Clock, Error, Place, fetch};
use rustix::fs::{Advice, fadvise};
use store::Opened;

use super::asked::Context;
use super::input::{
    BUFFER_BYTES, Counted, Patient, begins_with_mark, ends_a_line_in_mark, read_whole,
    read_whole_from, up_to_error,
};
use super::output::FileOutput;
use super::pattern::Pattern;
use super::print::found::Found;
use super::print::rendered::Rendered;
use super::print::tally::{Stats, Tally};
use super::print::{Format, Nul, Outcome, Printing, Scope, close};
use super::settings::Settings;
use super::walk::{Haystack, printed_path};

/// From this size on, a file is searched in chunks by several threads. Below
/// it, starting threads costs more than they bring.
pub(super) const LARGE_BYTES: u64 = 8 << 20;

/// From this size on, a file that is searched at once is mapped and not copied: that takes as long
/// here, a third of the time for 4 MiB, and more than twice as long for 64 KiB.
const MAPPED_BYTES_MIN: u64 = 1 << 20;

/// Opening and reading a small file takes longer than this only if it is not
/// in memory, or if the processor is busy: in memory it takes some 10 us.
const SLOW_READ: Duration = Duration::from_micros(500);

/// Asking where a file is costs about as much as reading a small one that is
/// in memory. So files are asked only at the start, and again as many after
/// each that was slow or far.
const WARY_FILES: u32 = 64;

/// Bytes that the kernel is asked to fetch in one call: with some file systems
/// it fetches no more at a time.
const READ_AHEAD_BYTES: u64 = 128 * 1024;

/// Searches files; keeps what can be used again from file to file.
pub(super) struct Worker<'s> {
    settings: &'s Settings,
    engine: Engine,
    searcher: Searcher,
    buffer: Vec<u8>,
    out: Rendered,
    /// Bytes of the last file, or of what a program made of it, that were read.
    read_bytes: u64,
    decompress: Option<DecompressionReaderBuilder>,
    /// Found files that are still to be asked whether they are in memory.
    wary_files: u32,
}

/// A matcher with its working memory.
enum Engine {
    Regex(grep::regex::RegexMatcher, Found<grep::regex::RegexMatcher>),
    Pcre2(grep::pcre2::RegexMatcher, Found<grep::pcre2::RegexMatcher>),
}

/// What became of a file.
pub(super) enum Searched {
    /// What there is to print is in [`Worker::output`].
    Done(Outcome),
    /// It is to be searched in chunks.
    Large(Opened),
    /// It is not in memory: it is being fetched, and to be searched later.
    Far,
}

/// Whether a file that is not in memory may be searched later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Search it now.
    Now,
    /// It may wait, if it is far.
    Later,
}

/// Where text comes from.
enum Source<'a> {
    Reader(&'a mut dyn Read),
    Slice(&'a [u8]),
    /// Nothing is to be searched: a NUL byte was found at this offset.
    Binary(u64),
}

impl<'s> Worker<'s> {
    /// `None` if there is no pattern to search for.
    pub(super) fn new(settings: &'s Settings) -> Option<Worker<'s>> {
        let engine = match settings.pattern.clone()? {
            Pattern::Regex(matcher) => Engine::Regex(matcher, Found::default()),
            Pattern::Pcre2(matcher, _) => Engine::Pcre2(matcher, Found::default()),
        };
        let decompress = settings.asked.search_zip.then(|| {
            let mut builder = DecompressionReaderBuilder::new();
            builder.async_stderr(true);
            builder
        });
        Some(Worker {
            settings,
            engine,
            searcher: settings.searcher.build(),
            buffer: Vec::new(),
            out: Rendered::default(),
            read_bytes: 0,
            decompress,
            wary_files: WARY_FILES,
        })
    }

    /// What was printed of the last file and has not left yet.
    pub(super) fn output(&self) -> &[u8] {
        &self.out.bytes
    }

    /// How much was read of the last file; 0 of one that is to be searched in chunks.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Searches a file; the last of its output stays in [`Worker::output`], the rest goes to
    /// `stream` while the search runs.
    ///
    /// # Errors
    /// Of opening or reading the file, of decompressing it, of the matcher,
    /// and of `stream`.
    pub(super) fn search(
        &mut self,
        haystack: &Haystack,
        stream: &FileOutput<'_>,
        patience: Patience,
    ) -> io::Result<Searched> {
        let settings = self.settings;
        self.begin();
        let nul = if haystack.is_named() { settings.nul_named } else { settings.nul_found };
        let path = haystack.path();
        if haystack.is_stdin() {
            return self.read(path, nul, stream, &mut io::stdin().lock()).map(Searched::Done);
        }
        if let Some(program) = settings.preprocessor(path) {
            self.is_here(haystack)?;
            return self.read_program(path, path, nul, stream, program).map(Searched::Done);
        }
        if let Some(builder) = self.decompressor(path) {
            self.is_here(haystack)?;
            let whole = path.to_owned();
            let begin = move || Ok(builder.build(whole)?);
            let mut reader = Patient::open(settings.local(), path, begin)?;
            let search = |reader: &mut dyn Read| self.read(path, nul, stream, reader);
            let outcome = up_to_error(&mut reader, search);
            let closed = reader.end(|mut reader| reader.close());
            return Ok(Searched::Done(self.known(outcome?, closed.err())));
        }
        self.search_file(haystack, nul, stream, patience)
    }

    /// As [`Worker::search`], for a file that turned out not to be one for chunks.
    ///
    /// # Errors
    /// As [`Worker::search`].
    pub(super) fn search_in_order(
        &mut self,
        haystack: &Haystack,
        mut file: &File,
        stream: &FileOutput<'_>,
    ) -> io::Result<Outcome> {
        self.begin();
        let nul =
            if haystack.is_named() { self.settings.nul_named } else { self.settings.nul_found };
        self.read(haystack.path(), nul, stream, &mut file)
    }

    /// As [`Worker::search`], for what is no file: an object that was named so.
    ///
    /// # Errors
    /// As [`Worker::search`].
    pub(super) fn search_stream(
        &mut self,
        name: &Path,
        reader: &mut dyn Read,
        stream: &FileOutput<'_>,
    ) -> io::Result<Outcome> {
        self.begin();
        self.read(name, self.settings.nul_named, stream, reader)
    }

    /// What is known of a file when it has also ended with an error, or with none: that nothing was found
    /// in what came of it says nothing of the rest.
    pub(super) fn known(&mut self, outcome: Outcome, ended: Option<io::Error>) -> Outcome {
        let failed = outcome.failed.or(ended);
        let kind = self.settings.format.kind;
        let is_found = outcome.is_match != kind.wants_no_match();
        if failed.is_none() || is_found || kind.shows_lines() {
            return Outcome { failed, ..outcome };
        }
        self.out.clear();
        let stats = Stats { bytes_printed: 0, ..outcome.stats };
        Outcome { is_match: false, stats, failed, ..outcome }
    }

    /// As [`Worker::search_stream`], for what a program makes of `file`.
    ///
    /// # Errors
    /// As [`Worker::search`]; those of the program.
    pub(super) fn search_program(
        &mut self,
        name: &Path,
        file: &Path,
        stream: &FileOutput<'_>,
        program: &Path,
    ) -> io::Result<Outcome> {
        self.begin();
        self.read_program(name, file, self.settings.nul_named, stream, program)
    }

    fn begin(&mut self) {
        self.out.clear();
        self.read_bytes = 0;
    }

    fn search_file(
        &mut self,
        haystack: &Haystack,
        nul: Nul,
        stream: &FileOutput<'_>,
        patience: Patience,
    ) -> io::Result<Searched> {
        let settings = self.settings;
        let path = haystack.path();
        let may_stall = settings.may_stall(haystack);
        let watch = (patience == Patience::Later).then(|| settings.clock.now());
        let met = if may_stall { self.met(haystack, patience)? } else { Met::open(path)? };
        let (file, metadata) = match met {
            Met::Open(file, metadata) => (Opened::new(file, may_stall), metadata),
            Met::Read(text, metadata) => {
                self.has_read(watch);
                self.read_bytes += text.len() as u64;
                let manner = self.manner(haystack, nul, &metadata);
                let outcome = self.search_text(path, nul, stream, &text, manner);
                self.buffer = text;
                return outcome.map(Searched::Done);
            }
        };
        let (is_regular, size) = (metadata.is_file(), metadata.len());
        if may_be_stub(&metadata) && settings.costs().is_offline(&*file) {
            return Err(failed(&Error::Offline { path: path.to_owned(), size }));
        }
        // A file by itself is worth several threads there.
        let is_alone_and_may_stall = may_stall && haystack.is_named();
        let is_large = is_regular && (self.is_large(size) || (size > 0 && is_alone_and_may_stall));
        if is_large && self.can_be_in_chunks() {
            return Ok(Searched::Large(file));
        }
        if is_regular && patience == Patience::Later && self.is_far(&file, size) {
            return Ok(Searched::Far);
        }
        let mut patient = None;
        if is_regular && may_stall {
            // Where no thread can be had for that, it is read as it is.
            let again = file.try_clone();
            let bounded = again.and_then(|file| fetch::bounded(file, settings.costs()));
            patient = bounded.ok();
        }
        let manner = self.manner(haystack, nul, &metadata);
        if manner == Manner::Stream {
            let reader: &mut dyn Read = match &mut patient {
                Some(patient) => patient,
                None => &mut &*file,
            };
            return self.read(path, nul, stream, reader).map(Searched::Done);
        }
        if manner == Manner::Slice && size >= MAPPED_BYTES_MIN && patient.is_none() {
            // The time that a search takes would tell little, and asking is little beside it.
            if watch.is_some() && !settings.costs().local().is_wholly_near(&*file, size) {
                self.wary_files = WARY_FILES;
            }
            self.read_bytes += size;
            let source = fetch::Source { file: &file, path, costs: settings.costs() };
            let outcome = fetch::view_by_parts(&source, &(0..size), |text, is_sound| {
                self.search_text(path, nul, &stream.while_sound(is_sound), text, manner)
            });
            let outcome = outcome.map_err(|error| io::Error::other(error.reason()))?;
            return outcome.map(Searched::Done);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = match &mut patient {
            Some(patient) => read_whole_from(patient, size, &mut buffer),
            None => read_whole(&file, size, &mut buffer),
        };
        self.has_read(watch);
        self.read_bytes += buffer.len() as u64;
        let result = read.and_then(|()| self.search_text(path, nul, stream, &buffer, manner));
        self.buffer = buffer;
        result.map(Searched::Done)
    }

    /// Opens a file whose mount may not answer, and reads it at once if it is small, was found, and may
    /// not wait or is near: by another thread, to which each call would take as long as such a file.
    ///
    /// # Errors
    /// Of opening or reading the file; that its mount does not answer.
    fn met(&mut self, haystack: &Haystack, patience: Patience) -> io::Result<Met> {
        let settings = self.settings;
        let path = haystack.path();
        // Who names a pipe waits for its writer. What a walk finds is none.
        if haystack.is_named() && metadata(settings, path)?.file_type().is_fifo() {
            return Met::open(path);
        }
        let reads = !haystack.is_named() && !self.is_large(1);
        let however_far = patience == Patience::Now || self.wary_files == 0;
        let mut has_stubs = settings.costs().may_have_stubs(path);
        loop {
            let (of, reach) = (path.to_owned(), Arc::clone(&settings.reach));
            let mut buffer = std::mem::take(&mut self.buffer);
            let meet = move || -> io::Result<Option<Met>> {
                // Opening alone may recall it.
                if has_stubs && may_be_stub(&std::fs::metadata(&of)?) {
                    return Ok(None);
                }
                let (file, metadata) = open(&of)?;
                let size = metadata.len();
                // One without blocks may be a stub.
                let is_small =
                    metadata.is_file() && metadata.blocks() > 0 && size < BUFFER_BYTES as u64;
                let is_read =
                    reads && is_small && (however_far || reach.local().is_wholly_near(&file, size));
                if !is_read {
                    return Ok(Some(Met::Open(file, metadata)));
                }
                read_whole(&file, size, &mut buffer)?;
                Ok(Some(Met::Read(buffer, metadata)))
            };
            let met = settings.local().reached(path).and_then(|at| at.bounded(meet));
            let Some(met) = met.map_err(|dead| failed(&dead))?? else {
                // It may lie elsewhere than its name.
                settings.costs().is_here(path).map_err(|error| failed(&error))?;
                has_stubs = false;
                continue;
            };
            if matches!(met, Met::Read(..)) && !however_far {
                self.wary_files -= 1;
            }
            return Ok(met);
        }
    }

    /// That a program which is to read a file recalls nothing, and is not kept from its first bytes for ever.
    fn is_here(&self, haystack: &Haystack) -> io::Result<()> {
        let (settings, path) = (self.settings, haystack.path());
        let metadata = metadata(settings, path)?;
        if may_be_stub(&metadata) {
            settings.costs().is_here(path).map_err(|error| failed(&error))?;
        }
        if metadata.is_file() && settings.may_stall(haystack) {
            let of = path.to_owned();
            let at = settings.local().reached(path).map_err(|error| failed(&error))?;
            // What else is wrong with it, the program meets, too.
            drop(at.bounded(move || File::open(of)?.read(&mut [0])).map_err(|dead| failed(&dead))?);
        }
        Ok(())
    }

    /// Notes whether a file that was watched since then was slow.
    fn has_read(&mut self, watch: Option<Duration>) {
        let clock = &self.settings.clock;
        if watch.is_some_and(|start| clock.now().saturating_sub(start) > SLOW_READ) {
            self.wary_files = WARY_FILES;
        }
    }

    fn manner(&self, haystack: &Haystack, nul: Nul, metadata: &Metadata) -> Manner {
        let settings = self.settings;
        let (is_regular, size) = (metadata.is_file(), metadata.len());
        let mapped = is_regular
            && size > 0
            && if haystack.is_named() { settings.map_named } else { settings.map_found };
        let spans_lines =
            settings.pattern.as_ref().is_some_and(|it| it.spans_lines(&self.searcher));
        if !settings.plain_encoding {
            Manner::Stream
        } else if spans_lines || (mapped && (size < LARGE_BYTES || settings.asked.multiline)) {
            Manner::Slice
        } else if !mapped
            && is_regular
            && size > 0
            && size < BUFFER_BYTES as u64
            && nul != Nul::Report
            // A searcher sees in a slice only at the next match that one line was none.
            && !(settings.asked.stop_on_nonmatch && settings.asked.invert_match)
        {
            Manner::Whole
        } else {
            Manner::Stream
        }
    }

    /// Searches all of a file, which was read.
    fn search_text(
        &mut self,
        path: &Path,
        nul: Nul,
        stream: &FileOutput<'_>,
        mut text: &[u8],
        manner: Manner,
    ) -> io::Result<Outcome> {
        if manner == Manner::Stream {
            return self.run(path, nul, stream, Source::Reader(&mut text));
        }
        let marked = self.settings.sniff && begins_with_mark(text);
        if marked || manner == Manner::Slice {
            self.run(path, nul, stream, Source::Slice(text))
        } else if text.len() > BUFFER_BYTES {
            self.run(path, nul, stream, Source::Reader(&mut text))
        } else if let Some(at) = memchr::memchr(0, text).filter(|_| nul == Nul::Leave) {
            let source = if ends_a_line_in_mark(text) {
                Source::Reader(&mut text)
            } else {
                Source::Binary(at as u64)
            };
            self.run(path, nul, stream, source)
        } else {
            self.searcher.set_binary_detection(BinaryDetection::none());
            self.run_undetected(path, nul, stream, Source::Slice(text))
        }
    }

    /// Whether the file is not in memory; then the kernel begins to fetch it.
    fn is_far(&mut self, file: &File, size: u64) -> bool {
        if self.wary_files == 0 {
            return false;
        }
        self.wary_files -= 1;
        let costs = self.settings.costs();
        let far = !costs.local().is_wholly_near(file, size)
            && costs
                .file_sleds(file)
                .is_ok_and(|sleds| sleds.iter().any(|sled| sled.place == Place::Far));
        if far {
            self.wary_files = WARY_FILES;
            let mut offset = 0;
            while let Some(length) = NonZeroU64::new((size - offset).min(READ_AHEAD_BYTES)) {
                // Where advice is not taken, reading fetches.
                if fadvise(file, offset, Some(length), Advice::WillNeed).is_err() {
                    break;
                }
                offset += length.get();
            }
        }
        far
    }

    /// Whether a regular file of this size is worth several threads.
    fn is_large(&self, size: u64) -> bool {
        match self.settings.asked.chunk_bytes {
            Some(_) => size > 0,
            None => size >= LARGE_BYTES,
        }
    }

    /// Whether what is asked of a file can be answered chunk by chunk.
    fn can_be_in_chunks(&self) -> bool {
        let asked = &self.settings.asked;
        // With every line shown, -m only says which are shown as matches: that is for one reader.
        let limited_view = asked.context == Context::All && asked.max_count.is_some();
        self.settings.plain_encoding
            && !self.settings.begins_text
            && !asked.multiline
            && !asked.stop_on_nonmatch
            && !limited_view
    }

    /// What decompresses a file, if it is of that kind.
    fn decompressor(&self, path: &Path) -> Option<DecompressionReaderBuilder> {
        let known = self.decompress.as_ref();
        known.filter(|builder| builder.get_matcher().has_command(path)).cloned()
    }

    fn read_program(
        &mut self,
        path: &Path,
        file: &Path,
        nul: Nul,
        stream: &FileOutput<'_>,
        program: &Path,
    ) -> io::Result<Outcome> {
        let (name, of) = (program.display().to_string(), file.to_owned());
        let failed =
            move |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
        let (mut command, cannot_begin) = (Command::new(program), failed.clone());
        let begin = move || {
            command.arg(&of).stdin(Stdio::from(File::open(&of)?));
            let reader = CommandReaderBuilder::new().async_stderr(true).build(&mut command);
            reader.map_err(|error| cannot_begin(error.into()))
        };
        let mut reader = Patient::open(self.settings.local(), file, begin)?;
        let outcome = self.read(path, nul, stream, &mut reader);
        let closed = reader.end(|mut reader| reader.close());
        let outcome = outcome.map_err(failed)?;
        closed?;
        Ok(outcome)
    }

    fn read(
        &mut self,
        path: &Path,
        nul: Nul,
        stream: &FileOutput<'_>,
        reader: &mut dyn Read,
    ) -> io::Result<Outcome> {
        let mut counted = Counted::new(reader);
        let outcome = self.run(path, nul, stream, Source::Reader(&mut counted));
        self.read_bytes += counted.bytes;
        outcome
    }

    fn run(
        &mut self,
        path: &Path,
        nul: Nul,
        stream: &FileOutput<'_>,
        source: Source<'_>,
    ) -> io::Result<Outcome> {
        self.searcher.set_binary_detection(Settings::detection(nul));
        self.run_undetected(path, nul, stream, source)
    }

    fn run_undetected(
        &mut self,
        path: &Path,
        nul: Nul,
        stream: &FileOutput<'_>,
        source: Source<'_>,
    ) -> io::Result<Outcome> {
        let settings = self.settings;
        let path = printed_path(path, settings.asked.path_separator);
        let (searcher, out) = (&mut self.searcher, &mut self.out);
        let whole = WholeFile {
            format: &settings.format,
            path: &path,
            nul,
            stream,
            clock: &settings.clock,
        };
        match &mut self.engine {
            Engine::Regex(matcher, found) => whole.search(searcher, matcher, found, source, out),
            Engine::Pcre2(matcher, found) => whole.search(searcher, matcher, found, source, out),
        }
    }
}

/// A file that a search has come to.
enum Met {
    Open(File, Metadata),
    /// It is closed again.
    Read(Vec<u8>, Metadata),
}

impl Met {
    fn open(path: &Path) -> io::Result<Self> {
        open(path).map(|(file, metadata)| Self::Open(file, metadata))
    }
}

/// How the text of a file comes to the searcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Piece by piece.
    Stream,
    /// At once, to be looked through for NUL bytes first.
    Whole,
    /// At once, as it is.
    Slice,
}

/// What a file is, in bounded time where its mount may not answer.
fn metadata(settings: &Settings, path: &Path) -> io::Result<Metadata> {
    let of = path.to_owned();
    let at = settings.local().reached(path).map_err(|error| failed(&error))?;
    at.bounded(move || std::fs::metadata(of)).map_err(|dead| failed(&dead))?
}

/// Whether it has a size and no blocks: others need not be asked about.
fn may_be_stub(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() > 0 && metadata.blocks() == 0
}

fn failed(error: &Error) -> io::Error {
    io::Error::other(error.reason())
}

fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// One search of one file, from its first byte to its last.
struct WholeFile<'a> {
    format: &'a Format,
    path: &'a [u8],
    nul: Nul,
    stream: &'a FileOutput<'a>,
    clock: &'a Clock,
}

impl WholeFile<'_> {
    fn search<M: Matcher>(
        &self,
        searcher: &mut Searcher,
        matcher: &M,
        found: &mut Found<M>,
        source: Source<'_>,
        out: &mut Rendered,
    ) -> io::Result<Outcome> {
        // The time is shown with the counts, and costs a call for each file.
        let start = self.format.stats.then(|| self.clock.now());
        let mut printing = Printing {
            format: self.format,
            matcher,
            found,
            path: self.path,
            out: &mut *out,
            nul: self.nul,
            scope: Scope::File(self.stream),
            tally: Tally::default(),
            opened: false,
            shown: None,
            context_lines: 0,
            before_first: None,
        };
        match source {
            Source::Reader(reader) => searcher.search_reader(matcher, reader, &mut printing)?,
            Source::Slice(slice) => searcher.search_slice(matcher, slice, &mut printing)?,
            Source::Binary(offset) => printing.tally.binary_offset = Some(offset),
        }
        let tally = printing.tally;
        let printed = self.stream.printed_bytes();
        let elapsed = start.map(|start| self.clock.now().saturating_sub(start));
        let stats = Stats { elapsed: elapsed.unwrap_or_default(), ..Stats::default() };
        close(self.format, self.path, self.nul, &tally, stats, printed, out)
    }
}
