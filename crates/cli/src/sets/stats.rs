//! `--stats` of a run over a set.

use nearfirst::Engine;

use super::Tally;
use crate::{human, messages};

/// Says what was read, from where, and what it took.
pub(crate) fn say(engine: &Engine, tally: &Tally) {
    let snapshot = engine.snapshot();
    let elapsed = engine.costs().clock().now();
    messages::note(format_args!(
        "{} read, {} failed: {} in {}",
        human::counted(tally.members(), "member"),
        tally.failures(),
        human::bytes(tally.bytes()),
        human::seconds(elapsed.as_secs_f64()),
    ));
    for device in &snapshot.devices {
        let name = engine.device(device.device);
        let name = name.map_or_else(String::new, |device| human::name(device.name()).to_string());
        let first_byte = match (device.first_byte_p50, device.first_byte_p95) {
            (Some(p50), Some(p95)) => format!(
                ", first byte after {} (one in twenty after more than {})",
                human::seconds(p50.as_secs_f64()),
                human::seconds(p95.as_secs_f64())
            ),
            _ => String::new(),
        };
        messages::note(format_args!(
            "{name}: {} of at most {} at a time{first_byte}; {} tried again, {} hedged ({} of use), \
             {} turned away, {} stalled",
            human::counted(device.requests, "request"),
            device.window,
            device.retries,
            device.hedges,
            device.hedges_won,
            device.refusals,
            device.stalls,
        ));
    }
    let budget = snapshot.budget;
    messages::note(format_args!(
        "room for what was fetched ahead: {} at most, and {} went to disk",
        human::bytes(budget.peak),
        human::bytes(budget.spilled_total),
    ));
    if let Some(why) = engine.spill_failure() {
        messages::note(format_args!("the disk would not take more of it: {why}"));
    }
}
