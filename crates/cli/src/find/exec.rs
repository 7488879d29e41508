//! Runs commands on files: one each, or gathered.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use bstr::ByteSlice as _;
use rustix::fd::{AsRawFd as _, OwnedFd};

use super::entry::Entry;
use super::expr::Exec;
use super::quote::quoted;
use super::session::Session;
use crate::{messages, program};

/// Bytes of file names handed to one run of a gathered command: what GNU find and xargs use, small
/// enough for every limit the kernel sets when `ulimit -s` is at its usual 8 MiB.
const GATHERED_BYTES_MAX: usize = 128 << 10;

/// Files waiting for a command of the form `-exec … +`.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    files: Vec<OsString>,
    bytes: usize,
    place: Place,
    directory_number: u64,
}

impl Gathered {
    /// Whether they wait for a command that runs in the directory of `entry`.
    fn are_beside(&self, entry: &Entry<'_>) -> bool {
        if entry.depth > 0 {
            return self.directory_number == entry.directory_number;
        }
        match &self.place {
            Place::Here => directory_of_start(entry).is_empty(),
            Place::Open(_) => false,
            Place::Named(path) => directory_of_start(entry) == path.as_bytes(),
        }
    }
}

/// Where a command runs.
#[derive(Debug, Default)]
enum Place {
    /// Where find itself was started.
    #[default]
    Here,
    /// In a directory of the walk.
    Open(OwnedFd),
    /// In the directory of a start point.
    Named(OsString),
}

/// Runs the command on a file, or keeps the file for later. The value is that of the action.
pub(crate) fn run(exec: &Exec, entry: &Entry<'_>, session: &mut Session<'_>) -> bool {
    if exec.many {
        gather(exec, entry, session);
        return true;
    }
    let file = argument(exec, entry);
    if exec.ask && !agrees(exec, entry, session) {
        return false;
    }
    session.flush();
    if session.is_closed {
        return false;
    }
    let words = exec.command.iter().map(|word| substitute(word, &file)).collect::<Vec<_>>();
    let place = match place(exec, entry) {
        Ok(place) => place,
        Err(error) => {
            entry.report(session, error);
            return false;
        }
    };
    match start(&words, &place, exec.ask || session.list_is_stdin) {
        Ok(success) => success,
        Err(error) => {
            // GNU find learns of this in the child only: the exit code does not remember it.
            messages::note(format_args!(
                "{}: {}",
                quoted(words[0].as_bytes()),
                messages::reason(&error)
            ));
            false
        }
    }
}

/// Runs every gathered command on what is left for it.
pub(crate) fn finish(session: &mut Session<'_>) {
    let mut commands = Vec::new();
    collect(session.expr(), &mut commands);
    for exec in commands {
        run_gathered(exec, session);
    }
}

fn collect<'a>(expr: &'a super::expr::Expr, commands: &mut Vec<&'a Exec>) {
    use super::expr::{Action, Expr};
    match expr {
        Expr::Action(Action::Exec(exec)) if exec.many => commands.push(exec),
        Expr::Test(_) | Expr::Action(_) => {}
        Expr::Not(inner) => collect(inner, commands),
        Expr::And(items) | Expr::Or(items) | Expr::List(items) => {
            for item in items {
                collect(item, commands);
            }
        }
    }
}

fn gather(exec: &Exec, entry: &Entry<'_>, session: &mut Session<'_>) {
    let file = argument(exec, entry);
    // Each argument costs its bytes, a NUL and a pointer.
    let bytes = file.len() + 1 + size_of::<usize>();
    let waiting = &session.gathered[exec.slot];
    let elsewhere = exec.in_directory && !waiting.are_beside(entry);
    if !waiting.files.is_empty() && (elsewhere || waiting.bytes + bytes > GATHERED_BYTES_MAX) {
        run_gathered(exec, session);
    }
    if session.gathered[exec.slot].files.is_empty() {
        match place(exec, entry) {
            Ok(place) => session.gathered[exec.slot].place = place,
            Err(error) => return entry.report(session, error),
        }
    }
    let waiting = &mut session.gathered[exec.slot];
    waiting.directory_number = entry.directory_number;
    waiting.bytes += bytes;
    waiting.files.push(file);
}

fn run_gathered(exec: &Exec, session: &mut Session<'_>) {
    let waiting = std::mem::take(&mut session.gathered[exec.slot]);
    if waiting.files.is_empty() {
        return;
    }
    session.flush();
    if session.is_closed {
        return;
    }
    let mut words = exec.command.clone();
    words.extend(waiting.files);
    match start(&words, &waiting.place, session.list_is_stdin) {
        Ok(true) => {}
        Ok(false) => session.failed = true,
        Err(error) => messages::error(format_args!(
            "{}: {}",
            quoted(words[0].as_bytes()),
            messages::reason(&error)
        )),
    }
}

/// The file as the command sees it.
fn argument(exec: &Exec, entry: &Entry<'_>) -> OsString {
    if !exec.in_directory {
        return OsString::from_vec(entry.path.to_vec());
    }
    let base = entry.base();
    if base == b"/" {
        return OsString::from("/");
    }
    let mut file = b"./".to_vec();
    file.extend_from_slice(if entry.depth == 0 { after_last_slash(entry.path) } else { base });
    OsString::from_vec(file)
}

/// The last component with the slashes after it.
fn after_last_slash(path: &[u8]) -> &[u8] {
    let end = path.trim_end_with(|character| character == '/').len();
    match memchr::memrchr(b'/', &path[..end]) {
        Some(slash) => &path[slash + 1..],
        None => path,
    }
}

fn place(exec: &Exec, entry: &Entry<'_>) -> Result<Place, rustix::io::Errno> {
    if !exec.in_directory {
        return Ok(Place::Here);
    }
    if entry.depth > 0 {
        return Ok(Place::Open(rustix::io::fcntl_dupfd_cloexec(entry.directory, 0)?));
    }
    let before = directory_of_start(entry);
    Ok(if before.is_empty() {
        Place::Here
    } else {
        Place::Named(OsString::from_vec(before.to_vec()))
    })
}

/// The path of a start point up to its last component.
fn directory_of_start<'a>(entry: &Entry<'a>) -> &'a [u8] {
    &entry.path[..entry.path.len() - after_last_slash(entry.path).len()]
}

fn substitute(word: &OsStr, file: &OsStr) -> OsString {
    OsString::from_vec(word.as_bytes().replace("{}", file.as_bytes()))
}

/// Runs a command to its end; whether it succeeded. What is on stdin may be for find alone.
fn start(words: &[OsString], place: &Place, keeps_stdin: bool) -> std::io::Result<bool> {
    let set_up = |command: &mut Command| {
        match place {
            Place::Here => {}
            // The child changes its directory before the descriptor is closed by `exec`.
            Place::Open(open) => {
                command.current_dir(format!("/proc/self/fd/{}", open.as_raw_fd()));
            }
            Place::Named(path) => {
                command.current_dir(path);
            }
        }
        if keeps_stdin {
            command.stdin(Stdio::null());
        }
        Ok(())
    };
    let status = program::start(words, set_up)?.wait()?;
    if let Some(signal) = status.signal() {
        let name = quoted(words[0].as_bytes());
        messages::note(format_args!("{name} terminated by signal {signal}"));
    }
    Ok(status.success())
}

/// Asks on stderr, and reads the answer from stdin.
fn agrees(exec: &Exec, entry: &Entry<'_>, session: &mut Session<'_>) -> bool {
    session.flush();
    let mut stderr = std::io::stderr().lock();
    let mut question = b"< ".to_vec();
    question.extend_from_slice(exec.command[0].as_bytes());
    question.extend_from_slice(b" ... ");
    question.extend_from_slice(entry.path);
    question.extend_from_slice(b" > ? ");
    if stderr.write_all(&question).and_then(|()| stderr.flush()).is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut answer);
    read.is_ok() && matches!(answer.first(), Some(b'y' | b'Y'))
}
