//! Queries at servers that would not notice that nobody listens any more: another connection ends them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _, raw_sql};

use crate::leave_signals_to_others;
use crate::sync::lock;

/// What is ended may take so long of the time of who ends with it.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// A server that cannot be reached any more is given up after so long.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The connection that a query is asked on, as the server knows it, and which server that is: another
/// of those behind the same address has other queries under the same number.
pub(super) const SELF: &str =
    "select connection_id() as id, concat(@@hostname, ':', @@port) as server";

/// A query by its connection.
pub(super) struct Query {
    /// How its server is reached.
    pub(super) options: MySqlConnectOptions,
    /// What [`SELF`] told there.
    pub(super) id: u64,
    /// The same.
    pub(super) server: String,
}

impl fmt::Debug for Query {
    /// Without what may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Query {
    async fn end(self) -> Result<(), sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let server: String = raw_sql(SELF).fetch_one(&mut connection).await?.try_get("server")?;
        if server == self.server {
            let kill = AssertSqlSafe(format!("kill query {}", self.id));
            raw_sql(kill).execute(&mut connection).await?;
        }
        Ok(())
    }
}

/// The queries that are under way.
#[derive(Debug, Default)]
pub(crate) struct Queries {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    listened_to: HashMap<u64, Query>,
    next: u64,
    /// Those that are being ended.
    ending: usize,
}

impl Queries {
    /// Ends all, and waits a moment for that.
    pub(crate) fn end_all(self: &Arc<Self>) {
        let all: Vec<_> = lock(&self.state).listened_to.drain().collect();
        for (_, query) in all {
            self.end(query);
        }
        self.wait();
    }

    /// Waits a moment for those that are being ended.
    pub(super) fn wait(&self) {
        let is_under_way = |state: &mut State| state.ending > 0;
        drop(self.ended.wait_timeout_while(lock(&self.state), WAIT_MAX, is_under_way));
    }

    /// Ends one, by a thread: the runtime that it was asked in may be gone before.
    fn end(self: &Arc<Self>, query: Query) {
        lock(&self.state).ending += 1;
        let ending = Ending(Arc::clone(self));
        let end = move || {
            let _ending = ending;
            leave_signals_to_others();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // Nobody is left to tell that it goes on.
            if let Ok(runtime) = runtime {
                let ended = async { tokio::time::timeout(ENDS_WITHIN, query.end()).await };
                drop(runtime.block_on(ended));
            }
        };
        drop(thread::Builder::new().name("nearfirst-end".to_owned()).spawn(end));
    }
}

/// Counts one that is being ended.
struct Ending(Arc<Queries>);

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&self.0.state).ending -= 1;
        self.0.ended.notify_all();
    }
}

/// Listens to a query, which is ended if this is dropped before its answer has come.
#[derive(Debug)]
pub(super) struct Listened {
    queries: Arc<Queries>,
    number: u64,
}

impl Listened {
    /// To a query that is about to be asked.
    pub(super) fn to(query: Query, queries: &Arc<Queries>) -> Self {
        let mut state = lock(&queries.state);
        state.next += 1;
        let number = state.next;
        state.listened_to.insert(number, query);
        drop(state);
        Self { queries: Arc::clone(queries), number }
    }

    /// The answer has come to its end.
    pub(super) fn has_ended(self) {
        lock(&self.queries.state).listened_to.remove(&self.number);
    }
}

impl Drop for Listened {
    fn drop(&mut self) {
        let query = lock(&self.queries.state).listened_to.remove(&self.number);
        if let Some(query) = query {
            self.queries.end(query);
        }
    }
}
