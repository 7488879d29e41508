//! The commands on files that others truncate, extend or delete while they are read, through the
//! built program. The disk is slow enough that it happens in the middle.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use slowfs::Options;
use testkit::{
    Cmd, Dir, Facility, FileSystem, LoopDisk, Output, Program, evict, lines, skip_unless, until,
};

const MIB: u64 = 1 << 20;
const BYTES: u64 = 24 * MIB;

fn nearfirst(state: &Dir, args: &[&str]) -> Cmd {
    Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(args).env("NEARFIRST_STATE", state.path())
}

/// A text on a disk that takes six seconds to deliver it.
fn slow_text() -> (LoopDisk, PathBuf, Vec<u8>) {
    let rules = vec!["*.img: bandwidth=4M".parse().expect("a rule")];
    let options = Options { rules, ..Options::default() };
    let disk = LoopDisk::on_slowfs(FileSystem::Ext4, 64 * MIB, options);
    let text = lines(usize::try_from(BYTES).expect("it fits in memory"), 3);
    let path = disk.path().join("text");
    let slow = disk.slow().expect("it is slow");
    slow.at_full_speed(|| {
        fs::write(&path, &text).expect("written");
        File::open(&path).and_then(|file| file.sync_all()).expect("on the disk");
        evict(&path);
    });
    (disk, path, text)
}

/// Runs a command on the text, and `change`s that once a part of it was read.
fn changed_while(args: &[&str], change: impl FnOnce(&Path) + Send) -> (Output, Vec<u8>) {
    let (disk, path, text) = slow_text();
    let read = || disk.slow().expect("it is slow").stats().total.read_bytes;
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("a part was read", || read() > 2 * MIB);
            change(&path);
            disk.slow().expect("it is slow").set_rules(Vec::new());
        });
        nearfirst(&Dir::new(), args).arg(&path).run()
    });
    (output, text)
}

fn newlines(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').count() - 1
}

fn truncate(path: &Path) {
    File::options().write(true).open(path).and_then(|file| file.set_len(MIB)).expect("shortened");
}

#[test]
fn a_file_that_is_truncated_while_it_is_read_is_an_error_and_no_crash() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Fuse, Facility::Tool("mkfs.ext4"));
    let ways: [(&[&str], i32, &str); 6] = [
        (&["wc", "-l"], 1, "truncated while being read"),
        (&["wc"], 1, "truncated while being read"),
        (&["grep", "-c", "e"], 2, "truncated while being read"),
        (&["grep", "-c", "no such line"], 2, "truncated while being read"),
        (&["grep", "-U", "-a", "-v", "no such line"], 2, "truncated while being read"),
        (&["cat"], 1, "changed since it was listed, or while it was read"),
    ];
    for (args, code, reason) in ways {
        let (output, _) = changed_while(args, truncate);
        output.ends_with(code).complains(&format!("text: {reason}"));
        assert!(!output.stdout().contains(&0), "{args:?} shows what is not in the file");
    }
}

#[test]
fn a_file_that_is_written_over_while_it_is_read_is_no_mixture() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Fuse, Facility::Tool("mkfs.ext4"));
    let write_over = |path: &Path| {
        let file = File::options().write(true).open(path).expect("it is there");
        file.write_all_at(&vec![b'x'; 1 << 20], BYTES - MIB).expect("written over");
    };
    let (output, _) = changed_while(&["cat"], write_over);
    output.ends_with(1).complains("text: changed since it was listed, or while it was read");
}

#[test]
fn of_a_file_that_grows_while_it_is_read_what_there_was_at_first_counts() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Fuse, Facility::Tool("mkfs.ext4"));
    let grow = |path: &Path| {
        let mut file = File::options().append(true).open(path).expect("it is there");
        file.write_all(&lines(1 << 20, 4)).expect("longer");
    };
    let (output, text) = changed_while(&["wc", "-l"], grow);
    let counted = output.succeeds().text();
    assert_eq!(counted.split_whitespace().next(), Some(&*newlines(&text).to_string()));
    let (output, text) = changed_while(&["grep", "-c", ""], grow);
    output.succeeds().prints(format!("{}\n", newlines(&text)));
    let (output, text) = changed_while(&["cat"], grow);
    output.succeeds().prints(text);
}

#[test]
fn a_file_that_is_deleted_while_it_is_read_is_read_to_its_end() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Fuse, Facility::Tool("mkfs.ext4"));
    let delete = |path: &Path| fs::remove_file(path).expect("deleted");
    let (output, text) = changed_while(&["wc", "-c", "-l"], delete);
    let counted = output.succeeds().text();
    let numbers: Vec<_> = counted.split_whitespace().take(2).map(str::to_owned).collect();
    assert_eq!(numbers, [newlines(&text).to_string(), text.len().to_string()]);
    let (output, text) = changed_while(&["grep", "-c", ""], delete);
    output.succeeds().prints(format!("{}\n", newlines(&text)));
}
