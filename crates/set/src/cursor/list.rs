//! Names from a list: a file, an object or standard input, read as the names are asked for.

use std::fs::File;
use std::future::ready;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use rustix::io::Errno;
use store::{ByteStream, Error, Name, Stores, blocking};

use crate::{ListSource, Names};

/// Bytes that one read asks for.
const READ_BYTES: usize = 64 << 10;

/// The names of a list, as [`Names`] are in it.
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
    let costs = Arc::clone(stores.costs());
    let (file, path) = match source {
        ListSource::Stdin => {
            let path = PathBuf::from("stdin");
            let own = io::stdin().as_fd().try_clone_to_owned();
            (File::from(own.map_err(|error| Error::io(&path, error))?), path)
        }
        ListSource::Object(name) => {
            let Some(path) = name.path() else {
                return stores.contents(name).await.map_err(as_of_files);
            };
            let path = base.join(path);
            let costs = Arc::clone(&costs);
            blocking(move || Ok((costs.open(&path)?, path))).await?
        }
    };
    let list = fetch::answering(file, &costs).map_err(|error| Error::io(&path, error))?;
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

/// That a list is missing is not that a name is: what is in it is unknown, as of a missing file.
fn as_of_files(error: Error) -> Error {
    match error {
        Error::NotFound { name } => Error::io(name.to_string_lossy().into_owned(), Errno::NOENT),
        error => error,
    }
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
    let found = chunks.map(Some).chain(ended).scan(Some(Names::default()), move |state, chunk| {
        // What is no list is not read to its end, which may be far or never come.
        let Some(names) = state else { return ready(None) };
        let found = match chunk {
            Some(Ok(chunk)) => {
                names.of(&chunk).map_err(|reason| Error::refused(label.clone(), reason))
            }
            Some(Err(error)) => Err(error),
            None => Ok(names.last().into_iter().collect()),
        };
        ready(Some(match found {
            Ok(found) => found.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => {
                *state = None;
                vec![Err(error)]
            }
        }))
    });
    found.map(stream::iter).flatten()
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn what_is_no_list_is_not_read_on() {
        let chunk = bytes::Bytes::from(vec![b'x'; READ_BYTES]);
        let endless = stream::repeat_with(move || Ok(chunk.clone()));
        let names: Vec<_> = block_on(split(endless, Name::from("stdin")).collect());
        assert!(matches!(&names[..], [Err(Error::Refused { .. })]), "{names:?}");
    }
}
