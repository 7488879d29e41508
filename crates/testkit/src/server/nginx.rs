//! A web server over a folder: nginx.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::dir::Dir;
use crate::facility::Facility;
use crate::server::daemon::{Daemon, accepts, mortal};

/// A web server that shows the files of a folder with ranges and `ETag`s, and folders as pages of
/// links (without `index.html`).
#[derive(Debug)]
pub struct Nginx {
    daemon: Daemon,
    root: PathBuf,
    dir: Dir,
}

impl Nginx {
    /// What it needs: `skip_unless!(Nginx::NEEDS)`.
    pub const NEEDS: Facility<'static> = Facility::Tools(&["nginx", "setpriv"]);

    /// A server of an empty folder of its own.
    #[track_caller]
    pub fn new() -> Self {
        Self::with("")
    }

    /// [`Nginx::new`] with these directives besides, as they may stand in a `server` block:
    /// `max_ranges 0;`, `etag off;`, `limit_rate 10k;`, `location /busy { return 503; }`.
    #[track_caller]
    pub fn with(directives: &str) -> Self {
        let dir = Dir::new();
        let root = dir.create_dir("root");
        Self::start(dir, root, directives)
    }

    /// A server of a folder that is there, with these directives besides.
    #[track_caller]
    pub fn of(folder: impl AsRef<Path>, directives: &str) -> Self {
        Self::start(Dir::new(), folder.as_ref().to_owned(), directives)
    }

    #[track_caller]
    fn start(dir: Dir, root: PathBuf, directives: &str) -> Self {
        dir.create_dir("temp");
        let command = |port| {
            let settings = dir.create("nginx.conf", settings(dir.path(), &root, port, directives));
            let mut command = mortal("nginx", None);
            // `-e`: until it has read its settings it would complain to a file of the system's.
            command.args(["-e", "stderr", "-p"]).arg(dir.path()).arg("-c").arg(settings);
            command
        };
        let daemon = Daemon::start(dir.path(), command, accepts);
        Self { daemon, root, dir }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// The URL of a file: `http://127.0.0.1:PORT/` and its name, which must not need quoting.
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address())
    }

    /// The folder that it shows.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes or replaces a file. Its `ETag` is made of its length and the second of its writing.
    #[track_caller]
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.join(name);
        let parent = path.parent().expect("a joined path has a parent");
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// The requests that it has answered, in the order of their ends: `GET /a.txt 206 4`, with the
    /// bytes of the body that were sent.
    ///
    /// nginx writes this after the answer: one that has just come may still be missing.
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

impl Default for Nginx {
    fn default() -> Self {
        Self::new()
    }
}

/// One process that forks nothing and keeps all its files in `dir`.
fn settings(dir: &Path, root: &Path, port: u16, directives: &str) -> String {
    let (dir, root) = (dir.display(), root.display());
    let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {dir}/temp/{kind};"))
        .join("\n    ");
    format!(
        "daemon off;
master_process off;
pid {dir}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
    {temp}
    log_format plain '$request_method $request_uri $status $body_bytes_sent';
    access_log {dir}/access.log plain;
    types {{ text/html html; text/plain txt; application/json json; image/png png; }}
    default_type application/octet-stream;
    sendfile on;
    server {{
        listen 127.0.0.1:{port};
        root \"{root}\";
        autoindex on;
        {directives}
    }}
}}
"
    )
}
