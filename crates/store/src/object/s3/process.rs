//! The program that a profile names to hand out keys (`credential_process`), run as the AWS tools run it.

use std::process::Stdio;
use std::time::Duration;

use reqsign_core::{CommandExecute, CommandOutput, Error, Result};
use tokio::process::Command;

use crate::local::starting_programs;

/// How long it may take: somebody may have to confirm it.
const ANSWER_MAX: Duration = Duration::from_mins(2);

/// Runs what the user's own configuration names; without a shell.
#[derive(Debug)]
pub(super) struct Programs;

impl CommandExecute for Programs {
    async fn command_execute<'a>(
        &'a self,
        program: &'a str,
        args: &'a [&'a str],
    ) -> Result<CommandOutput> {
        // It comes cut at spaces, quoted or not.
        let line = [&[program], args].concat().join(" ");
        let words = words(&line);
        let Some((program, args)) = words.split_first() else {
            return Err(Error::config_invalid("credential_process names no program"));
        };
        let failed =
            |why: String| Error::unexpected(format!("credential_process {program}: {why}"));
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = starting_programs(|| command.kill_on_drop(true).spawn());
        let started = started.map_err(|error| failed(error.to_string()))?;
        let output = tokio::time::timeout(ANSWER_MAX, started.wait_with_output()).await;
        let output = output
            .map_err(|_| failed(format!("no answer for {} s", ANSWER_MAX.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        let status = output.status.code().unwrap_or(-1);
        Ok(CommandOutput { status, stdout: output.stdout, stderr: output.stderr })
    }
}

/// The words of a command line: cut at spaces that no quotes enclose.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (character, quote) {
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, Some(open)) if character == open => quote = None,
            (' ' | '\t', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words(r#"/a/b --x "y z" 'it"s' """#), ["/a/b", "--x", "y z", "it\"s", ""]);
        assert!(words("  ").is_empty());
    }
}
