//! The command line of `find` as a tree: pure, with errors as values.
//!
//! Words become [`Token`]s from left to right, tokens a tree by the usual
//! precedence: `,` binds least, then `-o`, then `-a` (also where two
//! expressions just stand side by side), then `!`. Texts of errors are GNU
//! find's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::expr::{
    Access, Action, Age, Compare, Exec, Expr, Latency, Moment, Number, Owner, Same, Stamp, Test,
    TypeSet,
};
use super::glob::Glob;
use super::mode::PermissionTest;
use super::quote::quoted;
use super::syntax::Syntax;
use super::{printf, time};

/// Parentheses nest no deeper: evaluation recurses once per level.
const NESTING_MAX: usize = 256;

/// A command line, understood.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Parsed {
    /// Where to start; empty means the current directory.
    pub(crate) starts: Vec<OsString>,
    /// `-files0-from`: a file with the names of the start points.
    pub(crate) starts_from: Option<OsString>,
    pub(crate) follow: Follow,
    pub(crate) expr: Expr,
    pub(crate) min_depth: usize,
    pub(crate) max_depth: usize,
    /// A directory's contents come before the directory itself.
    pub(crate) contents_first: bool,
    pub(crate) one_file_system: bool,
    /// A file that vanishes between listing and looking is no error.
    pub(crate) vanishing_is_fine: bool,
    /// Files to write to; [`STDOUT`] and [`STDERR`] come first.
    pub(crate) outputs: Vec<OsString>,
    /// How many commands of the form `-exec … +` there are.
    pub(crate) gathering: usize,
    /// Whether anything runs a command in a file's directory.
    pub(crate) runs_in_directories: bool,
    /// Whether anything asks the user, through stdin.
    pub(crate) asks: bool,
    pub(crate) warnings: Vec<Warning>,
    /// `--help` or `--version` stood in the expression.
    pub(crate) show: Option<Show>,
}

/// Index in [`Parsed::outputs`].
pub(crate) const STDOUT: usize = 0;
/// Index in [`Parsed::outputs`].
pub(crate) const STDERR: usize = 1;

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Follow {
    /// `-P`
    #[default]
    Never,
    /// `-H`: those on the command line.
    Starts,
    /// `-L`
    Always,
}

/// Something to print instead of searching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Help,
    Version,
}

/// A doubt about the command line that does not stop it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) text: String,
    /// Said even where nobody sits at a terminal and no `-warn` asks for it.
    pub(crate) always: bool,
}

/// Why a command line is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageError {
    pub(crate) text: String,
    /// A misplaced word and the test before it: if a file of that name exists, a pattern was
    /// probably expanded by the shell.
    pub(crate) stray: Option<(OsString, String)>,
}

impl From<String> for UsageError {
    fn from(text: String) -> Self {
        Self { text, stray: None }
    }
}

type Result<T> = std::result::Result<T, UsageError>;

/// Reads a whole command line, without the program's name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Parsed> {
    let mut words = Words { arguments, at: 0 };
    let follow = leading_options(&mut words)?;
    let mut starts = Vec::new();
    while let Some(word) = words.peek() {
        if looks_like_expression(word.as_bytes(), true) {
            break;
        }
        starts.push(word.to_owned());
        words.at += 1;
    }
    Reader::new(words, starts, follow).read()
}

/// Whether a word belongs to the expression. Before the expression `)` and `,` are file names.
fn looks_like_expression(word: &[u8], leading: bool) -> bool {
    match word {
        b"(" | b"!" => true,
        b")" | b"," => !leading,
        [b'-', rest @ ..] => !rest.is_empty(),
        _ => false,
    }
}

struct Words<'a> {
    arguments: &'a [OsString],
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a OsStr> {
        self.arguments.get(self.at).map(OsString::as_os_str)
    }

    fn next(&mut self) -> Option<&'a OsStr> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }
}

/// `-H -L -P -D x -O n`, which stand before everything.
fn leading_options(words: &mut Words<'_>) -> Result<Follow> {
    let mut follow = Follow::default();
    while let Some(word) = words.peek() {
        match word.as_bytes() {
            b"-H" => follow = Follow::Starts,
            b"-L" => follow = Follow::Always,
            b"-P" => follow = Follow::Never,
            b"-D" => {
                words.at += 1;
                if words.peek().is_none() {
                    return Err("Missing argument after the -D option.".to_owned().into());
                }
            }
            b"--" => {
                words.at += 1;
                break;
            }
            [b'-', b'O', level @ ..] => {
                if level.is_empty() {
                    return Err("The -O option must be immediately followed by a decimal integer"
                        .to_owned()
                        .into());
                }
                if !level.iter().all(u8::is_ascii_digit) {
                    return Err("Please specify a decimal number immediately after -O"
                        .to_owned()
                        .into());
                }
            }
            _ => break,
        }
        words.at += 1;
    }
    Ok(follow)
}

/// A word of the expression with the text it was written as.
struct Token {
    text: String,
    kind: Kind,
}

enum Kind {
    Open,
    Close,
    Not,
    And,
    Or,
    Comma,
    Primary(Expr),
}

#[expect(clippy::struct_excessive_bools, reason = "each remembers that a word was met")]
struct Reader<'a> {
    words: Words<'a>,
    parsed: Parsed,
    syntax: Syntax,
    from_day_start: bool,
    /// The first word that is not an option, for the warning about global options after it.
    first_test: Option<String>,
    depth_asked: bool,
    prunes: bool,
    deletes: bool,
    /// Some action makes `-print` superfluous.
    acts: bool,
}

impl<'a> Reader<'a> {
    fn new(words: Words<'a>, starts: Vec<OsString>, follow: Follow) -> Self {
        let parsed = Parsed {
            starts,
            starts_from: None,
            follow,
            expr: Expr::Test(Test::Constant(true)),
            min_depth: 0,
            max_depth: usize::MAX,
            contents_first: false,
            one_file_system: false,
            vanishing_is_fine: false,
            outputs: vec!["/dev/stdout".into(), "/dev/stderr".into()],
            gathering: 0,
            runs_in_directories: false,
            asks: false,
            warnings: Vec::new(),
            show: None,
        };
        Self {
            words,
            parsed,
            syntax: Syntax::default(),
            from_day_start: false,
            first_test: None,
            depth_asked: false,
            prunes: false,
            deletes: false,
            acts: false,
        }
    }

    fn read(mut self) -> Result<Parsed> {
        let mut tokens = Vec::new();
        let mut last_test = None;
        while let Some(word) = self.words.next() {
            let text = word.to_string_lossy().into_owned();
            if !looks_like_expression(word.as_bytes(), false) {
                return Err(UsageError {
                    text: format!("paths must precede expression: `{text}'"),
                    stray: last_test.map(|test| (word.to_owned(), test)),
                });
            }
            // GNU find's grammar does not see these two at all, unlike the other options.
            if matches!(word.as_bytes(), b"-daystart" | b"-files0-from") {
                self.option(word.as_bytes(), &text)?;
                continue;
            }
            let kind = self.token(word.as_bytes(), &text)?;
            if matches!(kind, Kind::Primary(_)) {
                last_test = Some(text.clone());
            }
            tokens.push(Token { text, kind });
        }
        if self.deletes && self.prunes && !self.depth_asked {
            return Err(
                "The -delete action automatically turns on -depth, but -prune does nothing \
                        when -depth is in effect.  If you want to carry on anyway, just explicitly \
                        use the -depth option."
                    .to_owned()
                    .into(),
            );
        }
        if self.parsed.starts_from.is_some()
            && let Some(start) = self.parsed.starts.first()
        {
            return Err(format!(
                "extra operand {}\nfile operands cannot be combined with -files0-from",
                quoted(start.as_bytes())
            )
            .into());
        }
        let print = || Expr::Action(Action::Print(STDOUT, b'\n'));
        self.parsed.expr = if tokens.is_empty() {
            print()
        } else {
            let expr = Tree::new(tokens).read()?;
            if self.acts { expr } else { Expr::And(vec![expr, print()]) }
        };
        Ok(self.parsed)
    }

    fn token(&mut self, word: &[u8], text: &str) -> Result<Kind> {
        Ok(match word {
            b"(" => Kind::Open,
            b")" => Kind::Close,
            b"!" | b"-not" => Kind::Not,
            b"-a" | b"-and" => Kind::And,
            b"-o" | b"-or" => Kind::Or,
            b"," => Kind::Comma,
            _ if self.option(word, text)? => Kind::Primary(Expr::Test(Test::Constant(true))),
            _ => {
                self.first_test.get_or_insert_with(|| text.to_owned());
                Kind::Primary(match self.test(word, text)? {
                    Some(test) => Expr::Test(test),
                    None => Expr::Action(self.action(word, text)?),
                })
            }
        })
    }

    fn argument(&mut self, text: &str) -> Result<&'a [u8]> {
        match self.words.next() {
            Some(argument) => Ok(argument.as_bytes()),
            None => Err(format!("missing argument to `{text}'").into()),
        }
    }

    fn file(&mut self, text: &str) -> Result<OsString> {
        self.argument(text).map(|bytes| OsString::from_vec(bytes.to_vec()))
    }

    fn warn(&mut self, text: String) {
        self.parsed.warnings.push(Warning { text, always: false });
    }

    fn warn_always(&mut self, text: String) {
        self.parsed.warnings.push(Warning { text, always: true });
    }

    /// Reads an option, true wherever it stands; false when the word is none.
    fn option(&mut self, word: &[u8], text: &str) -> Result<bool> {
        match word {
            b"-daystart" => self.from_day_start = true,
            b"-follow" => self.parsed.follow = Follow::Always,
            b"-regextype" => {
                let name = self.argument(text)?;
                self.syntax = Syntax::named(name).ok_or_else(|| {
                    let names: Vec<_> =
                        Syntax::names().map(|name| quoted(name.as_bytes())).collect();
                    format!(
                        "Unknown regular expression type {}; valid types are {}.",
                        quoted(name),
                        names.join(", ")
                    )
                })?;
            }
            b"-warn" | b"-nowarn" | b"-noleaf" => {}
            b"-depth" | b"-d" => {
                if word == b"-d" {
                    self.warn(
                        "the -d option is deprecated; please use -depth instead, because the \
                         latter is a POSIX-compliant feature."
                            .to_owned(),
                    );
                }
                self.global(text);
                self.depth_asked = true;
                self.parsed.contents_first = true;
            }
            b"-mount" | b"-xdev" => {
                self.global(text);
                self.parsed.one_file_system = true;
            }
            b"-ignore_readdir_race" | b"-noignore_readdir_race" => {
                self.global(text);
                self.parsed.vanishing_is_fine = word == b"-ignore_readdir_race";
            }
            b"-maxdepth" | b"-mindepth" => {
                let argument = self.argument(text)?;
                self.global(text);
                let levels = digits(argument).and_then(|levels| usize::try_from(levels).ok());
                let levels = levels.ok_or_else(|| {
                    format!(
                        "Expected a positive decimal integer argument to {text}, but got {}",
                        quoted(argument)
                    )
                })?;
                if word == b"-maxdepth" {
                    self.parsed.max_depth = levels;
                } else {
                    self.parsed.min_depth = levels;
                }
            }
            b"-files0-from" => {
                self.global(text);
                self.parsed.starts_from = Some(self.file(text)?);
            }
            b"-help" | b"--help" => self.parsed.show = Some(Show::Help),
            b"-version" | b"--version" => self.parsed.show = Some(Show::Version),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn global(&mut self, text: &str) {
        if let Some(test) = self.first_test.clone() {
            self.warn(format!(
                "you have specified the global option {text} after the argument {test}, but global \
                 options are not positional, i.e., {text} affects tests specified before it as well \
                 as those specified after it.  Please specify global options before other arguments."
            ));
        }
    }

    fn test(&mut self, word: &[u8], text: &str) -> Result<Option<Test>> {
        Ok(Some(match word {
            b"-true" => Test::Constant(true),
            b"-false" => Test::Constant(false),
            b"-name" | b"-iname" => {
                let pattern = self.argument(text)?;
                if pattern.contains(&b'/') && pattern != b"/" {
                    let whole = if word == b"-name" { "-wholename" } else { "-iwholename" };
                    self.warn(format!(
                        "{} matches against basenames only, but the given pattern contains a \
                         directory separator ({}), thus the expression will evaluate to false all \
                         the time.  Did you mean {}?",
                        quoted(word),
                        quoted(b"/"),
                        quoted(whole.as_bytes())
                    ));
                }
                Test::Name(Glob::new(pattern, word == b"-iname"))
            }
            b"-path" | b"-wholename" | b"-ipath" | b"-iwholename" => {
                let pattern = self.argument(text)?;
                if pattern.len() > 1 && pattern.ends_with(b"/") {
                    self.warn_always(format!(
                        "{text} {} will not match anything because it ends with /.",
                        String::from_utf8_lossy(pattern)
                    ));
                }
                Test::Path(Glob::new(pattern, word.starts_with(b"-i")))
            }
            b"-lname" | b"-ilname" => {
                Test::LinkTarget(Glob::new(self.argument(text)?, word == b"-ilname"))
            }
            b"-regex" | b"-iregex" => {
                let pattern = self.argument(text)?;
                let regex = self.syntax.compile(pattern, word == b"-iregex").map_err(|reason| {
                    format!(
                        "failed to compile regular expression '{}': {reason}",
                        String::from_utf8_lossy(pattern)
                    )
                })?;
                Test::Regex(regex)
            }
            b"-type" => Test::Type(types(self.argument(text)?, text)?),
            b"-xtype" => Test::OtherType(types(self.argument(text)?, text)?),
            b"-size" => size(self.argument(text)?)?,
            b"-atime" => self.age(Stamp::Access, time::DAY, text)?,
            b"-ctime" => self.age(Stamp::Change, time::DAY, text)?,
            b"-mtime" => self.age(Stamp::Modify, time::DAY, text)?,
            b"-amin" => self.age(Stamp::Access, 60 * time::SECOND, text)?,
            b"-cmin" => self.age(Stamp::Change, 60 * time::SECOND, text)?,
            b"-mmin" => self.age(Stamp::Modify, 60 * time::SECOND, text)?,
            b"-used" => {
                let argument = self.argument(text)?;
                Test::Used(age(argument, time::DAY, false).ok_or_else(|| {
                    format!("Invalid argument {} to -used", String::from_utf8_lossy(argument))
                })?)
            }
            b"-newer" => Test::Newer(Stamp::Modify, self.moment(Stamp::Modify, text)?),
            b"-anewer" => Test::Newer(Stamp::Access, self.moment(Stamp::Modify, text)?),
            b"-cnewer" => Test::Newer(Stamp::Change, self.moment(Stamp::Modify, text)?),
            [b'-', b'n', b'e', b'w', b'e', b'r', first, second] => {
                let which = stamp(*first).ok_or_else(|| format!("invalid predicate `{text}'"))?;
                let than = match (*second, stamp(*second)) {
                    (b't', _) => Moment::Text(self.file(text)?),
                    (_, Some(stamp)) => self.moment(stamp, text)?,
                    _ => return Err(format!("invalid predicate `{text}'").into()),
                };
                Test::Newer(which, than)
            }
            b"-perm" => {
                let argument = self.argument(text)?;
                let test = PermissionTest::parse(argument)
                    .ok_or_else(|| format!("invalid mode {}", quoted(argument)))?;
                if argument.starts_with(b"/") && test.asks_for_nothing() {
                    self.warn_always(format!(
                        "you have specified a mode pattern {} (which is equivalent to /000). The \
                         meaning of -perm /000 has now been changed to be consistent with -perm \
                         -000; that is, while it used to match no files, it now matches all files.",
                        String::from_utf8_lossy(argument)
                    ));
                }
                Test::Permission(test)
            }
            b"-user" => {
                let name = self.file(text)?;
                if name.is_empty() {
                    return Err("The argument to -user should not be empty".to_owned().into());
                }
                Test::User(Owner::Named(name))
            }
            b"-group" => {
                let name = self.file(text)?;
                if name.is_empty() {
                    return Err("argument to -group is empty, but should be a group name"
                        .to_owned()
                        .into());
                }
                Test::Group(Owner::Named(name))
            }
            b"-uid" => Test::UserId(self.number(text)?),
            b"-gid" => Test::GroupId(self.number(text)?),
            b"-nouser" => Test::NoUser,
            b"-nogroup" => Test::NoGroup,
            b"-empty" => Test::Empty,
            b"-links" => Test::Links(self.number(text)?),
            b"-inum" => Test::Inode(self.number(text)?),
            b"-samefile" => {
                let follow = self.parsed.follow != Follow::Never;
                Test::SameFile(Same::File { path: self.file(text)?, follow })
            }
            b"-readable" => Test::Access(Access::Read),
            b"-writable" => Test::Access(Access::Write),
            b"-executable" => Test::Access(Access::Execute),
            b"-fstype" => Test::FsType(self.argument(text)?.to_vec()),
            b"-context" => {
                return Err("invalid predicate -context: SELinux is not enabled."
                    .to_owned()
                    .into());
            }
            b"-latency" => {
                let argument = self.argument(text)?;
                Test::Latency(latency(argument).ok_or_else(|| {
                    format!(
                        "invalid argument `{}' to `-latency': expected [+-]N in seconds, \
                         [+-]mN in milliseconds or [+-]uN in microseconds",
                        String::from_utf8_lossy(argument)
                    )
                })?)
            }
            b"-device" => Test::Device(Glob::new(self.argument(text)?, false)),
            _ => return Ok(None),
        }))
    }

    fn action(&mut self, word: &[u8], text: &str) -> Result<Action> {
        let action = match word {
            b"-prune" => {
                self.prunes = true;
                return Ok(Action::Prune);
            }
            b"-quit" => return Ok(Action::Quit),
            b"-print" => Action::Print(STDOUT, b'\n'),
            b"-print0" => Action::Print(STDOUT, 0),
            b"-fprint" => Action::Print(self.output(text)?, b'\n'),
            b"-fprint0" => Action::Print(self.output(text)?, 0),
            b"-ls" => Action::Ls(STDOUT),
            b"-fls" => Action::Ls(self.output(text)?),
            b"-printf" => Action::Printf(STDOUT, self.format(text)?),
            b"-fprintf" => Action::Printf(self.output(text)?, self.format(text)?),
            b"-delete" => {
                self.deletes = true;
                self.parsed.contents_first = true;
                Action::Delete
            }
            b"-exec" | b"-execdir" | b"-ok" | b"-okdir" => Action::Exec(self.exec(text)?),
            _ => return Err(format!("unknown predicate `{text}'").into()),
        };
        self.acts = true;
        Ok(action)
    }

    fn age(&mut self, stamp: Stamp, unit: i128, text: &str) -> Result<Test> {
        let argument = self.argument(text)?;
        let age =
            age(argument, unit, self.from_day_start).ok_or_else(|| invalid(argument, text))?;
        Ok(Test::Age(stamp, age))
    }

    fn number(&mut self, text: &str) -> Result<Number> {
        let argument = self.argument(text)?;
        Ok(number(argument).ok_or_else(|| invalid(argument, text))?)
    }

    fn moment(&mut self, stamp: Stamp, text: &str) -> Result<Moment> {
        let follow = self.parsed.follow != Follow::Never;
        Ok(Moment::File { path: self.file(text)?, stamp, follow })
    }

    fn output(&mut self, text: &str) -> Result<usize> {
        let path = self.file(text)?;
        let known = self.parsed.outputs.iter().position(|output| *output == path);
        Ok(known.unwrap_or_else(|| {
            self.parsed.outputs.push(path);
            self.parsed.outputs.len() - 1
        }))
    }

    fn format(&mut self, text: &str) -> Result<Vec<printf::Piece>> {
        let format = self.argument(text)?;
        let mut warnings = Vec::new();
        let pieces = printf::parse(format, &mut warnings)?;
        for warning in warnings {
            self.warn_always(warning);
        }
        Ok(pieces)
    }

    fn exec(&mut self, text: &str) -> Result<Exec> {
        let ask = text.starts_with("-ok");
        let in_directory = text.ends_with("dir");
        let rest = &self.words.arguments[self.words.at..];
        let (mut end, mut many) = (None, false);
        for (at, word) in rest.iter().enumerate() {
            if word == ";" {
                end = Some(at);
                break;
            }
            if !ask && word == "+" && at > 0 && rest[at - 1] == "{}" {
                (end, many) = (Some(at), true);
                break;
            }
        }
        let Some(end) = end else {
            return Err(format!("missing argument to `{text}'").into());
        };
        if end == 0 {
            return Err(format!("invalid argument `;' to `{text}'").into());
        }
        let mut command = rest[..end].to_vec();
        self.words.at += end + 1;
        if many {
            command.pop();
            if command.is_empty() {
                return Err(format!("invalid argument `+' to `{text}'").into());
            }
            if command.iter().any(|word| bstr::ByteSlice::contains_str(word.as_bytes(), "{}")) {
                let kind = if in_directory { "dir" } else { "" };
                return Err(format!(
                    "Only one instance of {{}} is supported with -exec{kind} ... +"
                )
                .into());
            }
            self.parsed.gathering += 1;
        }
        self.parsed.runs_in_directories |= in_directory;
        self.parsed.asks |= ask;
        let slot = self.parsed.gathering.saturating_sub(1);
        Ok(Exec { command, many, in_directory, ask, slot })
    }
}

fn invalid(argument: &[u8], text: &str) -> String {
    format!("invalid argument `{}' to `{text}'", String::from_utf8_lossy(argument))
}

fn stamp(letter: u8) -> Option<Stamp> {
    Some(match letter {
        b'a' => Stamp::Access,
        b'B' => Stamp::Birth,
        b'c' => Stamp::Change,
        b'm' => Stamp::Modify,
        _ => return None,
    })
}

/// Splits off a leading `+` or `-`.
fn compare(argument: &[u8]) -> (Compare, &[u8]) {
    match argument {
        [b'+', rest @ ..] => (Compare::More, rest),
        [b'-', rest @ ..] => (Compare::Less, rest),
        _ => (Compare::Equal, argument),
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn number(argument: &[u8]) -> Option<Number> {
    let (compare, rest) = compare(argument);
    Some(Number { compare, value: digits(rest)? })
}

/// A number with an optional fraction and exponent, never negative or endless.
fn decimal(text: &[u8]) -> Option<f64> {
    if !text.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte))
        || !text.first()?.is_ascii_digit() && text[0] != b'.'
    {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// A time far beyond the age of the universe is as good as that.
const NANOSECONDS_MAX: f64 = 1e27;

fn age(argument: &[u8], unit: i128, from_day_start: bool) -> Option<Age> {
    let (compare, rest) = compare(argument);
    #[expect(clippy::cast_possible_truncation, reason = "bounded by NANOSECONDS_MAX")]
    let amount = (decimal(rest)? * unit as f64).min(NANOSECONDS_MAX) as i128;
    Some(Age { compare, amount, unit, from_day_start })
}

fn latency(argument: &[u8]) -> Option<Latency> {
    let (compare, rest) = compare(argument);
    let (unit, rest) = match rest {
        [b'm' | b'M', rest @ ..] => (1e-3, rest),
        [b'u' | b'U', rest @ ..] => (1e-6, rest),
        _ => (1.0, rest),
    };
    Some(Latency { compare, amount: decimal(rest)?, unit })
}

fn size(argument: &[u8]) -> Result<Test> {
    let Some(&last) = argument.last() else {
        return Err("invalid null argument to -size".to_owned().into());
    };
    let unit = match last {
        b'b' | b'0'..=b'9' => 512,
        b'c' => 1,
        b'w' => 2,
        b'k' => 1 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        _ => return Err(format!("invalid -size type `{}'", last.escape_ascii()).into()),
    };
    let text = if last.is_ascii_digit() { argument } else { &argument[..argument.len() - 1] };
    let number = number(text).ok_or_else(|| {
        format!("Invalid argument `{}' to -size", String::from_utf8_lossy(argument))
    })?;
    Ok(Test::Size(number, unit))
}

fn types(argument: &[u8], text: &str) -> Result<TypeSet> {
    if argument.is_empty() {
        return Err(format!("Arguments to {text} should contain at least one letter").into());
    }
    let mut set = TypeSet::default();
    let mut rest = argument;
    while let Some((&letter, after)) = rest.split_first() {
        let shown = letter.escape_ascii();
        match set.add(letter) {
            None => return Err(format!("Unknown argument to {text}: {shown}").into()),
            Some(false) => {
                return Err(format!(
                    "Duplicate file type '{shown}' in the argument list to {text}."
                )
                .into());
            }
            Some(true) => {}
        }
        rest = match after {
            [] => after,
            [b','] => {
                return Err(format!(
                    "Last file type in list argument to {text} is missing, i.e., list is ending on: ','"
                )
                .into());
            }
            [b',', after @ ..] => after,
            _ => {
                return Err(format!("Must separate multiple arguments to {text} using: ','").into());
            }
        };
    }
    Ok(set)
}

/// Builds the tree from tokens.
struct Tree {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// The text of the last token taken.
    last: String,
    nesting: usize,
}

impl Tree {
    fn new(tokens: Vec<Token>) -> Self {
        Self { tokens: tokens.into_iter().peekable(), last: String::new(), nesting: 0 }
    }

    fn read(mut self) -> Result<Expr> {
        let expr = self.list()?;
        match self.tokens.next() {
            None => Ok(expr),
            Some(_) => Err("you have too many ')'".to_owned().into()),
        }
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.next()?;
        self.last.clone_from(&token.text);
        Some(token)
    }

    fn next_is(&mut self, kind: fn(&Kind) -> bool) -> bool {
        self.tokens.peek().is_some_and(|token| kind(&token.kind))
    }

    fn list(&mut self) -> Result<Expr> {
        let mut items = vec![self.or()?];
        while self.next_is(|kind| matches!(kind, Kind::Comma)) {
            self.next();
            items.push(self.or()?);
        }
        Ok(single(items, Expr::List))
    }

    fn or(&mut self) -> Result<Expr> {
        let mut items = vec![self.and()?];
        while self.next_is(|kind| matches!(kind, Kind::Or)) {
            self.next();
            items.push(self.and()?);
        }
        Ok(single(items, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr> {
        let mut items = vec![self.not()?];
        loop {
            if self.next_is(|kind| matches!(kind, Kind::And)) {
                self.next();
            } else if !self
                .next_is(|kind| matches!(kind, Kind::Open | Kind::Not | Kind::Primary(_)))
            {
                return Ok(single(items, Expr::And));
            }
            items.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Expr> {
        let mut negated = false;
        while self.next_is(|kind| matches!(kind, Kind::Not)) {
            self.next();
            negated = !negated;
        }
        let expr = self.primary()?;
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    fn primary(&mut self) -> Result<Expr> {
        let before = self.last.clone();
        let Some(token) = self.next() else {
            return Err(if before == "(" {
                "invalid expression; expected to find a ')' but didn't see one. Perhaps you need \
                 an extra predicate after '('"
                    .to_owned()
            } else {
                format!("expected an expression after '{before}'")
            }
            .into());
        };
        match token.kind {
            Kind::Primary(expr) => Ok(expr),
            Kind::Open => self.parenthesis(),
            Kind::Close if before == "(" => {
                Err("invalid expression; empty parentheses are not allowed.".to_owned().into())
            }
            Kind::Close if before.is_empty() => {
                Err("invalid expression: expected expression before closing parentheses ')'."
                    .to_owned()
                    .into())
            }
            Kind::Close => Err(format!("expected an expression between '{before}' and ')'").into()),
            Kind::And | Kind::Or | Kind::Comma | Kind::Not => Err(format!(
                "invalid expression; you have used a binary operator '{}' with nothing before it.",
                token.text
            )
            .into()),
        }
    }

    fn parenthesis(&mut self) -> Result<Expr> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(format!("parentheses nest deeper than {NESTING_MAX} levels").into());
        }
        let expr = self.list()?;
        self.nesting -= 1;
        match self.next() {
            Some(Token { kind: Kind::Close, .. }) => Ok(expr),
            _ => Err(
                "invalid expression; I was expecting to find a ')' somewhere but did not see one."
                    .to_owned()
                    .into(),
            ),
        }
    }
}

/// A node of one operand is that operand.
fn single(mut items: Vec<Expr>, node: fn(Vec<Expr>) -> Expr) -> Expr {
    match items.pop() {
        Some(only) if items.is_empty() => only,
        Some(last) => {
            items.push(last);
            node(items)
        }
        None => node(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<Parsed> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words)
    }

    fn error(line: &str) -> String {
        read(line).expect_err(line).text
    }

    /// The tree in a few letters: operands of tests are dropped.
    fn shape(expr: &Expr) -> String {
        let join = |items: &[Expr], by: &str| {
            let items: Vec<_> = items.iter().map(shape).collect();
            format!("({})", items.join(by))
        };
        match expr {
            Expr::Test(Test::Constant(value)) => if *value { "t" } else { "f" }.to_owned(),
            Expr::Test(_) => "?".to_owned(),
            Expr::Action(Action::Print(..)) => "P".to_owned(),
            Expr::Action(_) => "A".to_owned(),
            Expr::Not(inner) => format!("!{}", shape(inner)),
            Expr::And(items) => join(items, "&"),
            Expr::Or(items) => join(items, "|"),
            Expr::List(items) => join(items, ","),
        }
    }

    fn tree(line: &str) -> String {
        shape(&read(line).expect(line).expr)
    }

    #[test]
    fn precedence() {
        assert_eq!(tree("-true -o -false -name x -print"), "(t|(f&?&P))");
        assert_eq!(tree("( -true -o -false ) -print , -true"), "(((t|f)&P),t)");
        assert_eq!(tree("! ! -true ! -false -print"), "(t&!f&P)");
    }

    #[test]
    fn print_is_implied_without_an_action() {
        assert_eq!(tree(""), "P");
        assert_eq!(tree("x -name y -o -prune"), "((?|A)&P)");
        assert_eq!(tree("x -delete"), "A");
    }

    #[test]
    fn starts_end_where_the_expression_begins() {
        let parsed = read("-L a - ) -name x").expect("an expression");
        assert_eq!(parsed.starts, ["a", "-", ")"]);
        assert_eq!(parsed.follow, Follow::Always);
    }

    #[test]
    fn errors_speak_as_gnu_find() {
        assert_eq!(error(". -name"), "missing argument to `-name'");
        assert_eq!(error(". -foo"), "unknown predicate `-foo'");
        assert_eq!(error(". -name a b"), "paths must precede expression: `b'");
        assert_eq!(error(". ( )"), "invalid expression; empty parentheses are not allowed.");
        assert_eq!(error(". -name a )"), "you have too many ')'");
        assert_eq!(error(". -name a -o"), "expected an expression after '-o'");
        assert_eq!(error(". -size 1q"), "invalid -size type `q'");
        assert_eq!(
            error(". -exec echo {} {} +"),
            "Only one instance of {} is supported with -exec ... +"
        );
        assert!(error(". -latency nan").starts_with("invalid argument `nan' to `-latency'"));
    }

    #[test]
    fn latency_takes_units_before_the_number() {
        assert_eq!(
            latency(b"+m1.5"),
            Some(Latency { compare: Compare::More, amount: 1.5, unit: 1e-3 })
        );
        assert_eq!(
            latency(b"-U7"),
            Some(Latency { compare: Compare::Less, amount: 7.0, unit: 1e-6 })
        );
        assert_eq!(
            latency(b"3"),
            Some(Latency { compare: Compare::Equal, amount: 3.0, unit: 1.0 })
        );
        for wrong in [&b""[..], b"+", b"m", b"1m", b"inf", b"--1", b"x1"] {
            assert_eq!(latency(wrong), None);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "( ".repeat(NESTING_MAX + 1);
        assert!(error(&format!(". {deep}")).contains("deeper"));
    }

    fn word() -> impl Strategy<Value = OsString> {
        let known = prop::sample::select(vec![
            "(",
            ")",
            "!",
            ",",
            "-a",
            "-o",
            "-not",
            "-name",
            "-size",
            "+1k",
            "-perm",
            "-exec",
            "{}",
            "+",
            ";",
            "-printf",
            "%p\\n",
            "-type",
            "f,d",
            "-mtime",
            "-newermt",
            "-regex",
            "\\(a",
            "x",
            "-latency",
            "m1",
            "-device",
            "-fprint",
            "-delete",
            "-prune",
            "-L",
            "-D",
            "-O3",
            "-maxdepth",
        ])
        .prop_map(OsString::from);
        prop_oneof![8 => known, 1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(OsString::from_vec)]
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(words in prop::collection::vec(word(), 0..24)) {
            drop(parse(&words));
        }
    }
}
