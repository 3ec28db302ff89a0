//! Whatever comes: nothing panics, and what is held keeps its bounds.

use super::*;
use random::SplitMix64;

/// A frame, mostly one that may be.
fn some_frame(random: &mut SplitMix64, world: &mut World, next: &mut u32) -> Vec<u8> {
    let open = world.server.streams();
    // Mostly one that is open.
    let stream = match random.below(12) {
        0 => 2 * random.below(1 + *next as usize / 2) as u32 + 1,
        _ => open.get(random.below(open.len().max(1))).map_or(1, |one| one.number),
    };
    if open.is_empty() || random.below(400) == 0 {
        *next += 2;
        return world.headers(*next - 2, &POST, false);
    }
    let length = [0, 1, 7, 100, 3_000][random.below(5)];
    let payload: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
    match random.below(16) {
        0..=4 => {
            *next += 2;
            let fields = [&GET[..], &[("content-length", "100"), ("a", "b")][..random.below(3)]].concat();
            let fields = if random.below(9) == 0 { &fields[..random.below(fields.len())] } else { &fields[..] };
            world.headers(*next - 2, fields, random.below(2) == 0)
        }
        5..=8 if random.below(20) > 0 => frame_of(Kind::Data, [0, 0, 0, 1][random.below(4)], stream, &payload),
        5..=8 => frame_of(Kind::Data, frame::PADDED | random.below(2) as u8, stream, &payload),
        9 => frame_of(Kind::Reset, 0, stream, &[0; 4]),
        10 => frame_of(Kind::WindowUpdate, 0, if random.below(2) == 0 { 0 } else { stream }, &[0, 0, 100, 0]),
        11 => {
            let mut out = Vec::new();
            let most = if random.below(20) == 0 { 5 } else { 4 };
            let value = [0, 10, 65_535, 100_000, WINDOW_MAX][random.below(most)];
            frame::write_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, value)]);
            out
        }
        12 => world.headers(stream, &[("trailer", "a")], random.below(4) > 0),
        13 => frame_of(Kind::Ping, 0, 0, &[0; 8]),
        14 => frame_of(Kind::PriorityUpdate, 0, 0, &[&stream.to_be_bytes()[..], b"u=2, i"].concat()),
        _ if random.below(20) > 0 => frame_of(Kind::Other(9 + 90 * random.below(2) as u8 + 1), 0, stream, &payload),
        _ => {
            let kinds = [Kind::Headers, Kind::Settings, Kind::GoAway, Kind::Continuation, Kind::Priority];
            frame_of(kinds[random.below(5)], random.below(64) as u8, stream, &payload)
        }
    }
}

/// The same events, however bytes are cut into pieces; what is written is whole frames; a stream ends
/// once; bodies are as long as they were told to be; what is over is not told of.
#[test]
fn random_frames_mean_the_same_in_any_pieces() {
    let (mut requests, mut failures, mut bodies) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = SplitMix64::new(seed);
        let (mut whole, mut pieces) = (World::new(), World::new());
        let mut next = 1;
        let mut open: std::collections::BTreeMap<u32, (bool, Option<u64>)> = std::collections::BTreeMap::new();
        for _ in 0..60 {
            let bytes = some_frame(&mut random, &mut whole, &mut next);
            let seen = whole.offer_some(&bytes).0;
            let mut again: Vec<Seen> = Vec::new();
            let (mut start, mut end) = (0, 0);
            while end < bytes.len() {
                end = (end + 1 + random.below(40)).min(bytes.len());
                let (more, taken) = pieces.offer_some(&bytes[start..end]);
                start += taken;
                more.into_iter().for_each(|one| join(&mut again, one));
            }
            let mut joined = Vec::new();
            seen.iter().cloned().for_each(|one| join(&mut joined, one));
            assert_eq!(again, joined, "seed {seed}");
            for one in &joined {
                match one {
                    Seen::Request { stream, length, ends, .. } => {
                        assert!(open.insert(*stream, (*ends, *length)).is_none());
                        requests += 1;
                    }
                    Seen::Refused { stream, .. } => _ = open.insert(*stream, (false, None)),
                    Seen::Body { stream, bytes, ends } => {
                        let (ended, left) = open.get_mut(stream).expect("an open one");
                        assert!(!core::mem::replace(ended, *ends));
                        if let Some(left) = left {
                            *left = left.checked_sub(bytes.len() as u64).expect("no more than was told");
                            assert!(!ends || *left == 0);
                        }
                        bodies += 1;
                    }
                    Seen::Trailers { stream, .. } => {
                        let (ended, left) = open.get_mut(stream).expect("an open one");
                        assert!(!core::mem::replace(ended, true) && left.unwrap_or(0) == 0);
                    }
                    Seen::Reset(stream) => _ = open.remove(stream),
                    Seen::Failed(_) => failures += 1,
                    Seen::Prioritized(_) | Seen::Ponged | Seen::Malformed(_) => {}
                }
            }
            if matches!(joined.last(), Some(Seen::Failed(_))) {
                break;
            }
            // Some are answered.
            if random.below(3) == 0
                && let Some(stream) =
                    whole.server.streams().iter().map(|one| one.number).find(|one| open.contains_key(one))
            {
                open.remove(&stream);
                for world in [&mut whole, &mut pieces] {
                    let room = world.server.room(stream).min(1_000);
                    world.out.extend_from_slice(&world.server.data(stream, room, true));
                    world.out.extend(core::iter::repeat_n(0, room));
                    world.server.end_soon(stream);
                }
            }
            assert_eq!(whole.written(), pieces.written(), "seed {seed}");
        }
    }
    assert!(requests > 2_000 && failures > 100 && bodies > 300, "{requests} {failures} {bodies}");
}

/// Pieces of one body are one piece.
fn join(all: &mut Vec<Seen>, one: Seen) {
    if let (Some(Seen::Body { stream, bytes, ends }), Seen::Body { stream: of, bytes: more, ends: last }) =
        (all.last_mut(), &one)
        && *stream == *of
        && !*ends
    {
        bytes.extend_from_slice(more);
        *ends = *last;
        return;
    }
    all.push(one);
}

#[test]
fn random_bytes_end_no_more_than_their_connection() {
    for seed in 0..2_000 {
        let mut random = SplitMix64::new(seed);
        let mut world = World::new();
        let bytes: Vec<u8> =
            (0..random.below(600)).map(|_| random.below(256) as u8 & [255, 15, 1][random.below(3)]).collect();
        let _ = world.offer_some(&bytes);
        world.written();
    }
}
