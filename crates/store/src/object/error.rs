//! What servers and connections answer instead of an object, as the store's errors: one `match` of each.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use opendal::ErrorKind;

use super::transport::Said;
use crate::error::io_again;
use crate::{Error, Name, without_number};

/// What a server answered instead of what was asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusal {
    /// The HTTP status.
    pub(super) status: u16,
    /// The service's own word for it (`SlowDown`); empty if it gives none.
    pub(super) code: String,
    /// What it says about it.
    pub(super) message: String,
    /// When it asks to be asked again.
    pub(super) retry_after: Option<Duration>,
    /// Where the bucket is, if not where it was asked for.
    pub(super) region: Option<String>,
}

impl Refusal {
    /// Status, code and message, as far as there are any.
    fn text(&self) -> String {
        let mut text = format!("status {}", self.status);
        for part in [&self.code, &self.message] {
            if !part.is_empty() {
                text.push_str(if text.ends_with(&self.code) { ": " } else { " " });
                text.push_str(part);
            }
        }
        text
    }

    /// As an error about `name`.
    pub(super) fn about(&self, name: &Name) -> Error {
        let name = name.clone();
        match (self.status, self.code.as_str()) {
            (_, "InvalidObjectState") => Error::Cold { name, class: "archived".to_owned() },
            (_, "NoSuchBucket" | "ContainerNotFound") => {
                Error::refused(name, format!("there is no such bucket ({})", self.text()))
            }
            (_, "InvalidBucketName") => {
                Error::refused(name, format!("this is no name of a bucket ({})", self.text()))
            }
            (
                _,
                "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException"
                | "PermanentRedirect"
                | "TemporaryRedirect",
            )
            | (301 | 307 | 308, _) => Error::refused(name, self.elsewhere()),
            (
                _,
                "SlowDown"
                | "RequestLimitExceeded"
                | "Throttling"
                | "ServerBusy"
                | "TooManyRequests",
            )
            | (429 | 503, _) => Error::busy(name, self.retry_after, self.text()),
            (_, "RequestTimeTooSkewed") => {
                let reason = "the clock of this machine differs too much from the server's";
                Error::denied(name, reason)
            }
            // Whatever the status: there are servers that answer 404, and it is no object that is not found.
            (_, "InvalidAccessKeyId" | "XAdminUserNotFound") | (401 | 403 | 407, _) => {
                Error::denied(name, self.text())
            }
            (404 | 410, _) => Error::NotFound { name },
            (412, _) => Error::Changed { name },
            (408 | 499 | 500 | 502..600, _) | (_, "RequestTimeout" | "InternalError") => {
                Error::interrupted(name, format!("the server failed ({})", self.text()))
            }
            _ => Error::refused(name, format!("the server refused it ({})", self.text())),
        }
    }

    fn elsewhere(&self) -> String {
        match &self.region {
            Some(region) => format!(
                "the bucket is in region {region}: set AWS_REGION={region} or the storage option region={region}"
            ),
            None => format!(
                "the server sends us elsewhere ({}): check the region (AWS_REGION) and the endpoint",
                self.text()
            ),
        }
    }
}

/// An operation of `OpenDAL` that failed; `said` is what the server said last, if it was that.
pub(super) fn from_opendal(name: &Name, error: &opendal::Error, said: Option<Said>) -> Error {
    match said {
        Some(Said::Refused(refusal)) => return refusal.about(name),
        Some(Said::Failed(failed)) => return failed,
        None => {}
    }
    let failed = unsaid(name, error);
    match io_under(error) {
        Some(cause) => failed.caused_by(cause),
        None => failed,
    }
}

/// An operation that failed without a word of a server's.
fn unsaid(name: &Name, error: &opendal::Error) -> Error {
    let name = name.clone();
    let reason = deepest(error);
    let told = told_by_sftp(&reason);
    match error.kind() {
        ErrorKind::NotFound => Error::NotFound { name },
        ErrorKind::PermissionDenied => Error::denied(name, told),
        ErrorKind::RateLimited => Error::busy(name, None, reason),
        ErrorKind::ConditionNotMatch => Error::Changed { name },
        ErrorKind::Unsupported => Error::unsupported(name, reason),
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            Error::refused(name, "this is a folder")
        }
        ErrorKind::Unexpected if is_login(&reason) => {
            let hint = "check the user, the keys of the agent or of ~/.ssh, and ~/.ssh/known_hosts";
            Error::denied(name, format!("{reason}: {hint}"))
        }
        ErrorKind::Unexpected if reason.contains("credential") => {
            Error::denied(name, format!("no credentials that can be used ({reason})"))
        }
        ErrorKind::Unexpected
            if ["Could not resolve hostname", "Too many levels of symbolic links"]
                .iter()
                .any(|words| reason.contains(words)) =>
        {
            Error::refused(name, reason)
        }
        // The socket of the connection that `ssh` did not come to make; what the server lacks is NotFound.
        ErrorKind::Unexpected
            if name.scheme() == Some("sftp") && reason.starts_with("No such file") =>
        {
            Error::interrupted(name, "`ssh` is not installed, or ended before it was connected")
        }
        ErrorKind::Unexpected => Error::interrupted(name, told),
        _ => Error::refused(name, reason),
    }
}

/// What an SFTP server says, without what its client says around it.
fn told_by_sftp(reason: &str) -> &str {
    let told = reason.split_once("msg: Err Message: ");
    let told = told.and_then(|(_, told)| told.rsplit_once(", Language Tag:"));
    told.map(|(told, _)| told).filter(|told| !told.is_empty()).unwrap_or(reason)
}

/// Whether the connection of an SFTP client broke, as it does at what the client cannot read.
pub(super) fn is_broken_session(error: &Error) -> bool {
    matches!(error, Error::Interrupted { reason, .. } if reason.contains("flush task failed"))
}

/// Whether `ssh` was not let in, or does not know the server.
fn is_login(reason: &str) -> bool {
    ["Permission denied", "Host key verification failed", "Too many authentication failures"]
        .iter()
        .any(|words| reason.contains(words))
}

/// What the last error of a chain says, with the first if that adds to it.
fn deepest(error: &opendal::Error) -> String {
    let mut text = error.message().to_owned();
    let mut cause = error.source();
    // What an error of ours comes from, it says itself.
    while let Some(inner) = cause.filter(|inner| !inner.is::<Error>()) {
        let inner_text = inner.to_string();
        if !inner_text.is_empty() {
            text = inner_text;
        }
        cause = inner.source();
    }
    without_number(text.trim().replace(['\r', '\n'], " "))
}

/// The first error of the system's that another library's comes from.
fn io_under(error: &(dyn StdError + 'static)) -> Option<io::Error> {
    let mut chain = std::iter::successors(error.source(), |&error| error.source());
    chain.find_map(|error| error.downcast_ref().map(io_again))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_an_sftp_client_says_its_servers_words_are_kept() {
        let around = |words: &str| {
            format!(
                "Sftp server reported error kind PermDenied, msg: Err Message: {words}, Language Tag:"
            )
        };
        assert_eq!(told_by_sftp(&around("Permission denied")), "Permission denied");
        assert_eq!(told_by_sftp(&around("")), around(""));
        assert_eq!(told_by_sftp("connection request: timeout"), "connection request: timeout");
    }
}
