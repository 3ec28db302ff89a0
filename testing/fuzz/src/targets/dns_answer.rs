//! Answers of DNS servers.

use crate::Target;
use resolver::message::{ADDRESSES_MAX, HostName, NoAnswer, Question, RecordKind, Said, read};

pub(crate) const TARGET: Target = Target {
    name: "dns_answer",
    about: "an answer of a DNS server is taken for its question alone, and says what is bounded",
    run,
    seeds,
    dictionary: &[
        b"\xc0\x0c",
        b"\xc0\x1d",
        b"\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01",
        b"\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x02\xc0\x10",
        b"\x00\x06\x00\x01",
        b"\x00\x1c\x00\x01\x00\x00\x00\x3c\x00\x10",
        b"\x01b\x00",
    ],
    test_runs: 10_000,
    max_len: 600,
};

/// Number, and kind.
fn questions() -> [Question; 3] {
    let name = HostName::parse(b"www.example").expect("a host's name");
    [RecordKind::V4, RecordKind::V6, RecordKind::Service].map(|kind| Question { id: 0x4e53, name: name.clone(), kind })
}

fn run(input: &[u8]) {
    let all = questions().map(|question| (question.kind, read(input, &question)));
    for (kind, said) in &all {
        match said {
            Ok(Said::Addresses(found, _)) => {
                assert!((1..=ADDRESSES_MAX).contains(&found.len()));
                assert!(found.iter().all(|address| address.is_ipv4() == (*kind == RecordKind::V4)));
                assert_ne!(*kind, RecordKind::Service);
            }
            Ok(Said::Services(found, _)) => {
                assert!((1..=ADDRESSES_MAX).contains(&found.len()));
                assert!(found.iter().all(|one| HostName::parse(one.target.text()).as_ref() == Some(&one.target)));
                assert_eq!(*kind, RecordKind::Service);
            }
            Ok(Said::Alias(name, _)) => assert_eq!(HostName::parse(name.text()).as_ref(), Some(name)),
            Ok(Said::Failed(code)) => assert!((1..16).contains(code)),
            _ => {}
        }
    }
    // A message with a question answers one of them at most.
    let answered = all.iter().filter(|(_, said)| *said != Err(NoAnswer::Unrelated)).count();
    let has_question = input.get(4..6) != Some(&[0, 0]);
    assert!(!has_question || answered <= 1, "{}", input.escape_ascii());
}

fn seeds() -> Vec<Vec<u8>> {
    let record = |owner: &[u8], kind: u8, data: &[u8]| {
        [owner, &[0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8], data].concat()
    };
    let answer = |question: &Question, flags: [u8; 2], counts: [u8; 2], records: &[Vec<u8>]| {
        let mut message = question.message();
        (message[2], message[3]) = (flags[0], flags[1]);
        (message[7], message[9]) = (counts[0], counts[1]);
        records.iter().for_each(|record| message.extend_from_slice(record));
        message
    };
    let [v4, v6, service] = questions();
    let alias = record(b"\xc0\x0c", 5, b"\x01b\xc0\x10");
    let address = |owner: &[u8]| record(owner, 1, &[10, 0, 0, 1]);
    let soa = record(b"\xc0\x10", 6, &[b"\xc0\x0c\xc0\x10".as_slice(), &[0; 20]].concat());
    vec![
        v4.message(),
        answer(&v4, [0x81, 0x80], [2, 0], &[address(b"\xc0\x0c"), address(b"\xc0\x0c")]),
        answer(&v4, [0x81, 0x80], [2, 0], &[alias.clone(), address(b"\x01b\xc0\x10")]),
        answer(&v4, [0x81, 0x80], [1, 1], &[alias.clone(), soa.clone()]),
        answer(&v6, [0x81, 0x80], [1, 0], &[record(b"\xc0\x0c", 28, &[1; 16])]),
        answer(&v6, [0x81, 0x80], [1, 0], &[alias]),
        answer(&v6, [0x81, 0x83], [0, 1], &[soa]),
        answer(&service, [0x81, 0x80], [1, 0], &[record(b"\xc0\x0c", 33, b"\0\x01\0\x02\0\x50\x01b\0")]),
        answer(&v4, [0x83, 0x80], [0, 0], &[]),
        answer(&v4, [0x81, 0x82], [0, 0], &[]),
    ]
}
