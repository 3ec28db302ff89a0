//! What is no request, or none that is taken, on pages of the configuration's own; and
//! bodies that nobody reads.

use crate::requests::Asked;
use crate::twins::Twins;
use crate::{NGINX, told};
use interop::in_namespace;

/// What is sent on one connection, one piece after the other's answer.
fn scripts() -> Vec<Vec<Vec<u8>>> {
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: strict.example.org\r\n{fields}\r\n");
    let one = |text: String| vec![text.into_bytes()];
    let post = |target: &str, fields: &str, body: &str| {
        format!("POST {target} HTTP/1.1\r\nHost: strict.example.org\r\n{fields}\r\n{body}")
    };
    let mut list: Vec<Vec<Vec<u8>>> = [
        "GET / HTTP/1.1\r\nHost: .\r\n\r\n",
        "GET /text HTTP/1.1\r\nHost: .:80\r\n\r\n",
        "GET /text HTTP/1.1\r\nHost: a..b\r\n\r\n",
        "GET /text HTTP/1.1\r\nHost: a.\r\n\r\n",
        "GET /text HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /text HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        "GET /text HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /text HTTP/2.0\r\nHost: a\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
        "GET /../a HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /../a HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    .map(|text| vec![text.as_bytes().to_vec()])
    .into();
    list.extend([
        one(get(&format!("/text?{}", "a".repeat(2_000)), "")),
        one(get("/text", &format!("X-Long: {}\r\n", "a".repeat(3_000)))),
        one(get("/text", &format!("X-Long: {}\r\n", "a".repeat(600)))),
        // Each fits into a buffer, and there are two; or one does not.
        one(get("/text", &format!("X-One: {0}\r\nX-Two: {0}\r\n", "a".repeat(900)))),
        one(get("/text", &format!("X-Long: {}\r\n", "a".repeat(1_022 - 8)))),
        one(get("/text", &format!("X-Long: {}\r\n", "a".repeat(1_025 - 8)))),
        one(get("/text", &format!("X-Long: {}\r\n", "a".repeat(1_200)))),
        one(format!("GET /text HTTP/1.1\r\nX-Long: {}\r\nHost: a\r\n\r\n", "a".repeat(1_200))),
        one(get("/text", &format!("X-Long: {}\r\n", "a".repeat(1_200))).replace("strict", "other")),
        // Beyond the limit, and answered without the body.
        one(post("/text", "Content-Length: 11\r\n", "")),
        one(post("/logo.png", "Content-Length: 11\r\n", "")),
    ]);
    // Answers come before the body, and the next request behind it.
    for target in ["/text", "/logo.png", "/nothing"] {
        let next = get("/logo.png", "").into_bytes();
        let body = post(target, "Content-Length: 10\r\n", "12345").into_bytes();
        list.push(vec![body, [b"67890", &next[..]].concat(), next.clone()]);
        let body = post(target, "Transfer-Encoding: chunked\r\n", "5\r\n12345\r\n").into_bytes();
        list.push(vec![body, [b"3\r\n678\r\n0\r\n\r\n", &next[..]].concat(), next.clone()]);
    }
    // What is not read has no limit.
    let long = "x".repeat(70_000);
    let next = get("/text", "").into_bytes();
    list.push(vec![post("/large", "Content-Length: 70000\r\n", &long).into_bytes(), next.clone()]);
    list.push(vec![
        post("/text", "Transfer-Encoding: chunked\r\n", &format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len()))
            .into_bytes(),
        next,
    ]);
    list
}

#[test]
fn what_is_refused_and_what_is_not_read() {
    in_namespace(&[NGINX], move || {
        let mut twins = Twins::start("refused");
        let scripts = scripts();
        let mut failures = Vec::new();
        for script in &scripts {
            let asked = |bytes: &Vec<u8>| {
                let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
                let method = if bytes.starts_with(b"HEAD") { b"HEAD".to_vec() } else { b"GET".to_vec() };
                Asked { line: shown, bytes: bytes.clone(), method, expected: None, parts: None }
            };
            let asked: Vec<Asked> = script.iter().map(asked).collect();
            failures.extend(twins.differ_behind(80, b"", &asked));
        }
        failures.extend(twins.logs_differ());
        twins.stop();
        assert!(failures.is_empty(), "{}", told("refused", &failures, scripts.len()));
    });
}
