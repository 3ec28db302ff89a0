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
pub(crate) fn compressors(brotli: &'static CertificateBrotli) -> Vec<&'static dyn CertCompressor> {
    vec![brotli, &Zlib]
}

/// Brotli (RFC 7932), by an encoder of the program's own: what it compresses bodies with, if it
/// does. It need not be quick, and little is to be had by its best levels: keys and signatures are
/// most of a certificate. None where it fails.
#[derive(Debug)]
pub struct CertificateBrotli(pub fn(&[u8]) -> Option<Vec<u8>>);

/// zlib (RFC 1950).
#[derive(Debug)]
struct Zlib;

impl CertCompressor for CertificateBrotli {
    fn compress(&self, input: Vec<u8>, _level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        shorter(self.0(&input).ok_or(CompressionFailed)?, &input)
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
