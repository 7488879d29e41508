//! The misbehaving server does what it is told, as a plain client sees it.

use std::io::{BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use testkit::server::http::{get, request};
use testkit::server::{Answer, Link, Misbehaving};
use testkit::{noise, until};

#[test]
fn what_it_was_not_told_is_not_found() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("text"));
    server.answer("/a?x=1", Answer::bytes("one"));
    let text = |target| get(server.address(), target, &[]).unwrap().text();
    assert_eq!(
        [text("/a"), text("/a?x=2"), text("/a?x=1"), text("/b")],
        ["text", "text", "one", "404\n"]
    );
    assert_eq!((server.counts("/a").requests, server.counts("/a").bytes), (3, 11));
    assert_eq!((server.total().requests, server.connections()), (4, 4));
    server.reset_counts();
    assert_eq!(server.total(), testkit::server::Counts::default());
    assert!(server.requests().is_empty());
}

#[test]
fn answers_come_in_turn_and_the_last_one_stays() {
    let server = Misbehaving::new();
    let busy = Answer::status(429).header("Retry-After", "2");
    server.answers("/a", [busy, Answer::status(500), Answer::bytes("x"), Answer::bytes("y")]);
    let answers: Vec<_> = (0..5).map(|_| get(server.address(), "/a", &[]).unwrap()).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [429, 500, 200, 200, 200]);
    assert_eq!(answers[0].header("retry-after"), Some("2"));
    assert_eq!((answers[2].text().as_str(), answers[4].text().as_str()), ("x", "y"));
    assert_ne!(answers[2].header("ETag"), answers[3].header("ETag"));
    assert_eq!(answers[3].header("ETag"), answers[4].header("ETag"));
}

#[test]
fn the_nth_request_of_all_can_fail() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("a"));
    server.nth(2, Answer::status(503));
    server.every_nth(4, Answer::hang_up());
    let one = |_| get(server.address(), "/a", &[]).map(|answer| answer.status);
    let answers: Vec<_> = (0..8).map(one).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().copied()).collect();
    let ok = Some(200);
    assert_eq!(statuses, [ok, Some(503), ok, None, ok, ok, ok, None]);
}

#[test]
fn ranges_are_honoured_or_ignored() {
    let server = Misbehaving::new();
    server
        .answers("/a", [Answer::bytes("0123456789"), Answer::bytes("0123456789").ignores_ranges()]);
    let range = [("Range", "bytes=2-4")];
    let part = get(server.address(), "/a", &range).unwrap();
    assert_eq!((part.status, part.text().as_str()), (206, "234"));
    assert_eq!(part.header("Content-Range"), Some("bytes 2-4/10"));
    let whole = get(server.address(), "/a", &range).unwrap();
    assert_eq!((whole.status, whole.body.len()), (200, 10));
    let head = request(server.address(), "HEAD", "/a", &[], &[]).unwrap();
    assert_eq!((head.header("Content-Length"), head.body.len()), (Some("10"), 0));
    assert_eq!(server.requests()[0].header("range"), Some("bytes=2-4"));
}

#[test]
fn bodies_break_off_and_lengths_lie() {
    let server = Misbehaving::new();
    let text = || Answer::bytes(noise(100_000, 1));
    for (path, answer, bytes, broken) in [
        ("/truncated", text().ends_after(70_000), 70_000, Some(ErrorKind::UnexpectedEof)),
        ("/chunked", text().chunked(), 100_000, None),
        ("/broken-chunks", text().chunked().ends_after(10), 10, Some(ErrorKind::UnexpectedEof)),
        ("/longer", text().says_length(200_000), 100_000, Some(ErrorKind::UnexpectedEof)),
        ("/shorter", text().says_length(10), 10, None),
        ("/empty", text().ends_after(0), 0, Some(ErrorKind::UnexpectedEof)),
    ] {
        server.answer(path, answer);
        let came = get(server.address(), path, &[]).unwrap();
        assert_eq!((came.body.len(), came.broken), (bytes, broken), "{path}");
        assert!(came.body == noise(100_000, 1)[..bytes], "{path}");
    }
    server.answer("/reset", text().resets_after(1000));
    let reset = ErrorKind::ConnectionReset;
    // The reset may overtake the head.
    match get(server.address(), "/reset", &[]) {
        Ok(came) => assert_eq!(came.broken, Some(reset)),
        Err(error) => assert_eq!(error.kind(), reset),
    }
    assert_eq!(server.counts("/reset").bytes, 1000);
}

#[test]
fn redirects_point_in_a_circle() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::redirect("/b"));
    server.answer("/b", Answer::redirect(&server.url("/a")));
    let to = |path| {
        let answer = get(server.address(), path, &[]).unwrap();
        (answer.status, answer.header("Location").unwrap().to_owned())
    };
    assert_eq!(to("/a"), (302, "/b".to_owned()));
    assert_eq!(to("/b"), (302, server.url("/a")));
}

/// A connection on which `GET path` was sent.
fn asked(server: &Misbehaving, path: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
    BufReader::new(stream)
}

#[test]
fn endless_pages_go_on_until_the_client_has_enough() {
    let server = Misbehaving::new();
    server.answer("/", Answer::endless("<a href=x>y</a>\n"));
    let mut stream = asked(&server, "/");
    let mut some = vec![0; 3_000_000];
    stream.read_exact(&mut some).unwrap();
    let text = String::from_utf8(some).unwrap();
    assert!(text.contains("Transfer-Encoding: chunked") && text.contains("<a href=x>y</a>\n<a"));
    drop(stream);
    until("it stops sending", || server.total().concurrent == 0);
}

#[test]
fn a_stall_lasts_until_the_client_goes_and_is_counted_as_under_way() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("0123456789").stalls_after(4));
    let mut stalled: Vec<_> = (0..3).map(|_| asked(&server, "/a")).collect();
    until("all are stalled", || server.counts("/a").bytes == 12);
    assert_eq!((server.counts("/a").concurrent, server.counts("/a").concurrent_max), (3, 3));
    stalled.truncate(1);
    until("two are given up", || server.counts("/a").concurrent == 1);
    assert_eq!(server.total().concurrent_max, 3);
    let address = server.address();
    drop(server);
    let mut rest = String::new();
    stalled[0].read_to_string(&mut rest).ok();
    assert!(rest.ends_with("\r\n\r\n0123"), "{rest}");
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn slow_answers_are_whole() {
    let server = Misbehaving::new();
    let brief = Duration::from_millis(5);
    server.answer("/late", Answer::bytes("text").delayed(brief));
    server.answer("/dribble", Answer::bytes(noise(64, 2)).paced(1000));
    let link = Link {
        connect: brief,
        first_byte: brief,
        connection_bytes_per_second: Some(20_000_000),
        bytes_per_second: Some(10_000_000),
        ..Link::default()
    };
    server.set_link(link);
    server.answer("/linked", Answer::bytes(noise(200_000, 3)));
    let body = |path| get(server.address(), path, &[]).unwrap().body;
    assert_eq!(body("/late"), b"text");
    assert_eq!(body("/dribble"), noise(64, 2));
    assert!(body("/linked") == noise(200_000, 3));
}

#[test]
fn a_late_first_byte_is_not_there_before() {
    let server = Misbehaving::new();
    server.set_link(Link::with_first_byte(Duration::from_hours(1)));
    server.answer("/a", Answer::bytes("text"));
    let stream = asked(&server, "/a");
    until("it is asked", || server.total().concurrent == 1);
    stream.get_ref().set_nonblocking(true).unwrap();
    let nothing = stream.get_ref().peek(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    drop(stream);
    until("it is given up", || server.total().concurrent == 0);
}

#[test]
fn connections_are_kept_and_bodies_of_requests_skipped() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("text"));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let post = "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    write!(stream, "{post}{post}GET /a HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 3, "{all}");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_proxy_passes_on_what_it_is_not_told_to_spoil() {
    let behind = Misbehaving::new();
    behind.answer("/a", Answer::bytes(noise(100_000, 4)));
    behind.answer("/chunks", Answer::bytes(noise(100_000, 5)).chunked());
    let link = Link {
        first_byte: Duration::from_millis(1),
        slow_one_in: 3,
        slow_first_byte: Duration::from_millis(2),
        ..Link::default()
    };
    let proxy = Misbehaving::in_front_of(behind.address(), link);
    proxy.nth(4, Answer::forwarded().ends_after(10).header("X-Spoiled", "yes"));
    proxy.answer("/busy", Answer::status(503));
    let ask = |path| get(proxy.address(), path, &[("Range", "bytes=0-99999")]).unwrap();
    assert!(ask("/a").body == noise(100_000, 4));
    assert!(ask("/chunks").body == noise(100_000, 5));
    assert_eq!(ask("/busy").status, 503);
    let spoiled = ask("/a");
    assert_eq!((spoiled.body.len(), spoiled.header("x-spoiled")), (10, Some("yes")));
    assert_eq!(spoiled.broken, Some(ErrorKind::UnexpectedEof));
    assert_eq!(ask("/b").status, 404);
    let host = proxy.address().to_string();
    let seen = behind.requests();
    assert_eq!(
        seen.iter().map(|one| &*one.target).collect::<Vec<_>>(),
        ["/a", "/chunks", "/a", "/b"]
    );
    assert!(seen.iter().all(|one| one.header("host") == Some(&host)));
    assert_eq!((proxy.counts("/a").requests, proxy.counts("/a").bytes), (2, 100_010));
}

#[test]
fn a_proxy_keeps_connections_on_both_sides() {
    let behind = Misbehaving::new();
    behind.answer("/a", Answer::bytes("text"));
    let proxy = Misbehaving::in_front_of(behind.address(), Link::default());
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let put = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    write!(stream, "{put}{put}GET /a HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("\r\n\r\ntext").count(), 3, "{all}");
    assert_eq!((behind.total().requests, behind.connections()), (3, 1));
}

#[test]
fn many_clients_are_served_at_a_time() {
    let server = Misbehaving::new();
    let answer = Answer::bytes(noise(1000, 6)).stalls_after(999);
    server.answers("/a", [answer.clone(), answer, Answer::bytes(noise(1000, 6))]);
    let held = [asked(&server, "/a"), asked(&server, "/a")];
    until("two are stalled", || server.total().bytes == 1998);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(get(server.address(), "/a", &[]).unwrap().body.len(), 1000));
        }
    });
    assert!(server.total().concurrent_max >= 3);
    drop(held);
}

#[test]
fn the_link_can_change_while_somebody_waits_for_it() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("text"));
    server.set_link(Link { connect: Duration::from_hours(1), ..Link::default() });
    let waits = asked(&server, "/a");
    until("it is connected", || server.connections() == 1);
    server.set_link(Link::default());
    assert_eq!(get(server.address(), "/a", &[]).unwrap().text(), "text");
    drop(waits);
}
