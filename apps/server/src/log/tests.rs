//! Lines of the access log.

use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};

fn line(peer: IpAddr, request: &[u8]) -> String {
    let line =
        Line { peer: Some(SocketAddr::new(peer, 1)), request, status: 206, referer: None, agent: Some(b"curl/8") };
    let mut out = Vec::new();
    put_before(&mut out, &time_of(&HttpDate::from_unix(784_111_777)), &line);
    put_bytes(&mut out, 18_446_744_073_709_551_615);
    put_after(&mut out, &line);
    String::from_utf8(out).expect("text")
}

#[test]
fn addresses_of_both_families() {
    let rest = "- - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 206 18446744073709551615 \"-\" \"curl/8\"\n";
    for octet in 0..=255 {
        let v4 = Ipv4Addr::new(octet, 255 - octet, 10, octet);
        assert_eq!(line(v4.into(), b"GET / HTTP/1.1"), format!("{v4} {rest}"));
        assert_eq!(line(v4.to_ipv6_mapped().into(), b"GET / HTTP/1.1"), format!("{v4} {rest}"));
    }
    let v6: Ipv6Addr = "2001:db8::1".parse().expect("an address");
    assert_eq!(line(v6.into(), b"GET / HTTP/1.1"), format!("{v6} {rest}"));
}

#[test]
fn every_byte_is_printable_and_quotes_cannot_be_ended() {
    for length in 1..40 {
        for byte in 0..=255_u8 {
            let mut text = vec![b'a'; length];
            text[length / 2] = byte;
            let mut out = Vec::new();
            put_text(&mut out, &text);
            assert!(out.iter().all(|&byte| (0x20..0x7f).contains(&byte) && byte != b'"'));
            let escaped = !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\';
            assert_eq!(out.len(), length + if escaped { 3 } else { 0 });
        }
    }
}

#[test]
fn a_line_is_bounded() {
    let text = [b'"'; 60_000];
    let line = Line { peer: None, request: &text, status: 400, referer: Some(&text), agent: Some(&text) };
    let mut out = Vec::new();
    put_before(&mut out, &time_of(&HttpDate::from_unix(0)), &line);
    put_bytes(&mut out, 1);
    put_after(&mut out, &line);
    assert!(out.len() <= LINE_MAX);
}
