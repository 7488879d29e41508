//! Work on many things, divided among threads.

use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// Does `work` on equal shares of `things`, of `share_min` or more, in as many threads at most, and
/// gives what came of them in order. The caller does the first, and those for which the system gives no
/// thread.
pub(crate) fn divided<T: Sync, R: Send>(
    things: &[T],
    threads: usize,
    share_min: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let share = things.len().div_ceil(threads).max(share_min);
    let mut shares = things.chunks(share);
    let first = shares.next().unwrap_or_default();
    let work = &work;
    scope(|scope| {
        let begin = |things| (things, begun(scope, move || work(things)));
        let others: Vec<_> = shares.map(begin).collect();
        let mut found = vec![work(first)];
        found.extend(others.into_iter().map(|(things, thread)| match thread {
            Some(thread) => thread.join().expect("a thread's panic ends the run"),
            None => work(things),
        }));
        found
    })
}

/// Does `work` in as many threads, the caller's among them; in fewer where the system gives no more.
pub(crate) fn together(threads: usize, work: impl Fn() + Sync) {
    let work = &work;
    scope(|scope| {
        // Whom it gives no second one, it will not give a third.
        let _ = (1..threads).all(|_| begun(scope, work).is_some());
        work();
    });
}

/// A thread of the scope, if the system gives one.
pub(crate) fn begun<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_worked_on_once_and_in_order() {
        for count in [0, 1, 7, 8, 9, 1000] {
            let things: Vec<usize> = (0..count).collect();
            for threads in [1, 3] {
                let shares = divided(&things, threads, 4, <[usize]>::to_vec);
                assert!(shares.len() <= threads);
                assert_eq!(shares.concat(), things);
            }
        }
    }
}
