//! The simulation by small traces whose sums can be checked by hand.

use std::time::Duration;

use nearfirst_tree::replay::{
    Capacity, Device, LastSuccessor, NoPredictor, Options, Ppm, Predictor, ProgramSuccessor,
    Report, Trace, simulate, simulate_files,
};
use nearfirst_tree::{
    Decision, Event, Learner, Matching, Options as LearnerOptions, Patterns, Predicted, Prediction,
    PredictionId, Process, User,
};
use proptest::prelude::*;

/// Says what it is told to say when a process begins.
struct Says {
    /// Names and when they are needed, in milliseconds.
    files: Vec<(&'static str, u64)>,
    /// Takes it back when the process ends.
    takes_back: bool,
    /// What it is told is near: by which prediction, which file, when.
    fetched: Vec<(u64, String, Duration)>,
}

impl Says {
    fn new(files: &[(&'static str, u64)]) -> Self {
        Self { files: files.to_vec(), takes_back: false, fetched: Vec::new() }
    }
}

impl Predictor for Says {
    fn on(&mut self, event: &Event, now: Duration) -> Vec<Decision> {
        match event {
            Event::Found { process, .. } => {
                let files = self.files.iter().map(|(path, need)| Predicted {
                    path: path.as_bytes().into(),
                    extents: Vec::new(),
                    needed_in: Duration::from_millis(*need),
                    chance: 1.0,
                    inode: None,
                });
                let (id, user, files) = (PredictionId(process.0), User(0), files.collect());
                vec![Decision::Fetch(Prediction { id, process: *process, user, files })]
            }
            Event::Fetched { prediction, path, .. } => {
                let path = String::from_utf8_lossy(path).into_owned();
                self.fetched.push((prediction.0, path, now));
                Vec::new()
            }
            Event::Exited { process: Process(1) } if self.takes_back => {
                vec![Decision::Withdraw(PredictionId(1))]
            }
            _ => Vec::new(),
        }
    }
}

fn told(prediction: u64, path: &str, milliseconds: u64) -> (u64, String, Duration) {
    (prediction, path.to_owned(), Duration::from_millis(milliseconds))
}

/// Files `/0` to `/9` of 1,000 bytes each.
fn trace(lines: &str) -> Trace {
    let files: Vec<String> =
        (0..10).map(|number| format!("file {number} /{number} 1000\n")).collect();
    let text = ["nearfirst-trace 1\n", &files.concat(), lines].concat();
    Trace::parse(text.as_bytes()).expect("a trace")
}

/// A request takes 10 ms, its transfer 1 ms of them.
const SLOW: Device = Device { latency: Duration::from_millis(9), bandwidth: 1e6, width: 1 };

fn played(lines: &str, predictor: &mut dyn Predictor, device: Device, files: u64) -> Report {
    let options = Options { cache: Capacity::Files(files), device, unknown_size: 1000 };
    simulate(&trace(lines), predictor, &options)
}

#[test]
fn without_a_predictor_a_cache_forgets_what_was_used_longest_ago() {
    let lines =
        "0 found 1 0\n0 read 1 0\n0 read . 1\n0 read . 0\n0 read . 2\n0 read . 0\n0 read . 1\n";
    let report = played(lines, &mut NoPredictor, SLOW, 2);
    assert_eq!((report.references, report.misses, report.new), (6, 4, 3));
    assert_eq!(report.waited, Duration::from_millis(40));
    assert_eq!(report.elapsed, Duration::from_millis(40));
}

#[test]
fn files_of_any_size_are_played() {
    let most = u64::MAX;
    let files = (0..4).map(|number| format!("file {number} /{number} {most}\n"));
    let reads = "1 read . 1\n1 read . 2\n1 read . 3\n1 read . 1\n";
    let run = |number| format!("0 found {number} 1\n0 exec . 0 / sh\n{reads}1 exit .\n");
    let files = files.collect::<String>();
    let text = ["nearfirst-trace 1\n", &files, &run(1), &run(2), &run(3)].concat();
    let trace = Trace::parse(text.as_bytes()).expect("a trace");
    for matching in [Matching::Ours, Matching::Paper] {
        let learning = LearnerOptions { matching, ..LearnerOptions::default() };
        let mut learner = Learner::new(learning, Patterns::default());
        let options = Options { cache: Capacity::Bytes(most), ..Options::default() };
        let report = simulate(&trace, &mut learner, &options);
        assert_eq!((report.references, report.missed_bytes), (15, most));
    }
}

#[test]
fn what_is_fetched_in_time_is_used_and_what_is_not_is_late() {
    // Both are asked for at 0; /1 is there at 10 ms, /2 at 20 ms.
    let lines = "0 found 1 0\n12000 read 1 1\n1000 read . 2\n9000 exit 1\n";
    let mut says = Says::new(&[("/2", 20), ("/1", 10)]);
    let report = played(lines, &mut says, SLOW, 8);
    assert_eq!((report.misses, report.late, report.new), (1, 1, 0));
    assert_eq!((report.predicted, report.right, report.fetched, report.used), (2, 2, 2, 2));
    assert_eq!(report.waited, Duration::from_millis(7));
    assert_eq!(says.fetched, [told(1, "/1", 10), told(1, "/2", 20)]);
}

#[test]
fn a_demand_goes_before_guesses_that_have_not_begun() {
    let lines = "0 found 1 0\n1000 read 1 9\n";
    let mut says = Says::new(&[("/1", 0), ("/2", 0), ("/3", 0)]);
    let report = played(lines, &mut says, SLOW, 8);
    // It waits for /1, which had begun, and for itself.
    assert_eq!(report.waited, Duration::from_millis(19));
}

#[test]
fn guesses_take_half_of_the_cache_until_they_are_read() {
    let lines =
        "0 found 1 0\n0 read 1 1\n0 read . 2\n0 read . 3\n0 read . 4\n0 read . 5\n0 exit 1\n";
    let names = [("/1", 1), ("/2", 2), ("/3", 3), ("/4", 4), ("/5", 5), ("/6", 6), ("/7", 7)];
    let mut says = Says::new(&names);
    says.takes_back = true;
    let report = played(lines, &mut says, Device::INSTANT, 4);
    // As each is read the next has its turn; /6 and /7 have theirs when /4 and /5 are read.
    assert_eq!((report.misses, report.fetched, report.used), (0, 7, 5));
    assert_eq!(report.wasted_bytes, 2000);
    let mut says = Says::new(&[("/6", 6), ("/7", 7), ("/8", 8)]);
    says.takes_back = true;
    let report = played("0 found 1 0\n0 exit 1\n", &mut says, Device::INSTANT, 4);
    assert_eq!((report.fetched, report.withdrawn, report.wasted_bytes), (2, 1, 2000));
}

#[test]
fn what_is_near_when_its_turn_comes_is_kept_and_not_fetched() {
    // /1 is the oldest when /2 to /4 come, but it was said to be needed.
    let lines =
        "0 read 9 1\n0 read . 5\n0 found 1 0\n0 read 9 2\n0 read . 3\n0 read . 4\n0 read . 1\n";
    let mut says = Says::new(&[("/1", 5)]);
    let report = played(lines, &mut says, Device::INSTANT, 4);
    assert_eq!((report.misses, report.fetched, report.predicted, report.right), (5, 0, 1, 1));
    assert_eq!(says.fetched, [told(1, "/1", 0)]);
}

#[test]
fn what_is_said_again_is_fetched_once_and_who_said_it_last_is_told() {
    // It is there at 10 ms.
    let lines = "0 found 1 0\n5000 found 2 0\n10000 found 3 0\n0 read 3 1\n";
    let mut says = Says::new(&[("/1", 5)]);
    let report = played(lines, &mut says, SLOW, 4);
    assert_eq!((report.misses, report.fetched, report.predicted, report.used), (0, 1, 1, 1));
    assert_eq!(says.fetched, [told(2, "/1", 10), told(3, "/1", 15)]);
}

#[test]
fn a_file_that_is_written_is_near_and_a_guess_of_it_was_wrong() {
    let lines = "0 found 1 0\n0 write 1 1\n0 read . 1\n";
    let report = played(lines, &mut Says::new(&[("/1", 5)]), Device::INSTANT, 4);
    assert_eq!((report.misses, report.fetched, report.used, report.wasted_bytes), (0, 1, 0, 1000));
}

#[test]
fn a_successor_by_program_is_not_confused_by_what_others_read() {
    // Two programs take turns: one reads /1 /2, the other /3 /4; somebody else empties the cache.
    let lines = "0 found 1 0\n0 found 2 0\n0 found 3 0\n0 exec 1 8 / a\n0 exec 2 9 / b\n\
                 0 read 1 1\n0 read 2 3\n0 read 1 2\n0 read 2 4\n\
                 0 read 3 5\n0 read 3 6\n0 read 3 7\n0 read 3 0\n\
                 0 read 1 1\n0 read 1 2\n0 read 2 3\n0 read 2 4\n";
    let report = played(lines, &mut ProgramSuccessor::default(), Device::INSTANT, 4);
    assert_eq!((report.references, report.misses), (14, 12));
    assert_eq!((report.fetched, report.used), (2, 2));
}

#[test]
fn a_learner_begins_a_trace_with_what_it_would_have_saved_of_the_last() {
    // It is not seen to end.
    let lines = "0 found 1 0\n0 exec 1 0 /\n10 read . 1\n10 read . 2\n";
    let options = LearnerOptions { near_files: 0, ..LearnerOptions::default() };
    let mut learner = Learner::new(options, Patterns::default());
    let first = played(lines, &mut learner, Device::INSTANT, 9);
    learner.begin_anew();
    let second = played(lines, &mut learner, Device::INSTANT, 9);
    assert_eq!((first.right, second.right), (0, 2));
}

#[test]
fn the_sums_are_those_of_the_files() {
    let lines =
        "0 found 1 0\n0 read 1 0\n0 read . 1\n0 read . 2\n0 read . 0\n0 read . 1\n0 read . 2\n";
    let options = Options { cache: Capacity::Bytes(2500), device: SLOW, ..Options::default() };
    let (report, files) = simulate_files(&trace(lines), &mut LastSuccessor::default(), &options);
    assert_eq!(files.iter().map(|file| file.references).sum::<u64>(), report.references);
    assert_eq!(files.iter().map(|file| file.misses).sum::<u64>(), report.misses);
    assert_eq!(files.iter().map(|file| file.late).sum::<u64>(), report.late);
    assert_eq!(files.iter().map(|file| file.fetched).sum::<u64>(), report.fetched);
    assert_eq!(files.iter().map(|file| file.used).sum::<u64>(), report.used);
    assert!(report.late > 0 && report.used > 0);
}

/// Lines of any trace: few processes and files, so that they meet.
fn line() -> impl Strategy<Value = String> {
    let process = || 0..5_u64;
    let time = || prop_oneof![8 => 0..5000_u64, 1 => Just(u64::MAX / 1024)];
    let read = (time(), prop::sample::select(vec!["read", "write"]), process(), 0..6_u64);
    let touch = (time(), process(), 0..6_u64, prop::collection::vec(0..u64::MAX / 8, 0..4));
    let with_extents = |(time, process, file, steps): (u64, u64, u64, Vec<u64>)| {
        let mut at = 0;
        let extents = steps.iter().map(|step| {
            at += step + 1;
            format!(" {}-{at}", at - 1)
        });
        format!("{time} touch {process} {file}{}\n", extents.collect::<String>())
    };
    prop_oneof![
        (time(), process(), 0..2_u32)
            .prop_map(|(at, of, user)| format!("{at} found {of} {user}\n")),
        (time(), process(), process()).prop_map(|(at, of, new)| format!("{at} fork {of} {new}\n")),
        (time(), process(), 0..6_u64, 0..3_u64)
            .prop_map(|(at, of, file, word)| format!("{at} exec {of} {file} /w sh /{word} -c\n")),
        read.prop_map(|(at, what, of, file)| format!("{at} {what} {of} {file}\n")),
        touch.prop_map(with_extents),
        (time(), process()).prop_map(|(at, of)| format!("{at} exit {of}\n")),
        (time(), prop::option::of(process())).prop_map(|(at, of)| {
            format!("{at} lost {}\n", of.map_or("-".to_owned(), |of| of.to_string()))
        }),
    ]
}

proptest! {
    #[test]
    fn any_trace_is_played(lines in prop::collection::vec(line(), 0..60), most in 1..6_u64) {
        let sizes = [0, 1000, 200_000, 1 << 30, u64::MAX, u64::MAX];
        let files = sizes.iter().enumerate();
        let files = files.map(|(number, size)| format!("file {number} /{number} {size}\n"));
        let text = ["nearfirst-trace 1\n", &files.collect::<String>(), &lines.concat()].concat();
        let trace = Trace::parse(text.as_bytes()).expect("a trace");
        for capacity in [Capacity::Files(most), Capacity::Bytes(most << 20)] {
            let options = Options { cache: capacity, ..Options::default() };
            for matching in [Matching::Ours, Matching::Paper] {
                let learning = LearnerOptions { matching, ..LearnerOptions::default() };
                let mut learner = Learner::new(learning, Patterns::default());
                let reads = |report: Report| report.references;
                let first = reads(simulate(&trace, &mut learner, &options));
                prop_assert_eq!(reads(simulate(&trace, &mut learner, &options)), first);
            }
            simulate(&trace, &mut Ppm::new(2, Ppm::THRESHOLD), &options);
            simulate(&trace, &mut ProgramSuccessor::default(), &options);
        }
    }
}
