//! `cp` again, over what earlier runs left, and beside others that write the same.

mod ground;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use ground::{Ground, begin_copy, stderr, stdout};
use rustix::fs::inotify;
use rustix::process::{Pid, Signal, kill_process};
use testkit::server::{Answer, Misbehaving};
use testkit::{Facility, skip_unless, until};

/// A time that servers tell, and the same of files.
const TOLD: (&str, Duration) =
    ("Fri, 02 Jan 2026 03:04:05 GMT", Duration::from_secs(1_767_323_045));

/// A folder with a file.
fn ground() -> Ground {
    let ground = Ground::new();
    ground.create("a.txt", "in a.txt\n");
    ground
}

#[test]
fn a_file_that_changed_within_a_second_of_its_copy_is_copied_no_less() {
    let ground = Ground::new();
    let times = |name: &str, ns: u64| {
        let file = File::options().write(true).open(ground.path().join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_nanos(ns)).unwrap();
    };
    // The last are in the future: what is written within two seconds of its copy may have one time.
    let (past, future) = (1_000_000_000_100_000_000, 4_000_000_000_100_000_000);
    for (copied, changed, kept) in [
        (past, past + 400_000_000, None),
        // As FAT keeps it.
        (past + 1_400_000_000, past + 1_400_000_000, Some(1_000_000_000_000_000_000)),
        (future, future, None),
    ] {
        ground.create("v", "1");
        times("v", copied);
        assert!(ground.run(&["cp", "--force", "v", "to/"]).status.success());
        times("to/v", kept.unwrap_or(copied));
        for (bytes, is_there) in [("1", true), ("2", false)] {
            ground.create("v", bytes);
            times("v", changed);
            let output = ground.run(&["cp", "--stats", "v", "to/"]);
            let said = stderr(&output);
            assert_eq!(output.status.success(), is_there, "{said}");
            assert_eq!(said.contains("1 already there"), is_there, "{said}");
            assert_eq!(said.contains("to/v is there: --force"), !is_there, "{said}");
        }
    }
}

#[test]
fn a_copy_that_was_made_later_is_known_by_its_time_and_not_read() {
    let ground = Ground::new();
    let dest = ground.path().join("to/v");
    ground.create("v", vec![1; 1 << 20]);
    let file = File::open(ground.path().join("v")).unwrap();
    for ns in [0, 100_000_000] {
        file.set_modified(
            UNIX_EPOCH + Duration::from_secs(1_000_000_000) + Duration::from_nanos(ns),
        )
        .unwrap();
        assert!(ground.run(&["cp", "--force", "v", "to/"]).status.success());
        let modified = dest.metadata().unwrap().modified().unwrap();
        let copy = File::options().write(true).open(&dest).unwrap();
        copy.write_all_at(b"2", 0).unwrap();
        copy.set_modified(modified).unwrap();
        let output = ground.run(&["cp", "--stats", "v", "to/"]);
        assert!(stderr(&output).contains("1 already there"), "{}", stderr(&output));
    }
}

#[test]
fn cp_says_what_n_is_to_who_may_mean_that_of_gnu() {
    let ground = ground();
    let meant = "nearfirst cp: -n is --dry-run: nothing was copied (to leave existing files alone, as \
                 GNU cp -n does, use --skip-existing)\n";
    for (flags, said) in [
        (&["-n"][..], meant),
        (&["--dry-run"], ""),
        (&["-n", "--skip-existing"], ""),
        (&["-n", "--force"], ""),
    ] {
        let output = ground.run(&[&["cp", "a.txt", "to/"], flags].concat());
        assert_eq!(stdout(&output), "a.txt -> to/a.txt\n", "{flags:?}");
        assert_eq!((stderr(&output).as_str(), output.status.success()), (said, true), "{flags:?}");
        assert!(!ground.path().join("to").exists());
    }
}

#[test]
fn what_appears_where_a_copy_is_under_way_is_told_of_and_nothing_hidden_stays_untold() {
    let (ground, server) = (ground(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    let names = || {
        let names = fs::read_dir(ground.path().join("to")).unwrap();
        let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // Slow enough to be met in the middle.
    let slow = Answer::bytes(&bytes).paced(1 << 20);
    let copied = |answer: Answer, flags: &[&str], there: &[u8]| {
        drop(fs::remove_dir_all(ground.path().join("to")));
        server.answer("/f", answer);
        let url = server.url("/f");
        let mut command = ground.command(&[&["cp", "--stats", &url, "to/"], flags].concat());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let part = ground.path().join("to/.f.nearfirst-part");
        until("a part is here", || part.metadata().is_ok_and(|about| about.len() > 0));
        let other = ground.create("other", there);
        File::open(&other).unwrap().set_modified(UNIX_EPOCH + TOLD.1).unwrap();
        fs::rename(other, ground.path().join("to/f")).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(fs::read(ground.path().join("to/f")).unwrap() == there);
        (output.status.code(), stderr(&output))
    };
    let tagged = || slow.clone().header("Last-Modified", TOLD.0).etag("\"e\"");
    let there = "to/f is there: --force replaces it, --skip-existing leaves it";

    let (code, said) = copied(slow.clone().etag(""), &[], b"mine");
    assert!(code == Some(1) && said.contains(&format!(": {there}\n")), "{said}");
    assert_eq!(names(), ["f"]);
    for (flags, there, counted) in [
        (&[][..], &bytes[..], "1 already there, 0 left"),
        (&["--skip-existing"], b"mine", "0 already there, 1 left"),
    ] {
        let (code, said) = copied(tagged(), flags, there);
        assert!(code == Some(0) && said.contains(counted), "{said}");
        assert_eq!(names(), ["f"]);
    }

    let (code, said) = copied(tagged(), &[], b"mine");
    let told = format!(": {there}; what came of it is in to/.f.nearfirst-part\n");
    assert!(code == Some(1) && said.contains(&told), "{said}");
    let again = |flag: &[&str]| {
        let url = server.url("/f");
        let output = ground.run(&[&["cp", "--stats", &url, "to/"], flag].concat());
        stderr(&output)
    };
    let said = again(&[]);
    assert!(said.contains(&told), "{said}");
    assert_eq!(names(), [".f.nearfirst-part", ".f.nearfirst-version", "f"]);
    let said = again(&["--skip-existing", "--dry-run"]);
    assert_eq!((said.as_str(), names().len()), ("", 3));
    let said = again(&["--skip-existing"]);
    assert!(said.contains("1 left as they were"), "{said}");
    assert_eq!(names(), ["f"]);

    begin_copy(&ground, "f", &bytes);
    let said = again(&["--force"]);
    assert!(said.contains("1 gone on with"), "{said}");
    begin_copy(&ground, "f", &bytes);
    let said = again(&[]);
    assert!(said.contains("1 already there"), "{said}");
    assert_eq!(names(), ["f"]);
}

#[test]
fn a_part_that_another_run_was_writing_is_looked_at_anew_once_that_has_ended() {
    let (ground, server) = (ground(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    server.answer("/f", Answer::bytes(&bytes).etag("\"e\"").header("Last-Modified", TOLD.0));
    let [dest, part, version] = ["f", ".f.nearfirst-part", ".f.nearfirst-version"]
        .map(|name| ground.path().join("to").join(name));
    let finishes = || {
        let file = File::options().write(true).open(&part).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.set_modified(UNIX_EPOCH + TOLD.1).unwrap();
        fs::remove_file(&version).unwrap();
        fs::rename(&part, &dest).unwrap();
    };
    let gives_up = || [&version, &part].into_iter().for_each(|path| fs::remove_file(path).unwrap());
    let args = ["cp", "--stats", &server.url("/f"), "to/"];
    for (ends, counted) in [
        (&finishes as &dyn Fn(), "1 already there, 0 left as they were, 0 gone on with"),
        (&gives_up, "0 already there, 0 left as they were, 0 gone on with"),
    ] {
        begin_copy(&ground, "f", &bytes);
        // As another run does that writes it.
        let written = File::open(&part).unwrap();
        rustix::fs::flock(&written, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, &part, inotify::WatchFlags::OPEN).unwrap();
        let child = ground.command(&args).stderr(Stdio::piped()).spawn().unwrap();
        until("it waits for the part", || rustix::io::read(&events, &mut [0; 4096]).is_ok());
        ends();
        drop(written);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains(counted), "{}", stderr(&output));
        assert!(fs::read(&dest).unwrap() == bytes);
        assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), 1);
        fs::remove_file(&dest).unwrap();
    }
}

#[test]
fn what_an_interrupted_copy_undoes_is_not_what_another_run_began_after_it_had_its_name() {
    skip_unless!(Facility::Tool("strace"));
    let ground = ground();
    // The thread that renames is held up in that call, once the file has its name.
    let held = "inject=renameat2:delay_exit=2000000";
    let strace = ["strace", "-f", "-qq", "-o", "calls", "-e", held];
    let mut child = ground.command_by(&strace, &["cp", "a.txt", "to/"]).spawn().unwrap();
    until("it has its name", || ground.path().join("to/a.txt").exists());
    let part = ground.create("to/.a.txt.nearfirst-part", "another run's");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let copying = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(copying).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(part.exists());
}

#[test]
fn cp_tells_that_the_names_of_copies_did_not_come_to_the_disk() {
    skip_unless!(Facility::Tool("strace"));
    let ground = ground();
    let to = fs::canonicalize(ground.path()).unwrap().join("to");
    fs::create_dir(&to).unwrap();
    for (error, said) in
        [("EIO", "Input/output error"), ("ENOSPC", "No space left on device"), ("EINVAL", "")]
    {
        // Of the folder alone.
        let fails = format!("inject=fsync:error={error}");
        let strace =
            ["strace", "-f", "-qq", "-o", "calls", "-P", to.to_str().unwrap(), "-e", &fails];
        let output =
            ground.command_by(&strace, &["cp", "--force", "a.txt", "to/"]).output().unwrap();
        let lost = "nearfirst cp: to: what was copied to it may be lost if the power fails: ";
        let told = if said.is_empty() { String::new() } else { format!("{lost}{said}\n") };
        assert_eq!((stderr(&output), output.status.success()), (told, said.is_empty()));
        assert_eq!(fs::read(to.join("a.txt")).unwrap(), b"in a.txt\n");
    }
}

#[test]
fn a_run_that_is_broken_off_leaves_nothing_hidden_of_what_it_had_begun() {
    let ground = Ground::new();
    for number in 0..300 {
        ground.create(format!("many/{number}"), "a few bytes");
    }
    for round in 0..8 {
        let to = ground.path().join(format!("to{round}"));
        let to_name = format!("to{round}");
        let mut cp = ground.command(&["cp", "many/*", &to_name]).spawn().expect("begun");
        until("it copies", || fs::read_dir(&to).is_ok_and(|mut names| names.next().is_some()));
        let number = Pid::from_child(&cp);
        // It may have come to its end.
        kill_process(number, Signal::TERM).ok();
        cp.wait().expect("it ends");
        let names = fs::read_dir(&to).expect("it is there").map(|entry| entry.unwrap().file_name());
        let hidden: Vec<_> =
            names.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
        assert!(hidden.is_empty(), "{round}: {hidden:?}");
    }
}
