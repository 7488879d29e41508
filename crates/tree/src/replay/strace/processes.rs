//! Which thread is of which process, and what names are relative to there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::line::{self, Argument, Line, Said, is_fork};
use crate::{Event, File, Process, User};

/// Who made whom, in the order of the calls' ends; a child may be seen before its maker's call ends.
#[derive(Debug, Default)]
pub(super) struct Forks(HashMap<u64, VecDeque<Fork>>);

#[derive(Debug, Clone, Copy)]
struct Fork {
    parent: u64,
    thread: bool,
}

impl Forks {
    /// `None` if there is no telling whose a line is.
    pub(super) fn of<'a>(lines: impl Iterator<Item = Option<Line<'a>>>) -> Option<Self> {
        let mut forks = Self::default();
        let mut begun: HashMap<u64, &[u8]> = HashMap::new();
        for line in lines {
            let line = line?;
            match line.said {
                Said::Begun(text) if is_fork(text) => {
                    begun.insert(line.thread, text);
                }
                Said::Resumed { rest, .. } => {
                    if let Some(begun) = begun.remove(&line.thread) {
                        forks.call(line.thread, &[begun, rest].concat());
                    }
                }
                Said::Call(text) if is_fork(text) => forks.call(line.thread, text),
                _ => {}
            }
        }
        Some(forks)
    }

    fn call(&mut self, parent: u64, text: &[u8]) {
        if let Some(result) = line::call(text).and_then(|call| call.result)
            && result.number > 0
        {
            let mark = b"CLONE_THREAD";
            let thread = text.windows(mark.len()).any(|part| part == mark);
            self.0.entry(result.number).or_default().push_back(Fork { parent, thread });
        }
    }
}

#[derive(Debug, Clone, Default)]
struct State {
    folder: Vec<u8>,
    descriptors: HashMap<u64, Vec<u8>>,
    threads: usize,
}

/// All processes that live.
#[derive(Debug)]
pub(super) struct Processes {
    forks: Forks,
    user: User,
    folder: Vec<u8>,
    threads: HashMap<u64, Process>,
    states: HashMap<Process, State>,
    begun: HashMap<u64, Vec<u8>>,
    made: u64,
}

impl Processes {
    pub(super) fn new(forks: Forks, user: User, folder: &[u8]) -> Self {
        Self {
            forks,
            user,
            folder: folder.to_vec(),
            threads: HashMap::new(),
            states: HashMap::new(),
            begun: HashMap::new(),
            made: 0,
        }
    }

    pub(super) fn knows(&self, thread: u64) -> bool {
        self.threads.contains_key(&thread)
    }

    /// A line of a thread comes; what has to be said before it.
    pub(super) fn meet(&mut self, thread: u64) -> Option<Event> {
        if self.knows(thread) {
            return None;
        }
        let fork = self.forks.0.get_mut(&thread).and_then(VecDeque::pop_front);
        let parent = fork.and_then(|fork| self.threads.get(&fork.parent).copied());
        match (fork, parent) {
            (Some(Fork { thread: true, .. }), Some(process)) => {
                self.threads.insert(thread, process);
                self.state(process).threads += 1;
                None
            }
            (_, Some(parent)) => {
                let state = State { threads: 1, ..self.state(parent).clone() };
                let child = self.enter(thread, state);
                Some(Event::Forked { parent, child })
            }
            (_, None) => {
                let state = State { folder: self.folder.clone(), threads: 1, ..State::default() };
                let process = self.enter(thread, state);
                Some(Event::Found { process, user: self.user })
            }
        }
    }

    fn enter(&mut self, thread: u64, state: State) -> Process {
        self.made += 1;
        let process = Process(self.made);
        self.threads.insert(thread, process);
        self.states.insert(process, state);
        process
    }

    /// A call that made the thread `child` ended; what has to be said, if it was not seen before.
    pub(super) fn forked(&mut self, child: u64) -> Option<Event> {
        // Without a fork left the child was met, and may be gone already.
        let left = self.forks.0.get(&child).is_some_and(|forks| !forks.is_empty());
        left.then(|| self.meet(child)).flatten()
    }

    pub(super) fn thread_ended(&mut self, thread: u64) -> Option<Event> {
        let process = self.threads.remove(&thread)?;
        self.begun.remove(&thread);
        let state = self.states.get_mut(&process)?;
        state.threads -= 1;
        (state.threads == 0).then(|| {
            self.states.remove(&process);
            Event::Exited { process }
        })
    }

    /// A thread ended its process. Its threads' own ends may be told later, or not at all (`-qq`).
    pub(super) fn process_ended(&mut self, thread: u64) -> Event {
        let process = self.process(thread);
        self.states.remove(&process);
        self.threads.retain(|_, of| *of != process);
        Event::Exited { process }
    }

    /// The first thread of a process goes on as the one that called execve.
    pub(super) fn superseded(&mut self, first: u64, caller: u64) {
        if let Some(begun) = self.begun.remove(&caller) {
            self.begun.insert(first, begun);
        }
        self.thread_ended(caller);
    }

    pub(super) fn begin(&mut self, thread: u64, text: &[u8]) {
        self.begun.insert(thread, text.to_vec());
    }

    pub(super) fn begun(&mut self, thread: u64) -> Vec<u8> {
        self.begun.remove(&thread).unwrap_or_default()
    }

    pub(super) fn process(&self, thread: u64) -> Process {
        *self.threads.get(&thread).expect("a thread is met before its line is read")
    }

    pub(super) fn executed(
        &mut self,
        thread: u64,
        program: File,
        arguments: Vec<Arc<[u8]>>,
    ) -> Event {
        let process = self.process(thread);
        let state = self.state(process);
        state.threads = 1;
        let folder = state.folder.as_slice().into();
        self.threads.retain(|&other, of| *of != process || other == thread);
        Event::Executed { process, program, arguments, folder }
    }

    pub(super) fn change_folder(&mut self, thread: u64, path: Vec<u8>) {
        let process = self.process(thread);
        self.state(process).folder = path;
    }

    pub(super) fn describe(&mut self, thread: u64, descriptor: u64, path: Vec<u8>) {
        let process = self.process(thread);
        self.state(process).descriptors.insert(descriptor, path);
    }

    /// The name of what a descriptor is open on.
    pub(super) fn descriptor(&mut self, thread: u64, at: &Argument<'_>) -> Option<Vec<u8>> {
        let (number, path) = at.descriptor();
        let process = self.process(thread);
        let state = self.state(process);
        match (number, path) {
            (None, Some(path)) => {
                state.folder.clone_from(&path);
                Some(path)
            }
            (None, None) => Some(state.folder.clone()),
            (Some(_), Some(path)) => Some(path),
            (Some(number), None) => state.descriptors.get(&number).cloned(),
        }
    }

    /// The absolute form of a name, relative to a descriptor or the working folder.
    pub(super) fn resolve(
        &mut self,
        thread: u64,
        at: Option<&Argument<'_>>,
        path: &Argument<'_>,
    ) -> Option<Vec<u8>> {
        let path = path.string()?;
        if path.first() == Some(&b'/') {
            return Some(joined(&path));
        }
        let process = self.process(thread);
        let mut folder = match at {
            Some(at) => self.descriptor(thread, at)?,
            None => self.state(process).folder.clone(),
        };
        // With AT_EMPTY_PATH the descriptor itself is meant.
        if !path.is_empty() {
            folder.push(b'/');
            folder.extend_from_slice(&path);
        }
        Some(joined(&folder))
    }

    fn state(&mut self, process: Process) -> &mut State {
        self.states.get_mut(&process).expect("a process that has threads has a state")
    }
}

/// Without `.`, `..` and doubled slashes; links are not known here.
fn joined(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().fold(Vec::new(), |mut path, part| {
        path.push(b'/');
        path.extend_from_slice(part);
        path
    })
}
