//! One object of a set, delivered once, its data near.

mod awaited;
mod copy;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fetch::engine::{FileReader, Near, NearFile, opened_anew};
use store::{Entry, Error, FirstBytes, Name, SpillFolder};

use self::copy::MEMORY_BYTES_MAX;
pub use self::copy::MemberCopy;

/// One object of a set: delivered once, its data already near, or on its way
/// while the first of it is read.
///
/// It reads in order, once; what was read is let go. [`Member::file`] gives a
/// descriptor that can seek.
#[derive(Debug)]
pub struct Member {
    entry: Entry,
    content: Content,
    /// Of one that was compared.
    headers: Vec<(String, String)>,
    /// Where it goes on, once others move the position of the file behind it.
    lent_at: Option<u64>,
}

#[derive(Debug)]
enum Content {
    Near(Near),
    /// A near file that is being read; it stays near until that ends.
    Opened {
        file: FileReader,
        /// The first byte that is wanted of it.
        start: u64,
        /// Bytes to its end: who knows it need not ask the system, which may
        /// ask a server. `None` of what told no size.
        left: Option<u64>,
        /// The first bytes that were read, but by a read that was the last.
        first: FirstBytes,
        near: Near,
    },
    /// Read already, to compare it.
    Held(io::Cursor<Bytes>),
    /// Read already, into a copy.
    Kept(File),
    /// What was read of it last is lost: the rest must not pass for the whole.
    Failed(MemberError),
}

/// A member that could not be read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemberError {
    /// Its name.
    pub name: Name,
    /// Why.
    pub cause: Arc<Error>,
}

impl MemberError {
    /// Of the member of that name.
    pub fn new(name: Name, cause: impl Into<Arc<Error>>) -> Self {
        Self { name, cause: cause.into() }
    }

    /// What was met while the member of that name was read through [`Read`].
    pub fn of(name: &Name, error: io::Error) -> Self {
        let inner = error.get_ref();
        if let Some(known) = inner.and_then(|inner| inner.downcast_ref::<Self>()) {
            return known.clone();
        }
        let name = name.clone();
        if let Some(known) = inner.and_then(|inner| inner.downcast_ref::<Arc<Error>>()) {
            return Self { name, cause: Arc::clone(known) };
        }
        let path = name.path().map_or_else(|| name.to_string().into(), Path::to_owned);
        Self { name, cause: Arc::new(Error::io(path, error)) }
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name.as_subject(), self.cause.reason())
    }
}

impl std::error::Error for MemberError {
    /// What lies under the cause, whose own reason is in the text.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

impl From<MemberError> for io::Error {
    /// Of the [kind](Error::kind) of the cause.
    fn from(error: MemberError) -> Self {
        Self::new(error.cause.kind(), error)
    }
}

impl Member {
    pub(crate) fn new(entry: Entry, near: Near) -> Self {
        Self { entry, content: Content::Near(near), headers: Vec::new(), lent_at: None }
    }

    /// Its name, whole.
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// What its store says of it; the version is the one whose bytes are here.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Bytes, if its server told.
    pub fn size(&self) -> Option<u64> {
        self.entry.size
    }

    /// Where it is, if it is a file of this machine, whatever it is called; `None` of one that failed
    /// as it was read.
    pub fn path(&self) -> Option<&Path> {
        self.near_file().map(NearFile::path)
    }

    /// Whether it is a file of a mount that may not answer: reading it may never return.
    pub fn may_stall(&self) -> bool {
        self.near_file().is_some_and(NearFile::may_stall)
    }

    fn near_file(&self) -> Option<&NearFile> {
        match &self.content {
            Content::Near(Near::File(file)) | Content::Opened { near: Near::File(file), .. } => {
                Some(file)
            }
            _ => None,
        }
    }

    /// The headers that it came with, if its store keeps any.
    pub fn headers(&self) -> Vec<(String, String)> {
        match &self.content {
            Content::Near(Near::Bytes(reader)) => reader.headers(),
            _ => self.headers.clone(),
        }
    }

    /// All of its bytes that were not read yet, waiting for those that are on their way.
    ///
    /// # Errors
    /// What kept the rest away: nothing is returned of a member that is not whole.
    pub fn read(self) -> Result<Bytes, MemberError> {
        let Self { entry, content, headers, lent_at } = self;
        match content {
            Content::Near(Near::Bytes(reader)) => {
                reader.all().map_err(|cause| MemberError { name: entry.name, cause })
            }
            Content::Held(held) => {
                let at = usize::try_from(held.position()).unwrap_or(usize::MAX);
                let bytes = held.into_inner();
                Ok(bytes.slice(at.min(bytes.len())..))
            }
            content => {
                let mut member = Self { entry, content, headers, lent_at };
                member.read_file().map_err(|error| member.failed(error))
            }
        }
    }

    /// All of the file behind it that was not read yet.
    fn read_file(&mut self) -> io::Result<Bytes> {
        self.opened()?;
        let left = match &self.content {
            Content::Opened { left, .. } => *left,
            _ => self.entry.size,
        };
        let left = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(0);
        let mut bytes = Vec::new();
        // A file may tell of more than any memory holds.
        bytes.try_reserve_exact(left.saturating_add(1))?;
        self.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// The next bytes as they arrived, without a copy where they are ours; empty at the end.
    ///
    /// # Errors
    /// What kept the rest away.
    pub fn chunk(&mut self) -> Result<Bytes, MemberError> {
        /// Bytes of a file that are read at a time.
        const FILE_CHUNK_BYTES: usize = 256 << 10;
        if let Content::Near(Near::Bytes(reader)) = &mut self.content {
            let name = &self.entry.name;
            return reader.chunk().map_err(|cause| MemberError { name: name.clone(), cause });
        }
        let mut bytes = vec![0; FILE_CHUNK_BYTES];
        match Read::read(self, &mut bytes) {
            Ok(read) => {
                bytes.truncate(read);
                Ok(bytes.into())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// A descriptor at the beginning of what was not read yet, which can seek, and whose position neither
    /// this member nor another such descriptor moves:
    /// of a file of this machine, the file, and whoever reads it must look himself
    /// whether it is written to meanwhile; of another, memory or a file
    /// without a name that holds the whole, once it is here.
    ///
    /// # Errors
    /// What kept the rest away; no room for it. Also of what is read of the member afterwards: that its
    /// file may not be opened any more.
    pub fn file(&mut self) -> Result<File, MemberError> {
        match self.opened() {
            Ok(Some(file)) => {
                let lent = lent(file);
                let (file, at) = lent.map_err(|error| self.failed(error))?;
                self.lent_at = Some(at);
                Ok(file)
            }
            Ok(None) => {
                self.copied().map_err(|error| self.failed(error))?;
                self.file()
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The open file behind it, if there is one.
    fn opened(&mut self) -> io::Result<Option<&File>> {
        if let Content::Near(Near::File(near)) = &self.content {
            let start = near.start();
            let file = near.reader().map_err(raised)?;
            let held = std::mem::replace(&mut self.content, Content::Held(io::Cursor::default()));
            let Content::Near(near) = held else { unreachable!("it was near above") };
            // A size of 0 may be that of a file that is made as it is read.
            let size = self.entry.size.filter(|&size| size > 0);
            let left = size.map(|size| size.saturating_sub(start));
            let first = FirstBytes::default();
            self.content = Content::Opened { file, start, left, first, near };
        }
        if let Some(at) = self.lent_at {
            self.reopen(at)?;
            self.lent_at = None;
        }
        Ok(match &self.content {
            Content::Opened { file, .. } => Some(file.file()),
            Content::Kept(file) => Some(file),
            Content::Failed(error) => return Err(raised(Arc::clone(&error.cause))),
            Content::Near(_) | Content::Held(_) => None,
        })
    }

    /// Opens the file behind it anew. Most members whose file is lent are done with: those are spared it.
    fn reopen(&mut self, at: u64) -> io::Result<()> {
        match &mut self.content {
            Content::Opened { file, near: Near::File(near), .. } => {
                *file = near.reader_anew(file, at)?;
            }
            Content::Kept(file) => *file = opened_anew(file, at)?,
            _ => {}
        }
        Ok(())
    }

    /// Puts what was not read yet into a file of ours, which is what is behind it from then on.
    fn copied(&mut self) -> io::Result<()> {
        let mut copy = Some(self.copy()?);
        while let Some(so_far) = copy {
            let next = self.chunk();
            copy = self.add(so_far, next)?;
        }
        Ok(())
    }

    /// Adds what came next to its copy; `None` once that is whole, and behind it.
    fn add(
        &mut self,
        mut copy: MemberCopy,
        next: Result<Bytes, MemberError>,
    ) -> io::Result<Option<MemberCopy>> {
        let put = next.map_err(io::Error::from).and_then(|next| {
            copy.put(&next)?;
            Ok(next.is_empty())
        });
        if !put.map_err(|error| self.lost(error))? {
            return Ok(Some(copy));
        }
        let whole = copy.whole().map_err(|error| self.lost(error))?;
        self.content = Content::Kept(whole);
        Ok(None)
    }

    /// An empty copy of it.
    fn copy(&self) -> io::Result<MemberCopy> {
        let folder = match &self.content {
            Content::Near(near) | Content::Opened { near, .. } => near.spill_folder(),
            _ => &SpillFolder::default(),
        };
        let made = MemberCopy::new(&self.entry.name, self.entry.size, folder);
        made.map_err(raised)
    }

    /// Keeps for every later call what was met while bytes were taken that nobody has got.
    fn lost(&mut self, error: io::Error) -> io::Error {
        let error = self.failed(error);
        self.headers = self.headers();
        let raised = raised(Arc::clone(&error.cause));
        self.content = Content::Failed(error);
        raised
    }

    fn failed(&self, error: io::Error) -> MemberError {
        MemberError::of(&self.entry.name, error)
    }

    /// What makes its content comparable with others': read whole, and kept for its reader.
    pub(crate) fn fingerprint(&mut self) -> Result<blake3::Hash, MemberError> {
        let mut hasher = blake3::Hasher::new();
        self.headers = self.headers();
        if let Content::Near(Near::Bytes(_)) = self.content
            && self.entry.size.is_some_and(|size| size <= MEMORY_BYTES_MAX)
        {
            let near = std::mem::replace(&mut self.content, Content::Held(io::Cursor::default()));
            let (entry, headers) = (self.entry.clone(), Vec::new());
            let whole = Self { entry, content: near, headers, lent_at: None }.read()?;
            hasher.update(&whole);
            self.content = Content::Held(io::Cursor::new(whole));
            return Ok(hasher.finalize());
        }
        match self.hash_file(&mut hasher) {
            Ok(()) => Ok(hasher.finalize()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Reads the file behind it, or one of ours; its reader begins at the start again.
    fn hash_file(&mut self, hasher: &mut blake3::Hasher) -> io::Result<()> {
        if self.opened()?.is_none() {
            self.copied()?;
        }
        // Read by this member, which waits for no mount longer than it may.
        io::copy(self, hasher)?;
        match &mut self.content {
            Content::Opened { file, start, left, .. } => {
                *left = left.and(self.entry.size).map(|size| size.saturating_sub(*start));
                file.file().seek(SeekFrom::Start(*start))?
            }
            Content::Kept(file) => file.seek(SeekFrom::Start(0))?,
            _ => unreachable!("it is open above"),
        };
        Ok(())
    }
}

impl Read for Member {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.opened()?;
        match &mut self.content {
            Content::Near(Near::Bytes(reader)) => reader.read(buffer),
            Content::Held(held) => held.read(buffer),
            Content::Kept(file) => file.read(buffer),
            Content::Opened { file, left: None, .. } => file.read(buffer),
            Content::Opened { file, left: Some(left), first, .. } => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                if most == 0 {
                    return Ok(0);
                }
                let read = file.read(&mut buffer[..most])?;
                let size = self.entry.size.expect("it is known how much is left");
                let at = size - *left;
                *left -= read as u64;
                if *left > 0 {
                    first.add(at, &buffer[..read]);
                }
                if read == 0 || *left == 0 {
                    let is_same = is_same(&self.entry, file, first, read);
                    is_same.map_err(|error| self.lost(error))?;
                }
                Ok(read)
            }
            Content::Near(Near::File(_)) => unreachable!("files are opened above"),
            Content::Failed(_) => unreachable!("what failed is told above"),
        }
    }
}

/// What [`Read`] raises of it, of its [kind](Error::kind) and number.
fn raised(cause: impl Into<Arc<Error>>) -> io::Error {
    let cause = cause.into();
    io::Error::new(cause.kind(), cause)
}

/// Another descriptor of a file, which shares its position, and where that is.
fn lent(file: &File) -> io::Result<(File, u64)> {
    let mut lent = file.try_clone()?;
    let at = lent.stream_position()?;
    Ok((lent, at))
}

/// # Errors
/// A file that was read to its end, by so many bytes at last, is not what its entry told of.
fn is_same(entry: &Entry, file: &FileReader, first: &FirstBytes, read: usize) -> io::Result<()> {
    let now = file.metadata()?;
    // Files of the kernel end before the size that they tell, and go on telling it.
    let is_whole = read > 0 || Some(now.len()) == entry.size;
    if is_whole && entry.is_still(&now, || file.begins_with(first))? {
        return Ok(());
    }
    Err(raised(Error::Changed { name: entry.name.clone() }))
}
