//! What a run does, resolved from what was asked.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};
use grep::matcher::LineTerminator;
use grep::searcher::{BinaryDetection, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use nearfirst::{Backing, Clock, Costs, Local};

use super::asked::{
    Asked, Binary, Boundary, Buffered, Context, EncodingChoice, Mode, PatternSource, Separator,
    When,
};
use super::filters::Filters;
use super::pattern::{self, Pattern};
use super::print::lines::LineFormat;
use super::print::style::Style;
use super::print::{Format, Kind, Nul, Outcome};
use super::trouble::Trouble;
use super::walk::Haystack;
use crate::asking::AskFlags;
use crate::flags::{PlanFlag, ReadFlags, THREADS_MAX};
use crate::reach::Reach;
use crate::sets;
use crate::sets::flags::{FetchFlags, StoreFlags};
use crate::specs::{Specs, is_spec};

/// Up to this many named files, ripgrep maps them; then a NUL byte is text to
/// the matcher, where otherwise it ends a line.
const MAPPED_FILES_MAX: usize = 10;

/// Results that wait for their turn are kept in memory up to this size: large
/// enough that warm files never need a temporary file, small beside any memory.
const BUDGET_BYTES: u64 = 64 << 20;

/// Everything that a run needs to know.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the run")]
pub(super) struct Settings {
    pub(super) asked: Asked,
    pub(super) paths: Paths,
    /// `None` if nothing can match.
    pub(super) pattern: Option<Pattern>,
    pub(super) searcher: SearcherBuilder,
    pub(super) format: Format,
    /// Between the output of two files, with its line end.
    pub(super) file_separator: Option<Vec<u8>>,
    /// `None`: on a terminal.
    pub(super) by_line: Option<bool>,
    pub(super) threads: usize,
    /// Threads for one large file.
    pub(super) file_threads: usize,
    pub(super) plan: PlanFlag,
    pub(super) quit_after_match: bool,
    pub(super) stats: bool,
    /// Whether it is said how the bytes came.
    pub(super) says_reading: bool,
    pub(super) nul_named: Nul,
    pub(super) nul_found: Nul,
    /// Named files are searched as if mapped.
    pub(super) map_named: bool,
    /// So are files found in folders.
    pub(super) map_found: bool,
    /// Files are searched as bytes, unless they begin with a byte-order mark.
    pub(super) plain_encoding: bool,
    /// A pattern may ask for the beginning of the text, which ripgrep takes for where its last match ends, too.
    pub(super) begins_text: bool,
    pub(super) sniff: bool,
    pub(super) preprocessor_globs: Override,
    pub(super) filters: Filters,
    pub(super) budget_bytes: u64,
    pub(super) current_folder: PathBuf,
    pub(super) clock: Clock,
    /// Where objects live, and how they are fetched.
    pub(super) stores: StoreFlags,
    pub(super) fetching: FetchFlags,
    /// What may not answer.
    pub(super) reach: Arc<Reach>,
    asking: AskFlags,
    costs: OnceLock<Arc<Costs>>,
}

/// What to search.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) all: Vec<PathBuf>,
    /// Operands that stand for objects of stores.
    pub(super) objects: Vec<OsString>,
    /// None was given.
    pub(super) is_default: bool,
    pub(super) is_one_file: bool,
}

impl Paths {
    fn new(named: Option<Named>, search: bool, stdin_taken: bool) -> Paths {
        if let Some(Named { paths: all, objects, are_several }) = named {
            let [first, ..] = all.as_slice() else {
                let is_one_file =
                    !are_several && matches!(objects.as_slice(), [one] if sets::is_one_name(one));
                return Paths { all, objects, is_default: false, is_one_file };
            };
            let is_one_file = !are_several && (first == Path::new("-") || !first.is_dir());
            return Paths { all, objects, is_default: false, is_one_file };
        }
        let stdin = search && !stdin_taken && grep::cli::is_readable_stdin();
        let path = if stdin { "-" } else { "./" };
        Paths { all: vec![path.into()], objects: Vec::new(), is_default: true, is_one_file: stdin }
    }

    /// Whether there is nothing to search.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.objects.is_empty()
    }

    fn is_only_stdin(&self) -> bool {
        self.all.len() == 1 && self.all[0] == Path::new("-")
    }
}

impl Settings {
    /// The program whose output is searched instead of this file.
    pub(super) fn preprocessor(&self, path: &Path) -> Option<&Path> {
        let globs = &self.preprocessor_globs;
        let is_for = globs.is_empty() || !globs.matched(path, false).is_ignore();
        self.asked.preprocessor.as_deref().filter(|_| is_for)
    }

    /// Whether what is shown of a file is separated from what was shown before: in one thread,
    /// ripgrep does so before lines only.
    pub(super) fn separates(&self, outcome: &Outcome) -> bool {
        self.threads > 1 || !outcome.is_word_only
    }

    /// Whether a file lies, by its name, where opening it may never end.
    pub(super) fn may_stall(&self, haystack: &Haystack) -> bool {
        let path = haystack.path();
        if haystack.is_named() {
            self.costs().local().backing_by_name(path).is_none_or(Backing::may_stall)
        } else {
            // The path does not show where the links in it lead.
            let is_led = self.asked.follow && self.reach.is_wary();
            is_led || self.reach.may_stall(path.as_os_str().as_bytes())
        }
    }

    /// The file systems of this machine, by those who know what has not answered.
    pub(super) fn local(&self) -> &Local {
        if self.reach.is_wary() { self.reach.local() } else { self.costs().local() }
    }

    /// Resolves what was asked.
    ///
    /// # Errors
    /// What cannot be done, for the user to read.
    pub(super) fn new(
        mut asked: Asked,
        read: &ReadFlags,
        (stores, fetching): (StoreFlags, FetchFlags),
        stats: bool,
        trouble: &Trouble,
    ) -> anyhow::Result<Settings> {
        settle_mode(&mut asked);
        let search = asked.mode.is_search();
        let costs = OnceLock::new();
        let begun = || &**costs.get_or_init(|| Arc::new(read.asking.costs()));
        let patterns = take_patterns(&mut asked, begun)?;
        let (operands, stdin_taken) = take_operands(&mut asked)?;
        fetching.check_spill(&read.asking.local())?;
        let current_folder = current_folder()?;
        let filters = Filters::new(&asked, &current_folder, &operands)?;
        let named =
            (!operands.is_empty()).then(|| named_paths(operands, &filters, begun(), trouble));
        let paths = Paths::new(named, search, stdin_taken);
        let reach = reach(&asked, &paths, &read.asking);
        let terminal = std::io::stdout().is_terminal();

        let nul_is_text = nul_is_text(&asked);
        let possible =
            search && (asked.invert_match || !patterns.is_empty()) && asked.max_count != Some(0);
        let pattern =
            possible.then(|| pattern::compile(&asked, &patterns, nul_is_text)).transpose()?;
        let says_reading = search && stats;
        let stats = search && (stats || asked.mode == Mode::Json);
        let jobs = asked.threads.map_or_else(|| read.threads(), |threads| threads.min(THREADS_MAX));
        let threads = if asked.sort.is_some() || paths.is_one_file { 1 } else { jobs };
        let format = format(&asked, &paths, terminal, stats);
        let named_files =
            paths.all.len() <= MAPPED_FILES_MAX && paths.all.iter().all(|path| path.is_file());
        let preprocessor_globs = overrides(&current_folder, &asked.preprocessor_globs, &[], false)?;
        Ok(Settings {
            pattern,
            searcher: searcher(&asked, &paths, terminal),
            file_separator: file_separator(&asked, &format, threads),
            by_line: asked.buffered.map(|buffered| buffered == Buffered::Line),
            threads,
            file_threads: jobs,
            plan: read.plan,
            quit_after_match: asked.quiet && !stats,
            stats,
            says_reading,
            nul_named: if nul_is_text { Nul::Text } else { Nul::Report },
            nul_found: nul_found(&asked),
            map_named: asked.map_files.unwrap_or(named_files),
            map_found: asked.map_files.unwrap_or(named_files),
            plain_encoding: !matches!(asked.encoding, EncodingChoice::Known(_)),
            begins_text: may_begin_text(&asked, &patterns),
            sniff: matches!(asked.encoding, EncodingChoice::Auto),
            preprocessor_globs,
            filters,
            budget_bytes: asked.budget_bytes.unwrap_or(BUDGET_BYTES),
            current_folder,
            clock: Clock::real(),
            stores,
            fetching,
            reach: Arc::new(reach),
            asking: read.asking.clone(),
            costs,
            format,
            paths,
            asked,
        })
    }

    /// What knows where files are, loaded by the first question.
    pub(super) fn costs(&self) -> &Arc<Costs> {
        self.costs.get_or_init(|| Arc::new(self.asking.costs()))
    }

    /// Writes down what reading taught. It is worth keeping, but not worth failing for.
    pub(super) fn save_costs(&self) {
        if let Some(costs) = self.costs.get() {
            drop(costs.save());
        }
    }

    /// What the searcher is to do about NUL bytes.
    pub(super) fn detection(nul: Nul) -> BinaryDetection {
        match nul {
            Nul::Text => BinaryDetection::none(),
            Nul::Report => BinaryDetection::convert(0),
            Nul::Leave => BinaryDetection::quit(0),
        }
    }
}

/// What operands stand for.
struct Named {
    paths: Vec<PathBuf>,
    objects: Vec<OsString>,
    are_several: bool,
}

/// What operands stand for, without those that cannot be asked about: a walk
/// that began on a mount that does not answer would not return.
fn named_paths(
    operands: Vec<OsString>,
    filters: &Filters,
    costs: &Costs,
    trouble: &Trouble,
) -> Named {
    let (objects, operands): (Vec<_>, Vec<_>) =
        operands.into_iter().partition(|operand| sets::needs_engine(costs.local(), operand));
    let mut paths = Vec::new();
    for operand in operands {
        if !is_spec(&operand) {
            paths.push(PathBuf::from(operand));
            continue;
        }
        let is_named = filters.is_empty() || !sets::names(&operand).is_empty();
        for found in Specs::new(costs.local(), vec![operand.clone()]) {
            match found {
                Ok(path) if is_named || path == operand || filters.take_path(&path, costs) => {
                    paths.push(path);
                }
                Ok(_) => {}
                Err(error) => {
                    trouble.say(format_args!("{}: {}", sets::shown(&error.spec), error.reason));
                }
            }
        }
    }
    // Who names several is told which, also if only one answers.
    let are_several = paths.len() + objects.len() > 1;
    paths.retain(|path| match costs.local().stat(path) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            trouble.say(error);
            false
        }
        _ => true,
    });
    Named { paths, objects, are_several }
}

fn settle_mode(asked: &mut Asked) {
    match asked.mode {
        Mode::CountMatches if asked.invert_match => asked.mode = Mode::Count,
        Mode::Count if asked.only_matching => asked.mode = Mode::CountMatches,
        // It is read by programs, which open what it names.
        Mode::Json => asked.path_separator = None,
        _ => {}
    }
}

/// Takes what is to be searched, and tells whether the patterns are read from standard input.
fn take_operands(asked: &mut Asked) -> anyhow::Result<(Vec<OsString>, bool)> {
    let is_stdin = |source: &PatternSource| matches!(source, PatternSource::File(path) if path == Path::new("-"));
    let stdin_taken = asked.patterns.iter().any(is_stdin);
    let operands = std::mem::take(&mut asked.operands);
    if stdin_taken && operands.iter().any(|operand| operand == "-") {
        bail!("standard input cannot be both patterns and text");
    }
    Ok((operands, stdin_taken))
}

/// Takes the pattern from the operands, unless a flag gave it.
fn take_patterns<'a>(
    asked: &mut Asked,
    costs: impl Fn() -> &'a Costs,
) -> anyhow::Result<Vec<String>> {
    if !asked.mode.is_search() {
        return Ok(Vec::new());
    }
    if !asked.patterns.is_empty() {
        return pattern::gather(&asked.patterns, costs);
    }
    if asked.operands.is_empty() {
        bail!("no pattern was given: nearfirst grep PATTERN [PATH]...");
    }
    match asked.operands.remove(0).into_string() {
        Ok(pattern) => Ok(vec![pattern]),
        Err(_) => bail!("the pattern is not valid UTF-8"),
    }
}

fn current_folder() -> anyhow::Result<PathBuf> {
    std::env::current_dir().or_else(|error| {
        std::env::var_os("PWD")
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
            .with_context(|| format!("current folder: {error}"))
    })
}

/// Globs as the walk takes them; those of `any_case` ignore letter case.
///
/// # Errors
/// A glob that cannot be parsed.
pub(super) fn overrides(
    folder: &Path,
    globs: &[String],
    any_case: &[String],
    all_any_case: bool,
) -> anyhow::Result<Override> {
    if globs.is_empty() && any_case.is_empty() {
        return Ok(Override::empty());
    }
    let mut builder = OverrideBuilder::new(folder);
    builder.case_insensitive(all_any_case)?;
    for glob in globs {
        builder.add(glob)?;
    }
    builder.case_insensitive(true)?;
    for glob in any_case {
        builder.add(glob)?;
    }
    Ok(builder.build()?)
}

/// What may not answer of what is walked; one file alone is not walked.
fn reach(asked: &Asked, paths: &Paths, asking: &AskFlags) -> Reach {
    if paths.is_one_file || paths.all.is_empty() {
        return Reach::default();
    }
    let reach = Reach::new(asking.local());
    if asked.follow || reach.concerns(&paths.all) { reach } else { Reach::default() }
}

fn nul_is_text(asked: &Asked) -> bool {
    asked.binary == Binary::Text || asked.null_data
}

/// What NUL is in files that are found in folders.
fn nul_found(asked: &Asked) -> Nul {
    match asked.binary {
        _ if nul_is_text(asked) => Nul::Text,
        Binary::Report => Nul::Report,
        Binary::Auto | Binary::Text => Nul::Leave,
    }
}

/// Whether one of the patterns may ask for the beginning of a text.
fn may_begin_text(asked: &Asked, patterns: &[String]) -> bool {
    // Where NUL ends lines, `^` is where the text begins or a line of it, not a record.
    let begins_record = |pattern: &String| {
        asked.null_data && (asked.boundary == Some(Boundary::Line) || pattern.contains('^'))
    };
    patterns.iter().any(|pattern| begins_text(pattern) || begins_record(pattern))
}

/// Whether a pattern may ask for the beginning of a text, and not of a line: by `\A`, or by `^` without
/// the flag `m`.
fn begins_text(pattern: &str) -> bool {
    let mut flags = pattern.split("(?").skip(1).map(|rest| rest.split([')', ':']).next());
    pattern.contains("\\A")
        || flags.any(|flags| {
            flags.and_then(|flags| flags.split_once('-')).is_some_and(|(_, off)| off.contains('m'))
        })
}

fn terminator(asked: &Asked) -> LineTerminator {
    if asked.crlf {
        LineTerminator::crlf()
    } else if asked.null_data {
        LineTerminator::byte(0)
    } else {
        LineTerminator::byte(b'\n')
    }
}

fn shows_line_numbers(asked: &Asked, paths: &Paths, terminal: bool) -> bool {
    let shown = match asked.mode {
        _ if asked.quiet => false,
        Mode::Json => true,
        Mode::Lines if asked.unordered => false,
        Mode::Lines => {
            (terminal && !paths.is_only_stdin()) || asked.column.unwrap_or(false) || asked.per_match
        }
        _ => false,
    };
    asked.line_number.unwrap_or(shown)
}

fn searcher(asked: &Asked, paths: &Paths, terminal: bool) -> SearcherBuilder {
    let mut builder = SearcherBuilder::new();
    let (before, after) = asked.context.lines();
    builder
        .max_matches(asked.max_count)
        .line_terminator(terminator(asked))
        .invert_match(asked.invert_match)
        .line_number(shows_line_numbers(asked, paths, terminal))
        .multi_line(asked.multiline)
        .stop_on_nonmatch(asked.stop_on_nonmatch)
        .before_context(before)
        .after_context(after)
        .passthru(asked.context == Context::All);
    match &asked.encoding {
        EncodingChoice::Auto => {}
        EncodingChoice::Known(encoding) => {
            builder.encoding(Some(encoding.clone()));
        }
        EncodingChoice::None => {
            builder.bom_sniffing(false);
        }
    }
    builder
}

fn kind(asked: &Asked) -> Kind {
    match asked.mode {
        Mode::FilesWithoutMatch if asked.quiet => Kind::QuietWithoutMatch,
        _ if asked.quiet => Kind::QuietWithMatch,
        Mode::FilesWithoutMatch => Kind::PathWithoutMatch,
        Mode::FilesWithMatches => Kind::PathWithMatch,
        Mode::Count => Kind::Count,
        Mode::CountMatches => Kind::CountMatches,
        Mode::Json => Kind::Json,
        Mode::Lines | Mode::Files | Mode::TypeList => Kind::Lines,
    }
}

fn format(asked: &Asked, paths: &Paths, terminal: bool, stats: bool) -> Format {
    let colour = match asked.color {
        When::Auto => terminal && colour_is_welcome(),
        When::Always => true,
        When::Never => false,
    };
    let style = if colour { Style::with_colour(&asked.colors) } else { Style::default() };
    let column = asked.column.unwrap_or(asked.per_match);
    let kind = kind(asked);
    let single_matches = kind == Kind::Json
        || style.marks_matches
        || column
        || stats
        || asked.replace.is_some()
        || asked.per_match
        || asked.only_matching;
    Format {
        kind,
        replacement: asked.replace.clone(),
        include_zero: asked.include_zero,
        stats,
        single_matches,
        lines: LineFormat {
            style,
            terminator: terminator(asked),
            path: asked.with_filename.unwrap_or(asked.per_match || !paths.is_one_file),
            heading: asked.heading.unwrap_or(terminal) && !asked.per_match,
            column,
            byte_offset: asked.byte_offset,
            only_matching: asked.only_matching,
            per_match: asked.per_match,
            trim: asked.trim,
            max_columns: asked.max_columns,
            max_columns_preview: asked.max_columns_preview,
            context_separator: asked.context_separator.0.clone(),
            match_separator: asked.field_match_separator.clone().unwrap_or_else(|| b":".to_vec()),
            field_context_separator: asked
                .field_context_separator
                .clone()
                .unwrap_or_else(|| b"-".to_vec()),
            path_terminator: asked.null.then_some(0),
        },
    }
}

/// Whether the terminal and its user want colour.
fn colour_is_welcome() -> bool {
    std::env::var_os("NO_COLOR").is_none()
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

fn file_separator(asked: &Asked, format: &Format, threads: usize) -> Option<Vec<u8>> {
    if asked.mode != Mode::Lines || asked.quiet {
        return None;
    }
    let mut separator = if format.lines.heading {
        Vec::new()
    } else if asked.context.lines() == (0, 0) {
        return None;
    } else {
        let Separator(separator) = &asked.context_separator;
        separator.clone()?
    };
    if threads == 1 {
        separator.extend_from_slice(format.lines.terminator.as_bytes());
    } else {
        separator.push(b'\n');
    }
    Some(separator)
}
