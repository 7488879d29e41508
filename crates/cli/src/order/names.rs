//! Names from a stream, in batches: as many as have come, so that nobody waits for more.

use std::io::{self, BufRead};

/// A name longer than this is none: paths end at 4096 bytes.
const NAME_BYTES_MAX: usize = 1 << 20;

/// Splits a stream into batches of whole names.
#[derive(Debug)]
pub(super) struct Batches<R> {
    stream: R,
    end: u8,
    /// The batch handed out, or the begin of a name whose end has not come.
    text: Vec<u8>,
    /// How much of `text` was handed out.
    given: usize,
}

impl<R: BufRead> Batches<R> {
    /// Names of `stream`, each ended by `end`; the last may lack it.
    pub(super) fn new(stream: R, end: u8) -> Self {
        Self { stream, end, text: Vec::new(), given: 0 }
    }

    /// One or more whole names, each with its end; `None` when there are no more.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.text.drain(..self.given);
        self.given = 0;
        loop {
            let come = match self.stream.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                come => come?,
            };
            let count = come.len();
            let whole = memchr::memrchr(self.end, come).map(|at| self.text.len() + at + 1);
            self.text.extend_from_slice(come);
            self.stream.consume(count);
            self.given = match whole {
                Some(whole) => whole,
                None if count == 0 => self.text.len(),
                None if self.text.len() > NAME_BYTES_MAX => {
                    return Err(io::Error::other("a name without an end"));
                }
                None => continue,
            };
            return Ok((self.given > 0).then(|| &self.text[..self.given]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn names(text: &[u8], buffer_bytes: usize) -> Vec<Vec<u8>> {
        let mut batches = Batches::new(BufReader::with_capacity(buffer_bytes, text), b'\n');
        let mut all = Vec::new();
        while let Some(batch) = batches.next().expect("memory") {
            all.extend(batch.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        }
        all.retain(|name| !name.is_empty());
        all
    }

    #[test]
    fn names_survive_every_buffer_size() {
        let text = b"a\nlonger name\n\n\xff\nlast";
        for buffer_bytes in 1..=text.len() + 1 {
            assert_eq!(names(text, buffer_bytes), [&b"a"[..], b"longer name", b"\xff", b"last"]);
        }
    }

    #[test]
    fn a_stream_without_ends_is_refused_before_it_fills_memory() {
        let text = vec![b'x'; NAME_BYTES_MAX + 2];
        let mut batches = Batches::new(BufReader::new(&text[..]), b'\n');
        assert!(batches.next().is_err());
    }
}
