//! Inputs that are objects of stores: listed as they become known, fetched ahead of their turn.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use nearfirst::{Entry, Error, Member, MemberError, Order, Set, SetOptions, Spec};

use super::count::Encoding;
use super::files::Input;
use super::quote;
use crate::sets::{self, Sets};

/// An object to be counted.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: OsString,
    /// What there is to count: what listing told, or the object's bytes.
    pub(super) content: Content,
}

/// What there is of an object.
#[derive(Debug)]
pub(super) enum Content {
    /// So many bytes, which is all that is asked for.
    Size(u64),
    /// Its bytes.
    Bytes(Box<Member>),
}

/// The objects of specs, each with its bytes, in the order of their listing.
pub(super) fn inputs(
    sets: &Sets,
    specs: Vec<Spec>,
    encoding: Encoding,
) -> impl Iterator<Item = Input> + Send + use<> {
    let options = SetOptions { order: Order::Listed, ..SetOptions::default() };
    let set = Arc::new(sets.set_to_read(specs, options));
    std::iter::from_fn(move || Some(input(set.next()?, encoding)))
}

fn input(member: Result<Member, MemberError>, encoding: Encoding) -> Input {
    let name = match &member {
        Ok(member) => member.name(),
        Err(error) => &error.name,
    };
    let name = OsStr::from_bytes(name.as_bytes()).to_owned();
    match member {
        // What is counted of a file is for those who know files.
        Ok(member) if member.name().path().is_some() => Input::File(name),
        Err(MemberError { cause, .. }) => Input::Bad(complaint(&name, &cause, encoding)),
        Ok(member) => Input::Object(Object { name, content: Content::Bytes(Box::new(member)) }),
    }
}

/// The objects of specs with their sizes; nothing is fetched.
pub(super) fn sizes(
    sets: &Sets,
    specs: Vec<Spec>,
    encoding: Encoding,
) -> impl Iterator<Item = Input> + Send + use<> {
    let set: Set =
        sets.open_set(specs, SetOptions { order: Order::Listed, ..SetOptions::default() });
    let (engine, looks) = (sets.engine().clone(), sets.looks().clone());
    set.digest().map(move |entry| {
        let asked = entry.and_then(|entry| match entry.size {
            None if entry.name.path().is_none() => {
                let _entered = engine.handle().enter();
                Ok(futures::executor::block_on(looks.entry(&entry.name))?)
            }
            _ => Ok(entry),
        });
        match asked {
            Ok(Entry { name, .. }) if name.path().is_some() => {
                Input::File(OsStr::from_bytes(name.as_bytes()).to_owned())
            }
            Ok(Entry { name, size: Some(size), .. }) => Input::Object(Object {
                name: OsStr::from_bytes(name.as_bytes()).to_owned(),
                content: Content::Size(size),
            }),
            // Its server does not say: what comes is counted.
            Ok(Entry { name, .. }) => {
                let set = Set::open(&engine, [Spec::list([name])], SetOptions::default());
                input(set.next().expect("it lists itself"), encoding)
            }
            Err(error) => {
                let name = error.name();
                Input::Bad(complaint(OsStr::from_bytes(name.as_bytes()), &error, encoding))
            }
        }
    })
}

pub(super) fn complaint(name: &OsStr, cause: &Error, encoding: Encoding) -> String {
    let name = quote::redacted(name);
    format!("{}: {}", quote::quoted(&name, encoding), sets::reason(cause))
}
