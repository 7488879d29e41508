//! Objects of stores: what their listing tells is asked by the same tests as files are.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::SystemTime;

use nearfirst::{Costs, Error, Glob, Name, Set, Sled, Spec};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};

use super::entry::{Directory, Entry, Known};
use super::expr::{Action, Expr, Stamp, Test};
use super::printf::{Field, Piece};
use super::session::Session;
use super::{eval, walk};
use crate::asking::AskFlags;
use crate::sets::flags::StoreFlags;
use crate::sets::{self, Sets, listing};

/// Evaluates the expression for the objects of one start point after the other.
pub(super) struct Objects {
    sets: Sets,
    needs: Needs,
}

/// What the expression wants to know of an object beyond its name.
#[derive(Debug, Clone, Copy, Default)]
struct Needs {
    properties: bool,
    time: bool,
    costs: bool,
}

impl Objects {
    /// For an expression that asks only what objects can answer.
    ///
    /// # Errors
    /// A whole message: the test that has no answer, or what keeps stores from being opened.
    pub(super) fn new(
        expr: &Expr,
        stores: &StoreFlags,
        asking: &AskFlags,
        costs: &Arc<Costs>,
    ) -> Result<Self, String> {
        let mut needs = Needs::default();
        look_at(expr, &mut needs)?;
        let sets = Sets::open(stores, asking, costs);
        Ok(Self {
            sets: sets.map_err(|error| store::without_number(format_args!("{error:#}")))?,
            needs,
        })
    }

    /// Evaluates the expression for what a start point stands for: all objects below a name, or
    /// what a pattern, query, program or list gives.
    pub(super) fn run(&self, start: &OsStr, session: &mut Session<'_>) {
        let specs = self.sets.specs(&[start.to_owned()]);
        let [spec] = specs.as_slice() else { return };
        if let Spec::Glob(glob) = spec
            && let Some([name]) = glob.names().as_deref()
        {
            self.below(name, session);
        } else {
            say_all(&self.listed(&self.sets.listed(vec![spec.clone()]), 0, session));
        }
    }

    /// The object of a name, and all below it.
    fn below(&self, name: &Name, session: &mut Session<'_>) {
        let mut pattern = Glob::literal(name.as_bytes()).text().to_vec();
        if !pattern.ends_with(b"/") {
            pattern.push(b'/');
        }
        pattern.extend_from_slice(b"***");
        let whole = name.as_bytes().len();
        let itself = || self.sets.listed(vec![Spec::list([name.clone()])]);
        // Asked for as an object, a folder may say why nothing is below it.
        let is_folder = is_folder(name);
        let before = session.stats.entries;
        let mut missing =
            if is_folder { Vec::new() } else { self.listed(&itself(), whole, session) };
        if session.quits {
            return;
        }
        let at_below = session.stats.entries;
        let errors = self.listed(&self.sets.listed(vec![Spec::glob(&pattern)]), whole, session);
        if session.stats.entries > at_below {
            // What is no object, or not to be asked for as one, is a folder then.
            let is_wrong = |error: &&Arc<Error>| !says_little(error) && !is_refused(error);
            return say_all(missing.iter().filter(is_wrong).chain(&errors));
        }
        // That nothing is below it, or that nobody can be asked for that, says less than what is
        // wrong with the name itself.
        let errors = errors.iter().filter(|error| !says_little(error));
        if at_below > before {
            let is_denied = |error: &Error| matches!(error, Error::Denied { .. });
            return say_all(errors.filter(|error| !is_denied(error)));
        }
        if is_folder && (!is_bucket(name) || errors.clone().next().is_none()) {
            missing = self.listed(&itself(), whole, session);
            if session.stats.entries > at_below {
                return;
            }
        }
        // What is told of the name itself first: of the pattern the same is said with more words.
        let told = missing.iter().chain(errors.filter(|_| !name.as_bytes().ends_with(b"://")));
        let mut by_reason = BTreeMap::new();
        for error in told {
            by_reason.entry(error.reason()).or_insert(error);
        }
        say_all(by_reason.into_values());
    }

    /// Evaluates the expression for each member; returns what could not be listed.
    fn listed(
        &self,
        set: &Arc<Set>,
        start_len: usize,
        session: &mut Session<'_>,
    ) -> Vec<Arc<Error>> {
        let mut errors = Vec::new();
        let batches = listing::files_and_objects(set, |files, objects| {
            if session.quits {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            for file in files {
                let parsed = session.parsed;
                walk::Walk::new(parsed).run(OsStr::from_bytes(file.as_bytes()), session);
            }
            let described: Vec<_> = if self.needs.costs {
                listing::described(self.sets.engine(), self.sets.looks(), objects)
            } else {
                // An object that was only named is looked up: it may not be there.
                let is_open = |entry: &nearfirst::Entry| entry.size.is_none();
                let known = listing::looked_up(&self.sets, objects, is_open, None);
                known.into_iter().map(|item| item.map(|entry| (entry, Vec::new()))).collect()
            };
            for object in described {
                match object {
                    Ok((entry, sleds)) if !session.quits => {
                        self.evaluate(&entry, &sleds, start_len, session);
                    }
                    Ok(_) => {}
                    Err(error) => errors.push(error),
                }
            }
            Ok(())
        });
        // It is interrupted by `-quit`, and by nothing else.
        drop(batches);
        errors
    }

    fn evaluate(
        &self,
        object: &nearfirst::Entry,
        sleds: &[Sled],
        start_len: usize,
        session: &mut Session<'_>,
    ) {
        session.stats.entries += 1;
        let path = object.name.as_bytes();
        let depth = path[start_len.min(path.len())..]
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty())
            .count();
        let (min, max) = (session.parsed.min_depth, session.parsed.max_depth);
        if start_len > 0 && !(min..=max).contains(&depth) {
            return;
        }
        if (self.needs.properties && object.size.is_none())
            || (self.needs.time && object.modified.is_none())
        {
            return sets::say_of(
                &object.name,
                "its server does not say how large or how old it is",
            );
        }
        let Some(meta) = properties(object) else { return };
        let name = CString::new(object.name.file_name()).unwrap_or_default();
        let stats = &mut session.stats;
        let cost = self.needs.costs.then(|| session.costs.of_object(object, sleds, stats));
        let mut entry = Entry {
            path,
            start_len,
            depth,
            directory: &Directory::Current,
            directory_number: 0,
            name: &name,
            follow: false,
            may_stall: false,
            known: Known { listed_kind: b'f', meta: Some(Ok(meta)), cost, ..Known::default() },
        };
        eval::evaluate(&mut entry, session);
    }
}

/// Whether a URL names a bucket, server or folder, and no object by its looks.
fn is_folder(name: &Name) -> bool {
    is_bucket(name) || name.as_bytes().ends_with(b"/")
}

/// Whether a URL names a bucket or server alone.
fn is_bucket(name: &Name) -> bool {
    let authority_at = name.scheme().map_or(0, |scheme| scheme.len() + "://".len());
    let rest = &name.as_bytes()[authority_at..];
    let slash = rest.iter().position(|byte| *byte == b'/');
    !rest.is_empty() && slash.is_none_or(|at| at > 0 && at + 1 == rest.len())
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Denied { .. } | Error::NotAllowed { .. } | Error::Refused { .. })
}

fn says_little(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. } | Error::NamesNothing { .. } | Error::Unsupported { .. })
}

fn say_all<'a>(errors: impl IntoIterator<Item = &'a Arc<Error>>) {
    for error in errors {
        sets::say_of(&error.name(), error.reason());
    }
}

/// What is known of an object, as of a regular file.
fn properties(object: &nearfirst::Entry) -> Option<Statx> {
    /// `S_IFREG`, and the right to read it.
    const REGULAR_FILE: u16 = 0o100_444;
    // Only the kernel makes one: that of some file is filled in anew where an object has an answer.
    let mut meta =
        rustix::fs::statx(CWD, c"/", AtFlags::STATX_DONT_SYNC, StatxFlags::empty()).ok()?;
    meta.stx_mask = (StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME).bits();
    meta.stx_mode = REGULAR_FILE;
    meta.stx_size = object.size.unwrap_or(0);
    let modified = object.modified.unwrap_or(SystemTime::UNIX_EPOCH);
    (meta.stx_mtime.tv_sec, meta.stx_mtime.tv_nsec) = nearfirst::unix_parts(modified);
    Some(meta)
}

/// Notes what an expression needs; refuses what no object can answer.
fn look_at(expr: &Expr, needs: &mut Needs) -> Result<(), String> {
    match expr {
        Expr::Test(test) => look_at_test(test, needs),
        Expr::Action(action) => look_at_action(action, needs),
        Expr::Not(inner) => look_at(inner, needs),
        Expr::And(items) | Expr::Or(items) | Expr::List(items) => {
            items.iter().try_for_each(|item| look_at(item, needs))
        }
    }
}

fn look_at_test(test: &Test, needs: &mut Needs) -> Result<(), String> {
    let refused = |what: &str| Err(format!("objects have no {what}: that test is for files"));
    match test {
        Test::Constant(_) | Test::Name(_) | Test::Path(_) | Test::Regex(_) | Test::Type(_) => {}
        Test::Size(..) | Test::Empty => needs.properties = true,
        Test::Age(Stamp::Modify, _) | Test::Newer(Stamp::Modify, _) => needs.time = true,
        Test::Latency(_) | Test::Device(_) => needs.costs = true,
        Test::Age(..) | Test::Newer(..) | Test::Used(_) => {
            return refused("times but that of their last change");
        }
        Test::LinkTarget(_) | Test::OtherType(_) => return refused("links"),
        Test::Permission(_) | Test::Access(_) => return refused("permissions"),
        Test::User(_)
        | Test::Group(_)
        | Test::UserId(_)
        | Test::GroupId(_)
        | Test::NoUser
        | Test::NoGroup => return refused("owner that a test could name"),
        Test::Links(_) | Test::Inode(_) | Test::SameFile(_) => return refused("inode"),
        Test::FsType(_) => return refused("file system"),
    }
    Ok(())
}

fn look_at_action(action: &Action, needs: &mut Needs) -> Result<(), String> {
    match action {
        Action::Print(..) | Action::Quit => Ok(()),
        Action::Printf(_, pieces) => {
            pieces.iter().try_for_each(|piece| look_at_field(piece, needs))
        }
        Action::Exec(_) => {
            Err("-exec is for files: `nearfirst each` runs a command on objects".to_owned())
        }
        Action::Ls(_) => Err("-ls is for files: `nearfirst ls -l` lists objects".to_owned()),
        Action::Delete | Action::Prune => {
            Err("objects are neither deleted nor entered: -delete and -prune are for files"
                .to_owned())
        }
    }
}

fn look_at_field(piece: &Piece, needs: &mut Needs) -> Result<(), String> {
    let Piece::Field(_, field) = piece else { return Ok(()) };
    match field {
        Field::Time(Stamp::Modify) | Field::TimePart(Stamp::Modify, _) => needs.time = true,
        Field::Latency | Field::Device => needs.costs = true,
        Field::Letter(b's') => needs.properties = true,
        Field::Letter(b'p' | b'f' | b'h' | b'H' | b'P' | b'd' | b'y' | b'l') => {}
        Field::Time(_) | Field::TimePart(..) | Field::Letter(_) => {
            return Err(
                "objects have nothing to show for that part of the -printf format: they have \
                        %p %f %h %H %P %d %y %s %t %T, %{latency} and %{device}"
                    .to_owned(),
            );
        }
    }
    Ok(())
}
