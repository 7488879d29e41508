//! `nearfirst find` against GNU find, through the built programs: the same
//! names, messages and exit codes over a tree with everything odd in it.
//!
//! Where GNU find is not installed, or the tests do not run as root and a case
//! needs another user, the case is passed over.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use testkit::{Dir, Facility, Program, SlowDir, skip_unless};

const GNU: &str = "/usr/bin/find";

fn has_gnu() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| {
        let found = Path::new(GNU).exists();
        if !found {
            testkit::skip("no GNU find is installed: no test of find compares with it");
        }
        found
    });
    *FOUND
}

/// A folder with a tree `t` that has everything odd in it.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for folder in ["t/sub/deep", "t/empty", "t/sp ace", "t/.hidden", "t/x/y/z"] {
            fs::create_dir_all(tree.at(folder)).unwrap();
        }
        for (name, text) in [
            ("t/a.c", "int main;\n"),
            ("t/x/one.txt", "1"),
            ("t/x/B.TXT", "two\n"),
            ("t/x/y/z/three.c", "333"),
            ("t/void", ""),
            ("t/new\nline", "n"),
            ("t/é", "accent"),
            ("t/q'uo\"te", ""),
            ("t/back\\slash", ""),
            ("t/.hidden/dot.c", "."),
            ("t/-dash", ""),
            ("t/[b]", ""),
        ] {
            fs::write(tree.at(name), text).unwrap();
        }
        fs::write(tree.at(OsStr::from_bytes(b"t/\xff\xfe")), "bytes").unwrap();
        fs::write(tree.at("t/x/big"), vec![7; 70_000]).unwrap();
        fs::File::create(tree.at("t/sparse")).unwrap().set_len(10 << 20).unwrap();
        fs::hard_link(tree.at("t/a.c"), tree.at("t/x/hard")).unwrap();
        for (target, link) in [
            ("nowhere", "t/broken"),
            ("self", "t/self"),
            ("..", "t/sub/up"),
            ("x", "t/to-x"),
            ("a.c", "t/to-a"),
            ("a.c/no", "t/below-a-file"),
        ] {
            symlink(target, tree.at(link)).unwrap();
        }
        rustix::fs::mkfifoat(CWD, tree.at("t/fifo"), Mode::from(0o600)).unwrap();
        drop(UnixListener::bind(tree.at("t/socket")).unwrap());
        for (name, mode) in [("t/a.c", 0o4755), ("t/x/one.txt", 0o600), ("t/empty", 0o1777)] {
            fs::set_permissions(tree.at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        tree.touch("t/x/one.txt", 3 * 86_400 + 3_600);
        tree.touch("t/x/B.TXT", 400 * 86_400);
        tree.touch("t/void", 90);
        tree
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Sets access and modification times to so many seconds ago.
    fn touch(&self, name: &str, seconds_ago: i64) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let time = rustix::fs::Timespec { tv_sec: now.tv_sec - seconds_ago, tv_nsec: 123_456_789 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, self.at(name), &times, AtFlags::empty()).unwrap();
    }

    fn command(&self, program: &str, words: &[OsString]) -> Command {
        let mut command = Command::new(program);
        // Both answer to the name `find`, so that messages begin alike.
        command.arg0("find").args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("LC_ALL", "C.UTF-8").env("TZ", "Europe/Vienna");
        command
    }

    fn run(&self, program: &str, words: &[OsString]) -> Answer {
        Answer::of(&self.command(program, words).output().unwrap())
    }

    fn ours(&self, line: &str) -> Answer {
        self.run(env!("CARGO_BIN_EXE_nearfirst"), &split(line))
    }

    /// Asserts that both programs answer alike.
    fn same(&self, line: &str) {
        self.same_words(&split(line));
    }

    fn same_words(&self, words: &[OsString]) {
        if has_gnu() {
            let gnu = self.run(GNU, words);
            let ours = self.run(env!("CARGO_BIN_EXE_nearfirst"), words);
            assert_eq!(ours, gnu, "ours left, GNU's right: {words:?}");
        }
    }
}

/// Output without its order, which is the file system's.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    out: Vec<String>,
    err: Vec<String>,
    code: Option<i32>,
}

impl Answer {
    fn of(output: &Output) -> Self {
        let lines = |text: &[u8]| {
            let mut lines: Vec<_> = text
                .split_inclusive(|&byte| byte == b'\n' || byte == 0)
                .map(|line| line.escape_ascii().to_string())
                .collect();
            lines.sort();
            lines
        };
        Self { out: lines(&output.stdout), err: lines(&output.stderr), code: output.status.code() }
    }

    fn names(&self) -> BTreeSet<&str> {
        self.out.iter().map(|line| line.trim_end_matches("\\n")).collect()
    }
}

/// Splits at spaces; `␣` stands for one inside of a word and `∅` for an empty word.
fn split(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(|word| word.replace('␣', " ").replace('∅', "").into()).collect()
}

#[test]
fn names_types_and_links() {
    let tree = Tree::new();
    for line in [
        "",
        "t",
        "t/",
        "t//",
        ".",
        "t t/x",
        "-L t",
        "-L t/sub",
        "-L t/sub -depth",
        "-H t/to-x",
        "-P t/to-x",
        "-H t/broken",
        "t/to-x/",
        "-L t/self",
        "t/self",
        "t -follow -type f",
        "t -name *.c",
        "t -iname *.txt",
        "t -name ?",
        "t -name [!a-m]*",
        "t -name \\[b]",
        "t -name *\\\\*",
        "t -iname É",
        "t -name .*",
        "t -iname [[:upper:]].C",
        "t -iname [[:upper:]].txt",
        "t -iname [![:lower:]].txt",
        "t -ipath */[[:upper:]x]*.txt",
        "t/ -name t",
        "t -path t/x*",
        "t -ipath T/X/b*",
        "t -wholename *y*",
        "t -path t/",
        "t -regex .*/[a-z]+\\.txt",
        "t -regex .*e.l.*",
        "t -iregex .*\\.TXT",
        "t -regextype posix-extended -regex .*/(one|B)\\.[[:alpha:]]{3}",
        "t -regextype posix-basic -regex .*x\\{1\\}.*",
        "t -regextype findutils-default -regex .*w.l.*",
        "t -regex .*[[:alpha:]]c",
        "t -regex .*[[:alpha:]*",
        "t -type f",
        "t -type d,l",
        "t -type p,s",
        "t -xtype f",
        "-L t -xtype l",
        "-L t -type l",
        "t -lname *o*",
        "t -ilname A.C",
        "t -links +1 -type f",
        "t -samefile t/x/hard",
        "t -L",
    ] {
        tree.same(line);
    }
}

#[test]
fn sizes_times_and_modes() {
    let tree = Tree::new();
    for line in [
        "t -empty",
        "t -size 1",
        "t -size -1k",
        "t -size +100",
        "t -size 70000c",
        "t -size 5M",
        "t -size 10M",
        "t -size -2w",
        "t -size +1G",
        "t -type f -size 0",
        "t -mtime 0",
        "t -mtime 3",
        "t -mtime +3",
        "t -mtime -3",
        "t -mtime +2.9",
        "t -mmin -1",
        "t -mmin 2",
        "t -mmin +1",
        "t -amin +1000",
        "t -ctime 0",
        "t -cmin -60",
        "t -used -1",
        "t -daystart -mtime 3",
        "t -daystart -mtime -3",
        "t -daystart -mtime +3",
        "t -newer t/x/one.txt",
        "t -anewer t/x/B.TXT",
        "t -cnewer t/void",
        "t -newermt 2␣days␣ago",
        "t ! -newerat @1",
        "t -newermm t/x/one.txt",
        "t -newermt 2020-01-01",
        "t -newermt yesterday",
        "t -newermt 2001-02-03T04:05:06",
        "t -perm 755",
        "t -perm -4000",
        "t -perm /6002",
        "t -perm u=rw",
        "t -perm -u+s,o=x",
        "t -perm /000 -name a.c",
        "t -perm -g=u",
        "t -perm /a+X",
        "t -perm /g+X -type d",
        "t -perm =644",
        "t -perm -=444",
        "t -perm --111",
        "t -perm -=8",
        "t -perm -a+111",
        "t -readable -type f",
        "t -executable",
        "t -writable -type d",
        "t -user root",
        "t -uid 0 -gid 0",
        "t -group 0",
        "t -nouser",
        "t -nogroup",
        "t -inum 1",
        "t -fstype nosuch",
        "/proc/self/status -fstype proc",
    ] {
        tree.same(line);
    }
}

#[test]
fn depth_order_and_operators() {
    let tree = Tree::new();
    for line in [
        "t -maxdepth 0",
        "t -maxdepth 1",
        "t -mindepth 2",
        "t -mindepth 1 -maxdepth 1 -depth",
        "t -name x -prune -o -print",
        "t -depth -name x -prune -o -print",
        "t -path t/x -prune",
        "t -xdev -type d",
        "t -mount -name a.c",
        "t -noleaf -name a.c",
        "t ( -name a.c -o -name void ) -print",
        "t ! ! -name a.c",
        "t -not -name * -o -print",
        "t -name a.c , -name void -print",
        "t -true -false",
        "t -false -o -print",
        "t -name a.c -o -true , -name b*",
        "t -name a.c -print -o -name void -print0",
        "t/a.c t/void -print -quit",
        "t/a.c t/void -quit -print",
        "-O3 t -name a.c",
    ] {
        tree.same(line);
    }
    let depth_first = tree.ours("t/x/y -depth");
    let raw =
        tree.command(env!("CARGO_BIN_EXE_nearfirst"), &split("t/x/y -depth")).output().unwrap();
    assert_eq!(raw.stdout, b"t/x/y/z/three.c\nt/x/y/z\nt/x/y\n");
    assert_eq!(depth_first.code, Some(0));
}

/// A tree with a folder `many` of so many that others read them ahead of the walk, unless one may be
/// pruned.
fn many_folders() -> Tree {
    let tree = Tree::new();
    for number in 0..150 {
        let folder = tree.at(format!("many/{}/{}/{number}", number % 5, number % 30));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..number % 4 {
            fs::write(folder.join(format!("f{file}")), vec![7; file * 1000]).unwrap();
        }
        if number % 40 == 0 {
            symlink("..", folder.join("up")).unwrap();
        }
    }
    tree
}

#[test]
fn many_folders_come_in_the_order_of_the_walk() {
    let tree = many_folders();
    for (options, expression) in [
        ("", "-print"),
        ("", "-size +0 -print"),
        ("", "-type f -size +1 -print"),
        ("", "-type d,l -printf %p:%n:%y\\n"),
        ("", "-empty -ls"),
        ("", "! -size -2 -o -name 1*"),
        ("-depth", "-links +1 -print"),
        ("-maxdepth 3", "-size +0 -print"),
        ("-mindepth 2", "-newer t -o -print , -type f"),
    ] {
        let line = format!("many {options} {expression}");
        tree.same(&line);
        let bytes = |line: &str| {
            let command = tree.command(env!("CARGO_BIN_EXE_nearfirst"), &split(line)).output();
            command.unwrap().stdout
        };
        let alone = format!("many {options} ( -false -prune ) , ( {expression} )");
        if expression.contains("-print") || expression.contains("-ls") {
            assert_eq!(bytes(&line), bytes(&alone), "{line}");
        }
    }
}

#[test]
fn of_many_folders_none_is_read_before_its_time_of_access_is_asked_for() {
    let tree = many_folders();
    let folders = tree.ours("many -type d").out;
    for expression in ["-type d -atime +30", "-depth -type d -atime +30", "-type d -amin -9"] {
        for folder in &folders {
            tree.touch(folder.trim_end_matches("\\n"), 100 * 86_400);
        }
        let wanted = if expression.contains("+30") { &folders[..] } else { &[] };
        assert_eq!(tree.ours(&format!("many {expression}")).out, wanted, "{expression}");
    }
}

#[test]
fn many_folders_are_found_with_few_descriptors() {
    let tree = many_folders();
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let few = format!("ulimit -n 14 && exec {program} find many -links -99");
    let few = tree.run("sh", &[OsString::from("-c"), few.into()]);
    assert_eq!(few, tree.ours("many -links -99"));
    assert_eq!(few.code, Some(0));
}

#[test]
fn formats() {
    let tree = Tree::new();
    for line in [
        "t -ls",
        "-L t -ls",
        "t/fifo t/socket /dev/null -ls",
        "t -name void -fls /dev/stdout",
        "t -printf %p|%f|%h|%P|%H|%d|%l\\n",
        "t// -printf %p|%f|%h|%P|%H\\n",
        "/ -maxdepth 0 -printf %f|%h|%P|%H\\n",
        "t -type f -printf %s|%b|%k|%S|%i|%n|%D|%F|%m|%#m|%M|%u|%U|%g|%G\\n",
        "t -printf %y|%Y\\n",
        "t -type f -printf %12f|%-12f|%.2f|%05d|%-5d|%+d|%010s|%5m|%05m|%.4m|%8.3S|%#S|%#.1S\\n",
        "t -type f -printf %T@|%TY-%Tm-%Td|%TH:%TM:%TS|%T+|%TT|%Tr|%Tc|%TD|%TF|%Tj|%TU|%TW|%TV|%TG|%Tu|%Tw\\n",
        "t -type f -printf %Ta|%TA|%Tb|%TB|%Th|%TI|%Tk|%Tl|%Tp|%TZ|%Tz|%Tx|%TX|%Ty|%Tg|%TC|%Te|%Ts|%TR|%A@|%C@\\n",
        "t -type f -printf %t|%a|%c\\n",
        "t -maxdepth 0 -printf [%.0d|%+.0d|%3.0d]\\n",
        "t/a.c -printf \\0x\\061\\101\\\\\\a\\b\\f\\r\\t\\v\\e\\n",
        "t/a.c -printf a\\cb",
        "t/a.c -printf %%%q%5%|\\n",
        "t/a.c -printf x\\",
        "t/a.c -printf %",
        "t/a.c -printf %[x",
        "t/a.c -printf %TQ%T",
        "t -print0",
        "t -name a.c -fprint /dev/stderr",
        "t -fprintf /dev/stdout %p␣%y\\n",
        "t -name a.c -fprint0 /no/such/place",
    ] {
        tree.same(line);
    }
}

#[test]
fn times_before_1970_are_those_of_gnu_find() {
    let tree = Tree::new();
    for (name, tv_sec, tv_nsec) in [
        ("t/a.c", -631_152_000, 0),
        ("t/x/one.txt", -302_354_704, 123_456_789),
        ("t/x/B.TXT", -1, 500_000_000),
        ("t/void", 0, 0),
    ] {
        let time = rustix::fs::Timespec { tv_sec, tv_nsec };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, tree.at(name), &times, AtFlags::empty()).unwrap();
    }
    let shown = "%p␣%t␣%T@␣%A@␣%Ts␣%TS␣%T+␣%Tc␣%TD␣%Tj␣%TU␣%TG␣%Ty\\n";
    for end in ["-mtime +20000", "-mtime -20000", "-daystart -mtime +20000", "-newer t/a.c"] {
        tree.same(&format!("t -type f {end} -printf {shown} -ls"));
    }
    for date in
        ["1960-01-01", "1960-06-02␣12:00:00.25", "@-1", "@-0.5", "@-1.5", "@0", "1900-01-01"]
    {
        tree.same(&format!("t -type f -newermt {date}"));
        tree.same(&format!("t -type f -not -newerat {date}"));
    }
}

#[test]
fn times_of_an_hour_ahead_are_listed_as_those_of_today() {
    let tree = Tree::new();
    for (name, seconds_ahead) in [("t/a.c", 1_800), ("t/void", 3_700), ("t/x/B.TXT", 30_000_000)] {
        tree.touch(name, -seconds_ahead);
        tree.same(&format!("{name} -ls -fls /dev/stdout"));
    }
}

#[test]
fn blocks_are_listed_as_posix_has_them_where_that_is_asked_for() {
    let tree = Tree::new();
    let listed = |program: &str| {
        let mut command = tree.command(program, &split("t -type f -ls"));
        Answer::of(&command.env("POSIXLY_CORRECT", "1").output().unwrap())
    };
    if has_gnu() {
        assert_eq!(listed(env!("CARGO_BIN_EXE_nearfirst")), listed(GNU));
    }
}

#[test]
fn two_names_of_one_output_are_one_output() {
    let tree = Tree::new();
    symlink("out", tree.at("same")).unwrap();
    let answer = tree.ours("t/a.c -fprintf out 1:%p\\n -fprintf same 2:%p\\n");
    assert_eq!(answer, Answer { out: vec![], err: vec![], code: Some(0) });
    assert_eq!(fs::read_to_string(tree.at("out")).unwrap(), "1:t/a.c\n2:t/a.c\n");
}

#[test]
fn commands() {
    let tree = Tree::new();
    // Without a line that says whose: the shell's.
    fs::write(tree.at("t/script"), "echo of a script \"$@\"; exit 3\n").unwrap();
    fs::set_permissions(tree.at("t/script"), fs::Permissions::from_mode(0o755)).unwrap();
    for line in [
        "t -exec echo {} ;",
        "t -exec echo a{}b{} ;",
        "t -exec false ; -print",
        "t -exec true ; -print",
        "t -type f -exec cat {} +",
        "t -exec false {} +",
        "t -exec nosuchprogram {} ;",
        "t -exec nosuchprogram {} +",
        "t -execdir echo {} ;",
        "t/x -execdir echo {} ;",
        "t/x/ -maxdepth 0 -execdir pwd ;",
        "t/x/one.txt -execdir pwd ;",
        ". -maxdepth 0 -execdir echo {} ;",
        "/ -maxdepth 0 -execdir echo {} ;",
        "/tmp -maxdepth 0 -execdir echo {} ;",
        "t -execdir pwd ;",
        "t/a.c t/x/B.TXT -execdir sh -c basename␣$PWD;echo␣$0␣$* {} +",
        "t/x -execdir ls -d {} +",
        "t/a.c -exec t/script {} ;",
        "t/a.c -execdir ./script {} +",
        "t -ok echo {} ;",
        "t -okdir echo {} ;",
        "t -name a.c -exec sh -c exit␣3 ; -o -name a.c -print",
        "t -exec nosuch {} ; -quit",
    ] {
        tree.same(line);
    }
}

#[test]
fn gathered_commands_run_in_each_directory() {
    let tree = Tree::new();
    let answer = tree.ours("t/x -name *.[ct]* -execdir sh -c echo␣$(basename␣$PWD):$0:$* {} +");
    assert_eq!(answer.code, Some(0));
    assert_eq!(
        answer.names().into_iter().filter(|line| line.starts_with("z:")).collect::<Vec<_>>(),
        ["z:./three.c:"]
    );
}

#[test]
fn asking_runs_what_is_agreed_to() {
    let tree = Tree::new();
    let words = split("t/a.c t/void -ok echo {} ;");
    let mut command = tree.command(env!("CARGO_BIN_EXE_nearfirst"), &words);
    let answers = fs::File::from(
        rustix::fs::open(write(&tree, "answers", "y\nno\n"), OFlags::RDONLY, Mode::empty())
            .unwrap(),
    );
    let output = command.stdin(answers).output().unwrap();
    assert_eq!(output.stdout, b"t/a.c\n");
    assert_eq!(output.stderr, b"< echo ... t/a.c > ? < echo ... t/void > ? ");
}

fn write(tree: &Tree, name: &str, text: &str) -> PathBuf {
    fs::write(tree.at(name), text).unwrap();
    tree.at(name)
}

#[test]
fn wrong_command_lines() {
    let tree = Tree::new();
    for line in [
        "nope",
        "nope t/a.c nope2",
        "t/a.c/",
        "t/a.c/b",
        "∅",
        ". -name",
        ". -foo",
        "-xyz",
        ". -name a b",
        ". -name a t",
        ". ( -name a",
        ". -name a )",
        ". ( )",
        ". !",
        ". -o -name a",
        ". -name a -o",
        ". -name a -a",
        ". -name a -o -o -name b",
        ". -name a , , -name b",
        ". ! -o -name a",
        ". ( -name a -o )",
        ". ( ( ) )",
        "(",
        ")",
        "!",
        ",",
        ". -size x",
        ". -size 1q",
        ". -size 1c1",
        ". -size ∅",
        ". -type q",
        ". -type f,",
        ". -type ∅",
        ". -type ff",
        ". -type f,f",
        ". -perm zz",
        ". -perm ∅",
        ". -perm -",
        ". -perm 9",
        ". -user nosuch",
        ". -group nosuch",
        ". -user ∅",
        ". -user +0",
        ". -group +0",
        ". -newer nosuch",
        ". -newermt garbage",
        ". -newerqq x",
        ". -newerXm /",
        ". -exec echo",
        ". -exec echo +",
        ". -exec echo {} {} +",
        ". -exec ;",
        ". -exec echo {}",
        ". -maxdepth x",
        ". -maxdepth -1",
        ". -maxdepth",
        ". -mtime x",
        ". -mtime 1x",
        ". -mmin ∅",
        ". -regextype foo",
        ". -regex \\(",
        ". -links x",
        ". -links +",
        ". -uid x",
        ". -used x",
        ". -context x",
        ". -samefile nosuch",
        ". -delete -prune",
        ". -files0-from x",
        "-files0-from nope",
        "-files0-from /dev/null",
        "-files0-from /",
        "-files0-from - )",
        "-O t",
        "-Ox t",
    ] {
        tree.same(line);
    }
}

#[test]
fn delete_removes_contents_first() {
    for program in [env!("CARGO_BIN_EXE_nearfirst"), GNU] {
        if program == GNU && !has_gnu() {
            continue;
        }
        let tree = Tree::new();
        let answer = tree.run(program, &split("t/x t/sub t/void t/to-a -delete -print"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(answer.out.len(), 13, "{answer:?}");
        assert!(!tree.at("t/x").exists() && tree.at("t/a.c").exists() && tree.at("t").exists());
        let answer = tree.run(program, &split("t -name .hidden -delete"));
        let message =
            "find: cannot delete \\xe2\\x80\\x98t/.hidden\\xe2\\x80\\x99: Directory not empty\\n";
        assert_eq!(answer.err, [message]);
        assert_eq!(answer.code, Some(1));
    }
}

#[test]
fn a_folder_that_was_deleted_has_its_properties_yet() {
    let deletes_and_shows = |program: &str| {
        let tree = Tree::new();
        fs::create_dir_all(tree.at("gone/x")).unwrap();
        tree.run(program, &split("gone -delete ! -links 99 -printf %p␣%m␣%n\\n"))
    };
    let ours = deletes_and_shows(env!("CARGO_BIN_EXE_nearfirst"));
    assert_eq!((ours.out.len(), ours.err.len(), ours.code), (2, 0, Some(0)), "{ours:?}");
    if has_gnu() {
        assert_eq!(ours, deletes_and_shows(GNU));
    }
}

#[test]
fn a_folder_that_is_removed_while_it_is_read_has_no_more_names() {
    let tree = Tree::new();
    for order in ["", "-depth"] {
        fs::create_dir(tree.at("gone")).unwrap();
        fs::write(tree.at("gone/file"), "").unwrap();
        let found = tree.ours(&format!("gone {order} -type f -print -exec rm -r gone ;"));
        let wanted = Answer { out: vec!["gone/file\\n".to_owned()], err: vec![], code: Some(0) };
        assert_eq!(found, wanted, "{order}");
    }
}

#[test]
fn warnings_are_said_from_where_they_are_asked_for() {
    let tree = Tree::new();
    for line in [
        "t -nouser -warn -maxdepth 1",
        "t ! -warn -maxdepth 1 -print",
        "t -warn ( -mount )",
        "t -warn -name x -noleaf -nowarn -depth",
        "t -maxdepth 1 -name x -warn",
        "t -warn -name a/b",
        "t -name a/b -warn -d",
    ] {
        tree.same(line);
    }
}

#[test]
fn operators_of_regular_expressions_without_an_operand() {
    let tree = Tree::new();
    for kind in ["posix-egrep", "posix-awk", "gnu-awk", "posix-extended", "posix-basic", "grep"] {
        for pattern in
            ["(*t/a.c)", "{1}a", "t/x|+", "t/x$*", "(t|*)", r"\{1\}", r".*\{1\}x", "t/{x", "t/x{}"]
        {
            tree.same_words(&["t", "-regextype", kind, "-regex", pattern].map(OsString::from));
        }
    }
}

#[test]
fn ranges_of_regular_expressions_that_end_before_they_begin() {
    let tree = Tree::new();
    for kind in ["emacs", "findutils-default", "posix-basic", "posix-extended", "awk", "grep"] {
        for range in
            ["[a-Z]", "[Z-a]", "[^Z-a]", "[_-a]", "[`-b]", "[M-_]", "[^b-a]", "[b-ax]", "[[-z]"]
        {
            for test in ["-regex", "-iregex"] {
                let pattern = format!(".*{range}.*");
                tree.same_words(&["t", "-regextype", kind, test, &pattern].map(OsString::from));
            }
        }
    }
}

#[test]
fn what_is_not_utf8_is_matched_by_bytes() {
    let tree = Tree::new();
    for name in [&b"t/\xc3\xa9\xff"[..], b"t/\xc3\x89\xff", b"t/a\xff", b"t/\xc3", b"t/\xa9"] {
        fs::write(tree.at(OsStr::from_bytes(name)), "").unwrap();
    }
    for pattern in [
        &b"?"[..],
        b"???",
        b"*\xc3*",
        b"*\xa9",
        b"\xc3\xa9\xff",
        b"*\xc3\xa9*",
        b"[\xc3\xa9]??",
        b"[!\xc3\xa9]*",
        b"[a-\xc3\xa9]*",
        b"[\x80-\xff]*",
        b"[[:alpha:]]?",
        b"[[=\xc3\xa9=]]*",
        b"A\xff",
    ] {
        for test in ["-name", "-iname"] {
            tree.same_words(&["t".into(), test.into(), OsStr::from_bytes(pattern).into()]);
        }
        let path = OsString::from_vec([b"T/", pattern].concat());
        tree.same_words(&["t".into(), "-ipath".into(), path]);
    }
}

#[test]
fn without_utf8_an_expression_is_of_bytes() {
    let tree = Tree::new();
    let ours = |line: &str| {
        let mut command = tree.command(env!("CARGO_BIN_EXE_nearfirst"), &split(line));
        String::from_utf8_lossy(&command.env("LC_ALL", "C").output().unwrap().stdout).into_owned()
    };
    let everything = ours("t").lines().count();
    assert_eq!(ours("t -regextype posix-extended -regex .*").lines().count(), everything);
    for (expression, wanted) in [
        ("-regex t/[^a-z].", "t/\u{fffd}\u{fffd}\nt/é\n"),
        ("-regex t/é", "t/é\n"),
        ("-regex t/[é][é]", "t/é\n"),
        ("-iregex t/É", ""),
        ("-regextype posix-extended -regex t/[é[:alpha:]]{2}", "t/é\n"),
        ("-name [é][é]", "t/é\n"),
        ("-path t/[![:alpha:]]?", "t/\u{fffd}\u{fffd}\nt/é\n"),
        ("-iname É", ""),
    ] {
        let output = ours(&format!("t {expression}"));
        let found: BTreeSet<&str> = output.lines().collect();
        assert_eq!(found, wanted.lines().collect(), "{expression}");
    }
}

#[test]
fn start_points_from_a_file() {
    let tree = Tree::new();
    fs::write(tree.at("starts"), "t/x\0t/void\0\0nope\0").unwrap();
    tree.same("-files0-from starts -maxdepth 0");
    tree.same("t -files0-from starts");
}

#[test]
fn objects_among_start_points_that_an_action_is_not_for_are_passed_over() {
    let tree = Tree::new();
    let names = ["t/x", "s3://b/x", "t/a.c", "s3://b/y", "t/void"];
    fs::write(tree.at("starts"), names.join("\0")).unwrap();
    let words = ["find", "-files0-from", "starts", "-maxdepth", "0", "-ls"];
    let mut find = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
    let output = find.args(words).current_dir(tree.0.path()).output().unwrap();
    let (found, said) =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert_eq!(found.lines().count(), 3, "{found}{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn start_points_are_taken_as_they_come_and_none_by_commands() {
    let tree = Tree::new();
    // Who waits for the end of the list waits for ever.
    let line = "60 NEARFIRST find -files0-from - -maxdepth 0 -exec cat ; -print";
    let line = line.replace("NEARFIRST", env!("CARGO_BIN_EXE_nearfirst"));
    let mut find = Command::new("timeout");
    find.args(split(&line)).current_dir(tree.0.path());
    let mut find = find.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut list = find.stdin.take().unwrap();
    let mut found = BufReader::new(find.stdout.take().unwrap()).lines();
    for name in ["t/void", "t/a.c"] {
        write!(list, "{name}\0").unwrap();
        assert_eq!(found.next().unwrap().unwrap(), name);
    }
    drop(list);
    assert_eq!(found.count(), 0);
    assert!(find.wait().unwrap().success());
}

#[test]
fn paths_longer_than_the_kernel_takes() {
    let tree = Tree::new();
    fs::create_dir(tree.at("deep")).unwrap();
    let mut at = rustix::fs::open(tree.at("deep"), OFlags::DIRECTORY, Mode::empty()).unwrap();
    let name = "n".repeat(100);
    // More levels than descriptors that are kept open.
    for level in 0..300 {
        rustix::fs::mkdirat(&at, name.as_str(), Mode::from(0o755)).unwrap();
        drop(
            rustix::fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::from(0o644))
                .unwrap(),
        );
        if level == 40 {
            // 4,090 bytes from where the walk begins, which is some folders below the root.
            let edge = format!("{:e<45}", "edge");
            let flags = OFlags::CREATE | OFlags::WRONLY;
            drop(rustix::fs::openat(&at, edge.as_str(), flags, Mode::from(0o644)).unwrap());
        }
        at = rustix::fs::openat(&at, name.as_str(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    drop(at);
    for line in ["deep", "deep -depth", "deep -type f -size 0"] {
        tree.same(line);
    }
    let found = tree.ours("deep -mindepth 299 -name file -execdir test -f {} ; -printf %d\\n");
    assert_eq!(found.names(), BTreeSet::from(["299", "300"]));
    let cost = tree.ours("deep -type f -latency -1");
    assert_eq!((cost.out.len(), cost.err.len(), cost.code), (301, 0, Some(0)), "{:?}", cost.err);
    assert_eq!(tree.ours("deep -delete"), Answer { out: vec![], err: vec![], code: Some(0) });
    assert!(!tree.at("deep").exists());
}

#[test]
fn folders_of_another_user() {
    skip_unless!(Facility::Root, Facility::Tool("find"), Facility::Tool("setpriv"));
    let tree = Tree::new();
    for (name, mode) in [("t/sub", 0o700), ("t/x", 0o744), ("t/x/y", 0o755), ("", 0o755)] {
        fs::set_permissions(tree.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (target, link) in [("sub/deep", "t/to-deep"), ("x/one.txt", "t/to-one")] {
        symlink(target, tree.at(link)).unwrap();
    }
    let program = tree.at("find");
    testkit::copy_program(env!("CARGO_BIN_EXE_nearfirst"), &program);
    for line in [
        "t",
        "t -depth",
        "t -size +1",
        "t ! -size +1",
        "t -name *.txt -mtime 3",
        "t -empty",
        "t -readable",
        "t -delete",
        "t -ls",
        "t -printf %p␣%s\\n",
        "-L t",
        "-L t -perm -0",
        "-L t ! -perm -0",
        "-L t -type l,f",
        "-L t -xtype l",
        "-L t -user root -links 1",
        "-L t -newer t/x/B.TXT -size -9",
        "-L t -name to-* -ls",
        "-L t -name to-* -print -printf %p␣%s\\n",
        "-L t -name to-* -printf %p␣%y\\n",
        "-L t -name to-* -printf %p␣%Y\\n",
        "-L t -name to-* -lname *",
        "-L t -name to-* -printf %p␣%l\\n",
        "t -xdev",
        "t/x -mount -type f",
    ] {
        let run = |find: &OsStr| {
            let mut words = split("--reuid 65534 --regid 65534 --clear-groups");
            words.push(find.to_owned());
            words.extend(split(line));
            let mut answer = tree.run("/usr/bin/setpriv", &words);
            // The path that each was called by opens its messages.
            for text in &mut answer.err {
                if let Some((_, after)) = text.split_once("find: ") {
                    *text = after.to_owned();
                }
            }
            answer
        };
        assert_eq!(run(program.as_os_str()), run(OsStr::new(GNU)), "{line}");
    }
}

#[test]
fn latency_asks_what_a_file_costs() {
    let tree = Tree::new();
    let near = tree.ours("t -latency -10");
    let names = near.names();
    assert!(names.contains("t/a.c") && names.contains("t/void"), "{near:?}");
    for other in ["t", "t/fifo", "t/socket", "t/to-a", "t/x"] {
        assert!(!names.contains(other), "only regular files have a delivery time: {other}");
    }
    assert_eq!(tree.ours("t -latency +1000000").out, [] as [&str; 0]);
    assert_eq!(tree.ours("t -type f -latency 0").names(), tree.ours("t -type f -empty").names());
    let costs = tree.ours("t/a.c t/x/big -printf %{latency}\\n");
    let seconds: Vec<f64> =
        costs.out.iter().map(|line| line.trim_end_matches("\\n").parse().unwrap()).collect();
    assert_eq!(seconds.len(), 2, "{costs:?}");
    assert!(seconds.iter().all(|&time| time > 0.0 && time < 10.0), "{seconds:?}");
    let wrong = tree.ours("t -latency m");
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err[0].contains("-latency"), "{wrong:?}");
}

#[test]
fn device_names_where_files_are() {
    let tree = Tree::new();
    assert!(tree.ours("t -device memory").names().contains("t/x/big"));
    assert_eq!(tree.ours("t -device nosuch:*").out, [] as [&str; 0]);
    assert_eq!(tree.ours("t -device *").out.len(), tree.ours("t").out.len());
    let shown = tree.ours("t/x -maxdepth 0 -printf %{device}");
    assert_eq!(shown.out.len(), 1, "a folder is on its mount's device: {shown:?}");
}

#[test]
fn stats_and_help_come_first() {
    let tree = Tree::new();
    let answer = tree.ours("--stats t -name *.c");
    assert!(answer.err[0].starts_with("find: 33 entries seen, 1 looked at, "), "{answer:?}");
    assert_eq!((answer.err.len(), answer.code), (1, Some(0)));
    let answer = tree.ours("--stats --plan linear t -name *.c -latency +0");
    assert!(answer.err.iter().any(|line| line.contains(" asked about: ")), "{answer:?}");
    let help = tree.ours("--help");
    assert_eq!(help.code, Some(0));
    for word in ["-latency", "-device", "-newerXY", "%{latency}", "-execdir", "-files0-from"] {
        assert!(help.out.iter().any(|line| line.contains(word)), "{word}");
    }
}

#[test]
fn a_file_that_hangs_is_not_waited_for_longer_than_asked() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, sound) = (SlowDir::new(slowfs::Options::default()), Dir::new());
    let (hangs, found) = (slow.create("hangs", "text"), sound.create("sound", "text"));
    slow.mount().set_rules(vec!["hangs: hang=true".parse().unwrap()]);
    let state = Dir::new();
    let finds = |words: &[&OsStr], names: &str| {
        let words = [&["find", "--wait-max=2"].map(OsStr::new), words].concat();
        let find = Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(words);
        let output = find.env("NEARFIRST_STATE", state.path()).run();
        let complaint = format!("{}’: no answer for 2 s, though its mount", hangs.display());
        output.ends_with(1).complains(&complaint).prints(names);
    };
    let (far, near) = (slow.path().as_os_str(), sound.path().as_os_str());
    finds(&[far, OsStr::new("-latency"), OsStr::new("-1")], "");
    let tests = ["-type", "f", "-size", "1"].map(OsStr::new);
    finds(&[&[far, near], &tests[..]].concat(), &format!("{}\n", found.display()));
    for word in ["-newer", "-fprint"] {
        finds(&[near, OsStr::new(word), hangs.as_os_str()], "");
    }
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_look_that_timed_out_for_the_system_is_an_answer_as_others_are() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    fs::create_dir(slow.source().join("late")).unwrap();
    fs::write(slow.source().join("late/file"), "text").unwrap();
    slow.mount().set_rules(vec!["late: late=1".parse().unwrap()]);
    let find =
        Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(["find", "-size", "1", "-name", "f*"]);
    let output = find.env("NEARFIRST_STATE", slow.source()).dir(slow.path()).run();
    output.ends_with(1).complains("‘./late’: ").prints("./late/file\n");
}

#[test]
fn a_mount_that_hangs_in_one_of_many_folders_takes_nothing_from_the_others() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (tree, source) = (many_folders(), Dir::new());
    let number = 77;
    let at = tree.at(format!("many/{}/{}/{number}/mount", number % 5, number % 30));
    fs::create_dir(&at).unwrap();
    let words = split("many -size +1 -type f");
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let wanted = tree.command(program, &words).output().unwrap().stdout;
    let mount = slowfs::Mount::new(source.path(), &at, slowfs::Options::default()).unwrap();
    mount.set_rules(vec!["*: hang=true".parse().unwrap()]);
    let state = Dir::new();
    let words = ["find", "--wait-max=2"].into_iter().map(OsString::from).chain(words);
    let find = Program::at(program).cmd(words).dir(tree.at("")).timeout(Duration::from_mins(1));
    let output = find.env("NEARFIRST_STATE", state.path()).run();
    mount.set_rules(Vec::new());
    output.ends_with(1).complains("/mount’: ").prints(wanted);
}

#[test]
fn a_closed_pipe_ends_the_walk_quietly() {
    let tree = Tree::new();
    for folder in 0..40 {
        let folder = tree.at(format!("t/many{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(format!("a-file-with-a-longer-name-{file}")), "").unwrap();
        }
    }
    let mut child = tree
        .command(env!("CARGO_BIN_EXE_nearfirst"), &split("t"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(141), "as a shell says of a program that SIGPIPE ended");
}

/// Expressions from parts that answer alike on every run, and in any order: GNU find evaluates cheap
/// tests first, so that a test that reports errors (`-xtype` on a loop) may not be reached.
fn expression() -> impl Strategy<Value = Vec<String>> {
    let test = prop::sample::select(vec![
        "-name *.c",
        "-name *e*",
        "-iname *T*",
        "-path *x*",
        "-type f",
        "-type d",
        "-type l,p",
        "-size +1",
        "-size -2k",
        "-empty",
        "-links 2",
        "-perm -111",
        "-perm /022",
        "-mtime +1",
        "-mmin +1",
        "-newer t/x/one.txt",
        "-true",
        "-false",
        "-readable",
        "-lname *a*",
        "-regex .*[a-e]",
        "-user root",
        "-prune",
        "-print",
        "-printf %p:%d:%y\\n",
        "-print0",
        "-samefile t/a.c",
        "-maxdepth 2",
        "-mindepth 1",
        "-depth",
        "-fprint /dev/stderr",
        "-name x -prune",
    ])
    .prop_map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    test.prop_recursive(4, 24, 3, |inner| {
        let joined = |by: &'static [&'static str]| {
            (inner.clone(), inner.clone(), prop::sample::select(by)).prop_map(
                |(mut left, right, by)| {
                    if !by.is_empty() {
                        left.push(by.to_owned());
                    }
                    left.extend(right);
                    left
                },
            )
        };
        let surrounded = |before: &'static str, after: &'static str| {
            inner.clone().prop_map(move |mut words| {
                words.insert(0, before.to_owned());
                if !after.is_empty() {
                    words.push(after.to_owned());
                }
                words
            })
        };
        prop_oneof![
            joined(&["", "-a", "-o", "-and", "-or"]),
            surrounded("(", ")"),
            surrounded("!", ""),
            surrounded("-not", ""),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn random_expressions(follow in prop::sample::select(vec!["-P", "-H", "-L"]), words in expression()) {
        thread_local!(static TREE: Tree = Tree::new());
        let mut line = vec![OsString::from(follow), OsString::from("t"), OsString::from("t/to-x")];
        line.extend(words.into_iter().map(|word| OsString::from_vec(word.into_bytes())));
        TREE.with(|tree| tree.same_words(&line));
    }
}
