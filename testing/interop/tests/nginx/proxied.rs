//! Clients behind a proxy that tells of them before their first request.

use crate::requests::Asked;
use crate::twins::Twins;
use crate::{NGINX, told};
use interop::in_namespace;

/// What stands before the requests of a connection.
fn headers() -> Vec<Vec<u8>> {
    let binary = |head: &[u8], body: &[u8]| [b"\r\n\r\n\0\r\nQUIT\n", head, body].concat();
    let four = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 187];
    let mut six = [0; 36];
    six[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    (six[15], six[16], six[33]) = (1, 0xfe, 80);
    let mut list: Vec<Vec<u8>> = [
        "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n",
        "PROXY TCP4 203.0.113.9 198.51.100.1 1 65535\r\n",
        "PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n",
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN ffff::1 whatever this is\r\n",
        // None of these is one.
        "",
        "\r\n",
        "PROXY\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
        "proxy TCP4 192.0.2.1 198.51.100.1 1 2\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into();
    list.extend([
        binary(&[0x21, 0x11, 0, 12], &four),
        binary(&[0x21, 0x11, 0, 19], &[&four[..], &[4, 0, 4, 0, 0, 0, 0]].concat()),
        binary(&[0x21, 0x21, 0, 36], &six),
        binary(&[0x20, 0, 0, 0], b""),
        binary(&[0x20, 0x11, 0, 12], &four),
        binary(&[0x21, 0, 0, 0], b""),
        binary(&[0x21, 0x31, 0, 216], &[7; 216]),
        binary(&[0x21, 0x12, 0, 12], &four),
        binary(&[0x11, 0x11, 0, 12], &four),
        binary(&[0x21, 0x11, 0, 4], &four[..4]),
    ]);
    list
}

/// What is asked on each connection, one after the other.
fn requests() -> Vec<Asked> {
    let hosts = ["plain", "believed", "wary"];
    let targets = ["/who", "/", "/logo.png", "/guarded/a.txt", "/by-field/"];
    let asked = |host: &str, target: &str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}.example.org\r\nX-Real-IP: 192.0.2.77\r\n\r\n");
        Asked { line: text.clone(), bytes: text.into(), method: b"GET".to_vec(), expected: None, parts: None }
    };
    // Some are asked for twice: the second answer is ready.
    hosts.iter().flat_map(|host| targets.iter().chain(&targets[1..3]).map(move |target| asked(host, target))).collect()
}

#[test]
fn a_site_behind_a_proxy_that_tells_of_clients() {
    in_namespace(&[NGINX], move || {
        let mut twins = Twins::start("balanced");
        let (headers, requests) = (headers(), requests());
        let mut failures = Vec::new();
        for header in &headers {
            failures.extend(twins.differ_behind(81, header, &requests));
        }
        // And where none is expected.
        for header in headers.iter().take(3) {
            failures.extend(twins.differ_behind(80, header, &requests[..1]));
        }
        failures.extend(twins.differ_behind(80, b"", &requests));
        failures.extend(twins.logs_differ());
        twins.stop();
        assert!(failures.is_empty(), "{}", told("balanced", &failures, headers.len() * requests.len()));
    });
}
