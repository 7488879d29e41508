//! `nearfirst generate`: man pages and shell completions, from the same definitions as the help.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum as _;
use clap_complete::{Generator as _, Shell};

use crate::{find, messages};

/// The command that is completed.
const NAME: &str = "nearfirst";

/// The end of a man page: where the texts are that the help names.
const SEE_ALSO: &str = "\
.SH \"SEE ALSO\"
\\fBnearfirst\\fR(1), and the texts \\fIdocs/guide.md\\fR, \\fIdocs/json.md\\fR and others in
\\fIshare/doc/nearfirst\\fR, beside the \\fIshare/man\\fR of this page.
";

/// Write man pages, and completions for each shell that is known, into a folder
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

fn write_all(args: &Args, command: &mut clap::Command) -> io::Result<()> {
    fs::create_dir_all(&args.folder)?;
    let mut documented = without_help(command.clone());
    documented.build();
    write_pages(&args.folder, &documented)?;
    command.build();
    for shell in Shell::value_variants() {
        let mut script = Vec::new();
        clap_complete::generate(*shell, command, NAME, &mut script);
        let script = with_more(*shell, &String::from_utf8_lossy(&script));
        fs::write(args.folder.join(shell.file_name(NAME)), script)?;
    }
    Ok(())
}

/// Completions with what a definition of flags does not say: commands, programs that are known, and
/// the tests of `find`.
fn with_more(shell: Shell, script: &str) -> String {
    let tests = find::words().join(" ");
    let more = |text: &str| text.replace("@FIND@", &tests);
    match shell {
        Shell::Bash => script.to_owned() + &more(include_str!("more.bash")),
        Shell::Fish => script.to_owned() + &more(include_str!("more.fish")),
        Shell::Zsh => {
            // It begins with a line that says of which command it is, and ends with a call.
            let (head, rest) = script.split_once('\n').unwrap_or((script, ""));
            let with_action = |line: &str| {
                let action = match line {
                    _ if line.contains("words -- Where to start") => "_nearfirst_find",
                    _ if line.contains("specs -- The objects") => "_nearfirst_each",
                    _ if line.contains("program -- The program") => "_nearfirst_programs",
                    _ if line.contains("programs -- The programs") => "_nearfirst_programs",
                    _ => return line.to_owned(),
                };
                let (before, _) = line.rsplit_once(':').unwrap_or((line, ""));
                format!("{before}:{action}' \\")
            };
            let rest: Vec<_> = rest.lines().map(with_action).collect();
            format!("{head}\n\n{}{}\n", more(include_str!("more.zsh")), rest.join("\n"))
        }
        _ => script.to_owned(),
    }
}

/// A command whose own commands are all documented: `help` says what a page of its own would.
fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// A line of a man page, with what is indented on lines of its own, and all of them indented alike.
fn laid_out(line: &str) -> String {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    match text {
        _ if indent == 0 => format!("{line}\n"),
        "" => "\n".to_owned(),
        // A point at the start would make it a command.
        _ => format!(".in +{indent}n\n\\&{text}\n.in -{indent}n\n"),
    }
}

/// The man page of a command, and those of its own commands.
fn write_pages(folder: &Path, command: &clap::Command) -> io::Result<()> {
    // The usage as the help has it: of its own, a page names every flag there and no value.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let man = clap_mangen::Man::new(command.clone().override_usage(usage))
        .source(concat!("nearfirst ", env!("CARGO_PKG_VERSION")))
        .manual("nearfirst");
    let mut page = Vec::new();
    man.render(&mut page)?;
    // What follows the flags: limits and exit codes.
    let page = String::from_utf8_lossy(&page).replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    let page: String = page.lines().map(laid_out).collect::<String>() + SEE_ALSO;
    fs::write(folder.join(man.get_filename()), page)?;
    command.get_subcommands().try_for_each(|one| write_pages(folder, one))
}
