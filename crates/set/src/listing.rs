//! The names of a set as they become known, for everyone who wants to know them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use futures::{Stream, StreamExt as _, stream};
use store::{Entries, Entry, Error, Name, lock};

use crate::roster::Roster;

/// Names taken from a source at a time, if so many are known.
const BATCH: usize = 64;

/// A set of sets of sets is asked all the way down: with less stack left than the first, it goes on on a
/// new one.
const STACK_LEFT_BYTES: usize = 256 << 10;
const STACK_BYTES: usize = 4 << 20;

/// What is listed so far, and the source of the rest.
///
/// Whoever needs a name that is not known yet draws on the source; all see
/// the same names in the same order. Nobody keeps it from the others while it has nothing to give:
/// who waits, as a list made of this one does, may not be asked again for long.
pub(crate) struct Listing {
    roster: Arc<Mutex<Roster>>,
    source: Mutex<Source>,
    /// Who draws on the source.
    drawing: Mutex<Option<ThreadId>>,
    /// Whether somebody found the source in use, or there is more than was known.
    is_for_others: AtomicBool,
    waiting: Arc<Waiting>,
    waiters: AtomicUsize,
}

/// `None` once it has ended.
type Source = Option<stream::ReadyChunks<Entries>>;

/// What drawing on the source gave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drawn {
    More,
    Nothing,
    End,
}

/// Who is to be woken when the source has more. The source knows one waker: this.
#[derive(Default)]
struct Waiting {
    wakers: Mutex<Vec<Waker>>,
    /// The source had nothing to give, and has woken nobody since. It is not asked: a list that many
    /// are made of, and those it is made of, would be asked for each of them, and again for each of those.
    is_asleep: AtomicBool,
}

impl Listing {
    pub(crate) fn new(source: Entries) -> Arc<Self> {
        Arc::new(Self {
            roster: Arc::default(),
            source: Mutex::new(Some(source.ready_chunks(BATCH))),
            drawing: Mutex::default(),
            is_for_others: AtomicBool::new(false),
            waiting: Arc::default(),
            waiters: AtomicUsize::new(0),
        })
    }

    /// What is known so far.
    pub(crate) fn known(&self) -> MutexGuard<'_, Roster> {
        lock(&self.roster)
    }

    /// The same, for who needs no more.
    pub(crate) fn roster(&self) -> Arc<Mutex<Roster>> {
        Arc::clone(&self.roster)
    }

    /// Whether somebody waits for more.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Waits until more than `count` names are known; `false` if there are no more.
    pub(crate) async fn beyond(&self, count: usize) -> bool {
        if self.known().len() > count {
            return true;
        }
        let _waiter = Waiter::of(&self.waiters);
        // A source that always has more keeps no thread of a runtime to itself.
        tokio::task::coop::consume_budget().await;
        poll_fn(|context| with_stack(|| self.poll_beyond(context, count))).await
    }

    fn poll_beyond(&self, context: &Context<'_>, count: usize) -> Poll<bool> {
        self.waiting.add(context.waker());
        loop {
            if self.known().len() > count {
                return Poll::Ready(true);
            }
            let Some(source) = self.source_or_turn() else {
                let is_own = *lock(&self.drawing) == Some(thread::current().id());
                assert!(!is_own, "the predicate of a set asks the set itself");
                return Poll::Pending;
            };
            let mut turn = Turn::begin(self, source, context.waker());
            let drawn = self.draw(turn.source.as_mut().expect("it is this one's turn"), count);
            if drawn != Drawn::Nothing {
                self.is_for_others.store(true, Ordering::SeqCst);
            }
            drop(turn);
            match drawn {
                Drawn::More => {}
                Drawn::Nothing => return Poll::Pending,
                Drawn::End => return Poll::Ready(false),
            }
        }
    }

    /// Adds what the source has, unless more than `count` are known by now.
    fn draw(&self, source: &mut Source, count: usize) -> Drawn {
        if self.known().len() > count {
            return Drawn::More;
        }
        let Some(entries) = source else { return Drawn::End };
        if self.waiting.is_asleep.swap(true, Ordering::SeqCst) {
            return Drawn::Nothing;
        }
        let waker = Waker::from(Arc::clone(&self.waiting));
        let Poll::Ready(batch) = entries.poll_next_unpin(&mut Context::from_waker(&waker)) else {
            return Drawn::Nothing;
        };
        self.waiting.is_asleep.store(false, Ordering::SeqCst);
        match batch {
            None => {
                *source = None;
                Drawn::End
            }
            Some(batch) => {
                self.add(batch);
                Drawn::More
            }
        }
    }

    /// The source, if nobody draws on it right now; who does wakes this one when done.
    fn source_or_turn(&self) -> Option<MutexGuard<'_, Source>> {
        try_lock(&self.source).or_else(|| {
            self.is_for_others.swap(true, Ordering::SeqCst);
            // It may have been let go of before that was said.
            try_lock(&self.source)
        })
    }

    fn add(&self, batch: Vec<Result<Entry, Error>>) {
        let mut roster = self.known();
        for entry in batch {
            match entry {
                Ok(entry) => drop(roster.add(&entry)),
                Err(error) => roster.add_error(error),
            }
        }
    }

    /// Whether all names are known.
    pub(crate) fn is_complete(&self) -> bool {
        try_lock(&self.source).is_some_and(|source| source.is_none())
    }

    /// Waits until all names are known.
    pub(crate) async fn all(&self) {
        let mut known = self.known().len();
        while self.beyond(known).await {
            known = self.known().len();
        }
    }

    /// The entries from the first on, with their numbers.
    pub(crate) fn walk(
        self: &Arc<Self>,
    ) -> impl Stream<Item = (usize, Result<Entry, Arc<Error>>)> + Send + 'static + use<> {
        stream::unfold((Arc::clone(self), 0), |(listing, index)| async move {
            listing.beyond(index).await.then_some(())?;
            let entry = listing.known().get(index);
            Some(((index, entry), (listing, index + 1)))
        })
    }

    /// Whether a name is listed so far.
    pub(crate) fn contains(&self, name: &Name) -> bool {
        self.known().contains(name.as_bytes())
    }
}

/// What a list is made of ends with it, all the way down.
impl Drop for Listing {
    fn drop(&mut self) {
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        with_stack(|| drop(source));
    }
}

/// The turn of one who draws on the source. At its end, which a source may bring about by a panic, the
/// others are woken if there is something for them.
struct Turn<'a> {
    list: &'a Listing,
    source: Option<MutexGuard<'a, Source>>,
    own: &'a Waker,
}

impl<'a> Turn<'a> {
    fn begin(list: &'a Listing, source: MutexGuard<'a, Source>, own: &'a Waker) -> Self {
        *lock(&list.drawing) = Some(thread::current().id());
        Self { list, source: Some(source), own }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.list.drawing) = None;
        if thread::panicking() {
            self.list.waiting.is_asleep.store(false, Ordering::SeqCst);
        }
        drop(self.source.take());
        if self.list.is_for_others.swap(false, Ordering::SeqCst) {
            self.list.waiting.wake_others(self.own);
        }
    }
}

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut wakers = lock(&self.wakers);
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// Wakes all but one, who stays.
    fn wake_others(&self, own: &Waker) {
        let mut wakers = lock(&self.wakers);
        let (stay, others) = wakers.drain(..).partition(|waker| waker.will_wake(own));
        *wakers = stay;
        drop(wakers);
        others.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order: who waits from then on asks it.
        self.is_asleep.store(false, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *lock(&self.wakers));
        with_stack(|| wakers.into_iter().for_each(Waker::wake));
    }
}

/// Who is woken may be a list, of which nothing else is left, and so on.
impl Drop for Waiting {
    fn drop(&mut self) {
        let wakers = std::mem::take(&mut *lock(&self.wakers));
        with_stack(|| drop(wakers));
    }
}

/// Calls what may call itself for each of the lists that a list is made of.
pub(crate) fn with_stack<T>(call: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_BYTES, call)
}

/// Counts one who waits, while it lives.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").field("known", &self.known().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn lists_that_wait_for_one_another_end_together_at_any_depth() {
        const DEPTH: usize = 100_000;
        let lowest = Arc::<Waiting>::default();
        let ended = Arc::downgrade(&lowest);
        let mut waits = Waker::from(lowest);
        for _ in 0..DEPTH {
            let list = Arc::<Waiting>::default();
            list.add(&waits);
            waits = Waker::from(list);
        }
        drop(waits);
        assert!(ended.upgrade().is_none());
    }

    #[test]
    fn what_ends_after_a_panic_has_ended_for_others() {
        let mut is_first = true;
        let source = stream::poll_fn(move |_| {
            assert!(!std::mem::take(&mut is_first), "while listing");
            Poll::Ready(None)
        });
        let list = Listing::new(source.boxed());
        let asks = || list.beyond(0).now_or_never();
        catch_unwind(AssertUnwindSafe(asks)).expect_err("it panicked");
        assert_eq!(asks(), Some(false));
    }
}
