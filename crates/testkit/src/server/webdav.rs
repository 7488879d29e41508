//! `WebDAV` over a folder: `WsgiDAV`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::dir::Dir;
use crate::facility::Facility;
use crate::server::daemon::{Daemon, accepts, mortal};

/// A `WebDAV` server that lets in anybody, with ranges, `ETag`s and listings (`PROPFIND`).
#[derive(Debug)]
pub struct WebDav {
    daemon: Daemon,
    dir: Dir,
}

impl WebDav {
    /// What it needs: `skip_unless!(WebDav::NEEDS)`.
    pub const NEEDS: Facility<'static> = Facility::Tools(&["wsgidav", "setpriv"]);

    /// A server of an empty folder.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        let root = dir.create_dir("root");
        let command = |port: u16| {
            let mut command = mortal("wsgidav", None);
            command.args(["--no-config", "--auth", "anonymous", "--host", "127.0.0.1", "--port"]);
            command.arg(port.to_string()).arg("--root").arg(&root).current_dir(dir.path());
            command
        };
        let daemon = Daemon::start(dir.path(), command, accepts);
        Self { daemon, dir }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The folder that it shows.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Makes or replaces a file.
    #[track_caller]
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.dir.create(Path::new("root").join(name), bytes);
    }
}

impl Default for WebDav {
    fn default() -> Self {
        Self::new()
    }
}
