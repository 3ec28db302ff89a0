//! Names that are none of DNS: with a port behind it, with a space, empty. OpenSSL takes nearly any, and nginx
//! has its default server answer; rustls ends the handshake. So it is shown the name's extension under a number
//! that says nothing to it, and what is hashed is what the client sent, so that both have the same transcript.
//!
//! ```text
//! ClientHello ─┬─► its extension's number changed ─► rustls: no name was asked for
//!              └─► as it was sent ─────────────────► the transcript's hash (RFC 8446 section 4.4.1)
//! ```
//!
//! A client may send two, the second for a HelloRetryRequest: both are to have the same name.

#[cfg(test)]
mod tests;

use crate::captured;
use crate::hello::{self, First};
use crate::shown::Shown;
use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use std::sync::LazyLock;

/// Records of a ClientHello, until it is whole.
#[derive(Default)]
pub(crate) struct Held {
    records: Vec<u8>,
    /// What is in them.
    message: Vec<u8>,
}

/// What becomes of a record that is held.
pub(crate) enum Release {
    /// There is more to come.
    Nothing,
    /// What rustls is given now.
    Records(Vec<u8>),
    /// The client asks for another name than before.
    Differs,
}

impl Held {
    /// Takes one record of a handshake, and changes the message when it is whole; what was shown is added
    /// to `shown`.
    pub fn take(&mut self, record: &[u8], shown: &mut Vec<Shown>) -> Release {
        self.records.extend_from_slice(record);
        self.message.extend_from_slice(record.get(RECORD_HEAD..).unwrap_or_default());
        let whole = match self.message.get(..4) {
            Some([CLIENT_HELLO, a, b, c]) => 4 + u32::from_be_bytes([0, *a, *b, *c]) as usize,
            Some(_) => 0,
            None => usize::MAX,
        };
        if self.message.len() < whole {
            return Release::Nothing;
        }
        let (mut records, sent) = (core::mem::take(&mut self.records), core::mem::take(&mut self.message));
        // What else there is is rustls's to judge.
        let First::Whole(hello, _) = hello::first(&records) else { return Release::Records(records) };
        let Some(odd) = hello.odd_name else { return Release::Records(records) };
        let mut changed = sent.clone();
        for (at, byte) in (odd.at..).zip(odd.number.to_be_bytes()) {
            changed[at] = byte;
            if let Some(place) = place_in_records(&records, at) {
                records[place] = byte;
            }
        }
        let one = Shown { sent, shown: changed, at: odd.at };
        let differs = shown.first().is_some_and(|first| !first.has_same_name(&one));
        shown.push(one);
        if differs { Release::Differs } else { Release::Records(records) }
    }
}

const RECORD_HEAD: usize = 5;
const CLIENT_HELLO: u8 = 1;

/// Where the byte of a message at `at` stands in the records that it is cut into.
fn place_in_records(records: &[u8], mut at: usize) -> Option<usize> {
    let mut start = 0;
    loop {
        let [_, _, _, high, low] = records.get(start..start + RECORD_HEAD)? else { return None };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if at < length {
            return Some(start + RECORD_HEAD + at);
        }
        at -= length;
        start += RECORD_HEAD + length;
    }
}

/// The same suite, whose transcripts are hashed as they were sent.
pub(crate) fn with_transcript(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let of12 = SUITES12.iter().find(|one| one.common.suite == suite.suite()).map(SupportedCipherSuite::Tls12);
    let of13 = || SUITES13.iter().find(|one| one.common.suite == suite.suite()).map(SupportedCipherSuite::Tls13);
    of12.or_else(of13).unwrap_or(suite)
}

static SUITES12: LazyLock<Vec<Tls12CipherSuite>> = LazyLock::new(|| {
    let own = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls12(suite) => Some(Tls12CipherSuite {
            common: common(&suite.common),
            prf_provider: suite.prf_provider,
            kx: suite.kx,
            sign: suite.sign,
            aead_alg: suite.aead_alg,
        }),
        SupportedCipherSuite::Tls13(_) => None,
    };
    ALL_CIPHER_SUITES.iter().filter_map(own).collect()
});

static SUITES13: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    let own = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls13(suite) => Some(Tls13CipherSuite {
            common: common(&suite.common),
            hkdf_provider: suite.hkdf_provider,
            aead_alg: suite.aead_alg,
            quic: suite.quic,
        }),
        SupportedCipherSuite::Tls12(_) => None,
    };
    ALL_CIPHER_SUITES.iter().filter_map(own).collect()
});

/// The providers of rustls are values of their own, of which there are two.
static TRANSCRIPTS: LazyLock<Vec<Transcript>> = LazyLock::new(|| {
    let mut all: Vec<Transcript> = Vec::new();
    for suite in ALL_CIPHER_SUITES {
        let hash = match suite {
            SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider,
            SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider,
        };
        if !all.iter().any(|known| known.algorithm() == hash.algorithm()) {
            all.push(Transcript(hash));
        }
    }
    all
});

fn common(suite: &CipherSuiteCommon) -> CipherSuiteCommon {
    let own = TRANSCRIPTS.iter().find(|own| own.algorithm() == suite.hash_provider.algorithm());
    let hash_provider = own.map_or(suite.hash_provider, |own| own as &dyn Hash);
    CipherSuiteCommon { suite: suite.suite, hash_provider, confidentiality_limit: suite.confidentiality_limit }
}

/// A hash of transcripts.
struct Transcript(&'static dyn Hash);

impl Hash for Transcript {
    fn start(&self) -> Box<dyn Context> {
        let running = self.0.start();
        if captured::is_shown_another() { Box::new(Running(running)) } else { running }
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.0.hash(data)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

/// One that is of a client with such a name.
struct Running(Box<dyn Context>);

impl Context for Running {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(&captured::as_sent(data));
    }
}
