//! What a peer may not send, and what it may only so often.

use crate::support::{CIPHERS, End, VERSIONS, both};
use record::{RecordCipher, TlsVersion, WITHOUT_DATA_MAX};
use seal::ContentType::{self, Alert, ApplicationData, Handshake};
use seal::{Ask, Unsealed};

const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;

fn pair(version: TlsVersion) -> (End, End) {
    both(RecordCipher::Aes128Gcm, version)
}

/// That the server, or the client, ends the connection over this record with this alert.
fn refuses(end: &mut End, input: &[u8], alert: u8) {
    let (unsealed, plain) = end.open(input);
    assert_eq!(unsealed, Unsealed::Failed(Some(alert)), "{input:02x?}");
    assert!(plain.is_empty());
    // And reads no more.
    assert_eq!(end.open(input).0, Unsealed::End { consumed: input.len() });
}

fn control(end: &mut End, input: &[u8]) -> Ask {
    let (unsealed, plain) = end.open(input);
    let Unsealed::Control { consumed, ask } = unsealed else { panic!("{unsealed:?}") };
    assert_eq!((consumed, plain.len()), (input.len(), 0));
    ask
}

#[test]
fn a_bit_that_is_changed_is_found() {
    for version in VERSIONS {
        for cipher in CIPHERS {
            let len = both(cipher, version).0.seal(ApplicationData, b"a text").len();
            for bit in 0..len * 8 {
                let (mut client, mut server) = both(cipher, version);
                let mut record = client.seal(ApplicationData, b"a text");
                record[bit / 8] ^= 1 << (bit % 8);
                let (unsealed, plain) = server.open(&record);
                assert!(plain.is_empty());
                match unsealed {
                    Unsealed::Failed(Some(_)) => {}
                    // Longer than it is.
                    Unsealed::Needs(more) => assert!((24..40).contains(&bit) && more > len, "{bit}"),
                    other => panic!("{other:?} for bit {bit}"),
                }
            }
        }
    }
}

#[test]
fn parts_of_a_record_say_how_long_it_is() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let record = client.seal(ApplicationData, &[7; 1_000]);
        for len in 0..record.len() {
            let needs = if len < 5 { 5 } else { record.len() };
            assert_eq!(server.open(&record[..len]), (Unsealed::Needs(needs), vec![]));
        }
        assert_eq!(server.data(&record), [7; 1_000]);
    }
}

#[test]
fn headers_are_judged_before_anything_is_kept() {
    let (mut client, _) = pair(TlsVersion::V13);
    let header = |kind: u8, version: u16, len: u16| [&[kind][..], &version.to_be_bytes(), &len.to_be_bytes()].concat();
    for kind in [0, 20, 21, 22, 24, 255] {
        refuses(&mut pair(TlsVersion::V13).1, &header(kind, 0x0303, 100), UNEXPECTED_MESSAGE);
    }
    for kind in [0, 20, 24, 255] {
        refuses(&mut pair(TlsVersion::V12).1, &header(kind, 0x0303, 100), UNEXPECTED_MESSAGE);
    }
    refuses(&mut pair(TlsVersion::V12).1, &header(23, 0x0301, 100), PROTOCOL_VERSION);
    refuses(&mut pair(TlsVersion::V13).1, &header(23, 0x0303, (1 << 14) + 257), RECORD_OVERFLOW);
    refuses(&mut pair(TlsVersion::V12).1, &header(23, 0x0303, (1 << 14) + 2_049), RECORD_OVERFLOW);
    refuses(&mut pair(TlsVersion::V13).1, &header(23, 0x0303, 15), BAD_RECORD_MAC);
    refuses(&mut pair(TlsVersion::V12).1, &header(23, 0x0303, 23), BAD_RECORD_MAC);
    let (unsealed, _) = pair(TlsVersion::V13).1.open(&header(23, 0x0303, (1 << 14) + 256));
    assert_eq!(unsealed, Unsealed::Needs((1 << 14) + 261));
    // A change of cipher spec comes too late (RFC 8446 section 5).
    refuses(&mut client, &[20, 3, 3, 0, 1, 1], UNEXPECTED_MESSAGE);
}

#[test]
fn records_out_of_order_are_found() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let (one, two) = (client.seal(ApplicationData, b"1"), client.seal(ApplicationData, b"2"));
        assert_eq!(server.data(&one), b"1");
        refuses(&mut server, &one, BAD_RECORD_MAC);
        let (_, mut server) = pair(version);
        refuses(&mut server, &two, BAD_RECORD_MAC);
    }
}

#[test]
fn empty_records_are_taken_so_often() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        for _ in 0..3 {
            for _ in 0..WITHOUT_DATA_MAX {
                assert!(server.data(&client.seal(ApplicationData, b"")).is_empty());
            }
            assert_eq!(server.data(&client.seal(ApplicationData, b"x")), b"x");
        }
        for _ in 0..WITHOUT_DATA_MAX {
            server.data(&client.seal(ApplicationData, b""));
        }
        refuses(&mut server, &client.seal(ApplicationData, b""), UNEXPECTED_MESSAGE);
    }
}

#[test]
fn key_updates_are_taken_so_often() {
    let (mut client, mut server) = pair(TlsVersion::V13);
    for _ in 0..2 {
        for _ in 0..WITHOUT_DATA_MAX / 2 {
            assert_eq!(control(&mut server, &client.update(false)), Ask::Updated);
            assert_eq!(control(&mut server, &client.update(true)), Ask::Update);
        }
        assert_eq!(server.data(&client.seal(ApplicationData, b"x")), b"x");
    }
    for _ in 0..WITHOUT_DATA_MAX {
        control(&mut server, &client.update(true));
    }
    refuses(&mut server, &client.update(true), UNEXPECTED_MESSAGE);
}

#[test]
fn messages_are_split_and_joined() {
    let (mut client, mut server) = pair(TlsVersion::V13);
    for piece in [&[24_u8][..], &[0, 0], &[1]] {
        assert_eq!(control(&mut server, &client.seal(Handshake, piece)), Ask::Nothing);
    }
    let last = client.seal(Handshake, &[1]);
    assert_eq!(control(&mut server, &last), Ask::Update);

    // Two tickets in one record, the second of which goes on in the next.
    let (mut client, mut server) = pair(TlsVersion::V13);
    let ticket = [&[4, 0, 0, 200][..], &[9; 200]].concat();
    let both = [&ticket[..], &ticket[..100]].concat();
    assert_eq!(control(&mut client, &server.seal(Handshake, &both)), Ask::Nothing);
    assert_eq!(control(&mut client, &server.seal(Handshake, &ticket[100..])), Ask::Nothing);
    assert_eq!(client.data(&server.seal(ApplicationData, b"x")), b"x");
}

#[test]
fn nothing_comes_amid_a_message() {
    for (kind, text) in [(ApplicationData, &b"x"[..]), (Alert, &[1, 0]), (ApplicationData, b"")] {
        let (mut client, mut server) = pair(TlsVersion::V13);
        control(&mut server, &client.seal(Handshake, &[24, 0]));
        refuses(&mut server, &client.seal(kind, text), UNEXPECTED_MESSAGE);
    }
    // And nothing behind a KeyUpdate under the same keys (RFC 8446 section 5.1).
    let (mut client, mut server) = pair(TlsVersion::V13);
    refuses(&mut server, &client.seal(Handshake, &[24, 0, 0, 1, 0, 24]), UNEXPECTED_MESSAGE);
}

#[test]
fn messages_that_have_no_place_are_refused_by_their_header() {
    let (version, mut all) = (TlsVersion::V13, Vec::new());
    // To a server: a ClientHello, a ticket, a Finished, a certificate.
    all.extend([1_u8, 4, 20, 11, 0, 255].map(|kind| (false, vec![kind, 0, 0, 9], UNEXPECTED_MESSAGE)));
    // To a client: a request for a certificate, which it did not offer, a HelloRequest.
    all.extend([13_u8, 0, 1, 20].map(|kind| (true, vec![kind, 0, 0, 9], UNEXPECTED_MESSAGE)));
    for to_client in [false, true] {
        all.push((to_client, vec![], UNEXPECTED_MESSAGE));
        all.push((to_client, vec![24, 0, 0, 0], DECODE_ERROR));
        all.push((to_client, vec![24, 0, 0, 2, 0, 0], DECODE_ERROR));
        all.push((to_client, vec![24, 0, 0, 1, 2], ILLEGAL_PARAMETER));
    }
    all.push((true, vec![4, 1, 0, 0], DECODE_ERROR));
    for (to_client, text, alert) in all {
        let (mut client, mut server) = pair(version);
        let (from, to) = if to_client { (&mut server, &mut client) } else { (&mut client, &mut server) };
        let record = from.seal(Handshake, &text);
        refuses(to, &record, alert);
    }
}

#[test]
fn version_12_does_not_negotiate_anew() {
    // A ClientHello of a client, in pieces; a HelloRequest of a server.
    let (mut client, mut server) = pair(TlsVersion::V12);
    let hello = [&[1, 0, 1, 0][..], &[3; 256]].concat();
    for piece in hello.chunks(100) {
        control(&mut server, &client.seal(Handshake, piece));
    }
    assert_eq!(server.data(&client.seal(ApplicationData, b"goes on")), b"goes on");
    for _ in 0..WITHOUT_DATA_MAX {
        control(&mut client, &server.seal(Handshake, &[0, 0, 0, 0]));
    }
    refuses(&mut client, &server.seal(Handshake, &[0, 0, 0, 0]), UNEXPECTED_MESSAGE);
    // There are no KeyUpdates and no late tickets; a ClientHello has bounds.
    for (text, alert) in
        [(&[24, 0, 0, 1][..], UNEXPECTED_MESSAGE), (&[1, 1, 0, 1], DECODE_ERROR), (&[], UNEXPECTED_MESSAGE)]
    {
        let (mut client, mut server) = pair(TlsVersion::V12);
        refuses(&mut server, &client.seal(Handshake, text), alert);
    }
    let (mut client, mut server) = pair(TlsVersion::V12);
    refuses(&mut client, &server.seal(Handshake, &[4, 0, 0, 9]), UNEXPECTED_MESSAGE);
}

#[test]
fn alerts_mean_what_their_version_has_them_mean() {
    for version in VERSIONS {
        for level in [1, 2] {
            let (mut client, mut server) = pair(version);
            assert!(matches!(server.open(&client.seal(Alert, &[level, 0])).0, Unsealed::End { .. }));
            // What follows is not read.
            let late = client.seal(ApplicationData, b"late");
            assert_eq!(server.open(&late), (Unsealed::End { consumed: late.len() }, vec![]));
        }
        for text in [&[1][..], &[1, 0, 1], &[1, 0, 1, 0]] {
            let (mut client, mut server) = pair(version);
            refuses(&mut server, &client.seal(Alert, text), DECODE_ERROR);
        }
        // RFC 8446 section 5.4.
        let (mut client, mut server) = pair(version);
        refuses(&mut server, &client.seal(Alert, &[]), UNEXPECTED_MESSAGE);
        let (mut client, mut server) = pair(version);
        assert_eq!(server.open(&client.seal(Alert, &[2, 40])).0, Unsealed::Failed(None), "fatal, and not answered");
    }
    // Warnings: user_canceled in both, any in TLS 1.2 by its level, none else in 1.3.
    let (mut client, mut server) = pair(TlsVersion::V13);
    control(&mut server, &client.seal(Alert, &[1, 90]));
    assert_eq!(server.open(&client.seal(Alert, &[1, 100])).0, Unsealed::Failed(None));
    let (mut client, mut server) = pair(TlsVersion::V12);
    for _ in 0..WITHOUT_DATA_MAX {
        control(&mut server, &client.seal(Alert, &[1, 100]));
    }
    refuses(&mut server, &client.seal(Alert, &[1, 100]), UNEXPECTED_MESSAGE);
    let (mut client, mut server) = pair(TlsVersion::V12);
    refuses(&mut server, &client.seal(Alert, &[3, 40]), ILLEGAL_PARAMETER);
}

#[test]
fn padding_has_bounds_and_a_type_before_it() {
    for cipher in CIPHERS {
        let (mut client, mut server) = both(cipher, TlsVersion::V13);
        assert_eq!(server.data(&client.seal_padded(ApplicationData, b"text", 1_000)), b"text");
        assert_eq!(server.data(&client.seal_padded(ApplicationData, b"", 16_384)), b"");
        assert_eq!(server.data(&client.seal(ApplicationData, &[0; 16_384])), [0; 16_384]);
        // Data that ends with zeros keeps them.
        assert_eq!(server.data(&client.seal_padded(ApplicationData, &[1, 0, 0], 2)), [1, 0, 0]);
    }
}

#[test]
fn nothing_panics_on_cut_and_swapped_records() {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize
    };
    for round in 0..300 {
        let version = VERSIONS[round % 2];
        let (mut client, mut server) = both(CIPHERS[round % 3], version);
        let mut stream: Vec<u8> = Vec::new();
        for _ in 0..random() % 6 {
            let kind = [ApplicationData, Handshake, Alert][random() % 3];
            let text: Vec<u8> = (0..random() % 40).map(|_| random() as u8).collect();
            stream.extend(client.seal(kind, &text));
        }
        if !stream.is_empty() && random() % 2 == 0 {
            let at = random() % stream.len();
            stream[at] ^= random() as u8;
        }
        let mut rest = &stream[..];
        let mut plain = Vec::new();
        for _ in 0..20 {
            use seal::Layer;
            match server.layer.open(rest, &mut plain) {
                Unsealed::Needs(len) => {
                    assert!(len > rest.len() && len <= seal::MAX_SEALED);
                    break;
                }
                Unsealed::Data { consumed } | Unsealed::Control { consumed, .. } | Unsealed::End { consumed } => {
                    assert!(consumed > 0 && consumed <= rest.len());
                    rest = &rest[consumed..];
                }
                Unsealed::Failed(_) => break,
            }
        }
        assert!(plain.len() <= stream.len());
    }
    let _ = ContentType::Alert;
}
