//! The one scheduler: what is in flight, what waits, what is delivered.
//!
//! A pure state machine: events and `now` in, actions out. It reads no clock
//! and touches no store; a driver feeds it, and a simulation does the same
//! from a seed.
//!
//! - **Pace.** Nothing is begun before a set is first asked (SETS, section
//!   3.4). From then on members are begun as far as windows, the budget and
//!   [`Limits::ahead`] let them; each delivery makes room for more.
//! - **Delivery.** What is ready: the highest rank, whole before failed, the
//!   largest, the first listed. Else what has first bytes here, most first,
//!   if it is larger than a part or the set leaves no choice (it is next in the order, or one of the
//!   last): it streams, unless it is a file that was guessed at, which nobody reads.
//! - **Starts.** A device with room in its window takes told before guessed;
//!   then what a reader waits for, the highest rank, what was begun, what was
//!   listed first or, on a disk with one head, lies next. Sets that share a
//!   device take turns, those in which a consumer waits first. Behind a read that a head has
//!   been asked for whole one more is queued. A head with nothing but guesses is swept: of
//!   each rank all are opened before any is read, then they go by place, whichever set they are of,
//!   in a short queue.
//! - **Second attempts.** What waits unusually long for its first byte, and what somebody waits for
//!   that comes unusually slowly, is asked for once more; the first to bring it wins. They are a
//!   small share of a device's requests.
//! - **Failures.** A part is tried again, from where it stopped, after a pause
//!   that doubles; then its member fails, whole. That another would fail alike counts once no
//!   other attempt is at the part. A server that asks for patience gets it, and half the window;
//!   one that turns requests away and does not say for how long is asked less at a time, and left alone
//!   for a while once it turns away all: as many as were in flight, and brings nothing meanwhile.
//! - **The budget** holds but for what its module tells.

mod attempt;
mod budget;
mod contact;
mod deliver;
mod device;
mod ending;
mod event;
mod failure;
mod hash;
mod hedge;
mod histogram;
mod limits;
mod member;
mod place;
mod progress;
mod queue;
mod refusals;
mod room;
#[expect(clippy::module_inception, reason = "the concept of this file is the scheduler itself")]
mod scheduler;
mod set;
mod slab;
mod snapshot;
mod start;
mod time;
mod window;

pub use event::{
    Action, Aim, AttemptId, Cause, Contact, Delivery, DeviceId, DeviceTerms, Event, Failure, Kind,
    Listing, MemberId, Order, Origin, SetId, SetTerms,
};
pub(crate) use hash::NumberMap;
pub use limits::Limits;
pub use scheduler::Scheduler;
pub use snapshot::{BudgetSnapshot, DeviceSnapshot, SetSnapshot, Snapshot, WaitSnapshot};
