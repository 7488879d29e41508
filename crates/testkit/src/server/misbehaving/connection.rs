//! One connection of the misbehaving server: requests come, answers go, by the script and the link.

use std::io::{self, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::answer::{Answer, Body, End};
use super::{Link, Open, Pace, Request, Shared, lock};
use crate::server::http::{Framing, Head, Piece, copy_body};

/// Bytes are paced in pieces of this time: short enough to be smooth, long beside a timer's error.
const PIECES_PER_SECOND: u64 = 200;
/// Bodies that are not paced go out in pieces of about this size: a system call each.
const PIECE_BYTES: usize = 64 * 1024;

type Upstream = BufReader<Open>;

/// Answers its requests until one side closes.
pub(super) fn serve(client: &Open) -> io::Result<()> {
    let shared = &client.shared;
    let mut reader = BufReader::new(client);
    let mut upstream = None;
    let mut connection_pace = Pace::default();
    let handshake = lock(&shared.link).connect;
    pause(client.stream(), handshake)?;
    while let Some(head) = Head::read(&mut reader)? {
        let request = UnderWay::begin(shared, &head);
        let mut exchange = Exchange {
            client,
            head: &head,
            request,
            reader: &mut reader,
            connection_pace: &mut connection_pace,
            pace: Pace::default(),
            sent: 0,
            whole: None,
        };
        if !exchange.run(&mut upstream)? {
            break;
        }
    }
    Ok(())
}

/// A request that is counted as under way until it is finished or dropped.
///
/// It is finished *before* the last bytes of its answer go out, so that a client that has them and
/// asks again is not counted twice.
#[derive(Debug)]
struct UnderWay {
    finished: bool,
    shared: Arc<Shared>,
    target: String,
    number: u64,
    answer: Answer,
    link: Link,
}

impl UnderWay {
    fn begin(shared: &Arc<Shared>, head: &Head) -> Self {
        let target = head.target().to_owned();
        let (method, headers) = (head.method().to_owned(), head.headers.clone());
        let request = Request { method, target: target.clone(), headers };
        let (number, told) = lock(&shared.script).begin(request);
        let otherwise = || match shared.upstream {
            Some(_) => Answer::forwarded(),
            None => Answer::status(404),
        };
        let answer = told.unwrap_or_else(otherwise);
        let link = *lock(&shared.link);
        Self { finished: false, shared: Arc::clone(shared), target, number, answer, link }
    }

    fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            lock(&self.shared.script).end(&self.target);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A request and its answer.
struct Exchange<'a, 'c> {
    client: &'c Open,
    head: &'a Head,
    request: UnderWay,
    reader: &'a mut BufReader<&'c Open>,
    connection_pace: &'a mut Pace,
    pace: Pace,
    /// Bytes of the body that were sent.
    sent: u64,
    /// Bytes of the body after which the client has all, if it knows by their number.
    whole: Option<u64>,
}

impl Exchange<'_, '_> {
    /// Returns whether the connection can take another.
    fn run(&mut self, upstream: &mut Option<Upstream>) -> io::Result<bool> {
        let answer = self.request.answer.clone();
        let done = match &answer.body {
            Body::None => return Ok(false),
            Body::Upstream => self.forward(upstream),
            Body::Bytes(_) | Body::Endless(_) => self.reply(&answer),
        };
        match done {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            done => done,
        }
    }

    fn reply(&mut self, answer: &Answer) -> io::Result<bool> {
        let closes = answer.closes(self.head);
        if self.head.header("expect").is_none() {
            copy_body(self.reader, self.head.framing_of_request(), |_| Ok(()))?;
        }
        self.wait_for_first_byte()?;
        let reply = answer.reply(self.head);
        let is_head = self.head.method() == "HEAD";
        self.whole = if is_head { Some(0) } else { answer.whole(reply.bytes.len()) };
        self.write_head(reply.head().as_bytes())?;
        if is_head {
            return Ok(!closes);
        }
        match &answer.body {
            Body::Bytes(bytes) => self.send(&bytes[reply.bytes])?,
            Body::Endless(bytes) => {
                let often = PIECE_BYTES.div_ceil(bytes.len());
                let piece = bytes.repeat(often);
                loop {
                    self.send(&piece)?;
                }
            }
            Body::Upstream | Body::None => unreachable!("these have no bytes of their own"),
        }
        if answer.is_chunked() {
            self.request.finish();
            self.write(b"0\r\n\r\n")?;
        }
        Ok(!closes)
    }

    /// Passes the request on and the answer back.
    fn forward(&mut self, upstream: &mut Option<Upstream>) -> io::Result<bool> {
        let mut from = self.pass_on(upstream)?;
        let (head, body_is_left) = self.final_head(&mut from)?;
        let headers = &self.request.answer.headers;
        let raw = if headers.is_empty() { head.raw.clone() } else { replaced(&head, headers) };
        let framing = head.framing_of_answer(self.head.method());
        self.whole = if let Framing::Length(length) = framing { Some(length) } else { None };
        self.write_head(&raw)?;
        copy_body(&mut from, framing, |piece| match piece {
            Piece::Data(bytes) => self.send_as_is(bytes),
            Piece::Frame(bytes) => {
                if bytes.starts_with(b"0") {
                    self.request.finish();
                }
                self.write(bytes)
            }
        })?;
        let ends = head.closes() || self.head.closes() || framing == Framing::UntilClose;
        if ends || body_is_left {
            return Ok(false);
        }
        *upstream = Some(from);
        Ok(true)
    }

    /// Waits as the link and the answer say, and reads the head of the answer; what the server says
    /// before (1xx) is passed on. Returns whether the client was never asked for the request's body.
    fn final_head(&mut self, from: &mut Upstream) -> io::Result<(Head, bool)> {
        let mut body_is_left = self.head.header("expect").is_some();
        if !body_is_left {
            self.wait_for_first_byte()?;
        }
        loop {
            let head = Head::read(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let status = head.status().ok_or(io::ErrorKind::InvalidData)?;
            if status >= 200 {
                return Ok((head, body_is_left));
            }
            self.write(&head.raw)?;
            if body_is_left && status == 100 {
                self.pass_body_on(from)?;
                body_is_left = false;
                self.wait_for_first_byte()?;
            }
        }
    }

    /// Sends the request upstream, with its body unless the client waits to be asked for it.
    ///
    /// On the connection of the request before, if that is still good.
    fn pass_on(&mut self, upstream: &mut Option<Upstream>) -> io::Result<Upstream> {
        let address = self.client.shared.upstream.expect("only a proxy forwards");
        let used = upstream.take().filter(|from| is_connected(from.get_ref().stream()));
        let from = if let Some(from) = used {
            from
        } else {
            let stream = TcpStream::connect(address)?;
            BufReader::with_capacity(PIECE_BYTES, Open::new(&self.client.shared, stream))
        };
        from.get_ref().stream().write_all(&self.head.raw)?;
        if self.head.header("expect").is_none() {
            self.pass_body_on(&from)?;
        }
        Ok(from)
    }

    fn pass_body_on(&mut self, to: &Upstream) -> io::Result<()> {
        let mut to = to.get_ref().stream();
        copy_body(self.reader, self.head.framing_of_request(), |piece| {
            let (Piece::Data(bytes) | Piece::Frame(bytes)) = piece;
            to.write_all(bytes)
        })
    }

    fn wait_for_first_byte(&self) -> io::Result<()> {
        let link = self.request.link.first_byte_of(self.request.number);
        pause(self.client.stream(), link + self.request.answer.delay)
    }

    fn write_head(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.whole == Some(0) {
            self.request.finish();
        }
        self.write(bytes)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.client.stream().write_all(bytes)
    }

    /// Sends bytes of the body, each piece as a chunk if the answer is chunked.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.request.answer.is_chunked() || bytes.is_empty() {
            return self.send_as_is(bytes);
        }
        self.write(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.send_as_is(bytes)?;
        self.write(b"\r\n")
    }

    /// Sends bytes of the body as fast as it may, up to where the answer breaks off.
    fn send_as_is(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.request.answer.end;
        let left = end.map_or(u64::MAX, |(after, _)| after - self.sent);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.send_paced(&bytes[..count])?;
        match end {
            Some((after, end)) if self.sent == after => Err(self.break_off(end)),
            _ => Ok(()),
        }
    }

    fn send_paced(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(self.piece_bytes().min(bytes.len()));
            pause(self.client.stream(), self.time_of(piece.len()))?;
            self.sent += piece.len() as u64;
            // Before the client has them, so that it sees them counted.
            lock(&self.client.shared.script).sent(&self.request.target, piece.len() as u64);
            if self.whole.is_some_and(|whole| self.sent >= whole) {
                self.request.finish();
            }
            self.write(piece)?;
            bytes = rest;
        }
        Ok(())
    }

    /// How many bytes go out at a time: at the least bandwidth, what takes a piece's time.
    fn piece_bytes(&self) -> usize {
        let link = self.request.link;
        let own = self.request.answer.bytes_per_second;
        let rates = [own, link.connection_bytes_per_second, link.bytes_per_second];
        let least = rates.into_iter().flatten().min();
        let piece = least.map_or(u64::MAX, |rate| (rate / PIECES_PER_SECOND).max(1));
        usize::try_from(piece).unwrap_or(usize::MAX)
    }

    /// How long so many bytes are on their way: the slowest line decides.
    fn time_of(&mut self, bytes: usize) -> Duration {
        let shared = &self.client.shared;
        let now = shared.clock.now();
        let link = self.request.link;
        let mut time = Duration::ZERO;
        if let Some(rate) = self.request.answer.bytes_per_second {
            time = time.max(self.pace.take(bytes, rate, now));
        }
        if let Some(rate) = link.connection_bytes_per_second {
            time = time.max(self.connection_pace.take(bytes, rate, now));
        }
        if let Some(rate) = link.bytes_per_second {
            time = time.max(lock(&shared.pace).take(bytes, rate, now));
        }
        time
    }

    /// Ends the connection so; the error ends its thread.
    fn break_off(&self, end: End) -> io::Error {
        match end {
            End::Close => {}
            End::Reset => {
                // Closing then resets instead of sending what is left (socket(7), SO_LINGER).
                set_socket_linger(self.client.stream(), Some(Duration::ZERO)).ok();
            }
            End::Stall => while pause(self.client.stream(), Duration::from_mins(1)).is_ok() {},
        }
        io::ErrorKind::ConnectionReset.into()
    }
}

/// The head with these headers instead of its own of the same names.
fn replaced(head: &Head, headers: &[(String, String)]) -> Vec<u8> {
    let own = head
        .headers
        .iter()
        .filter(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    let lines = own.chain(headers).map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{}\r\n{}\r\n", head.first, lines.collect::<String>()).into_bytes()
}

/// Waits so long, unless the other side goes away, or the server ends: that is an error.
fn pause(stream: &TcpStream, time: Duration) -> io::Result<()> {
    if time.is_zero() {
        return Ok(());
    }
    let timeout = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut gone = [PollFd::new(stream, PollFlags::RDHUP)];
    match poll(&mut gone, Some(&timeout)) {
        Ok(0) => Ok(()),
        Ok(_) => Err(io::ErrorKind::ConnectionReset.into()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a connection that waits for its next request has not been closed meanwhile.
fn is_connected(stream: &TcpStream) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut gone = [PollFd::new(stream, PollFlags::RDHUP | PollFlags::IN)];
    poll(&mut gone, Some(&now)) == Ok(0)
}
