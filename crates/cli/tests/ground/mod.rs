//! What tests of the asking commands stand on: a folder of files, a device table of its own, and
//! the built program.

#![allow(dead_code, clippy::allow_attributes, reason = "each test program uses its part")]
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of files, and beside it one for the device table.
pub(crate) struct Ground {
    folder: TempDir,
    state: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        // Not where the tests of a system keep memory: pages of tmpfs are always near.
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let ground = Self {
            folder: TempDir::new_in(place).unwrap(),
            state: TempDir::new_in(place).unwrap(),
        };
        for folder in [&ground.folder, &ground.state] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        ground
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    pub(crate) fn create(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file to its device and takes all but its first `near` bytes out of memory.
    pub(crate) fn create_far(&self, name: impl AsRef<OsStr>, size: usize, near: u64) -> PathBuf {
        let path = self.create(name, vec![b'x'; size]);
        Self::drive_out(&path, near);
        path
    }

    pub(crate) fn drive_out(path: &Path, near: u64) {
        if !testkit::lies_in_memory(path) {
            testkit::evict(path);
            testkit::make_near(path, 0..near);
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        self.surround(&mut command);
        command.args(args);
        command
    }

    /// The program, run as somebody who owns nothing here; `None` where only root may do that.
    pub(crate) fn command_as_nobody(&self, args: &[&str]) -> Option<Command> {
        if !rustix::process::geteuid().is_root() {
            testkit::skip("not root");
            return None;
        }
        // The build folder may be closed to others.
        let program = self.state().join("nearfirst");
        testkit::copy_program(env!("CARGO_BIN_EXE_nearfirst"), &program);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        self.surround(&mut command);
        command.args(args);
        Some(command)
    }

    /// The program, run where new files lack these permission bits.
    pub(crate) fn command_with_umask(&self, umask: &str, args: &[&str]) -> Command {
        self.command_by(&["sh", "-c", "umask \"$0\" && exec \"$@\"", umask], args)
    }

    /// The program, run by another that is called so.
    pub(crate) fn command_by(&self, other: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(other[0]);
        command.args(&other[1..]).arg(env!("CARGO_BIN_EXE_nearfirst"));
        self.surround(&mut command);
        command.args(args);
        command
    }

    fn surround(&self, command: &mut Command) {
        command.current_dir(self.path()).stdin(Stdio::null());
        command.env("NEARFIRST_STATE", self.state()).env("LC_ALL", "C.UTF-8");
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(stdin).unwrap();
        drop(pipe);
        child.wait_with_output().unwrap()
    }

    /// Says what the device under the folder takes; returns its name.
    pub(crate) fn fill_table(&self, latency_s: f64, bandwidth: f64) -> String {
        let device = nearfirst::Local::default().stat(self.path()).unwrap().device;
        let mut table = nearfirst::DeviceTable::default();
        assert!(table.fill(&device, latency_s, bandwidth));
        assert!(table.fill(&nearfirst::Device::memory(), 1e-6, 1e9));
        fs::write(self.state().join("devices.toml"), table.to_toml()).unwrap();
        device.to_string()
    }
}

/// A folder with a few small files.
pub(crate) fn small_files() -> Ground {
    let ground = Ground::new();
    for name in ["a.txt", "b.txt", "d/c.txt"] {
        ground.create(name, format!("in {name}\n"));
    }
    ground
}

/// Leaves what a copy to `to/` leaves that was broken off half-way, of the version `"e"`.
pub(crate) fn begin_copy(ground: &Ground, name: &str, bytes: &[u8]) {
    ground.create(format!("to/.{name}.nearfirst-part"), &bytes[..bytes.len() / 2]);
    ground.create(format!("to/.{name}.nearfirst-version"), "\"e\"");
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The objects of JSON Lines.
pub(crate) fn objects(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}
