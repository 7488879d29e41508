//! In progress.

/// In progress
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
