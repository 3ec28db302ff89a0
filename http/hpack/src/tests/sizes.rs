//! Tables: their sizes, changes of them, and memory.

use super::*;

fn block(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.encode(HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Incremental, &mut out);
    }
    out
}

#[test]
fn changes_of_the_size_stand_before_fields_and_are_two_at_most() {
    // RFC 7541 sections 4.2 and 6.3.
    let mut decoder = Decoder::default();
    for good in ["20 82", "3fe1 1f 82", "20 3fe1 1f 82", "20", "3f01 3fe1 1f"] {
        assert!(decode(&mut decoder, &bytes(good)).is_ok(), "{good}");
    }
    for misplaced in ["82 20", "20 82 3fe1 1f", "20 20 20", "20 20 20 82"] {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &bytes(misplaced)), Err(Error::UpdateMisplaced), "{misplaced}");
    }
    for large in ["3fe2 1f", "20 3fe2 1f", "3fff ff03"] {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &bytes(large)), Err(Error::UpdateTooLarge), "{large}");
    }
}

#[test]
fn a_smaller_limit_is_to_be_followed_once_it_is_acknowledged() {
    let mut decoder = Decoder::default();
    decode(&mut decoder, &bytes("4001 6101 62")).unwrap();
    decoder.set_limit(100);
    assert_eq!(decode(&mut decoder, &bytes("be")), Err(Error::UpdateMissing));
    assert_eq!(decode(&mut decoder, &bytes("3f46 82")), Err(Error::UpdateTooLarge));
    assert_eq!(decode(&mut decoder, &bytes("3f45 be")), Ok(owned(&[("a", "b")])));
    // A larger one allows, and asks for nothing.
    decoder.set_limit(200);
    assert_eq!(decode(&mut decoder, &bytes("be")), Ok(owned(&[("a", "b")])));
    assert_eq!(decode(&mut decoder, &bytes("3fa9 01 be")), Ok(owned(&[("a", "b")])));
}

#[test]
fn an_encoder_tells_of_the_smallest_and_the_last_limit() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new(8_192);
    let all = |encoder: &mut Encoder, decoder: &mut Decoder| {
        let block = block(encoder, &[("a", "b")]);
        (decode(decoder, &block), block)
    };
    assert_eq!(all(&mut encoder, &mut decoder).1, bytes("4001 6101 62"));
    assert_eq!(all(&mut encoder, &mut decoder).1, bytes("be"));
    // The same limit, and one above what we keep, change nothing.
    encoder.set_limit(4_096);
    encoder.set_limit(1 << 30);
    assert_eq!(all(&mut encoder, &mut decoder).1, bytes("be"));
    encoder.set_limit(100);
    encoder.set_limit(0);
    encoder.set_limit(50);
    assert_eq!(all(&mut encoder, &mut decoder), (Ok(owned(&[("a", "b")])), bytes("20 3f13 4001 6101 62")));
    encoder.set_limit(60);
    assert_eq!(all(&mut encoder, &mut decoder), (Ok(owned(&[("a", "b")])), bytes("3f1d be")));
    encoder.set_limit(10);
    assert_eq!(all(&mut encoder, &mut decoder), (Ok(owned(&[("a", "b")])), bytes("2a 0001 6101 62")));
    // Both went up again before a block.
    encoder.set_limit(0);
    encoder.set_limit(10_000);
    assert_eq!(all(&mut encoder, &mut decoder).1, bytes("20 3fe1 1f 4001 6101 62"));
}

#[test]
fn an_encoder_that_keeps_less_says_so_and_one_that_keeps_nothing_need_not() {
    assert_eq!(block(&mut Encoder::new(100), &[]), bytes("3f45"));
    let mut none = Encoder::new(0);
    assert_eq!(block(&mut none, &[("a", "b")]), bytes("0001 6101 62"));
    assert_eq!((none.memory(), none.changes()), (0, 0));
}

#[test]
fn secrets_are_never_indexed() {
    let mut encoder = Encoder::default();
    let mut out = Vec::new();
    let secret = HeaderField { name: b"authorization", value: b"x", sensitive: true };
    encoder.encode(secret, Indexing::Incremental, &mut out);
    // Nor is one that stands in the static table told by its index.
    encoder.encode(HeaderField::new(b":method", b"GET"), Indexing::Never, &mut out);
    assert_eq!(encoder.changes(), 0);
    let seen = decode(&mut Decoder::default(), &out).unwrap();
    assert_eq!(seen, [(b"authorization".to_vec(), b"x".to_vec(), true), (b":method".to_vec(), b"GET".to_vec(), true)]);
}

#[test]
fn what_is_prepared_is_the_same_for_every_connection() {
    let mut out = Vec::new();
    for status in [200, 404, 302, 503] {
        put_status(status, &mut out);
    }
    put_static(HeaderField::new(b"content-type", b"text/html"), &mut out);
    put_static(HeaderField::new(b"x-own", b"text/html"), &mut out);
    let mut decoder = Decoder::default();
    let seen = decode(&mut decoder, &out).unwrap();
    let statuses = [(":status", "200"), (":status", "404"), (":status", "302"), (":status", "503")];
    assert_eq!(seen[..4], owned(&statuses));
    assert_eq!(seen[4..], owned(&[("content-type", "text/html"), ("x-own", "text/html")]));
    assert_eq!((decoder.memory(), &out[..2]), (0, &[0x88, 0x8d][..]));
}

#[test]
fn a_table_takes_memory_as_it_is_used_and_no_more_than_its_limit() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::default();
    assert_eq!((encoder.memory(), decoder.memory()), (0, 0));
    assert!(decode(&mut decoder, &block(&mut encoder, &[("a", "b")])).is_ok());
    assert!(decoder.memory() <= 256 + 4 * 8, "{}", decoder.memory());
    let mut most = 0;
    for round in 0..2_000u32 {
        let value = "v".repeat((round * 37 % 4_000) as usize);
        let name = round.to_string();
        assert!(decode(&mut decoder, &block(&mut encoder, &[(&name, &value), (&name, "")])).is_ok());
        most = most.max(decoder.memory());
    }
    for round in 0..2_000u32 {
        assert!(decode(&mut decoder, &block(&mut encoder, &[(&round.to_string(), "")])).is_ok());
        most = most.max(decoder.memory());
    }
    // The bytes, and 128 entries of six.
    assert!((4_096..=4_096 + 128 * 6).contains(&most), "{most}");
    encoder.set_limit(0);
    assert!(decode(&mut decoder, &block(&mut encoder, &[])).is_ok());
    assert_eq!(decoder.memory(), 0);
}

#[test]
fn every_name_of_the_static_table_is_found_and_no_other() {
    for (at, (name, value)) in crate::statics::ENTRIES.iter().enumerate() {
        let mut out = Vec::new();
        put_static(HeaderField::new(name, value), &mut out);
        if !value.is_empty() {
            assert_eq!(out, [0x81 + at as u8]);
        }
        assert_eq!(decode(&mut Decoder::default(), &out), Ok(vec![(name.to_vec(), value.to_vec(), false)]));
        let first = crate::statics::ENTRIES.iter().position(|entry| entry.0 == *name).unwrap() + 1;
        assert_eq!(crate::statics::index_of(name), Some(first));
        // The same marks, another name.
        let mut other = name.to_vec();
        other[1] ^= 1;
        assert_eq!(crate::statics::index_of(&other), None);
    }
    assert_eq!(crate::statics::index_of(b""), None);
}
