//! Films that are cut (`mp4`).

#[path = "../../../../web/mp4/tests/support/film.rs"]
mod film;

use crate::Target;
use core::num::NonZeroU64;
use film::{Plan, film};
use mp4::{Cut, Cutter, Rules, Span, Step};
use random::SplitMix64;

pub(crate) const TARGET: Target = Target {
    name: "mp4_cut",
    about: "a film is cut or refused after few reads, and what is sent lies within the file and is as long as it says",
    run,
    seeds,
    dictionary: &[
        b"\0\0\0\x01",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"ftyp",
        b"moov",
        b"mdat",
        b"mvhd",
        b"trak",
        b"tkhd",
        b"mdia",
        b"mdhd",
        b"minf",
        b"stbl",
        b"stsd",
        b"stts",
        b"stss",
        b"ctts",
        b"stsc",
        b"stsz",
        b"stco",
        b"co64",
        b"cmov",
        b"free",
    ],
    test_runs: 20_000,
    max_len: 3_000,
};

/// Bytes of an input that say from when to when, and by which rules.
const HEAD: usize = 5;

/// The number of reads that the boxes of a file can need.
const READS_MAX: usize = 4_100;

fn run(input: &[u8]) {
    let Some((&[start_high, start, length_high, length, rules], file)) = input.split_first_chunk::<HEAD>() else {
        return;
    };
    let milliseconds = |high: u8, low: u8| u64::from(u16::from_be_bytes([high, low]));
    let span =
        Span { start: milliseconds(start_high, start), length: NonZeroU64::new(milliseconds(length_high, length)) };
    let rules = Rules {
        buffer: if rules & 2 == 0 { 512 << 10 } else { 200 },
        largest_moov: if rules & 4 == 0 { 10 << 20 } else { 1_000 },
        start_key_frame: rules & 1 == 1,
    };
    let mut cutter = Cutter::new(rules, span, file.len() as u64);
    for _ in 0..READS_MAX {
        match cutter.poll() {
            Ok(Step::Read(range)) => {
                assert!(range.start < range.end, "something is read");
                cutter.on_read(file[range.start as usize..range.end as usize].to_vec());
            }
            Ok(Step::Whole) => return,
            Ok(Step::Cut(cut)) => return check(&cut, file),
            Err(why) => {
                assert!(!why.told(b"f").is_empty());
                return;
            }
        }
    }
    panic!("it reads on");
}

/// Boxes of what is sent follow each other up to its end.
fn check(Cut { head, media }: &Cut, file: &[u8]) {
    assert!(media.start < media.end && media.end <= file.len() as u64, "{media:?}");
    assert!(head.len() <= file.len() + 4_096);
    let end = head.len() as u64 + media.end - media.start;
    let mut at = 0;
    while at < head.len() as u64 {
        let four: [u8; 4] = head[at as usize..at as usize + 4].try_into().expect("four bytes");
        let size = u64::from(u32::from_be_bytes(four));
        assert!(size >= 8, "a box at {at} has {size} bytes");
        at += size;
    }
    assert_eq!(at, end);
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |seed| {
        let (film, _) = film(&mut SplitMix64::new(seed), Plan { tracks: 2, samples: 20, sample_bytes: 20 });
        [&[0, 200, if seed % 2 == 0 { 1 } else { 0 }, 0, seed as u8][..], &film].concat()
    };
    (0..8).map(seed).collect()
}
