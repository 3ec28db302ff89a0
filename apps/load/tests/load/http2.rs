//! HTTP/2 against a server of frames, one connection at a time.

use crate::world::{Reply, World, assert_accounts, current_request, ms, plan, report, secured, us};
use core::ops::ControlFlow;
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, END_HEADERS, END_STREAM, FrameHead, Kind, setting};
use hpack::{Decoder, HeaderField, Scratch, put_static, put_status};
use load::{Arrival, Ended, Figures, Heads, Http2, Plan, Request, Reuse, Schedule, Stop};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a client sent, frame by frame.
#[derive(Default)]
struct Server {
    decoder: Decoder,
    bytes: Vec<u8>,
    /// The fields of requests, by stream, and their content so far.
    requests: BTreeMap<u32, (Vec<(String, String)>, usize)>,
    /// Streams whose requests are complete, in their order.
    whole: Vec<u32>,
    /// Bytes of all content.
    came: usize,
    /// Bytes of all blocks.
    blocks: usize,
    goodbye: bool,
}

impl Server {
    /// Takes the bytes at hand. Whether they begin a connection.
    fn take(&mut self) -> bool {
        let bytes = current_request();
        let begins = bytes.starts_with(frame::PREFACE);
        if begins {
            *self = Self { bytes: bytes[frame::PREFACE.len()..].to_vec(), ..Self::default() };
        } else {
            self.bytes.extend(bytes);
        }
        while let Some(head) = FrameHead::read(&self.bytes)
            && self.bytes.len() >= frame::HEAD + head.length as usize
        {
            let whole: Vec<u8> = self.bytes.drain(..frame::HEAD + head.length as usize).collect();
            self.frame(head, &whole[frame::HEAD..]);
        }
        begins
    }

    fn frame(&mut self, head: FrameHead, payload: &[u8]) {
        match head.kind {
            Kind::Headers => {
                assert!(head.has(END_HEADERS));
                self.blocks += payload.len();
                let mut fields = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                self.decoder
                    .decode(payload, &mut Scratch::new(), |field| {
                        fields.push((text(field.name), text(field.value)));
                        ControlFlow::Continue(())
                    })
                    .expect("a block");
                assert!(self.requests.insert(head.stream, (fields, 0)).is_none());
            }
            Kind::Data => {
                self.came += payload.len();
                self.requests.get_mut(&head.stream).expect("its head came").1 += payload.len();
            }
            Kind::GoAway => self.goodbye = true,
            _ => {}
        }
        if matches!(head.kind, Kind::Headers | Kind::Data) && head.has(END_STREAM) {
            self.whole.push(head.stream);
        }
    }
}

fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_settings(&mut out, entries);
    out
}

/// An answer of `length` bytes.
fn answer(stream: u32, status: u16, length: usize) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    put_status(status, &mut block);
    put_static(HeaderField::new(b"content-length", length.to_string().as_bytes()), &mut block);
    frame::write(&mut out, Kind::Headers, END_HEADERS, stream, &block);
    frame::write(&mut out, Kind::Data, END_STREAM, stream, &vec![b'x'; length]);
    out
}

/// One connection of so many streams.
fn http2(streams: u16) -> Plan {
    let mut plan = plan();
    plan.connections = 1;
    plan.http2 = Some(Http2::default());
    plan.pipeline = streams;
    (plan.warm_up, plan.stop) = (ms(10), Stop::After(ms(100)));
    plan
}

/// Runs a plan against a server that answers what is complete after 100 µs, the last first, and
/// says `entries` at the beginning.
fn run(plan: &Plan, entries: &[(u16, u32)], server: &RefCell<Server>) -> Figures {
    let mut world = World::new(plan, |_, _| {
        let mut server = server.borrow_mut();
        let mut reply = Reply::nothing();
        if server.take() {
            reply.parts.push((us(1), settings(entries)));
        }
        let streams = core::mem::take(&mut server.whole);
        let answers: Vec<u8> = streams.iter().rev().flat_map(|stream| answer(*stream, 200, 10)).collect();
        // The first is kept to be looked at.
        server.requests.retain(|stream, _| *stream == 1);
        if !answers.is_empty() {
            reply.parts.push((us(100), answers));
        }
        reply
    });
    world.run()
}

#[test]
fn each_stream_asks_again_when_it_is_answered() {
    let (plan, server) = (http2(10), RefCell::default());
    let figures = run(&plan, &[], &server);
    assert_eq!(figures.ended, Ended::AsPlanned);
    // Ten at a time, 100 µs each.
    let responses = figures.counts.traffic.responses;
    assert!((9_980..=10_020).contains(&responses), "{responses}");
    assert_eq!((figures.latency.min(), figures.latency.max()), (100_000, 100_000));
    assert_eq!(figures.counts.statuses.success, responses);
    assert_eq!(figures.counts.traffic.body_bytes, 10 * responses);
    assert_eq!(figures.counts.errors.total() + figures.before.errors.total(), 0);
    assert_eq!((figures.in_flight, figures.open), (10, 1));
    assert!(figures.oldest_in_flight <= us(100), "{:?}", figures.oldest_in_flight);
    assert_accounts(&figures);
    let report = report(&plan, &figures);
    assert!(report.littles_law.off < 0.001, "{:?}", report.littles_law);
    // Five fields that both tables have: no more than a frame's head and a byte for each.
    let (sent, bytes) = (figures.counts.traffic.sent, figures.counts.traffic.sent_bytes);
    assert_eq!(bytes, sent * (9 + 4), "a path that is /, and a known authority");
    let server = server.borrow();
    let expected = [(":method", "GET"), (":scheme", "http"), (":authority", "10.0.0.2"), (":path", "/")];
    for (fields, content) in server.requests.values() {
        assert!(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected));
        assert_eq!(*content, 0);
    }
}

#[test]
fn a_server_bounds_the_streams() {
    for (asked, bound, under_way) in [(10, 3, 3), (150, 120, 120), (150, 500, 150)] {
        let mut plan = http2(asked);
        plan.stop = Stop::After(ms(20));
        let figures = run(&plan, &[(setting::MAX_CONCURRENT_STREAMS, bound)], &RefCell::default());
        assert_eq!(figures.in_flight, under_way, "{asked} of {bound}");
        let expected = under_way * 200;
        assert!(figures.counts.traffic.responses.abs_diff(expected) <= under_way, "{asked} of {bound}");
        assert_accounts(&figures);
    }
}

#[test]
fn a_number_of_requests_is_met_exactly() {
    for (streams, reuse) in [(7, Reuse::KeepAlive), (1, Reuse::ClientCloses), (4, Reuse::ClientClosesAfter(10))] {
        let mut plan = http2(streams);
        plan.reuse = reuse;
        plan.stop = Stop::Requests { count: 500, within: Duration::from_secs(60) };
        let server = RefCell::default();
        let figures = run(&plan, &[], &server);
        assert_eq!((figures.ended, figures.counts.traffic.responses), (Ended::AsPlanned, 500), "{reuse:?}");
        assert_eq!(figures.counts.errors.total(), 0);
        assert_accounts(&figures);
        let all = figures.before.connections.established + figures.counts.connections.established;
        assert_eq!(all > 1, reuse != Reuse::KeepAlive, "{all}");
    }
}

#[test]
fn what_a_server_resets_refuses_and_leaves_is_counted_apart() {
    let plan = http2(4);
    let server = RefCell::new(Server::default());
    let mut world = World::new(&plan, |_, _| {
        let mut server = server.borrow_mut();
        let mut out = if server.take() { settings(&[]) } else { Vec::new() };
        for stream in core::mem::take(&mut server.whole) {
            // A connection has streams 1 to 19 answered, of which some are not.
            match stream {
                3 => frame::write_reset(&mut out, stream, ErrorCode::INTERNAL_ERROR),
                5 => frame::write_reset(&mut out, stream, ErrorCode::REFUSED_STREAM),
                7 => frame::write(&mut out, Kind::Headers, END_HEADERS | END_STREAM, stream, &[0x84]),
                21 => frame::write_go_away(&mut out, 19, ErrorCode::NO_ERROR),
                _ => out.extend(answer(stream, 200, 1)),
            }
        }
        if out.is_empty() { Reply::nothing() } else { Reply::bytes(us(100), out) }
    });
    let figures = world.run();
    let (errors, connections) = (&figures.counts.errors, &figures.counts.connections);
    let gone = connections.go_aways;
    assert!(gone > 20, "{gone}");
    // Of each connection one stream each; those beyond the last are some that were sent meanwhile.
    for count in [errors.reset_streams, errors.refused_streams, errors.malformed] {
        assert!(count.abs_diff(gone) <= 1, "{errors:?}");
    }
    assert!((gone - 1..=4 * gone).contains(&errors.unprocessed), "{errors:?}");
    assert_eq!(errors.total(), errors.failed_requests());
    assert!(connections.established.abs_diff(gone) <= 1);
    assert_accounts(&figures);
    let per_connection = figures.counts.traffic.responses as f64 / gone as f64;
    assert!((6.5..7.5).contains(&per_connection), "{per_connection}");
    drop(world);
    assert!(server.borrow().goodbye || server.borrow().blocks > 0);
}

#[test]
fn a_connection_that_breaks_the_protocol_is_given_up() {
    let plan = http2(4);
    let server = RefCell::new(Server::default());
    let mut world = World::new(&plan, |_, _| {
        let mut server = server.borrow_mut();
        let mut out = if server.take() { settings(&[]) } else { Vec::new() };
        let whole = core::mem::take(&mut server.whole);
        if whole.contains(&9) {
            frame::write(&mut out, Kind::Ping, 0, 0, b"short");
        } else {
            out.extend(whole.into_iter().flat_map(|stream| answer(stream, 200, 1)));
        }
        if out.is_empty() { Reply::nothing() } else { Reply::bytes(us(100), out) }
    });
    let figures = world.run();
    let malformed = figures.counts.errors.malformed;
    assert!(malformed > 20 && malformed.is_multiple_of(4), "{malformed}");
    assert_accounts(&figures);
}

#[test]
fn requests_keep_the_time_that_they_were_due() {
    // One stream answers 10,000 a second; 20,000 are due, so half wait.
    let mut plan = http2(2);
    plan.arrival = Arrival::Open(Schedule::constant(20_000.0));
    let figures = run(&plan, &[(setting::MAX_CONCURRENT_STREAMS, 1)], &RefCell::default());
    let responses = figures.counts.traffic.responses;
    assert!(responses.abs_diff(1_000) <= 2, "{responses}");
    assert_eq!(figures.samples.service.max(), 100_000);
    // What is answered at the end was due half the time ago.
    let longest = Duration::from_nanos(figures.latency.max());
    assert!(longest > ms(45) && longest < ms(65), "{longest:?}");
    assert_accounts(&figures);
    // At a rate that it can take, none waits.
    plan.pipeline = 10;
    let figures = run(&plan, &[], &RefCell::default());
    assert!(figures.counts.traffic.responses.abs_diff(2_000) <= 10);
    assert!(figures.latency.max() <= 102_000, "{}", figures.latency.max());
    assert_accounts(&figures);
}

#[test]
fn content_is_sent_as_the_windows_open() {
    let mut plan = http2(3);
    let request = Request { method: "POST".into(), body: vec![b'u'; 100_000], ..Request::get("a", "/up") };
    plan.requests[0].item = request;
    let server = RefCell::new(Server::default());
    let mut before = 0;
    let mut world = World::new(&plan, |_, _| {
        let mut server = server.borrow_mut();
        let mut out = Vec::new();
        if server.take() {
            before = 0;
            out = settings(&[(setting::INITIAL_WINDOW_SIZE, 30_000)]);
        }
        let came = server.came;
        if came > before {
            // As much again, of the connection and of each stream.
            frame::write_window_update(&mut out, 0, (came - before) as u32);
            for (stream, (_, length)) in &server.requests {
                if *length < 100_000 {
                    frame::write_window_update(&mut out, *stream, 20_000);
                }
            }
        }
        before = came;
        for stream in core::mem::take(&mut server.whole) {
            let (fields, length) = server.requests.remove(&stream).expect("it is whole");
            assert_eq!(length, 100_000);
            assert!(fields.contains(&("content-length".to_owned(), "100000".to_owned())));
            out.extend(answer(stream, 201, 0));
        }
        if out.is_empty() { Reply::nothing() } else { Reply::bytes(us(100), out) }
    });
    let figures = world.run();
    assert!(figures.counts.traffic.responses > 100, "{}", figures.counts.traffic.responses);
    assert!(figures.counts.traffic.sent_bytes > 100_000 * figures.counts.traffic.responses);
    assert_eq!(figures.counts.errors.total(), 0);
    assert_accounts(&figures);
}

#[test]
fn fields_of_browsers_are_in_the_table_after_the_first() {
    let mut plan = http2(1);
    plan.heads = Heads::Browser;
    plan.requests = (0..5)
        .map(|n| load::Weighted { weight: 1, item: Request::get("www.example.com", &format!("/page/{n}?a=b")) })
        .collect();
    let server = RefCell::default();
    let figures = run(&plan, &[], &server);
    assert_accounts(&figures);
    let server = server.borrow();
    let (first, _) = &server.requests[&1];
    assert!(first.iter().any(|(name, _)| name == "user-agent"));
    // RFC 9113 section 8.2.3: each cookie by itself.
    assert!(first.iter().filter(|(name, _)| name == "cookie").count() >= 4, "{first:?}");
    assert!(first.iter().all(|(name, _)| name.bytes().all(|byte| !byte.is_ascii_uppercase())));
    // The path alone is said each time.
    let each = figures.counts.traffic.sent_bytes / figures.counts.traffic.sent;
    assert!((9 + 20..9 + 40).contains(&each), "{each}");
    // Without a table all is.
    plan.http2 = Some(Http2 { encoder_table: 0, ..Http2::default() });
    let figures = run(&plan, &[], &RefCell::default());
    assert!(figures.counts.traffic.sent_bytes / figures.counts.traffic.sent > 300);
}

#[test]
fn a_server_of_tls_must_choose_it() {
    let mut plan = http2(1);
    plan.secured = Some(secured::sought());
    // Early data is refused with it.
    assert!(plan.check().is_err_and(|why| why.to_string().contains("early data")));
}

#[test]
fn what_http2_does_not_have_is_refused() {
    let refused = |change: &dyn Fn(&mut Plan), word: &str| {
        let mut plan = http2(1);
        change(&mut plan);
        let why = plan.check().expect_err(word).to_string();
        assert!(why.contains(word), "{why}");
    };
    refused(&|plan| plan.pipeline = 251, "250 streams");
    refused(&|plan| plan.pipeline = 0, "250 streams");
    refused(&|plan| plan.cookies = true, "cookies");
    refused(&|plan| plan.reuse = Reuse::ServerCloses, "client closes");
    refused(&|plan| plan.requests[0].item.headers = vec![("TE".into(), "trailers".into())], "TE");
    refused(&|plan| (plan.connections, plan.active) = (2, Some(1)), "active");
    assert!(http2(250).check().is_ok());
}
