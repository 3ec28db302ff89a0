//! Floods: each is counted by its name, and ends its connection.

use super::*;

/// Offers what `make` makes of each number until the connection ends; how many that took.
fn until_it_ends(world: &mut World, mut make: impl FnMut(&mut World, u32) -> Vec<u8>) -> (u32, Seen) {
    for count in 0..2_000_000 {
        let bytes = make(world, count);
        let seen = world.offer_some(&bytes).0;
        if let Some(Seen::Failed(failure)) = seen.last() {
            let Some((Kind::GoAway, _, _, payload)) = world.written().pop() else { panic!("a word") };
            assert_eq!(number(&payload[4..]), ErrorCode::ENHANCE_YOUR_CALM.0);
            return (count, Seen::Failed(*failure));
        }
        world.out.clear();
    }
    panic!("it goes on")
}

type Begin = fn(&mut World);
type Make = fn(&mut World, u32) -> Vec<u8>;

/// What each flood begins with, its frame by number, and how many of that are taken.
fn floods() -> [(Flood, Begin, Make, u32); 11] {
    let post_once: Begin = |world| _ = world.post(1);
    let nothing: Begin = |_| ();
    [
        (
            Flood::RapidReset,
            nothing,
            |world, count| {
                let stream = 2 * count + 1;
                [world.headers(stream, &GET, true), frame_of(Kind::Reset, 0, stream, &[0; 4])].concat()
            },
            512,
        ),
        (
            // CVE-2025-8671: a window of nothing more, of streams that are answered.
            Flood::MadeReset,
            nothing,
            |world, count| {
                let stream = 2 * count + 1;
                [world.headers(stream, &GET, true), frame_of(Kind::WindowUpdate, 0, stream, &[0; 4])].concat()
            },
            128,
        ),
        (
            Flood::Continuation,
            |world| _ = world.offer(&frame_of(Kind::Headers, 0, 1, b"")),
            |_, _| frame_of(Kind::Continuation, 0, 1, b""),
            64,
        ),
        (Flood::Settings, nothing, |_, _| frame_of(Kind::Settings, 0, 0, b""), 63),
        (Flood::Ping, nothing, |_, _| frame_of(Kind::Ping, 0, 0, &[0; 8]), 1_000),
        (Flood::Priority, nothing, |_, count| frame_of(Kind::Priority, 0, 2 * count + 3, &[0, 0, 0, 1, 9]), 1_000),
        (
            Flood::Priority,
            nothing,
            |_, count| frame_of(Kind::PriorityUpdate, 0, 0, &[&(2 * count + 1).to_be_bytes()[..], b"u=1"].concat()),
            // Those that never come count twice.
            508,
        ),
        (Flood::Empty, post_once, |_, _| data(1, b"", false), 256),
        (Flood::Padding, post_once, |_, _| frame_of(Kind::Data, frame::PADDED, 1, b"\x02\0\0"), 256),
        (Flood::Window, post_once, |_, _| frame_of(Kind::WindowUpdate, 0, 1, &[0, 0, 0, 1]), 4_000),
        (
            Flood::Table,
            nothing,
            |world, count| {
                let block = [&[0x20, 0x3f, 0xe1, 0x1f][..], &world.block(&GET)].concat();
                let (stream, mut bytes) = (2 * count + 1, Vec::new());
                frame::write_headers(&mut bytes, stream, &block, true, 16_384);
                if count > 0 {
                    world.server.end_soon(stream - 2);
                }
                bytes
            },
            256,
        ),
    ]
}

#[test]
fn each_flood_ends_its_connection() {
    for (flood, begin, make, most) in floods() {
        let mut world = World::new();
        begin(&mut world);
        let (count, seen) = until_it_ends(&mut world, make);
        assert_eq!((seen, count), (flooded(flood), most), "{}", flood.name());
        // Slowly it is none.
        let mut world = World::new();
        begin(&mut world);
        for count in 0..2 * most {
            world.second += 1;
            let bytes = make(&mut world, count);
            world.offer(&bytes);
        }
    }
}

/// CVE-2024-27316: bytes of fields that have no end.
#[test]
fn a_head_without_end_is_not_kept() {
    let mut world = World::new();
    world.offer(&frame_of(Kind::Headers, 0, 1, &[0; 1_000]));
    for _ in 0..15 {
        assert_eq!(world.offer(&frame_of(Kind::Continuation, 0, 1, &[0; 1_000])), []);
    }
    assert_eq!(world.offer(&frame_of(Kind::Continuation, 0, 1, &[0; 1])), [flooded(Flood::Continuation)]);
}

/// One byte of a body in each frame is paid for with nine of framing: nginx's measure.
#[test]
fn framing_of_next_to_nothing_ends() {
    let mut world = World::new();
    let bytes = frame_of(Kind::Other(99), 0, 0, &[0; 16_000]);
    let (count, seen) = until_it_ends(&mut world, |world, _| {
        world.second += 1;
        bytes.clone()
    });
    assert_eq!((seen, count), (flooded(Flood::Overhead), (8 << 20) / 16_009));
}

/// More is taken where more is lent, and where nobody keeps a head.
#[test]
fn heads_have_what_is_lent_beside_what_each_connection_has() {
    let mut world = World::new();
    let value = "x".repeat(3_500);
    let ask = |world: &mut World, stream| {
        let mut block = Vec::new();
        for (name, value) in GET.iter().chain(&[("a", &*value)]) {
            let field = HeaderField::new(name.as_bytes(), value.as_bytes());
            world.encoder.encode(field, Indexing::Incremental, &mut block);
        }
        let mut bytes = Vec::new();
        frame::write_headers(&mut bytes, stream, &block, true, 16_384);
        world.offer(&bytes).len()
    };
    let all = |world: &mut World| (0..).map(|at| 2 * at + 1).take_while(|stream| ask(world, *stream) == 1).count();
    let few = all(&mut world);
    assert!((12..=16).contains(&few) && world.server.heads_beyond() == 0, "{few}");
    let mut world = World::new();
    world.server.lend_heads(96 << 10);
    let more = all(&mut world);
    assert!(more > 38 && more < 45, "{more}");
    let beyond = world.server.heads_beyond();
    assert!(beyond > 90 << 10 && beyond <= 96 << 10, "{beyond}");
    for stream in 0..more as u32 {
        world.server.forget_head(2 * stream + 1);
    }
    assert_eq!(world.server.heads_beyond(), 0);
}

/// 2026's HTTP/2 Bomb: one byte on the wire names thousands that are in the table, and streams that
/// are stalled keep their heads. What heads may have is bounded for each connection; one that asks for
/// more is refused, and then closed.
#[test]
fn heads_that_are_more_than_they_were_are_bounded() {
    let mut world = World::new();
    let value = "x".repeat(3_500);
    let mut block = Vec::new();
    for (name, value) in GET.iter().chain(&[("a", &*value)]) {
        world.encoder.encode(HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Incremental, &mut block);
    }
    let mut bytes = Vec::new();
    frame::write_headers(&mut bytes, 1, &block, true, 16_384);
    assert_eq!(world.offer(&bytes).len(), 1);
    let bomb = |world: &mut World, stream| {
        let mut block = Vec::new();
        for (name, value) in GET.iter().chain(&[("a", &*value); 2]) {
            world.encoder.encode(
                HeaderField::new(name.as_bytes(), value.as_bytes()),
                Indexing::Incremental,
                &mut block,
            );
        }
        assert!(block.len() < 20, "it is small on the wire");
        let mut bytes = Vec::new();
        frame::write_headers(&mut bytes, stream, &block, false, 16_384);
        bytes
    };
    let mut held = 0;
    for stream in (3..1_001).step_by(2) {
        let bytes = bomb(&mut world, stream);
        match &world.offer(&bytes)[..] {
            [Seen::Request { head, .. }] => held += head.len(),
            [] => assert_eq!(world.resets(), [(stream, ErrorCode::REFUSED_STREAM)]),
            [end] => {
                assert_eq!(*end, flooded(Flood::Heads));
                assert!(held < 48 << 10 && stream > 500, "{held} {stream}");
                return;
            }
            more => panic!("{more:?}"),
        }
        if stream == 101 {
            // Who ends makes room, and who is given up.
            let numbers: Vec<u32> = world.server.streams().iter().map(|one| one.number).collect();
            world.server.end_soon(numbers[1]);
            world.server.reset(numbers[2], ErrorCode::CANCEL, &mut Vec::new());
            held -= 14_000;
        }
    }
    panic!("it goes on");
}
