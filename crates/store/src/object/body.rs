//! The bytes of an answer, cut to what was asked for and checked to be all of it.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};

use crate::{ByteStream, Error, Name};

/// `length` bytes after `skip` others, or [`Error::Interrupted`] if fewer come.
pub(super) fn exactly<S>(name: Name, bytes: S, skip: u64, length: u64) -> ByteStream
where
    S: Stream<Item = Result<Bytes, Error>> + Send + 'static,
{
    let state = Rest { name, bytes: Box::pin(bytes), skip, left: length };
    stream::unfold(Some(state), |state| async move {
        let mut rest = state?;
        match rest.next().await {
            Ok(None) => None,
            Ok(Some(bytes)) => Some((Ok(bytes), Some(rest))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

struct Rest {
    name: Name,
    bytes: std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>,
    skip: u64,
    left: u64,
}

impl Rest {
    /// The next bytes that were asked for.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.left > 0 {
            let Some(bytes) = self.bytes.next().await else {
                let reason = format!("the answer ended {} bytes early", self.left);
                return Err(Error::interrupted(self.name.clone(), reason));
            };
            let mut bytes = bytes?;
            let length = bytes.len() as u64;
            if self.skip >= length {
                self.skip -= length;
                continue;
            }
            if self.skip > 0 {
                bytes = bytes.slice(usize::try_from(self.skip).expect("less than its length")..);
                self.skip = 0;
            }
            if let Ok(left) = usize::try_from(self.left) {
                bytes.truncate(left);
            }
            self.left -= bytes.len() as u64;
            return Ok(Some(bytes));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn read(parts: &[&'static str], skip: u64, length: u64) -> (String, Option<Error>) {
        let parts: Vec<_> =
            parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect();
        let mut all = String::new();
        let mut bytes = exactly(Name::from("x://y/z"), stream::iter(parts), skip, length);
        while let Some(next) = bytes.next().now_or_never().expect("all parts are there") {
            match next {
                Ok(bytes) => all.push_str(std::str::from_utf8(&bytes).unwrap()),
                Err(error) => return (all, Some(error)),
            }
        }
        (all, None)
    }

    #[test]
    fn what_was_not_asked_for_is_left_out() {
        assert!(matches!(read(&["abc", "def", "ghi"], 0, 9), (all, None) if all == "abcdefghi"));
        assert!(matches!(read(&["abc", "def", "ghi"], 4, 3), (all, None) if all == "efg"));
        assert!(matches!(read(&["abc"], 3, 0), (all, None) if all.is_empty()));
    }

    #[test]
    fn what_ends_early_is_an_interruption() {
        let (all, error) = read(&["abc", "de"], 0, 6);
        assert_eq!(all, "abcde");
        assert!(error.unwrap().is_transient());
    }
}
