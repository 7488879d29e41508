//! S3 over a folder: versitygw with its POSIX backend.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{XattrFlags, setxattr};

use crate::cmd::cmd;
use crate::dir::Dir;
use crate::facility::{Facility, program};
use crate::server::daemon::{Daemon, accepts, mortal};

/// An S3 server. Its buckets are folders and its objects files, so a test makes them at disk speed.
///
/// It checks signatures, answers ranges, `If-Match` and listings in pages; it has one storage class.
/// Addresses are of path style: `http://127.0.0.1:PORT/BUCKET/KEY`.
#[derive(Debug)]
pub struct S3 {
    daemon: Daemon,
    dir: Dir,
    files: AtomicU64,
}

impl S3 {
    /// What it needs: `skip_unless!(S3::NEEDS)`.
    pub const NEEDS: Facility<'static> = Facility::Tools(&["versitygw", "setpriv"]);
    /// What [`S3::put_with_sum`] needs besides: the client comes with moto.
    pub const SUMS_NEED: Facility<'static> = Facility::Tools(&["moto_server"]);
    /// The key that is let in.
    pub const ACCESS_KEY: &'static str = "nearfirst-test";
    /// Its secret.
    pub const SECRET_KEY: &'static str = "nearfirst-secret";
    /// The region that requests are signed for.
    pub const REGION: &'static str = "us-east-1";

    /// A server without buckets.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        let root = dir.create_dir("buckets");
        let command = |port| {
            let mut command = mortal("versitygw", None);
            command.env("ROOT_ACCESS_KEY", Self::ACCESS_KEY);
            command.env("ROOT_SECRET_KEY", Self::SECRET_KEY);
            command.args(["--region", Self::REGION, "--quiet", "--keep-alive"]);
            command.args(["--port", &format!("127.0.0.1:{port}"), "posix"]).arg(&root);
            command
        };
        let daemon = Daemon::start(dir.path(), command, accepts);
        Self { daemon, dir, files: AtomicU64::new(0) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The folder whose folders are the buckets.
    pub fn root(&self) -> PathBuf {
        self.dir.join("buckets")
    }

    /// Makes a bucket; names have three letters at least.
    #[track_caller]
    pub fn create_bucket(&self, name: &str) {
        self.dir.create_dir(Path::new("buckets").join(name));
    }

    /// Makes or replaces `BUCKET/KEY`, for who reads it in one step. Its `ETag` depends on the bytes.
    #[track_caller]
    pub fn put(&self, object: &str, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let new = self.dir.create(format!("new-{number}"), bytes);
        // Where the server keeps what it made itself; a file without it has no ETag.
        let etag = format!("\"{:016x}{:016x}\"", super::fingerprint(bytes), bytes.len());
        setxattr(&new, "user.etag", etag.as_bytes(), XattrFlags::empty())
            .unwrap_or_else(|e| panic!("{}: {e}", new.display()));
        let path = self.root().join(object);
        let parent = path.parent().expect("a joined path has a parent");
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        fs::rename(&new, &path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Makes `BUCKET/KEY` by a client that has the server keep a sum: `CRC32`, `CRC32C`,
    /// `CRC64NVME`, `SHA1` or `SHA256`.
    #[track_caller]
    pub fn put_with_sum(&self, object: &str, bytes: impl AsRef<[u8]>, algorithm: &str) {
        self.put_by_client(object, bytes.as_ref(), &[algorithm]);
    }

    /// As [`S3::put_with_sum`] in parts, which have 5 MiB at least but for the last, with a sum of
    /// the `FULL_OBJECT` or a `COMPOSITE` of those of its parts.
    #[track_caller]
    pub fn put_in_parts(&self, object: &str, parts: &[&[u8]], algorithm: &str, kind: &str) {
        let lengths: Vec<_> = parts.iter().map(|part| part.len().to_string()).collect();
        self.put_by_client(object, &parts.concat(), &[algorithm, kind, &lengths.join(" ")]);
    }

    #[track_caller]
    fn put_by_client(&self, object: &str, bytes: &[u8], how: &[&str]) {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let file = self.dir.create(format!("new-{number}"), bytes);
        let (bucket, key) = object.split_once('/').expect("a bucket and a key");
        let server = program("moto_server").expect("as `SUMS_NEED` says");
        let python = server.with_file_name("python");
        let mut client = cmd(python, ["-c", include_str!("s3_client.py")]);
        for (name, value) in self.env() {
            client = client.env(name, value);
        }
        let client = client.arg(file).arg(bucket).arg(key);
        how.iter().fold(client, crate::Cmd::arg).run().succeeds();
    }

    /// Removes `BUCKET/KEY`.
    #[track_caller]
    pub fn remove(&self, object: &str) {
        let path = self.root().join(object);
        fs::remove_file(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// The variables by which clients find it and are let in.
    pub fn env(&self) -> [(&'static str, String); 5] {
        Self::env_at(&self.endpoint())
    }

    /// [`S3::env`] for clients that go through a proxy at `endpoint`.
    pub fn env_at(endpoint: &str) -> [(&'static str, String); 5] {
        [
            ("AWS_ACCESS_KEY_ID", Self::ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", Self::SECRET_KEY.to_owned()),
            ("AWS_REGION", Self::REGION.to_owned()),
            ("AWS_ENDPOINT_URL", endpoint.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }
}

impl Default for S3 {
    fn default() -> Self {
        Self::new()
    }
}
