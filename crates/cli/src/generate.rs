//! `nearfirst generate`: man pages and shell completions, from the same definitions as the help.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum as _;

use crate::messages;

/// Write man pages and completions for bash, zsh and fish into a folder
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Folder to write to; it is created
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> ExitCode {
    match write_all(args, &mut command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            messages::error(format_args!(
                "{}: {}",
                args.folder.display(),
                messages::reason(&error)
            ));
            ExitCode::FAILURE
        }
    }
}

fn write_all(args: &Args, command: &mut clap::Command) -> std::io::Result<()> {
    std::fs::create_dir_all(&args.folder)?;
    clap_mangen::generate_to(command.clone(), &args.folder)?;
    for shell in clap_complete::Shell::value_variants() {
        clap_complete::generate_to(*shell, command, "nearfirst", &args.folder)?;
    }
    Ok(())
}
