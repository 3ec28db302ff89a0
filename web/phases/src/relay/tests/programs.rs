//! Programs that answer wrongly.

use super::{Random, engine, faulty_answers_harm_nobody};
use asking::AskRules;
use configuration::UpstreamGroupId;
use configuration::gateways::{GatewayPass, GatewayProtocol, GatewayRules, GatewayTarget, Gateways};
use configuration::program::ContentRules;
use configuration::proxying::ProxyRules;
use std::sync::Arc;

fn content(protocol: GatewayProtocol) -> ContentRules {
    let to = GatewayTarget::Group(UpstreamGroupId(0));
    ContentRules::Gateway(Arc::new(GatewayPass { protocol, to, secured: false, location: Some(1) }))
}

/// FastCGI keeps connections, and some of what a program says of errors makes its answer
/// none.
fn rules() -> Gateways {
    let rules = || {
        let relay = ProxyRules { ask: AskRules { ahead: 5_000, ..AskRules::default() }, ..ProxyRules::default() };
        GatewayRules { relay: Arc::new(relay), ..GatewayRules::default() }
    };
    let fastcgi = GatewayRules { keeps: true, catches: [b"fatal"[..].into()].into(), ..rules() };
    let mut gateways = Gateways { fastcgi, uwsgi: rules(), scgi: rules() };
    for protocol in [GatewayProtocol::FastCgi, GatewayProtocol::Uwsgi, GatewayProtocol::Scgi] {
        gateways.of_mut(protocol).prepare(protocol);
    }
    gateways
}

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, padding, 0], content, &vec![0; usize::from(padding)]].concat()
}

/// An answer to this request, well or not so well made, and whether the connection ends
/// behind it.
pub(super) fn answer(random: &mut Random, request: &str) -> (Vec<u8>, bool) {
    // A record of FastCGI begins with a version, a netstring of SCGI with a number.
    let is_fastcgi = request.starts_with('\u{1}');
    let (_, value) = request.split_once("HTTP_X_TAG").expect("a tag");
    let value = value.trim_start_matches('\0');
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let tag: u32 = value[..end].parse().expect("a number");
    let body = format!("<{tag}>").repeat(1 + random.below(400) * random.below(10));
    let length = body.len();
    let text = match random.below(12) {
        0..5 => format!("Content-Type: a/b\n\n{body}"),
        5 => format!("Content-Length: {length}\r\n\r\n{body}"),
        6 => format!("Content-Length: {}\r\n\r\n{body}", length + 7),
        7 => format!("Content-Length: {length}\r\n\r\n{body}<0>"),
        8 => "garbage\n\n".to_owned(),
        9 => format!("Transfer-Encoding: chunked\nConnection: close\n\n{body}"),
        10 => format!("X: {}\r\n\r\n", "a".repeat(9_000)),
        _ => "Content-Ty".to_owned(),
    };
    if is_fastcgi {
        return (records(random, text.as_bytes()), random.below(3) == 0);
    }
    // The end of the connection alone says that all is there.
    let is_whole = text.contains("Content-Length") || text.contains("garbage");
    let line = if random.below(4) == 0 { "HTTP/1.0 200 OK\r\n" } else { "" };
    (format!("{line}{text}").into(), !is_whole || random.below(2) == 0)
}

/// The text in records, with what is said of errors between them, and an end that may
/// not be one.
fn records(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    let has_length = text.starts_with(b"Content-Length");
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(1 + random.below(rest.len()));
        rest = behind;
        match random.below(60) {
            0..10 => out.extend(record(7, b"a warning.\n", random.below(8) as u8)),
            10 => out.extend(record(7, b"it is fatal", 0)),
            11 => out.extend(record(7, b"", 3)),
            // Another version, type or request; an end that comes too early.
            12 => out.extend([2, 6, 0, 1, 0, 1, 0, 0, b'x']),
            13 => out.extend([1, 5, 0, 1, 0, 1, 0, 0, b'x']),
            14 => out.extend([1, 6, 0, 2, 0, 1, 0, 0, b'x']),
            15 if has_length => out.extend(record(6, b"", 0)),
            16 if has_length => out.extend(record(3, &[0; 8], 0)),
            _ => {}
        }
        out.extend(record(6, piece, random.below(8) as u8));
    }
    let ends: [(bool, usize); 4] = [(true, 1), (true, 0), (false, 1), (true, 2)];
    // Most are well made.
    let (stdout, requests) = ends[[0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3][random.below(11)]];
    if stdout {
        out.extend(record(6, b"", 0));
    }
    (0..requests).for_each(|_| out.extend(record(3, &[0; 8], 0)));
    out
}

#[test]
fn faulty_answers_of_programs_harm_nobody() {
    for protocol in [GatewayProtocol::FastCgi, GatewayProtocol::Scgi] {
        let passed = faulty_answers_harm_nobody(engine(true, |block| {
            (block.content, block.gateways) = (content(protocol), Arc::new(rules()));
        }));
        assert_eq!(passed, 0, "what a program sends is not what clients read");
    }
}
