//! S3 with storage classes and restoring, in memory: moto's server.

use std::net::SocketAddr;

use crate::dir::Dir;
use crate::facility::Facility;
use crate::server::daemon::{Daemon, accepts, mortal};
use crate::server::{S3, http};

/// It does not check signatures, but tells by their scope that it is S3 that is asked.
const AUTHORIZATION: http::Header<'static> = (
    "Authorization",
    "AWS4-HMAC-SHA256 Credential=nearfirst-test/20260101/us-east-1/s3/aws4_request, \
     SignedHeaders=host, Signature=0",
);

/// An S3 server whose objects have storage classes: reading one in `GLACIER` or `DEEP_ARCHIVE` is
/// refused until it has been restored. Slow (tens of milliseconds a request): for behaviour, not
/// for load, which is for [`S3`].
#[derive(Debug)]
pub struct Moto {
    daemon: Daemon,
    _dir: Dir,
}

impl Moto {
    /// What it needs: `skip_unless!(Moto::NEEDS)`.
    pub const NEEDS: Facility<'static> = Facility::Tools(&["moto_server", "setpriv"]);

    /// A server without buckets.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        let command = |port: u16| {
            let mut command = mortal("moto_server", None);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            command
        };
        let daemon = Daemon::start(dir.path(), command, accepts);
        Self { daemon, _dir: dir }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Makes a bucket; names have three letters at least.
    #[track_caller]
    pub fn create_bucket(&self, name: &str) {
        self.ask("PUT", &format!("/{name}"), &[], &[]);
    }

    /// Makes or replaces `BUCKET/KEY` in a storage class such as `STANDARD` or `GLACIER`.
    #[track_caller]
    pub fn put(&self, object: &str, bytes: impl AsRef<[u8]>, class: &str) {
        let headers = [("x-amz-storage-class", class), ("Content-Type", "binary/octet-stream")];
        self.ask("PUT", &format!("/{object}"), &headers, bytes.as_ref());
    }

    /// From now on an object that is being restored is there only when its state has been asked for
    /// so many times, once at least.
    #[track_caller]
    pub fn restore_takes(&self, looks: u32) {
        let setting = format!(
            r#"{{"model_name":"s3::keyrestore","transition":{{"progression":"manual","times":{looks}}}}}"#
        );
        let json = [("Content-Type", "application/json")];
        self.ask("POST", "/moto-api/state-manager/set-transition", &json, setting.as_bytes());
    }

    /// The variables by which clients find it.
    pub fn env(&self) -> [(&'static str, String); 5] {
        S3::env_at(&self.endpoint())
    }

    /// Any S3 request with a signature that it takes for one; panics unless it succeeds.
    #[track_caller]
    pub fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[http::Header<'_>],
        body: &[u8],
    ) -> http::Response {
        let response = self.try_ask(method, target, headers, body);
        let success = (200..300).contains(&response.status);
        assert!(success, "{method} {target}: {} {}", response.status, response.text());
        response
    }

    /// [`Moto::ask`] for what may be refused.
    #[track_caller]
    pub fn try_ask(
        &self,
        method: &str,
        target: &str,
        headers: &[http::Header<'_>],
        body: &[u8],
    ) -> http::Response {
        let headers = [&[AUTHORIZATION], headers].concat();
        http::request(self.address(), method, target, &headers, body)
            .unwrap_or_else(|e| panic!("{method} {target}: {e}"))
    }
}

impl Default for Moto {
    fn default() -> Self {
        Self::new()
    }
}
