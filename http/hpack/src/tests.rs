//! RFC 7541's examples, and what peers may send.

use std::ops::ControlFlow;

use super::*;

/// Bytes from digits, blanks between them.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

type Owned = (Vec<u8>, Vec<u8>, bool);

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Owned>, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut Scratch::new(), |field| {
        fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        ControlFlow::Continue(())
    })?;
    Ok(fields)
}

fn owned(fields: &[(&str, &str)]) -> Vec<Owned> {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec(), false)).collect()
}

/// A block, what it says, and the table's size after it.
type Block<'a> = (&'a str, &'a [(&'a str, &'a str)], u32);

/// Blocks of one connection.
fn example(limit: u32, blocks: &[Block<'_>]) {
    let mut decoder = Decoder::new(limit);
    for (block, fields, size) in blocks {
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(owned(fields)));
        assert_eq!(decoder.table_size(), *size);
    }
}

mod appendix_c;
mod errors;
mod properties;
mod sizes;
