//! Names that are none of DNS, told by `openssl s_client`, which holds the whole transcript against ours.

use super::{clients, folder, rules, server};
use handshake::{Acceptor, ClientVerdict, First, Outcome, Secured, ServerTls, Step, hello};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// One handshake with `openssl s_client`: what it says, and what came of it here.
fn meet(server: &Arc<ServerTls>, arguments: &[&str]) -> (String, Result<Secured, String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let client = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-ign_eof"])
        .args(arguments)
        .current_dir(folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl");
    let (mut socket, _) = listener.accept().expect("a client");
    let (mut received, mut acceptor) = (Vec::new(), None);
    let result = loop {
        let mut bytes = [0; 4_096];
        let length = socket.read(&mut bytes).expect("bytes");
        if length == 0 {
            break Err("its end".into());
        }
        received.extend_from_slice(&bytes[..length]);
        if acceptor.is_none() {
            match hello::first(&received) {
                First::Whole(hello, _) => acceptor = Some(Acceptor::new(Arc::clone(server), hello)),
                First::Partial(_) => continue,
                other => break Err(format!("{other:?}")),
            }
        }
        let Some(acceptor) = &mut acceptor else { continue };
        let Step { consumed, out, outcome } = acceptor.on_bytes(&received);
        received.drain(..consumed);
        socket.write_all(&out).expect("sent");
        match outcome {
            Outcome::Waits => {}
            Outcome::Done(secured) => break Ok(*secured),
            Outcome::Failed(why) => break Err(why.to_string()),
        }
    };
    // Not closed before what came is read: that would be a reset.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = std::io::copy(&mut socket, &mut std::io::sink());
    let output = client.wait_with_output().expect("openssl");
    (String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(), result)
}

#[test]
fn names_that_are_none_of_dns_are_taken_as_by_openssl() {
    let long = ["a"; 120].join(".");
    let server = server(rules(&["rsa"]));
    for (name, host) in [
        ("one.example", Some("one.example")),
        ("one.example:443", Some("one.example")),
        (".example", Some(".example")),
        ("one example", None),
        ("-one.example", Some("-one.example")),
        ("127.0.0.1", Some("127.0.0.1")),
        ("::1", None),
        ("one..example", None),
        ("\u{1}\u{e4}", None),
        (&*long, Some(&*long)),
    ] {
        // With TLS 1.3 also by a HelloRetryRequest: its first key is in a group that is not here.
        for how in [&["-tls1_2"][..], &["-tls1_3"], &["-tls1_3", "-groups", "P-521:X25519"]] {
            let (said, result) = meet(&server, &[&["-servername", name], how].concat());
            let secured = result.unwrap_or_else(|why| panic!("{name} {how:?}: {why}\n{said}"));
            assert_eq!(secured.session.server_name.as_deref(), host, "{name} {how:?}");
            assert!(said.contains("New, TLSv1."), "{name} {how:?}\n{said}");
        }
    }
}

/// The proof that a session is had covers what was sent, too.
#[test]
fn sessions_of_such_names_go_on() {
    let server = server(rules(&["ec"]));
    for version in ["-tls1_2", "-tls1_3"] {
        let kept = format!("odd{version}");
        let usual = ["-servername", "one example", version];
        let (said, result) = meet(&server, &[&usual[..], &["-sess_out", &kept]].concat());
        assert!(result.is_ok_and(|secured| !secured.session.resumed), "{said}");
        let (said, result) = meet(&server, &[&usual[..], &["-sess_in", &kept]].concat());
        assert!(result.is_ok_and(|secured| secured.session.resumed), "{said}");
        assert!(said.contains("Reused, TLSv1."), "{said}");
    }
}

/// With TLS 1.2 a client signs all messages up to there.
#[test]
fn clients_with_such_names_show_certificates() {
    let mut rules = rules(&["ec"]);
    rules.clients = clients(None);
    let server = server(rules);
    for version in ["-tls1_2", "-tls1_3"] {
        let own = ["-servername", "one example", version, "-cert", "client.pem", "-key", "client.key"];
        let (said, result) = meet(&server, &own);
        assert!(result.is_ok_and(|secured| secured.session.verdict == ClientVerdict::Trusted), "{said}");
    }
}
