use crate::{BESIDE_MAX, Key, NONCE_LEN, TAG_LEN};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn theirs(key: &[u8]) -> LessSafeKey {
    let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    LessSafeKey::new(UnboundKey::new(algorithm, key).expect("a key"))
}

/// The test cases with nonces of twelve bytes of the paper that GCM was submitted with
/// (McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B: 1 to 4, 13 to 16),
/// but for those with more than a block beside the text.
#[test]
fn texts_are_sealed_as_the_paper_has_them() {
    let text = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
    let cases = [
        ("0".repeat(32), "0".repeat(24), "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
        (
            "0".repeat(32),
            "0".repeat(24),
            "00000000000000000000000000000000",
            "0388dace60b6a392f328c2b971b2fe78",
            "ab6e47d42cec13bdf53a67b21257bddf",
        ),
        (
            "feffe9928665731c6d6a8f9467308308".to_owned(),
            "cafebabefacedbaddecaf888".to_owned(),
            text,
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
            "4d5c2af327cd64a62cf35abd2ba6fab4",
        ),
        ("0".repeat(64), "0".repeat(24), "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
        (
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308".to_owned(),
            "cafebabefacedbaddecaf888".to_owned(),
            text,
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
            "b094dac5d93471bdec1a502270e3cc6c",
        ),
    ];
    for (key, nonce, text, sealed, tag) in cases {
        let Some(key) = Key::new(&hex(&key)) else { return };
        let nonce: [u8; NONCE_LEN] = hex(&nonce).try_into().expect("a nonce");
        let text = hex(text);
        let mut out = vec![0; text.len() + TAG_LEN];
        assert!(key.seal(&nonce, &[], &[&text], &[], &mut out));
        assert_eq!(out, [hex(sealed), hex(tag)].concat());
    }
}

fn words(text: &[u8]) -> u64 {
    let word = |chunk: &[u8]| core::array::from_fn(|at| chunk.get(at).copied().unwrap_or(0));
    text.chunks(4).map(|chunk| u64::from(u32::from_ne_bytes(word(chunk)))).sum()
}

/// Every length around the borders of blocks, registers and chunks, cut at every place, with
/// every length beside it.
#[test]
fn every_length_and_every_cut_is_as_the_library_has_it() {
    for key in [&[0x5c; 16][..], &[0xc5; 32]] {
        let Some(ours) = Key::new(key) else { return };
        let theirs = theirs(key);
        let all: Vec<u8> = (0..700_u32).map(|at| (at * 7 + at / 251) as u8).collect();
        for len in (0..300).chain([383, 384, 385, 511, 512, 513, 640, 700]) {
            let nonce = [len as u8; NONCE_LEN];
            let beside = &all[..len % (BESIDE_MAX + 1)];
            let mut wanted = all[..len].to_vec();
            let nonce_of = Nonce::assume_unique_for_key(nonce);
            theirs.seal_in_place_append_tag(nonce_of, Aad::from(beside), &mut wanted).expect("sealed");
            let cuts = if len <= 140 { (0..=len).collect() } else { vec![0, 1, 15, 16, 127, 128, 129, len] };
            for cut in cuts {
                let (first, rest) = all[..len].split_at(cut);
                let (second, third) = rest.split_at(rest.len() / 2);
                let mut out = vec![0xee; len + TAG_LEN];
                assert!(ours.seal(&nonce, beside, &[first, &[], second], third, &mut out));
                assert!(out == wanted, "{len} bytes cut at {cut}");
                let mut again = vec![0xee; len + TAG_LEN];
                let summed = ours.seal_summed(&nonce, beside, &[first, second], third, &mut again).expect("summed");
                assert!(again == wanted && summed.tag == wanted[len..], "{len} bytes cut at {cut}");
                assert_eq!(summed.words, words(&wanted[..len]), "{len} bytes cut at {cut}");
            }
            let (text, tag) = wanted.split_at_mut(len);
            let tag = (*tag).try_into().expect("a tag");
            assert!(ours.open(&nonce, beside, text, &tag), "{len} bytes");
            assert!(text == &all[..len], "{len} bytes");
        }
    }
}

/// A bit that is changed anywhere is found, and nothing of the text is left.
#[test]
fn what_was_changed_is_not_opened() {
    let Some(key) = Key::new(&[9; 16]) else { return };
    let (nonce, beside, text) = ([1; NONCE_LEN], [7; 5], [0x33; 201]);
    let mut sealed = vec![0; text.len() + TAG_LEN];
    assert!(key.seal(&nonce, &beside, &[&text], &[], &mut sealed));
    for bit in 0..sealed.len() * 8 {
        let mut other = sealed.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        let (text, tag) = other.split_at_mut(text.len());
        let tag = (*tag).try_into().expect("a tag");
        assert!(!key.open(&nonce, &beside, text, &tag), "bit {bit}");
        assert!(text.iter().all(|byte| *byte == 0));
    }
    let (text, tag) = sealed.split_at_mut(text.len());
    let tag = (*tag).try_into().expect("a tag");
    let mut longer = beside.to_vec();
    longer.push(0);
    for (nonce, beside) in [([2; NONCE_LEN], &beside[..]), (nonce, &beside[..4]), (nonce, &longer)] {
        assert!(!key.open(&nonce, beside, &mut text.to_vec(), &tag));
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    assert!(Key::new(&[0; 24]).is_none() && Key::new(&[]).is_none());
    let Some(key) = Key::new(&[0; 32]) else { return };
    let mut out = [0; 40];
    for len in [0, 15, 23, 25, 40] {
        assert!(!key.seal(&[0; NONCE_LEN], &[], &[&[1; 8]], &[], &mut out[..len]));
    }
    assert!(!key.seal(&[0; NONCE_LEN], &[0; BESIDE_MAX + 1], &[&[1; 8]], &[], &mut out[..24]));
    assert!(!key.open(&[0; NONCE_LEN], &[0; BESIDE_MAX + 1], &mut [], &[0; TAG_LEN]));
    assert_eq!(out, [0; 40]);
}

/// A peer writes to where records are sealed all the while, by another mapping of the same
/// memory: it spoils what it gets, and neither tag nor sum, which are those of what was
/// written.
#[test]
fn what_a_peer_writes_meanwhile_is_not_read() {
    let Some(key) = Key::new(&[5; 16]) else { return };
    let text = [0x77; 16_000];
    let mut wanted = vec![0; text.len() + TAG_LEN];
    let told = key.seal_summed(&[3; NONCE_LEN], &[1; 5], &[&text], &[23; 0], &mut wanted).expect("sealed");
    let (ours, theirs) = (Shared::new(wanted.len()), AtomicBool::new(true));
    let mut spoilt = 0;
    std::thread::scope(|scope| {
        let (peer, goes_on) = (ours.again(), &theirs);
        scope.spawn(move || {
            let mut byte = 0_u8;
            while goes_on.load(Ordering::Relaxed) {
                byte = byte.wrapping_add(1);
                peer.fill(byte);
            }
        });
        // Until it has come in between a few times, which on one core takes a while.
        for _ in 0..1_000_000 {
            // SAFETY: of this mapping there is one slice; the peer writes by another, as
            // another process does, and nothing here relies on what stands in the memory.
            let out = unsafe { core::slice::from_raw_parts_mut(ours.begin.cast(), ours.len) };
            let again = key.seal_summed(&[3; NONCE_LEN], &[1; 5], &[&text], &[23; 0], out).expect("sealed");
            assert_eq!(again, told);
            spoilt += usize::from(out != wanted);
            if spoilt == 20 {
                break;
            }
        }
        theirs.store(false, Ordering::Relaxed);
    });
    assert!(spoilt > 0, "the peer wrote nothing meanwhile");
}

/// Memory that is mapped more than once.
struct Shared {
    file: OwnedFd,
    begin: *mut c_void,
    len: usize,
}

// SAFETY: it is memory of the process, whichever thread looks at it.
unsafe impl Send for Shared {}

impl Shared {
    fn new(len: usize) -> Self {
        let file = memfd_create("shared", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, len as u64).expect("memory");
        Self::map(file, len)
    }

    fn map(file: OwnedFd, len: usize) -> Self {
        // SAFETY: where it is mapped to is left to the kernel.
        let begin = unsafe { mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) };
        Self { file, begin: begin.expect("a mapping"), len }
    }

    fn again(&self) -> Self {
        Self::map(self.file.try_clone().expect("a descriptor"), self.len)
    }

    fn fill(&self, byte: u8) {
        for at in 0..self.len {
            // SAFETY: it is within the mapping.
            unsafe { self.begin.cast::<u8>().add(at).write_volatile(byte) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nothing of it is held any more.
        let _ = unsafe { munmap(self.begin, self.len) };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_any_pieces_is_as_the_library_has_it(
        long in any::<bool>(),
        key in any::<[u8; 32]>(),
        nonce in any::<[u8; NONCE_LEN]>(),
        beside in proptest::collection::vec(any::<u8>(), 0..=BESIDE_MAX),
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2_000), 0..6),
    ) {
        let key = if long { &key[..] } else { &key[..16] };
        let Some(ours) = Key::new(key) else { return Ok(()) };
        let mut wanted = pieces.concat();
        theirs(key)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&beside), &mut wanted)
            .expect("sealed");
        let mut out = vec![0; wanted.len()];
        let parts: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert!(ours.seal(&nonce, &beside, &parts, &[], &mut out));
        prop_assert_eq!(out, wanted);
    }
}
