//! Iterating sets: waiting for members, and handing them out as descriptors.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_double, c_int};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use nearfirst::{Entry, MemberError, Name};

use crate::callback::Properties;
use crate::error::{Failure, answer};
use crate::memory::{null, put, put_text};
use crate::open_sets::{self, Half, OpenSet, Origin};
use crate::sets::SetId;

/// A member that was handed out.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Member {
    /// The caller's to read and close; -1 if the member cannot be read.
    pub fd: c_int,
    /// Bytes of its name, without the NUL, however much room there was.
    pub name_bytes: usize,
    /// Its size is known once it is handed out.
    pub properties: Properties,
}

/// Waits for a member that was not handed out yet, whichever is ready, and
/// gives a descriptor at its beginning that can be read and sought in, the
/// caller's to close. Threads may share a set: each member goes to one of them.
///
/// A file of this machine is open for reading itself, and what is written to it
/// meanwhile is the caller's to notice; an object of a server is whole in memory,
/// or in a file without a name if it is large. A descriptor is never 0 (nor 1 or
/// 2), and is closed on exec.
///
/// Returns a descriptor; 0 after the last member; -1 with `errno` and its name
/// in `nf_last_error` if a member, or a listing, cannot be read: the others go
/// on with the next call. -2 if the call is none: `errno` `EBADF` (no such set, or
/// it was closed meanwhile), `EOPNOTSUPP` (a fork), `EDEADLK` (in a function that
/// a set calls).
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_iterate(set: SetId) -> c_int {
    answer(NO_CALL, || {
        let opened = open_sets::get(set)?;
        Ok(match opened.wait(next(&opened))? {
            None => 0,
            Some(Ok(handed)) => handed.fd.into_raw_fd(),
            Some(Err((_, failure))) => failed(failure),
        })
    })
}

/// As `nf_set_iterate`, and says which member it is: in `member`, and its name
/// in `name`, of which at most `capacity` bytes are written, the NUL among them.
/// The name is there for a member that cannot be read too.
///
/// Returns 1 with a member; 0 after the last; -1 and -2 as `nf_set_iterate`;
/// -2 with `errno` `EINVAL` too if `member` is null, or `name` is and has a capacity.
///
/// # Safety
/// `member` may be written, and `name` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_iterate_member(
    set: SetId,
    member: *mut Member,
    name: *mut c_char,
    capacity: usize,
) -> c_int {
    // SAFETY: as promised to this function.
    answer(NO_CALL, || unsafe { iterated(set, f64::INFINITY, member, name, capacity) })
}

/// As `nf_set_iterate_member`, waiting no longer than `limit_s` seconds; with 0 it
/// does not wait.
///
/// Returns as `nf_set_iterate_member`; -2 with `errno` `ETIMEDOUT` too if no member
/// was ready in that time: what is on its way goes on, and the next call may have
/// it; -2 with `EINVAL` too if `limit_s` is less than 0 or not a number.
///
/// # Safety
/// `member` may be written, and `name` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_iterate_timed(
    set: SetId,
    limit_s: c_double,
    member: *mut Member,
    name: *mut c_char,
    capacity: usize,
) -> c_int {
    // SAFETY: as promised to this function.
    answer(NO_CALL, || unsafe { iterated(set, limit_s, member, name, capacity) })
}

/// What iterating answers where no member is to blame.
pub(crate) const NO_CALL: c_int = -2;

/// A member as it goes to the caller.
struct Handed {
    fd: OwnedFd,
    name: Name,
    properties: Properties,
}

/// # Safety
/// `member` is null or may be written, and `name` is null or has room for `capacity` bytes.
unsafe fn iterated(
    set: SetId,
    limit_s: f64,
    member: *mut Member,
    name: *mut c_char,
    capacity: usize,
) -> Result<c_int, Failure> {
    if member.is_null() {
        return Err(null("member"));
    }
    if name.is_null() && capacity > 0 {
        return Err(null("name"));
    }
    if limit_s.is_nan() || limit_s < 0.0 {
        let message = format!("{limit_s}: a limit is a number of seconds from 0 on");
        return Err(Failure::new(libc::EINVAL, message));
    }
    let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(Duration::MAX);
    let opened = open_sets::get(set)?;
    let next = opened.wait(async { tokio::time::timeout(limit, next(&opened)).await })?;
    let next = next.map_err(|_late| {
        Failure::new(libc::ETIMEDOUT, format!("no member was ready within {limit_s} s"))
    })?;
    let (answer, its_name, fd, properties) = match next {
        None => (0, Name::from(""), -1, Properties::UNKNOWN),
        Some(Ok(handed)) => (1, handed.name, handed.fd.into_raw_fd(), handed.properties),
        Some(Err((its_name, failure))) => (failed(failure), its_name, -1, Properties::UNKNOWN),
    };
    let name_bytes = its_name.as_bytes().len();
    // SAFETY: the C caller promises that it may be written.
    unsafe { put(member, "member", Member { fd, name_bytes, properties }) }?;
    // SAFETY: the C caller promises the room.
    unsafe { put_text(name, "name", capacity, its_name.as_bytes()) }?;
    Ok(answer)
}

/// The next member, or the name of one that cannot be read, and why.
async fn next(opened: &OpenSet) -> Option<Result<Handed, (Name, Failure)>> {
    let half = {
        let mut members = pin!(opened.set().stream());
        tokio::select! {
            biased;
            half = opened.left() => half,
            member = members.next() => match member? {
                Ok(member) => (member, None),
                Err(error) => return Some(Err(told(error))),
            },
        }
    };
    let headers = headers_of(&half.0);
    let mut arriving = Arriving { opened, half: Some(half) };
    let file = poll_fn(|context| {
        let (member, copy) = arriving.half.as_mut().expect("until it is dropped");
        member.poll_file(context, copy)
    });
    let file = file.await.map_err(told);
    let (member, _) = arriving.half.take().expect("until it is dropped");
    Some(file.and_then(|file| {
        handed(opened, member.entry(), headers, file)
            .map_err(|failure| (member.name().clone(), failure))
    }))
}

/// A member whose bytes are waited for: who gives up leaves it to the next call.
struct Arriving<'a> {
    opened: &'a OpenSet,
    half: Option<Half>,
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        if let Some(half) = self.half.take() {
            self.opened.leave(half);
        }
    }
}

/// A line for each.
fn headers_of(member: &nearfirst::Member) -> String {
    let line = |(name, value): (String, String)| [name, ": ".into(), value, "\n".into()];
    member.headers().into_iter().flat_map(line).collect()
}

fn handed(opened: &OpenSet, entry: &Entry, headers: String, file: File) -> Result<Handed, Failure> {
    let name = &entry.name;
    let failed = |error: io::Error| Failure::of_member(name, &error);
    let metadata = file.metadata().map_err(failed)?;
    // A copy has a time of its own.
    let is_itself = name.path().is_some();
    let modified = if is_itself { metadata.modified().ok() } else { entry.modified };
    let known = Entry { size: Some(metadata.len()), modified, ..entry.clone() };
    let fd = above_standard(file).map_err(failed)?;
    opened.remember(&fd, Origin { name: name.clone(), headers })?;
    Ok(Handed { fd, name: name.clone(), properties: Properties::of(&known) })
}

/// The same file under a number that is not standard input's, output's or
/// error's: 0 says that there are no more members, and others write to 1 and 2.
fn above_standard(file: File) -> io::Result<OwnedFd> {
    const FIRST: c_int = 3;
    if file.as_raw_fd() >= FIRST {
        return Ok(file.into());
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(file, FIRST)?)
}

fn told(error: MemberError) -> (Name, Failure) {
    let failure = Failure::from(&error);
    (error.name, failure)
}

/// Tells of a member that cannot be read, after which iterating goes on.
fn failed(failure: Failure) -> c_int {
    failure.tell();
    -1
}
