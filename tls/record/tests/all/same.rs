//! The same record has the same bytes, however its plaintext lies; others have others.

use crate::support::{CIPHERS, VERSIONS, both, sealed};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use seal::{ContentType, Layer, Record, SealError};
use tls_record::TlsVersion;

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
