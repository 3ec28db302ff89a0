//! What the server does when it is told to stop, or to open its log again.

use interop::{Nearside, STACK, TAP, in_namespace, ip, scratch, wait_for};
use rustix::process::Signal;
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
        wait_for("an answer", Duration::from_secs(120), || {
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

/// As nginx does, so that tools that rotate its logs rotate ours.
#[test]
fn the_log_is_opened_again_on_request() {
    in_namespace(&[], || {
        let folder = scratch("rotated-log");
        let [now, before] = ["access.log", "access.log.1"].map(|name| folder.join(name));
        for old in [&now, &before] {
            let _ = std::fs::remove_file(old);
        }
        let log = now.to_str().unwrap().to_owned();
        let server = Nearside::serve(["--respond", "text:Hello", "--link", TAP, "--access-log", &log]);
        let asked = |path: &str| {
            let mut stream = TcpStream::connect((STACK[0], 80)).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        };
        let has = |file: &std::path::Path, path: &str| {
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("\"GET {path} HTTP/1.1\" 200 5")))
        };
        asked("/first");
        wait_for("the first line", Duration::from_secs(120), || has(&now, "/first"));
        std::fs::rename(&now, &before).unwrap();
        server.signal(Signal::USR1);
        wait_for("the new file", Duration::from_secs(120), || now.exists());
        asked("/second");
        wait_for("the second line", Duration::from_secs(120), || has(&now, "/second"));
        assert!(has(&before, "/first") && !has(&now, "/first") && !has(&before, "/second"));
        server.stop();
    });
}
