//! A walk as a store's listing: looked at in steps, as the names are asked for.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::blocking;
use crate::{Costs, Entries, Entry, Error, Name, Pattern, Walk};

/// Names that one step finds at most: enough that a step costs little beside them.
const STEP_NAMES_MAX: usize = 1024;
/// How long one step looks for more names when it has one: over slow folders
/// the first must not wait for the rest.
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
                Ok((found, _)) if found.is_empty() => None,
                Ok((found, walk)) => Some((stream::iter(found), Some(walk))),
                Err(error) => Some((stream::iter(vec![Err(error)]), None)),
            }
        }
    });
    steps.flatten().boxed()
}

/// The next names; none at the end.
fn step(costs: &Costs, walk: &mut Walk) -> Vec<Result<Entry, Error>> {
    let begin = costs.clock().now();
    let mut found = Vec::new();
    while found.len() < STEP_NAMES_MAX {
        let Some(next) = walk.next(costs.local()) else { break };
        found.push(next.map(|path| Entry::named(Name::from(path.as_path()))));
        if costs.clock().now().saturating_sub(begin) > STEP_MAX {
            break;
        }
    }
    found
}
