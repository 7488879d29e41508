//! How a set is opened.

use std::fmt;
use std::sync::Arc;

use store::{Entry, Name, Sequence};

use crate::Recalls;

/// An application's priority for a member: higher is sooner. A hint, never a reason to wait.
///
/// Of a file of this machine listing tells its name alone; [`store::Costs::known`] asks for the rest.
pub type Rank = Arc<dyn Fn(&Entry) -> f64 + Send + Sync>;

/// The byte from which on a member is read, at most its size.
pub type Start = Arc<dyn Fn(&Entry) -> u64 + Send + Sync>;

/// How a set is opened.
#[derive(Clone, Default)]
pub struct SetOptions {
    /// In what order members are yielded.
    pub order: Order,
    /// The priority of a member; none: all the same.
    pub rank: Option<Rank>,
    /// From where on a member is read; none: from its first byte. What is before is not fetched,
    /// unless its server sends no parts. Who has that of a version lists the member with it:
    /// another is an error then, and so is one that ends before it.
    pub start: Option<Start>,
    /// What makes two members one.
    pub duplicates: Duplicates,
    /// What has members on cold tiers restored; none: each is an error.
    pub recalls: Option<Recalls>,
}

/// In what order members are yielded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// What is ready first; of that the highest rank, then the largest.
    #[default]
    Ready,
    /// As they are listed: one slow member holds up all behind it.
    Listed,
    /// By name, byte by byte: nothing is yielded before all is listed.
    Name,
    /// By rank, the highest first, then by name: nothing is yielded before all is listed.
    Rank,
    /// These first, in this order (as [`crate::Set::order_taken`] recorded it), then others as listed.
    Replay(Vec<Name>),
}

impl Order {
    /// In which order the names are to become known.
    pub fn sequence(&self) -> Sequence {
        match self {
            Self::Listed | Self::Replay(_) => Sequence::InTurn,
            Self::Ready | Self::Name | Self::Rank => Sequence::AsKnown,
        }
    }
}

/// What makes two members one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// The same name: found before anything is fetched.
    #[default]
    ByName,
    /// The same content too: found when it has been fetched, and whole.
    ByContent,
}

impl fmt::Debug for SetOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetOptions")
            .field("order", &self.order)
            .field("rank", &self.rank.is_some())
            .field("start", &self.start.is_some())
            .field("duplicates", &self.duplicates)
            .field("recalls", &self.recalls)
            .finish()
    }
}
