//! Exchanges that are broken off by their clients or their upstreams, and answers that lead
//! elsewhere: beside nginx.

use crate::NGINX;
use crate::answer::Connection;
use crate::operators::{Server, both};
use crate::upstream::request_line;
use interop::{in_namespace, wait_for};
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const CONF: &str = "\
    error_log error.log;\n\
    http { log_format l '$request_uri $status $upstream_status $upstream_response_length'; access_log l.log l;\n\
    types { text/html html; text/plain txt; } default_type application/octet-stream; proxy_http_version 1.1;\n\
    client_header_timeout 20s; keepalive_timeout 900ms;\n\
    server { listen 127.0.0.1:80; proxy_pass_request_headers off;\n\
    location / { proxy_pass http://127.0.0.1:81; }\n\
    location /unpacked/ { gunzip on; gzip_http_version 1.0; proxy_pass http://127.0.0.1:81; }\n\
    location /finished/ { proxy_ignore_client_abort on; proxy_pass http://127.0.0.1:81; }\n\
    location /kept/ { internal; alias {folder}/www/; error_page 404 /missing.html; }\n\
    location = /missing.html { internal; return 200 '<p>not there</p>'; }\n\
    } }";

/// Bytes of a body that comes slowly, or breaks off.
const BYTES: usize = 8_192;

/// A gzip file without the eight bytes at its end (RFC 1952 section 2.2), of blocks that are
/// stored.
fn without_trailer(text: &[u8]) -> Vec<u8> {
    let mut out = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    let blocks = text.chunks(50_000);
    let last = blocks.len() - 1;
    for (at, block) in blocks.enumerate() {
        let length = block.len() as u16;
        out.push(u8::from(at == last));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out
}

fn text() -> Vec<u8> {
    (0..100_000_u32).map(|at| b'a' + (at.wrapping_mul(at) % 23) as u8).collect()
}

/// Answers each connection's request, by the last part of its path.
fn upstream() {
    let listener = TcpListener::bind("127.0.0.1:81").unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let line = request_line(&mut stream)?;
    let path = line.split(' ').nth(1)?;
    let whole = |status: &str, fields: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let packed = |body: &[u8]| whole("200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", body);
    let file = without_trailer(&text());
    let out = match path.rsplit('/').next()? {
        "late" => {
            thread::sleep(Duration::from_millis(300));
            whole("200 OK", "", b"abc")
        }
        "slow" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\n").ok()?;
            for _ in 0..20 {
                stream.write_all(b"x").ok()?;
                thread::sleep(Duration::from_millis(30));
            }
            return Some(());
        }
        "cut" => packed(&file),
        "middle" => packed(&file[..file.len() / 2]),
        "none" => packed(b"this is no gzip file"),
        "chunks" => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n";
            stream.write_all(&[&head[..], &[b'x'; BYTES], b"\r\n"].concat()).ok()?;
            b"zz\r\n".to_vec()
        }
        "untyped" => whole("200 OK", "X-Accel-Redirect: /kept/page.html\r\nContent-Type: \r\n", b""),
        "gone" => whole("200 OK", "X-Accel-Redirect: /kept/none.jpg\r\nContent-Type: image/jpeg\r\n", b""),
        "taken" => whole("422 Name Already Taken", "", b"x"),
        "fine" => whole("200 Fine", "", b"x"),
        "long" => {
            let mut out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".to_vec();
            (0..9).for_each(|_| out.extend_from_slice(&[&b"2000\r\n"[..], &[b'y'; BYTES], b"\r\n"].concat()));
            [&out[..], b"0\r\n\r\n"].concat()
        }
        _ => return None,
    };
    stream.write_all(&out).ok()
}

/// All that comes behind this until the connection's end, and whether that is an orderly one.
fn whole(request: &str) -> (Vec<u8>, bool) {
    let mut stream = TcpStream::connect("127.0.0.1:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut came = Vec::new();
    let ended = stream.read_to_end(&mut came).is_ok();
    (came, ended)
}

fn body_of(answer: &[u8]) -> &[u8] {
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n");
    at.map_or(&b""[..], |at| &answer[at + 4..])
}

/// Whoever leaves without an end leaves an upstream at work, where the place has it so: what is
/// asked is asked to its end.
#[test]
fn who_leaves_is_ignored_where_that_is_said() {
    in_namespace(&[NGINX], || {
        upstream();
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "left", CONF);
            for (path, resets) in [("late", true), ("slow", true), ("slow", false)] {
                let mut stream = TcpStream::connect("127.0.0.1:80").unwrap();
                let line = format!("GET /finished/{resets}/{path} HTTP/1.1\r\nHost: a\r\n\r\n");
                stream.write_all(line.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(100));
                if resets {
                    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                }
                drop(stream);
                wait_for("its line", || server.text("l.log").contains(&format!("{resets}/{path}")));
            }
            let lines = server.text("l.log");
            server.running.stop();
            lines
        });
        assert_eq!(seen[0], seen[1]);
        assert!(seen[1].contains("/finished/true/slow 200 200 20\n"), "{}", seen[1]);
    });
}

/// What a damaged file had before its damage comes to the client, who can tell that it is not all;
/// and the error log has a line.
#[test]
fn damaged_gzip_files_are_unpacked_as_far_as_they_go() {
    in_namespace(&[NGINX], || {
        upstream();
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "damaged", CONF);
            let bodies = ["cut", "middle", "none"].map(|name| {
                let chunks = whole(&format!("GET /unpacked/{name} HTTP/1.1\r\nHost: a\r\n\r\n")).0;
                assert!(!chunks.ends_with(b"0\r\n\r\n"), "{is_nginx} {name}");
                let (bare, _) = whole(&format!("GET /unpacked/{name} HTTP/1.0\r\n\r\n"));
                body_of(&bare).to_vec()
            });
            let told = |words: &str| server.text("error.log").matches(words).count();
            wait_for("lines", || told("inflate()") >= 6);
            let told = [told("inflate() returned -5 on response end"), told("inflate() failed: 0, -3")];
            server.running.stop();
            (bodies, told)
        });
        assert_eq!(seen[0].1, seen[1].1);
        let text = text();
        for (at, (nginx, ours)) in seen[0].0.iter().zip(&seen[1].0).enumerate() {
            assert!(ours.starts_with(nginx) && text.starts_with(ours), "{at}: {} {}", nginx.len(), ours.len());
        }
        // nginx keeps what does not fill a buffer.
        assert!(seen[0].0[0].len() > 90_000 && seen[1].0[0] == text);
        assert!(seen[1].0[1].len() > 49_000, "{}", seen[1].0[1].len());
    });
}

/// An upstream that breaks off within an answer whose end only the connection's end tells: what it
/// said comes first. A reset says the rest here.
#[test]
fn what_came_of_an_answer_comes_before_its_end() {
    in_namespace(&[NGINX], || {
        upstream();
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "chunks", CONF);
            let (answer, ended) = whole("GET /chunks HTTP/1.0\r\n\r\n");
            server.running.stop();
            assert_eq!(ended, is_nginx);
            body_of(&answer).to_vec()
        });
        // nginx keeps what does not fill a buffer: how much that is, is as it came.
        assert!([b'x'; BYTES].starts_with(&seen[0]), "{}", seen[0].len());
        assert!(seen[1] == [b'x'; BYTES], "{}", seen[1].len());
    });
}

/// Types of what an upstream leads to, and what it says behind a status.
#[test]
fn types_and_reasons_of_upstreams_are_as_with_nginx() {
    in_namespace(&[NGINX], || {
        upstream();
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "types", CONF);
            std::fs::write(server.folder.join("www/page.html"), "<p>page</p>").unwrap();
            let mut seen = ["untyped", "gone", "taken", "fine"].map(|name| {
                let request = format!("GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let answer = Connection::open("127.0.0.1:80").ask(request.as_bytes(), b"GET");
                (answer.line.clone(), answer.field("content-type").map(str::to_owned), answer.body)
            });
            // Its own name for that.
            seen[1].0.clear();
            server.running.stop();
            seen
        });
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[1][0].1.as_deref(), Some("text/html"));
        assert_eq!(seen[1][2].0, "HTTP/1.1 422 Name Already Taken");
    });
}

/// A connection is kept from when its last answer was taken; and what is no HTTP is refused at its
/// first bytes.
#[test]
fn connections_end_when_nginx_ends_them() {
    in_namespace(&[NGINX], || {
        upstream();
        for is_nginx in [true, false] {
            let server = Server::start(is_nginx, "ends", CONF);
            let begun = clock();
            assert!(whole("GET /long HTTP/1.1\r\nHost: a\r\n\r\n").0.ends_with(b"0\r\n\r\n"));
            let kept = begun.elapsed();
            assert!(kept > Duration::from_millis(850) && kept < Duration::from_secs(20), "{is_nginx} {kept:?}");
            assert!(whole("GE\u{80}").0.starts_with(b"HTTP/1.1 400 Bad Request\r\n"), "{is_nginx}");
            server.running.stop();
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "other programs answer in their own time")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
