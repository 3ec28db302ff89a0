//! Certificates that are compressed.

use super::{client, rules, server, shake};
use handshake::{CertificateBrotli, ServerRules};
use rustls::CertificateCompressionAlgorithm;
use rustls::client::Resumption;
use rustls::compress::{CertDecompressor, DecompressionFailed};
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a client takes compressed certificates by.
#[derive(Debug)]
struct Opens(CertificateCompressionAlgorithm, AtomicUsize);

impl CertDecompressor for Opens {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        assert!(input.len() < output.len());
        let mut opened = Vec::new();
        match self.0 {
            CertificateCompressionAlgorithm::Brotli => brotli::BrotliDecompress(&mut &input[..], &mut opened).unwrap(),
            _ => drop(flate2::read::ZlibDecoder::new(input).read_to_end(&mut opened).unwrap()),
        }
        self.1.fetch_add(1, Ordering::Relaxed);
        output.copy_from_slice(&opened);
        Ok(())
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.0
    }
}

#[test]
fn certificates_are_compressed_for_who_takes_them_so() {
    static PACKS: CertificateBrotli = CertificateBrotli(|certificate| {
        let mut packed = Vec::new();
        brotli::CompressorReader::new(certificate, 4_096, 5, 20).read_to_end(&mut packed).ok().map(|_| packed)
    });
    static BROTLI: Opens = Opens(CertificateCompressionAlgorithm::Brotli, AtomicUsize::new(0));
    static ZLIB: Opens = Opens(CertificateCompressionAlgorithm::Zlib, AtomicUsize::new(0));
    let plain = server(rules(&["rsa"]));
    let compressing = server(ServerRules { compresses: Some(&PACKS), ..rules(&["rsa"]) });
    for (way, used) in [(&BROTLI, &BROTLI.1), (&ZLIB, &ZLIB.1)] {
        let mut config = client(ALL_CIPHER_SUITES, None);
        config.cert_decompressors = vec![way];
        config.resumption = Resumption::disabled();
        let config = Arc::new(config);
        for (server, expected) in [(&plain, 0), (&compressing, 1), (&compressing, 2)] {
            shake(server, &config, 1_000).1.expect("a handshake");
            assert_eq!(used.load(Ordering::Relaxed), expected);
        }
    }
}
