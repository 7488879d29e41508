//! A run that is broken off leaves nothing behind: children, temporary files, a line on the terminal.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::process;
use store::lock;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{front, progress};

/// What is undone when the run is broken off, the last made first.
static UNDONE: Mutex<Vec<(u64, Undo)>> = Mutex::new(Vec::new());
/// Held by who undoes: nobody ends the process before the other has undone all.
static UNDOING: Mutex<()> = Mutex::new(());
/// Whether it has been, or is being; changed under its lock.
static IS_UNDONE: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(0);
/// What is being made, for which no undoing is ready yet.
static MADE: Mutex<Made> = Mutex::new(Made { under_way: 0, is_over: false });
static IS_MADE: Condvar = Condvar::new();
/// How long that is waited for: it may be on a mount that does not answer.
const MADE_WITHIN: Duration = Duration::from_millis(500);
/// The signal that breaks the run off; 0: none has come.
static BROKEN_OFF_BY: AtomicI32 = AtomicI32::new(0);

/// Who is told that a terminal stops this process, and that it goes on.
static TOLD_OF_STOPS: Mutex<Option<Tell>> = Mutex::new(None);

type Undo = Box<dyn FnOnce() + Send>;
type Tell = Box<dyn Fn(process::Signal) + Send>;

fn undone() -> MutexGuard<'static, Vec<(u64, Undo)>> {
    lock(&UNDONE)
}

#[derive(Debug)]
struct Made {
    under_way: usize,
    /// Whether nothing more is made.
    is_over: bool,
}

/// Makes something and prepares its undoing, or has it need none any more: in between the run is not
/// broken off. Where it has been, nothing is made, and the thread comes to its end here.
pub(crate) fn making<T>(make: impl FnOnce() -> T) -> T {
    struct UnderWay;
    impl Drop for UnderWay {
        fn drop(&mut self) {
            lock(&MADE).under_way -= 1;
            IS_MADE.notify_all();
        }
    }
    let mut made = lock(&MADE);
    if made.is_over {
        drop(made);
        undo_here(|| ());
    }
    made.under_way += 1;
    drop(made);
    let _under_way = UnderWay;
    make()
}

/// Waits until what is being made is there, and lets nothing more be made.
fn end_making() {
    let mut made = lock(&MADE);
    made.is_over = true;
    let waits = |made: &mut Made| made.under_way > 0;
    let waited = IS_MADE.wait_timeout_while(made, MADE_WITHIN, waits);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}

/// Keeps an undoing ready for as long as it lives.
#[derive(Debug)]
pub(crate) struct Prepared(u64);

/// Has `undo` done if the run is broken off before the answer is dropped. Where it has been broken
/// off, that is done now, and the thread comes to its end here.
pub(crate) fn prepare(undo: impl FnOnce() + Send + 'static) -> Prepared {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut undone = undone();
    if IS_UNDONE.load(Ordering::Relaxed) {
        drop(undone);
        undo_here(undo);
    }
    undone.push((number, Box::new(undo)));
    Prepared(number)
}

/// Undoes what a thread has made of a run that is broken off, and lets it go no further.
fn undo_here(undo: impl FnOnce()) -> ! {
    undo();
    loop {
        std::thread::park();
    }
}

impl Prepared {
    /// Has `undo` done instead, at the same place among the others.
    pub(crate) fn becomes(&self, undo: impl FnOnce() + Send + 'static) {
        let mut undone = undone();
        let Some((_, prepared)) = undone.iter_mut().find(|(number, _)| *number == self.0) else {
            drop(undone);
            undo_here(undo);
        };
        *prepared = Box::new(undo);
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let mut undone = undone();
        if let Some(at) = undone.iter().position(|(number, _)| *number == self.0) {
            let undo = undone.remove(at);
            drop(undone);
            drop(undo);
        }
    }
}

/// Listens, in this runtime, for the signals that break a run off; once in a process. One that
/// whoever started us ignores, as `nohup` and shells in the background do, stays ignored.
pub(crate) fn watch(runtime: &Handle) {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let is_ignored = ignored();
        for kind in kinds {
            if is_ignored(kind.as_raw_value()) {
                continue;
            }
            let entered = runtime.enter();
            // A signal that cannot be caught ends the program as it ends any.
            if let Ok(mut signals) = signal(kind) {
                runtime.spawn(async move { break_off_at(&mut signals, kind).await });
            }
            drop(entered);
        }
    });
}

/// Has `tell` know that a terminal stops this process (`SIGTSTP`), before it does; and once somebody has
/// it go on, that it does (`SIGCONT`). Who asked last is told.
pub(crate) fn tell_of_stops(runtime: &Handle, tell: impl Fn(process::Signal) + Send + 'static) {
    *lock(&TOLD_OF_STOPS) = Some(Box::new(tell));
    watch_stops(runtime);
}

/// Has no line stand on the terminal while that stops this process; once in a process. As [`watch`] does,
/// it leaves alone what whoever started us ignores.
pub(crate) fn watch_stops(runtime: &Handle) {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        if ignored()(libc::SIGTSTP) {
            return;
        }
        let _entered = runtime.enter();
        let Ok(mut stops) = signal(SignalKind::from_raw(libc::SIGTSTP)) else { return };
        runtime.spawn(async move {
            while stops.recv().await.is_some() {
                // None may come between, and stay.
                progress::without(stop);
            }
        });
    });
}

fn stop() {
    let told = lock(&TOLD_OF_STOPS);
    let tell = |signal| told.as_ref().map_or((), |tell| tell(signal));
    tell(process::Signal::TSTP);
    ::watch::command::stop_as(libc::SIGTSTP);
    tell(process::Signal::CONT);
}

/// Whether a signal is ignored at present; none where the kernel does not tell.
pub(crate) fn ignored() -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| mask >> (signal - 1) & 1 == 1
}

async fn break_off_at(signals: &mut Signal, kind: SignalKind) {
    if signals.recv().await.is_none() {
        return;
    }
    let signal = kind.as_raw_value();
    BROKEN_OFF_BY.store(signal, Ordering::Release);
    // Undoing may wait for children; other tasks of the runtime are not held up.
    let undone = tokio::task::spawn_blocking(undo_all);
    drop(undone.await);
    end(signal);
}

/// The exit code of a run that came to its end: of one that is being broken off, that of its
/// signal, since ending its children may have been what let it come to its end.
pub(crate) fn settled(exit: ExitCode) -> ExitCode {
    match BROKEN_OFF_BY.load(Ordering::Acquire) {
        0 => exit,
        signal => {
            undo_all();
            end(signal)
        }
    }
}

fn undo_all() {
    let _undoing = lock(&UNDOING);
    end_making();
    let mut undone = undone();
    IS_UNDONE.store(true, Ordering::Relaxed);
    let all = std::mem::take(&mut *undone);
    drop(undone);
    for (_, undo) in all.into_iter().rev() {
        undo();
    }
    progress::wipe_at_the_end();
}

/// Ends the process as a shell says that a signal ended it.
#[expect(
    clippy::exit,
    reason = "other threads wait for what will not come; nothing is left to drop"
)]
fn end(signal: i32) -> ExitCode {
    front::tell(128 + u8::try_from(signal).unwrap_or_default());
    std::process::exit(128 + signal)
}
