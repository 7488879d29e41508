//! S3 as a real server answers, and as one that misbehaves.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use nearfirst_store::{
    Costs, Entry, Error, Name, Query, Sequence, StorageOptions, Stores, StoresOptions, Tier,
    Version,
};
use testkit::server::{Answer, Link, Misbehaving, S3};
use testkit::skip_unless;

use crate::{listed, names, open, read, read_entry, run, s3_stores, stat, stores};

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Where a request says who pays.
const PAYER: &str = "x-amz-request-payer";

/// A server that answers as S3 does for the object `s3://bucket/a`, until told otherwise.
fn scripted() -> (Misbehaving, Stores) {
    let server = Misbehaving::new();
    server.answer("/bucket/a", Answer::bytes("0123456789"));
    let stores = s3_stores(&server.endpoint());
    (server, stores)
}

#[test]
fn who_asks_says_in_each_request_that_he_pays_if_he_does() {
    let server = Misbehaving::new();
    let listed = "<ListBucketResult><Contents><Key>a</Key><Size>10</Size></Contents>\
        </ListBucketResult>";
    server.answer("/bucket/", Answer::bytes(listed));
    server.answer("/bucket/a", Answer::bytes("0123456789"));
    let pays = |options: &[(&str, &str)]| {
        let endpoint = server.endpoint();
        let usual = [
            ("endpoint", endpoint.as_str()),
            ("access_key_id", S3::ACCESS_KEY),
            ("secret_access_key", S3::SECRET_KEY),
        ];
        let stores = stores(&[&usual, options].concat());
        server.reset_counts();
        assert_eq!(names(&stores, "s3://bucket/*"), set(["s3://bucket/a"]));
        let entry = stat(&stores, "s3://bucket/a").unwrap();
        assert_eq!(read_entry(&stores, &entry, 0..4).unwrap(), "0123");
        run(open(&stores, "s3://bucket/a").recall(&entry)).unwrap();
        let said = server.requests().into_iter().map(|request| {
            let field = |name| {
                let mut fields = request.headers.iter();
                fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, text)| text)
            };
            let is_signed = field("authorization").is_some_and(|text| text.contains(PAYER));
            (field(PAYER).cloned(), is_signed)
        });
        said.collect::<Vec<_>>()
    };
    assert_eq!(pays(&[]), vec![(None, false); 4]);
    assert_eq!(pays(&[("requester_pays", "true")]), vec![(Some("requester".into()), true); 4]);
}

#[test]
fn an_object_is_read_whole_in_ranges_and_beyond_its_end() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a/1.txt", "0123456789");
    s3.put("bucket/empty", "");
    let stores = s3_stores(&s3.endpoint());
    let name = "s3://bucket/a/1.txt";
    for (range, expected) in [
        (0..u64::MAX, "0123456789"),
        (3..5, "34"),
        (8..100, "89"),
        (8..u64::MAX, "89"),
        (10..20, ""),
        (50..60, ""),
        (4..4, ""),
    ] {
        assert_eq!(read(&stores, name, range.clone()).unwrap(), expected, "{range:?} by name");
        let entry = stat(&stores, name).unwrap();
        assert_eq!(read_entry(&stores, &entry, range.clone()).unwrap(), expected, "{range:?}");
    }
    assert_eq!(read(&stores, "s3://bucket/empty", 0..u64::MAX).unwrap(), "");
    assert_eq!(read(&stores, "s3://bucket/empty", 0..5).unwrap(), "");
}

#[test]
fn a_read_tells_the_size_and_version_that_the_name_alone_does_not() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a", "0123456789");
    let stores = s3_stores(&s3.endpoint());
    let known = stat(&stores, "s3://bucket/a").unwrap();
    assert_eq!((known.size, &known.tier), (Some(10), &Tier::Online));
    assert!(known.version.is_some() && known.modified.is_some());
    let store = open(&stores, "s3://bucket/a");
    let reading = run(store.read(&Entry::named(known.name.clone()), 2..4)).unwrap();
    assert_eq!(reading.range, 2..4);
    assert_eq!(reading.entry, known);
}

#[test]
fn what_changed_since_it_was_listed_is_not_read() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a", "old text");
    let stores = s3_stores(&s3.endpoint());
    let entries = listed(&stores, "s3://bucket/*");
    let entry = entries[0].as_ref().unwrap();
    s3.put("bucket/a", "new text");
    assert!(matches!(read_entry(&stores, entry, 0..4), Err(Error::Changed { .. })));
    s3.remove("bucket/a");
    assert!(matches!(read_entry(&stores, entry, 0..4), Err(Error::NotFound { .. })));
}

#[test]
fn a_key_may_hold_anything() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    let keys = [
        "a b",
        "a+b",
        "a%20b",
        "a#b",
        "a?b=c&d",
        "ü/日本",
        "a=b;c,d:e@f",
        "[x]{y}~!$'()*",
        "x\"<&>",
        " led",
    ];
    for key in keys {
        s3.put(&format!("bucket/{key}"), key);
    }
    let stores = s3_stores(&s3.endpoint());
    for key in keys {
        let name = format!("s3://bucket/{key}");
        assert_eq!(read(&stores, &name, 0..u64::MAX).unwrap(), key);
        assert_eq!(stat(&stores, &name).unwrap().size, Some(key.len() as u64));
    }
    let all = keys.map(|key| format!("s3://bucket/{key}")).into_iter().collect();
    assert_eq!(names(&stores, "s3://bucket/**"), all);
}

#[test]
fn a_pattern_lists_what_it_says_and_no_more() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    for key in [
        "2026/x-1/a.gz",
        "2026/x-1/b.txt",
        "2026/x-2/c/d.gz",
        "2026/y-1/a.gz",
        "2026/x-3.gz",
        "2026/.x/a.gz",
        "2025/x-1/a.gz",
        "top.gz",
        ".hidden.gz",
    ] {
        s3.put(&format!("bucket/{key}"), key);
    }
    let proxy = Misbehaving::in_front_of(s3.address(), Link::default());
    let stores = s3_stores(&proxy.endpoint());
    for (pattern, expected, prefixes) in [
        ("*.gz", set(["top.gz"]), vec!["", "delimited"]),
        (".*", set([".hidden.gz"]), vec![".", "delimited"]),
        ("2026/x-*", set(["2026/x-3.gz"]), vec!["2026/x-", "delimited"]),
        (
            "2026/x-*/*.gz",
            set(["2026/x-1/a.gz"]),
            vec!["2026/x-", "2026/x-1/", "2026/x-2/", "delimited"],
        ),
        ("*/x-1/a.gz", set(["2026/x-1/a.gz", "2025/x-1/a.gz"]), vec!["", "delimited"]),
        (
            "2026/**/*.gz",
            set(["2026/x-1/a.gz", "2026/x-2/c/d.gz", "2026/y-1/a.gz", "2026/x-3.gz"]),
            vec!["2026/"],
        ),
        (
            "2026/**",
            set([
                "2026/x-1/a.gz",
                "2026/x-1/b.txt",
                "2026/x-2/c/d.gz",
                "2026/y-1/a.gz",
                "2026/x-3.gz",
            ]),
            vec!["2026/"],
        ),
        ("**/c/*", set(["2026/x-2/c/d.gz"]), vec![""]),
        ("2026/[!x]-?/a.gz", set(["2026/y-1/a.gz"]), vec!["2026/", "delimited"]),
        ("2026/x-\\*", set([]), vec![]),
        ("nothing/*", set([]), vec!["nothing/", "delimited"]),
    ] {
        proxy.reset_counts();
        let found = names(&stores, &format!("s3://bucket/{pattern}"));
        let expected = expected.iter().map(|key| format!("s3://bucket/{key}")).collect();
        assert_eq!(found, expected, "{pattern}");
        let asked: BTreeSet<String> =
            proxy.requests().iter().filter_map(listing).flatten().collect();
        assert_eq!(asked, prefixes.into_iter().map(str::to_owned).collect(), "{pattern}");
    }
}

/// The prefix of a request that lists, and whether it was delimited.
fn listing(request: &testkit::server::Request) -> Option<Vec<String>> {
    let query = request.target.split_once('?')?.1;
    let value = |name: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(name));
        pair.map(|value| value.replace("%2F", "/"))
    };
    let delimited = value("delimiter=").map(|_| "delimited".to_owned());
    Some(value("prefix=").into_iter().chain(delimited).collect())
}

#[test]
fn a_listing_goes_on_over_pages_and_begins_before_it_ends() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    for number in 0..2500 {
        s3.put(&format!("bucket/many/{number:04}"), "x");
    }
    let proxy = Misbehaving::in_front_of(s3.address(), Link::default());
    let stores = s3_stores(&proxy.endpoint());
    assert_eq!(names(&stores, "s3://bucket/many/*").len(), 2500);
    assert_eq!(proxy.total().requests, 3);
    proxy.reset_counts();
    let store = open(&stores, "s3://bucket/many/*");
    let first = run(async {
        store.list(&Query::Glob(Name::from("s3://bucket/many/*"), Sequence::InTurn)).next().await
    });
    assert!(first.unwrap().is_ok());
    assert_eq!(proxy.total().requests, 1);
}

#[test]
fn a_listing_that_goes_round_ends_with_an_error() {
    let (server, stores) = scripted();
    let page = |key: &str, next: &str| {
        Answer::bytes(format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>{next}</NextContinuationToken>\
             <Contents><Key>{key}</Key></Contents></ListBucketResult>"
        ))
    };
    let goes_round = |error: &Error| error.to_string().contains("the listing goes round");
    // Each page is followed by itself.
    server.answer("/bucket/", page("a", "again"));
    let found = listed(&stores, "s3://bucket/*");
    assert!(matches!(&found[..], [Ok(_), Err(error)] if goes_round(error)), "{found:?}");

    // From the third page to the second.
    server.reset_counts();
    server.answer("/bucket/", page("d", "3"));
    server.nth(1, page("a", "2"));
    server.nth(2, page("b", "3"));
    server.nth(3, page("c", "2"));
    let found = listed(&stores, "s3://bucket/*");
    assert!(matches!(&found[..], [Ok(_), Ok(_), Err(error)] if goes_round(error)), "{found:?}");
    assert_eq!(server.total().requests, 3);
}

#[test]
fn a_listing_survives_a_busy_server_and_says_when_it_does_not() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a", "x");
    let proxy = Misbehaving::in_front_of(s3.address(), Link::default());
    let stores = s3_stores(&proxy.endpoint());
    proxy.nth(1, Answer::status(503));
    proxy.nth(2, Answer::hang_up());
    assert_eq!(names(&stores, "s3://bucket/*"), set(["s3://bucket/a"]));
    assert!(matches!(listed(&stores, "s3://missing/*")[..], [Err(Error::Refused { .. })]));
}

#[test]
fn errors_are_told_apart_by_what_to_do_next() {
    let (server, stores) = scripted();
    let error = |answer: Answer| {
        server.answer("/bucket/a", answer);
        read(&stores, "s3://bucket/a", 0..10).unwrap_err()
    };
    let slow = Answer::status(503).header("Retry-After", "7");
    let seven = Some(Duration::from_secs(7));
    assert!(matches!(error(slow), Error::Busy { retry_after, .. } if retry_after == seven));
    assert!(matches!(error(Answer::status(429)), Error::Busy { retry_after: None, .. }));
    for status in [500, 502, 504, 520, 599] {
        assert!(matches!(error(Answer::status(status)), Error::Interrupted { .. }), "{status}");
    }
    assert!(matches!(error(Answer::status(403)), Error::Denied { .. }));
    assert!(matches!(error(Answer::status(401)), Error::Denied { .. }));
    assert!(matches!(error(Answer::status(404)), Error::NotFound { .. }));
    assert!(matches!(error(Answer::status(412)), Error::Changed { .. }));
    for status in [400, 501] {
        assert!(matches!(error(Answer::status(status)), Error::Refused { .. }), "{status}");
    }
    assert!(matches!(error(Answer::hang_up()), Error::Interrupted { .. }));
    let elsewhere = Answer::status(301).header("x-amz-bucket-region", "eu-west-9");
    // There it is not, either: that is not followed any further.
    let told = error(elsewhere);
    assert!(
        matches!(&told, Error::Refused { reason, .. } if reason.contains("AWS_REGION=eu-west-9")),
        "{told}"
    );
}

#[test]
fn a_weak_version_is_compared_and_not_asked_for() {
    let (server, stores) = scripted();
    // By RFC 9110, 13.1.1, no weak one can match.
    let object = |version: &str| Answer::bytes("text").header("ETag", version);
    server.answer("/bucket/a", object("W/\"1\"").etag(""));
    let known = stat(&stores, "s3://bucket/a").unwrap();
    assert_eq!(read_entry(&stores, &known, 0..4).unwrap(), "text");
    let last = server.requests().pop().unwrap();
    assert_eq!((last.method.as_str(), last.header("if-match")), ("GET", None));
    server.answer("/bucket/a", object("W/\"2\"").etag(""));
    let changed = read_entry(&stores, &known, 0..4).unwrap_err();
    assert!(matches!(changed, Error::Changed { .. }), "{changed}");
}

#[test]
fn a_bucket_is_found_in_its_own_region_once_that_is_told() {
    let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong</Message>\
                     <Region>eu-west-9</Region></Error>";
    let in_text = Answer::refusal(400, malformed);
    let in_head = |status| Answer::status(status).header("x-amz-bucket-region", "eu-west-9");
    for elsewhere in [in_text, in_head(301), in_head(400)] {
        let (server, stores) = scripted();
        server.answers("/bucket/a", [elsewhere, Answer::bytes("text").etag("\"e\"")]);
        server.answer("/bucket/b", Answer::bytes("more"));
        assert_eq!(read(&stores, "s3://bucket/a", 0..10).unwrap(), "text");
        assert_eq!(read(&stores, "s3://bucket/b", 0..10).unwrap(), "more");
        let requests = server.requests();
        let signed: Vec<_> = requests.iter().filter_map(|r| r.header("authorization")).collect();
        let is_there: Vec<bool> =
            signed.iter().map(|signature| signature.contains("/eu-west-9/s3/")).collect();
        assert_eq!(is_there, [false, true, true], "{signed:?}");
    }
}

#[test]
fn fewer_bytes_than_promised_are_an_interruption() {
    let (server, stores) = scripted();
    for answer in [
        Answer::bytes("0123456789").ends_after(4),
        Answer::bytes("0123456789").resets_after(4),
        Answer::bytes("0123").chunked().header("Content-Range", "bytes 0-9/10"),
    ] {
        server.answer("/bucket/a", answer);
        let read = read(&stores, "s3://bucket/a", 0..10);
        assert!(matches!(read, Err(Error::Interrupted { .. })), "{read:?}");
    }
}

#[test]
fn nothing_from_an_offset_on_is_believed_if_the_object_ends_there() {
    let (server, stores) = scripted();
    let error = "<Error><Code>InvalidRange</Code></Error>";
    let beyond = || Answer::refusal(416, error);
    let named = Entry::named("s3://bucket/a".into());
    let listed =
        |size| Entry { size: Some(size), version: Some(Version::new("\"1\"")), ..named.clone() };
    let head = |text: &str, etag| Answer::bytes(text).etag(etag);
    // What is told of the error is not of the object.
    for beyond in [beyond(), beyond().chunked()] {
        server.answers("/bucket/a", [beyond, head("", "\"1\"")]);
        let store = open(&stores, "s3://bucket/a");
        let reading = run(store.read(&named, 0..10)).unwrap();
        assert_eq!((reading.entry.size, reading.range), (Some(0), 0..0));
    }
    server.answers("/bucket/a", [beyond(), head("0123", "\"2\"")]);
    let read = read_entry(&stores, &listed(10), 8..10);
    assert!(matches!(read, Err(Error::Changed { .. })), "{read:?}");
    for of in [&named, &listed(10)] {
        server.answers("/bucket/a", [beyond(), head("0123456789", "\"1\"")]);
        let read = read_entry(&stores, of, 8..10);
        assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
    }
    let part = Answer::refusal(206, "0123").header("Content-Range", "bytes 0-3/*");
    server.answer("/bucket/a", part);
    let read = read_entry(&stores, &named, 0..4);
    assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
    assert_eq!(read_entry(&stores, &listed(4), 0..4).unwrap(), "0123");
}

#[test]
fn a_part_of_what_has_no_length_is_whole_if_the_object_ends_with_it() {
    let (server, stores) = scripted();
    let part = |etag| {
        Answer::refusal(206, "456789").header("Content-Range", "bytes 4-9/*").header("ETag", etag)
    };
    let head = |text: &str| Answer::bytes(text).etag("\"1\"");
    let named = Entry::named("s3://bucket/a".into());
    let known = Entry { version: Some(Version::new("\"1\"")), ..named.clone() };
    for of in [&named, &known] {
        for wanted in [4..10, 4..u64::MAX] {
            server.answers("/bucket/a", [part("\"1\""), head("0123456789")]);
            assert_eq!(read_entry(&stores, of, wanted).unwrap(), "456789");
        }
        server.answers("/bucket/a", [part("\"1\""), head("0123456789ab")]);
        let read = read_entry(&stores, of, 4..u64::MAX);
        assert!(matches!(read, Err(Error::Interrupted { .. })), "{read:?}");
        server.answers("/bucket/a", [part("\"1\""), head("0123456789").chunked()]);
        let read = read_entry(&stores, of, 4..u64::MAX);
        assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
        server.answers("/bucket/a", [part("\"2\""), head("0123456789")]);
        let read = read_entry(&stores, of, 4..u64::MAX);
        assert!(matches!(read, Err(Error::Changed { .. })), "{read:?}");
    }
}

#[test]
fn a_server_that_ignores_ranges_is_cut_to_them() {
    let (server, stores) = scripted();
    server.answer("/bucket/a", Answer::bytes("0123456789").ignores_ranges());
    assert_eq!(read(&stores, "s3://bucket/a", 3..6).unwrap(), "345");
}

#[test]
fn a_read_is_one_request() {
    let (server, stores) = scripted();
    assert_eq!(read(&stores, "s3://bucket/a", 0..u64::MAX).unwrap(), "0123456789");
    let entry =
        Entry { version: Some(Version::new("\"other\"")), ..Entry::named("s3://bucket/a".into()) };
    assert!(matches!(read_entry(&stores, &entry, 1..3), Err(Error::Changed { .. })));
    assert_eq!(server.total().requests, 2);
    let requests = server.requests();
    let header = |name: &str| {
        let mut headers = requests[1].headers.iter();
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    assert_eq!(header("range"), Some("bytes=1-2"));
    assert_eq!(header("if-match"), Some("\"other\""));
    assert!(header("authorization").unwrap().starts_with("AWS4-HMAC-SHA256 Credential="));
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let server = Misbehaving::new();
    server.answer("/bucket/a", Answer::bytes("x").delayed(Duration::from_mins(10)));
    let options = StoresOptions {
        answer_max: Duration::from_millis(200),
        storage: StorageOptions::new([
            ("endpoint", server.endpoint().as_str()),
            ("skip_signature", "true"),
        ])
        .unwrap(),
        ..StoresOptions::default()
    };
    let stores = Stores::new(Arc::new(Costs::load()), &options);
    assert!(matches!(read(&stores, "s3://bucket/a", 0..1), Err(Error::Interrupted { .. })));
}

#[test]
fn a_listing_that_does_not_end_is_given_up() {
    let server = Misbehaving::new();
    let page = vec![b' '; (64 << 20) + 1];
    server.answer("/bucket", Answer::bytes(&page).stalls_after(page.len() as u64));
    server.answer("/bucket/", Answer::bytes(&page).stalls_after(page.len() as u64));
    let listed = listed(&s3_stores(&server.endpoint()), "s3://bucket/*");
    let is_refused = |error: &Error| error.to_string().contains("more than 67108864 bytes");
    assert!(matches!(&listed[..], [Err(error)] if is_refused(error)), "{listed:?}");
}

#[test]
fn where_a_server_cannot_be_reached_the_error_says_why() {
    let refused = |endpoint: &str| read(&s3_stores(endpoint), "s3://bucket/a", 0..1).unwrap_err();
    let server = Misbehaving::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = listener.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
        // Until the client is gone: closing earlier could reset what it is to read.
        std::io::copy(&mut client, &mut std::io::sink()).ok();
    });
    let plain = refused(&format!("https://{plain}"));
    answers.join().unwrap();
    assert!(
        matches!(&plain, Error::Refused { reason, .. } if reason.contains("check https or http")),
        "{plain}"
    );
    let gone = server.endpoint();
    drop(server);
    let gone = refused(&gone);
    assert!(matches!(gone, Error::Interrupted { .. }));
    let mut chain = std::iter::successors(gone.source(), |&error| error.source());
    let number = chain.find_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error());
    assert_eq!(number, Some(libc::ECONNREFUSED), "{gone:?}");
    let nowhere = refused("http://no-such-host.invalid");
    assert!(
        matches!(&nowhere, Error::Refused { reason, .. } if reason.contains("no-such-host.invalid"))
            || nowhere.is_transient(),
        "{nowhere}"
    );
}

#[test]
fn wrong_keys_and_bad_names_are_refused_with_their_reason() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a", "x");
    let endpoint = s3.endpoint();
    let wrong = stores(&[
        ("endpoint", &endpoint),
        ("region", S3::REGION),
        ("access_key_id", S3::ACCESS_KEY),
        ("secret_access_key", "wrong"),
    ]);
    assert!(matches!(read(&wrong, "s3://bucket/a", 0..1), Err(Error::Denied { .. })));
    let anonymous = stores(&[("endpoint", &endpoint), ("skip_signature", "true")]);
    assert!(matches!(read(&anonymous, "s3://bucket/a", 0..1), Err(Error::Denied { .. })));
    let right = s3_stores(&endpoint);
    assert!(matches!(read(&right, "s3://nobucket/a", 0..1), Err(Error::Refused { .. })));
    assert!(matches!(read(&right, "s3://bucket/missing", 0..1), Err(Error::NotFound { .. })));
    assert!(matches!(stat(&right, "s3://bucket"), Err(Error::Refused { .. })));
    assert!(matches!(stat(&right, "s3://bucket/"), Err(Error::Refused { .. })));
    // What the server answers for the bucket is a listing, and no object's bytes.
    for bucket in ["s3://bucket", "s3://bucket/"] {
        let found = read(&right, bucket, 0..u64::MAX);
        assert!(matches!(&found, Err(Error::Refused { .. })), "{bucket}: {found:?}");
    }
    assert!(matches!(read(&right, "s3://bucket/a/../b", 0..1), Err(Error::Refused { .. })));
    assert!(matches!(right.of(&Name::from("s3://")), Err(Error::Refused { .. })));
}
