//! A sealed queue sends the same bytes for the same place, whatever is asked of it and in
//! whatever pieces, and its records carry what was queued.

use super::*;
use seal::{ContentType, Layer, Unsealed};
use std::collections::HashMap;

const OVERHEAD: u16 = 22;

fn random_from(mut state: u64) -> impl FnMut(u32) -> u32 {
    move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % n.max(1)
    }
}

/// The plaintext behind a header with its length, number and kind, and nothing secret.
#[derive(Default)]
struct Cipher {
    seen: HashMap<(u8, u64), Vec<u8>>,
    sealed: u64,
}

impl Cipher {
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        let text = parts.concat();
        assert_eq!(out.len(), text.len() + usize::from(OVERHEAD), "just the room that it takes");
        assert!(text.len() <= seal::MAX_PLAINTEXT);
        out.fill(0xcc);
        out[0] = record.kind as u8;
        out[1..5].copy_from_slice(&(text.len() as u32).to_le_bytes());
        out[5] = record.epoch;
        out[6..14].copy_from_slice(&record.number.to_le_bytes());
        for (to, from) in out[22..].iter_mut().zip(&text) {
            *to = from ^ 0x5a;
        }
        self.sealed += out.len() as u64;
        let before = self.seen.entry((record.epoch, record.number)).or_insert_with(|| out.to_vec());
        assert_eq!(before, out, "{record:?} is sealed as something else");
        Ok(())
    }
}

impl Layer for Cipher {
    fn overhead(&self) -> usize {
        OVERHEAD.into()
    }
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        Self::seal(self, record, parts, out)
    }
    fn next_epoch(&mut self) -> Result<u8, SealError> {
        Err(SealError::NoUpdate)
    }
    fn forget(&mut self, _: u8) {}
    fn open(&mut self, _: &[u8], _: &mut Vec<u8>) -> Unsealed {
        Unsealed::Failed(None)
    }
}

/// Both ends of a connection's one direction, without a network between.
struct Ends {
    rope: Rope,
    bench: Workbench,
    cipher: Cipher,
    /// Sent and not acknowledged.
    in_flight: u32,
    /// All that was ever sent, by its place.
    wire: Vec<u8>,
    acked: usize,
    segment: u16,
    plain: Vec<u8>,
    /// What may leave beside a segment.
    ahead: u32,
    /// Pieces so far: some have the same turn.
    pieces: u32,
}

impl Ends {
    fn new(segment: u16, most: u16) -> Self {
        let mut rope = Rope::EMPTY;
        rope.secure((OVERHEAD, most), segment, 1 << 24);
        let (bench, cipher) = (Workbench::default(), Cipher::default());
        let (wire, plain) = (Vec::new(), Vec::new());
        Self { rope, bench, cipher, in_flight: 0, wire, acked: 0, segment, plain, ahead: 0, pieces: 0 }
    }

    fn queue(&mut self, bytes: &[u8]) {
        self.rope.push_bytes(bytes).unwrap();
        self.plain.extend_from_slice(bytes);
    }

    fn out(&mut self, offset: u32, len: u32) -> Vec<u8> {
        let mut out = vec![0; len as usize];
        let Self { rope, bench, cipher, .. } = self;
        let sum = rope.seal_out(offset, &mut out, bench, cipher);
        assert_eq!(sum.unwrap().finish(), checksum::sum(&out).finish());
        self.pieces += 1;
        if self.pieces % 4 > 1 {
            rope.keep_begun(bench);
        }
        out
    }

    /// Sends a piece of at most `most` bytes. Returns its length.
    fn send(&mut self, most: u32, large: bool) -> u32 {
        let waiting = self.rope.len() - self.in_flight;
        let len = waiting.min(most);
        if len == 0 {
            return 0;
        }
        let ahead = if large { 0 } else { self.ahead };
        let len = self.rope.fix(self.in_flight, len, (ahead, large));
        assert!(len > 0 && len <= most, "{len} of {most}");
        let piece = self.out(self.in_flight, len);
        self.wire.extend_from_slice(&piece);
        self.in_flight += len;
        assert!(self.rope.len() >= self.in_flight);
        len
    }

    fn again(&mut self, offset: u32, len: u32) {
        let piece = self.out(offset, len);
        let at = self.acked + offset as usize;
        assert_eq!(piece, self.wire[at..at + len as usize], "sent again as something else");
    }

    fn acknowledge(&mut self, n: u32) {
        self.rope.release(u64::from(n));
        self.in_flight -= n;
        self.acked += n as usize;
    }

    /// What the records carry: kind, epoch, number, plaintext.
    fn records(&self) -> Vec<(u8, u8, u64, Vec<u8>)> {
        let mut rest = &self.wire[..];
        let mut records = Vec::new();
        while !rest.is_empty() {
            let len = u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize;
            let number = u64::from_le_bytes(rest[6..14].try_into().unwrap());
            let text = rest[22..22 + len].iter().map(|byte| byte ^ 0x5a).collect();
            records.push((rest[0], rest[5], number, text));
            rest = &rest[22 + len..];
        }
        records
    }

    fn drain(&mut self) {
        while self.send(u32::from(self.segment), false) > 0 {}
        self.acknowledge(self.in_flight);
        assert!(self.rope.is_empty());
        assert_eq!((self.rope.len(), self.rope.plain_len()), (0, 0));
    }
}

/// Whatever is queued, sent, sent again, acknowledged, taken back, and whatever segments and
/// windows are: the records carry it, in order, and each is sealed as one thing alone.
#[test]
fn records_are_never_cut_anew() {
    let mut random = random_from(11);
    for round in 0..300 {
        let mut ends = Ends::new(64 + random(1_500) as u16, if round % 3 == 0 { 100 } else { 16_384 });
        let mut shared = vec![0; 5_000];
        shared.iter_mut().for_each(|byte| *byte = random(256) as u8);
        let body = app::Body::new(shared.clone());
        for _ in 0..120 {
            match random(11) {
                0 => {
                    let (start, len) = (random(2_000), random(3_000));
                    ends.rope.push(&body, start, len).unwrap();
                    ends.plain.extend_from_slice(&shared[start as usize..(start + len) as usize]);
                }
                1 => {
                    let bytes = vec![random(256) as u8; random(300) as usize];
                    ends.queue(&bytes);
                }
                2 => {
                    let back = ends.rope.take_back(random(400)) as usize;
                    ends.plain.truncate(ends.plain.len() - back);
                }
                3 => {
                    let n = random(ends.in_flight + 1);
                    ends.acknowledge(n);
                }
                4 => {
                    ends.segment = 64 + random(1_500) as u16;
                    let segment = ends.segment;
                    ends.rope.set_segment(segment);
                }
                5 if ends.in_flight > 0 => {
                    let offset = random(ends.in_flight);
                    let len = 1 + random(ends.in_flight - offset);
                    ends.again(offset, len);
                }
                // A window of any size, or a link that cuts segments itself.
                6 => _ = ends.send(1 + random(100), false),
                7 => _ = ends.send(1 + random(60_000), true),
                8 => ends.ahead = random(40_000),
                _ => _ = ends.send(u32::from(ends.segment), false),
            }
        }
        ends.drain();
        let records = ends.records();
        assert!(records.iter().enumerate().all(|(index, record)| record.2 == index as u64));
        let carried: Vec<u8> = records.into_iter().flat_map(|record| record.3).collect();
        assert_eq!(carried, ends.plain);
    }
}

/// Full segments are one record each, and nothing is sealed twice for them.
#[test]
fn a_segment_is_a_record() {
    let mut ends = Ends::new(1_448, 16_384);
    ends.queue(&vec![7; 100_000]);
    for _ in 0..40 {
        assert_eq!(ends.send(1_448, false), 1_448);
    }
    assert_eq!(ends.cipher.sealed, 40 * 1_448);
    assert!(ends.records().iter().all(|record| record.3.len() == 1_426));
    let run = size_of::<crate::ledger::Run>();
    assert!(run <= 32, "one run is all of it: {run}");
    // A link that cuts segments gets long ones, which end with the piece.
    let before = ends.records().len();
    assert_eq!(ends.send(40 * 1_448, true), ends.wire.len() as u32 - 40 * 1_448);
    let lengths: Vec<_> = ends.records().drain(before..).map(|record| record.3.len()).collect();
    assert_eq!(lengths, [16_384, 16_384, 10_192]);
}

/// Where several segments may leave at once, a record is for as many as it takes, ends where one
/// of them does, and is sealed once for all of them, also where they leave in several turns.
#[test]
fn a_record_is_for_several_segments() {
    let mut ends = Ends::new(1_448, 16_384);
    ends.queue(&vec![7; 100_000]);
    let mut sent = 0;
    for ahead in [1_448, 1_449, 2_895, 2_896, 15_000, 15_928, 16_500, 60_000, 60_000] {
        // As much of it may leave as before it began.
        ends.ahead = ahead;
        let record = sent;
        while sent == record || ends.rope.records_mut().unwrap().ledger.fixed() > ends.in_flight {
            sent += ends.send(1_448, false);
        }
    }
    let lengths: Vec<_> = ends.records().into_iter().map(|record| record.3.len() + 22).collect();
    let segments = lengths.iter().map(|len| len / 1_448).collect::<Vec<_>>();
    assert_eq!((segments, lengths.iter().all(|len| len % 1_448 == 0)), (vec![1, 1, 1, 2, 10, 11, 11, 11, 11], true));
    assert_eq!(ends.cipher.sealed, u64::from(ends.in_flight));
    // What is left is less than a record takes.
    ends.queue(&[7; 40]);
    while ends.send(1_448, false) > 0 {}
    ends.acknowledge(ends.in_flight);
    assert!(ends.rope.is_empty() && !ends.rope.is_overworked());
}

/// What was queued before goes out as it is; messages of the data path have their places.
#[test]
fn messages_have_their_places() {
    let mut rope = Rope::EMPTY;
    rope.push_bytes(b"finished").unwrap();
    let mut ends = Ends { rope, ..Ends::new(1_448, 16_384) };
    ends.rope.secure((OVERHEAD, 16_384), 1_448, 1 << 24);
    assert_eq!((ends.rope.len(), ends.rope.plain_len()), (8, 8));
    ends.queue(b"one");
    assert_eq!(ends.rope.take_back(100), 3, "none of what goes out as it is");
    ends.plain.truncate(0);
    ends.queue(b"one");
    ends.send(1_448, false);
    assert!(ends.wire.starts_with(b"finished"));
    ends.queue(b"two");
    ends.rope.say(Message::KeyUpdate);
    ends.rope.begin_epoch(1);
    assert_eq!(ends.rope.epochs(), Some((1, 0, 0)));
    ends.rope.end(Message::CloseNotify);
    ends.drain();
    assert_eq!(ends.rope.epochs(), Some((1, 2, 1)));
    ends.rope.say(Message::KeyUpdate);
    assert!(ends.rope.is_empty(), "nothing is said after the end");
    ends.wire.drain(..8);
    let (text, handshake, alert) =
        (ContentType::ApplicationData as u8, ContentType::Handshake as u8, ContentType::Alert as u8);
    let expected = [
        (text, 0, 0, b"one".to_vec()),
        (handshake, 0, 1, vec![24, 0, 0, 1, 0]),
        (text, 1, 0, b"two".to_vec()),
        (alert, 1, 1, vec![1, 0]),
    ];
    assert_eq!(ends.records(), expected);
}

/// Records that are repaired in parts, in order, cost one sealing each; and who has parts
/// sent without order is found out.
#[test]
fn parts_have_a_price() {
    let mut ends = Ends::new(1_448, 16_384);
    ends.queue(&vec![1; 200_000]);
    while ends.send(1_448, false) > 0 {}
    let before = ends.cipher.sealed;
    // The path takes segments of 64 bytes from now on.
    ends.rope.set_segment(64);
    let mut at = 0;
    while at < ends.in_flight {
        let len = 64.min(ends.in_flight - at);
        ends.again(at, len);
        at += len;
    }
    let cost = ends.cipher.sealed - before;
    assert!(cost <= u64::from(ends.in_flight), "{cost} for {}", ends.in_flight);
    assert!(!ends.rope.is_overworked());
    for round in 0..40 {
        for record in 0..100 {
            ends.again(record * 1_448 + round * 7, 1);
        }
    }
    assert!(ends.rope.is_overworked(), "{:?}", ends.rope.sealing());
    // And small ones from the start are records of their own.
    let mut small = Ends::new(64, 16_384);
    small.queue(&vec![1; 10_000]);
    small.drain();
    assert_eq!(small.rope.sealing().0, small.rope.sealing().1);
}

/// A record of many pieces is put together, and one in a few is not.
#[test]
fn pieces_make_one_record() {
    for pieces in [1, PARTS, PARTS + 1, 100] {
        let mut ends = Ends::new(1_448, 16_384);
        for piece in 0..pieces {
            let body = app::Body::new(vec![piece as u8; 10]);
            ends.rope.push(&body, 0, 10).unwrap();
            ends.plain.extend_from_slice(body.as_slice());
        }
        ends.drain();
        assert_eq!(ends.records().len(), 1);
        assert_eq!(ends.records()[0].3, ends.plain);
    }
}

/// The one record that all of a queue goes out as is the one that would be cut otherwise, to the
/// last byte, and leaves the same behind; and where that would be more or less than one, none is.
#[test]
fn a_single_record_is_the_one_that_is_cut_otherwise() {
    let mut random = random_from(11);
    let (mut taken, mut left) = (0, 0);
    for _ in 0..4_000 {
        let segment = [70, 536, 1_448][random(3) as usize];
        let mut ends = Ends::new(segment, [64, 16_384][random(2) as usize]);
        let number = [0, 100, (1 << 24) - crate::ledger::KEYS_WEAR][random(3) as usize];
        ends.rope.records_mut().unwrap().ledger.skip_to(number);
        for _ in 0..random(4) {
            let most = [40, 700][random(2) as usize];
            let body = app::Body::copied(&vec![random(256) as u8; random(most) as usize]);
            ends.rope.push(&body, 0, body.len()).unwrap();
        }
        match random(8) {
            0 => _ = ends.send(random(1_448) + 1, false),
            1 => ends.rope.say(Message::KeyUpdate),
            2 => ends.rope.end(Message::CloseNotify),
            _ => {}
        }
        let (mut single, mut usual) = (ends.rope.clone(), ends.rope.clone());
        let Some(fixed) = single.fix_single(0, 50 + random(2_000)) else {
            assert!(single.is_same(&usual), "nothing is fixed where nothing is taken");
            left += 1;
            continue;
        };
        taken += 1;
        let len = fixed.wire();
        let waiting = usual.len() - ends.in_flight;
        assert_eq!((len, usual.fix(ends.in_flight, waiting, (random(4_000), random(2) == 0))), (waiting, waiting));
        let mut out = [vec![0; len as usize], vec![0; len as usize]];
        let Ends { bench, cipher, .. } = &mut ends;
        let one = single.seal_single(fixed, &mut out[0], bench, cipher).unwrap();
        let other = usual.seal_out(0, &mut out[1], bench, cipher);
        assert_eq!((out[0] == out[1], one.finish()), (true, other.unwrap().finish()));
        assert!(single.is_same(&usual));
        if random(2) == 0 {
            let body = app::Body::copied(b"more");
            single.push(&body, 0, 4).unwrap();
            usual.push(&body, 0, 4).unwrap();
        }
        let acked = if random(3) == 0 { random(len) } else { len };
        single.release_single(acked);
        usual.release(u64::from(acked));
        assert!(single.is_same(&usual));
        assert_eq!(single.plain_len(), single.slices().map(|slice| slice.len() as u32).sum::<u32>());
    }
    assert!(taken > 400 && left > 400, "{taken} {left}");
}
