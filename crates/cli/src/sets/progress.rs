//! The line on the terminal of a run over a set: how far it is, how fast, and what it waits for.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use nearfirst::{Engine, Set};
use tokio::task::AbortHandle;

use super::{Tally, interrupt};
use crate::{human, progress};

/// How often the line is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows the line until it is dropped.
#[derive(Debug)]
pub(crate) struct Shown(Option<AbortHandle>);

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
            progress::wipe();
        }
    }
}

/// Shows how far a run over `set` is, where stderr is a terminal.
///
/// Not where the output is on a terminal too: it would be written into.
pub(crate) fn show(set: &Arc<Set>, tally: &Arc<Tally>) -> Shown {
    if io::stdout().is_terminal() {
        return Shown(None);
    }
    show_beside_output(set, tally)
}

/// As [`show`], for commands whose output on the terminal takes the line away first.
pub(crate) fn show_beside_output(set: &Arc<Set>, tally: &Arc<Tally>) -> Shown {
    let tally = Arc::clone(tally);
    shown_of(set, move |engine, names, elapsed| text(engine, &tally, names, elapsed))
}

/// Shows how many names of `set` are known, where stderr is a terminal and the output is on none.
pub(crate) fn show_names(set: &Arc<Set>) -> Shown {
    if io::stdout().is_terminal() {
        return Shown(None);
    }
    show_names_beside_output(set)
}

/// As [`show_names`], for commands whose output on the terminal takes the line away first.
pub(crate) fn show_names_beside_output(set: &Arc<Set>) -> Shown {
    shown_of(set, |engine, names, _| human::counted(names.known, "name") + &waiting(engine, names))
}

/// The names of a set at a moment.
#[derive(Debug, Clone, Copy)]
struct Names {
    known: u64,
    are_waited_for: bool,
}

fn shown_of<F>(set: &Arc<Set>, text: F) -> Shown
where
    F: Fn(&Engine, Names, Duration) -> String + Send + 'static,
{
    if !io::stderr().is_terminal() {
        return Shown(None);
    }
    let engine = set.engine().clone();
    let (handle, set) = (engine.handle().clone(), Arc::downgrade(set));
    interrupt::watch_stops(&handle);
    let shown = async move {
        let clock = engine.costs().clock().clone();
        let mut line = progress::Line::new(&clock);
        let began = clock.now();
        loop {
            tokio::time::sleep(PAUSE).await;
            let Some(set) = set.upgrade() else { return };
            let names = Names { known: set.known(), are_waited_for: set.is_listing() };
            drop(set);
            let elapsed = clock.now().saturating_sub(began);
            line.show(|| text(&engine, names, elapsed));
        }
    };
    Shown(Some(handle.spawn(shown).abort_handle()))
}

/// `12 of 340 members, 1.2 GiB, 98.0 MiB/s; waiting 3.1 s for s3://bucket`. Of the last member, or
/// the only one, also how much there is of it: `0 of 1 members, 1.2 GiB of 4.0 GiB`. Where a server asked
/// for patience, also for how long: `waiting 3.1 s (the server asks for 12 s more) for …`.
fn text(engine: &Engine, tally: &Tally, names: Names, elapsed: Duration) -> String {
    let known = tally.known_before() + names.known;
    let bytes = tally.bytes();
    let rate = human::rate(bytes as f64 / elapsed.as_secs_f64().max(0.001));
    let done = tally.members() + tally.failures();
    let all = tally.expected_bytes();
    let is_last = done + 1 == known && all > bytes;
    let of = if is_last { format!(" of {}", human::bytes(all)) } else { String::new() };
    let mut text = format!("{done} of {known} members, {}{of}, {rate}", human::bytes(bytes));
    if let Some(wait) = engine.snapshot().waits.first() {
        let seconds = wait.waited.as_secs_f64();
        let what = engine.member(wait.member).map_or_else(String::new, |name| super::shown(&name));
        let from = engine.device(wait.device);
        let from = from.map_or_else(String::new, |device| human::name(device.name()).to_string());
        let more = wait.paused.map_or_else(String::new, |paused| {
            format!(" (the server asks for {:.0} s more)", paused.as_secs_f64().ceil())
        });
        let _ = write!(text, "; waiting {seconds:.1} s{more} for {what} from {from}");
    } else {
        text.push_str(&waiting(engine, names));
    }
    text
}

/// `; waiting for more names from s3://bucket/**`, if they are waited for.
fn waiting(engine: &Engine, names: Names) -> String {
    if !names.are_waited_for {
        return String::new();
    }
    let from = engine.stores().listing();
    let from = from.map_or_else(String::new, |listed| format!(" from {}", super::shown(&listed)));
    format!("; waiting for more names{from}")
}
