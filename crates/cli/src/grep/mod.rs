//! `nearfirst grep`: searches text with ripgrep's options, output and exit codes.
//!
//! [`flags`] is what can be asked, [`asked`] what was, [`settings`] what it
//! comes to. [`tree`] walks, [`mod@search`] searches one file, [`mod@print`] renders
//! what is found.

mod asked;
mod filters;
mod flags;
mod held;
mod input;
mod large;
mod listing;
mod objects;
mod output;
mod pattern;
mod print;
mod search;
mod settings;
mod tree;
mod trouble;
mod turns;
mod walk;
mod wary;

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches};

pub(crate) use self::flags::instead_of;

use self::asked::{Asked, Mode};
use self::output::Output;
use self::print::tally::{Stats, write_json_duration};
use self::settings::Settings;
use self::tree::Run;
use self::trouble::Trouble;
use crate::flags::ReadFlags;
use crate::messages;
use crate::sets::flags::{FetchFlags, StoreFlags};

const ABOUT: &str = "Search files for lines that match, what is near first";

const LONG_ABOUT: &str = "\
Search files for lines that match a regular expression, with the options, output and exit codes \
of ripgrep.

Folders are searched recursively, leaving out hidden and binary files and what .gitignore, \
.ignore and .rgignore name. A large file is searched by several threads, the parts that are in \
memory first, and printed in file order. Objects of servers and buckets are searched as they come: \
's3://logs/2026/**/*.gz' with -z, 'https://host/page.html\\a[href$=\".txt\"]\\'. ripgrep's file of flags ($RIPGREP_CONFIG_PATH) is not read. The exit code is 0 if \
a line was selected, 1 if none was, 2 if there was an error.";

/// The flags and operands of `grep`.
#[derive(Debug)]
pub(crate) struct Args {
    asked: Box<Asked>,
    read: ReadFlags,
    stores: StoreFlags,
    fetching: FetchFlags,
    stats: bool,
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let command = FetchFlags::augment_args(StoreFlags::augment_args(command));
        flags::augment(ReadFlags::augment_args(command)).about(ABOUT).long_about(LONG_ABOUT)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Args::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Args, clap::Error> {
        let asked = flags::parse(matches)
            .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, why))?;
        let read = ReadFlags::from_arg_matches(matches)?;
        let stores = StoreFlags::from_arg_matches(matches)?;
        let fetching = FetchFlags::from_arg_matches(matches)?;
        let stats = flags::stats_last(matches);
        Ok(Args { asked: Box::new(asked), read, stores, fetching, stats })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Args::from_arg_matches(matches)?;
        Ok(())
    }
}

const NO_MATCH: u8 = 1;
const FAILED: u8 = 2;

pub(crate) fn run(args: Args) -> ExitCode {
    let trouble = Trouble::new(args.asked.no_messages, args.asked.no_ignore_messages);
    match search(args, &trouble) {
        Ok((true, quiet)) if quiet || !trouble.any() => ExitCode::SUCCESS,
        Ok(_) if trouble.any() => ExitCode::from(FAILED),
        Ok(_) => ExitCode::from(NO_MATCH),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            messages::failure(&error);
            ExitCode::from(FAILED)
        }
    }
}

/// Whether something was selected, and whether that alone decides the exit code.
fn search(args: Args, trouble: &Trouble) -> anyhow::Result<(bool, bool)> {
    let settings =
        Settings::new(*args.asked, &args.read, (args.stores, args.fetching), args.stats, trouble)?;
    let quiet = settings.asked.quiet;
    let output = Output::new(settings.file_separator.clone(), settings.by_line);
    let found = match settings.asked.mode {
        Mode::Files if settings.paths.is_empty() => return Ok((false, quiet)),
        Mode::TypeList => return Ok((listing::types(&settings, &output)?, quiet)),
        Mode::Files => return Ok((listing::files(&settings, &output, trouble)?, quiet)),
        _ if settings.pattern.is_none() || settings.paths.is_empty() => return Ok((false, quiet)),
        _ => Run::new(&settings, &output, trouble).search()?,
    };
    if settings.paths.is_default && !found.searched && !trouble.any() {
        match std::env::current_dir() {
            Ok(_) => trouble
                .say("no files were searched: an ignore file or a filter may leave them all out"),
            // It was removed: nothing is found in it, and no error.
            Err(error) => trouble.say(format_args!(".: {error}")),
        }
    }
    if settings.stats && !found.gave_up {
        print_stats(&settings, &found.stats, &output)?;
    }
    let of_objects = !settings.paths.objects.is_empty() && found.reading.is_empty();
    if settings.says_reading && !found.gave_up && !of_objects {
        found.reading.say();
    }
    // Whoever has read enough has read what was found.
    Ok((found.is_match || found.gave_up, quiet))
}

fn print_stats(settings: &Settings, stats: &Stats, output: &Output) -> io::Result<()> {
    let total = settings.clock.now();
    let mut text = Vec::new();
    if settings.asked.mode == Mode::Json {
        text.extend_from_slice(b"{\"data\":{\"elapsed_total\":");
        write_json_duration(total, &mut text)?;
        text.extend_from_slice(b",\"stats\":");
        stats.write_json(&mut text)?;
        text.extend_from_slice(b"},\"type\":\"summary\"}\n");
    } else {
        stats.write_text(total, &mut text)?;
    }
    output.write_more(&text)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    })
}
