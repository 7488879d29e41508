//! One loop over what programs do: events to whoever guesses, decisions to whoever fetches.
//!
//! The service and `nearfirst run` differ in their source and in when they stop; they share this.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tree::{Access, Decision, Event};

use crate::Source;
use crate::carrier::Carrier;

/// While much is fetched, it is looked after as often: what has come makes room for more, and a
/// fast device fills some ten megabytes in this time.
const LOOKS_AFTER: Duration = Duration::from_millis(20);
/// The same while little comes, each file of which is told of: memory may become short meanwhile.
const LOOKS_ANYHOW: Duration = Duration::from_millis(250);

/// Tells a guesser what a source sees, and has its guesses carried out.
#[derive(Debug)]
pub(crate) struct Driver {
    carrier: Carrier,
    /// When something that was fetched was last found to have come.
    came: Option<Duration>,
    /// Whether the source is woken when something comes.
    hears: bool,
}

impl Driver {
    /// A loop that has its predictions carried out by `carrier`.
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self { carrier, came: None, hears: false }
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
    pub(crate) fn turn(
        &mut self,
        source: &mut impl Source,
        patience: Duration,
        mut decide: impl FnMut(Event, Duration) -> Vec<Decision>,
    ) -> io::Result<()> {
        let events = source.next(match (self.carrier.in_flight(), self.hears) {
            (0, _) => patience,
            (_, true) => patience.min(LOOKS_ANYHOW),
            (_, false) => patience.min(LOOKS_AFTER),
        });
        let stands_aside = source.stands_aside();
        if stands_aside {
            self.carrier.give_up();
            self.carrier.wait_for_leaving();
            source.has_stood_aside();
        }
        let mut carried = |carrier: &mut Carrier, event: Event, at: Duration| {
            let mut decisions = VecDeque::from(decide(event, at));
            while let Some(decision) = decisions.pop_front() {
                match decision {
                    Decision::Fetch(_) if stands_aside => {}
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
        let now = self.carrier.clock().now();
        // What comes faster is taken several at a time.
        let comes_slowly = self.came.is_none_or(|came| now.saturating_sub(came) >= LOOKS_AFTER);
        let waker = source.waker().filter(|_| comes_slowly);
        self.hears = waker.inspect(|waker| self.carrier.wake(waker)).is_some();
        let done = self.carrier.done();
        if !done.is_empty() {
            self.came = Some(now);
        }
        for (at, event) in done {
            carried(&mut self.carrier, event, at);
        }
        self.carrier.look_after();
        Ok(())
    }

    /// Who carries predictions out.
    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// The same, to have it do something besides.
    pub(crate) fn carrier_mut(&mut self) -> &mut Carrier {
        &mut self.carrier
    }
}

#[cfg(test)]
mod tests {
    use std::mem;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::sync::{Arc, Condvar, Mutex};
    use std::task::{Wake, Waker};

    use store::Costs;
    use testkit::Dir;
    use tree::{Predicted, Prediction, PredictionId, Process, User};

    use super::*;
    use crate::CarrierOptions;

    const WOKEN_WITHIN: Duration = Duration::from_secs(30);

    /// Tells of one process that ended, and then waits until it is woken, whatever it is told.
    #[derive(Default)]
    struct Sleeper {
        bell: Arc<Bell>,
        has_told: bool,
        patiences: Vec<Duration>,
    }

    #[derive(Default)]
    struct Bell(Mutex<bool>, Condvar);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            *self.0.lock().expect("nobody panics") = true;
            self.1.notify_all();
        }
    }

    impl Source for Sleeper {
        fn next(&mut self, patience: Duration) -> io::Result<Vec<(Duration, Event)>> {
            if !mem::replace(&mut self.has_told, true) {
                return Ok(vec![(Duration::ZERO, Event::Exited { process: Process(0) })]);
            }
            self.patiences.push(patience);
            let rings = self.bell.0.lock().expect("nobody panics");
            let waited = self.bell.1.wait_timeout_while(rings, WOKEN_WITHIN, |rings| !*rings);
            let (mut rings, waited) = waited.expect("nobody panics");
            assert!(!waited.timed_out(), "it was not woken");
            *rings = false;
            Ok(Vec::new())
        }

        fn waker(&self) -> Option<Waker> {
            Some(Arc::clone(&self.bell).into())
        }
    }

    fn of(path: &Path) -> Prediction {
        let path = path.as_os_str().as_bytes().into();
        let (extents, needed_in) = (Vec::new(), Duration::ZERO);
        let files = vec![Predicted { path, extents, needed_in, chance: 1.0, inode: None }];
        Prediction { id: PredictionId(1), process: Process(0), user: User(0), files }
    }

    #[test]
    fn a_source_that_can_be_woken_is_woken_by_what_comes_and_waits_long_for_it() {
        let dir = Dir::new();
        let path = dir.create("a", "some text");
        let carrier = Carrier::new(Arc::new(Costs::load()), CarrierOptions::default());
        let (mut driver, mut source) = (Driver::new(carrier), Sleeper::default());
        let mut has_come = false;
        while !has_come {
            let turned = driver.turn(&mut source, Duration::from_mins(1), |event, _| {
                has_come |= matches!(event, Event::Fetched { .. });
                let begins = matches!(event, Event::Exited { .. });
                if begins { vec![Decision::Fetch(of(&path))] } else { Vec::new() }
            });
            turned.expect("it tells");
        }
        assert!(source.patiences.iter().all(|patience| *patience == LOOKS_ANYHOW));
    }
}
