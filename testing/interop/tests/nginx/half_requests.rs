//! Requests of which no more comes, or not in time: what is logged of them beside nginx.

use crate::NGINX;
use crate::operators::{Server, both};
use crate::secured::CURL;
use interop::{in_namespace, wait_for};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

const CONF: &str = "\
    http { map $status:$request_time $late { ~^408:0\\.[0-3] early; ~^408: late; default -; }\n\
    log_format l '\"$request\" $status \"$request_completion\" $request_length $host \
    $request_method $request_uri $server_protocol \"$http_x_a\" $late'; access_log l.log l;\n\
    client_header_timeout 500ms; client_body_timeout 500ms; keepalive_timeout 60s;\n\
    server { listen 127.0.0.1:80; server_name first; location / { return 200 ok; } location /hung { return 444; }\n\
    location /kept/ { proxy_pass http://127.0.0.1:81; }\n\
    location /streamed/ { proxy_request_buffering off; proxy_pass http://127.0.0.1:81; }\n\
    location /tried/ { try_files /none =404; } location = /file { alias /etc/hostname; }\n\
    location /named/ { try_files /none @kept; } location @kept { proxy_pass http://127.0.0.1:81; }\n\
    location /asked/ { auth_request /verdict; return 200 ok; } location = /verdict { proxy_pass http://127.0.0.1:81; }\n\
    location /long/ { client_body_timeout 1500ms; proxy_pass http://127.0.0.1:81; } }\n\
    server { listen 127.0.0.1:80; server_name other; access_log other.log l; } }";

/// What its client does once its bytes are sent.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Closes,
    SendsNoMore,
    Waits,
}
use Then::{Closes, SendsNoMore, Waits};

const SENT: [(&str, Then); 36] = [
    ("G", Closes),
    ("GET", SendsNoMore),
    ("GET /1", Waits),
    ("GET /2 ", Closes),
    ("GET /3 HT", Closes),
    ("GET /4 HTTP/1.1\r\n", Closes),
    ("GET /5 HTTP/1.1\r\nHost: a\r\nX-A: 1", SendsNoMore),
    ("GET /6 HTTP/1.1\r\nHost: other\r\nX-A: 1\r\nX-B", Closes),
    ("GET /7 HTTP/1.1\r\nX-A: 1\r\n", Waits),
    ("GET /8 HTTP/1.0\r\nX-A: 1\r\n", SendsNoMore),
    ("GET http://other/9 HTTP/1.1\r\nX-", Closes),
    ("HEAD /10 HTTP/1.1\r\nHost: first\r\n", SendsNoMore),
    ("\r\n", Closes),
    ("\r\nGET /11 HTTP/1.1\r\n", Closes),
    ("GET /12 HTTP/1.1\r\nHost: a\r\n\r\nGET /13 HTTP/1.1\r\nHo", SendsNoMore),
    ("GET /14 HTTP/1.1\r\nHost: a\r\n\r\nGET /15 HTTP/1.1\r\nHo", Waits),
    ("GET /hung HTTP/1.1\r\nHost: a\r\n\r\n", Waits),
    ("POST /kept/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", Closes),
    ("POST /kept/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", SendsNoMore),
    ("POST /kept/3 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", Waits),
    ("POST /streamed/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", Closes),
    ("POST /streamed/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", SendsNoMore),
    ("POST /streamed/3 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", Waits),
    ("GET /kept/4 HTTP/1.1\r\nHost: a\r\n\r\n", Closes),
    ("GET /kept/5 HTTP/1.1\r\nHost: a\r\n\r\nGET /kept/6 HTTP/1.1\r\nHost: a\r\n\r\n", Closes),
    ("GET /kept/7 HTTP/1.1\r\nHost: a\r\n\r\nGET /kept/8 HTTP/1.1\r\nHost: a\r\n\r\n", SendsNoMore),
    ("GET /kept/9 HTTP/1.1\r\nHost: a\r\n\r\nGET /kept/10 HT", Closes),
    ("NONSENSE\r\n\r\n", Waits),
    // A body is announced, and none of it comes.
    ("POST /tried/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", SendsNoMore),
    ("POST /tried/2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", SendsNoMore),
    ("GET /file HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", SendsNoMore),
    ("POST /file HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", SendsNoMore),
    ("POST /named/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", SendsNoMore),
    ("POST /named/2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", SendsNoMore),
    ("POST /asked/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", SendsNoMore),
    ("GET /asked/2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", SendsNoMore),
];

/// Takes all that comes, and answers nothing.
fn silent_upstream() {
    let listener = TcpListener::bind("127.0.0.1:81").unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || while stream.read(&mut [0; 4_096]).is_ok_and(|bytes| bytes > 0) {});
        }
    });
}

/// What came back, without what is told of the server.
fn asked((bytes, then): (&str, Then)) -> String {
    let mut stream = TcpStream::connect("127.0.0.1:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    match then {
        Closes => return String::new(),
        SendsNoMore => stream.shutdown(Shutdown::Write).unwrap(),
        Waits => {}
    }
    let mut came = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut came);
    let came = String::from_utf8_lossy(&came);
    // Reasons in other words are known.
    came.lines().filter(|line| line.starts_with("HTTP/")).filter_map(|line| line.get(..12)).collect()
}

/// Of a body that breaks off as it is passed on.
const STREAMED: &str = "\"POST /streamed/1 HTTP/1.1\" 400";

/// How many lines are written of it. What stands behind a request that is passed on goes
/// unread with its client.
fn lines_of(sent: &str) -> usize {
    1 + usize::from(sent.contains("\r\n\r\nGET /1"))
}

#[expect(clippy::disallowed_methods, reason = "other programs answer in their own time")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Each has its line, as nginx writes it: with what came of the head, and in the log of the
/// server that its host names, if that came.
#[test]
fn what_no_more_comes_of_is_logged() {
    in_namespace(&[NGINX], || {
        silent_upstream();
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "half", CONF);
            let lines = || {
                ["l.log", "other.log"].map(|log| {
                    // nginx has 499 where it sees that its client is gone before it has connected to its upstream.
                    let of_early = |line: &str| line.replace("\"POST /streamed/1 HTTP/1.1\" 499", STREAMED);
                    let mut lines: Vec<String> = server.text(log).lines().map(of_early).collect();
                    lines.sort_unstable();
                    lines
                })
            };
            // All at once: most wait for what the server gives up.
            let clients = SENT.map(|sent| thread::spawn(move || asked(sent)));
            let came = clients.map(|client| client.join().unwrap());
            let expected: usize = SENT.iter().map(|(sent, _)| lines_of(sent)).sum();
            wait_for("their lines", || lines().map(|lines| lines.len()).iter().sum::<usize>() >= expected);
            let seen = (came, lines());
            // How long a body may take is said where its request has come to.
            let begun = clock();
            asked(("POST /long/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", Waits));
            assert!(begun.elapsed() > Duration::from_millis(1_400), "{is_nginx}");
            server.running.stop();
            seen
        });
        for (sent, (nginx, ours)) in SENT.iter().zip(seen[0].0.iter().zip(&seen[1].0)) {
            assert_eq!(nginx, ours, "{}", sent.0);
        }
        assert_eq!(seen[0].1, seen[1].1);
    });
}

/// What frames chunks may be as long as a head's lines, and what follows them as long as a head.
#[test]
fn long_extensions_of_chunks_and_trailers_are_taken_as_by_nginx() {
    const CONF: &str = "\
        http { log_format l '$request_uri $status'; access_log l.log l;\n\
        server { listen 127.0.0.1:80; location / { proxy_pass http://127.0.0.1:82; } }\n\
        server { listen 127.0.0.1:82; return 200 \"got $content_length\\n\"; } }";
    let extension = format!(";a={}", "e".repeat(4_000));
    let chunks = |name: &str, extension: &str, trailers: &str| {
        let head = format!("POST /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n");
        format!("{head}\r\n3{extension}\r\nabc\r\n2\r\nde\r\n0\r\n{trailers}\r\n")
    };
    let trailers: String = (0..60).map(|at| format!("X-{at}: {}\r\n", "t".repeat(100))).collect();
    let sent = [chunks("extension", &extension, ""), chunks("trailers", "", &trailers)];
    in_namespace(&[NGINX], move || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "chunks", CONF);
            let answers = sent.clone().map(|bytes| {
                let mut stream = TcpStream::connect("127.0.0.1:80").unwrap();
                stream.write_all(bytes.as_bytes()).unwrap();
                let mut came = String::new();
                let _ = stream.read_to_string(&mut came);
                [came.lines().next(), came.lines().last()].map(|line| line.unwrap_or_default().to_owned())
            });
            server.running.stop();
            answers
        });
        assert_eq!(seen[0], seen[1]);
        assert!(seen[0].iter().all(|[first, last]| first.contains(" 200 ") && last == "got 5"), "{seen:?}");
    });
}

/// Whoever leaves while a server is waited for, by HTTP/2 too, has its line with how long that was.
#[test]
fn how_long_was_waited_for_whom_nobody_waits_any_more_is_logged() {
    const CONF: &str = "\
        http { log_format l '$request_uri $status $upstream_response_time $upstream_connect_time'; access_log l.log l;\n\
        server { listen 127.0.0.1:80; http2 on; location / { proxy_pass http://127.0.0.1:81; } } }";
    in_namespace(&[NGINX, CURL], || {
        silent_upstream();
        let server = Server::start(false, "waited", CONF);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let url = format!("http://127.0.0.1:80/{version}");
            let asked = Command::new("curl").args(["-s", "-m", "3", version, &url]).status().unwrap();
            assert_eq!(asked.code(), Some(28), "{version}");
            wait_for("its line", || server.text("l.log").contains(version));
        }
        let log = server.text("l.log");
        server.running.stop();
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let waited: f64 = words[2].parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(words[1] == "499" && (0.2..30.0).contains(&waited) && words[3] != "-", "{line}");
        }
    });
}
