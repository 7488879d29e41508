//! Searches one large file in chunks, with several threads, near first.
//!
//! [`part`] searches a chunk without knowing what is around it, [`inbox`] takes the results from
//! the threads, [`merge`] joins them into output in file order, by what [`edge`] has of lines
//! around matches, [`waiting`] keeps those whose turn has not come; [`quoted`] writes long text;
//! [`sparse`] passes over holes; [`upset`] bears with files that are written meanwhile.

mod edge;
mod inbox;
mod merge;
mod part;
mod quoted;
mod sparse;
mod upset;
mod waiting;

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use grep::matcher::Matcher;
use grep::searcher::{BinaryDetection, Searcher};
use nearfirst::Costs;
use nearfirst::fetch::{self, ScanOptions, ScanReport, Source};
use store::lock;

use self::edge::{Edge, LongLine};
use self::inbox::Inbox;
use self::merge::{Merge, Rest, Want};
use self::part::{Bench, Method};
pub(super) use self::sparse::Stretched;
use self::sparse::{Sparse, Stretch};
use self::waiting::Waiting;
use super::output::{FileOutput, Output};
use super::pattern::Pattern;
use super::print::found::Found;
use super::print::rendered::Rendered;
use super::print::tally::Stats;
use super::print::{Nul, Outcome, close};
use super::settings::Settings;
use super::walk::{Haystack, printed_path};

/// Bytes of a chunk: lines are counted after the search, while the chunk is in a core's cache.
const CHUNK_BYTES: usize = 512 << 10;
/// Bytes of a chunk of a search that ends with a match: what is read beyond it is for nothing.
const STOPPING_CHUNK_BYTES: usize = 256 << 10;

/// What became of a large file.
#[expect(clippy::large_enum_variant, reason = "there is one for a large file")]
pub(super) enum Scanned {
    Done(Outcome, ScanReport),
    /// Its text is encoded: it must be searched as a whole.
    Encoded,
}

/// Searches `file` and prints what is found.
///
/// # Errors
/// Of reading, of the matcher, of standard output; a file that became shorter
/// meanwhile.
pub(super) fn search(
    settings: &Settings,
    costs: &Costs,
    output: &Output,
    haystack: &Haystack,
    file: &File,
) -> io::Result<Scanned> {
    let run = Run { settings, costs, output, haystack, file };
    match settings.pattern.as_ref().expect("there is a search only with a pattern") {
        Pattern::Regex(matcher) => run.with(matcher),
        Pattern::Pcre2(matcher, _) => run.with(matcher),
    }
}

struct Run<'a> {
    settings: &'a Settings,
    costs: &'a Costs,
    output: &'a Output,
    haystack: &'a Haystack,
    file: &'a File,
}

impl Run<'_> {
    fn with<M>(&self, matcher: &M) -> io::Result<Scanned>
    where
        M: Matcher + Clone + Send + Sync,
        M::Captures: Send,
    {
        let settings = self.settings;
        let path = printed_path(self.haystack.path(), settings.asked.path_separator);
        let method = self.method(&path);
        let searcher = |want: Want| self.searcher(want);
        let bench = || Bench {
            matcher: matcher.clone(),
            searcher: searcher(Want::Usual),
            found: Found::default(),
        };
        let first = bench();
        let unordered = settings.asked.unordered && is_free_of_order(&first.searcher, &method);
        let source = Source { file: self.file, path: self.haystack.path(), costs: self.costs };
        let method = Method { at_once: unordered, ..method };
        // Where bytes are counted, those of a mark are not.
        let counts_bytes = settings.format.lines.byte_offset || settings.format.stats;
        if unordered && settings.sniff && counts_bytes && part::mark_of(&source)?.is_some() {
            return Ok(Scanned::Encoded);
        }
        let avoids_nul = settings.pattern.as_ref().is_some_and(Pattern::avoids_nul);
        let sparse = Sparse::of(source, &method, &first.searcher, matcher, avoids_nul)?;
        let holes = sparse.as_ref().map_or_else(Vec::new, |sparse| sparse.holes().to_vec());
        let output = FileOutput::new(self.output);
        let spill_folder = || settings.fetching.spill_folder();
        let waiting = (!unordered).then(|| Waiting::new(settings.budget_bytes, spill_folder()));
        let merge = Merge::new(method, source, holes, output, first, &searcher, waiting);
        let merge = Mutex::new(merge);
        let start = settings.clock.now();
        let report = match &sparse {
            Some(sparse) => {
                Self::pass_over(&source, sparse, &method, bench(), &merge)?;
                sparse.report(settings.says_reading)
            }
            None => self.scan(&source, &method, &bench, &merge)?,
        };
        let merge = merge.into_inner().unwrap_or_else(PoisonError::into_inner);
        if merge.marked {
            return Ok(Scanned::Encoded);
        }
        let elapsed = settings.clock.now().saturating_sub(start);
        self.finish(&method, &merge, elapsed).map(|outcome| Scanned::Done(outcome, report))
    }

    /// How every chunk is searched.
    fn method<'path>(&self, path: &'path [u8]) -> Method<'path>
    where
        Self: 'path,
    {
        let settings = self.settings;
        let named = self.haystack.is_named();
        Method {
            format: &settings.format,
            path,
            nul: if named { settings.nul_named } else { settings.nul_found },
            mapped: if named { settings.map_named } else { settings.map_found },
            sniff: settings.sniff,
            at_once: false,
            separator: if settings.asked.null_data { 0 } else { b'\n' },
        }
    }

    fn searcher(&self, want: Want) -> Searcher {
        let settings = self.settings;
        let mut builder = settings.searcher.clone();
        // Only the start of the file may be marked, and only the merge knows
        // what a NUL byte means.
        builder.bom_sniffing(false).binary_detection(BinaryDetection::none());
        if !settings.format.kind.shows_lines() {
            builder.line_number(false).passthru(false);
            if settings.asked.max_count.is_none() {
                builder.before_context(0).after_context(0);
            }
        }
        match want {
            Want::Usual => {}
            Want::AtMost(count) => {
                builder.max_matches(Some(count));
            }
            Want::EveryLine => {
                builder.max_matches(None).before_context(0).after_context(0).passthru(true);
            }
        }
        builder.build()
    }

    /// Searches all of the file, near first.
    fn scan<M>(
        &self,
        source: &Source<'_>,
        method: &Method<'_>,
        bench: &(dyn Fn() -> Bench<M> + Sync),
        merge: &Mutex<Merge<'_, M>>,
    ) -> io::Result<ScanReport>
    where
        M: Matcher + Send,
        M::Captures: Send,
    {
        // A matcher is quickest in the thread that used it first.
        let benches: Mutex<Vec<(ThreadId, Bench<M>)>> = Mutex::new(Vec::new());
        let failed: Mutex<Option<io::Error>> = Mutex::new(None);
        let inbox = Inbox::default();
        let report = fetch::scan(
            source,
            &self.options(method.separator),
            |chunk, _| {
                let thread = thread::current().id();
                let mut at_hand = own(&benches, thread).unwrap_or_else(bench);
                let part =
                    upset::caught(|| at_hand.search(method, source, chunk.offset, chunk.bytes));
                if part.is_ok() {
                    lock(&benches).push((thread, at_hand));
                }
                part
            },
            |range, part, control| {
                inbox.put((range, part), merge, |merge, (range, part)| {
                    let rest = part.and_then(|part| {
                        let rest = merge.put(range, part);
                        // Nothing is printed after what is missing.
                        merge.done |= rest.is_err();
                        rest
                    });
                    match rest {
                        Ok(Rest::All) => {}
                        Ok(Rest::Before(offset)) => control.stop_before(offset),
                        Ok(Rest::None) => control.stop(),
                        Err(error) => {
                            lock(&failed).get_or_insert(error);
                            control.stop();
                        }
                    }
                });
            },
        );
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        match report {
            // What is settled stays so, whatever happened to the rest of the file.
            Err(_) if lock(merge).done || lock(merge).marked => Ok(ScanReport::default()),
            report => report.map_err(|error| io::Error::other(error.reason())),
        }
    }

    /// Searches what is no hole.
    fn pass_over<M: Matcher>(
        source: &Source<'_>,
        sparse: &Sparse<'_>,
        method: &Method<'_>,
        mut bench: Bench<M>,
        merge: &Mutex<Merge<'_, M>>,
    ) -> io::Result<()> {
        // Of a file that is left at its first NUL byte, no line with a hole is printed.
        let prints_holes = method.format.kind.shows_lines() && method.nul != Nul::Leave;
        sparse.lines(method.separator, |stretch| {
            let (range, part) = match stretch {
                Stretch::Lines { range, bytes } => {
                    let part = bench.search(method, source, range.start, bytes)?;
                    (range, part)
                }
                Stretch::WithHoles(line) if prints_holes => {
                    (line.range.clone(), bench.search_stretched(method, source, &line)?)
                }
                Stretch::WithHoles(line) => {
                    let range = line.range;
                    let mut part = bench.search(method, source, range.start, line.short)?;
                    part.tally.bytes_searched += range.end - range.start - line.short.len() as u64;
                    // Of one that is left, lines before the hole may be with it.
                    if method.nul != Nul::Leave {
                        part.head = Edge::Long(LongLine::unprinted(range.clone()));
                    }
                    (range, part)
                }
                Stretch::Empty(range) => {
                    let part = bench.empty_lines(&range);
                    (range, part)
                }
            };
            let next = range.end;
            Ok(match lock(merge).put(range, part)? {
                Rest::All => true,
                Rest::Before(offset) => next < offset,
                Rest::None => false,
            })
        })
    }

    /// Prints what comes after the last line, and sums up.
    fn finish<M: Matcher>(
        &self,
        method: &Method<'_>,
        merge: &Merge<'_, M>,
        elapsed: Duration,
    ) -> io::Result<Outcome> {
        let stats = Stats { elapsed, ..Stats::default() };
        let mut end = Rendered::default();
        let printed = merge.output().printed_bytes();
        let mut tally = merge.tally;
        if merge.ends_with_match() {
            tally.bytes_searched = tally.bytes_searched.min(tally.matches_end);
        }
        // What follows a NUL byte is not counted as searched, as in ripgrep.
        tally.bytes_searched = tally.bytes_searched.min(tally.binary_offset.unwrap_or(u64::MAX));
        let outcome =
            close(method.format, method.path, method.nul, &tally, stats, printed, &mut end)?;
        if self.settings.separates(&outcome) {
            merge.output().write(&end.bytes)?;
        } else {
            self.output.write_more(&end.bytes)?;
        }
        Ok(outcome)
    }

    fn options(&self, separator: u8) -> ScanOptions {
        let settings = self.settings;
        let may_stop = settings.format.kind.stops_at_match() || settings.asked.max_count.is_some();
        ScanOptions {
            chunk_bytes: settings.asked.chunk_bytes.unwrap_or(if may_stop {
                STOPPING_CHUNK_BYTES
            } else {
                CHUNK_BYTES
            }),
            separator: Some(separator),
            jobs: settings.file_threads,
            plan: settings.plan.into(),
            ahead: !may_stop,
            estimates: settings.says_reading,
            whole_holes: false,
        }
    }
}

/// Whether chunks can be printed as they come: nothing reaches over their edges.
fn is_free_of_order(searcher: &Searcher, method: &Method<'_>) -> bool {
    !method.minds_every_nul()
        && !searcher.line_number()
        && !searcher.passthru()
        && searcher.before_context() == 0
        && searcher.after_context() == 0
}

/// What a thread has used before, taken.
fn own<T>(of_threads: &Mutex<Vec<(ThreadId, T)>>, thread: ThreadId) -> Option<T> {
    let mut of_threads = lock(of_threads);
    let at = of_threads.iter().position(|(whose, _)| *whose == thread)?;
    Some(of_threads.swap_remove(at).1)
}
