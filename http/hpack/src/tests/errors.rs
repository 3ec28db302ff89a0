//! What no encoder may send, by name.

use super::*;

/// What a new decoder makes of a block.
fn error(block: &str) -> Option<Error> {
    decode(&mut Decoder::default(), &bytes(block)).err()
}

#[test]
fn blocks_end_with_a_field() {
    // Within an integer, before and within a name, before and within a value.
    for block in ["ff", "ff80", "40", "4003 6162", "4001 61", "4001 6103 6162", "4001 6183", "5f", "3f"] {
        assert_eq!(error(block), Some(Error::Truncated), "{block}");
    }
}

#[test]
fn integers_have_four_further_bytes_at_most() {
    // RFC 7541 section 5.1: "Integer encodings that exceed implementation limits […] MUST be
    // treated as decoding errors."
    for block in ["ff80 8080 8000", "ffff ffff ff0f", "7f80 8080 8001", "4001 617f 8080 8080 00", "3fff ffff ff7f"] {
        assert_eq!(error(block), Some(Error::IntegerOverflow), "{block}");
    }
    // The largest is read, and is what it is too large for.
    assert_eq!(error("ffff ffff 7f"), Some(Error::IndexBeyondTable));
    assert_eq!(error("4001 617f ffff ff7f"), Some(Error::Truncated));
}

#[test]
fn indices_are_within_the_tables() {
    // RFC 7541 sections 2.3.3 and 6.1.
    assert_eq!(error("80"), Some(Error::IndexZero));
    for block in ["be", "ff00", "7e01 61", "0f2f 0161", "1f2f 0161", "4001 6101 62 bf"] {
        assert_eq!(error(block), Some(Error::IndexBeyondTable), "{block}");
    }
    assert_eq!(error("bd"), None);
    assert_eq!(error("4001 6101 62 be"), None);
}

#[test]
fn huffman_codes_are_padded_with_less_than_a_byte_of_ones() {
    // RFC 7541 section 5.2. '0' is 00000, 'a' 00011.
    let value = |coded: &str| error(&format!("0001 61{:02x}{coded}", 0x80 | bytes(coded).len()));
    assert_eq!(value("07"), None);
    assert_eq!(value(""), None);
    // Zeros, and a one short.
    for coded in ["00", "06", "03"] {
        assert_eq!(value(coded), Some(Error::HuffmanPadding), "{coded}");
    }
    // A byte too many, at any distance from the start, and with nothing before it.
    for symbols in 0..40 {
        let mut coded = Vec::new();
        let text = vec![b'&'; symbols];
        huffman::encode(&text, huffman::coded_length(&text), &mut coded);
        let digits = |coded: &[u8]| coded.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(value(&digits(&coded)), None, "{symbols}");
        coded.push(0xff);
        assert_eq!(value(&digits(&coded)), Some(Error::HuffmanPadding), "{symbols}");
        coded.push(0xff);
        assert_eq!(value(&digits(&coded)), Some(Error::HuffmanPadding), "{symbols}");
        coded.extend([0xff; 3]);
        assert_eq!(value(&digits(&coded)), Some(Error::HuffmanEos), "{symbols}");
        coded.extend([0; 20]);
        assert_eq!(value(&digits(&coded)), Some(Error::HuffmanEos), "{symbols}");
    }
}

#[test]
fn every_symbol_is_decoded_at_every_place() {
    for symbol in 0..=255u8 {
        for before in 0..13 {
            for after in 0..13 {
                let mut text = vec![b'a'; before];
                text.push(symbol);
                text.extend(vec![b'9'; after]);
                let mut coded = Vec::new();
                huffman::encode(&text, huffman::coded_length(&text), &mut coded);
                assert_eq!(coded.len(), huffman::coded_length(&text));
                let mut out = vec![0; huffman::room(coded.len())];
                let length = huffman::decode(&coded, &mut out).unwrap();
                assert_eq!(&out[..length], text);
            }
        }
    }
}

#[test]
fn a_decoder_goes_on_for_its_table_when_fields_are_refused() {
    let mut decoder = Decoder::default();
    let block = bytes("82 4001 6101 62 4001 6301 64 84");
    let mut seen = 0;
    let decoded = decoder.decode(&block, &mut Scratch::new(), |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(decoded, Ok(Decoded { fields: 2, bytes: 10 + 2, refused: true }));
    assert_eq!(seen, 2);
    assert_eq!(decode(&mut decoder, &bytes("be bf")), Ok(owned(&[("c", "d"), ("a", "b")])));
    // An error behind what was refused is one.
    let error = decoder.decode(&bytes("82 80"), &mut Scratch::new(), |_| ControlFlow::Break(()));
    assert_eq!(error, Err(Error::IndexZero));
}

#[test]
fn what_a_block_expands_to_is_told() {
    // A field of 4,064 bytes, named again and again: each costs a byte.
    let mut decoder = Decoder::default();
    let mut block = vec![0x40, 0x01, b'a'];
    crate::integer::put(&mut block, 0, 7, 4_063);
    block.extend([b'x'; 4_063]);
    block.extend([0xbe; 1_000]);
    let decoded = decoder.decode(&block, &mut Scratch::new(), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((decoded.fields, decoded.bytes), (1_001, 1_001 * 4_064));
    let mut left = 10;
    let decoded = decoder.decode(&vec![0xbe; 100_000], &mut Scratch::new(), |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(decoded, Ok(Decoded { fields: 10, bytes: 40_640, refused: true }));
}
