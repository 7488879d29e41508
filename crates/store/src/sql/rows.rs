//! The rows of an answer as names, one after the other as they come.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::Sender;
use futures::{SinkExt as _, StreamExt as _};
use sqlx::database::HasStatementCache;
use sqlx::{
    AssertSqlSafe, Column as _, ColumnIndex, ConnectOptions as _, Connection as _, Decode,
    Executor, IntoArguments, Row as _, Type, TypeInfo as _, ValueRef as _,
};
use tokio::time::timeout;

use super::engine::{Engine, Listener};
use super::unheard::Queries;
use crate::error::gave_nothing;
use crate::patience::patiently;
use crate::{Entry, Error, Name, without_number};

/// Rows without a name that are told of while none has had one: a column of numbers is not gone through.
const UNNAMED_MAX: usize = 100;
/// How long a server is waited for to be told that a connection ends.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// A question, and where its answer goes.
pub(super) struct Question {
    /// The database as it is shown.
    pub(super) label: Name,
    /// The query.
    pub(super) text: String,
    /// How long connecting may take, and then each row.
    pub(super) answer_max: Duration,
    /// What there is to say besides where it cannot be opened.
    pub(super) hint: Option<&'static str>,
    /// Those of the store that are under way.
    pub(super) queries: Arc<Queries>,
    /// What takes the names.
    pub(super) rows: Sender<Result<Entry, Error>>,
}

impl Question {
    /// What will fail again if it is tried again.
    pub(super) fn refused(&self, error: sqlx::Error) -> Error {
        let hint = self.hint.filter(|_| is_not_opened(&error));
        let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
        Error::refused(self.label.clone(), reason(&error) + &hint).caused_by(error)
    }

    fn is_late(&self, what: &str) -> Error {
        let reason = gave_nothing(&format!("{what} after"), self.answer_max);
        Error::interrupted(self.label.clone(), reason)
    }

    /// Why no connection came about.
    fn not_connected(&self, error: sqlx::Error) -> Error {
        let (name, reason) = (self.label.clone(), reason(&error));
        let failed = match &error {
            sqlx::Error::Io(_) => Error::interrupted(name, reason),
            sqlx::Error::Database(told) => match told.code().as_deref() {
                // SQLSTATE class 28: invalid authorization; 42000 is MySQL's for a closed database.
                Some("28000" | "28P01" | "42000") => Error::denied(name, reason),
                // Too many connections; starting up or shutting down.
                Some("53300" | "57P03" | "08004") => Error::busy(name, None, reason),
                _ => return self.refused(error),
            },
            _ => return self.refused(error),
        };
        failed.caused_by(error)
    }

    /// Why an answer ends.
    fn not_answered(&self, error: sqlx::Error) -> Error {
        let (name, reason) = (self.label.clone(), reason(&error));
        let failed = match &error {
            sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => Error::interrupted(name, reason),
            sqlx::Error::Database(told) => match told.code().as_deref() {
                Some("42501") => Error::denied(name, reason),
                // Shutting down, and after another connection of the server crashed.
                Some("57P01" | "57P02") => Error::interrupted(name, reason),
                _ => return self.refused(error),
            },
            _ => return self.refused(error),
        };
        failed.caused_by(error)
    }
}

/// Connects, asks, and sends each name; ends early if nobody takes them.
pub(super) async fn ask<DB>(
    options: Result<DB::Options, Error>,
    mut question: Question,
    folder: &Path,
) where
    DB: Engine + HasStatementCache,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> Vec<u8>: Decode<'r, DB> + Type<DB>,
    for<'r> String: Decode<'r, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let asked = async {
        let options = options?.disable_statement_logging();
        let connected = patiently(|| connected::<DB>(&options, &question)).await;
        // The listener is dropped before the connection: what it does ends first.
        let (mut connection, mut listener) = connected?;
        let heard = hear::<DB>(&mut connection, &mut listener, &mut question, folder).await;
        // Ends a query that was not heard to its end: closing waits for it.
        drop(listener);
        // Before the names end: who has heard them all finds nobody at the database any more.
        drop(timeout(CLOSING_MAX, connection.close()).await);
        heard
    };
    if let Err(error) = asked.await {
        // A process may end with its last answer, and with it what ends the query.
        let queries = Arc::clone(&question.queries);
        drop(tokio::task::spawn_blocking(move || queries.wait()).await);
        // Nobody may be left to tell.
        drop(question.rows.send(Err(error)).await);
    }
}

/// Asks, and sends each name that is heard.
async fn hear<DB>(
    connection: &mut DB::Connection,
    listener: &mut Listener,
    question: &mut Question,
    folder: &Path,
) -> Result<(), Error>
where
    DB: Engine + HasStatementCache,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> Vec<u8>: Decode<'r, DB> + Type<DB>,
    for<'r> String: Decode<'r, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    // It is the user's own query, on a connection that only reads. It is prepared under a name: one without
    // is forgotten when the driver asks the server about a type that it does not know.
    let text = AssertSqlSafe(std::mem::take(&mut question.text));
    let mut rows = sqlx::query::<DB>(text).persistent(true).fetch(connection);
    let first = timeout(question.answer_max, rows.next()).await;
    let mut next = first.map_err(|_| question.is_late("no row"))?;
    let mut unnamed_max = if DB::TYPES_ARE_OF_VALUES { UNNAMED_MAX } else { 1 };
    while let Some(row) = next {
        let row = row.map_err(|error| {
            listener.has_heard_all();
            question.not_answered(error)
        })?;
        let entry = entry::<DB>(&row, question, folder).transpose();
        match &entry {
            Some(Ok(_)) if DB::TYPES_ARE_OF_VALUES => unnamed_max = usize::MAX,
            Some(Err(_)) => unnamed_max -= 1,
            _ => {}
        }
        if let Some(entry) = entry
            && (question.rows.send(entry).await.is_err() || unnamed_max == 0)
        {
            return Ok(());
        }
        let further = timeout(question.answer_max, rows.next()).await;
        next = further.map_err(|_| question.is_late("no further row"))?;
    }
    listener.has_heard_all();
    Ok(())
}

/// A connection that only reads, and who listens to what is asked on it.
async fn connected<DB: Engine>(
    options: &DB::Options,
    question: &Question,
) -> Result<(DB::Connection, Listener), Error> {
    let connected = timeout(question.answer_max, options.connect()).await;
    let connected = connected.map_err(|_| question.is_late("not connected"))?;
    let mut connection = connected.map_err(|error| question.not_connected(error))?;
    let mut listener = Listener::new(&question.queries);
    let prepared = DB::prepared(&mut connection, options, &mut listener);
    let prepared = timeout(question.answer_max, prepared).await;
    let prepared = prepared.map_err(|_| question.is_late("no answer"))?;
    prepared.map_err(|error| question.not_connected(error))?;
    Ok((connection, listener))
}

/// What a row names; `None` for `NULL` and for a name without a byte.
fn entry<DB>(row: &DB::Row, question: &Question, folder: &Path) -> Result<Option<Entry>, Error>
where
    DB: Engine,
    for<'r> Vec<u8>: Decode<'r, DB> + Type<DB>,
    for<'r> String: Decode<'r, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let bytes = first_column::<DB>(row, question)?;
    let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
    let name = Name::from(bytes);
    let name = match name.path() {
        Some(path) if !folder.as_os_str().is_empty() => Name::from(folder.join(path).as_path()),
        _ => name,
    };
    let size = row.columns().iter().skip(1).find(|column| column.name() == "size");
    let is_told = |at: &usize| row.try_get_raw(*at).is_ok_and(|value| !value.is_null());
    let size = size.map(sqlx::Column::ordinal).filter(is_told);
    // Of what is said to be empty nothing would be read: it is asked.
    let size_said = size.and_then(|at| DB::count(row, at)).filter(|&size| size > 0);
    Ok(Some(Entry { size_said, ..Entry::named(name) }))
}

fn first_column<DB>(row: &DB::Row, question: &Question) -> Result<Option<Vec<u8>>, Error>
where
    DB: Engine,
    for<'r> Vec<u8>: Decode<'r, DB> + Type<DB>,
    for<'r> String: Decode<'r, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let refused = |error: sqlx::Error| question.refused(error);
    let value = row.try_get_raw(0).map_err(refused)?;
    if value.is_null() {
        return Ok(None);
    }
    let kind = value.type_info();
    if <Vec<u8> as Type<DB>>::compatible(&kind) {
        return row.try_get::<Vec<u8>, _>(0).map(Some).map_err(refused);
    }
    if <String as Type<DB>>::compatible(&kind) || DB::is_text(&kind) {
        let text = row.try_get_unchecked::<String, _>(0);
        return text.map(|text| Some(text.into_bytes())).map_err(refused);
    }
    let reason = format!(
        "the first column is to be a name, text or bytes, and is {}: cast it to text if it is one",
        kind.name()
    );
    Err(Error::refused(question.label.clone(), reason))
}

/// Whether `SQLite` cannot open a file, or not those that it needs beside it (`SQLITE_CANTOPEN`,
/// `SQLITE_READONLY_RECOVERY`, `SQLITE_READONLY_CANTINIT`).
fn is_not_opened(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|told| told.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 14 || matches!(code, 264 | 1288))
}

/// What a database says, without what the driver says around it.
fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(told) => told.message().to_owned(),
        // The driver counts the bytes of the message that it was in.
        sqlx::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection broke".to_owned()
        }
        sqlx::Error::Io(source) => without_number(source),
        error => error.to_string(),
    }
}
