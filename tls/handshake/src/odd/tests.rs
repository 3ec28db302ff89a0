use super::*;
use crate::hello::tests::{message, name, record};

fn records(message: &[u8], length: usize) -> Vec<Vec<u8>> {
    message.chunks(length).map(record).collect()
}

/// Gives a message to it, record by record: what rustls is given.
fn held(message: &[u8], length: usize, shown: &mut Vec<Shown>) -> Option<Vec<u8>> {
    let (mut held, all) = (Held::default(), records(message, length));
    for (at, record) in all.iter().enumerate() {
        match held.take(record, shown) {
            Release::Nothing => assert!(at + 1 < all.len(), "it is whole"),
            Release::Records(records) => {
                assert_eq!(at + 1, all.len(), "it is not whole");
                return Some(records);
            }
            Release::Differs => break,
        }
    }
    None
}

#[test]
fn a_name_is_changed_wherever_records_end() {
    let sent = message(&[crate::hello::tests::extension(21, &[0; 3]), name("a b")]);
    let changed = message(&[crate::hello::tests::extension(21, &[0; 3]), {
        let mut other = name("a b");
        other[..2].copy_from_slice(&[0xff, 2]);
        other
    }]);
    for length in 1..=sent.len() {
        let mut shown = Vec::new();
        let given = held(&sent, length, &mut shown).expect("records");
        assert_eq!(given, records(&changed, length).concat(), "{length}");
        let [one] = &shown[..] else { panic!("one") };
        assert_eq!(one.as_sent(&changed), Some(sent.clone()));
        let more = [&changed[..], b"more"].concat();
        assert_eq!(one.as_sent(&more), Some([&sent[..], b"more"].concat()));
        let cut = one.as_sent(&changed[..changed.len() - 2]);
        assert_eq!(cut.as_deref(), Some(&sent[..sent.len() - 2]));
        // Other messages are what they are.
        assert_eq!(one.as_sent(&sent), None);
        assert_eq!(one.as_sent(&changed[..5]), None);
        assert_eq!(one.as_sent(b""), None);
    }
}

#[test]
fn the_second_is_to_have_the_name_of_the_first() {
    for (second, same) in [("a b", true), ("a c", false), ("a  b", false)] {
        let mut shown = Vec::new();
        assert!(held(&message(&[name("a b")]), 100, &mut shown).is_some());
        assert_eq!(held(&message(&[name(second)]), 100, &mut shown).is_some(), same, "{second}");
    }
    // That one of DNS is another is rustls's to see.
    let (mut shown, dns) = (Vec::new(), message(&[name("a")]));
    assert!(held(&message(&[name("a b")]), 100, &mut shown).is_some());
    assert_eq!(held(&dns, 100, &mut shown), Some(record(&dns)));
}

#[test]
fn what_is_no_hello_is_not_kept() {
    for bytes in [&[2, 0, 0, 1, 7][..], &[1, 0, 0, 1, 7], &[1, 0xff, 0xff, 0xff, 7]] {
        let (mut held, mut shown) = (Held::default(), Vec::new());
        let is_short = bytes[1] == 0;
        match held.take(&record(bytes), &mut shown) {
            Release::Records(records) => assert!(is_short && records == record(bytes)),
            Release::Nothing => assert!(!is_short),
            Release::Differs => panic!("{bytes:?}"),
        }
        assert!(shown.is_empty());
    }
}
