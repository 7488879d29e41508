//! Looks up, once and before the walk, what an expression names: reference
//! files, users and groups, dates in words.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{CWD, Statx};
use rustix::io::Errno;

use super::entry::{stat, time_of};
use super::expr::{Expr, Moment, Owner, Same, Stamp, Test};
use super::operand::digits;
use super::quote::quoted;
use super::time::Calendar;
use crate::messages;
use crate::reach::Reach;

/// Replaces every name in the expression by what it stands for. The error is a whole message.
pub(crate) fn resolve(
    expr: &mut Expr,
    reach: &Reach,
    calendar: &Calendar,
    now: i128,
) -> Result<(), String> {
    match expr {
        Expr::Test(test) => resolve_test(test, reach, calendar, now),
        Expr::Action(_) => Ok(()),
        Expr::Not(inner) => resolve(inner, reach, calendar, now),
        Expr::And(items) | Expr::Or(items) | Expr::List(items) => {
            items.iter_mut().try_for_each(|item| resolve(item, reach, calendar, now))
        }
    }
}

fn resolve_test(
    test: &mut Test,
    reach: &Reach,
    calendar: &Calendar,
    now: i128,
) -> Result<(), String> {
    match test {
        Test::Newer(_, moment) => *moment = Moment::At(at(moment, reach, calendar, now)?),
        Test::SameFile(same) => {
            if let Same::File { path, follow } = same {
                let meta = look(path, *follow, reach)?;
                let device = (meta.stx_dev_major, meta.stx_dev_minor);
                *same = Same::Is { device, inode: meta.stx_ino };
            }
        }
        Test::User(owner) => {
            let id = |name: &OsStr| uzers::get_user_by_name(name).map(|user| user.uid());
            *owner = Owner::Id(owner_id(owner, id, "is not the name of a known user")?);
        }
        Test::Group(owner) => {
            let id = |name: &OsStr| uzers::get_group_by_name(name).map(|group| group.gid());
            *owner = Owner::Id(owner_id(owner, id, "is not the name of an existing group")?);
        }
        _ => {}
    }
    Ok(())
}

fn look(path: &OsStr, follow: bool, reach: &Reach) -> Result<Statx, String> {
    let failed =
        |error: Errno| format!("{}: {}", quoted(path.as_bytes()), messages::reason(&error.into()));
    let name = CString::new(path.as_bytes()).map_err(|_| failed(Errno::INVAL))?;
    let found = reach.bounded(path.as_bytes(), move || stat(CWD, &name, follow));
    found
        .map_err(|error| format!("{}: {}", quoted(path.as_bytes()), error.reason()))?
        .map_err(failed)
}

fn at(moment: &Moment, reach: &Reach, calendar: &Calendar, now: i128) -> Result<i128, String> {
    match moment {
        Moment::At(nanoseconds) => Ok(*nanoseconds),
        Moment::File { path, stamp, follow } => {
            let meta = look(path, *follow, reach)?;
            time_of(&meta, *stamp).ok_or_else(|| {
                debug_assert_eq!(*stamp, Stamp::Birth);
                format!("cannot determine birth time of file {}", quoted(path.as_bytes()))
            })
        }
        Moment::Text(text) => {
            text.to_str().and_then(|words| calendar.read(words, now)).ok_or_else(|| {
                let shown = quoted(text.as_bytes());
                format!("I cannot figure out how to interpret {shown} as a date or time")
            })
        }
    }
}

/// A known name goes before a number.
fn owner_id(
    owner: &Owner,
    by_name: impl Fn(&OsStr) -> Option<u32>,
    unknown: &str,
) -> Result<u32, String> {
    match owner {
        Owner::Id(id) => Ok(*id),
        Owner::Named(name) => by_name(name)
            .or_else(|| u32::try_from(digits(name.as_bytes())?).ok())
            .ok_or_else(|| format!("{} {unknown}", quoted(name.as_bytes()))),
    }
}

/// Refuses `-execdir` where `PATH` would run programs out of the directories that are searched.
pub(crate) fn check_path(action: &str) -> Result<(), String> {
    let Some(path) = std::env::var_os("PATH") else { return Ok(()) };
    for part in path.as_bytes().split(|&byte| byte == b':') {
        if part.is_empty() || part == b"." {
            return Err(format!(
                "The current directory is included in the PATH environment variable, which is \
                 insecure in combination with the {action} action of find.  Please remove the \
                 current directory from your $PATH (that is, remove \".\", doubled colons, or \
                 leading or trailing colons)"
            ));
        }
        if part[0] != b'/' {
            return Err(format!(
                "The relative path {} is included in the PATH environment variable, which is \
                 insecure in combination with the {action} action of find.  Please remove that \
                 entry from $PATH",
                quoted(part)
            ));
        }
    }
    Ok(())
}
