//! Bodies that were handed on as they came, and then are wanted again: by whom an error page
//! leads to, or by whom an upstream names.

use crate::NGINX;
use crate::answer::Connection;
use crate::operators::{Server, both};
use interop::in_namespace;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

const CONF: &str = "\
    http { access_log off; proxy_request_buffering off; proxy_http_version 1.1; client_body_buffer_size 16k;\n\
    proxy_intercept_errors on; proxy_pass_request_headers off;\n\
    server { listen 127.0.0.1:80; error_page 503 /second; error_page 504 = @third;\n\
    location / { proxy_pass http://127.0.0.1:81; } location @third { rewrite ^ /third break; proxy_pass http://127.0.0.1:81; } } }";

/// Answers each request with what it was, by its path: with a failure at first, or with the name of
/// another place.
fn upstream() {
    let listener = TcpListener::bind("127.0.0.1:81").unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
}

fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), None);
        (reader.read_line(&mut line).ok()? > 0).then_some(())?;
        loop {
            let mut field = String::new();
            reader.read_line(&mut field).ok()?;
            if field == "\r\n" {
                break;
            }
            let value = field.to_ascii_lowercase().strip_prefix("content-length:").map(|value| value.trim().to_owned());
            length = value.map_or(length, |value| value.parse().ok());
        }
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let all: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        let text = format!("{} {length:?} {all}", line.trim());
        let (status, field) = match line.split(' ').nth(1).unwrap_or_default() {
            "/503" => (503, ""),
            "/504" => (504, ""),
            "/named" => (200, "X-Accel-Redirect: /second\r\n"),
            _ => (200, ""),
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{field}\r\n", text.len());
        reader.get_mut().write_all(&[head.as_bytes(), text.as_bytes()].concat()).ok()?;
    }
}

/// What all had come of, and memory has, is passed on again, as by nginx. Of a longer one nginx
/// sends a head that tells of a body, and none: here a request that became one without a body
/// goes without, and others fail at once.
#[test]
fn bodies_that_were_handed_on_are_passed_on_again() {
    in_namespace(&[NGINX], || {
        upstream();
        let asked = |path: &str, bytes: usize| {
            let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
            let answer = Connection::open("127.0.0.1:80").ask(&[head.into_bytes(), vec![7; bytes]].concat(), b"POST");
            String::from_utf8_lossy(&answer.plain_body()).into_owned()
        };
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "again", CONF);
            let short = ["/503", "/504", "/named"].map(|path| [0, 1, 5_000].map(|bytes| asked(path, bytes)));
            let long = (!is_nginx).then(|| ["/503", "/504", "/named"].map(|path| asked(path, 200_000)));
            server.running.stop();
            (short, long)
        });
        assert_eq!(seen[0].0, seen[1].0);
        assert_eq!(seen[1].0[0][2], "GET /second HTTP/1.1 Some(5000) 35000");
        let long = seen[1].1.as_ref().unwrap();
        assert_eq!(
            (long[0].as_str(), long[2].as_str()),
            ("GET /second HTTP/1.1 Some(0) 0", "GET /second HTTP/1.1 Some(0) 0")
        );
        assert!(long[1].contains("502 Bad Gateway"), "{}", long[1]);
    });
}
