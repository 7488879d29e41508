//! Where the keys of S3 come from. They are searched for in the environment of the process, so that
//! each case is a child of this test with an environment of its own.

use nearfirst_store::Error;
use testkit::server::{Answer, Misbehaving, S3};
use testkit::{Cmd, Dir, cmd, skip_unless};

use crate::{read, stores};

/// A child that runs one of the tests below, and knows nothing of the user's keys.
fn child(test: &str, home: &Dir) -> Cmd {
    let this = std::env::current_exe().unwrap();
    let mut child = cmd(this, ["--ignored", "--exact", test]);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("AWS_")) {
            child = child.without_env(name);
        }
    }
    child.env("HOME", home.path()).env("AWS_EC2_METADATA_DISABLED", "true")
}

#[track_caller]
fn passes(child: Cmd) {
    let output = child.run();
    assert!(output.code() == 0, "{}{}", output.text(), output.stderr());
    assert!(output.text().contains("1 passed"), "{}", output.text());
}

fn server() -> S3 {
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a", "text");
    s3
}

#[test]
fn keys_are_found_in_variables() {
    skip_unless!(S3::NEEDS);
    let s3 = server();
    let home = Dir::new();
    let with_keys = |child: Cmd| {
        s3.env().into_iter().fold(child, |child, (name, value)| child.env(name, value))
    };
    passes(with_keys(child("credentials::reads", &home)));
}

#[test]
fn keys_are_found_by_the_program_that_a_profile_names() {
    skip_unless!(S3::NEEDS);
    let s3 = server();
    let home = Dir::new();
    let (id, secret) = (S3::ACCESS_KEY, S3::SECRET_KEY);
    let answer =
        format!(r#"{{"Version": 1, "AccessKeyId": "{id}", "SecretAccessKey": "{secret}"}}"#);
    let keys = home.create("the keys", answer);
    let settings = format!(
        "[profile work]\nregion = {}\nendpoint_url = {}\ncredential_process = cat \"{}\"\n",
        S3::REGION,
        s3.endpoint(),
        keys.display()
    );
    home.create(".aws/config", settings);
    passes(child("credentials::reads", &home).env("AWS_PROFILE", "work"));
}

#[test]
fn keys_are_found_in_the_files_of_a_profile() {
    skip_unless!(S3::NEEDS);
    let s3 = server();
    let home = Dir::new();
    let (id, secret) = (S3::ACCESS_KEY, S3::SECRET_KEY);
    let keys = format!("[work]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    home.create(".aws/credentials", keys);
    let settings =
        format!("[profile work]\nregion = {}\nendpoint_url = {}\n", S3::REGION, s3.endpoint());
    home.create(".aws/config", settings);
    passes(child("credentials::reads", &home).env("AWS_PROFILE", "work"));
}

#[test]
fn a_server_of_keys_that_fails_for_once_is_asked_again() {
    skip_unless!(S3::NEEDS);
    let (s3, keys, home) = (server(), Misbehaving::new(), Dir::new());
    let (id, secret) = (S3::ACCESS_KEY, S3::SECRET_KEY);
    let given = format!(
        r#"{{"AccessKeyId": "{id}", "SecretAccessKey": "{secret}", "Token": "",
            "Expiration": "2100-01-01T00:00:00Z"}}"#
    );
    let (busy, broken) = (Answer::status(503), Answer::hang_up());
    keys.answers("/keys", [busy, broken, Answer::bytes(given)]);
    let child = child("credentials::are_not_there_for_now", &home);
    let child = child.env("AWS_ENDPOINT_URL", s3.endpoint()).env("AWS_REGION", S3::REGION);
    passes(child.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", keys.url("/keys")));
}

#[test]
fn without_keys_a_read_is_denied_with_what_to_do() {
    skip_unless!(S3::NEEDS);
    let s3 = server();
    let home = Dir::new();
    passes(child("credentials::is_denied", &home).env("AWS_ENDPOINT_URL", s3.endpoint()));
}

#[test]
fn a_server_of_google_keys_that_fails_for_now_is_told_of_though_another_has_none() {
    let (keys, home) = (Misbehaving::new(), Dir::new());
    keys.answer("/token", Answer::status(503));
    let host = format!("localhost:{}", keys.address().port());
    let account = format!(
        r#"{{"type": "external_account", "audience": "a", "subject_token_type": "t",
            "token_url": "http://{host}/token", "credential_source": {{"file": "{}", "format": {{"type": "text"}}}}}}"#,
        home.create("token", "text").display()
    );
    let child = child("credentials::of_google_are_not_there_for_now", &home);
    let child = child.env("GOOGLE_APPLICATION_CREDENTIALS", home.create("account", account));
    passes(child.env("GCE_METADATA_HOST", host));
    assert_eq!(keys.counts("/token").requests, 1);
    assert!(keys.total().requests > 1);
}

#[test]
fn a_proxy_is_not_asked_for_the_keys_of_a_cloud() {
    let (proxy, home) = (Misbehaving::new(), Dir::new());
    proxy.every_nth(1, Answer::status(503));
    let child = child("credentials::asks_for_keys", &home).without_env("AWS_EC2_METADATA_DISABLED");
    let child = child.without_env("no_proxy").without_env("NO_PROXY");
    passes(child.env("http_proxy", proxy.endpoint()));
    assert_eq!(proxy.total().requests, 0);
}

#[test]
#[ignore = "runs as a child of other tests"]
fn reads() {
    assert_eq!(read(&stores(&[]), "s3://bucket/a", 0..9).unwrap(), "text");
}

#[test]
#[ignore = "runs as a child of other tests"]
fn are_not_there_for_now() {
    let stores = stores(&[]);
    for _ in 0..2 {
        let error = read(&stores, "s3://bucket/a", 0..9).unwrap_err();
        assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    }
    assert_eq!(read(&stores, "s3://bucket/a", 0..9).unwrap(), "text");
}

#[test]
#[ignore = "runs as a child of other tests"]
fn is_denied() {
    let denied = read(&stores(&[]), "s3://bucket/a", 0..9).unwrap_err();
    let Error::Denied { reason, .. } = &denied else { panic!("{denied}") };
    assert!(
        reason.contains("AWS_ACCESS_KEY_ID") && reason.contains("AWS_SKIP_SIGNATURE"),
        "{reason}"
    );
}

#[test]
#[ignore = "runs as a child of other tests"]
fn of_google_are_not_there_for_now() {
    let stores = stores(&[("gcs_endpoint", "http://127.0.0.1:1")]);
    let busy = read(&stores, "gs://bucket/a", 0..9).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
}

#[test]
#[ignore = "runs as a child of other tests"]
fn asks_for_keys() {
    // Whether it finds some depends on where this runs.
    drop(read(&stores(&[("region", S3::REGION)]), "s3://bucket/a", 0..9));
}
