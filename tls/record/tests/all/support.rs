//! A sender that gives out numbers, as data paths do, and layers of known keys.

use record::{
    Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion, TrafficSecret,
};
use seal::{ContentType, Layer, Record, Unsealed};

pub(crate) const CIPHERS: [RecordCipher; 3] =
    [RecordCipher::Aes128Gcm, RecordCipher::Aes256Gcm, RecordCipher::ChaCha20Poly1305];
pub(crate) const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A layer, and the numbers that a data path gives out.
pub(crate) struct End {
    pub(crate) layer: RecordLayer,
    epoch: u8,
    number: u64,
}

impl End {
    pub(crate) fn new(layer: RecordLayer) -> Self {
        Self { layer, epoch: 0, number: 0 }
    }

    pub(crate) fn next(&mut self, kind: ContentType, padding: u16) -> Record {
        let record = Record { epoch: self.epoch, number: self.number, kind, padding };
        self.number += 1;
        record
    }

    pub(crate) fn seal(&mut self, kind: ContentType, text: &[u8]) -> Vec<u8> {
        self.seal_padded(kind, text, 0)
    }

    pub(crate) fn seal_padded(&mut self, kind: ContentType, text: &[u8], padding: u16) -> Vec<u8> {
        let record = self.next(kind, padding);
        sealed(&mut self.layer, &record, &[text])
    }

    /// What it sends, and what follows, under its next keys.
    pub(crate) fn update(&mut self, answer: bool) -> Vec<u8> {
        let message = [24, 0, 0, 1, u8::from(answer)];
        let out = self.seal(ContentType::Handshake, &message);
        let before = self.epoch;
        self.epoch = self.layer.next_epoch().expect("next keys");
        self.number = 0;
        self.layer.forget(before);
        out
    }

    /// Opens one record, which is all there is.
    pub(crate) fn open(&mut self, input: &[u8]) -> (Unsealed, Vec<u8>) {
        let mut plain = b"before".to_vec();
        let opened = self.layer.open(input, &mut plain);
        assert_eq!(plain[..6], *b"before");
        (opened, plain.split_off(6))
    }

    /// The plaintext of one record of data.
    pub(crate) fn data(&mut self, input: &[u8]) -> Vec<u8> {
        let (opened, plain) = self.open(input);
        assert_eq!(opened, Unsealed::Data { consumed: input.len() });
        plain
    }
}

pub(crate) fn sealed(layer: &mut RecordLayer, record: &Record, parts: &[&[u8]]) -> Vec<u8> {
    let plain: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![0xa5; layer.overhead() + plain + usize::from(record.padding)];
    layer.seal(record, parts, &mut out).expect("sealed");
    out
}

/// Secrets that both ends know; which is whose follows from the side.
pub(crate) fn secret(cipher: RecordCipher, of_client: bool) -> TrafficSecret {
    let bytes: Vec<u8> =
        (0..cipher.secret_len() as u8).map(|byte| byte.wrapping_mul(29) ^ u8::from(of_client)).collect();
    TrafficSecret::new(cipher, &bytes).expect("a secret")
}

/// One side of a connection of such secrets.
pub(crate) fn end(cipher: RecordCipher, version: TlsVersion, side: TlsSide) -> End {
    let is_client = side == TlsSide::Client;
    let (sends, receives) = (secret(cipher, is_client), secret(cipher, !is_client));
    let way = |keys: Option<RecordKeys>| KeyedWay { keys: keys.expect("keys"), number: 0 };
    End::new(RecordLayer::new(Established {
        version,
        side,
        sends: way(sends.keys()),
        receives: way(receives.keys()),
        afterwards: Afterwards::Secrets { sends, receives },
        most: seal::MAX_PLAINTEXT,
    }))
}

/// A client and a server.
pub(crate) fn both(cipher: RecordCipher, version: TlsVersion) -> (End, End) {
    (end(cipher, version, TlsSide::Client), end(cipher, version, TlsSide::Server))
}
