//! What bodies and logs are compressed with.
#![forbid(unsafe_code)]

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};

/// All of `bytes` as a member of a gzip file (RFC 1952), at a level from 1 to 9.
#[must_use]
pub fn member(bytes: &[u8], level: u8) -> Vec<u8> {
    let level = flate2::Compression::new(u32::from(level.clamp(1, 9)));
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), level);
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// What the members of a gzip file hold, at most `most` bytes.
///
/// # Errors
/// It is none, or longer.
pub fn members(bytes: &[u8], most: usize) -> Result<Vec<u8>, NotGzip> {
    let mut out = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(most as u64 + 1).read_to_end(&mut out);
    if read.is_ok() && out.len() <= most { Ok(out) } else { Err(NotGzip) }
}

/// Bytes are no gzip file, or a longer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotGzip;
