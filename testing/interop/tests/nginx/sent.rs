//! What is said of answers, by upstreams and by the site, what dates mean, and what becomes
//! of requests whose bodies are none: beside nginx, case by case.

use crate::meanings::{Case, case, compare, get};
use crate::upstream;
use std::io::Write;
use std::net::TcpStream;

/// A request of HTTP/1.0 with this field: no length of an answer is by its chunks.
fn old(target: &str, field: &str) -> Vec<u8> {
    let end = if field.is_empty() { "" } else { "\r\n" };
    format!("GET {target} HTTP/1.0\r\nHost: a\r\n{field}{end}\r\n").into_bytes()
}

/// One whose body comes along in these chunks, or what stands in their place.
fn chunked(method: &str, target: &str, body: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
        .into_bytes()
}

/// Charsets that an upstream asks for (`X-Accel-Charset`).
fn charsets() -> Vec<Case> {
    const PATHS: [&str; 8] = [
        "/c/koi8-r/text/plain",
        "/c/utf-8/text/plain",
        "/c/UTF-8/text/html",
        "/c/utf-8/application/x",
        "/c/utf-8/text/plain;charset=x",
        "/c/utf-8/text/plain;charset=koi8-r",
        "/c/off/text/plain",
        "/c/utf-8/to/f",
    ];
    const TABLE: &str = "charset_map koi8-r utf-8 { C0 D18E; } server { listen 127.0.0.1:PORT; location /f { }
        location / { proxy_pass http://127.0.0.1:9100; charset koi8-r; } }";
    let asked = || PATHS.map(get).into();
    vec![
        case(
            "a charset that nothing names",
            "server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:9100; } location /f { } }",
            asked(),
        ),
        Case {
            has: &["charset=utf-8", "charset=UTF-8", "text/plain\n", "application/x; charset=utf-8"],
            ..case(
                "a charset that is named elsewhere",
                "server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:9100; } location /f { }
                 location /else { charset utf-8; } }",
                asked(),
            )
        },
        case(
            "a charset that there is a table for",
            TABLE,
            PATHS.into_iter().filter(|path| !path.ends_with("=koi8-r")).map(get).collect(),
        ),
        // nginx closes without an answer ("zero size buf in writer").
        Case { has: &["\u{44e}"], ..case("a charset that becomes another", TABLE, vec![get(PATHS[5])]) },
        case(
            "a charset that is ignored",
            "server { listen 127.0.0.1:PORT; location /f { } location / { proxy_pass http://127.0.0.1:9100;
             proxy_ignore_headers X-Accel-Charset; charset utf-8; } }",
            asked(),
        ),
    ]
}

/// Conditions that do not hold, and dates.
fn conditions() -> Vec<Case> {
    const DATES: [&str; 20] = [
        "Wed, 10 Nov 2010 10:10:10",
        "Wed, 10 Nov 2010 10:10:10 UTC",
        "Wed, 10 Nov 2010 10:10:10 +0200",
        "Wed, 10 Nov 2010 10:10:10GMT",
        "Wed, 10 Nov 2010 10:10:10 GMT and more",
        "Xyz, 10 Nov 2010 10:10:10 GMT",
        ",10 Nov 2010 10:10:10",
        "Wed,  10 Nov 2010 10:10:10 GMT",
        "Wednesday, 10-Nov-10 10:10:10",
        "Wed, 10-Nov-10 10:10:10 GMT",
        "Wed Nov 10 10:10:10 2010 x",
        "Wed, 10 Nov 2010 10:10:1",
        "10 Nov 2010 10:10:10 GMT",
        "Wed, 10 Nov 2010  10:10:10 GMT",
        "Wed, 10 Nov 2010 10:10:60 GMT",
        "Wed, 10 Nov 2010 24:10:10 GMT",
        "Wed, 30 Feb 2010 10:10:10 GMT",
        "Wed, 10-Nov-2010 10:10:10 GMT",
        "Wed Nov 9 10:10:10 2010",
        "",
    ];
    let dated = |name: &str| DATES.map(|date| old("/f", &format!("{name}: {date}")));
    let ranged = DATES.map(|date| old("/f", &format!("Range: bytes=0-1\r\nIf-Range: {date}")));
    let unmet = |target: &str| old(target, "If-Match: \"x\"");
    vec![
        Case {
            has: &[" 412 ", " 304 ", " 206 "],
            ..case(
                "dates without a zone, and what else looks like dates",
                "server { listen 127.0.0.1:PORT; root .; }",
                [&dated("If-Unmodified-Since")[..], &dated("If-Modified-Since"), &ranged].concat(),
            )
        },
        Case {
            has: &[" 412 ", "Set-Cookie: kept=1"],
            ..case(
                "a 412 of what another answer was given up for",
                "server { listen 127.0.0.1:PORT; root .; location / { proxy_pass http://127.0.0.1:9100; }
                 location = /f { add_header X-A a always; } location = /text { return 200 text; }
                 location /paged { error_page 412 /page; proxy_pass http://127.0.0.1:9100/c/koi8-r/to/text; }
                 location = /page { return 200 page; } }",
                vec![
                    get("/c/utf-8/to/f"),
                    unmet("/c/utf-8/to/f"),
                    unmet("/c/utf-8/to/text"),
                    unmet("/c/utf-8/to/none"),
                    unmet("/paged"),
                    unmet("/f"),
                ],
            )
        },
    ]
}

/// `ETag` and `Last-Modified` that the site adds.
fn validators() -> Vec<Case> {
    vec![Case {
        has: &["ETag: \"e\"", "ETag: W/\"e\"", "Last-Modified: never", "Content-Range: bytes 0-1/7"],
        ..case(
            "tags and dates that the site adds",
            "server { listen 127.0.0.1:PORT; root .; default_type text/html; add_header ETag '\"e\"';
             add_header Last-Modified 'Sun, 06 Nov 1994 08:49:37 GMT'; location / { }
             location /ssi { ssi on; alias f; } location /kept { ssi on; ssi_last_modified on; alias f; }
             location /sub { sub_filter a b; alias f; } location /added { add_before_body /text; alias f; }
             location /text { return 200 text; } location /gone { add_header ETag ''; add_header Last-Modified ''; alias f; }
             location /odd { add_header ETag a; add_header ETag b; add_header Last-Modified never; alias f; }
             location /bare { add_before_body /text; add_header ETag bare; alias f; }
             location /told { add_header ETag '\"1\"'; add_header X-E $sent_http_etag; add_header ETag '\"2\"';
             add_header X-F $sent_http_etag; add_header X-L $sent_http_last_modified;
             add_header Last-Modified later; add_header X-M $sent_http_last_modified; alias f; }
             location /type { add_header Content-Type x/y; add_header X-T $sent_http_content_type; alias f; }
             location /404 { add_header ETag '\"e\"' always; add_header Last-Modified never always; return 404; } }",
            [
                &["/f", "/ssi", "/kept", "/sub", "/added", "/text", "/gone", "/odd", "/bare", "/told", "/type", "/404"]
                    .map(|target| old(target, ""))[..],
                &["\"e\"", "\"f\"", "Sun, 06 Nov 1994 08:49:37 GMT", "Wed, 10 Nov 2010 10:10:10 GMT"]
                    .map(|tag| old("/f", &format!("Range: bytes=0-1\r\nIf-Range: {tag}"))),
            ]
            .concat(),
        )
    }]
}

/// Bodies that are no chunks by what came along with the head, and those of which all did.
fn bodies() -> Vec<Case> {
    const BAD: [&str; 3] = ["zz\r\n", "5\r\nabcdeX\r\n0\r\n\r\n", "2\r\nab\r\n0\r\n\r\n"];
    let targets = ["/", "/f", "/empty", "/moved", "/gone", "/told", "/none", "/up", "/paged", "/folder"];
    let all = targets.into_iter().flat_map(|target| {
        BAD.into_iter().flat_map(move |body| ["GET", "POST", "HEAD"].map(|method| chunked(method, target, body)))
    });
    vec![
        Case {
            has: &[" 400 ", "HTTP/1.1 200 ", " 204 "],
            differs: &[("405 Not Allowed\n", "405 Method Not Allowed\n")],
            ..case(
                "bodies that are none",
                "server { listen 127.0.0.1:PORT; root .; location / { return 200 x; } location /f { }
                 location /empty { return 204; } location /moved { return 301 /x; } location /gone { return 404; }
                 location /told { return 404 told; } location /none { alias none; }
                 location /folder { alias ./; autoindex on; }
                 location /up { proxy_pass http://127.0.0.1:9100; } location /paged { error_page 404 /f; return 404; } }",
                all.collect(),
            )
        },
        Case {
            has: &["[7]content", "[0]"],
            ..case(
                "bodies in chunks that came along",
                "server { listen 127.0.0.1:PORT; client_max_body_size 10; proxy_http_version 1.1;
                 location / { proxy_request_buffering off; proxy_pass http://127.0.0.1:9100/length; }
                 location /old { proxy_http_version 1.0; proxy_request_buffering off;
                 proxy_pass http://127.0.0.1:9100/length; } }",
                ["7\r\ncontent\r\n0\r\n\r\n", "3\r\ncon\r\n4\r\ntent\r\n0\r\nT: t\r\n\r\n", "0\r\n\r\n"]
                    .into_iter()
                    .flat_map(|body| ["/", "/old"].map(|target| chunked("POST", target, body)))
                    .collect(),
            )
        },
    ]
}

/// An upstream that asks for a charset, or for another answer in the place of its own, as
/// the path says; or tells the body that it gets.
fn serve(mut stream: TcpStream) {
    let Some((head, body)) = upstream::request(&mut stream, &mut Vec::new()) else { return };
    let target = head.split(' ').nth(1).unwrap_or_default();
    let mut fields = String::new();
    let mut content = vec![0xc0];
    if let Some((charset, what)) = target.strip_prefix("/c/").and_then(|rest| rest.split_once('/')) {
        fields += &format!("X-Accel-Charset: {charset}\r\nSet-Cookie: kept=1\r\nCache-Control: no-cache\r\n");
        fields += &match what.strip_prefix("to/") {
            Some(path) => format!("Content-Type: text/css; charset=kept\r\nX-Accel-Redirect: /{path}\r\n"),
            None => format!("Content-Type: {what}\r\n"),
        };
    } else if target == "/length" {
        let told = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap_or("none");
        content = [format!("[{told}]").as_bytes(), &body].concat();
    }
    let start = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n", content.len());
    let _ = stream.write_all(&[start.as_bytes(), &content].concat());
}

#[test]
fn answers_say_what_they_say_with_nginx() {
    compare("nginx-sent", || [charsets(), conditions(), validators(), bodies()].concat(), serve);
}
