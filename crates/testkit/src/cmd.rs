//! Running built programs: what they print, how they end, and that they end.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// After this a command is killed and the test fails: longer than any test needs on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A program under test.
///
/// In a test of the crate that builds it: `Program::at(env!("CARGO_BIN_EXE_nearfirst"))`; elsewhere
/// [`Program::built`].
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// The program at `path`.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned() }
    }

    /// The program that cargo built under this name, in the profile of the running test.
    ///
    /// Panics if it is not built: `cargo test` builds the programs of tested packages only.
    pub fn built(name: &str) -> Self {
        let test = std::env::current_exe().expect("the running test has a path");
        // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM.
        let path = test.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|p| p.is_file());
        let path = path.unwrap_or_else(|| {
            panic!("{name} is not built beside {}: cargo build --bin {name}", test.display())
        });
        Self { path }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs it with `args`.
    pub fn cmd<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Cmd {
        cmd(&self.path, args)
    }
}

/// A command that runs any program, found in `PATH` as a shell does.
pub fn cmd<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: impl IntoIterator<Item = A>) -> Cmd {
    let mut command = Command::new(program);
    command.args(args);
    Cmd { command, stdin: None, timeout: TIMEOUT }
}

/// A command that has not run yet.
#[derive(Debug)]
pub struct Cmd {
    command: Command,
    stdin: Option<Vec<u8>>,
    timeout: Duration,
}

impl Cmd {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Runs it in this directory.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable of its environment.
    #[must_use]
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Gives it these bytes on standard input, which is empty otherwise.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Kills it after this time instead of two minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it under another name in `argv[0]`.
    #[must_use]
    pub fn named(mut self, name: impl AsRef<OsStr>) -> Self {
        use std::os::unix::process::CommandExt as _;
        self.command.arg0(name);
        self
    }

    /// Runs it in the cgroup whose list of processes is `procs`, from its first instruction.
    #[must_use]
    pub(crate) fn in_cgroup(self, procs: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs);
        shell.arg(self.command.get_program()).args(self.command.get_args());
        if let Some(dir) = self.command.get_current_dir() {
            shell.current_dir(dir);
        }
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Self { command: shell, ..self }
    }

    /// The plain command, to be started, signalled and waited for by the test itself.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Runs it to its end.
    ///
    /// Panics if it cannot be started or does not end in time.
    pub fn run(mut self) -> Output {
        let line = format!("{:?}", self.command);
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|e| panic!("{line}: {e}"));
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));
        if let (Some(bytes), Some(mut to)) = (self.stdin.take(), child.stdin.take()) {
            // A command may end without reading all of its input.
            thread::spawn(move || to.write_all(&bytes).ok());
        }
        // The output ends with the command, or with the last process it left behind.
        let Ok(stdout) = stdout.recv_timeout(self.timeout) else {
            child.kill().ok();
            // It is not waited for: a process that a dead mount holds does not end, even killed.
            panic!("{line}: still running after {:?}", self.timeout);
        };
        let status = child.wait().unwrap_or_else(|e| panic!("{line}: {e}"));
        Output { line, status, stdout, stderr: stderr.recv().unwrap_or_default() }
    }
}

/// The bytes of a pipe, once it is closed.
fn collect(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (to, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).ok();
        to.send(bytes).ok();
    });
    receiver
}

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    line: String,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    /// Standard output.
    pub fn stdout(&self) -> &[u8] {
        &self.stdout
    }

    /// Standard output as text; bytes that are not UTF-8 show as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; bytes that are not UTF-8 show as U+FFFD.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The exit code; 128 + signal for one that a signal ended, as a shell says it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Panics unless it ended with `code`.
    #[track_caller]
    pub fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(
            self.code(),
            code,
            "{}\nstdout: {}\nstderr: {}",
            self.line,
            self.text(),
            self.stderr()
        );
        self
    }

    /// Panics unless it ended with 0.
    #[track_caller]
    pub fn succeeds(&self) -> &Self {
        self.ends_with(0)
    }

    /// Panics unless standard output is exactly this.
    #[track_caller]
    pub fn prints(&self, expected: impl AsRef<[u8]>) -> &Self {
        let expected = expected.as_ref();
        if self.stdout != expected {
            // Text compares readably; the bytes decide.
            let expected = String::from_utf8_lossy(expected);
            assert_eq!(self.text(), expected, "{}\nstderr: {}", self.line, self.stderr());
            panic!("{}: bytes differ where text does not", self.line);
        }
        self
    }

    /// Panics unless standard error contains this.
    #[track_caller]
    pub fn complains(&self, part: &str) -> &Self {
        assert!(
            self.stderr().contains(part),
            "{}: `{part}` is not in: {}",
            self.line,
            self.stderr()
        );
        self
    }

    /// Panics unless standard error is empty.
    #[track_caller]
    pub fn is_quiet(&self) -> &Self {
        assert_eq!(self.stderr(), "", "{}", self.line);
        self
    }
}

/// Copies a program, so that it can be run at once.
///
/// By another process: a child that another test starts meanwhile would have a file that this one
/// writes open, until it is a program itself, and what somebody writes to is not run.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    tool("cp", ["--preserve=mode".as_ref(), from.as_ref().as_os_str(), to.as_ref().as_os_str()]);
}

/// Runs a tool that a test needs; panics unless it succeeds. Returns its output without the line end.
#[track_caller]
pub(crate) fn tool<A: Into<OsString>>(program: &str, args: impl IntoIterator<Item = A>) -> String {
    let args = args.into_iter().map(Into::into);
    cmd(program, args).run().succeeds().text().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_code_and_input_come_through() {
        let output = cmd("sh", ["-c", "cat; echo bad >&2; exit 3"]).stdin("in").run();
        output.ends_with(3).prints("in").complains("bad");
        assert_eq!(cmd("sh", ["-c", "kill -9 $$"]).run().code(), 137);
        cmd("cat", [""; 0]).run().succeeds().prints("").is_quiet();
    }

    #[test]
    #[should_panic(expected = "still running")]
    fn what_does_not_end_is_killed() {
        cmd("sleep", ["1000"]).timeout(Duration::from_millis(50)).run();
    }
}
