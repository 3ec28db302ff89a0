//! What a client does to a connection of HTTP/2 that ends it: the error log has a line, as nginx's has.

use crate::http2_moving::frame;
use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:80";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Sends this behind the preface and SETTINGS, and reads to the end of the connection.
fn say(frames: &[u8]) {
    let mut stream = TcpStream::connect(ADDRESS).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // It may be reset before all is read.
    let _ = stream.write_all(&[PREFACE, &frame(4, 0, 0, &[]), frames].concat());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn who_breaks_a_connection_is_told_of() {
    in_namespace(&[], || {
        let folder = scratch("nginx-http2-faults");
        let log = folder.join("error.log");
        let _ = fs::remove_file(&log);
        let text = format!(
            "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info;\n\
             events {{}}\n\
             http {{ access_log off; server {{ listen {ADDRESS}; http2 on; location / {{ return 200 x; }} }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), text).unwrap();
        let mut command = Nearside::command(["nginx"]);
        command.arg("-p").arg(&folder).args(["-c", "nginx.conf", "-e", "stderr"]);
        let mut server = Running::start(&mut command);
        server.wait_until_open(ADDRESS);
        // GET, http, :authority and :path as they are.
        let asks = frame(1, 5, 1, b"\x82\x86\x01\x01a\x04\x01/");
        say(&asks);
        say(&frame(4, 0, 0, &[]).repeat(2_000));
        say(&[&asks[..], &frame(0, 0, 0, b"on no stream")].concat());
        say(&asks[..asks.len() - 1]);
        let lines = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let behind = " while processing HTTP/2 connection, client: 127.0.0.1, server: 127.0.0.1:80";
            let line = |line: &str| {
                let (before, words) = line.split_once("[info] ")?;
                assert!(!before.is_empty());
                Some(words.split_once(' ')?.1.split_once(' ')?.1.strip_suffix(behind)?.to_owned())
            };
            text.lines().filter_map(line).collect::<Vec<String>>()
        };
        wait_for("three lines", || lines().len() >= 3);
        server.stop();
        let told = [
            "http2 flood detected: SETTINGS",
            "client broke HTTP/2 (PROTOCOL_ERROR)",
            "client prematurely closed connection",
        ];
        assert_eq!(lines(), told, "and none of the client that did nothing");
    });
}
