//! Bodies that are there as a whole.

use crate::Coding;
use crate::encoder::Encoder;
use flate2::write::GzEncoder;
use libdeflater::{CompressionLvl, Compressor};
use std::io::Write;

/// What a thread compresses whole bodies with: gzip twice as fast as by the piece,
/// and a little shorter.
#[derive(Default)]
pub struct Whole {
    gzip: Option<(u8, Compressor)>,
}

impl core::fmt::Debug for Whole {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Whole").finish_non_exhaustive()
    }
}

impl Whole {
    /// Appends all of `bytes` to `out`, at a level of the coding (gzip has up to
    /// 12 here). Whether that was possible; if not, `out` is as it was.
    pub fn encode(&mut self, coding: Coding, level: u8, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        match coding {
            Coding::Gzip => self.gzip(level, bytes, out),
            Coding::Brotli | Coding::Zstd => {
                let Some(mut encoder) = Encoder::new(coding, level) else { return false };
                encoder.write(bytes, out);
                encoder.finish(out);
                true
            }
        }
    }

    fn gzip(&mut self, level: u8, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(wanted) = CompressionLvl::new(level.clamp(1, 12).into()) else { return false };
        if self.gzip.as_ref().is_none_or(|(known, _)| *known != level) {
            self.gzip = Some((level, Compressor::new(wanted)));
        }
        let Some((_, compressor)) = &mut self.gzip else { return false };
        let start = out.len();
        out.resize(start + compressor.gzip_compress_bound(bytes.len()), 0);
        match compressor.gzip_compress(bytes, &mut out[start..]) {
            Ok(length) => {
                out.truncate(start + length);
                true
            }
            Err(_) => {
                out.truncate(start);
                false
            }
        }
    }
}

/// All of `bytes` as a member of a gzip file (RFC 1952), at a level from 1 to 9.
#[must_use]
pub fn member(bytes: &[u8], level: u8) -> Vec<u8> {
    let level = flate2::Compression::new(u32::from(level.clamp(1, 9)));
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), level);
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
