//! How each kind of database is made to read only, and to stop when nobody listens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow};
use sqlx::postgres::{PgConnectOptions, PgRow, PgTypeInfo, PgTypeKind};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Database, MySql, Postgres, Row as _, Sqlite, raw_sql};

use super::unheard::{self, Listened, Queries, Query};

/// Steps of `SQLite`'s machine between two looks at whether somebody still listens.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Says, when it is dropped, that nobody listens any more.
#[derive(Debug)]
pub(super) struct Listener {
    is_gone: Arc<AtomicBool>,
    queries: Arc<Queries>,
    /// Of a server that has to be told.
    listened: Option<Listened>,
}

impl Listener {
    /// One that listens; `queries` are those that servers are told of.
    pub(super) fn new(queries: &Arc<Queries>) -> Self {
        Self { is_gone: Arc::default(), queries: Arc::clone(queries), listened: None }
    }

    /// There is nothing left to listen to.
    pub(super) fn has_heard_all(&mut self) {
        if let Some(listened) = self.listened.take() {
            listened.has_ended();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Release);
    }
}

/// A kind of database.
pub(super) trait Engine: Database {
    /// How it is reached.
    type Options: ConnectOptions<Connection = Self::Connection>;

    /// Whether values have types, and not columns: one that is no name says nothing of the next.
    const TYPES_ARE_OF_VALUES: bool = false;

    /// Makes the connection one that only reads, and that ends what it does
    /// when the listener is gone.
    fn prepared<'c>(
        connection: &'c mut Self::Connection,
        options: &Self::Options,
        listener: &'c mut Listener,
    ) -> BoxFuture<'c, Result<(), sqlx::Error>>;

    /// Whether values of a type are text that the driver does not take for it.
    fn is_text(_: &Self::TypeInfo) -> bool {
        false
    }

    /// A whole number that is not negative, of any width.
    fn count(row: &Self::Row, column: usize) -> Option<u64>;
}

impl Engine for Sqlite {
    type Options = SqliteConnectOptions;

    const TYPES_ARE_OF_VALUES: bool = true;

    fn prepared<'c>(
        connection: &'c mut Self::Connection,
        _: &SqliteConnectOptions,
        listener: &'c mut Listener,
    ) -> BoxFuture<'c, Result<(), sqlx::Error>> {
        // The file is opened read-only.
        let is_gone = Arc::clone(&listener.is_gone);
        async move {
            let mut handle = connection.lock_handle().await?;
            let goes_on = move || !is_gone.load(Ordering::Acquire);
            handle.set_progress_handler(STEPS_BETWEEN_LOOKS, goes_on);
            Ok(())
        }
        .boxed()
    }

    fn count(row: &SqliteRow, column: usize) -> Option<u64> {
        u64::try_from(row.try_get::<i64, _>(column).ok()?).ok()
    }
}

impl Engine for Postgres {
    type Options = PgConnectOptions;

    fn prepared<'c>(
        connection: &'c mut Self::Connection,
        _: &PgConnectOptions,
        _: &'c mut Listener,
    ) -> BoxFuture<'c, Result<(), sqlx::Error>> {
        async move {
            // Servers before version 14 do not know it, and notice only when they send a row.
            let looks = raw_sql("set client_connection_check_interval = '1s'");
            drop(looks.execute(&mut *connection).await);
            let read_only = "set default_transaction_read_only = on; begin read only";
            raw_sql(read_only).execute(connection).await.map(drop)
        }
        .boxed()
    }

    fn is_text(kind: &PgTypeInfo) -> bool {
        matches!(kind.kind(), PgTypeKind::Enum(_))
    }

    fn count(row: &PgRow, column: usize) -> Option<u64> {
        let count = row.try_get::<i64, _>(column);
        let count = count.or_else(|_| row.try_get::<i32, _>(column).map(i64::from));
        let count = count.or_else(|_| row.try_get::<i16, _>(column).map(i64::from));
        u64::try_from(count.ok()?).ok()
    }
}

impl Engine for MySql {
    type Options = MySqlConnectOptions;

    fn prepared<'c>(
        connection: &'c mut Self::Connection,
        options: &MySqlConnectOptions,
        listener: &'c mut Listener,
    ) -> BoxFuture<'c, Result<(), sqlx::Error>> {
        // Names are taken as they are needed: a year is the longest that a server waits for that.
        let read_only = "set session net_write_timeout = 31536000; \
                         set session transaction read only; start transaction read only";
        let options = options.clone();
        async move {
            raw_sql(read_only).execute(&mut *connection).await?;
            // Of a server that does not tell, a query goes on until it sends a row.
            let told = raw_sql(unheard::SELF).fetch_one(connection).await.ok();
            let query = told.and_then(|told| {
                let id = Self::count(&told, 0)?;
                Some(Query { options, id, server: told.try_get(1).ok()? })
            });
            listener.listened = query.map(|query| Listened::to(query, &listener.queries));
            Ok(())
        }
        .boxed()
    }

    fn count(row: &MySqlRow, column: usize) -> Option<u64> {
        let count = row.try_get::<i64, _>(column).ok();
        let count = count.and_then(|count| u64::try_from(count).ok());
        count.or_else(|| row.try_get::<u64, _>(column).ok())
    }
}
