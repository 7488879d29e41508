//! A member on its way to be compared with others by its content.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use store::{Error, Name};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::member::{Member, MemberError};

/// A member that is read whole by a thread, which may wait for what is on its way.
#[derive(Debug)]
pub(crate) struct Comparing {
    name: Name,
    hashed: JoinHandle<Result<(Member, blake3::Hash), MemberError>>,
}

impl Comparing {
    pub(crate) fn begin(runtime: &Handle, mut member: Member) -> Self {
        let name = member.name().clone();
        let hashed = runtime.spawn_blocking(move || {
            let hash = member.fingerprint()?;
            Ok((member, hash))
        });
        Self { name, hashed }
    }
}

impl Future for Comparing {
    type Output = Result<(Member, blake3::Hash), MemberError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let hashed = Pin::new(&mut self.hashed).poll(context);
        hashed.map(|hashed| {
            hashed.unwrap_or_else(|ended| {
                let name = self.name.clone();
                let cause = Error::refused(name.clone(), ended.to_string()).caused_by(ended);
                let cause = Arc::new(cause);
                Err(MemberError { name, cause })
            })
        })
    }
}
