//! Answers that wait for their time, without a thread each.
//!
//! Whoever serves a request works out when it is answered and leaves the answer here; one thread
//! gives each when it is due. So any number of requests can wait, and none delays another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::Clock;

pub(crate) type Answer = Box<dyn FnOnce() + Send>;

/// When an answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// At this time.
    At(Duration),
    /// With the first release after so many.
    Released(u64),
}

#[derive(Clone)]
pub(crate) struct Later {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: BinaryHeap<Reverse<Due>>,
    /// Answers that hang until they are released.
    held: Vec<Answer>,
    releases: u64,
    next: u64,
    closed: bool,
}

struct Due {
    time: Duration,
    /// Keeps answers that are due together in the order of their requests.
    number: u64,
    answer: Answer,
}

impl Later {
    /// A queue and the thread that gives its answers; the thread ends after [`Later::close`].
    pub(crate) fn start(clock: Clock) -> std::io::Result<(Self, JoinHandle<()>)> {
        let shared = Arc::new(Shared { clock, queue: Mutex::default(), changed: Condvar::new() });
        let later = Self { shared: Arc::clone(&shared) };
        let thread =
            thread::Builder::new().name("slowfs-later".into()).spawn(move || shared.give())?;
        Ok((later, thread))
    }

    /// `due`, or the next release if that is `None`.
    ///
    /// Told apart from [`Later::at`], so that a release in between is not missed.
    pub(crate) fn when(&self, due: Option<Duration>) -> When {
        due.map_or_else(|| When::Released(self.shared.lock().releases), When::At)
    }

    /// Gives `answer` at its time, at once if that has passed.
    pub(crate) fn at(&self, when: When, answer: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        let passed = match when {
            When::At(due) => due <= self.shared.clock.now(),
            When::Released(releases) => releases < queue.releases,
        };
        if queue.closed || passed {
            drop(queue);
            return answer();
        }
        match when {
            When::Released(_) => queue.held.push(Box::new(answer)),
            When::At(time) => {
                let number = queue.next;
                queue.next += 1;
                queue.waiting.push(Reverse(Due { time, number, answer: Box::new(answer) }));
                self.shared.changed.notify_all();
            }
        }
    }

    /// Takes out all answers that hang, for the caller to give.
    pub(crate) fn release(&self) -> Vec<Answer> {
        let mut queue = self.shared.lock();
        queue.releases += 1;
        std::mem::take(&mut queue.held)
    }

    /// Gives all answers, and from here on every new one at once.
    pub(crate) fn close(&self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        let held = std::mem::take(&mut queue.held);
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.shared.changed.notify_all();
        waiting.into_sorted_vec().into_iter().rev().for_each(|Reverse(due)| (due.answer)());
        for answer in held {
            answer();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            let now = self.clock.now();
            let next = queue.waiting.peek().map(|Reverse(due)| due.time);
            queue = match next {
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(time) if time > now => {
                    let (queue, _) = self
                        .changed
                        .wait_timeout(queue, time.saturating_sub(now))
                        .unwrap_or_else(PoisonError::into_inner);
                    queue
                }
                Some(_) => {
                    let due = queue.waiting.pop();
                    drop(queue);
                    if let Some(Reverse(due)) = due {
                        (due.answer)();
                    }
                    self.lock()
                }
            };
        }
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.shared.lock();
        f.debug_struct("Later")
            .field("waiting", &queue.waiting.len())
            .field("held", &queue.held.len())
            .field("closed", &queue.closed)
            .finish()
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn answers_come_by_their_time_and_what_hangs_does_not_hold_them_up() {
        let clock = Clock::start();
        let (later, thread) = Later::start(clock).unwrap();
        let (tell, told) = mpsc::channel();
        let say = |what: &'static str| {
            let tell = tell.clone();
            move || tell.send(what).unwrap()
        };
        let now = clock.now();
        let before = later.when(None);
        later.at(before, say("held"));
        later.at(When::At(now + Duration::from_millis(40)), say("second"));
        later.at(When::At(now + Duration::from_millis(20)), say("first"));
        later.at(When::At(Duration::ZERO), say("at once"));
        let order: Vec<_> = told.iter().take(3).collect();
        assert_eq!(order, ["at once", "first", "second"]);
        for answer in later.release() {
            answer();
        }
        assert_eq!(told.recv().unwrap(), "held");
        later.at(before, say("released before it came"));
        assert_eq!(told.recv().unwrap(), "released before it came");
        later.at(When::At(now + Duration::from_secs(1000)), say("closed"));
        later.close();
        assert_eq!(told.recv().unwrap(), "closed");
        later.at(later.when(None), say("after"));
        assert_eq!(told.recv().unwrap(), "after");
        thread.join().unwrap();
    }
}
