//! Answers an expression for one file.

use std::ffi::CStr;

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Statx};
use rustix::io::Errno;

use super::entry::{Entry, Stalled, time_of};
use super::expr::{Access, Action, Expr, Moment, Owner, Same, Test};
use super::mode;
use super::session::Session;
use super::{cost, exec, print};

/// Evaluates the whole expression; its value matters to nobody, its actions do.
pub(crate) fn evaluate(entry: &mut Entry<'_>, session: &mut Session<'_>) {
    holds(session.expr(), entry, session);
}

fn holds(expr: &Expr, entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
    if session.quits {
        return false;
    }
    match expr {
        Expr::Test(test) => passes(test, entry, session),
        Expr::Action(action) => act(action, entry, session),
        Expr::Not(inner) => !holds(inner, entry, session),
        Expr::And(items) => items.iter().all(|item| holds(item, entry, session)),
        Expr::Or(items) => items.iter().any(|item| holds(item, entry, session)),
        Expr::List(items) => items.iter().fold(true, |_, item| holds(item, entry, session)),
    }
}

fn passes(test: &Test, entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
    match test {
        Test::Constant(value) => *value,
        Test::Name(glob) => glob.matches(entry.base()),
        Test::Path(glob) => glob.matches(entry.path),
        Test::Regex(regex) => regex.is_match(entry.path),
        Test::LinkTarget(glob) => {
            entry.kind(session) == b'l'
                && entry.link_target(session).is_some_and(|target| glob.matches(target.to_bytes()))
        }
        Test::Type(types) => types.has(entry.kind(session)),
        Test::OtherType(types) => types.has(print::other_kind(entry, session)),
        Test::Access(access) => may(entry, *access, session),
        Test::Empty => is_empty(entry, session),
        Test::FsType(name) => entry
            .meta(session)
            .is_ok_and(|meta| session.costs.fs_type(&meta) == Some(name.as_slice())),
        Test::Latency(bound) => {
            cost::latency(entry, session).is_some_and(|seconds| bound.holds(seconds))
        }
        Test::Device(glob) => {
            cost::devices(entry, session).iter().any(|device| glob.matches(device.as_bytes()))
        }
        _ => entry.meta(session).is_ok_and(|meta| passes_by(test, &meta, session)),
    }
}

/// The tests that need nothing but a file's properties.
fn passes_by(test: &Test, meta: &Statx, session: &mut Session<'_>) -> bool {
    match test {
        Test::Size(number, unit) => number.holds(meta.stx_size.div_ceil(*unit)),
        Test::Age(stamp, age) => time_of(meta, *stamp).is_some_and(|time| {
            let from = if age.from_day_start { session.end_of_day() } else { session.now };
            age.holds(from - time)
        }),
        Test::Newer(stamp, than) => match (time_of(meta, *stamp), than) {
            (Some(time), Moment::At(moment)) => time > *moment,
            _ => false,
        },
        Test::Used(age) => {
            let time = |stamp| time_of(meta, stamp);
            match (time(super::expr::Stamp::Access), time(super::expr::Stamp::Change)) {
                (Some(access), Some(change)) => {
                    access >= change && age.holds_as_span(access - change)
                }
                _ => false,
            }
        }
        Test::Permission(test) => {
            let mode = u32::from(meta.stx_mode);
            test.holds(mode, mode::type_letter(mode) == b'd')
        }
        Test::User(owner) => *owner == Owner::Id(meta.stx_uid),
        Test::Group(owner) => *owner == Owner::Id(meta.stx_gid),
        Test::UserId(number) => number.holds(meta.stx_uid.into()),
        Test::GroupId(number) => number.holds(meta.stx_gid.into()),
        Test::NoUser => session.owners.user(meta.stx_uid).is_none(),
        Test::NoGroup => session.owners.group(meta.stx_gid).is_none(),
        Test::Links(number) => number.holds(meta.stx_nlink.into()),
        Test::Inode(number) => number.holds(meta.stx_ino),
        Test::SameFile(Same::Is { device, inode }) => {
            *inode == meta.stx_ino && *device == (meta.stx_dev_major, meta.stx_dev_minor)
        }
        _ => false,
    }
}

/// What `access(2)` says, for the real user.
fn may(entry: &mut Entry<'_>, access: Access, session: &Session<'_>) -> bool {
    let access = match access {
        Access::Read => rustix::fs::Access::READ_OK,
        Access::Write => rustix::fs::Access::WRITE_OK,
        Access::Execute => rustix::fs::Access::EXEC_OK,
    };
    let ask = move |directory: BorrowedFd<'_>, name: &CStr| {
        rustix::fs::accessat(directory, name, access, AtFlags::empty())
    };
    matches!(entry.call_behind(session, ask), Ok(Ok(())))
}

fn is_empty(entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
    match entry.kind(session) {
        b'f' => entry.meta(session).is_ok_and(|meta| meta.stx_size == 0),
        // A directory that cannot be looked at is told of once, not again for every attempt.
        b'd' if entry.meta(session).is_err() => false,
        b'd' => match entry.call(session, has_no_names) {
            Ok(Ok(empty)) => empty,
            Ok(Err(error)) => {
                entry.report(session, error);
                false
            }
            Err(Stalled) => false,
        },
        _ => false,
    }
}

fn has_no_names(directory: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let mut buffer = Vec::with_capacity(4096);
    let mut listing = RawDir::new(&open, buffer.spare_capacity_mut());
    while let Some(found) = listing.next() {
        let found = match found {
            // Removed since it was opened.
            Err(Errno::NOENT) => return Ok(true),
            found => found?,
        };
        if found.file_name() != c"." && found.file_name() != c".." {
            return Ok(false);
        }
    }
    Ok(true)
}

fn act(action: &Action, entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
    match action {
        Action::Print(output, end) => {
            print::path(*output, *end, entry, session);
            true
        }
        Action::Printf(output, pieces) => print::format(*output, pieces, entry, session),
        Action::Ls(output) => print::list(*output, entry, session),
        Action::Exec(command) => exec::run(command, entry, session),
        Action::Delete => delete(entry, session),
        Action::Prune => {
            session.prunes = !session.parsed.contents_first;
            true
        }
        Action::Quit => {
            session.quits = true;
            true
        }
    }
}

fn delete(entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
    // The directory one stands in cannot be removed by this name; GNU find passes over it too.
    if entry.name == c"." {
        return true;
    }
    if entry.known.listed_kind == b'd' {
        // GNU find knows a folder's properties from its walk, and what comes next may use them.
        entry.look_ahead(session);
    }
    let listed_kind = entry.known.listed_kind;
    let deleted = entry.call(session, move |directory, name| {
        let unlink = |flags| rustix::fs::unlinkat(directory, name, flags);
        match listed_kind {
            b'd' => unlink(AtFlags::REMOVEDIR),
            _ => match unlink(AtFlags::empty()) {
                Err(Errno::ISDIR) => unlink(AtFlags::REMOVEDIR),
                result => result,
            },
        }
    });
    match deleted {
        Ok(Ok(())) => true,
        Ok(Err(Errno::NOENT)) if session.parsed.vanishing_is_fine => true,
        Err(Stalled) => false,
        Ok(Err(error)) => {
            crate::messages::error(format_args!(
                "cannot delete {}: {}",
                super::quote::quoted(entry.path),
                crate::messages::reason(&error.into())
            ));
            false
        }
    }
}
