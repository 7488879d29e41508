//! Which database a prefix names, and how it is reached.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use futures::SinkExt as _;
use futures::channel::mpsc::Sender;
use sled::Device;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{MySql, Postgres, Sqlite};
use url::Url;

use super::file::Found;
use super::question;
use super::rows::{Question, ask};
use super::unheard::Queries;
use crate::local::blocking;
use crate::{Costs, Entry, Error, Name};

/// What a file of `SQLite`'s begins with.
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";

/// A database that a prefix names.
#[derive(Debug)]
pub(crate) struct Database {
    /// As it is shown: without a password.
    label: Name,
    kind: Kind,
}

enum Kind {
    /// A file, and what relative names are resolved against.
    Sqlite { file: PathBuf, folder: PathBuf },
    /// The server's URL.
    Postgres(String),
    /// The server's URL.
    MySql(String),
}

impl std::fmt::Debug for Kind {
    /// Without what a URL may hold.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite { .. } => "Sqlite",
            Self::Postgres(_) => "Postgres",
            Self::MySql(_) => "MySql",
        })
    }
}

impl Database {
    /// Of this name, if it is a URL of one; a path is taken to be that of a file of `SQLite`'s.
    pub(crate) fn of(name: &Name) -> Option<Self> {
        let text = std::str::from_utf8(name.as_bytes()).ok();
        let kind = if let Some(file) = text.and_then(|text| text.strip_prefix("sqlite:")) {
            let file = file.strip_prefix("//").unwrap_or(file);
            Kind::Sqlite { file: PathBuf::from(file), folder: PathBuf::new() }
        } else if let Some(path) = name.path() {
            // With a slash at its end a file is not found.
            let file: PathBuf = path.components().collect();
            let folder = file.parent().map(Path::to_owned).unwrap_or_default();
            Kind::Sqlite { file, folder }
        } else {
            let url = name.url()?.to_owned();
            match name.scheme()? {
                "postgres" | "postgresql" => Kind::Postgres(url),
                "mysql" | "mariadb" => Kind::MySql(url),
                _ => return None,
            }
        };
        Some(Self { label: name.redacted(), kind })
    }

    /// Whose answer is waited for.
    pub(super) fn device(&self) -> Device {
        let url = self.label.url().and_then(|url| Url::parse(url).ok());
        match url.as_ref().map(|url| (url.host_str(), url.port())) {
            Some((Some(host), Some(port))) => Device::new(format!("sql:{host}:{port}")),
            Some((Some(host), None)) => Device::new(format!("sql:{host}")),
            _ => Device::new("sql"),
        }
    }

    /// Sends what the database answers; ends early if nobody takes it.
    pub(super) async fn ask(
        self,
        costs: Arc<Costs>,
        queries: Arc<Queries>,
        text: String,
        answer_max: Duration,
        mut rows: Sender<Result<Entry, Error>>,
    ) {
        let Self { label, kind } = self;
        let objection = question::objection(&text).or_else(|| match kind {
            Kind::Sqlite { .. } => question::objection_to_more(&text),
            Kind::MySql(_) => question::objection_to_files(&text),
            Kind::Postgres(_) => None,
        });
        if let Some(reason) = objection {
            // Nobody may be left to tell.
            drop(rows.send(Err(Error::refused(label, reason))).await);
            return;
        }
        let mut question = Question { label, text, answer_max, queries, rows, hint: None };
        match kind {
            Kind::Sqlite { file, folder } => {
                // The driver would not name a file that is not there, and wait for a dead mount.
                let looking = Arc::clone(&costs);
                let found = blocking(move || Found::look(looking.local(), file)).await;
                let options = found.as_ref().map_err(Error::again).map(|found| {
                    let options = found.options().busy_timeout(answer_max);
                    options.row_buffer_size(super::ROWS_AHEAD)
                });
                question.hint = found.as_ref().ok().and_then(Found::hint);
                let (label, mut rows) = (question.label.clone(), question.rows.clone());
                ask::<Sqlite>(options, question, &folder).await;
                let Ok(found) = found else { return };
                let checked = blocking(move || found.is_still_there(costs.local(), label)).await;
                if let Err(error) = checked {
                    // Nobody may be left to tell.
                    drop(rows.send(Err(error)).await);
                }
            }
            Kind::Postgres(url) => {
                let options = PgConnectOptions::from_str(&url);
                let options = options.map_err(|error| question.refused(error));
                ask::<Postgres>(options, question, Path::new("")).await;
            }
            Kind::MySql(url) => {
                let options = MySqlConnectOptions::from_str(&url);
                let options = options.map_err(|error| question.refused(error));
                ask::<MySql>(options, question, Path::new("")).await;
            }
        }
    }
}

/// Whether a name is the URL of a database.
pub(crate) fn is_url(name: &Name) -> bool {
    name.as_bytes().starts_with(b"sqlite:")
        || matches!(name.scheme(), Some("postgres" | "postgresql" | "mysql" | "mariadb"))
}

/// Whether a file that begins so is one of `SQLite`'s.
pub(crate) fn is_sqlite(begins: &[u8]) -> bool {
    begins.starts_with(SQLITE_HEADER)
}
