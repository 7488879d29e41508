//! The consumers' end of a set: hands out members as they arrive, each once.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::{FutureExt as _, Stream};
use store::{Entry, Error};

use super::arrivals::{Arrivals, Delivered, Here};
use super::blocking::blocking;
use super::pump::{self, Room, Want};
use super::reader::Near;
use super::state::{SetState, State};
use super::{Engine, Inner};
use crate::panic;
use crate::scheduler::{Delivery, Event, SetId, SetTerms};
use crate::sync::{MutexGuard, lock};

/// The members of one set as they arrive.
///
/// Several threads may take from it at once: each member goes to one of them.
/// Dropped, it cancels what is on its way; members that were handed out stay
/// their readers'.
#[derive(Debug)]
pub struct Feed {
    engine: Arc<Inner>,
    set: SetId,
    arrivals: Arc<Arrivals>,
    pump: tokio::task::AbortHandle,
}

/// A task's place among the consumers that wait: each of those asks for a member of its own.
#[derive(Debug, Default)]
pub struct Turn {
    place: Option<u64>,
    waits: bool,
}

impl Turn {
    /// Its task was given a member, and waits for the next one at the end of the line.
    pub fn served(&mut self) {
        self.place = None;
    }

    fn end(&mut self, here: &mut Here) {
        if std::mem::take(&mut self.waits) {
            here.task_left(self.place.expect("who waits has a place"));
        }
    }
}

/// A member that arrived, or what kept it away.
#[derive(Debug)]
pub struct Arrival {
    /// The object: its version is the one whose bytes are here.
    pub entry: Entry,
    /// What the set knows it by.
    pub tag: u64,
    /// Its data.
    pub near: Result<Near, Arc<Error>>,
}

impl Engine {
    /// Begins a set of these wants; nothing is fetched before the first member is asked for.
    ///
    /// An error among them is a member that cannot be listed, by its tag: it is
    /// delivered as one that cannot be read.
    pub fn open<S>(&self, wants: S, terms: SetTerms) -> Feed
    where
        S: Stream<Item = Result<Want, (u64, Error)>> + Send + 'static,
    {
        let engine = Arc::clone(&self.0);
        let room = Arc::<Room>::default();
        let arrivals = Arc::<Arrivals>::default();
        let mut state = lock(&engine.state);
        let set = SetId(state.next_set);
        state.next_set += 1;
        let arrivals_of = Arc::clone(&arrivals);
        let fresh = SetState { asked: 0, arrivals: arrivals_of, room: Arc::clone(&room) };
        state.sets.insert(set, fresh);
        state.tell(Event::SetOpened { set, terms }, engine.costs.clock().now());
        let after = engine.carry_out(&mut state);
        drop(state);
        after.finish(&engine.pool);
        let pump = pump::run(Arc::downgrade(&engine), set, terms.origin, room, wants);
        let pump = ended(Arc::downgrade(&engine), set, Arc::clone(&arrivals), pump);
        let pump = engine.handle.spawn(pump).abort_handle();
        Feed { engine, set, arrivals, pump }
    }
}

/// Lists, and ends the set where that panics: its consumers would wait for ever.
async fn ended(
    engine: Weak<Inner>,
    set: SetId,
    arrivals: Arc<Arrivals>,
    pump: impl Future<Output = ()> + Send,
) {
    if let Err(panic) = AssertUnwindSafe(pump).catch_unwind().await {
        arrivals.lock().panicked(panic::text(&*panic));
        if let Some(engine) = engine.upgrade() {
            engine.post([Event::ListingEnded { set }]);
        }
    }
}

impl Feed {
    /// The next member that is ready, waiting for it; `None` after the last.
    ///
    /// # Panics
    /// At the end, if what lists or ranks the names panicked, or what says where they lie.
    pub fn next(&self) -> Option<Arrival> {
        match self.look() {
            Ok(arrival) => return arrival,
            Err(here) => drop(here),
        }
        blocking(|| self.waited_for())
    }

    fn waited_for(&self) -> Option<Arrival> {
        loop {
            match self.look() {
                Ok(arrival) => return arrival,
                // What was asked for may go to a consumer that comes later: then this one asks again.
                Err(here) => self.arrivals.wait(here),
            }
        }
    }

    /// As [`Feed::next`], for a task, which keeps `turn` from one poll to the next, and its place
    /// in the line until the turn is [served](Turn::served).
    ///
    /// Who was woken polls again or [leaves](Feed::leave): no other is woken for the same member.
    pub fn poll_next(&self, context: &Context<'_>, turn: &mut Turn) -> Poll<Option<Arrival>> {
        turn.end(&mut self.arrivals.lock());
        match self.look() {
            Ok(arrival) => Poll::Ready(arrival),
            Err(mut here) => {
                turn.waits = true;
                turn.place = Some(here.task_waits(context.waker(), turn.place));
                Poll::Pending
            }
        }
    }

    /// A task that polled does not wait any more: what it asked for, or was woken for, is another's.
    pub fn leave(&self, turn: &mut Turn) {
        let waited = turn.waits;
        turn.end(&mut self.arrivals.lock());
        turn.served();
        self.arrivals.wake();
        if waited {
            self.unask();
        }
    }

    /// A consumer waits no more: no more is asked for than the others wait for. Who is about to wait
    /// asks again.
    fn unask(&self) {
        let mut state = lock(&self.engine.state);
        let Some(set) = state.sets.get_mut(&self.set) else { return };
        let wanted = set.asked.min(self.arrivals.lock().lacking());
        let given_up = set.asked - wanted;
        set.asked = wanted;
        let now = self.engine.costs.clock().now();
        state.tell_all(std::iter::repeat_n(Event::Unasked { set: self.set }, given_up), now);
        let after = self.engine.carry_out(&mut state);
        drop(state);
        after.finish(&self.engine.pool);
    }

    /// Has a task that waits look again, for something else than a member that is here.
    pub fn wake_task(&self) {
        self.arrivals.wake_task();
    }

    /// The next member if one is here, `None` after the last. Else one was
    /// asked for, for each consumer that waits and for this one; what is here
    /// stays locked, so that nothing arrives unseen before the caller waits.
    fn look(&self) -> Result<Option<Arrival>, MutexGuard<'_, Here>> {
        loop {
            let mut here = self.arrivals.lock();
            if let Poll::Ready(found) = self.found(&mut here) {
                let are_short = found.is_some() && here.lacking() > 0;
                drop(here);
                if are_short {
                    self.ask_for_others();
                }
                return Ok(found);
            }
            drop(here);
            let state = lock(&self.engine.state);
            let Some(set) = state.sets.get(&self.set) else { return Ok(None) };
            let here = self.arrivals.lock();
            // What has come meanwhile is taken by the next look.
            if here.is_still() {
                if set.asked > here.waiting() {
                    return Err(here);
                }
                drop(here);
                self.ask(state);
            }
        }
    }

    /// A member was taken that a consumer who waits may have asked for, and nobody may have been woken
    /// for: for each that waits there is one here, or one was asked for.
    fn ask_for_others(&self) {
        loop {
            let state = lock(&self.engine.state);
            let Some(set) = state.sets.get(&self.set) else { return };
            if set.asked >= self.arrivals.lock().lacking() {
                return;
            }
            self.ask(state);
        }
    }

    /// Asks for one more member.
    fn ask(&self, mut state: MutexGuard<'_, State>) {
        if let Some(set) = state.sets.get_mut(&self.set) {
            set.asked += 1;
        }
        let now = self.engine.costs.clock().now();
        state.tell(Event::Asked { set: self.set }, now);
        let after = self.engine.carry_out(&mut state);
        drop(state);
        after.finish(&self.engine.pool);
    }

    /// What a consumer gets, if it need not wait.
    fn found(&self, here: &mut Here) -> Poll<Option<Arrival>> {
        match here.pop() {
            Some(delivered) => Poll::Ready(Some(self.handed_out(delivered))),
            None if here.has_ended() => {
                if let Some(why) = here.why_panicked() {
                    panic!("listing or ranking the names of a set panicked: {why}");
                }
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }

    fn handed_out(&self, delivered: Delivered) -> Arrival {
        let Delivered { member, item, state } = delivered;
        let (entry, tag) = (item.entry(), item.tag);
        let near = match state {
            Delivery::Failed(_) => Err(item.error().expect("a failed member has an error")),
            Delivery::Near => Ok(Near::forgotten(Arc::clone(&self.engine), member, item)),
            Delivery::Whole | Delivery::Streaming => {
                Ok(Near::new(Arc::clone(&self.engine), member, item))
            }
        };
        Arrival { entry, tag, near }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.pump.abort();
        let mut state = lock(&self.engine.state);
        drop(state.sets.remove(&self.set));
        let unseen = self.arrivals.lock().take_all();
        let now = self.engine.costs.clock().now();
        state.tell(Event::SetClosed { set: self.set }, now);
        for Delivered { member, state: delivery, .. } in &unseen {
            // Delivered as far as the scheduler knows, and nobody's.
            if matches!(delivery, Delivery::Whole | Delivery::Streaming) {
                drop(state.forget(*member));
                state.tell(Event::Released { member: *member }, now);
            }
        }
        let after = self.engine.carry_out(&mut state);
        drop(state);
        after.finish(&self.engine.pool);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures::stream;
    use store::{Clock, Costs, Local, Stores, StoresOptions, TableFiles};

    use super::super::EngineOptions;
    use super::*;
    use crate::scheduler::{Order, Origin};

    #[test]
    fn who_leaves_asks_for_nothing_any_more() {
        let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
        let costs = Arc::new(costs);
        let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
        let engine = Engine::new(stores, costs, EngineOptions::default()).expect("threads");
        let terms = SetTerms { origin: Origin::Told, order: Order::Ready };
        let feed = engine.open(stream::pending(), terms);
        let mut turns = [Turn::default(), Turn::default()];
        for turn in &mut turns {
            assert!(feed.poll_next(&Context::from_waker(Waker::noop()), turn).is_pending());
        }
        let asked = || engine.snapshot().sets[0].asked;
        assert_eq!(asked(), 2);
        for (turn, left) in turns.iter_mut().zip([1, 0]) {
            feed.leave(turn);
            assert_eq!(asked(), left);
        }
    }
}
