//! What the scheduler is told, and what it answers: the seam between deciding and doing.

use std::ops::Range;
use std::time::Duration;

/// A set that feeds the scheduler; given by whoever opens it, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u32);

/// A member of a set; given by whoever lists it, unique among all sets, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// One attempt to bring something near; given by the scheduler, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// A device, by a small number; the driver keeps which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// How a set wants to be served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetTerms {
    /// Who told of it, or what guessed it.
    pub origin: Origin,
    /// In what order members are delivered.
    pub order: Order,
}

/// Where a set's wants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An application said that it will read this.
    Told,
    /// A learner supposes it: never delays what is told, and is dropped first.
    Guessed,
}

/// In what order members are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// What is ready first, of that the highest rank, then the largest (SETS, section 3.4).
    #[default]
    Ready,
    /// As listed. One slow member holds up all behind it.
    Listed,
}

/// How a member is brought near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Into buffers of ours: its bytes count against the budget until they are read.
    Bytes,
    /// Into the page cache: first it is opened, then what is far of it is read ahead.
    Cache,
}

/// What is known of a member when it is listed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Listing {
    /// The device that a read of it goes to, as far as its name tells.
    pub device: DeviceId,
    /// How it is brought near.
    pub kind: Kind,
    /// Bytes, if listing told.
    pub size: Option<u64>,
    /// The first byte that is wanted, of a member of [`Kind::Bytes`].
    pub from: u64,
    /// The application's priority: higher is sooner. A hint.
    pub rank: f64,
}

/// What contact with a member's store has shown.
///
/// Of a member's contacts the first one counts for its size and its far parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The device that it really lies on.
    pub device: DeviceId,
    /// Bytes; `None` if even its server does not know before the end.
    pub size: Option<u64>,
    /// What must be fetched, in file order, without overlap; empty: all is
    /// near. Of [`Kind::Bytes`], the whole.
    pub far: Vec<Range<u64>>,
    /// What this attempt will bring: its aim, cut at the member's end. More
    /// than its aim if the server sends no ranges (from 0), and to
    /// `u64::MAX` where `size` is `None`. Nothing for [`Aim::Open`].
    pub covers: Range<u64>,
    /// Where it begins on its device, in bytes: what orders reads of a spinning disk.
    pub position: u64,
}

/// What is known of a device when it is first met, or anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceTerms {
    /// Requests that may be in flight at most; 1 for what has one head.
    pub window_max: u32,
    /// Requests to begin with.
    pub window_start: u32,
    /// Bytes in flight that keep it busy, if they matter: reads of members of [`Kind::Cache`] begin
    /// with as many at a time as hold these. More would share what it moves, and the first of them
    /// be whole as late as the last.
    pub enough: Option<u64>,
    /// Members of [`Kind::Cache`] that may be opened beside what the window
    /// holds; 0: an open takes a place in it. Where reads go by position none
    /// is opened while one is read, but behind what was [`Event::Submitted`].
    pub opens_max: u32,
    /// Whether reads go in the order of [`Contact::position`].
    pub by_position: bool,
    /// The latency to the first byte, median and bad case (p90), if the device table knows.
    pub latency: Option<(Duration, Duration)>,
}

/// What an attempt is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim {
    /// To open a member of [`Kind::Cache`] and find what is far of it.
    Open,
    /// To bring this range; what lies beyond the member's end does not count.
    Fetch(Range<u64>),
}

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A set was opened. Nothing is fetched for it yet.
    SetOpened {
        /// The set.
        set: SetId,
        /// How it wants to be served.
        terms: SetTerms,
    },
    /// A device is used from now on; comes before the first member on it.
    DeviceMet {
        /// The device.
        device: DeviceId,
        /// What is known of it.
        terms: DeviceTerms,
    },
    /// A member became known. Of a set that is closed it is dropped.
    Listed {
        /// Its set.
        set: SetId,
        /// The member.
        member: MemberId,
        /// What is known of it.
        listing: Listing,
    },
    /// A name that will never become a readable member: it is delivered as an error.
    Unlisted {
        /// Its set.
        set: SetId,
        /// The member.
        member: MemberId,
    },
    /// No more members of this set will be listed.
    ListingEnded {
        /// The set.
        set: SetId,
    },
    /// A consumer asks for one member more.
    Asked {
        /// The set.
        set: SetId,
    },
    /// A consumer that asked asks no more (it gave up waiting).
    Unasked {
        /// The set.
        set: SetId,
    },
    /// An attempt made first contact: the open succeeded, or the first byte is
    /// here. Comes once an attempt, before its other events but [`Event::Failed`],
    /// [`Event::Submitted`] and [`Event::Waited`].
    /// It ends an attempt at [`Aim::Open`], and one whose [`Contact::far`] is empty.
    Contacted {
        /// The attempt.
        attempt: AttemptId,
        /// What it found.
        contact: Contact,
    },
    /// An attempt that its driver has not begun, or begins, has waited for that until now, behind others
    /// at its device: that nothing came of it says nothing, as long as something comes of these. One that a
    /// thread of the driver has taken along with others is told of no more once these are begun.
    Waited {
        /// The attempt.
        attempt: AttemptId,
    },
    /// More bytes of an attempt are here, in order from the start of what it covers.
    Progressed {
        /// The attempt.
        attempt: AttemptId,
        /// How many since the last such event.
        bytes: u64,
    },
    /// All that the attempt is for has been asked of its device, before anything that is
    /// asked later. May come before its first contact; where reads go by position one more
    /// may then wait behind it, so that the device never waits for us.
    Submitted {
        /// The attempt.
        attempt: AttemptId,
    },
    /// All that the attempt was for is here; of an object of unknown size, the
    /// whole to its end.
    Finished {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An attempt ended without what it was for.
    Failed {
        /// The attempt.
        attempt: AttemptId,
        /// Whether it is worth another.
        failure: Failure,
    },
    /// The reader of a delivered member has taken bytes out of its buffers.
    Read {
        /// The member.
        member: MemberId,
        /// How many.
        bytes: u64,
    },
    /// The reader is done with a delivered member: what is left of it can go.
    Released {
        /// The member.
        member: MemberId,
    },
    /// Bytes of a member have moved from memory to disk: the answer to [`Action::Spill`].
    Spilled {
        /// The member.
        member: MemberId,
        /// How many.
        bytes: u64,
    },
    /// The disk would not take all of a member's bytes; the rest is still in memory.
    SpillFailed {
        /// The member.
        member: MemberId,
        /// How many it took.
        bytes: u64,
    },
    /// A set was closed; members that were delivered stay their readers'.
    SetClosed {
        /// The set.
        set: SetId,
    },
    /// Time passed: [`super::Scheduler::wake_at`] has come.
    Tick,
}

/// Why an attempt failed, by what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may succeed.
    Transient,
    /// The server asks for patience, until then if it says so.
    Busy {
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// This process has too few descriptors at the moment, which says nothing about the device.
    Short,
    /// Another attempt that begins now will fail alike.
    Final,
}

/// Something is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin an attempt.
    Start {
        /// The attempt.
        attempt: AttemptId,
        /// For which member.
        member: MemberId,
        /// What it is for.
        aim: Aim,
    },
    /// Let an attempt bring what it covers up to this offset. An attempt takes
    /// no byte beyond the end of its aim, or of the last of these, out of its
    /// connection: so the budget holds also where a server sends no ranges or
    /// does not know the size.
    Extend {
        /// The attempt.
        attempt: AttemptId,
        /// To where.
        end: u64,
    },
    /// Stop an attempt; no event of it is expected any more, and one that comes is ignored.
    Cancel {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Move what is in memory of this member to disk, and say so.
    Spill {
        /// The member.
        member: MemberId,
    },
    /// Hand a member to one of the set's consumers that asked; beside it up to
    /// [`super::Limits::batch`] more, all [`Delivery::Near`], for whoever asks next.
    Deliver {
        /// The set.
        set: SetId,
        /// The member.
        member: MemberId,
        /// In what state it is.
        state: Delivery,
    },
    /// The rest of a member that was delivered [`Delivery::Streaming`] cannot
    /// be read: its reader gets the error after the bytes that are here.
    Break {
        /// The member.
        member: MemberId,
        /// Why.
        cause: Cause,
    },
    /// Forget a member and what was fetched of it: it will never be delivered.
    Drop {
        /// The member.
        member: MemberId,
    },
    /// So many members more of this set may be listed, as they become known.
    /// These permissions add up; a name that is listed uses up one.
    Expand {
        /// The set.
        set: SetId,
        /// How many.
        names: u32,
    },
    /// Every member was delivered and the listing has ended: who asks gets the
    /// end. Comes when that is so, and again for each that asks afterwards.
    End {
        /// The set.
        set: SetId,
    },
}

/// In what state a member is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All of it is near, and was: nothing of ours is held for it, and the
    /// member is forgotten. Its reader need not say that it is done.
    Near,
    /// All of it is near.
    Whole,
    /// Its first bytes are near, the rest is on its way.
    Streaming,
    /// It could not be read; the last failure of its attempts is why. The
    /// member is forgotten, with all that was fetched of it.
    Failed(Cause),
}

/// Why a member is delivered as an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its last attempt failed, and another would be of no use or one too many.
    Failed,
    /// Its last attempt brought no byte for longer than the limit.
    Stalled,
    /// It was never readable: see [`Event::Unlisted`].
    Unlisted,
}
