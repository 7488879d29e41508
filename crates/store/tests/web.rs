//! Objects and pages of real and of misbehaving web servers.

#![cfg(feature = "web")]

use std::error::Error as _;
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use nearfirst_store::{
    Costs, Entries, Entry, Error, Name, Query, Sequence, StorageOptions, Store as _, Stores,
    StoresOptions, Version, Web,
};
use testkit::server::{Answer, Misbehaving, Nginx};
use testkit::{Dir, Facility, cmd, skip_unless};

/// Longer than any answer here takes, shorter than a person waits for a broken test.
const ANSWER_MAX: Duration = Duration::from_secs(20);
const ALL: Range<u64> = 0..u64::MAX;

thread_local! {
    /// One for each test, as each has its thread and its runtime.
    static WEB: Web = Web::new(false, ANSWER_MAX);
}

fn web() -> Web {
    WEB.with(Web::clone)
}

fn named(url: &str) -> Entry {
    Entry::named(Name::from(url))
}

/// What a read brings: the entry, the range, the bytes.
async fn read(entry: &Entry, range: Range<u64>) -> Result<(Entry, Range<u64>, Vec<u8>), Error> {
    let reading = web().read(entry, range).await?;
    let bytes = reading.bytes.try_collect::<Vec<_>>().await?.concat();
    Ok((reading.entry, reading.range, bytes))
}

fn ask(page: &str, selector: &str) -> Entries {
    web().list(&Query::Ask { prefix: Name::from(page), text: selector.to_owned() })
}

/// Names as text, errors as `!` and their text.
async fn listed(entries: Entries) -> Vec<String> {
    let text = |entry: Result<Entry, Error>| match entry {
        Ok(entry) => entry.name.to_string(),
        Err(error) => format!("!{error}"),
    };
    entries.map(text).collect().await
}

#[tokio::test]
async fn a_real_server_is_read_by_ranges() {
    skip_unless!(Nginx::NEEDS);
    let nginx = Nginx::new();
    nginx.put("a.bin", "0123456789");
    nginx.put("empty", "");
    let entry = web().stat(&Name::from(nginx.url("a.bin"))).await.unwrap();
    assert_eq!((entry.size, entry.modified.is_some()), (Some(10), true));
    assert!(entry.version.as_ref().unwrap().as_str().starts_with('"'));
    for (range, bytes) in [
        (ALL, "0123456789"),
        (0..4, "0123"),
        (4..5, "4"),
        (7..99, "789"),
        (7..u64::MAX, "789"),
        (7..u64::MAX - 1, "789"),
        (10..20, ""),
        (50..60, ""),
        (3..3, ""),
    ] {
        let (now, of, found) = read(&entry, range.clone()).await.unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), bytes, "{range:?}");
        assert_eq!(of.end - of.start, bytes.len() as u64, "{range:?}");
        assert_eq!((now.size, now.name), (entry.size, entry.name.clone()));
    }
    for range in [ALL, 0..5] {
        let (now, of, found) = read(&named(&nginx.url("empty")), range).await.unwrap();
        assert_eq!((now.size, of, found), (Some(0), 0..0, vec![]));
    }
    nginx.put("a.bin", "other");
    let changed = read(&entry, 0..4).await.unwrap_err();
    assert!(matches!(changed, Error::Changed { .. }), "{changed}");
}

#[tokio::test]
async fn an_object_comes_as_it_is_stored_and_with_its_headers() {
    skip_unless!(Nginx::NEEDS);
    let nginx = Nginx::with("gzip on; gzip_min_length 1; gzip_types *; add_header X-Note 'kept';");
    let text = "again and again ".repeat(1000);
    nginx.put("a.txt", &text);
    let reading = web().read(&named(&nginx.url("a.txt")), ALL).await.unwrap();
    let kept = ("x-note".to_owned(), "kept".to_owned());
    assert!(reading.headers.contains(&kept), "{:?}", reading.headers);
    assert_eq!(reading.entry.size, Some(16_000));
    assert_eq!(reading.bytes.try_collect::<Vec<_>>().await.unwrap().concat(), text.as_bytes());
}

#[tokio::test]
async fn a_folder_of_a_real_server_is_a_set_of_its_links() {
    skip_unless!(Nginx::NEEDS);
    let nginx = Nginx::with("gzip on; gzip_min_length 1;");
    for name in ["data/a.gz", "data/b c.gz", "data/readme.txt"] {
        nginx.put(name, name);
    }
    let page = nginx.url("data/");
    let expected = [format!("{page}a.gz"), format!("{page}b%20c.gz")];
    assert_eq!(listed(ask(&page, "a[href$=\".gz\"]")).await, expected);
    assert_eq!(listed(ask(&page, "")).await.len(), 4, "these, the text, and the folder above");
    let (_, _, bytes) = read(&named(&expected[1]), ALL).await.unwrap();
    assert_eq!(bytes, b"data/b c.gz");
}

#[tokio::test]
async fn a_server_that_ignores_ranges_is_read_all_the_same() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("0123456789").ignores_ranges());
    server.answer("/chunked", Answer::bytes("0123456789").ignores_ranges().chunked());
    for (path, size, whole) in [("/a", Some(10), 0..10), ("/chunked", None, ALL)] {
        let entry = named(&server.url(path));
        let (now, of, bytes) = read(&entry, 0..4).await.unwrap();
        assert_eq!((now.size, of, &*bytes), (size, whole, &b"0123456789"[..]));
        let (_, of, bytes) = read(&entry, 4..7).await.unwrap();
        assert_eq!((of, &*bytes), (4..7, &b"456"[..]));
    }
    let (_, of, bytes) = read(&named(&server.url("/a")), 12..14).await.unwrap();
    assert!(of.is_empty() && bytes.is_empty());
}

#[tokio::test]
async fn a_part_of_what_has_no_known_end_is_not_taken_for_the_whole() {
    let server = Misbehaving::new();
    let part = || Answer::refusal(206, "0123").header("Content-Range", "bytes 0-3/*");
    let whole = || Answer::bytes("0123456789").ignores_ranges();
    server.answers("/sized", [part(), whole()]);
    server.answers("/chunked", [part(), whole().chunked()]);
    for (path, size, expected) in [("/sized", Some(10), 0..10), ("/chunked", None, ALL)] {
        let (entry, of, bytes) = read(&named(&server.url(path)), 0..4).await.unwrap();
        assert_eq!((entry.size, of, &*bytes), (size, expected, &b"0123456789"[..]), "{path}");
    }
    server.answer("/never", part());
    let error = read(&named(&server.url("/never")), 0..4).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let known = Entry { size: Some(4), ..named(&server.url("/never")) };
    assert_eq!(read(&known, 0..9).await.unwrap().2, b"0123");
}

#[tokio::test]
async fn a_host_that_may_be_of_a_password_is_not_named() {
    for (url, told) in [
        ("http://u:a@127.0.0.1:1/c@h", "http://u@...@h: no connection to ... ("),
        ("http://u:a@127.0.0.1:1/c", "http://u@127.0.0.1:1/c: no connection to 127.0.0.1 ("),
    ] {
        let error = read(&named(url), 0..4).await.unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

#[tokio::test]
async fn a_body_that_ends_too_early_is_an_interruption() {
    let server = Misbehaving::new();
    let whole = || Answer::bytes(vec![7; 1000]);
    server.answer("/ends", whole().ends_after(300));
    server.answer("/resets", whole().resets_after(300));
    server.answer("/says-more", whole().says_length(1200));
    server.answer("/says-less", whole().says_length(600));
    server.answer("/chunks", whole().chunked().ends_after(300));
    for (path, range) in [
        ("/ends", ALL),
        ("/ends", 0..500),
        ("/resets", ALL),
        ("/resets", 100..500),
        ("/says-more", ALL),
        ("/says-less", 0..1000),
        ("/chunks", ALL),
        ("/chunks", 0..500),
    ] {
        let error = read(&named(&server.url(path)), range.clone()).await.unwrap_err();
        assert!(matches!(error, Error::Interrupted { .. }), "{path} {range:?}: {error}");
    }
    for (range, expected) in
        [("bytes 0-3/30", "transient"), ("bytes 5-8/30", "final"), ("pages 0-3/30", "final")]
    {
        server.answer("/part", Answer::status(206).header("Content-Range", range));
        let error = read(&named(&server.url("/part")), 0..20).await.unwrap_err();
        assert_eq!(error.is_transient(), expected == "transient", "{range}: {error}");
    }
}

#[tokio::test]
async fn an_end_is_believed_if_it_is_told_where_it_is() {
    let server = Misbehaving::new();
    let beyond = |size: &str| Answer::status(416).header("Content-Range", size);
    server.answer("/told", beyond("bytes */5"));
    server.answer("/not-told", Answer::status(416));
    server.answer("/denies", beyond("bytes */50"));
    server.answers("/empty", [Answer::status(416), Answer::bytes("").ignores_ranges()]);
    let (entry, of, _) = read(&named(&server.url("/told")), 7..9).await.unwrap();
    assert_eq!((entry.size, of), (Some(5), 5..5));
    for path in ["/not-told", "/denies"] {
        let error = read(&named(&server.url(path)), 7..9).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{path}: {error}");
    }
    let pinned = Entry { version: Some(Version::new("\"1\"")), ..named(&server.url("/denies")) };
    assert!(matches!(read(&pinned, 7..9).await, Err(Error::Changed { .. })));
    let (entry, ..) = read(&named(&server.url("/empty")), 0..9).await.unwrap();
    assert_eq!(entry.size, Some(0));
}

#[tokio::test]
async fn a_change_is_noticed_whatever_the_server_checks() {
    let server = Misbehaving::new();
    let dated = |text: &str, second: u8| {
        let date = format!("Sun, 06 Nov 1994 08:49:{second:02} GMT");
        Answer::bytes(text).etag("").header("Last-Modified", &date)
    };
    server.answers("/tag", [Answer::bytes("one"), Answer::bytes("two")]);
    server.answers("/date", [dated("one", 1), dated("two", 2)]);
    server.answers("/size", [dated("one", 1), dated("three", 1)]);
    server.answers("/weak", [dated("one", 1).etag("W/\"x\""), dated("two", 2).etag("W/\"x\"")]);
    for path in ["/tag", "/date", "/size", "/weak"] {
        let (entry, ..) = read(&named(&server.url(path)), 0..2).await.unwrap();
        let error = read(&entry, 1..3).await.unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{path}: {error}");
    }
    let conditions: Vec<_> = ["If-Match", "If-Unmodified-Since"]
        .map(|name| server.requests().iter().filter(|it| it.header(name).is_some()).count())
        .into();
    assert_eq!(conditions, [1, 3]);
    let unlike = Entry { version: Some(Version::new("\n")), ..named(&server.url("/tag")) };
    assert!(matches!(read(&unlike, ALL).await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn a_status_says_what_can_be_done() {
    let server = Misbehaving::new();
    for (status, kind) in [
        (401, "Denied"),
        (403, "Denied"),
        (404, "NotFound"),
        (410, "NotFound"),
        (400, "Refused"),
        (418, "Refused"),
        (500, "Interrupted"),
        (502, "Interrupted"),
        (504, "Interrupted"),
        (429, "Busy"),
        (503, "Busy"),
    ] {
        server.answer("/a", Answer::status(status).header("Retry-After", "7"));
        let name = Name::from(server.url("/a"));
        let mut errors = vec![
            read(&Entry::named(name.clone()), ALL).await.unwrap_err(),
            web().stat(&name).await.unwrap_err(),
        ];
        // A page is asked for again while that may help.
        if !errors[0].is_transient() {
            errors.push(ask(&server.url("/a"), "").next().await.unwrap().unwrap_err());
        }
        for error in errors {
            assert!(format!("{error:?}").starts_with(kind), "{status}: {error:?}");
            assert!(error.to_string().starts_with(&server.url("/a")), "{error}");
            if let Error::Busy { retry_after, .. } = error {
                assert_eq!(retry_after, Some(Duration::from_secs(7)));
            }
        }
    }
}

#[tokio::test]
async fn a_page_that_does_not_come_is_asked_for_again() {
    let server = Misbehaving::new();
    server.answers("/page", [Answer::status(503), Answer::hang_up(), Answer::html("<a href=x>x")]);
    assert_eq!(listed(ask(&server.url("/page"), "")).await, [server.url("/x")]);
}

#[tokio::test]
async fn what_head_does_not_tell_a_byte_does() {
    let server = Misbehaving::new();
    for status in [400, 403, 405, 501] {
        server.answers("/a", [Answer::status(status), Answer::bytes("0123456789")]);
        server.reset_counts();
        let entry = web().stat(&Name::from(server.url("/a"))).await.unwrap();
        assert_eq!(entry.size, Some(10));
        let requests = server.requests();
        let asked: Vec<_> = requests.iter().map(|it| (&*it.method, it.header("range"))).collect();
        assert_eq!(asked, [("HEAD", None), ("GET", Some("bytes=0-0"))]);
    }
}

#[tokio::test]
async fn a_token_is_shown_to_its_server_alone_and_in_no_message() {
    let (server, other) = (Misbehaving::new(), Misbehaving::new());
    let page = format!("<a href=/a>a</a> <a href={}>b</a>", other.url("/b"));
    server.answer("/page.html", Answer::html(&page));
    server.answer("/a", Answer::bytes("text"));
    server.answer("/sent-on", Answer::redirect(&other.url("/b")));
    other.answer("/b", Answer::status(403));
    let given = [("http_origin", server.endpoint()), ("http_token", "secret".to_owned())];
    let storage = StorageOptions::new(given.clone()).unwrap();
    let options = StoresOptions { storage, ..StoresOptions::default() };
    let stores = Stores::new(Arc::new(Costs::load()), &options);
    let page = Query::Ask { prefix: Name::from(server.url("/page.html")), text: "a".to_owned() };
    let mut told = listed(stores.list(&page)).await;
    assert_eq!(told, [server.url("/a"), other.url("/b")]);
    for url in [server.url("/a"), server.url("/sent-on"), other.url("/b")] {
        let name = Name::from(url);
        let store = stores.of(&name).unwrap();
        told.extend(store.stat(&name).await.err().map(|error| error.to_string()));
        told.extend(store.read(&Entry::named(name), ALL).await.err().map(|e| e.to_string()));
    }
    let shown = |server: &Misbehaving| {
        let is_token = |(field, text): &(String, String)| {
            field.eq_ignore_ascii_case("authorization") && text == "Bearer secret"
        };
        let asked = server.requests();
        let shown = asked.iter().filter(|request| request.headers.iter().any(is_token)).count();
        (shown, asked.len())
    };
    assert_eq!(shown(&server), (6, 6));
    assert_eq!((shown(&other).0, told.len()), (0, 6));
    assert!(told.iter().all(|text| !text.contains("secret")), "{told:?}");

    let storage = StorageOptions::new(given[1..].to_vec()).unwrap();
    let options = StoresOptions { storage, ..StoresOptions::default() };
    let stores = Stores::new(Arc::new(Costs::load()), &options);
    let name = Name::from(server.url("/a"));
    let error = stores.of(&name).unwrap().stat(&name).await.unwrap_err();
    assert!(error.to_string().ends_with("http_token is given without http_origin"), "{error}");
}

#[tokio::test]
async fn redirects_are_followed_but_not_for_ever() {
    let server = Misbehaving::new();
    server.answer("/there/page", Answer::html("<a href=x>").header("X-Here", "yes"));
    server.answer("/here", Answer::redirect("/there/page"));
    server.answer("/loop", Answer::redirect("/pool"));
    server.answer("/pool", Answer::redirect("/loop"));
    server.answer("/out", Answer::redirect("file:///etc/passwd"));
    server.answer("/choice", Answer::status(300).header("Location", "/a?sig=SECRET"));
    server.answer("/further", Answer::redirect("/there/choice"));
    server.answer("/there/choice", Answer::status(300).header("Location", "b"));
    server.answer("/nowhere", Answer::status(300).header("Location", "http://[a?sig=SECRET"));
    for hop in 0..20 {
        server.answer(&format!("/{hop}"), Answer::redirect(&format!("/{}", hop + 1)));
    }
    let (entry, _, bytes) = read(&named(&server.url("/here")), 0..3).await.unwrap();
    assert_eq!((entry.name, &*bytes), (Name::from(server.url("/here")), &b"<a "[..]));
    assert_eq!(listed(ask(&server.url("/here"), "")).await, [server.url("/there/x")]);
    for (path, said) in [
        ("/loop", "in a circle"),
        ("/0", "more than 10 times"),
        ("/out", "sends on to file:///etc/passwd"),
        ("/choice", "/a?sig=, where"),
        ("/further", "/there/b, where"),
        ("/nowhere", "sends on to http://[a?sig=, where"),
    ] {
        let error = read(&named(&server.url(path)), ALL).await.unwrap_err();
        assert!(
            matches!(&error, Error::Refused { reason, .. } if reason.contains(said)),
            "{error}"
        );
    }
}

/// The system's number that lies under an error.
fn number_under(error: &Error) -> Option<i32> {
    let mut chain = std::iter::successors(error.source(), |&error| error.source());
    chain.find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error())
}

#[tokio::test]
async fn what_a_connection_met_lies_under_its_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://me:secret@{free}/a");
    let refused = read(&named(&url), ALL).await.unwrap_err();
    for error in [&refused, &refused.again()] {
        assert_eq!(number_under(error), Some(libc::ECONNREFUSED), "{error:?}");
        let mut chain = std::iter::successors(error.source(), |&error| error.source());
        assert!(chain.all(|error| !format!("{error} {error:?}").contains("secret")));
    }
    let server = Misbehaving::new();
    server.answer("/none", Answer::status(404));
    let missing = read(&named(&server.url("/none")), ALL).await.unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(missing.source().is_none(), "a status is no error of somebody else's");
}

#[tokio::test]
async fn a_host_that_a_request_was_sent_on_to_is_named_if_it_fails() {
    let server = Misbehaving::new();
    server.answer("/first", Answer::redirect("/second"));
    // A port that nothing but root may listen to, and nothing does.
    server.answer("/second", Answer::redirect("http://127.0.0.2:1/x"));
    let error = read(&named(&server.url("/first")), 0..1).await.unwrap_err();
    assert!(error.reason().starts_with("no connection to 127.0.0.2"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_is_none() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = read(&named(&format!("http://{free}/a")), ALL).await.unwrap_err();
    assert!(matches!(&nobody, Error::Interrupted { .. }), "{nobody}");
    assert!(nobody.to_string().contains("no connection"), "{nobody}");

    let server = Misbehaving::new();
    server.answer("/up", Answer::hang_up());
    let hung = read(&named(&server.url("/up")), ALL).await.unwrap_err();
    assert!(matches!(&hung, Error::Interrupted { .. }), "{hung}");

    server.answer("/late", Answer::bytes("x").delayed(ANSWER_MAX));
    let soon = Web::new(false, Duration::from_millis(50));
    let late = soon.read(&named(&server.url("/late")), ALL).await.unwrap_err();
    assert!(late.is_transient() && late.to_string().contains("0.05 s"), "{late}");

    for bad in ["http://", "http://h:x/", "ftp://h/", "http://a b/"] {
        assert!(!read(&named(bad), ALL).await.unwrap_err().is_transient(), "{bad}");
    }
}

#[tokio::test]
async fn a_page_that_never_ends_is_listed_until_nobody_wants_more() {
    let server = Misbehaving::new();
    let links: Vec<_> = (0..100).map(|n| format!("<p><a href={n}>{n}</a></p>\n")).collect();
    server.answer("/endless", Answer::endless(&links.concat()));
    let names = ask(&server.url("/endless"), "p > a").take(100).collect::<Vec<_>>().await;
    assert_eq!(names.len(), 100);
    assert!(names.iter().all(Result::is_ok));
    let ends = async {
        while server.counts("/endless").concurrent > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(ANSWER_MAX, ends).await.expect("the request ends with the listing");
}

#[tokio::test]
async fn links_are_given_while_a_page_hangs_and_before_it_breaks() {
    let server = Misbehaving::new();
    let page = "<a href=one>1</a>\n<a href=two>2</a>\n".to_owned() + &" ".repeat(1000);
    server.answer("/hangs", Answer::html(&page).stalls_after(100));
    server.answer("/breaks", Answer::html(&page).ends_after(100));
    let names = ask(&server.url("/hangs"), "").take(2).collect::<Vec<_>>().await;
    assert!(names.iter().all(Result::is_ok), "{names:?}");
    let names: Vec<_> = ask(&server.url("/breaks"), "").collect().await;
    assert!(matches!(names[..], [Ok(_), Ok(_), Err(Error::Interrupted { .. })]), "{names:?}");
    server.answer("/a.bin", Answer::bytes("<a href=x>").header("Content-Type", "image/png"));
    let said = listed(ask(&server.url("/a.bin"), "")).await;
    assert!(said.len() == 1 && said[0].ends_with("this is image/png"), "{said:?}");
}

#[tokio::test]
async fn a_page_that_hangs_ends_in_an_error_behind_its_links() {
    let server = Misbehaving::new();
    let page = "<a href=x>x</a>";
    server.answer("/hangs", Answer::html(&page.repeat(2)).stalls_after(page.len() as u64));
    let impatient = Web::new(false, Duration::from_secs(2));
    let prefix = Name::from(server.url("/hangs"));
    let links = listed(impatient.list(&Query::Ask { prefix, text: String::new() })).await;
    assert_eq!(links.len(), 2, "{links:?}");
    assert_eq!(links[0], server.url("/x"));
    assert!(links[1].ends_with("no more of it came for 2 s"), "{links:?}");
}

#[tokio::test]
async fn a_page_in_an_encoding_that_nobody_knows_is_an_error_and_not_empty() {
    let server = Misbehaving::new();
    let encoded = |coding| Answer::html("<a href=x>x</a>").header("Content-Encoding", coding);
    server.answer("/packed", encoded("x-compress"));
    server.answer("/mistaken", encoded("utf-8"));
    let said = listed(ask(&server.url("/packed"), "")).await;
    assert!(said.len() == 1 && said[0].contains("encoded as x-compress"), "{said:?}");
    assert_eq!(listed(ask(&server.url("/mistaken"), "")).await, [server.url("/x")]);
}

#[tokio::test]
async fn a_page_is_read_in_the_encoding_that_its_server_says() {
    let server = Misbehaving::new();
    let pages = [
        ("/said", "text/html; Charset=\"iso-8859-1\"", "<a href='\u{e9}'>"),
        ("/over", "text/html;charset=latin1", "<meta charset=utf-8><a href='\u{e9}'>"),
        ("/itself", "text/html", "<meta charset=latin1><a href='\u{e9}'>"),
        ("/unknown", "text/html; charset=x", "<meta charset=latin1><a href='\u{e9}'>"),
    ];
    for (path, kind, page) in pages {
        let latin: Vec<u8> = page.chars().map(|c| u8::try_from(c).unwrap()).collect();
        server.answer(path, Answer::bytes(latin).header("Content-Type", kind));
        assert_eq!(listed(ask(&server.url(path), "")).await, [server.url("/%C3%A9")], "{path}");
    }
    let wide: Vec<u8> = "<a href=x>".bytes().flat_map(|byte| [byte, 0]).collect();
    let answer = Answer::bytes(wide).header("Content-Type", "text/html; charset=utf-16le");
    server.answer("/wide", answer);
    let said = listed(ask(&server.url("/wide"), "")).await;
    assert!(said.len() == 1 && said[0].contains("UTF-16"), "{said:?}");
}

#[tokio::test]
async fn a_name_lists_itself_and_a_pattern_is_told_of_pages() {
    let name = "http://h.example/search?q=*";
    assert_eq!(listed(web().list(&Query::Glob(Name::from(name), Sequence::InTurn))).await, [name]);
    let said =
        listed(web().list(&Query::Glob(Name::from("http://h.example/*.gz"), Sequence::InTurn)))
            .await;
    assert!(said.len() == 1 && said[0].contains("\\a[href$=\".gz\"]\\"), "{said:?}");
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_is_refused() {
    skip_unless!(Nginx::NEEDS, Facility::Tool("openssl"));
    let dir = Dir::new();
    let (key, certificate) = (dir.join("key"), dir.join("certificate"));
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1";
    cmd("openssl", words.split(' '))
        .arg("-subj")
        .arg("/CN=127.0.0.1")
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .run()
        .succeeds();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (key, certificate) = (key.display(), certificate.display());
    let nginx = Nginx::with(&format!(
        "listen {free} ssl; ssl_certificate_key {key}; ssl_certificate {certificate};"
    ));
    let own = read(&named(&format!("https://{free}/a")), ALL).await.unwrap_err();
    assert!(
        matches!(&own, Error::Refused { reason, .. } if reason.contains("certificate")),
        "{own}"
    );
    let none = read(&named(&format!("https://{}/a", nginx.address())), ALL).await.unwrap_err();
    assert!(matches!(&none, Error::Refused { .. }), "{none}");
}

/// Public servers are behind a proxy, so that this needs none: the proxy
/// answers for them. It is named in the environment, so this test runs itself.
#[test]
fn a_public_page_does_not_lead_into_a_private_network() {
    let server = Misbehaving::new();
    let (public, secret) = ("http://public.example", server.url("/secret"));
    let page = format!("<a href=a><a href={secret}><a href=http://printer.local/><a href=b>");
    server.answer(&format!("{public}/page"), Answer::html(&page));
    server.answer(&format!("{public}/sly"), Answer::redirect(&secret));
    server.answer("/secret", Answer::bytes("secret"));
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "behind_a_proxy", "--ignored", "--nocapture"]);
    again.env("http_proxy", server.endpoint()).env("no_proxy", "127.0.0.1");
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(server.counts("/secret").requests, 1, "when it was allowed");
}

#[tokio::test]
#[ignore = "run by the test above, behind its proxy"]
async fn behind_a_proxy() {
    let said = listed(ask("http://public.example/page", "")).await;
    assert_eq!((&*said[0], &*said[3]), ("http://public.example/a", "http://public.example/b"));
    let refused = |said: &str| said.starts_with('!') && said.contains("in a private network");
    assert!(said.len() == 4 && refused(&said[1]) && refused(&said[2]), "{said:?}");
    let sly = named("http://public.example/sly");
    let error = web().read(&sly, ALL).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("private")),
        "{error}"
    );
    let sly_folder = named("webdav://public.example/sly");
    let error = stores().of(&sly_folder.name).unwrap().read(&sly_folder, ALL).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("private")),
        "{error}"
    );
    let reading = Web::new(true, ANSWER_MAX).read(&sly, ALL).await.unwrap();
    assert_eq!(reading.bytes.try_collect::<Vec<_>>().await.unwrap().concat(), b"secret");
}

fn stores() -> Stores {
    Stores::new(Arc::new(Costs::load()), &StoresOptions::default())
}

#[tokio::test]
async fn a_page_in_a_file_is_a_set_of_its_links() {
    let dir = Dir::new();
    let page = dir.create("page.html", "<a href=a.txt>a</a> <a href=http://10.0.0.1/b>b</a>");
    let sniffed = dir.create("sniffed", "\n<html><base href=sub/><a href='c d.txt'>");
    let text = dir.create("text.txt", "<a href=a.txt");
    let stores = stores();
    let list = |page: &Path, selector: &str| {
        let query = Query::Ask { prefix: Name::from(page), text: selector.to_owned() };
        stores.list(&query)
    };
    let folder = dir.path().display();
    let links = listed(list(&page, "a[href]")).await;
    assert_eq!(links, [format!("{folder}/a.txt"), "http://10.0.0.1/b".to_owned()]);
    assert_eq!(listed(list(&sniffed, "")).await, [format!("{folder}/sub/c d.txt")]);
    assert_eq!(listed(list(&text, "")).await, [""; 0]);
    let missing = listed(list(&dir.join("none.html"), "")).await;
    assert!(missing.len() == 1 && missing[0].contains("none.html"), "{missing:?}");
}

#[tokio::test]
async fn each_name_goes_to_the_store_of_its_scheme() {
    let stores = stores();
    let of = |name: &str| stores.of(&Name::from(name)).map(|store| store.device(&Name::from(name)));
    assert_eq!(of("https://h.example/a").unwrap(), sled::Device::new("https://h.example"));
    assert!(matches!(of("gopher://h.example/a"), Err(Error::Unsupported { .. })));
    let query = Query::Run { folder: Name::from("/"), words: vec!["true".into()] };
    let refused = listed(stores.list(&query)).await;
    assert!(refused[0].contains("allow_programs"), "{refused:?}");
}
