//! The same record has the same bytes, however its plaintext lies; others have others.

use crate::support::{CIPHERS, End, VERSIONS, both, sealed};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use record::{Afterwards, Established, KeyedWay, RecordKeys, RecordLayer, TlsSide, TlsVersion};
use seal::{ContentType, Layer, Record, SealError, SealingCipher, SealingKeys};

fn kinds() -> impl Strategy<Value = ContentType> {
    select(vec![ContentType::ApplicationData, ContentType::Handshake, ContentType::Alert])
}

proptest! {
    #[test]
    fn one_record_has_one_form(
        cipher in select(CIPHERS.to_vec()),
        version in select(VERSIONS.to_vec()),
        kind in kinds(),
        number in 0..1_u64 << 24,
        text in proptest::collection::vec(any::<u8>(), 0..5_000),
        cuts in proptest::collection::vec(0..5_000_usize, 0..6),
        padding in 0..400_u16,
    ) {
        let (mut client, mut server) = both(cipher, version);
        let padding = if version == TlsVersion::V13 { padding } else { 0 };
        let record = Record { epoch: 0, number, kind, padding };
        let once = sealed(&mut client.layer, &record, &[&text]);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        let parts: Vec<&[u8]> = at.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        prop_assert_eq!(&sealed(&mut client.layer, &record, &parts), &once);
        client.layer.rest();
        prop_assert_eq!(&sealed(&mut client.layer, &record, &parts), &once);
        let (mut shared, mut room) = (vec![0x5a; once.len()], vec![0; once.len()]);
        let sum = client.layer.seal_shared(&record, &parts, &mut shared, &mut room).map(wire::Sum::finish);
        prop_assert_eq!(&shared, &once);
        prop_assert_eq!(sum, Ok(wire::checksum::sum(&once).finish()));
        prop_assert_eq!(client.layer.seal_shared(&record, &parts, &mut shared, &mut room[1..]), Err(SealError::Length));
        // No plaintext is in it, as far as chance allows.
        prop_assert!(text.len() < 8 || !once.windows(8).any(|some| some == &text[..8]));

        let other = Record { number: number + 1, ..record };
        prop_assert!(sealed(&mut client.layer, &other, &[&text])[5..] != once[5..]);
        let mut out = vec![0; once.len() - 1];
        prop_assert_eq!(client.layer.seal(&record, &[&text], &mut out), Err(SealError::Length));
        let old = Record { epoch: 7, ..record };
        prop_assert_eq!(client.layer.seal(&old, &[&text], &mut out), Err(SealError::Epoch));
        // Opened, if it is the next one.
        if number == 0 && kind == ContentType::ApplicationData {
            prop_assert_eq!(server.data(&once), text);
        }
    }
}

#[test]
fn two_epochs_live_until_the_older_is_forgotten() {
    for cipher in CIPHERS {
        let (mut client, _) = both(cipher, TlsVersion::V13);
        let record = |epoch| Record { epoch, number: 3, kind: ContentType::ApplicationData, padding: 0 };
        let mut out = vec![0; 22 + 4];
        let mut last = Vec::new();
        for epoch in 1..=300_u32 {
            let before = (epoch - 1) as u8;
            last.clone_from(&sealed(&mut client.layer, &record(before), &[b"text"]));
            let epoch = client.layer.next_epoch().expect("next keys");
            assert_eq!(epoch, before.wrapping_add(1));
            assert_eq!(sealed(&mut client.layer, &record(before), &[b"text"]), last, "the older lives");
            assert_ne!(sealed(&mut client.layer, &record(epoch), &[b"text"]), last);
            client.layer.forget(before);
            assert_eq!(client.layer.seal(&record(before), &[b"text"], &mut out), Err(SealError::Epoch));
        }
    }
}

#[test]
fn a_thread_keeps_only_so_many_keys_ready() {
    // More connections than keys are kept ready for: all go on.
    let cipher = CIPHERS[0];
    let mut all: Vec<_> = (0..1_500).map(|_| both(cipher, TlsVersion::V13)).collect();
    for round in 0..2_u8 {
        for (client, server) in &mut all {
            let out = client.seal(ContentType::ApplicationData, &[round; 9]);
            assert_eq!(server.data(&out), [round; 9]);
        }
        all.truncate(1_200);
    }
}

#[test]
fn version_12_updates_no_keys() {
    let (mut client, _) = both(CIPHERS[0], TlsVersion::V12);
    assert_eq!(client.layer.next_epoch(), Err(SealError::NoUpdate));
    assert!(!client.layer.pads());
    assert_eq!(client.layer.most_records(), 1 << 24);
    assert!(both(CIPHERS[2], TlsVersion::V12).0.layer.most_records() > 1 << 48);
}

/// A kernel counts nonces up where TLS 1.2 has eight bytes of them in each record, in the place
/// of the number that we mix with secret ones.
fn sealed_by_a_kernel(keys: &SealingKeys<'_>, text: &[u8]) -> Vec<u8> {
    let of_12 = keys.version == 0x0303;
    let (algorithm, bears) = match keys.cipher {
        SealingCipher::Aes128Gcm => (&AES_128_GCM, of_12),
        SealingCipher::Aes256Gcm => (&AES_256_GCM, of_12),
        SealingCipher::ChaCha20Poly1305 => (&CHACHA20_POLY1305, false),
    };
    let mut nonce = *keys.iv;
    if !bears {
        nonce[4..].iter_mut().zip(keys.number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
    }
    let explicit: &[u8] = if bears { &nonce[4..] } else { &[] };
    let inner: &[u8] = if of_12 { &[] } else { &[23] };
    let len = (explicit.len() + text.len() + inner.len() + 16) as u16;
    let header = [&[23, 3, 3][..], &len.to_be_bytes()].concat();
    let beside = match of_12 {
        true => [&keys.number.to_be_bytes()[..], &header[..3], &(text.len() as u16).to_be_bytes()].concat(),
        false => header.clone(),
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, keys.key).expect("a key"));
    let mut sealed = [text, inner].concat();
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(&beside), &mut sealed).expect("sealed");
    [&header[..], explicit, &sealed].concat()
}

#[test]
fn whoever_takes_the_keys_over_is_opened() {
    for (cipher, version) in CIPHERS.into_iter().flat_map(|cipher| VERSIONS.map(|version| (cipher, version))) {
        let (mut client, server) = both(cipher, version);
        let mut server = End::new(server.layer.handing_over(true));
        let before = server.seal(ContentType::ApplicationData, b"before");
        assert_eq!(client.data(&before), b"before");
        let mut record = Vec::new();
        assert!(!server.layer.hand_over(0, 1, &mut |_| false), "it did not take them");
        assert!(!server.layer.hand_over(1, 1, &mut |_| panic!("there is no such epoch")));
        let taken = server.layer.hand_over(0, 1, &mut |keys| {
            assert_eq!(keys.number, 1);
            record = sealed_by_a_kernel(keys, b"the kernel's");
            true
        });
        assert!(taken, "{cipher:?} {version:?}");
        assert_eq!(client.data(&record), b"the kernel's", "{cipher:?} {version:?}");
        let next = Record { epoch: 0, number: 2, kind: ContentType::ApplicationData, padding: 0 };
        assert_eq!(server.layer.seal(&next, &[], &mut vec![0; server.layer.overhead()]), Err(SealError::Epoch));
        // And none that was not to hand its keys over.
        assert!(!client.layer.hand_over(0, 0, &mut |_| panic!("keys of its own")));
    }
}

proptest! {
    /// Of AES-GCM in TLS 1.2 no nonce of ours comes again from one that counts up.
    #[test]
    fn nonces_that_count_up_were_not_there(iv in any::<[u8; 12]>(), before in 0..1_u64 << 24, after in 0..1_u64 << 40) {
        let keys = || RecordKeys::new(CIPHERS[0], &[7; 16], iv).expect("keys");
        let way = |number| KeyedWay { keys: keys(), number };
        let mut layer = RecordLayer::new(Established {
            version: TlsVersion::V12,
            side: TlsSide::Server,
            sends: way(0),
            receives: way(0),
            afterwards: Afterwards::Nothing,
            most: seal::MAX_PLAINTEXT,
        }).handing_over(true);
        let record = Record { epoch: 0, number: before, kind: ContentType::ApplicationData, padding: 0 };
        let ours = u64::from_be_bytes(sealed(&mut layer, &record, &[b"x"])[5..13].try_into().unwrap());
        let mut start = 0;
        layer.hand_over(0, before + 1, &mut |keys| {
            assert_eq!(keys.iv[..4], iv[..4]);
            start = u64::from_be_bytes(keys.iv[4..].try_into().unwrap());
            true
        });
        prop_assert_eq!(start & (u64::MAX >> 1), before + 1, "the record's number, but for a bit");
        prop_assert_eq!((start + after) >> 63, start >> 63);
        prop_assert!((start + after) >> 63 != ours >> 63);
    }
}
