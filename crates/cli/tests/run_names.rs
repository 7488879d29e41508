//! What names stand for under `nearfirst run`: names of any bytes, programs that were renamed or
//! replaced, changed roots and mounts of one's own. What is fetched is what the program would read.

mod running;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use running::{FILES, forget_pages, nearfirst};
use slowfs::{Options, Stats};
use testkit::{
    Dir, Facility, SlowDir, cmd, copy_program, evict, noise, program, skip_unless, until,
    until_memory_suffices,
};

/// A shell under another name, so that it is a program of its own, and a slow folder that it reads.
struct Prompted {
    slow: SlowDir,
    folder: Dir,
    state: Dir,
}

impl Prompted {
    fn new() -> Self {
        Self::over(Options::default())
    }

    fn over(options: Options) -> Self {
        let slow = SlowDir::new(options);
        (0..=FILES).for_each(|at| drop(slow.create(format!("f{at}"), noise(20_000, at as u64))));
        Self { slow, folder: Dir::new(), state: Dir::new() }
    }

    /// Makes a program of this name, a file of its own.
    fn install(&self, shell: &str, name: &str) -> PathBuf {
        let part = self.folder.join("part");
        copy_program(program(shell).expect("it is there"), &part);
        let path = self.folder.join(name);
        fs::rename(part, &path).expect("ours");
        path
    }

    /// Starts a program, has it read the first file and wait.
    fn begin(&self, program: &Path) -> Child {
        until_memory_suffices();
        let mut command =
            nearfirst(&self.state, &["run", "--"]).arg(program).arg("-").into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        self.tell(&mut child, [0].into_iter());
        until("the first is read", || self.slow.stats().file("f0").reads > 0);
        child
    }

    fn tell(&self, child: &mut Child, files: impl Iterator<Item = usize>) {
        let stdin = child.stdin.as_mut().expect("piped");
        for at in files {
            let file = self.slow.path().join(format!("f{at}"));
            writeln!(stdin, "read -r x < {}", file.display()).expect("it reads");
        }
    }

    /// Has it read more and end.
    fn finish(&self, mut child: Child, files: impl Iterator<Item = usize>) -> Output {
        self.tell(&mut child, files);
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"exit 5\n").expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
        forget_pages(&self.slow);
        output
    }

    fn run(&self, program: &Path, files: impl Iterator<Item = usize>) {
        self.finish(self.begin(program), files);
    }

    fn is_fetched(&self, mut files: impl Iterator<Item = usize>) -> bool {
        files.all(|at| self.slow.stats().file(format!("f{at}")).reads > 0)
    }
}

#[test]
fn names_that_a_file_system_lets_expire_at_once_are_learned() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let time_to_live = Duration::ZERO;
    let prompted = Prompted::over(Options { time_to_live, ..Options::default() });
    let program = prompted.install("bash", "expiring");
    prompted.run(&program, 1..=FILES);
    let child = prompted.begin(&program);
    until("what was learned is fetched", || prompted.is_fetched(1..=FILES));
    prompted.finish(child, 1..=FILES);
}

#[test]
fn a_renamed_program_is_known_by_its_file() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Tool("dash"));
    let prompted = Prompted::new();
    let old = prompted.install("dash", "old");
    (0..2).for_each(|_| prompted.run(&old, 1..=FILES));
    let new = prompted.folder.join("new");
    fs::rename(&old, &new).expect("ours");
    let child = prompted.begin(&new);
    until("what it read under its old name is fetched", || prompted.is_fetched(1..=FILES));
    prompted.finish(child, 1..=FILES);
}

#[test]
fn a_replaced_program_is_learned_anew() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Tool("dash"), Facility::Tool("bash"));
    let half = FILES / 2;
    let prompted = Prompted::new();
    let path = prompted.install("dash", "program");
    (0..2).for_each(|_| prompted.run(&path, 1..=half));
    // The same name, but another file with other habits.
    prompted.install("bash", "program");
    (0..8).for_each(|_| prompted.run(&path, half + 1..=FILES));
    let child = prompted.begin(&path);
    until("what the new one reads is fetched", || prompted.is_fetched(half + 1..=FILES));
    assert!(!prompted.is_fetched(1..=1), "what only the old one read");
    prompted.finish(child, half + 1..=FILES);
}

#[test]
fn names_of_any_bytes_are_learned_fetched_and_shown() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Tool("python3"));
    let slow = SlowDir::new(Options::default());
    let names: [&[u8]; 4] =
        [b"\xff\xfe not text", b"line\nend", b"%41 \\x41 %_", b"\x01\x1b[31m\x7f (deleted)"];
    let files = names.map(|name| slow.create(OsStr::from_bytes(name), noise(20_000, 3)));
    slow.create("first", noise(20_000, 1));
    let (state, dir) = (Dir::new(), Dir::new());
    let reader = dir.create(
        "any.py",
        "import os, sys\n\
         folder = os.fsencode(sys.argv[1])\n\
         read = lambda name: open(folder + b'/' + name, 'rb').read()\n\
         read(b'first'); sys.stdin.readline()\n\
         for name in sorted(os.listdir(folder)): read(name)\n",
    );
    let trace = dir.join("trace");
    let begin = || {
        until_memory_suffices();
        let run = nearfirst(&state, &["run", "--record"]).arg(&trace);
        let mut command = run.arg("--").arg("python3").arg(&reader).arg(slow.path()).into_command();
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    };
    assert!(running::finish(begin()).status.success());
    files.iter().for_each(evict);
    slow.reset();
    let child = begin();
    let have_come =
        |stats: &Stats| names.iter().all(|name| running::has_come(stats, OsStr::from_bytes(name)));
    until("all are fetched", || have_come(&slow.stats()));
    let output = running::nearly_all_is_near(&slow, 20_000, || running::finish(child));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = nearfirst(&state, &["trees", "show", "any.py"]).run();
    let text = shown.succeeds().text();
    assert!(text.contains("\\xff\\xfe not text") && text.contains("line\\nend"), "{text}");
    let bare = |byte: u8| byte < 32 && byte != b'\n' || byte == 127;
    assert!(!shown.stdout().iter().any(|&byte| bare(byte)), "{text}");
    // What was recorded can be played again.
    let played = nearfirst(&state, &["trees", "replay"]).arg(&trace).arg(&trace).run();
    played.succeeds().is_quiet();
}

/// What a command, which reads `file` by its outer name while that stands for something else, is
/// recorded to have read.
fn recorded(file: &Path, command: &[&OsStr]) -> Vec<String> {
    let (state, dir) = (Dir::new(), Dir::new());
    let trace = dir.join("trace");
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--");
    let output = command.iter().fold(run, testkit::Cmd::arg).run();
    output.succeeds().prints("inner\n");
    let trace = fs::read_to_string(trace).expect("recorded");
    assert!(trace.lines().any(|line| line.starts_with("file ")), "it was observed: {trace}");
    let name = file.to_str().expect("text");
    let is_it = |line: &&str| line.starts_with("file ") && line.split(' ').nth(2) == Some(name);
    trace.lines().filter(is_it).map(str::to_owned).collect()
}

#[test]
fn what_is_read_in_another_root_is_not_taken_for_what_has_its_name_here() {
    skip_unless!(Facility::Root, Facility::Tool("python3"));
    let dir = Dir::new();
    let file = dir.create("file", "outer\n");
    let relative = file.strip_prefix("/").expect("absolute");
    dir.create(Path::new("root").join(relative), "inner\n");
    let text = format!(
        "import os\nos.chroot({:?})\nprint(open({:?}).read(), end='')",
        dir.join("root"),
        file
    );
    let words = ["python3", "-c", &text].map(OsStr::new);
    assert!(recorded(&file, &words).is_empty());
}

#[test]
fn who_could_not_leave_for_another_root_is_still_here() {
    skip_unless!(Facility::Tool("python3"));
    let dir = Dir::new();
    let file = dir.create("file", "inner\n");
    let text = format!(
        "import os\ntry: os.chroot('/none')\nexcept OSError: print(open({file:?}).read(), end='')"
    );
    let words = ["python3", "-c", &text].map(OsStr::new);
    assert_eq!(recorded(&file, &words).len(), 1);
}

#[test]
fn what_is_read_on_mounts_of_ones_own_is_not_taken_for_what_has_its_name_here() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"), Facility::Tool("python3"));
    let dir = Dir::new();
    let file = dir.create("at/file", "outer\n");
    dir.create("other/file", "inner\n");
    let (at, other) = (dir.join("at"), dir.join("other"));
    let mounts = format!("mount --bind {} {}", other.display(), at.display());
    // By a program that is started there, and by one that goes there itself.
    let text = format!("{mounts} && cat {}", file.display());
    let words = ["unshare", "-m", "sh", "-c", &text].map(OsStr::new);
    assert!(recorded(&file, &words).is_empty());
    let text = format!(
        "import ctypes, os\n\
         libc = ctypes.CDLL(None)\n\
         assert libc.unshare(0x20000) == 0\n\
         assert libc.mount(b'none', b'/', None, 0x44000, None) == 0\n\
         assert libc.mount({other:?}.encode(), {at:?}.encode(), None, 0x1000, None) == 0\n\
         print(open({file:?}).read(), end='')"
    );
    let words = ["python3", "-c", &text].map(OsStr::new);
    assert!(recorded(&file, &words).is_empty());
    cmd("cat", [&file]).run().prints("outer\n");
}

#[test]
fn what_is_opened_with_a_folder_for_its_root_is_what_lies_there() {
    skip_unless!(Facility::Tool("python3"));
    let dir = Dir::new();
    let file = dir.create("file", "outer\n");
    let relative = file.strip_prefix("/").expect("absolute");
    let inner = dir.create(Path::new("root").join(relative), "inner\n");
    // By `openat2` with `RESOLVE_IN_ROOT`.
    let text = format!(
        "import ctypes, os\n\
         how = (ctypes.c_uint64 * 3)(0, 0, 0x10)\n\
         root = os.open({:?}, os.O_PATH)\n\
         opened = ctypes.CDLL(None).syscall(437, root, {:?}.encode(), how, 24)\n\
         print(open(opened).read(), end='')",
        dir.join("root"),
        file
    );
    let words = ["python3", "-c", &text].map(OsStr::new);
    assert!(recorded(&file, &words).is_empty());
    assert_eq!(recorded(&inner, &words).len(), 1);
}

/// A program that calls the kernel as programs of 32 bits do: it goes to a folder, reads `inner` there, and
/// runs a program with a word. Without words it asks who it is.
const CALLS_BY_32_BITS: &str = r#"
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

static long call(long number, void *first, void *second) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result)
                     : "0"(number), "b"(first), "c"(second), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

int main(int count, char **words) {
    if (count == 1)
        return call(20, 0, 0) <= 0;
    char *low = mmap(0, 1 << 16, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    char *folder = strcpy(low, words[1]), *program = strcpy(low + 4096, words[2]);
    char *inner = strcpy(low + 8192, "inner"), *outer = strcpy(low + 12288, words[3]);
    unsigned *arguments = (unsigned *)(low + 16384);
    arguments[0] = (unsigned)(long)program;
    arguments[1] = (unsigned)(long)outer;
    if (call(12, folder, 0) != 0 || call(5, inner, 0) < 0)
        return 1;
    return call(11, program, arguments);
}
"#;

#[test]
fn calls_by_32_bits_are_understood() {
    skip_unless!(Facility::Tool("gcc"));
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (state, dir) = (Dir::new(), Dir::new());
    let source = dir.create("calls.c", CALLS_BY_32_BITS);
    let calls = dir.join("calls");
    cmd("gcc", ["-o"]).arg(&calls).arg(source).run().succeeds();
    if !Command::new(&calls).status().expect("started").success() {
        testkit::skip("this kernel runs no programs of 32 bits");
        return;
    }
    let inner = dir.create("at/inner", "inner\n");
    let (outer, trace) = (dir.create("outer", "outer\n"), dir.join("trace"));
    let cat = fs::canonicalize(program("cat").expect("it is there")).expect("it is there");
    let words = [&calls, &dir.join("at"), &cat, &outer];
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--");
    words.into_iter().fold(run, testkit::Cmd::arg).run().succeeds().prints("outer\n");
    let trace = fs::read_to_string(trace).expect("recorded");
    let at = |does: &str, path: &Path| {
        let is_it =
            |line: &&str| line.starts_with("file ") && line.split(' ').nth(2) == path.to_str();
        let file = trace.lines().find(is_it).unwrap_or_else(|| panic!("{path:?}: {trace}"));
        let number = file.split(' ').nth(1).expect("a number");
        trace.lines().position(|line| {
            let words: Vec<_> = line.split(' ').collect();
            words.get(1) == Some(&does) && words.get(3) == Some(&number)
        })
    };
    let order = [at("read", &inner), at("exec", &cat), at("read", &outer)];
    assert!(order[0].is_some() && order.is_sorted(), "{order:?}: {trace}");
}
