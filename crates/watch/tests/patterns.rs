//! Patterns on disk, and what is left beside them.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nearfirst_watch::{Forget, PatternStore};
use slowfs::{Fault, Options as Slow, Profile, Rule};
use store::Clock;
use testkit::{Dir, Facility, SlowDir, Tmpfs, evict, skip_unless};
use tree::{Options, Patterns};

fn files(dir: &Dir) -> Vec<String> {
    let listed = fs::read_dir(dir.path()).expect("ours");
    let mut names: Vec<_> =
        listed.map(|entry| entry.expect("ours").file_name().into_string().expect("text")).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_left_is_bounded_in_files_and_bytes_and_the_newest_stays() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    for at in 0..70 {
        store.leave(&format!("nearfirst-trace 1\n# {at}\n")).expect("written");
    }
    let left = files(&dir);
    let read = |name: &String| fs::read_to_string(dir.join(name)).expect("left");
    assert_eq!(left.len(), 64);
    assert!(read(&left[0]).ends_with("# 6\n") && read(&left[63]).ends_with("# 69\n"));
    // Sparse, and older than all.
    dir.create_sparse("trees.seen.1-1", 65 << 20);
    store.leave("nearfirst-trace 1\n# the newest\n").expect("written");
    let left = files(&dir);
    assert_eq!(left.len(), 64);
    assert!(read(&left[63]).ends_with("# the newest\n"));
    let newest = dir.join(&left[63]);
    File::options().write(true).open(newest).and_then(|file| file.set_len(65 << 20)).expect("ours");
    store.leave("nearfirst-trace 1\n# small\n").expect("written");
    let left = files(&dir);
    assert_eq!(left.len(), 1);
    assert!(read(&left[0]).ends_with("# small\n"));
}

#[test]
fn what_the_killed_left_in_part_is_removed_and_what_is_being_written_is_not() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    for part in ["trees.part", "trees.seen.1-7.part", "trees.seen.2-8.part", "other.7.part"] {
        dir.create(part, "a part");
    }
    let killed = File::options().write(true).open(dir.join("trees.seen.1-7.part"));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    killed.and_then(|file| file.set_modified(long_ago)).expect("ours");
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.absorb(Patterns::default(), &Options::default()).expect("nothing is left");
    assert_eq!(files(&dir), ["other.7.part", "trees.lock", "trees.seen.2-8.part"]);
}

#[test]
fn a_part_of_the_last_second_that_times_have_is_left() {
    skip_unless!(Facility::Root);
    let memory = Tmpfs::new(1 << 20);
    let dir = Dir::new_in(&memory);
    let part = File::open(dir.create("trees.seen.1-7.part", "a part")).expect("ours");
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX.unsigned_abs());
    part.set_modified(last).expect("tmpfs has any time");
    let held = PatternStore::at(dir.path()).hold(Duration::ZERO, &Clock::real());
    let held = held.expect("writable").expect("ours");
    held.absorb(Patterns::default(), &Options::default()).expect("nothing is left");
    assert_eq!(files(&dir), ["trees.lock", "trees.seen.1-7.part"]);
}

#[test]
fn what_is_larger_than_any_learner_saves_is_not_read() {
    let dir = Dir::new();
    dir.create_sparse("trees", (128 << 20) + 1);
    let (_, warning) = PatternStore::at(dir.path()).load();
    let warning = warning.expect("too large").to_string();
    assert!(warning.contains("too large: it has over 128 MiB"), "{warning}");
}

#[test]
fn damaged_patterns_are_set_aside_by_who_holds_them_alone() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    dir.create("trees", "what nobody saved");
    let (_, warning) = store.load();
    assert!(warning.expect("damaged").to_string().contains("no patterns"));
    assert_eq!(files(&dir), ["trees"]);
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    let (_, warning) = held.load().expect("set aside");
    assert!(warning.expect("damaged").to_string().contains("set aside as"));
    assert_eq!(files(&dir), ["trees.broken", "trees.lock"]);
    held.save(&Patterns::default()).expect("writable");
    assert!(held.load().expect("readable").1.is_none());
}

#[test]
fn patterns_that_cannot_be_read_stay_where_they_are() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let profile = Profile { faults: vec![Fault::FailAt(0)], ..Profile::default() };
    let rules = vec![Rule::all(profile)];
    let slow = SlowDir::new(Slow { rules, ..Slow::default() });
    let store = PatternStore::at(slow.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.save(&Patterns::default()).expect("writable");
    evict(store.path());
    let failed = held.load().expect_err("it is there").to_string();
    assert!(failed.ends_with("trees: Input/output error"), "{failed}");
    assert!(store.path().exists());
}

#[test]
fn what_root_writes_for_a_user_stays_the_users() {
    skip_unless!(Facility::Root);
    let dir = Dir::new();
    chown(dir.path(), Some(65534), Some(65534)).expect("ours");
    let owner = |path: PathBuf| fs::symlink_metadata(path).expect("there").uid();
    let folder = dir.join(".local/state");
    let store = PatternStore::at(&folder);
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    for _ in 0..2 {
        held.save(&Patterns::default()).expect("writable");
    }
    store.leave("nearfirst-trace 1\n").expect("writable");
    for name in [".local", ".local/state", ".local/state/trees", ".local/state/trees.lock"] {
        assert_eq!(owner(dir.join(name)), 65534, "{name}");
    }
    let left = fs::read_dir(&folder).expect("ours").flatten().map(|entry| entry.path());
    assert!(left.map(owner).all(|owner| owner == 65534));
}

#[test]
fn root_writes_and_gives_away_nothing_that_a_users_link_leads_to() {
    skip_unless!(Facility::Root);
    let (dir, others) = (Dir::new(), Dir::new());
    chown(dir.path(), Some(65534), Some(65534)).expect("ours");
    let secret = others.create("secret", "root's");
    for leads_to in [secret.clone(), others.join("new")] {
        drop(fs::remove_file(dir.join("trees.lock")));
        symlink(leads_to, dir.join("trees.lock")).expect("ours");
        let held = PatternStore::at(dir.path()).hold(Duration::ZERO, &Clock::real());
        assert!(held.is_err());
    }
    assert_eq!(files(&others), ["secret"]);
    assert_eq!(fs::metadata(&secret).expect("there").uid(), 0);
    fs::remove_file(dir.join("trees.lock")).expect("ours");
    fs::hard_link(&secret, dir.join("trees.lock")).expect("ours");
    drop(PatternStore::at(dir.path()).hold(Duration::ZERO, &Clock::real()));
    assert_eq!(fs::metadata(&secret).expect("there").uid(), 0);
    // Who has a folder can rename what root keeps in it.
    fs::remove_file(&secret).expect("ours");
    drop(PatternStore::at(dir.path()).hold(Duration::ZERO, &Clock::real()));
    assert_eq!(fs::metadata(dir.join("trees.lock")).expect("there").uid(), 0);
}

#[test]
fn patterns_behind_a_users_link_are_neither_read_nor_set_aside_by_root() {
    skip_unless!(Facility::Root);
    let (dir, others) = (Dir::new(), Dir::new());
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.save(&Patterns::default()).expect("writable");
    fs::rename(store.path(), others.join("trees")).expect("ours");
    symlink(others.join("trees"), store.path()).expect("ours");
    assert!(held.load().expect("root's own link").1.is_none());
    lchown(store.path(), Some(65534), None).expect("ours");
    let refused = held.load().expect_err("a user's link").to_string();
    assert!(refused.contains("a link that others could change"), "{refused}");
    assert!(store.path().is_symlink() && others.join("trees").exists());
}

#[test]
fn root_follows_no_link_to_a_folder_that_a_user_could_change() {
    skip_unless!(Facility::Root);
    let (dir, others) = (Dir::new(), Dir::new());
    let link = dir.join("state");
    symlink(others.path(), &link).expect("ours");
    // A link of root's in the user's folder, the user's link there, the user's link in a folder of root's.
    for (of_folder, of_link) in [(65534, 0), (65534, 65534), (0, 65534)] {
        chown(dir.path(), Some(of_folder), None).expect("ours");
        lchown(&link, Some(of_link), None).expect("ours");
        for folder in [link.clone(), link.join("nearfirst")] {
            let store = PatternStore::at(&folder);
            let refused = store.hold(Duration::ZERO, &Clock::real()).expect_err("a user's link");
            assert!(refused.to_string().contains("lies behind `state`"), "{refused}");
            assert!(store.leave("nearfirst-trace 1\n").is_err());
            assert!(store.load().1.is_some());
        }
    }
    assert!(files(&others).is_empty());
}

#[test]
fn why_nothing_can_be_left_names_the_folder_that_is_not_there() {
    let dir = Dir::new();
    let folder = dir.join("state");
    let refused = PatternStore::at(&folder).leave("nearfirst-trace 1\n").expect_err("no folder");
    let expected = format!("{}: No such file or directory", folder.display());
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn root_follows_its_own_links_to_a_users_folder() {
    skip_unless!(Facility::Root);
    let (dir, home) = (Dir::new(), Dir::new());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    chown(home.path(), Some(65534), Some(65534)).expect("ours");
    symlink(home.path(), dir.join("home")).expect("ours");
    let store = PatternStore::at(dir.join("home/state"));
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.save(&Patterns::default()).expect("writable");
    let owner = fs::metadata(home.join("state/trees")).expect("saved").uid();
    assert_eq!(owner, 65534);
}

#[test]
fn what_is_held_is_written_where_it_was_held_though_a_user_puts_a_link_there() {
    skip_unless!(Facility::Root);
    let (dir, others) = (Dir::new(), Dir::new());
    chown(dir.path(), Some(65534), Some(65534)).expect("ours");
    let store = PatternStore::at(dir.join("state"));
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    fs::rename(dir.join("state"), dir.join("moved")).expect("ours");
    symlink(others.path(), dir.join("state")).expect("ours");
    others.create("trees.seen.1-1", "nearfirst-trace 1\n");
    held.save(&Patterns::default()).expect("writable");
    held.absorb(Patterns::default(), &Options::default()).expect("nothing is left");
    assert!(held.load().expect("readable").1.is_none());
    held.forget().expect("writable");
    assert_eq!(files(&others), ["trees.seen.1-1"]);
}

#[test]
fn the_services_folder_of_all_users_is_not_taken_for_damaged_patterns() {
    let dir = Dir::new();
    fs::create_dir_all(dir.join("trees/7")).expect("ours");
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    let failed = held.load().expect_err("no patterns").to_string();
    assert!(failed.contains("a folder, as the service has it for all users"), "{failed}");
    assert!(dir.join("trees/7").is_dir());
}

#[test]
fn what_several_left_is_learned_of_each_as_if_it_had_been_alone() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    // Both have the same process, which the first does not see end; one in between cannot be read.
    let of = |program: &str, end: &str| {
        format!(
            "nearfirst-trace 1\nfile 0 /bin/{program} 9\nfile 1 /read 9\n\
             0 found 1 7\n0 exec 1 0 / {program}\n0 read 1 1\n{end}"
        )
    };
    for seen in [&of("one", ""), "what nobody saw", &of("two", "1 exit 1\n")] {
        store.leave(seen).expect("writable");
    }
    let patterns = held.absorb(Patterns::default(), &Options::default()).expect("writable");
    let mut runs: Vec<_> = patterns.programs().into_iter().collect();
    runs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let runs: Vec<_> = runs.iter().map(|it| (&*it.name, it.account.runs)).collect();
    assert_eq!(runs, [(&b"/bin/one"[..], 1), (&b"/bin/two"[..], 1)]);
    assert_eq!(files(&dir), ["trees", "trees.lock"]);
}

#[test]
fn what_is_asked_to_be_forgotten_is_forgotten_by_who_holds_the_patterns_next() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    let seen = "nearfirst-trace 1\nfile 0 /bin/one 9\nfile 1 /bin/two 9\nfile 2 /read 9\n\
                0 found 1 7\n0 exec 1 0 / one\n0 read 1 2\n1 exit 1\n\
                0 found 2 7\n0 exec 2 1 / two\n0 read 2 2\n1 exit 2\n";
    let known = |patterns: &Patterns| {
        let names = patterns.programs().into_iter().map(|listed| listed.name);
        let mut names: Vec<_> =
            names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect();
        names.sort_unstable();
        names
    };
    store.leave(seen).expect("writable");
    let patterns = held.absorb(Patterns::default(), &Options::default()).expect("writable");
    assert_eq!(known(&patterns), ["/bin/one", "/bin/two"]);
    let broken = dir.create("trees.broken", "/bin/one, and what no learner wrote");
    let programs = vec!["one".into(), "".into(), "three".into()];
    let asked = store.ask_to_forget(&Forget::Programs(programs)).expect("writable");
    assert!(asked.is_there());
    let patterns = held.absorb(patterns, &Options::default()).expect("writable");
    assert_eq!((known(&patterns), asked.is_there()), (vec!["/bin/two".to_owned()], false));
    assert!(!broken.exists());
    dir.create("trees.broken", "what no learner wrote");
    dir.create_sparse("trees.forget.1-1", 5 << 20);
    let asked = store.ask_to_forget(&Forget::All).expect("writable");
    let patterns = held.absorb(patterns, &Options::default()).expect("writable");
    assert!(known(&patterns).is_empty() && known(&held.load().expect("saved").0).is_empty());
    assert!(!asked.is_there());
    assert_eq!(files(&dir), ["trees.lock"]);
}

#[test]
fn what_is_asked_to_be_forgotten_is_asked_for_until_it_is_saved_and_all_takes_no_room() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.save(&Patterns::default()).expect("writable");
    // A folder in the place of what is written.
    fs::create_dir(dir.join("trees.part")).expect("ours");
    let absorb = || held.absorb(Patterns::default(), &Options::default());
    let some = store.ask_to_forget(&Forget::Programs(vec!["one".into()])).expect("writable");
    absorb().expect_err("it cannot be saved");
    assert!(some.is_there());
    let all = store.ask_to_forget(&Forget::All).expect("writable");
    absorb().expect("nothing is to be saved");
    assert!(!some.is_there() && !all.is_there() && !store.path().exists());
}

#[test]
fn what_is_no_request_is_removed_and_forgets_nothing() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.save(&Patterns::default()).expect("writable");
    let saved = fs::metadata(store.path()).expect("saved").ino();
    for (at, text) in ["", "all", "one\0", "programs\none"].iter().enumerate() {
        dir.create(format!("trees.forget.{at}-1"), text);
    }
    // It cannot be removed so, and must not keep others from being heard.
    fs::create_dir(dir.join("trees.forget.0-0")).expect("ours");
    let absorb = || held.absorb(Patterns::default(), &Options::default()).expect("writable");
    absorb();
    assert_eq!(files(&dir), ["trees", "trees.forget.0-0", "trees.lock"]);
    assert_eq!(fs::metadata(store.path()).expect("there").ino(), saved, "nothing was to be saved");
    let none = store.ask_to_forget(&Forget::Programs(Vec::new())).expect("writable");
    absorb();
    assert!(!none.is_there() && store.path().exists());
}

#[test]
fn a_request_that_cannot_be_removed_is_heeded_once_and_holds_up_nothing() {
    skip_unless!(Facility::Root, Facility::Tool("chattr"));
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    let asked = store.ask_to_forget(&Forget::All).expect("writable");
    let request = files(&dir).into_iter().find(|name| name.contains("forget")).expect("asked");
    let is_kept = |flag: &str| {
        let mut chattr = Command::new(testkit::program("chattr").expect("it is there"));
        chattr.arg(flag).arg(dir.join(&request)).status().is_ok_and(|status| status.success())
    };
    if !is_kept("+i") {
        return testkit::skip("files of this file system cannot be made immutable");
    }
    held.absorb(Patterns::default(), &Options::default()).expect("writable");
    assert!(asked.is_there());
    assert!(is_kept("-i"));
    held.absorb(Patterns::default(), &Options::default()).expect("writable");
    assert!(!asked.is_there());
}

#[test]
fn what_others_saw_is_left_until_it_is_saved() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    store.leave("nearfirst-trace 1\n").expect("writable");
    let left = || files(&dir).into_iter().filter(|name| name.contains("seen")).count();
    let absorb = || held.absorb(Patterns::default(), &Options::default());
    // A folder in the place of what is written.
    fs::create_dir(dir.join("trees.part")).expect("ours");
    absorb().expect_err("it cannot be saved");
    assert_eq!(left(), 1);
    fs::remove_dir(dir.join("trees.part")).expect("ours");
    absorb().expect("writable");
    assert_eq!(left(), 0);
}

#[test]
fn requests_to_forget_are_bounded() {
    let dir = Dir::new();
    let store = PatternStore::at(dir.path());
    let refused = |what: &Forget| store.ask_to_forget(what).expect_err("too much").to_string();
    let name = "n".repeat(2 << 20);
    let many = Forget::Programs(vec![name.clone().into(), name.into()]);
    assert!(refused(&many).contains("too many programs"));
    for _ in 0..64 {
        store.ask_to_forget(&Forget::All).expect("writable");
    }
    assert!(refused(&Forget::All).contains("64 requests to forget wait already"));
    assert_eq!(files(&dir).len(), 64);
    let held = store.hold(Duration::ZERO, &Clock::real()).expect("writable").expect("ours");
    held.absorb(Patterns::default(), &Options::default()).expect("writable");
    assert_eq!(files(&dir), ["trees.lock"]);
    // Nobody asks by so many files.
    for at in 10..80 {
        dir.create(format!("trees.forget.{at}-1"), "programs\none\0");
    }
    held.absorb(Patterns::default(), &Options::default()).expect("writable");
    assert_eq!(files(&dir).iter().filter(|name| name.contains("forget")).count(), 70 - 64);
}
