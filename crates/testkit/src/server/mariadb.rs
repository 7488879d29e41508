//! A database server: `MariaDB`.

use std::net::SocketAddr;
use std::process::Command;

use crate::cmd::cmd;
use crate::dir::Dir;
use crate::facility::{Facility, program};
use crate::server::daemon::{Daemon, finish, mortal, owned_by};

/// The user that Debian's package makes; the server refuses to run as root.
const USER: &str = "mysql";

/// A `MariaDB` server with an empty database `test`, which lets in user `test` without a password.
/// Nothing is synced to the disk.
#[derive(Debug)]
pub struct MariaDb {
    daemon: Daemon,
    dir: Dir,
}

impl MariaDb {
    /// What it needs: `skip_unless!(MariaDb::NEEDS)`.
    pub const NEEDS: Facility<'static> =
        Facility::Tools(&["mariadb-install-db", "mariadbd", "mariadb", "setpriv"]);

    /// A server of a new data folder, in UTF-8.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        owned_by(dir.path(), USER);
        let folders = [
            format!("--datadir={}", dir.join("data").display()),
            format!("--tmpdir={}", dir.path().display()),
        ];
        let install =
            ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
        finish(mortal("mariadb-install-db", Some(USER)).args(install).args(&folders));
        let socket = dir.join("socket");
        let command = |port: u16| {
            let mut command = mortal("mariadbd", Some(USER));
            command.arg("--no-defaults").args(&folders);
            command.args(["--bind-address=127.0.0.1", &format!("--port={port}")]);
            command.arg(format!("--socket={}", socket.display()));
            command.arg(format!("--pid-file={}", dir.join("pid").display()));
            command.args(["--character-set-server=utf8mb4", "--innodb-flush-log-at-trx-commit=0"]);
            command.args(["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M"]);
            command
        };
        let create = "create database if not exists test; \
                      create user if not exists test@'%'; grant all on *.* to test@'%'";
        let answers = |_| {
            let mut ready = client(&["--user=root", "--socket"]);
            ready.arg(&socket).args(["-e", create]);
            ready.output().is_ok_and(|output| output.status.success())
        };
        let daemon = Daemon::start(dir.path(), command, answers);
        Self { daemon, dir }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `mysql://test@127.0.0.1:PORT/test`.
    pub fn url(&self) -> String {
        format!("mysql://test@{}/test", self.address())
    }

    /// Runs statements through the client `mariadb`; returns what they print: columns parted by
    /// tabs, a row a line.
    #[track_caller]
    pub fn execute(&self, sql: &str) -> String {
        let port = format!("--port={}", self.daemon.port());
        let address = ["--user=test", "--host=127.0.0.1", "--protocol=tcp", &port];
        let mut command = client(&address);
        command.args(["--batch", "--skip-column-names", "--database=test", "-e", sql]);
        let home = self.dir.path();
        cmd(command.get_program(), command.get_args()).env("HOME", home).run().succeeds().text()
    }
}

impl Default for MariaDb {
    fn default() -> Self {
        Self::new()
    }
}

fn client(args: &[&str]) -> Command {
    let mut command = Command::new(program("mariadb").expect("mariadb is installed"));
    // The character set would be that of the test's locale.
    command.args(["--no-defaults", "--default-character-set=utf8mb4"]).args(args);
    command
}
