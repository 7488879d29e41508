//! A mount that may not answer is listened to by a thread of its own, which can be left behind.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use store::Mounts;

use super::fanotify::{self, Group, Telling, What};
use super::opens::{self, Batch, Ground, Open, Resolver};

/// Opens that wait to be taken: beyond it they are lost, and that is told.
const WAITING_MAX: usize = 4096;

/// One such mount.
#[derive(Debug)]
pub(crate) struct Apart {
    ground: Ground,
    opens: Receiver<Open>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Rung when there is something to take.
    bell: OwnedFd,
    /// Rung when nobody takes any more.
    stop: OwnedFd,
    lost: AtomicBool,
    /// Once its mount has answered.
    listens: AtomicBool,
    failure: OnceLock<io::Error>,
}

impl Apart {
    /// Begins to listen to the mount of `ground`.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub(crate) fn new(ground: Ground, resolver: Resolver) -> io::Result<Self> {
        let (sender, opens) = sync_channel(WAITING_MAX);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            bell: eventfd(0, flags)?,
            stop: eventfd(0, flags)?,
            lost: AtomicBool::new(false),
            listens: AtomicBool::new(false),
            failure: OnceLock::new(),
        });
        let theirs = Arc::clone(&shared);
        let its = ground.clone();
        let run = move || {
            if let Err(error) = listen(&its, resolver, &sender, &theirs) {
                drop(theirs.failure.set(error));
            }
            ring(&theirs.bell);
        };
        std::thread::Builder::new().name("nearfirst-apart".into()).spawn(run)?;
        Ok(Self { ground, opens, shared })
    }

    /// The mount that is listened to.
    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// Takes what was opened; whether some of it was lost.
    pub(crate) fn take(&self, opens: &mut Vec<Open>) -> bool {
        silence(&self.shared.bell);
        opens.extend(self.opens.try_iter().take(WAITING_MAX));
        self.shared.lost.swap(false, Ordering::AcqRel)
    }

    /// Whether it has begun to be listened to.
    pub(crate) fn listens(&self) -> bool {
        self.shared.listens.load(Ordering::Acquire)
    }

    /// Why it can no longer be listened to.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.shared.failure.get()
    }
}

impl AsFd for Apart {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        ring(&self.shared.stop);
    }
}

/// Listens until it is told to stop.
fn listen(
    ground: &Ground,
    mut resolver: Resolver,
    opens: &SyncSender<Open>,
    shared: &Shared,
) -> io::Result<()> {
    opens::ensure_reached(ground)?;
    let mut group = Group::new(Telling::Name)?;
    resolver.grounds = HashMap::new();
    if group.mark(&ground.point, What::Opens).is_ok() {
        resolver.grounds.insert(fanotify::file_system_id(&ground.point)?, ground.clone());
    } else {
        group = Group::new(Telling::Descriptor)?;
        group.mark(&ground.point, What::Opens)?;
        resolver.mounts = Arc::new(Mounts::read()?);
    }
    shared.listens.store(true, Ordering::Release);
    let mut records = Vec::new();
    loop {
        let mut ready =
            [PollFd::new(&group, PollFlags::IN), PollFd::new(&shared.stop, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !ready[1].revents().is_empty() {
            return Ok(());
        }
        let taken = group.take(&mut records)?;
        if taken.lost {
            shared.lost.store(true, Ordering::Release);
        }
        let mut batch = Batch::default();
        for open in records.drain(..).filter_map(|record| resolver.resolve(record, &mut batch)) {
            match opens.try_send(open) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => shared.lost.store(true, Ordering::Release),
                Err(TrySendError::Disconnected(_)) => return Ok(()),
            }
        }
        ring(&shared.bell);
    }
}

fn ring(bell: &OwnedFd) {
    // A bell that rings already rings.
    rustix::io::write(bell, &1_u64.to_ne_bytes()).ok();
}

fn silence(bell: &OwnedFd) {
    rustix::io::read(bell, &mut [0_u8; 8]).ok();
}
