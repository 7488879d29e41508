//! Services of which there is no server here, by what they are asked and how scripted answers are
//! read; and what is said of names and options that cannot be right.

use std::time::Duration;

use nearfirst_store::{Algorithm, Entry, Error, Name, Version};
use testkit::server::{Answer, Link, Misbehaving, WebDav};
use testkit::skip_unless;

use crate::{Source as _, listed, names, read, read_entry, run, stat, stores};

/// The values of a header of the last request, and its target.
fn last(server: &Misbehaving, header: &str) -> (String, Option<String>) {
    let request = server.requests().pop().expect("something was asked");
    let mut headers = request.headers.into_iter();
    let value = headers.find(|(name, _)| name.eq_ignore_ascii_case(header)).map(|(_, value)| value);
    (request.target, value)
}

#[test]
fn google_is_asked_for_a_range_with_a_token() {
    let server = Misbehaving::new();
    let endpoint = server.endpoint();
    let stores = stores(&[("gcs_endpoint", &endpoint), ("gcs_token", "secret")]);
    let target = "/storage/v1/b/bucket/o/a%20b%2Fc?alt=media";
    server.answer(target, Answer::bytes("0123456789"));
    assert_eq!(read(&stores, "gs://bucket/a b/c", 2..u64::MAX).unwrap(), "23456789");
    let (asked, token) = last(&server, "authorization");
    assert_eq!((asked.as_str(), token.as_deref()), (target, Some("Bearer secret")));
    assert_eq!(last(&server, "range").1.as_deref(), Some("bytes=2-"));
    server.answer(target, Answer::status(503).header("Retry-After", "3"));
    let busy = read(&stores, "gs://bucket/a b/c", 0..u64::MAX);
    assert!(matches!(busy, Err(Error::Busy { retry_after: Some(_), .. })), "{busy:?}");
    server.answer(target, Answer::status(403));
    assert!(matches!(read(&stores, "gs://bucket/a b/c", 0..u64::MAX), Err(Error::Denied { .. })));
    server.answer(target, Answer::bytes("0123456789").ends_after(5));
    let short = read(&stores, "gs://bucket/a b/c", 0..u64::MAX);
    assert!(matches!(short, Err(Error::Interrupted { .. })), "{short:?}");
}

#[test]
fn google_is_to_leave_packed_what_is_kept_packed() {
    let server = Misbehaving::new();
    let endpoint = server.endpoint();
    let stores = stores(&[("gcs_endpoint", &endpoint), ("gcs_skip_signature", "true")]);
    let object = "/storage/v1/b/bucket/o/a.gz";
    let about = r#"{"size": "10", "etag": "e", "md5Hash": "", "updated": "2026-01-02T03:04:05.678Z",
        "contentType": "text/plain", "contentEncoding": "gzip"}"#;
    server.answer(object, Answer::bytes(about));
    let packed = Answer::bytes("0123456789").etag("e").header("Content-Encoding", "gzip");
    server.answer(&format!("{object}?alt=media"), packed);
    assert_eq!(stat(&stores, "gs://bucket/a.gz").unwrap().size, Some(10));
    // What is told of it is not to come packed.
    assert_eq!(last(&server, "accept-encoding").1, None);
    assert_eq!(read(&stores, "gs://bucket/a.gz", 2..5).unwrap(), "234");
    assert_eq!(last(&server, "accept-encoding").1.as_deref(), Some("gzip"));
}

#[test]
fn sums_are_told_with_the_first_byte() {
    let server = Misbehaving::new();
    let endpoint = server.endpoint();
    let stores = stores(&[
        ("gcs_endpoint", &endpoint),
        ("gcs_skip_signature", "true"),
        ("azblob_endpoint", &endpoint),
        ("azblob_skip_signature", "true"),
    ]);
    let sum = |name: &str| {
        let entry = Entry::named(Name::from(name));
        let told = run(stores.open(&entry.name).checksum(&entry)).unwrap();
        told.map(|sum| (sum.algorithm, sum.sum.len(), sum.parts))
    };
    let nine = || Answer::bytes("123456789");
    let google = nine().header("x-goog-hash", "crc32c=4waSgw==");
    server.answer("/storage/v1/b/bucket/o/a?alt=media", google);
    assert_eq!(sum("gs://bucket/a"), Some((Algorithm::Crc32c, 4, None)));
    assert_eq!(last(&server, "range").1.as_deref(), Some("bytes=0-0"));
    server.answer("/box/a", nine().header("x-ms-blob-content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="));
    assert_eq!(sum("az://box/a"), Some((Algorithm::Md5, 16, None)));
    server.answer("/box/a", nine());
    assert_eq!(sum("az://box/a"), None);
}

#[test]
fn google_lists_by_prefix() {
    let server = Misbehaving::new();
    let endpoint = server.endpoint();
    let stores = stores(&[("gcs_endpoint", &endpoint), ("gcs_skip_signature", "true")]);
    let page = r#"{"kind": "storage#objects", "prefixes": ["2026/x-d/"], "items": [
        {"name": "2026/x-1.gz", "size": "7", "etag": "e1", "md5Hash": "", "updated": "2026-01-02T03:04:05.678Z", "contentType": "x"},
        {"name": "2026/x-2.txt", "size": "8", "etag": "e2", "md5Hash": "", "updated": "2026-01-02T03:04:05.678Z", "contentType": "x"}]}"#;
    server.answer("/storage/v1/b/bucket/o", Answer::bytes(page));
    let entries = listed(&stores, "gs://bucket/2026/x-*.gz");
    let [Ok(entry)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(entry.name, Name::from("gs://bucket/2026/x-1.gz"));
    assert_eq!((entry.size, entry.modified.is_some()), (Some(7), true));
    assert_eq!(entry.version.as_ref().map(Version::as_str), Some("e1"));
    let (asked, authorization) = last(&server, "authorization");
    assert!(asked.contains("prefix=2026%2Fx-") && asked.contains("delimiter=/"), "{asked}");
    assert_eq!(authorization, None);
}

#[test]
fn azure_is_asked_at_its_account_with_its_signature() {
    let server = Misbehaving::new();
    let endpoint = server.endpoint();
    let options = [
        ("azblob_endpoint", endpoint.as_str()),
        ("account_name", "account"),
        ("account_key", "c2VjcmV0"),
    ];
    let stores = stores(&options);
    server.answer("/box/a/b", Answer::bytes("0123456789"));
    assert_eq!(read(&stores, "az://box/a/b", 3..u64::MAX).unwrap(), "3456789");
    let (asked, authorization) = last(&server, "authorization");
    assert_eq!(asked, "/box/a/b");
    assert!(authorization.unwrap().starts_with("SharedKey account:"));
    let signed = [("azblob_endpoint", endpoint.as_str()), ("sas_token", "?sv=1&sig=secret")];
    drop(read(&crate::stores(&signed), "az://box/a/b", 3..u64::MAX));
    assert_eq!(last(&server, "host").0, "/box/a/b?sv=1&sig=secret");
    let known = stat(&stores, "abfss://box@account.dfs.core.windows.net/a/b").unwrap();
    assert_eq!(known.size, Some(10));
    let page = r#"<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>
        <Blob><Name>a/b.gz</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0x1</Etag><Content-Length>5</Content-Length><Content-Type>x</Content-Type><Content-MD5></Content-MD5></Properties></Blob>
        </Blobs><NextMarker/></EnumerationResults>"#;
    server.answer("/box", Answer::bytes(page));
    assert_eq!(names(&stores, "az://box/a/*").into_iter().collect::<Vec<_>>(), ["az://box/a/b.gz"]);
    server
        .answer("/box/a/b", Answer::status(403).header("x-ms-error-code", "AuthenticationFailed"));
    let denied = read(&stores, "az://box/a/b", 0..u64::MAX).unwrap_err();
    assert!(
        matches!(&denied, Error::Denied { reason, .. } if reason.contains("AuthenticationFailed")),
        "{denied}"
    );
}

#[test]
fn hdfs_is_asked_over_http_as_the_user_of_the_name() {
    let server = Misbehaving::new();
    let stores = stores(&[]);
    let text = |kind: &str| {
        let status = r#"{"FileStatus": {"accessTime": 0, "blockSize": 0, "group": "g", "length": 10,
            "modificationTime": 1767323045678, "owner": "o", "pathSuffix": "", "permission": "644",
            "replication": 1, "type": "KIND"}}"#;
        status.replace("KIND", kind)
    };
    let status = |kind: &str| Answer::bytes(text(kind));
    let asks = "?op=GETFILESTATUS&user.name=me";
    server.answer(&format!("/webhdfs/v1/{asks}"), status("DIRECTORY"));
    server.answer(&format!("/webhdfs/v1/d/a{asks}"), status("FILE"));
    server.answer("/webhdfs/v1/d/a", Answer::bytes("0123456789").ignores_ranges());
    let name = format!("webhdfs://me@{}/d/a", server.address());
    let entry = stat(&stores, &name).unwrap();
    assert_eq!((entry.size, entry.version.is_some()), (Some(10), true));
    assert_eq!(read(&stores, &name, 0..u64::MAX).unwrap(), "0123456789");
    let (asked, _) = last(&server, "host");
    assert!(asked.contains("op=OPEN") && asked.contains("user.name=me"), "{asked}");
    let later = || Answer::bytes(text("FILE").replace("45678", "45679"));
    for (range, is_whole) in [(0..u64::MAX, true), (0..4, false), (4..10, false)] {
        server.answers(&format!("/webhdfs/v1/d/a{asks}"), [status("FILE"), later()]);
        let came = read(&stores, &name, range);
        let is_expected = came.as_ref().map_or_else(
            |error| !is_whole && matches!(error, Error::Changed { .. }),
            |came| is_whole && came == "0123456789",
        );
        assert!(is_expected, "a part is asked about again: {came:?}");
    }
    let denies = r#"{"RemoteException":{"exception":"AccessControlException",
        "message":"Permission denied: user=me, inode=\"/d\":root:drwx------"}}"#;
    server.answer("/webhdfs/v1/d/a", Answer::refusal(403, denies));
    let denied = read(&stores, &name, 0..u64::MAX).unwrap_err();
    assert!(
        denied
            .reason()
            .contains(r#"AccessControlException: Permission denied: user=me, inode="/d":root"#),
        "{denied}"
    );
}

#[test]
fn hdfs_is_told_a_token_or_who_runs_this() {
    let server = Misbehaving::new();
    let asks = "op=GETFILESTATUS&user.name=";
    for (options, tells_user) in [(&[][..], true), (&[("webhdfs_delegation", "secret")], false)] {
        drop(stat(&stores(options), &format!("webhdfs://{}/a", server.address())));
        let asked: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
        let is_told = |text| asked.iter().any(|target| target.contains(text));
        assert_eq!((is_told(asks), is_told("delegation=secret")), (tells_user, !tells_user));
        assert!(!is_told("MKDIRS"), "{asked:?}");
        server.reset_counts();
    }
}

#[test]
fn a_webdav_server_that_misbehaves_is_told_apart_like_any_other() {
    skip_unless!(WebDav::NEEDS);
    let server = WebDav::new();
    server.put("a", "0123456789");
    let proxy = Misbehaving::in_front_of(server.address(), Link::default());
    let stores = stores(&[]);
    let name = format!("webdav://{}/a", proxy.address());
    let entry = stat(&stores, &name).unwrap();
    proxy.reset_counts();
    assert_eq!(read_entry(&stores, &entry, 2..4).unwrap(), "23");
    let (_, pinned) = last(&proxy, "if-match");
    assert_eq!(pinned.as_deref(), entry.version.as_ref().map(Version::as_str));
    assert_eq!(proxy.total().requests, 1);
    let error = |answer: Answer| {
        proxy.answer("/a", answer);
        read_entry(&stores, &entry, 0..10).unwrap_err()
    };
    let busy = error(Answer::status(503).header("Retry-After", "7"));
    let seven = Some(Duration::from_secs(7));
    assert!(matches!(busy, Error::Busy { retry_after, .. } if retry_after == seven), "{busy}");
    assert!(matches!(error(Answer::status(429)), Error::Busy { .. }));
    assert!(matches!(error(Answer::status(500)), Error::Interrupted { .. }));
    assert!(matches!(error(Answer::status(401)), Error::Denied { .. }));
    assert!(matches!(error(Answer::status(404)), Error::NotFound { .. }));
    assert!(matches!(error(Answer::status(412)), Error::Changed { .. }));
    assert!(matches!(error(Answer::hang_up()), Error::Interrupted { .. }));
    for short in [Answer::forwarded().ends_after(4), Answer::forwarded().resets_after(4)] {
        let short = error(short);
        assert!(matches!(short, Error::Interrupted { .. }), "{short}");
    }
    // As RFC 9110, 14.2, allows.
    let etag = entry.version.as_ref().map(Version::as_str).unwrap_or_default();
    let whole = || Answer::bytes("0123456789").etag(etag);
    for (range, expected) in [(0..10, "0123456789"), (2..4, "23"), (4..10, "456789")] {
        proxy.answer("/a", whole().ignores_ranges());
        assert_eq!(read_entry(&stores, &entry, range).unwrap(), expected);
    }
    let other = error(whole().ignores_ranges().header("Content-Range", "bytes 1-9/10"));
    assert!(matches!(other, Error::Refused { .. }), "{other}");
    proxy.reset_counts();
    proxy.nth(1, Answer::status(503));
    assert_eq!(names(&stores, &format!("webdav://{}/*", proxy.address())), [name].into());
}

#[test]
fn a_host_that_a_request_was_sent_on_to_is_named_if_it_fails() {
    let server = Misbehaving::new();
    // A port that nothing but root may listen to, and nothing does.
    server.answer("/a", Answer::redirect("http://127.0.0.2:1/x"));
    let name = format!("webdav://{}/a", server.address());
    let error = read(&stores(&[]), &name, 0..1).unwrap_err();
    assert!(error.reason().starts_with("no connection to 127.0.0.2"), "{error}");
}

#[test]
fn a_webdav_server_may_list_whole_urls() {
    let server = Misbehaving::new();
    let response = |href: &str, kind: &str| {
        format!(
            "<D:response><D:href>{href}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype>
             <D:getcontentlength>7</D:getcontentlength>
             <D:getlastmodified>Fri, 02 Jan 2026 03:04:05 GMT</D:getlastmodified></D:prop>
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )
    };
    let page = |responses: &[(&str, &str)]| {
        let all: String = responses.iter().map(|(href, kind)| response(href, kind)).collect();
        Answer::refusal(207, &format!("<D:multistatus xmlns:D=\"DAV:\">{all}</D:multistatus>"))
    };
    let folder = "<D:collection/>";
    let (top, below) = (server.url("/dav/"), "https://behind.example/dav/sub");
    let file = format!("{top}a%20b.gz");
    server.answer("/dav/", page(&[(&top, folder), (&file, ""), (below, folder)]));
    server.answer("/dav/sub/", page(&[(&format!("{below}/"), folder), ("/dav/sub/c.gz", "")]));
    server.answer("/", page(&[(&server.endpoint(), folder), (&server.url("/d.gz"), "")]));
    let at = |key: &str| format!("webdav://{}/{key}", server.address());
    let stores = stores(&[]);
    assert_eq!(names(&stores, &at("dav/*.gz")), [at("dav/a b.gz")].into());
    let all = ["dav/a b.gz", "dav/sub/c.gz"].map(at);
    assert_eq!(names(&stores, &at("dav/**/*.gz")), all.into());
    assert_eq!(names(&stores, &at("*.gz")), [at("d.gz")].into());
}

#[test]
fn a_password_is_sent_to_the_server_and_to_nobody_who_reads_errors() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::status(403));
    let address = server.address();
    let by_option = stores(&[("webdav_username", "me"), ("webdav_password", "secret")]);
    let denied = read(&by_option, &format!("webdav://{address}/a"), 0..u64::MAX).unwrap_err();
    let (_, login) = last(&server, "authorization");
    assert_eq!(login.as_deref(), Some("Basic bWU6c2VjcmV0"));
    assert!(!denied.to_string().contains("secret"), "{denied}");
    let by_name = stores(&[]);
    let name = format!("webdav://me:secret@{address}/a");
    drop(read(&by_name, &name, 0..u64::MAX));
    assert_eq!(last(&server, "authorization").1.as_deref(), Some("Basic bWU6c2VjcmV0"));
    let encoded = format!("webdav://me:se%2Fcret@{address}/a");
    drop(read(&by_name, &encoded, 0..u64::MAX));
    assert_eq!(last(&server, "authorization").1.as_deref(), Some("Basic bWU6c2UvY3JldA=="));
    for scheme in ["webdav", "sftp", "http"] {
        let cut = Name::from(format!("{scheme}://me:se/cret@{address}/a"));
        let refused = by_name.of(&cut).map(drop).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{scheme}://me@{address}/a: ")), "{refused}");
        assert!(refused.contains("%2F"), "{refused}");
    }
    let name = Name::from(name.as_str());
    let device = by_name.of(&name).unwrap().device(&name);
    assert_eq!(device.name(), format!("webdav://me@{address}/"));
}

#[test]
fn a_page_of_a_listing_is_asked_for_again() {
    let server = Misbehaving::new();
    let endpoint = server.endpoint();
    let stores = stores(&[("gcs_endpoint", &endpoint), ("gcs_skip_signature", "true")]);
    let page = |name: &str, next: &str| {
        Answer::bytes(format!(
            r#"{{"kind": "storage#objects", {next} "items": [{{"name": "{name}", "size": "7", "etag": "e",
            "md5Hash": "", "updated": "2026-01-02T03:04:05.678Z", "contentType": "x"}}]}}"#
        ))
    };
    server.answer("/storage/v1/b/bucket/o", page("b", ""));
    server.nth(1, page("a", r#""nextPageToken": "more","#));
    // It wants to be left alone for longer than an answer may take, or nearly.
    server.nth(2, Answer::status(503).header("Retry-After", "6"));
    server.nth(3, Answer::status(503).header("Retry-After", "4"));
    server.nth(4, page("b", "").delayed(Duration::from_mins(1)));
    server.nth(5, Answer::hang_up());
    let found: Vec<_> = names(&stores, "gs://bucket/*").into_iter().collect();
    assert_eq!(found, ["gs://bucket/a", "gs://bucket/b"]);
}

#[test]
fn a_listing_that_goes_round_is_an_error_once_its_pages_come_again() {
    let (google, azure) = (Misbehaving::new(), Misbehaving::new());
    let (at_google, at_azure) = (google.endpoint(), azure.endpoint());
    let stores = stores(&[
        ("gcs_endpoint", &at_google),
        ("gcs_skip_signature", "true"),
        ("azblob_endpoint", &at_azure),
        ("azblob_account_name", "me"),
        ("azblob_account_key", "c2VjcmV0"),
    ]);
    let page = |name: &str, next: &str| {
        let items = format!(
            r#"{{"name": "{name}", "size": "7", "etag": "e", "md5Hash": "",
            "updated": "2026-01-02T03:04:05.678Z", "contentType": "x"}}"#
        );
        let items = if name.is_empty() { "" } else { &items };
        Answer::bytes(format!(r#"{{"nextPageToken": "{next}", "items": [{items}]}}"#))
    };
    let xml = |next: &str| {
        Answer::bytes(format!(
            "<?xml version=\"1.0\"?><EnumerationResults><Blobs></Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
        ))
    };
    let said = |pattern: &str| {
        let entries = listed(&stores, pattern);
        let names = entries.iter().flatten().map(|entry| entry.name.to_string());
        let names = names.collect::<Vec<_>>();
        let Some(Err(Error::Refused { reason, .. })) = entries.last() else {
            panic!("{entries:?}")
        };
        assert!(reason.contains("the listing goes round"), "{reason}");
        names
    };

    // From the third page to the second.
    google.answer("/storage/v1/b/bucket/o", page("d", "3"));
    google.nth(1, page("a", "2"));
    google.nth(2, page("b", "3"));
    google.nth(3, page("c", "2"));
    assert_eq!(said("gs://bucket/*"), ["gs://bucket/a", "gs://bucket/b", "gs://bucket/c"]);
    assert_eq!(google.total().requests, 3);

    // Without a name on any page.
    google.answer("/storage/v1/b/empty/o", page("", "2"));
    assert_eq!(said("gs://empty/*"), [""; 0]);
    azure.answer("/box", xml("2"));
    assert_eq!(said("az://box/*"), [""; 0]);
    assert_eq!(azure.total().requests, 2);

    // Pages may be empty as long as the next is another.
    google.reset_counts();
    let pages = (1..50).map(|at| page("", &at.to_string()));
    google.answers("/storage/v1/b/sparse/o", pages.chain([Answer::bytes("{}")]));
    assert!(listed(&stores, "gs://sparse/*").is_empty());
    assert_eq!(google.total().requests, 50);
}

#[test]
fn names_and_options_that_cannot_be_right_are_refused() {
    let stores = stores(&[]);
    let refused = |name: &str| match stores.of(&Name::from(name)) {
        Err(Error::Refused { reason, .. } | Error::Unsupported { reason, .. }) => reason,
        other => panic!("{name}: {other:?}"),
    };
    assert!(refused("az://box/a").contains("AZURE_STORAGE_ACCOUNT"));
    assert!(refused("file://host/a").contains("file:///"));
    assert!(refused("webdav:///a").contains("no bucket or host"));
    assert!(refused("gopher://host/a").contains("gopher"));
    let bytes = ["a b", "host;id", "host$x", "h\u{f6}st"];
    for host in bytes.into_iter().chain(["-oProxyCommand=id", "user@-v", "me@", "me@:22"]) {
        assert!(refused(&format!("sftp://{host}/a")).contains("a host has letters"), "{host}");
    }
    for user in ["-l", "a b", "$(id)", "a'b", "`id`", "me\\"] {
        assert!(refused(&format!("sftp://{user}@host/a")).contains("a user's name"), "{user}");
    }
    for host in ["me@host", "DOMAIN\\me@host_1.example", "[fe80::1%eth0]:22", "me:word@1.2.3.4"] {
        assert!(stores.of(&Name::from(format!("sftp://{host}/a").as_str())).is_ok(), "{host}");
    }
    let double = read(&stores, "webdav://127.0.0.1:1/a//b", 0..1);
    assert!(
        matches!(&double, Err(Error::Refused { reason, .. }) if reason.contains("//")),
        "{double:?}"
    );
}
