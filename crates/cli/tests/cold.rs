//! Objects in cold storage, through the built program: told, refused, restored, waited for.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ground;

use std::fs;
use std::process::Output;
use std::time::Duration;

use ground::{Ground, objects, stderr, stdout};
use serde_json::Value;
use testkit::server::{Answer, Link, Misbehaving, Moto, Request, S3};
use testkit::skip_unless;

/// A bucket of one object that can be read and one that cannot, and what is asked of it.
struct Archive {
    ground: Ground,
    moto: Moto,
    proxy: Misbehaving,
}

impl Archive {
    fn new() -> Self {
        let moto = Moto::new();
        moto.create_bucket("archive");
        moto.put("archive/cold", "cold text\n", "GLACIER");
        moto.put("archive/warm", "warm text\n", "STANDARD");
        moto.restore_takes(2);
        let proxy = Misbehaving::in_front_of(moto.address(), Link::default());
        Self { ground: Ground::new(), moto, proxy }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.ground.command(args);
        command.envs(S3::env_at(&self.proxy.endpoint())).output().unwrap()
    }

    /// What is known of the object of this name, which is asked for: this server's listings do
    /// not tell of restores.
    fn shown(&self, name: &str) -> Value {
        let [object] = &objects(&self.run(&["ls", "--json", name]))[..] else { panic!("one") };
        object.clone()
    }

    /// How often a restore was asked for.
    fn restores(&self) -> usize {
        self.proxy.requests().iter().filter(|request| request.method == "POST").count()
    }
}

#[test]
fn a_cold_member_is_named_and_the_others_are_copied() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    for args in [["cp", "s3://archive/*", "to"].as_slice(), &["cat", "s3://archive/*"]] {
        let output = archive.run(args);
        assert_eq!(output.status.code(), Some(1));
        let told = format!(
            "nearfirst {}: s3://archive/cold: in cold storage (GLACIER): it must be restored \
             before it can be read: --recall asks for that\n",
            args[0]
        );
        assert_eq!(stderr(&output), told);
    }
    assert_eq!(fs::read(archive.ground.path().join("to/warm")).unwrap(), b"warm text\n");
    assert_eq!(fs::read_dir(archive.ground.path().join("to")).unwrap().count(), 1);
    assert_eq!(archive.restores(), 0, "nothing is recalled unasked");
}

#[test]
fn what_is_cold_has_no_cost_that_a_measurement_could_tell() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    let found = archive.run(&["find", "s3://archive/cold", "-latency", "-1000"]);
    assert_eq!(stdout(&found), "");
    assert!(stderr(&found).ends_with("is unknown: it must be recalled first\n"), "{found:?}");
    let shown = archive.run(&["sleds", "s3://archive/cold"]);
    assert!(stdout(&shown).contains("cold:s3://archive"), "{shown:?}");
    assert!(stdout(&shown).contains("\nin cold storage (GLACIER)\n"), "{shown:?}");
    assert_eq!(stderr(&shown), "");
}

#[test]
fn sleds_say_of_what_is_cold_why_it_is() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    let told = |args: &[&str]| objects(&archive.run(&[&["sleds", "--json"], args].concat()));
    let [cold, warm] = &told(&["s3://archive/*"])[..] else { panic!("two") };
    assert_eq!(cold["reason"], "in cold storage (GLACIER)");
    assert_eq!(warm["reason"], Value::Null);
    let [cold] = &told(&["-s", "s3://archive/cold"])[..] else { panic!("one") };
    let reason = serde_json::json!([{ "reason": "in cold storage (GLACIER)", "files": 1 }]);
    assert_eq!(cold["reasons"], reason);
}

#[test]
fn what_is_cold_and_empty_is_found_by_its_device_and_far_away() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    archive.moto.put("archive/a", "", "GLACIER");
    let shown = archive.run(&["sleds", "s3://archive/a"]);
    assert_eq!(stdout(&shown), "s3://archive/a: empty, in cold storage (GLACIER)\n\n");
    let found = archive.run(&["find", "s3://archive", "-size", "0", "-device", "cold:s3://*"]);
    assert_eq!(stdout(&found), "s3://archive/a\n", "{}", stderr(&found));
    let ordered = archive.run(&["order", "s3://archive/a", "s3://archive/warm"]);
    assert_eq!(stdout(&ordered), "s3://archive/warm\ns3://archive/a\n");
}

#[test]
fn a_recall_says_when_the_member_will_be_there_and_the_rest_is_read() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    let output = archive.run(&["cat", "--recall", "s3://archive/*"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "warm text\n"));
    let told = "nearfirst cat: s3://archive/cold: in cold storage (GLACIER): its restore is under way \
                and takes 5 h at most: try again then, or --wait\n";
    assert_eq!(stderr(&output), told);
    assert_eq!(archive.restores(), 1);
    assert_eq!(archive.shown("s3://archive/cold")["tier"], "recalling");
    assert_eq!(archive.shown("s3://archive/warm")["tier"], "online");
}

#[test]
fn restored_members_are_waited_for_in_the_order_of_their_listing() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    let output = archive.run(&[
        "cat",
        "--recall=3",
        "--storage-option=aws_restore_days=9",
        "--wait",
        "s3://archive/*",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "cold text\nwarm text\n");
    assert!(stderr(&output).contains("takes 5 h at most"), "{}", stderr(&output));
    let cold = archive.shown("s3://archive/cold");
    assert_eq!(cold["tier"], "recalled");
    let days =
        cold["restored_until_unix_s"].as_f64().unwrap() - cold["modified_unix_s"].as_f64().unwrap();
    assert!((2.5..3.5).contains(&(days / 86_400.0)), "{days}");
    // What an order does not name comes as it is listed.
    let archive = Archive::new();
    let output =
        archive.run(&["cat", "--recall", "--wait", "--replay-order=/dev/null", "s3://archive/*"]);
    assert_eq!(stdout(&output), "cold text\nwarm text\n", "{}", stderr(&output));
}

#[test]
fn commands_that_read_wait_and_ls_only_asks() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    let output = archive.run(&["ls", "-l", "--recall", "s3://archive/c*", "s3://archive/warm"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("GLACIER (being restored)"), "{}", stdout(&output));
    assert_eq!(archive.restores(), 1);
    let waits = ["--recall", "--wait"];
    for (name, command) in [("k1", ["wc", "-l"].as_slice()), ("k2", &["grep", "-I", "text"])] {
        let object = format!("archive/{name}");
        archive.moto.put(&object, "a text\n", "DEEP_ARCHIVE");
        let output = archive.run(&[command, &waits, &[&format!("s3://{object}")]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("(DEEP_ARCHIVE)"), "{}", stderr(&output));
        assert!(stderr(&output).contains("takes 12 h at most"), "{}", stderr(&output));
    }
    archive.moto.put("archive/k3", "a text\n", "GLACIER");
    let output = archive.run(&["cp", "--recall", "--wait", "s3://archive/k3", "here"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(archive.ground.path().join("here")).unwrap(), b"a text\n");
    let restores = archive.restores();
    archive.moto.put("archive/k4", "a text\n", "GLACIER");
    assert!(archive.run(&["cp", "-n", "--recall", "s3://archive/k4", "x"]).status.success());
    assert!(archive.run(&["wc", "-c", "--recall", "s3://archive/k4"]).status.success());
    assert_eq!(archive.restores(), restores, "what is not read is not restored");
}

#[test]
fn a_wait_is_as_long_as_its_looks_and_the_time_between_them() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    archive.proxy.answer("/archive/cold", Answer::forwarded().delayed(Duration::from_secs(3)));
    let output = archive.run(&["cat", "--recall", "--wait=3", "s3://archive/*"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "warm text\n"));
    assert!(stderr(&output).contains("not restored yet, after 3 s"), "{}", stderr(&output));
    let is_look = |request: &&Request| request.method == "HEAD";
    assert_eq!(archive.proxy.requests().iter().filter(is_look).count(), 1);
}

#[test]
fn a_wait_ends_at_its_limit() {
    skip_unless!(Moto::NEEDS);
    let archive = Archive::new();
    let output = archive.run(&["cat", "--recall", "--wait=0.2", "s3://archive/*"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "warm text\n"));
    let told = stderr(&output);
    assert!(
        told.contains(
            "s3://archive/cold: in cold storage (GLACIER): not restored yet, after 0.2 s"
        ),
        "{told}"
    );
    let output = archive.run(&["cat", "--wait", "s3://archive/*"]);
    assert_eq!(output.status.code(), Some(2), "--wait alone waits for nothing");
}
