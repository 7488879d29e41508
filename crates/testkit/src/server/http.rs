//! HTTP/1.1 as plain as can be: a client that hides nothing, and the heads and bodies that the
//! misbehaving server and proxy share with it.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A longer head is not one.
const HEAD_BYTES_MAX: u64 = 256 * 1024;

/// No answer of a test takes longer, unless it never comes.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Name and value.
pub type Header<'a> = (&'a str, &'a str);

/// The answer to a request, as it came.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Name and value of each header, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, or what of it came.
    pub body: Vec<u8>,
    /// Why the body ends before the length that was promised; `None` if it is whole.
    pub broken: Option<io::ErrorKind>,
}

impl Response {
    /// The first value of this header; names are compared without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The body as text; bytes that are not UTF-8 show as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `GET` without a body; see [`request`].
pub fn get(address: SocketAddr, target: &str, headers: &[Header<'_>]) -> io::Result<Response> {
    request(address, "GET", target, headers, &[])
}

/// One request on a connection of its own, with `Host`, `Content-Length` (of a body) and
/// `Connection: close` besides the given headers. Redirects are not followed.
///
/// An error means that no whole head came: refused, closed, reset, or nothing for a minute.
pub fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[Header<'_>],
    body: &[u8],
) -> io::Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut lines = vec![format!("{method} {target} HTTP/1.1"), format!("Host: {address}")];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if !body.is_empty() || method == "PUT" || method == "POST" {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    lines.push("Connection: close\r\n\r\n".to_owned());
    stream.write_all(lines.join("\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut from = BufReader::new(stream);
    let head = loop {
        let head = Head::read(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if head.status().is_none_or(|status| status >= 200) {
            break head;
        }
    };
    let status = head.status().ok_or(io::ErrorKind::InvalidData)?;
    let mut body = Vec::new();
    let copied = copy_body(&mut from, head.framing_of_answer(method), |piece| {
        if let Piece::Data(bytes) = piece {
            body.extend_from_slice(bytes);
        }
        Ok(())
    });
    Ok(Response { status, headers: head.headers, body, broken: copied.err().map(|e| e.kind()) })
}

/// First line and headers of a request or an answer.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The bytes as they came, with the empty line that ends them.
    pub(crate) raw: Vec<u8>,
    pub(crate) first: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// Reads one; `None` at the end of the connection.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut raw = Vec::new();
        let mut from = from.take(HEAD_BYTES_MAX);
        loop {
            let length = from.read_until(b'\n', &mut raw)?;
            if length == 0 && raw.is_empty() {
                return Ok(None);
            }
            if length == 0 || raw.last() != Some(&b'\n') {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if raw.ends_with(b"\r\n\r\n") || raw.ends_with(b"\n\n") {
                break;
            }
        }
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let pairs = lines.filter_map(|line| line.split_once(':'));
        let headers = pairs.map(|(name, value)| (name.trim().into(), value.trim().into()));
        Ok(Some(Self { raw, first, headers: headers.collect() }))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> &str {
        self.first.split(' ').next().unwrap_or_default()
    }

    /// The target of a request: path and query.
    pub(crate) fn target(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    /// The status of an answer.
    pub(crate) fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }

    /// Whether the sender closes the connection after this.
    pub(crate) fn closes(&self) -> bool {
        match self.header("connection") {
            Some(value) => value.eq_ignore_ascii_case("close"),
            None => self.first.contains("HTTP/1.0"),
        }
    }

    pub(crate) fn framing_of_request(&self) -> Framing {
        match self.framing() {
            Framing::UntilClose => Framing::Length(0),
            framing => framing,
        }
    }

    pub(crate) fn framing_of_answer(&self, method: &str) -> Framing {
        match self.status() {
            Some(100..200 | 204 | 304) => Framing::Length(0),
            _ if method == "HEAD" => Framing::Length(0),
            _ => self.framing(),
        }
    }

    fn framing(&self) -> Framing {
        let coding = self.header("transfer-encoding").unwrap_or_default();
        if coding.to_ascii_lowercase().ends_with("chunked") {
            return Framing::Chunked;
        }
        let length = self.header("content-length").and_then(|value| value.parse().ok());
        length.map_or(Framing::UntilClose, Framing::Length)
    }
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// A part of a body as it is on the wire.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// Bytes of the object.
    Data(&'a [u8]),
    /// What frames them: sizes of chunks, trailers.
    Frame(&'a [u8]),
}

/// Hands a body on piece by piece, as it comes.
pub(crate) fn copy_body(
    from: &mut impl BufRead,
    framing: Framing,
    mut to: impl FnMut(Piece<'_>) -> io::Result<()>,
) -> io::Result<()> {
    match framing {
        Framing::Length(length) => copy_data(from, length, &mut to),
        Framing::UntilClose => loop {
            let bytes = from.fill_buf()?;
            if bytes.is_empty() {
                return Ok(());
            }
            let length = bytes.len();
            to(Piece::Data(bytes))?;
            from.consume(length);
        },
        Framing::Chunked => loop {
            let size = copy_line(from, &mut to)?;
            let digits = size.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            if size == 0 {
                while !copy_line(from, &mut to)?.trim().is_empty() {}
                return Ok(());
            }
            copy_data(from, size, &mut to)?;
            copy_line(from, &mut to)?;
        },
    }
}

fn copy_data(
    from: &mut impl BufRead,
    mut length: u64,
    to: &mut impl FnMut(Piece<'_>) -> io::Result<()>,
) -> io::Result<()> {
    while length > 0 {
        let bytes = from.fill_buf()?;
        let count = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to(Piece::Data(&bytes[..count]))?;
        from.consume(count);
        length -= count as u64;
    }
    Ok(())
}

fn copy_line(
    from: &mut impl BufRead,
    to: &mut impl FnMut(Piece<'_>) -> io::Result<()>,
) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    to(Piece::Frame(&line))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(mut from: &[u8], framing: Framing) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let (mut body, mut wire) = (Vec::new(), Vec::new());
        copy_body(&mut from, framing, |piece| {
            if let Piece::Data(bytes) = piece {
                body.extend_from_slice(bytes);
            }
            let (Piece::Data(bytes) | Piece::Frame(bytes)) = piece;
            wire.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok((body, wire))
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        let chunked = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n";
        let (body, wire) = data(&[&chunked[..], b"more"].concat(), Framing::Chunked).unwrap();
        assert_eq!((&*body, &*wire), (&b"abcde"[..], &chunked[..]));
        assert_eq!(data(b"abcdef", Framing::Length(4)).unwrap().0, b"abcd");
        assert_eq!(data(b"abcdef", Framing::UntilClose).unwrap().0, b"abcdef");
        for (text, framing) in [
            (&b"abc"[..], Framing::Length(4)),
            (b"3\r\nab", Framing::Chunked),
            (b"3\r\nabc\r\n", Framing::Chunked),
        ] {
            let error = data(text, framing).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{framing:?}");
        }
    }

    #[test]
    fn heads_are_read_one_by_one() {
        let mut from =
            &b"GET /a?b HTTP/1.1\r\nHost: h\r\nRANGE: bytes=0-1\r\n\r\nHEAD / HTTP/1.0\r\n\r\n"[..];
        let head = Head::read(&mut from).unwrap().unwrap();
        assert_eq!((head.method(), head.target(), head.closes()), ("GET", "/a?b", false));
        assert_eq!(head.header("range"), Some("bytes=0-1"));
        assert_eq!(head.framing_of_request(), Framing::Length(0));
        assert!(Head::read(&mut from).unwrap().unwrap().closes());
        assert!(Head::read(&mut from).unwrap().is_none());
        assert!(Head::read(&mut &b"GET / HT"[..]).is_err());
    }
}
