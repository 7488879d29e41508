//! What was told? Specs say which objects are wanted, and cursors find their names.
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

mod cursor;
mod spec;

pub use cursor::Cursor;
pub use spec::{Glob, ListSource, Spec, SpecError};
