//! What can go wrong when asking about or reading an object, by what the caller can do next.
//!
//! As text an error is whole: what its cause said is in it, on the same line. `source()` gives that cause as a
//! value, whose type, kind or number may be asked for: whoever prints an error prints it alone, and no chain.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::Name;

/// What the standard library adds to the reason that the system gives.
const NUMBER: &str = " (os error ";
/// Of a reason, in bytes of UTF-8; longer ones are cut.
const REASON_BYTES_MAX: usize = 1000;

/// Why an object could not be listed, asked about or read.
///
/// As text it names the object, without the password that a URL may hold, and [its reason](Error::reason).
/// What the system says of a file is [`Error::Io`], what a server or a pattern says has a variant of its
/// own: [`Error::kind`] is the same of both.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused: missing, not permitted, a bad path.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mount did not answer in time; another file may.
    Stalled {
        /// The file.
        path: PathBuf,
        /// Where the file system is mounted.
        mount: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// Reading it would recall it from a cold tier; it was not opened.
    Offline {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// There is nothing on this device that a calibration could read, and it may not write.
    NothingToRead {
        /// The folder.
        path: PathBuf,
        /// The smallest file that is of use.
        bytes_min: u64,
    },
    /// There is no such object (any more).
    NotFound {
        /// The object.
        name: Name,
    },
    /// A query or a program answered, with no name.
    NamesNothing {
        /// It, as text.
        name: Name,
    },
    /// The server does not let this user read it: no credentials, or not these.
    Denied {
        /// The object.
        name: Name,
        /// What the server said.
        reason: String,
        /// What that was made of, if it was an error.
        cause: Option<Cause>,
    },
    /// The server asks for patience (429, 503, `SlowDown`).
    Busy {
        /// The object.
        name: Name,
        /// When it asks to be asked again.
        retry_after: Option<Duration>,
        /// What the server said.
        reason: String,
        /// What that was made of, if it was an error.
        cause: Option<Cause>,
    },
    /// The connection broke or stalled, or the server failed; another attempt may do.
    Interrupted {
        /// The object.
        name: Name,
        /// What happened.
        reason: String,
        /// What that was made of, if it was an error.
        cause: Option<Cause>,
    },
    /// It is not the version any more that was listed, or that reading it began with.
    Changed {
        /// The object.
        name: Name,
    },
    /// It must be recalled from a cold tier before it can be read.
    Cold {
        /// The object.
        name: Name,
        /// The storage class.
        class: String,
    },
    /// It is being recalled from a cold tier, and can be read later.
    Recalling {
        /// The object.
        name: Name,
        /// The storage class.
        class: String,
        /// How long that takes at most from when it was first asked for, where the store says so.
        within: Option<Duration>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// This store cannot do that.
    Unsupported {
        /// What was asked for.
        name: Name,
        /// What it cannot do, and what would do.
        reason: String,
        /// What that was made of, if it was an error.
        cause: Option<Cause>,
    },
    /// A program was not run, as none is unless [`Permissions::programs`](crate::Permissions) allows it.
    NotAllowed {
        /// The program.
        name: Name,
        /// It and its arguments, without passwords.
        command: String,
    },
    /// It will fail again if tried again: a bad query, a bad name, a bad
    /// certificate, an answer that is none.
    Refused {
        /// What was asked for.
        name: Name,
        /// What is wrong.
        reason: String,
        /// What that was made of, if it was an error.
        cause: Option<Cause>,
    },
}

/// What an error was made of: another library's, the system's, or what a store of somebody else's raised.
///
/// Everyone who gets the error [again](Error::again) gets the same cause.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn StdError + Send + Sync>);

impl Cause {
    /// Of an error that another library knows.
    pub fn new(raised: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(raised))
    }

    /// What was raised, if it is of this type.
    pub fn get<T: StdError + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Cause {
    /// What was raised.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Denied { cause, .. }
            | Self::Busy { cause, .. }
            | Self::Interrupted { cause, .. }
            | Self::Unsupported { cause, .. }
            | Self::Refused { cause, .. } => cause.as_ref()?.source(),
            Self::Stalled { .. }
            | Self::Offline { .. }
            | Self::NothingToRead { .. }
            | Self::NotFound { .. }
            | Self::NamesNothing { .. }
            | Self::Changed { .. }
            | Self::Cold { .. }
            | Self::Recalling { .. }
            | Self::NotAllowed { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name().as_subject(), self.reason())
    }
}

impl From<Error> for io::Error {
    /// Of the same [kind](Error::kind), with the error in it, and so its [number](system_number).
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}

impl Error {
    /// An [`Error::Denied`].
    pub fn denied(name: impl Into<Name>, reason: impl Into<String>) -> Self {
        Self::Denied { name: name.into(), reason: reason.into(), cause: None }
    }

    /// An [`Error::Busy`], until `retry_after` if the server said so.
    pub fn busy(
        name: impl Into<Name>,
        retry_after: Option<Duration>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Busy { name: name.into(), retry_after, reason: reason.into(), cause: None }
    }

    /// An [`Error::Interrupted`].
    pub fn interrupted(name: impl Into<Name>, reason: impl Into<String>) -> Self {
        Self::Interrupted { name: name.into(), reason: reason.into(), cause: None }
    }

    /// An [`Error::Unsupported`].
    pub fn unsupported(name: impl Into<Name>, reason: impl Into<String>) -> Self {
        Self::Unsupported { name: name.into(), reason: reason.into(), cause: None }
    }

    /// An [`Error::Refused`].
    pub fn refused(name: impl Into<Name>, reason: impl Into<String>) -> Self {
        Self::Refused { name: name.into(), reason: reason.into(), cause: None }
    }

    /// The same error, whose reason was made of `raised`; one that gives no reason keeps none.
    #[must_use]
    pub fn caused_by(mut self, raised: impl StdError + Send + Sync + 'static) -> Self {
        if let Self::Denied { cause, .. }
        | Self::Busy { cause, .. }
        | Self::Interrupted { cause, .. }
        | Self::Unsupported { cause, .. }
        | Self::Refused { cause, .. } = &mut self
        {
            *cause = Some(Cause::new(raised));
        }
        self
    }

    /// [`Error::Refused`]: there is no place in `folder` for a copy of it, as the system said.
    pub fn no_copy(name: impl Into<Name>, folder: &Path, error: &io::Error) -> Self {
        Self::refused(name, no_copy_in(folder, error)).caused_by(io_again(error))
    }

    /// The same error once more, for another who is to get it.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::Io { path, source } => Self::Io { path: path.clone(), source: io_again(source) },
            Self::Stalled { path, mount, limit } => {
                Self::Stalled { path: path.clone(), mount: mount.clone(), limit: *limit }
            }
            Self::Offline { path, size } => Self::Offline { path: path.clone(), size: *size },
            Self::NothingToRead { path, bytes_min } => {
                Self::NothingToRead { path: path.clone(), bytes_min: *bytes_min }
            }
            Self::NotFound { name } => Self::NotFound { name: name.clone() },
            Self::NamesNothing { name } => Self::NamesNothing { name: name.clone() },
            Self::Denied { name, reason, cause } => {
                Self::Denied { name: name.clone(), reason: reason.clone(), cause: cause.clone() }
            }
            Self::Busy { name, retry_after, reason, cause } => Self::Busy {
                name: name.clone(),
                retry_after: *retry_after,
                reason: reason.clone(),
                cause: cause.clone(),
            },
            Self::Interrupted { name, reason, cause } => Self::Interrupted {
                name: name.clone(),
                reason: reason.clone(),
                cause: cause.clone(),
            },
            Self::Changed { name } => Self::Changed { name: name.clone() },
            Self::Cold { name, class } => Self::Cold { name: name.clone(), class: class.clone() },
            Self::Recalling { name, class, within, waited } => Self::Recalling {
                name: name.clone(),
                class: class.clone(),
                within: *within,
                waited: *waited,
            },
            Self::Unsupported { name, reason, cause } => Self::Unsupported {
                name: name.clone(),
                reason: reason.clone(),
                cause: cause.clone(),
            },
            Self::NotAllowed { name, command } => {
                Self::NotAllowed { name: name.clone(), command: command.clone() }
            }
            Self::Refused { name, reason, cause } => {
                Self::Refused { name: name.clone(), reason: reason.clone(), cause: cause.clone() }
            }
        }
    }

    /// The object that it is about.
    pub fn name(&self) -> Name {
        match self {
            Self::Io { path, .. }
            | Self::Stalled { path, .. }
            | Self::Offline { path, .. }
            | Self::NothingToRead { path, .. } => Name::from(path.as_path()),
            Self::NotFound { name }
            | Self::NamesNothing { name }
            | Self::Denied { name, .. }
            | Self::Busy { name, .. }
            | Self::Interrupted { name, .. }
            | Self::Changed { name }
            | Self::Cold { name, .. }
            | Self::Recalling { name, .. }
            | Self::Unsupported { name, .. }
            | Self::NotAllowed { name, .. }
            | Self::Refused { name, .. } => name.clone(),
        }
    }

    /// Whether another attempt at the same may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Interrupted { .. })
    }

    /// What the standard library calls it: `NotFound` of a file, an object or a pattern that is not
    /// there, `PermissionDenied` where the system or a server does not let this user read it.
    ///
    /// Never `Interrupted`: whoever reads asks again then, and would meet for ever what is kept.
    pub fn kind(&self) -> io::ErrorKind {
        let kind = match (self, self.system_number()) {
            (Self::Io { source, .. }, _) => source.kind(),
            (_, Some(number)) => io::Error::from_raw_os_error(number).kind(),
            (_, None) => io::ErrorKind::Other,
        };
        if kind == io::ErrorKind::Interrupted { io::ErrorKind::Other } else { kind }
    }

    /// The number that the system gives such an error, or gave this one.
    pub fn system_number(&self) -> Option<i32> {
        let errno = match self {
            Self::Io { source, .. } => {
                // Of what did not answer in time no system said so.
                let is_late = source.kind() == io::ErrorKind::TimedOut;
                let late = is_late.then_some(Errno::TIMEDOUT.raw_os_error());
                return system_number(source).or(late);
            }
            Self::Stalled { .. } => Errno::TIMEDOUT,
            Self::Offline { .. } | Self::Cold { .. } | Self::Recalling { .. } => Errno::REMOTEIO,
            Self::NotFound { .. } | Self::NamesNothing { .. } => Errno::NOENT,
            Self::Denied { .. } => Errno::ACCESS,
            Self::Busy { .. } => Errno::BUSY,
            Self::Interrupted { .. } => Errno::CONNRESET,
            Self::Changed { .. } => Errno::STALE,
            Self::Unsupported { .. } => Errno::OPNOTSUPP,
            Self::NotAllowed { .. } | Self::Refused { .. } => Errno::INVAL,
            Self::NothingToRead { .. } => return None,
        };
        Some(errno.raw_os_error())
    }

    /// An [`Error::Io`] about `path`.
    pub fn io(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: shared(source.into()) }
    }

    /// The reason without the path, for messages that name the path themselves.
    pub fn reason(&self) -> String {
        on_one_line(&self.own_reason()).into_owned()
    }

    fn own_reason(&self) -> String {
        match self {
            Self::Io { source, .. } => io_reason(source),
            Self::Stalled { mount, limit, .. } => format!(
                "{} has not answered for {} s; it may be unreachable",
                mount.display(),
                limit.as_secs_f32()
            ),
            Self::Offline { size, .. } => format!(
                "offline: reading it would recall {size} bytes, and is left to its tape system, \
                 or to `dd if=FILE of=/dev/null`"
            ),
            Self::NothingToRead { bytes_min, .. } => {
                format!(
                    "no file of at least {} MiB is here to read, and no temporary one can be made here, as \
                     on FUSE; name a larger file, or a folder elsewhere that may be written",
                    bytes_min.div_ceil(1 << 20)
                )
            }
            Self::NotFound { name } => missing(name).to_owned(),
            Self::NamesNothing { .. } => "it names nothing".to_owned(),
            Self::Denied { reason, .. } => format!("access denied: {reason}"),
            Self::Busy { reason, .. } => format!("the server is busy: {reason}"),
            // What is known of a change: a version, and that it is not there any more.
            Self::Changed { .. } => "changed since it was listed, or while it was read".to_owned(),
            Self::Cold { class, .. } => {
                format!("in cold storage ({class}): it must be restored before it can be read")
            }
            Self::Recalling { class, within, waited, .. } => recalling(class, *within, *waited),
            Self::NotAllowed { command, .. } => {
                format!("`{command}` was not run: programs are run only with allow_programs")
            }
            Self::Interrupted { reason, .. }
            | Self::Unsupported { reason, .. }
            | Self::Refused { reason, .. } => reason.clone(),
        }
    }
}

/// What a server says is for people to read, not for their terminals to obey.
fn on_one_line(text: &str) -> Cow<'_, str> {
    if text.len() <= REASON_BYTES_MAX && !text.contains(char::is_control) {
        return text.into();
    }
    let mut line = String::new();
    for character in text.chars() {
        if line.len() >= REASON_BYTES_MAX {
            line.push_str("...");
            break;
        }
        match character {
            '\n' | '\t' | '\r' => line.push(' '),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line.into()
}

/// The system's error about a copy in `folder` that could not be written whole: of the same kind and
/// [number](system_number), but it names the folder.
pub fn unwritten(folder: &Path, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), Cause::new(Unwritten { folder: folder.to_owned(), source }))
}

#[derive(Debug, thiserror::Error)]
#[error("{}", no_copy_in(folder, source))]
struct Unwritten {
    folder: PathBuf,
    source: io::Error,
}

fn no_copy_in(folder: &Path, error: &io::Error) -> String {
    format!("no copy can be made in {}: {}", folder.display(), io_reason(error))
}

/// The system's number of an error, which may lie under errors that say what it was about.
pub fn system_number(error: &io::Error) -> Option<i32> {
    let mut under: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = under {
        let number = error.downcast_ref().and_then(io::Error::raw_os_error);
        let known = error.downcast_ref::<Error>();
        let known = known.or_else(|| error.downcast_ref::<Arc<Error>>().map(Arc::as_ref));
        let number = number.or_else(|| known.and_then(Error::system_number));
        if number.is_some() {
            return number;
        }
        // An `io::Error` gives the source of what it wraps for its own.
        let wrapped = error.downcast_ref().and_then(io::Error::get_ref);
        under = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// What is said of who gave nothing for as long as that may take.
pub(crate) fn gave_nothing(what: &str, limit: Duration) -> String {
    let limit_s = limit.as_secs_f32();
    format!(
        "{what} {limit_s} s, the limit that `stall` sets, or `--wait-max` of sleds, order and find"
    )
}

/// Whether this process, or the system, has too many open files at this moment.
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// The same, whose cause [`io_again`] gives once more.
fn shared(error: io::Error) -> io::Error {
    if error.get_ref().is_none_or(<dyn StdError + Send + Sync>::is::<Cause>) {
        return error;
    }
    let kind = error.kind();
    match error.into_inner() {
        Some(raised) => io::Error::new(kind, Cause(raised.into())),
        None => kind.into(),
    }
}

pub(crate) fn io_again(error: &io::Error) -> io::Error {
    if let Some(number) = error.raw_os_error() {
        return io::Error::from_raw_os_error(number);
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Cause>()) {
        Some(cause) => io::Error::new(error.kind(), cause.clone()),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Why the system refused, without its number and what some libraries tell behind that: the path, which
/// whoever says it names himself.
pub fn io_reason(error: &io::Error) -> String {
    // So, too, is told what a sandbox denies of a call that has no older form.
    if Errno::from_io_error(error) == Some(Errno::NOSYS) {
        return "Function not implemented: the system, or a sandbox, refuses a call".to_owned();
    }
    let text = error.to_string();
    text.split_once(NUMBER).map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

fn recalling(class: &str, within: Option<Duration>, waited: Duration) -> String {
    const HOUR: u64 = 60 * 60;
    if !waited.is_zero() {
        let waited = waited.as_secs_f32();
        return format!("in cold storage ({class}): not restored yet, after {waited} s");
    }
    let time = match within.map(|within| within.as_secs()) {
        None => "as long as the store needs".to_owned(),
        Some(seconds) if seconds < HOUR => format!("{} min at most", seconds.div_ceil(60)),
        Some(seconds) => format!("{} h at most", seconds.div_ceil(HOUR)),
    };
    format!("in cold storage ({class}): its restore is under way and takes {time}")
}

/// What is said of something that is not there: of this machine, as the system says it.
fn missing(name: &Name) -> &'static str {
    let is_here = name.scheme().is_none_or(|scheme| scheme.eq_ignore_ascii_case("file"));
    if is_here && !name.holds_urls() { "No such file or directory" } else { "not found" }
}

/// The text of an error without the numbers of the system's errors that the standard library adds.
pub fn without_number(error: impl fmt::Display) -> String {
    let mut text = error.to_string();
    while let Some(start) = text.find(NUMBER)
        && let Some(length) = text[start..].find(')')
    {
        text.replace_range(start..=start + length, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out_wherever_they_are() {
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let text = format!("a: {refused}, b: {refused}: (os error");
        assert_eq!(without_number(text), "a: Connection refused, b: Connection refused: (os error");
        let told = io::Error::other(format!("{refused} at path \"/a\""));
        assert_eq!(io_reason(&told), "Connection refused");
        assert_eq!(io_reason(&io::Error::other("in other words")), "in other words");
    }

    #[test]
    fn what_a_server_says_stays_on_one_line_of_bounded_length() {
        let refused = |reason: &str| Error::refused("a", reason).reason();
        assert_eq!(refused("it\nis \u{1b}[2J\u{9b}wrong"), "it is \\u{1b}[2J\\u{9b}wrong");
        assert_eq!(refused("größe"), "größe");
        assert_eq!(Error::refused("a", "\u{1b}").to_string(), "a: \\u{1b}");
        assert!(refused(&"long ".repeat(100_000)).len() < 2 * REASON_BYTES_MAX);
    }

    #[test]
    fn as_text_it_is_its_name_and_its_reason() {
        let path = || PathBuf::from("a: b");
        let limit = Duration::from_secs(2);
        for (error, text) in [
            (Error::io(path(), io::Error::from_raw_os_error(libc::EIO)), "Input/output error"),
            (
                Error::Stalled { path: path(), mount: "/\u{1b}".into(), limit },
                "/\\u{1b} has not answered for 2 s; it may be unreachable",
            ),
            (
                Error::NothingToRead { path: path(), bytes_min: 2 << 20 },
                "no file of at least 2 MiB is here to read, and no temporary one can be made here, as \
                 on FUSE; name a larger file, or a folder elsewhere that may be written",
            ),
            (Error::busy("a: b", None, "so\nsaid"), "the server is busy: so said"),
        ] {
            assert_eq!(error.reason(), text);
            assert_eq!(error.to_string(), format!("a: b: {text}"));
        }
    }

    #[test]
    fn no_error_shows_a_password() {
        let name = || Name::from("https://me:secret@host/a");
        for error in [
            Error::NotFound { name: name() },
            Error::NamesNothing { name: name() },
            Error::denied(name(), ""),
            Error::busy(name(), None, ""),
            Error::Changed { name: name() },
            Error::Cold { name: name(), class: String::new() },
            Error::Recalling {
                name: name(),
                class: String::new(),
                within: None,
                waited: Duration::ZERO,
            },
            Error::interrupted(name(), ""),
            Error::unsupported(name(), ""),
            Error::NotAllowed { name: name(), command: String::new() },
            Error::refused(name(), ""),
            Error::io(name().to_string(), io::ErrorKind::TimedOut),
        ] {
            assert!(error.to_string().starts_with("https://me@host/a: "), "{error}");
            assert_eq!(error.name(), name(), "to be used again");
        }
    }

    #[test]
    fn what_is_being_recalled_says_how_long_that_takes() {
        let reason = |minutes: Option<u64>, waited| {
            let (name, class) = (Name::from("s3://b/a"), "GLACIER".to_owned());
            Error::Recalling { name, class, within: minutes.map(Duration::from_mins), waited }
                .reason()
        };
        for (minutes, time) in [
            (Some(5), "5 min at most"),
            (Some(48 * 60), "48 h at most"),
            (None, "as long as the store needs"),
        ] {
            let expected =
                format!("in cold storage (GLACIER): its restore is under way and takes {time}");
            assert_eq!(reason(minutes, Duration::ZERO), expected);
        }
        let expected = "in cold storage (GLACIER): not restored yet, after 0.5 s";
        assert_eq!(reason(Some(5), Duration::from_millis(500)), expected);
    }

    #[test]
    fn what_is_missing_is_named_as_its_system_does() {
        for (name, reason) in [
            ("/a", "No such file or directory"),
            ("file:///a", "No such file or directory"),
            ("{a,b}/*", "No such file or directory"),
            ("s3://b/k", "not found"),
            ("{s3://b/*,c/*}", "not found"),
        ] {
            assert_eq!(Error::NotFound { name: Name::from(name) }.reason(), reason, "{name}");
        }
        let nameless = Error::NotFound { name: Name::from("") };
        assert_eq!(nameless.to_string(), "'': No such file or directory");
    }

    #[test]
    fn what_files_and_objects_have_in_common_is_of_one_kind_and_number() {
        let name = || Name::from("a");
        let denied = Error::denied(name(), "");
        let busy = Error::busy(name(), None, "");
        let cold = Error::Cold { name: name(), class: String::new() };
        let other = io::Error::from_raw_os_error(libc::EREMOTEIO).kind();
        for (error, kind, number) in [
            (Error::io("a", Errno::NOENT), io::ErrorKind::NotFound, libc::ENOENT),
            (Error::NotFound { name: name() }, io::ErrorKind::NotFound, libc::ENOENT),
            (Error::io("a", Errno::ACCESS), io::ErrorKind::PermissionDenied, libc::EACCES),
            (denied, io::ErrorKind::PermissionDenied, libc::EACCES),
            (Error::io("a", io::ErrorKind::TimedOut), io::ErrorKind::TimedOut, libc::ETIMEDOUT),
            (Error::io("a", Errno::INTR), io::ErrorKind::Other, libc::EINTR),
            (Error::interrupted("a", ""), io::ErrorKind::ConnectionReset, libc::ECONNRESET),
            (busy, io::ErrorKind::ResourceBusy, libc::EBUSY),
            (Error::Changed { name: name() }, io::ErrorKind::StaleNetworkFileHandle, libc::ESTALE),
            (cold, other, libc::EREMOTEIO),
        ] {
            assert_eq!((error.kind(), error.system_number()), (kind, Some(number)), "{error}");
            let text = error.to_string();
            let shared = io::Error::new(kind, Arc::new(error.again()));
            assert_eq!(system_number(&shared), Some(number), "{text}");
            let same = io::Error::from(error);
            assert_eq!((same.kind(), system_number(&same)), (kind, Some(number)), "{text}");
            assert_eq!(same.to_string(), text);
        }
    }

    #[test]
    fn who_gets_an_error_again_gets_its_cause() {
        let raised = Cause::new(io::Error::from(io::ErrorKind::BrokenPipe));
        let first = Error::io("x", io::Error::other(raised));
        let Error::Io { source, .. } = first.again().again() else { panic!("it is the same") };
        let cause = source.get_ref().and_then(|inner| inner.downcast_ref::<Cause>());
        let raised = cause.and_then(Cause::get::<io::Error>).expect("it is kept");
        assert_eq!(raised.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(first.again().reason(), first.reason());
    }

    #[test]
    fn what_an_error_was_made_of_lies_under_it_and_changes_neither_text_nor_number() {
        let broken = || io::Error::from_raw_os_error(libc::EPIPE);
        let told = Error::NotFound { name: "b".into() };
        for error in [
            Error::denied("a", "said so").caused_by(broken()),
            Error::busy("a", None, "said so").caused_by(broken()),
            Error::interrupted("a", "said so").caused_by(broken()),
            Error::unsupported("a", "said so").caused_by(broken()),
            Error::refused("a", "said so").caused_by(broken()),
        ] {
            let again = error.again();
            let cause = again.source().and_then(|cause| cause.downcast_ref::<io::Error>());
            assert_eq!(cause.and_then(io::Error::raw_os_error), Some(libc::EPIPE), "{error:?}");
            assert!(again.to_string().ends_with("said so"), "{again}");
            assert_ne!(again.system_number(), Some(libc::EPIPE), "{again}");
        }
        let error = Error::io("a", io::Error::other(told)).again();
        let mut chain = std::iter::successors(error.source(), |&error| error.source());
        assert!(chain.any(|error| matches!(error.downcast_ref(), Some(Error::NotFound { .. }))));
        assert_eq!(error.to_string(), "a: b: No such file or directory");
    }
}
