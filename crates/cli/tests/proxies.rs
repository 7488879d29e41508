//! Proxies that the environment names: gone by, told of, or refused.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ground;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
        // To connect, to a name of so many bytes, and a port.
        let request = read(&mut client, 5);
        assert_eq!(request[..4], [5, 1, 0, 3]);
        let host = read(&mut client, request[4]);
        read(&mut client, 2);
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut behind = TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), behind.try_clone().unwrap());
        let asking = thread::spawn(move || io::copy(&mut from, &mut to));
        io::copy(&mut behind, &mut client).unwrap();
        drop(asking);
        String::from_utf8(host).unwrap()
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
