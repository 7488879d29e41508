//! A walk as a store's listing: looked at in steps, as the names are asked for.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::blocking;
use crate::{Costs, Entries, Entry, Error, Name, Pattern, Walk};

/// Names that one step finds at most: enough that a step costs little beside them.
const STEP_NAMES_MAX: usize = 1024;
/// How long one step looks for names, and the folder that it is at: over slow folders the first must
/// not wait for the rest, and where none is found nobody may ask for more.
const STEP_MAX: Duration = Duration::from_millis(5);

/// The files that match a pattern. Nothing is looked at before the first is
/// asked for, nor beyond a step while nobody asks.
pub(super) fn entries(costs: Arc<Costs>, pattern: &Name) -> Entries {
    let walk = match Pattern::new(pattern.as_bytes()) {
        Ok(pattern) => Walk::new(&pattern),
        Err(error) => return stream::once(async { Err(error) }).boxed(),
    };
    let steps = stream::unfold(Some(walk), move |walk| {
        let costs = Arc::clone(&costs);
        async move {
            let mut walk = walk?;
            let step = blocking(move || {
                let found = step(&costs, &mut walk);
                Ok((found, walk))
            });
            match step.await {
                Ok((found, walk)) if found.is_empty() && walk.is_over() => None,
                Ok((found, walk)) => Some((stream::iter(found), Some(walk))),
                Err(error) => Some((stream::iter(vec![Err(error)]), None)),
            }
        }
    });
    steps.flatten().boxed()
}

/// The next names, if there are any so soon.
fn step(costs: &Costs, walk: &mut Walk) -> Vec<Result<Entry, Error>> {
    let begin = costs.clock().now();
    let is_late = || costs.clock().now().saturating_sub(begin) > STEP_MAX;
    let mut found = Vec::new();
    while let Some(next) = walk.next_within(costs.local(), is_late) {
        found.push(next.map(|path| Entry::named(Name::from(path.as_path()))));
        if found.len() >= STEP_NAMES_MAX || is_late() {
            break;
        }
    }
    found
}
