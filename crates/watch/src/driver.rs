//! One loop over what programs do: events to whoever guesses, decisions to whoever fetches.
//!
//! The service and `nearfirst run` differ in their source and in when they stop; they share this.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tree::{Access, Decision, Event};

use crate::{Carrier, Source};

/// While something is fetched, it is looked after as often: what has come makes room for more, and a
/// fast device fills some ten megabytes in this time.
const LOOKS_AFTER: Duration = Duration::from_millis(20);

/// Tells a guesser what a source sees, and has its guesses carried out.
///
/// ```no_run
/// # fn events() -> impl watch::Source { struct Nothing; impl watch::Source for Nothing {
/// #     fn next(&mut self, _: std::time::Duration) -> std::io::Result<Vec<(std::time::Duration, tree::Event)>> { Ok(Vec::new()) } } Nothing }
/// # use nearfirst_watch as watch;
/// # use std::sync::Arc;
/// let costs = Arc::new(store::Costs::load());
/// let mut driver = watch::Driver::new(watch::Carrier::new(costs, watch::CarrierOptions::default()));
/// let mut source = events();
/// for _ in 0..100 {
///     driver.turn(&mut source, std::time::Duration::from_millis(100), |_event, _now| Vec::new())?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Driver {
    carrier: Carrier,
}

impl Driver {
    /// A loop that has its predictions carried out by `carrier`.
    pub fn new(carrier: Carrier) -> Self {
        Self { carrier }
    }

    /// Waits for events, no longer than `patience`, has all of them judged by `decide`, in order,
    /// and does what that asks for.
    ///
    /// `decide` is called with each event and its time: usually `|event, now| learner.on(event, now)`.
    /// It is also told what was fetched ([`Event::Fetched`]) and what could not be
    /// ([`Event::Refused`]).
    ///
    /// # Errors
    /// The source's, after which it tells no more. What is in flight goes on.
    pub fn turn(
        &mut self,
        source: &mut impl Source,
        patience: Duration,
        mut decide: impl FnMut(Event, Duration) -> Vec<Decision>,
    ) -> io::Result<()> {
        let is_busy = self.carrier.in_flight() > 0;
        let events = source.next(if is_busy { patience.min(LOOKS_AFTER) } else { patience });
        let mut carried = |carrier: &mut Carrier, event: Event, at: Duration| {
            let mut decisions = VecDeque::from(decide(event, at));
            while let Some(decision) = decisions.pop_front() {
                match decision {
                    Decision::Fetch(prediction) => {
                        for told in carrier.fetch(prediction) {
                            decisions.extend(decide(told, at));
                        }
                    }
                    Decision::Withdraw(id) => carrier.withdraw(id),
                }
            }
        };
        for (at, event) in events? {
            if let Event::Opened { file, access: Access::Read, .. } = &event {
                self.carrier.is_opened(&file.path);
            }
            carried(&mut self.carrier, event, at);
        }
        for (at, event) in self.carrier.done() {
            carried(&mut self.carrier, event, at);
        }
        self.carrier.look_after();
        Ok(())
    }

    /// Who carries predictions out.
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }
}
