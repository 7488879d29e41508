//! The expression: what is asked of each file, as a tree of values.
//!
//! Building it is [`super::parse`]'s work, looking up what it names in the
//! outside world [`super::resolve`]'s, and answering it [`super::eval`]'s.

use std::ffi::OsString;

use nearfirst::Fnmatch;
use regex::bytes::Regex;

use super::mode::PermissionTest;
use super::printf::{Field, Piece};

/// A node of the expression; operands stand in the order of evaluation.
#[derive(Debug)]
pub(crate) enum Expr {
    Test(Test),
    Action(Action),
    Not(Box<Self>),
    /// Stops at the first that is false.
    And(Vec<Self>),
    /// Stops at the first that is true.
    Or(Vec<Self>),
    /// All are evaluated; the last one's value counts.
    List(Vec<Self>),
}

impl Expr {
    /// Whether it decides where the walk goes, or does what the walk may come upon.
    pub(crate) fn changes_the_walk(&self) -> bool {
        self.has(|part| {
            matches!(part, Self::Action(Action::Exec(_) | Action::Delete | Action::Prune))
        })
    }

    /// Whether it asks when files were read last.
    pub(crate) fn asks_for_access_times(&self) -> bool {
        let is_of_access = |piece: &Piece| {
            let Piece::Field(_, field) = piece else { return false };
            matches!(field, Field::Time(Stamp::Access) | Field::TimePart(Stamp::Access, _))
        };
        self.has(|part| match part {
            Self::Test(Test::Age(stamp, _) | Test::Newer(stamp, _)) => *stamp == Stamp::Access,
            Self::Test(Test::Used(_)) => true,
            Self::Action(Action::Printf(_, pieces)) => pieces.iter().any(is_of_access),
            _ => false,
        })
    }

    /// Whether any of its tests and actions is one of these.
    fn has(&self, is_one: impl Fn(&Self) -> bool + Copy) -> bool {
        match self {
            Self::Test(_) | Self::Action(_) => is_one(self),
            Self::Not(inner) => inner.has(is_one),
            Self::And(items) | Self::Or(items) | Self::List(items) => {
                items.iter().any(|item| item.has(is_one))
            }
        }
    }
}

/// A question about a file, without side effects.
#[derive(Debug)]
pub(crate) enum Test {
    Constant(bool),
    Name(Fnmatch),
    Path(Fnmatch),
    LinkTarget(Fnmatch),
    Regex(Regex),
    Type(TypeSet),
    /// `-xtype`: the type seen when links are treated the other way round.
    OtherType(TypeSet),
    /// Size in units of so many bytes, rounded up.
    Size(Number, u64),
    Age(Stamp, Age),
    Newer(Stamp, Moment),
    /// Days between the last status change and the last access.
    Used(Age),
    Permission(PermissionTest),
    User(Owner),
    Group(Owner),
    UserId(Number),
    GroupId(Number),
    NoUser,
    NoGroup,
    Empty,
    Links(Number),
    Inode(Number),
    SameFile(Same),
    Access(Access),
    FsType(Vec<u8>),
    Latency(Latency),
    Device(Fnmatch),
}

impl Test {
    /// Whether it is answered by a file's properties.
    pub(crate) fn needs_properties(&self) -> bool {
        match self {
            Self::Constant(_)
            | Self::Name(_)
            | Self::Path(_)
            | Self::LinkTarget(_)
            | Self::Regex(_)
            | Self::Type(_)
            | Self::OtherType(_)
            | Self::Access(_)
            | Self::Empty
            | Self::Latency(_)
            | Self::Device(_) => false,
            Self::Size(..)
            | Self::Age(..)
            | Self::Newer(..)
            | Self::Used(_)
            | Self::Permission(_)
            | Self::User(_)
            | Self::Group(_)
            | Self::UserId(_)
            | Self::GroupId(_)
            | Self::NoUser
            | Self::NoGroup
            | Self::Links(_)
            | Self::Inode(_)
            | Self::SameFile(_)
            | Self::FsType(_) => true,
        }
    }
}

/// Something done about a file.
#[derive(Debug)]
pub(crate) enum Action {
    /// The path and an end byte, to the output with this index.
    Print(usize, u8),
    Printf(usize, Vec<Piece>),
    Ls(usize),
    Exec(Exec),
    Delete,
    Prune,
    Quit,
}

/// `-exec` and its kin.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    /// The command; `{}` stands for the file.
    pub(crate) command: Vec<OsString>,
    /// `+`: many files per run; the last word of `command` is then `{}` and cut off.
    pub(crate) many: bool,
    /// `-execdir`: run in the file's directory, with `./name`.
    pub(crate) in_directory: bool,
    /// `-ok`: ask first.
    pub(crate) ask: bool,
    /// Which of the expression's gathering commands this is; meaningful with `many`.
    pub(crate) slot: usize,
}

/// `+N`, `N` or `-N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    More,
    Equal,
    Less,
}

/// A whole number to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) compare: Compare,
    pub(crate) value: u64,
}

impl Number {
    pub(crate) fn holds(self, found: u64) -> bool {
        match self.compare {
            Compare::More => found > self.value,
            Compare::Equal => found == self.value,
            Compare::Less => found < self.value,
        }
    }
}

/// Which of a file's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    Access,
    Birth,
    Change,
    Modify,
}

/// An age in days or minutes; GNU's rule is in [`Age::holds`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Age {
    pub(crate) compare: Compare,
    /// In nanoseconds.
    pub(crate) amount: i128,
    /// One unit, in nanoseconds.
    pub(crate) unit: i128,
    /// Count from the end of today rather than from now.
    pub(crate) from_day_start: bool,
}

impl Age {
    /// Whether an age in nanoseconds fits. Days are counted down to whole ones (`-mtime 1`: from
    /// one to under two days old), minutes up (`-mmin 1`: under one minute old), as GNU find does.
    pub(crate) fn holds(&self, age: i128) -> bool {
        let days = self.unit == super::time::DAY;
        let upper = if days { self.amount + self.unit } else { self.amount };
        match self.compare {
            Compare::More => age > upper,
            // Days: GNU counts to the last second of the day before.
            Compare::Less => age < self.amount + if days { super::time::SECOND } else { 0 },
            Compare::Equal => age < upper && age >= upper - self.unit,
        }
    }

    /// Whether a span between two times of a file fits: `-used` counts days up.
    pub(crate) fn holds_as_span(&self, span: i128) -> bool {
        match self.compare {
            Compare::More => span > self.amount,
            Compare::Less => span < self.amount,
            Compare::Equal => span < self.amount && span >= self.amount - self.unit,
        }
    }
}

/// The moment that `-newer` compares with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A time of this file; looked up before the walk.
    File { path: OsString, stamp: Stamp, follow: bool },
    /// Words such as `2 days ago`; read before the walk.
    Text(OsString),
    /// Nanoseconds since the epoch.
    At(i128),
}

/// A user or group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Looked up before the walk.
    Named(OsString),
    Id(u32),
}

/// The file of `-samefile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Same {
    /// Looked up before the walk.
    File {
        path: OsString,
        follow: bool,
    },
    Is {
        device: (u32, u32),
        inode: u64,
    },
}

/// What the caller may do with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Execute,
}

/// `-latency`: a bound on the total delivery time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latency {
    pub(crate) compare: Compare,
    /// In units.
    pub(crate) amount: f64,
    /// One unit, in seconds.
    pub(crate) unit: f64,
}

impl Latency {
    /// Whether a delivery time in seconds fits. `+` and `-` compare exactly; the bare number takes
    /// what rounds up to it in its unit, as `-mmin` does.
    pub(crate) fn holds(&self, seconds: f64) -> bool {
        let found = seconds / self.unit;
        match self.compare {
            Compare::More => found > self.amount,
            Compare::Less => found < self.amount,
            Compare::Equal => found <= self.amount && found > self.amount - 1.0,
        }
    }
}

/// The file types of `-type`, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TypeSet(u8);

impl TypeSet {
    const LETTERS: &'static [u8] = b"bcdpfls";

    /// Adds a letter; `None` when it is no type, `Some(false)` when it was in the set before.
    pub(crate) fn add(&mut self, letter: u8) -> Option<bool> {
        let bit = 1 << Self::LETTERS.iter().position(|&known| known == letter)?;
        let new = self.0 & bit == 0;
        self.0 |= bit;
        Some(new)
    }

    /// Of those of these letters that there are.
    pub(crate) fn of(letters: &[u8]) -> Self {
        let mut types = Self::default();
        for &letter in letters {
            types.add(letter);
        }
        types
    }

    /// Those that are in both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn has(self, letter: u8) -> bool {
        Self::LETTERS
            .iter()
            .position(|&known| known == letter)
            .is_some_and(|at| self.0 & 1 << at != 0)
    }
}
