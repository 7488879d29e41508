//! Calls on a file whose mount may not answer, made by a thread that can be left behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use store::Costs;

use crate::sync::{Mutex, lock, mpsc};

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes calls, one after the other, and how long each may take. It ends with its
/// last call, which may be never.
pub(crate) struct Apart {
    file: Arc<File>,
    calls: mpsc::Sender<Call>,
    limit: Duration,
    /// What reads fill, while none does.
    space: Mutex<Vec<u8>>,
}

impl Apart {
    /// A thread called `name` for calls on `file`.
    ///
    /// # Errors
    /// Where no thread or descriptor can be had.
    pub(crate) fn new(name: &str, file: &File, costs: &Costs) -> io::Result<Self> {
        let file = Arc::new(file.try_clone()?);
        let (calls, inbox) = mpsc::channel::<Call>();
        let serve = move || inbox.into_iter().for_each(|call| call());
        std::thread::Builder::new().name(name.into()).spawn(serve)?;
        Ok(Self { file, calls, limit: costs.local().wait_max(), space: Mutex::default() })
    }

    /// Makes `call` and waits for what it returns.
    ///
    /// # Errors
    /// Its own; `TimedOut` if it has not returned within the limit.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.begin(call)?.wait()
    }

    /// Has `call` be made after those that were begun before.
    ///
    /// # Errors
    /// Where there is no thread any more.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        call: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<Answer<T>> {
        let (answer, answers) = mpsc::sync_channel(1);
        let file = Arc::clone(&self.file);
        // Who has given up hears no answer.
        let call = Box::new(move || drop(answer.send(call(&file))));
        self.calls.send(call).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Answer { answers, limit: self.limit })
    }

    /// Reads into `buffer` from `offset` on, no more than `bytes_max`, after doing what comes
    /// `first`; returns how much.
    ///
    /// # Errors
    /// As [`Apart::call`].
    pub(crate) fn read_at(
        &self,
        offset: u64,
        buffer: &mut [u8],
        bytes_max: usize,
        first: impl FnOnce(&File) + Send + 'static,
    ) -> io::Result<usize> {
        // Kept from read to read: new memory for each would have to be mapped and cleared.
        let mut space = std::mem::take(&mut *lock(&self.space));
        let wanted = buffer.len().min(bytes_max);
        if space.len() < wanted {
            space.resize(wanted, 0);
        }
        let (found, space) = self.call(move |file| {
            first(file);
            let read = file.read_at(&mut space[..wanted], offset)?;
            Ok((read, space))
        })?;
        buffer[..found].copy_from_slice(&space[..found]);
        *lock(&self.space) = space;
        Ok(found)
    }
}

/// What a call will return.
pub(crate) struct Answer<T> {
    answers: mpsc::Receiver<io::Result<T>>,
    limit: Duration,
}

impl<T> Answer<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// The call's own; `TimedOut` if it has not returned within the limit: it may be waited for again.
    pub(crate) fn wait(&self) -> io::Result<T> {
        wait_for(&self.answers, self.limit).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Waits in steps, of which a process that was stopped meanwhile, as by
/// Ctrl-Z, misses one: the time it did not run is not the device's.
fn wait_for<T>(answers: &mpsc::Receiver<T>, limit: Duration) -> Result<T, mpsc::RecvTimeoutError> {
    const STEPS: u32 = 20;
    for _ in 1..STEPS {
        match answers.recv_timeout(limit / STEPS) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            answered => return answered,
        }
    }
    answers.recv_timeout(limit / STEPS)
}
