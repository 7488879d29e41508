//! A database server: `PostgreSQL`.

use std::net::SocketAddr;
use std::process::Command;

use rustix::process::Signal;

use crate::cmd::cmd;
use crate::dir::Dir;
use crate::facility::{Facility, program};
use crate::server::daemon::{Daemon, finish, mortal, owned_by};

/// The user that Debian's package makes; the server refuses to run as root.
const USER: &str = "postgres";

/// A `PostgreSQL` server with an empty database `postgres`, which lets in user `postgres` without a
/// password. Nothing is synced to the disk.
#[derive(Debug)]
pub struct Postgres {
    daemon: Daemon,
    _dir: Dir,
}

impl Postgres {
    /// What it needs: `skip_unless!(Postgres::NEEDS)`.
    pub const NEEDS: Facility<'static> =
        Facility::Tools(&["initdb", "postgres", "psql", "setpriv"]);

    /// A server of a new cluster, in UTF-8.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        owned_by(dir.path(), USER);
        let data = dir.join("data");
        let options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"];
        finish(mortal("initdb", Some(USER)).args(options).arg(&data));
        let command = |port: u16| {
            let mut command = mortal("postgres", Some(USER));
            command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", "", "-F", "-D"]);
            command.arg(&data);
            command
        };
        let answers = |address: SocketAddr| {
            let mut ready = psql(address, "select 1");
            ready.output().is_ok_and(|output| output.status.success())
        };
        let daemon = Daemon::start(dir.path(), command, answers);
        // Its backends are in sessions of their own: it ends them when it is told to.
        Self { daemon: daemon.with_farewell(Signal::QUIT), _dir: dir }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.address())
    }

    /// Runs statements through `psql`; returns what they print: columns parted by `|`, a row a line.
    #[track_caller]
    pub fn execute(&self, sql: &str) -> String {
        let command = psql(self.address(), sql);
        cmd(command.get_program(), command.get_args()).run().succeeds().text()
    }
}

impl Default for Postgres {
    fn default() -> Self {
        Self::new()
    }
}

fn psql(address: SocketAddr, sql: &str) -> Command {
    let mut command = Command::new(program("psql").expect("psql is installed"));
    let url = format!("postgres://{USER}@{address}/postgres");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", sql]);
    command
}
