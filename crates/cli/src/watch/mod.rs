//! `nearfirst watch`: the service that fetches for all programs of a machine.

mod words;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use nearfirst::TableFiles;
use watch::CarrierOptions;
use watch::service::{self, AttendantOptions, Notice, ServiceError, ServiceOptions};
use watch::system::{self, Scope};

use self::words::words;
use crate::guessing::GuessFlags;
use crate::{human, messages};

/// Learn what programs read, and fetch it before they ask: a service for the whole machine
///
/// Sees every program of every user start, open files and end; learns which files a program reads,
/// in what order and when; and brings them into memory the next time that it starts. Programs are
/// not changed and never wait for an answer of it. The kernel's telling it takes a little of each open, and
/// what it does with that takes processors, which many threads that do nothing but open files feel
/// where they have no others. On FUSE each file is opened once more.
/// It runs until it is told to end; `systemctl enable --now nearfirst-watch` starts it now and at
/// every boot.
///
/// By default it listens to the file systems on devices that take 0.2 ms or more to answer, until these
/// take less than 0.15 ms, by what `nearfirst calibrate` measured, and to those whose devices were never measured; not to
/// memory, and to FUSE only where opening a file does not empty its cache. What is measured while it
/// runs counts within a minute.
#[derive(clap::Args, Debug)]
#[command(after_long_help = NOTES)]
pub(crate) struct Args {
    /// Listen to the file system that PATH lies on at the time, whatever it costs, and to no others: what
    /// is mounted there later, and once that is gone the one below it. Programs are seen, and fetched,
    /// wherever they lie
    #[arg(long, value_name = "PATH")]
    on: Vec<PathBuf>,

    /// Leave alone what lies below PATH: nothing that is opened or run there is learned, and nothing of it
    /// fetched, whatever was learned before
    #[arg(long, value_name = "PATH")]
    exclude: Vec<PathBuf>,

    /// Learn, and say what would be fetched, but fetch nothing
    #[arg(long)]
    dry_run: bool,

    /// Write to FILE, every five to fifteen seconds and at the end, what was seen, fetched and gained, by users,
    /// as numbers for Prometheus: for the textfile collector of its node exporter (*.prom). FILE is replaced,
    /// and so has to be a regular file if it is there
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,

    #[command(flatten)]
    guessing: GuessFlags,

    /// Folder of what is learned, by users, and of the lock that keeps a second service away
    ///
    /// `$NEARFIRST_STATE` does not stand in for it, only for the folder of the device table: one that is set
    /// by chance would hide what was learned, and let a second service run.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/nearfirst")]
    state: PathBuf,

    /// Where the devices' table is, for who attends to a user.
    #[arg(long, hide = true, value_name = "FILE")]
    devices: Option<PathBuf>,

    /// Attend to a user: what the service starts for each.
    #[arg(long, hide = true, num_args = 2.., value_names = ["USER", "FOLDER", "EXCLUDED"])]
    attend: Option<Vec<OsString>>,
}

const NOTES: &str = "\
Signals:
  SIGTERM, SIGINT  save what was learned, and end
  SIGHUP           save what was learned, go by the device table anew; begun on a terminal, end
  SIGUSR1          say on stderr what was seen, fetched and gained

Users:
  What a user's programs read is learned and fetched by a process with that user's rights, so that \
  nothing is read that the user may not read. It keeps what it learned in trees/NUMBER below the \
  folder of state, which nobody else can look into; `nearfirst trees --service` shows it to that \
  user, and `nearfirst trees forget --service` has it forget. No more than 32 users are attended to \
  at a time; one whose programs do nothing for a while gives way to another, and one whose number is \
  lent to a user, for containers, to all whose numbers are not, and to that of a user who has fewer.

Limits:
  Of a program that ends within the moment that the service needs to look at it, what it was called \
  with is not known; if it lies on a network or FUSE mount that is not listened to, not even its name.

  Of programs in containers, those files are seen that have a name outside, too. How a file is \
  opened is not told: one that is opened to be written is taken for one that is read until it is \
  closed, unless it is new or empty. Of a program that may read more than its user, by capabilities \
  or by a group that its user is not a member of (setgid, sg), no files are learned but those that \
  are open to that user as their owner or to everybody; threads with rights of their own are not \
  told apart.

Exit codes:
  0  it was told to end
  1  what it needs is not there, as what --on names or room for its state: tried again later it may do well
  2  wrong usage, or it may not see programs, or another one runs";

/// Of a service that may do well if it is tried again; its unit tries no other again.
const MAY_PASS_EXIT: u8 = 1;

pub(crate) fn run(args: &Args) -> ExitCode {
    // Users name files and the places of their mounts: what is said of these is one line of text.
    let mut say = |notice| messages::note(human::name(&words(notice)));
    let done = match &args.attend {
        Some(of) => attend(of, args, &mut say).map(|()| ExitCode::SUCCESS),
        None => serve(args, &mut say),
    };
    done.unwrap_or_else(|error| crate::outcome::cannot_begin(&error))
}

fn serve(args: &Args, say: &mut dyn FnMut(Notice)) -> anyhow::Result<ExitCode> {
    // The program as it runs, also where its file has been replaced.
    let mut attendant: Vec<OsString> = vec!["/proc/self/exe".into(), "watch".into()];
    if args.dry_run {
        attendant.push("--dry-run".into());
    }
    attendant.extend(args.guessing.words());
    // What the environment says of it, an attendant is not told.
    attendant.extend(["--devices".into(), TableFiles::default().own().into()]);
    attendant.push("--attend".into());
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let on = args.on.iter().map(absolute).collect::<Result<_, _>>()?;
    let excluded = args.exclude.iter().map(absolute).collect::<Result<_, _>>()?;
    let scope = Scope { on, excluded };
    let state = std::path::absolute(&args.state)?;
    let metrics = args.metrics.as_ref().map(absolute).transpose()?;
    let on_terminal = std::io::stderr().is_terminal();
    let options = ServiceOptions { scope, state, attendant, metrics, on_terminal };
    Ok(match service::serve(options, say) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    })
}

fn failed(error: &ServiceError) -> ExitCode {
    let says_so = matches!(error, ServiceError::System(system::Error::Refused { .. }));
    let is_root = rustix::process::geteuid().is_root();
    let hint = if is_root || says_so { "" } else { "; the service needs root" };
    // It says what the system said itself: not again, as its source.
    let said = anyhow::anyhow!("{}{hint}", human::name(&error.to_string()));
    let code = crate::outcome::cannot_begin(&said);
    if error.may_pass() { ExitCode::from(MAY_PASS_EXIT) } else { code }
}

fn attend(of: &[OsString], args: &Args, say: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
    let [user, folder, excluded @ ..] = of else {
        anyhow::bail!("--attend takes a user and a folder");
    };
    let user = user.to_str().and_then(|user| user.parse().ok());
    let user = user.ok_or_else(|| anyhow::anyhow!("--attend takes the number of a user"))?;
    let excluded = excluded.iter().map(PathBuf::from).collect();
    let options = AttendantOptions {
        user,
        folder: folder.into(),
        tables: args.devices.clone().map(TableFiles::at).unwrap_or_default(),
        dry_run: args.dry_run,
        learning: args.guessing.learning(),
        carrying: CarrierOptions { excluded, ..args.guessing.carrying() },
    };
    Ok(service::attend(&options, say)?)
}
