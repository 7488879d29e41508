//! The process connector: the kernel tells of forks, execs, changes of user and group, and exits.
//!
//! A netlink socket (`cn_proc.h`). It is told pids and no names; what a process runs is asked of `/proc`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, sockopt,
};

use super::Error;

/// A pid of the namespace that the service runs in.
pub(crate) type Pid = i32;

/// What happened to a process. Of threads their ends alone are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Forked {
        parent: Pid,
        child: Pid,
    },
    Executed {
        pid: Pid,
    },
    /// It has the rights of another user: its effective user id.
    BecameUser {
        pid: Pid,
        user: u32,
    },
    /// One of its groups changed; the real and the effective one.
    BecameGroup {
        pid: Pid,
        groups: [u32; 2],
    },
    /// Its first thread ended: it ended itself, unless another thread goes on, or runs a program in
    /// its place.
    Exited {
        pid: Pid,
    },
    /// Another of its threads ended.
    ThreadExited {
        pid: Pid,
    },
}

/// What one look into the queue gave.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Some changes did not fit into the queue.
    pub(crate) lost: bool,
    /// Nothing is left in it.
    pub(crate) emptied: bool,
}

/// Bytes of the receive queue: at 76 bytes a change, which the kernel counts as 768, some 20,000
/// changes; a fork bomb makes about 60,000 of them in a second.
const QUEUE_BYTES: usize = 16 << 20;
/// Longer than any message of the connector.
const MESSAGE_BYTES: usize = 1024;
/// Messages among which the answer to a request must be: more than the queue holds.
const ANSWER_WITHIN: usize = QUEUE_BYTES / 512;

/// `CN_IDX_PROC` and `CN_VAL_PROC`; the first is also the number of its multicast group.
const CONNECTOR_PROC: u32 = 1;
const LISTEN: u32 = 1;

// `enum what` of `struct proc_event`.
const ANSWER: u32 = 0;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const UID: u32 = 0x4;
const GID: u32 = 0x40;
const EXIT: u32 = 0x8000_0000;

/// Offsets within a message: `nlmsghdr` (16 bytes), `cn_msg` (20), `proc_event` (16 and its data).
const IDX_AT: usize = 16;
const PAYLOAD_AT: usize = 36;
const DATA_AT: usize = PAYLOAD_AT + 16;

#[derive(Debug)]
pub(crate) struct Connector {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Connector {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`Error::Refused`], and [`Error::Apart`] in namespaces of which the kernel does not tell.
    pub(crate) fn new() -> Result<Self, Error> {
        let refused = |source| Error::Refused { what: "processes", source };
        let mut connector = Self::open().map_err(refused)?;
        match connector.is_heard() {
            Ok(true) => {}
            Ok(false) => {
                let apart = "a PID or user namespace of its own (a container's, or by PrivatePIDs= or \
                             PrivateUsers= of a unit)";
                return Err(Error::Apart(apart));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let apart = "a network namespace of its own (a container's, or by PrivateNetwork= of a unit)";
                return Err(Error::Apart(apart));
            }
            Err(error) => return Err(refused(error)),
        }
        // Linux 6.6 leaves out what nobody asked for, answers to such requests among it; earlier
        // ones do not understand it, and tell all.
        let asked = request(&[LISTEN, FORK | EXEC | UID | GID | EXIT]);
        let sent = net::send(&connector.socket, &asked, SendFlags::empty());
        sent.map_err(|error| refused(error.into()))?;
        Ok(connector)
    }

    fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = AddressFamily::NETLINK;
        let socket = net::socket_with(family, SocketType::DGRAM, flags, Some(netlink::CONNECTOR))?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, QUEUE_BYTES).is_err() {
            // Without CAP_NET_ADMIN as much as everybody may have.
            sockopt::set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
        }
        net::bind(&socket, &netlink::SocketAddrNetlink::new(0, CONNECTOR_PROC))?;
        Ok(Self { socket, buffer: vec![0; MESSAGE_BYTES] })
    }

    fn is_heard(&mut self) -> io::Result<bool> {
        net::send(&self.socket, &request(&[LISTEN]), SendFlags::empty())?;
        // The kernel answers within the call.
        for _ in 0..ANSWER_WITHIN {
            match net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) if what(&self.buffer[..length]) == Some(ANSWER) => return Ok(true),
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Takes what happened, up to `most` changes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn take(&mut self, most: usize, changes: &mut Vec<Change>) -> io::Result<Taken> {
        let mut taken = Taken::default();
        for _ in 0..most {
            match net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                // Only the kernel and root may send here.
                Ok((length, _)) => changes.extend(change(&self.buffer[..length])),
                Err(Errno::AGAIN) => {
                    taken.emptied = true;
                    break;
                }
                Err(Errno::NOBUFS) => taken.lost = true,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(taken)
    }
}

impl AsFd for Connector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn request(words: &[u32]) -> Vec<u8> {
    let payload: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let payload_bytes = u16::try_from(payload.len()).expect("a few words");
    let length = u32::try_from(PAYLOAD_AT).expect("small") + u32::from(payload_bytes);
    let mut message = Vec::with_capacity(PAYLOAD_AT + payload.len());
    message.extend(length.to_ne_bytes());
    message.extend((u16::try_from(libc::NLMSG_DONE).expect("a small number")).to_ne_bytes());
    message.extend([0; 10]); // flags, sequence, port
    message.extend(CONNECTOR_PROC.to_ne_bytes());
    message.extend(CONNECTOR_PROC.to_ne_bytes());
    message.extend([0; 8]); // sequence, acknowledgement
    message.extend(payload_bytes.to_ne_bytes());
    message.extend([0; 2]); // flags
    message.extend(payload);
    message
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

/// Which event a message tells of.
fn what(message: &[u8]) -> Option<u32> {
    let is_ours = [IDX_AT, IDX_AT + 4].iter().all(|&at| word(message, at) == Some(CONNECTOR_PROC));
    is_ours.then(|| word(message, PAYLOAD_AT))?
}

fn change(message: &[u8]) -> Option<Change> {
    let data = |n: usize| word(message, DATA_AT + 4 * n);
    let pid = |n: usize| data(n).map(u32::cast_signed);
    match what(message)? {
        FORK => {
            let (thread, child) = (pid(2)?, pid(3)?);
            (thread == child).then_some(Change::Forked { parent: pid(1)?, child })
        }
        EXEC => Some(Change::Executed { pid: pid(1)? }),
        UID => {
            // A thread that serves another user for a while does not make the process that user's.
            let (thread, process) = (pid(0)?, pid(1)?);
            (thread == process).then_some(Change::BecameUser { pid: process, user: data(3)? })
        }
        GID => {
            let (thread, process) = (pid(0)?, pid(1)?);
            let groups = [data(2)?, data(3)?];
            (thread == process).then_some(Change::BecameGroup { pid: process, groups })
        }
        EXIT => {
            let (thread, pid) = (pid(0)?, pid(1)?);
            Some(if thread == pid { Change::Exited { pid } } else { Change::ThreadExited { pid } })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(what: u32, data: &[u32]) -> Vec<u8> {
        let mut words = vec![what, 0, 0, 0];
        words.extend(data);
        request(&words)
    }

    #[test]
    fn forks_of_processes_are_told_those_of_threads_are_not_and_ends_of_both_are() {
        let forked = change(&message(FORK, &[11, 10, 20, 20]));
        assert_eq!(forked, Some(Change::Forked { parent: 10, child: 20 }));
        assert_eq!(change(&message(FORK, &[10, 10, 21, 20])), None);
        assert_eq!(change(&message(EXIT, &[20, 20, 0, 0])), Some(Change::Exited { pid: 20 }));
        let ended = change(&message(EXIT, &[21, 20, 0, 0]));
        assert_eq!(ended, Some(Change::ThreadExited { pid: 20 }));
    }

    #[test]
    fn a_user_is_the_effective_one() {
        let became = change(&message(UID, &[5, 5, 0, 1000]));
        assert_eq!(became, Some(Change::BecameUser { pid: 5, user: 1000 }));
        assert_eq!(change(&message(UID, &[6, 5, 0, 1000])), None);
    }

    #[test]
    fn groups_are_the_real_and_the_effective_one() {
        let became = change(&message(GID, &[5, 5, 1000, 42]));
        assert_eq!(became, Some(Change::BecameGroup { pid: 5, groups: [1000, 42] }));
        assert_eq!(change(&message(GID, &[6, 5, 1000, 42])), None);
    }

    #[test]
    fn what_is_cut_or_foreign_is_no_change() {
        let whole = message(EXEC, &[7, 7]);
        assert_eq!(change(&whole), Some(Change::Executed { pid: 7 }));
        for length in 0..whole.len() {
            assert_eq!(change(&whole[..length]), None, "{length} bytes");
        }
        let mut foreign = whole;
        foreign[IDX_AT] = 9;
        assert_eq!(change(&foreign), None);
    }
}
