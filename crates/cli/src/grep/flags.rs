//! The flags of `grep`: one table, from which parsing, help, man page and
//! completions come.
//!
//! Names and meanings are ripgrep's. A flag is applied to [`Asked`] in the
//! order in which it was given, so that the last of two opposites wins.

use std::ffi::{OsStr, OsString};

use bstr::ByteVec as _;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use grep::searcher::Encoding;

use super::asked::{
    Asked, Binary, Boundary, Buffered, Case, EncodingChoice, Engine, Mode, PatternSource,
    Separator, Sort, SortBy, TypeChange, When,
};
use crate::sets::flags::bytes;

const OPERANDS: &str = "operands";
const PATTERN: &str = "Pattern";
const SEARCH: &str = "Search";
const FILTER: &str = "Files";
const OUTPUT: &str = "Output";
const MODE: &str = "Output modes";
const READING: &str = "Reading";

/// One flag.
struct Flag {
    long: &'static str,
    short: Option<char>,
    alias: Option<&'static str>,
    /// The long name that takes the flag back.
    negation: Option<&'static str>,
    /// The name of the value in help, if the flag takes one.
    value: Option<&'static str>,
    choices: &'static [&'static str],
    heading: &'static str,
    help: &'static str,
    /// What `--help` says after `help`.
    more: &'static str,
    hidden: bool,
    apply: fn(&mut Asked, Given<'_>) -> Result<(), String>,
}

/// How a flag was given.
#[derive(Clone, Copy)]
enum Given<'a> {
    On,
    Off,
    Value(&'a OsStr),
}

impl<'a> Given<'a> {
    fn on(self) -> bool {
        !matches!(self, Given::Off)
    }

    fn os(self) -> &'a OsStr {
        match self {
            Given::Value(value) => value,
            Given::On | Given::Off => OsStr::new(""),
        }
    }

    fn text(self) -> Result<&'a str, String> {
        self.os().to_str().ok_or_else(|| "the value is not valid UTF-8".to_owned())
    }

    fn owned(self) -> Result<String, String> {
        self.text().map(str::to_owned)
    }

    fn number<N: std::str::FromStr>(self) -> Result<N, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("{text:?} is not a valid number"))
    }

    /// A number with an optional `K`, `M` or `G` (powers of 1024).
    fn size(self) -> Result<u64, String> {
        grep::cli::parse_human_readable_size(self.text()?).map_err(|error| error.to_string())
    }

    /// Text in which `\n`, `\t`, `\xFF` and the like stand for bytes.
    fn unescaped(self) -> Result<Vec<u8>, String> {
        self.text().map(Vec::unescape_bytes)
    }
}

const BASE: Flag = Flag {
    long: "",
    short: None,
    alias: None,
    negation: None,
    value: None,
    choices: &[],
    heading: SEARCH,
    help: "",
    more: "",
    hidden: false,
    apply: |_, _| Ok(()),
};

/// Flags of ripgrep and of GNU grep that are none here, and what there is for them.
const OF_OTHERS: &[(&[&str], &str)] = &[
    (
        &["--debug", "--trace"],
        "no log is kept; --stats says what was searched, --files lists what would be",
    ),
    (
        &["--include", "--exclude", "--exclude-dir"],
        "-g GLOB searches only what matches, -g '!GLOB' leaves it out",
    ),
    (
        &["-R", "--recursive", "--dereference-recursive"],
        "folders are searched without it; -L follows links in them",
    ),
];

/// What there is for a flag of others.
pub(crate) fn instead_of(flag: &str) -> Option<&'static str> {
    OF_OTHERS.iter().find(|(flags, _)| flags.contains(&flag)).map(|(_, tip)| *tip)
}

const SORT_KEYS: &[&str] = &["none", "path", "modified", "accessed", "created"];

fn sort(given: Given<'_>, reverse: bool) -> Result<Option<Sort>, String> {
    let by = match given.text()? {
        "path" => SortBy::Path,
        "modified" => SortBy::Modified,
        "accessed" => SortBy::Accessed,
        "created" => SortBy::Created,
        _ => return Ok(None),
    };
    Ok(Some(Sort { by, reverse }))
}

fn no_ignore(asked: &mut Asked, yes: bool) {
    asked.no_ignore_dot = yes;
    asked.no_ignore_exclude = yes;
    asked.no_ignore_global = yes;
    asked.no_ignore_parent = yes;
    asked.no_ignore_vcs = yes;
}

fn unrestrict(asked: &mut Asked, times: u8) {
    no_ignore(asked, true);
    if times > 1 {
        asked.hidden = true;
    }
    if times > 2 {
        asked.binary = Binary::Report;
    }
}

/// Every flag but those of `ReadFlags` and `-u`, which counts.
static FLAGS: &[Flag] = &[
    // Pattern
    Flag {
        long: "regexp",
        short: Some('e'),
        value: Some("PATTERN"),
        heading: PATTERN,
        help: "Search for PATTERN; may be given several times",
        more: "A line matches if any of the patterns does. With this flag or --file, all operands \
               are paths. It also allows a pattern that begins with a dash.",
        apply: |a, g| {
            a.patterns.push(PatternSource::Given(g.owned()?));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "file",
        short: Some('f'),
        value: Some("FILE"),
        heading: PATTERN,
        help: "Search for the patterns in FILE, one a line",
        more: "`-` reads them from standard input. An empty line matches everything; an empty \
               file matches nothing.",
        apply: |a, g| {
            a.patterns.push(PatternSource::File(g.os().into()));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "fixed-strings",
        short: Some('F'),
        negation: Some("no-fixed-strings"),
        heading: PATTERN,
        help: "Take patterns literally, not as regular expressions",
        apply: |a, g| {
            a.fixed_strings = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "pcre2",
        short: Some('P'),
        negation: Some("no-pcre2"),
        heading: PATTERN,
        help: "Match with PCRE2, which knows look-around and backreferences",
        apply: |a, g| {
            a.engine = if g.on() { Engine::Pcre2 } else { Engine::Default };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "engine",
        value: Some("ENGINE"),
        choices: &["default", "pcre2", "auto"],
        heading: PATTERN,
        help: "Regex engine to use",
        more: "`auto` uses PCRE2 only if a pattern needs it.",
        apply: |a, g| {
            a.engine = match g.text()? {
                "pcre2" => Engine::Pcre2,
                "auto" => Engine::Auto,
                _ => Engine::Default,
            };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "auto-hybrid-regex",
        negation: Some("no-auto-hybrid-regex"),
        heading: PATTERN,
        help: "Same as --engine auto",
        hidden: true,
        apply: |a, g| {
            a.engine = if g.on() { Engine::Auto } else { Engine::Default };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "ignore-case",
        short: Some('i'),
        heading: PATTERN,
        help: "Ignore letter case",
        apply: |a, _| {
            a.case = Case::Insensitive;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "case-sensitive",
        short: Some('s'),
        heading: PATTERN,
        help: "Respect letter case (the default)",
        apply: |a, _| {
            a.case = Case::Sensitive;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "smart-case",
        short: Some('S'),
        heading: PATTERN,
        help: "Ignore letter case if the pattern has no upper-case letter",
        apply: |a, _| {
            a.case = Case::Smart;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "word-regexp",
        short: Some('w'),
        heading: PATTERN,
        help: "Match whole words only",
        more: "Takes back --line-regexp.",
        apply: |a, _| {
            a.boundary = Some(Boundary::Word);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "line-regexp",
        short: Some('x'),
        heading: PATTERN,
        help: "Match whole lines only",
        more: "Takes back --word-regexp.",
        apply: |a, _| {
            a.boundary = Some(Boundary::Line);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-unicode",
        negation: Some("unicode"),
        heading: PATTERN,
        help: "Match bytes: classes, case and word edges are those of ASCII",
        apply: |a, g| {
            a.no_unicode = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-pcre2-unicode",
        negation: Some("pcre2-unicode"),
        heading: PATTERN,
        help: "Same as --no-unicode",
        hidden: true,
        apply: |a, g| {
            a.no_unicode = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "regex-size-limit",
        value: Some("SIZE"),
        heading: PATTERN,
        help: "Largest compiled regex, such as 10M",
        apply: |a, g| {
            a.regex_size_limit = usize::try_from(g.size()?).ok();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "dfa-size-limit",
        value: Some("SIZE"),
        heading: PATTERN,
        help: "Largest state machine built while matching, such as 10M",
        apply: |a, g| {
            a.dfa_size_limit = usize::try_from(g.size()?).ok();
            Ok(())
        },
        ..BASE
    },
    // Search
    Flag {
        long: "invert-match",
        short: Some('v'),
        negation: Some("no-invert-match"),
        help: "Select the lines that do not match",
        apply: |a, g| {
            a.invert_match = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "max-count",
        short: Some('m'),
        value: Some("N"),
        help: "Stop after N matching lines of each file",
        more: "The first N in file order. A large file is not read beyond them, unless it was \
               already near.",
        apply: |a, g| {
            a.max_count = Some(g.number()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "multiline",
        short: Some('U'),
        negation: Some("no-multiline"),
        help: "Let a match span lines",
        more: "A file is then searched as a whole, in file order.",
        apply: |a, g| {
            a.multiline = g.on();
            if a.multiline {
                a.stop_on_nonmatch = false;
            }
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "multiline-dotall",
        negation: Some("no-multiline-dotall"),
        help: "With --multiline, let `.` match a line end",
        apply: |a, g| {
            a.multiline_dotall = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "crlf",
        negation: Some("no-crlf"),
        help: "Take CR LF for a line end, so that `$` matches before it",
        apply: |a, g| {
            a.crlf = g.on();
            if a.crlf {
                a.null_data = false;
            }
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "null-data",
        help: "Lines end with NUL, in input and output",
        apply: |a, _| {
            a.crlf = false;
            a.null_data = true;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "text",
        short: Some('a'),
        negation: Some("no-text"),
        help: "Search binary files as if they were text",
        apply: |a, g| {
            a.binary = if g.on() { Binary::Text } else { Binary::Auto };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "binary",
        negation: Some("no-binary"),
        help: "Search binary files, and say only that they match",
        more: "Without it, a file found in a folder is left at its first NUL byte; a file that is \
               named on the command line is always treated this way.",
        apply: |a, g| {
            a.binary = if g.on() { Binary::Report } else { Binary::Auto };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "search-zip",
        short: Some('z'),
        negation: Some("no-search-zip"),
        help: "Search inside gzip, bzip2, xz, LZ4, LZMA, Brotli and Zstandard files",
        more: "The programs that decompress them must be installed.",
        apply: |a, g| {
            a.search_zip = g.on();
            if a.search_zip {
                a.preprocessor = None;
            }
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "pre",
        negation: Some("no-pre"),
        value: Some("COMMAND"),
        help: "Search the output of COMMAND FILE instead of each file, or of a copy of each object",
        apply: |a, g| {
            a.preprocessor = Some(g.os()).filter(|p| !p.is_empty()).map(Into::into);
            if a.preprocessor.is_some() {
                a.search_zip = false;
            }
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "pre-glob",
        value: Some("GLOB"),
        help: "Use --pre only for files that match GLOB",
        apply: |a, g| {
            a.preprocessor_globs.push(g.owned()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "encoding",
        short: Some('E'),
        negation: Some("no-encoding"),
        value: Some("ENCODING"),
        help: "Encoding of the text, such as utf-16 or latin1",
        more: "`auto` (the default) looks for a byte-order mark; `none` takes bytes as they are.",
        apply: |a, g| {
            a.encoding = match (g.on(), g.text()?) {
                (false, _) | (_, "auto") => EncodingChoice::Auto,
                (_, "none") => EncodingChoice::None,
                (_, name) => {
                    let known = Encoding::new(name);
                    EncodingChoice::Known(
                        known.map_err(|_| format!("{name:?} is not a known encoding"))?,
                    )
                }
            };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "stop-on-nonmatch",
        help: "Stop a file at the first line that does not match after one that did",
        apply: |a, _| {
            a.stop_on_nonmatch = true;
            a.multiline = false;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "mmap",
        negation: Some("no-mmap"),
        help: "Treat files as ripgrep does when it maps them; kept for compatibility",
        hidden: true,
        apply: |a, g| {
            a.map_files = Some(g.on());
            Ok(())
        },
        ..BASE
    },
    // Files
    Flag {
        long: "glob",
        short: Some('g'),
        value: Some("GLOB"),
        heading: FILTER,
        help: "Search only files that match GLOB; `!GLOB` leaves them out",
        more: "May be given several times; the last that matches counts. As the other filters it chooses \
               among what is found in folders and what patterns, pages, buckets and lists name, not \
               among what is named as it stands.",
        apply: |a, g| {
            a.globs.push(g.owned()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "iglob",
        value: Some("GLOB"),
        heading: FILTER,
        help: "As --glob, ignoring letter case",
        apply: |a, g| {
            a.iglobs.push(g.owned()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "glob-case-insensitive",
        negation: Some("no-glob-case-insensitive"),
        heading: FILTER,
        help: "Ignore letter case in --glob",
        apply: |a, g| {
            a.glob_case_insensitive = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "type",
        short: Some('t'),
        value: Some("TYPE"),
        heading: FILTER,
        help: "Search only files of TYPE, such as py or rust; --type-list shows them",
        apply: |a, g| {
            a.types.push(TypeChange::Select(g.owned()?));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "type-not",
        short: Some('T'),
        value: Some("TYPE"),
        heading: FILTER,
        help: "Leave out files of TYPE",
        apply: |a, g| {
            a.types.push(TypeChange::Negate(g.owned()?));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "type-add",
        value: Some("NAME:GLOB"),
        heading: FILTER,
        help: "Add GLOB to the file type NAME for this run",
        apply: |a, g| {
            a.types.push(TypeChange::Add(g.owned()?));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "type-clear",
        value: Some("TYPE"),
        heading: FILTER,
        help: "Forget the globs of TYPE for this run",
        apply: |a, g| {
            a.types.push(TypeChange::Clear(g.owned()?));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "follow",
        short: Some('L'),
        negation: Some("no-follow"),
        heading: FILTER,
        help: "Follow symbolic links",
        more: "In GNU grep, -L lists files without a match; here that is --files-without-match.",
        apply: |a, g| {
            a.follow = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "hidden",
        short: Some('.'),
        negation: Some("no-hidden"),
        heading: FILTER,
        help: "Search hidden files and folders too",
        apply: |a, g| {
            a.hidden = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore",
        negation: Some("ignore"),
        heading: FILTER,
        help: "Do not respect .gitignore, .ignore and .rgignore files",
        apply: |a, g| {
            no_ignore(a, g.on());
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-dot",
        negation: Some("ignore-dot"),
        heading: FILTER,
        help: "Do not respect .ignore and .rgignore files",
        apply: |a, g| {
            a.no_ignore_dot = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-exclude",
        negation: Some("ignore-exclude"),
        heading: FILTER,
        help: "Do not respect .git/info/exclude",
        apply: |a, g| {
            a.no_ignore_exclude = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-files",
        negation: Some("ignore-files"),
        heading: FILTER,
        help: "Do not respect files given with --ignore-file",
        apply: |a, g| {
            a.no_ignore_files = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-global",
        negation: Some("ignore-global"),
        heading: FILTER,
        help: "Do not respect git's ignore file of the user",
        apply: |a, g| {
            a.no_ignore_global = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-parent",
        negation: Some("ignore-parent"),
        heading: FILTER,
        help: "Do not respect ignore files of folders above",
        apply: |a, g| {
            a.no_ignore_parent = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-vcs",
        negation: Some("ignore-vcs"),
        heading: FILTER,
        help: "Do not respect .gitignore files and the like",
        apply: |a, g| {
            a.no_ignore_vcs = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-require-git",
        negation: Some("require-git"),
        heading: FILTER,
        help: "Respect .gitignore outside git repositories too",
        apply: |a, g| {
            a.no_require_git = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "ignore-file",
        value: Some("FILE"),
        heading: FILTER,
        help: "Leave out what the patterns in FILE, in .gitignore's form, name",
        apply: |a, g| {
            a.ignore_files.push(g.os().into());
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "ignore-file-case-insensitive",
        negation: Some("no-ignore-file-case-insensitive"),
        heading: FILTER,
        help: "Ignore letter case in ignore files",
        apply: |a, g| {
            a.ignore_file_case_insensitive = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "max-depth",
        short: Some('d'),
        alias: Some("maxdepth"),
        value: Some("N"),
        heading: FILTER,
        help: "Go down at most N folders",
        apply: |a, g| {
            a.max_depth = Some(g.number()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "max-filesize",
        value: Some("SIZE"),
        heading: FILTER,
        help: "Leave out files larger than SIZE, such as 50K or 2M",
        apply: |a, g| {
            a.max_filesize = Some(g.size()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "one-file-system",
        negation: Some("no-one-file-system"),
        heading: FILTER,
        help: "Stay on the file system of each path given",
        apply: |a, g| {
            a.one_file_system = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "sort",
        value: Some("KEY"),
        choices: SORT_KEYS,
        heading: FILTER,
        help: "Order of files; any but `none` searches one file at a time",
        apply: |a, g| {
            a.sort = sort(g, false)?;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "sortr",
        value: Some("KEY"),
        choices: SORT_KEYS,
        heading: FILTER,
        help: "As --sort, in reverse",
        apply: |a, g| {
            a.sort = sort(g, true)?;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "sort-files",
        negation: Some("no-sort-files"),
        heading: FILTER,
        help: "Same as --sort path",
        hidden: true,
        apply: |a, g| {
            a.sort = g.on().then_some(Sort { by: SortBy::Path, reverse: false });
            Ok(())
        },
        ..BASE
    },
    // Output modes
    Flag {
        long: "count",
        short: Some('c'),
        heading: MODE,
        help: "Print only the number of matching lines of each file that has any",
        apply: |a, _| {
            a.mode = Mode::Count;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "count-matches",
        heading: MODE,
        help: "Print only the number of matches of each file that has any",
        apply: |a, _| {
            a.mode = Mode::CountMatches;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "files-with-matches",
        short: Some('l'),
        heading: MODE,
        help: "Print only the names of files that match",
        more: "A file is read no further than its first match, but with --stats, which counts all of them, \
               as ripgrep does.",
        apply: |a, _| {
            a.mode = Mode::FilesWithMatches;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "files-without-match",
        heading: MODE,
        help: "Print only the names of files that do not match",
        more: "A file is read no further than its first match, but with --stats, which counts all of them, \
               as ripgrep does.",
        apply: |a, _| {
            a.mode = Mode::FilesWithoutMatch;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "json",
        negation: Some("no-json"),
        heading: MODE,
        help: "Print JSON messages, one a line, as ripgrep does",
        apply: |a, g| {
            if g.on() {
                a.mode = Mode::Json;
            } else if a.mode == Mode::Json {
                a.mode = Mode::Lines;
            }
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "files",
        heading: MODE,
        help: "Print the names of the files that would be searched, without searching",
        apply: |a, _| {
            a.mode = Mode::Files;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "type-list",
        heading: MODE,
        help: "Print the known file types and their globs",
        apply: |a, _| {
            a.mode = Mode::TypeList;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "quiet",
        short: Some('q'),
        heading: MODE,
        help: "Print nothing; the exit code says whether there was a match",
        more: "Stops at the first match, wherever it is: what is near is looked at first. With --stats all \
               is searched, as by ripgrep, since that counts all matches.",
        apply: |a, _| {
            a.quiet = true;
            Ok(())
        },
        ..BASE
    },
    // Output
    Flag {
        long: "line-number",
        short: Some('n'),
        heading: OUTPUT,
        help: "Print line numbers (the default on a terminal)",
        apply: |a, _| {
            a.line_number = Some(true);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-line-number",
        short: Some('N'),
        heading: OUTPUT,
        help: "Print no line numbers",
        apply: |a, _| {
            a.line_number = Some(false);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "with-filename",
        short: Some('H'),
        heading: OUTPUT,
        help: "Print the file's name with each line (the default for several files)",
        apply: |a, _| {
            a.with_filename = Some(true);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-filename",
        short: Some('I'),
        heading: OUTPUT,
        help: "Never print file names with lines",
        apply: |a, _| {
            a.with_filename = Some(false);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "heading",
        negation: Some("no-heading"),
        heading: OUTPUT,
        help: "Print the file's name once above its lines (the default on a terminal)",
        apply: |a, g| {
            a.heading = Some(g.on());
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "only-matching",
        short: Some('o'),
        heading: OUTPUT,
        help: "Print only the matching parts of lines",
        apply: |a, _| {
            a.only_matching = true;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "replace",
        short: Some('r'),
        value: Some("TEXT"),
        heading: OUTPUT,
        help: "Print TEXT in place of each match; $1 and $name are its groups",
        more: "Files are never changed.",
        apply: |a, g| {
            a.replace = Some(g.owned()?.into_bytes());
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "after-context",
        short: Some('A'),
        value: Some("N"),
        heading: OUTPUT,
        help: "Print N lines after each match",
        apply: |a, g| {
            let lines = g.number()?;
            a.context = a.context.with(|_, after, _| *after = Some(lines));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "before-context",
        short: Some('B'),
        value: Some("N"),
        heading: OUTPUT,
        help: "Print N lines before each match",
        apply: |a, g| {
            let lines = g.number()?;
            a.context = a.context.with(|before, _, _| *before = Some(lines));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "context",
        short: Some('C'),
        value: Some("N"),
        heading: OUTPUT,
        help: "Print N lines before and after each match",
        more: "-A and -B count more than -C, in whatever order they are given.",
        apply: |a, g| {
            let lines = g.number()?;
            a.context = a.context.with(|_, _, both| *both = Some(lines));
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "passthru",
        alias: Some("passthrough"),
        heading: OUTPUT,
        help: "Print every line, whether it matches or not",
        apply: |a, _| {
            a.context = super::asked::Context::All;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "context-separator",
        negation: Some("no-context-separator"),
        value: Some("TEXT"),
        heading: OUTPUT,
        help: "What to print between groups of lines; `--` by default",
        more: "Escapes such as \\t and \\x7F are understood.",
        apply: |a, g| {
            a.context_separator = Separator(if g.on() { Some(g.unescaped()?) } else { None });
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "field-match-separator",
        value: Some("TEXT"),
        heading: OUTPUT,
        help: "What to print after each field of a matching line; `:` by default",
        apply: |a, g| {
            a.field_match_separator = Some(g.unescaped()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "field-context-separator",
        value: Some("TEXT"),
        heading: OUTPUT,
        help: "What to print after each field of a context line; `-` by default",
        apply: |a, g| {
            a.field_context_separator = Some(g.unescaped()?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "path-separator",
        value: Some("BYTE"),
        heading: OUTPUT,
        help: "What to print between the folders of a path; `/` by default",
        apply: |a, g| {
            let bytes = g.unescaped()?;
            a.path_separator = match bytes.as_slice() {
                [] => None,
                [byte] => Some(*byte),
                more => {
                    return Err(format!(
                        "a path separator must be one byte, but {} is {} bytes",
                        g.os().display(),
                        more.len()
                    ));
                }
            };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "column",
        negation: Some("no-column"),
        heading: OUTPUT,
        help: "Print the column, in bytes from 1, of the first match of each line",
        apply: |a, g| {
            a.column = Some(g.on());
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "byte-offset",
        short: Some('b'),
        negation: Some("no-byte-offset"),
        heading: OUTPUT,
        help: "Print the offset in bytes of each line; with -o, of each match",
        apply: |a, g| {
            a.byte_offset = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "vimgrep",
        heading: OUTPUT,
        help: "Print each match on a line of its own, with line and column",
        apply: |a, _| {
            a.per_match = true;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "trim",
        negation: Some("no-trim"),
        heading: OUTPUT,
        help: "Remove white space from the start of printed lines",
        apply: |a, g| {
            a.trim = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "max-columns",
        short: Some('M'),
        value: Some("N"),
        heading: OUTPUT,
        help: "Do not print lines longer than N bytes",
        apply: |a, g| {
            a.max_columns = Some(g.number()?).filter(|n| *n > 0);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "max-columns-preview",
        negation: Some("no-max-columns-preview"),
        heading: OUTPUT,
        help: "With --max-columns, print the start of longer lines",
        apply: |a, g| {
            a.max_columns_preview = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "include-zero",
        negation: Some("no-include-zero"),
        heading: OUTPUT,
        help: "With -c, print files without a match too",
        apply: |a, g| {
            a.include_zero = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "null",
        short: Some('0'),
        heading: OUTPUT,
        help: "Print NUL after file names",
        apply: |a, _| {
            a.null = true;
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "color",
        value: Some("WHEN"),
        choices: &["auto", "always", "never", "ansi"],
        heading: OUTPUT,
        help: "When to use colour; `auto` is: on a terminal",
        apply: |a, g| {
            a.color = match g.text()? {
                "always" | "ansi" => When::Always,
                "never" => When::Never,
                _ => When::Auto,
            };
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "colors",
        value: Some("SPEC"),
        heading: OUTPUT,
        help: "Colours, as part:attribute:value, such as match:fg:blue",
        more: "Parts are path, line, column, match and highlight; attributes fg, bg and style; \
               part:none clears.",
        apply: |a, g| {
            let spec = g.text()?.parse().map_err(|error| format!("{error}"))?;
            a.colors.push(spec);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "pretty",
        short: Some('p'),
        heading: OUTPUT,
        help: "Same as --color always --heading --line-number",
        apply: |a, _| {
            a.color = When::Always;
            a.heading = Some(true);
            a.line_number = Some(true);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "line-buffered",
        negation: Some("no-line-buffered"),
        heading: OUTPUT,
        help: "Print each line as soon as it is found",
        apply: |a, g| {
            a.buffered = g.on().then_some(Buffered::Line);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "block-buffered",
        negation: Some("no-block-buffered"),
        heading: OUTPUT,
        help: "Print in blocks, on a terminal too",
        apply: |a, g| {
            a.buffered = g.on().then_some(Buffered::Block);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-messages",
        negation: Some("messages"),
        heading: OUTPUT,
        help: "Say nothing about files that cannot be read; the exit code still tells",
        apply: |a, g| {
            a.no_messages = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "no-ignore-messages",
        negation: Some("ignore-messages"),
        heading: OUTPUT,
        help: "Say nothing about ignore files that cannot be parsed",
        apply: |a, g| {
            a.no_ignore_messages = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "hyperlink-format",
        value: Some("FORMAT"),
        heading: OUTPUT,
        help: "Accepted for compatibility: `none` is the only format",
        hidden: true,
        apply: |_, g| match g.text()? {
            "" | "none" => Ok(()),
            other => Err(format!("{other:?} is not supported; `none` is")),
        },
        ..BASE
    },
    Flag {
        long: "no-config",
        heading: OUTPUT,
        help: "Accepted for compatibility: no configuration file is ever read",
        hidden: true,
        ..BASE
    },
    // Reading
    Flag {
        long: "threads",
        short: Some('j'),
        value: Some("N"),
        heading: READING,
        help: "As --jobs; 0 is one per processor",
        apply: |a, g| {
            a.threads = Some(g.number()?).filter(|n| *n > 0);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "unordered",
        negation: Some("ordered"),
        heading: READING,
        help: "Print what is found in a large file at once, not in file order",
        more: "Line numbers need everything before them: they are left out unless -n asks for \
               them, and then lines wait until theirs is known.",
        apply: |a, g| {
            a.unordered = g.on();
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "budget",
        value: Some("SIZE"),
        heading: READING,
        help: "Memory for results that wait for their turn; 64M by default",
        more: "What does not fit waits in a temporary file, or, where no order is kept, leaves as it is \
               found. What is fetched of objects and not searched \
               yet takes as much again; 256M by default, but no more than a quarter of what \
               memory could still be had.",
        apply: |a, g| {
            a.budget_bytes = Some(bytes(g.text()?)?);
            Ok(())
        },
        ..BASE
    },
    Flag {
        long: "chunk",
        value: Some("SIZE"),
        heading: READING,
        help: "Search every file in chunks of SIZE",
        hidden: true,
        apply: |a, g| {
            a.chunk_bytes = usize::try_from(g.size()?).ok().filter(|n| *n > 0);
            Ok(())
        },
        ..BASE
    },
];

const UNRESTRICTED: &str = "unrestricted";
const NO_STATS: &str = "no-stats";

/// Adds the flags and operands to `command`.
pub(super) fn augment(command: Command) -> Command {
    let mut command = command.args_override_self(true);
    for flag in FLAGS {
        command = command.arg(argument(flag));
        if let Some(negation) = flag.negation {
            command = command
                .arg(Arg::new(negation).long(negation).hide(true).action(ArgAction::SetTrue));
        }
    }
    command
        .arg(
            Arg::new(UNRESTRICTED)
                .long(UNRESTRICTED)
                .short('u')
                .action(ArgAction::Count)
                .help_heading(FILTER)
                .help("Search more: -u is --no-ignore, -uu adds --hidden, -uuu adds --binary"),
        )
        .arg(Arg::new(NO_STATS).long(NO_STATS).hide(true).action(ArgAction::SetTrue))
        .arg(
            Arg::new(OPERANDS)
                .value_names(["PATTERN", "PATH"])
                .num_args(0..)
                .action(ArgAction::Append)
                .value_parser(clap::value_parser!(OsString))
                .value_hint(ValueHint::AnyPath)
                .help("Regular expression to search for, then files and folders")
                .long_help(
                    "Regular expression to search for, then files and folders to search. Without \
                     a path, standard input is searched if it is a pipe or a file, otherwise the \
                     current folder. `-` is standard input.",
                ),
        )
}

fn argument(flag: &'static Flag) -> Arg {
    let mut argument =
        Arg::new(flag.long).long(flag.long).help(flag.help).help_heading(flag.heading);
    argument = match flag.value {
        Some(name) => argument
            .value_name(name)
            .action(ArgAction::Append)
            .value_parser(clap::value_parser!(OsString))
            .allow_hyphen_values(true),
        None => argument.action(ArgAction::SetTrue),
    };
    if !flag.choices.is_empty() {
        argument = argument
            .value_parser(clap::builder::PossibleValuesParser::new(flag.choices))
            .allow_hyphen_values(false);
    }
    if let Some(short) = flag.short {
        argument = argument.short(short);
    }
    if let Some(alias) = flag.alias {
        argument = argument.alias(alias);
    }
    let mut long_help = flag.help.to_owned();
    if !flag.more.is_empty() {
        long_help.push_str(".\n\n");
        long_help.push_str(flag.more);
    }
    if let Some(negation) = flag.negation {
        long_help.push_str("\n\n--");
        long_help.push_str(negation);
        long_help.push_str(" takes it back.");
    }
    argument.long_help(long_help).hide(flag.hidden)
}

/// Reads the flags in the order in which they were given.
///
/// # Errors
/// The message of a value that a flag does not accept, naming the flag.
pub(super) fn parse(matches: &ArgMatches) -> Result<Asked, String> {
    let mut given: Vec<(usize, &Flag, Option<OsString>, bool)> = Vec::new();
    for flag in FLAGS {
        if flag.value.is_some() {
            let places = matches.indices_of(flag.long).into_iter().flatten();
            let values = matches.get_raw(flag.long).into_iter().flatten();
            given.extend(
                places.zip(values).map(|(at, value)| (at, flag, Some(value.to_owned()), true)),
            );
        } else if matches.get_flag(flag.long) {
            given.extend(matches.index_of(flag.long).map(|at| (at, flag, None, true)));
        }
        if let Some(negation) = flag.negation
            && matches.get_flag(negation)
        {
            given.extend(matches.index_of(negation).map(|at| (at, flag, None, false)));
        }
    }
    given.sort_by_key(|(at, ..)| *at);

    let unrestricted @ 0..=3 = matches.get_count(UNRESTRICTED) else {
        return Err("--unrestricted can be given at most three times".to_owned());
    };
    let mut unrestricted_at = matches.index_of(UNRESTRICTED).filter(|_| unrestricted > 0);
    let mut asked = Asked::default();
    for (at, flag, value, on) in &given {
        if unrestricted_at.take_if(|place| *place < *at).is_some() {
            unrestrict(&mut asked, unrestricted);
        }
        let how = match value {
            Some(value) => Given::Value(value),
            None if *on => Given::On,
            None => Given::Off,
        };
        (flag.apply)(&mut asked, how).map_err(|why| format!("--{}: {why}", flag.long))?;
    }
    if unrestricted_at.is_some() {
        unrestrict(&mut asked, unrestricted);
    }
    asked.operands = matches
        .get_raw(OPERANDS)
        .map(|operands| operands.map(OsStr::to_owned).collect())
        .unwrap_or_default();
    Ok(asked)
}

/// Whether `--stats` was asked for and not taken back.
pub(super) fn stats_last(matches: &ArgMatches) -> bool {
    matches.get_flag("stats")
        && !(matches.get_flag(NO_STATS) && matches.index_of(NO_STATS) > matches.index_of("stats"))
}
