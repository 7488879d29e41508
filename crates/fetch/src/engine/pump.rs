//! Lists what a set wants, as far ahead as the scheduler has room for.

use std::ops::Range;
use std::sync::Weak;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use sled::Device;
use store::{Entry, Error, Places};
use tokio::sync::Notify;

use super::Inner;
use super::item::{Item, Source};
use super::state::State;
use crate::scheduler::{Contact, DeviceId, Event, Listing, MemberId, Origin, SetId};
use crate::sync::{AtomicI64, Ordering, lock};

/// Members that are listed at a time, if so many are known.
const BATCH: usize = 64;

/// A member that a set wants.
#[derive(Debug)]
pub struct Want {
    /// The object.
    pub entry: Entry,
    /// The application's priority: higher is sooner. A hint.
    pub rank: f64,
    /// What the set knows it by; comes back in [`super::Arrival::tag`].
    pub tag: u64,
    /// The parts that are wanted of a file of this machine, in file order, without overlap; empty:
    /// the whole. It is read from the first of them on, and so is an object of a store that sends
    /// bytes, of which all from there on is wanted.
    pub parts: Vec<Range<u64>>,
}

/// How many members more may be listed.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Below 0 where a batch was larger than the room there was.
    names: AtomicI64,
    more: Notify,
}

impl Room {
    pub(crate) fn add(&self, names: u32) {
        self.names.fetch_add(names.into(), Ordering::AcqRel);
        self.more.notify_one();
    }

    async fn wait(&self) {
        while self.names.load(Ordering::Acquire) <= 0 {
            self.more.notified().await;
        }
    }

    fn use_up(&self, names: usize) {
        let names = i64::try_from(names).expect("a batch is small");
        self.names.fetch_sub(names, Ordering::AcqRel);
    }
}

/// Lists until the wants end, the set is closed or the engine ends.
pub(crate) async fn run<S>(
    engine: Weak<Inner>,
    set: SetId,
    origin: Origin,
    room: std::sync::Arc<Room>,
    wants: S,
) where
    S: Stream<Item = Result<Want, (u64, Error)>> + Send + 'static,
{
    let mut wants = std::pin::pin!(wants.ready_chunks(BATCH));
    loop {
        room.wait().await;
        let batch = wants.next().await;
        let Some(engine) = engine.upgrade() else { return };
        let Some(batch) = batch else {
            engine.post([Event::ListingEnded { set }]);
            return;
        };
        room.use_up(batch.len());
        if !engine.list(set, origin, batch) {
            return;
        }
    }
}

impl Inner {
    /// Lists members; `false` if the set is closed.
    fn list(
        self: &std::sync::Arc<Self>,
        set: SetId,
        origin: Origin,
        batch: Vec<Result<Want, (u64, Error)>>,
    ) -> bool {
        let places = self.costs.local().places();
        let placed: Vec<_> = batch.into_iter().map(|want| self.placed(&places, want)).collect();
        let mut state = lock(&self.state);
        if !state.sets.contains_key(&set) {
            return false;
        }
        let now = self.costs.clock().now();
        let mut events = Vec::with_capacity(placed.len());
        for placed in placed {
            let member = MemberId(state.next_member);
            state.next_member += 1;
            events.push(self.listed(&mut state, (set, origin), member, placed));
        }
        state.tell_all(events, now);
        let after = self.carry_out(&mut state);
        drop(state);
        after.finish(&self.pool);
        true
    }

    /// Finds a want's store and device, which may take a look at mounts: not under the lock.
    fn placed(
        &self,
        places: &Places,
        want: Result<Want, (u64, Error)>,
    ) -> Result<Placed, (u64, Error)> {
        let Want { entry, rank, tag, parts } = want?;
        let store = match self.stores.of(&entry.name) {
            Ok(store) => store,
            Err(error) => return Err((tag, error)),
        };
        if let store::Tier::Cold { class } | store::Tier::Recalling { class } = &entry.tier {
            let class = class.to_string();
            return Err((tag, Error::Cold { name: entry.name, class }));
        }
        let Some(path) = store.file(&entry.name) else {
            let device = entry.device.clone().unwrap_or_else(|| store.device(&entry.name));
            return Ok(Placed { entry, rank, tag, parts, device, source: Source::Store(store) });
        };
        let place = places.by_name(&path);
        let may_stall = place.as_ref().is_none_or(|(_, backing)| backing.may_stall());
        let device = entry.device.clone().or_else(|| place.map(|(device, _)| device));
        let device = device.unwrap_or_else(|| store.device(&entry.name));
        let source = Source::File { path, may_stall };
        Ok(Placed { entry, rank, tag, parts, device, source })
    }

    fn listed(
        &self,
        state: &mut State,
        (set, origin): (SetId, Origin),
        member: MemberId,
        placed: Result<Placed, (u64, Error)>,
    ) -> Event {
        match placed {
            Ok(Placed { entry, rank, tag, parts, device, source }) => {
                let id = self.met(state, &device);
                let size = entry.size;
                let item = Item::new(tag, entry, source, Some((device, id)));
                let item = item.wanted(parts, origin);
                let (kind, from) = (item.kind(), item.start());
                let listing = Listing { device: id, kind, size, from, rank };
                state.items.insert(member, item.into());
                Event::Listed { set, member, listing }
            }
            Err((tag, error)) => {
                let item = Item::new(tag, Entry::named(error.name()), Source::Nowhere, None);
                item.set_error(error);
                state.items.insert(member, item.into());
                Event::Unlisted { set, member }
            }
        }
    }

    /// The number of a device; the scheduler is told of it first.
    pub(crate) fn met(&self, state: &mut State, device: &Device) -> DeviceId {
        let (id, terms) = state.devices.meet(device, &self.costs);
        if let Some(terms) = terms {
            let now = self.costs.clock().now();
            state.tell(Event::DeviceMet { device: id, terms }, now);
        }
        id
    }

    /// What the device takes for what is far, piece by piece; `None` where nobody knows.
    pub(crate) fn takes(&self, contact: &Contact) -> Option<Duration> {
        let device = lock(&self.state).devices.name(contact.device).cloned()?;
        let bytes = contact.far.iter().map(|far| far.end - far.start).sum();
        let estimate = self.costs.table().estimate(&device, bytes)?;
        let latencies = contact.far.len() as f64 * estimate.latency.p50;
        Duration::try_from_secs_f64(latencies + bytes as f64 / estimate.bandwidth.p50).ok()
    }
}

struct Placed {
    entry: Entry,
    rank: f64,
    tag: u64,
    parts: Vec<Range<u64>>,
    device: Device,
    source: Source,
}
