//! What was fetched on a guess and nobody has read yet: so much of it that it would drive itself out
//! of memory is not fetched.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::lock;
use tokio::sync::Notify;

/// After so long without a reader what was fetched is like all else in memory: the kernel takes it
/// back when it needs to.
const HOLDS: Duration = Duration::from_secs(30);
/// Files remembered; about 200 bytes each. Beyond it the oldest counts no more.
const FILES_MAX: usize = 1 << 16;

/// Files by path, and their bytes; shared by who fetches and who sees them being read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    files: Mutex<Files>,
    has_room: Notify,
}

#[derive(Debug, Default)]
struct Files {
    by_path: HashMap<Arc<[u8]>, (Duration, u64)>,
    in_order: VecDeque<(Duration, Arc<[u8]>)>,
    bytes: u64,
    /// How many there may be; `None`: nobody has said.
    room: Option<u64>,
}

impl Unread {
    /// So many bytes of a file were fetched; if none, it is as unread as it was.
    pub(crate) fn fetched(&self, path: &Arc<[u8]>, bytes: u64, now: Duration) {
        if bytes == 0 {
            return;
        }
        // Of what had been fetched before there may be less now.
        self.change(|files| {
            files.read(path);
            files.bytes += bytes;
            files.by_path.insert(Arc::clone(path), (now, bytes));
            files.in_order.push_back((now, Arc::clone(path)));
            while files.in_order.len() > FILES_MAX {
                files.forget_oldest();
            }
        });
    }

    /// A program opened a file.
    pub(crate) fn read(&self, path: &Arc<[u8]>) {
        self.change(|files| files.read(path));
    }

    /// So many bytes have room in memory by now.
    pub(crate) fn has_room_for(&self, room: Option<u64>, now: Duration) {
        self.change(|files| {
            files.room = room;
            while files.in_order.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= HOLDS) {
                files.forget_oldest();
            }
        });
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        loop {
            // Asked for before looking, so that no word of it is missed.
            let has_room = self.has_room.notified();
            if !lock(&self.files).is_full() {
                return;
            }
            has_room.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Files)) {
        let mut files = lock(&self.files);
        let was_full = files.is_full();
        change(&mut files);
        if was_full && !files.is_full() {
            self.has_room.notify_waiters();
        }
    }
}

impl Files {
    fn is_full(&self) -> bool {
        self.room.is_some_and(|room| self.bytes > room)
    }

    fn read(&mut self, path: &Arc<[u8]>) {
        if let Some((_, bytes)) = self.by_path.remove(path) {
            self.bytes -= bytes;
        }
    }

    fn forget_oldest(&mut self) {
        let Some((at, path)) = self.in_order.pop_front() else { return };
        // It may have been read, and fetched again since.
        if self.by_path.get(&path).is_some_and(|(since, _)| *since == at) {
            self.read(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn path(name: &str) -> Arc<[u8]> {
        Arc::from(name.as_bytes())
    }

    fn waits(unread: &Unread) -> bool {
        unread.room().now_or_never().is_none()
    }

    #[test]
    fn who_fetches_waits_until_something_is_read_or_old() {
        let (unread, second) = (Unread::default(), Duration::from_secs(1));
        unread.fetched(&path("a"), 10, Duration::ZERO);
        assert!(!waits(&unread), "nobody has said how much there may be");
        unread.has_room_for(Some(12), second);
        unread.fetched(&path("b"), 5, second);
        assert!(waits(&unread));
        unread.read(&path("never fetched"));
        assert!(waits(&unread));
        unread.read(&path("a"));
        assert!(!waits(&unread));
        unread.fetched(&path("a"), 10, 2 * second);
        unread.has_room_for(Some(12), HOLDS);
        assert!(waits(&unread), "what was read is another one than what came later");
        unread.has_room_for(Some(12), HOLDS + second);
        assert!(!waits(&unread), "the other is old");
    }

    #[test]
    fn what_is_found_near_when_it_is_told_again_still_takes_room() {
        let unread = Unread::default();
        unread.has_room_for(Some(1), Duration::ZERO);
        unread.fetched(&path("a"), 2, Duration::ZERO);
        unread.fetched(&path("a"), 0, Duration::ZERO);
        assert!(waits(&unread));
    }

    #[test]
    fn who_waits_hears_of_room() {
        let unread = Unread::default();
        unread.has_room_for(Some(1), Duration::ZERO);
        unread.fetched(&path("a"), 2, Duration::ZERO);
        let hears = |change: &dyn Fn()| {
            let mut room = Box::pin(unread.room());
            assert!(room.as_mut().now_or_never().is_none());
            change();
            room.now_or_never().is_some()
        };
        assert!(hears(&|| unread.read(&path("a"))));
        unread.fetched(&path("a"), 2, Duration::ZERO);
        assert!(hears(&|| unread.fetched(&path("a"), 1, Duration::ZERO)), "less than before");
    }

    #[test]
    fn no_more_files_than_the_limit_are_remembered() {
        let unread = Unread::default();
        for number in 0..=FILES_MAX {
            unread.fetched(&path(&number.to_string()), 1, Duration::ZERO);
        }
        assert_eq!(lock(&unread.files).bytes, FILES_MAX as u64);
    }
}
