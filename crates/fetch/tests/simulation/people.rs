//! Consumers, readers, and those who close sets.

use nearfirst_fetch::scheduler::{Delivery, Event, Kind, MemberId, Order};

use crate::plan::Habit;
use crate::world::{Fortune, Happening, World, at, set_id};

impl World {
    pub(crate) fn ask(&mut self, set: usize, consumer: usize) {
        let known = &mut self.sets[set];
        let asker = &mut known.consumers[consumer];
        if known.closed || known.ended || asker.done || asker.asks {
            return;
        }
        if asker.got >= asker.plan.stops_after {
            asker.done = true;
            return;
        }
        asker.asks = true;
        known.asked_ever = true;
        let impatient = asker.plan.impatient && asker.given_up < 50;
        self.feed(Event::Asked { set: set_id(set) });
        if impatient {
            let patience = self.chance.micros(0, 20_000);
            self.after(patience, Happening::GiveUp(set, consumer));
        }
    }

    pub(crate) fn give_up(&mut self, set: usize, consumer: usize) {
        let known = &mut self.sets[set];
        if known.closed || known.ended || !known.consumers[consumer].asks {
            return;
        }
        known.consumers[consumer].asks = false;
        known.consumers[consumer].given_up += 1;
        self.feed(Event::Unasked { set: set_id(set) });
        let pause = self.chance.micros(0, 5_000);
        self.after(pause, Happening::Ask(set, consumer));
    }

    pub(crate) fn delivered(&mut self, set: usize, member: u64, state: Delivery) {
        self.check_delivery(set, member, state);
        let known = &mut self.sets[set];
        known.delivered.push(member);
        let Some(consumer) = known.consumers.iter().position(|consumer| consumer.asks) else {
            assert_eq!(state, Delivery::Near, "somebody asked for what is delivered");
            known.beside += 1;
            assert!(known.beside <= self.plan.limits.batch, "{} beside", known.beside);
            self.members[at(member)].fortune = Fortune::Gone;
            return;
        };
        known.beside = 0;
        let asker = &mut known.consumers[consumer];
        asker.asks = false;
        asker.got += 1;
        let plan = asker.plan;
        let lent = &mut self.members[at(member)];
        lent.consumer = consumer;
        let think = self.chance.micros(plan.think_us.0, plan.think_us.1);
        if matches!(state, Delivery::Failed(_) | Delivery::Near) {
            lent.fortune = Fortune::Gone;
            lent.in_memory = 0;
            self.after(think, Happening::Ask(set, consumer));
            return;
        }
        lent.fortune = Fortune::Lent;
        match plan.habit {
            Habit::Reads => self.after(think, Happening::Read(member)),
            Habit::ReleasesAtOnce | Habit::ClosesEarly => {
                self.after(think, Happening::Release(member));
            }
            Habit::Hoards => self.after(think, Happening::Ask(set, consumer)),
        }
    }

    /// A reader takes a bite, or waits for one.
    pub(crate) fn read(&mut self, member: u64) {
        let known = &mut self.members[at(member)];
        if known.fortune != Fortune::Lent {
            return;
        }
        let plan = self.sets[known.set].consumers[known.consumer].plan;
        if known.plan.kind == Kind::Cache {
            // Its reader finds what is near and waits for the device for the rest.
            let bytes = known.in_memory;
            known.in_memory = 0;
            if bytes > 0 {
                self.feed(Event::Read { member: MemberId(member), bytes });
            }
            let pause = self.chance.micros(0, 5_000);
            self.after(pause, Happening::Release(member));
            return;
        }
        let here = known.arrived.from(known.read);
        let bytes = here.min(plan.bite);
        if bytes == 0 {
            if known.read >= known.plan.size || known.broken {
                self.release(member);
            } else {
                known.waits = true;
            }
            return;
        }
        known.read += bytes;
        let from_disk = bytes.min(known.disk_unread);
        known.disk_unread -= from_disk;
        known.in_memory -= bytes - from_disk;
        self.feed(Event::Read { member: MemberId(member), bytes });
        let pause = self.chance.micros(plan.think_us.0, plan.think_us.1 / 4);
        self.after(pause, Happening::Read(member));
    }

    /// Bytes came: who waits for them reads on.
    pub(crate) fn wake_reader(&mut self, member: u64) {
        let known = &mut self.members[at(member)];
        if std::mem::take(&mut known.waits) {
            self.after(std::time::Duration::ZERO, Happening::Read(member));
        }
    }

    pub(crate) fn release(&mut self, member: u64) {
        let known = &mut self.members[at(member)];
        if known.fortune != Fortune::Lent {
            return;
        }
        known.fortune = Fortune::Gone;
        known.in_memory = 0;
        known.on_disk = 0;
        let (set, consumer) = (known.set, known.consumer);
        self.feed(Event::Released { member: MemberId(member) });
        self.ask(set, consumer);
    }

    pub(crate) fn broken(&mut self, member: u64) {
        let known = &mut self.members[at(member)];
        if self.plan.together > 0 && known.fortune == Fortune::Gone {
            return;
        }
        assert_eq!(known.fortune, Fortune::Lent, "only what a reader has breaks");
        assert!(!known.broken, "it breaks once");
        known.broken = true;
        self.wake_reader(member);
    }

    pub(crate) fn dropped(&mut self, member: u64) {
        let known = &mut self.members[at(member)];
        assert!(self.sets[known.set].closed, "only what is closed is dropped");
        assert_eq!(known.fortune, Fortune::Listed, "what is lent stays its reader's");
        known.fortune = Fortune::Gone;
        known.in_memory = 0;
        known.on_disk = 0;
    }

    pub(crate) fn ended(&mut self, set: usize) {
        let known = &mut self.sets[set];
        assert!(known.listing_ended && !known.closed, "the end of an open, listed set");
        assert_eq!(known.delivered.len() as u64, known.listed, "every member before the end");
        known.ended = true;
        for consumer in &mut known.consumers {
            consumer.asks = false;
            consumer.done = true;
        }
    }

    pub(crate) fn close(&mut self, set: usize) {
        if !std::mem::replace(&mut self.sets[set].closed, true) {
            self.feed(Event::SetClosed { set: set_id(set) });
            let of_set = self.sets[set].members.clone();
            for member in of_set {
                let fortune = self.members[at(member)].fortune;
                assert_ne!(fortune, Fortune::Listed, "member {member} outlives its set");
            }
        }
    }

    pub(crate) fn spill(&mut self, member: u64) {
        let known = &mut self.members[at(member)];
        assert!(!known.spilling && known.in_memory > 0, "something to spill");
        assert_eq!(known.plan.kind, Kind::Bytes, "the page cache is not ours to spill");
        known.spilling = true;
        let pause = self.chance.micros(0, 3_000);
        self.after(pause, Happening::SpillDone(member));
    }

    pub(crate) fn spill_done(&mut self, member: u64) {
        let fails = self.chance.in_thousand(self.plan.faults.spill);
        let share = if fails { self.chance.pick(&[0, 1, 2]) } else { 3 };
        let known = &mut self.members[at(member)];
        known.spilling = false;
        if known.fortune == Fortune::Gone {
            return;
        }
        let bytes = known.in_memory * share / 3;
        known.in_memory -= bytes;
        known.on_disk += bytes;
        known.disk_unread += bytes;
        let member = MemberId(member);
        self.feed(if fails {
            Event::SpillFailed { member, bytes }
        } else {
            Event::Spilled { member, bytes }
        });
    }

    pub(crate) fn is_listed_order(&self, set: usize) -> bool {
        self.sets[set].plan.terms.order == Order::Listed
    }
}
