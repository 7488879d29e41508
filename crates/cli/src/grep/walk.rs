//! Which files a run searches.

use std::borrow::Cow;
use std::error::Error as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{iter, slice};

use anyhow::Context as _;
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::asked::{SortBy, TypeChange};
use super::filters::Filters;
use super::settings::Settings;
use super::trouble::Trouble;
use super::wary::Walks;
use crate::divide::together;
use crate::outcome::NO_THREADS;
use crate::{human, messages};

/// Files left out beside those of `.ignore`, as ripgrep does.
const RIPGREP_IGNORE_FILE: &str = ".rgignore";

/// All files to search, in the order that was asked for, or in that of their folders.
///
/// # Errors
/// Where no thread can be had.
pub(super) fn in_order<'a>(
    settings: &'a Settings,
    trouble: &'a Trouble,
) -> anyhow::Result<Box<dyn Iterator<Item = Haystack> + 'a>> {
    let all = settings.paths.all.as_slice();
    // Only a sort must see them all before the first.
    if settings.asked.sort.is_none() {
        return found(all, settings, trouble);
    }
    let mut haystacks = Vec::new();
    if settings.reach.is_wary() {
        for path in all {
            let mut under: Vec<_> = found(slice::from_ref(path), settings, trouble)?.collect();
            under.sort_by(|a, b| a.path().cmp(b.path()));
            haystacks.append(&mut under);
        }
    } else {
        haystacks.extend(found(all, settings, trouble)?);
    }
    Ok(Box::new(sort(haystacks, settings).into_iter()))
}

/// An error of the walk, with its path and its reason once.
fn told(error: &ignore::Error) -> String {
    let source = error.io_error().and_then(|error| error.source());
    match (path_of(error), source.and_then(|source| source.downcast_ref())) {
        (Some(path), Some(reason)) => {
            format!("{}: {}", human::name(path), messages::reason(reason))
        }
        _ => error.to_string(),
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        _ => None,
    }
}

/// The files to search under `paths`, as they are found.
fn found<'a>(
    paths: &[PathBuf],
    settings: &'a Settings,
    trouble: &'a Trouble,
) -> anyhow::Result<Box<dyn Iterator<Item = Haystack> + 'a>> {
    let haystack = |entry| Haystack::new(entry, settings, trouble);
    if settings.reach.is_wary() {
        let walks = Walks::new(paths, 1, settings, trouble)?;
        return Ok(Box::new(iter::from_fn(move || walks.next()).filter_map(haystack)));
    }
    let walk = builder(paths, settings, trouble).build();
    Ok(Box::new(walk.filter_map(haystack)))
}

/// Has several threads work on all that was named, each with a function of its own, until one of
/// these says that it is enough.
///
/// # Errors
/// That no thread can be started.
pub(super) fn in_parallel<'a, W>(
    settings: &'a Settings,
    trouble: &'a Trouble,
    worker: impl Fn() -> W + Sync,
) -> anyhow::Result<()>
where
    W: FnMut(Haystack) -> WalkState + Send + 'a,
{
    let haystack = |entry| Haystack::new(entry, settings, trouble);
    if settings.reach.is_wary() {
        let walks = Walks::new(&settings.paths.all, settings.threads, settings, trouble)?;
        together(settings.threads, || {
            let mut work = worker();
            while let Some(entry) = walks.next() {
                if haystack(entry).is_some_and(|haystack| matches!(work(haystack), WalkState::Quit))
                {
                    walks.end();
                }
            }
        });
        return Ok(());
    }
    let mut builder = builder(&settings.paths.all, settings, trouble);
    // The walk ends, or hangs, where it is given fewer than it counts on.
    let threads = store::threads_given(settings.threads, 1).context(NO_THREADS)?;
    builder.threads(threads).build_parallel().run(|| {
        let mut work = worker();
        Box::new(move |entry| haystack(entry).map_or(WalkState::Continue, &mut work))
    });
    Ok(())
}

/// The walk over `paths`.
pub(super) fn builder(paths: &[PathBuf], settings: &Settings, trouble: &Trouble) -> WalkBuilder {
    let asked = &settings.asked;
    let Filters { globs, types, .. } = settings.filters.clone();
    // No ignore file leaves out what was named, and what git ignores everywhere is slow to find.
    let finds_more = !settings.paths.is_one_file;
    let mut paths = paths.iter();
    let mut builder = WalkBuilder::new(paths.next().expect("there is always a path"));
    for path in paths {
        builder.add(path);
    }
    if !asked.no_ignore_files {
        for path in &asked.ignore_files {
            if let Some(error) = builder.add_ignore(path) {
                trouble.say_of_ignore_file(error);
            }
        }
    }
    builder
        .max_depth(asked.max_depth)
        .follow_links(asked.follow)
        .max_filesize(asked.max_filesize)
        .threads(settings.threads)
        .same_file_system(asked.one_file_system)
        .skip_stdout(asked.mode.is_search())
        .overrides(globs)
        .types(types)
        .hidden(!asked.hidden)
        .parents(!asked.no_ignore_parent)
        .ignore(!asked.no_ignore_dot)
        .git_global(finds_more && !asked.no_ignore_vcs && !asked.no_ignore_global)
        .git_ignore(!asked.no_ignore_vcs)
        .git_exclude(!asked.no_ignore_vcs && !asked.no_ignore_exclude)
        .require_git(!asked.no_require_git)
        .ignore_case_insensitive(asked.ignore_file_case_insensitive)
        .current_dir(&settings.current_folder);
    if !asked.no_ignore_dot {
        builder.add_custom_ignore_filename(RIPGREP_IGNORE_FILE);
    }
    if asked.sort.is_some_and(|sort| sort.by == SortBy::Path && !sort.reverse) {
        builder.sort_by_file_name(std::ffi::OsStr::cmp);
    }
    builder
}

/// The known file types with the changes of the command line.
///
/// # Errors
/// A definition or name that is not known.
pub(super) fn types(changes: &[TypeChange]) -> anyhow::Result<Types> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for change in changes {
        match change {
            TypeChange::Clear(name) => {
                builder.clear(name);
            }
            TypeChange::Add(definition) => {
                builder.add_def(definition)?;
            }
            TypeChange::Select(name) => {
                builder.select(name);
            }
            TypeChange::Negate(name) => {
                builder.negate(name);
            }
        }
    }
    Ok(builder.build()?)
}

/// A file to search.
#[derive(Debug)]
pub(super) struct Haystack {
    entry: DirEntry,
    strip_dot: bool,
}

impl Haystack {
    /// The entry, if it is one to search.
    pub(super) fn new(
        result: Result<DirEntry, ignore::Error>,
        settings: &Settings,
        trouble: &Trouble,
    ) -> Option<Haystack> {
        let entry = match result {
            Ok(entry) => entry,
            Err(error) => {
                trouble.say(told(&error));
                return None;
            }
        };
        if let Some(error) = entry.error() {
            trouble.say_of_ignore_file(error);
        }
        let haystack = Haystack { entry, strip_dot: settings.paths.is_default };
        let is_file = haystack.entry.file_type().is_some_and(|kind| kind.is_file());
        (haystack.is_named() || is_file).then_some(haystack)
    }

    /// The path, as it is opened.
    pub(super) fn path(&self) -> &Path {
        let path = self.entry.path();
        if self.strip_dot { path.strip_prefix("./").unwrap_or(path) } else { path }
    }

    /// Whether the user named this file, rather than a folder that holds it.
    pub(super) fn is_named(&self) -> bool {
        self.is_stdin() || (self.entry.depth() == 0 && !self.is_folder())
    }

    pub(super) fn is_stdin(&self) -> bool {
        self.entry.is_stdin()
    }

    fn is_folder(&self) -> bool {
        let Some(kind) = self.entry.file_type() else { return false };
        kind.is_dir() || (self.entry.path_is_symlink() && self.entry.path().is_dir())
    }
}

/// A path as it is printed.
pub(super) fn printed_path(path: &Path, separator: Option<u8>) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_bytes();
    match separator {
        None | Some(b'/') => Cow::Borrowed(bytes),
        Some(separator) => bytes
            .iter()
            .map(|byte| if *byte == b'/' { separator } else { *byte })
            .collect::<Vec<u8>>()
            .into(),
    }
}

/// Orders `haystacks` as `--sort` asks; by path ascending the walk is already.
fn sort(mut haystacks: Vec<Haystack>, settings: &Settings) -> Vec<Haystack> {
    let Some(sort) = settings.asked.sort else { return haystacks };
    if sort.by == SortBy::Path {
        if sort.reverse {
            haystacks.sort_by(|a, b| b.path().cmp(a.path()));
        }
        return haystacks;
    }
    let time = |haystack: &Haystack| {
        let path = haystack.path().to_owned();
        let look = move || path.metadata();
        let bytes = haystack.path().as_os_str().as_bytes();
        let metadata = settings.reach.bounded(bytes, look).ok()?.ok()?;
        match sort.by {
            SortBy::Accessed => metadata.accessed().ok(),
            SortBy::Created => metadata.created().ok(),
            SortBy::Modified | SortBy::Path => metadata.modified().ok(),
        }
    };
    let mut timed: Vec<_> = haystacks.into_iter().map(|h| (time(&h), h)).collect();
    // Files without a time come last; in reverse, first, as in ripgrep.
    timed.sort_by(|(a, _), (b, _)| {
        let order = a.is_none().cmp(&b.is_none()).then(a.cmp(b));
        if sort.reverse { order.reverse() } else { order }
    });
    timed.into_iter().map(|(_, haystack)| haystack).collect()
}
