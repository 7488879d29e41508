//! Files over SSH: OpenSSH's server.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::cmd::tool;
use crate::dir::Dir;
use crate::facility::{Facility, program};
use crate::server::daemon::{Daemon, accepts, mortal};

/// An SSH server that lets in the present user with a key of its own, for SFTP and commands.
///
/// Relative names of SFTP begin in [`Sftp::root`].
#[derive(Debug)]
pub struct Sftp {
    daemon: Daemon,
    dir: Dir,
}

impl Sftp {
    /// What it needs: `skip_unless!(Sftp::NEEDS)`.
    pub const NEEDS: Facility<'static> =
        Facility::Tools(&["sshd", "ssh", "sftp", "ssh-keygen", "setpriv"]);
    /// The name under which [`Sftp::config`] knows it: `ssh -F CONFIG testserver`.
    pub const HOST: &'static str = "testserver";

    /// A server of an empty folder.
    #[track_caller]
    pub fn new() -> Self {
        let dir = Dir::new();
        let root = dir.create_dir("root");
        for name in ["host_key", "key"] {
            let keygen = program("ssh-keygen").expect("ssh-keygen is installed");
            let keygen = keygen.to_str().expect("it has a plain path");
            let path = dir.join(name).into_os_string();
            let options = ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"].map(Into::into);
            tool(keygen, options.into_iter().chain([path]));
        }
        fs::copy(dir.join("key.pub"), dir.join("authorized_keys")).expect("just made");
        if rustix::process::geteuid().is_root() {
            // Where its unprivileged part is locked in; the system's service makes it otherwise.
            fs::create_dir_all("/run/sshd").expect("root can make it");
            fs::set_permissions("/run/sshd", fs::Permissions::from_mode(0o755)).expect("as root");
        }
        let command = |port| {
            let settings = dir.create("sshd_config", settings(dir.path(), &root, port));
            let mut command = mortal("sshd", None);
            command.args(["-D", "-e", "-f"]).arg(settings);
            command
        };
        let daemon = Daemon::start(dir.path(), command, accepts);
        let address = daemon.address();
        let (ip, port) = (address.ip(), address.port());
        let host_key = fs::read_to_string(dir.join("host_key.pub")).expect("just made");
        dir.create("known_hosts", format!("[{ip}]:{port} {host_key}"));
        let server = Self { daemon, dir };
        server.dir.create("ssh_config", server.client_settings());
        server
    }

    fn client_settings(&self) -> String {
        format!(
            "Host {}\n    HostName {}\n    Port {}\n    User {}\n    IdentityFile {}\n    \
             IdentitiesOnly yes\n    UserKnownHostsFile {}\n    GlobalKnownHostsFile /dev/null\n    \
             StrictHostKeyChecking yes\n    BatchMode yes\n",
            Self::HOST,
            self.address().ip(),
            self.address().port(),
            self.user(),
            self.key().display(),
            self.dir.join("known_hosts").display(),
        )
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `sftp://USER@127.0.0.1:PORT` and the absolute path of a file below [`Sftp::root`].
    pub fn url(&self, name: &str) -> String {
        format!("sftp://{}@{}{}", self.user(), self.address(), self.root().join(name).display())
    }

    /// The user that it lets in.
    pub fn user(&self) -> String {
        tool("id", ["-un"])
    }

    /// The private key of that user, without a passphrase.
    pub fn key(&self) -> PathBuf {
        self.dir.join("key")
    }

    /// The file in which clients find its key.
    pub fn known_hosts(&self) -> PathBuf {
        self.dir.join("known_hosts")
    }

    /// Settings for `ssh -F`: with them [`Sftp::HOST`] is all that a client has to know.
    pub fn config(&self) -> PathBuf {
        self.dir.join("ssh_config")
    }

    /// The folder whose files are meant to be fetched. (It shows the whole machine, as SSH does.)
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Makes or replaces a file; returns its absolute path, which is its name on the server too.
    #[track_caller]
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.dir.create(Path::new("root").join(name), bytes)
    }
}

impl Default for Sftp {
    fn default() -> Self {
        Self::new()
    }
}

fn settings(dir: &Path, root: &Path, port: u16) -> String {
    let dir = dir.display();
    let root = root.display();
    // StrictModes would refuse a key in a temporary folder that others may write to.
    format!(
        "ListenAddress 127.0.0.1:{port}
HostKey {dir}/host_key
AuthorizedKeysFile {dir}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp -d {root}
"
    )
}
