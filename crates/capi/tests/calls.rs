//! Any sequence of calls, with any arguments, against a model: no call
//! crashes, each answers as its contract says, and each byte comes once.

#![expect(unsafe_code, reason = "C calls are made")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_long};
use std::fs::File;
use std::io::{PipeReader, Write as _};
use std::os::fd::AsRawFd as _;

use nearfirst_c as c;
use proptest::prelude::*;

/// What calls are tried on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Text,
    Empty,
    Folder,
    Pipe,
    Closed,
    Negative,
}

#[derive(Debug, Clone)]
enum Call {
    Sleds { on: Target, capacity: usize },
    Time { on: Target, plan: c_int },
    Fill { latency: f64, bandwidth: f64 },
    Init { on: Target, piece_bytes: u64, separator: c_int, plan: c_int },
    Next { pick: usize },
    Refresh { pick: usize },
    Finish { pick: usize },
    PaperInit { on: Target, size: c_long, flag: c_int, separator: c_int },
    PaperNext { on: Target, sizes: (usize, usize) },
    PaperFinish { on: Target },
}

/// What was handed out by one pick.
struct Handed {
    seen: Vec<bool>,
    separator: Option<u8>,
    text: Vec<u8>,
}

impl Handed {
    fn hand(&mut self, offset: u64, length: u64) {
        let start = usize::try_from(offset).expect("small");
        let end = start + usize::try_from(length).expect("small");
        assert!(length > 0 && end <= self.seen.len());
        for byte in &mut self.seen[start..end] {
            assert!(!std::mem::replace(byte, true), "a byte comes once");
        }
        if let Some(separator) = self.separator {
            assert!(start == 0 || self.text[start - 1] == separator);
            assert!(end == self.text.len() || self.text[end - 1] == separator);
        }
    }

    fn end(&self) {
        assert!(self.seen.iter().all(|&byte| byte), "every byte comes");
    }
}

struct World {
    text: Vec<u8>,
    file: File,
    empty: File,
    folder: File,
    pipe: PipeReader,
    /// Every pick that was begun; `None` once finished.
    picks: Vec<(i64, Option<Handed>)>,
    paper: BTreeMap<c_int, Handed>,
}

impl World {
    fn new(text: Vec<u8>) -> Self {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&text).expect("written");
        let (pipe, _) = std::io::pipe().expect("a pipe");
        Self {
            text,
            file,
            empty: tempfile::tempfile().expect("a temporary file"),
            folder: File::open("/").expect("a folder"),
            pipe,
            picks: Vec::new(),
            paper: BTreeMap::new(),
        }
    }

    fn fd(&self, target: Target) -> c_int {
        match target {
            Target::Text => self.file.as_raw_fd(),
            Target::Empty => self.empty.as_raw_fd(),
            Target::Folder => self.folder.as_raw_fd(),
            Target::Pipe => self.pipe.as_raw_fd(),
            Target::Closed => 1 << 20,
            Target::Negative => -5,
        }
    }

    fn handed(&self, on: Target, separator: Option<u8>) -> Handed {
        let text = if on == Target::Text { self.text.clone() } else { Vec::new() };
        Handed { seen: vec![false; text.len()], separator, text }
    }

    fn call(&mut self, call: &Call) {
        match *call {
            Call::Sleds { on, capacity } => self.sleds(on, capacity),
            Call::Time { on, plan } => self.time(on, plan),
            Call::Fill { latency, bandwidth } => {
                let device = c"disk:of-a-test".as_ptr();
                // SAFETY: a string that ends with a NUL.
                let answer = unsafe { c::nf_device_fill(device, latency, bandwidth) };
                let good = |number: f64| (1e-15..=1e18).contains(&number);
                assert_eq!(answer, if good(latency) && good(bandwidth) { 0 } else { -1 });
            }
            Call::Init { on, piece_bytes, separator, plan } => {
                let pick = c::nf_pick_init(self.fd(on), piece_bytes, separator, plan);
                let good = (-1..256).contains(&separator) && (0..2).contains(&plan);
                assert_eq!(pick > 0, is_file(on) && good);
                if pick > 0 {
                    let handed = self.handed(on, u8::try_from(separator).ok());
                    self.picks.push((pick, Some(handed)));
                }
            }
            Call::Next { pick } => drop(self.next(pick)),
            Call::Refresh { pick } => {
                let (number, handed) = self.pick(pick);
                assert_eq!(c::nf_pick_refresh(number), if handed.is_some() { 0 } else { -1 });
            }
            Call::Finish { pick } => {
                let (number, handed) = self.pick(pick);
                let was_there = handed.take().is_some();
                assert_eq!(c::nf_pick_finish(number), if was_there { 0 } else { -1 });
            }
            Call::PaperInit { on, size, flag, separator } => {
                let answer = c::sleds_pick_init_records(self.fd(on), size, flag, separator);
                let good = size >= 0 && (flag == 0 || (0..256).contains(&separator));
                assert_eq!(answer > 0, is_file(on) && good);
                assert!(size == 0 || answer == -1 || answer == size);
                if answer > 0 {
                    let separator = u8::try_from(separator).ok().filter(|_| flag != 0);
                    self.paper.insert(self.fd(on), self.handed(on, separator));
                }
            }
            Call::PaperNext { on, sizes } => drop(self.paper_next(on, sizes)),
            Call::PaperFinish { on } => {
                let was_there = self.paper.remove(&self.fd(on)).is_some();
                assert_eq!(c::sleds_pick_finish(self.fd(on)), if was_there { 0 } else { -1 });
            }
        }
    }

    fn sleds(&self, on: Target, capacity: usize) {
        let mut sleds = Vec::with_capacity(capacity);
        // SAFETY: the vector has room for as many.
        let count = unsafe { c::nf_sleds_get(self.fd(on), sleds.as_mut_ptr(), capacity) };
        if !is_file(on) {
            assert_eq!(count, -1);
            return;
        }
        let count = usize::try_from(count).expect("a file has sleds or none");
        // SAFETY: so many were written.
        unsafe { sleds.set_len(count.min(capacity)) };
        if count <= capacity {
            let size: u64 = sleds.iter().map(|sled: &c::Sled| sled.length).sum();
            assert_eq!(size, self.handed(on, None).seen.len() as u64);
        }
    }

    fn time(&self, on: Target, plan: c_int) {
        let known = c::sleds_total_delivery_time(self.fd(on), plan);
        if is_file(on) && (0..2).contains(&plan) {
            assert!(known.is_nan() || known >= 0.0);
        } else {
            assert!((known + 1.0).abs() < f64::EPSILON);
        }
    }

    /// Whether there was a piece.
    fn next(&mut self, pick: usize) -> bool {
        let (number, handed) = self.pick(pick);
        let mut piece =
            c::Piece { offset: 0, length: 9, device: std::ptr::null(), place: c::NF_NEAR };
        // SAFETY: a piece that may be written.
        let answer = unsafe { c::nf_pick_next(number, &raw mut piece) };
        match handed {
            None => assert_eq!(answer, -1),
            Some(handed) if answer == 1 => handed.hand(piece.offset, piece.length),
            Some(handed) => {
                assert_eq!((answer, piece.length), (0, 0));
                handed.end();
            }
        }
        answer == 1
    }

    /// Whether there was a piece.
    fn paper_next(&mut self, on: Target, sizes: (usize, usize)) -> bool {
        let fd = self.fd(on);
        let (mut offset, mut nbytes) = (0_i64, 0_i64);
        // SAFETY: both have eight bytes, and no more than eight are written.
        let answer = unsafe {
            let (offset, nbytes) = (&raw mut offset, &raw mut nbytes);
            c::sleds_pick_next_read_as(fd, offset.cast(), sizes.0, nbytes.cast(), sizes.1)
        };
        let sizes_are_good = [sizes.0, sizes.1].iter().all(|size| [4, 8].contains(size));
        match self.paper.get_mut(&fd) {
            None => assert_eq!(answer, -1),
            Some(handed) if answer == 1 => {
                assert!(sizes_are_good);
                handed.hand(offset.cast_unsigned(), nbytes.cast_unsigned());
            }
            Some(handed) if answer == 0 => {
                assert!(sizes_are_good);
                assert_eq!(nbytes, 0);
                handed.end();
            }
            Some(_) => assert!(!sizes_are_good),
        }
        answer == 1
    }

    /// A pick that was begun, or a number that never was one.
    fn pick(&mut self, at: usize) -> (i64, &mut Option<Handed>) {
        if self.picks.is_empty() {
            self.picks.push((0, None));
        }
        let at = at % self.picks.len();
        let (number, handed) = &mut self.picks[at];
        (*number, handed)
    }

    /// Takes what is left of every pick, and ends it.
    fn finish(mut self) {
        for at in 0..self.picks.len() {
            while self.next(at) {}
            self.call(&Call::Finish { pick: at });
        }
        for on in [Target::Text, Target::Empty] {
            while self.paper_next(on, (8, 8)) {}
            self.call(&Call::PaperFinish { on });
        }
    }
}

fn is_file(on: Target) -> bool {
    matches!(on, Target::Text | Target::Empty)
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        6 => Just(Target::Text),
        1 => Just(Target::Empty),
        1 => Just(Target::Folder),
        1 => Just(Target::Pipe),
        1 => Just(Target::Closed),
        1 => Just(Target::Negative),
    ]
}

fn any_separator() -> impl Strategy<Value = c_int> {
    prop_oneof![3 => Just(-1), 5 => Just(c_int::from(b'\n')), 1 => any::<c_int>()]
}

fn any_plan() -> impl Strategy<Value = c_int> {
    prop_oneof![8 => 0..2, 1 => any::<c_int>()]
}

fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0_u64..2000, 1 => any::<u64>()]
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 1e-9..1e9_f64]
}

fn any_call() -> impl Strategy<Value = Call> {
    let integer = || prop_oneof![4 => Just(4_usize), 4 => Just(8), 1 => 0_usize..20];
    prop_oneof![
        (any_target(), 0_usize..4).prop_map(|(on, capacity)| Call::Sleds { on, capacity }),
        (any_target(), any_plan()).prop_map(|(on, plan)| Call::Time { on, plan }),
        (any_number(), any_number())
            .prop_map(|(latency, bandwidth)| Call::Fill { latency, bandwidth }),
        (any_target(), any_size(), any_separator(), any_plan()).prop_map(
            |(on, piece_bytes, separator, plan)| Call::Init { on, piece_bytes, separator, plan }
        ),
        any::<usize>().prop_map(|pick| Call::Next { pick }),
        any::<usize>().prop_map(|pick| Call::Next { pick }),
        any::<usize>().prop_map(|pick| Call::Refresh { pick }),
        any::<usize>().prop_map(|pick| Call::Finish { pick }),
        (any_target(), any_size(), 0..2, any_separator()).prop_map(
            |(on, size, flag, separator)| Call::PaperInit {
                on,
                size: size.cast_signed(),
                flag,
                separator
            }
        ),
        (any_target(), (integer(), integer()))
            .prop_map(|(on, sizes)| Call::PaperNext { on, sizes }),
        any_target().prop_map(|on| Call::PaperFinish { on }),
    ]
}

proptest! {
    #[test]
    fn any_calls_answer_as_the_model_says(
        text in proptest::collection::vec(prop_oneof![4 => Just(b'x'), 1 => Just(b'\n')], 0..3000),
        calls in proptest::collection::vec(any_call(), 0..60),
    ) {
        let mut world = World::new(text);
        for call in &calls {
            world.call(call);
        }
        world.finish();
    }
}
