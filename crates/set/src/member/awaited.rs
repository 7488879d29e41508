//! A member's bytes for readers that must not block: tasks, and threads that wait in slices.

use std::io::Read as _;
use std::task::{Context, Poll};

use bytes::Bytes;
use fetch::engine::Near;

use super::{Content, Member, MemberError};

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

    /// Reads on into `buffer`, as [`std::io::Read`] does, with an error that names the member; 0 at the end.
    ///
    /// # Errors
    /// What kept the rest away.
    pub fn read_into(&mut self, buffer: &mut [u8]) -> Result<usize, MemberError> {
        loop {
            match self.read_some(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| self.failed(error)),
            }
        }
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        std::io::Read::by_ref(self).take(buffer.len() as u64).read(buffer)
    }
}
