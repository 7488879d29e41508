//! Searches objects of stores: streams, several at a time, printed in the order of their listing.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nearfirst::{Member, MemberError, Name, Order, Set, SetOptions, Spec};
use store::lock;

use super::asked::SortBy;
use super::held::{self, Held, Room};
use super::input::up_to_error;
use super::output::{FileOutput, Output};
use super::print::Outcome;
use super::search::Worker;
use super::settings::Settings;
use super::tree::Run;
use super::trouble::{Trouble, is_elsewhere};
use super::turns::Turns;
use super::walk::printed_path;
use crate::divide::together;
use crate::in_turn::InTurn;
use crate::sets::course::Course;
use crate::sets::decompress::Decompressor;
use crate::sets::local::Folder;
use crate::sets::{self, Sets, Tallied, Tally, progress};

/// Objects whose results wait for their turn, at most.
const AHEAD_MAX: usize = 256;

/// Searches the objects that operands stand for.
///
/// # Errors
/// An engine that cannot begin; those of standard output.
pub(super) fn search(run: &Run<'_>) -> anyhow::Result<()> {
    let settings = run.settings;
    let sets = open(settings)?;
    let specs = specs(settings, run.trouble);
    let set = Arc::new(filtered(sets.set_to_read(specs, options(settings)?), settings));
    let spill_folder = settings.fetching.spill_folder();
    let preprocesses = settings.asked.preprocessor.is_some();
    let copies = preprocesses.then(|| Folder::below(spill_folder.clone()).made()).transpose()?;
    let tally = Arc::new(Tally::default());
    let shown = progress::show(&set, &tally);
    // Without an order, who has no room waits for one other at a time, not for all that come before.
    let may_spill = !settings.asked.unordered;
    let room = Room::new(settings.budget_bytes, may_spill.then_some(spill_folder));
    let search = Search {
        run,
        set: &set,
        tally: &tally,
        decompressor: settings.asked.search_zip.then(Decompressor::default),
        next: Mutex::new(0),
        results: InTurn::new((!settings.asked.unordered).then_some(AHEAD_MAX)),
        turns: Turns::new(run.output, &room),
        copies: copies.as_ref(),
        course: Course::of(&sets),
    };
    together(settings.file_threads, || search.work());
    drop(shown);
    if settings.says_reading {
        sets::say_stats(sets.engine(), &tally);
    }
    Ok(search.results.into_written()?)
}

/// Prints the names of the objects that would be searched; whether there is one.
///
/// # Errors
/// An engine that cannot begin; those of standard output.
pub(super) fn list(
    settings: &Settings,
    output: &Output,
    trouble: &Trouble,
) -> anyhow::Result<bool> {
    if settings.paths.objects.is_empty() {
        return Ok(false);
    }
    let sets = open(settings)?;
    let mut any = false;
    let specs = specs(settings, trouble);
    for entry in filtered(sets.open_set(specs, options(settings)?), settings).digest() {
        match entry {
            Ok(entry) => {
                any = true;
                if settings.asked.quiet {
                    break;
                }
                let mut line = Vec::new();
                let path = printed_path(path(&entry.name), settings.asked.path_separator);
                settings.format.lines.style.path.write(&path, &mut line);
                line.push(settings.format.lines.path_terminator.unwrap_or(b'\n'));
                output.write_file(&line)?;
            }
            Err(error) => {
                let name = error.name();
                trouble.say(format_args!("{}: {}", sets::shown(&name), error.reason()));
            }
        }
    }
    Ok(any)
}

fn open(settings: &Settings) -> anyhow::Result<Sets> {
    let budget = settings.asked.budget_bytes;
    Sets::reading(&settings.stores, &settings.fetching, budget, settings.costs())
}

/// The specs of the operands; what cannot be understood is said.
fn specs(settings: &Settings, trouble: &Trouble) -> Vec<Spec> {
    sets::specs_or(settings.costs().local(), &settings.paths.objects, |error| {
        trouble.say(format_args!("{}: {}", sets::shown(&error.spec), error.reason));
    })
}

/// What is searched of a set: what was named as it stands, and what the filters take of the rest.
fn filtered(set: Set, settings: &Settings) -> Set {
    let filters = settings.filters.clone();
    if filters.is_empty() {
        return set;
    }
    let objects = settings.paths.objects.iter();
    let named = objects.flat_map(|operand| sets::names(operand)).collect();
    let costs = Arc::clone(settings.costs());
    set.subset(move |entry| filters.take_entry(entry, &named, &costs))
}

/// # Errors
/// Another order than sets have.
fn options(settings: &Settings) -> anyhow::Result<SetOptions> {
    let order = match settings.asked.sort {
        Some(sort) if sort.by == SortBy::Path && !sort.reverse => Order::Name,
        Some(_) => anyhow::bail!(
            "objects, and what patterns, lists and queries name, can be sorted by `--sort path` only"
        ),
        None if settings.asked.unordered => Order::Ready,
        None => Order::Listed,
    };
    Ok(SetOptions { order, ..SetOptions::default() })
}

fn path(name: &Name) -> &Path {
    Path::new(OsStr::from_bytes(name.as_bytes()))
}

/// A search by several threads.
struct Search<'a> {
    run: &'a Run<'a>,
    set: &'a Set,
    tally: &'a Arc<Tally>,
    decompressor: Option<Decompressor>,
    /// The number of the next member: held while it is waited for, so that numbers are in order.
    next: Mutex<usize>,
    results: InTurn<Done<'a>>,
    /// Where there is no order.
    turns: Turns<'a>,
    /// Files for the preprocessor.
    copies: Option<&'a Folder>,
    course: Course,
}

/// What became of a member.
struct Done<'a> {
    /// What was found in it and is not printed yet.
    found: Option<Held<'a>>,
    failed: Option<MemberError>,
}

impl<'a> Search<'a> {
    fn work(&self) {
        let Some(mut worker) = Worker::new(self.run.settings) else { return };
        while let Some((number, member)) = self.take() {
            let outcome = member.and_then(|member| self.one(&mut worker, number, member));
            let done = match outcome {
                Ok(Some((outcome, done))) => {
                    match &done.failed {
                        Some(_) => self.tally.failed(),
                        None => self.tally.done(),
                    }
                    if !self.run.note_object(&outcome) {
                        self.stop();
                    }
                    done
                }
                Ok(None) => return self.stop(),
                Err(error) => {
                    self.tally.failed();
                    Done { found: None, failed: Some(error) }
                }
            };
            self.deliver(number, done);
        }
    }

    fn take(&self) -> Option<(usize, Result<Member, MemberError>)> {
        let mut next = lock(&self.next);
        let member = self.course.next(self.set)?;
        *next += 1;
        Some((*next - 1, member))
    }

    /// Searches a member; returns what is still to be printed of it, or `None` if nothing more can be
    /// written or kept.
    fn one(
        &self,
        worker: &mut Worker<'_>,
        number: usize,
        member: Member,
    ) -> Result<Option<(Outcome, Done<'a>)>, MemberError> {
        let name = member.name().clone();
        // Whose turn it is prints what it finds at once.
        let printed = self.results.has_come(number);
        let held = self.turns.held();
        let in_order = TurnOf { results: &self.results, number };
        let turn: &dyn held::Turn = if self.is_unordered() { &self.turns } else { &in_order };
        let output =
            if printed { FileOutput::new(self.run.output) } else { FileOutput::held(&held, turn) };
        let searched = self.searched(worker, member, &output);
        let searched = searched.and_then(|outcome| output.write(worker.output()).map(|()| outcome));
        if searched.is_err() && self.is_unordered() {
            self.turns.give_up(&held);
        }
        match searched {
            Ok(mut outcome) => {
                let failed = outcome.failed.take().map(|error| MemberError::of(&name, error));
                let found = (!printed).then_some(held);
                Ok(Some((outcome, Done { found, failed })))
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe || is_elsewhere(&error) => {
                self.results.fail(error);
                Ok(None)
            }
            Err(error) => Err(MemberError::of(&name, error)),
        }
    }

    fn searched(
        &self,
        worker: &mut Worker<'_>,
        member: Member,
        output: &FileOutput<'_>,
    ) -> io::Result<Outcome> {
        let name = member.name().clone();
        if let Some((copies, program)) =
            self.copies.zip(self.run.settings.preprocessor(path(&name)))
        {
            let file = copies.file(member, self.tally).map_err(io::Error::other)?;
            return worker.search_program(path(&name), file.path(), output, program);
        }
        let counted = Tallied { member, tally: Arc::clone(self.tally) };
        let mut search = |reader: &mut dyn Read| worker.search_stream(path(&name), reader, output);
        match self.decompressor.as_ref().filter(|known| known.knows(&name)) {
            Some(decompressor) => {
                let text = decompressor.read(&name, counted)?;
                let outcome = up_to_error(&mut text.expect("it knows how"), search)?;
                Ok(worker.known(outcome, None))
            }
            None => search(&mut { counted }),
        }
    }

    fn is_unordered(&self) -> bool {
        self.run.settings.asked.unordered
    }

    /// Prints this result and those that waited for it.
    fn deliver(&self, number: usize, done: Done<'a>) {
        if self.is_unordered() {
            return self.deliver_now(done);
        }
        let print = |done: Done<'_>| {
            let printed = done.found.as_ref().map_or(Ok(()), Held::leave);
            self.say(done.failed.as_ref());
            printed
        };
        if !self.results.deliver(number, done, print) {
            self.stop();
        }
    }

    /// Prints this result where there is no order.
    fn deliver_now(&self, done: Done<'a>) {
        if let Some(Err(error)) = done.found.map(|found| self.turns.end(found)) {
            self.results.fail(error);
            self.stop();
        }
        self.say(done.failed.as_ref());
    }

    fn say(&self, failed: Option<&MemberError>) {
        if let Some(error) = failed {
            let (name, reason) = (sets::shown(&error.name), sets::reason(&error.cause));
            self.run.trouble.say(format_args!("{name}: {reason}"));
        }
    }

    fn stop(&self) {
        self.course.stop();
    }
}

/// The turn of the member of that number.
struct TurnOf<'a, 'b> {
    results: &'a InTurn<Done<'b>>,
    number: usize,
}

impl held::Turn for TurnOf<'_, '_> {
    fn has_come(&self) -> bool {
        self.results.has_come(self.number)
    }

    fn comes(&self) -> bool {
        self.results.comes(self.number)
    }
}
