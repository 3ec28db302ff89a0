//! Windows, both ways (RFC 9113 sections 5.2 and 6.9).

use super::*;

fn update(stream: u32, increment: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_window_update(&mut out, stream, increment);
    out
}

fn first_window(window: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, window)]);
    out
}

#[test]
fn what_may_be_sent_is_the_least_of_two_windows() {
    let first = FIRST_WINDOW as usize;
    let mut world = World::new();
    world.get(1);
    world.get(3);
    assert_eq!(world.server.room(1), first);
    assert_eq!(world.server.data(1, 60_000, false)[..3], [0, 0xea, 0x60]);
    assert_eq!((world.server.room(1), world.server.room(3)), (first - 60_000, first - 60_000));
    world.offer(&update(0, 100_000));
    assert_eq!((world.server.room(1), world.server.room(3)), (first - 60_000, first));
    // Less than nothing, until it is more again (section 6.9.2).
    world.offer(&first_window(10_000));
    assert_eq!((world.server.room(1), world.server.room(3)), (0, 10_000));
    world.offer(&update(1, 50_001));
    assert_eq!(world.server.room(1), 1);
    world.offer(&first_window(20_000));
    assert_eq!((world.server.room(1), world.server.room(3)), (10_001, 20_000));
    world.get(5);
    assert_eq!((world.server.room(5), world.server.room(7)), (20_000, 0));
}

#[test]
fn windows_have_an_end() {
    let mut world = World::new();
    world.get(1);
    assert_eq!(world.offer(&update(1, WINDOW_MAX)), [Seen::Reset(1)]);
    assert_eq!(world.resets(), [(1, ErrorCode::FLOW_CONTROL_ERROR)]);
    assert_eq!(world.offer(&update(0, WINDOW_MAX)), [failed(ErrorCode::FLOW_CONTROL_ERROR)]);
    let mut world = World::new();
    world.get(1);
    world.offer(&update(1, WINDOW_MAX - FIRST_WINDOW));
    assert_eq!(world.offer(&first_window(FIRST_WINDOW + 1)), [failed(ErrorCode::FLOW_CONTROL_ERROR)]);
}

/// What nobody reads does not come, and what is read opens more.
#[test]
fn a_body_opens_its_window_as_it_is_read() {
    let mut world = World::new();
    world.post(1);
    let piece = [7; 16_384];
    for _ in 0..4 {
        assert_eq!(world.offer(&data(1, &piece, false)).len(), 1);
    }
    assert_eq!(world.given(), [], "nothing was read");
    let mut out = Vec::new();
    world.server.give_back(1, 10_000, &mut out);
    assert!(out.is_empty(), "little was read");
    world.server.give_back(1, 55_536, &mut out);
    world.out = out;
    // What was read, and as much again: a reader that keeps up is sent more within a round trip.
    assert_eq!(world.given(), [(1, 131_072)]);
    let mut world = World::new();
    world.post(1);
    for _ in 0..4 {
        world.offer(&data(1, &piece, false));
    }
    assert_eq!(world.offer(&data(1, b"x", false)), [Seen::Reset(1)]);
    assert_eq!(world.resets(), [(1, ErrorCode::FLOW_CONTROL_ERROR)]);
}

/// What windows have grown by is bounded, for one stream and for all.
#[test]
fn windows_grow_up_to_a_bound() {
    let mut world = World::new();
    for stream in (1..41).step_by(2) {
        world.post(stream);
    }
    let mut open = std::collections::BTreeMap::new();
    for round in 0..200 {
        for stream in (1..41).step_by(2) {
            let left: &mut i64 = open.entry(stream).or_insert(65_536);
            while *left >= 16_384 {
                world.offer(&data(stream, &[1; 16_384], false));
                *left -= 16_384;
                let mut out = Vec::new();
                world.server.give_back(stream, 16_384, &mut out);
                world.out.extend_from_slice(&out);
            }
        }
        for (stream, increment) in world.given() {
            if stream > 0 {
                *open.get_mut(&stream).expect("one") += i64::from(increment);
            }
        }
        let all: i64 = open.values().sum();
        assert!(all <= (20 << 16) + (4 << 20), "{round}: {all}");
        assert!(open.values().all(|left| *left <= 1 << 20));
    }
    let grown: i64 = open.values().sum();
    assert!(grown > 5 << 20, "as far as they may: {open:?}");
    // A stream that is over gives back what it had.
    for stream in (1..41).step_by(2) {
        world.offer(&frame_of(Kind::Reset, 0, stream, &[0; 4]));
    }
    assert_eq!(world.server.grown, 0);
}

/// Bodies of streams that are over, padding and frames of nobody count for the connection.
#[test]
fn the_connections_window_is_given_back_whoever_reads() {
    let mut world = World::new();
    world.post(1);
    let (mut out, piece) = (Vec::new(), vec![0; 16_384]);
    world.server.reset(1, ErrorCode::CANCEL, &mut out);
    for _ in 0..63 {
        assert_eq!(world.offer(&data(1, &piece, false)), []);
    }
    assert_eq!(world.given(), []);
    world.offer(&data(1, &piece, false));
    assert_eq!(world.given(), [(0, 1 << 20)]);
}

/// Where less than a first window may come before a body is read (`http2_body_preread_size`), who does not know that
/// yet is to ask again, and whose body is read may send as much as others.
#[test]
fn a_window_that_begins_small_opens_for_whoever_reads() {
    for small in [0, 1, 1_000] {
        let mut world = World::new();
        world.server.settings.window = small;
        world.post(1);
        assert_eq!(world.resets(), [(1, ErrorCode::REFUSED_STREAM)], "{small}");
        world.get(3);
        assert_eq!(world.resets(), [], "one without a body is taken");
        world.offer(&frame_of(Kind::Settings, frame::ACK, 0, &[]));
        world.post(5);
        let mut out = Vec::new();
        world.server.open_window(5, &mut out);
        world.server.open_window(5, &mut out);
        world.out = out;
        assert_eq!(world.given(), [(5, 65_536 - small)], "{small}, once");
        assert!(matches!(&world.offer(&data(5, &[1; 16_384], true))[..], [Seen::Body { ends: true, .. }]));
        world.server.reset(5, ErrorCode::NO_ERROR, &mut Vec::new());
        assert_eq!(world.server.grown, 0);
    }
    // However many are read at once, each has some.
    let mut world = World::new();
    world.server.settings.window = 0;
    world.offer(&frame_of(Kind::Settings, frame::ACK, 0, &[]));
    let streams: Vec<u32> = (1..201).step_by(2).collect();
    for stream in &streams {
        world.post(*stream);
    }
    streams.iter().for_each(|stream| world.server.open_window(*stream, &mut world.out));
    let given = world.given();
    assert_eq!(given.len(), streams.len());
    assert!(given.iter().all(|(_, bytes)| *bytes >= 16 << 10), "{given:?}");
}

/// What was on its way to streams that were reset is passed over, however many they were (RFC 9113 section 5.1).
#[test]
fn what_comes_for_streams_that_were_reset_ends_nothing() {
    let mut world = World::new();
    for stream in (1..201).step_by(2) {
        world.post(stream);
    }
    for stream in (1..201).step_by(2) {
        world.server.reset(stream, ErrorCode::NO_ERROR, &mut Vec::new());
    }
    for _ in 0..8 {
        for stream in (1..201).step_by(2) {
            assert_eq!(world.offer(&data(stream, &[1; 1_000], false)), [], "{stream}");
        }
    }
    assert_eq!(world.resets(), []);
    world.get(201);
}
