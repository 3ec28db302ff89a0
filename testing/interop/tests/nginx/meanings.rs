//! What single directives and variables mean, beside nginx: one configuration each, the
//! same requests to both, and answers that say the same. What is ours alone stands as such.

use crate::{NGINX, upstream};
use interop::{Nearside, Running, in_namespace, scratch};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Cases that Debian's nginx is not asked.
const OURS_ALONE: [&str; 2] = ["what a proxy says beside addresses", "a charset that becomes another"];

/// The upstream, and both servers.
const UPSTREAM: &str = "127.0.0.1:9100";
const THEIRS: u16 = 8001;
const OURS: u16 = 8002;

/// What is asked of both.
#[derive(Clone)]
pub(crate) struct Case {
    pub name: &'static str,
    /// What stands in `http`; `PORT` is the server's.
    pub http: &'static str,
    pub requests: Vec<Vec<u8>>,
    /// Where ours differs: what stands in nginx's answers, and in ours in its place.
    pub differs: &'static [(&'static str, &'static str)],
    /// What is in our answers, so that not both are without.
    pub has: &'static [&'static str],
    /// Whether answers count connections: those that were there before have to be gone, which the
    /// server learns when it learns it.
    pub counts: bool,
}

pub(crate) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes()
}

fn post(target: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A header of the PROXY protocol with these values beside addresses, and a request.
fn proxied(target: &str, tlvs: &[(u8, &[u8])]) -> Vec<u8> {
    let written = |tlvs: &[(u8, &[u8])]| {
        let one = |(kind, value): &(u8, &[u8])| [&[*kind][..], &(value.len() as u16).to_be_bytes(), value].concat();
        tlvs.iter().flat_map(one).collect::<Vec<u8>>()
    };
    let addresses = [192, 0, 2, 1, 198, 51, 100, 1, 0x10, 0, 0, 80];
    let body = [&addresses[..], &written(tlvs)].concat();
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    [bytes, get(target)].concat()
}

pub(crate) fn case(name: &'static str, http: &'static str, requests: Vec<Vec<u8>>) -> Case {
    Case { name, http, requests, differs: &[], has: &[], counts: false }
}

/// Names that stand for something, and are set.
fn names() -> Vec<Case> {
    vec![
        Case {
            has: &["X-B: backend-a", "X-P: 81", "X-I: never", "X-U: app", "X-T: TLSv9", "X-C: cookie", "X-H: field"],
            ..case(
                "names of nginx's own that may be set",
                "server { listen 127.0.0.1:PORT; location / { set $proxy_host backend-a; set $proxy_port 81;
                 set $invalid_referer never; set $upstream_app app; set $ssl_protocol TLSv9; set $cookie_x cookie;
                 set $http_x field; add_header X-B $proxy_host; add_header X-P $proxy_port; add_header X-I $invalid_referer;
                 add_header X-U $upstream_app; add_header X-T $ssl_protocol; add_header X-C $cookie_x;
                 add_header X-H $http_x; return 204; } }",
                vec![get("/")],
            )
        },
        Case {
            has: &["X-V: mapped", "X-V: set", "X-F: sent", "X-F: set"],
            ..case(
                "what a name stands for until it is set",
                "map $uri $v { default mapped; /m other; } server { listen 127.0.0.1:PORT;
                 location / { add_header X-V $v; add_header X-F $http_f; return 204; }
                 location /set { set $v set; set $http_f set; add_header X-V $v; add_header X-F $http_f; return 204; } }
                 map $uri $w { default mapped; }
                 server { listen 127.0.0.1:PORT; server_name other; location / { set $w x; return 204; } }",
                vec![
                    b"GET / HTTP/1.0\r\nF: sent\r\n\r\n".to_vec(),
                    b"GET /m HTTP/1.0\r\n\r\n".to_vec(),
                    b"GET /set HTTP/1.0\r\nF: sent\r\n\r\n".to_vec(),
                ],
            )
        },
        Case {
            has: &["X-A: made", "X-L: 7"],
            ..case(
                "a map and a capture into nginx's own",
                "map $uri $args { default made; } server { listen 127.0.0.1:PORT;
                 location / { add_header X-A $args; return 204; }
                 location ~ ^/c/(?<limit_rate>\\d+) { add_header X-L $limit_rate; return 204; } }",
                vec![get("/?sent"), get("/c/7")],
            )
        },
    ]
}

/// Where scripts and phases end a request, and what they keep of what matched.
fn scripts() -> Vec<Case> {
    vec![
        Case {
            has: &["[q][]", "[][q]", "[b=1][]", "GET /g/ HTTP"],
            ..case(
                "groups of what matched, behind an expression that does not match",
                "upstream up { server 127.0.0.1:9100; } map $http_x $m { default d; ~^(y)$ m$1; }
                 server { listen 127.0.0.1:PORT;
                 location ~ ^/c/(.*)$ { if ($args ~ b) { set $z 1; } return 200 \"[$1][$z]\"; }
                 location ~ ^/n/(.*)$ { if ($args !~ b) { set $z 1; } return 200 \"[$1][$z]\"; }
                 location ~ ^/r/(?<n>.*)$ { rewrite ^/zz /x; return 200 \"[$1][$n]\"; }
                 location ~ ^/m/(.*)$ { set $z $m; return 200 \"[$1][]\"; }
                 location ~ ^/o/(.*)$ { if ($args ~ ^(b=.)) { set $z 1; } if ($args ~ c) { return 200 no; }
                 return 200 \"[$1][]\"; }
                 location ~ ^/l/(.*)$ { if ($args ~ c) { return 200 no; } if ($args ~ ^(b=.)) { set $z 1; }
                 return 200 \"[$1][]\"; }
                 location ~ ^/p/(.*)$ { if ($args ~ b) { set $z 1; } proxy_pass http://up/g/$1; } }",
                ["/c/q", "/c/q?b", "/n/q", "/n/q?b", "/r/q", "/m/q", "/o/q?b=1", "/l/q?b=1", "/p/q"].map(get).into(),
            )
        },
        Case {
            has: &["first", "444: of a page"],
            ..case(
                "444, by whatever means",
                "limit_req_zone $host zone=z:1m rate=1r/m; limit_req_status 444;
                 server { listen 127.0.0.1:PORT; error_page 444 /first;
                 location /limited { limit_req zone=z; try_files /nope /first; }
                 location /first { return 200 first; }
                 location /tried { try_files /nope =444; }
                 location /refused { error_page 403 @closes; deny all; } location @closes { try_files /nope =444; }
                 location /told { error_page 403 =444 /page; deny all; }
                 location /page { return 200 \"444: of a page\"; } }",
                ["/limited", "/limited", "/tried", "/refused", "/told"].map(get).into(),
            )
        },
    ]
}

/// What upstreams are asked, and what becomes of their answers.
fn upstreams() -> Vec<Case> {
    vec![
        Case {
            has: &["X-A: 101", "Path=/app/", "Secure", "/here/n", "Upgrade: websocket"],
            ..case(
                "a 101 has the fields of the site",
                "server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:9100; proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
                 add_header X-A $upstream_status always; add_header X-B b;
                 proxy_cookie_path / /app/; proxy_cookie_flags ~ secure; proxy_redirect http://127.0.0.1:9100/ /here/; } }",
                vec![b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_vec()],
            )
        },
        Case {
            differs: &[("GET /g/a b HTTP", "GET /g/a%20b HTTP"), ("GET /x?q=a b HTTP", "GET /x?q=a%20b HTTP")],
            has: &["GET /g/a%20b HTTP", "GET /x?q=a%20b HTTP"],
            ..case(
                "a space in what is asked",
                "upstream up { server 127.0.0.1:9100; } server { listen 127.0.0.1:PORT;
                 location ~ ^/f/(.*)$ { proxy_pass http://up/g/$1; } location ~ ^/q/(.*)$ { proxy_pass http://up/x?q=$1; } }",
                vec![get("/f/a%20b"), get("/q/a%20b")],
            )
        },
        Case {
            has: &["200 OK", "POST /up/x HTTP", " 413 "],
            differs: &[("HTTP/1.1 413 Request Entity", "HTTP/1.1 413 Content")],
            ..case(
                "the limit of a body is that of the place which its path finds",
                "client_max_body_size 10; server { listen 127.0.0.1:PORT; location /up/ { client_max_body_size 100; try_files /nothing @app; }
                 location /e/ { client_max_body_size 100; error_page 418 = @app; return 418; }
                 location /short/ { try_files /nothing @long; }
                 location @app { proxy_pass http://127.0.0.1:9100; }
                 location @long { client_max_body_size 100; proxy_pass http://127.0.0.1:9100; } }",
                ["/up/x", "/e/", "/short/x"].map(|target| post(target, "0123456789 and more")).into(),
            )
        },
        Case {
            has: &["Expires: Wed, 10 Nov 2010 10:00:10 GMT", "X-E: none"],
            ..case(
                "expires with modified and a variable",
                "map $arg_e $e { default $arg_e; none off; } server { listen 127.0.0.1:PORT; root .;
                 add_header X-E $arg_e; location / { expires modified $e; } }",
                ["epoch", "max", "none", "@1h", "x", "-1h", "-600s"].map(|e| get(&format!("/f?e={e}"))).into(),
            )
        },
        Case {
            has: &["Domain=new.example", "Domain=.other.example"],
            ..case(
                "domains of cookies, and their dots",
                "server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:9100;
                 proxy_cookie_domain one.example .new.example; proxy_cookie_domain .two.example other.example;
                 proxy_cookie_flags ~SIX httponly; } }",
                vec![get("/cookie/one.example"), get("/cookie/.two.example"), get("/cookie/sixth.example")],
            )
        },
    ]
}

/// What upstreams say of when something was modified.
const TIMES: [&str; 3] = ["yesterday", "", "Wed,%2010%20Nov%202010%2010:00:10%20GMT"];

/// Asks for what was modified then, without chunks.
fn dated(place: &str, time: &str) -> Vec<u8> {
    format!("GET {place}/modified/{time} HTTP/1.0\r\n\r\n").into()
}

/// Bodies of requests that are passed on, and of what is answered.
fn bodies() -> Vec<Case> {
    vec![
        Case {
            has: &["X-Body: 0123456789", "[0123456789]"],
            ..case(
                "a body that is passed on as it comes",
                "server { listen 127.0.0.1:PORT; proxy_request_buffering off; add_header X-Body $request_body;
                 location / { proxy_pass http://127.0.0.1:9100; proxy_http_version 1.1; }
                 location /e { proxy_pass http://127.0.0.1:9100/404; proxy_intercept_errors on; error_page 404 /page; }
                 location /page { return 200 \"[$request_body]\"; } }",
                vec![post("/", "0123456789"), post("/e", "0123456789"), get("/")],
            )
        },
        Case {
            has: &["426 Upgrade Required", "Upgrade: TLS/1.3, h2c"],
            ..case(
                "what an upstream wants instead is told",
                "server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:9100; } }",
                vec![get("/426")],
            )
        },
        Case {
            has: &["Last-Modified: yesterday", "Last-Modified: Wed, 10 Nov 2010 10:00:10 GMT"],
            // nginx does not know how long it becomes.
            differs: &[("Connection: close\nContent-Type", "Connection: close\nContent-Length: 7\nContent-Type")],
            ..case(
                "when a content was changed is not told of one that becomes another, readable or not",
                "server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:9100; }
                 location /ssi { ssi on; rewrite ^/ssi(.*) $1 break; proxy_pass http://127.0.0.1:9100; }
                 location /sub { sub_filter a b; rewrite ^/sub(.*) $1 break; proxy_pass http://127.0.0.1:9100; } }",
                ["", "/ssi", "/sub"].iter().flat_map(|place| TIMES.map(|time| dated(place, time))).collect(),
            )
        },
        Case {
            has: &["POST /+ HTTP", "200 []", "200 [0123456789]"],
            ..case(
                "where a request goes is found out before its body is read",
                "server { listen 127.0.0.1:PORT; error_page 500 502 = /page;
                 location / { proxy_pass http://127.0.0.1:9100/$request_body+; }
                 location /http { proxy_pass http://$arg_to; proxy_set_body a; } location /grpc { grpc_pass grpc://$arg_to; }
                 location /fastcgi { fastcgi_pass $arg_to; } location /scgi { scgi_pass $arg_to; }
                 location /uwsgi { uwsgi_pass $arg_to; }
                 location /page { return 200 \"$status [$request_body]\"; } }",
                ["/", "/http", "/grpc", "/fastcgi", "/scgi", "/uwsgi", "/http?to=name.example", "/scgi?to=a:b"]
                    .map(|target| post(target, "0123456789"))
                    .into(),
            )
        },
    ]
}

/// What is told of connections.
fn connections() -> Vec<Case> {
    vec![
        Case {
            has: &["X-Act: 1", "X-Wri: 1", "X-Wai: 0"],
            counts: true,
            ..case(
                "how many connections there are",
                "server { listen 127.0.0.1:PORT; add_header X-Act $connections_active; add_header X-Rea $connections_reading;
                 add_header X-Wri $connections_writing; add_header X-Wai $connections_waiting;
                 location / { return 200 x; } }",
                vec![get("/"), get("/")],
            )
        },
        Case {
            has: &["X-A: h2/", "X-N: net/net", "X-V: 7", "X-C: name/name", "X-X: a/"],
            // Debian 12's nginx has none of these variables.
            differs: &[("X-A: NONE", "X-A: h2/")],
            ..case(
                "what a proxy says beside addresses",
                "server { listen 127.0.0.1:PORT proxy_protocol; add_header X-A $proxy_protocol_tlv_alpn/;
                 add_header X-N $proxy_protocol_tlv_netns/$proxy_protocol_tlv_0x30; add_header X-X $proxy_protocol_tlv_0x000ae/$proxy_protocol_tlv_0xf;
                 add_header X-V $proxy_protocol_tlv_ssl_verify; add_header X-C $proxy_protocol_tlv_ssl_cn/$proxy_protocol_tlv_ssl_0x22;
                 location / { return 204; } }",
                vec![proxied(
                    "/",
                    &[(1, b"h2"), (0x20, b"\x01\0\0\0\x07\x22\0\x04name"), (0x30, b"net"), (0xae, b"a"), (0x31, b"")],
                )],
            )
        },
    ]
}

/// Answers with what it was asked; some paths with other things.
fn serve(mut stream: TcpStream) {
    let Some(line) = upstream::request_line(&mut stream) else { return };
    let target = line.split(' ').nth(1).unwrap_or_default();
    let answer = if target == "/ws" {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSet-Cookie: s=1; Path=/\r\n\
             Location: http://{UPSTREAM}/n\r\n\r\n"
        )
    } else {
        let status = match target {
            "/404" => "404 Not Found",
            "/426" => "426 Upgrade Required\r\nUpgrade: TLS/1.3, h2c",
            _ => "200 OK",
        };
        let domain = target.strip_prefix("/cookie/");
        let cookie = domain.map_or(String::new(), |domain| format!("Set-Cookie: {domain}=1; Domain={domain}\r\n"));
        let modified = target.strip_prefix("/modified/").map_or(String::new(), |modified| {
            format!("Content-Type: text/html\r\nLast-Modified: {}\r\nETag: \"a\"\r\n", modified.replace("%20", " "))
        });
        let body = if modified.is_empty() { &line } else { "content" };
        format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\n{cookie}{modified}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let _ = stream.write_all(answer.as_bytes());
}

fn start(folder: &Path, mut command: Command, http: &str, port: u16) -> Running {
    let text = format!(
        "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log;\n\
         events {{}}\nhttp {{ access_log off; client_body_temp_path body; proxy_temp_path proxy;\n{} }}\n",
        http.replace("PORT", &port.to_string())
    );
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("f"), "content").unwrap();
    let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_289_383_810);
    fs::File::options().write(true).open(folder.join("f")).unwrap().set_modified(modified).unwrap();
    fs::write(folder.join("nginx.conf"), text).unwrap();
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "stderr"]);
    let mut running = Running::start(&mut command);
    running.wait_until_open(&format!("127.0.0.1:{port}"));
    running
}

/// What an answer says, but for what each server says in its own way.
fn said(port: u16, request: &[u8]) -> String {
    const OWN: [&str; 3] = ["date:", "server:", "keep-alive:"];
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).replace(&port.to_string(), "PORT");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let is_own = |line: &&str| OWN.iter().any(|own| line.to_ascii_lowercase().starts_with(own));
    let (own, mut lines): (Vec<&str>, Vec<&str>) = head.split("\r\n").partition(is_own);
    for once in ["date:", "server:"] {
        let many = own.iter().filter(|line| line.to_ascii_lowercase().starts_with(once)).count();
        assert!(many <= 1, "{text}");
    }
    lines.sort_unstable();
    format!("{}\n\n{body}\n", lines.join("\n"))
}

#[test]
fn directives_and_variables_mean_what_they_mean_to_nginx() {
    compare("nginx-meanings", || [names(), scripts(), upstreams(), bodies(), connections()].concat(), serve);
}

/// Asks both the same, in this folder, with this upstream.
pub(crate) fn compare(folder: &'static str, cases: fn() -> Vec<Case>, serve: fn(TcpStream)) {
    in_namespace(&[NGINX], move || {
        let listener = TcpListener::bind(UPSTREAM).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        let mut failures = String::new();
        for (number, case) in cases().iter().enumerate() {
            let folder = scratch(folder).join(number.to_string());
            let ours = start(&folder.join("ours"), Nearside::command(["nginx"]), case.http, OURS);
            let asked = |port, request: &Vec<u8>| {
                let has_all = |text: &String| case.has.iter().all(|wanted| text.contains(wanted));
                let again = (0..100).map(|_| thread::sleep(Duration::from_millis(100)));
                let first = said(port, request);
                if !case.counts || has_all(&first) {
                    return first;
                }
                again.map(|()| said(port, request)).find(has_all).unwrap_or(first)
            };
            let answers: Vec<String> = case.requests.iter().map(|request| asked(OURS, request)).collect();
            ours.stop();
            let all = answers.concat();
            for wanted in case.has.iter().filter(|wanted| !all.contains(**wanted)) {
                failures += &format!("{}: no {wanted:?} in\n{all}\n", case.name);
            }
            if OURS_ALONE.contains(&case.name) {
                continue;
            }
            let theirs = start(&folder.join("theirs"), Command::new("nginx"), case.http, THEIRS);
            for (request, ours) in case.requests.iter().zip(answers) {
                let theirs =
                    case.differs.iter().fold(asked(THEIRS, request), |text, (from, to)| text.replace(from, to));
                let theirs = theirs.replace("nginx/1.22.1", "nearside");
                // Lengths of what differs do.
                let lengths = |text: &str| {
                    text.lines().filter(|line| !line.starts_with("Content-Length")).collect::<Vec<_>>().join("\n")
                };
                if lengths(&theirs) != lengths(&ours) {
                    failures +=
                        &format!("{}: {}\nnginx:\n{theirs}\nours:\n{ours}\n", case.name, request.escape_ascii());
                }
            }
            // Its workers end with it.
            theirs.stop();
        }
        assert!(failures.is_empty(), "{failures}");
    });
}
