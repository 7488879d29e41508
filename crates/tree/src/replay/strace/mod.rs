//! Recorded work from the output of `strace`.
//!
//! Made for
//!
//! ```text
//! strace -f -ttt -y -s 4096 -o FILE -e trace=execve,execveat,clone,clone3,fork,vfork,open,openat,openat2,creat,chdir,fchdir,dup,dup2,dup3,exit_group COMMAND
//! ```
//!
//! and content with less: without `-y` relative names are resolved by the working folders and
//! descriptors seen so far (which a process attached to does not give); without `-o`, `[pid N]` is
//! understood, and lines without it are those of the only thread there is. `-ttt` is needed, or `-tt`, of which the next day is told by the hour: of times since
//! the line before (`-r`) nothing is made. Lines of other calls, of signals, and cut ones are passed over.
//!
//! - A process is as the kernel sees one: threads open in its name, and a number of a process that is
//!   used again is another process.
//! - Only what succeeded counts. Folders, `O_PATH`, and what lies in `/proc`, `/sys` and `/dev` do not.
//! - Names are as `-y` gives them, with links followed; those of programs and those without `-y` are
//!   put together from the text, and followed as far as [`About::path`] tells.

mod line;
mod living;
mod processes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::line::{Argument, Line, Said};
use self::living::Living;
use self::processes::{Forks, Processes};
use super::trace::{Trace, TraceError};
use crate::{Access, Event, File, User, is_on_a_device};

/// What is known of a name today, which may be later than the work was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The name with links followed, if it is another.
    pub path: Option<Arc<[u8]>>,
    /// Bytes.
    pub size: Option<u64>,
    /// What is no regular file is left out.
    pub special: bool,
}

/// Of a script the words after `#!`, at most two; of anything else none.
pub type Interpreter = Vec<Arc<[u8]>>;

/// Makes a trace of the lines that strace wrote; `user` did all of it.
///
/// It began in `folder`, unless `-y` tells where. `about` is asked once for each name, `interpreter`
/// once for each that was executed: to answer it, a file has to be read. Times count from the first
/// line; one that goes back is taken as that of the line before.
///
/// # Errors
/// If lines name no process, and which one goes on is not to be told.
pub fn import(
    text: &[u8],
    user: User,
    folder: &[u8],
    about: impl FnMut(&[u8]) -> About,
    interpreter: impl FnMut(&[u8]) -> Interpreter,
) -> Result<Trace, TraceError> {
    let mark = b"AT_FDCWD<";
    let told = text.windows(mark.len()).position(|part| part == mark);
    let told = told.and_then(|at| Argument { text: &text[at..] }.descriptor().1);
    let folder = told.as_deref().unwrap_or(folder);
    let text = line::whole(text);
    let lines = || text.split(|&byte| byte == b'\n').filter_map(line::parse);
    if lines().next().is_some_and(|first| is_relative(&first)) {
        return Ok(Trace::default());
    }
    let living = Living::of(lines());
    let named = || living.clone().named(lines());
    let forks = Forks::of(named()).ok_or(TraceError::Unnamed)?;
    let mut import = Import {
        processes: Processes::new(forks, user, folder),
        start: None,
        said_at: Duration::ZERO,
        midnights: Duration::ZERO,
        now: Duration::ZERO,
        about,
        known: HashMap::new(),
        interpreter,
        scripts: HashMap::new(),
        trace: Trace::default(),
    };
    for line in named().flatten() {
        import.line(&line);
    }
    Ok(import.trace)
}

/// Whether strace wrote this, but not when each call was made.
pub fn lacks_times(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    let first = lines.clone().find_map(line::parse);
    first.is_none_or(|first| is_relative(&first)) && lines.any(line::is_of_call)
}

/// Whether the times of what begins so are those since the line before (`-r`), of which some lines are
/// missing here.
fn is_relative(first: &Line<'_>) -> bool {
    first.at.is_zero()
}

/// A day, and the half of one that a clock which shows the time of day goes back by in a night only.
const DAY: Duration = Duration::from_hours(24);
const HALF_A_DAY: Duration = Duration::from_hours(12);

struct Import<A, I> {
    processes: Processes,
    start: Option<Duration>,
    /// Of the line before, as it says.
    said_at: Duration,
    /// The midnights that passed since the first line.
    midnights: Duration,
    now: Duration,
    about: A,
    known: HashMap<Vec<u8>, About>,
    interpreter: I,
    scripts: HashMap<Vec<u8>, Interpreter>,
    trace: Trace,
}

impl<A: FnMut(&[u8]) -> About, I: FnMut(&[u8]) -> Interpreter> Import<A, I> {
    fn line(&mut self, line: &Line<'_>) {
        let start = *self.start.get_or_insert(line.at);
        let before = std::mem::replace(&mut self.said_at, line.at);
        if before < DAY && line.at.saturating_add(HALF_A_DAY) < before {
            self.midnights += DAY;
        }
        let at = line.at.saturating_add(self.midnights);
        self.now = self.now.max(at.saturating_sub(start));
        let goes_on = matches!(line.said, Said::Begun(_) | Said::Call(_));
        if goes_on && let Some(event) = self.processes.meet(line.thread) {
            self.push(event);
        }
        // What is said of a thread after its process has ended is no news.
        if !self.processes.knows(line.thread) {
            return;
        }
        match &line.said {
            Said::Ended => self.end(line.thread),
            Said::Superseded(other) => self.processes.superseded(line.thread, *other),
            Said::Begun(text) => self.processes.begin(line.thread, text),
            Said::Resumed { rest, .. } => {
                let mut whole = self.processes.begun(line.thread);
                whole.extend_from_slice(rest);
                self.call(line.thread, &whole);
            }
            Said::Call(text) => self.call(line.thread, text),
        }
    }

    fn push(&mut self, event: Event) {
        self.trace.events.push((self.now, event));
    }

    fn end(&mut self, thread: u64) {
        if let Some(event) = self.processes.thread_ended(thread) {
            self.push(event);
        }
    }

    fn call(&mut self, thread: u64, text: &[u8]) {
        let Some(call) = line::call(text) else { return };
        if call.name == b"exit_group" {
            let event = self.processes.process_ended(thread);
            return self.push(event);
        }
        let Some(result) = call.result else { return };
        let arguments = &call.arguments[..];
        match (call.name, arguments) {
            _ if line::is_fork(text) => {
                if let Some(event) = self.processes.forked(result.number) {
                    self.push(event);
                }
            }
            (b"execve", [path, words, ..]) => self.executed(thread, None, path, words),
            (b"execveat", [at, path, words, ..]) => self.executed(thread, Some(at), path, words),
            (b"open", [path, flags, ..]) => {
                self.opened(thread, None, path, flags.text, &result);
            }
            (b"openat" | b"openat2", [at, path, flags, ..]) => {
                self.opened(thread, Some(at), path, flags.text, &result);
            }
            (b"creat", [path, ..]) => self.opened(thread, None, path, b"O_TRUNC", &result),
            (b"chdir", [path, ..]) => {
                if let Some(path) = self.processes.resolve(thread, None, path) {
                    self.processes.change_folder(thread, path);
                }
            }
            (b"fchdir", [at, ..]) => {
                if let Some(path) = self.processes.descriptor(thread, at) {
                    self.processes.change_folder(thread, path);
                }
            }
            (b"dup" | b"dup2" | b"dup3", [from, ..]) => {
                if let Some(path) = self.processes.descriptor(thread, from) {
                    self.processes.describe(thread, result.number, path);
                }
            }
            _ => {}
        }
    }

    fn executed(
        &mut self,
        thread: u64,
        at: Option<&Argument<'_>>,
        path: &Argument<'_>,
        words: &Argument<'_>,
    ) {
        let Some(called) = self.processes.resolve(thread, at, path) else { return };
        let mut words: Vec<Arc<[u8]>> = words.list().into_iter().map(Arc::from).collect();
        let mut program: Arc<[u8]> = called.as_slice().into();
        let mut all = self.interpreter(&called);
        if let Some(interpreter) = all.first().cloned() {
            // What the kernel makes of a script's call: the interpreter and its words come first.
            all.push(path.string().unwrap_or(called).into());
            all.extend(words.into_iter().skip(1));
            words = all;
            program = interpreter;
        }
        let about = self.about(&program);
        let (size, path) = (about.size, about.path.clone().unwrap_or(program));
        let program = File { path, identity: None, size };
        let event = self.processes.executed(thread, program, words);
        self.push(event);
    }

    fn opened(
        &mut self,
        thread: u64,
        at: Option<&Argument<'_>>,
        path: &Argument<'_>,
        flags: &[u8],
        result: &line::Result<'_>,
    ) {
        if let Some(at) = at {
            // Tells the working folder, if it is one.
            self.processes.descriptor(thread, at);
        }
        let named = result.path().or_else(|| self.processes.resolve(thread, at, path));
        let Some(path) = named.filter(|path| path.first() == Some(&b'/')) else { return };
        self.processes.describe(thread, result.number, path.clone());
        let has = |flag: &[u8]| flags.windows(flag.len()).any(|part| part == flag);
        let about = self.about(&path);
        if !is_on_a_device(&path) || about.special || has(b"O_DIRECTORY") || has(b"O_PATH") {
            return;
        }
        let is_made = has(b"O_CREAT") && has(b"O_EXCL");
        let is_written = has(b"O_WRONLY") || has(b"O_TRUNC") || is_made;
        let may_write = has(b"O_RDWR") || has(b"O_CREAT");
        let (size, path) = (about.size, about.path.clone().unwrap_or_else(|| path.into()));
        let file = File { path, identity: None, size };
        let access = match (is_written, may_write) {
            (true, _) => Access::Write,
            (false, true) => Access::by_bytes(&file),
            (false, false) => Access::Read,
        };
        let process = self.processes.process(thread);
        self.push(Event::Opened { process, file, access });
    }

    fn about(&mut self, path: &[u8]) -> &About {
        if !self.known.contains_key(path) {
            let about = (self.about)(path);
            self.known.insert(path.to_vec(), about);
        }
        &self.known[path]
    }

    fn interpreter(&mut self, path: &[u8]) -> Interpreter {
        if !self.scripts.contains_key(path) {
            let interpreter = (self.interpreter)(path);
            self.scripts.insert(path.to_vec(), interpreter);
        }
        self.scripts[path].clone()
    }
}

#[cfg(test)]
mod tests;
