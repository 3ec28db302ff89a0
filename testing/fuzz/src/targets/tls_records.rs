//! Records of TLS after the handshake.

use crate::Target;
use record::{
    Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion, TrafficSecret,
    WITHOUT_DATA_MAX,
};
use seal::{ContentType, Layer, MAX_SEALED, Record, Unsealed};

pub(crate) const TARGET: Target = Target {
    name: "tls_records",
    about: "a record layer takes what a peer sealed, and of anything else nothing",
    run,
    seeds,
    dictionary: &[
        b"\x02\x05\x18\x00\x00\x01\x00",
        b"\x02\x05\x18\x00\x00\x01\x01",
        b"\x02\x04\x04\x00\x00\x40",
        b"\x02\x04\x01\x00\x00\x40",
        b"\x01\x02\x01\x00",
        b"\x01\x02\x01\x5a",
        b"\x01\x02\x02\x28",
        b"\x17\x03\x03\x00\x20",
    ],
    test_runs: 4_000,
    max_len: 400,
};

const CIPHERS: [RecordCipher; 3] = [RecordCipher::Aes128Gcm, RecordCipher::Aes256Gcm, RecordCipher::ChaCha20Poly1305];

/// A side whose secrets the other side's are.
fn layer(cipher: RecordCipher, version: TlsVersion, side: TlsSide) -> RecordLayer {
    let secret = |of: TlsSide| {
        let bytes = vec![if of == TlsSide::Client { 3 } else { 4 }; cipher.secret_len()];
        TrafficSecret::new(cipher, &bytes).expect("a secret")
    };
    let peer = if side == TlsSide::Client { TlsSide::Server } else { TlsSide::Client };
    let (sends, receives) = (secret(side), secret(peer));
    let way = |keys: Option<RecordKeys>| KeyedWay { keys: keys.expect("keys"), number: 0 };
    RecordLayer::new(Established {
        version,
        side,
        sends: way(sends.keys()),
        receives: way(receives.keys()),
        afterwards: Afterwards::Secrets { sends, receives },
        most: seal::MAX_PLAINTEXT,
    })
}

/// The first byte says who speaks what. Then records to be sealed, each as type, length and
/// content; behind a type that is none, bytes as they are.
fn run(input: &[u8]) {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let version = if kind & 1 == 0 { TlsVersion::V13 } else { TlsVersion::V12 };
    let (from, to) =
        if kind & 2 == 0 { (TlsSide::Client, TlsSide::Server) } else { (TlsSide::Server, TlsSide::Client) };
    let cipher = CIPHERS[usize::from(kind >> 2) % CIPHERS.len()];
    let (mut sender, mut receiver) = (layer(cipher, version, from), layer(cipher, version, to));
    let (mut number, mut epoch, mut wire, mut said) = (0, 0, Vec::new(), Vec::new());
    while let [kind, len, behind @ ..] = rest {
        let kind = match kind & 3 {
            0 => ContentType::ApplicationData,
            1 => ContentType::Alert,
            2 => ContentType::Handshake,
            _ => {
                wire.extend_from_slice(&rest[1..]);
                break;
            }
        };
        let text = &behind[..usize::from(*len).min(behind.len())];
        rest = &behind[text.len()..];
        let mut out = vec![0; sender.overhead() + text.len()];
        sender.seal(&Record { epoch, number, kind, padding: 0 }, &[text], &mut out).expect("it is sealed");
        number += 1;
        wire.extend_from_slice(&out);
        if kind == ContentType::ApplicationData {
            said.extend_from_slice(text);
        }
        // A whole KeyUpdate is meant.
        if kind == ContentType::Handshake && version == TlsVersion::V13 && matches!(text, [24, 0, 0, 1, 0 | 1]) {
            let old = epoch;
            epoch = sender.next_epoch().expect("the next keys");
            sender.forget(old);
            number = 0;
        }
    }
    let heard = hear(&mut receiver, &wire);
    assert!(said.starts_with(&heard), "nothing is heard that was not said");
}

/// All that can be opened.
fn hear(receiver: &mut RecordLayer, wire: &[u8]) -> Vec<u8> {
    let (mut heard, mut rest, mut idle) = (Vec::new(), wire, 0);
    loop {
        let before = heard.len();
        match receiver.open(rest, &mut heard) {
            Unsealed::Needs(len) => {
                assert!(len > rest.len() && len <= MAX_SEALED && heard.len() == before);
                return heard;
            }
            Unsealed::Data { consumed } | Unsealed::Control { consumed, .. } => {
                idle = if heard.len() > before { 0 } else { idle + 1 };
                // Parts of a message are no messages; they are as long as it is.
                assert!(idle <= usize::from(WITHOUT_DATA_MAX) + wire.len() / 22 && consumed > 5);
                rest = &rest[consumed..];
            }
            Unsealed::End { consumed } => {
                assert!(consumed <= rest.len() && heard.len() == before);
                return heard;
            }
            Unsealed::Failed(_) => {
                assert_eq!(heard.len(), before);
                return heard;
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 6] = [
        b"\x00\x05hello\x00\x00\x00\x03you",
        b"\x00\x02hi\x02\x05\x18\x00\x00\x01\x01\x00\x02ho\x02\x05\x18\x00\x00\x01\x00\x00\x02hu",
        b"\x02\x03\x18\x00\x00\x02\x02\x01\x01\x00\x01x",
        b"\x02\x06\x04\x00\x00\x02ab\x00\x01x",
        b"\x02\x04\x00\x00\x00\x00\x02\x06\x01\x00\x00\x02ab\x00\x01x",
        b"\x00\x01x\x01\x02\x01\x5a\x01\x02\x01\x00\x03\x17\x03\x03\x00\x11\x00",
    ];
    let one = |(index, text): (usize, &&[u8])| {
        // Each of both versions, from each side, with one of the ciphers.
        [0, 1, 2, 3].map(|kind| [&[kind | ((index % CIPHERS.len()) as u8 * 4)][..], text].concat())
    };
    texts.iter().enumerate().flat_map(one).collect()
}
