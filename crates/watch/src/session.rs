//! What is done beside an observed command: learning from it, and fetching for it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use store::Costs;
use tree::replay::Trace;
use tree::{Account, Event, Learner, Options, Patterns};

use crate::command::{Observer, Reporter};
use crate::large::Large;
use crate::pattern_store::{Held, learned};
use crate::{Carried, Carrier, CarrierOptions, Driver, PatternStore};

/// How long events are waited for at a time.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long another run that saves its patterns is waited for, while events gather.
const HELD_FOR: Duration = Duration::from_millis(500);
/// Events kept of a run, to be recorded or to be learned again; about 200 bytes each.
const EVENTS_MAX: usize = 1 << 20;

/// How a command is attended to.
#[derive(Debug, Default)]
pub struct SessionOptions {
    /// Whether to fetch what is predicted; if not, only to learn.
    pub fetches: bool,
    /// Where to write what was seen, as a trace.
    pub record: Option<PathBuf>,
    /// How to learn.
    pub learning: Options,
    /// What fetching may use.
    pub carrying: CarrierOptions,
}

/// What came of attending to a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attended {
    /// Of its predictions.
    pub account: Account,
    /// Of their fetching.
    pub carried: Carried,
}

/// Learns from a command until it ends, fetches for it, and saves what was learned.
///
/// What goes wrong is said to `reporter` and stops nothing. What the command leaves running is not
/// learned from.
pub fn attend(
    observer: &mut Observer,
    reporter: &Reporter,
    store: Option<&PatternStore>,
    options: &SessionOptions,
) -> Attended {
    let costs = Arc::new(Costs::load());
    let first = hold(store, HELD_FOR, reporter, &costs);
    let patterns = begin(store, first.as_ref().ok().and_then(Option::as_ref), options, reporter);
    // Where nothing can be written, that was said.
    let (mut held, store) = first.map_or((None, None), |held| (held, store));
    let before = patterns.account();
    let mut learner = Learner::new(options.learning.clone(), patterns);
    let carrier = Carrier::new(Arc::clone(&costs), options.carrying);
    let mut driver = Driver::new(carrier);
    let mut large = Large::new(Arc::clone(&costs), observer.mapped());
    let mut seen = Trace::default();
    let keeps = options.record.is_some() || store.is_some() && held.is_none();
    while !observer.command_ended() && !observer.is_over() {
        let turned = driver.turn(observer, PATIENCE, |event, now| {
            let mut decisions = Vec::new();
            for event in large.before(&event).into_iter().chain([event]) {
                let is_seen = !matches!(
                    event,
                    Event::Fetched { .. } | Event::Swept { .. } | Event::Refused { .. }
                );
                if keeps && is_seen && seen.events.len() < EVENTS_MAX {
                    seen.events.push((now, event.clone()));
                }
                decisions.extend(learner.on(event, now));
            }
            if options.fetches { decisions } else { Vec::new() }
        });
        if let Err(error) = turned {
            reporter.say(format_args!("the command is not seen any more: {error}"));
            break;
        }
    }
    let attended = Attended {
        account: learner.patterns().account().since(&before),
        carried: driver.carrier().counts(),
    };
    if let Some(path) = &options.record
        && let Err(error) = fs::write(path, seen.text())
    {
        reporter.say(format_args!("{}: {error}", path.display()));
    }
    if held.is_some() {
        save(held.as_ref(), learner.patterns(), reporter);
    } else if let Ok(again) = hold(store, HELD_FOR, reporter, &costs) {
        held = again;
        add(store, held.as_ref(), &seen, options, reporter);
    }
    // What fetches taught is worth keeping, but not worth a word if it cannot be kept.
    drop(costs.save());
    attended
}

/// Nothing can be saved, and it was said why.
struct Unwritable;

/// Tries for the right to save; without a store what is learned is lost.
fn hold(
    store: Option<&PatternStore>,
    patience: Duration,
    reporter: &Reporter,
    costs: &Costs,
) -> Result<Option<Held>, Unwritable> {
    let Some(store) = store else { return Ok(None) };
    store.hold(patience, costs.clock()).map_err(|error| {
        reporter.say(format_args!("{}: {error}", store.path().display()));
        Unwritable
    })
}

fn begin(
    store: Option<&PatternStore>,
    held: Option<&Held>,
    options: &SessionOptions,
    reporter: &Reporter,
) -> Patterns {
    let (patterns, warning) = store.map(PatternStore::load).unwrap_or_default();
    if let Some(warning) = warning {
        reporter.say(warning);
    }
    let Some(held) = held else { return patterns };
    let kept = patterns.clone();
    held.absorb(patterns, &options.learning).unwrap_or_else(|warning| {
        reporter.say(warning);
        kept
    })
}

fn save(held: Option<&Held>, patterns: &Patterns, reporter: &Reporter) {
    if let Some(Err(warning)) = held.map(|held| held.save(patterns)) {
        reporter.say(warning);
    }
}

/// Adds what was seen to what another run saved meanwhile, or leaves it for the next.
fn add(
    store: Option<&PatternStore>,
    held: Option<&Held>,
    seen: &Trace,
    options: &SessionOptions,
    reporter: &Reporter,
) {
    let Some(store) = store else { return };
    if held.is_some() {
        let (patterns, warning) = store.load();
        if let Some(warning) = warning {
            reporter.say(warning);
        }
        save(held, &learned(patterns, seen, &options.learning), reporter);
    } else if let Err(error) = store.leave(seen) {
        reporter.say(format_args!("{}: {error}", store.path().display()));
    }
}
