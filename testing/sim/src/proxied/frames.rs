//! Frames of HTTP/2 as clients and upstreams of the proxy read and write them, one by one.

use core::ops::ControlFlow;
use h2::frame::{FrameHead, HEAD};
use hpack::{Decoder, Encoder, HeaderField, Indexing, Scratch};

/// What a client begins with (RFC 9113 section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a payload, at most: nobody says that more is taken.
pub(super) const LONGEST: usize = 16_384;

/// The first window of streams and connections (RFC 9113 section 6.9.2).
pub(super) const WINDOW: i64 = 65_535;

/// Fields of a head or of trailers: names and values.
pub(super) type Lines = Vec<(String, String)>;

/// Takes the next frame of what arrived, with its payload, once all of it is there.
pub(super) fn next_frame(arrived: &mut Vec<u8>) -> Result<Option<(FrameHead, Vec<u8>)>, String> {
    let Some(head) = FrameHead::read(arrived) else { return Ok(None) };
    let length = head.length as usize;
    if length > LONGEST {
        return Err(format!("a frame of {length} bytes"));
    }
    if arrived.len() < HEAD + length {
        return Ok(None);
    }
    Ok(Some((head, arrived.drain(..HEAD + length).skip(HEAD).collect())))
}

/// The fields of a block.
pub(super) fn decoded(decoder: &mut Decoder, block: &[u8], scratch: &mut Scratch) -> Result<Lines, String> {
    let mut fields = Lines::new();
    let read = decoder.decode(block, scratch, |field| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.push((text(field.name), text(field.value)));
        ControlFlow::Continue(())
    });
    read.map_err(|why| format!("{why:?}"))?;
    Ok(fields)
}

/// The block of these fields.
pub(super) fn encoded<'f>(encoder: &mut Encoder, fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in fields {
        let field = HeaderField::new(name.as_bytes(), value.as_bytes());
        encoder.encode(field, Indexing::Incremental, &mut block);
    }
    block
}
