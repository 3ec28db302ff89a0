//! Smaller things beside nginx: what is told of connections that go on, lines of limits that
//! only count, variables that nothing was set to, files that may not be read, bodies in chunks
//! that programs get as they come, what is counted and measured of connections, and what `-t`
//! finds out.

use crate::NGINX;
use crate::answer::Connection;
use crate::confined::lines;
use crate::operators::{Server, both};
use crate::theirs;
use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

const ADDRESS: &str = "127.0.0.1:80";

/// Asks on a connection of its own; what the body says.
fn told(target: &str) -> String {
    let answer = Connection::open(ADDRESS)
        .ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes(), b"GET");
    String::from_utf8_lossy(&answer.plain_body()).into_owned()
}

/// Every answer says whether its connection goes on, whatever its client speaks and wherever
/// it comes from; connections of browsers that cannot keep them end (`keepalive_disable`).
#[test]
fn whether_connections_go_on_is_told() {
    const CONF: &str = "\
        http { access_log off; keepalive_timeout 60; server { listen 127.0.0.1:80; root www;\n\
        location / { return 200 x; } location /f { } location /none { keepalive_disable none; return 200 x; }\n\
        location /safari { keepalive_disable safari; } location /once { keepalive_timeout 0; return 200 x; }\n\
        location /told { keepalive_timeout 60 30; return 200 x; } location /gone { return 404; }\n\
        location /moved { return 301 /x; } location /empty { return 204; } location /odd { return 200; } } }";
    const OLD: &str = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)\r\n";
    const PATCHED: &str = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)\r\n";
    const SAFARI: &str = "User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6) (KHTML, like Gecko) Safari/533\r\n";
    let mut asked = Vec::new();
    for target in ["/", "/f", "/once", "/told", "/gone", "/moved", "/empty", "/odd", "/no/file"] {
        for (version, field) in [
            ("1.1", ""),
            ("1.1", "Connection: close\r\n"),
            ("1.1", "Connection: keep-alive\r\n"),
            ("1.0", ""),
            ("1.0", "Connection: keep-alive\r\n"),
        ] {
            for method in ["GET", "HEAD"] {
                asked.push((method, format!("{method} {target} HTTP/{version}\r\nHost: a\r\n{field}\r\n")));
            }
        }
    }
    for target in ["/", "/none", "/safari"] {
        for agent in [OLD, PATCHED, SAFARI] {
            for (method, body) in [("GET", ""), ("POST", "Content-Length: 0\r\n")] {
                asked.push((method, format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{agent}{body}\r\n")));
            }
        }
    }
    asked.push(("GET", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()));
    in_namespace(&[NGINX], move || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "persistence", CONF);
            fs::write(server.folder.join("www/f"), "content").unwrap();
            fs::write(server.folder.join("www/safari"), "content").unwrap();
            let mut seen = Vec::new();
            for (method, request) in &asked {
                let mut connection = Connection::open(ADDRESS);
                // The second time what was made for the first is ready.
                for _ in 0..3 {
                    let answer = connection.ask(request.as_bytes(), method.as_bytes());
                    let field = |name: &str| answer.field(name).map(str::to_owned);
                    seen.push((request.clone(), answer.status(), field("connection"), field("keep-alive")));
                    if !answer.lives {
                        assert!(connection.ends(false), "{request}");
                        break;
                    }
                }
            }
            server.running.stop();
            seen
        });
        for (theirs, ours) in seen[0].iter().zip(&seen[1]) {
            assert_eq!(theirs, ours);
        }
        assert_eq!(seen[0].len(), seen[1].len());
    });
}

/// Where limits count, logs name variables, and files may not be read.
const LINES: &str = "\
    user nobody nogroup; error_log error.log warn;\n\
    http { default_type text/html; uninitialized_variable_warn off;\n\
    log_format l '$request_uri|$v|$w|'; access_log v.log l;\n\
    limit_req_zone $arg_k zone=r:1m rate=1r/m; limit_conn_zone $arg_k zone=c:1m;\n\
    gzip on; gzip_vary on; gzip_min_length 1;\n\
    server { listen 127.0.0.1:80; root www; limit_req_dry_run on; limit_conn_dry_run on;\n\
    location /over { limit_req zone=r; try_files /f =404; add_header X-S $limit_req_status; }\n\
    location /slow { limit_req zone=r burst=5; try_files /f =404; add_header X-S $limit_req_status; }\n\
    location /many { limit_conn c 1; try_files /f =404; add_header X-S $limit_conn_status; }\n\
    location /held { limit_conn c 1; limit_rate 1000; try_files /big =404; }\n\
    location /other { set $v x; return 204; } location /if { if ($arg_a) { set $w 1; } return 200 [$w]; }\n\
    location /p.html { ssi on; add_header X-V [$v]; add_header X-W $w; }\n\
    location /tried/ { try_files $uri $uri/ =404; } location /one { try_files /tried/secret =404; }\n\
    location /page { error_page 403 /f; try_files /tried/secret =404; }\n\
    location /within { try_files /closed/file /f; } location /folder { try_files /closed/ =404; }\n\
    location /is { if (-f $document_root/$arg_n) { return 200 file; }\n\
    if (-d $document_root/$arg_n) { return 200 folder; } if (-e $document_root/$arg_n) { return 200 there; }\n\
    return 200 nothing; } location /x { if (-x $document_root/$arg_n) { return 200 may; } return 200 not; }\n\
    } }";

/// What is asked there.
const TARGETS: [&str; 31] = [
    "/over?k=1",
    "/over?k=1",
    "/slow?k=2",
    "/slow?k=2",
    "/many?k=3",
    "/p.html",
    "/if",
    "/if?a=1",
    "/other",
    "/tried/secret",
    "/one",
    "/page",
    "/within",
    "/folder",
    "/tried/",
    "/tried/secret/",
    "/closed/file",
    "/closed/",
    "/closed",
    "/unlisted/",
    "/unlisted",
    "/is?n=tried/secret",
    "/is?n=closed",
    "/is?n=tried/pipe",
    "/is?n=none",
    "/is?n=closed/file",
    "/x?n=tried/secret",
    "/x?n=tried/script",
    "/tried/pipe",
    "/tried/script",
    "/no-such-file",
];

/// Files and folders, some without the right to read them, and a pipe.
fn make_files(www: &Path) {
    for folder in ["tried", "closed", "unlisted"] {
        fs::create_dir_all(www.join(folder)).unwrap();
    }
    let mode = |name: &str, mode| fs::set_permissions(www.join(name), fs::Permissions::from_mode(mode)).unwrap();
    fs::write(www.join("f"), "content").unwrap();
    fs::write(www.join("p.html"), "[<!--#echo var=\"v\" default=\"D\" -->]").unwrap();
    for (name, bits) in [("tried/secret", 0), ("tried/index.html", 0), ("tried/script", 0o100), ("closed/file", 0o644)]
    {
        fs::write(www.join(name), "content").unwrap();
        mode(name, bits);
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        www.join("tried/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    mode("closed", 0);
    mode("unlisted", 0o711);
}

/// What limits would have done is told, a variable that nothing was set to is empty, and a
/// file that may not be read is there all the same.
#[test]
fn lines_of_limits_and_logs_and_files_that_may_not_be_read() {
    in_namespace(&[NGINX], || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "details", LINES);
            let www = server.folder.join("www");
            make_files(&www);
            // One that has its zone's only place.
            fs::write(www.join("big"), vec![b' '; 200_000]).unwrap();
            let mut held = TcpStream::connect(ADDRESS).unwrap();
            held.write_all(b"GET /held?k=3 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            held.read_exact(&mut [0]).unwrap();
            let answers: Vec<_> = TARGETS
                .iter()
                .map(|target| {
                    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                    let answer = Connection::open(ADDRESS).ask(request.as_bytes(), b"GET");
                    let field = |name: &str| answer.field(name).map(str::to_owned);
                    let body = if answer.status() == Some(200) { answer.plain_body() } else { Vec::new() };
                    let fields = ["x-s", "x-v", "x-w", "vary"].map(field);
                    (*target, answer.status(), fields, String::from_utf8_lossy(&body).into_owned())
                })
                .collect();
            drop(held);
            wait_for("the access log", || server.text("v.log").lines().count() > TARGETS.len());
            let (log, lines) = (server.text("v.log"), lines(&server.text("error.log")));
            server.running.stop();
            (answers, log, lines)
        });
        for (theirs, ours) in seen[0].0.iter().zip(&seen[1].0) {
            assert_eq!(theirs, ours);
        }
        assert_eq!(seen[0].1, seen[1].1);
        let plain = |lines: &[String]| -> Vec<String> {
            // How much is too much goes by the time between two requests.
            let timeless = |line: &str| match line.split_once("excess: ") {
                Some((what, rest)) => {
                    format!("{what}{}", rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()))
                }
                None => line.to_owned(),
            };
            lines.iter().map(|line| timeless(line).replace("/nginx/", "/").replace("/nearside/", "/")).collect()
        };
        assert_eq!(plain(&seen[0].2), plain(&seen[1].2));
        for told in ["limiting requests, dry run", "delaying request, dry run", "limiting connections, dry run"] {
            assert!(seen[1].2.iter().any(|line| line.contains(told)), "{told}: {:?}", seen[1].2);
        }
    });
}

/// A FastCGI program that answers with what it was told of a body's length, and the body.
fn tell_bodies(mut stream: TcpStream) {
    let (mut parameters, mut body) = (Vec::new(), Vec::new());
    loop {
        let mut head = [0; 8];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        if stream.read_exact(&mut content).is_err() {
            return;
        }
        content.truncate(length);
        match head[1] {
            4 => parameters.extend(content),
            5 if content.is_empty() => break,
            5 => body.extend(content),
            _ => {}
        }
    }
    // Names and values are short here: a byte tells each length.
    let mut known = HashMap::new();
    let mut rest = parameters.as_slice();
    while let [name, value, behind @ ..] = rest {
        let (pair, after) = behind.split_at(usize::from(*name) + usize::from(*value));
        known.insert(pair[..usize::from(*name)].to_vec(), pair[usize::from(*name)..].to_vec());
        rest = after;
    }
    let length = known.remove(&b"CONTENT_LENGTH"[..]).unwrap_or_else(|| b"none".to_vec());
    let answer = [b"Content-Type: text/plain\r\n\r\n[", &length[..], b"] ", &body].concat();
    let record = |kind: u8, content: &[u8]| {
        [&[1, kind, 0, 1][..], &(content.len() as u16).to_be_bytes(), &[0, 0], content].concat()
    };
    let _ = stream.write_all(&[record(6, &answer), record(6, b""), record(3, &[0; 8])].concat());
}

/// Bodies in chunks go to programs as they come (`fastcgi_request_buffering off`), and their
/// length is told where it is known.
#[test]
fn programs_get_bodies_in_chunks_as_they_come() {
    const CONF: &str = "\
        http { access_log off; server { listen 127.0.0.1:80; fastcgi_param CONTENT_LENGTH $content_length;\n\
        location /off { fastcgi_request_buffering off; fastcgi_pass 127.0.0.1:9200; }\n\
        location /on { fastcgi_pass 127.0.0.1:9200; } } }";
    in_namespace(&[NGINX], || {
        let listener = TcpListener::bind("127.0.0.1:9200").unwrap();
        thread::spawn(move || listener.incoming().flatten().for_each(tell_bodies));
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "chunks", CONF);
            let mut seen = Vec::new();
            for target in ["/off", "/on"] {
                for (fields, pieces) in [
                    ("Content-Length: 10", &["", "01234", "56789"][..]),
                    ("Transfer-Encoding: chunked", &["", "5\r\n01234\r\n", "5\r\n56789\r\n0\r\n\r\n"]),
                    ("Transfer-Encoding: chunked", &["", "0\r\n\r\n"]),
                    ("Transfer-Encoding: chunked", &["\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"]),
                    ("Transfer-Encoding: chunked", &["\r\n0\r\n\r\n"]),
                ] {
                    let mut stream = TcpStream::connect(ADDRESS).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
                    stream.write_all(head.as_bytes()).unwrap();
                    // The rest of the head, and what follows it later.
                    for piece in pieces {
                        let piece = if piece.is_empty() { "\r\n" } else { piece };
                        stream.write_all(piece.as_bytes()).unwrap();
                        wait_until_taken(&stream);
                    }
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).unwrap();
                    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
                    let body: String = body.lines().filter(|line| line.starts_with('[')).collect();
                    seen.push((target, fields, body));
                }
            }
            server.running.stop();
            seen
        });
        assert_eq!(seen[0], seen[1]);
        let bodies: Vec<&str> = seen[1].iter().map(|(_, _, body)| body.as_str()).collect();
        let known = ["[10] 0123456789", "[10] 0123456789", "[0] "];
        // What came with the head has its length; what comes later has none as it comes.
        let off = ["[10] 0123456789", "[] 0123456789", "[] ", "[10] 0123456789", "[0] "];
        assert_eq!(bodies, [&off[..], &known, &known[1..]].concat());
    });
}

/// Until the peer's program has read what was sent: until its queue is empty.
fn wait_until_taken(stream: &TcpStream) {
    let (own, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let hex = |address: std::net::SocketAddr| format!("0100007F:{:04X}", address.port());
    // As the peer has it: its address first (proc(5), /proc/net/tcp).
    let start = format!("{} {} ", hex(peer), hex(own));
    wait_for("the bytes to be read", || {
        let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        let line = table.lines().find(|line| line.contains(&start));
        line.is_none_or(|line| line.contains(":00000000 ") && line.contains(" 00000000:00000000 "))
    });
}

/// Who is in the middle of a head is reading, and who has sent nothing waits.
#[test]
fn connections_are_counted_by_what_they_do() {
    const CONF: &str = "\
        http { access_log off; server { listen 127.0.0.1:80; location /all { stub_status; }\n\
        location / { return 200 \"$connections_active $connections_reading $connections_writing \
        $connections_waiting\"; } } }";
    in_namespace(&[NGINX], || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "counted", CONF);
            // Who looked whether it listens has left.
            wait_for("one connection", || told("/") == "1 0 1 0");
            let mut seen = Vec::new();
            // The connection of the question before may still be counted: its end takes its time.
            let all = |connections: usize| {
                let total = format!("Active connections: {connections} ");
                let mut told_last = String::new();
                wait_for("the connection before to have left", || {
                    told_last = told("/all");
                    told_last.starts_with(&total)
                });
                let (first, last) = (told_last.lines().next(), told_last.lines().last());
                format!("{} {}", first.unwrap_or_default(), last.unwrap_or_default())
            };
            let silent = TcpStream::connect(ADDRESS).unwrap();
            let mut partial = TcpStream::connect(ADDRESS).unwrap();
            wait_for("both that are silent", || told("/").ends_with(" 0 1 2"));
            seen.push(all(3));
            partial.write_all(b"GET / HTTP/1.1\r\nHost").unwrap();
            wait_for("a part of a head", || told("/").ends_with(" 1 1 1"));
            seen.push(all(3));
            partial.write_all(b": a\r\n\r\n").unwrap();
            let _ = partial.read(&mut [0; 1_024]).unwrap();
            wait_for("the head is whole", || told("/").ends_with(" 0 1 2"));
            partial.write_all(b"GET / HTT").unwrap();
            wait_for("a part of the next", || told("/").ends_with(" 1 1 1"));
            drop(partial);
            wait_for("its end", || told("/").ends_with(" 0 1 1"));
            seen.push(all(2));
            drop(silent);
            server.running.stop();
            seen
        });
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[1][1], "Active connections: 3  Reading: 1 Writing: 1 Waiting: 1 ");
    });
}

/// How TCP has found a client's path: four numbers, in answers and in logs; nothing over a
/// Unix socket.
#[test]
fn paths_are_told_as_tcp_has_found_them() {
    const CONF: &str = "\
        http { log_format l '$tcpinfo_rtt,$tcpinfo_rttvar,$tcpinfo_snd_cwnd,$tcpinfo_rcv_space'; access_log l.log l;\n\
        server { listen 127.0.0.1:80; listen unix:{folder}/s; root www; location /f { }\n\
        location / { return 200 \"$tcpinfo_rtt,$tcpinfo_rttvar,$tcpinfo_snd_cwnd,$tcpinfo_rcv_space\"; } } }";
    in_namespace(&[NGINX], || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "paths", CONF);
            fs::write(server.folder.join("www/f"), "content").unwrap();
            let body = told("/");
            // What is ready the second time has a line of its own.
            for _ in 0..3 {
                told("/f");
            }
            let mut unix = std::os::unix::net::UnixStream::connect(server.folder.join("s")).unwrap();
            unix.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            unix.read_to_string(&mut answer).unwrap();
            wait_for("five lines", || server.text("l.log").lines().count() >= 5);
            let lines: Vec<String> = server.text("l.log").lines().map(str::to_owned).collect();
            server.running.stop();
            (body, lines, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
        });
        let numbers = |text: &str| text.split(',').map(str::parse::<u32>).collect::<Result<Vec<_>, _>>();
        for (body, lines, unix) in &seen {
            for text in core::iter::once(body).chain(&lines[..4]) {
                let found = numbers(text).unwrap_or_else(|why| panic!("{text}: {why}"));
                assert!(found.len() == 4 && found[0] > 0 && found[2] > 0 && found[3] > 0, "{text}");
            }
            assert_eq!((unix.as_str(), lines[4].as_str()), (",,,", "-,-,-,-"));
        }
        // Nothing was lost: both have the window that the kernel begins with.
        let window = |text: &str| text.split(',').nth(2).map(str::to_owned);
        assert_eq!(window(&seen[0].0), window(&seen[1].0));
    });
}

/// The port that was asked for (`$request_port`, `$is_request_port`), which Debian's nginx has
/// not: the host's, or the target's.
#[test]
fn the_port_that_is_asked_for_is_told() {
    const CONF: &str = "\
        http { access_log off; server { listen 127.0.0.1:80;\n\
        return 200 \"$host$is_request_port$request_port|$request_port\"; } }";
    in_namespace(&[], || {
        let server = Server::start(false, "ports", CONF);
        for (target, host, wanted) in [
            ("/", "a.example:81", "a.example:81|81"),
            ("/", "a.example", "a.example|"),
            ("/", "a.example:", "a.example|"),
            ("/", "[::1]:81", "[::1]:81|81"),
            ("/", "[::1]", "[::1]|"),
            ("http://b.example:7/", "a.example:9", "b.example:7|7"),
            ("http://b.example/", "a.example:9", "b.example|"),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = Connection::open(ADDRESS).ask(request.as_bytes(), b"GET");
            assert_eq!(String::from_utf8_lossy(&answer.plain_body()), wanted, "{target} {host}");
        }
        server.running.stop();
    });
}

/// What `-t` says as nobody: whether it is good, what is wrong first, and all of it.
fn tested(is_nginx: bool, folder: &Path, name: &str) -> (bool, Option<String>, String) {
    let mut command = if is_nginx { Command::new(theirs::program()) } else { Nearside::command(["nginx"]) };
    command.args(["-t", "-p"]).arg(folder).arg("-c").arg(folder.join(name)).args(["-e", "stderr"]);
    let told = command.uid(65_534).gid(65_534).output().expect("it starts");
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    let first = text.lines().find_map(|line| line.split_once("[emerg] ").map(|(_, rest)| rest));
    // nginx's own number behind the time.
    let first = first.map(|line| line.rsplit_once("#0: ").map_or(line, |(_, rest)| rest));
    let first = first.map(|line| match line.split_once(": ") {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'#') => rest,
        _ => line,
    });
    (told.status.success(), first.map(str::to_owned), text)
}

/// What `-t` of both says of these configurations, started as nobody: whether it is good, and
/// what is wrong first.
#[test]
fn a_test_finds_out_what_a_start_by_this_user_may_not() {
    const PLACES: &str = "pid own/pid; error_log own/error.log; events {}\n";
    const HTTP: &str = "access_log off; client_body_temp_path own/b; proxy_temp_path own/p; fastcgi_temp_path own/f; \
                        scgi_temp_path own/s; uwsgi_temp_path own/u;";
    let site =
        |places: &str, http: &str, server: &str| format!("{places}http {{ {HTTP} {http} server {{ {server} }} }}");
    let plain = |server: &str| site(PLACES, "", server);
    let cases = [
        plain("listen 127.0.0.1:8080;"),
        plain("listen 80;"),
        plain("listen [::]:81;"),
        plain("listen 192.0.2.9:8080;"),
        plain("listen 127.0.0.1:9300;"),
        plain("listen unix:own/s;"),
        plain("listen unix:roots/s;"),
        plain("listen unix:none/s;"),
        plain("listen 127.0.0.1:8080; access_log roots/log;"),
        plain("listen 127.0.0.1:8080; access_log roots/new;"),
        plain("listen 127.0.0.1:8080; access_log closed/new;"),
        plain("listen 127.0.0.1:8080; error_log roots/log;"),
        site(&PLACES.replace("own/error.log", "roots/log"), "", "listen 127.0.0.1:8080;"),
        site(&PLACES.replace("own/pid", "roots/pid"), "", "listen 127.0.0.1:8080;"),
        plain("listen 127.0.0.1:8080; location / {\n content_by_lua_block {\n ngx.say(\"}\") -- it's { }\n } }"),
        site(PLACES, "init_by_lua_block { x = '{' }", "listen 127.0.0.1:8080;"),
        site(PLACES, "include none.conf;", "listen 127.0.0.1:8080;"),
    ];
    in_namespace(&[NGINX], move || {
        let folder = scratch("nginx-details-test");
        let _ = fs::remove_dir_all(&folder);
        for (name, mode) in [("own", 0o777), ("roots", 0o755), ("closed", 0o700)] {
            fs::create_dir_all(folder.join(name)).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(folder.join("roots/log"), "").unwrap();
        fs::write(folder.join("hidden.conf"), "events {}").unwrap();
        fs::set_permissions(folder.join("hidden.conf"), fs::Permissions::from_mode(0o600)).unwrap();
        // Who listens there is no reason: it may be the server that is to read this.
        let _taken = TcpListener::bind("127.0.0.1:9300").unwrap();
        let said = |is_nginx: bool, name: &str| tested(is_nginx, &folder, name);
        let mut failures = String::new();
        for case in &cases {
            fs::write(folder.join("nginx.conf"), case).unwrap();
            let (theirs, ours) = (said(true, "nginx.conf"), said(false, "nginx.conf"));
            if (theirs.0, &theirs.1) != (ours.0, &ours.1) {
                failures += &format!("{case}\nnginx: {}\nours: {}\n\n", theirs.2, ours.2);
            }
            // One thing is wrong, and one is told.
            if ours.2.contains("reasons stop a start") {
                failures += &format!("{case}\nours: {}\n\n", ours.2);
            }
        }
        let (theirs, ours) = (said(true, "hidden.conf"), said(false, "hidden.conf"));
        if theirs.1 != ours.1 || ours.0 || ours.2.contains("reasons") {
            failures += &format!("hidden.conf: {} {}", theirs.2, ours.2);
        }
        assert!(failures.is_empty(), "{failures}");
        assert!(!Path::new(&folder.join("roots/new")).exists());
    });
}

/// Keys, certificates and passwords that are written to named pipes, once each.
#[test]
fn keys_come_by_named_pipes() {
    const CONF: &str = "\
        user root; worker_processes 1; daemon off; pid pid; error_log error.log; events {}\n\
        http { access_log off; ssl_certificate pem.pipe; ssl_certificate_key key.pipe; ssl_password_file pass.pipe;\n\
        ssl_protocols TLSv1.2 TLSv1.3; server { listen 127.0.0.1:80 ssl; return 200 \"$ssl_protocol\\n\"; } }";
    const MAKE: &str = "openssl ecparam -name prime256v1 -genkey -noout -out plain.key && \
        openssl ec -in plain.key -aes128 -passout pass:secret -out key && \
        openssl req -x509 -new -key plain.key -subj /O=Test/CN=one.example -days 30 -out pem && \
        printf 'secret\\n' > pass && mkfifo key.pipe pem.pipe pass.pipe";
    in_namespace(&[NGINX, crate::secured::OPENSSL], || {
        let seen = both(|is_nginx| {
            let folder = scratch("nginx-details-pipes").join(if is_nginx { "nginx" } else { "nearside" });
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            let made = Command::new("sh").args(["-ec", MAKE]).current_dir(&folder).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            fs::write(folder.join("nginx.conf"), CONF).unwrap();
            let writers: Vec<_> = ["key", "pem", "pass"]
                .map(|name| {
                    let (from, to) = (folder.join(name), folder.join(format!("{name}.pipe")));
                    thread::spawn(move || fs::write(to, fs::read(from).unwrap()))
                })
                .into();
            let mut command = if is_nginx { Command::new(theirs::program()) } else { Nearside::command(["nginx"]) };
            command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
            let mut running = Running::start(&mut command);
            running.wait_until_open(ADDRESS);
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
            let client =
                "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | openssl s_client -quiet -connect 127.0.0.1:80 2>/dev/null";
            let answer = Command::new("sh").args(["-c", client]).output().unwrap();
            running.stop();
            String::from_utf8_lossy(&answer.stdout).lines().last().unwrap_or_default().to_owned()
        });
        assert_eq!(seen, ["TLSv1.3", "TLSv1.3"]);
    });
}

/// Hosts, as requests name them one after another, all of which one file answers.
const HOSTS: [&str; 11] = [
    "a.example",
    "a.example",
    "A.Example",
    "a.example:81",
    "b.example.",
    "b.example",
    "a.example2",
    "a.exampl",
    "x_y.example",
    "[::1]:80",
    "a.example",
];

/// Whoever was answered before with the same, and however the line was prepared.
#[test]
fn the_hosts_of_requests_for_one_file_are_logged() {
    const CONF: &str = "http { log_format l '$host|$http_host|$request|$http_referer'; access_log l.log l;\n\
        log_format j escape=json '$host|$http_host'; access_log j.log j; keepalive_requests 10000;\n\
        server { listen 127.0.0.1:80; server_name first; root www; }\n\
        server { listen 127.0.0.1:80; server_name b.example; access_log b.log l; root www; } }";
    in_namespace(&[NGINX], || {
        let seen = both(|is_nginx| {
            let server = Server::start(is_nginx, "hosts", CONF);
            fs::create_dir_all(server.folder.join("www")).unwrap();
            fs::write(server.folder.join("www/f"), "one file").unwrap();
            let mut connection = Connection::open(ADDRESS);
            // Lines are prepared for what is often asked for in a second.
            for (round, often) in HOSTS.iter().enumerate() {
                for (at, host) in HOSTS.iter().enumerate() {
                    // One host for a while, and each after each.
                    let host = if round % 3 == 0 { often } else { host };
                    let request = format!("GET /f HTTP/1.1\r\nHost: {host}\r\nReferer: {at}\r\n\r\n");
                    assert_eq!(connection.ask(request.as_bytes(), b"GET").status(), Some(200), "{host}");
                }
            }
            let texts = || ["l.log", "j.log", "b.log"].map(|log| server.text(log));
            let expected = HOSTS.len() * HOSTS.len();
            wait_for("lines", || texts()[0].lines().count() + texts()[2].lines().count() >= expected);
            let texts = texts();
            server.running.stop();
            texts
        });
        assert_eq!(seen[0], seen[1]);
    });
}
