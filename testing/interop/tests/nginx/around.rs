//! What upstreams say before an answer and behind it, and how fast programs are read: of
//! directives that Debian's nginx does not have. What is expected is what nginx 1.29 does.

use crate::answer::Connection;
use interop::{Nearside, Running, in_namespace, scratch};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:80";

const CONFIGURATION: &str = "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log info;\n\
    events {}\n\
    http {\n\
    log_format told '$request_uri $status $upstream_status $upstream_trailer_x_sum $sent_trailer_x_sum';\n\
    access_log access.log told;\n\
    proxy_http_version 1.1; proxy_set_header Connection te; proxy_set_header TE trailers;\n\
    upstream two { server 127.0.0.1:9000; server 127.0.0.1:9000; }\n\
    server {\n\
    listen 127.0.0.1:80;\n\
    location /plain/ { proxy_pass http://127.0.0.1:9000; }\n\
    location /hints/ { early_hints 1; proxy_pass http://127.0.0.1:9000; }\n\
    location /by-field/ { early_hints 0 $http_x_hints; proxy_pass http://127.0.0.1:9000; }\n\
    location /twice/ { early_hints 1; proxy_next_upstream http_500; proxy_pass http://two; }\n\
    location /hidden/ { early_hints 1; proxy_hide_header Link; proxy_pass http://127.0.0.1:9000; }\n\
    location /trailers/ { proxy_pass_trailers on; proxy_pass http://127.0.0.1:9000; }\n\
    location /more/ { proxy_pass_trailers on; add_trailer X-More 1; proxy_hide_header X-Secret;\n\
    proxy_pass http://127.0.0.1:9000; }\n\
    location /program/ { scgi_limit_rate $http_x_rate; scgi_pass 127.0.0.1:9001; }\n\
    location /limited/ { proxy_limit_rate $http_x_rate; proxy_pass http://127.0.0.1:9000; }\n\
    } }\n";

/// Bytes of what is read slowly.
const LONG: usize = 250_000;

/// Reads a head; whether one came.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut came = Vec::new();
    while !came.ends_with(b"\r\n\r\n") {
        let mut one = [0];
        stream.read_exact(&mut one).ok()?;
        came.push(one[0]);
    }
    Some(String::from_utf8_lossy(&came).into_owned())
}

/// Answers by the last part of the path, once.
fn answer(stream: &mut TcpStream) -> Option<()> {
    let head = head(stream)?;
    let path = head.split(' ').nth(1)?;
    let hint = "HTTP/1.1 103 Early Hints\r\n";
    let link = "Link: </a.css>; rel=preload\r\n";
    let end = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfour";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\nfour\r\n0\r\n";
    let text = match path.rsplit('/').next()? {
        "one" => format!("{hint}{link}X-Other: b\r\nConnection: close\r\nContent-Length: 7\r\nServer: up\r\n\r\n{end}"),
        "several" => {
            format!(
                "HTTP/1.1 100 Continue\r\n\r\n{hint}{link}\r\nHTTP/1.1 102 Processing\r\n\r\n{hint}X-Two: 2\r\n\r\n{end}"
            )
        }
        "empty" => format!("{hint}\r\n{end}"),
        "of-server" => format!("{hint}Server: up\r\nDate: now\r\n\r\n{end}"),
        "old" => format!("HTTP/1.0 103 Early Hints\r\n{link}\r\n{end}"),
        "big" => format!("{hint}X: {}\r\n\r\n{hint}{link}\r\n{end}", "a".repeat(4_050)),
        "fails" => format!("{hint}{link}\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        "sum" => {
            format!("{chunked}X-Sum: 4\r\nX-Secret: s\r\nContent-Length: 7\r\nConnection: close\r\nX-Sum: four\r\n\r\n")
        }
        "none" => format!("{chunked}\r\n"),
        "bad" => format!("{chunked}X Sum: 4\r\n\r\n"),
        "too-long" => format!("{chunked}X-Sum: {}\r\n\r\n", "a".repeat(5_000)),
        "long" => format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n{}", "x".repeat(LONG)),
        "whole" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfour".to_owned(),
        other => panic!("nobody asks for {other}"),
    };
    stream.write_all(text.as_bytes()).ok()
}

/// Serves in a namespace of its own, for `client`; then what it logged of errors, and of
/// requests.
fn serve(name: &'static str, client: impl FnOnce(&Running) + Send + 'static, logged: fn(&str, &str)) {
    in_namespace(&[], move || {
        let folder = scratch(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("nginx.conf"), CONFIGURATION).unwrap();
        let listener = TcpListener::bind("127.0.0.1:9000").unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || answer(&mut stream));
            }
        });
        let program = TcpListener::bind("127.0.0.1:9001").unwrap();
        thread::spawn(move || {
            for mut stream in program.incoming().flatten() {
                thread::spawn(move || {
                    // Its request is short.
                    let _ = stream.read(&mut [0; 4096]);
                    let head = format!("Status: 200 OK\r\nContent-Length: {LONG}\r\n\r\n");
                    let _ = stream.write_all(&[head.as_bytes(), &[b'x'; LONG]].concat());
                });
            }
        });
        let mut command = Nearside::command(["nginx"]);
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
        let mut server = Running::start(&mut command);
        server.wait_until_open(ADDRESS);
        client(&server);
        server.stop();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        logged(&read("error.log"), &read("access.log"));
    });
}

/// Everything that is answered on a connection that ends then.
fn raw(path: &str, version: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(ADDRESS).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/{version}\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut out = Vec::new();
    // What is cut short may end in a reset.
    let _ = stream.read_to_end(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// What stands before the final answer, and whether this is whole.
fn before(path: &str, version: &str, fields: &str) -> String {
    let all = raw(path, version, fields);
    let at = all.find("HTTP/1.1 200 OK\r\n").unwrap_or_else(|| panic!("{path}: {all}"));
    assert!(all.ends_with("\r\n\r\nfour"), "{path}: {all}");
    all[..at].to_owned()
}

const LINK: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n";

#[test]
fn hints_go_on_where_they_are_to() {
    let client = |_: &Running| {
        assert_eq!(before("/hints/one", "1.1", ""), format!("{LINK}X-Other: b\r\n\r\n"));
        let two = "HTTP/1.1 103 Early Hints\r\nX-Two: 2\r\n\r\n";
        assert_eq!(before("/hints/several", "1.1", ""), format!("{LINK}\r\n{two}"));
        assert_eq!(before("/by-field/one", "1.1", "X-Hints: yes\r\n"), format!("{LINK}X-Other: b\r\n\r\n"));
        assert_eq!(before("/hidden/one", "1.1", ""), "HTTP/1.1 103 Early Hints\r\nX-Other: b\r\n\r\n");
        for (path, version, fields) in [
            ("/plain/one", "1.1", ""),
            ("/hints/one", "1.0", ""),
            ("/hints/empty", "1.1", ""),
            ("/hints/of-server", "1.1", ""),
            ("/by-field/one", "1.1", ""),
            ("/by-field/one", "1.1", "X-Hints: 0\r\n"),
        ] {
            assert_eq!(before(path, version, fields), "", "{path} {version} {fields}");
        }
        // Together they are no longer than a head may be.
        let big = format!("HTTP/1.1 103 Early Hints\r\nX: {}\r\n\r\n", "a".repeat(4_050));
        assert_eq!(before("/hints/big", "1.1", ""), big);
        assert!(raw("/hints/old", "1.1", "").starts_with("HTTP/1.1 502 "), "it says two things");
        // Each server that is asked may have some; the client has the last one's answer.
        let twice = raw("/twice/fails", "1.1", "");
        assert!(twice.starts_with(&format!("{LINK}\r\n{LINK}\r\nHTTP/1.1 500 ")), "{twice}");
        // A client that asks twice at once has each where it belongs.
        let mut connection = Connection::open(ADDRESS);
        let two = "GET /hints/one HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
        let first = connection.ask(two.as_bytes(), b"GET");
        let second = connection.ask(b"", b"GET");
        for answer in [first, second] {
            assert_eq!((answer.interim, answer.body), (vec![103], b"four".to_vec()));
        }
    };
    serve("nginx-hints", client, |errors, _| {
        for told in ["upstream sent HTTP/1.0 response with early hints", "upstream sent too big early hints"] {
            assert!(errors.contains(told), "{told}: {errors}");
        }
    });
}

#[test]
fn trailers_go_on_where_they_are_to() {
    let client = |_: &Running| {
        let tail = |path: &str, version: &str| {
            let all = raw(path, version, "");
            all.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_else(|| panic!("{path}: {all}"))
        };
        assert_eq!(tail("/plain/sum", "1.1"), "4\r\nfour\r\n0\r\n\r\n");
        assert_eq!(tail("/trailers/sum", "1.1"), "4\r\nfour\r\n0\r\nX-Sum: 4\r\nX-Secret: s\r\nX-Sum: four\r\n\r\n");
        assert_eq!(tail("/more/sum", "1.1"), "4\r\nfour\r\n0\r\nX-Sum: 4\r\nX-Sum: four\r\nX-More: 1\r\n\r\n");
        assert_eq!(tail("/trailers/none", "1.1"), "4\r\nfour\r\n0\r\n\r\n");
        // Who knows of no chunks has no place for them.
        assert_eq!(tail("/trailers/sum", "1.0"), "four");
        assert_eq!(tail("/trailers/whole", "1.1"), "four");
        for path in ["/trailers/bad", "/trailers/too-long"] {
            assert!(!tail(path, "1.1").contains("0\r\n\r\n"), "{path} is not whole");
        }
    };
    serve("nginx-trailers", client, |errors, lines| {
        for told in ["upstream sent invalid trailer: \"X\\x20...\"", "upstream sent too big trailers"] {
            assert!(errors.contains(told), "{told}: {errors}");
        }
        assert!(lines.contains("/trailers/sum 200 200 4, four 4, four\n"), "{lines}");
        assert!(lines.contains("/plain/sum 200 200 - -\n"), "{lines}");
    });
}

/// The first second's worth comes at once.
#[test]
fn upstreams_are_read_no_faster_than_a_value_says() {
    let client = |_: &Running| {
        for path in ["/limited/long", "/program/long"] {
            let took = |rate: &str| {
                let begun = cpu::Clock.now();
                let all = raw(path, "1.1", &format!("X-Rate: {rate}\r\n"));
                assert!(all.ends_with(&"x".repeat(LONG)), "{path}: {}", all.len());
                cpu::Clock.now().since(begun)
            };
            let (limited, free) = (took("100k"), took("0"));
            assert!(limited > Duration::from_millis(1_200), "{path}: {limited:?}");
            assert!(free < Duration::from_millis(1_200), "{path}: {free:?}");
            // What is no size bounds nothing, and is told.
            let odd = took("often");
            assert!(odd < Duration::from_millis(1_200), "{path}: {odd:?}");
        }
    };
    serve("nginx-rates", client, |errors, _| {
        assert_eq!(errors.matches("invalid size \"often\"").count(), 2, "{errors}");
    });
}
