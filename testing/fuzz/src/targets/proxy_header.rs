//! PROXY protocol headers, which are the first bytes of a connection.

use crate::Target;
use exchange::{PROXY_HEADER_MAX, ProxyHeader};

pub(crate) const TARGET: Target = Target {
    name: "proxy_header",
    about: "a header is the same however it is cut, and is not waited for without end",
    run,
    seeds,
    dictionary: &[
        b"PROXY ",
        b"TCP4 ",
        b"TCP6 ",
        b"UNKNOWN",
        b"\r\n",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"\x21\x11\x00\x0c",
        b"\x21\x21\x00\x24",
        b"\x20\x00\x00\x00",
        b"::1",
        b"192.0.2.1 ",
        b"65535",
    ],
    test_runs: 20_000,
    max_len: 300,
};

fn run(input: &[u8]) {
    let whole = ProxyHeader::read(input);
    match whole {
        Ok(ProxyHeader::Whole(length, _)) => {
            assert!(length <= input.len() && length <= PROXY_HEADER_MAX);
            // Not before its last byte, and whatever follows it.
            for end in 0..length {
                assert_eq!(ProxyHeader::read(&input[..end]), Ok(ProxyHeader::Partial), "{}", input.escape_ascii());
            }
            assert_eq!(ProxyHeader::read(&input[..length]), whole);
        }
        Ok(ProxyHeader::Partial) => {
            assert!(input.len() < PROXY_HEADER_MAX);
            // It ends with what may follow.
            let mut more = input.to_vec();
            more.resize(PROXY_HEADER_MAX, 0);
            assert_ne!(ProxyHeader::read(&more), Ok(ProxyHeader::Partial), "{}", input.escape_ascii());
        }
        // Nothing that follows makes it one.
        Err(why) => assert_eq!(ProxyHeader::read(&[input, b"\r\n"].concat()), Err(why)),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let four = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 187];
    let binary = |head: &[u8], body: &[u8]| [b"\r\n\r\n\0\r\nQUIT\n", head, body].concat();
    vec![
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET / HTTP/1.1\r\n".to_vec(),
        b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n".to_vec(),
        b"PROXY UNKNOWN ffff::1 x y z\r\n".to_vec(),
        binary(&[0x21, 0x11, 0, 12], &four),
        binary(&[0x21, 0x11, 0, 17], &[&four[..], &[1, 0, 2, b'h', b'2']].concat()),
        binary(&[0x21, 0x21, 0, 36], &[7; 36]),
        binary(&[0x20, 0, 0, 0], b"GET"),
    ]
}
