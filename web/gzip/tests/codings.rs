//! Each coding, read again by its own reader. Not among the library's own tests: those would
//! compile the encoders a second time.

use gzip::{Coding, Encoder, Encoders, Gunzip, NotGzip, Whole, member, members};

/// Texts of several kinds: words, one letter, noise.
fn texts() -> Vec<Vec<u8>> {
    let mut state = 7_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let words: Vec<u8> = (0..2_000).flat_map(|_| format!("word{} ", random() % 500).into_bytes()).collect();
    let noise: Vec<u8> = (0..5_000).map(|_| random() as u8).collect();
    vec![Vec::new(), b"a".to_vec(), vec![b'x'; 30_000], words, noise]
}

/// What a coding's own reader makes of it.
fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let most = 1 << 20;
    match coding {
        Coding::Gzip => members(bytes, most).expect("gzip"),
        Coding::Brotli => {
            let mut out = Vec::new();
            std::io::Read::read_to_end(&mut brotli::Decompressor::new(bytes, 4_096), &mut out).expect("brotli");
            out
        }
        Coding::Zstd => {
            let mut out = Vec::with_capacity(most);
            zstd_safe::decompress(&mut out, bytes).expect("zstd");
            out
        }
    }
}

#[test]
fn what_is_encoded_by_the_piece_is_read_again() {
    let mut encoders = Encoders::default();
    for level in 1..=9 {
        let text = &texts()[3];
        for _ in 0..3 {
            let (mut encoder, mut out) = (encoders.take(Coding::Gzip, level).expect("memory"), Vec::new());
            encoder.write(text, &mut out);
            encoder.finish(&mut out);
            encoders.give_back(encoder);
            assert_eq!(decoded(Coding::Gzip, &out), *text, "{level}");
        }
    }
    for coding in Coding::ALL {
        for (text, level) in texts().iter().zip([1, 5, 9, 3, 5]) {
            for piece in [1_000, 1 << 20] {
                let mut encoder = encoders.take(coding, level).expect("memory");
                let mut out = Vec::new();
                for (at, piece) in text.chunks(piece).enumerate() {
                    encoder.write(piece, &mut out);
                    if at % 7 == 3 {
                        encoder.flush(&mut out);
                    }
                }
                encoder.finish(&mut out);
                assert_eq!(decoded(coding, &out), *text, "{coding:?} {level} {piece}");
                // It begins another.
                encoders.give_back(encoder);
            }
        }
    }
    // One that was given up is not used again.
    let idle = encoders.idle();
    let mut encoder = encoders.take(Coding::Gzip, 1).expect("memory");
    encoder.write(b"half a body", &mut Vec::new());
    encoders.give_back(encoder);
    assert_eq!(encoders.idle(), idle - 1);
    for level in 1..=40 {
        encoders.give_back(Encoder::new(Coding::Gzip, level).expect("memory"));
    }
    assert_eq!(encoders.idle(), 16);
}

/// A client that was flushed for can read all that was written.
#[test]
fn what_was_flushed_is_there() {
    for coding in Coding::ALL {
        let (mut encoder, mut out) = (Encoder::new(coding, 6).expect("memory"), Vec::new());
        encoder.write(b"event 1", &mut out);
        encoder.flush(&mut out);
        let told = match coding {
            Coding::Gzip => {
                let (mut gunzip, mut told) = (Gunzip::new(), Vec::new());
                gunzip.read(&out, &mut told, 100).expect("gzip");
                told
            }
            Coding::Brotli => {
                let mut told = vec![0; 7];
                std::io::Read::read_exact(&mut brotli::Decompressor::new(&*out, 1), &mut told).expect("brotli");
                told
            }
            Coding::Zstd => {
                let mut told = vec![0; 100];
                let mut room = zstd_safe::OutBuffer::around(&mut *told);
                let mut context = zstd_safe::DCtx::create();
                context.decompress_stream(&mut room, &mut zstd_safe::InBuffer::around(&out)).expect("zstd");
                let length = room.pos();
                told.truncate(length);
                told
            }
        };
        assert_eq!(told, b"event 1", "{coding:?}");
    }
}

#[test]
fn whole_bodies_are_about_as_long_as_those_by_the_piece() {
    let mut whole = Whole::default();
    for coding in Coding::ALL {
        for text in texts() {
            let mut out = b"before".to_vec();
            assert!(whole.encode(coding, 6, &text, &mut out));
            assert_eq!(decoded(coding, &out[6..]), text, "{coding:?}");
            let (mut encoder, mut pieces) = (Encoder::new(coding, 6).expect("memory"), Vec::new());
            text.chunks(8_192).for_each(|piece| encoder.write(piece, &mut pieces));
            encoder.finish(&mut pieces);
            assert!(out.len() - 6 <= pieces.len() + pieces.len() / 16 + 16, "{} {}", out.len(), pieces.len());
        }
    }
    assert_eq!(members(&member(b"a line\n", 9), 100).as_deref(), Ok(&b"a line\n"[..]));
}

#[test]
fn gzip_files_are_read_by_the_piece() {
    for text in texts() {
        let mut file = member(&text, 6);
        // Two members, as of a log.
        file.extend(member(b"more", 1));
        for (piece, most) in [(1, 100), (777, 5_000), (1 << 20, 1_000)] {
            if piece == 1 && file.len() > 3_000 {
                continue;
            }
            let (mut gunzip, mut out) = (Gunzip::new(), Vec::new());
            for piece in file.chunks(piece) {
                let mut at = 0;
                loop {
                    let before = out.len();
                    let taken = gunzip.read(&piece[at..], &mut out, most).expect("gzip");
                    at += taken.bytes;
                    assert!(out.len() - before <= most);
                    if !taken.more && at == piece.len() {
                        break;
                    }
                }
            }
            assert!(gunzip.may_end());
            assert_eq!(out, [&text[..], b"more"].concat());
        }
    }
    let mut out = Vec::new();
    assert_eq!(Gunzip::new().read(b"plain text", &mut out, 100), Err(NotGzip));
    let file = member(b"text", 6);
    let mut gunzip = Gunzip::new();
    gunzip.read(&file[..file.len() - 1], &mut out, 100).expect("so far");
    assert!(!gunzip.may_end(), "a byte is missing");
    assert_eq!(members(&file, 3), Err(NotGzip));
    assert_eq!(members(&file[..9], 100), Err(NotGzip));
}
