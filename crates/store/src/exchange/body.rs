//! The bytes of an answer, cut to the range that was asked for, and counted:
//! a body that ends too early is an error and not an end.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};

use crate::{ByteStream, Error, Name};

/// How a body covers what was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Cover {
    /// Bytes of the body before the range: of a server that ignores ranges.
    pub(crate) skip: u64,
    /// The range that the stream is to hold.
    pub(crate) range: Range<u64>,
    /// Whether the range's end is the object's or was promised by the server,
    /// so that a body which ends before it was broken off.
    pub(crate) is_exact: bool,
}

struct Rest {
    body: BoxStream<'static, Result<Bytes, Error>>,
    name: Name,
    cover: Cover,
}

/// The bytes of `cover.range`, as they arrive; `body` ends with its first error.
pub(crate) fn covered<S>(name: Name, body: S, cover: Cover) -> ByteStream
where
    S: Stream<Item = Result<Bytes, Error>> + Send + 'static,
{
    let rest = Rest { body: body.boxed(), name, cover };
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
            let bytes = self.cover.cut(bytes?);
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
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn what_is_before_and_behind_the_range_is_cut_off() {
        let mut cover = Cover { skip: 4, range: 4..9, is_exact: true };
        let pieces = ["012", "345", "", "6789ab"];
        let cut = pieces.map(|piece| cover.cut(Bytes::from_static(piece.as_bytes())));
        assert_eq!(cut, ["", "45", "", "678"]);
        assert!(cover.range.is_empty());
    }

    fn read(parts: &[&'static str], cover: Cover) -> (String, Option<Error>) {
        let parts: Vec<_> =
            parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect();
        let mut all = String::new();
        let mut bytes = covered(Name::from("x://y/z"), stream::iter(parts), cover);
        while let Some(next) = bytes.next().now_or_never().expect("all parts are there") {
            match next {
                Ok(bytes) => all.push_str(std::str::from_utf8(&bytes).unwrap()),
                Err(error) => return (all, Some(error)),
            }
        }
        (all, None)
    }

    #[test]
    fn what_ends_early_is_an_interruption_where_the_end_is_known() {
        for (range, is_exact) in [(0..6, true), (0..6, false), (0..0, true)] {
            let whole = if range.is_empty() { "" } else { "abcde" };
            let (all, error) = read(&["abc", "de"], Cover { skip: 0, range, is_exact });
            assert_eq!(all, whole);
            assert_eq!(
                error.is_some_and(|error| error.is_transient()),
                is_exact && !all.is_empty()
            );
        }
    }
}
