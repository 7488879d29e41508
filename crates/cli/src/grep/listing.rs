//! Runs that list instead of searching: `--files` and `--type-list`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::WalkState;

use super::objects;
use super::output::Output;
use super::settings::Settings;
use super::trouble::Trouble;
use super::walk::{self, Haystack, printed_path};

/// Prints the name of each file that would be searched; returns whether there is one.
///
/// # Errors
/// A walk that cannot begin, and those of standard output.
pub(super) fn files(
    settings: &Settings,
    output: &Output,
    trouble: &Trouble,
) -> anyhow::Result<bool> {
    let any = AtomicBool::new(false);
    let print = |haystack: &Haystack| -> io::Result<WalkState> {
        any.store(true, Ordering::Relaxed);
        if settings.asked.quiet {
            return Ok(WalkState::Quit);
        }
        let mut line = Vec::new();
        let path = printed_path(haystack.path(), settings.asked.path_separator);
        settings.format.lines.style.path.write(&path, &mut line);
        line.push(settings.format.lines.path_terminator.unwrap_or(b'\n'));
        match output.write_file(&line) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(WalkState::Quit),
            other => other.map(|()| WalkState::Continue),
        }
    };
    if settings.paths.all.is_empty() {
        return objects::list(settings, output, trouble);
    }
    if settings.threads == 1 {
        for haystack in walk::in_order(settings, trouble)? {
            if matches!(print(&haystack)?, WalkState::Quit) {
                break;
            }
        }
    } else {
        walk::in_parallel(settings, trouble, || {
            |haystack| {
                print(&haystack).unwrap_or_else(|error| {
                    trouble.say(error);
                    WalkState::Quit
                })
            }
        })?;
    }
    let listed = objects::list(settings, output, trouble)?;
    Ok(any.into_inner() || listed)
}

/// Prints the known file types.
///
/// # Errors
/// A definition that cannot be understood, and those of standard output.
pub(super) fn types(settings: &Settings, output: &Output) -> anyhow::Result<bool> {
    let types = walk::types(&settings.asked.types)?;
    let mut text = String::new();
    for definition in types.definitions() {
        text.push_str(definition.name());
        text.push_str(": ");
        text.push_str(&definition.globs().join(", "));
        text.push('\n');
    }
    output.write_file(text.as_bytes())?;
    Ok(!text.is_empty())
}
