//! Streams that share connections of HTTP/2, in simulated time, against a server of frames that sends
//! what its windows are open for.

use crate::http2::settings;
use crate::streaming::{BYTES, figures, held, met, played, report, streaming, until};
use crate::world::{Reply, Then, World, current_connection, current_request, ms, us};
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, END_HEADERS, END_STREAM, FrameHead, Kind, setting};
use hpack::{HeaderField, put_static, put_status};
use load::{Expect, Http2, Stage, StreamingFigures, StreamingPlan};
use std::collections::BTreeMap;
use wire::Time;

/// Payload of one frame.
const PIECE: u64 = 1_448;

/// An answer under way.
#[derive(Default)]
struct Answer {
    left: u64,
    window: i64,
    /// Its bytes are sent at a rate of their own: when the next may be.
    free_at: Time,
    begun: bool,
}

#[derive(Default)]
struct Connection {
    bytes: Vec<u8>,
    settled: bool,
    window: i64,
    first_window: i64,
    answers: BTreeMap<u32, Answer>,
    asked: u64,
    cancelled: u64,
}

/// A server of answers of `length` bytes, each sent at `rate` bytes a second as far as windows are open.
struct Server {
    length: u64,
    rate: u64,
    entries: Vec<(u16, u32)>,
    /// What is to be said of a request, by its connection (the first is 0) and its number on it, in place of an answer.
    instead: fn(usize, u64, u32) -> Option<Vec<u8>>,
    connections: BTreeMap<(usize, u32), Connection>,
    order: Vec<(usize, u32)>,
    /// The most that windows of players let come at a time.
    most: i64,
}

impl Server {
    fn new(length: u64, rate: u64) -> Self {
        let (connections, order) = (BTreeMap::new(), Vec::new());
        Self { length, rate, entries: vec![], instead: |_, _, _| None, connections, order, most: 0 }
    }

    /// What a client sent, and what comes of it.
    fn reply(&mut self, now: Time) -> Reply {
        let id = current_connection();
        if !self.order.contains(&id) {
            self.order.push(id);
        }
        let number = self.order.iter().position(|known| *known == id).expect("it is there");
        let connection = self.connections.entry(id).or_default();
        connection.bytes.extend(current_request());
        let mut reply = Reply::nothing();
        if !connection.settled && connection.bytes.starts_with(frame::PREFACE) {
            connection.bytes.drain(..frame::PREFACE.len());
            (connection.settled, connection.window, connection.first_window) = (true, 65_535, 65_535);
            reply.parts.push((us(1), settings(&self.entries)));
        }
        while let Some(head) = FrameHead::read(&connection.bytes)
            && connection.bytes.len() >= frame::HEAD + head.length as usize
        {
            let payload: Vec<u8> = connection.bytes.drain(..frame::HEAD + head.length as usize).collect();
            let payload = &payload[frame::HEAD..];
            let value = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
            match head.kind {
                Kind::Settings if head.flags & frame::ACK == 0 => {
                    for (name, value) in frame::settings(payload) {
                        if name == setting::INITIAL_WINDOW_SIZE {
                            connection.first_window = value.into();
                        }
                    }
                }
                Kind::Headers => {
                    connection.asked += 1;
                    if let Some(bytes) = (self.instead)(number, connection.asked, head.stream) {
                        if !bytes.is_empty() {
                            reply.parts.push((us(100), bytes));
                        }
                        continue;
                    }
                    let answer =
                        Answer { left: self.length, window: connection.first_window, free_at: now, begun: false };
                    connection.answers.insert(head.stream, answer);
                }
                Kind::WindowUpdate if head.stream == 0 => connection.window += i64::from(value(0)),
                Kind::WindowUpdate => {
                    if let Some(answer) = connection.answers.get_mut(&head.stream) {
                        answer.window += i64::from(value(0));
                        self.most = self.most.max(answer.window);
                    }
                }
                Kind::Reset => {
                    connection.cancelled += 1;
                    connection.answers.remove(&head.stream);
                }
                _ => {}
            }
        }
        connection.send(now, self.rate, &mut reply);
        reply
    }

    fn cancelled(&self) -> u64 {
        self.connections.values().map(|connection| connection.cancelled).sum()
    }
}

impl Connection {
    fn send(&mut self, now: Time, rate: u64, reply: &mut Reply) {
        for (stream, answer) in &mut self.answers {
            if !answer.begun {
                answer.begun = true;
                let (mut block, mut out) = (Vec::new(), Vec::new());
                put_status(200, &mut block);
                put_static(HeaderField::new(b"content-length", answer.left.to_string().as_bytes()), &mut block);
                frame::write(&mut out, Kind::Headers, END_HEADERS, *stream, &block);
                reply.parts.push((us(100), out));
            }
            while answer.left > 0 && answer.window > 0 && self.window > 0 {
                let piece = PIECE.min(answer.left).min(answer.window as u64).min(self.window as u64);
                answer.left -= piece;
                answer.window -= piece as i64;
                self.window -= piece as i64;
                answer.free_at = answer.free_at.max(now) + Duration::from_nanos(piece * 1_000_000_000 / rate);
                let flags = if answer.left == 0 { END_STREAM } else { 0 };
                let mut out = Vec::new();
                frame::write(&mut out, Kind::Data, flags, *stream, &vec![b'x'; piece as usize]);
                reply.parts.push((us(100) + answer.free_at.since(now), out));
            }
        }
        self.answers.retain(|_, answer| answer.left > 0);
    }
}

/// So many streams on each of two connections.
fn shared(mut plan: StreamingPlan, streams: u16) -> StreamingPlan {
    plan.load.connections = 2;
    plan.load.http2 = Some(Http2::default());
    plan.load.pipeline = streams;
    plan
}

fn ran(plan: &StreamingPlan, server: &mut Server) -> StreamingFigures {
    figures(World::of(streaming(plan), |_, now| server.reply(now)))
}

/// Players on one connection take their rate each, and what holds the server back are their windows: never is more
/// let come than a player's buffer holds.
#[test]
fn players_share_connections_and_open_their_windows() {
    let plan = shared(played(6), 3);
    let mut server = Server::new(4_000_000, 8 * BYTES);
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.streams, figures.under_way, figures.errors.total(), figures.reopened), (6, 6, 0, 0));
    assert_eq!((figures.start.len(), figures.under_runs.len(), figures.dried), (6, 0, 0), "{figures:?}");
    assert_eq!((figures.connect.len(), figures.first_byte.len(), figures.first_byte.max()), (2, 6, 101_000));
    // A second's worth, eight times as fast.
    assert!(figures.start.min() >= 120_000_000 && figures.start.max() <= 130_000_000, "{:?}", figures.start);
    assert!(figures.bytes.abs_diff(36 * BYTES) <= 6 * BYTES / 8 + 6 * PIECE, "{}", figures.bytes);
    assert_eq!((figures.late.len(), figures.late.max()), (30, 0), "{:?}", figures.late);
    assert_eq!(server.most, BYTES as i64);
    let held_back = server.connections.values().flat_map(|connection| connection.answers.values());
    assert!(held_back.clone().count() == 6 && held_back.into_iter().all(|answer| answer.window == 0));
}

/// A window that is set smaller than the buffer bounds what comes ahead, and is opened as content comes.
#[test]
fn windows_may_be_smaller_than_buffers() {
    let mut plan = shared(played(3), 2);
    plan.load.http2 = Some(Http2 { stream_window: 20_000, ..Http2::default() });
    let mut server = Server::new(400_000, 8 * BYTES);
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.under_way, figures.errors.total(), figures.under_runs.len()), (4, 0, 0), "{figures:?}");
    assert!(server.most == 20_000 && figures.answers >= 4, "{} {}", server.most, figures.answers);
}

/// Answers come one behind the other on each stream, and are held against what is wanted.
#[test]
fn streams_ask_again_when_an_answer_is_whole() {
    let mut plan = shared(played(4), 2);
    plan.load.expect = Expect { length: Some(BYTES / 2), status: Some(200) };
    let mut server = Server::new(BYTES / 2, 8 * BYTES);
    let right = ran(&plan, &mut server);
    assert_eq!(
        (right.wrong, right.errors.total(), right.under_runs.len(), right.late.max()),
        (0, 0, 0, 0),
        "{right:?}"
    );
    // Some five seconds of half a second each, of four streams.
    assert!((36..=48).contains(&right.answers) && right.first_byte.len() >= right.answers, "{right:?}");
    plan.load.expect.length = Some(BYTES);
    let wrong = ran(&plan, &mut Server::new(BYTES / 2, 8 * BYTES));
    assert!(wrong.wrong == wrong.answers && wrong.wrong_by.wrong_length == wrong.wrong, "{wrong:?}");
}

/// Flows whose server keeps their rate are within a segment, each by itself.
#[test]
fn flows_on_one_connection_are_held_against_their_rate() {
    let plan = shared(held(12), 3);
    let figures = ran(&plan, &mut Server::new(30 * BYTES, BYTES));
    assert_eq!((figures.under_way, figures.errors.total()), (6, 0));
    let sums = figures.seconds.iter().fold((0, 0), |sum, second| (sum.0 + second.streams, sum.1 + second.within_one));
    assert_eq!(sums, (72, 72), "{:?}", figures.seconds);
    let slow = ran(&plan, &mut Server::new(30 * BYTES, BYTES * 9 / 10));
    assert!(slow.late.quantile(0.5).abs_diff(100_000_000) < 13_000_000, "{:?}", slow.late);
}

/// One that is not sent on any more runs dry, and none beside it.
#[test]
fn one_stream_may_run_dry_alone() {
    let plan = shared(played(5), 3);
    let mut server = Server::new(4_000_000, 8 * BYTES);
    // The head, two seconds of content, and nothing more: of the second request on the first connection.
    server.instead = |connection, asked, stream| {
        (connection == 0 && asked == 2).then(|| {
            let (mut block, mut out) = (Vec::new(), Vec::new());
            put_status(200, &mut block);
            frame::write(&mut out, Kind::Headers, END_HEADERS, stream, &block);
            for _ in 0..BYTES / 1_000 {
                frame::write(&mut out, Kind::Data, 0, stream, &[b'x'; 1_000]);
            }
            out
        })
    };
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.under_way, figures.under_runs.len(), figures.dried), (6, 1, 1), "{figures:?}");
    // Played for a second since its start, and not until 5.1 s.
    assert!(figures.under_runs.max() > 3_900_000_000 && figures.under_runs.max() < 4_200_000_000, "{figures:?}");
    assert_eq!(met(&report(&plan, figures), &["underruns=1", "underruns<20%", "errors=0"]), [true; 3]);
}

/// A server takes as many streams as it says: the others wait, and are in each figure.
#[test]
fn streams_that_a_server_does_not_take_wait() {
    let plan = shared(played(3), 3);
    let mut server = Server::new(40_000_000, 8 * BYTES);
    server.entries = vec![(setting::MAX_CONCURRENT_STREAMS, 2)];
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.under_way, figures.start.len(), figures.no_start.len()), (4, 4, 2), "{figures:?}");
    assert_eq!((figures.no_first_byte.len(), figures.errors.total()), (2, 0));
    // With short answers all have their turn.
    let mut server = Server::new(BYTES / 20, 80 * BYTES);
    server.entries = vec![(setting::MAX_CONCURRENT_STREAMS, 2)];
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.under_way, figures.under_runs.len(), figures.errors.total()), (6, 0, 0), "{figures:?}");
}

/// Streams that fail are counted, and ask again on the same connection; a frame that is none ends all of them.
#[test]
fn failures_are_counted_by_what_they_end() {
    let plan = shared(held(4), 3);
    let mut server = Server::new(30 * BYTES, BYTES);
    server.instead = |connection, asked, stream| {
        let mut out = Vec::new();
        match (connection, asked) {
            (0, 1) => frame::write_reset(&mut out, stream, ErrorCode::INTERNAL_ERROR),
            (0, 2) => out.extend(crate::http2::answer(stream, 404, 10)),
            // A head without a status.
            (0, 3) => frame::write(&mut out, Kind::Headers, END_HEADERS | END_STREAM, stream, &[0x84]),
            // A frame of no stream that was opened.
            (1, 3) => frame::write(&mut out, Kind::Data, 0, 99, &[0; 9]),
            _ => return None,
        }
        Some(out)
    };
    let figures = ran(&plan, &mut server);
    let errors = figures.errors;
    assert_eq!((errors.lost, errors.statuses, errors.malformed), (1, 1, 4), "{figures:?}");
    assert_eq!((errors.timeouts, errors.connects, figures.under_way, figures.connect.len()), (0, 0, 6, 3));
    // Those that failed were started anew by the end of the first second.
    assert_eq!(figures.seconds[3].within_one, 6, "{:?}", figures.seconds);
}

/// An answer that does not go on is given up by itself, a connection on which nothing comes as a whole.
#[test]
fn what_does_not_come_is_given_up() {
    let mut plan = shared(held(4), 2);
    plan.load.timeout = ms(500);
    let mut server = Server::new(30 * BYTES, BYTES);
    server.instead = |connection, asked, _| (connection == 0 && asked == 1).then(Vec::new);
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.errors.timeouts, figures.errors.total(), figures.under_way), (1, 1, 4), "{figures:?}");
    assert_eq!((server.cancelled(), figures.connect.len(), figures.no_first_byte.len()), (1, 2, 1));
    let mut server = Server::new(30 * BYTES, BYTES);
    server.instead = |connection, _, _| (connection == 0).then(Vec::new);
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.errors.timeouts, figures.errors.total(), figures.under_way), (2, 2, 4), "{figures:?}");
    assert_eq!((server.cancelled(), figures.connect.len()), (0, 3));
}

/// A player whose buffer is full lets nothing come: that is no silence of the server's.
#[test]
fn a_full_buffer_is_no_silence() {
    let mut plan = shared(played(6), 2);
    plan.player.as_mut().expect("it plays").buffer = Duration::from_secs(8);
    plan.load.timeout = ms(400);
    let figures = ran(&plan, &mut Server::new(40_000_000, 80 * BYTES));
    assert_eq!((figures.errors.total(), figures.under_way, figures.under_runs.len()), (0, 4, 0), "{figures:?}");
}

/// A server that goes is left when its answers are whole, and what it has not processed is asked of another connection
/// (RFC 9113 section 6.8): none of that is a failure.
#[test]
fn connections_that_are_told_to_go_are_replaced() {
    let plan = shared(held(5), 3);
    let mut server = Server::new(2 * BYTES, BYTES);
    server.instead = |connection, asked, stream| {
        (connection == 0 && asked == 3).then(|| {
            let mut out = Vec::new();
            frame::write_go_away(&mut out, frame::MAX_STREAM, ErrorCode::NO_ERROR);
            frame::write_go_away(&mut out, stream - 2, ErrorCode::NO_ERROR);
            out
        })
    };
    let figures = ran(&plan, &mut server);
    assert_eq!((figures.errors.total(), figures.under_way, figures.connect.len()), (0, 6, 3), "{figures:?}");
    assert!(figures.reopened == 1 && figures.answers >= 12, "{figures:?}");
    let asked: Vec<u64> = server.order.iter().map(|id| server.connections[id].asked).collect();
    assert!(asked.len() == 3 && asked[0] == 3 && asked[2] >= 6, "{asked:?}");
}

/// A connection that is lost takes all of its streams along; they go on with the next.
#[test]
fn a_lost_connection_is_lost_for_each_of_its_streams() {
    let plan = shared(held(4), 3);
    let mut server = Server::new(30 * BYTES, BYTES);
    let mut lost = false;
    let world = World::of(streaming(&plan), |_, now| {
        let mut reply = server.reply(now);
        if !lost && server.connections.values().any(|connection| connection.asked == 3) {
            lost = true;
            reply = Reply::nothing().then(Then::Reset);
        }
        reply
    });
    let figures = figures(world);
    assert_eq!((figures.errors.lost, figures.errors.total(), figures.under_way), (3, 3, 6), "{figures:?}");
    assert_eq!((figures.connect.len(), figures.reopened), (3, 0));
}

/// A server of HTTP/1.1 alone ends it at once, and is named.
#[test]
fn a_server_without_http2_is_told() {
    let plan = shared(held(4), 3);
    let answer = |_, _| Reply::bytes(us(100), &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..]);
    let mut world = World::of(streaming(&plan), answer);
    until(&mut world, Stage::Ended);
    assert!(world.elapsed() < ms(200), "{:?}", world.elapsed());
    let now = world.now();
    let figures = world.load.into_figures(now);
    assert!(figures.failure.as_ref().is_some_and(|why| why.contains("\"HTTP/1.1 400")), "{figures:?}");
    let report = report(&plan, figures);
    assert!(report.server_gone && report.under_way == 0);
}

/// All of a plan's streams are on some connection, whoever has it; calls of gRPC are none.
#[test]
fn plans_of_streams_that_share_connections() {
    let mut plan = shared(held(2), 250);
    assert_eq!((plan.streams(), plan.check().is_ok()), (500, true));
    let parts = [0, 1].map(|part| plan.share(part, 2).expect("it has streams"));
    assert_eq!(parts.map(|part| part.streams()), [250, 250]);
    plan.load.connections = 100_000;
    assert!(plan.check().is_err_and(|why| why.to_string().contains("16,777,216 streams")));
    plan.load.connections = 2;
    plan.load.requests[0].item.method = "POST".to_owned();
    plan.load.http2 = Some(Http2 { grpc: Some(load::Grpc { deadline: None }), ..Http2::default() });
    assert!(plan.check().is_err_and(|why| why.to_string().contains("no calls of gRPC")));
}
