//! `nearfirst wc` against GNU wc: the same arguments, input and locale, in the same directory,
//! must give the same output, messages and exit code.
//!
//! GNU wc before 9.5 took only what is printable for parts of words: where this machine's is older,
//! words of other bytes are compared with what 9.7 counted.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use proptest::prelude::*;
use rustix::fs::Advice;
use tempfile::TempDir;

const LOCALES: [&str; 2] = ["C", "C.UTF-8"];

/// Whether this machine's wc has all but white space for words.
static GNU_HAS_ALL_WORDS: LazyLock<bool> = LazyLock::new(|| {
    let counted = Dir::new().run("wc", "C", &owned(&["-w"]), Stdin::Pipe(b"\x01"));
    stdout(&counted).trim() == "1"
});

/// A directory to count in.
struct Dir(TempDir);

/// What standard input is.
#[derive(Clone, Copy)]
enum Stdin<'a> {
    Empty,
    Pipe(&'a [u8]),
    File(&'a str),
}

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn create(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) {
        fs::write(self.path().join(name.as_ref()), bytes).unwrap();
    }

    fn run(&self, program: &str, locale: &str, args: &[OsString], stdin: Stdin<'_>) -> Output {
        let mut command = Command::new(program);
        // Both call themselves the same in messages.
        command.arg0("wc").args(args).current_dir(self.path());
        command.env("LC_ALL", locale).env_remove("POSIXLY_CORRECT");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        match stdin {
            Stdin::Empty => command.stdin(Stdio::null()),
            Stdin::Pipe(_) => command.stdin(Stdio::piped()),
            Stdin::File(name) => command.stdin(File::open(self.path().join(name)).unwrap()),
        };
        let mut child = command.spawn().unwrap();
        if let Stdin::Pipe(bytes) = stdin {
            // A program that rejects its arguments reads nothing.
            drop(child.stdin.take().unwrap().write_all(bytes));
        }
        child.wait_with_output().unwrap()
    }

    fn ours(&self, args: &[impl AsRef<OsStr>]) -> Output {
        self.run(env!("CARGO_BIN_EXE_nearfirst"), "C.UTF-8", &owned(args), Stdin::Empty)
    }

    /// Compares with GNU wc in every locale; arguments as bytes, since names are.
    fn same_with(&self, args: &[impl AsRef<OsStr>], stdin: Stdin<'_>) {
        self.same_for_us_with(&[] as &[&str], args, stdin);
    }

    /// The same, where ours has `more` arguments in front.
    fn same_for_us_with(&self, more: &[&str], args: &[impl AsRef<OsStr>], stdin: Stdin<'_>) {
        let args = owned(args);
        let with_more = [owned(more), args.clone()].concat();
        for locale in LOCALES {
            let theirs = self.run("wc", locale, &args, stdin);
            let ours = self.run(env!("CARGO_BIN_EXE_nearfirst"), locale, &with_more, stdin);
            let text = |output: &Output| {
                format!(
                    "exit {:?}\n{}\n{}",
                    output.status.code(),
                    output.stdout.escape_ascii().to_string().replace("\\n", "\n"),
                    output.stderr.escape_ascii().to_string().replace("\\n", "\n"),
                )
            };
            assert_eq!(text(&ours), text(&theirs), "wc {args:?} in {locale}");
        }
    }

    fn same(&self, args: &[impl AsRef<OsStr>]) {
        self.same_with(args, Stdin::Empty);
    }
}

fn owned(args: &[impl AsRef<OsStr>]) -> Vec<OsString> {
    args.iter().map(|arg| arg.as_ref().to_owned()).collect()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A directory with a bit of everything.
fn some_files() -> Dir {
    let dir = Dir::new();
    dir.create("a", "one two\nthree\n");
    dir.create("empty", "");
    dir.create("open", "no newline at the end");
    dir.create("wide", "tab\tand 中文\r\x0c\x0bü e\u{301}\u{a0}nbsp\n\u{2060}\0\x01\n");
    dir.create("broken", b"\xff\xfe \xe2\x82 \xc0\x80 \xed\xa0\x80\nx\xf8\x88\x80\x80\x80y\xe2");
    dir.create("large", "some words on a line\n".repeat(60_000));
    dir.create("sp ace", "x");
    dir.create("new\nline", "y\n");
    dir.create(OsStr::from_bytes(b"not\xffutf8"), "z\n");
    fs::create_dir(dir.path().join("dir")).unwrap();
    dir
}

const FILES: [&str; 8] = ["a", "empty", "open", "large", "sp ace", "new\nline", "wide", "broken"];

/// Those whose words this machine's wc counts as we do.
fn files_of_words() -> &'static [&'static str] {
    if *GNU_HAS_ALL_WORDS { &FILES } else { &FILES[..6] }
}

/// The flags, but without the words where this machine's wc has others.
fn comparable<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let has_words = |flags: &&&str| *GNU_HAS_ALL_WORDS || !flags.contains('w');
    flags.iter().filter(has_words).copied().collect()
}

#[test]
fn counts_are_gnu_wc_s_for_every_choice_of_columns() {
    let dir = some_files();
    for choice in 0..32_u32 {
        let flags = ["-l", "-w", "-m", "-c", "-L"].into_iter().enumerate();
        let chosen: Vec<&str> =
            flags.filter(|(bit, _)| choice >> bit & 1 == 1).map(|(_, flag)| flag).collect();
        let has_words = chosen.is_empty() || chosen.contains(&"-w");
        let files = if has_words { files_of_words() } else { &FILES };
        dir.same(&[&chosen, files].concat());
    }
    dir.same(&["-lw", "-cmL", "open", "--lines"]);
    dir.same(&["--bytes", "--chars", "--lines", "--words", "--max-line-length", "open"]);
    dir.same(&["--b", "--w", "--l", "--c", "--m", "open"]);
    dir.same(&["-l", "-l", "--li", "a"]);
    dir.same(&["a", "-l"]);
}

#[test]
fn what_is_no_space_is_part_of_a_word() {
    let counts: [(&[u8], [&str; 2]); 12] = [
        (b"\x01\n", ["1 1 2 2 0", "1 1 2 2 0"]),
        (b"a\0b", ["0 1 3 3 2", "0 1 3 3 2"]),
        (b"\xff\n", ["1 1 2 2 0", "1 1 1 2 0"]),
        // A no-break space is a space in the C locale, too, also as a part of something else.
        (b"a\xa0b", ["0 2 3 3 2", "0 1 2 3 2"]),
        (b"l\xc3\xa0-bas", ["0 2 7 7 5", "0 1 6 7 6"]),
        (b"a\xc2\xa0b", ["0 2 4 4 2", "0 2 3 4 3"]),
        // Of the line separator and the next line, one is a space, and neither is printable.
        (b"a\xe2\x80\xa8b", ["0 1 5 5 2", "0 2 3 5 2"]),
        (b"a\xc2\x85b", ["0 1 4 4 2", "0 1 3 4 2"]),
        (b" \xe2\x82", ["0 1 3 3 1", "0 1 1 3 1"]),
        (b"\xe2\x82 ", ["0 1 3 3 1", "0 1 1 3 1"]),
        (b"\xed\xa0\x80", ["0 2 3 3 0", "0 1 0 3 0"]),
        (b"\xf8\x88\x80\x80\x80 \xff\xfe", ["0 2 8 8 1", "0 2 2 8 1"]),
    ];
    let dir = Dir::new();
    let args = owned(&["-lwmcL"]);
    for (text, expected) in counts {
        for (locale, expected) in LOCALES.into_iter().zip(expected) {
            let ours = env!("CARGO_BIN_EXE_nearfirst");
            for program in [Some(ours), GNU_HAS_ALL_WORDS.then_some("wc")].into_iter().flatten() {
                let output = dir.run(program, locale, &args, Stdin::Pipe(text));
                let counted: Vec<&str> = stdout(&output).split_whitespace().collect();
                let case = format!("{program}: {} in {locale}", text.escape_ascii());
                assert_eq!(counted.join(" "), expected, "{case}");
            }
        }
    }
}

#[test]
fn columns_are_as_wide_as_the_sizes_ask() {
    let dir = some_files();
    for &name in files_of_words() {
        dir.same(&[name]);
        dir.same(&["-l", name]);
        dir.same(&["-lc", name, "a"]);
    }
    dir.same(&["a", "/dev/null"]);
    dir.same(&["/dev/null"]);
    dir.same(&["-c", "/dev/null"]);
    dir.same(&["a", "missing"]);
}

#[test]
fn standard_input_is_counted_from_where_it_stands() {
    let dir = some_files();
    for args in [&[][..], &["-"], &["-l"], &["-c"], &["-lc"], &["-m"], &["-", "a"], &["-", "-"]] {
        for stdin in [
            Stdin::Empty,
            Stdin::Pipe(b""),
            Stdin::Pipe("piped ünd words\n".as_bytes()),
            Stdin::File("a"),
            Stdin::File("large"),
            Stdin::File("dir"),
        ] {
            dir.same_with(args, stdin);
        }
    }
    for args in [&["-c"][..], &["-m"], &["-lw"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        let mut file = File::open(dir.path().join("large")).unwrap();
        file.seek(std::io::SeekFrom::Start(21 * 59_999)).unwrap();
        let output = command.arg("wc").args(args).stdin(file).output().unwrap();
        let expected = if args == ["-lw"] { ["1", "5"] } else { ["21", ""] };
        let counts: Vec<&str> = stdout(&output).split_whitespace().collect();
        assert_eq!(counts.join(" "), expected.join(" ").trim_end(), "{args:?}");
    }
}

#[test]
fn who_shares_standard_input_finds_it_at_its_end() {
    let dir = some_files();
    for name in ["a", "large"] {
        for flags in ["-c", "-l", "-lw"] {
            let mut file = File::open(dir.path().join(name)).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
            let shared = file.try_clone().unwrap();
            assert!(command.args(["wc", flags]).stdin(shared).output().unwrap().status.success());
            let position = file.stream_position().unwrap();
            assert_eq!(position, file.metadata().unwrap().len(), "{name} {flags}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_done() {
    let dir = some_files();
    std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
    dir.same(&["missing"]);
    dir.same(&["missing", "a"]);
    dir.same(&["a", "missing", "large"]);
    dir.same(&["dir"]);
    dir.same(&["-c", "dir"]);
    dir.same(&["a", "dir", "large"]);
    dir.same(&["loop", "a/b", ""]);
    dir.same(&["x".repeat(300)]);
    dir.same(&["--", "-l"]);
}

#[test]
fn paths_lead_where_the_kernel_says() {
    let dir = some_files();
    dir.create("dir/inner", "x y\n");
    std::os::unix::fs::symlink("dir", dir.path().join("link")).unwrap();
    dir.same(&["dir/../a", "./a", "dir/inner", "link/inner", "link/../a", "./dir/.././a"]);
    dir.same(&["dir/../missing", "missing/../a", "a/", "a/.", "link/../dir/inner"]);
}

#[test]
fn names_are_quoted_as_gnu_wc_quotes_them() {
    let dir = Dir::new();
    let odd = "\u{1} \t!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~é中\u{a0}\u{2028}\u{301}\n";
    for first in odd.chars() {
        let mut names = vec!["--".to_owned(), format!("a{first}"), format!("{first}a")];
        // Alone it is a home folder to us, also in quotes, as in every pattern.
        names.extend((first != '~').then(|| first.to_string()));
        dir.same(&names);
        dir.same(&["--".to_owned(), format!("a{first}\nb{first}c"), format!("\n{first}'")]);
    }
    let bytes: [&[u8]; 5] =
        [b"\xff", b"a\xffb", b"\xe2\x82", b"a\xe2\x82x\xc3", b"\xf4\x90\x80\x80"];
    for name in bytes {
        dir.same(&[OsStr::from_bytes(name)]);
    }
    // In double quotes when nothing but the apostrophe asks for quotes.
    for name in ["'", "a'b", "a' b", "a'b:c", "~'", "#'", "'~", "{'", "a'\"b", "a'$b"] {
        dir.same(&[name]);
    }
}

#[test]
fn names_can_come_from_a_list() {
    let dir = some_files();
    dir.create("list", "a\0large\0missing\0dir\0sp ace");
    dir.create("with empty", "a\0\0large\0");
    dir.create("with stdin", "a\0-\0");
    dir.create("one", "a\0");
    for list in ["list", "with empty", "with stdin", "one", "empty", "missing list", "dir", "a:b"] {
        dir.same(&["--files0-from", list]);
        dir.same(&["-l", &format!("--files0-from={list}")]);
    }
    dir.same(&["--files0-from=list", "a"]);
    dir.same_with(&["--files0-from=-"], Stdin::File("list"));
    dir.same_with(&["--files0-from=-"], Stdin::File("with stdin"));
    for list in [&b""[..], b"a", b"a\0large\0", b"a\0\0-\0dir\0"] {
        dir.same_with(&["--files0-from=-"], Stdin::Pipe(list));
    }
}

#[test]
fn files_of_the_kernel_are_read_whatever_size_they_claim() {
    let dir = Dir::new();
    let files = ["/proc/version", "/proc/filesystems", "/sys/devices/system/cpu/online"];
    for flag in ["-c", "-m", "-l", "-L", "-lwc"] {
        dir.same(&[&[flag], &files[..]].concat());
        dir.same(&[flag, files[0]]);
    }
}

#[test]
fn bytes_alone_are_the_size_of_a_sparse_file() {
    let dir = Dir::new();
    for (name, size) in [("pages", 1 << 20), ("more", (1 << 20) + 1), ("terabyte", 1 << 40)] {
        File::create(dir.path().join(name)).unwrap().set_len(size).unwrap();
        dir.same(&["-c", name]);
    }
    dir.same(&["-c", "pages", "more", "terabyte"]);
    for flags in comparable(&["-lwmcL", "-lmcL"]) {
        dir.same(&[flags, "pages"]);
    }
}

#[test]
fn holes_between_data_are_counted_as_what_they_hold() {
    let dir = Dir::new();
    let file = File::create(dir.path().join("sparse")).unwrap();
    // Words, lines and characters that go on across the edges of the holes.
    file.write_all_at("one two\tüb\u{e2}\u{4e2d}".as_bytes(), 4096 * 3 - 13).unwrap();
    file.write_all_at(b" three\n", 9 << 20).unwrap();
    file.write_all_at(b"four\xe4", (15 << 20) - 5).unwrap();
    file.set_len((32 << 20) + 77).unwrap();
    for flags in comparable(&["-lwmcL", "-lmcL", "-l", "-m", "-w", "-L"]) {
        dir.same(&[flags, "sparse"]);
    }
}

#[test]
fn a_large_hole_is_counted_as_the_zeros_that_it_holds() {
    let dir = Dir::new();
    // What goes on over the edges of the hole: a word, a line, a character, columns from a tab.
    let pairs: [(&[u8], &[u8]); 6] = [
        (b"one two", b"three\n"),
        (b"ends \n", b" begins\n"),
        (b"\t\xe4\xb8", b"\xad\twide\n"),
        (b"\xe4\xb8\xad\xe2", b"\x82"),
        (b"x\t", b"\n\n"),
        (b"", b""),
    ];
    for (at, (before, after)) in (0..).zip(pairs) {
        let start = 3 * 4096 + 1000 * at;
        let file = File::create(dir.path().join("sparse")).unwrap();
        file.write_all_at(before, start).unwrap();
        file.write_all_at(after, (13 << 20) + 5 + 3000 * at).unwrap();
        file.set_len((20 << 20) + 7 * at).unwrap();
        // The hole touches what is before it, too, where both end with a page.
        file.write_all_at(before, (4096 * 5) - before.len() as u64).unwrap();
        for flags in comparable(&["-lwmcL", "-lmcL"]) {
            dir.same(&[flags, "sparse"]);
        }
    }
}

#[test]
fn holes_that_no_computer_could_read_are_counted_at_once() {
    let dir = Dir::new();
    let on_disk = TempDir::new().unwrap();
    // There holes may be so long that to go through them would take weeks.
    let in_memory = TempDir::new_in("/dev/shm");
    for folder in [Some(on_disk), in_memory.ok()].into_iter().flatten() {
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.write_all_at(b"one two", 0).unwrap();
        // As much as file systems can be asked for.
        let sizes = [i64::MAX as u64 - 4096, 1 << 50, (1 << 44) - 4096, 1 << 40];
        let size = sizes.into_iter().find(|size| file.set_len(*size).is_ok()).unwrap();
        file.sync_all().unwrap();
        let (size, path) = (size.to_string(), path.to_str().unwrap());
        for is_near in [true, false] {
            if !is_near {
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let output = dir.ours(&["-lwmc", path]);
            let counted = stdout(&output);
            let counted: Vec<_> = counted.split_whitespace().collect();
            assert_eq!(counted, ["0", "2", &size, &size, path]);
        }
    }
}

#[test]
fn stats_tell_what_was_a_hole_and_what_was_saved() {
    let dir = Dir::new();
    File::create(dir.path().join("hole")).unwrap().set_len(32 << 20).unwrap();
    dir.create("small", "read without asking\n");
    let output = dir.ours(&["--stats", "-l", "hole", "small"]);
    let said = stderr(&output);
    let how = "wc: 0 bytes in memory, 33554432 in holes, 0 fetched, 20 read without knowing";
    assert!(said.starts_with(how), "{said}");
    assert!(!said.contains("being in memory, "), "nothing was spared: {said}");
}

#[test]
fn totals_appear_when_asked_for() {
    let dir = Dir::new();
    dir.create("a", "one two\n");
    dir.create("b", "three\n");
    let out = |args: &[&str]| {
        let output = dir.ours(args);
        assert!(output.status.success());
        stdout(&output).to_owned()
    };
    assert_eq!(out(&["--total=auto", "a"]), "1 2 8 a\n");
    assert_eq!(out(&["--total=always", "a"]), "1 2 8 a\n1 2 8 total\n");
    assert_eq!(out(&["--total=never", "a", "b"]), " 1  2  8 a\n 1  1  6 b\n");
    assert_eq!(out(&["--total=only", "a", "b"]), "2 3 14\n");
    assert_eq!(out(&["--total=only", "-L", "a", "b"]), "7\n");
    let output = dir.ours(&["--total=only", "a", "missing"]);
    assert_eq!(stdout(&output), "1 2 8\n");
    assert_eq!(stderr(&output), "wc: missing: No such file or directory\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn many_files_keep_their_order_on_any_number_of_threads() {
    let dir = Dir::new();
    let mut names = Vec::new();
    for index in 0..300 {
        let name = format!("f{index}");
        if index % 7 != 0 {
            dir.create(&name, "word \n".repeat(index * 13 % 500));
        }
        names.push(name);
    }
    let expected = dir.run("wc", "C.UTF-8", &owned(&names), Stdin::Empty);
    for jobs in ["1", "2", "7"] {
        let output = dir.ours(&[&["--jobs".to_owned(), jobs.to_owned()], &names[..]].concat());
        assert_eq!(stdout(&output), stdout(&expected), "{jobs} jobs");
        assert_eq!(stderr(&output), stderr(&expected), "{jobs} jobs");
    }
}

#[test]
fn one_large_file_counts_the_same_on_any_plan() {
    let dir = some_files();
    let text = "Wörter, 中文 and\ttabs\u{a0}too; a line is\n".repeat(100_000);
    dir.create("text", &text);
    let expected = dir.run("wc", "C.UTF-8", &owned(&["-lwmcL", "text"]), Stdin::Empty);
    for plan in ["--plan=best", "--plan=linear"] {
        for jobs in ["--jobs=1", "--jobs=2", "--jobs=5"] {
            let output = dir.ours(&[plan, jobs, "-lwmcL", "text"]);
            assert_eq!(stdout(&output), stdout(&expected), "{plan} {jobs}");
        }
    }
}

#[test]
fn a_fifo_is_counted() {
    let dir = Dir::new();
    dir.create("a", "x\n");
    let made = Command::new("mkfifo").arg("fifo").current_dir(dir.path()).status().unwrap();
    assert!(made.success());
    let fifo = dir.path().join("fifo");
    let writer = std::thread::spawn(move || fs::write(fifo, "one two\n").unwrap());
    let output = dir.ours(&["fifo", "a"]);
    writer.join().unwrap();
    assert_eq!(
        stdout(&output),
        "      1       2       8 fifo\n      1       1       2 a\n      2       3      10 total\n"
    );
}

#[test]
fn a_closed_output_ends_the_run_quietly() {
    let dir = Dir::new();
    dir.create("a", "x\n");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_nearfirst"))
        .args(["wc", "a", "a"])
        .current_dir(dir.path())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(stderr(&output), "");
    assert_eq!(output.status.code(), Some(141), "as a shell says of a program that SIGPIPE ended");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nearfirst"))
        .args(["wc", "/dev/null"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(stderr(&output), "nearfirst wc: write error: No space left on device\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn without_an_order_a_pipe_that_is_named_twice_is_counted_once() {
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let args = owned(&["-l", "--unordered", "-", "-"]);
    let text = b"a line\n".repeat(1 << 16);
    let counted = Dir::new().run(program, "C", &args, Stdin::Pipe(&text));
    let mut lines: Vec<&str> = stdout(&counted).lines().map(str::trim_start).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 -", "65536 -", "65536 total"]);
}

#[test]
fn what_is_all_in_memory_needs_no_device_table_but_for_times() {
    let state = Dir::new();
    state.create("devices.toml", "this is no table");
    // What lies there is always in memory.
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    file.write_all(&b"a line\n".repeat(1 << 18)).unwrap();
    let counted = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        let command = command.args(arguments).arg(file.path());
        command.env("NEARFIRST_STATE", state.path()).output().unwrap()
    };
    assert_eq!(stderr(&counted(&["wc", "-l"])), "");
    assert_eq!(stderr(&counted(&["grep", "-c", "line"])), "");
    let told = counted(&["wc", "-l", "--stats"]);
    assert!(stderr(&told).contains("devices.toml"), "{}", stderr(&told));
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[ -~\t\n]{0,40}".prop_map(String::into_bytes),
        any::<char>().prop_map(|character| character.to_string().into_bytes()),
        any::<[u8; 3]>().prop_map(Vec::from),
        proptest::sample::select(b"x \n\t\r\x0c\0\xe2\x80".to_vec())
            .prop_flat_map(|byte| (1..300_usize).prop_map(move |length| vec![byte; length])),
    ];
    proptest::collection::vec(piece, 0..50).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn counts_of_generated_texts_are_gnu_wc_s(
        texts in proptest::collection::vec(contents(), 1..20),
        words in "[ -~\t\n\x0b\x0c\r]{0,400}",
        chunk in 1..5000_usize,
    ) {
        let dir = Dir::new();
        let names: Vec<String> = (0..texts.len()).map(|index| index.to_string()).collect();
        for (name, text) in names.iter().zip(&texts) {
            dir.create(name, text);
        }
        dir.create("words", words);
        dir.same_for_us_with(&[&format!("--in-chunks={chunk}")], &["-lwmcL", "words"], Stdin::Empty);
        for flags in comparable(&["-lwmcL", "-lmcL", "-m", "-w"]) {
            let args = [&[flags.to_owned()], &names[..]].concat();
            dir.same(&args);
            dir.same_for_us_with(&[&format!("--in-chunks={chunk}")], &args, Stdin::Empty);
        }
    }
}
