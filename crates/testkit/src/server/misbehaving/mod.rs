//! A web server that does what a test tells it, path by path, and a proxy that delays.
//!
//! [`Misbehaving`] is the server; [`Answer`] is what it does with one request; [`Link`] is how far
//! away it seems. What was asked of it is counted, so that tests assert requests, bytes and how many
//! were under way at a time, and never how long it took.

mod answer;
mod connection;
mod link;
mod pace;
mod script;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use answer::Answer;
pub use link::Link;
use pace::Pace;
use script::Script;

use crate::clock::Clock;
pub use script::{Counts, Request};

/// How long its connections may take to notice that it ends.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A server in this process, with a thread per connection.
///
/// ```
/// use testkit::server::{Answer, Misbehaving, http};
///
/// let server = Misbehaving::new();
/// let busy = Answer::status(503).header("Retry-After", "1");
/// server.answers("/a", [busy, Answer::bytes("text").ends_after(2)]);
/// assert_eq!(http::get(server.address(), "/a", &[])?.status, 503);
/// let second = http::get(server.address(), "/a", &[])?;
/// assert_eq!((second.text().as_str(), second.broken.is_some()), ("te", true));
/// assert_eq!(server.counts("/a").requests, 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Misbehaving {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// What its connections share.
#[derive(Debug)]
struct Shared {
    upstream: Option<SocketAddr>,
    script: Mutex<Script>,
    link: Mutex<Link>,
    clock: Clock,
    /// The bandwidth that all connections share.
    pace: Mutex<Pace>,
    /// Open streams, to be cut when the server ends.
    streams: Mutex<HashMap<u64, Arc<TcpStream>>>,
    closed: Condvar,
    ends: AtomicBool,
    connections: AtomicU64,
}

impl Misbehaving {
    /// A server that answers 404 until it is told what to do.
    #[track_caller]
    pub fn new() -> Self {
        Self::start(None, Link::default())
    }

    /// A proxy that passes every request on to the server at `upstream`, byte for byte with its
    /// `Host`, so that signatures hold; answers come back as the link lets them.
    ///
    /// Clients address the proxy as if it were the server. What it is told to answer itself does
    /// not reach the server.
    #[track_caller]
    pub fn in_front_of(upstream: SocketAddr, link: Link) -> Self {
        Self::start(Some(upstream), link)
    }

    #[track_caller]
    fn start(upstream: Option<SocketAddr>, link: Link) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            upstream,
            script: Mutex::default(),
            link: Mutex::new(link),
            clock: Clock::start(),
            pace: Mutex::default(),
            streams: Mutex::default(),
            closed: Condvar::new(),
            ends: AtomicBool::new(false),
            connections: AtomicU64::new(0),
        });
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { shared, address, accepting: Some(accepting) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The URL of a path that begins with `/`.
    pub fn url(&self, path: &str) -> String {
        self.endpoint() + path
    }

    /// Answers every request for `path` so. A path with `?` is met by that very query only, one
    /// without by every query that has no answer of its own.
    pub fn answer(&self, path: &str, answer: Answer) {
        self.answers(path, [answer]);
    }

    /// Answers requests for `path` by these in turn; the last one stays.
    pub fn answers(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        lock(&self.shared.script).set(path, answers.into_iter().collect());
    }

    /// Answers the `n`-th request of all (the first is 1) so, whatever its path.
    pub fn nth(&self, n: u64, answer: Answer) {
        lock(&self.shared.script).set_nth(n, answer);
    }

    /// Answers every `n`-th request of all so, whatever its path.
    ///
    /// Panics if `n` is 0.
    pub fn every_nth(&self, n: u64, answer: Answer) {
        assert!(n > 0, "every 0th request is none");
        lock(&self.shared.script).set_every_nth(n, answer);
    }

    /// Is as far away as this from the next request on.
    pub fn set_link(&self, link: Link) {
        *lock(&self.shared.link) = link;
    }

    /// What was asked of `path` (without a query), with every query.
    pub fn counts(&self, path: &str) -> Counts {
        lock(&self.shared.script).counts(path)
    }

    /// What was asked of all paths together.
    pub fn total(&self) -> Counts {
        lock(&self.shared.script).total()
    }

    /// The last 100,000 requests, in the order of their coming.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.script).requests()
    }

    /// Connections that were made.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Forgets what was counted. Requests under way stay under way.
    pub fn reset_counts(&self) {
        lock(&self.shared.script).reset_counts();
        self.shared.connections.store(0, Ordering::Relaxed);
    }
}

impl Default for Misbehaving {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        // Wakes who accepts.
        TcpStream::connect(self.address).ok();
        if let Some(accepting) = self.accepting.take() {
            accepting.join().ok();
        }
        let streams = lock(&self.shared.streams);
        for stream in streams.values() {
            stream.shutdown(Shutdown::Both).ok();
        }
        let open = |streams: &mut HashMap<_, _>| !streams.is_empty();
        drop(self.shared.closed.wait_timeout_while(streams, ENDS_WITHIN, open));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.ends.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let open = Open::new(shared, stream);
        // A client that goes away is no failure of the server.
        thread::spawn(move || connection::serve(&open).ok());
    }
}

/// A stream that is cut when the server ends.
#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    number: u64,
    stream: Option<Arc<TcpStream>>,
}

impl Open {
    fn new(shared: &Arc<Shared>, stream: TcpStream) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        stream.set_nodelay(true).ok();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(stream);
        lock(&shared.streams).insert(number, Arc::clone(&stream));
        if shared.ends.load(Ordering::SeqCst) {
            stream.shutdown(Shutdown::Both).ok();
        }
        Self { shared: Arc::clone(shared), number, stream: Some(stream) }
    }

    fn stream(&self) -> &TcpStream {
        self.stream.as_ref().expect("it is taken by drop only")
    }
}

impl io::Read for Open {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream().read(buffer)
    }
}

impl io::Read for &Open {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream().read(buffer)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut streams = lock(&self.shared.streams);
        streams.remove(&self.number);
        // Closed before anybody is told that it is.
        self.stream = None;
        self.shared.closed.notify_all();
    }
}

/// A thread that panicked has told its test; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
