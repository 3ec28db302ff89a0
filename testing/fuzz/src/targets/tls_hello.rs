//! What a client of TLS says first.

use crate::Target;
use crate::targets::cuts;
use handshake::{First, HELLO_MAX, hello};

pub(crate) const TARGET: Target = Target {
    name: "tls_hello",
    about: "a ClientHello says the same however it is cut, and never less for what follows",
    run,
    seeds,
    dictionary: &[
        b"\x16\x03\x01",
        b"\x16\x03\x03\x00\x10",
        b"\x01\x00\x00\x2d",
        b"\x00\x00\x00\x10\x00\x0e\x00\x00\x0bone.example",
        b"\x00\x10\x00\x05\x00\x03\x02h2",
        b"\x00\x2b\x00\x03\x02\x03\x04",
        b"\x00\x0a\x00\x04\x00\x02\x00\x1d",
        b"\x00\x0d\x00\x04\x00\x02\x04\x03",
        b"\x00\x23\x00\x00",
        b"\x00\x2a\x00\x00",
        b"\x00\x29\x00\x0d\x00\x07\x00\x01x\x00\x00\x00\x00\x00\x02\x01x",
    ],
    test_runs: 20_000,
    max_len: 600,
};

fn run(input: &[u8]) {
    let whole = hello::first(input);
    match &whole {
        First::Partial(needs) => assert!(*needs > input.len() && *needs <= HELLO_MAX, "{needs}"),
        First::Whole(said, length) => {
            assert!(*length <= input.len());
            let name = said.server_name.as_deref().unwrap_or("a");
            assert!(!name.is_empty() && name.len() <= 255 && !name.bytes().any(|byte| byte.is_ascii_uppercase()));
            assert!(!said.versions.is_empty() && !said.suites.is_empty());
            assert!(said.protocols.iter().all(|protocol| !protocol.is_empty()));
        }
        First::Plain => assert!(input[0] != 22 && input[0] < 0x80),
        First::Refused(_) => {}
    }
    for cut in cuts(input) {
        match hello::first(&input[..cut]) {
            // It asks for no more than it takes.
            First::Partial(needs) => match &whole {
                First::Whole(_, length) => assert!(needs <= *length, "{needs} of {length}"),
                First::Partial(later) => assert!(needs <= *later),
                First::Refused(_) => {}
                First::Plain => assert_eq!(cut, 0),
            },
            decided => assert_eq!(decided, whole, "at {cut}"),
        }
    }
}

/// A record of one message, with these extensions.
fn hello_of(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 4, 0x13, 1, 0xc0, 0x2b, 1, 0]);
    body.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
    body.extend_from_slice(extensions);
    let mut message = vec![1, 0];
    message.extend_from_slice(&(body.len() as u16).to_be_bytes());
    message.extend_from_slice(&body);
    message
}

/// In records of at most so many bytes.
fn records(message: &[u8], most: usize) -> Vec<u8> {
    let one = |part: &[u8]| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    message.chunks(most).flat_map(one).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let all: Vec<u8> = TARGET.dictionary[3..].concat();
    vec![
        records(&hello_of(&all), 1_000),
        records(&hello_of(&all), 50),
        records(&hello_of(b""), 1_000),
        records(&hello_of(TARGET.dictionary[3]), 1),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"\x80\x2e\x01\x03\x01".to_vec(),
        b"\x16\x03\x01\x40\x00\x01\x00\xf0\x00".to_vec(),
    ]
}
