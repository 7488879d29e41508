//! Files that were near a moment ago: to ask again costs more than the answer is worth.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long what was near is taken to be near. A build opens the same headers many times a second;
/// in this time a machine that is not short of memory drops nothing that was just read.
const HOLDS: Duration = Duration::from_secs(5);
/// Files remembered; about 100 bytes each.
const FILES_MAX: usize = 1 << 16;

/// When files were last seen near.
#[derive(Debug, Default)]
pub(crate) struct Recent(HashMap<Arc<[u8]>, Duration>);

impl Recent {
    pub(crate) fn note(&mut self, path: &Arc<[u8]>, now: Duration) {
        if let Some(at) = self.0.get_mut(path) {
            *at = now;
            return;
        }
        if self.0.len() >= FILES_MAX {
            self.0.retain(|_, at| now.saturating_sub(*at) < HOLDS);
            if self.0.len() >= FILES_MAX {
                self.0.clear();
            }
        }
        self.0.insert(Arc::clone(path), now);
    }

    pub(crate) fn is_near(&self, path: &Arc<[u8]>, now: Duration) -> bool {
        self.0.get(path).is_some_and(|at| now.saturating_sub(*at) < HOLDS)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_near_is_asked_about_again_after_a_while() {
        let mut recent = Recent::default();
        let path: Arc<[u8]> = Arc::from(&b"/a"[..]);
        recent.note(&path, Duration::from_secs(1));
        assert!(recent.is_near(&path, Duration::from_secs(2)));
        assert!(!recent.is_near(&path, Duration::from_secs(1) + HOLDS));
    }

    #[test]
    fn no_more_files_than_the_limit_are_remembered() {
        let mut recent = Recent::default();
        for number in 0..=FILES_MAX {
            recent.note(&Arc::from(number.to_string().as_bytes()), Duration::ZERO);
        }
        assert!(recent.0.len() <= FILES_MAX);
    }
}
