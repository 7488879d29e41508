//! Starting what a user names: a program, or a script.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::fs::{Access, access};

/// Where the C library looks for programs if there is no `PATH`.
const FOLDERS: &str = "/bin:/usr/bin";

/// Starts the program that is the first of `words` with the others as its arguments, with all else as
/// `set_up` makes it. As of `execvp(3)`, what the kernel cannot execute is a script of the shell's.
///
/// # Errors
/// The system's; those of `set_up`.
pub(crate) fn start(
    words: &[OsString],
    set_up: impl Fn(&mut Command) -> io::Result<()>,
) -> io::Result<Child> {
    let (program, arguments) = words.split_first().expect("a command has a word");
    let started = |command: &mut Command| {
        command.args(arguments);
        set_up(command)?;
        command.spawn()
    };
    match started(&mut Command::new(program)) {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            started(Command::new("/bin/sh").arg(found(program).unwrap_or_else(|| program.into())))
        }
        started => started,
    }
}

/// Where in `$PATH` the program is that is named without a folder; where there is no `$PATH`, where the
/// system starts programs from.
pub(crate) fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return None;
    }
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let folders = std::env::var_os("PATH").unwrap_or_else(|| FOLDERS.into());
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(is_program)
}
