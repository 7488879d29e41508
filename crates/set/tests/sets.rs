//! Sets of files of this machine: what is promised of every set.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use fetch::engine::{Engine, EngineOptions};
use fetch::scheduler::Limits;
use futures::channel::mpsc::UnboundedSender;
use futures::{FutureExt as _, StreamExt as _, stream};
use nearfirst_set::{Duplicates, MemberError, Order, Rank, Set, SetOptions, Spec, Turn};
use store::{Costs, Entry, Name, Stores, StoresOptions};
use tempfile::TempDir;
use testkit::{Facility, SlowDir, skip_unless};

/// Longer than any machine needs; what takes so long has failed.
const PATIENCE: Duration = Duration::from_mins(1);

fn engine() -> Engine {
    let costs = Arc::new(Costs::load());
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
    Engine::new(stores, costs, EngineOptions::default()).expect("threads can be had")
}

/// A folder with a file of each name that holds its own name.
fn folder(names: &[&str]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for name in names {
        fs::write(folder.path().join(name), name).expect("there is room");
    }
    folder
}

fn set(engine: &Engine, folder: &TempDir, pattern: &str, options: SetOptions) -> Set {
    Set::open(engine, [glob(folder.path(), pattern)], options)
}

fn glob(folder: &Path, pattern: &str) -> Spec {
    let mut text = folder.as_os_str().as_bytes().to_vec();
    text.extend_from_slice(b"/");
    text.extend_from_slice(pattern.as_bytes());
    Spec::glob(text)
}

/// The contents of what is left of a set, sorted.
fn contents(set: &Set) -> Vec<String> {
    let mut found: Vec<String> =
        set.iter().map(|member| text(member.expect("it can be read").read())).collect();
    found.sort();
    found
}

fn text(bytes: Result<bytes::Bytes, nearfirst_set::MemberError>) -> String {
    String::from_utf8(bytes.expect("it can be read").to_vec()).expect("it is its name")
}

#[test]
fn every_member_comes_once_with_its_bytes() {
    let names: Vec<String> = (0..300).map(|number| format!("file{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let folder = folder(&names);
    let engine = engine();
    let both = [glob(folder.path(), "*"), glob(folder.path(), "file1*")];
    let set = Set::open(&engine, both, SetOptions::default());
    let mut expected: Vec<String> = names.iter().map(ToString::to_string).collect();
    expected.sort();
    assert_eq!(contents(&set), expected);
    assert!(set.next().is_none(), "the end stays the end");
    assert_eq!(set.size(), 300);
}

#[test]
fn few_names_may_be_known_ahead_of_many() {
    let folder = TempDir::new().expect("a folder");
    for number in 0..300 {
        fs::write(folder.path().join(number.to_string()), "x").expect("there is room");
    }
    let costs = Arc::new(Costs::load());
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
    let limits = Limits { lookahead: 8, ..Limits::default() };
    let engine = Engine::new(stores, costs, EngineOptions { limits, spill_folder: None });
    let engine = engine.expect("threads can be had");
    let set = set(&engine, &folder, "*", SetOptions::default());
    assert_eq!(contents(&set).len(), 300);
}

#[test]
fn limits_by_which_nothing_could_be_fetched_are_refused() {
    let costs = Arc::new(Costs::load());
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
    let cases = [
        (Limits { part_bytes: 0, ..Limits::default() }, "part_bytes is 0"),
        (Limits { stall: Duration::ZERO, ..Limits::default() }, "stall is 0"),
    ];
    for (limits, why) in cases {
        let options = EngineOptions { limits, spill_folder: None };
        let error = Engine::new(Arc::clone(&stores), Arc::clone(&costs), options).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with(why), "{error}");
    }
}

#[test]
fn a_file_that_is_replaced_before_its_turn_is_never_delivered_half() {
    // More than are kept open ahead of their readers.
    let names: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    let folder = folder(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let set = set(&engine(), &folder, "*", SetOptions::default());
    let mut members: Vec<_> = set.iter().take(400).collect();
    for name in &names {
        let new = folder.path().join("new");
        fs::write(&new, format!("new {name}")).expect("there is room");
        fs::rename(new, folder.path().join(name)).expect("replaced");
    }
    members.extend(set.iter());
    assert_eq!(members.len(), names.len());
    for member in members.into_iter().flatten() {
        let name = String::from_utf8_lossy(member.name().file_name()).into_owned();
        match member.read() {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(text == name || text == format!("new {name}"), "{text}");
            }
            Err(error) => assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}"),
        }
    }
}

#[test]
#[should_panic(expected = "listing or ranking the names of a set panicked: while listing")]
fn a_listing_that_panics_is_not_waited_for() {
    let source = Arc::new(|| {
        let panicking = futures::stream::poll_fn(|_| panic!("while listing"));
        panicking.boxed()
    });
    let set = Set::from_source(&engine(), source, SetOptions::default());
    set.next();
}

#[test]
#[should_panic(expected = "listing or ranking the names of a set panicked: while ranking a")]
fn a_rank_that_panics_is_told_by_its_text() {
    let (engine, folder) = (engine(), folder(&["a"]));
    let rank: Rank =
        Arc::new(|entry| panic!("while ranking {}", entry.name.file_name().escape_ascii()));
    let options = SetOptions { order: Order::Rank, rank: Some(rank), ..SetOptions::default() };
    drop(contents(&set(&engine, &folder, "*", options)));
}

#[test]
fn a_predicate_may_ask_another_set() {
    let (engine, folder) = (engine(), folder(&["a", "b", "c", "x1", "x2"]));
    let all = set(&engine, &folder, "*", SetOptions::default());
    let some = Arc::new(set(&engine, &folder, "x*", SetOptions::default()));
    let inner = Arc::clone(&some);
    let others = Arc::new(all.subset(move |entry| !inner.contains(&entry.name)));
    assert_eq!(others.size(), 3);
    let inner = Arc::clone(&others);
    let of_others = move |entry: &Entry| inner.rewind().contains(&entry.name);
    assert_eq!(contents(&all.subset(of_others.clone())), ["a", "b", "c"]);
    // As many sets as there are threads do not keep what they ask from being listed.
    let sets: Vec<Set> = (0..32).map(|_| all.subset(of_others.clone())).collect();
    std::thread::scope(|scope| {
        for set in &sets {
            scope.spawn(|| assert_eq!(contents(set), ["a", "b", "c"]));
        }
    });
}

#[test]
#[should_panic(expected = "the predicate of a set asks the set itself")]
fn a_predicate_that_asks_its_own_set_is_told_so() {
    let (engine, folder) = (engine(), folder(&["a"]));
    let own: Arc<OnceLock<Set>> = Arc::default();
    let asked = Arc::clone(&own);
    let asks = move |entry: &Entry| asked.get().is_some_and(|set| set.contains(&entry.name));
    let all = set(&engine, &folder, "*", SetOptions::default());
    own.get_or_init(|| all.subset(asks)).size();
}

#[test]
fn a_task_may_wait_for_many_names() {
    let source = Arc::new(|| {
        let names = (0..20_000).map(|name: u32| Ok(Entry::named(name.to_string().as_str().into())));
        stream::iter(names).boxed()
    });
    let set = Set::from_source(&engine(), source, SetOptions::default());
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("it needs no thread");
    assert_eq!(runtime.block_on(async { set.size() }), 20_000);
}

#[test]
fn tasks_of_the_engines_own_runtime_may_wait_for_members() {
    // More than it has threads.
    const TASKS: usize = 8;
    let (engine, folder) = (engine(), folder(&["a"]));
    let (came, members) = mpsc::channel();
    for _ in 0..TASKS {
        let (set, came) = (set(&engine, &folder, "*", SetOptions::default()), came.clone());
        engine.handle().spawn(async move { came.send(contents(&set)) });
    }
    for _ in 0..TASKS {
        assert_eq!(members.recv_timeout(PATIENCE), Ok(vec!["a".to_owned()]));
    }
}

#[test]
fn tasks_of_a_runtime_of_the_callers_may_wait_for_members() {
    let (engine, folder) = (engine(), folder(&["a"]));
    let set = || set(&engine, &folder, "*", SetOptions::default());
    let (of_one, entered, of_the_engines) = (set(), set(), set());
    let handle = engine.handle().clone();
    // Threads of the engine's for what blocks are no workers of its runtime.
    let found = engine.handle().spawn_blocking(move || {
        let one_thread = tokio::runtime::Builder::new_current_thread().build().expect("as it is");
        let of_one = one_thread.block_on(async { contents(&of_one) });
        let entered = one_thread.block_on(async {
            let _entered = handle.enter();
            contents(&entered)
        });
        let tasks = tokio::task::LocalSet::new();
        let of_the_engines = tasks.spawn_local(async move { contents(&of_the_engines) });
        handle.block_on(tasks);
        let of_the_engines = of_the_engines.now_or_never().expect("it ended");
        [of_one, entered, of_the_engines.expect("it does not panic")]
    });
    let found = engine.handle().block_on(found).expect("it does not panic");
    assert_eq!(found, [["a"], ["a"], ["a"]]);
}

#[test]
fn sets_of_sets_have_no_depth_that_ends_the_process() {
    const DEPTH: usize = 3000;
    const DEPTH_UNASKED: usize = 50_000;
    let (engine, folder) = (engine(), folder(&["a", "b"]));
    let one = || set(&engine, &folder, "*", SetOptions::default());
    let all = one();
    let deep =
        |depth, step: fn(&Set, &Set) -> Set| (0..depth).fold(one(), |made, _| step(&made, &all));
    let made = |step| deep(DEPTH, step);
    assert_eq!(made(Set::union).size(), 2);
    assert_eq!(made(Set::intersection).size(), 2);
    assert_eq!(made(|set, _| set.subset(|_| true)).iter().count(), 2);
    assert_eq!(made(|set, all| all.difference(set)).size(), 2);
    drop(deep(DEPTH_UNASKED, Set::union));
    drop(made(Set::union).rewind());
}

#[test]
fn a_set_may_be_joined_with_itself_over_and_over() {
    let folder = folder(&["a", "b"]);
    let engine = engine();
    let joins: [fn(&Set) -> Set; 5] = [
        |set| set.union(set),
        |set| set.intersection(set),
        |set| set.union(&set.subset(|_| true)),
        |set| set.intersection(&set.subset(|_| true)),
        |set| set.difference(&set.difference(set)),
    ];
    for join in joins {
        let all = set(&engine, &folder, "*", SetOptions::default());
        let joined = (0..100).fold(all, |made, _| join(&made));
        let rewound = joined.rewind();
        assert_eq!(contents(&joined), ["a", "b"]);
        assert_eq!(rewound.size(), 2);
    }
}

#[test]
fn several_threads_share_a_set() {
    let names: Vec<String> = (0..500).map(|number| format!("{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let folder = folder(&names);
    let engine = engine();
    let set = set(&engine, &folder, "*", SetOptions::default());
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for member in &set {
                    found.lock().unwrap().push(text(member.expect("readable").read()));
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert_eq!(found.len(), 500);
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 500);
}

#[test]
fn who_stops_taking_leaves_nobody_waiting_for_what_is_ready() {
    const THREADS: usize = 8;
    let names: Vec<String> = (0..300).map(|number| format!("{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let folder = folder(&names);
    let engine = engine();
    for round in 0..150 {
        let set = Arc::new(set(&engine, &folder, "*", SetOptions::default()));
        let quota = Arc::new(AtomicUsize::new(20 + round % 270));
        let (ended, ends) = mpsc::channel();
        for as_tasks in [true, false].into_iter().cycle().take(THREADS) {
            let (set, quota, ended) = (Arc::clone(&set), Arc::clone(&quota), ended.clone());
            std::thread::spawn(move || {
                let one_less = |left: usize| left.checked_sub(1);
                let take = || quota.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
                while take().is_ok() {
                    let member = if as_tasks {
                        futures::executor::block_on(set.stream().next())
                    } else {
                        set.next()
                    };
                    drop(member.expect("there are enough").expect("readable"));
                }
                ended.send(()).expect("somebody waits");
            });
        }
        for left in (0..THREADS).rev() {
            let end = ends.recv_timeout(PATIENCE);
            assert!(end.is_ok(), "round {round}: {} wait for ever", left + 1);
        }
    }
}

/// Whether every thread of ours leaves a program's signals to it, and takes its own faults.
fn leave_signals() -> bool {
    let threads = fs::read_dir("/proc/self/task").expect("there").flatten();
    let statuses = threads.flat_map(|thread| fs::read_to_string(thread.path().join("status")));
    let mut ours = statuses.filter(|status| status.starts_with("Name:\tnearfirst")).peekable();
    ours.peek().is_some()
        && ours.all(|status| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            let mask = u64::from_str_radix(mask.expect("told").trim(), 16).expect("a mask");
            let is_kept = |signal: libc::c_int| mask >> (signal - 1) & 1 == 1;
            [libc::SIGUSR1, libc::SIGPIPE, libc::SIGTERM].into_iter().all(is_kept)
                && !is_kept(libc::SIGSEGV)
        })
}

#[test]
fn a_programs_signals_are_its_own() {
    let (engine, folder) = (engine(), folder(&["a"]));
    assert_eq!(contents(&set(&engine, &folder, "*", SetOptions::default())), ["a"]);
    // One that begins, of another test, has not got to it yet.
    assert!((0..10_000).any(|_| leave_signals()));
}

#[test]
fn a_stream_gives_the_same() {
    let folder = folder(&["a", "b", "c"]);
    let engine = engine();
    let set = set(&engine, &folder, "*", SetOptions::default());
    let members = futures::executor::block_on(set.stream().collect::<Vec<_>>());
    let found: BTreeSet<String> =
        members.into_iter().map(|member| text(member.expect("readable").read())).collect();
    assert_eq!(found, ["a", "b", "c"].map(str::to_owned).into());
}

#[test]
fn each_stream_that_waits_asks_for_a_member_of_its_own() {
    let engine = engine();
    let nothing_yet = Arc::new(|| futures::stream::pending().boxed());
    let set = Set::from_source(&engine, nothing_yet, SetOptions::default());
    let mut waits = std::task::Context::from_waker(std::task::Waker::noop());
    let mut wait = |stream: &mut (dyn futures::Stream<Item = _> + Unpin)| {
        assert!(std::pin::Pin::new(stream).poll_next(&mut waits).is_pending());
        engine.snapshot().sets[0].asked
    };
    let (mut first, mut second, mut third) = (set.stream(), set.stream(), set.stream());
    assert_eq!(wait(&mut first), 1);
    assert_eq!(wait(&mut first), 1, "polled again, it is still the same consumer");
    assert_eq!(wait(&mut second), 2);
    drop(first);
    assert_eq!(wait(&mut third), 2, "what the first asked for is the third's");
}

/// A task that says by its number that it was woken.
struct Told(usize, Mutex<mpsc::Sender<usize>>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("nobody panics with it").send(self.0).expect("the test listens");
    }
}

/// The wakers of tasks of these numbers, and which of them was woken.
fn wakers<const N: usize>(tasks: [usize; N]) -> ([Waker; N], mpsc::Receiver<usize>) {
    let (woken, who) = mpsc::channel();
    let waker = |task| Waker::from(Arc::new(Told(task, Mutex::new(woken.clone()))));
    (tasks.map(waker), who)
}

/// A set of the names that are sent.
fn sent(duplicates: Duplicates) -> (UnboundedSender<Result<Entry, store::Error>>, Set) {
    let (tell, names) = futures::channel::mpsc::unbounded();
    let names = Mutex::new(Some(names));
    let source = Arc::new(move || names.lock().expect("sound").take().expect("asked once").boxed());
    let options = SetOptions { duplicates, ..SetOptions::default() };
    (tell, Set::from_source(&engine(), source, options))
}

#[test]
fn who_waits_first_is_woken_first_and_passes_on_what_it_leaves() {
    let folder = folder(&["a", "b"]);
    let (tell, set) = sent(Duplicates::ByName);
    let (wakers, who) = wakers([0, 1, 2]);
    let mut turns = [Turn::default(), Turn::default(), Turn::default()];
    let poll =
        |turn: &mut Turn, task: usize| set.poll_next(&Context::from_waker(&wakers[task]), turn);
    for (task, turn) in turns.iter_mut().enumerate() {
        assert!(poll(turn, task).is_pending());
    }
    let list = |name| tell.unbounded_send(Ok(Entry::named(named(&folder, name)))).unwrap();
    let next = || who.recv_timeout(PATIENCE).expect("somebody is woken");
    list("a");
    assert_eq!(next(), 0);
    set.leave(&mut turns[0]);
    assert_eq!(next(), 1, "what the first was woken for is the second's");
    assert!(poll(&mut turns[1], 1).is_ready());
    assert!(poll(&mut turns[1], 1).is_pending());
    list("b");
    assert_eq!(next(), 2, "who has had one waits at the end of the line");
    assert!(poll(&mut turns[2], 2).is_ready());
}

#[test]
fn who_was_woken_for_a_duplicate_keeps_its_place() {
    let folder = folder(&["a", "b", "c"]);
    std::fs::write(folder.path().join("b"), "a").unwrap();
    let (tell, set) = sent(Duplicates::ByContent);
    let (wakers, who) = wakers([0, 1]);
    let mut turns = [Turn::default(), Turn::default()];
    let list = |name| tell.unbounded_send(Ok(Entry::named(named(&folder, name)))).unwrap();
    let next = || who.recv_timeout(PATIENCE).expect("somebody is woken");
    let poll = |turn: &mut Turn, task: usize| loop {
        let polled = set.poll_next(&Context::from_waker(&wakers[task]), turn);
        if polled.is_ready() || !compares(turn) {
            return polled;
        }
        assert_eq!(next(), task, "what it has is compared");
    };
    assert!(poll(&mut turns[0], 0).is_pending() && poll(&mut turns[1], 1).is_pending());
    list("a");
    assert_eq!(next(), 0);
    assert!(poll(&mut turns[0], 0).is_ready());
    assert!(poll(&mut turns[0], 0).is_pending());
    list("b");
    assert_eq!(next(), 1);
    assert!(poll(&mut turns[1], 1).is_pending(), "it is the same as a");
    list("c");
    assert_eq!(next(), 1);
    assert!(poll(&mut turns[1], 1).is_ready());
}

/// Whether what has come for a task is being compared.
fn compares(turn: &Turn) -> bool {
    !format!("{turn:?}").contains("comparing: None")
}

#[test]
fn what_is_compared_for_a_task_that_leaves_is_anothers() {
    let folder = folder(&["a", "b"]);
    // To compare them takes longer than to poll.
    for (name, bytes) in [("a", 64 << 20), ("b", 65 << 20)] {
        let file = fs::File::create(folder.path().join(name)).expect("there is room");
        file.set_len(bytes).expect("there is room");
    }
    let (tell, set) = sent(Duplicates::ByContent);
    let (wakers, who) = wakers([0, 1]);
    let mut turns = [Turn::default(), Turn::default()];
    let poll =
        |turn: &mut Turn, task: usize| set.poll_next(&Context::from_waker(&wakers[task]), turn);
    let list = |name| tell.unbounded_send(Ok(Entry::named(named(&folder, name)))).unwrap();
    let is_woken = |task| while who.recv_timeout(PATIENCE).expect("somebody is woken") != task {};
    assert!(poll(&mut turns[0], 0).is_pending() && poll(&mut turns[1], 1).is_pending());
    list("a");
    is_woken(0);
    assert!(poll(&mut turns[0], 0).is_pending() && compares(&turns[0]));
    set.leave(&mut turns[0]);
    is_woken(1);
    let taken = loop {
        match poll(&mut turns[1], 1) {
            Poll::Ready(taken) => break taken,
            Poll::Pending => is_woken(1),
        }
    };
    assert_eq!(taken.expect("one").expect("it can be read").name(), &named(&folder, "a"));
    assert!(poll(&mut turns[1], 1).is_pending());
    list("b");
    is_woken(1);
    assert!(poll(&mut turns[1], 1).is_pending() && compares(&turns[1]));
    set.leave(&mut turns[1]);
    let taken = set.next().expect("one").expect("it can be read");
    assert_eq!(taken.name(), &named(&folder, "b"));
    assert_eq!(set.order_taken(), [named(&folder, "a"), named(&folder, "b")]);
}

#[test]
fn a_set_has_not_ended_while_its_last_member_is_compared_for_a_task_that_may_leave() {
    let folder = folder(&["a"]);
    // To compare it takes longer than to poll.
    let file = fs::File::create(folder.path().join("a")).expect("there is room");
    file.set_len(64 << 20).expect("there is room");
    let (tell, set) = sent(Duplicates::ByContent);
    let (wakers, who) = wakers([0, 1]);
    let mut turns = [Turn::default(), Turn::default()];
    let poll =
        |turn: &mut Turn, task: usize| set.poll_next(&Context::from_waker(&wakers[task]), turn);
    let is_woken = |task| while who.recv_timeout(PATIENCE).expect("somebody is woken") != task {};
    assert!(poll(&mut turns[0], 0).is_pending() && poll(&mut turns[1], 1).is_pending());
    tell.unbounded_send(Ok(Entry::named(named(&folder, "a")))).unwrap();
    is_woken(0);
    assert!(poll(&mut turns[0], 0).is_pending() && compares(&turns[0]));
    drop(tell);
    is_woken(1);
    assert!(poll(&mut turns[1], 1).is_pending(), "it has not ended");
    set.leave(&mut turns[0]);
    let taken = loop {
        is_woken(1);
        if let Poll::Ready(taken) = poll(&mut turns[1], 1) {
            break taken;
        }
    };
    assert_eq!(taken.expect("one").expect("it can be read").name(), &named(&folder, "a"));
    assert!(matches!(poll(&mut turns[1], 1), Poll::Ready(None)));
}

fn named(folder: &TempDir, name: &str) -> Name {
    Name::from(folder.path().join(name).as_path())
}

#[test]
fn to_let_go_of_members_of_a_dead_mount_does_not_wait_for_it() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    for name in ["a", "b", "c", "d"] {
        slow.create(name, name);
    }
    let engine = engine();
    let set = Set::open(&engine, [glob(slow.path(), "*")], SetOptions::default());
    let mut members: Vec<_> = set.iter().take(3).map(|member| member.expect("near")).collect();
    let mut begun = members.pop().expect("three were taken");
    begun.read_into(&mut [0; 8]).expect("it answers");
    let (done, is_done) = mpsc::channel();
    slow.mount().set_rules(vec!["*: hang=true".parse().expect("a rule")]);
    // In a thread, so that one that waits does not keep the mount from answering again.
    let dropping = std::thread::spawn(move || {
        drop((begun, members, set));
        done.send(())
    });
    is_done.recv_timeout(PATIENCE).expect("nothing is waited for");
    slow.mount().set_rules(Vec::new());
    dropping.join().expect("it ends").expect("it is heard");
}

#[test]
fn sets_make_new_sets() {
    let folder = folder(&["a1", "a2", "b1", "b2"]);
    let engine = engine();
    let open = |pattern| set(&engine, &folder, pattern, SetOptions::default());
    let (a, ones) = (open("a*"), open("*1"));
    assert_eq!(contents(&a.union(&ones)), ["a1", "a2", "b1"]);
    assert_eq!(contents(&a.intersection(&ones)), ["a1"]);
    assert_eq!(contents(&a.difference(&ones)), ["a2"]);
    assert_eq!(contents(&a.difference(&open("missing*"))), ["a1", "a2"], "none is taken away");
    let small = open("*").subset(|entry| entry.name.file_name() == b"b2");
    assert_eq!(contents(&small), ["b2"]);
    assert_eq!(contents(&a), ["a1", "a2"], "what it was made of is unchanged");
}

#[test]
fn files_are_chosen_and_ranked_by_what_the_system_knows_of_them() {
    let folder = folder(&["a", "ccc", "bb"]);
    let engine = engine();
    let size = {
        let costs = Arc::clone(engine.costs());
        move |entry: &Entry| costs.known(entry).size.expect("it is there")
    };
    let rank: Rank = Arc::new({
        let size = size.clone();
        #[expect(clippy::cast_precision_loss, reason = "they are small")]
        move |entry| size(entry) as f64
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let rank: Rank = Arc::new({
        let asked = Arc::clone(&asked);
        move |entry| {
            asked.fetch_add(1, Ordering::Relaxed);
            rank(entry)
        }
    });
    let options = SetOptions { order: Order::Rank, rank: Some(rank), ..SetOptions::default() };
    let all = set(&engine, &folder, "*", options);
    let large = all.subset(move |entry| size(entry) > 1);
    let read = |set: &Set| -> Vec<String> {
        set.iter().map(|member| text(member.expect("it can be read").read())).collect()
    };
    assert_eq!(read(&all), ["ccc", "bb", "a"]);
    assert_eq!(asked.load(Ordering::Relaxed), 3, "each once, whatever that costs");
    assert_eq!(read(&large), ["ccc", "bb"]);
}

#[test]
fn a_set_can_be_asked_without_being_read() {
    let folder = folder(&["x", "y"]);
    let engine = engine();
    let set = set(&engine, &folder, "*", SetOptions::default());
    let name = Name::from(folder.path().join("x").as_path());
    assert!(set.contains(&name));
    assert!(!set.contains(&Name::from("x")));
    assert_eq!(set.size(), 2);
    let names: BTreeSet<Vec<u8>> =
        set.digest().map(|entry| entry.expect("listed").name.file_name().to_vec()).collect();
    assert_eq!(names, [b"x".to_vec(), b"y".to_vec()].into());
    assert_eq!(engine.snapshot().budget.used, 0, "asking fetches nothing");
}

#[test]
fn a_digest_by_name_has_what_could_not_be_listed_in_its_place() {
    let entries = || {
        let missing = store::Error::NotFound { name: Name::from("b") };
        let named = |name: &str| Ok(Entry::named(Name::from(name)));
        stream::iter([named("c"), Err(missing), named("a"), named("c")]).boxed()
    };
    let set = Set::from_source(&engine(), Arc::new(entries), SetOptions::default());
    let name = |item: Result<Entry, Arc<store::Error>>| match item {
        Ok(entry) => entry.name.to_string(),
        Err(error) => format!("no {}", error.name()),
    };
    assert_eq!(set.digest_by_name().map(name).collect::<Vec<_>>(), ["a", "no b", "c"]);
}

#[test]
fn once_a_member_always_a_member_and_rewinding_looks_again() {
    let folder = folder(&["a"]);
    let engine = engine();
    let set = set(&engine, &folder, "*", SetOptions::default());
    assert_eq!(set.size(), 1);
    fs::write(folder.path().join("b"), "b").expect("there is room");
    assert_eq!(contents(&set), ["a"]);
    assert_eq!(contents(&set.rewind()), ["a", "b"]);
}

#[test]
fn rewinding_looks_again_at_what_a_set_is_made_of() {
    let folder = folder(&["a1", "b1"]);
    let engine = engine();
    let open = |pattern| set(&engine, &folder, pattern, SetOptions::default());
    let (a, ones) = (open("a*"), open("*1"));
    let made = [
        a.union(&ones),
        a.intersection(&ones),
        ones.difference(&a),
        ones.subset(|entry| entry.name.file_name() != b"b1"),
        ones.subset(|_| true).intersection(&a.union(&ones)),
    ];
    let sizes = || made.each_ref().map(Set::size);
    assert_eq!(sizes(), [2, 1, 1, 1, 2]);
    for name in ["a2", "a3-1", "c1"] {
        fs::write(folder.path().join(name), name).expect("there is room");
    }
    let anew = made.each_ref().map(|set| contents(&set.rewind()));
    assert_eq!(anew[0], ["a1", "a2", "a3-1", "b1", "c1"]);
    assert_eq!(anew[1], ["a1", "a3-1"]);
    assert_eq!(anew[2], ["b1", "c1"]);
    assert_eq!(anew[3], ["a1", "a3-1", "c1"]);
    assert_eq!(anew[4], ["a1", "a3-1", "b1", "c1"]);
    assert_eq!(sizes(), [2, 1, 1, 1, 2], "what was opened before is as it was");
}

#[test]
fn rewinding_looks_once_at_what_a_set_is_made_of_several_times() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let growing = move || {
        let look = counted.fetch_add(1, Ordering::Relaxed);
        stream::iter([Ok(Entry::named(Name::from(&*look.to_string())))]).boxed()
    };
    let own = Set::from_source(&engine(), Arc::new(growing), SetOptions::default());
    let mut diamonds = own.subset(|_| true);
    for _ in 0..20 {
        diamonds = diamonds.intersection(&own).union(&diamonds.difference(&own));
    }
    let rewound = diamonds.rewind();
    assert_eq!((rewound.size(), looks.load(Ordering::Relaxed)), (1, 2));
    assert_eq!(rewound.difference(&rewound).rewind().size(), 0);
}

#[test]
fn what_cannot_be_read_is_delivered_as_an_error_that_names_it() {
    let folder = folder(&["good"]);
    fs::create_dir(folder.path().join("folder")).expect("there is room");
    let engine = engine();
    let missing = Spec::glob(folder.path().join("missing").as_os_str().as_bytes());
    let set = Set::open(&engine, [glob(folder.path(), "*"), missing], SetOptions::default());
    let (good, bad): (Vec<_>, Vec<_>) = set.into_iter().partition(Result::is_ok);
    assert_eq!(good.len(), 1);
    let mut bad: Vec<String> =
        bad.into_iter().map(|error| error.unwrap_err().to_string()).collect();
    bad.sort();
    assert!(bad[0].ends_with("folder: Is a directory"), "{bad:?}");
    assert!(bad[1].contains("missing") && bad[1].ends_with("No such file or directory"), "{bad:?}");
    assert_eq!(bad.len(), 2);
}

#[test]
fn an_order_that_is_asked_for_is_kept_and_one_taken_can_be_replayed() {
    let folder = folder(&["b", "c", "a"]);
    let engine = engine();
    let named = |set: &Set| -> Vec<String> {
        set.iter().map(|member| text(member.expect("readable").read())).collect()
    };
    let by_name =
        set(&engine, &folder, "*", SetOptions { order: Order::Name, ..SetOptions::default() });
    assert_eq!(named(&by_name), ["a", "b", "c"]);
    let rank = SetOptions {
        order: Order::Rank,
        rank: Some(Arc::new(|entry| if entry.name.file_name() == b"b" { 1.0 } else { 0.0 })),
        ..SetOptions::default()
    };
    assert_eq!(named(&set(&engine, &folder, "*", rank)), ["b", "a", "c"]);
    let seconds = |entry: &Entry| f64::from(entry.name.file_name()[0]);
    let newest = SetOptions {
        order: Order::Rank,
        rank: Some(Arc::new(move |entry| 1.7e9 + seconds(entry))),
        ..SetOptions::default()
    };
    assert_eq!(named(&set(&engine, &folder, "*", newest)), ["c", "b", "a"], "seconds since 1970");
    let asked: Arc<OnceLock<Weak<Set>>> = Arc::default();
    let same = Arc::clone(&asked);
    let curious = move |_: &_| {
        let set = same.get().and_then(Weak::upgrade).expect("it is iterated");
        if set.known() == 3 { 1.0 } else { 0.0 }
    };
    let rank =
        SetOptions { order: Order::Rank, rank: Some(Arc::new(curious)), ..SetOptions::default() };
    let looked_at = Arc::new(set(&engine, &folder, "*", rank));
    asked.set(Arc::downgrade(&looked_at)).expect("set once");
    assert_eq!(named(&looked_at), ["a", "b", "c"], "a rank function may look at its set");
    let mut taken = by_name.order_taken();
    taken.reverse();
    let replay = SetOptions { order: Order::Replay(taken), ..SetOptions::default() };
    assert_eq!(named(&set(&engine, &folder, "*", replay)), ["c", "b", "a"]);
}

#[test]
fn a_rank_that_is_no_number_counts_as_0() {
    let names: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let folder = folder(&names);
    let rank = |entry: &Entry| match entry.name.file_name() {
        [.., b'0'] => -1.0,
        [.., b'1' | b'4' | b'7'] => f64::NAN,
        [.., b'2' | b'5' | b'8'] => -0.0,
        _ => 1.0,
    };
    let options =
        SetOptions { order: Order::Rank, rank: Some(Arc::new(rank)), ..SetOptions::default() };
    let taken: Vec<_> = set(&engine(), &folder, "*", options)
        .iter()
        .map(|member| text(member.expect("readable").read()))
        .collect();
    let mut expected = names.clone();
    expected.sort_by_key(|name| match name.as_bytes()[2] {
        b'0' => 2,
        b'3' | b'6' | b'9' => 0,
        _ => 1,
    });
    assert_eq!(taken, expected);
}

#[test]
fn the_same_content_comes_once_if_that_is_asked_for() {
    let folder = folder(&["a", "b"]);
    fs::write(folder.path().join("copy of a"), "a").expect("there is room");
    let engine = engine();
    let once = SetOptions { duplicates: Duplicates::ByContent, ..SetOptions::default() };
    assert_eq!(contents(&set(&engine, &folder, "*", once)), ["a", "b"]);
}

#[test]
fn a_set_that_is_dropped_half_read_leaves_its_members_to_their_readers() {
    let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let folder = folder(&names);
    let engine = engine();
    let set = set(&engine, &folder, "*", SetOptions::default());
    let first = set.next().expect("there are members").expect("it can be read");
    let name = String::from_utf8_lossy(first.name().file_name()).into_owned();
    drop(set);
    assert_eq!(text(first.read()), name);
}

#[test]
fn a_file_of_more_than_any_memory_holds_is_an_error() {
    // Where the kernel promises whatever it is asked for, none is.
    if fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|how| how.trim() == "1") {
        testkit::skip("the kernel promises any memory");
        return;
    }
    let folder = folder(&["file"]);
    let file = fs::File::options().write(true).open(folder.path().join("file")).expect("opens");
    // As much as one address space, which ext4 has no files of and others have.
    if file.set_len(1 << 47).is_err() {
        file.set_len(1 << 43).expect("a hole");
    }
    let read = |options| {
        let member = set(&engine(), &folder, "file", options).next().expect("a member");
        member.and_then(nearfirst_set::Member::read)
    };
    let error = read(SetOptions::default()).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    let end = file.metadata().expect("its size").len() - 3;
    let end = SetOptions { start: Some(Arc::new(move |_| end)), ..SetOptions::default() };
    assert_eq!(read(end).expect("there is room for its end").len(), 3);
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let folder = folder(&[]);
    let path = folder.path().join("file");
    let size = 1 << 20;
    fs::write(&path, vec![b'x'; size]).expect("there is room");
    let set = set(&engine(), &folder, "file", SetOptions::default());
    let mut member = set.next().expect("a member").expect("it can be read");
    let mut read = member.chunk().expect("the beginning is there").len();
    fs::File::options().write(true).open(&path).expect("opens").set_len(size as u64 / 2).unwrap();
    let error = loop {
        match member.chunk() {
            Ok(chunk) if chunk.is_empty() => panic!("{read} bytes are not the whole"),
            Ok(chunk) => read += chunk.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
    assert_eq!(read, size / 2);
}

#[test]
fn what_was_written_over_while_it_was_read_has_no_end_but_an_error() {
    let folder = folder(&["file"]);
    let path = folder.path().join("file");
    let set = set(&engine(), &folder, "file", SetOptions::default());
    let mut member = set.next().expect("a member").expect("it can be read");
    let _first = member.read_into(&mut [0]).expect("its beginning is there");
    let file = fs::File::options().write(true).open(&path).expect("opens");
    file.write_all_at(b"new", 0).expect("it is ours");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
    for _ in 0..2 {
        let error = member.chunk().expect_err("its beginning is of another");
        assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
    }
}

#[test]
fn a_file_that_is_written_over_while_it_is_read_is_an_error_and_one_that_grows_is_not() {
    let folder = folder(&[]);
    let path = folder.path().join("file");
    let old = vec![b'o'; 1 << 20];
    let read_while = |change: fn(&fs::File)| {
        fs::write(&path, &old).expect("there is room");
        let file = fs::File::options().write(true).open(&path).expect("opens");
        // What is written twice within a tick of the system's clock looks the same.
        file.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
        let set = set(&engine(), &folder, "file", SetOptions::default());
        let mut member = set.next().expect("a member").expect("it can be read");
        let first = member.chunk().expect("the beginning is there");
        change(&file);
        member.read().map(|rest| [first, rest].concat())
    };
    let error = read_while(|file| file.write_all_at(b"new", 0).expect("it is ours"));
    let error = error.expect_err("its beginning is of another");
    assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
    let grown = read_while(|file| file.write_all_at(b"new", 1 << 20).expect("there is room"));
    assert!(grown.expect("it was added to") == old);
    let anew =
        read_while(|file| file.write_all_at(&vec![b'n'; 2 << 20], 0).expect("there is room"));
    let error = anew.expect_err("its beginning is of another, though it is longer");
    assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
    let alike = [vec![b'o'; 4], vec![b'n'; 2 << 20]].concat();
    fs::write(&path, &old).expect("there is room");
    let set = set(&engine(), &folder, "file", SetOptions::default());
    let mut member = set.next().expect("a member").expect("it can be read");
    member.read_exact(&mut [0; 4]).expect("its kind is there");
    member.chunk().expect("what follows is there");
    fs::write(&path, alike).expect("there is room");
    let error = member.read().expect_err("it is another of its kind");
    assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
}

#[test]
fn a_file_that_shrinks_once_it_is_compared_is_an_error() {
    let folder = folder(&["file"]);
    let once = SetOptions { duplicates: Duplicates::ByContent, ..SetOptions::default() };
    let set = set(&engine(), &folder, "file", once);
    let member = set.next().expect("a member").expect("it can be read");
    let file = fs::File::options().write(true).open(folder.path().join("file")).expect("opens");
    file.set_len(2).expect("it shrinks");
    let error = member.read().expect_err("its end is gone");
    assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
}

#[test]
fn a_file_of_the_kernel_ends_before_its_size() {
    let path = Path::new("/sys/kernel");
    let whole = fs::read(path.join("uevent_seqnum")).expect("it is there");
    let set = Set::open(&engine(), [glob(path, "uevent_seqnum")], SetOptions::default());
    let member = set.next().expect("a member").expect("it can be read");
    assert!(member.size().is_some_and(|size| size > whole.len() as u64));
    assert_eq!(member.read().expect("it can be read").len(), whole.len());
}

#[test]
fn a_member_is_a_descriptor_that_can_seek() {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let folder = folder(&["seekable"]);
    let engine = engine();
    let set = set(&engine, &folder, "*", SetOptions::default());
    let mut member = set.next().expect("there is one").expect("it can be read");
    let mut file = member.file().expect("it is a file");
    file.seek(SeekFrom::Start(4)).expect("it can seek");
    let mut end = String::new();
    file.read_to_string(&mut end).expect("it can be read");
    assert_eq!(end, "able");
}

#[test]
fn descriptors_of_a_member_and_its_reader_have_positions_of_their_own() {
    let folder = folder(&["positions"]);
    let engine = engine();
    for is_replaced in [false, true] {
        let set = set(&engine, &folder, "*", SetOptions::default());
        let mut member = set.next().expect("there is one").expect("it can be read");
        member.read_exact(&mut [0; 2]).expect("it is longer");
        let [mut first, mut second] = [member.file(), member.file()].map(|file| file.expect("one"));
        let mut rest = String::new();
        first.read_to_string(&mut rest).expect("it can be read");
        assert_eq!(rest, "sitions");
        if is_replaced {
            fs::write(folder.path().join("positions"), "otherwise").expect("there is room");
            let error = member.read().expect_err("it is another");
            assert!(matches!(*error.cause, store::Error::Changed { .. }), "{error}");
        } else {
            assert_eq!(text(member.read()), "sitions");
            assert_eq!(io::read_to_string(&mut second).expect("it can be read"), "sitions");
        }
    }
}

#[test]
fn what_read_raises_of_a_member_is_of_the_kind_and_number_of_its_cause() {
    let (engine, folder) = (engine(), folder(&["changes"]));
    let set = set(&engine, &folder, "*", SetOptions::default());
    let mut member = set.next().expect("there is one").expect("it can be read");
    member.read_exact(&mut [0; 2]).expect("it is longer");
    fs::write(folder.path().join("changes"), "otherwise").expect("there is room");
    for _ in 0..2 {
        let error = io::copy(&mut member, &mut io::sink()).expect_err("it is another");
        let told = (error.kind(), store::system_number(&error));
        assert_eq!(told, (io::ErrorKind::StaleNetworkFileHandle, Some(libc::ESTALE)), "{error}");
    }
}

#[test]
fn the_order_taken_is_told_after_the_set_and_keeps_nothing_else_of_it() {
    let (engine, folder) = (engine(), folder(&["a", "b"]));
    let names = [named(&folder, "b"), named(&folder, "a")];
    let listed = names.clone();
    let source =
        Arc::new(move || stream::iter(listed.clone()).map(|name| Ok(Entry::named(name))).boxed());
    let is_kept = Arc::downgrade(&source);
    let options = SetOptions { order: Order::Listed, ..SetOptions::default() };
    let set = Set::from_source(&engine, source, options);
    let taken: Vec<_> = set.iter().map(|member| member.unwrap().name().clone()).collect();
    let told = set.taken_so_far();
    drop(set);
    assert!(is_kept.upgrade().is_none());
    assert!(taken == names && told.names() == names);
}

#[test]
fn what_the_system_said_lies_under_the_error_of_a_member() {
    let said = || io::Error::from_raw_os_error(libc::EIO);
    let error = MemberError::of(&Name::from("a"), said());
    assert_eq!(error.to_string(), "a: Input/output error");
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.and_then(io::Error::raw_os_error), Some(libc::EIO));
    assert_eq!(store::system_number(&error.into()), Some(libc::EIO));
    // Whoever reads a kept error would ask again for ever.
    let interrupted = MemberError::of(&Name::from("a"), io::ErrorKind::Interrupted.into());
    assert_eq!(io::Error::from(interrupted).kind(), io::ErrorKind::Other);
    let missing = store::Error::NotFound { name: Name::from("b") };
    let error = MemberError::new(Name::from("b"), missing);
    assert!(error.source().is_none(), "its text says all");
}

#[test]
fn under_the_error_of_a_file_lies_what_the_system_said_of_it() {
    let (engine, folder) = (engine(), folder(&[]));
    let set = Set::open(
        &engine,
        [Spec::glob(folder.path().join("none").as_os_str().as_bytes())],
        SetOptions::default(),
    );
    let failed: Vec<_> = set.iter().filter_map(Result::err).collect();
    let [failed] = &failed[..] else { panic!("{failed:?}") };
    let said = failed.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(said.and_then(io::Error::raw_os_error), Some(libc::ENOENT));
}
