//! Certificates that are compressed for clients which take them so (RFC 8879): with a chain of
//! some kilobytes the first flight fits into fewer segments.
//!
//! Each is compressed once, with the first handshake that wants it, and kept with its server.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};
use std::io::Write;

/// What clients may ask for, the best first.
pub(crate) fn compressors() -> Vec<&'static dyn CertCompressor> {
    vec![&Brotli, &Zlib]
}

/// Brotli (RFC 7932).
#[derive(Debug)]
struct Brotli;

/// zlib (RFC 1950).
#[derive(Debug)]
struct Zlib;

/// Quick enough for a turn, and little is left to be had: keys and signatures are most of it.
const QUALITY: i32 = 5;

impl CertCompressor for Brotli {
    fn compress(&self, input: Vec<u8>, _level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let mut out = Vec::new();
        let rules = brotli::enc::BrotliEncoderParams { quality: QUALITY, ..Default::default() };
        brotli::BrotliCompress(&mut input.as_slice(), &mut out, &rules).map_err(|_| CompressionFailed)?;
        shorter(out, &input)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Brotli
    }
}

impl CertCompressor for Zlib {
    fn compress(&self, input: Vec<u8>, _level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&input).map_err(|_| CompressionFailed)?;
        shorter(encoder.finish().map_err(|_| CompressionFailed)?, &input)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

/// One that did not get shorter is sent as it is.
fn shorter(out: Vec<u8>, input: &[u8]) -> Result<Vec<u8>, CompressionFailed> {
    if out.len() < input.len() { Ok(out) } else { Err(CompressionFailed) }
}
