//! Iterating sets: waiting for members, and handing them out as descriptors.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_double, c_int};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use futures::StreamExt as _;
use nearfirst::{Entry, MemberError, Name, above_standard};

use crate::bell::Bell;
use crate::callback::Properties;
use crate::error::{Failure, answer};
use crate::memory::{null, put, put_text};
use crate::open_sets::{self, Coming, Half, OpenSet, Origin};
use crate::options::seconds;
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
/// in `nf_last_error` if a member, or a listing, cannot be read (`ENOENT`, `EACCES`,
/// `EISDIR`, `EREMOTEIO` and the others that docs/c.md lists): the others go on with
/// the next call. -2 if the call is none: `errno` `EBADF` (no such set, or
/// it was closed meanwhile), `EOPNOTSUPP` (a fork), `EDEADLK` (in a function that
/// a set calls).
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_iterate(set: SetId) -> c_int {
    answer(NO_CALL, || {
        let opened = open_sets::get(set)?;
        opened.put_by();
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

/// A descriptor that is readable when `nf_set_iterate_timed` with a limit of 0 is worth
/// a call, for `poll`, epoll and event loops: when a member is ready or nearer, or cannot
/// be read, and after the last. It is at first: that call begins to fetch. It may be
/// when no member is ready: the call is `ETIMEDOUT` then, and the descriptor silent
/// until there is more.
///
/// It is the set's, the same at each call, also after the set began anew, and is
/// neither read nor closed by the caller; `nf_set_close` closes it, then or soon after:
/// the loop is to let go of it before.
///
/// Returns it, or -1 with `errno`: `EBADF` (no such set), `EMFILE` (no descriptors),
/// `EOPNOTSUPP` (a fork), `EDEADLK` (in a function that a set calls).
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_descriptor(set: SetId) -> c_int {
    answer(-1, || Ok(open_sets::get(set)?.bell()?.fd()))
}

/// What iterating answers where no member is to blame.
pub(crate) const NO_CALL: c_int = -2;

/// The next member, or the name of one that cannot be read, and why; none after the last.
type Next = Option<Result<Handed, (Name, Failure)>>;

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
    let limit = seconds(limit_s, "limit_s")?;
    let opened = open_sets::get(set)?;
    let next = match opened.has_bell() {
        Some(bell) if limit.is_zero() => polled(&opened, bell),
        _ => {
            opened.put_by();
            opened.wait(async { tokio::time::timeout(limit, next(&opened)).await.ok() })?
        }
    };
    let next = next.ok_or_else(|| {
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

/// What is next, waiting for it.
async fn next(opened: &OpenSet) -> Next {
    let half = {
        let mut members = pin!(opened.set().stream());
        tokio::select! {
            biased;
            half = opened.left() => half,
            member = members.next() => match member? {
                Ok(member) => Half::of(member),
                Err(error) => return Some(Err(told(error))),
            },
        }
    };
    let mut arriving = Arriving { opened, half: Some(half) };
    poll_fn(|context| poll_whole(opened, context, &mut arriving.half)).await
}

/// What is next, if it is ready; else the bell rings once it is worth to ask again.
fn polled(opened: &OpenSet, bell: &Arc<Bell>) -> Option<Next> {
    let mut coming = opened.coming();
    // Before it is asked: who rings from then on is heard.
    bell.silence();
    let waker = Waker::from(Arc::clone(bell));
    let _entered = opened.set().engine().handle().enter();
    match poll_next(opened, &mut Context::from_waker(&waker), &mut coming) {
        Poll::Pending => None,
        Poll::Ready(next) => {
            // There may be another, and the end is told to every call.
            bell.ring();
            Some(next)
        }
    }
}

fn poll_next(opened: &OpenSet, context: &mut Context<'_>, coming: &mut Coming) -> Poll<Next> {
    if coming.half.is_none() {
        coming.half = opened.take_left();
    }
    if coming.half.is_none() {
        match ready!(opened.set().poll_next(context, &mut coming.turn)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(told(error)))),
            Some(Ok(member)) => coming.half = Some(Half::of(member)),
        }
    }
    poll_whole(opened, context, &mut coming.half)
}

/// Hands out a member once all of it is here.
fn poll_whole(opened: &OpenSet, context: &Context<'_>, arriving: &mut Option<Half>) -> Poll<Next> {
    let half = arriving.as_mut().expect("until it is whole");
    let file = ready!(half.member.poll_file(context, &mut half.copy)).map_err(told);
    let Half { member, headers, .. } = arriving.take().expect("as above");
    Poll::Ready(Some(file.and_then(|file| {
        handed(opened, member.entry(), headers, file)
            .map_err(|failure| (member.name().clone(), failure))
    })))
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

fn handed(opened: &OpenSet, entry: &Entry, headers: String, file: File) -> Result<Handed, Failure> {
    let name = &entry.name;
    let failed = |error: io::Error| Failure::of_member(name, &error);
    let metadata = file.metadata().map_err(failed)?;
    // A copy has a time of its own.
    let is_itself = name.path().is_some();
    let modified = if is_itself { metadata.modified().ok() } else { entry.modified };
    let known = Entry { size: Some(metadata.len()), modified, ..entry.clone() };
    // 0 says that there are no more members.
    let fd = above_standard(file.into()).map_err(failed)?;
    opened.remember(&fd, Origin { name: name.clone(), headers })?;
    Ok(Handed { fd, name: name.clone(), properties: Properties::of(&known) })
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
