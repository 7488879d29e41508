//! A server that seems far away: passes HTTP on and holds every answer back, some of them for long.
//!
//! `delay_proxy UPSTREAM FIRST_BYTE_MS SLOW_ONE_IN SLOW_MS SEED`
//!
//! Prints the address it listens on. From the end of a request to the first byte of its answer at
//! least `FIRST_BYTE_MS` pass, the server's own time included; of every `SLOW_ONE_IN` requests in a
//! row (0: none) one, drawn by the seed, takes `SLOW_MS` instead. Bodies are moved by `splice`, so
//! that on a few cores the server and its clients stay the ones that are measured: the experiment
//! "objects" of `bench/` stands it in front of an S3 server.

use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::time::{ClockId, clock_gettime};

/// What goes through a pipe at a time: a few times a socket's buffer.
const PIPE_BYTES: usize = 512 << 10;
/// No head of a request or an answer is longer.
const HEAD_BYTES_MAX: usize = 64 << 10;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The server behind it, and how late its answers are.
#[derive(Debug)]
struct Link {
    upstream: SocketAddr,
    first_byte: Duration,
    slow_one_in: u64,
    slow_first_byte: Duration,
    seed: u64,
    requests: AtomicU64,
}

impl Link {
    fn from_arguments() -> Result<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [upstream, first_byte, slow_one_in, slow_first_byte, seed] = arguments.as_slice()
        else {
            return Err("expected UPSTREAM FIRST_BYTE_MS SLOW_ONE_IN SLOW_MS SEED".into());
        };
        Ok(Self {
            upstream: upstream.parse()?,
            first_byte: Duration::from_millis(first_byte.parse()?),
            slow_one_in: slow_one_in.parse()?,
            slow_first_byte: Duration::from_millis(slow_first_byte.parse()?),
            seed: seed.parse()?,
            requests: AtomicU64::new(0),
        })
    }

    /// How long the next request waits for its first byte.
    fn next_first_byte(&self) -> Duration {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let Some(group) = number.checked_div(self.slow_one_in) else { return self.first_byte };
        let is_slow = number % self.slow_one_in == mixed(self.seed, group) % self.slow_one_in;
        if is_slow { self.slow_first_byte } else { self.first_byte }
    }
}

/// Time since the machine started.
fn now() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().expect("it is not negative")
}

/// A number that looks random (the finaliser of `SplitMix64`, Steele, Lea & Flood 2014).
fn mixed(seed: u64, number: u64) -> u64 {
    let mut bits = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

fn main() -> Result<()> {
    let link = Arc::new(Link::from_arguments()?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    writeln!(io::stdout().lock(), "{}", listener.local_addr()?)?;
    for client in listener.incoming() {
        let (link, client) = (Arc::clone(&link), client?);
        // A client or a server that goes away ends its connection and nothing else.
        thread::spawn(move || serve(&link, client).ok());
    }
    Ok(())
}

/// Answers the requests of a connection until one side closes.
fn serve(link: &Link, client: TcpStream) -> Result<()> {
    let mut client = Side::new(client)?;
    let mut upstream = None;
    let pipe = pipe_with(PipeFlags::CLOEXEC)?;
    // Beyond what this user may have, the default size does.
    fcntl_setpipe_size(&pipe.1, PIPE_BYTES).ok();
    while let Some(request) = client.head()? {
        let due = now() + link.next_first_byte();
        let used = upstream.take().filter(Side::is_open);
        let mut server = match used {
            Some(server) => server,
            None => Side::new(TcpStream::connect(link.upstream)?)?,
        };
        server.stream.write_all(&request.raw)?;
        client.pass_on(request.length()?, &mut server.stream, &pipe)?;
        let answer = server.head()?.ok_or("an answer ends early")?;
        client.wait(due.saturating_sub(now()))?;
        client.stream.write_all(&answer.raw)?;
        let length = if answer.has_body(&request) { answer.length()? } else { 0 };
        server.pass_on(length, &mut client.stream, &pipe)?;
        if request.closes() || answer.closes() {
            break;
        }
        upstream = Some(server);
    }
    Ok(())
}

/// One side of a connection, and what came from it beyond the last head.
#[derive(Debug)]
struct Side {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Side {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, ahead: Vec::new() })
    }

    /// Everything up to the empty line; `None` if the side closed before.
    fn head(&mut self) -> Result<Option<Head>> {
        let mut piece = [0; 16 << 10];
        let mut seen = 0;
        loop {
            let from = seen.max(3) - 3;
            if let Some(at) = self.ahead[from..].windows(4).position(|end| end == b"\r\n\r\n") {
                let rest = self.ahead.split_off(from + at + 4);
                return Ok(Some(Head { raw: std::mem::replace(&mut self.ahead, rest) }));
            }
            seen = self.ahead.len();
            if seen > HEAD_BYTES_MAX {
                return Err("a head has no end".into());
            }
            match self.stream.read(&mut piece)? {
                0 if seen == 0 => return Ok(None),
                0 => return Err("a head has no end".into()),
                count => self.ahead.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Moves so many bytes of a body to the other side.
    fn pass_on(
        &mut self,
        length: usize,
        to: &mut TcpStream,
        (out, into): &(OwnedFd, OwnedFd),
    ) -> Result<()> {
        let held = length.min(self.ahead.len());
        to.write_all(&self.ahead[..held])?;
        self.ahead.drain(..held);
        let mut left = length - held;
        while left > 0 {
            let flags = SpliceFlags::MOVE;
            let size = left.min(PIPE_BYTES);
            let mut held = splice(&self.stream, None, into, None, size, flags)?;
            if held == 0 {
                return Err("a body ends early".into());
            }
            left -= held;
            while held > 0 {
                held -= splice(out, None, &*to, None, held, flags)?;
            }
        }
        Ok(())
    }

    /// Waits so long, unless the client goes away: that is an error.
    fn wait(&self, time: Duration) -> Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let mut gone = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        match poll(&mut gone, Some(&Timespec::try_from(time)?))? {
            0 => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        }
    }

    /// Whether a connection that waits for its next request has not been closed meanwhile.
    fn is_open(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut gone = [PollFd::new(&self.stream, PollFlags::RDHUP | PollFlags::IN)];
        poll(&mut gone, Some(&now)) == Ok(0)
    }
}

/// The lines of a request or an answer before its body.
#[derive(Debug)]
struct Head {
    raw: Vec<u8>,
}

impl Head {
    fn header(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.raw).ok()?;
        let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }

    /// Bytes of the body that follows.
    fn length(&self) -> Result<usize> {
        if self.header("transfer-encoding").is_some() {
            return Err("bodies in chunks are not passed on".into());
        }
        Ok(self.header("content-length").map_or(Ok(0), str::parse)?)
    }

    /// Of an answer: whether a body follows, whatever length it says.
    fn has_body(&self, request: &Self) -> bool {
        let status = self.raw.get(9..12);
        !request.raw.starts_with(b"HEAD ") && status != Some(b"204") && status != Some(b"304")
    }

    fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}
