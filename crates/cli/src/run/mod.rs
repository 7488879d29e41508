//! `nearfirst run`: one command, whose files are fetched before it asks for them.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;
use watch::command::{self, Ended, Outcome, Unobserved};
use watch::{Attended, Effort, PatternStore, Record, SessionOptions};

use crate::guessing::{GuessFlags, uncounted};
use crate::{human, messages};

/// Run a command, and fetch what it will probably read before it asks
///
/// The first time a command runs, what it and the programs that it starts open is learned. When it
/// runs again, the same files are brought into memory ahead of it, in the order in which they were
/// needed. Nothing needs to be configured and no privileges are needed; static programs and shell
/// scripts are seen too.
///
/// The command has the terminal, the files, the signals and the exit code that it would have
/// without. What was learned lies in `$XDG_STATE_HOME/nearfirst/trees` (by default under
/// ~/.local/state; `$NEARFIRST_STATE` stands in for the first two), readable by its owner alone;
/// `nearfirst trees` shows it.
#[derive(clap::Args, Debug)]
#[command(after_long_help = NOTES)]
pub(crate) struct Args {
    /// Say on stderr, when the command has ended, what was predicted and what came of it
    #[arg(long)]
    stats: bool,

    /// Only learn; fetch nothing. With --stats the files that would be fetched are looked at
    #[arg(long)]
    no_fetch: bool,

    /// Write what was seen to a file, as a trace; see docs/traces.md
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    #[command(flatten)]
    guessing: GuessFlags,

    /// The command and its arguments
    #[arg(
        required = true, trailing_var_arg = true, value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    words: Vec<OsString>,
}

const NOTES: &str = "\
Limits:
  A command is seen by a filter (seccomp) that all its programs inherit. Unless root runs it \
  (with CAP_SYS_ADMIN, which root of a container often lacks), no program under it can gain \
  privileges: sudo, su, ping and the like fail there. If CMD itself is such a program it is run as \
  if `nearfirst run` were not there, and so is any where /proc does not show the processes that are here (in \
  a PID namespace with the /proc of another). A program that filters others by the same means (some \
  container runtimes) cannot do so under `nearfirst run`, nor can one that locks itself in by their \
  strict mode, and one that traces by them (proot, strace --seccomp-bpf) misses calls. Whoever kills \
  all of this program's processes at once (killall -9) takes the command's right to open files. What \
  a program opens by io_uring is not seen, but by `nearfirst watch`.

  Each open, also of a name that is not there, and each start of a program takes some \
  microseconds longer (5 on an idle machine, 70 to 80 on one that is busy), and one waits for \
  another: where all files are in memory already, that is all that comes of it (a build of C sources by \
  two processors took 1.08 times as long). In some of them a signal can \
  interrupt the call: a program with a handler without SA_RESTART, such as a script of dash with traps \
  or one of Perl with $SIG, may see EINTR of an open where there is none otherwise, the more often the \
  busier the machine is.

  A program that makes a process group of its own, as `timeout` does, is not that of the terminal: \
  keys interrupt it, but to read from the terminal is an error (EIO). `timeout --foreground` can.

  CMD that is a script without a `#!` line is run by sh, as shells run it, where a program that starts it \
  by execve is refused (ENOEXEC).

  Files are fetched into the page cache. On a FUSE mount that empties it when a file is opened that \
  would be of no use; where `nearfirst calibrate` has found that out, it is not done.

Exit codes:
  Those of CMD; 127 if it is not there, 126 if it cannot be run. CMD ended by a signal ends this \
  program by the same signal.";

/// Exit code of a command that is not there, as shells have it.
const NOT_FOUND: u8 = 127;
/// Exit code of a command that cannot be run.
const NOT_RUN: u8 = 126;

pub(crate) fn run(args: &Args) -> ExitCode {
    let store = PatternStore::own();
    let options = SessionOptions {
        effort: match (args.no_fetch, args.stats) {
            (false, _) => Effort::Fetch,
            (true, true) => Effort::Look,
            (true, false) => Effort::Leave,
        },
        record: args.record.as_ref().and_then(|path| {
            let record = Record::create(path.clone());
            let failed = |error: &_| {
                let name = human::name(path.as_os_str());
                messages::error(format_args!("{name}: {}; not recorded", messages::reason(error)));
            };
            record.inspect_err(failed).ok()
        }),
        learning: args.guessing.learning(),
        carrying: args.guessing.carrying(),
        ..SessionOptions::default()
    };
    let outcome = command::run(&args.words, move |observer, reporter| {
        let attended = watch::attend(observer, reporter, store.as_ref(), options);
        if args.stats {
            for line in summary(&attended, args.no_fetch) {
                reporter.say(line);
            }
        }
        reporter.done();
    });
    match outcome {
        Ok(Outcome::Ended { how, said }) => {
            said.into_iter().for_each(messages::note);
            end(how)
        }
        Ok(Outcome::NotStarted(error)) => not_run(args, &error),
        Ok(Outcome::Unobserved(why)) => unobserved(args, &why),
        Err(error) => {
            messages::error(messages::reason(&error));
            ExitCode::from(NOT_RUN)
        }
    }
}

/// Ends as the command ended.
fn end(how: Ended) -> ExitCode {
    match how {
        Ended::Code(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        Ended::Signal(signal) => {
            command::die_by(signal);
            // One that does not end a process, or that was ignored.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
    }
}

fn not_run(args: &Args, error: &io::Error) -> ExitCode {
    let name = args.words.first().map(|word| human::name(word).to_string()).unwrap_or_default();
    messages::error(format_args!("{name}: {}", messages::reason(error)));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}

/// Runs the command all the same.
fn unobserved(args: &Args, why: &Unobserved) -> ExitCode {
    match why {
        Unobserved::GainsPrivileges(path) => messages::note(format_args!(
            "{}: gains privileges, which it could not if it were observed; run without",
            human::name(path.as_os_str())
        )),
        // Whoever observes already sees this command too.
        Unobserved::IsObserved => {}
        Unobserved::Refused(error) if error.kind() == ErrorKind::WouldBlock => {
            messages::note("too few tasks are allowed to observe the command; run without");
        }
        Unobserved::Refused(error) => messages::note(format_args!(
            "the command cannot be observed here ({}); run without",
            messages::reason(error)
        )),
    }
    not_run(args, &command::replace(&args.words))
}

fn unread(refused: u64) -> String {
    if refused > 0 { format!(", {refused} that could not be read") } else { String::new() }
}

fn given_up(dropped: u64, want: &str) -> String {
    if dropped > 0 { format!(", {dropped} given up for want of {want}") } else { String::new() }
}

fn crowded(files: u64) -> String {
    if files > 0 { format!(", {files} left alone as too many waited") } else { String::new() }
}

fn unpowered(files: u64) -> String {
    if files > 0 { format!(", {files} left alone on battery") } else { String::new() }
}

/// What came of it, for a person.
fn summary(attended: &Attended, no_fetch: bool) -> Vec<String> {
    let Attended { account, carried } = attended;
    if no_fetch {
        return vec![
            format!(
                "predicted files: {} read, {} not; {} read unpredicted{}",
                account.in_time + account.late,
                account.unused,
                account.missed,
                uncounted(account.uncounted)
            ),
            format!(
                "fetched: nothing; what would have been: {} ({}), {} near already{}{}{}",
                human::counted(carried.spared, "file"),
                human::bytes(carried.spared_bytes),
                carried.near,
                unread(carried.refused),
                given_up(carried.dropped, "memory or time"),
                unpowered(carried.unpowered)
            ),
        ];
    }
    let mut lines = vec![format!(
        "predicted files: {} read in time, {} late (or in memory, and not looked at before), \
         {} not at all; {} read unpredicted{}",
        account.in_time,
        account.late,
        account.unused,
        account.missed,
        uncounted(account.uncounted)
    )];
    lines.push(format!(
        "fetched: {} ({}), {} near already{}{}",
        human::counted(carried.fetched, "file"),
        human::bytes(carried.fetched_bytes),
        carried.near,
        unread(carried.refused),
        given_up(carried.dropped, "memory")
            + &crowded(carried.crowded)
            + &unpowered(carried.unpowered)
    ));
    lines.push(format!(
        "saved: about {}; fetched and not read: {}",
        human::seconds(account.saved.as_secs_f64()),
        human::bytes(account.wasted_bytes)
    ));
    lines
}
