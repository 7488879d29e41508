//! Calls on a file whose mount may not answer, made by a thread that can be left behind.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use store::{Costs, Kind, Lingering};

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock, mpsc};

/// Bytes of one bounded read: a slow mount that answers has the whole limit for each.
const READ_BYTES_MAX: usize = 512 << 10;

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes calls, one after the other, and how long each may take. It ends with its
/// last call, which may be never; then it closes the file, which is a call, too.
pub(crate) struct Apart {
    /// Until this is dropped.
    file: Option<Arc<File>>,
    calls: mpsc::Sender<Call>,
    /// Calls that have ended.
    ended: Arc<AtomicU64>,
    limit: Duration,
    /// What reads fill, while none does.
    space: Mutex<Vec<u8>>,
    /// Whether a read that was given up may still move the file's own place.
    has_lost_place: AtomicBool,
}

impl Apart {
    /// A thread called `name` for calls on `file`.
    ///
    /// # Errors
    /// Where no thread or descriptor can be had.
    pub(crate) fn new(name: &str, file: &File, costs: &Costs) -> io::Result<Self> {
        Self::of(name, file.try_clone()?, costs)
    }

    /// As [`Apart::new`]; the thread closes `file`.
    pub(crate) fn of(name: &str, file: File, costs: &Costs) -> io::Result<Self> {
        Self::begun(name, Arc::new(file), costs.local().wait_max())
    }

    /// Another thread for calls on the same file.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub(crate) fn beside(&self, name: &str) -> io::Result<Self> {
        Self::begun(name, Arc::clone(self.file()), self.limit)
    }

    fn begun(name: &str, file: Arc<File>, limit: Duration) -> io::Result<Self> {
        let (calls, inbox) = mpsc::channel::<Call>();
        let serve = move || inbox.into_iter().for_each(|call| call());
        std::thread::Builder::new().name(name.into()).spawn(serve)?;
        let (ended, space, has_lost_place) = Default::default();
        Ok(Self { file: Some(file), calls, ended, limit, space, has_lost_place })
    }

    fn file(&self) -> &Arc<File> {
        self.file.as_ref().expect("it is taken when this is dropped")
    }

    /// Makes `call` and waits for what it returns.
    ///
    /// # Errors
    /// Its own; `TimedOut` if it has not returned within the limit; that its thread panicked.
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
        let (file, ended) = (Arc::clone(self.file()), Arc::clone(&self.ended));
        let call = Box::new(move || {
            let returned = call(&file);
            ended.fetch_add(1, Ordering::Relaxed);
            // Who has given up hears no answer.
            drop(answer.send(returned));
        });
        self.calls.send(call).map_err(|_| panicked())?;
        Ok(Answer { answers, ended: Arc::clone(&self.ended), limit: self.limit })
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
        self.fill(buffer, bytes_max, move |file, space| {
            first(file);
            file.read_at(space, offset)
        })
    }

    /// Reads on into `buffer`; returns how much. After a read that was given up no other is made: it
    /// would go on behind what that one takes in the end.
    ///
    /// # Errors
    /// As [`Apart::call`].
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_lost_place.load(Ordering::Relaxed) {
            return Err(no_answer(self.limit));
        }
        let read = self.fill(buffer, READ_BYTES_MAX, |mut file, space| file.read(space));
        if read.as_ref().is_err_and(is_given_up) {
            self.has_lost_place.store(true, Ordering::Relaxed);
        }
        read
    }

    /// Fills `buffer`, no more than `bytes_max` of it, by `read`; returns how much.
    ///
    /// # Errors
    /// As [`Apart::call`].
    fn fill(
        &self,
        buffer: &mut [u8],
        bytes_max: usize,
        read: impl FnOnce(&File, &mut [u8]) -> io::Result<usize> + Send + 'static,
    ) -> io::Result<usize> {
        // Kept from read to read: new memory for each would have to be mapped and cleared.
        let mut space = std::mem::take(&mut *lock(&self.space));
        let wanted = buffer.len().min(bytes_max);
        if space.len() < wanted {
            space.resize(wanted, 0);
        }
        let (found, space) = self.call(move |file| {
            let read = read(file, &mut space[..wanted])?;
            Ok((read, space))
        })?;
        buffer[..found].copy_from_slice(&space[..found]);
        *lock(&self.space) = space;
        Ok(found)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let lingering = self.file.take().map(Lingering::new);
        // Where the thread has panicked, the file is closed here.
        drop(self.calls.send(Box::new(move || drop(lingering))));
    }
}

/// That a file did not answer, of whose mount nothing is known.
fn no_answer(within: Duration) -> io::Error {
    let reason = format!("no answer for {} s; its mount may be unreachable", within.as_secs_f32());
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

/// Whether this says that our own limit has passed. The system's `ETIMEDOUT`, as NFS mounts with
/// `softerr` have it, has a number, and is an answer.
pub fn is_given_up(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// That a call, or one before it, ended its thread.
pub(crate) fn panicked() -> io::Error {
    io::Error::other("the thread that read it panicked")
}

/// Reads on in a file whose mount may not answer: each read ends in bounded time, `TimedOut` then.
///
/// # Errors
/// Where no thread can be had for that.
pub fn bounded(file: File, costs: &Costs) -> io::Result<impl io::Read + use<>> {
    Apart::of("bounded", file, costs).map(Bounded)
}

/// Reads on in a file, as [`bounded`] does where it is one of a mount that may not answer. Who else
/// is slow, such as who writes to a pipe, is waited for.
///
/// # Errors
/// The system's, if the descriptor cannot be asked about; where no thread can be had for that.
pub fn answering(file: File, costs: &Costs) -> io::Result<Box<dyn io::Read + Send>> {
    let status = costs.local().status(&file)?;
    let may_stall = status.kind == Kind::File && status.backing.may_stall();
    Ok(if may_stall { Box::new(bounded(file, costs)?) } else { Box::new(file) })
}

/// Asks about an open file whose mount may not answer, in bounded time: `TimedOut` then.
///
/// # Errors
/// The system's; where no thread can be had for that.
pub fn metadata(file: File, costs: &Costs) -> io::Result<Metadata> {
    Apart::of("metadata", file, costs)?.call(File::metadata)
}

struct Bounded(Apart);

impl io::Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// An open file whose calls are bounded where its mount may not answer.
pub(crate) enum Calls {
    Here(File),
    Apart(Apart),
}

impl Calls {
    /// # Errors
    /// Where no thread can be had for them.
    pub(crate) fn new(name: &str, file: File, costs: &Costs, may_stall: bool) -> io::Result<Self> {
        if may_stall { Apart::of(name, file, costs).map(Self::Apart) } else { Ok(Self::Here(file)) }
    }

    /// Its descriptor. Calls on it are not bounded.
    pub(crate) fn file(&self) -> &File {
        match self {
            Self::Here(file) => file,
            Self::Apart(apart) => apart.file(),
        }
    }

    /// Makes `call`.
    ///
    /// # Errors
    /// As [`Apart::call`].
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match self {
            Self::Here(file) => call(file),
            Self::Apart(apart) => apart.call(call),
        }
    }

    /// Reads on into `buffer`.
    ///
    /// # Errors
    /// As [`Apart::call`].
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(file) => (&*file).read(buffer),
            Self::Apart(apart) => apart.read(buffer),
        }
    }

    /// Reads into `buffer` from `offset` on.
    ///
    /// # Errors
    /// As [`Apart::call`].
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(file) => file.read_at(buffer, offset),
            Self::Apart(apart) => apart.read_at(offset, buffer, READ_BYTES_MAX, |_| {}),
        }
    }
}

/// What a call will return.
pub(crate) struct Answer<T> {
    answers: mpsc::Receiver<io::Result<T>>,
    ended: Arc<AtomicU64>,
    limit: Duration,
}

impl<T> Answer<T> {
    /// Waits for it. The limit is that of one call: it begins anew when one ends that was begun before.
    ///
    /// It is waited for in steps, of which a process that was stopped meanwhile, as by Ctrl-Z, misses
    /// one: the time it did not run is not the device's.
    ///
    /// # Errors
    /// The call's own; `TimedOut` if it has not returned within the limit.
    pub(crate) fn wait(&self) -> io::Result<T> {
        const STEPS: u32 = 20;
        let (mut ended, mut steps) = (self.ended.load(Ordering::Relaxed), 0);
        while steps < STEPS {
            match self.answers.recv_timeout(self.limit / STEPS) {
                Ok(returned) => return returned,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(panicked()),
                Err(mpsc::RecvTimeoutError::Timeout) => steps += 1,
            }
            let before = std::mem::replace(&mut ended, self.ended.load(Ordering::Relaxed));
            if ended != before {
                steps = 0;
            }
        }
        Err(no_answer(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use store::{Clock, Local, TableFiles};

    use super::*;

    #[test]
    fn after_a_read_that_was_given_up_nothing_is_read_from_further_on() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let reader = File::from(std::os::fd::OwnedFd::from(reader));
        let local = Local::new(Duration::from_millis(50));
        let costs = Costs::with(local, TableFiles::default(), Clock::real());
        let mut bounded = bounded(reader, &costs).expect("a thread");
        let mut buffer = [0; 4];
        let mut read = || bounded.read(&mut buffer).map_err(|error| error.kind());
        assert_eq!(read(), Err(io::ErrorKind::TimedOut));
        writer.write_all(b"onlyhere").expect("there is room");
        assert_eq!(read(), Err(io::ErrorKind::TimedOut));
    }

    #[test]
    fn a_call_that_panics_is_not_taken_for_a_mount_that_does_not_answer() {
        let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
        let file = tempfile::tempfile().expect("a file");
        let apart = Apart::new("panics", &file, &costs).expect("a thread");
        let error = apart.call(|_| -> io::Result<()> { panic!("as the test wants") }).unwrap_err();
        assert_eq!(error.to_string(), "the thread that read it panicked");
        let after = apart.call(|_| Ok(())).unwrap_err();
        assert_eq!(after.kind(), io::ErrorKind::Other);
    }

    #[test]
    fn the_limit_of_a_call_does_not_count_the_calls_before_it() {
        let limit = Duration::from_secs(3);
        let costs = Costs::with(Local::new(limit), TableFiles::default(), Clock::real());
        let file = tempfile::tempfile().expect("a file");
        let apart = Apart::new("slow", &file, &costs).expect("a thread");
        let (_silent, silence) = std::sync::mpsc::channel::<()>();
        let silence = Arc::new(Mutex::new(silence));
        let slow = |_| {
            let silence = Arc::clone(&silence);
            let pause = limit * 2 / 5;
            let call = apart.begin(move |_| {
                lock(&silence).recv_timeout(pause).expect_err("nobody says anything");
                Ok(())
            });
            call.expect("it is begun")
        };
        let calls: Vec<_> = (0..4).map(slow).collect();
        calls[3].wait().expect("each of them is in time");
    }
}
