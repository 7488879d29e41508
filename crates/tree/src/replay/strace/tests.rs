//! The importer, on what strace prints of programs that do everything at once.

use super::*;
use crate::Process;

fn imported(text: &str) -> Vec<String> {
    tried(text).expect("every line is somebody's")
}

fn tried(text: &str) -> Result<Vec<String>, TraceError> {
    let about = |path: &[u8]| match path {
        b"/bin/sh" => {
            About { path: Some(b"/usr/bin/dash"[..].into()), size: Some(7), ..About::default() }
        }
        b"/w/table" => About { size: Some(7), ..About::default() },
        b"/fifo" => About { special: true, ..About::default() },
        _ => About::default(),
    };
    let interpreter = |path: &[u8]| match path {
        b"/w/script" => vec![b"/bin/sh"[..].into(), b"-e"[..].into()],
        _ => Interpreter::new(),
    };
    let trace = import(text.as_bytes(), User(5), b"/w", about, interpreter)?;
    let lines = trace.text();
    assert_eq!(Trace::parse(lines.as_bytes()).as_ref(), Ok(&trace));
    let events = trace.events.iter();
    Ok(events.map(|(at, event)| format!("{} {}", at.as_micros(), said(event))).collect())
}

fn said(event: &Event) -> String {
    let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match event {
        Event::Found { process: Process(process), user } => format!("found {process} {}", user.0),
        Event::Forked { parent, child } => format!("fork {} {}", parent.0, child.0),
        Event::Executed { process, program, arguments, folder } => {
            let words: Vec<String> = arguments.iter().map(|word| shown(word)).collect();
            let (program, folder) = (shown(&program.path), shown(folder));
            format!("exec {} {program} in {folder}: {}", process.0, words.join(" "))
        }
        Event::Opened { process, file, access } => {
            format!("{access:?} {} {}", process.0, shown(&file.path)).to_lowercase()
        }
        Event::Exited { process } => format!("exit {}", process.0),
        other => panic!("strace tells nothing of {other:?}"),
    }
}

#[test]
fn a_shell_with_a_child_whose_first_line_comes_before_the_call_that_made_it_ends() {
    let text = r#"
10  100.000001 execve("/bin/sh", ["sh", "-c", "cat x"], 0x7ffc /* 3 vars */) = 0
10  100.000002 openat(AT_FDCWD, "lib.so", O_RDONLY|O_CLOEXEC) = 3
10  100.000003 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
11  100.000004 chdir("sub") = 0
11  100.000005 execve("/bin/cat", ["cat", "x"], 0x7ffc <unfinished ...>
10  100.000006 <... clone resumed>, child_tidptr=0x7f) = 11
11  100.000007 <... execve resumed>) = 0
11  100.000008 open("../x\"\303\244", O_RDONLY) = 3
11  100.000009 open("gone", O_RDONLY) = -1 ENOENT (No such file or directory)
11  100.000010 exit_group(0) = ?
11  100.000011 +++ exited with 0 +++
10  100.000012 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=11} ---
10  100.000013 openat(AT_FDCWD, "out", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4
10  100.000014 +++ killed by SIGTERM +++
"#;
    let expected = [
        "0 found 1 5",
        "0 exec 1 /usr/bin/dash in /w: sh -c cat x",
        "1 read 1 /w/lib.so",
        "3 fork 1 2",
        r"6 exec 2 /bin/cat in /w/sub: cat x",
        r#"7 read 2 /w/x\"\xc3\xa4"#,
        "9 exit 2",
        "12 write 1 /w/out",
        "13 exit 1",
    ];
    assert_eq!(imported(text), expected);
}

/// As `strace -f -ttt -e trace=... /w/script 2>FILE` writes it.
#[test]
fn lines_that_name_no_process_are_of_the_only_one() {
    let text = r#"
100.000001 execve("/w/script", ["/w/script"], 0x7ffc /* 3 vars */) = 0
100.000002 openat(AT_FDCWD, "script", O_RDONLY) = 3
100.000003 vfork(strace: Process 11 attached
 <unfinished ...>
[pid    11] 100.000004 execve("/bin/cat", ["cat", "x"], 0x7ffc <unfinished ...>
[pid    10] 100.000005 <... vfork resumed>) = 11
[pid    11] 100.000006 <... execve resumed>) = 0
[pid    11] 100.000007 exit_group(0)    = ?
[pid    11] 100.000008 +++ exited with 0 +++
100.000009 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=11, si_uid=0} ---
100.000010 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLDstrace: Process 12 attached
, child_tidptr=0x7f) = 12
[pid    10] 100.000011 openat(AT_FDCWD, "y", O_RDONLY) = 3
[pid    10] 100.000012 exit_group(0)    = ?
[pid    10] 100.000013 +++ exited with 0 +++
100.000014 openat(AT_FDCWD, "z", O_RDONLY) = 3
100.000015 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 13
strace: Process 13 attached
[pid    13] 100.000016 execve("/bin/cat", ["cat", "x"], 0x7ffc /* 3 vars */) = 0
[pid    13] 100.000017 exit_group(0)    = ?
[pid    13] 100.000018 +++ exited with 0 +++
100.000019 exit_group(0)                = ?
100.000020 +++ exited with 0 +++
"#;
    let expected = [
        "0 found 1 5",
        "0 exec 1 /usr/bin/dash in /w: /bin/sh -e /w/script",
        "1 read 1 /w/script",
        "3 fork 1 2",
        "5 exec 2 /bin/cat in /w: cat x",
        "6 exit 2",
        "9 fork 1 3",
        "10 read 1 /w/y",
        "11 exit 1",
        "13 read 3 /w/z",
        "14 fork 3 4",
        "15 exec 4 /bin/cat in /w: cat x",
        "16 exit 4",
        "18 exit 3",
    ];
    assert_eq!(imported(text), expected);
}

#[test]
fn of_what_is_not_followed_there_are_no_lines() {
    let text = "1.0 fork() = 11\n1.1 fork() = 12\n1.2 open(\"/a\", O_RDONLY) = 3\n";
    let expected = ["0 found 1 5", "0 fork 1 2", "100000 fork 1 3", "200000 read 1 /a"];
    assert_eq!(imported(text), expected);
}

#[test]
fn lines_that_may_be_of_several_are_refused() {
    // With -qq the ends are missing.
    let text = "1.0 open(\"/a\", O_RDONLY) = 3\n\
                [pid 11] 1.1 open(\"/b\", O_RDONLY) = 3\n\
                1.2 open(\"/c\", O_RDONLY) = 3\n";
    assert_eq!(tried(text), Err(TraceError::Unnamed));
}

#[test]
fn names_of_descriptors_are_believed() {
    let text = r#"
[pid    10] 5.5 openat(AT_FDCWD</home/a\76b>, "x", O_RDONLY) = 3</data/x>
[pid    10] 5.6 openat(4</srv, (1)>, "y", O_RDONLY) = 5
[pid    10] 5.7 openat2(4</srv>, "z", {flags=O_RDONLY|O_DIRECTORY, resolve=0}, 24) = 6</srv/z>
[pid    10] 5.8 openat(6, "in", O_RDWR) = 7
[pid    10] 5.9 fchdir(6) = 0
[pid    10] 6.0 open("also", O_RDONLY) = 8
[pid    10] 6.1 open("/proc/self/maps", O_RDONLY) = 8
[pid    10] 6.2 open("/fifo", O_RDONLY) = 8
"#;
    let expected = [
        "0 found 1 5",
        "0 read 1 /data/x",
        "100000 read 1 /srv, (1)/y",
        "300000 write 1 /srv/z/in",
        "500000 read 1 /srv/z/also",
    ];
    assert_eq!(imported(text), expected);
}

#[test]
fn what_may_be_read_of_what_has_bytes_is_a_read() {
    let text = r#"
7 1.0 openat(AT_FDCWD, "table", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3
7 1.1 openat(AT_FDCWD, "table", O_RDWR|O_CREAT|O_EXCL, 0644) = 3
7 1.2 openat(AT_FDCWD, "table", O_RDWR|O_TRUNC) = 3
7 1.3 openat(AT_FDCWD, "table", O_WRONLY|O_APPEND) = 3
7 1.4 creat("table", 0644) = 3
7 1.5 openat(AT_FDCWD, "new", O_RDWR|O_CREAT, 0644) = 3
"#;
    let table = [(0, "read"), (1, "write"), (2, "write"), (3, "write"), (4, "write")];
    let table = table.map(|(at, access)| format!("{} {access} 1 /w/table", at * 100_000));
    let expected = [&["0 found 1 5".to_owned()][..], &table, &["500000 write 1 /w/new".to_owned()]];
    assert_eq!(imported(text), expected.concat());
}

#[test]
fn where_calls_were_made_and_what_they_come_to_is_passed_over() {
    let text = r#"
7 1.0 [ 257] [00007f12] openat(AT_FDCWD, "/a", O_RDONLY) = 3
7 1.1 [????????????????] +++ exited with 0 +++
% time     seconds  usecs/call     calls    errors syscall
 88.50    0.002170          43        50           openat
"#;
    assert_eq!(imported(text), ["0 found 1 5", "0 read 1 /a", "100000 exit 1"]);
}

#[test]
fn of_times_since_the_line_before_nothing_is_made() {
    let text = "7      0.000000 open(\"/a\", O_RDONLY) = 3\n\
                7      0.000310 open(\"/b\", O_RDONLY) = 3\n";
    assert!(imported(text).is_empty());
}

#[test]
fn times_of_day_go_on_after_midnight() {
    let text = "7 23:59:59.500000 open(\"/a\", O_RDONLY) = 3\n\
                7 23:59:59.499000 open(\"/b\", O_RDONLY) = 3\n\
                7 00:00:01.000000 open(\"/c\", O_RDONLY) = 3\n\
                7 01:02:03.250000 +++ exited with 0 +++\n";
    let expected =
        ["0 found 1 5", "0 read 1 /a", "0 read 1 /b", "1500000 read 1 /c", "3723750000 exit 1"];
    assert_eq!(imported(text), expected);
}

#[test]
fn a_script_is_called_as_the_kernel_calls_it() {
    let text = "7 1.0 execve(\"./script\", [\"script\", \"one\"], 0x7 /* 1 var */) = 0\n\
                7 1.1 execve(\"/bin/none\", [\"none\"], 0x7 /* 1 var */) = -1 ENOENT (No such file)\n";
    let expected = ["0 found 1 5", "0 exec 1 /usr/bin/dash in /w: /bin/sh -e ./script one"];
    assert_eq!(imported(text), expected);
}

#[test]
fn threads_open_in_the_name_of_their_process_and_numbers_are_used_again() {
    let text = r#"
1 1.0 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f}, 88) = 2
2 1.1 open("/a", O_RDONLY) = 3
2 1.2 execve("/b", ["b"], 0x7 <unfinished ...>
1 1.3 +++ superseded by execve in pid 2 +++
1 1.3 <... execve resumed>) = 0
1 1.4 fork() = 2
2 1.5 exit_group(0) = ?
1 1.6 fork() = 2
2 1.7 open("/c", O_RDONLY) = 3
2 1.8 exit_group(0) = ?
"#;
    let expected = [
        "0 found 1 5",
        "100000 read 1 /a",
        "300000 exec 1 /b in /w: b",
        "400000 fork 1 2",
        "500000 exit 2",
        "600000 fork 1 3",
        "700000 read 3 /c",
        "800000 exit 3",
    ];
    assert_eq!(imported(text), expected);
}
