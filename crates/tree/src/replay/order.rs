//! In which order events come when some of them take longer than they did when they were recorded.
//!
//! What a process does waits for what it did before. A parent's next event waits for the ends of
//! children that had ended by then: programs that start others mostly wait for them, and a trace
//! does not tell which do not. Everything else keeps its distance in time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use crate::{Event, Process};

#[derive(Debug, Default, Clone)]
struct Step {
    waits_for: usize,
    then: Vec<usize>,
    delay: Duration,
}

/// The events of a trace that may come next.
#[derive(Debug)]
pub(super) struct Order<'a> {
    events: &'a [(Duration, Event)],
    steps: Vec<Step>,
    ready: BinaryHeap<Reverse<(Duration, usize)>>,
}

impl<'a> Order<'a> {
    pub(super) fn new(events: &'a [(Duration, Event)]) -> Self {
        let mut steps = vec![Step::default(); events.len()];
        let mut links = Links::default();
        for (index, (_, event)) in events.iter().enumerate() {
            for before in links.before(index, event) {
                steps[before].then.push(index);
                steps[index].waits_for += 1;
            }
        }
        let first = (0..events.len()).filter(|&index| steps[index].waits_for == 0);
        let ready = first.map(|index| Reverse((events[index].0, index))).collect();
        Self { events, steps, ready }
    }

    /// The next event and when it happens; [`Self::done`] has been called for those before it.
    pub(super) fn next(&mut self) -> Option<(Duration, usize)> {
        self.ready.pop().map(|Reverse(next)| next)
    }

    /// An event has happened, and what follows it comes later by `wait`.
    pub(super) fn done(&mut self, index: usize, wait: Duration) {
        let delay = self.steps[index].delay + wait;
        for next in std::mem::take(&mut self.steps[index].then) {
            let step = &mut self.steps[next];
            step.delay = step.delay.max(delay);
            step.waits_for -= 1;
            if step.waits_for == 0 {
                self.ready.push(Reverse((self.events[next].0 + step.delay, next)));
            }
        }
    }
}

#[derive(Debug, Default)]
struct Links {
    last: HashMap<Process, usize>,
    parents: HashMap<Process, Process>,
    ended: HashMap<Process, Vec<usize>>,
}

impl Links {
    fn before(&mut self, index: usize, event: &Event) -> Vec<usize> {
        let process = match event {
            Event::Found { process, .. }
            | Event::Executed { process, .. }
            | Event::Opened { process, .. }
            | Event::Touched { process, .. }
            | Event::Exited { process } => *process,
            Event::Forked { parent, .. } => *parent,
            Event::Lost { .. }
            | Event::Fetched { .. }
            | Event::Swept { .. }
            | Event::Refused { .. } => {
                return index.checked_sub(1).into_iter().collect();
            }
        };
        let mut before = self.ended.remove(&process).unwrap_or_default();
        before.extend(self.last.insert(process, index));
        match event {
            Event::Forked { parent, child } => {
                self.last.insert(*child, index);
                self.parents.insert(*child, *parent);
            }
            Event::Exited { .. } => {
                self.last.remove(&process);
                if let Some(parent) = self.parents.remove(&process) {
                    self.ended.entry(parent).or_default().push(index);
                }
            }
            _ => {}
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trace;
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_micros;

    fn played(text: &str, slow: usize) -> Vec<(Duration, usize)> {
        let text = format!("nearfirst-trace 1\nfile 0 /a 1\n{text}");
        let trace = Trace::parse(text.as_bytes()).unwrap();
        let mut order = Order::new(&trace.events);
        let mut all = Vec::new();
        while let Some((at, index)) = order.next() {
            all.push((at, index));
            order.done(index, if index == slow { AT(100) } else { AT(0) });
        }
        all
    }

    #[test]
    fn a_delay_moves_what_waits_for_it_and_nothing_else() {
        // 1 makes 2 and 3; 2 is held up at its file and ends; then 1 goes on; 3 does not wait.
        let text = "0 found 1 0\n1 fork 1 2\n1 fork 1 3\n1 read 2 0\n1 read 3 0\n1 exit 2\n1 exit 3\n\
                    1 read 1 0\n";
        let order = played(text, 3);
        let at = |index: usize| order.iter().find(|played| played.1 == index).unwrap().0;
        assert_eq!(order.len(), 8);
        assert_eq!((at(3), at(4), at(6)), (AT(3), AT(4), AT(6)));
        assert_eq!((at(5), at(7)), (AT(105), AT(107)));
        assert!(order.is_sorted());
    }
}
