//! Which store a name belongs to; each bucket, host and database is opened once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use crate::asked::by_beginning;
#[cfg(any(feature = "object", feature = "web"))]
use crate::exchange::Hosts;
use crate::local::Files;
use crate::patience::{patiently, unless_silent};
use crate::under_way::UnderWay;
use crate::{
    Bindings, ByteStream, Costs, Entries, Entry, Error, Name, Query, StorageOptions, Store,
};

/// How long a request may take to connect and to answer with its first byte,
/// unless the caller says otherwise: longer than a loaded server needs, shorter than a person waits.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long a program may print nothing, unless the caller says otherwise: one that goes through a large tree
/// for a few names, as `find` does, has a reason to be silent for minutes.
const PROGRAM_SILENCE_MAX: Duration = Duration::from_mins(10);

/// What stores may do beyond reading what they are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Run the programs that specs name.
    pub programs: bool,
    /// Follow links of public pages to private networks and to files of this machine; names of lists as well.
    pub private_links: bool,
}

/// How stores are opened.
#[derive(Debug, Clone)]
pub struct StoresOptions {
    /// What they may do.
    pub permissions: Permissions,
    /// How long a request may take until its first byte.
    pub answer_max: Duration,
    /// How long a program that prints names may print nothing.
    pub program_silence_max: Duration,
    /// Options of object stores (`region`, `endpoint`, `access_key_id`), over those of the
    /// environment.
    pub storage: StorageOptions,
    /// Which databases and servers answer questions to folders.
    pub bindings: Bindings,
    /// Stores of the caller's own, by their scheme; they come before those known here.
    pub schemes: HashMap<String, Arc<dyn Store>>,
}

impl Default for StoresOptions {
    fn default() -> Self {
        Self {
            permissions: Permissions::default(),
            answer_max: ANSWER_MAX,
            program_silence_max: PROGRAM_SILENCE_MAX,
            storage: StorageOptions::default(),
            bindings: Bindings::default(),
            schemes: HashMap::new(),
        }
    }
}

/// The stores of a process, by the names that belong to them.
#[derive(Debug)]
pub struct Stores {
    costs: Arc<Costs>,
    answer_max: Duration,
    files: Arc<dyn Store>,
    bindings: Bindings,
    schemes: HashMap<String, Arc<dyn Store>>,
    #[cfg(any(feature = "object", feature = "web"))]
    hosts: Arc<Hosts>,
    #[cfg(feature = "object")]
    objects: crate::object::Objects,
    programs: Arc<crate::Programs>,
    #[cfg(feature = "sql")]
    sql: Arc<crate::sql::Sql>,
    #[cfg(feature = "web")]
    web: Arc<crate::Web>,
    under_way: Arc<UnderWay>,
}

impl Stores {
    /// With these options, and the costs that local files are located by.
    pub fn new(costs: Arc<Costs>, options: &StoresOptions) -> Self {
        #[cfg(any(feature = "object", feature = "web"))]
        let hosts = Arc::new(Hosts::new(options.permissions.private_links));
        let files: Arc<dyn Store> = Arc::new(Files::new(Arc::clone(&costs)));
        Self {
            answer_max: options.answer_max,
            bindings: options.bindings.clone(),
            schemes: options.schemes.clone(),
            #[cfg(feature = "object")]
            objects: crate::object::Objects::new(options, Arc::clone(&hosts), Arc::clone(&files)),
            programs: Arc::new(crate::Programs::new(
                options.permissions.programs,
                options.program_silence_max,
                Arc::clone(&costs),
            )),
            #[cfg(feature = "sql")]
            sql: Arc::new(crate::sql::Sql::new(Arc::clone(&costs), options.answer_max)),
            #[cfg(feature = "web")]
            web: Arc::new(crate::Web::with(
                Arc::clone(&hosts),
                options.answer_max,
                crate::web::Token::of(&options.storage),
            )),
            #[cfg(any(feature = "object", feature = "web"))]
            hosts,
            files,
            under_way: Arc::default(),
            costs,
        }
    }

    /// The store that owns the object of this name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] of a scheme that no store knows; what opening the store gives.
    pub fn of(&self, name: &Name) -> Result<Arc<dyn Store>, Error> {
        if let Some(store) = name.scheme().and_then(|scheme| self.schemes.get(scheme)) {
            return Ok(Arc::clone(store));
        }
        #[cfg(feature = "object")]
        if name.scheme().is_some()
            && let Some(store) = self.objects.of(name)?
        {
            return Ok(store);
        }
        match name.scheme() {
            None => Ok(Arc::clone(&self.files)),
            #[cfg(feature = "web")]
            Some("http" | "https") => Ok(Arc::clone(&self.web) as Arc<dyn Store>),
            #[cfg(feature = "web")]
            Some(scheme)
                if ["http", "https"].iter().any(|web| web.eq_ignore_ascii_case(scheme)) =>
            {
                let small = scheme.to_ascii_lowercase();
                let reason = format!("the scheme is written in small letters: {small}://");
                Err(Error::unsupported(name.redacted(), reason))
            }
            #[cfg(feature = "sql")]
            Some(_) if crate::sql::is_url(name) => {
                let name = name.redacted();
                let reason = format!(
                    "a database is asked by a query after its URL: {name}\\select name from t\\"
                );
                Err(Error::unsupported(name, reason))
            }
            Some(scheme) => Err(Error::unsupported(
                name.redacted(),
                format!("no store knows the scheme {scheme}://; there are {}", self.known()),
            )),
        }
    }

    /// The schemes that a name may have, without their other spellings.
    fn known(&self) -> String {
        let mut known: Vec<&str> = self.schemes.keys().map(String::as_str).collect();
        known.sort_unstable();
        #[cfg(feature = "object")]
        known.extend(["s3", "gs", "az", "webdav", "sftp", "hdfs", "file"]);
        #[cfg(feature = "web")]
        known.extend(["http", "https"]);
        known.join(", ")
    }

    /// Ends the programs and the queries that list names, for who will not live to drop their listings;
    /// programs may tidy up for half a second, which this waits for, and servers answer as long.
    pub fn end_listings(&self) {
        self.programs.end_all();
        #[cfg(feature = "sql")]
        self.sql.end_all();
    }

    /// The costs that local files are located and opened by.
    pub fn costs(&self) -> &Arc<Costs> {
        &self.costs
    }

    /// The bytes of an object that is no member of a set, such as a list of names, in order: asked for
    /// again while errors pass, and given up where no more comes for as long as an answer may take.
    ///
    /// # Errors
    /// As [`Stores::of`] and [`Store::read`].
    pub async fn contents(&self, name: Name) -> Result<ByteStream, Error> {
        let store = self.of(&name)?;
        let entry = Entry::named(name.clone());
        let reading = patiently(|| store.read(&entry, 0..u64::MAX)).await?;
        Ok(unless_silent(name, self.answer_max, reading.bytes))
    }

    /// A name that a list holds: that of a server, if it has a host and not only a bucket, may lead
    /// no further than the links of web pages.
    ///
    /// # Errors
    /// [`Error::Refused`], unless [`Permissions::private_links`] are allowed.
    pub fn listed_by(&self, list: &Name, name: Name) -> Result<Name, Error> {
        #[cfg(any(feature = "object", feature = "web"))]
        self.hosts.admits(list, &name)?;
        #[cfg(not(any(feature = "object", feature = "web")))]
        let _ = list;
        Ok(name)
    }

    /// Which stores answer questions to folders.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// What is being listed: of several listings, what was begun first.
    pub fn listing(&self) -> Option<Name> {
        self.under_way.first()
    }

    /// What answers this query; what keeps it from being answered is its only item.
    pub fn list(&self, query: &Query) -> Entries {
        self.under_way.noting(query, self.answers(query))
    }

    fn answers(&self, query: &Query) -> Entries {
        let store = match query {
            Query::Glob(name, _) => self.of(name),
            #[cfg(feature = "sql")]
            Query::Ask { prefix, .. } if crate::sql::is_url(prefix) => {
                Ok(Arc::clone(&self.sql) as Arc<dyn Store>)
            }
            Query::Ask { prefix, text } => match prefix.path() {
                Some(path) => return self.ask_file(path, text, query),
                None => self.of(prefix),
            },
            Query::Run { .. } => Ok(Arc::clone(&self.programs) as Arc<dyn Store>),
        };
        match store {
            Ok(store) => store.list(query),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    /// What answers a question to a file: a page by its links, a database by names.
    #[cfg_attr(not(feature = "web"), expect(unused_variables, reason = "pages are asked by them"))]
    fn ask_file(&self, path: &Path, text: &str, query: &Query) -> Entries {
        let (text, query, files) = (text.to_owned(), query.clone(), Arc::clone(&self.files));
        #[cfg(feature = "sql")]
        let sql = Arc::clone(&self.sql);
        by_beginning(&self.costs, path, move |path, begins| {
            #[cfg(feature = "web")]
            if crate::web::is_page(path, begins) {
                return crate::web::links_of_file(files, path, &text);
            }
            #[cfg(feature = "sql")]
            if crate::sql::is_sqlite(begins) {
                return sql.list(&query);
            }
            files.list(&query)
        })
    }
}
