//! The order in which inputs are counted: what is in memory comes before what may push it out.

use std::collections::VecDeque;
use std::iter;

use nearfirst::{Costs, Place};
use store::Opened;

use super::files::{Input, Size};
use super::run::{AHEAD_MAX, Numbered, in_order};
use crate::divide::divided;

/// With fewer inputs, a thread costs more than it saves.
const INPUTS_PER_THREAD_MIN: usize = 64;

/// The inputs: of each [`AHEAD_MAX`] that follow one another, those of `bytes_min` and more that are
/// wholly in memory come first.
pub(super) fn near_first(
    inputs: Vec<Input>,
    sizes: Vec<Option<Size>>,
    bytes_min: u64,
    threads: usize,
    costs: &Costs,
) -> impl Iterator<Item = Numbered> + Send {
    let mut all = in_order(inputs).zip(sizes);
    let mut next = VecDeque::new();
    iter::from_fn(move || {
        if next.is_empty() {
            let mut inputs: Vec<_> = all.by_ref().take(AHEAD_MAX).collect();
            if inputs.is_empty() {
                return None;
            }
            let ask = |inputs: &[(Numbered, Option<Size>)]| -> Vec<bool> {
                let ask = |(numbered, size): &(Numbered, Option<Size>)| {
                    is_near(&numbered.input, *size, bytes_min, costs)
                };
                inputs.iter().map(ask).collect()
            };
            let near = divided(&inputs, threads, INPUTS_PER_THREAD_MIN, ask).concat();
            for ((numbered, _), is_near) in inputs.iter_mut().zip(near) {
                numbered.is_near = is_near;
            }
            let inputs = inputs.into_iter().map(|(numbered, _)| numbered);
            let (near, others): (Vec<_>, Vec<_>) = inputs.partition(|numbered| numbered.is_near);
            next.extend(near.into_iter().chain(others));
        }
        next.pop_front()
    })
}

fn is_near(input: &Input, size: Option<Size>, bytes_min: u64, costs: &Costs) -> bool {
    let Some(Size::Bytes(size)) = size.filter(|_| matches!(input, Input::File(_))) else {
        return false;
    };
    if size < bytes_min {
        return false;
    }
    // A file on FUSE tells more once it is open, as it will be, anyhow.
    let Ok((file, Some(status))) = input.open(costs) else { return false };
    let file = Opened::new(file, status.backing.may_stall());
    costs.local().is_wholly_near(&*file, size)
        || costs
            .file_sleds(&*file)
            .is_ok_and(|sleds| sleds.iter().all(|sled| sled.place == Place::Near))
}
