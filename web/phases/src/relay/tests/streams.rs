//! Upstreams by HTTP/2, honest and hostile: many requests on a connection, none of which has what another
//! is answered, whatever becomes of that.

use super::{Link, Outcome, Random, World, ask, ask_in, engine, offer, tell};
use crate::Engine;
use configuration::proxying::UpstreamVersion;
use core::time::Duration;
use exchange::{Handler, UpstreamEvent, UpstreamId};
use h2::frame::{self, FrameHead, Kind, setting};
use h2::{BlockWriter, ErrorCode, HeadMemory, Offer, ServerConnection, ServerEvent, ServerSettings};
use std::sync::Arc;

/// A server at the other end of a connection.
#[derive(Debug)]
pub(super) struct Origin {
    conn: ServerConnection<()>,
    memory: HeadMemory,
    /// It does what none may.
    hostile: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    Whole,
    WithTrailers,
    HeadAlone,
    Refused,
    Reset,
    ResetAmid,
    Silence,
    TooShort,
    TooLong,
    NoStatus,
    BadName,
    BadTrailers,
    GoAway,
    LeavesAll,
}

const DEEDS: [Deed; 14] = [
    Deed::Whole,
    Deed::WithTrailers,
    Deed::HeadAlone,
    Deed::Refused,
    Deed::Reset,
    Deed::ResetAmid,
    Deed::Silence,
    Deed::TooShort,
    Deed::TooLong,
    Deed::NoStatus,
    Deed::BadName,
    Deed::BadTrailers,
    Deed::GoAway,
    Deed::LeavesAll,
];

impl Origin {
    pub fn begin(random: &mut Random, script: &mut Vec<u8>) -> Self {
        let settings = ServerSettings { streams: 1 + random.below(6) as u32, ..ServerSettings::default() };
        let conn = ServerConnection::new(settings, script);
        Self { conn, memory: HeadMemory::default(), hostile: random.below(4) == 0 }
    }

    /// Reads what came, and says what it will.
    fn read(&mut self, got: &[u8], random: &mut Random, script: &mut Vec<u8>) -> usize {
        let (mut at, mut asked) = (0, Vec::new());
        let read = loop {
            let offer = Offer { bytes: &got[at..], second: 1, memory: &mut self.memory };
            let (taken, event) = self.conn.on_bytes(offer, script);
            at += taken;
            match event {
                ServerEvent::Request { stream, request, ends, .. } => {
                    assert!(ends, "a GET has no body");
                    let tag = request.fields().find(|field| field.is("x-tag")).expect("whose it is");
                    let own = format!("<{}>", String::from_utf8_lossy(tag.value));
                    asked.push((stream, own));
                }
                ServerEvent::Failed(failure) => panic!("we broke the protocol: {failure:?}"),
                _ if taken == 0 => break at,
                _ => {}
            }
        };
        // A stream's window opens behind its head.
        asked.iter().for_each(|(stream, own)| self.answer(*stream, own, random, script));
        read
    }

    fn answer(&mut self, stream: u32, own: &str, random: &mut Random, script: &mut Vec<u8>) {
        let deed = if random.below(2) == 0 { Deed::Whole } else { DEEDS[random.below(DEEDS.len())] };
        let body = own.repeat(1 + random.below(1_500));
        let has_length = random.below(2) == 0 || matches!(deed, Deed::TooShort | Deed::TooLong);
        let told = match deed {
            Deed::TooShort => body.len() + 1,
            Deed::TooLong => body.len() - 1,
            _ => body.len(),
        };
        let mut block = Vec::new();
        if deed == Deed::NoStatus {
            BlockWriter::trailers(&mut block).field(b"x-one", b"1");
        } else {
            let mut writer = BlockWriter::answer(&mut block, 200);
            if has_length && deed != Deed::HeadAlone {
                writer.field(b"content-length", told.to_string().as_bytes());
            }
            if deed == Deed::BadName {
                writer.field(b"X-Upper", b"1");
            }
        }
        let code = [ErrorCode::INTERNAL_ERROR, ErrorCode::CANCEL, ErrorCode::NO_ERROR][random.below(3)];
        match deed {
            Deed::Silence => return,
            Deed::Refused => return self.conn.reset(stream, ErrorCode::REFUSED_STREAM, script),
            Deed::Reset => return self.conn.reset(stream, code, script),
            Deed::GoAway => {
                // This is the last.
                frame::write_go_away(script, stream, ErrorCode::NO_ERROR);
            }
            Deed::LeavesAll => return frame::write_go_away(script, stream - 1, ErrorCode::NO_ERROR),
            _ => {}
        }
        if deed == Deed::HeadAlone {
            return self.conn.send_block(stream, &block, true, script);
        }
        self.conn.write_block(stream, &block, false, script);
        let mut rest = body.as_bytes();
        while !rest.is_empty() {
            // What windows do not take is not sent: the answer stays as it is.
            let room = self.conn.room(stream).min(1 + random.below(9_000));
            if room == 0 {
                return;
            }
            let (some, after) = rest.split_at(room.min(rest.len()));
            let ends = after.is_empty() && !matches!(deed, Deed::WithTrailers | Deed::BadTrailers);
            if deed == Deed::ResetAmid && after.len() < rest.len() / 2 {
                return self.conn.reset(stream, code, script);
            }
            script.extend_from_slice(&self.conn.data(stream, some.len(), ends));
            script.extend_from_slice(some);
            rest = after;
        }
        if matches!(deed, Deed::WithTrailers | Deed::BadTrailers) {
            let mut block = Vec::new();
            let name: &[u8] = if deed == Deed::BadTrailers { b":status" } else { b"x-trailer" };
            BlockWriter::trailers(&mut block).field(name, b"1");
            self.conn.write_block(stream, &block, true, script);
        }
        self.conn.end_soon(stream);
    }

    /// Says what none may.
    fn harm(random: &mut Random, script: &mut Vec<u8>) {
        let stream = 1 + 2 * random.below(5) as u32;
        match random.below(12) {
            0 => (0..300).for_each(|_| frame::write_settings(script, &[])),
            1 => (0..1_200).for_each(|_| frame::write(script, Kind::Ping, 0, 0, &[0; 8])),
            2 => frame::write_window_update(script, 0, (1 << 31) - 1),
            3 => frame::write_window_update(script, stream, (1 << 31) - 1),
            4 => frame::write(script, Kind::WindowUpdate, 0, 0, &[0; 4]),
            5 => frame::write_reset(script, 9_999, ErrorCode::CANCEL),
            6 => frame::write_settings(script, &[(setting::INITIAL_WINDOW_SIZE, u32::MAX)]),
            7 => frame::write(script, Kind::PushPromise, frame::END_STREAM, stream, &[0, 0, 0, 2]),
            8 => frame::write(script, Kind::Data, 0, 2, b"nobody's"),
            9 => script.extend_from_slice(&FrameHead { length: 1 << 20, kind: Kind::Data, flags: 0, stream }.bytes()),
            10 => frame::write(script, Kind::Continuation, 0, stream, b"x"),
            _ => (0..400).for_each(|_| frame::write(script, Kind::Data, 0, stream, b"")),
        }
    }
}

/// One step of a connection.
pub(super) fn step(engine: &mut Engine, world: &mut World, random: &mut Random, id: UpstreamId) {
    let Some(link) = world.link(id) else { return };
    let Link { got, script, origin, .. } = link;
    let Some(mut server) = origin.take() else { return };
    let read = server.read(got, random, script);
    got.drain(..read);
    if server.hostile && random.below(30) == 0 {
        Origin::harm(random, script);
    }
    *origin = Some(server);
    if random.below(60) == 0 {
        tell(engine, world, id, UpstreamEvent::End { held: 0 });
    }
}

fn engine_by_http2(keeps: bool) -> Engine {
    engine(keeps, |block| {
        let rules = Arc::make_mut(&mut block.proxy);
        rules.version = UpstreamVersion::Http2;
        rules.ask.passes_trailers = true;
        rules.prepare();
    })
}

#[test]
fn hundreds_of_faulty_answers_on_shared_connections_harm_nobody() {
    for keeps in [true, false] {
        let mut engine = engine_by_http2(keeps);
        let (mut whole, mut cut, mut errors) = (0, 0, 0);
        ask_in(
            &mut engine,
            (0x0b5e_55ed, 600),
            |world| world.by_http2 = true,
            |client| {
                let own = format!("<{}>", client.tag);
                let text = String::from_utf8_lossy(&client.body);
                if client.status == 200 {
                    assert!(own.repeat(text.len() / own.len() + 1).starts_with(&*text), "{own}: {text}");
                    whole += usize::from(client.outcome == Outcome::Whole);
                    cut += usize::from(client.outcome == Outcome::Cut);
                    if client.outcome == Outcome::Whole {
                        assert_eq!(text.len() % own.len(), 0, "what is whole ends with a whole part");
                    }
                } else {
                    errors += usize::from(matches!(client.status, 502 | 504));
                }
            },
        );
        assert!(whole > 150 && cut > 20 && errors > 30, "{whole} {cut} {errors}");
        let figures = *engine.rest.kept.shared.figures();
        assert!(figures.begun < figures.streams, "connections are shared: {figures:?}");
        assert!(figures.unprocessed > 20 && figures.faults > 3 && figures.streams_at_fault > 20, "{figures:?}");
        let floods: u64 = figures.floods.iter().sum();
        assert!(floods > 0, "{figures:?}");
        assert_eq!(engine.rest.kept.shared.streams_open(), 0, "no stream is left");
    }
}

/// A server that answers no PING while it computes: what was asked of it has its own time limits, and what is
/// asked from then on goes elsewhere.
#[test]
fn a_server_that_is_slow_keeps_what_was_asked_of_it() {
    let (mut engine, mut world) = (engine_by_http2(true), World::new());
    ask(&mut engine, &mut world, 0, 1);
    ask(&mut engine, &mut world, 1, 2);
    let slow = world.links[0].id;
    let (mut settings, mut memory) = (Vec::new(), HeadMemory::default());
    let mut server: ServerConnection<()> = ServerConnection::new(ServerSettings::default(), &mut settings);
    for id in world.links.iter().map(|link| link.id).collect::<Vec<_>>() {
        world.link(id).expect("it was dialled").opened = true;
        tell(&mut engine, &mut world, id, UpstreamEvent::Opened);
        engine.on_turn(&mut world);
        offer(&mut engine, &mut world, id, &settings);
    }
    let (got, mut said, mut at) = (std::mem::take(&mut world.links[0].got), Vec::new(), 0);
    while at < got.len() {
        let offer = Offer { bytes: &got[at..], second: 1, memory: &mut memory };
        at += server.on_bytes(offer, &mut said).0;
    }
    let mut block = Vec::new();
    BlockWriter::answer(&mut block, 200).field(b"content-length", b"6");
    server.write_block(1, &block, false, &mut said);
    said.extend_from_slice(&server.data(1, 3, false));
    said.extend_from_slice(b"<1>");
    offer(&mut engine, &mut world, slow, &said);
    engine.on_turn(&mut world);
    assert_eq!((world.clients[0].status, &*world.clients[0].body), (200, &b"<1>"[..]));
    // Another question of a server that has said nothing for a while, and does not from now on.
    world.now = world.now + Duration::from_secs(3);
    ask(&mut engine, &mut world, 2, 3);
    ask(&mut engine, &mut world, 3, 4);
    engine.on_turn(&mut world);
    let asked = &world.link(slow).expect("it is there").got;
    assert!(matches!(FrameHead::read(asked), Some(FrameHead { kind: Kind::Ping, length: 8, .. })), "{asked:?}");
    world.now = world.now + Duration::from_millis(2_001);
    tell(&mut engine, &mut world, slow, UpstreamEvent::Timer);
    engine.on_turn(&mut world);
    assert!(world.clients.iter().all(|client| client.outcome == Outcome::UnderWay), "{:?}", world.clients);
    assert_eq!((world.dialled, engine.rest.kept.shared.figures().silent), (3, 1), "another connection is begun");
    // What was asked before is whole after all, and then the connection is none any more.
    let mut rest = server.data(1, 3, true).to_vec();
    rest.extend_from_slice(b"<1>");
    offer(&mut engine, &mut world, slow, &rest);
    engine.on_turn(&mut world);
    assert_eq!((world.clients[0].outcome, &*world.clients[0].body), (Outcome::Whole, &b"<1><1>"[..]));
    assert!(world.link(slow).is_none());
}
