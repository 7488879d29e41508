//! What happens because time passed.

use std::cmp::Reverse;
use std::time::Duration;

use super::event::{Cause, Failure};
use super::scheduler::Scheduler;

impl Scheduler {
    /// When the next [`super::Event::Tick`] is due, if no event comes before:
    /// a stall limit, the end of a pause, a hedge. May be in the past: at once.
    pub fn wake_at(&self) -> Option<Duration> {
        let stall = self.silent.first().map(|slot| self.stalls_at(slot));
        let retry = self.retries.peek().map(|Reverse((at, _))| *at);
        let spill = self.spill_since.map(|since| since.saturating_add(self.limits.stall));
        let spill = spill.filter(|&at| at > self.now);
        let devices = self.timed.iter().flat_map(|&slot| {
            let device = &self.devices[slot as usize];
            let waits = device.waits() || !device.unmet.is_empty();
            // It may be over, and nobody have looked.
            let paused = device.is_paused && waits;
            let hedge = (!paused && device.may_hedge(&self.limits)).then(|| {
                let first = device.unmet.first()?;
                Some(self.attempts[first].started.saturating_add(device.hedge_after()?))
            });
            [paused.then_some(device.paused_until), hedge.flatten()]
        });
        [stall, retry, spill].into_iter().chain(devices).flatten().min()
    }

    /// Has [`Self::wake_at`] mind a device: it is paused, or waits for a first byte.
    pub(super) fn time(&mut self, slot: u32) {
        const SPARE: usize = 16;
        if std::mem::replace(&mut self.devices[slot as usize].is_in_timed, true) {
            return;
        }
        if self.timed.len() > 2 * self.timed_kept + SPARE {
            let devices = &mut self.devices;
            self.timed.retain(|&slot| {
                let device = &mut devices[slot as usize];
                device.is_in_timed = device.is_paused || !device.unmet.is_empty();
                device.is_in_timed
            });
            self.timed_kept = self.timed.len();
        }
        self.timed.push(slot);
    }

    fn stalls_at(&self, attempt: u32) -> Duration {
        self.attempts[attempt].heard.saturating_add(self.limits.stall)
    }

    pub(super) fn tick(&mut self) {
        while let Some(attempt) = self.silent.first() {
            if self.stalls_at(attempt) > self.now {
                break;
            }
            let part = self.attempts[attempt].part;
            self.devices[self.attempts[attempt].device as usize].stalls += 1;
            self.cancel(attempt);
            self.part_failed(part, Failure::Transient, Cause::Stalled);
        }
        while let Some(&Reverse((at, name))) = self.retries.peek() {
            let part = self.parts.find(name).filter(|&part| self.parts[part].retry_at == Some(at));
            if part.is_some() && at > self.now {
                break;
            }
            self.retries.pop();
            if let Some(part) = part {
                self.parts[part].retry_at = None;
                self.try_again(part);
            }
        }
        for slot in 0..self.devices.len() {
            let device = &mut self.devices[slot];
            device.is_paused &= device.paused_until > self.now;
            if device.waits() || !device.unmet.is_empty() {
                self.look_at_device(super::scheduler::len_u32(slot));
            }
        }
        self.recheck = true;
    }

    fn try_again(&mut self, part_slot: u32) {
        let part = &self.parts[part_slot];
        if !part.opens && part.done >= part.allowed && part.allowed < part.end {
            self.extend_if_due(part_slot);
            return;
        }
        let slot = part.member;
        self.set_idle(part_slot, true);
        self.queue(slot);
    }
}
