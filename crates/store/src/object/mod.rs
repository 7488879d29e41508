//! Objects of servers: S3 by our own requests, the others through `OpenDAL`.
//!
//! A name is a scheme, a bucket or host, and the object's key as it is:
//! nothing in a key is percent-decoded, and `?`, `#`, `+` and `//` are parts of it.

mod body;
mod error;
mod glob;
mod place;
mod remote;
mod s3;
mod services;
mod transport;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use self::place::Root;
use crate::{Error, Name, Store, StoresOptions};

/// The buckets and hosts of a process, each opened once.
#[derive(Debug)]
pub(crate) struct Objects {
    options: StoresOptions,
    open: Mutex<HashMap<String, Arc<dyn Store>>>,
}

impl Objects {
    /// Opened by these options.
    pub(crate) fn new(options: &StoresOptions) -> Self {
        Self { options: options.clone(), open: Mutex::default() }
    }

    /// The store of an object; `None` of a scheme that is not one of these.
    ///
    /// # Errors
    /// [`Error::Refused`] of a name or an option that is wrong.
    pub(crate) fn of(&self, name: &Name) -> Result<Option<Arc<dyn Store>>, Error> {
        let (root, _) = Root::split(name)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(&root.text) {
            return Ok(Some(Arc::clone(store)));
        }
        let key = root.text.clone();
        let Some(store) = opened(root, &self.options)? else { return Ok(None) };
        open.insert(key, Arc::clone(&store));
        Ok(Some(store))
    }
}

fn opened(root: Root, options: &StoresOptions) -> Result<Option<Arc<dyn Store>>, Error> {
    let environment = |name: &str| std::env::var(name).ok();
    Ok(match root.scheme().as_str() {
        "s3" | "s3a" => Some(Arc::new(s3::Bucket::open(root, options, &environment)?)),
        _ => remote::Remote::open(root, options, &environment)?.map(|store| Arc::new(store) as _),
    })
}
