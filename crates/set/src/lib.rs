//! What was told? Specs say which objects are wanted, cursors find their names, sets yield them.
//!
//! A [`Spec`] names objects by a pattern, a query, a program or a list (the
//! SETS paper, SOSP '97, section 3.3); a [`Cursor`] evaluates it as the names
//! are asked for, through the stores that own them.
//!
//! ```
//! use nearfirst_set::Spec;
//!
//! let logs = Spec::parse(b"s3://logs/2026/**/*.gz")?;
//! assert_eq!(logs, Spec::glob("s3://logs/2026/**/*.gz"));
//! let staff = Spec::parse(br"/staff/\select home from users\")?;
//! assert_eq!(staff, Spec::query("/staff/", "select home from users", ""));
//! # Ok::<(), nearfirst_set::SpecError>(())
//! ```

//!
//! A [`Set`] yields each object once, whatever is ready first, its data near:
//!
//! ```
//! use std::sync::Arc;
//!
//! use fetch::engine::{Engine, EngineOptions};
//! use nearfirst_set::{Set, SetOptions, Spec};
//! use store::{Costs, Stores, StoresOptions};
//!
//! let costs = Arc::new(Costs::load());
//! let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
//! let engine = Engine::new(stores, costs, EngineOptions::default())?;
//! let set = Set::open(&engine, [Spec::glob("/etc/host*")], SetOptions::default());
//! for member in &set {
//!     let member = member?;
//!     println!("{}: {} bytes", member.name().clone(), member.read()?.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algebra;
mod comparing;
mod cursor;
mod listing;
mod looks;
mod member;
mod names;
mod options;
mod order;
mod recall;
mod roster;
mod set;
mod setup;
mod source;
mod spec;
mod stats;
mod taken;
mod wait;

pub use cursor::Cursor;
pub use looks::Looks;
pub use member::{Member, MemberCopy, MemberError};
pub use names::Names;
pub use options::{Duplicates, Order, Rank, SetOptions, Start};
pub use recall::{Recalls, Told};
pub use set::{Iter, Set, Turn};
pub use setup::Setup;
pub use spec::{Glob, ListSource, Spec, SpecError};
pub use stats::SetStats;
pub use taken::Taken;
