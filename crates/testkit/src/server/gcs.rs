//! Google Cloud Storage, in memory: gcp-storage-emulator.

use std::net::SocketAddr;

use crate::dir::Dir;
use crate::facility::Facility;
use crate::server::daemon::{Daemon, accepts, mortal};
use crate::server::http;

/// A server of one bucket, which asks for no token.
#[derive(Debug)]
pub struct Gcs {
    daemon: Daemon,
    _dir: Dir,
}

impl Gcs {
    /// What it needs: `skip_unless!(Gcs::NEEDS)`.
    pub const NEEDS: Facility<'static> = Facility::Tools(&["gcp-storage-emulator", "setpriv"]);
    /// The bucket that is there.
    pub const BUCKET: &'static str = "bucket";

    /// A server with an empty bucket.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        let command = |port: u16| {
            let mut command = mortal("gcp-storage-emulator", None);
            command.args(["start", "--host=127.0.0.1", &format!("--port={port}"), "--in-memory"]);
            command.arg(format!("--default-bucket={}", Self::BUCKET));
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

    /// Makes or replaces an object of the bucket.
    #[track_caller]
    pub fn put(&self, key: &str, bytes: impl AsRef<[u8]>) {
        let name: Vec<_> = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let bucket = Self::BUCKET;
        let target =
            format!("/upload/storage/v1/b/{bucket}/o?uploadType=media&name={}", name.concat());
        let kind = [("Content-Type", "application/octet-stream")];
        let answer = http::request(self.address(), "POST", &target, &kind, bytes.as_ref());
        let answer = answer.unwrap_or_else(|e| panic!("{key}: {e}"));
        assert_eq!(answer.status, 200, "{key}: {}", answer.text());
    }
}

impl Default for Gcs {
    fn default() -> Self {
        Self::new()
    }
}
