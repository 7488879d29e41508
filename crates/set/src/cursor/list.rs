//! Names from a list: a file, an object or standard input, read as the names are asked for.

use std::collections::VecDeque;
use std::fs::File;
use std::future::ready;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use store::{ByteStream, Costs, Error, Name, Stores, blocking};

use crate::ListSource;

/// Bytes that one read asks for.
const READ_BYTES: usize = 64 << 10;
/// No path and no URL in use is longer; what has no separator for so long is no list.
const NAME_BYTES_MAX: usize = 1 << 20;
/// What some editors put before the first line of a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The names of a list. They are NUL-separated if a NUL comes with the first
/// that is read of it, otherwise one a line; empty ones are passed over.
///
/// Of lines the first says whether all end as on Windows, by a carriage return
/// before the line's end; a mark of byte order before it is no part of its name.
pub(super) fn names(
    stores: Arc<Stores>,
    source: ListSource,
    base: PathBuf,
) -> BoxStream<'static, Result<Name, Error>> {
    let label = match &source {
        ListSource::Stdin => Name::from("stdin"),
        ListSource::Object(name) => name.clone(),
    };
    let (list, known) = (label.clone(), Arc::clone(&stores));
    let opened = async move { opened(&stores, source, &base).await };
    let chunks = stream::once(opened).flat_map(|opened| match opened {
        Ok(chunks) => chunks,
        Err(error) => stream::once(async { Err(error) }).boxed(),
    });
    split(chunks, label).map(move |name| known.listed_by(&list, name?)).boxed()
}

async fn opened(stores: &Stores, source: ListSource, base: &Path) -> Result<ByteStream, Error> {
    let (list, path) = match source {
        ListSource::Stdin => {
            let path = PathBuf::from("stdin");
            let own = io::stdin().as_fd().try_clone_to_owned();
            let own = own.map_err(|error| Error::io(&path, error))?;
            (Box::new(File::from(own)) as Readable, path)
        }
        ListSource::Object(name) => {
            let Some(path) = name.path() else {
                return stores.contents(name).await;
            };
            let path = base.join(path);
            let costs = Arc::clone(stores.costs());
            blocking(move || Ok((readable(&path, &costs)?, path))).await?
        }
    };
    let chunks = stream::try_unfold((list, path), |(mut list, path)| {
        blocking(move || {
            let mut chunk = vec![0; READ_BYTES];
            let read = read(&mut *list, &mut chunk).map_err(|error| Error::io(&path, error))?;
            chunk.truncate(read);
            Ok((read > 0).then(|| (chunk.into(), (list, path))))
        })
    });
    Ok(chunks.boxed())
}

/// A list that is open.
type Readable = Box<dyn Read + Send>;

/// Opens a list; where its mount may not answer, each read of it ends in bounded time.
fn readable(path: &Path, costs: &Costs) -> Result<Readable, Error> {
    let failed = |error| Error::io(path, error);
    let file = costs.open(path)?;
    let status = costs.local().status(&file).map_err(failed)?;
    if !status.backing.may_stall() {
        return Ok(Box::new(file));
    }
    Ok(Box::new(fetch::bounded(file, costs).map_err(failed)?))
}

fn read(list: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match list.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// The names in what is read.
fn split(
    chunks: impl Stream<Item = Result<bytes::Bytes, Error>> + Send + 'static,
    label: Name,
) -> impl Stream<Item = Result<Name, Error>> + Send {
    let ended = stream::once(async { None });
    let splitter = Splitter::default();
    let found = chunks.map(Some).chain(ended).scan(Some(splitter), move |state, chunk| {
        // What is no list is not read to its end, which may be far or never come.
        let Some(splitter) = state else { return ready(None) };
        let names = match chunk {
            Some(Ok(chunk)) => {
                splitter.names(&chunk).map_err(|reason| Error::refused(label.clone(), reason))
            }
            Some(Err(error)) => Err(error),
            None => Ok(splitter.last().into_iter().collect()),
        };
        ready(Some(match names {
            Ok(names) => names.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => {
                *state = None;
                vec![Err(error)]
            }
        }))
    });
    found.map(stream::iter).flatten()
}

/// Cuts names from what is read, piece by piece.
#[derive(Debug, Default)]
struct Splitter {
    /// What names end with, when that is known.
    end: Option<u8>,
    /// Whether a line has come.
    is_begun: bool,
    /// Whether a carriage return at the end of a line is a part of that.
    has_returns: bool,
    /// The beginning of a name whose end has not come.
    rest: Vec<u8>,
}

impl Splitter {
    /// The names that end in `chunk`.
    fn names(&mut self, chunk: &[u8]) -> Result<VecDeque<Name>, String> {
        let has_nul = memchr::memchr(0, chunk).is_some();
        if self.end.is_none() && has_nul {
            self.end = Some(0);
        } else if self.end.is_none() && memchr::memchr(b'\n', chunk).is_some() {
            self.end = Some(b'\n');
        } else if self.end == Some(b'\n') && has_nul {
            return Err("a NUL in a list of lines: names end all with NUL, or none".to_owned());
        }
        let mut names = VecDeque::new();
        let mut from = 0;
        for at in self.end.into_iter().flat_map(|end| memchr::memchr_iter(end, chunk)) {
            self.rest.extend_from_slice(&chunk[from..at]);
            names.extend(self.last());
            from = at + 1;
        }
        self.rest.extend_from_slice(&chunk[from..]);
        if self.rest.len() > NAME_BYTES_MAX {
            return Err(format!("no list: more than {NAME_BYTES_MAX} bytes without a separator"));
        }
        Ok(names)
    }

    /// The name that ends here, unless it is empty.
    fn last(&mut self) -> Option<Name> {
        let mut name = std::mem::take(&mut self.rest);
        if self.end != Some(0) {
            self.trim(&mut name);
        }
        (!name.is_empty()).then(|| Name::from(name))
    }

    /// Takes from a line what is none of its name.
    fn trim(&mut self, line: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_begun, true) {
            if line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            self.has_returns = self.end.is_some() && line.ends_with(b"\r");
        }
        if self.has_returns && line.ends_with(b"\r") {
            line.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn split_in_pieces(list: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let mut splitter = Splitter::default();
        let mut names = Vec::new();
        for chunk in list.chunks(piece) {
            names.extend(splitter.names(chunk)?);
        }
        names.extend(splitter.last());
        Ok(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_are_the_same_however_the_list_arrives() {
        for piece in 1..8 {
            let lines = split_in_pieces(b"a\n\nb c\nlast", piece);
            assert_eq!(lines.expect("a list"), ["a", "b c", "last"]);
            let nul = split_in_pieces(b"a\0b c\0\0last\0", piece);
            assert_eq!(nul.expect("a list"), ["a", "b c", "last"]);
        }
        let nul = split_in_pieces(b"new\nline\0b\0", 100);
        assert_eq!(nul.expect("a list"), ["new\nline", "b"]);
    }

    #[test]
    fn a_list_may_be_written_on_windows() {
        for piece in 1..8 {
            let split = |list| split_in_pieces(list, piece).expect("a list");
            assert_eq!(split(b"\xef\xbb\xbfa\r\n\r\nb c\r\r\nlast"), ["a", "b c\r", "last"]);
            assert_eq!(split(b"\xef\xbb\xbfonly"), ["only"]);
            assert_eq!(split(b"a\nb\r\n\xef\xbb\xbfc\n"), ["a", "b\r", "\u{feff}c"]);
            assert_eq!(split(b"\xef\xbb\xbfa\r\0b\r\0"), ["\u{feff}a\r", "b\r"]);
            assert_eq!(split(b"one\r"), ["one\r"]);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert!(split_in_pieces(b"a\nb\0c", 2).is_err());
        assert!(split_in_pieces(&vec![b'x'; NAME_BYTES_MAX + 1], 4096).is_err());
    }

    #[test]
    fn what_is_no_list_is_not_read_on() {
        let chunk = bytes::Bytes::from(vec![b'x'; READ_BYTES]);
        let endless = stream::repeat_with(move || Ok(chunk.clone()));
        let names: Vec<_> = block_on(split(endless, Name::from("stdin")).collect());
        assert!(matches!(&names[..], [Err(Error::Refused { .. })]), "{names:?}");
    }
}
