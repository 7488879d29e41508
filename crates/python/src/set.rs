//! A set, for Python.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Wake as _;

use futures::StreamExt as _;
use nearfirst::{Engine, MemberError, Permissions, Recalls, SetOptions, Setup};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::bell::{Bell, Rope};
use crate::callback::{self, Callback, Trouble};
use crate::costs::save_now_and_then;
use crate::engine::Shared;
use crate::kept::Kept;
use crate::member::Member;
use crate::options;
use crate::owned::Owned;
use crate::spec::Spec;
use crate::stats::SetStats;
use crate::wait::{wait, wait_for_task};
use crate::waiting::Waiting;
use crate::{error, name};

/// An open dynamic set: unordered, immutable, without duplicates.
///
/// Every member satisfied its spec at some time in the set's life; once a
/// member, always a member; it is current, but not necessarily complete. Each
/// member is yielded once, to one of the threads that iterate. Nothing is
/// fetched before the first is asked for.
#[pyclass(frozen, weakref, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Set {
    /// Where it was opened.
    process: Owned<()>,
    open: Mutex<Option<Arc<Open>>>,
    /// Its rank and filter functions and its stores, and those of the sets that it is made of.
    kept: Vec<Py<Kept>>,
    yields_errors: bool,
    counts: Counts,
    /// The names yielded until it was closed.
    taken: OnceLock<Owned<nearfirst::Taken>>,
}

/// What was yielded so far.
#[derive(Debug, Default)]
struct Counts {
    members: AtomicU64,
    errors: AtomicU64,
    ended: AtomicBool,
}

impl Counts {
    fn count(&self, is_error: bool) {
        let of = if is_error { &self.errors } else { &self.members };
        of.fetch_add(1, Ordering::Relaxed);
    }
}

/// What an open set is made of.
#[derive(Debug)]
pub(crate) struct Open {
    /// `None` once it is dropped.
    set: Option<Owned<nearfirst::Set>>,
    closed: AtomicBool,
    grounds: Vec<Ground>,
    /// Of tasks that wait, which are told when it is closed.
    ropes: Mutex<BTreeMap<(usize, u64), Arc<Rope>>>,
    /// Of iterators over its names, which let go of it when it is closed.
    listings: Mutex<Vec<Weak<Owned<Mutex<Listing>>>>>,
}

/// What an iterator over names goes through, until the set is closed.
#[derive(Debug, Default)]
struct Listing {
    open: Option<Arc<Open>>,
    /// Of the next entry.
    index: usize,
}

/// What a set stands on, and those that are made of it.
#[derive(Debug, Clone)]
struct Ground {
    shared: Arc<Shared>,
    /// Of its rank or filter function.
    trouble: Option<Arc<Trouble>>,
}

impl Ground {
    /// What tells it from others.
    fn place(&self) -> (*const Shared, Option<*const Trouble>) {
        (Arc::as_ptr(&self.shared), self.trouble.as_ref().map(Arc::as_ptr))
    }
}

impl Open {
    pub(crate) fn set(&self) -> PyResult<&nearfirst::Set> {
        self.set.as_ref().expect("it is taken by drop only").get()
    }

    pub(crate) fn engine(&self) -> PyResult<&Engine> {
        self.grounds[0].shared.engine()
    }

    /// # Errors
    /// It was closed; a function of its raised; in a fork, which a signal handler may have made.
    pub(crate) fn goes_on(&self) -> PyResult<()> {
        self.set()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        self.grounds
            .iter()
            .flat_map(|ground| &ground.trouble)
            .try_for_each(|trouble| trouble.check())
    }

    fn ropes(&self) -> MutexGuard<'_, BTreeMap<(usize, u64), Arc<Rope>>> {
        locked(&self.ropes)
    }

    /// A task waits from now on, until it has left.
    pub(crate) fn joined(&self, rope: &Arc<Rope>) {
        self.ropes().insert(rope.place(), Arc::clone(rope));
    }

    pub(crate) fn left(&self, rope: &Rope) {
        self.ropes().remove(&rope.place());
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let ropes: Vec<_> = self.ropes().values().cloned().collect();
        ropes.into_iter().for_each(Rope::wake);
        let listings = std::mem::take(&mut *locked(&self.listings));
        let taken = |listing: Arc<Owned<Mutex<Listing>>>| {
            Some(std::mem::take(&mut *locked(listing.get().ok()?)))
        };
        let taken: Vec<Listing> =
            listings.iter().filter_map(Weak::upgrade).filter_map(taken).collect();
        detached(taken);
    }

    /// Waits for what is asked of the listing.
    fn told<T: Send + 'static>(
        &self,
        py: Python<'_>,
        asked: impl Future<Output = T> + Send + 'static,
    ) -> PyResult<T> {
        let (engine, goes_on) = (self.engine()?, || self.goes_on());
        let told = if self.set()?.is_complete() {
            wait(py, engine, goes_on, asked)
        } else {
            wait_for_task(py, engine, goes_on, asked)
        }?;
        self.goes_on()?;
        Ok(told)
    }

    /// Whether there is an entry at this place; waits until that is known.
    fn has_entry(&self, py: Python<'_>, index: usize) -> PyResult<bool> {
        let set = self.set()?;
        let is_known = py.detach(|| set.known() > index as u64);
        Ok(is_known || self.told(py, set.has_entry(index))?)
    }

    /// The names of a set, as they become known.
    fn listing(self: &Arc<Self>) -> PyResult<Arc<Owned<Mutex<Listing>>>> {
        self.set()?;
        let listing = Listing { open: Some(Arc::clone(self)), index: 0 };
        let listing = Arc::new(Owned::new(Mutex::new(listing)));
        let mut listings = locked(&self.listings);
        listings.retain(|listing| listing.strong_count() > 0);
        listings.push(Arc::downgrade(&listing));
        Ok(listing)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        detached(self.set.take());
    }
}

/// Drops what may close files, which may take time, while who had it last may hold the GIL.
fn detached<T: Send>(last: T) {
    Python::try_attach(|py| py.detach(|| drop(last)));
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> PyErr {
    PyValueError::new_err("the set is closed")
}

impl Set {
    fn new(
        set: nearfirst::Set,
        grounds: Vec<Ground>,
        kept: Vec<Py<Kept>>,
        yields_errors: bool,
    ) -> Self {
        let open = Open {
            set: Some(Owned::new(set)),
            closed: AtomicBool::new(false),
            grounds,
            ropes: Mutex::default(),
            listings: Mutex::default(),
        };
        Self {
            process: Owned::new(()),
            open: Mutex::new(Some(Arc::new(open))),
            kept,
            yields_errors,
            counts: Counts::default(),
            taken: OnceLock::new(),
        }
    }

    fn kept(&self, py: Python<'_>) -> Vec<Py<Kept>> {
        self.kept.iter().map(|object| object.clone_ref(py)).collect()
    }

    fn open(&self) -> PyResult<Arc<Open>> {
        callback::not_within_one()?;
        let open = locked(&self.open);
        let open = open.as_ref().map(Arc::clone).ok_or_else(closed)?;
        open.set()?;
        Ok(open)
    }

    /// All its members were yielded.
    pub(crate) fn ended(&self) {
        self.counts.ended.store(true, Ordering::Relaxed);
    }

    /// A member for Python, or the exception for its error.
    pub(crate) fn given(
        &self,
        py: Python<'_>,
        open: &Open,
        member: Result<nearfirst::Member, MemberError>,
    ) -> PyResult<Member> {
        self.counts.count(member.is_err());
        match member {
            Ok(member) => Ok(Member::new(member, open.engine()?.clone(), self.kept(py))),
            Err(error) if self.yields_errors => Ok(Member::failed(error)),
            Err(error) => Err(error::of_member(py, &error)),
        }
    }

    /// # Errors
    /// What could not be listed, where something was not found, unless errors are members.
    fn nothing_is_certain(&self, py: Python<'_>, open: &Open) -> PyResult<()> {
        let set = open.set()?;
        match py.detach(|| set.doubt()) {
            Some(error) if !self.yields_errors => Err(error::of_listing(py, &error)),
            _ => Ok(()),
        }
    }

    /// A set made of this one, and of a function if `more` has one.
    fn made(
        &self,
        py: Python<'_>,
        more: Option<(Ground, [Py<Kept>; 2])>,
        make: impl FnOnce(&nearfirst::Set) -> nearfirst::Set + Send,
    ) -> PyResult<Self> {
        let open = self.open()?;
        let this = open.set()?;
        let set = py.detach(|| make(this));
        let (mut kept, mut grounds) = (self.kept(py), open.grounds.clone());
        let (ground, function) = more.unzip();
        kept.extend(function.into_iter().flatten());
        grounds.extend(ground);
        Ok(Self::new(set, grounds, kept, self.yields_errors))
    }

    /// A set made of this one and another.
    fn joined(
        &self,
        py: Python<'_>,
        other: &Self,
        join: impl FnOnce(&nearfirst::Set, &nearfirst::Set) -> nearfirst::Set + Send,
    ) -> PyResult<Self> {
        let (ours, theirs) = (self.open()?, other.open()?);
        let (left, right) = (ours.set()?, theirs.set()?);
        let set = py.detach(|| join(left, right));
        let (mut kept, mut grounds) = (self.kept(py), ours.grounds.clone());
        kept.extend(other.kept(py));
        grounds.extend(theirs.grounds.iter().cloned());
        // Each once, as sets may be made of the same ones over and over; the first is the set's own.
        kept.sort_by_key(Py::as_ptr);
        kept.dedup_by_key(|object| object.as_ptr());
        grounds[1..].sort_by_key(Ground::place);
        grounds.dedup_by_key(|ground| ground.place());
        Ok(Self::new(set, grounds, kept, self.yields_errors))
    }
}

#[pymethods]
impl Set {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Member>> {
        let open = self.open()?;
        let mut members = pin!(open.set()?.stream());
        open.goes_on()?;
        let Some(member) = wait(py, open.engine()?, || open.goes_on(), members.next())? else {
            open.goes_on()?;
            self.ended();
            return Ok(None);
        };
        // What its functions raised meanwhile is the next call's: this member must not be lost.
        self.given(py, &open, member).map(Some)
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("nearfirst._asyncio")?.getattr("Members")?.call1((slf,))
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::__aiter__(slf)?.call_method0("__anext__")
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("nearfirst._asyncio")?.getattr("entered")?.call1((slf,))
    }

    fn __aexit__<'py>(
        slf: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        _value: &Bound<'py, PyAny>,
        _trace: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("nearfirst._asyncio")?.getattr("left")?.call1((slf,))
    }

    /// A place in the line for its members, for a task.
    fn _wait(slf: &Bound<'_, Self>, bell: &Bell) -> PyResult<Waiting> {
        let open = slf.get().open()?;
        Ok(Waiting::new(slf.clone().unbind(), open, bell))
    }

    /// How many members there are; waits for the listing to end.
    ///
    /// Where there is none, what could not be listed is raised, unless errors are yielded.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let open = self.open()?;
        let size = open.told(py, open.set()?.listed())?;
        if size == 0 {
            self.nothing_is_certain(py, &open)?;
        }
        Ok(usize::try_from(size)?)
    }

    /// Whether there is a member; waits for the first name.
    ///
    /// Where there is none, what could not be listed is raised, unless errors are yielded.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let open = self.open()?;
        let is_any = open.told(py, open.set()?.lists_any())?;
        if !is_any {
            self.nothing_is_certain(py, &open)?;
        }
        Ok(is_any)
    }

    /// Whether a name is a member; waits for the listing to meet it, or to end.
    ///
    /// Where it is not met, what could not be listed is raised, unless errors are yielded.
    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let open = self.open()?;
        let bytes = py.import("os")?.getattr("fsencode")?.call1((name,))?;
        let name = name::from_bytes(bytes.extract()?);
        let is_found = open.told(py, open.set()?.lists(&name))?;
        if !is_found {
            self.nothing_is_certain(py, &open)?;
        }
        Ok(is_found)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.kept.iter().try_for_each(|object| visit.call(object))
    }

    /// List the names as they become known, from the first; nothing is fetched.
    fn names(&self, py: Python<'_>) -> PyResult<Names> {
        let listing = self.open()?.listing()?;
        Ok(Names { listing, kept: self.kept(py), yields_errors: self.yields_errors })
    }

    /// Take the members of which `keep` is true: a new set.
    fn filter(&self, keep: Bound<'_, PyAny>) -> PyResult<Self> {
        let py = keep.py();
        if !keep.is_callable() {
            return Err(PyTypeError::new_err("filter takes a function of an entry"));
        }
        let (keep, function) = Callback::new(keep)?;
        let trouble = Some(keep.trouble());
        let predicate = keep.predicate();
        let shared = Arc::clone(&self.open()?.grounds[0].shared);
        let ground = Ground { shared, trouble };
        self.made(py, Some((ground, function)), |set| set.subset(predicate))
    }

    /// Evaluate the same specs anew: a new set, from the beginning.
    fn rewind(&self, py: Python<'_>) -> PyResult<Self> {
        self.made(py, None, nearfirst::Set::rewind)
    }

    /// What is in both: a new set.
    fn __and__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.joined(py, other, nearfirst::Set::intersection)
    }

    /// What is in either, both opened with the same stores, options of these and links allowed: a new set.
    fn __or__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let (left, right) = (self.open()?, other.open()?);
        if !left.grounds[0].shared.reads_as(py, &right.grounds[0].shared) {
            return Err(PyValueError::new_err(
                "a union is of sets that were opened with the same stores, storage_options and allow_private_links",
            ));
        }
        self.joined(py, other, nearfirst::Set::union)
    }

    /// What is in this and not in the other, which is listed whole first: a new set.
    fn __sub__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.joined(py, other, nearfirst::Set::difference)
    }

    /// How many names are known so far, what could not be listed among them.
    #[getter]
    fn known(&self, py: Python<'_>) -> PyResult<u64> {
        let open = self.open()?;
        let set = open.set()?;
        Ok(py.detach(|| set.known()))
    }

    /// What was fetched, and what is on its way.
    #[getter]
    fn stats(&self, py: Python<'_>) -> PyResult<SetStats> {
        let open = self.open()?;
        let set = open.set()?;
        Ok(py.detach(|| set.stats()).into())
    }

    /// The names yielded, as `open(order=...)` takes them; a closed set tells them, too.
    #[getter]
    fn order_taken<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyString>>> {
        self.process.get()?;
        let names = if let Some(taken) = self.taken.get() {
            let taken = taken.get()?;
            py.detach(|| taken.names())
        } else {
            let open = self.open()?;
            let set = open.set()?;
            py.detach(|| set.order_taken())
        };
        Ok(names.iter().map(|name| name::to_python(py, name)).collect())
    }

    /// Members and errors yielded, and whether all were.
    #[pyo3(name = "_progress")]
    fn progress(&self) -> (u64, u64, bool) {
        let Counts { members, errors, ended } = &self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(members), of(errors), ended.load(Ordering::Relaxed))
    }

    /// The devices that its engine fetches from: name, requests in flight, bytes per second.
    fn _devices(&self, py: Python<'_>) -> PyResult<Vec<(String, u32, f64)>> {
        let open = self.open()?;
        let engine = open.engine()?;
        let row = |device: &nearfirst::DeviceSnapshot| {
            let name = engine.device(device.device)?.name().to_owned();
            Some((name, device.in_flight, device.goodput))
        };
        Ok(py.detach(|| engine.snapshot().devices.iter().filter_map(row).collect()))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("nearfirst._display")?.getattr("set_")?.call1((slf,))
    }

    fn __repr__(&self) -> String {
        let (members, errors, ended) = self.progress();
        let open = locked(&self.open);
        let known = open.as_ref().map(|open| Some(open.set().ok()?.known()));
        let state = match (known, ended) {
            (None, _) => "closed".to_owned(),
            (Some(None), _) => "opened before a fork".to_owned(),
            (Some(Some(known)), false) => format!("{known} known so far"),
            (Some(Some(known)), true) => format!("all of {known}"),
        };
        format!("<nearfirst.Set {members} members and {errors} errors yielded, {state}>")
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        locked(&self.open).is_none()
    }

    /// Cancel what is on its way; members that were handed out stay.
    fn close(&self, py: Python<'_>) {
        // Who holds the lock must not wait for the GIL, which others may have who wait for the lock.
        let open = py.detach(|| {
            let mut open = locked(&self.open);
            if let Some(set) = open.as_ref().and_then(|open| open.set().ok()) {
                self.taken.get_or_init(|| Owned::new(set.taken_so_far()));
            }
            open.take()
        });
        if let Some(open) = open {
            open.close();
            save_now_and_then(py);
        }
    }

    fn __enter__(slf: Py<Self>) -> PyResult<Py<Self>> {
        slf.get().open()?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }
}

/// The names of a set, as they become known; threads may share them.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
pub(crate) struct Names {
    listing: Arc<Owned<Mutex<Listing>>>,
    kept: Vec<Py<Kept>>,
    yields_errors: bool,
}

#[pymethods]
impl Names {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.kept.iter().try_for_each(|object| visit.call(object))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        callback::not_within_one()?;
        let listing = self.listing.get()?;
        loop {
            let (open, index) = {
                let held = locked(listing);
                (held.open.clone().ok_or_else(closed)?, held.index)
            };
            open.goes_on()?;
            if !open.has_entry(py, index)? {
                return Ok(None);
            }
            let set = open.set()?;
            let next = py.detach(|| {
                let mut held = locked(listing);
                // Another thread took it meanwhile.
                let is_ours = held.index == index;
                held.index += usize::from(is_ours);
                is_ours.then(|| set.entry(index)).flatten()
            });
            match next {
                None => {}
                Some(Ok(entry)) => return Ok(Some(name::to_python(py, &entry.name))),
                Some(Err(_)) if self.yields_errors => {}
                Some(Err(error)) => return Err(error::of_listing(py, &error)),
            }
        }
    }
}

/// Opens a set; see `nearfirst.open`.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "they are Python's arguments, converted"
)]
pub(crate) fn open(
    py: Python<'_>,
    specs: Vec<Py<Spec>>,
    rank: Option<Bound<'_, PyAny>>,
    order: &str,
    replay: Option<Vec<Vec<u8>>>,
    duplicates: &str,
    budget: Option<u64>,
    jobs: Option<u32>,
    spill_bytes: Option<u64>,
    spill_folder: Option<PathBuf>,
    allow_programs: bool,
    allow_private_links: bool,
    storage: BTreeMap<String, String>,
    yields_errors: bool,
    stores: Vec<(String, Py<PyAny>)>,
    stall: Option<f64>,
    attempts: Option<u32>,
    recall_wait: Option<f64>,
) -> PyResult<Set> {
    callback::not_within_one()?;
    let order = options::order(order, replay)?;
    let duplicates = options::duplicates(duplicates)?;
    let storage = options::storage(storage)?;
    let stall = options::seconds("stall", stall)?;
    let recall_wait = options::seconds("wait", recall_wait)?;
    let setup = Setup {
        budget_bytes: budget,
        spill_bytes,
        spill_folder,
        window_max: jobs,
        attempts_max: attempts,
        stall,
        permissions: Permissions { programs: allow_programs, private_links: allow_private_links },
        storage,
    };
    let limits = setup.engine().limits;
    let (shared, mut kept) = Shared::with(py, setup, stores)?;
    let (rank, function) = rank.map(Callback::new).transpose()?.unzip();
    let trouble = rank.as_ref().map(Callback::trouble);
    let rank = rank.map(Callback::rank);
    let specs: Vec<_> = specs.iter().map(|spec| spec.get().0.clone()).collect();
    let engine = shared.engine()?;
    let recalls = recall_wait.map(|wait| Recalls::new(engine.stores(), &limits, wait));
    let options = SetOptions { order, rank, duplicates, recalls, ..SetOptions::default() };
    let set = py.detach(|| nearfirst::Set::open(engine, specs, options));
    kept.extend(function.into_iter().flatten());
    Ok(Set::new(set, vec![Ground { shared, trouble }], kept, yields_errors))
}
