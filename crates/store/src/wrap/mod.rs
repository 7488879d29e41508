//! Stores around a store, for tests and experiments: [`Faulty`] does what a
//! script says at the n-th call, [`Throttled`] is slower, [`Recording`] counts.
//! They show no file of this machine: all that is read comes through them.
//!
//! ```
//! use std::sync::Arc;
//! use nearfirst_store::wrap::{Call, Fault, Faulty, Recording};
//! use nearfirst_store::{Costs, Error, Files, Name, Store};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # let file = tempfile::NamedTempFile::new()?;
//! # let name = Name::from(file.path());
//! let files = Recording::new(Arc::new(Files::new(Arc::new(Costs::load()))));
//! let store = Faulty::new(Arc::new(files.clone()));
//! store.at(Call::Stat, 1, Fault::Fails(|name| Error::interrupted(name, "told so")));
//! assert!(store.stat(&name).await.unwrap_err().is_transient());
//! assert_eq!(store.stat(&name).await?.size, Some(0));
//! assert_eq!(files.recorded().calls[&Call::Stat], 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod faulty;
mod recording;
mod throttled;

pub use faulty::{Fault, Faulty};
pub use recording::{Read, Recorded, Recording};
pub use throttled::{Pace, Throttled};

/// What a store is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// [`Store::stat`](crate::Store::stat).
    Stat,
    /// [`Store::read`](crate::Store::read).
    Read,
    /// [`Store::list`](crate::Store::list).
    List,
}
