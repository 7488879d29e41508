//! What tests of the source that sees the whole system stand on: a shell that does as it is told.

#![allow(dead_code, clippy::allow_attributes, reason = "each test program uses its part")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nearfirst_watch::Source as _;
use nearfirst_watch::system::{Scope, System};
use store::Costs;
use testkit::until;
use tree::{Access, Event, Process};

/// How what the shell opens when it has done all that it was told begins; a number follows.
const LAST: &str = "last.";
/// Looks after which it is told to open another: an open is not told where nobody listens yet, nor
/// while a queue is full.
const LOOKS: u32 = 50;

/// A shell that was there before: of what a process starts itself, its source tells nothing.
pub(crate) struct Shell {
    child: Child,
    pub(crate) folder: PathBuf,
    asked: u32,
}

impl Shell {
    pub(crate) fn new(folder: impl AsRef<Path>) -> Self {
        Self::by(Command::new("sh"), folder)
    }

    /// By what `setpriv` is to be told of a user.
    pub(crate) fn as_user(folder: impl AsRef<Path>, user: &[&str]) -> Self {
        let mut command = Command::new("setpriv");
        command.args(user).arg("sh");
        Self::by(command, folder)
    }

    fn by(mut command: Command, folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref().to_owned();
        command.current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::null());
        Self { child: command.spawn().expect("the machine allows it"), folder, asked: 0 }
    }

    /// Has a script run, in a shell of its own.
    pub(crate) fn run(&mut self, script: impl AsRef<[u8]>) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(b"(").expect("the machine allows it");
        stdin.write_all(script.as_ref()).expect("the machine allows it");
        stdin.write_all(b")\n").expect("the machine allows it");
    }

    /// What is told until all that it was told to run has run.
    pub(crate) fn told(&mut self, system: &mut System) -> Vec<Event> {
        let first = self.asked;
        let folder = self.folder.clone();
        let is_last = |event: &Event| match event {
            Event::Opened { file, .. } => {
                let path = Path::new(OsStr::from_bytes(&file.path));
                let name = path.strip_prefix(&folder).ok().and_then(Path::to_str);
                let number = name.and_then(|name| name.strip_prefix(LAST)?.parse().ok());
                number.is_some_and(|number: u32| number >= first)
            }
            _ => false,
        };
        let mut events: Vec<Event> = Vec::new();
        let mut looks = 0;
        until("the last file is opened", || {
            if looks % LOOKS == 0 {
                self.ask();
            }
            looks += 1;
            let more = system.next(Duration::from_millis(10)).expect("the queues can be read");
            let ends = more.iter().any(|(_, event)| is_last(event));
            events.extend(more.into_iter().map(|(_, event)| event));
            ends
        });
        // Ends are told a look later than what comes before them.
        let rest = system.next(Duration::ZERO).expect("the queues can be read");
        events.extend(rest.into_iter().map(|(_, event)| event));
        events
    }

    /// Has it open a file that it has not opened before.
    fn ask(&mut self) {
        let last = self.folder.join(format!("{LAST}{}", self.asked));
        self.asked += 1;
        std::fs::write(&last, "x").expect("the machine allows it");
        self.run(format!("read x < {}", last.display()));
    }

    /// What was opened below its folder until all has run, by name.
    pub(crate) fn opened(&mut self, system: &mut System) -> Vec<(Process, PathBuf, Access)> {
        let events = self.told(system);
        self.opens(&events)
    }

    pub(crate) fn opens(&self, events: &[Event]) -> Vec<(Process, PathBuf, Access)> {
        let opens = events.iter().filter_map(|event| match event {
            Event::Opened { process, file, access } => {
                let path = Path::new(OsStr::from_bytes(&file.path));
                let name = path.strip_prefix(&self.folder).ok()?.to_owned();
                let is_last = name.to_str().is_some_and(|name| name.starts_with(LAST));
                (!is_last).then_some((*process, name, *access))
            }
            _ => None,
        });
        opens.collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn system(on: impl AsRef<Path>) -> System {
    system_of(Scope { on: vec![on.as_ref().to_owned()], excluded: Vec::new() })
}

pub(crate) fn system_of(scope: Scope) -> System {
    System::new(scope, Arc::new(Costs::load())).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn names(opens: &[(Process, PathBuf, Access)]) -> Vec<&str> {
    opens.iter().map(|(_, name, _)| name.to_str().expect("the machine allows it")).collect()
}
