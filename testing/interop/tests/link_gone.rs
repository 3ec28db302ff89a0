//! The link goes away while connections are open.

use interop::{Nearside, STACK, TAP, in_namespace, ip, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Nobody can be told that the server stops, so it does not wait for anybody:
/// it would for half a minute otherwise, longer than a stop may take here.
#[test]
fn a_server_whose_device_was_deleted_stops_at_once() {
    in_namespace(&[], || {
        let server = Nearside::serve(["--respond", "text:Hello", "--link", TAP]);
        let mut kept = TcpStream::connect((STACK[0], 80)).unwrap();
        kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n").unwrap();
        // The first is answered; the second stays half a request.
        let mut answer = Vec::new();
        wait_for("an answer", Duration::from_secs(10), || {
            let mut piece = [0; 512];
            let len = kept.read(&mut piece).unwrap();
            answer.extend_from_slice(&piece[..len]);
            answer.ends_with(b"Hello")
        });
        ip("link del near0");
        let said = server.stop();
        assert!(said.contains("the link is down, 1 connections end unfinished"), "{said}");
    });
}
