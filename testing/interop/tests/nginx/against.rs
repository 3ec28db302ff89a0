//! What an upstream says against what the site says: directives by answers by requests, each
//! over a proxy, FastCGI, uwsgi and SCGI, beside nginx. Heads and what the log has of them
//! afterwards say the same.

use crate::{NGINX, programs, upstream};
use interop::{Nearside, Running, in_namespace, scratch};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

const THEIRS: u16 = 8001;
const OURS: u16 = 8002;
const UPSTREAM: &str = "127.0.0.1:9100";

/// How an upstream is asked, and where it is.
const WAYS: [(&str, &str); 4] = [
    ("proxy", "proxy_pass http://127.0.0.1:9100;"),
    ("fastcgi", "fastcgi_pass 127.0.0.1:9001; fastcgi_param REQUEST_URI $request_uri;"),
    ("uwsgi", "uwsgi_pass 127.0.0.1:9003; uwsgi_param REQUEST_URI $request_uri;"),
    ("scgi", "scgi_pass 127.0.0.1:9002; scgi_param REQUEST_URI $request_uri;"),
];

/// What stands in a location; `P_` is the way's.
const DIRECTIVES: &[&str] = &[
    "",
    "P_hide_header Date; P_hide_header Server; P_hide_header Accept-Ranges;",
    "P_hide_header ETag; P_hide_header Last-Modified; P_hide_header Location; P_hide_header Content-Type;",
    "P_hide_header WWW-Authenticate; P_hide_header Expires; P_hide_header Cache-Control; P_hide_header X-One;",
    "P_pass_header Date; P_pass_header Server;",
    "P_ignore_headers Expires Cache-Control Vary Set-Cookie;",
    "P_force_ranges on;",
    "P_force_ranges on; max_ranges 0;",
    "P_force_ranges on; gzip on; gzip_min_length 1; gzip_types *;",
    "P_force_ranges on; sub_filter_types *; sub_filter hello bye;",
    "P_force_ranges on; addition_types *; add_after_body /added;",
    "P_force_ranges on; add_header ETag '\"site\"';",
    "gzip on; gzip_min_length 1; gzip_types *;",
    "gzip on; gzip_min_length 1; gzip_types *; gzip_vary on; gzip_proxied off;",
    "gunzip on;",
    "gzip on; gzip_min_length 1; gzip_types *; add_header Accept-Ranges site;",
    "ssi on; ssi_types *;",
    "ssi on; ssi_types *; ssi_last_modified on;",
    "addition_types *; add_before_body /added;",
    "sub_filter_types *; sub_filter hello bye;",
    "sub_filter_types *; sub_filter hello bye; sub_filter_last_modified on;",
    "expires 1h;",
    "expires off;",
    "expires epoch;",
    "expires max;",
    "expires modified 1h;",
    "add_header Cache-Control site always; add_header Expires site;",
    "add_header Last-Modified ''; add_header ETag '';",
    "add_header X-One site; add_header Vary Site always;",
    "add_header X-Sent '$sent_http_accept_ranges $sent_http_etag $sent_http_www_authenticate $sent_http_x_one' always;",
    "etag off; if_modified_since before;",
    "if_modified_since off;",
    "server_tokens off; charset koi8-r; charset_types *;",
    "P_intercept_errors on; error_page 401 =200 /page; error_page 301 404 /page; error_page 302 =307 /page;",
    "P_intercept_errors on; error_page 401 /page; error_page 404 =301 /page; error_page 302 http://site.example/;",
    "P_intercept_errors on; error_page 401 = /page; error_page 302 = /page; error_page 301 @named;",
    "P_intercept_errors on; error_page 401 = @named; error_page 404 =200 @named; error_page 302 =200 @named;",
    "satisfy any; deny all; auth_basic site; auth_basic_user_file users;",
    "satisfy any; auth_request /permit; auth_basic site; auth_basic_user_file users;",
    "satisfy any; deny all; auth_request /refuse;",
    "satisfy any; deny all; auth_basic site; auth_basic_user_file users; auth_request /refuse; error_page 401 =200 /page;",
    "satisfy any; allow all; auth_basic site; auth_basic_user_file users;",
    "auth_basic site; auth_basic_user_file users; error_page 401 =200 /page;",
    "auth_basic site; auth_basic_user_file users; error_page 401 = @named;",
    "auth_request /refuse; error_page 401 =200 /page;",
];

/// What upstreams answer, by the last part of the path (`programs::against`).
const ANSWERS: [&str; 13] = [
    "said-all",
    "said-bare",
    "said-coded",
    "said-part",
    "said-401",
    "said-301",
    "said-302",
    "said-404",
    "said-204",
    "said-304",
    "said-open",
    "said-long",
    "said-twice",
];

/// What requests have beside their target and host.
const REQUESTS: [(&str, &str); 9] = [
    ("GET", ""),
    ("HEAD", ""),
    ("GET", "Range: bytes=0-3\r\n"),
    ("GET", "Range: bytes=0-1,3-4\r\n"),
    ("GET", "Range: bytes=2-4\r\nIf-Range: \"up\"\r\n"),
    ("GET", "Range: bytes=100000-\r\n"),
    ("GET", "Accept-Encoding: gzip\r\nRange: bytes=1-2\r\n"),
    ("GET", "If-None-Match: \"up\"\r\n"),
    ("GET", "If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT\r\n"),
];

/// Fields whose values the log has as they were sent.
const LOGGED: [&str; 11] = [
    "accept_ranges",
    "content_range",
    "content_type",
    "etag",
    "last_modified",
    "www_authenticate",
    "location",
    "expires",
    "cache_control",
    "content_encoding",
    "x_one",
];

fn configuration(port: u16) -> String {
    let mut logged = String::new();
    for name in LOGGED {
        let _ = write!(logged, "|{name}=$sent_http_{name}");
    }
    let mut locations = String::new();
    for (way, pass) in WAYS {
        for (number, directives) in DIRECTIVES.iter().enumerate() {
            let directives = directives.replace("P_", &format!("{way}_"));
            let _ = writeln!(locations, "location /{way}/{number}/ {{ {pass} {directives} }}");
        }
    }
    format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log;\n\
         events {{}}\nhttp {{ log_format sent '$request $http_range $http_if_range $http_accept_encoding\
         $http_if_none_match $http_if_modified_since|$status{logged}';\n\
         client_body_temp_path body; proxy_temp_path proxy; default_type text/plain;\n\
         server {{ listen 127.0.0.1:{port}; access_log access.log sent;\n{locations}\
         location /page {{ return 200 page; }}\n\
         location @named {{ add_header X-Named $sent_http_www_authenticate; return 200 named; }}\n\
         location /added {{ return 200 added; }}\nlocation /permit {{ return 204; }}\n\
         location /refuse {{ proxy_pass http://127.0.0.1:9100/said-401; }}\n}} }}\n"
    )
}

fn start(folder: &Path, mut command: Command, port: u16) -> Running {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("users"), "user:{PLAIN}word\n").unwrap();
    fs::write(folder.join("nginx.conf"), configuration(port)).unwrap();
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "stderr"]);
    let mut running = Running::start(&mut command);
    running.wait_until_open(&format!("127.0.0.1:{port}"));
    running
}

/// An answer, with what each server says in its own way put alike.
fn said(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let at = memchr::memmem::find(&bytes, b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let head = String::from_utf8_lossy(&bytes[..at]).replace(&port.to_string(), "PORT");
    let mut lines: Vec<String> = Vec::new();
    let mut chunked = false;
    for (number, line) in head.trim_end().split("\r\n").enumerate() {
        if number == 0 {
            // Each has its own words for a status.
            lines.extend(line.split(' ').nth(1).map(str::to_owned));
            continue;
        }
        let lower = line.to_ascii_lowercase();
        let own = match lower.split_once(':').map(|(name, value)| (name, value.trim_ascii())) {
            // The length is seen in what is sent.
            Some(("connection" | "content-length", _)) => continue,
            Some(("transfer-encoding", _)) => {
                chunked = true;
                continue;
            }
            Some(("date" | "expires", value)) if !value.contains("1994") && !value.contains("1970") => "now",
            Some(("server", value)) if value.starts_with("nginx") || value.starts_with("nearside") => "own",
            // Whose boundary is whose.
            Some(("content-type", value)) if value.starts_with("multipart/") => "parts",
            _ => {
                lines.push(line.trim_end().to_owned());
                continue;
            }
        };
        lines.push(format!("{}: {own}", line.split(':').next().unwrap_or_default()));
    }
    // Who says nothing of itself is not told apart from who does: but nobody says it twice.
    for once in ["Date: ", "Server: "] {
        if lines.iter().filter(|line| line.starts_with(once)).count() == 1 {
            lines.retain(|line| *line != format!("{once}now") && *line != format!("{once}own"));
        }
    }
    lines.sort_unstable();
    let coded = lines.iter().any(|line| line == "Content-Encoding: gzip");
    let parts = lines.iter().any(|line| line == "Content-Type: parts");
    let mut body = bytes[at..].to_vec();
    if chunked {
        body = dechunked(&body);
    }
    // nginx's page without its version has this name, too.
    let body = if coded || parts {
        "made".to_owned()
    } else if body.len() > 1000 {
        format!("{} bytes: {}", body.len(), body[..20].escape_ascii())
    } else {
        let text = String::from_utf8_lossy(&body).replace("nginx/1.22.1", "nearside");
        text.replace("<center>nginx<", "<center>nearside<").escape_debug().to_string()
    };
    format!("{}\nbody: {body}", lines.join("\n"))
}

/// What the chunks have.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = memchr::memmem::find(body, b"\r\n") {
        let size = String::from_utf8_lossy(&body[..end]).into_owned();
        let size = usize::from_str_radix(&size, 16).unwrap();
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    whole
}

/// The same answers as a program gives, by HTTP.
fn serve(mut stream: TcpStream) {
    let Some(line) = upstream::request_line(&mut stream) else { return };
    let target = line.split(' ').nth(1).unwrap_or_default();
    let name = target.rsplit('/').next().unwrap_or_default();
    let answer = programs::against(name).unwrap_or_default();
    let (status, rest) = match answer.strip_prefix(b"Status: ") {
        Some(rest) => {
            let end = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
            (&rest[..end], &rest[end..])
        }
        None => (&b"200 OK"[..], &[b"\r\n", answer.as_slice()].concat()[..]),
    };
    let end = if line.starts_with("HEAD") {
        memchr::memmem::find(rest, b"\r\n\r\n").map_or(rest.len(), |at| at + 4)
    } else {
        rest.len()
    };
    let _ = stream.write_all(&[b"HTTP/1.1 ", status, b"\r\nConnection: close", &rest[..end]].concat());
}

fn ask(port: u16) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    for (turn, (way, _)) in WAYS.iter().enumerate() {
        for (number, directives) in DIRECTIVES.iter().enumerate() {
            for answer in ANSWERS {
                // A third of them by each way, so that all are asked by some.
                let is_asked = |at: &usize| *at == 0 || at % 3 == (number + turn) % 3;
                for (method, fields) in (0..REQUESTS.len()).filter(is_asked).map(|at| REQUESTS[at]) {
                    let target = format!("/{way}/{number}/{answer}");
                    let text = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
                    let name = format!("{directives}\n{method} {target} {fields}");
                    answers.push((name, said(port, text.as_bytes())));
                }
            }
        }
    }
    answers
}

#[test]
fn what_upstreams_say_against_what_the_site_says() {
    in_namespace(&[NGINX], || {
        let listener = TcpListener::bind(UPSTREAM).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        programs::serve();
        let folder = scratch("nginx-against");
        let _ = fs::remove_dir_all(&folder);
        let sides = [("ours", Nearside::command(["nginx"]), OURS), ("theirs", Command::new("nginx"), THEIRS)];
        let [ours, theirs] = sides.map(|(name, command, port)| {
            let folder = folder.join(name);
            let running = start(&folder, command, port);
            let answers = ask(port);
            running.stop();
            let log = fs::read_to_string(folder.join("access.log")).unwrap().replace(&port.to_string(), "PORT");
            let mut log: Vec<String> = log.lines().map(str::to_owned).collect();
            log.sort_unstable();
            (answers, log)
        });
        // By what differs: all requests with the same.
        let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((name, ours), (_, theirs)) in ours.0.iter().zip(&theirs.0) {
            // Debian's nginx passes a field on as often as it comes; the page of nginx's own says that
            // it is compressed.
            let theirs = &theirs.replace("Date: Wed, 16 Nov 1994 08:12:31 GMT\n", "").replace("Server: again\n", "");
            let theirs = match ours.starts_with("416") && name.contains("said-coded") && theirs.contains("gzip") {
                true => ours,
                false => theirs,
            };
            if ours != theirs {
                failures.entry(apart(theirs, ours, '\n')).or_default().push(name.clone());
            }
        }
        assert_eq!(ours.1.len(), theirs.1.len());
        for (ours, theirs) in ours.1.iter().zip(&theirs.1) {
            let ours = &as_nginx_logs(ours);
            if dated(ours) != dated(theirs) {
                failures
                    .entry(format!("LOG\n{}", apart(&dated(theirs), &dated(ours), '|')))
                    .or_default()
                    .push(ours.clone());
            }
        }
        let mut told = String::new();
        for (apart, names) in &failures {
            let _ =
                writeln!(told, "{} times:\n{apart}as in\n{}\n", names.len(), names[..names.len().min(3)].join("\n"));
        }
        assert!(failures.is_empty(), "of {}:\n{told}", ours.0.len());
    });
}

/// A line of a log without the times that are now's.
fn dated(line: &str) -> String {
    let is_now = |part: &&str| {
        part.starts_with("expires=") && part.contains("GMT") && !part.contains("1994") && !part.contains("1970")
    };
    let part = |part: &str| if is_now(&part) { "expires=now" } else { part }.to_owned();
    line.split('|').map(part).collect::<Vec<_>>().join("|")
}

/// A line of ours as nginx has it: Debian's has the first of several values, and for some
/// statuses no Last-Modified where it sent one; its own page is not compressed.
fn as_nginx_logs(line: &str) -> String {
    let parts: Vec<&str> = line.split('|').collect();
    let is_coded = parts[1] == "416" && parts[0].contains("said-coded");
    let part = |part: &str| match part.split_once('=') {
        Some(("last_modified", _)) if !matches!(parts[1], "200" | "206" | "304") => "last_modified=-".to_owned(),
        Some(("content_encoding", _)) if is_coded => "content_encoding=gzip".to_owned(),
        Some(("www_authenticate", _)) => part.split(", ").next().unwrap_or(part).to_owned(),
        Some(("x_one" | "expires" | "accept_ranges", _)) => part.strip_suffix(", site").unwrap_or(part).to_owned(),
        _ => part.to_owned(),
    };
    parts.iter().map(|text| part(text)).collect::<Vec<_>>().join("|")
}

/// The lines that are in one alone: `-` in nginx's, `+` in ours.
fn apart(theirs: &str, ours: &str, end: char) -> String {
    let mut text = String::new();
    for line in theirs.split(end).filter(|line| !ours.split(end).any(|other| other == *line)) {
        let _ = writeln!(text, "  - {line}");
    }
    for line in ours.split(end).filter(|line| !theirs.split(end).any(|other| other == *line)) {
        let _ = writeln!(text, "  + {line}");
    }
    text
}
