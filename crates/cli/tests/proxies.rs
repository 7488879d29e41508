//! Proxies that the environment names: gone by, told of, or refused.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ground;

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::thread::{self, JoinHandle};

use ground::{Ground, stderr, stdout};
use testkit::server::{Answer, Misbehaving};

/// The program in an environment with these variables and no other proxy.
fn run(variables: &[(&str, &str)], args: &[&str]) -> Output {
    let ground = Ground::new();
    let mut command = ground.command(args);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env_remove("REQUEST_METHOD").envs(variables.iter().copied()).output().unwrap()
}

fn read(from: &mut TcpStream, length: u8) -> Vec<u8> {
    let mut bytes = vec![0; length.into()];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

/// A SOCKS5 proxy of one connection, which goes to `server` whoever is asked for; it ends with the
/// host that was.
fn socks_before(server: SocketAddr) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let methods = read(&mut client, 2)[1];
        read(&mut client, methods);
        client.write_all(&[5, 0]).unwrap();
        // To connect, to a name of so many bytes or an address, and a port.
        let request = read(&mut client, 4);
        assert_eq!(request[..3], [5, 1, 0]);
        let host = if request[3] == 3 {
            let length = read(&mut client, 1)[0];
            String::from_utf8(read(&mut client, length)).unwrap()
        } else {
            assert_eq!(request[3], 4);
            let address: [u8; 16] = read(&mut client, 16).try_into().unwrap();
            Ipv6Addr::from(address).to_string()
        };
        read(&mut client, 2);
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut behind = TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), behind.try_clone().unwrap());
        let asking = thread::spawn(move || io::copy(&mut from, &mut to));
        io::copy(&mut behind, &mut client).unwrap();
        drop(asking);
        host
    });
    (address, serving)
}

#[test]
fn a_socks_proxy_is_gone_by_and_resolves_names() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("text\n"));
    let (address, serving) = socks_before(server.address());
    let variable = ("ALL_PROXY", &*format!("socks5h://{address}"));
    let output = run(&[variable], &["cat", "http://no.such.invalid/a"]);
    assert_eq!((&*stdout(&output), &*stderr(&output)), ("text\n", ""));
    drop(server);
    assert_eq!(serving.join().unwrap(), "no.such.invalid");
}

#[test]
fn links_of_public_pages_into_a_private_network_are_followed_if_that_is_allowed() {
    let server = Misbehaving::new();
    let page = format!("<a href={}>", server.url("/secret"));
    server.answer("http://public.example/page", Answer::html(&page));
    server.answer("/secret", Answer::bytes("secret\n"));
    let proxy = server.endpoint();
    let variables = [("http_proxy", &*proxy), ("no_proxy", "127.0.0.1")];
    let links = r"http://public.example/page\a\";
    let refused = run(&variables, &["cat", links]);
    assert!(stderr(&refused).contains("127.0.0.1 is in a private network"), "{refused:?}");
    assert_eq!((refused.status.code(), server.counts("/secret").requests), (Some(1), 0));
    let allowed = run(&variables, &["cat", "--allow-private-links", links]);
    assert_eq!((&*stdout(&allowed), &*stderr(&allowed)), ("secret\n", ""));
}

#[test]
fn an_address_is_no_name_to_be_resolved_for_a_socks_proxy() {
    for name in ["http://[2001:db8::1]/a", "s3://bucket/a"] {
        let server = Misbehaving::new();
        server.answer("/a", Answer::bytes("text\n"));
        server.answer("/bucket/a", Answer::bytes("text\n"));
        let (address, serving) = socks_before(server.address());
        let variables = [
            ("ALL_PROXY", &*format!("socks5://{address}")),
            ("AWS_ENDPOINT_URL", "http://[2001:db8::1]"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        let output = run(&variables, &["cat", name]);
        assert_eq!((&*stdout(&output), &*stderr(&output)), ("text\n", ""), "{name}");
        drop(server);
        assert_eq!(serving.join().unwrap(), "2001:db8::1");
    }
}

#[test]
fn errors_name_the_proxy_that_a_request_went_by() {
    let said = |variables: &[(&str, &str)], url| {
        let output = run(variables, &["cat", "--attempts=1", url]);
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    let closed = "http://me:secret@127.0.0.1:1";
    for (variable, url) in [
        (("http_proxy", closed), "http://192.0.2.1/a"),
        (("HTTPS_PROXY", closed), "https://192.0.2.1/a"),
        (("ALL_PROXY", "socks5h://127.0.0.1:1"), "http://192.0.2.1/a"),
    ] {
        let said = said(&[variable], url);
        let starts =
            format!("nearfirst cat: {url}: no connection to 192.0.2.1 by the proxy 127.0.0.1:1 (");
        assert!(said.starts_with(&starts) && !said.contains("secret"), "{said}");
    }
    let nobody = [("HTTP_PROXY", "http://nosuch.invalid:3128")];
    let said_of_none = said(&nobody, "http://192.0.2.1/a");
    let told = "none of the proxy nosuch.invalid:3128";
    // A machine without a name server cannot tell.
    let is_told = said_of_none.contains(told) || said_of_none.contains("Temporary failure");
    assert!(is_told && said_of_none.contains("proxy nosuch.invalid:3128"), "{said_of_none}");
    let excepted = [("http_proxy", "http://127.0.0.1:2"), ("NO_PROXY", "127.0.0.0/8")];
    let direct = said(&excepted, "http://127.0.0.1:1/a");
    assert!(direct.contains("no connection to 127.0.0.1 ("), "{direct}");
}

#[test]
fn a_proxy_that_is_not_understood_is_not_passed_over() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("text\n"));
    let url = server.url("/a");
    for (variable, value) in [
        ("HTTP_PROXY", "sock5://me:secret@127.0.0.1:1"),
        ("http_proxy", " http://127.0.0.1:1"),
        ("ALL_PROXY", "socks5://127.0.0.1"),
    ] {
        for name in [&*url, "s3://bucket/a"] {
            let variables = [
                (variable, value),
                ("AWS_ENDPOINT_URL", &*server.endpoint()),
                ("AWS_REGION", "eu-west-1"),
                ("AWS_ACCESS_KEY_ID", "key"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
            ];
            let output = run(&variables, &["cat", name]);
            let said = stderr(&output);
            let expected =
                format!("{variable} names no proxy that is understood: http://HOST:PORT");
            assert!(said.contains(&expected) && !said.contains("secret"), "{said}");
            assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        }
    }
    assert_eq!(server.total().requests, 0);
    // Whoever is connected to directly needs none; where that leads, one may be needed.
    server.answer("/away", Answer::redirect("http://192.0.2.1/a"));
    let spared = [("HTTP_PROXY", "sock5://127.0.0.1:1"), ("NO_PROXY", "127.0.0.0/8")];
    assert_eq!(stdout(&run(&spared, &["cat", &url])), "text\n");
    let said = stderr(&run(&spared, &["cat", &server.url("/away")]));
    assert!(said.contains("HTTP_PROXY names no proxy that is understood"), "{said}");
    // What a stranger may set is not looked at, nor what is not needed.
    for variables in [
        [("HTTP_PROXY", "sock5://127.0.0.1:1"), ("REQUEST_METHOD", "GET")],
        [("HTTP_PROXY", ""), ("http_proxy", "sock5://127.0.0.1:1")],
    ] {
        assert_eq!(stdout(&run(&variables, &["cat", &url])), "text\n");
    }
}
