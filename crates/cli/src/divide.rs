//! Work on many things, divided among threads.

use std::thread::{Builder, scope};

use crate::flags::processors;

/// Does `work` on equal shares of `things`, of `share_min` or more, and gives what came of them in
/// order. The caller does the first, and those for which the system gives no thread.
pub(crate) fn divided<T: Sync, R: Send>(
    things: &[T],
    share_min: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let share = things.len().div_ceil(processors()).max(share_min);
    let mut shares = things.chunks(share);
    let first = shares.next().unwrap_or_default();
    let work = &work;
    scope(|scope| {
        let begin =
            |things| (things, Builder::new().spawn_scoped(scope, move || work(things)).ok());
        let others: Vec<_> = shares.map(begin).collect();
        let mut found = vec![work(first)];
        found.extend(others.into_iter().map(|(things, thread)| match thread {
            Some(thread) => thread.join().expect("a thread's panic ends the run"),
            None => work(things),
        }));
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_worked_on_once_and_in_order() {
        for count in [0, 1, 7, 8, 9, 1000] {
            let things: Vec<usize> = (0..count).collect();
            assert_eq!(divided(&things, 4, <[usize]>::to_vec).concat(), things);
        }
    }
}
