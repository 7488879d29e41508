//! `nearfirst trees`: what was learned of programs, and what that was worth.

mod record;
mod replay;
mod svg;
mod text;
mod traces;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nearfirst::Clock;
use tree::{Options, Patterns};
use watch::{Forget as Forgotten, Held, PATTERN_BYTES_MAX, PatternStore};

use crate::program::found;
use crate::{human, json, messages, outcome};

/// Show what `nearfirst run` and the service have learned of programs
///
/// Without a word: the programs, the last used first, with what their predictions were worth.
#[derive(clap::Args, Debug)]
#[command(after_long_help = outcome::EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    told: Told,
}

/// Of which patterns something is told, and in which form.
#[derive(clap::Args, Debug, Default)]
struct Told {
    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    patterns: Folder,
}

impl Told {
    /// What stands before the word that has these holds as if it stood behind it.
    ///
    /// # Errors
    /// As [`Folder::follow`].
    fn follow(&mut self, before: Self) -> Result<(), String> {
        self.json |= before.json;
        self.patterns.follow(before.patterns)
    }

    /// The first of its flags that is given.
    fn flag(&self) -> Option<&'static str> {
        self.json.then_some("--json").or_else(|| self.patterns.flag())
    }
}

/// Where patterns lie.
#[derive(clap::Args, Debug, Default)]
struct Folder {
    /// The folder of the patterns, instead of `$XDG_STATE_HOME/nearfirst` (or `$NEARFIRST_STATE`)
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// What the service has learned of your programs, in `/var/lib/nearfirst/trees/NUMBER`
    #[arg(long, conflicts_with = "state")]
    service: bool,
}

impl Folder {
    /// As [`Told::follow`].
    ///
    /// # Errors
    /// Both name a folder.
    fn follow(&mut self, before: Self) -> Result<(), String> {
        let Some(flag) = before.flag() else { return Ok(()) };
        if let Some(own) = self.flag() {
            return Err(conflict(flag, own));
        }
        *self = before;
        Ok(())
    }

    /// The flag that names it.
    fn flag(&self) -> Option<&'static str> {
        let service = || self.service.then_some("--service");
        self.state.as_ref().map(|_| "--state <FOLDER>").or_else(service)
    }

    fn named(&self) -> Option<PathBuf> {
        let user = rustix::process::getuid().as_raw();
        let service = || PathBuf::from(format!("/var/lib/nearfirst/trees/{user}"));
        self.state.clone().or_else(|| self.service.then(service))
    }

    /// What becomes of patterns there that are damaged.
    fn mended(&self) -> &'static str {
        match self.flag() {
            _ if self.service => {
                "the service sets it aside when it learns of your programs next, and begins anew"
            }
            Some(_) => "who learns there next sets it aside and begins anew",
            None => "the next `nearfirst run` sets it aside and begins anew",
        }
    }
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// List the programs that were learned, the last used first
    List(Told),
    /// Draw the tree of a program: what it opens and runs, by time
    Show(Show),
    /// Forget programs
    ///
    /// The order of all that their user's programs read goes with them: what is foreseen by it begins
    /// anew. So it does, as is then said, for a name of no known program but of a file in that order.
    Forget(Forget),
    /// Sum up what predictions were worth
    Stats(Told),
    /// Play recorded work, and say what predictions would have been worth
    ///
    /// `nearfirst run --record TRACE -- CMD` records work, and so does strace. The memory and the device
    /// are models, so that the same trace gives the same numbers everywhere. It begins knowing nothing;
    /// with `--state`, what was learned there, which is left as it is.
    Replay(replay::Args),
    /// Make a trace of the output of `strace -f -ttt -y`
    ///
    /// To be done at once and on the same machine: sizes, links and interpreters of scripts are those of
    /// today. Traces hold names of files and arguments of programs.
    Import(traces::Args),
}

impl What {
    /// As [`Told::follow`].
    ///
    /// # Errors
    /// It has no such flag, or one that does not go with it.
    fn follow(&mut self, before: Told) -> Result<(), String> {
        match self {
            Self::List(told) | Self::Stats(told) => told.follow(before),
            Self::Show(show) if before.json && show.svg.is_some() => {
                Err(conflict("--svg <FILE>", "--json"))
            }
            Self::Show(show) => show.told.follow(before),
            Self::Replay(replay) => replay.told.follow(before),
            Self::Forget(_) if before.json => Err("`forget` takes no --json".to_owned()),
            Self::Forget(forget) => forget.patterns.follow(before.patterns),
            Self::Import(_) => match before.flag() {
                Some(flag) => Err(format!("`import` takes no {flag}")),
                None => Ok(()),
            },
        }
    }

    fn done(&self) -> io::Result<()> {
        match self {
            Self::List(told) => list(told),
            Self::Show(what) => show(what),
            Self::Forget(what) => {
                forget(what);
                Ok(())
            }
            Self::Stats(told) => stats(told),
            Self::Replay(what) => replay::run(what),
            Self::Import(what) => traces::import(what),
        }
    }
}

#[derive(clap::Args, Debug)]
struct Show {
    /// Write the drawing to a file, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    told: Told,

    /// The program: as `nearfirst trees` names it, its path, the last part of that, or a link to it
    program: OsString,
}

#[derive(clap::Args, Debug)]
struct Forget {
    /// Forget every program
    #[arg(long, conflicts_with = "programs")]
    all: bool,

    #[command(flatten)]
    patterns: Folder,

    /// The programs: as `nearfirst trees` names them, their paths, the last parts of those, or links
    /// to them
    #[arg(required_unless_present = "all", value_name = "PROGRAM")]
    programs: Vec<OsString>,
}

impl Forget {
    fn forgotten(&self, patterns: &Patterns) -> Forgotten {
        if self.all {
            return Forgotten::All;
        }
        let meant = |named: &OsString| meant(named, |name| patterns.knows(name));
        Forgotten::Programs(self.programs.iter().map(meant).collect())
    }

    /// What who holds the patterns is asked for: of a link of which nothing was saved it may know
    /// either name.
    fn asked(&self, saved: &Patterns) -> Forgotten {
        if self.all {
            return Forgotten::All;
        }
        let names = |named: &OsString| {
            let target = (!saved.knows(named.as_bytes())).then(|| target(named)).flatten();
            std::iter::once(named.clone()).chain(target)
        };
        Forgotten::Programs(self.programs.iter().flat_map(names).collect())
    }
}

/// What `--service` says of a user of whom there is nothing.
const NOTHING_OF_THE_SERVICE: &str =
    "the service has kept nothing of your programs yet; is `nearfirst watch` running?";

/// How long a run that saves its patterns is waited for, and then who holds them for longer, as the service.
const HELD_FOR: Duration = Duration::from_millis(500);
const ASKED_FOR: Duration = Duration::from_secs(10);
/// How often it is looked whether that one has forgotten.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(args: Args) -> ExitCode {
    let Args { what, told } = args;
    let mut what = what.unwrap_or_else(|| What::List(Told::default()));
    if let Err(why) = what.follow(told) {
        messages::misuse(why);
        return outcome::exit_code(Ok(()));
    }
    outcome::exit_code(what.done())
}

/// Why two flags do not go together, as is said where both stand behind the word.
fn conflict(flag: &str, other: &str) -> String {
    if flag == other {
        format!("the argument '{flag}' cannot be used multiple times")
    } else {
        format!("the argument '{flag}' cannot be used with '{other}'")
    }
}

fn store(patterns: &Folder) -> Option<PatternStore> {
    let folder = patterns.named();
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
        if patterns.service {
            messages::error(NOTHING_OF_THE_SERVICE);
        } else {
            messages::error(format_args!("{}: no such folder", folder.display()));
        }
        return None;
    }
    let store = folder.map(PatternStore::at).or_else(PatternStore::own);
    if let Some(path) = store.as_ref().map(PatternStore::path).filter(|path| path.is_dir()) {
        let all = path.display();
        messages::error(format_args!(
            "{all}: the service's folder of all users; of one it is {all}/NUMBER"
        ));
        return None;
    }
    if store.is_none() {
        messages::error("there is no home folder, and so no patterns; --state names their folder");
    }
    store
}

/// What is saved; `None` if it cannot be read, which is said: of that nothing is known.
fn load(folder: &Folder) -> Option<Patterns> {
    let (patterns, warning) = store(folder)?.load();
    let Some(warning) = warning else { return Some(patterns) };
    if warning.is_damage() {
        messages::error(format_args!("{warning}; it is damaged, and {}", folder.mended()));
    } else {
        messages::error(warning);
    }
    None
}

fn list(told: &Told) -> io::Result<()> {
    let Some(patterns) = load(&told.patterns) else { return Ok(()) };
    let programs = patterns.programs();
    let mut out = BufWriter::new(io::stdout().lock());
    if told.json {
        programs.iter().try_for_each(|listed| json::line(&mut out, &record::program(listed)))?;
    } else if !programs.is_empty() {
        text::table(&mut out, &programs)?;
    } else {
        messages::note("nothing is learned yet: `nearfirst run -- CMD` learns what CMD reads");
        if told.patterns.named().is_none() {
            messages::note("what the service has learned of your programs, --service shows");
        }
    }
    out.flush()
}

fn stats(told: &Told) -> io::Result<()> {
    let Some(patterns) = load(&told.patterns) else { return Ok(()) };
    let (programs, account) = (patterns.programs().len(), patterns.account());
    let mut out = BufWriter::new(io::stdout().lock());
    if told.json {
        json::line(&mut out, &record::account(programs, &account))?;
    } else {
        text::account(&mut out, programs, &account)?;
    }
    out.flush()
}

fn show(what: &Show) -> io::Result<()> {
    let Some(patterns) = load(&what.told.patterns) else { return Ok(()) };
    let meant = meant(&what.program, |name| !patterns.named(name).is_empty());
    let found = patterns.named(meant.as_bytes());
    if found.is_empty() {
        unknown(&what.program);
        return Ok(());
    }
    if let Some(path) = &what.svg {
        let listed = &found[0];
        if found.len() > 1 {
            messages::note(format_args!(
                "{} is drawn, the first of {} that are called so; text and --json show all",
                human::name(OsStr::from_bytes(&listed.name)),
                found.len()
            ));
        }
        let branches = patterns.tree(listed.user, &listed.name).unwrap_or_default();
        if let Err(error) = fs::write(path, svg::drawing(listed, &branches)) {
            messages::error(format_args!("{}: {}", path.display(), messages::reason(&error)));
        }
        return Ok(());
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for listed in &found {
        let branches = patterns.tree(listed.user, &listed.name).unwrap_or_default();
        if what.told.json {
            json::line(&mut out, &record::tree(listed, &branches))?;
        } else {
            text::tree(&mut out, listed, &branches)?;
        }
    }
    out.flush()
}

fn forget(what: &Forget) {
    let Some(store) = store(&what.patterns) else { return };
    let failed = |error: io::Error| {
        messages::error(format_args!("{}: {}", store.path().display(), messages::reason(&error)));
    };
    match store.hold(HELD_FOR, &Clock::real()) {
        Ok(Some(held)) => forget_held(&held, what),
        Ok(None) => ask_to_forget(&store, what).unwrap_or_else(failed),
        Err(warning) => messages::error(warning),
    }
}

fn forget_held(held: &Held, what: &Forget) {
    if what.all {
        held.forget().unwrap_or_else(messages::error);
        return;
    }
    let (patterns, warning) = match held.load() {
        Ok(loaded) => loaded,
        Err(warning) => {
            messages::error(warning);
            return;
        }
    };
    match warning {
        Some(warning) => messages::error(warning),
        None => held.forget_set_aside(),
    }
    // What was seen and is not learned yet would come back.
    let mut patterns = match held.absorb(patterns, &keeping()) {
        Ok(patterns) => patterns,
        Err(warning) => {
            messages::error(warning);
            return;
        }
    };
    let forgotten = what.forgotten(&patterns);
    tell_of_order(&forgotten, &patterns);
    forgotten.apply(&mut patterns).into_iter().for_each(unknown);
    if let Err(warning) = held.save(&patterns) {
        messages::error(warning);
    }
}

/// To learn what was left, and forget nothing for it.
fn keeping() -> Options {
    Options { pattern_bytes_max: PATTERN_BYTES_MAX, ..Options::default() }
}

/// Has who holds the patterns forget, the service or a run that saves, and waits until it has.
fn ask_to_forget(store: &PatternStore, what: &Forget) -> io::Result<()> {
    let (mut saved, warning) = store.load();
    if let Some(warning) = warning {
        messages::error(warning);
    }
    let asked = what.asked(&saved);
    let forgotten = what.forgotten(&saved);
    tell_of_order(&forgotten, &saved);
    for program in forgotten.apply(&mut saved) {
        let program = human::name(program);
        messages::note(format_args!(
            "{program}: nothing was saved of it; what was not, is forgotten"
        ));
    }
    let asked = store.ask_to_forget(&asked)?;
    let clock = Clock::real();
    let until = clock.now() + ASKED_FOR;
    while asked.is_there() {
        if clock.now() >= until {
            let text = "who holds the patterns has not forgotten yet; it will before it saves";
            return Err(io::Error::other(text));
        }
        // It may have ended without looking.
        match store.hold(LOOKS_EVERY, &clock) {
            Ok(None) => {}
            Ok(Some(held)) => {
                if asked.take_back() {
                    forget_held(&held, what);
                }
                return Ok(());
            }
            Err(warning) => {
                messages::error(warning);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// As whom the patterns know a program: what is not known by its name may be a link to what is, as
/// `sh` and `cc` are.
fn meant(program: &OsStr, is_known: impl Fn(&[u8]) -> bool) -> OsString {
    let target = || target(program).filter(|target| is_known(target.as_bytes()));
    let other = if is_known(program.as_bytes()) { None } else { target() };
    other.unwrap_or_else(|| program.to_owned())
}

/// Where a program is, without links.
fn target(program: &OsStr) -> Option<OsString> {
    let path = found(program).unwrap_or_else(|| program.into());
    fs::canonicalize(path).ok().map(OsString::from)
}

/// Says of what nothing is forgotten but the order of reads, which names data, too.
fn tell_of_order(forgotten: &Forgotten, patterns: &Patterns) {
    let Forgotten::Programs(names) = forgotten else { return };
    let is_ordered_alone = |name: &[u8]| patterns.named(name).is_empty() && patterns.knows(name);
    for name in names.iter().filter(|name| is_ordered_alone(name.as_bytes())) {
        messages::note(format_args!(
            "{}: no program that is known; the order of the last reads, which names it, begins anew",
            human::name(name)
        ));
    }
}

fn unknown(program: &OsStr) {
    messages::error(format_args!(
        "{}: nothing was learned of it; `nearfirst trees` lists what was",
        human::name(program)
    ));
}

#[cfg(test)]
mod tests {
    use testkit::Dir;

    use super::*;

    #[test]
    fn a_link_is_followed_to_what_is_known_and_its_holder_asked_for_both() {
        let dir = Dir::new();
        let file = dir.create("gcc-12", "").canonicalize().expect("it is there");
        let link = dir.join("gcc");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let saved = Patterns::default();
        let meant_by = |known: &[&[u8]]| meant(link.as_os_str(), |name| known.contains(&name));
        assert_eq!(meant_by(&[]), link.as_os_str(), "nothing is known of either");
        assert_eq!(meant_by(&[file.as_os_str().as_bytes()]), file.as_os_str());
        let patterns = Folder { state: None, service: false };
        let what = Forget { all: false, patterns, programs: vec![link.clone().into()] };
        let both = vec![link.into_os_string(), file.into_os_string()];
        assert_eq!(what.asked(&saved), Forgotten::Programs(both));
    }
}
