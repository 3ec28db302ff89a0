//! `nearside load` over HTTP/2: against a server that has it not, and calls of gRPC.

use super::{SHORT, Site, ends_with, load, scratch, text};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// A server of frames, which answers each request without content: HEADERS with this block. It ends with
/// its last connection.
fn frames(block: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/pkg.Service/Method", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asks may leave at any time.
            thread::spawn(move || answer(stream, block).unwrap_or_default());
        }
    });
    url
}

fn answer(mut stream: TcpStream, block: &[u8]) -> std::io::Result<()> {
    const SETTINGS: u8 = 4;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    assert!(preface.starts_with(b"PRI * HTTP/2.0"));
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload)?;
        // The end of DATA or HEADERS is the end of a request.
        if kind <= 1 && flags & 1 != 0 {
            assert!(kind == 1 || payload == b"\0\0\0\0\x03abc");
            let mut out = vec![0, 0, block.len() as u8, 1, 5];
            out.extend_from_slice(&id);
            out.extend_from_slice(block);
            stream.write_all(&out)?;
        }
    }
}

#[test]
fn a_server_without_http2_is_told_apart_from_one_that_answers_nonsense() {
    let site = Site::tcp();
    let output = load(&site.url, &format!("{SHORT} --http2"));
    ends_with(&output, 1, "does not speak HTTP/2");
    ends_with(&output, 1, "\"HTTP/1.1 ");
}

#[test]
fn calls_are_counted_by_the_name_of_their_status() {
    // :status 200, and grpc-status as a literal.
    let ok = frames(b"\x88\x00\x0bgrpc-status\x010");
    let file = scratch("message");
    std::fs::write(&file, "abc").expect("a file");
    let message = format!("--grpc --body @{}", file.display());
    // OK without a message is no right answer to a unary call.
    let output = load(&ok, &format!("{SHORT} {message} --max-concurrent-streams 5"));
    let told = text(&output.stdout);
    assert!(told.starts_with("POST http://127.0.0.1:"), "{told}");
    assert!(
        told.contains("gRPC over HTTP/2 with 5 streams at a time") && told.contains("\nCalls        OK "),
        "{told}"
    );
    assert!(told.contains("answers OK without one whole message"), "{told}");
    ends_with(&output, 0, "");
    let unavailable = frames(b"\x88\x00\x0bgrpc-status\x0214");
    let output = load(&unavailable, &format!("{SHORT} {message} --grpc-timeout 5s --json"));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["setup"]["http2"]["grpc"]["deadline_ns"], 5_000_000_000_u64);
    let calls = report["grpc"].as_object().expect("an object");
    assert_eq!(calls.keys().collect::<Vec<_>>(), ["UNAVAILABLE"]);
    assert_eq!(report["grpc"]["UNAVAILABLE"], report["traffic"]["responses"]);
    assert!(report["latency"]["samples"].as_u64() > Some(10), "{report}");
    let reasons = report["verdict"]["reasons"].to_string();
    assert!(reasons.contains("100 % of the calls came to another status than OK"), "{reasons}");
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn what_http2_and_grpc_may_be_asked() {
    let url = "http://127.0.0.1:1/";
    for (arguments, told) in [
        ("--http2 --max-concurrent-streams 251", "1..=250"),
        ("--http2 --max-concurrent-streams 0", "1..=250"),
        ("--max-concurrent-streams 5", "--http2"),
        ("--grpc --method GET", "--grpc"),
        ("--grpc-timeout 1s", "--grpc"),
        ("--grpc --pipeline 2", "--grpc"),
        ("--grpc --grpc-timeout 1us", "between 1 ms and 1,000 s"),
    ] {
        ends_with(&load(url, arguments), 2, told);
    }
}
