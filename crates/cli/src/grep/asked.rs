//! What the flags of `grep` ask for, before anything is looked at.
//!
//! Flags are applied in the order in which they were given, so that the last
//! of two opposites wins; [`super::settings`] resolves the result.

use std::ffi::OsString;
use std::path::PathBuf;

use grep::printer::UserColorSpec;
use grep::searcher::Encoding;

/// The flags of one command line.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command line")]
pub(super) struct Asked {
    /// Operands: the pattern, unless `patterns` names one, and paths.
    pub(super) operands: Vec<OsString>,
    pub(super) mode: Mode,
    pub(super) patterns: Vec<PatternSource>,
    pub(super) engine: Engine,
    pub(super) case: Case,
    pub(super) boundary: Option<Boundary>,
    pub(super) fixed_strings: bool,
    pub(super) invert_match: bool,
    pub(super) multiline: bool,
    pub(super) multiline_dotall: bool,
    pub(super) no_unicode: bool,
    pub(super) crlf: bool,
    pub(super) null_data: bool,
    pub(super) encoding: EncodingChoice,
    pub(super) max_count: Option<u64>,
    pub(super) stop_on_nonmatch: bool,
    pub(super) regex_size_limit: Option<usize>,
    pub(super) dfa_size_limit: Option<usize>,
    pub(super) binary: Binary,
    pub(super) map_files: Option<bool>,
    pub(super) search_zip: bool,
    pub(super) preprocessor: Option<PathBuf>,
    pub(super) preprocessor_globs: Vec<String>,
    pub(super) threads: Option<usize>,

    pub(super) quiet: bool,
    pub(super) context: Context,
    pub(super) context_separator: Separator,
    pub(super) field_match_separator: Option<Vec<u8>>,
    pub(super) field_context_separator: Option<Vec<u8>>,
    pub(super) path_separator: Option<u8>,
    pub(super) line_number: Option<bool>,
    pub(super) with_filename: Option<bool>,
    pub(super) heading: Option<bool>,
    pub(super) column: Option<bool>,
    pub(super) byte_offset: bool,
    pub(super) only_matching: bool,
    pub(super) per_match: bool,
    pub(super) replace: Option<Vec<u8>>,
    pub(super) trim: bool,
    pub(super) max_columns: Option<u64>,
    pub(super) max_columns_preview: bool,
    pub(super) include_zero: bool,
    pub(super) null: bool,
    pub(super) color: When,
    pub(super) colors: Vec<UserColorSpec>,
    pub(super) sort: Option<Sort>,
    pub(super) buffered: Option<Buffered>,

    pub(super) globs: Vec<String>,
    pub(super) iglobs: Vec<String>,
    pub(super) glob_case_insensitive: bool,
    pub(super) types: Vec<TypeChange>,
    pub(super) follow: bool,
    pub(super) hidden: bool,
    pub(super) ignore_files: Vec<PathBuf>,
    pub(super) ignore_file_case_insensitive: bool,
    pub(super) no_ignore_dot: bool,
    pub(super) no_ignore_exclude: bool,
    pub(super) no_ignore_files: bool,
    pub(super) no_ignore_global: bool,
    pub(super) no_ignore_parent: bool,
    pub(super) no_ignore_vcs: bool,
    pub(super) no_require_git: bool,
    pub(super) max_depth: Option<usize>,
    pub(super) max_filesize: Option<u64>,
    pub(super) one_file_system: bool,
    pub(super) no_messages: bool,
    pub(super) no_ignore_messages: bool,

    pub(super) unordered: bool,
    pub(super) budget_bytes: Option<u64>,
    pub(super) chunk_bytes: Option<usize>,
}

/// What the run is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Print matching lines.
    #[default]
    Lines,
    /// Print JSON messages.
    Json,
    /// `-c`
    Count,
    /// `--count-matches`
    CountMatches,
    /// `-l`
    FilesWithMatches,
    /// `--files-without-match`
    FilesWithoutMatch,
    /// `--files`
    Files,
    /// `--type-list`
    TypeList,
}

impl Mode {
    pub(super) fn is_search(self) -> bool {
        !matches!(self, Mode::Files | Mode::TypeList)
    }
}

/// Where patterns come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatternSource {
    Given(String),
    File(PathBuf),
}

/// Which regex engine matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Engine {
    #[default]
    Default,
    Pcre2,
    Auto,
}

/// How letter case counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

/// What a match must be surrounded by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundary {
    Line,
    Word,
}

/// What to do with files that hold NUL bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Binary {
    /// Leave a file found in a folder, report on one that was named.
    #[default]
    Auto,
    /// Report that they match, without the lines.
    Report,
    /// Treat them as text.
    Text,
}

/// How text is decoded.
#[derive(Debug, Clone, Default)]
pub(super) enum EncodingChoice {
    /// By the byte-order mark, if there is one.
    #[default]
    Auto,
    Known(Encoding),
    /// Bytes as they are.
    None,
}

/// Lines printed around matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// Every line.
    All,
    Lines {
        before: Option<usize>,
        after: Option<usize>,
        both: Option<usize>,
    },
}

impl Default for Context {
    fn default() -> Context {
        Context::Lines { before: None, after: None, both: None }
    }
}

impl Context {
    /// Lines before and after a match.
    pub(super) fn lines(self) -> (usize, usize) {
        match self {
            Context::All => (0, 0),
            Context::Lines { before, after, both } => {
                (before.or(both).unwrap_or(0), after.or(both).unwrap_or(0))
            }
        }
    }

    /// The same with `change` made; asking for lines takes back asking for all.
    pub(super) fn with(
        self,
        change: impl FnOnce(&mut Option<usize>, &mut Option<usize>, &mut Option<usize>),
    ) -> Context {
        let (mut before, mut after, mut both) = match self {
            Context::All => (None, None, None),
            Context::Lines { before, after, both } => (before, after, both),
        };
        change(&mut before, &mut after, &mut both);
        Context::Lines { before, after, both }
    }
}

/// What stands between groups of lines that do not touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Separator(pub(super) Option<Vec<u8>>);

impl Default for Separator {
    fn default() -> Separator {
        Separator(Some(b"--".to_vec()))
    }
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// The order of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: SortBy,
    pub(super) reverse: bool,
}

/// What files are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SortBy {
    Path,
    Modified,
    Accessed,
    Created,
}

/// When output leaves the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffered {
    Line,
    Block,
}

/// A change to the table of file types, or a selection from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypeChange {
    Clear(String),
    Add(String),
    Select(String),
    Negate(String),
}
