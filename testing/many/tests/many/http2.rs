//! HTTP/2 on our own stack, with real records: priorities, bodies both ways, the end of a connection.

use crate::echo::Echo;
use crate::world::{Folder, World, clock};
use h2::frame::{self, FrameHead, HEAD, Kind, MAX_STREAM, PREFACE, setting};
use hpack::{Decoder, Encoder, HeaderField, Indexing, Scratch, TABLE_DEFAULT};
use server::exchange::Handler;
use server::{Config, Respond, Server};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What came on a stream.
#[derive(Default, Debug)]
struct Came {
    /// Fields of all heads, and of trailers.
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    ended: bool,
    reset: Option<u32>,
}

/// A client's side of a connection of a [`World`].
struct Peer {
    encoder: Encoder,
    decoder: Decoder,
    scratch: Scratch,
    streams: BTreeMap<u32, Came>,
    /// Streams, in the order in which they ended.
    ended: Vec<u32>,
    /// The last stream and the error of each GOAWAY.
    go_aways: Vec<(u32, u32)>,
    pings: Vec<Vec<u8>>,
    /// What came behind the first GOAWAY.
    behind: Vec<Kind>,
    /// Room that was given, by stream.
    given: BTreeMap<u32, usize>,
}

impl Peer {
    /// One that has as large a window for answers.
    fn begin<H: Handler>(world: &mut World<H>, window: u32) -> Self {
        let out = &mut world.client.app.to_send;
        out.extend_from_slice(PREFACE);
        frame::write_settings(out, &[(setting::INITIAL_WINDOW_SIZE, window)]);
        frame::write_window_update(out, 0, 1 << 30);
        Self {
            encoder: Encoder::new(TABLE_DEFAULT),
            decoder: Decoder::new(TABLE_DEFAULT),
            scratch: Scratch::new(),
            streams: BTreeMap::new(),
            ended: Vec::new(),
            go_aways: Vec::new(),
            pings: Vec::new(),
            behind: Vec::new(),
            given: BTreeMap::new(),
        }
    }

    fn headers(&mut self, stream: u32, fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
        let (mut block, mut out) = (Vec::new(), Vec::new());
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.encode(HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Incremental, &mut block);
        }
        frame::write_headers(&mut out, stream, &block, ends, 16_384);
        out
    }

    fn ask(&mut self, stream: u32, (method, path): (&str, &str), more: &[(&str, &str)]) -> Vec<u8> {
        let head = [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)];
        self.headers(stream, &[&head[..], more].concat(), method == "GET")
    }

    /// Looks at what came.
    fn look<H: Handler>(&mut self, world: &mut World<H>) {
        let came = core::mem::take(&mut world.client.app.came);
        let mut at = 0;
        while let Some(head) = FrameHead::read(&came[at..]) {
            let Some(payload) = came[at + HEAD..].get(..head.length as usize) else { break };
            at += HEAD + payload.len();
            self.on_frame(head, payload);
        }
        world.client.app.came.extend_from_slice(&came[at..]);
    }

    fn on_frame(&mut self, head: FrameHead, payload: &[u8]) {
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"));
        if !self.go_aways.is_empty() {
            self.behind.push(head.kind);
        }
        let stream = self.streams.entry(head.stream).or_default();
        match head.kind {
            Kind::Headers => {
                assert!(head.has(frame::END_HEADERS), "they fit");
                let fields = &mut stream.fields;
                let decoded = self.decoder.decode(payload, &mut self.scratch, |field| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                    fields.push((text(field.name), text(field.value)));
                    ControlFlow::Continue(())
                });
                decoded.expect("fields");
            }
            Kind::Data => stream.body.extend_from_slice(payload),
            Kind::Reset => stream.reset = Some(number(payload)),
            Kind::GoAway => self.go_aways.push((number(payload), number(&payload[4..]))),
            Kind::Ping if !head.has(frame::ACK) => self.pings.push(payload.to_vec()),
            Kind::WindowUpdate => *self.given.entry(head.stream).or_default() += number(payload) as usize,
            _ => {}
        }
        if matches!(head.kind, Kind::Headers | Kind::Data) && head.has(frame::END_STREAM) {
            stream.ended = true;
            self.ended.push(head.stream);
        }
    }

    fn until<H: Handler>(&mut self, world: &mut World<H>, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for turn in 0.. {
            self.look(world);
            if is_so(self) {
                return;
            }
            assert!(turn < 20_000_000, "{what}: {:?} {:?}", self.ended, self.go_aways);
            world.turn();
        }
    }

    fn statuses(&self, stream: u32) -> Vec<&str> {
        let fields = self.streams[&stream].fields.iter();
        fields.filter(|(name, _)| name == ":status").map(|(_, value)| value.as_str()).collect()
    }
}

fn echo() -> World<Echo> {
    let config = Config::respond(Respond::Text(String::new()));
    World::new(Server::with_handler(config, Echo::default(), clock()).expect("a server"), b"h2")
}

fn data(stream: u32, bytes: &[u8], ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, Kind::Data, u8::from(ends), stream, bytes);
    out
}

/// RFC 9218: 20 that are urgent are whole before a tenth of 80 others, though these were asked for
/// first; those that are useful in parts take turns, others come one after the other.
#[test]
fn the_urgent_come_first_whoever_asked_first() {
    const LENGTH: usize = 20_000;
    let folder = Folder::new("urgent");
    let name = |stream: u32| format!("file{stream}");
    for stream in (1..201).step_by(2) {
        std::fs::write(folder.path().join(name(stream)), vec![stream as u8; LENGTH]).expect("a file");
    }
    let mut world = World::new(folder.server(), b"h2");
    let mut peer = Peer::begin(&mut world, 1 << 30);
    let mut asked = Vec::new();
    for stream in (1..201).step_by(2) {
        let priority = if stream > 160 { "u=1" } else { "u=5" };
        asked.extend(peer.ask(stream, ("GET", &format!("/{}", name(stream))), &[("priority", priority)]));
    }
    world.client.app.to_send.extend_from_slice(&asked);
    let mut others = 0;
    peer.until(&mut world, "the urgent ones", |peer| {
        let whole = peer.ended.iter().filter(|stream| **stream > 160).count();
        others = peer.streams.iter().filter(|(stream, _)| **stream <= 160).map(|(_, one)| one.body.len()).sum();
        whole == 20
    });
    assert!(others <= 80 * LENGTH / 10, "{others} bytes of the others came before");
    peer.until(&mut world, "all", |peer| peer.ended.len() == 100);
    for stream in (1..201).step_by(2) {
        assert_eq!(peer.statuses(stream), ["200"]);
        assert!(peer.streams[&stream].body == vec![stream as u8; LENGTH], "stream {stream}");
    }
    let order: Vec<u32> = peer.ended.iter().copied().filter(|stream| *stream <= 160).collect();
    assert!(order.is_sorted(), "one after the other: {order:?}");
    // Two large ones, in parts.
    let mut asked = Vec::new();
    for stream in [201, 203] {
        asked.extend(peer.ask(stream, ("GET", "/large"), &[("priority", "i")]));
    }
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "both in parts", |peer| {
        let lengths = [201, 203].map(|stream| peer.streams.get(&stream).map_or(0, |one| one.body.len()));
        assert!(lengths[0].abs_diff(lengths[1]) <= 2 << 20, "{lengths:?}");
        peer.ended.len() == 102
    });
}

/// Interim heads, bodies through windows that open as they are read, trailers both ways.
#[test]
fn bodies_and_trailers_go_both_ways() {
    let mut world = echo();
    let mut peer = Peer::begin(&mut world, 1 << 30);
    let body: Vec<u8> = (0..1_000_000_u32).map(|at| (at ^ at >> 9) as u8).collect();
    let asked = peer.ask(1, ("POST", "/long?a"), &[("trailer", "x-end")]);
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "a head", |peer| peer.streams.get(&1).is_some_and(|one| one.fields.len() > 3));
    assert_eq!(peer.statuses(1), ["103", "200"]);
    // No more than windows have room for.
    peer.given.insert(1, 65_536);
    let mut sent = 0;
    while sent < body.len() {
        let room = peer.given[&1].min(10_000).min(body.len() - sent);
        if room > 0 {
            *peer.given.get_mut(&1).expect("it") -= room;
            world.client.app.to_send.extend(data(1, &body[sent..sent + room], false));
            sent += room;
        }
        let before = peer.given[&1];
        if before == 0 {
            peer.until(&mut world, "room", |peer| peer.given[&1] > 0);
        }
    }
    let trailers = peer.headers(1, &[("x-end", "yes")], true);
    world.client.app.to_send.extend_from_slice(&trailers);
    peer.until(&mut world, "its end", |peer| peer.ended == [1]);
    let came = &peer.streams[&1];
    assert!(came.body == body && came.reset.is_none());
    let behind: Vec<&str> = came.fields.iter().rev().take(2).map(|(name, _)| name.as_str()).collect();
    assert_eq!(behind, ["x-end", "seen"]);
}

/// What is malformed is answered by 400, and its stream reset; one that its handler breaks off is
/// reset; a body that nobody reads is not waited for. The connection goes on.
#[test]
fn one_stream_ends_without_the_others() {
    let mut world = echo();
    let mut peer = Peer::begin(&mut world, 1 << 30);
    let mut asked = peer.ask(1, ("GET", "/never"), &[]);
    asked.extend(peer.ask(3, ("GET", "/a"), &[("connection", "close")]));
    asked.extend(peer.ask(5, ("GET", "/broken"), &[]));
    asked.extend(peer.ask(7, ("POST", "/refused"), &[]));
    asked.extend(data(7, &[7; 10_000], false));
    asked.extend(peer.ask(9, ("GET", "/b"), &[]));
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "all", |peer| {
        peer.ended.contains(&9)
            && [3, 5, 7].iter().all(|stream| peer.streams.get(stream).is_some_and(|one| one.reset.is_some()))
    });
    assert_eq!((peer.statuses(3), peer.streams[&3].reset), (vec!["400"], Some(1)));
    assert_eq!(peer.streams[&5].reset, Some(2));
    assert_eq!((peer.statuses(7), peer.streams[&7].reset), (vec!["413"], Some(0)));
    assert!(peer.ended.contains(&3) && peer.ended.contains(&7));
    assert!(peer.go_aways.is_empty() && !peer.streams.contains_key(&1));
    // Its client gives up the first.
    frame::write_reset(&mut world.client.app.to_send, 1, h2::ErrorCode::NO_ERROR);
    world.settle();
    assert_eq!(world.server.app.handler().gone, ["left"]);
}

/// RFC 9113 section 8.1.1: a body that is not as long as its head says ends its stream, whatever of it
/// was taken, and what still comes of it is nobody's; others go on.
#[test]
fn a_body_that_is_not_as_long_as_was_told_ends_its_stream() {
    let mut world = echo();
    let mut peer = Peer::begin(&mut world, 1 << 30);
    let length = [("content-length", "4")];
    let mut asked = Vec::new();
    for (stream, body) in [(1, &b"longer"[..]), (3, b"bod"), (5, b"body")] {
        asked.extend(peer.ask(stream, ("POST", "/a"), &length));
        asked.extend(data(stream, body, true));
    }
    asked.extend(peer.ask(7, ("POST", "/a"), &length));
    asked.extend(data(7, b"longer", false));
    asked.extend(data(7, b" and more", true));
    asked.extend(peer.ask(9, ("GET", "/b"), &[]));
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "all", |peer| {
        let is_reset = |stream: &u32| peer.streams.get(stream).is_some_and(|one| one.reset.is_some());
        peer.ended.contains(&5) && peer.ended.contains(&9) && [1, 3, 7].iter().all(is_reset)
    });
    assert_eq!([1, 3, 7].map(|stream| peer.streams[&stream].reset), [Some(1); 3]);
    assert_eq!(peer.streams[&5].body, b"body");
    assert!(peer.go_aways.is_empty());
}

/// RFC 9113 section 6.8: the end is told in two steps, what has begun ends, and nothing begins.
#[test]
fn the_end_is_told_in_two_steps() {
    let mut world = echo();
    let mut peer = Peer::begin(&mut world, 1 << 30);
    let asked = peer.ask(1, ("POST", "/slow"), &[]);
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "a head", |peer| peer.streams.contains_key(&1));
    world.drain();
    peer.until(&mut world, "the first word", |peer| !peer.go_aways.is_empty() && !peer.pings.is_empty());
    assert_eq!(peer.go_aways, [(MAX_STREAM, 0)]);
    // What was asked for before that was read is answered.
    let mut more = peer.ask(3, ("GET", "/late"), &[]);
    frame::write(&mut more, Kind::Ping, frame::ACK, 0, &peer.pings[0].clone());
    world.client.app.to_send.extend_from_slice(&more);
    peer.until(&mut world, "the last word", |peer| peer.go_aways.len() == 2 && peer.ended == [3]);
    assert_eq!(peer.go_aways[1], (3, 0));
    let more = peer.ask(5, ("GET", "/too/late"), &[]);
    world.client.app.to_send.extend_from_slice(&more);
    peer.until(&mut world, "a refusal", |peer| peer.streams.get(&5).is_some_and(|one| one.reset == Some(7)));
    assert!(!world.client.app.closed);
    world.client.app.to_send.extend(data(1, b"end", true));
    peer.until(&mut world, "the end of what had begun", |peer| peer.ended == [3, 1]);
    assert_eq!(peer.streams[&1].body, b"end");
    world.client.app.ends = true;
    world.until("the end of all", |client| client.closed);
    assert!(world.drain());
}

/// What ends with an answer is told of behind it, and of a PING before that: clients that fail by what comes
/// behind GOAWAY (Python's h2) have it whole. One that asks for many more meanwhile is told all the same.
#[test]
fn the_last_answer_comes_before_the_word_that_it_is() {
    for more in [0, 130] {
        let mut world = echo();
        let mut peer = Peer::begin(&mut world, 1 << 30);
        let asked = peer.ask(1, ("POST", "/last"), &[]);
        world.client.app.to_send.extend_from_slice(&asked);
        peer.until(&mut world, "a head", |peer| peer.streams.get(&1).is_some_and(|one| !one.fields.is_empty()));
        for stream in (0..more).map(|at| 3 + 2 * at) {
            let asked = peer.ask(stream, ("GET", "/b"), &[]);
            world.client.app.to_send.extend_from_slice(&asked);
            peer.until(&mut world, "another", |peer| peer.ended.contains(&stream));
        }
        assert_eq!(peer.go_aways.len(), usize::from(more > 0));
        world.client.app.to_send.extend(data(1, b"body", true));
        peer.until(&mut world, "the word", |peer| peer.ended.contains(&1) && !peer.go_aways.is_empty());
        assert_eq!(peer.go_aways, [(MAX_STREAM, 0)]);
        let mut pong = Vec::new();
        frame::write(&mut pong, Kind::Ping, frame::ACK, 0, &peer.pings[0].clone());
        world.client.app.to_send.extend_from_slice(&pong);
        peer.until(&mut world, "the last word", |peer| peer.go_aways.len() == 2);
        assert_eq!(peer.go_aways[1], (1 + 2 * more, 0));
        assert!(more > 0 || peer.behind == [Kind::GoAway], "{:?}", peer.behind);
        world.client.app.ends = true;
        world.until("the end of all", |client| client.closed);
    }
}

/// A client that takes nothing of one answer loses that alone; and one that asks for nothing is told
/// that its time is over.
#[test]
fn each_stream_has_times_of_its_own() {
    let folder = Folder::new("times");
    let mut world = World::new(folder.server(), b"h2");
    let mut peer = Peer::begin(&mut world, 1_000);
    let asked = peer.ask(1, ("GET", "/large?a"), &[("range", "bytes=1-9000000")]);
    world.client.app.to_send.extend_from_slice(&asked);
    for second in 0..100 {
        // Others come and go.
        let asked = peer.ask(2 * second + 3, ("GET", "/small.txt"), &[]);
        world.client.app.to_send.extend_from_slice(&asked);
        world.pass(1);
        peer.look(&mut world);
        if !(58..=66).contains(&second) {
            assert_eq!(peer.streams[&1].reset.is_some(), second > 60, "after {second} s");
        }
    }
    assert_eq!((peer.ended.len(), peer.streams[&1].body.len()), (100, 1_000));
    world.pass(67);
    peer.look(&mut world);
    assert_eq!(peer.go_aways.last(), Some(&(201, 0)));
}

/// A stream of which its client takes nothing is left by it; and a client that sends no more has
/// left all that it asked for.
#[test]
fn who_takes_nothing_or_sends_no_more_has_left() {
    let mut world = echo();
    let mut peer = Peer::begin(&mut world, 1_000);
    let mut asked = peer.ask(1, ("POST", "/a"), &[]);
    asked.extend(data(1, &[7; 9_000], true));
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "what fits", |peer| peer.streams.get(&1).is_some_and(|one| one.body.len() == 1_000));
    world.pass(100);
    assert_eq!(world.server.app.handler().gone, ["left"]);
    let mut world = echo();
    let mut peer = Peer::begin(&mut world, 1 << 20);
    let mut asked = peer.ask(1, ("POST", "/slow"), &[]);
    asked.extend(data(1, b"some", false));
    world.client.app.to_send.extend_from_slice(&asked);
    peer.until(&mut world, "some", |peer| peer.streams.get(&1).is_some_and(|one| one.body == b"some"));
    world.client.app.ends = true;
    world.until("the end of all", |client| client.closed);
    assert_eq!(world.server.app.handler().gone, ["left"]);
}
