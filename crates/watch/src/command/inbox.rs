//! What the listener has seen and the observer has not taken yet.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use store::lock;

use super::aside::Aside;

/// Memory for calls that are kept for an observer that does not come. Beyond it they are lost.
const CALLS_BYTES_MAX: usize = 32 << 20;
/// Calls after which an observer that rests is woken though nothing is urgent.
const CALLS_MANY: usize = 256;
/// Calls that there is room for without asking for memory.
const CALLS_ROOM: usize = 4096;

/// A call that a program is about to make, or something that came to light with it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) at: Duration,
    pub(super) thread: u32,
    pub(super) process: u32,
    pub(super) what: What,
}

/// What a call is for.
#[derive(Debug)]
pub(super) enum What {
    /// A process is seen for the first time: who made it, a descriptor that tells of its end, and
    /// whether its names or its rights are not ours. That is asked while it waits to go on, as it may be
    /// about to go where they are not.
    Met { parent: u32, end: Option<OwnedFd>, is_elsewhere: bool },
    /// It is about to run another program.
    Executes { whole: Vec<u8>, folder: Arc<[u8]> },
    /// After it was about to: the program that it runs by now, and what that was called with.
    Runs { program: Option<Vec<u8>>, arguments: Vec<Arc<[u8]>> },
    /// It is about to open a file.
    Opens { whole: Vec<u8>, flags: u32 },
    /// Names mean something else to it by now.
    ChangedRoot,
    /// It has another user's rights by now.
    BecameAnothers,
}

/// Shared by the listener, which must not wait, and the observer.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    bell: OwnedFd,
    /// Whether the observer waits for the bell, and not for a moment to pass.
    rests: AtomicBool,
    /// Whether processes are gone of which the listener has not heard.
    are_gone: AtomicBool,
    /// Whether the observer has heard that calls were lost, and the listener has not.
    has_forgotten: AtomicBool,
    aside: Arc<Aside>,
    is_closed: AtomicBool,
}

impl Call {
    /// Memory, about: some programs have names of some kilobytes, and many words.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.what {
                What::Executes { whole, folder } => whole.len() + folder.len(),
                What::Runs { program, arguments } => {
                    let words = arguments.iter().map(|word| size_of::<Arc<[u8]>>() + word.len());
                    program.as_ref().map_or(0, Vec::len) + words.sum::<usize>()
                }
                What::Opens { whole, .. } => whole.len(),
                What::Met { .. } | What::ChangedRoot | What::BecameAnothers => 0,
            }
    }
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    calls_bytes: usize,
    lost: bool,
    gone: Vec<u32>,
}

/// What was added, as far as the observer minds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// Nothing.
    Nothing,
    /// What it may take when it comes.
    Calls,
    /// What it should be woken for.
    Urgent,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            state: Mutex::default(),
            bell,
            rests: AtomicBool::default(),
            are_gone: AtomicBool::default(),
            has_forgotten: AtomicBool::default(),
            aside: Arc::default(),
            is_closed: AtomicBool::default(),
        })
    }

    /// Nobody will take anything any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        *lock(&self.state) = State::default();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// When files are left alone.
    pub(super) fn aside(&self) -> &Arc<Aside> {
        &self.aside
    }

    /// Has files left alone until `moment`, from now on.
    pub(super) fn stand_aside(&self, moment: Duration) {
        self.aside.stand_until(moment);
        self.ring_bell();
    }

    /// A process is gone; its number may be given to another.
    pub(super) fn forget(&self, process: u32) {
        lock(&self.state).gone.push(process);
        self.are_gone.store(true, Ordering::Release);
    }

    /// Processes that are gone since this was last asked.
    pub(super) fn gone(&self) -> Vec<u32> {
        if !self.are_gone.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut state = lock(&self.state);
        self.are_gone.store(false, Ordering::Release);
        std::mem::take(&mut state.gone)
    }

    /// Whether processes that were met may not be known, as calls were lost since this was last asked.
    pub(super) fn has_forgotten(&self) -> bool {
        self.has_forgotten.load(Ordering::Acquire)
            && self.has_forgotten.swap(false, Ordering::AcqRel)
    }

    /// Adds calls.
    pub(super) fn add(&self, calls: impl Iterator<Item = Call>) -> Added {
        let mut state = lock(&self.state);
        let before = state.calls.len();
        for call in calls {
            let bytes = state.calls_bytes + call.bytes();
            if bytes > CALLS_BYTES_MAX {
                state.lost = true;
                break;
            }
            state.calls_bytes = bytes;
            state.calls.push(call);
        }
        let new = &state.calls[before..];
        // A program that has begun is guessed for at once; one that is about to make place for
        // another needs nothing any more, and that one runs only when it makes a call itself.
        let has_begun = new.iter().any(|call| matches!(call.what, What::Runs { .. }));
        let urgent =
            has_begun && !new.iter().any(|call| matches!(call.what, What::Executes { .. }));
        if urgent || before < CALLS_MANY && state.calls.len() >= CALLS_MANY {
            Added::Urgent
        } else if new.is_empty() {
            Added::Nothing
        } else {
            Added::Calls
        }
    }

    /// Wakes the observer if that is urgent, or if it rests and there is something to take.
    pub(super) fn ring(&self, added: Added) {
        // One that is about to rest looks, after it has said so, whether something was added.
        let rings = match added {
            Added::Nothing => false,
            Added::Calls => {
                self.rests.load(Ordering::Acquire) && self.rests.swap(false, Ordering::AcqRel)
            }
            Added::Urgent => true,
        };
        if rings {
            self.ring_bell();
        }
    }

    fn ring_bell(&self) {
        // A bell that rings already cannot be rung; that is as well.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// What a thread was about to do it did not do: nothing that it asked for since then counts. What came to
    /// light with that does.
    pub(super) fn take_back(&self, thread: u32, since: Duration) {
        let mut state = lock(&self.state);
        let is_asked = |call: &mut Call| {
            let is_asked = matches!(call.what, What::Executes { .. } | What::Opens { .. });
            is_asked && call.thread == thread && call.at >= since
        };
        while let Some(call) = state.calls.pop_if(is_asked) {
            state.calls_bytes -= call.bytes();
        }
    }

    /// Takes all calls into `calls`, whose room is used for the next; whether some were thrown away.
    pub(super) fn take(&self, calls: &mut Vec<Call>) -> bool {
        calls.clear();
        calls.shrink_to(CALLS_ROOM);
        let mut state = lock(&self.state);
        std::mem::swap(&mut state.calls, calls);
        state.calls_bytes = 0;
        let lost = std::mem::take(&mut state.lost);
        self.has_forgotten.fetch_or(lost, Ordering::AcqRel);
        lost
    }

    /// Asks for the bell at the next call; `false` if one is there already.
    pub(super) fn rest(&self) -> bool {
        self.rests.store(true, Ordering::Release);
        lock(&self.state).calls.is_empty()
    }

    /// The bell has been heard.
    pub(super) fn hush(&self) {
        self.rests.store(false, Ordering::Release);
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Wake for Inbox {
    fn wake(self: Arc<Self>) {
        self.ring_bell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_by_the_lengths_of_names() {
        let inbox = Inbox::new().expect("a bell");
        let opens = |at| {
            let what = What::Opens { whole: vec![b'x'; 4000], flags: 0 };
            Call { at: Duration::from_micros(at), thread: 1, process: 1, what }
        };
        let many = (CALLS_BYTES_MAX / 4000) as u64;
        for at in 0..many {
            inbox.add([opens(at)].into_iter());
        }
        let mut taken = Vec::new();
        assert!(inbox.take(&mut taken), "some are lost");
        let bytes: usize = taken.iter().map(Call::bytes).sum();
        assert!((CALLS_BYTES_MAX - 5000..=CALLS_BYTES_MAX).contains(&bytes), "{bytes}");
        // What was taken, or taken back, takes no room.
        for _ in 0..2 * many {
            inbox.add([opens(1)].into_iter());
            inbox.take_back(1, Duration::ZERO);
        }
        inbox.add([opens(2)].into_iter());
        assert!(inbox.has_forgotten() && !inbox.has_forgotten());
        assert!(!inbox.take(&mut taken) && !inbox.has_forgotten());
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn a_process_is_known_also_if_what_it_was_met_with_is_taken_back() {
        let inbox = Inbox::new().expect("a bell");
        let met = What::Met { parent: 0, end: None, is_elsewhere: false };
        let opens = What::Opens { whole: b"/a".to_vec(), flags: 0 };
        let call = |what| Call { at: Duration::ZERO, thread: 1, process: 1, what };
        inbox.add([met, opens].map(call).into_iter());
        inbox.take_back(1, Duration::ZERO);
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert!(matches!(&*taken, [Call { what: What::Met { .. }, .. }]), "{taken:?}");
    }
}
