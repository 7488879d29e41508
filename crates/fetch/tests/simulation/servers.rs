//! Devices and servers: late, slow, broken, and lying.

use std::time::Duration;

use nearfirst_fetch::scheduler::{Aim, AttemptId, Contact, DeviceId, Event, Failure, Kind};

use crate::world::{Happening, World, at};

/// What will become of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Succeeds,
    /// So slowly that it is just no stall.
    Crawls,
    Fails(Failure),
    Stalls,
    /// After so many bytes.
    Breaks(u64, Failure),
    StallsAfter(u64),
}

/// An attempt in flight.
#[derive(Debug)]
pub(crate) struct Trying {
    pub(crate) member: u64,
    pub(crate) aim: Aim,
    pub(crate) device: usize,
    pub(crate) fate: Fate,
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) allowed: u64,
    pub(crate) brought: u64,
    /// What its driver has not told yet, and from where it brought that.
    pub(crate) untold: Vec<Event>,
    pub(crate) told_to: u64,
    /// How long its device will take to answer, where its driver has not begun it.
    pub(crate) waits: Option<Duration>,
    /// Whether its device has been asked for all of it.
    pub(crate) submitted: bool,
    pub(crate) paused: bool,
    /// Whether its server goes on beyond what it was asked for.
    pub(crate) wide: bool,
}

impl World {
    pub(crate) fn start(&mut self, id: AttemptId, member: u64, aim: Aim) {
        let known = &self.members[at(member)];
        let (device, kind) = (known.device, known.plan.kind);
        let plan = self.plan.devices[device];
        self.in_flight[device] += 1;
        let fate = if self.in_flight[device] > plan.patience {
            Fate::Fails(Failure::Busy { retry_after: Some(Duration::from_millis(50)) })
        } else {
            self.fate()
        };
        let (from, to) = plan.latency_us;
        let mut latency = self.chance.micros(from, to);
        if self.chance.in_thousand(plan.tail_in_thousand) {
            latency *= 40;
        }
        let waits = kind == Kind::Cache && self.chance.in_thousand(self.plan.queued);
        if waits {
            let twentieths = self.chance.pick(&[0, 1, 10, 19, 21, 40]);
            let pause = self.plan.limits.stall / 20 * twentieths;
            self.after(pause, Happening::Begin(id));
        } else {
            self.answer_later(id, fate, latency);
        }
        let (at, allowed) = match &aim {
            Aim::Open => (0, 0),
            Aim::Fetch(range) => (range.start, range.end),
        };
        if kind == Kind::Cache && aim != Aim::Open && self.chance.in_thousand(500) {
            let pause = self.chance.micros(0, to);
            self.after(pause, Happening::Submit(id));
        }
        let trying = Trying {
            member,
            aim,
            device,
            fate,
            at,
            end: allowed,
            allowed,
            brought: 0,
            untold: Vec::new(),
            told_to: at,
            waits: waits.then_some(latency),
            submitted: false,
            paused: false,
            wide: false,
        };
        assert!(self.attempts.insert(id, trying).is_none(), "{id:?} is used twice");
    }

    fn answer_later(&mut self, id: AttemptId, fate: Fate, latency: Duration) {
        match fate {
            Fate::Fails(failure) => self.after(latency, Happening::Fail(id, failure)),
            Fate::Stalls => {}
            _ => self.after(latency, Happening::Contact(id)),
        }
    }

    /// A driver begins what has waited for it.
    pub(crate) fn begin(&mut self, id: AttemptId) {
        let Some(trying) = self.attempts.get_mut(&id) else { return };
        let (fate, latency) = (trying.fate, trying.waits.take().expect("it waits"));
        self.feed(Event::Waited { attempt: id });
        self.answer_later(id, fate, latency);
    }

    /// Time passed; a driver tells first of what it has not begun.
    pub(crate) fn tick(&mut self) {
        let waits = |(id, trying): (&AttemptId, &Trying)| trying.waits.map(|_| *id);
        let mut waiting: Vec<_> = self.attempts.iter().filter_map(waits).collect();
        waiting.sort_unstable();
        let waited = waiting.into_iter().map(|attempt| Event::Waited { attempt });
        self.feed_all(waited.chain([Event::Tick]));
    }

    pub(crate) fn submit(&mut self, id: AttemptId) {
        let Some(trying) = self.attempts.get_mut(&id) else { return };
        trying.submitted = true;
        self.feed(Event::Submitted { attempt: id });
    }

    fn fate(&mut self) -> Fate {
        let faults = self.plan.faults;
        let failure = match self.chance.below(2) {
            0 if self.chance.in_thousand(faults.last) => Failure::Final,
            _ => Failure::Transient,
        };
        let some = self.chance.below(self.plan.limits.part_bytes + 1);
        if self.chance.in_thousand(faults.transient) {
            Fate::Fails(Failure::Transient)
        } else if self.chance.in_thousand(faults.last) {
            Fate::Fails(Failure::Final)
        } else if self.chance.in_thousand(faults.busy) {
            let retry_after = self.chance.in_thousand(500).then_some(Duration::from_millis(300));
            Fate::Fails(Failure::Busy { retry_after })
        } else if self.chance.in_thousand(faults.stall) {
            Fate::Stalls
        } else if self.chance.in_thousand(faults.reset) {
            Fate::Breaks(some, failure)
        } else if self.chance.in_thousand(faults.stall_midway) {
            Fate::StallsAfter(some)
        } else if self.chance.in_thousand(faults.crawl) {
            Fate::Crawls
        } else {
            Fate::Succeeds
        }
    }

    /// The attempt ends; it is out of the window.
    pub(crate) fn end(&mut self, id: AttemptId) -> Option<Trying> {
        let ended = self.attempts.remove(&id)?;
        self.in_flight[ended.device] -= 1;
        Some(ended)
    }

    /// The attempt ends, and its driver tells all that it has not told of it.
    fn end_with(&mut self, id: AttemptId, event: Event) {
        let ended = self.end(id).expect("an attempt that is there");
        self.members[at(ended.member)].untold.remove(&(ended.told_to..ended.at));
        self.feed_all(ended.untold.into_iter().chain([event]));
    }

    /// Drivers tell of an attempt at once, or together with what comes of it next.
    fn tell_of(&mut self, id: AttemptId, event: Event, at_once: bool) {
        let waits = !at_once && self.chance.in_thousand(self.plan.together);
        let trying = self.attempts.get_mut(&id).expect("an attempt that is there");
        trying.untold.push(event);
        if waits {
            return;
        }
        let told = std::mem::replace(&mut trying.told_to, trying.at)..trying.at;
        let events = std::mem::take(&mut trying.untold);
        self.members[at(trying.member)].untold.remove(&told);
        self.feed_all(events);
    }

    /// What a stopped attempt brought and did not tell of stays.
    pub(crate) fn leave_untold(&mut self, ended: &Trying) {
        let member = &mut self.members[at(ended.member)];
        member.untold.add(ended.told_to..ended.at);
    }

    /// Another attempt at what this one is for, where nothing but its end is about to be told.
    fn beside(&self, id: AttemptId) -> Option<AttemptId> {
        let failing = &self.attempts[&id];
        let Aim::Fetch(aim) = &failing.aim else { return None };
        let is_beside = |other: &Trying| match &other.aim {
            Aim::Fetch(range) => other.member == failing.member && range.end == aim.end,
            Aim::Open => false,
        };
        if self.holds || !self.held.is_empty() || !failing.untold.is_empty() {
            return None;
        }
        let mut others = self.attempts.iter().filter(|(other, _)| **other != id);
        others.find(|(_, other)| is_beside(other)).map(|(other, _)| *other)
    }

    pub(crate) fn fail(&mut self, id: AttemptId, failure: Failure) {
        if let Some(trying) = self.attempts.get(&id) {
            let other = self.beside(id);
            let member = &mut self.members[at(trying.member)];
            member.refusals += u32::from(matches!(failure, Failure::Busy { .. }));
            self.end_with(id, Event::Failed { attempt: id, failure });
            let lives = other.is_none_or(|other| self.attempts.contains_key(&other));
            assert!(lives, "{failure:?} of {id:?} ends another attempt");
        }
    }

    pub(crate) fn contact(&mut self, id: AttemptId) {
        let Some(trying) = self.attempts.get_mut(&id) else { return };
        let member = &mut self.members[at(trying.member)];
        let plan = &member.plan;
        let kind = plan.kind;
        let device = DeviceId(plan.real_device);
        let size = (!plan.size_unknown).then_some(plan.size);
        let mut contact = Contact {
            device,
            size,
            far: plan.far.clone(),
            position: trying.member * 100,
            covers: 0..0,
        };
        if trying.aim == Aim::Open {
            member.device = plan.real_device as usize;
            self.end(id);
            self.feed(Event::Contacted { attempt: id, contact });
            return;
        }
        if plan.kind == Kind::Bytes {
            member.device = plan.real_device as usize;
            contact.far =
                (plan.size > 0).then_some(0..size.unwrap_or(u64::MAX)).into_iter().collect();
            if plan.ignores_ranges {
                (trying.at, trying.told_to) = (0, 0);
            }
            let whole = plan.ignores_ranges || plan.size_unknown;
            let last = plan.size_unknown || trying.allowed < plan.size;
            trying.wide = whole && last;
            trying.end = if whole { plan.size } else { trying.end.min(plan.size) };
            trying.end = trying.end.max(trying.at);
            if trying.at + 1 < trying.end && self.chance.in_thousand(self.plan.faults.gap) {
                trying.at += 1;
                trying.told_to = trying.at;
            }
            contact.covers = trying.at..if plan.size_unknown { u64::MAX } else { trying.end };
        }
        if contact.far.is_empty() && member.plan.kind == Kind::Bytes {
            self.end(id);
            self.feed(Event::Contacted { attempt: id, contact });
            return;
        }
        // What a server may send is known before anything of it is kept.
        let at_once = kind == Kind::Bytes;
        self.tell_of(id, Event::Contacted { attempt: id, contact }, at_once);
        self.chunk_later(id);
    }

    /// The next bytes of an attempt come after what its share of the bandwidth needs.
    pub(crate) fn chunk_later(&mut self, id: AttemptId) {
        let Some(trying) = self.attempts.get(&id) else { return };
        let device = trying.device;
        let share = self.plan.limits.part_bytes / 4 + 1;
        let millis = share * self.in_flight[device] as u64 / self.plan.devices[device].bytes_per_ms;
        let pause = match trying.fate {
            Fate::Crawls => self.plan.limits.stall / 2,
            _ => Duration::from_millis(millis.min(1000)),
        };
        self.after(pause, Happening::Chunk(id));
    }

    pub(crate) fn chunk(&mut self, id: AttemptId) {
        let Some(trying) = self.attempts.get_mut(&id) else { return };
        let member = trying.member;
        let left = trying.end.min(trying.allowed).saturating_sub(trying.at);
        let bytes = left.min(self.plan.limits.part_bytes / 4 + 1);
        match trying.fate {
            Fate::StallsAfter(after) if trying.brought + bytes > after => return,
            Fate::Breaks(after, failure) if trying.brought + bytes > after => {
                self.fail(id, failure);
                return;
            }
            _ => {}
        }
        if trying.at >= trying.end {
            self.end_with(id, Event::Finished { attempt: id });
            self.wake_reader(member);
            return;
        }
        if bytes == 0 {
            trying.paused = true;
            return;
        }
        let range = trying.at..trying.at + bytes;
        trying.at += bytes;
        trying.brought += bytes;
        let rests = trying.at >= trying.allowed;
        let known = &mut self.members[at(member)];
        known.in_memory += known.arrived.add(range.start.max(known.plan.from)..range.end);
        // Some drivers tell of small things only when they are here whole.
        let plan = &known.plan;
        if !plan.size_unknown && trying.at == trying.end && self.chance.in_thousand(200) {
            self.end_with(id, Event::Finished { attempt: id });
        } else {
            self.tell_of(id, Event::Progressed { attempt: id, bytes }, rests);
        }
        self.wake_reader(member);
        self.chunk_later(id);
    }
}
