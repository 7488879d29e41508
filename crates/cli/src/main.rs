//! The `nearfirst` command: chooses the command by name and runs it.
//!
//! A command is a module with `Args` and `run`; what several share is in
//! [`flags`] and [`messages`]. The program also answers to the name of a
//! command (`ln -s nearfirst wc`), as busybox does.

mod asking;
mod calibrate;
mod devices;
mod find;
mod flags;
mod generate;
mod grep;
mod human;
mod json;
mod messages;
mod order;
mod outcome;
mod progress;
mod sleds;
mod specs;
mod wc;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

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
    Wc(wc::Args),
    Grep(grep::Args),
    Find(find::Args),
    Calibrate(calibrate::Args),
    Devices(devices::Args),
    Generate(generate::Args),
}

fn main() -> ExitCode {
    let arguments = with_command_name(std::env::args_os().collect());
    let cli = Cli::parse_from(arguments);
    match cli.command {
        Command::Sleds(args) => sleds::run(&args),
        Command::Order(args) => order::run(args),
        Command::Wc(args) => wc::run(&args),
        Command::Grep(args) => grep::run(args),
        Command::Find(args) => find::run(args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Generate(args) => generate::run(&args, Cli::command()),
    }
}

/// Called as `wc`, the program is `nearfirst wc`.
fn with_command_name(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(name) = arguments.first().and_then(|first| Path::new(first).file_name()) else {
        return arguments;
    };
    let name = name.to_owned();
    if Cli::command().find_subcommand(&name).is_some() {
        messages::set_program(&name);
        arguments.insert(1, name);
    } else if let Some(command) = arguments.get(1) {
        let mut program = OsStr::new("nearfirst ").to_owned();
        program.push(command);
        messages::set_program(&program);
    }
    arguments
}
