//! `nearfirst find`: GNU find's expression language, and what files cost.
//!
//! [`parse`] reads the command line into a [`tree`] ([`expr`]), [`resolve`] looks
//! up what it names, [`starts`] says where to begin, [`walk`] goes through the directories and [`eval`]
//! answers the tree for each file; [`mod@print`] and [`exec`] are what it does.

mod ahead;
mod cost;
mod entry;
mod eval;
mod exec;
mod expr;
mod listing;
mod mode;
mod objects;
mod operand;
mod parse;
mod predicate;
mod print;
mod printf;
mod quote;
mod resolve;
mod session;
mod starts;
mod syntax;
mod time;
mod tree;
mod walk;

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use self::cost::Latencies;
use self::objects::Objects;
use self::parse::Show;
use self::session::Session;
use self::starts::Starts;
use self::time::Calendar;
use crate::asking::AskFlags;
use crate::flags::PlanFlag;
use crate::reach::Reach;
use crate::sets;
use crate::sets::flags::StoreFlags;
use crate::{human, messages, outcome};

/// Find files as GNU find does, also by how long reading them will take
///
/// Walks the given folders (by default the current one) and evaluates an expression for every file:
/// GNU find's language, with two tests of our own. `-latency` compares the time that reading the
/// whole file will take, `-device` names where its parts are. A start point may be the name of a
/// server, a bucket or a part of one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "--help lists every test, action and operator.",
    after_long_help = LANGUAGE,
    // Its own language has them.
    disable_version_flag = true,
    override_usage = messages::called("find") + " [OPTIONS] [-H] [-L] [-P] [PATH]... [EXPRESSION]"
)]
pub(crate) struct Args {
    /// Say on stderr how many files were seen, looked at and asked about, and where their bytes are
    ///
    /// Must come before the first path; whatever follows that belongs to find's own language.
    #[arg(long)]
    stats: bool,

    /// Which time -latency means: to read a file near first, or in file order; must come first, too
    #[arg(long, value_enum, default_value_t = PlanFlag::Best, value_name = "PLAN")]
    plan: PlanFlag,

    #[command(flatten)]
    stores: StoreFlags,

    /// How long to wait for a mount or a server; must come first, as `--stats`
    #[command(flatten)]
    asking: AskFlags,

    /// Where to start, and the expression
    #[arg(
        value_name = "PATH or EXPRESSION",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = clap::ValueHint::AnyPath
    )]
    words: Vec<OsString>,
}

const LANGUAGE: &str = "\
Examples:
  nearfirst find /data -latency -1 -exec grep -l pattern {} +
  nearfirst find . -name '*.fits' -device memory -print

Before the paths:
  -P  never follow symbolic links (the default)
  -H  follow those on the command line
  -L  follow all; a loop is reported
  -D FLAGS, -OLEVEL  accepted and ignored

Operators, by falling precedence:
  ( EXPR )   ! EXPR  -not EXPR   EXPR [-a] EXPR  EXPR -and EXPR
  EXPR -o EXPR  EXPR -or EXPR   EXPR , EXPR

Positional options:
  -daystart -follow -regextype TYPE -warn -nowarn

Global options:
  -depth -d -maxdepth N -mindepth N -mount -xdev -noleaf
  -files0-from FILE -ignore_readdir_race -noignore_readdir_race
  -help --help -version --version

Tests (N is +N for more, N for exactly, -N for less):
  -latency [+-][mMuU]N     time to read the whole file, near parts
                           first (but see --plan), in seconds (m, M:
                           milli-; u, U: microseconds); N may have a
                           fraction, and without a sign matches more
                           than N-1 and at most N units: times that,
                           rounded up, are N (as -mmin has it)
  -device GLOB             a part of the file, or its file system, is
                           on such a device: memory, disk:vda, nfs:*;
                           `nearfirst devices` lists them
  -name GLOB -iname GLOB   the last component of the path
  -path GLOB -wholename GLOB -ipath GLOB -iwholename GLOB
                           the whole path
  -regex RE -iregex RE     the whole path (no back-references)
  -lname GLOB -ilname GLOB what a symbolic link says
  -type LETTERS -xtype LETTERS   of b,c,d,p,f,l,s
  -size N[bcwkMG]          blocks of 512 bytes, bytes, words, KiB,
                           MiB, GiB; rounded up
  -empty
  -mtime N -atime N -ctime N   days since modification, access, change
  -mmin N -amin N -cmin N      minutes
  -used N                      days from change to access
  -newer FILE -anewer FILE -cnewer FILE
  -newerXY REFERENCE           X, Y: a, B, c, m; Y = t: a date in words
  -perm MODE -perm -MODE -perm /MODE   octal or symbolic
  -readable -writable -executable
  -user NAME -uid N -group NAME -gid N -nouser -nogroup
  -links N -inum N -samefile FILE -fstype TYPE
  -true -false

Actions:
  -print -print0 -ls -printf FORMAT
  -fprint FILE -fprint0 FILE -fls FILE -fprintf FILE FORMAT
  -exec COMMAND ;  -exec COMMAND {} +
  -execdir COMMAND ;  -execdir COMMAND {} +
  -ok COMMAND ;  -okdir COMMAND ;
  -delete -prune -quit

Formats: \\a \\b \\c \\f \\n \\r \\t \\v \\0 \\\\ \\NNN and
  %p path  %f name  %h folder  %P path below the start  %H start
  %d depth  %l link target  %y type  %Y type of the target
  %s bytes  %b blocks  %k KiB  %S sparseness
  %i inode  %n links  %D device number  %F file system
  %m mode, octal  %M mode, letters
  %u %U user  %g %G group  %Z SELinux context
  %a %c %t times; %Ax %Bx %Cx %Tx a part of the time of access, birth,
           change, modification: @ seconds since 1970, + date and time,
           or a letter of strftime(3)
  %{latency} seconds to read the file, ? where unknown
  %{device} devices, with commas
  %% a percent sign; flags, width and precision as in printf(3)

A start point is a path, as of GNU find (a shell expands patterns of files), or a name of a \
server or bucket, for its object and all below it (those whose names begin with a dot, too), or a \
pattern of objects, a query, program or list, as `nearfirst ls --help` describes them. Of \
objects it can be asked: -name, -path, -regex and their kin, -type, -size, -empty, -mtime, \
-mmin, -newer, -latency, -device; and done: -print, -print0, -printf, -quit. Everything else is \
refused.

Only regular files and objects have a delivery time. A file whose cost is unknown matches no \
-latency; that is said once per device on stderr.

The exit code is 1 if anything went wrong, 141 if whoever reads the output has closed it, as of \
GNU find, which a signal ends then, otherwise 0.";

/// Exit code of a command line that cannot be understood: GNU find's.
pub(crate) const USAGE_EXIT: u8 = 1;

pub(crate) fn run(args: &Args) -> ExitCode {
    match find(args) {
        Ok(code) => code,
        Err(message) => {
            say(&message);
            ExitCode::FAILURE
        }
    }
}

fn say(message: &str) {
    for line in message.lines() {
        messages::error(line);
    }
}

/// The whole run; the error is a message that keeps it from starting.
fn find(args: &Args) -> Result<ExitCode, String> {
    let Args { stats, plan, stores, asking, words } = args;
    let mut parsed = parse::parse(words).map_err(|error| explained(&error))?;
    match parsed.show {
        Some(Show::Help) => return Ok(show(&help())),
        Some(Show::Version) => return Ok(show(&messages::version())),
        None => {}
    }
    let calendar = Calendar::local();
    let now = session::now();
    let reach = Reach::new(asking.local());
    resolve::resolve(&mut parsed.expr, &reach, &calendar, now)?;
    if parsed.runs_in_directories {
        resolve::check_path("-execdir")?;
    }
    let at_terminal = io::stdin().is_terminal();
    for warning in &parsed.warnings {
        if warning.always || at_terminal {
            messages::note(format_args!("warning: {}", warning.text));
        }
    }
    let known = Arc::new(asking.costs());
    let mut starts = Starts::of(&parsed, &known)?;
    let costs = Latencies::new(Arc::clone(&known), (*plan).into());
    let session = Session::new(&parsed, calendar, now, reach, costs);
    let mut session = session.map_err(|error| error.to_string())?;
    session.list_is_stdin = starts.are_stdin();
    let is_of_a_set = |start: &OsString, reach: &Reach| sets::needs_engine(reach.local(), start);
    // What no object can answer is refused before a file was looked at.
    let mut objects = if parsed.starts.iter().any(|start| is_of_a_set(start, &session.reach)) {
        Some(Some(Objects::new(&parsed.expr, stores, asking, &known)?))
    } else {
        None
    };
    let mut walk = walk::Walk::new(&parsed);
    while !session.quits
        && let Some(start) = starts.next(&mut session)
    {
        if !is_of_a_set(&start, &session.reach) {
            walk.run(&start, &mut session);
            continue;
        }
        // Said once: what is named behind it may be files.
        let open =
            || Objects::new(&parsed.expr, stores, asking, &known).map_err(|why| say(&why)).ok();
        if let Some(objects) = objects.get_or_insert_with(open) {
            objects.run(&start, &mut session);
        }
    }
    exec::finish(&mut session);
    session.flush();
    if *stats {
        say_stats(&session);
    }
    if session.is_closed {
        return Ok(ExitCode::from(outcome::CLOSED_PIPE_EXIT));
    }
    let failed = session.failed || messages::any();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// An error of the command line, with a hint where a pattern was expanded by the shell.
fn explained(error: &parse::UsageError) -> String {
    match &error.stray {
        Some((word, test)) if std::fs::symlink_metadata(OsStr::new(word)).is_ok() => {
            format!("{}\npossible unquoted pattern after predicate `{test}'?", error.text)
        }
        _ => error.text.clone(),
    }
}

/// The operators, tests, actions and options of the language, as its help has them.
pub(crate) fn words() -> Vec<&'static str> {
    let (_, listed) = LANGUAGE.split_once("Operators,").unwrap_or_default();
    let (listed, _) = listed.split_once("Formats:").unwrap_or_default();
    let is_word = |word: &&str| {
        let name = word.strip_prefix('-').unwrap_or_default();
        name.starts_with(|first: char| first.is_ascii_lowercase())
    };
    let bare = |word: &'static str| word.trim_matches(['[', ']']);
    let mut words: Vec<_> = listed.split_whitespace().map(bare).filter(is_word).collect();
    words.dedup();
    words
}

/// What `--help` says before the first path.
fn help() -> String {
    let mut command = <Args as clap::Args>::augment_args(clap::Command::new("find"));
    command = command.max_term_width(crate::HELP_WIDTH_MAX);
    command.render_long_help().to_string().trim_end().to_owned()
}

fn show(text: &str) -> ExitCode {
    match writeln!(io::stdout().lock(), "{text}") {
        // Who closed the output has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            messages::error(format_args!("write error: {}", messages::reason(&error)));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn say_stats(session: &Session<'_>) {
    let stats = session.stats;
    let seconds = (session::now() - session.now) as f64 / time::SECOND as f64;
    messages::note(format_args!(
        "{} seen, {} looked at, {} opened, {seconds:.3} s",
        human::counted(stats.entries, "entry"),
        stats.looks,
        human::counted(stats.opens, "directory"),
    ));
    session.costs.say(&stats.asked);
}
