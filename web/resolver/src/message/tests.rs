use super::*;
use random::SplitMix64;

/// A record: owner, type, seconds, data.
pub(crate) fn record(owner: &[u8], kind: u16, seconds: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u16).to_be_bytes();
    [owner, &kind.to_be_bytes(), &[0, 1], &seconds.to_be_bytes(), &length, data].concat()
}

/// An answer to a question, with a code, answers and authorities.
pub(crate) fn answer(question: &[u8], code: u8, answers: &[Vec<u8>], authorities: &[Vec<u8>]) -> Vec<u8> {
    let mut message = question.to_vec();
    message[2] = 0x81;
    message[3] = 0x80 | code;
    message[7] = answers.len() as u8;
    message[9] = authorities.len() as u8;
    answers.iter().chain(authorities).for_each(|record| message.extend_from_slice(record));
    message
}

fn question() -> Question {
    Question { id: 0x1234, name: HostName::parse(b"WWW.Example").unwrap(), kind: RecordKind::V4 }
}

#[test]
fn a_question_is_one_message() {
    let expected = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    assert_eq!(question().message(), expected);
    let v6 = Question { kind: RecordKind::V6, ..question() };
    assert!(v6.message().ends_with(b"\0\x1c\0\x01"));
}

#[test]
fn names_are_those_of_hosts() {
    let long = "a".repeat(63);
    let longest = [long.as_str(), &long, &long, &"b".repeat(61)].join(".");
    assert_eq!(longest.len(), 253);
    for good in ["a", "a.b", "A-1_x.example.", &longest] {
        assert!(HostName::parse(good.as_bytes()).is_some(), "{good}");
    }
    let (label, name) = (format!("{long}a"), format!("{longest}b"));
    for bad in ["", ".", "a..b", ".a", "a..", "a b", "a/b", "a\0", "ä", &label, &name] {
        assert_eq!(HostName::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn addresses_are_those_of_the_name_and_its_aliases() {
    let question = question();
    let asked = question.message();
    let say = |answers: &[Vec<u8>]| read(&answer(&asked, 0, answers, &[]), &question);
    let here = |last| record(b"\xc0\x0c", 1, 60, &[10, 0, 0, last]);
    let v4 = |last| IpAddr::from([10, 0, 0, last]);
    assert_eq!(say(&[here(1), here(2)]), Ok(Said::Addresses(vec![v4(1), v4(2)], 60)));
    // Others' records count for nothing.
    let elsewhere = record(b"\x04evil\0", 1, 9, &[6, 6, 6, 6]);
    assert_eq!(say(&[elsewhere.clone(), here(1)]), Ok(Said::Addresses(vec![v4(1)], 60)));
    assert_eq!(say(&[elsewhere]), Ok(Said::Nothing(false, 0)));
    let alias = record(b"\xc0\x0c", 5, 30, b"\x01b\0");
    let there = record(b"\x01B\0", 1, 90, &[10, 0, 0, 3]);
    assert_eq!(say(&[there, alias.clone()]), Ok(Said::Addresses(vec![v4(3)], 30)));
    assert_eq!(say(&[alias]), Ok(Said::Alias(HostName::parse(b"b").unwrap(), 30)));
    assert_eq!(say(&[record(b"\xc0\x0c", 5, 30, b"\xc0\x0c")]), Ok(Said::Nothing(false, 0)), "its own alias");
    assert_eq!(say(&[record(b"\xc0\x0c", 1, 30, b"\x01\x02\x03")]), Err(NoAnswer::Malformed));
}

#[test]
fn others_messages_are_told_apart() {
    let question = question();
    let good = answer(&question.message(), 0, &[record(b"\xc0\x0c", 1, 60, &[10, 0, 0, 1])], &[]);
    assert!(matches!(read(&good, &question), Ok(Said::Addresses(..))));
    for (at, value) in [(0, 0x13), (2, 0x01), (2, 0x91), (5, 0), (5, 2), (13, b'x'), (24, 0x02), (26, 0x03)] {
        let mut other = good.clone();
        other[at] = value;
        assert_eq!(read(&other, &question), Err(NoAnswer::Unrelated), "{at}");
    }
    assert_eq!(read(&good[..10], &question), Err(NoAnswer::Unrelated));
    assert_eq!(read(&good[..good.len() - 1], &question), Err(NoAnswer::Malformed));
    let mut refused = good[..12].to_vec();
    refused[3] = 0x85;
    (refused[5], refused[7]) = (0, 0);
    assert_eq!(read(&refused, &question), Ok(Said::Failed(5)), "without the question");
}

#[test]
fn names_that_lead_to_themselves_end() {
    let question = question();
    // A pointer to itself, two that lead to each other, and one ahead.
    for owner in [&b"\xc0\x1d"[..], b"\x01a\xc0\x1d", b"\xc0\x1f\xc0\x1d", b"\xc0\xff"] {
        let message = answer(&question.message(), 0, &[record(owner, 1, 60, &[10, 0, 0, 1])], &[]);
        assert_eq!(read(&message, &question), Err(NoAnswer::Malformed), "{owner:?}");
    }
}

#[test]
fn spoilt_answers_break_nothing() {
    let question = question();
    let soa = record(b"\xc0\x10", 6, 60, &[b"\xc0\x0c\xc0\x10".as_slice(), &[0; 20]].concat());
    let records = [record(b"\xc0\x0c", 5, 30, b"\x01b\xc0\x10"), record(b"\x01b\xc0\x10", 1, 9, &[10, 0, 0, 3])];
    let good = answer(&question.message(), 0, &records, &[soa]);
    let mut random = SplitMix64::new(5);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut message = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(message.len());
            message[at] = [random.bits() as u8, 0, 0xc0, 0xff][random.below(4)];
        }
        message.truncate(random.below(3 * good.len()));
        match read(&message, &question) {
            Ok(said) => {
                taken += 1;
                assert!(!matches!(said, Said::Addresses(found, _) if found.len() > ADDRESSES_MAX));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} {refused}");
}
