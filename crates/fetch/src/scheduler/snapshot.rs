//! What the scheduler is at, for people and metrics.

use std::time::Duration;

use super::budget::saturated;
use super::event::{DeviceId, MemberId, SetId};
use super::member::{MEMBERS, Stage};
use super::scheduler::{Scheduler, len_u32};
use super::set::ReadyKey;
use super::slab::List;

/// The state of a scheduler at a moment.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// The devices, in the order in which they were met.
    pub devices: Vec<DeviceSnapshot>,
    /// The sets, in the order of their numbers.
    pub sets: Vec<SetSnapshot>,
    /// The budget.
    pub budget: BudgetSnapshot,
    /// What is waited for, the longest first.
    pub waits: Vec<WaitSnapshot>,
}

/// A device at a moment; counts are since it was met.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeviceSnapshot {
    /// The device.
    pub device: DeviceId,
    /// Requests that may be in flight.
    pub window: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// Bytes a second over the last epoch, each request counted as some bytes.
    pub goodput: f64,
    /// The median time to the first byte.
    pub first_byte_p50: Option<Duration>,
    /// What one in twenty exceeds.
    pub first_byte_p95: Option<Duration>,
    /// Attempts started, hedges included.
    pub requests: u64,
    /// Second attempts started.
    pub hedges: u64,
    /// Second attempts that came first.
    pub hedges_won: u64,
    /// Parts that were tried again.
    pub retries: u64,
    /// Attempts that the server turned away.
    pub refusals: u64,
    /// Attempts that were cut because nothing came.
    pub stalls: u64,
}

/// A set at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetSnapshot {
    /// The set.
    pub set: SetId,
    /// Consumers that wait.
    pub asked: u32,
    /// Members that nothing was begun for.
    pub queued: u32,
    /// Members that something is on its way for.
    pub fetching: u32,
    /// Members that wait for a consumer.
    pub ready: u32,
    /// Members that readers hold.
    pub lent: u32,
    /// Members delivered so far, errors included.
    pub delivered: u64,
    /// Members delivered as errors so far.
    pub failed: u64,
}

/// The budget at a moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BudgetSnapshot {
    /// Fetched or on their way, and not read; of what tells no size, the room for as much as may come.
    pub used: u64,
    /// Of those, what was begun beyond the limit so that no consumer waits for ever.
    pub over: u64,
    /// How many members that were; each has one and a half parts at most.
    pub over_members: u32,
    /// The most that was used at a time.
    pub peak: u64,
    /// On disk.
    pub spilled: u64,
    /// Moved to disk so far.
    pub spilled_total: u64,
}

/// A member that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitSnapshot {
    /// The member.
    pub member: MemberId,
    /// Where it is.
    pub device: DeviceId,
    /// For how long.
    pub waited: Duration,
    /// For how long its device is still left alone, because its server asked for that.
    pub paused: Option<Duration>,
}

/// Members in flight that a snapshot names.
const WAITS: usize = 8;

impl Scheduler {
    /// What it is at. Takes time in proportion to the members that are in flight.
    pub fn snapshot_at(&self, now: Duration) -> Snapshot {
        let mut sets: Vec<SetSnapshot> = self.set_snapshots().collect();
        sets.sort_unstable_by_key(|set| set.set);
        Snapshot {
            devices: self.device_snapshots().collect(),
            sets,
            budget: BudgetSnapshot {
                used: saturated(self.budget.committed + self.budget.over),
                over: saturated(self.budget.over),
                over_members: self.budget.over_members,
                peak: saturated(self.budget.peak),
                spilled: self.budget.spilled,
                spilled_total: self.budget.spilled_total,
            },
            waits: self.waits(now),
        }
    }

    fn device_snapshots(&self) -> impl Iterator<Item = DeviceSnapshot> + '_ {
        self.devices.iter().map(|device| DeviceSnapshot {
            device: device.id,
            window: device.window.size(),
            in_flight: device.window.in_flight(),
            goodput: device.window.goodput(),
            first_byte_p50: device.latency.median(),
            first_byte_p95: device.latency.p95(),
            requests: device.requests,
            hedges: device.hedges,
            hedges_won: device.hedges_won,
            retries: device.retries,
            refusals: device.refusals,
            stalls: device.stalls,
        })
    }

    fn set_snapshots(&self) -> impl Iterator<Item = SetSnapshot> + '_ {
        self.sets.iter().map(|(&id, set)| {
            let ready = len_u32(set.ready.len());
            // These are ready, and were never begun.
            let is_unlisted = |key: &&ReadyKey| self.members[key.4].is_unlisted();
            let unlisted = set.ready.iter().filter(is_unlisted).count();
            let unlisted = len_u32(unlisted);
            SetSnapshot {
                set: id,
                asked: set.asked,
                queued: set.undelivered.len().saturating_sub(set.begun + unlisted),
                fetching: set.begun.saturating_sub(ready - unlisted),
                ready,
                lent: set.lent,
                delivered: set.delivered,
                failed: set.failed,
            }
        })
    }

    fn waits(&self, now: Duration) -> Vec<WaitSnapshot> {
        let mut waits: Vec<WaitSnapshot> = Vec::new();
        for set in self.sets.values() {
            let mut next = set.undelivered.first();
            let mut begun = set.begun;
            while let (Some(slot), true) = (next, begun > 0) {
                let member = &self.members[slot];
                let is_begun = member.stage != Stage::Waiting && !member.is_unlisted();
                begun -= u32::from(is_begun);
                if member.stage == Stage::Begun {
                    let device = &self.devices[member.device as usize];
                    let paused = device.paused_until.saturating_sub(now);
                    waits.push(WaitSnapshot {
                        member: member.id,
                        device: device.id,
                        waited: now.saturating_sub(member.since),
                        paused: (!paused.is_zero()).then_some(paused),
                    });
                }
                next = List::<MEMBERS>::after(&self.members, slot);
            }
        }
        waits.sort_unstable_by_key(|wait| (std::cmp::Reverse(wait.waited), wait.member));
        waits.truncate(WAITS);
        waits
    }
}
