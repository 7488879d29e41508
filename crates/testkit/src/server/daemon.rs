//! The process of a server: its port, its start, its end.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self, UnixDatagram};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::cmd::{cmd, tool};
use crate::facility::program;

/// Ports below those that the kernel gives to outgoing connections, which so cannot take one
/// between our look and the server's start.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// How long a server may take to answer, and to end when it is asked to: on a busy machine the
/// slowest takes seconds.
const STARTS_WITHIN_MS: i64 = 90_000;
const ENDS_WITHIN_MS: i64 = 10_000;
const LOOKS_EVERY_MS: i64 = 10;

/// Another process may take the port that was just seen free.
const STARTS_MAX: u32 = 3;

/// A server's process, with those that it started.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    ended: OwnedFd,
    port: u16,
    /// Asks it to end by itself; without one it is killed.
    farewell: Option<Signal>,
    /// While it is held, no other process of tests takes the port, and its server for this one.
    _claim: UnixDatagram,
}

impl Daemon {
    /// Starts the command that `command` makes for a port, and waits until `answers` says that it
    /// serves on it. What it prints goes to `server.log` in `dir`.
    ///
    /// Panics with the end of that if it ends, or does not answer in time.
    #[track_caller]
    pub(crate) fn start(
        dir: &Path,
        command: impl Fn(u16) -> Command,
        answers: impl Fn(SocketAddr) -> bool,
    ) -> Self {
        let log = dir.join("server.log");
        for _ in 0..STARTS_MAX {
            let (port, claim) = free_port();
            let mut command = command(port);
            let line = format!("{command:?}");
            let file = File::create(&log).unwrap_or_else(|e| panic!("{}: {e}", log.display()));
            let copy = file.try_clone().expect("a descriptor is to be had");
            command.stdin(Stdio::null()).stdout(file).stderr(copy).process_group(0);
            let child = spawn(command).unwrap_or_else(|e| panic!("{line}: {e}"));
            let ended = pidfd_open(pid(&child), PidfdFlags::empty()).expect("Linux 5.3 or later");
            let daemon = Self { child, ended, port, farewell: None, _claim: claim };
            for _ in 0..STARTS_WITHIN_MS / LOOKS_EVERY_MS {
                if answers(daemon.address()) {
                    return daemon;
                }
                if daemon.ends_within(LOOKS_EVERY_MS) {
                    break;
                }
            }
            let said = fs::read_to_string(&log).unwrap_or_default();
            let used = said.to_lowercase().contains("address already in use");
            let end = said.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
            assert!(used, "{line}: it does not answer\n{}", &said[end..]);
        }
        panic!("no port is free {STARTS_MAX} times")
    }

    /// Ends it by this signal instead of killing it, so that it takes along what it started
    /// elsewhere than in its process group.
    pub(crate) fn with_farewell(mut self, signal: Signal) -> Self {
        self.farewell = Some(signal);
        self
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn ends_within(&self, milliseconds: i64) -> bool {
        let timeout =
            Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        let mut ended = [PollFd::new(&self.ended, PollFlags::IN)];
        poll(&mut ended, Some(&timeout)).is_ok_and(|events| events > 0)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = pid(&self.child);
        if let Some(signal) = self.farewell {
            kill_process(pid, signal).ok();
            self.ends_within(ENDS_WITHIN_MS);
        }
        // Until it is waited for, nobody else can have its number.
        kill_process_group(pid, Signal::KILL).ok();
        self.child.wait().ok();
    }
}

/// Whether something accepts connections there.
pub(crate) fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// A command that dies with the process that starts it; as this user, if we are root.
///
/// Panics if the program is not there: tests begin with `skip_unless!`.
#[track_caller]
pub(crate) fn mortal(name: &str, user: Option<&str>) -> Command {
    let path = program(name).unwrap_or_else(|| panic!("{name} is not installed"));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(user) = user.filter(|_| rustix::process::geteuid().is_root()) {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(path);
    command
}

/// Makes the folder one that a server of this user can work in.
///
/// Panics if we are root and there is no such user.
#[track_caller]
pub(crate) fn owned_by(dir: &Path, user: &str) {
    if rustix::process::geteuid().is_root() {
        let id = |which: &str| {
            let text = tool("id", [which, user]);
            text.parse::<u32>().expect("id prints a number")
        };
        std::os::unix::fs::chown(dir, Some(id("-u")), Some(id("-g")))
            .unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    }
}

/// Runs a command that prepares a server; panics unless it succeeds.
#[track_caller]
pub(crate) fn finish(command: &Command) {
    cmd(command.get_program(), command.get_args()).run().succeeds();
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Starts it from a thread that lives as long as the process: the kernel sends the signal of
/// `setpriv --pdeathsig` when the *thread* that started a process ends, and every test has its own.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                reply.send(command.spawn()).ok();
            }
        });
        sender
    });
    let (reply, child) = mpsc::channel();
    spawner.send((command, reply)).expect("the thread never ends");
    child.recv().expect("the thread never ends")
}

/// A port that nobody listens at, and the claim to it, which other processes of tests respect.
fn free_port() -> (u16, UnixDatagram) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let count = PORTS.end - PORTS.start;
    // Tests run in several processes at a time: each begins elsewhere.
    let first = std::process::id().wrapping_mul(97) % count;
    for _ in PORTS {
        let next = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(PORTS.start + next % count).expect("the range ends before 65536");
        let name = net::SocketAddr::from_abstract_name(format!("nearfirst test server {port}"));
        let claim = name.and_then(|name| UnixDatagram::bind_addr(&name));
        let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if let Ok(claim) = claim
            && is_free
        {
            return (port, claim);
        }
    }
    panic!("no port of {PORTS:?} is free")
}
