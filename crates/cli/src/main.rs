//! The `nearfirst` command: chooses the command by name and runs it.
//!
//! A command is a module with `Args` and `run`; what several share is in
//! [`flags`] and [`messages`]. The program also answers to the name of a
//! command (`ln -s nearfirst wc`), as busybox does.

mod asking;
mod calibrate;
mod cat;
mod columns;
mod cp;
mod descriptors;
mod devices;
mod divide;
mod each;
mod find;
mod flags;
mod front;
mod generate;
mod grep;
mod guessing;
mod human;
mod in_turn;
mod json;
mod locale;
mod ls;
mod messages;
mod order;
mod outcome;
mod program;
mod progress;
mod reach;
mod reading;
mod run;
mod sets;
mod shares;
mod sleds;
mod specs;
mod stdout;
mod trees;
mod wary;
mod watch;
mod wc;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args as _, FromArgMatches as _, Subcommand};

const ABOUT: &str = "Reads what is near first, while it fetches the rest";

#[derive(Subcommand, Debug)]
enum Command {
    Sleds(sleds::Args),
    Order(order::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Cp(cp::Args),
    Each(each::Args),
    Wc(wc::Args),
    Grep(grep::Args),
    Find(find::Args),
    Run(run::Args),
    Watch(watch::Args),
    Trees(trees::Args),
    Calibrate(calibrate::Args),
    Devices(devices::Args),
    Generate(generate::Args),
}

/// Columns of help on a wider terminal, and where there is none.
const HELP_WIDTH_MAX: usize = 100;

/// Exit code of a command line that cannot be understood, unless the command says otherwise.
const USAGE_EXIT: u8 = 2;

/// A command's name, and what defines its flags and operands.
type Defined = (&'static str, fn(clap::Command) -> clap::Command);

/// Commands that may come to wait for a mount that does not answer.
const READERS: [Defined; 12] = [
    ("sleds", sleds::Args::augment_args),
    ("order", order::Args::augment_args),
    ("ls", ls::Args::augment_args),
    ("cat", cat::Args::augment_args),
    ("cp", cp::Args::augment_args),
    ("each", each::Args::augment_args),
    ("wc", wc::Args::augment_args),
    ("grep", grep::Args::augment_args),
    ("find", find::Args::augment_args),
    ("trees", trees::Args::augment_args),
    ("calibrate", calibrate::Args::augment_args),
    ("devices", devices::Args::augment_args),
];

/// Those that never do.
const OTHERS: [Defined; 3] = [
    ("run", run::Args::augment_args),
    ("watch", watch::Args::augment_args),
    ("generate", generate::Args::augment_args),
];

impl Command {
    /// The exit code of a command line that the command of that name cannot understand: that of
    /// the program it stands in for.
    fn usage_exit(name: &str) -> u8 {
        match name {
            "wc" => wc::USAGE_EXIT,
            "find" => find::USAGE_EXIT,
            _ => USAGE_EXIT,
        }
    }
}

fn main() -> ExitCode {
    stdout::fail_if_closed();
    ::watch::command::mind_children();
    ::watch::command::survive_file_limits();
    let arguments = as_help_has_them(std::env::args_os().collect());
    let defined =
        |names: &[Defined], of: &OsStr| names.iter().copied().find(|(name, _)| of == *name);
    let command = |name: &OsStr| defined(&READERS, name).or_else(|| defined(&OTHERS, name));
    let called_as = arguments.first().and_then(|first| Path::new(first).file_name());
    let called_as = called_as.and_then(command);
    let named = called_as.or_else(|| arguments.get(1).and_then(|name| command(name)));
    let work = || understood(&arguments, called_as.is_some(), named);
    if named.is_some_and(|(name, _)| defined(&READERS, name.as_ref()).is_some()) {
        // Before the command line is understood a process is small, and quickly copied.
        front::of(work)
    } else {
        work()
    }
}

/// Arguments as `help` has them, to which a flag would be the name of a command: `help --help` is about
/// itself, `help wc --help` about `wc`.
fn as_help_has_them(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|command| command != "help") {
        return arguments;
    }
    let given = arguments.len();
    arguments.retain(|word| word != "--help" && word != "-h");
    if arguments.len() == 2 && given > 2 {
        arguments.push("help".into());
    }
    arguments
}

/// Understands the command line, which names that command, and runs it; `by_link` if the program is
/// called by the command's name.
fn understood(arguments: &[OsString], by_link: bool, named: Option<Defined>) -> ExitCode {
    if let Some((name, _)) = named {
        let mut program = OsString::from(if by_link { "" } else { "nearfirst " });
        program.push(name);
        messages::set_program(&program);
    }
    let exit = named.map_or(USAGE_EXIT, |(name, _)| Command::usage_exit(name));
    // Called as `wc`, the program is `nearfirst wc`, and names itself `wc` in its usage.
    let mut commands = named.map_or_else(with_all_commands, with_command).multicall(by_link);
    let understood = commands.try_get_matches_from_mut(arguments).and_then(|matches| {
        let shown = |error: clap::Error| {
            let asked = matches.subcommand_name().unwrap_or_default();
            // The usage is that of the command, not of the program.
            match commands.find_subcommand_mut(asked) {
                Some(asked) => error.format(asked),
                None => error,
            }
        };
        Command::from_arg_matches(&matches).map_err(shown)
    });
    match understood {
        Ok(command) => sets::interrupt::settled(run(command)),
        Err(error) if error.use_stderr() => {
            let error = with_apt_tips(error, named.map_or("", |(name, _)| name));
            match error.to_string().strip_prefix("error: ") {
                Some(text) => messages::error(text.trim_end()),
                // The help, for a command line without a command.
                None => drop(error.print()),
            }
            ExitCode::from(exit)
        }
        // Who closed the output has read enough of the help.
        Err(shown) => match show(&shown).and_then(|()| io::stdout().flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                messages::error(format_args!("write error: {}", messages::reason(&error)));
                ExitCode::from(exit)
            }
            _ => ExitCode::SUCCESS,
        },
    }
}

/// Writes what was asked for: help, or the version.
fn show(asked: &clap::Error) -> io::Result<()> {
    match asked.kind() {
        ErrorKind::DisplayVersion => writeln!(io::stdout(), "{}", messages::version()),
        _ => asked.print(),
    }
}

/// What a command has for a flag of other programs.
fn instead_of(command: &str, flag: &str) -> Option<&'static str> {
    match command {
        "grep" => grep::instead_of(flag),
        _ => sets::flags::instead_of(command, flag),
    }
}

/// With what there is for a flag of other programs; without the tip that it may be a name; and without
/// that to use a flag that begins with another letter, since whoever errs in the first one meant none
/// of ours, or an alias of one letter, which is there for other programs' sake.
fn with_apt_tips(mut error: clap::Error, command: &str) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (given, tip) = (text(ContextKind::InvalidArg), text(ContextKind::SuggestedArg));
    let initial = |flag: &str| flag.trim_start_matches('-').chars().next();
    let is_far = tip.is_some_and(|tip| {
        given.and_then(initial) != initial(tip) || tip.trim_start_matches('-').len() == 1
    });
    let instead = given.and_then(|flag| instead_of(command, flag));
    if is_far || instead.is_some() {
        error.remove(ContextKind::SuggestedArg);
    }
    // It shows that flag; or two flags as if they belonged together that exclude each other.
    if is_far || instead.is_some() || error.kind() == ErrorKind::ArgumentConflict {
        error.remove(ContextKind::Usage);
    }
    let mut tips: Vec<_> = instead.map(StyledStr::from).into_iter().collect();
    if let Some(ContextValue::StyledStrs(told)) = error.remove(ContextKind::Suggested) {
        // That another command of its has the flag.
        tips.extend(told.into_iter().filter(|tip| tip.to_string().ends_with(" exists")));
    }
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Has negative numbers be taken for the values that they are meant as, and refused as such.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.mut_subcommands(with_negative_numbers).mut_args(|arg| match arg.get_action() {
        _ if arg.is_positional() => arg,
        ArgAction::Set | ArgAction::Append => arg.allow_negative_numbers(true),
        _ => arg,
    })
}

/// The program without its commands.
fn without_commands() -> clap::Command {
    clap::Command::new("nearfirst")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about(ABOUT)
        .max_term_width(HELP_WIDTH_MAX)
}

fn with_all_commands() -> clap::Command {
    let program = without_commands().subcommand_required(true).arg_required_else_help(true);
    Command::augment_subcommands(program)
}

/// What completions are to offer: they do not know of commands that are hidden.
fn with_shown_commands() -> clap::Command {
    let all = with_all_commands();
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    without_commands().subcommand_required(true).arg_required_else_help(true).subcommands(shown)
}

/// With the one that was named: to define all takes longer than some of them run.
fn with_command((name, define): Defined) -> clap::Command {
    without_commands().subcommand(with_negative_numbers(define(clap::Command::new(name))))
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Sleds(args) => sleds::run(&args),
        Command::Order(args) => order::run(args),
        Command::Ls(args) => ls::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Cp(args) => cp::run(&args),
        Command::Each(args) => each::run(&args),
        Command::Wc(args) => wc::run(&args),
        Command::Grep(args) => grep::run(args),
        Command::Find(args) => find::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Trees(args) => trees::run(args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Generate(args) => generate::run(&args, with_shown_commands()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_alone_is_what_it_is_among_all() {
        let told = |mut commands: clap::Command| -> Vec<(String, String)> {
            commands.build();
            let all = commands.get_subcommands_mut().filter(|one| one.get_name() != "help");
            all.map(|one| (one.get_name().to_owned(), one.render_long_help().to_string())).collect()
        };
        let known = [&READERS[..], &OTHERS[..]].concat();
        let mut alone: Vec<_> = known.into_iter().flat_map(|one| told(with_command(one))).collect();
        let mut all = told(with_all_commands());
        alone.sort_unstable();
        all.sort_unstable();
        assert_eq!(alone, all);
    }
}
