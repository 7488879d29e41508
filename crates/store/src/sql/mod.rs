//! Databases as stores that answer queries with names: `SQLite`, `PostgreSQL`, `MySQL` and `MariaDB`.
//!
//! Read-only throughout: single queries, on connections that only read. What functions do that a query
//! calls is for the rights of the user it is asked as, where a server does not count it as writing: those
//! of an administrator may change files and send queries elsewhere. The objects that the names are of belong to other stores.

mod database;
mod engine;
mod file;
mod question;
mod rows;
mod unheard;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::{FutureExt as _, StreamExt as _, future, stream};
use sled::Device;

use crate::{Answer, Costs, Entries, Entry, Error, Name, Query, Reading, Store};
use database::Database;
pub(crate) use database::{is_sqlite, is_url};
use unheard::Queries;

/// Rows that a database may be ahead of who asks: a piece of a server's
/// answer, so that little is fetched that nobody wants.
const ROWS_AHEAD: usize = 64;

/// Databases.
///
/// The prefix of a question is a file of `SQLite`'s, which is known by its
/// header, a `sqlite:` URL of one, or the URL of a server (`postgres://`,
/// `postgresql://`, `mysql://`, `mariadb://`). The first column of the answer
/// is the name, as text or bytes; rows without one (`NULL`, or empty) are passed
/// over, and where values have types of their own, as in `SQLite`, a number instead is an error of its row.
/// A column called `size`, if it is a whole number, is the object's size in bytes, for ranks and to be
/// shown: what is read of it is whole, however long it is.
///
/// A file in WAL mode that nobody else has open is read without locks, so that nothing is left beside it;
/// if it changes meanwhile, that is the last error of the answer.
///
/// Relative names are resolved against the folder of a file that was named by
/// its path; of a URL they are as the database has them. Each question has a
/// connection of its own, which ends with it.
#[derive(Debug)]
pub(crate) struct Sql {
    costs: Arc<Costs>,
    answer_max: Duration,
    queries: Arc<Queries>,
}

impl Sql {
    /// Which is given so long to connect, and then to find each row.
    pub(crate) fn new(costs: Arc<Costs>, answer_max: Duration) -> Self {
        Self { costs, answer_max, queries: Arc::default() }
    }

    /// Ends the queries that are under way at servers which would not notice that nobody listens.
    pub(crate) fn end_all(&self) {
        self.queries.end_all();
    }
}

impl Drop for Sql {
    /// The process may end next, and with it what ends queries.
    fn drop(&mut self) {
        self.queries.wait();
    }
}

impl Store for Sql {
    fn device(&self, name: &Name) -> Device {
        Database::of(name).map_or_else(|| Device::new("sql"), |database| database.device())
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        future::ready(Err(no_object(name))).boxed()
    }

    fn read(&self, entry: &Entry, _: Range<u64>) -> Answer<'_, Reading> {
        future::ready(Err(no_object(&entry.name))).boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        let Query::Ask { prefix, text } = query else {
            let error =
                Error::unsupported(query.prefix().redacted(), "a database is asked by a query");
            return stream::once(async { Err(error) }).boxed();
        };
        let Some(database) = Database::of(prefix) else {
            let error = Error::unsupported(prefix.redacted(), "not a database");
            return stream::once(async { Err(error) }).boxed();
        };
        let (sender, receiver) = mpsc::channel(ROWS_AHEAD);
        let (costs, queries) = (Arc::clone(&self.costs), Arc::clone(&self.queries));
        let (text, answer_max) = (text.clone(), self.answer_max);
        let asking = async move { database.ask(costs, queries, text, answer_max, sender).await };
        // Polled together with the rows that it sends: dropping them ends it.
        let asking = stream::once(asking).filter_map(|()| future::ready(None));
        stream::select(receiver, asking).boxed()
    }
}

fn no_object(name: &Name) -> Error {
    Error::unsupported(name.redacted(), "a database holds names, not objects")
}

#[cfg(test)]
mod tests;
