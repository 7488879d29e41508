//! The `nearfirst` command: chooses the command by name and runs it.
//!
//! A command is a module with `Args` and `run`; what several share is in
//! [`flags`] and [`messages`]. The program also answers to the name of a
//! command (`ln -s nearfirst wc`), as busybox does.

mod asking;
mod calibrate;
mod cat;
mod cp;
mod devices;
mod each;
mod find;
mod flags;
mod front;
mod generate;
mod grep;
mod human;
mod json;
mod ls;
mod messages;
mod order;
mod outcome;
mod progress;
mod reach;
mod run;
mod sets;
mod sleds;
mod specs;
mod stdout;
mod trees;
mod watch;
mod wc;
mod windows;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Reads what is near first, while it fetches the rest.
#[derive(Parser, Debug)]
#[command(name = "nearfirst", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

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

/// Exit code of a command line that cannot be understood, unless the command says otherwise.
const USAGE_EXIT: u8 = 2;

/// Commands that may come to wait for a mount that does not answer.
const READERS: [&str; 12] = [
    "sleds",
    "order",
    "ls",
    "cat",
    "cp",
    "each",
    "wc",
    "grep",
    "find",
    "trees",
    "calibrate",
    "devices",
];

/// Those that never do.
const OTHERS: [&str; 3] = ["run", "watch", "generate"];

impl Command {
    /// The exit code of a command line that the command of that name cannot understand: that of
    /// the program it stands in for.
    fn usage_exit(name: &OsStr) -> u8 {
        match name.to_str() {
            Some("wc") => wc::USAGE_EXIT,
            Some("find") => find::USAGE_EXIT,
            _ => USAGE_EXIT,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let is_of = |names: &[&str], name: &OsStr| names.iter().any(|one| name == *one);
    let is_command = |name: &&OsStr| is_of(&READERS, name) || is_of(&OTHERS, name);
    let called_as = arguments.first().and_then(|first| Path::new(first).file_name());
    let called_as = called_as.filter(is_command);
    let command =
        called_as.or_else(|| arguments.get(1).map(OsString::as_os_str).filter(is_command));
    let work = || understood(&arguments, called_as.is_some(), command);
    if command.is_some_and(|name| is_of(&READERS, name)) {
        // Before the command line is understood a process is small, and quickly copied.
        front::of(work)
    } else {
        work()
    }
}

/// Understands the command line, which names that command, and runs it; `by_link` if the program is
/// called by the command's name.
fn understood(arguments: &[OsString], by_link: bool, command: Option<&OsStr>) -> ExitCode {
    if let Some(command) = command {
        let mut program = OsString::from(if by_link { "" } else { "nearfirst " });
        program.push(command);
        messages::set_program(&program);
    }
    let exit = command.map_or(USAGE_EXIT, Command::usage_exit);
    // Called as `wc`, the program is `nearfirst wc`, and names itself `wc` in its usage.
    let mut commands = Cli::command().multicall(by_link);
    let parsed = commands.try_get_matches_from_mut(arguments);
    let understood = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    match understood.map_err(|error| error.format(&mut commands)) {
        Ok(cli) => sets::interrupt::settled(run(cli.command)),
        Err(error) if error.use_stderr() => {
            match error.to_string().strip_prefix("error: ") {
                Some(text) => messages::error(text.trim_end()),
                // The help, for a command line without a command.
                None => drop(error.print()),
            }
            ExitCode::from(exit)
        }
        Err(shown) => {
            // Who closed the output has read enough of the help.
            drop(shown.print());
            ExitCode::SUCCESS
        }
    }
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
        Command::Find(args) => find::run(args),
        Command::Run(args) => run::run(&args),
        Command::Trees(args) => trees::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Watch(args) => watch::run(args),
        Command::Generate(args) => generate::run(&args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_command_it_is_known_whether_it_reads() {
        let commands = Cli::command();
        let mut all: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
        let mut known = [&READERS[..], &OTHERS[..]].concat();
        all.sort_unstable();
        known.sort_unstable();
        assert_eq!(all, known);
    }
}
