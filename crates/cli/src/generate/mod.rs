//! `nearfirst generate`: man pages and shell completions, from the same definitions as the help.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum as _;
use clap_complete::{Generator as _, Shell};
use jiff::Timestamp;

use crate::{find, messages};

/// The command that is completed.
const NAME: &str = "nearfirst";

/// The day of this version, which man pages have at their foot unless `SOURCE_DATE_EPOCH` names another.
const RELEASED: &str = "2026-11-28";

/// The end of a man page: what all commands read and keep, and where the texts are that the help names.
const END: &str = "\
.SH FILES
.TP
\\fI/var/lib/nearfirst/devices.toml\\fR
What devices take, as root measured it. In \\fItrees\\fR beside it is what \\fBnearfirst watch\\fR learned.
.TP
\\fI$XDG_STATE_HOME/nearfirst/devices.toml\\fR
The same as a user measured it, which comes first. In \\fItrees\\fR beside it is what \\fBnearfirst run\\fR learned.
.TP
\\fI$XDG_CONFIG_HOME/nearfirst/config.toml\\fR, \\fI/etc/nearfirst/config.toml\\fR
Which folders are bound to a database.
.SH ENVIRONMENT
.TP
\\fBNEARFIRST_STATE\\fR
A folder for \\fIdevices.toml\\fR and \\fItrees\\fR, of users and of root, in place of
\\fI/var/lib/nearfirst\\fR and \\fI$XDG_STATE_HOME/nearfirst\\fR. What \\fBnearfirst watch\\fR learns lies where its
\\fB--state\\fR says, whatever the environment of who starts it.
.TP
\\fBXDG_STATE_HOME\\fR, \\fBXDG_CONFIG_HOME\\fR
By default \\fI~/.local/state\\fR and \\fI~/.config\\fR.
.TP
\\fBTMPDIR\\fR
Where lies what memory has no room for; by default \\fI/tmp\\fR, or \\fI/var/tmp\\fR where \\fI/tmp\\fR is in memory.
.TP
\\fBLC_ALL\\fR, \\fBLC_CTYPE\\fR, \\fBLANG\\fR
The first that is set says whether people read UTF-8 or ASCII, and what a character is to \\fBnearfirst wc\\fR.
.TP
\\fBNO_COLOR\\fR
Where it is set, nothing is coloured that is not asked to be.
.PP
Variables of proxies and of stores are in \\fIdocs/guide.md\\fR.
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

/// The day of a time that is told in seconds since 1970, as `1970-01-31`; of none, or what is no time, the
/// release's.
fn day(told_s: Option<&str>) -> String {
    let time = told_s.and_then(|told_s| Timestamp::from_second(told_s.parse().ok()?).ok());
    time.map_or_else(|| RELEASED.to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

/// The man page of a command, and those of its own commands.
fn write_pages(folder: &Path, command: &clap::Command) -> io::Result<()> {
    // The usage as the help has it: of its own, a page names every flag there and no value.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let man = clap_mangen::Man::new(command.clone().override_usage(usage))
        .source(concat!("nearfirst ", env!("CARGO_PKG_VERSION")))
        .date(day(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref()))
        .manual("User Commands");
    let mut page = Vec::new();
    man.render(&mut page)?;
    // What follows the flags: limits and exit codes.
    let page = String::from_utf8_lossy(&page).replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    let page: String = page.lines().map(laid_out).collect::<String>() + END;
    fs::write(folder.join(man.get_filename()), page)?;
    command.get_subcommands().try_for_each(|one| write_pages(folder, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_told_or_the_release_s() {
        assert_eq!(day(Some("86399")), "1970-01-01");
        assert_eq!(day(Some("1770000000")), "2026-02-02");
        assert_eq!([day(None), day(Some("")), day(Some("soon"))], [RELEASED; 3]);
    }

    #[test]
    fn the_day_of_the_release_is_that_of_its_changes() {
        let changes = include_str!("../../../../CHANGELOG.md");
        let heading = changes.lines().find_map(|line| line.strip_prefix("## ")).expect("a version");
        let (version, day) = heading.split_once(", ").expect("and its day");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert!([RELEASED, "unreleased"].contains(&day), "{day}");
    }
}
