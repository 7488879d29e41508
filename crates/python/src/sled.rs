//! Sleds and delivery times, for Python.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use nearfirst::{Cost, Engine, Error, Limits, Looks, Name, Place, Plan, Setup};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::apart;
use crate::costs::{costs, costs_and_warnings};
use crate::engine::Shared;
use crate::error;
use crate::kept::Kept;
use crate::options;
use crate::wait::wait;

/// A byte range of a file with one estimate.
#[pyclass(frozen, get_all, eq, module = "nearfirst")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sled {
    /// First byte.
    offset: u64,
    /// Bytes; never 0.
    length: u64,
    /// Where it would be fetched from: `memory`, `disk:vda`, `nfs:host:/export`.
    device: String,
    /// How far away it is.
    place: &'static str,
    /// Seconds to the first byte, in the median; `None` where nobody knows.
    latency: Option<f64>,
    /// Seconds to the first byte that nine in ten do not exceed.
    latency_p90: Option<f64>,
    /// Bytes per second once flowing, in the median; `None` where that is not known.
    bandwidth: Option<f64>,
    /// Bytes per second that nine in ten reach.
    bandwidth_p90: Option<f64>,
}

/// Latency and bandwidth of a sled, and of either what nine in ten keep.
type Estimate = (Option<f64>, Option<f64>, Option<f64>, Option<f64>);
/// A function and its arguments.
pub(crate) type Call<'py, T> = (Bound<'py, PyAny>, T);
/// A sled as it is pickled.
type Pickled = (u64, u64, String, &'static str, Estimate);

impl From<&nearfirst::Sled> for Sled {
    fn from(sled: &nearfirst::Sled) -> Self {
        let estimate = sled.estimate;
        let bandwidth = estimate.and_then(|estimate| estimate.known_bandwidth());
        Self {
            offset: sled.offset,
            length: sled.length,
            device: sled.device.name().to_owned(),
            place: place_word(sled.place),
            latency: estimate.map(|estimate| estimate.latency.p50),
            latency_p90: estimate.map(|estimate| estimate.latency.p90),
            bandwidth: bandwidth.map(|bandwidth| bandwidth.p50),
            bandwidth_p90: bandwidth.map(|bandwidth| bandwidth.p90),
        }
    }
}

impl Sled {
    fn pickled(&self) -> Pickled {
        let sled = self.clone();
        let cost = (sled.latency, sled.latency_p90, sled.bandwidth, sled.bandwidth_p90);
        (sled.offset, sled.length, sled.device, sled.place, cost)
    }
}

#[pymethods]
impl Sled {
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("nearfirst._display")?.getattr("sleds")?.call1(([slf],))
    }

    /// As it was pickled.
    #[staticmethod]
    fn _unpickled(
        offset: u64,
        length: u64,
        device: String,
        place: &str,
        cost: Estimate,
    ) -> PyResult<Self> {
        let places = [Place::Near, Place::Far, Place::Unknown, Place::Cold].map(place_word);
        let place = places.into_iter().find(|known| *known == place);
        let place = place.ok_or_else(|| PyValueError::new_err("no place of a sled"))?;
        let (latency, latency_p90, bandwidth, bandwidth_p90) = cost;
        Ok(Self { offset, length, device, place, latency, latency_p90, bandwidth, bandwidth_p90 })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Call<'py, Pickled>> {
        Ok((py.get_type::<Self>().getattr("_unpickled")?, self.pickled()))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.pickled().into_pyobject(py)?.hash()
    }

    fn __repr__(&self) -> String {
        let Self { offset, length, device, place, .. } = self;
        format!("<nearfirst.Sled {offset}+{length} {place} on {device}>")
    }
}

/// Estimated time to read a whole file.
#[pyclass(frozen, get_all, eq, module = "nearfirst")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeliveryTime {
    /// Seconds for the part whose cost is known, in the median.
    p50: f64,
    /// Seconds for the part whose cost is known that nine in ten do not exceed.
    p90: f64,
    /// Bytes whose cost nobody knows; they come on top.
    unknown_bytes: u64,
    /// Bytes that must be recalled first.
    cold_bytes: u64,
}

impl From<nearfirst::DeliveryTime> for DeliveryTime {
    fn from(time: nearfirst::DeliveryTime) -> Self {
        let nearfirst::DeliveryTime { p50, p90, unknown_bytes, cold_bytes } = time;
        Self { p50, p90, unknown_bytes, cold_bytes }
    }
}

impl DeliveryTime {
    fn pickled(&self) -> (f64, f64, u64, u64) {
        (self.p50, self.p90, self.unknown_bytes, self.cold_bytes)
    }
}

#[pymethods]
impl DeliveryTime {
    /// Whether the times cover all of the file.
    #[getter]
    fn is_known(&self) -> bool {
        self.unknown_bytes == 0
    }

    /// As it was pickled.
    #[staticmethod]
    fn _unpickled(p50: f64, p90: f64, unknown_bytes: u64, cold_bytes: u64) -> Self {
        Self { p50, p90, unknown_bytes, cold_bytes }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Call<'py, (f64, f64, u64, u64)>> {
        Ok((py.get_type::<Self>().getattr("_unpickled")?, self.pickled()))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.pickled().into_pyobject(py)?.hash()
    }

    fn __repr__(&self) -> String {
        let Self { p50, p90, unknown_bytes, cold_bytes } = self;
        format!(
            "<nearfirst.DeliveryTime p50={p50:.6} p90={p90:.6} unknown_bytes={unknown_bytes} cold_bytes={cold_bytes}>"
        )
    }
}

/// The word for a place.
pub(crate) fn place_word(place: Place) -> &'static str {
    match place {
        Place::Near => "near",
        Place::Far => "far",
        Place::Unknown => "unknown",
        Place::Cold => "cold",
    }
}

/// The path of a file of this machine.
///
/// # Errors
/// Of another URL: only what is a file of this machine is read in pieces.
pub(crate) fn local(name: &Name) -> Result<&Path, Error> {
    let reason = "files of this machine are read in pieces, not objects of servers";
    name.file_path().ok_or_else(|| Error::unsupported(name.redacted(), reason))
}

/// The sleds of an object: of a path without an engine, of a URL by asking its store.
fn described(py: Python<'_>, name: &[u8], asked: Asked) -> PyResult<Vec<nearfirst::Sled>> {
    let name = Name::new(name);
    let setup = asked.setup()?;
    if let Some(path) = name.path() {
        costs_and_warnings(py)?;
        return found(py, path)?.map_err(|error| error::of(py, &error.name(), &error));
    }
    let stall = setup.stall();
    let (shared, _kept) = Shared::with(py, setup, asked.stores)?;
    of_url(py, &name, shared.engine()?, stall)
}

/// The sleds of a file.
///
/// # Errors
/// No threads; what a signal handler raises.
fn found(py: Python<'_>, path: &Path) -> PyResult<Result<Vec<nearfirst::Sled>, Error>> {
    let (costs, asked) = (costs(py)?, path.to_owned());
    apart::asked(py, apart::may_stall(py, path)?, move || costs.path_sleds(&asked))
}

fn of_url(
    py: Python<'_>,
    name: &Name,
    engine: &Engine,
    stall: Duration,
) -> PyResult<Vec<nearfirst::Sled>> {
    let looks = looks(engine, stall);
    let found =
        wait(py, engine, || Ok(()), async { of_entry(&looks, &looks.entry(name).await?).await })?;
    found.map_err(|error| error::of(py, name, &error))
}

/// Asks what objects are, each store for so long.
fn looks(engine: &Engine, stall: Duration) -> Looks {
    Looks::new(engine.stores(), &Limits::default()).answered_within(stall)
}

/// The cost of an object that is only named.
async fn cost_of(looks: &Looks, name: &Name) -> Result<Cost, Error> {
    let entry = looks.entry(name).await?;
    Ok(entry.cost(&looks.sleds(&entry).await?, Plan::Best))
}

/// The sleds of an object that its store told of; none of an empty one, as of a file.
///
/// # Errors
/// Those of its store; also that it does not tell the size.
pub(crate) async fn of_entry(
    looks: &Looks,
    entry: &nearfirst::Entry,
) -> Result<Vec<nearfirst::Sled>, Error> {
    if entry.size.is_none() {
        let reason = nearfirst::Reason::SizeUntoldByServer.to_string();
        return Err(Error::unsupported(entry.name.clone(), reason));
    }
    let mut sleds = looks.sleds(entry).await?;
    sleds.retain(|sled| sled.length > 0);
    Ok(sleds)
}

/// How a name is asked about that is no path.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    #[pyo3(item)]
    storage: BTreeMap<String, String>,
    #[pyo3(item)]
    stores: Vec<(String, Py<PyAny>)>,
    #[pyo3(item)]
    stall: Option<f64>,
}

impl Asked {
    /// What an engine for it is made with.
    ///
    /// # Errors
    /// A storage option that no store knows; no time that can be waited for.
    fn setup(&self) -> PyResult<Setup> {
        let storage = options::storage(self.storage.clone())?;
        let stall = options::seconds("stall", self.stall)?;
        Ok(Setup { storage, stall, ..Setup::default() })
    }
}

/// Where the parts of an object are; see `nearfirst.sleds`.
#[pyfunction]
pub(crate) fn sleds(py: Python<'_>, name: &[u8], asked: Asked) -> PyResult<Vec<Sled>> {
    Ok(described(py, name, asked)?.iter().map(Sled::from).collect())
}

/// Names asked about at a time: a server answers many at once.
const ASKED_AT_ONCE: usize = 32;

/// What reading many objects costs, as numbers that sort as the costs do; of URLs by one engine.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Keys {
    setup: Setup,
    stores: Vec<(String, Py<PyAny>)>,
    /// Made for the first URL, with what keeps its stores.
    engine: OnceLock<(Arc<Shared>, Vec<Py<Kept>>)>,
}

#[pymethods]
impl Keys {
    #[new]
    fn new(py: Python<'_>, asked: Asked) -> PyResult<Self> {
        costs_and_warnings(py)?;
        Ok(Self { setup: asked.setup()?, stores: asked.stores, engine: OnceLock::new() })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.stores.iter().try_for_each(|(_, store)| visit.call(store))?;
        let kept = self.engine.get().map(|(_, kept)| kept);
        kept.into_iter().flatten().try_for_each(|object| visit.call(object))
    }

    /// Whether a name is a file's of this machine, and not a URL.
    #[staticmethod]
    fn is_path(name: &[u8]) -> bool {
        Name::new(name).path().is_some()
    }

    /// That of a file; 0 if it is wholly in memory.
    #[staticmethod]
    fn of_path(py: Python<'_>, name: &[u8]) -> PyResult<u64> {
        let asked = found(py, Path::new(OsStr::from_bytes(name)))?;
        Ok(asked.map_or(Cost::Unasked, |sleds| cost(&sleds)).key())
    }

    /// Those of objects, asked side by side, each with why it cannot be asked about.
    fn of_urls(
        &self,
        py: Python<'_>,
        names: Vec<Vec<u8>>,
    ) -> PyResult<Vec<(u64, Option<Py<PyAny>>)>> {
        let engine = self.shared(py)?.engine()?;
        let names: Vec<_> = names.into_iter().map(Name::new).collect();
        let looks = looks(engine, self.setup.stall());
        let asked = names.iter().map(|name| cost_of(&looks, name));
        let asked = stream::iter(asked).buffered(ASKED_AT_ONCE).collect::<Vec<_>>();
        let found = wait(py, engine, || Ok(()), asked)?;
        let told = |(name, found): (&Name, Result<Cost, Error>)| match found {
            Ok(cost) => (cost.key(), None),
            Err(error) => {
                let error = error::of(py, name, &error).into_value(py).into_any();
                (Cost::Unasked.key(), Some(error))
            }
        };
        Ok(names.iter().zip(found).map(told).collect())
    }
}

impl Keys {
    /// The engine, which is made for the first URL.
    fn shared(&self, py: Python<'_>) -> PyResult<&Arc<Shared>> {
        if let Some((shared, _)) = self.engine.get() {
            return Ok(shared);
        }
        let stores =
            self.stores.iter().map(|(scheme, store)| (scheme.clone(), store.clone_ref(py)));
        let made = Shared::with(py, self.setup.clone(), stores.collect())?;
        Ok(&self.engine.get_or_init(|| made).0)
    }
}

fn cost(sleds: &[nearfirst::Sled]) -> Cost {
    Cost::of(sleds, Plan::Best)
}

/// How long reading an object takes; see `nearfirst.delivery_time`.
#[pyfunction]
pub(crate) fn delivery_time(
    py: Python<'_>,
    name: &[u8],
    plan: &str,
    asked: Asked,
) -> PyResult<DeliveryTime> {
    let plan = plan_of(plan)?;
    Ok(nearfirst::delivery_time(&described(py, name, asked)?, plan).into())
}

/// A plan by its name.
///
/// # Errors
/// Another word.
pub(crate) fn plan_of(word: &str) -> PyResult<Plan> {
    match word {
        "best" => Ok(Plan::Best),
        "linear" => Ok(Plan::Linear),
        other => Err(PyValueError::new_err(format!("plan is 'best' or 'linear', not {other:?}"))),
    }
}
