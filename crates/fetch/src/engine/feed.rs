//! The consumers' end of a set: hands out members as they arrive, each once.

use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use store::{Entry, Error};

use super::near::Near;
use super::pump::{self, Room, Want};
use super::state::{SetState, State};
use super::{Engine, Inner};
use crate::scheduler::{Delivery, Event, MemberId, SetId, SetTerms};
use crate::sync::{Condvar, MutexGuard, lock};

/// The members of one set as they arrive.
///
/// Several threads may take from it at once: each member goes to one of them.
/// Dropped, it cancels what is on its way; members that were handed out stay
/// their readers'.
#[derive(Debug)]
pub struct Feed {
    engine: Arc<Inner>,
    set: SetId,
    arrived: Arc<Condvar>,
    pump: tokio::task::AbortHandle,
}

/// A task's place among the consumers that wait: each of those asks for a member of its own.
#[derive(Debug, Default)]
pub struct Turn {
    waits: bool,
}

impl Turn {
    fn end(&mut self, set: Option<&mut SetState>) {
        if std::mem::take(&mut self.waits)
            && let Some(set) = set
        {
            set.waiting -= 1;
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
        let arrived = Arc::<Condvar>::default();
        let mut state = lock(&engine.state);
        let set = SetId(state.next_set);
        state.next_set += 1;
        let fresh = SetState {
            delivered: std::collections::VecDeque::new(),
            asked: 0,
            waiting: 0,
            ended: false,
            arrived: Arc::clone(&arrived),
            wakers: Vec::new(),
            room: Arc::clone(&room),
        };
        state.sets.insert(set, fresh);
        state.tell(Event::SetOpened { set, terms }, engine.costs.clock().now());
        let after = engine.carry_out(&mut state);
        drop(state);
        after.finish();
        let pump = pump::run(Arc::downgrade(&engine), set, room, wants);
        let pump = engine.handle.spawn(pump).abort_handle();
        Feed { engine, set, arrived, pump }
    }
}

impl Feed {
    /// The next member that is ready, waiting for it; `None` after the last.
    pub fn next(&self) -> Option<Arrival> {
        let mut state = lock(&self.engine.state);
        loop {
            match self.try_next(state) {
                (Poll::Ready(arrival), _) => return arrival,
                (Poll::Pending, held) => {
                    state = self.arrived.wait(held).unwrap_or_else(PoisonError::into_inner);
                    // What this consumer asked for may have gone to another that came later.
                    if let Some(set) = state.sets.get_mut(&self.set) {
                        set.waiting -= 1;
                    }
                }
            }
        }
    }

    /// As [`Feed::next`], for a task, which keeps `turn` from one poll to the next.
    pub fn poll_next(&self, context: &Context<'_>, turn: &mut Turn) -> Poll<Option<Arrival>> {
        let mut state = lock(&self.engine.state);
        turn.end(state.sets.get_mut(&self.set));
        let (polled, mut state) = self.try_next(state);
        if polled.is_pending()
            && let Some(set) = state.sets.get_mut(&self.set)
        {
            turn.waits = true;
            if !set.wakers.iter().any(|known| known.will_wake(context.waker())) {
                set.wakers.push(context.waker().clone());
            }
        }
        polled
    }

    /// A task that polled does not wait any more: what it asked for is another's.
    pub fn leave(&self, turn: &mut Turn) {
        turn.end(lock(&self.engine.state).sets.get_mut(&self.set));
    }

    /// The next member if one is here; else asks for one, and counts as waiting.
    fn try_next<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (Poll<Option<Arrival>>, MutexGuard<'a, State>) {
        for is_asked in [false, true] {
            let Some(set) = state.sets.get_mut(&self.set) else {
                return (Poll::Ready(None), state);
            };
            if let Some((member, delivery)) = set.delivered.pop_front() {
                let arrival = self.handed_out(&mut state, member, delivery);
                return (Poll::Ready(Some(arrival)), state);
            }
            if set.ended {
                return (Poll::Ready(None), state);
            }
            if is_asked || set.asked > set.waiting {
                break;
            }
            set.asked += 1;
            let now = self.engine.costs.clock().now();
            state.tell(Event::Asked { set: self.set }, now);
            let after = self.engine.carry_out(&mut state);
            drop(state);
            after.finish();
            state = lock(&self.engine.state);
        }
        if let Some(set) = state.sets.get_mut(&self.set) {
            set.waiting += 1;
        }
        (Poll::Pending, state)
    }

    fn handed_out(&self, state: &mut State, member: MemberId, delivery: Delivery) -> Arrival {
        let item =
            state.items.get(&member).map(Arc::clone).expect("delivered, and not yet forgotten");
        let (entry, tag) = (item.entry(), item.tag);
        let near = match delivery {
            Delivery::Failed(_) => {
                drop(state.forget(member));
                Err(item.error().expect("a failed member has an error"))
            }
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
        let unseen = state.sets.remove(&self.set).map(|set| set.delivered).unwrap_or_default();
        let now = self.engine.costs.clock().now();
        state.tell(Event::SetClosed { set: self.set }, now);
        for (member, delivery) in unseen {
            // Delivered as far as the scheduler knows, and nobody's.
            drop(state.forget(member));
            if !matches!(delivery, Delivery::Failed(_)) {
                state.tell(Event::Released { member }, now);
            }
        }
        let after = self.engine.carry_out(&mut state);
        drop(state);
        after.finish();
    }
}
