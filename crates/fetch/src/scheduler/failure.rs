//! Attempts that fail, and when there is another.

use std::time::Duration;

use super::event::{AttemptId, Cause, Failure};
use super::scheduler::Scheduler;

/// How often a part is turned away before that counts as a failure.
const REFUSALS_MAX: u32 = 16;
/// How often it lacks descriptors of its own before that does: with the failures that count, some seconds
/// for one part. Whoever reads it may hold them all, and closes none while waiting.
const SHORTAGES_MAX: u32 = 4;
/// With so many bytes more of a part here, its attempts are counted anew: whoever ends every answer
/// early gets on all the same, and at a connection's first window nothing is known to work yet.
const PROGRESS_BYTES: u64 = 256 << 10;
/// The longest that a server is left alone when it asks for it: with
/// `REFUSALS_MAX`, a quarter of an hour for one part.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a part is asked for again without a longer pause, while its server turns away some only: that it
/// was among these was bad luck.
const UNLUCKY_MAX: u32 = 4;
/// The longest pause before another attempt.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

impl Scheduler {
    pub(super) fn attempt_failed(&mut self, id: AttemptId, failure: Failure) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        let part = self.attempts[attempt].part;
        if let Failure::Busy { retry_after } = failure {
            self.refused(attempt, retry_after);
        }
        self.end_attempt(attempt);
        self.part_failed(part, failure, Cause::Failed);
    }

    fn refused(&mut self, attempt: u32, retry_after: Option<Duration>) {
        let (slot, began) = (self.attempts[attempt].device, self.attempts[attempt].started);
        let device = &mut self.devices[slot as usize];
        device.refusals += 1;
        if device.refused_in_turn == 0 {
            device.refused_of = device.window.in_flight();
        }
        device.refused_in_turn += 1;
        device.window.brake(began, self.now);
        if retry_after.is_none() && !device.turns_away_all() {
            return;
        }
        let pause = retry_after.unwrap_or(self.limits.backoff).min(PATIENCE);
        device.paused_until = device.paused_until.max(self.now.saturating_add(pause));
        device.is_paused = true;
        self.time(slot);
    }

    /// An attempt at a part ended without it.
    pub(super) fn part_failed(&mut self, part_slot: u32, failure: Failure, cause: Cause) {
        let part = &mut self.parts[part_slot];
        let slot = part.member;
        // The other may bring it, whatever befell this one.
        if part.is_tried() {
            part.is_hopeless |= failure == Failure::Final;
            return;
        }
        if failure == Failure::Final {
            self.fail(slot, cause);
            return;
        }
        if !part.opens && part.done >= part.end {
            self.complete_part(part_slot);
            return;
        }
        if part.is_hopeless {
            self.fail(slot, Cause::Failed);
            return;
        }
        if part.done.saturating_sub(part.counted_at) >= PROGRESS_BYTES {
            part.counted_at = part.done;
            (part.failures, part.refusals) = (0, 0);
        }
        let not_counted = match failure {
            Failure::Busy { .. } => REFUSALS_MAX,
            Failure::Short => SHORTAGES_MAX,
            Failure::Transient | Failure::Final => 0,
        };
        if part.refusals < not_counted {
            part.refusals += 1;
        } else {
            part.failures += 1;
        }
        let (failures, refusals) = (part.failures, part.refusals);
        if failures >= self.limits.attempts_max {
            self.fail(slot, cause);
            return;
        }
        let device = &mut self.devices[self.members[slot].device as usize];
        device.retries += 1;
        let unlucky = match failure {
            Failure::Busy { .. } if !device.turns_away_all() => UNLUCKY_MAX,
            _ => 0,
        };
        let failures = failures.max(refusals.saturating_sub(unlucky));
        let name = self.parts.name(part_slot);
        let at = self.now.saturating_add(self.pause_before(failures, name));
        self.parts[part_slot].retry_at = Some(at);
        self.retries.push(std::cmp::Reverse((at, name)));
    }

    /// Doubles with every failure; a part's own share of up to a half more
    /// keeps those that failed together from coming back together.
    fn pause_before(&self, failures: u32, name: u64) -> Duration {
        let doubled = 1u32 << failures.saturating_sub(1).min(20);
        let pause = self.limits.backoff.saturating_mul(doubled).min(BACKOFF_MAX);
        let share = (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as f64 / 1024.0;
        pause.saturating_add(pause.mul_f64(share / 2.0))
    }
}
