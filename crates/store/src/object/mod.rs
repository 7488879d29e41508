//! Objects of servers: S3 by our own requests, the others through `OpenDAL`.
//!
//! A name is a scheme, a bucket or host, and the object's key as it is:
//! nothing in a key is percent-decoded, and `?`, `#`, `+` and `//` are parts of it.
//!
//! | name | keys and places come from |
//! | --- | --- |
//! | `s3://bucket/key` | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_PROFILE` and the files in `~/.aws` (also `credential_process`), web identity, container and instance roles; `AWS_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`; `AWS_SKIP_SIGNATURE=true` for public buckets |
//! | `gs://bucket/key` | `GOOGLE_APPLICATION_CREDENTIALS`, gcloud's own file, the machine's account; `STORAGE_EMULATOR_HOST` |
//! | `az://container/key`, `abfs://container@account.dfs.core.windows.net/key` | `AZURE_STORAGE_CONNECTION_STRING`, or `AZURE_STORAGE_ACCOUNT` with `AZURE_STORAGE_KEY` or `AZURE_STORAGE_SAS_TOKEN`; `AZURE_CLIENT_ID` and its like |
//! | `webdav://host/path`, `webdavs://user:password@host/path` | the name; options `webdav_username`, `webdav_password`, `webdav_token` |
//! | `sftp://user@host:port/path` | `ssh`: its agent, keys, configuration and known hosts; options `sftp_key`, `sftp_known_hosts_strategy` |
//! | `hdfs://host/path`, `webhdfs://host:9870/path`, `swebhdfs://…` | `HADOOP_USER_NAME`, else who runs this; option `webhdfs_delegation` |
//! | `file:///path` | nothing |
//!
//! Storage options ([`crate::StorageOptions`]) come before all of these.

mod cloud;
mod error;
mod folder;
mod glob;
mod place;
mod remote;
mod rounds;
mod s3;
mod services;
mod sums;
mod transport;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use self::place::Root;
use crate::exchange::Hosts;
use crate::sync::lock;
use crate::{Error, Name, Store, StoresOptions};

/// The buckets and hosts of a process, each opened once.
#[derive(Debug)]
pub(crate) struct Objects {
    options: StoresOptions,
    hosts: Arc<Hosts>,
    files: Arc<dyn Store>,
    open: Mutex<HashMap<String, Arc<dyn Store>>>,
}

impl Objects {
    /// Opened by these options; `files` says where the files of this machine are.
    pub(crate) fn new(options: &StoresOptions, hosts: Arc<Hosts>, files: Arc<dyn Store>) -> Self {
        Self { options: options.clone(), hosts, files, open: Mutex::default() }
    }

    /// The store of an object; `None` of a scheme that is not one of these.
    ///
    /// # Errors
    /// [`Error::Refused`] of a name or an option that is wrong.
    pub(crate) fn of(&self, name: &Name) -> Result<Option<Arc<dyn Store>>, Error> {
        if name.has_broken_login() {
            let reason = "a /, ? or # in a password is written %2F, %3F or %23";
            return Err(Error::refused(name.clone(), reason));
        }
        let (root, _) = Root::split(name)?;
        let mut open = lock(&self.open);
        if let Some(store) = open.get(&root.text) {
            return Ok(Some(Arc::clone(store)));
        }
        let key = root.text.clone();
        let Some(store) = self.opened(root)? else { return Ok(None) };
        open.insert(key, Arc::clone(&store));
        Ok(Some(store))
    }

    fn opened(&self, root: Root) -> Result<Option<Arc<dyn Store>>, Error> {
        let Self { options, hosts, files, .. } = self;
        let environment = |name: &str| std::env::var(name).ok();
        Ok(match root.scheme().as_str() {
            "s3" | "s3a" => Some(Arc::new(s3::Bucket::open(root, options, &environment)?)),
            _ => remote::Remote::open(root, options, &environment, hosts, files)?
                .map(|store| Arc::new(store) as _),
        })
    }
}
