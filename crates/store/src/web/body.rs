//! The bytes of an answer, cut to the range that was asked for, and counted:
//! a body that ends too early is an error and not an end.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};

use super::answer::broken;
use crate::{ByteStream, Error, Name};

/// How a body covers what was asked for.
#[derive(Debug, Clone)]
pub(super) struct Cover {
    /// Bytes of the body before the range: of a server that ignores ranges.
    pub(super) skip: u64,
    /// The range that the stream is to hold.
    pub(super) range: Range<u64>,
    /// Whether the range's end is the object's or was promised by the server,
    /// so that a body which ends before it was broken off.
    pub(super) is_exact: bool,
}

struct Rest {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    name: Name,
    cover: Cover,
}

/// The bytes of `cover.range`, as they arrive.
pub(super) fn bytes(name: Name, response: reqwest::Response, cover: Cover) -> ByteStream {
    let rest = Rest { body: response.bytes_stream().boxed(), name, cover };
    stream::try_unfold(
        rest,
        |mut rest| async move { Ok(rest.next().await?.map(|bytes| (bytes, rest))) },
    )
    .boxed()
}

impl Rest {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.cover.range.is_empty() {
            let Some(bytes) = self.body.next().await else { return self.ended() };
            let bytes = bytes.map_err(|error| broken(&self.name, &error))?;
            let bytes = self.cover.cut(bytes);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn ended(&self) -> Result<Option<Bytes>, Error> {
        let Cover { range, is_exact, .. } = &self.cover;
        if !is_exact {
            return Ok(None);
        }
        let missing = range.end - range.start;
        let reason = format!("the server ended its answer {missing} bytes early");
        Err(Error::interrupted(self.name.clone(), reason))
    }
}

impl Cover {
    /// What of the next bytes of the body belongs to the range, which is moved on by it.
    fn cut(&mut self, mut bytes: Bytes) -> Bytes {
        let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= skipped as u64;
        let mut bytes = bytes.split_off(skipped);
        let wanted = self.range.end - self.range.start;
        bytes.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        self.range.start += bytes.len() as u64;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_before_and_behind_the_range_is_cut_off() {
        let mut cover = Cover { skip: 4, range: 4..9, is_exact: true };
        let pieces = ["012", "345", "", "6789ab"];
        let cut = pieces.map(|piece| cover.cut(Bytes::from_static(piece.as_bytes())));
        assert_eq!(cut, ["", "45", "", "678"]);
        assert!(cover.range.is_empty());
    }
}
