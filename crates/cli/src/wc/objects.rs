//! Inputs that are objects of stores: listed as they become known, fetched ahead of their turn.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use nearfirst::{Entry, Error, Member, MemberError, Name, Order, Set, SetOptions, Spec};

use super::count::Encoding;
use super::files::Input;
use super::quote;
use crate::sets::{self, Sets, Tally, listing, progress};

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

/// The objects of specs, each with its bytes, in that order.
pub(super) fn inputs(
    sets: &Sets,
    specs: Vec<Spec>,
    order: Order,
    encoding: Encoding,
    tally: &Arc<Tally>,
) -> impl Iterator<Item = Input> + Send + use<> {
    let options = SetOptions { order, ..SetOptions::default() };
    let set = Arc::new(sets.set_to_read(specs, options));
    let (shown, tally) = (progress::show_beside_output(&set, tally), Arc::clone(tally));
    std::iter::from_fn(move || {
        let _while_it_lasts = &shown;
        let Some(member) = set.next() else {
            tally.ends(set.known());
            return None;
        };
        match &member {
            Err(_) => tally.failed(),
            // Who counts files knows of no tally.
            Ok(member) if member.name().path().is_some() => {
                tally.read(member.size().unwrap_or(0));
                tally.done();
            }
            Ok(_) => {}
        }
        Some(input(member, encoding))
    })
}

fn input(member: Result<Member, MemberError>, encoding: Encoding) -> Input {
    let name = OsStr::from_bytes(name_of(&member).as_bytes()).to_owned();
    match member {
        // What is counted of a file is for those who know files.
        Ok(member) if member.name().path().is_some() => Input::File(name),
        Err(MemberError { cause, .. }) => Input::Bad(complaint(&name, &cause, encoding)),
        Ok(member) => Input::Object(Object { name, content: Content::Bytes(Box::new(member)) }),
    }
}

/// The objects of specs with their sizes; only what its server tells no size of is fetched.
pub(super) fn sizes(
    sets: &Sets,
    specs: Vec<Spec>,
    encoding: Encoding,
) -> impl Iterator<Item = Input> + Send + use<> {
    let options = SetOptions { order: Order::Listed, ..SetOptions::default() };
    let (named, looks) = (sets.open_set(specs, options.clone()), sets.looks().clone());
    let source = move || listing::sized(looks.clone(), sets::entries(&named));
    let sized = Arc::new(Set::from_source(sets.engine(), Arc::new(source), options));
    let shown = progress::show_names_beside_output(&sized);
    let unsized_ones = sized.subset(|entry| entry.size.is_none() && entry.name.path().is_none());
    let mut entries = sized.digest();
    std::iter::from_fn(move || {
        let _while_it_lasts = (&sized, &shown);
        Some(by_size(entries.next()?, &unsized_ones, encoding))
    })
}

fn by_size(entry: Result<Entry, Arc<Error>>, unsized_ones: &Set, encoding: Encoding) -> Input {
    let (name, size) = match entry {
        Ok(Entry { name, size, .. }) => (name, size),
        Err(error) => {
            let name = error.name();
            return Input::Bad(complaint(OsStr::from_bytes(name.as_bytes()), &error, encoding));
        }
    };
    let text = OsStr::from_bytes(name.as_bytes()).to_owned();
    match size {
        _ if name.path().is_some() => Input::File(text),
        Some(size) => Input::Object(Object { name: text, content: Content::Size(size) }),
        // What could not be listed has a place there as well.
        None => {
            let mut members = unsized_ones.iter();
            let member = members.find(|member| name_of(member) == &name);
            input(member.expect("both are in the order of the listing"), encoding)
        }
    }
}

fn name_of(member: &Result<Member, MemberError>) -> &Name {
    match member {
        Ok(member) => member.name(),
        Err(error) => &error.name,
    }
}

pub(super) fn complaint(name: &OsStr, cause: &Error, encoding: Encoding) -> String {
    let name = quote::redacted(name);
    format!("{}: {}", quote::quoted(&name, encoding), sets::reason(cause))
}
