//! Programs that print names: the executable specs of the SETS paper (SOSP '97, section 3.2).

mod group;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, future, stream};
use sled::Device;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStdout, Command};

use self::group::{Group, Running as Groups};
use crate::cutter::{Cutter, NoList};
use crate::error::gave_nothing;
use crate::local::{Kind, blocking, starting_programs};
use crate::{Answer, Costs, Entries, Entry, Error, Local, Name, Query, Reading, Store, io_reason};

/// What is read of a program's output at a time: a pipe's size. A program that
/// prints more than is asked for waits.
const READ_BYTES: usize = 64 << 10;
/// A name is at most four times what the system takes for a path (`PATH_MAX`):
/// what is longer is no list of names.
const NAME_BYTES_MAX: usize = 4 * 4096;
/// A program that prints nothing is looked at so often: whether it ever will.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Runs programs and takes what they print for names.
///
/// A program runs in its folder, without a shell and without input; what it
/// complains of goes where our own complaints go. It starts when the first
/// name is asked for, waits while none is, and is ended with its process
/// group when the listing is dropped, or it prints nothing for too long; what it leaves behind in that
/// group ends with it. How it ended, if not well, is the listing's last item.
#[derive(Debug)]
pub struct Programs {
    is_allowed: bool,
    silence_max: Duration,
    costs: Arc<Costs>,
    groups: Arc<Groups>,
}

impl Programs {
    /// That are run, or refused; one that prints nothing for `silence_max` is ended. `costs` knows the
    /// mounts that they and their folders lie on.
    pub fn new(is_allowed: bool, silence_max: Duration, costs: Arc<Costs>) -> Self {
        Self { is_allowed, silence_max, costs, groups: Arc::default() }
    }

    /// Ends those that run, and starts no more.
    pub(crate) fn end_all(&self) {
        self.groups.end_all();
    }
}

impl Store for Programs {
    fn device(&self, _name: &Name) -> Device {
        Device::new("program")
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        no_object(name)
    }

    fn read(&self, entry: &Entry, _range: Range<u64>) -> Answer<'_, Reading> {
        no_object(&entry.name)
    }

    fn list(&self, query: &Query) -> Entries {
        let Query::Run { folder, words } = query else {
            return failed(Error::unsupported(query.prefix(), "this is no program"));
        };
        if !self.is_allowed {
            // Its folder may have no name: that of work.
            let name = words
                .first()
                .map_or_else(|| folder.clone(), |program| Name::from(Path::new(program)));
            return failed(Error::NotAllowed { name, command: shown(words) });
        }
        let (folder, words) = (folder.clone(), words.clone());
        let (costs, groups) = (Arc::clone(&self.costs), Arc::clone(&self.groups));
        let silence_max = self.silence_max;
        // Not before the first name is asked for.
        let started = async move {
            let start = move || Running::start(folder, &words, silence_max, &groups, costs.local());
            blocking(start).await
        };
        let listed = started.map(|started| match started {
            Ok(running) => running.entries(),
            Err(error) => failed(error),
        });
        listed.flatten_stream().boxed()
    }
}

fn no_object<T: Send + 'static>(name: &Name) -> Answer<'static, T> {
    future::ready(Err(Error::unsupported(name.clone(), "a program has no objects"))).boxed()
}

fn failed(error: Error) -> Entries {
    stream::once(async { Err(error) }).boxed()
}

/// The words of a program, for people, without passwords.
pub(crate) fn shown(words: &[OsString]) -> String {
    let shown = words.iter().map(|word| Name::new(word.as_bytes()).redacted_word().to_string());
    shown.collect::<Vec<_>>().join(" ")
}

/// A program that is running.
struct Running {
    folder: Name,
    program: Name,
    group: Group,
    printed: ChildStdout,
    buffer: Box<[u8]>,
    names: Cutter,
    silence_max: Duration,
    is_over: bool,
}

impl Running {
    fn start(
        folder: Name,
        words: &[OsString],
        silence_max: Duration,
        groups: &Arc<Groups>,
        local: &Local,
    ) -> Result<Self, Error> {
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| Error::refused(folder.clone(), "no program is named"))?;
        let path = folder_on(local, &folder)?;
        // Who starts it waits until it is, and keeps others from starting theirs.
        if is_path(program) {
            local.answers(&path.join(program))?;
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        if !path.as_os_str().is_empty() {
            command.current_dir(path);
        }
        let name = Name::from(Path::new(program));
        let started = starting_programs(|| Group::start(&mut command, groups));
        let (group, printed) = started.map_err(|error| not_started(&name, program, error))?;
        Ok(Self {
            folder,
            program: name,
            group,
            printed,
            buffer: vec![0; READ_BYTES].into(),
            names: Cutter::new(NAME_BYTES_MAX, None),
            silence_max,
            is_over: false,
        })
    }

    fn entries(self) -> Entries {
        stream::unfold(self, |mut running| async move {
            let name = running.next().await.transpose()?;
            running.is_over |= name.is_err();
            Some((name.map(Entry::named), running))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Name>, Error> {
        if self.is_over {
            return Ok(None);
        }
        loop {
            match self.names.next_name().map_err(|why| no_names(&self.program, why))? {
                Some([]) => continue,
                Some(name) => return Ok(Some(resolved(&self.folder, name))),
                None => {}
            }
            match self.printed().await? {
                0 => return self.last().await,
                read => {
                    let pushed = self.names.push(&self.buffer[..read]);
                    pushed.map_err(|why| no_names(&self.program, why))?;
                }
            }
        }
    }

    /// How much it printed next, into the buffer; 0 at the end.
    async fn printed(&mut self) -> Result<usize, Error> {
        let mut silence = Silence::of(self.silence_max);
        loop {
            let read = tokio::time::timeout(silence.look(), self.printed.read(&mut self.buffer));
            match read.await {
                Ok(read) => {
                    return read.map_err(|error| {
                        let broken = Error::interrupted(self.program.clone(), io_reason(&error));
                        broken.caused_by(error)
                    });
                }
                Err(_) => self.goes_on(&mut silence)?,
            }
        }
    }

    /// After a look in vain.
    ///
    /// # Errors
    /// It is stopped for good; it has been silent for too long.
    fn goes_on(&self, silence: &mut Silence) -> Result<(), Error> {
        if self.group.is_stopped_at_terminal() {
            let reason = "it waits for the terminal, which programs that name objects have not";
            return Err(Error::refused(self.program.clone(), reason));
        }
        if silence.is_too_long() {
            let reason = gave_nothing("it printed nothing for", self.silence_max);
            return Err(Error::interrupted(self.program.clone(), reason));
        }
        Ok(())
    }

    /// The name behind the last separator; then how the program ended.
    async fn last(&mut self) -> Result<Option<Name>, Error> {
        let name = self.names.take_rest();
        if !name.is_empty() {
            return Ok(Some(resolved(&self.folder, &name)));
        }
        self.is_over = true;
        let mut silence = Silence::of(self.silence_max);
        let ended = loop {
            match tokio::time::timeout(silence.look(), self.group.ended()).await {
                Ok(ended) => break ended,
                Err(_) => self.goes_on(&mut silence)?,
            }
        };
        let refused = |reason: String| Error::refused(self.program.clone(), reason);
        match ended {
            Ok(status) if status.success() => Ok(None),
            Ok(status) => Err(refused(ending(status))),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Err(refused(
                "how it ended is not known, and names may be missing: this process ignores its children \
                 (SIGCHLD), or waits for any of them itself"
                    .into(),
            )),
            Err(error) => Err(refused(io_reason(&error)).caused_by(error)),
        }
    }
}

/// How long a program may be silent: counted by the looks at it, since the time that this process was
/// stopped, as by Ctrl-Z, is not the program's.
struct Silence {
    left: Duration,
}

impl Silence {
    fn of(left: Duration) -> Self {
        Self { left }
    }

    /// How long to wait for it until it is looked at.
    fn look(&self) -> Duration {
        LOOKS_EVERY.min(self.left)
    }

    /// Whether there is nothing left after another look.
    fn is_too_long(&mut self) -> bool {
        self.left = self.left.saturating_sub(LOOKS_EVERY);
        self.left.is_zero()
    }
}

/// The folder that a program is run in; empty for that of work.
fn folder_on<'a>(local: &Local, name: &'a Name) -> Result<&'a Path, Error> {
    let is_folder = match name.path() {
        None => false,
        Some(path) if path.as_os_str().is_empty() => true,
        Some(path) => match local.stat(path) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            status => status.is_ok_and(|status| status.kind == Kind::Folder),
        },
    };
    name.path().filter(|_| is_folder).ok_or_else(|| {
        let reason = "programs are run in folders of this machine, and this is none";
        Error::refused(name.clone(), reason)
    })
}

/// Whether a program is not looked for in `PATH`.
fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

fn no_names(program: &Name, why: NoList) -> Error {
    Error::refused(program.clone(), format!("what it prints is no list of names: {why}"))
        .caused_by(why)
}

fn not_started(name: &Name, program: &OsStr, error: io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::NotFound if !is_path(program) => {
            "no program of this name is in PATH".to_owned()
        }
        io::ErrorKind::NotFound => "there is no such program".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be executed".to_owned(),
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            "it is neither a program nor a script that begins with `#!`".to_owned()
        }
        _ => io_reason(&error),
    };
    Error::refused(name.clone(), reason).caused_by(error)
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit status {code}; names may be missing"),
        (None, Some(signal)) => format!("it was killed by signal {signal}; names may be missing"),
        (None, None) => format!("it ended: {status}; names may be missing"),
    }
}

/// A printed name as it is from outside the folder: URLs and absolute paths stand.
fn resolved(folder: &Name, printed: &[u8]) -> Name {
    let name = Name::new(printed);
    let below = folder.as_bytes();
    if name.scheme().is_some() || printed.starts_with(b"/") || below.is_empty() {
        return name;
    }
    let mut rest = printed;
    while let Some(after) = rest.strip_prefix(b"./") {
        let slashes = after.iter().take_while(|&&byte| byte == b'/').count();
        rest = &after[slashes..];
    }
    let between: &[u8] = if below.ends_with(b"/") { b"" } else { b"/" };
    Name::new([below, between, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_names_are_resolved_against_the_folder() {
        for (folder, printed, name) in [
            ("/staff", "a/b", "/staff/a/b"),
            ("/staff/", "./a", "/staff/a"),
            ("/staff", ".//./a", "/staff/a"),
            ("/staff", "../a", "/staff/../a"),
            ("staff", "/a", "/a"),
            ("/staff", "s3://bucket/a", "s3://bucket/a"),
            ("", "./a", "./a"),
            ("/", "a", "/a"),
        ] {
            assert_eq!(resolved(&Name::from(folder), printed.as_bytes()), Name::from(name));
        }
    }
}
