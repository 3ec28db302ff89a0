use super::*;

/// An extension.
pub(crate) fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

pub(crate) fn name(text: &str) -> Vec<u8> {
    let entry = [&[0][..], &(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    extension(SERVER_NAME, &[&(entry.len() as u16).to_be_bytes()[..], &entry].concat())
}

/// A ClientHello with these extensions, without records.
pub(crate) fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let extensions = extensions.concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 4, 0x13, 1, 0xc0, 0x2b],
        &[1, 0],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
}

pub(crate) fn record(content: &[u8]) -> Vec<u8> {
    [&[22, 3, 1][..], &(content.len() as u16).to_be_bytes(), content].concat()
}

fn usual() -> Vec<u8> {
    message(&[
        name("WWW.Example.ORG."),
        extension(PROTOCOLS, b"\0\x0c\x02h2\x08http/1.1"),
        extension(VERSIONS, &[4, 3, 4, 3, 3]),
        extension(GROUPS, &[0, 4, 0x11, 0xec, 0, 29]),
    ])
}

#[test]
fn what_a_client_asks_for_is_read() {
    let bytes = record(&usual());
    let First::Whole(hello, length) = first(&[&bytes[..], b"more"].concat()) else { panic!("whole") };
    assert_eq!(length, bytes.len());
    assert_eq!(hello.server_name.as_deref(), Some("www.example.org"));
    assert_eq!(hello.protocols, [Box::from(&b"h2"[..]), Box::from(&b"http/1.1"[..])]);
    assert_eq!(hello.versions, [0x304, 0x303]);
    assert_eq!(hello.groups, [0x11ec, 29]);
    assert_eq!(hello.suites, [0x1301, 0xc02b]);
}

#[test]
fn each_part_waits_for_the_rest() {
    let whole = usual();
    for cut in [1, 3, 4, 5, 40, whole.len() - 1] {
        let (one, other) = whole.split_at(cut);
        for bytes in [record(&whole), [record(one), record(other)].concat()] {
            let mut needed = 0;
            for length in 0..bytes.len() {
                let First::Partial(more) = first(&bytes[..length]) else { panic!("{cut} {length}") };
                assert!(more > length && more <= bytes.len() && more >= needed, "{cut} {length}: {more}");
                needed = more;
            }
            assert!(matches!(first(&bytes), First::Whole(_, length) if length == bytes.len()));
        }
    }
}

#[test]
fn what_is_no_hello_is_refused() {
    use HelloError::{Malformed, Name, Overflow, TooLong, Unexpected, Version};
    // RFC 8446 section 6.2: decode_error, where a length is wrong.
    assert_eq!([Malformed, TooLong].map(|why| why.alert()[6]), [50, 50]);
    let whole = usual();
    let mut two = whole.clone();
    two.extend_from_slice(&whole);
    for (bytes, why) in [
        (vec![0x80, 0x2e, 1, 3, 1], Version),
        (vec![22, 2, 0, 0, 5], Version),
        (vec![22, 3, 1, 0, 0], Malformed),
        (vec![22, 3, 1, 0x40, 1], Overflow),
        (record(&[&[1, 0, 0, 41, 3, 0][..], &[0; 33], &[0, 2, 0x13, 1, 1, 0]].concat()), Version),
        (vec![22, 3, 1, 0, 4, 2], Unexpected),
        (vec![22, 3, 1, 0, 4, 1, 1], Unexpected),
        (vec![22, 3, 1, 0, 9, 1, 0, 0xc0, 1], TooLong),
        (vec![22, 3, 1, 0, 9, 1, 1, 0, 0], TooLong),
        (record(&two), Unexpected),
        ([record(&whole[..9]), vec![21, 3, 3, 0, 2, 2, 0]].concat(), Unexpected),
        (record(&message(&[name("a"), name("a")])), Malformed),
        (record(&message(&[name("a\0b")])), Name),
        (record(&message(&[name(&"a".repeat(256))])), Name),
        (record(&message(&[extension(SERVER_NAME, &[])])), Malformed),
        (record(&message(&[extension(SERVER_NAME, &[0, 4, 1, 0, 1, b'a'])])), Malformed),
        (record(&message(&[extension(SERVER_NAME, &[0, 7, 0, 0, 1, b'a', 0, 0, 0])])), Malformed),
        (record(&message(&[extension(VERSIONS, &[3, 3, 4, 3])])), Malformed),
        (record(&message(&[extension(PROTOCOLS, &[0, 1, 0])])), Malformed),
        (record(&message(&[vec![0, 0, 0]])), Malformed),
    ] {
        match first(&bytes) {
            First::Refused(told) if told == why => assert_eq!(told.alert()[..6], [21, 3, 3, 0, 2, 2]),
            // What is cut is known for bad where its end is there.
            First::Partial(_) if why == Unexpected && bytes.len() < 12 => {
                let longer = [&bytes[..], &[0; 16]].concat();
                assert!(matches!(first(&longer), First::Refused(_)), "{bytes:?}");
            }
            other => panic!("{bytes:02x?}: {other:?}, not {why:?}"),
        }
    }
    for plain in [&b"GET / HTTP/1.1\r\n"[..], b"\r\n", b"\0", b"\x15\x03\x01"] {
        assert_eq!(first(plain), First::Plain);
    }
    assert_eq!(first(b""), First::Partial(1));
}

/// As nginx reads a name: (what is sent, the host that it means, whether it is one of DNS).
#[test]
fn names_mean_the_hosts_that_they_mean_to_nginx() {
    for (sent, host, of_dns) in [
        ("a.Example.", Some("a.example"), true),
        ("a_b.example", Some("a_b.example"), true),
        ("a.example:443", Some("a.example"), false),
        ("a.example.:443", Some("a.example"), false),
        ("a.example:", Some("a.example"), false),
        ("a.example:65535", Some("a.example"), false),
        ("a.example:65536", None, false),
        ("a.example:99999999999", None, false),
        ("a.example:x", None, false),
        ("a:1:2", None, false),
        (":443", None, false),
        (".example", Some(".example"), false),
        ("-a.example", Some("-a.example"), false),
        ("*.example", Some("*.example"), false),
        ("a%20b", Some("a%20b"), false),
        ("192.0.2.1", Some("192.0.2.1"), false),
        ("::1", None, false),
        ("[::1]", Some("[::1]"), false),
        ("[::1]:443", Some("[::1]"), false),
        ("[::1]443", None, false),
        ("[::1", None, false),
        ("[a%b]", None, false),
        ("", None, false),
        (".", None, false),
        ("..", None, false),
        ("a..b", None, false),
        ("a.example..", None, false),
        ("a/b", None, false),
        ("../a", None, false),
        ("a b", None, false),
        ("a\u{1}b", None, false),
        ("ä.example", None, false),
    ] {
        let bytes = record(&message(&[extension(VERSIONS, &[2, 3, 4]), name(sent)]));
        let First::Whole(hello, _) = first(&bytes) else { panic!("{sent}") };
        assert_eq!(hello.server_name.as_deref(), host, "{sent}");
        assert_eq!(hello.odd_name.is_none(), of_dns, "{sent}");
        if let Some(odd) = hello.odd_name {
            assert_eq!(bytes[5 + odd.at..][..2], SERVER_NAME.to_be_bytes(), "{sent}");
        }
    }
    // A number that the client uses itself is not taken for another extension.
    let taken: Vec<_> = PRIVATE.take(20).map(|number| extension(number, &[])).chain([name("a b")]).collect();
    let First::Whole(hello, _) = first(&record(&message(&taken))) else { panic!("whole") };
    assert_eq!(hello.odd_name.map(|odd| odd.number), PRIVATE.clone().nth(20));
}

#[test]
fn a_hello_is_no_longer_than_is_waited_for() {
    let padding = extension(21, &vec![0; 40_000]);
    let long = message(&[padding]);
    let records: Vec<u8> = long.chunks(16_000).flat_map(record).collect();
    assert!(matches!(first(&records), First::Whole(..)));
    // One of usual length may be cut into single bytes.
    let tiny: Vec<u8> = message(&[extension(21, &[0; 3_500])]).chunks(1).flat_map(record).collect();
    assert!(matches!(first(&tiny), First::Whole(_, length) if length == tiny.len()));
    let tiny: Vec<u8> = long.chunks(1).flat_map(record).collect();
    assert_eq!(first(&tiny), First::Refused(HelloError::TooLong));
    for length in (0..tiny.len()).step_by(89) {
        match first(&tiny[..length]) {
            First::Partial(more) => assert!(more > length && more <= 6 * RECORDS_MAX),
            other => {
                assert_eq!(other, First::Refused(HelloError::TooLong));
                return;
            }
        }
    }
    panic!("it was taken");
}
