//! What the driver keeps under its one lock, and how it carries out the scheduler's actions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::Inner;
use super::arrivals::{Arrivals, Delivered};
use super::attempt::{self, Allowed};
use super::devices::Devices;
use super::files::{Cancelled, Job};
use super::item::{Item, Source};
use super::pool::Pool;
use crate::scheduler::{
    Action, Aim, AttemptId, Cause, Delivery, Event, Limits, MemberId, NumberMap, Scheduler, SetId,
};
use crate::sync::lock;

pub(crate) struct State {
    pub(crate) scheduler: Scheduler,
    pub(crate) devices: Devices,
    pub(crate) items: NumberMap<MemberId, Arc<Item>>,
    pub(crate) sets: HashMap<SetId, SetState>,
    pub(crate) next_set: u32,
    pub(crate) next_member: u64,
    attempts: NumberMap<AttemptId, Running>,
    actions: Vec<Action>,
    timer: Arc<Notify>,
    wakes_at: Option<Duration>,
    stall: Duration,
    pub(crate) spill_failure: Option<String>,
}

/// A set that is open.
#[derive(Debug)]
pub(crate) struct SetState {
    /// Members asked for and not delivered yet.
    pub(crate) asked: usize,
    pub(crate) arrivals: Arc<Arrivals>,
    /// How many names more may be listed.
    pub(crate) room: Arc<super::pump::Room>,
}

/// A way to stop an attempt.
enum Running {
    Task(AbortHandle, Arc<Allowed>),
    Thread(Cancelled),
}

/// What is done once the lock is released: it wakes others, or takes time.
#[must_use]
#[derive(Default)]
pub(crate) struct After {
    jobs: Vec<Job>,
    arrived: Vec<Arc<Arrivals>>,
    dropped: Vec<Arc<Item>>,
    broken: Vec<Arc<Item>>,
}

impl After {
    pub(crate) fn finish(self, pool: &Pool) {
        pool.push(self.finish_but_jobs());
    }

    /// All but what is to be done with files, which is the caller's.
    pub(crate) fn finish_but_jobs(self) -> Vec<Job> {
        self.arrived.iter().for_each(|arrivals| arrivals.wake());
        for item in self.broken {
            item.buffer.fail(item.error().expect("blamed when it broke"));
        }
        for item in self.dropped {
            item.buffer.clear();
        }
        self.jobs
    }

    fn arrived(&mut self, arrivals: &Arc<Arrivals>) {
        if !self.arrived.last().is_some_and(|last| Arc::ptr_eq(last, arrivals)) {
            self.arrived.push(Arc::clone(arrivals));
        }
    }
}

impl State {
    pub(crate) fn new(limits: Limits, timer: Arc<Notify>) -> Self {
        Self {
            scheduler: Scheduler::new(limits),
            devices: Devices::default(),
            items: NumberMap::default(),
            sets: HashMap::new(),
            next_set: 0,
            next_member: 0,
            attempts: NumberMap::default(),
            actions: Vec::new(),
            timer,
            wakes_at: None,
            stall: limits.stall,
            spill_failure: None,
        }
    }

    pub(crate) fn tell(&mut self, event: Event, now: Duration) {
        self.tell_all([event], now);
    }

    /// Tells of several events that happened at a time.
    pub(crate) fn tell_all(&mut self, events: impl IntoIterator<Item = Event>, now: Duration) {
        let attempts = &mut self.attempts;
        let events = events.into_iter().inspect(|event| match event {
            Event::Finished { attempt } | Event::Failed { attempt, .. } => {
                attempts.remove(attempt);
            }
            // Contact is all that opening is for, and all that an empty object has.
            Event::Contacted { attempt, contact } if contact.covers.is_empty() => {
                attempts.remove(attempt);
            }
            _ => {}
        });
        self.scheduler.on_all(events, now, &mut self.actions);
    }

    /// When the timer is to wake the scheduler, noted as what it now waits for.
    pub(crate) fn wake_at(&mut self) -> Option<Duration> {
        self.wakes_at = self.scheduler.wake_at();
        self.wakes_at
    }

    /// Forgets a member that its reader has let go, or that never had one.
    pub(crate) fn forget(&mut self, member: MemberId) -> Option<Arc<Item>> {
        self.items.remove(&member)
    }
}

impl Inner {
    /// Does what the scheduler asks for; what must wait for the lock's release is returned.
    pub(crate) fn carry_out(self: &Arc<Self>, state: &mut State) -> After {
        let mut after = After::default();
        let mut actions = std::mem::take(&mut state.actions);
        for action in actions.drain(..) {
            self.act(state, action, &mut after);
        }
        state.actions = actions;
        let wake_at = state.scheduler.wake_at();
        if wake_at.is_some_and(|at| state.wakes_at.is_none_or(|known| at < known)) {
            state.wakes_at = wake_at;
            state.timer.notify_one();
        }
        after
    }

    fn act(self: &Arc<Self>, state: &mut State, action: Action, after: &mut After) {
        match action {
            Action::Start { attempt, member, aim } => {
                self.start(state, attempt, member, aim, &mut after.jobs);
            }
            Action::Extend { attempt, end } => {
                if let Some(Running::Task(_, allowed)) = state.attempts.get(&attempt) {
                    allowed.extend(end);
                }
            }
            Action::Cancel { attempt } => match state.attempts.remove(&attempt) {
                Some(Running::Task(task, allowed)) => {
                    allowed.stop();
                    task.abort();
                }
                Some(Running::Thread(cancelled)) => cancelled.cancel(),
                None => {}
            },
            Action::Spill { member } => {
                if let Some(item) = state.items.get(&member) {
                    self.spill(member, Arc::clone(item));
                }
            }
            Action::Deliver { set, member, state: delivery } => {
                deliver(state, set, member, delivery, after);
            }
            Action::Break { member, cause } => {
                blame(state, member, cause);
                after.broken.extend(state.items.get(&member).map(Arc::clone));
            }
            Action::Drop { member } => after.dropped.extend(state.forget(member)),
            Action::Expand { set, names } => {
                if let Some(set) = state.sets.get(&set) {
                    set.room.add(names);
                }
            }
            Action::End { set } => {
                if let Some(set) = state.sets.get_mut(&set) {
                    set.arrivals.lock().end();
                    after.arrived(&set.arrivals);
                }
            }
        }
    }

    fn start(
        self: &Arc<Self>,
        state: &mut State,
        attempt: AttemptId,
        member: MemberId,
        aim: Aim,
        jobs: &mut Vec<Job>,
    ) {
        let Some(item) = state.items.get(&member).map(Arc::clone) else { return };
        let running = match (&item.source, aim) {
            (Source::Store(store), Aim::Fetch(range)) => {
                let store = Arc::clone(store);
                let allowed = Arc::new(Allowed::to(range.end));
                let engine = Arc::clone(self);
                let bounds = Arc::clone(&allowed);
                let fetch = attempt::fetch(engine, attempt, item, store, range, bounds);
                Running::Task(self.handle.spawn(fetch).abort_handle(), allowed)
            }
            (Source::File { .. }, aim) => {
                let cancelled = Cancelled::default();
                let since = self.costs.clock().now();
                let (cancelled_too, turn) = (cancelled.clone(), 0);
                jobs.push(Job { attempt, item, aim, cancelled: cancelled_too, since, turn });
                Running::Thread(cancelled)
            }
            (Source::Store(_), Aim::Open) | (Source::Nowhere, _) => return,
        };
        state.attempts.insert(attempt, running);
    }

    fn spill(self: &Arc<Self>, member: MemberId, item: Arc<Item>) {
        let engine = Arc::clone(self);
        drop(self.handle.spawn_blocking(move || {
            let folder = engine.spill_folder.path();
            let event = match item.buffer.spill(&folder) {
                (bytes, Ok(())) => Event::Spilled { member, bytes },
                (bytes, Err(error)) => {
                    let why = format!("{}: {}", folder.display(), store::without_number(error));
                    lock(&engine.state).spill_failure = Some(why);
                    Event::SpillFailed { member, bytes }
                }
            };
            engine.post([event]);
        }));
    }
}

fn deliver(state: &mut State, set: SetId, member: MemberId, how: Delivery, after: &mut After) {
    if let Delivery::Failed(cause) = how {
        blame(state, member, cause);
    }
    let item = match how {
        // The scheduler has forgotten it: nothing but its reader holds it.
        Delivery::Near | Delivery::Failed(_) => state.items.remove(&member),
        Delivery::Whole | Delivery::Streaming => state.items.get(&member).map(Arc::clone),
    };
    if let Some(set) = state.sets.get_mut(&set)
        && let Some(item) = item
    {
        set.arrivals.lock().push(Delivered { member, item, state: how });
        set.asked = set.asked.saturating_sub(1);
        after.arrived(&set.arrivals);
    }
}

/// Sees to it that a failed member has an error that says why.
fn blame(state: &State, member: MemberId, cause: Cause) {
    let Some(item) = state.items.get(&member) else { return };
    if cause == Cause::Stalled || item.error().is_none() {
        let seconds = state.stall.as_secs_f32();
        let reason = format!("no byte came for {seconds} s, in every attempt");
        item.set_error(store::Error::interrupted(item.entry().name, reason));
    }
}
