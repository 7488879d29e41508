//! The threads that open and read files.

use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use super::Inner;
use super::files::{Job, Opens, carry_out};
use super::waiting::{BATCH, LINGER, Opening, Pace, Waiting, waited};
use crate::scheduler::{DeviceId, Event};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// How long an open takes at most that waits for no device.
const SLOW: Duration = Duration::from_micros(64);

/// The threads, and what waits for them.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    engine: Weak<Inner>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

impl Pool {
    pub(crate) fn new(engine: Weak<Inner>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let waiting = Mutex::new(Waiting::new(processors));
        Self { queue: Arc::new(Queue { waiting, more: Condvar::default() }), engine }
    }

    /// Takes jobs on. Those of mounts that may not answer get threads of their own.
    pub(crate) fn push(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let Some(engine) = self.engine.upgrade() else { return };
        let common = push_lone(&engine, jobs);
        if !common.is_empty() {
            let mut waiting = lock(&self.queue.waiting);
            waiting.add(common);
            self.call(&engine, waiting);
        }
    }

    /// Tells of what has waited until `now`, and that no thread has taken.
    pub(super) fn waited(&self, now: Duration) -> Vec<Event> {
        waited(lock(&self.queue.waiting).jobs.iter(), now)
    }

    /// A thread takes of what waits, and calls others for the rest; if there is nothing, it is idle.
    fn go_on(
        &self,
        engine: &Arc<Inner>,
        mut waiting: MutexGuard<'_, Waiting>,
        batch: &mut Vec<Job>,
    ) -> Option<Opening> {
        let opening = waiting.take(batch, engine.costs.clock().now());
        if batch.is_empty() {
            waiting.idle += 1;
            return None;
        }
        if !waiting.jobs.is_empty() {
            self.call(engine, waiting);
        }
        opening
    }

    /// Calls threads for what waits, as many as it is worth.
    fn call(&self, engine: &Arc<Inner>, mut waiting: MutexGuard<'_, Waiting>) {
        debug_assert_eq!(
            waiting.threads,
            waiting.idle + waiting.calls + waiting.at_work.len(),
            "each thread is counted once"
        );
        let wanted = waiting.threads_wanted(engine.costs.clock().now());
        if wanted.are_some_left && !waiting.is_watched {
            waiting.is_watched = true;
            drop(engine.handle.spawn(look_again(Weak::clone(&self.engine))));
        }
        let wanted = wanted.threads.saturating_sub(waiting.calls);
        let more = wanted.saturating_sub(waiting.idle);
        for _ in 0..more {
            let queue = Arc::clone(&self.queue);
            let engine = Weak::clone(&self.engine);
            let named = std::thread::Builder::new().name("nearfirst-files".into());
            if named.spawn(move || work(&queue, &engine)).is_ok() {
                waiting.threads += 1;
                waiting.idle += 1;
            }
        }
        if waiting.threads == 0 {
            let jobs = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            for job in jobs {
                spawn_lone(engine, job);
            }
            return;
        }
        let called = wanted.min(waiting.idle);
        waiting.idle -= called;
        waiting.calls += called;
        drop(waiting);
        for _ in 0..called {
            self.queue.more.notify_one();
        }
    }
}

impl Queue {
    /// A thread that is counted as idle waits for a call, and takes something before the queue is let
    /// go of: else it would be counted nowhere, and another started in its place. `None` once all is over.
    fn called(&self) -> Option<MutexGuard<'_, Waiting>> {
        let mut waiting = lock(&self.waiting);
        while waiting.calls == 0 && !waiting.closed {
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.calls = waiting.calls.saturating_sub(1);
        (!waiting.closed).then_some(waiting)
    }
}

/// A thread that does jobs of a device. Should it panic, others may be at that device instead.
struct AtWork<'a> {
    queue: &'a Queue,
    device: Option<DeviceId>,
    has_left: bool,
}

impl<'a> AtWork<'a> {
    /// It was counted when it took the jobs.
    fn at(queue: &'a Queue, device: Option<DeviceId>) -> Self {
        Self { queue, device, has_left: false }
    }

    fn leave(mut self, waiting: &mut Waiting) {
        self.has_left = true;
        waiting.left(self.device);
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.has_left {
            let mut waiting = lock(&self.queue.waiting);
            waiting.left(self.device);
            waiting.threads -= 1;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut waiting = lock(&self.queue.waiting);
        waiting.closed = true;
        let jobs = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        drop(jobs);
        self.queue.more.notify_all();
    }
}

/// What was left to threads that were at it need not wait longer for one that waits for a device.
async fn look_again(engine: Weak<Inner>) {
    tokio::time::sleep(LINGER).await;
    if let Some(engine) = engine.upgrade() {
        let mut waiting = lock(&engine.pool.queue.waiting);
        waiting.is_watched = false;
        engine.pool.call(&engine, waiting);
    }
}

/// Has a thread of the runtime do each job of a mount that may not answer; the others are returned.
fn push_lone(engine: &Arc<Inner>, jobs: Vec<Job>) -> Vec<Job> {
    let (lone, common) = jobs.into_iter().partition::<Vec<_>, _>(|job| job.item.may_stall());
    for job in lone {
        spawn_lone(engine, job);
    }
    common
}

fn spawn_lone(engine: &Arc<Inner>, job: Job) {
    let engine = Arc::clone(engine);
    drop(engine.handle.clone().spawn_blocking(move || {
        let mut events = Vec::new();
        carry_out(&engine, &mut Opens::new(&engine), job, &mut events);
        engine.post(events);
    }));
}

/// What one thread does until the engine ends.
fn work(queue: &Queue, engine: &Weak<Inner>) {
    store::leave_signals_to_others();
    let mut batch = Vec::with_capacity(BATCH);
    let mut events = Vec::new();
    while let Some(waiting) = queue.called() {
        let Some(engine) = engine.upgrade() else { return };
        // It lets go of the queue before the engine, which may be the last one.
        let mut opening = engine.pool.go_on(&engine, waiting, &mut batch);
        while !batch.is_empty() {
            opening = work_off(&engine, &mut batch, &mut events, opening);
        }
    }
}

/// Does a batch of jobs. What this thread can do at once, without waking another, is in `batch`
/// afterwards.
fn work_off(
    engine: &Arc<Inner>,
    batch: &mut Vec<Job>,
    events: &mut Vec<Event>,
    mut opening: Option<Opening>,
) -> Option<Opening> {
    let pool = &engine.pool;
    let at_work = AtWork::at(&pool.queue, batch.first().and_then(Job::device));
    let clock = engine.costs.clock();
    let begin = clock.now();
    let late = waited(batch.iter(), begin);
    if !late.is_empty() {
        engine.post(late);
    }
    let mut opens = Opens::new(engine);
    let mut jobs = batch.drain(..);
    let (mut since, mut pace) = (begin, Pace::Quick(0));
    for job in jobs.by_ref() {
        let was_done = carry_out(engine, &mut opens, job, events);
        let now = clock.now();
        pace = pace.and(now.saturating_sub(since) > SLOW, was_done);
        // Many quick opens take long, too, and say nothing of their device.
        let is_cut = pace == Pace::Slow || now.saturating_sub(begin) > LINGER;
        if opening.is_some() && is_cut {
            break;
        }
        since = now;
    }
    drop(opens);
    let rest: Vec<Job> = jobs.collect();
    if let Some(opening) = opening.take_if(|_| pace == Pace::Slow || !rest.is_empty()) {
        // Others may have the rest: what is opened here waits for the device, or is to be told of.
        let mut waiting = lock(&pool.queue.waiting);
        waiting.ended(opening, pace);
        waiting.add(rest);
        pool.call(engine, waiting);
    }
    let found = engine.tell(events.drain(..)).finish_but_jobs();
    let mut common = push_lone(engine, found);
    // A read that began here is not to wait for all opens.
    if let Some(read) = common.iter().position(|job| !job.is_open()) {
        batch.push(common.remove(read));
    }
    let mut waiting = lock(&pool.queue.waiting);
    if let Some(opening) = opening {
        waiting.ended(opening, pace);
    }
    waiting.add(common);
    at_work.leave(&mut waiting);
    let Some(read) = batch.first() else { return pool.go_on(engine, waiting, batch) };
    waiting.began(read.device());
    pool.call(engine, waiting);
    None
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;
    use crate::engine::waiting::THREADS_MAX;

    #[test]
    fn a_thread_that_panics_is_at_its_device_no_more() {
        let queue = Queue::default();
        lock(&queue.waiting).threads = THREADS_MAX;
        for _ in 0..THREADS_MAX {
            lock(&queue.waiting).began(None);
            let ends = catch_unwind(AssertUnwindSafe(|| {
                let _at_work = AtWork::at(&queue, None);
                resume_unwind(Box::new(()));
            }));
            assert!(ends.is_err());
        }
        let waiting = lock(&queue.waiting);
        assert_eq!((waiting.threads, waiting.at_work.len()), (0, 0));
    }
}
