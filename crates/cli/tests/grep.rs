//! `nearfirst grep` through the built program: against ripgrep where it is
//! installed, and against fixed expectations everywhere.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "a test may panic, and be slow about its texts"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use proptest::prelude::*;
use tempfile::TempDir;
use testkit::{Facility, skip_unless};

/// What a program printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    code: Option<i32>,
    stdout: Vec<u8>,
}

/// A folder to search in.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn with(self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Folder {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn run(&self, program: &Path, first: &[&str], args: &[&str]) -> (Said, String) {
        let mut command = Command::new(program);
        command
            .args(first)
            .args(args)
            .current_dir(self.0.path())
            .env_remove("RIPGREP_CONFIG_PATH")
            .stdin(Stdio::null());
        let out = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        (Said { code: out.status.code(), stdout: out.stdout }, stderr)
    }

    /// `nearfirst grep` with `args`.
    fn grep(&self, args: &[&str]) -> (Said, String) {
        self.run(Path::new(env!("CARGO_BIN_EXE_nearfirst")), &["grep"], args)
    }

    /// What `nearfirst grep` prints, and its exit code.
    fn found(&self, args: &[&str]) -> (String, i32) {
        let (said, _) = self.grep(args);
        (String::from_utf8_lossy(&said.stdout).into_owned(), said.code.unwrap())
    }

    /// Checks that ripgrep says the same, in whole files and in chunks.
    fn same_as_ripgrep(&self, args: &[&str]) {
        let Some(rg) = ripgrep() else { return };
        let (expected, _) = self.run(&rg, &[], args);
        let expected = without_times(expected);
        for chunk in [None, Some("1"), Some("7"), Some("64"), Some("1K")] {
            let chunk: Vec<&str> = chunk.into_iter().flat_map(|size| ["--chunk", size]).collect();
            let (said, stderr) = self.grep(&[&chunk, args].concat());
            let said = without_times(said);
            assert!(
                said == expected,
                "{chunk:?} {args:?}\nripgrep {:?}:\n{}\nnearfirst {:?}:\n{}\n{stderr}",
                expected.code,
                expected.stdout.as_slice().escape_ascii(),
                said.code,
                said.stdout.as_slice().escape_ascii()
            );
        }
    }
}

/// Text with holes of `hole` bytes between its pieces.
fn sparse(path: &Path, hole: u64, pieces: &[&str]) {
    let file = fs::File::create_new(path).unwrap();
    let mut at = 0;
    for piece in pieces {
        file.write_all_at(piece.as_bytes(), at).unwrap();
        at += piece.len() as u64 + hole;
    }
    file.set_len(at).unwrap();
}

#[test]
fn records_that_end_in_nul_are_shown_by_what_is_before_them() {
    let folder = Folder::new().with("text", "\0foo");
    folder.same_as_ripgrep(&["--null-data", "--column", "^", "text"]);
    folder.same_as_ripgrep(&["--null-data", "-o", r"\Afoo", "text"]);
}

#[test]
fn lines_where_a_mark_could_be_are_searched_before_a_file_is_binary() {
    let folder = Folder::new()
        .with("in/one", "1\nfoo\n\0x\n")
        .with("in/two", "1x\nfoo\n\0x\n")
        .with("in/three", "1xx\nfoo\n\0x\n");
    for args in [&["1", "in"][..], &["-l", "1", "in"], &["-c", "1", "in"], &["foo", "in"]] {
        let args = [&["--sort=path"], args].concat();
        if let Some(rg) = ripgrep() {
            assert_eq!(folder.grep(&args).0, folder.run(&rg, &[], &args).0, "{args:?}");
        }
    }
    assert_eq!(folder.found(&["--sort=path", "-l", "1", "in"]).0, "in/one\nin/two\n");
}

#[test]
fn context_that_is_not_kept_is_read_again() {
    let line = |n: usize| if n % 4000 == 3999 { "a match\n".into() } else { format!("line {n}\n") };
    let text = (0..20_000).map(line).collect::<String>();
    let folder = Folder::new().with("text", &text).with("long", text.repeat(30));
    let numbered = |lines: std::ops::Range<usize>| lines.map(line).collect::<String>();
    // Nothing of the edges of chunks that wait for their turn is kept.
    for chunk in ["--chunk=100", "--chunk=10K"] {
        let args = [chunk, "--budget=1", "-j4", "-N"];
        let found = |more: &[&str]| folder.found(&[&args, more, &["a match", "text"]].concat()).0;
        assert_eq!(found(&["-m1", "-A3000"]), numbered(3999..7000));
        assert_eq!(found(&["-m1", "-B3000"]), numbered(999..4000));
        assert_eq!(found(&["-C100000"]), text);
    }
    // Nor is what is more than a few MiB before a match.
    let (out, code) = folder.found(&["-N", "-B10000000", "--no-unicode", "line 19998", "long"]);
    let last = text.repeat(30);
    let end = last.rfind("a match").unwrap();
    assert!(out == last[..end] && code == 0, "{} bytes", out.len());
    folder.same_as_ripgrep(&["-n", "-B9000", "-A2000", "a match", "text"]);
    folder.same_as_ripgrep(&["-n", "-b", "-m3", "-C5000", "a match", "text"]);
}

#[test]
fn in_one_thread_only_lines_have_a_separator_before_them() {
    let folder = Folder::new().with("a", "line\n").with("b", "x\n\0\nline\n").with("c", "line\n");
    let said = "b: binary file matches (found \"\\0\" byte around offset 2)\n";
    let found = |args: &[&str]| folder.found(&[args, &["line", "a", "b", "c"]].concat());
    let one_after_another = (format!("a\nline\n{said}\nc\nline\n"), 0);
    assert_eq!(found(&["--sort=path", "--heading"]), one_after_another);
    assert_eq!(found(&["-j1", "--heading"]), one_after_another);
    // In chunks, too.
    assert_eq!(found(&["-j1", "--heading", "--chunk=2"]), one_after_another);
    assert_eq!(found(&["-j1", "-A1"]), (format!("a:line\n{said}--\nc:line\n"), 0));
    let (several, code) = folder.found(&["-j2", "--heading", "line", "a", "b"]);
    assert!(several.contains("\n\n"), "{several}");
    assert_eq!(code, 0);
}

#[test]
fn a_nul_byte_anywhere_ends_a_large_file_that_is_not_mapped() {
    let line = "line foo bar\n";
    let folder = Folder::new()
        .with("late", [&line.repeat(700_000), "\0\n", &"none\n".repeat(10), line].concat())
        .with("end", [&line.repeat(700_000), "\0\n"].concat())
        .with("first", ["a\0foo foo\n", &line.repeat(700_000)].concat());
    // A device among the files, and ripgrep maps none of them.
    for file in ["late", "end", "first"] {
        let (out, code) = folder.found(&["-I", "foo", file, "/dev/null"]);
        let offset = if file == "first" { 1 } else { 9_100_000 };
        let last = format!("binary file matches (found \"\\0\" byte around offset {offset})\n");
        assert!(out.ends_with(&last), "{file}: {}", &out[out.len() - 200..]);
        // Nothing of the block of 64 KiB with the byte, or after it.
        let lines = if file == "first" { 0 } else { 9_100_000 / 65536 * 65536 / line.len() };
        assert_eq!((out.lines().count(), code), (lines + 1, 0), "{file}");
        let mapped = folder.found(&["-I", "foo", file]).0;
        let lines = if file == "first" { 1 } else { 700_001 - usize::from(file == "end") };
        assert!(mapped.lines().count() == lines, "{file}: {}", mapped.lines().count());
    }
    let none = folder.found(&["none", "late", "/dev/null"]);
    let said = "late: binary file matches (found \"\\0\" byte around offset 9100000)\n";
    assert_eq!(none, (said.into(), 0));
    assert_eq!(folder.found(&["absent", "late", "/dev/null"]), (String::new(), 1));
    let stats = folder.found(&["--stats", "foo", "first", "/dev/null"]).0;
    assert!(stats.contains("\n2 matches\n1 matched lines\n1 files contained"), "{stats}");
    let stats = folder.found(&["--stats", "foo", "first"]).0;
    assert!(stats.contains("\n2 matches\n1 matched lines\n1 files contained"), "{stats}");
}

#[test]
fn a_search_that_ends_before_a_nul_byte_does_not_know_of_it() {
    let near = ["none\n".repeat(1_800_000), "foo\n".repeat(3), "none\n".repeat(20_000)].concat();
    let folder = Folder::new()
        .with("near", [&near, "a\0b\nfoo\n"].concat())
        .with("both", ["a\0b\n", &near, "a\0b\nfoo\n"].concat())
        // Where ripgrep reads, the byte ends a line.
        .with("anchors", ["none xx\n".repeat(1_200_000).as_str(), "a\0foo\n"].concat());
    let Some(rg) = ripgrep() else { return };
    let all = [
        &["-m3", "foo", "near"][..],
        &["-m4", "foo", "near"],
        &["-v", "-m3", "none", "near"],
        &["-m3", "-A3", "foo", "near"],
        &["-c", "foo", "near"],
        &["-m3", "-c", "foo", "near"],
        &["foo", "both"],
        &["^foo", "anchors"],
        &["a$", "anchors"],
        &["xx.foo|a.foo", "anchors"],
        &["-l", "^foo", "anchors"],
        &["-q", "^foo", "anchors"],
        &["-c", "^foo", "anchors"],
        &["-c", "a.foo", "anchors"],
    ];
    for args in all {
        let args = [args, &["/dev/null"]].concat();
        assert_eq!(folder.grep(&args).0, folder.run(&rg, &[], &args).0, "{args:?}");
    }
    let counted = |args: &[&str]| {
        let out = folder.found(args).0;
        let lines = out.lines().filter(|line| line.ends_with("matches") || line.ends_with("lines"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let stats = ["--stats", "foo", "both", "/dev/null"];
    assert_eq!(counted(&stats), ["1 matches", "1 matched lines", "1 files contained matches"]);
    let stats = ["--stats", "-m1", "foo", "near", "/dev/null"];
    assert_eq!(counted(&stats), ["1 matches", "1 matched lines", "1 files contained matches"]);
}

#[test]
fn lines_are_searched_one_by_one_where_no_match_spans_them() {
    let text = ["line foo bar\n".repeat(12_000).as_str(), "\0"].concat();
    let folder = Folder::new().with("in/f", text);
    let Some(rg) = ripgrep() else { return };
    for args in [
        &["-U", "foo", "in"][..],
        &["-U", "-c", "foo", "in"],
        &["-U", "-c", "foo\\n*", "in"],
        &["-U", "--binary", "foo", "in"],
        &["-U", "--no-mmap", "foo", "in/f"],
        &["-U", "foo", "in/f", "/dev/null"],
        &["-UP", "-c", "foo", "in"],
    ] {
        assert_eq!(folder.grep(args).0, folder.run(&rg, &[], args).0, "{args:?}");
    }
}

#[test]
fn a_wrong_type_or_glob_is_an_error_though_nothing_can_match() {
    let folder = Folder::new().with("f", "x");
    for args in [&["-t", "bogus", "-f", "/dev/null", "."][..], &["-m0", "-g", "[", "x", "."]] {
        assert_eq!(folder.found(args), (String::new(), 2), "{args:?}");
    }
}

#[test]
fn filters_choose_among_what_a_pattern_names_and_not_what_was_named() {
    let folder = Folder::new();
    let folder =
        folder.with("logs/a.log", "x\n").with("logs/b.gz", "x\ny\n").with("[x].log", "x\n");
    let folder = folder.with("logs/below/c.gz", "x\n").with("logs/below/d.log", "x\n");
    for (filter, pattern, found) in [
        (&["-g*.gz"][..], "logs/*", "logs/b.gz\nlogs/below/c.gz\n"),
        (&["-g!below"], "logs/*", "logs/a.log\nlogs/b.gz\n"),
        (&["-g!below"], "logs/**/*", "logs/a.log\nlogs/b.gz\n"),
        (&["-g!below/", "-g!a.*"], "./**/*.{gz,log}", "./logs/b.gz\n./[x].log\n"),
        (&["-g!below", "-g!logs"], "logs/below/*", "logs/below/c.gz\nlogs/below/d.log\n"),
        (&["-g!.*", "-g!logs"], "./{logs/b.*,*}", "./logs/b.gz\n./[x].log\n"),
        (&["-tlog"], "logs/{*.gz,*.log}", "logs/a.log\n"),
        (&["-Tlog", "-g*.log"], "logs/**/*", "logs/a.log\nlogs/below/d.log\n"),
        (&["--max-filesize=3"], "logs/?.*", "logs/a.log\n"),
        (&["-g*.gz"], "logs/a.log", "logs/a.log\n"),
        (&["-g*.gz"], "logs/{a,b}.log", "logs/a.log\n"),
        (&["-g*.gz"], "[x].log", "[x].log\n"),
    ] {
        let args = [&["-l", "--sort=path", "x"], filter, &[pattern]].concat();
        assert_eq!(folder.found(&args).0, found, "{args:?}");
    }
}

#[test]
fn holes_are_passed_over_where_that_makes_no_difference() {
    const TIB: u64 = 1 << 40;
    let folder = Folder::new();
    let pieces = ["one\nneedle\ntwo", "needle three\n", "", "\nfour\nneedle", "\nfive\n"];
    sparse(&folder.0.path().join("huge"), TIB, &pieces);
    // Reading so many zeros would take longer than anybody waits.
    assert_eq!(folder.found(&["-c", "needle", "huge"]), ("3\n".into(), 0));
    assert_eq!(folder.found(&["-c", "-v", "-a", "needle", "huge"]), ("5\n".into(), 0));
    assert_eq!(folder.found(&["--count-matches", "e", "huge"]), ("13\n".into(), 0));
    assert_eq!(folder.found(&["-l", "five", "."]), (String::new(), 1), "a binary file is left");
    // Only a line that is printed has its zeros written.
    assert_eq!(folder.found(&["-an", "five", "huge"]), ("7:five\n".into(), 0));
    let offset = 3 * TIB + 28;
    assert_eq!(folder.found(&["-anb", "four", "huge"]), (format!("5:{offset}:four\n"), 0));
    assert_eq!(folder.found(&["-anA1", "one", "huge"]), ("1:one\n2-needle\n".into(), 0));
    let column = TIB + 4;
    let matches = format!("2:1:needle\n3:{column}:needle\n6:1:needle\n");
    assert_eq!(folder.found(&["-ao", "--column", "needle", "huge"]), (matches, 0));
    assert_eq!(folder.found(&["-anP", "fi[v]e", "huge"]), ("7:five\n".into(), 0));
    assert_eq!(
        folder.found(&["-aM20", "three", "huge"]),
        ("[Omitted long matching line]\n".into(), 0)
    );
    // Nor are they read where the line is beside one that is printed.
    let beside = "4-[Omitted long context line]\n5:four\n6-[Omitted long context line]\n";
    assert_eq!(folder.found(&["-anM20", "-C1", "four", "huge"]), (beside.into(), 0));
    assert_eq!(folder.found(&["-anM20", "-m1", "-C1", "four", "huge"]), (beside.into(), 0));
    let before = "2-needle\n3-[Omitted long context line]\n4-[Omitted long context line]\n5:four\n";
    assert_eq!(folder.found(&["-anM20", "-B3", "four", "huge"]), (before.into(), 0));
    let after = "1-one\n2:needle\n3:[Omitted long matching line]\n4-[Omitted long context line]\n";
    assert_eq!(folder.found(&["-anM20", "-m1", "-C2", "needle", "huge"]), (after.into(), 0));
    assert_eq!(folder.found(&["-c", "-m1", "-A2", "needle", "huge"]), ("2\n".into(), 0));
    let column = TIB + 4;
    let unselected = format!("2:needle\n3-{column}-[Omitted long line with 1 matches]\n");
    let (lines, _) = folder.found(&["-avnM20", "--column", "-C1", "needle t", "huge"]);
    assert!(lines.contains(&unselected), "{lines}");
    let (json, code) = folder.found(&["--json", "-a", "four", "huge"]);
    assert!(json.contains(&format!("\"line_number\":5,\"absolute_offset\":{offset},")), "{json}");
    assert_eq!(code, 0);
    // Where NUL bytes end lines, each of a hole's is one.
    let line = TIB + 1;
    assert_eq!(
        folder.found(&["--null-data", "-no", "three", "huge"]),
        (format!("{line}:three\0"), 0)
    );
    assert_eq!(folder.found(&["--null-data", "-c", "needle", "huge"]), ("3\0".into(), 0));
    let binary = "binary file matches (found \"\\0\" byte around offset 14)\n";
    assert_eq!(folder.found(&["needle", "huge"]), (binary.into(), 0));
    let far = Folder::new();
    let head = "a line\n".repeat(20_000);
    sparse(&far.0.path().join("huge"), TIB, &[&head, "x\nneedle", "y\n"]);
    let offset = head.len() as u64 + TIB + 8;
    let said = format!("binary file matches (found \"\\0\" byte around offset {offset})\n");
    assert_eq!(far.found(&["needle", "huge"]), (said, 0));
}

#[test]
fn as_ripgrep_on_files_of_holes() {
    let Some(rg) = ripgrep() else { return };
    let hole = 14 << 20;
    let head = "some line\n".repeat(10_000);
    let long_head = [&head, "needle in front\nend"].concat();
    for pieces in [
        ["one\nneedle\ntwo", "needle three\n", "", "\nfour\nneedle", "\nfive\n"],
        ["", "needle\n", "\n\n", "end\n", "needle"],
        [&long_head, "needle\n", &head, "end", "\nneedle end\n"],
    ] {
        let folder = Folder::new();
        sparse(&folder.0.path().join("holes"), hole, &pieces);
        let named = ["-v", "-c", "-q", "-bo", "-ow", "-x", "-m2", "-ac", "-avc", "-vm3", "-cm2"];
        let found = ["-v", "-c", "-n", "-l"];
        let cases = named.map(|flag| (flag, "holes")).into_iter();
        let cases: Vec<_> = cases.chain(found.map(|flag| (flag, "."))).collect();
        for pattern in [r"needle|\bend\b", "^needle"] {
            for (flag, place) in &cases {
                let args = [flag, pattern, place];
                let (expected, _) = folder.run(&rg, &[], &args);
                let (said, stderr) = folder.grep(&args);
                assert_eq!(said, expected, "{args:?} {stderr}");
            }
        }
    }
}

#[test]
fn as_ripgrep_on_lines_that_go_on_over_holes() {
    let Some(rg) = ripgrep() else { return };
    let folder = Folder::new();
    let pieces = ["one\nneedle\ntwo", "needle three\n", "", "\nfour\nneedle", "\nfive\n"];
    sparse(&folder.0.path().join("holes"), 14 << 20, &pieces);
    for (flags, pattern) in [
        (&["-an"][..], "needle"),
        (&["-ao", "--column"], "needle"),
        (&["--color=always", "-a"], "three"),
        (&["-aM9"], "needle"),
        (&["-aPb"], "one|four"),
        (&["-aC1"], "one|five"),
        (&["-anC1"], "four"),
        (&["-anB3"], "four|five"),
        (&["-anM9", "-m1", "-C2"], "needle"),
        (&["-am2", "-A3"], "needle"),
        (&["-avnC1", "--color=always"], "two|e"),
        (&["-cm1", "-A2"], "needle"),
        (&["-C1"], "four"),
        (&["-ab", "-m1", "-A2"], "one"),
        (&["--null-data", "-n"], "three"),
        (&["--null-data", "-C1"], "four"),
        (&["--null-data", "-oP"], "needle"),
    ] {
        let args = [flags, &[pattern, "holes"]].concat();
        let (expected, _) = folder.run(&rg, &[], &args);
        let (said, stderr) = folder.grep(&args);
        assert!(said == expected, "{args:?} {stderr} {:?}", (said.code, said.stdout.len()));
    }
}

/// Without what differs from run to run in JSON messages.
fn without_times(said: Said) -> Said {
    if !said.stdout.starts_with(b"{\"type\":") && !said.stdout.starts_with(b"{\"data\":") {
        return said;
    }
    let mut stdout = Vec::new();
    for line in said.stdout.split_inclusive(|byte| *byte == b'\n') {
        let mut message: serde_json::Value = serde_json::from_slice(line).unwrap();
        for place in ["/data/stats/elapsed", "/data/elapsed_total"] {
            if let Some(time) = message.pointer_mut(place) {
                *time = serde_json::Value::Null;
            }
        }
        writeln!(stdout, "{message}").unwrap();
    }
    Said { stdout, ..said }
}

/// The ripgrep to compare with: `$NEARFIRST_RG`, or the `rg` that is installed; others than ripgrep 15
/// answer otherwise here and there.
fn ripgrep() -> Option<PathBuf> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let given = std::env::var_os("NEARFIRST_RG").map(PathBuf::from);
        let found = given.filter(|path| path.is_file()).or_else(|| testkit::program("rg"));
        let is_15 = |path: &PathBuf| {
            let version = Command::new(path).arg("--version").output().unwrap();
            version.stdout.starts_with(b"ripgrep 15.")
        };
        let found = found.filter(is_15);
        if found.is_none() {
            testkit::skip("ripgrep 15 is not installed: no test of grep compares with it");
        }
        found
    });
    FOUND.clone()
}

const POEM: &str = "The fog comes\non little cat feet.\n\nIt sits looking\nover harbor and city\n\
                    on silent haunches\nand then moves on.\n";

fn poem() -> Folder {
    Folder::new().with("poem", POEM)
}

#[test]
fn lines_of_one_file() {
    let folder = poem();
    assert_eq!(
        folder.found(&["on ", "poem"]),
        ("on little cat feet.\non silent haunches\n".into(), 0)
    );
    assert_eq!(folder.found(&["-n", "moves", "poem"]), ("7:and then moves on.\n".into(), 0));
    assert_eq!(folder.found(&["-c", "on", "poem"]), ("3\n".into(), 0));
    assert_eq!(folder.found(&["-vc", "on", "poem"]), ("4\n".into(), 0));
    assert_eq!(
        folder.found(&["-ob", "c[a-z]+", "poem"]),
        ("8:comes\n24:cat\n67:city\n86:ches\n".into(), 0)
    );
    assert_eq!(folder.found(&["dog", "poem"]), (String::new(), 1));
}

#[test]
fn chunks_know_their_line_numbers() {
    let folder = poem();
    for chunk in ["1", "20", "1M"] {
        let args = ["--chunk", chunk, "-n", "-C1", "sits|moves", "poem"];
        let expected = "3-\n4:It sits looking\n5-over harbor and city\n6-on silent haunches\n\
                        7:and then moves on.\n";
        assert_eq!(folder.found(&args), (expected.into(), 0));
        let args = ["--chunk", chunk, "-A1", "fog|sits", "poem"];
        let expected =
            "The fog comes\non little cat feet.\n--\nIt sits looking\nover harbor and city\n";
        assert_eq!(folder.found(&args), (expected.into(), 0));
    }
}

#[test]
fn one_bad_file_does_not_end_a_run() {
    let folder = poem();
    let (said, stderr) = folder.grep(&["fog", "missing", "poem"]);
    assert_eq!(said.code, Some(2));
    assert_eq!(said.stdout, b"poem:The fog comes\n");
    assert_eq!(stderr, "nearfirst grep: missing: No such file or directory\n");
    let (_, stderr) = folder.grep(&["-f", "missing", "poem"]);
    assert_eq!(stderr, "nearfirst grep: missing: No such file or directory\n");
    let (said, stderr) = folder.grep(&["--no-messages", "fog", "missing", "poem"]);
    assert_eq!((said.code, stderr.as_str()), (Some(2), ""));
    assert_eq!(folder.grep(&["-q", "fog", "missing", "poem"]).0.code, Some(0));
}

#[test]
fn folders_leave_out_what_is_ignored_hidden_or_binary() {
    let folder = Folder::new()
        .with("a/seen", "needle\n")
        .with("a/.hidden", "needle\n")
        .with("a/skipped.log", "needle\n")
        .with("a/binary", b"needle\0\n")
        .with(".ignore", "*.log\n");
    assert_eq!(folder.found(&["needle"]), ("a/seen:needle\n".into(), 0));
    assert_eq!(
        folder.found(&["--sort=path", "-uu", "needle"]),
        ("a/.hidden:needle\na/seen:needle\na/skipped.log:needle\n".into(), 0)
    );
    assert_eq!(
        folder.found(&["needle", "a/binary"]),
        ("binary file matches (found \"\\0\" byte around offset 6)\n".into(), 0)
    );
    assert_eq!(
        folder.found(&["--files", "--sort", "path", "--hidden"]),
        (".ignore\na/.hidden\na/binary\na/seen\n".into(), 0)
    );
    // The last of those that say what to do wins.
    assert_eq!(folder.found(&["--files", "-l", "needle"]), ("a/seen\n".into(), 0));
    assert_eq!(folder.found(&["-l", "--files", "a"]).0.lines().count(), 2);
}

#[test]
fn the_last_of_two_opposites_wins() {
    let folder = poem();
    let said = |flags: &[&str]| folder.found(&[flags, &["fog", "poem"]].concat()).0;
    assert_eq!(said(&["-n", "-N"]), "The fog comes\n");
    assert_eq!(said(&["-N", "-n"]), "1:The fog comes\n");
    assert_eq!(said(&["-H", "-I"]), "The fog comes\n");
    assert_eq!(said(&["-c", "-l"]), "poem\n");
    assert_eq!(said(&["-l", "-c"]), "1\n");
    assert_eq!(said(&["-v", "--no-invert-match"]), "The fog comes\n");
}

#[test]
fn names_that_are_not_text() {
    let name = OsStr::from_bytes(b"n\xFFme\nline");
    let folder = Folder::new().with(name, "needle\n");
    let (said, _) = folder.grep(&["needle"]);
    assert_eq!(said.stdout, b"n\xFFme\nline:needle\n");
    let (said, _) = folder.grep(&["--json", "needle"]);
    let first = said.stdout.split(|byte| *byte == b'\n').next().unwrap();
    assert_eq!(first, br#"{"type":"begin","data":{"path":{"bytes":"bv9tZQpsaW5l"}}}"#);
    // Programs open what it says.
    let folder = Folder::new().with("text", "needle\n");
    let (json, _) = folder.found(&["--json", "--path-separator=|", "needle", "./text"]);
    assert!(json.starts_with(r#"{"type":"begin","data":{"path":{"text":"./text"}}}"#), "{json}");
}

#[test]
fn standard_input_is_searched_if_it_is_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nearfirst"))
        .args(["grep", "-n", "two"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.stdout, b"2:two\n");
}

#[test]
fn a_closed_pipe_ends_a_run_quietly() {
    let many = "needle\n".repeat(1 << 18);
    let folder = Folder::new().with("many", &many).with("more", &many);
    for args in [&["--chunk=1K", "many"][..], &["--chunk=1G", "many"], &["many", "more"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nearfirst"))
            .args(["grep", "needle"])
            .args(args)
            .current_dir(folder.0.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stderr), "");
        assert!(out.status.success(), "something was found: {:?}", out.status);
    }
}

#[test]
fn output_that_cannot_be_written_is_said_once_and_no_file_is_blamed() {
    let folder = Folder::new().with("one", "needle\n").with("two", "needle\n");
    for args in [
        ["--chunk=1G", "--jobs=1"],
        ["--chunk=1K", "--jobs=1"],
        ["--chunk=1G", "--jobs=2"],
        ["--json", "--jobs=2"],
        ["--stats", "-q"],
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_nearfirst"))
            .arg("grep")
            .args(args)
            .args(["needle", "one", "two"])
            .current_dir(folder.0.path())
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(said, "nearfirst grep: standard output: No space left on device\n");
        assert_eq!(out.status.code(), Some(2));
    }
}

#[test]
fn results_wait_on_disk_if_memory_does_not_hold_them() {
    let text: String = (0..5000).map(|line| format!("needle {line}\n")).collect();
    let folder = Folder::new().with("text", &text);
    let args = ["--chunk", "100", "--budget", "1", "--jobs", "4", "needle", "text"];
    assert_eq!(folder.found(&args), (text, 0));
}

#[test]
fn files_that_are_not_in_memory_are_searched_too() {
    let mut folder = Folder::new();
    for name in 0..40 {
        folder = folder.with(format!("d/{name:02}"), format!("needle {name}\n"));
    }
    for name in (0..40).step_by(2) {
        let file = fs::File::open(folder.0.path().join(format!("d/{name:02}"))).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    let (near_first, code) = folder.found(&["needle"]);
    assert_eq!(code, 0);
    let mut lines: Vec<&str> = near_first.lines().collect();
    lines.sort_unstable();
    let (sorted, _) = folder.found(&["--sort=path", "needle"]);
    assert_eq!(lines, sorted.lines().collect::<Vec<_>>());
    assert_eq!(folder.found(&["-q", "needle 38"]), (String::new(), 0));
}

#[test]
fn unordered_prints_the_same_lines() {
    let text: String = (0..5000).map(|line| format!("needle {line}\n")).collect();
    let folder = Folder::new().with("text", &text);
    let (out, code) = folder.found(&["--chunk", "100", "--unordered", "needle", "text"]);
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_by_key(|line| line["needle ".len()..].parse::<u32>().unwrap());
    assert_eq!(lines, text.lines().collect::<Vec<_>>());
    assert_eq!(code, 0);
    let (out, _) = folder.found(&["--chunk", "100", "--unordered", "-m3", "needle", "text"]);
    assert_eq!(out.lines().count(), 3);
}

#[test]
fn a_file_that_is_searched_at_once_is_not_copied() {
    let folder = Folder::new().with("text", "fog\nfrog\n");
    let path = folder.0.path().join("text");
    fs::File::options().write(true).open(path).unwrap().set_len(64 << 20).unwrap();
    // Room in memory of its own for less than that.
    let limited = "ulimit -d 32768; exec \"$0\" grep -U --text -c 'fog\nfrog' text";
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let (said, stderr) = folder.run(Path::new("sh"), &["-c", limited, program], &[]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "1\n", "{stderr}");
}

#[test]
fn stats_say_what_was_near() {
    let folder = poem();
    let (said, stderr) = folder.grep(&["--chunk", "16", "--stats", "fog", "poem"]);
    let stdout = String::from_utf8(said.stdout).unwrap();
    let counts = "\n1 matches\n1 matched lines\n1 files contained matches\n1 files searched\n";
    assert!(stdout.contains(counts), "{stdout}");
    assert!(stdout.contains(&format!("\n{} bytes searched\n", POEM.len())), "{stdout}");
    assert!(stderr.contains(" bytes in memory, "), "{stderr}");
    assert!(stderr.contains(" bytes were not read from the device, "), "{stderr}");
}

#[test]
fn stats_count_no_hole_as_saved() {
    let folder = Folder::new();
    let path = folder.0.path().join("holes");
    // Holes that are passed over, and small ones that are read.
    sparse(&path, 512 << 10, &["fog\n"; 4]);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(200 << 20).unwrap();
    let (_, stderr) = folder.grep(&["--stats", "-c", "fog", "holes"]);
    let (_, saved) = stderr.split_once("being in memory, ").unwrap();
    let (bytes, _) = saved.split_once(" bytes").unwrap();
    let allocated = file.metadata().unwrap().blocks() * 512;
    let bytes = bytes.parse::<u64>().unwrap();
    assert!(bytes <= allocated, "{allocated}: {stderr}");
    // In a file system that is kept in memory nothing would be read from a device.
    assert!(bytes > 0 || testkit::lies_in_memory(&path), "{stderr}");
}

#[test]
fn stats_count_what_was_read_however_small() {
    let folder = Folder::new().with("a", "fog\n".repeat(3)).with("sub/b", "fog\n".repeat(100_000));
    let bytes = 12 + 400_000;
    for args in [
        &["--stats", "fog"][..],
        &["--stats", "-U", "fog"],
        &["--stats", "-j1", "fog", "a", "sub/b"],
        &["--stats", "--json", "fog"],
        &["--stats", "-E", "utf-8", "fog"],
    ] {
        let (_, stderr) = folder.grep(args);
        let how = format!("0 bytes in memory, 0 in holes, 0 fetched, {bytes} read without knowing");
        assert!(stderr.contains(&how), "{args:?}: {stderr}");
        assert!(!stderr.contains("being in memory, "), "nothing was spared: {args:?}: {stderr}");
    }
    assert_eq!(folder.grep(&["--json", "fog"]).1, "");
}

#[test]
fn results_of_a_file_that_nothing_holds_are_found_again() {
    skip_unless!(Facility::Root);
    let folder = Folder::new().with("many", "needle\n".repeat(1 << 20));
    let path = folder.0.path().join("many");
    testkit::evict(&path);
    // What is near comes first, and must wait for what is printed before it.
    testkit::make_near(&path, 4 << 20..7 << 20);
    // A folder that is there, and takes no file.
    let args = ["--chunk=64K", "--budget=0", "--spill=/proc", "needle", "many"];
    let (said, stderr) = folder.grep(&args);
    assert!(said.code == Some(0) && said.stdout == b"needle\n".repeat(1 << 20), "{stderr}");
    assert_eq!(stderr.matches("/proc: no room for results").count(), 1, "{stderr}");
}

#[test]
fn a_pattern_that_cannot_be_understood() {
    let folder = poem();
    let (said, stderr) = folder.grep(&["a(", "poem"]);
    assert_eq!(said.code, Some(2));
    assert!(stderr.contains("unclosed group"), "{stderr}");
    let (said, stderr) = folder.grep(&["(?<=a)b", "poem"]);
    assert_eq!(said.code, Some(2));
    assert!(stderr.contains("--pcre2"), "{stderr}");
}

#[test]
fn special_files() {
    let folder = poem();
    assert_eq!(folder.found(&["-q", "^Pid", "/proc/self/status"]).1, 0);
    assert_eq!(folder.found(&["x", "/dev/null"]), (String::new(), 1));
    std::os::unix::fs::symlink("loop", folder.0.path().join("loop")).unwrap();
    let (said, stderr) = folder.grep(&["fog", "loop"]);
    assert_eq!(said.code, Some(2));
    assert!(stderr.contains("loop: Too many levels of symbolic links"), "{stderr}");
}

#[test]
fn as_ripgrep_on_real_text() {
    let source = include_str!("../src/grep/flags.rs");
    let folder = Folder::new().with("flags.rs", source).with("other", POEM);
    for args in [
        &["-n", "apply"][..],
        &["-c", "help"],
        &["-nC3", "short: Some"],
        &["--json", "-C1", "Boundary"],
        &["--json", "-r", "<$0>", "Mode::"],
        &["-o", r"\w+_\w+"],
        &["-P", "-n", r"(?<=Some\()'.'"],
        &["-U", "-n", r"apply: \|a, _\| \{\n"],
        &["-U", "-o", "-b", r"\{\n *a"],
        &["-w", "-i", "FLAG"],
        &["--column", "-b", "long"],
        &["-r", "$1!", r#""(\w+)""#],
        &["--vimgrep", "a"],
        &["-M40", "a"],
        &["-M40", "--max-columns-preview", "a"],
        &["--color=always", "-nC1", "fn "],
        &["--color=always", "--colors=highlight:bg:blue", "fn "],
        &["-F", "-e", "(a, g)", "-e", "=>"],
        &["--count-matches", "a"],
        &["--files-without-match", "fog"],
        &["-0l", "fn"],
    ] {
        folder.same_as_ripgrep(&[args, &["flags.rs"]].concat());
        folder.same_as_ripgrep(&[&["--sort=path"], args].concat());
    }
}

#[test]
fn what_follows_the_last_match_wanted_does_not_count_as_searched() {
    let folder = Folder::new().with("text", "foo\nfoo\nbar\nfoo\nbar");
    for limit in ["-m1", "-m2", "-m3"] {
        for after in ["-A0", "-A1", "-A2", "-A9"] {
            folder.same_as_ripgrep(&["--json", limit, after, "foo", "text"]);
        }
    }
}

#[test]
fn the_first_line_of_a_chunk_follows_another() {
    let folder = Folder::new()
        .with("text", "foo\n\nbar\n\n\nfoo bar\n\n")
        .with("records", "a\0\nfoo\0bar\0\0foo\nbar\0");
    for show in ["--json", "--column", "-rX", "--count-matches"] {
        folder.same_as_ripgrep(&["-P", "-x", show, "-e", "foo", "-e", "[a-z]*", "text"]);
        folder.same_as_ripgrep(&["-P", show, r"\Abar|(?<!\n)foo", "text"]);
        folder.same_as_ripgrep(&["--null-data", "-x", show, "foo|bar", "records"]);
        folder.same_as_ripgrep(&["--null-data", show, "^[a-z]*", "records"]);
        folder.same_as_ripgrep(&[show, r"\Afoo", "text"]);
        folder.same_as_ripgrep(&[show, "(?i-m)^foo", "text"]);
    }
    let long = format!("bar\0foo{}\0", "x".repeat(2 << 20));
    let folder = Folder::new().with("records", &long);
    folder.same_as_ripgrep(&["--null-data", "--count-matches", "^foo", "records"]);
}

#[test]
fn a_binary_file_is_searched_up_to_the_first_line_that_would_be_printed() {
    let folder = Folder::new().with("text", "foo\n\nx y\n- -\nbar\n\0\nfoo\n");
    for around in ["-A1", "--passthru"] {
        for pattern in [r"\W", "foo", "zork"] {
            folder.same_as_ripgrep(&["--json", "-q", "-w", around, pattern, "text"]);
            let args = ["--stats", "-w", around, pattern, "text"];
            let Some(rg) = ripgrep() else { return };
            let (said, _) = folder.run(&rg, &[], &args);
            let counts = |said: &Said| {
                let text = String::from_utf8_lossy(&said.stdout).into_owned();
                let is_count = |line: &&str| !line.contains("seconds");
                text.lines().filter(is_count).map(str::to_owned).collect::<Vec<_>>()
            };
            for chunk in ["--chunk=5", "--chunk=64"] {
                let (found, _) = folder.grep(&[&[chunk], &args[..]].concat());
                assert_eq!(counts(&found), counts(&said), "{chunk} {args:?}");
            }
        }
    }
}

/// A text of few words, so that lines match and repeat, with odd line ends and bytes.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop_oneof![
        8 => Just(&b"foo"[..]),
        8 => Just(&b"bar"[..]),
        4 => Just(&b"Foo"[..]),
        4 => Just(&b" "[..]),
        12 => Just(&b"\n"[..]),
        2 => Just(&b"\r\n"[..]),
        2 => Just("\u{e9}\u{2603}".as_bytes()),
        1 => Just(&b"\xFF"[..]),
        1 => Just(&b"\0"[..]),
    ];
    let plain = prop_oneof![
        8 => Just(&b"foo"[..]),
        8 => Just(&b"bar"[..]),
        4 => Just(&b"  "[..]),
        12 => Just(&b"\n"[..]),
    ];
    prop_oneof![
        prop::collection::vec(odd, 0..80).prop_map(|words| words.concat()),
        prop::collection::vec(plain, 0..120).prop_map(|words| words.concat()),
    ]
}

fn flags() -> impl Strategy<Value = Vec<&'static str>> {
    let flag = prop::sample::select(vec![
        "-n",
        "-v",
        "-i",
        "-S",
        "-w",
        "-x",
        "-c",
        "-l",
        "-o",
        "-b",
        "-a",
        "-H",
        "-q",
        "-A1",
        "-A3",
        "-B1",
        "-B2",
        "-C1",
        "-C2",
        "-m1",
        "-m2",
        "-m4",
        "--column",
        "--passthru",
        "--trim",
        "-rX",
        "--json",
        "--count-matches",
        "--files-without-match",
        "--vimgrep",
        "--heading",
        "--color=always",
        "--crlf",
        "--null-data",
        "-0",
        "-P",
        "--include-zero",
        "--no-context-separator",
        "-M5",
    ]);
    // With all three what `--json` tells of the bytes searched is another number.
    let differs = |flags: &Vec<&str>| {
        let has = |prefix| flags.iter().any(|flag| flag.starts_with(prefix));
        has("-v") && has("-m") && has("--json")
    };
    prop::collection::vec(flag, 0..4).prop_map(move |mut flags| {
        if differs(&flags) {
            flags.retain(|flag| *flag != "--json");
        }
        flags
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn as_ripgrep_on_generated_text(
        text in text(),
        flags in flags(),
        pattern in prop::sample::select(
            vec!["foo", "foo|bar", "o$", "^", "fo+.?b", "[a-z]+", "zork"]
        ),
    ) {
        let folder = Folder::new().with("text", text);
        folder.same_as_ripgrep(&[flags.as_slice(), &[pattern, "text"]].concat());
    }
}

#[test]
fn a_folder_that_was_removed_is_no_folder_without_files() {
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let script = format!("mkdir gone && cd gone && rmdir ../gone && exec {program} grep x");
    let folder = Folder::new();
    let (said, stderr) = folder.run(Path::new("sh"), &["-c"], &[&script]);
    assert_eq!(said.code, Some(2));
    assert_eq!(stderr, "nearfirst grep: .: No such file or directory\n");
}

#[test]
fn a_small_file_that_was_found_is_searched_up_to_the_line_that_is_to_end_it() {
    let folder = Folder::new().with("k", "x\na.b\nfoo\na.b\n");
    let (said, _) = folder.grep(&["--stop-on-nonmatch", "-vn", r"a\.b", "."]);
    assert_eq!((said.code, said.stdout.as_slice()), (Some(0), &b"./k:1:x\n"[..]));
}
