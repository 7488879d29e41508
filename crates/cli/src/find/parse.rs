//! The command line of `find` as a tree: pure, with errors as values.
//!
//! Words become [`Token`]s from left to right, options are noted, [`predicate`](super::predicate)
//! reads tests, and [`tree`](super::tree) makes one of tokens. Texts of errors are GNU find's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::expr::{Action, Exec, Expr, Test};
use super::operand::digits;
use super::printf;
use super::quote::quoted;
use super::syntax::Syntax;
use super::tree::{Kind, Token, Tree};

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

/// What was read, or why not.
pub(super) type Result<T> = std::result::Result<T, UsageError>;

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

/// Reads the expression, word by word.
#[expect(clippy::struct_excessive_bools, reason = "each remembers that a word was met")]
pub(super) struct Reader<'a> {
    words: Words<'a>,
    pub(super) parsed: Parsed,
    pub(super) syntax: Syntax,
    pub(super) from_day_start: bool,
    /// The first word that is not an option, for the warning about global options after it.
    first_argument: Option<String>,
    /// What the last `-warn` or `-nowarn` says.
    warns: Option<bool>,
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
            first_argument: None,
            warns: None,
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
        if self.option(word, text)? {
            return Ok(Kind::Primary(Expr::Test(Test::Constant(true))));
        }
        self.first_argument.get_or_insert_with(|| text.to_owned());
        Ok(match word {
            b"(" => Kind::Open,
            b")" => Kind::Close,
            b"!" | b"-not" => Kind::Not,
            b"-a" | b"-and" => Kind::And,
            b"-o" | b"-or" => Kind::Or,
            b"," => Kind::Comma,
            _ => Kind::Primary(match self.test(word, text)? {
                Some(test) => Expr::Test(test),
                None => Expr::Action(self.action(word, text)?),
            }),
        })
    }

    pub(super) fn argument(&mut self, text: &str) -> Result<&'a [u8]> {
        match self.words.next() {
            Some(argument) => Ok(argument.as_bytes()),
            None => Err(format!("missing argument to `{text}'").into()),
        }
    }

    pub(super) fn file(&mut self, text: &str) -> Result<OsString> {
        self.argument(text).map(|bytes| OsString::from_vec(bytes.to_vec()))
    }

    pub(super) fn warn(&mut self, text: String) {
        if self.warns != Some(false) {
            let always = self.warns == Some(true);
            self.parsed.warnings.push(Warning { text, always });
        }
    }

    pub(super) fn warn_always(&mut self, text: String) {
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
            b"-warn" => self.warns = Some(true),
            b"-nowarn" => self.warns = Some(false),
            b"-noleaf" => self.global(text),
            b"-depth" | b"-d" => {
                self.global(text);
                if word == b"-d" {
                    self.warn(
                        "the -d option is deprecated; please use -depth instead, because the \
                         latter is a POSIX-compliant feature."
                            .to_owned(),
                    );
                }
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
        if let Some(first) = self.first_argument.clone() {
            self.warn(format!(
                "you have specified the global option {text} after the argument {first}, but global \
                 options are not positional, i.e., {text} affects tests specified before it as well \
                 as those specified after it.  Please specify global options before other arguments."
            ));
        }
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
    fn nesting_is_bounded() {
        let deep = "( ".repeat(super::super::tree::NESTING_MAX + 1);
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
