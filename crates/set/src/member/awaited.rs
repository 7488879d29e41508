//! A member's bytes for readers that must not block: tasks, and threads that wait in slices.

use std::fs::File;
use std::io::{self, Read as _};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fetch::engine::Near;

use super::{Content, Member, MemberCopy, MemberError};

impl Member {
    /// As [`Member::chunk`], for a task.
    ///
    /// Of a file of this machine it reads at once: no waker is called by a disk.
    pub fn poll_chunk(&mut self, context: &Context<'_>) -> Poll<Result<Bytes, MemberError>> {
        let Content::Near(Near::Bytes(reader)) = &mut self.content else {
            return Poll::Ready(self.chunk());
        };
        let name = &self.entry.name;
        let cause = |cause| MemberError { name: name.clone(), cause };
        reader.poll_chunk(context).map_err(cause)
    }

    /// As [`Member::file`], for a task, which keeps `copy`, as much of it as is here, from one poll to the
    /// next.
    ///
    /// # Errors
    /// As [`Member::file`].
    pub fn poll_file(
        &mut self,
        context: &Context<'_>,
        copy: &mut Option<MemberCopy>,
    ) -> Poll<Result<File, MemberError>> {
        if !matches!(self.content, Content::Near(Near::Bytes(_))) {
            return Poll::Ready(self.file());
        }
        match ready!(self.poll_copied(context, copy)) {
            Ok(()) => Poll::Ready(self.file()),
            Err(error) => Poll::Ready(Err(self.failed(error))),
        }
    }

    fn poll_copied(
        &mut self,
        context: &Context<'_>,
        copy: &mut Option<MemberCopy>,
    ) -> Poll<io::Result<()>> {
        if copy.is_none() {
            *copy = Some(self.copy()?);
        }
        let next = ready!(self.poll_chunk(context));
        *copy = self.add(copy.take().expect("made above"), next)?;
        if copy.is_none() {
            return Poll::Ready(Ok(()));
        }
        // However fast more comes, who waits may give up in between.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads on into `buffer`, as [`std::io::Read`] does, with an error that names the member; 0 at the end.
    ///
    /// # Errors
    /// What kept the rest away.
    pub fn read_into(&mut self, buffer: &mut [u8]) -> Result<usize, MemberError> {
        loop {
            match self.read_some(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| self.failed(error)),
            }
        }
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::by_ref(self).take(buffer.len() as u64).read(buffer)
    }
}
