//! What the misbehaving server does with one request.

use std::sync::Arc;
use std::time::Duration;

use crate::server::http::Head;

/// An answer, well-behaved unless told otherwise.
///
/// One with bytes has an `ETag` that depends on them, and honours `Range` (of one range), `If-Range`,
/// `If-Match`, `If-None-Match` and `HEAD`. Counts of bytes are of the body as it is sent.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
    pub(super) delay: Duration,
    pub(super) end: Option<(u64, End)>,
    pub(super) bytes_per_second: Option<u64>,
    length: Option<u64>,
    chunked: bool,
    ranges: bool,
    etag: Option<String>,
}

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Bytes(Arc<[u8]>),
    /// These again and again.
    Endless(Arc<[u8]>),
    /// The server behind the proxy.
    Upstream,
    /// There is no answer at all.
    None,
}

/// How an answer ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Close,
    Reset,
    Stall,
}

impl Answer {
    /// 200 with these bytes, or 206 with a range of them.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let etag = format!("\"{:016x}\"", super::super::fingerprint(bytes));
        let mut answer = Self::new(200, Body::Bytes(bytes.into()));
        answer.etag = Some(etag);
        answer
    }

    /// 200 with a page.
    pub fn html(text: &str) -> Self {
        Self::bytes(text).header("Content-Type", "text/html; charset=utf-8")
    }

    /// This status, with its number as text.
    pub fn status(status: u16) -> Self {
        Self::new(status, Body::Bytes(format!("{status}\n").into_bytes().into()))
    }

    /// This status, with this text as its reason.
    pub fn refusal(status: u16, text: &str) -> Self {
        Self::new(status, Body::Bytes(text.as_bytes().into()))
    }

    /// 302 to this URL or path. Two paths that point to each other are a loop.
    pub fn redirect(to: &str) -> Self {
        Self::status(302).header("Location", to)
    }

    /// 200 with a page of this text again and again, in chunks, until the client goes away.
    pub fn endless(text: &str) -> Self {
        assert!(!text.is_empty(), "nothing again and again is nothing");
        let body = Body::Endless(text.as_bytes().into());
        let mut answer = Self::new(200, body).header("Content-Type", "text/html; charset=utf-8");
        answer.chunked = true;
        answer
    }

    /// What the server behind the proxy answers, to be spoiled on the way: by a delay, an early end,
    /// a bandwidth, headers.
    pub fn forwarded() -> Self {
        Self::new(0, Body::Upstream)
    }

    /// No answer: the connection is closed.
    pub fn hang_up() -> Self {
        Self::new(0, Body::None)
    }

    fn new(status: u16, body: Body) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
            delay: Duration::ZERO,
            end: None,
            bytes_per_second: None,
            length: None,
            chunked: false,
            ranges: true,
            etag: None,
        }
    }

    /// Adds a header, or replaces the one of this name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits so long before the first byte, besides what the link takes.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends so many bytes of the body, then nothing, and keeps the connection until the client
    /// closes it.
    #[must_use]
    pub fn stalls_after(mut self, bytes: u64) -> Self {
        self.end = Some((bytes, End::Stall));
        self
    }

    /// Sends so many bytes of the body, then resets the connection. The client may find the reset
    /// before it has read them.
    #[must_use]
    pub fn resets_after(mut self, bytes: u64) -> Self {
        self.end = Some((bytes, End::Reset));
        self
    }

    /// Sends so many bytes of the body, then closes the connection as if that were all.
    #[must_use]
    pub fn ends_after(mut self, bytes: u64) -> Self {
        self.end = Some((bytes, End::Close));
        self
    }

    /// Sends at most so many bytes of the body in a second: a few, and it dribbles.
    #[must_use]
    pub fn paced(mut self, bytes_per_second: u64) -> Self {
        self.bytes_per_second = Some(bytes_per_second.max(1));
        self
    }

    /// Says this `Content-Length`, whatever is sent. The connection is closed after the body.
    #[must_use]
    pub fn says_length(mut self, bytes: u64) -> Self {
        self.length = Some(bytes);
        self
    }

    /// Sends the body in chunks, without a `Content-Length`.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Sends all, whatever range is asked for.
    #[must_use]
    pub fn ignores_ranges(mut self) -> Self {
        self.ranges = false;
        self
    }

    /// Has this `ETag` (with its quotes, if any), or none if it is empty.
    #[must_use]
    pub fn etag(mut self, etag: &str) -> Self {
        self.etag = (!etag.is_empty()).then(|| etag.to_owned());
        self
    }

    /// The head, and which bytes to send after it.
    pub(super) fn reply(&self, request: &Head) -> Reply {
        let all: &[u8] = if let Body::Bytes(bytes) = &self.body { bytes } else { &[] };
        let mut reply = Reply { status: self.status, headers: Vec::new(), bytes: 0..all.len() };
        if let Some(etag) = self.etag.clone() {
            reply.condition(request, &etag);
            reply.headers.push(("ETag".to_owned(), etag));
        }
        if self.ranges && reply.status == 200 && matches!(self.body, Body::Bytes(_)) {
            reply.headers.push(("Accept-Ranges".to_owned(), "bytes".to_owned()));
            reply.range(request, self.etag.as_deref());
        }
        if self.chunked {
            reply.headers.push(("Transfer-Encoding".to_owned(), "chunked".to_owned()));
        } else {
            let length = self.length.unwrap_or(reply.bytes.len() as u64);
            reply.headers.push(("Content-Length".to_owned(), length.to_string()));
        }
        for (name, value) in &self.headers {
            reply.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            reply.headers.push((name.clone(), value.clone()));
        }
        if request.method() == "HEAD" {
            reply.bytes = 0..0;
        }
        if self.closes(request) {
            reply.headers.push(("Connection".to_owned(), "close".to_owned()));
        }
        reply
    }

    /// Whether the connection is of no use after it.
    pub(super) fn closes(&self, request: &Head) -> bool {
        // A body that was announced but not asked for yet would be taken for the next request.
        request.closes() || self.length.is_some() || request.header("expect").is_some()
    }

    /// How many of so many bytes the client takes for all, if it counts them.
    pub(super) fn whole(&self, bytes: usize) -> Option<u64> {
        let said = self.length.unwrap_or(u64::MAX);
        (!self.chunked).then_some(said.min(bytes as u64))
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.chunked
    }
}

/// The head of an answer to a certain request, and the bytes that follow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) bytes: std::ops::Range<usize>,
}

impl Reply {
    fn condition(&mut self, request: &Head, etag: &str) {
        let met = |value: &str| value == "*" || value.split(',').any(|one| one.trim() == etag);
        if request.header("if-match").is_some_and(|value| !met(value)) {
            (self.status, self.bytes) = (412, 0..0);
        } else if request.header("if-none-match").is_some_and(met) {
            (self.status, self.bytes) = (304, 0..0);
        }
    }

    fn range(&mut self, request: &Head, etag: Option<&str>) {
        let fits = request.header("if-range").is_none_or(|value| Some(value) == etag);
        let asked = request.header("range").and_then(|value| value.strip_prefix("bytes="));
        let Some(asked) = asked.filter(|asked| fits && !asked.contains(',')) else { return };
        let length = self.bytes.len();
        let content_range = match parse_range(asked, length) {
            Some(bytes) if !bytes.is_empty() => {
                self.status = 206;
                self.bytes = bytes;
                format!("bytes {}-{}/{length}", self.bytes.start, self.bytes.end - 1)
            }
            Some(_) => {
                self.status = 416;
                self.bytes = 0..0;
                format!("bytes */{length}")
            }
            // What is no range is ignored (RFC 9110, 14.2).
            None => return,
        };
        self.headers.push(("Content-Range".to_owned(), content_range));
    }

    pub(super) fn head(&self) -> String {
        let mut lines = vec![format!("HTTP/1.1 {} {}", self.status, reason(self.status))];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.join("\r\n") + "\r\n\r\n"
    }
}

/// `0-9`, `5-` or `-3` of so many bytes; empty if it begins behind the end.
fn parse_range(text: &str, length: usize) -> Option<std::ops::Range<usize>> {
    let (first, last) = text.trim().split_once('-')?;
    if first.is_empty() {
        let count: usize = last.parse().ok()?;
        return Some(length.saturating_sub(count)..length);
    }
    let first: usize = first.parse().ok()?;
    let end = if last.is_empty() { length } else { last.parse::<usize>().ok()?.saturating_add(1) };
    let end = end.min(length);
    Some(first.min(end)..end)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 | 302 | 307 | 308 => "Elsewhere",
        304 => "Not Modified",
        404 => "Not Found",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Told So",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(answer: &Answer, headers: &str) -> (u16, std::ops::Range<usize>) {
        let text = format!("GET / HTTP/1.1\r\n{headers}\r\n");
        let head = Head::read(&mut text.as_bytes()).unwrap().unwrap();
        let reply = answer.reply(&head);
        (reply.status, reply.bytes)
    }

    #[test]
    fn ranges_and_conditions_are_honoured_unless_told_not_to() {
        let answer = Answer::bytes("0123456789").etag("\"v1\"");
        for (headers, expected) in [
            ("", (200, 0..10)),
            ("Range: bytes=0-0\r\n", (206, 0..1)),
            ("Range: bytes=4-\r\n", (206, 4..10)),
            ("Range: bytes=-3\r\n", (206, 7..10)),
            ("Range: bytes=8-99\r\n", (206, 8..10)),
            ("Range: bytes=10-\r\n", (416, 0..0)),
            ("Range: bytes=1-2,4-5\r\n", (200, 0..10)),
            ("Range: lines=1-2\r\n", (200, 0..10)),
            ("Range: bytes=0-1\r\nIf-Range: \"v1\"\r\n", (206, 0..2)),
            ("Range: bytes=0-1\r\nIf-Range: \"v0\"\r\n", (200, 0..10)),
            ("Range: bytes=0-1\r\nIf-Match: \"v0\"\r\n", (412, 0..0)),
            ("Range: bytes=0-1\r\nIf-Match: \"v0\", \"v1\"\r\n", (206, 0..2)),
            ("If-None-Match: \"v1\"\r\n", (304, 0..0)),
        ] {
            assert_eq!(reply(&answer, headers), expected, "{headers}");
        }
        let stubborn = answer.ignores_ranges();
        assert_eq!(reply(&stubborn, "Range: bytes=0-1\r\n"), (200, 0..10));
    }
}
