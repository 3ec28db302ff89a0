//! HTTP/2 against a server of frames, one connection at a time.

use crate::world::{Reply, World, assert_accounts, current_request, ms, plan, report, secured, us};
use core::ops::ControlFlow;
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, END_HEADERS, END_STREAM, FrameHead, Kind, setting};
use hpack::{Decoder, HeaderField, Scratch, put_static, put_status};
use load::{
    Arrival, Class, Ended, Figures, Grpc, GrpcStatus, Heads, Http2, Objective, Plan, Request, Reuse, Schedule, Stop,
    Trust, Warning,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a client sent, frame by frame.
#[derive(Default)]
pub struct Server {
    decoder: Decoder,
    bytes: Vec<u8>,
    /// The fields of requests, by stream, and their content so far.
    requests: BTreeMap<u32, (Vec<(String, String)>, usize)>,
    /// Streams whose requests are complete, in their order.
    pub whole: Vec<u32>,
    /// Bytes of all content.
    came: usize,
    /// Bytes of all blocks.
    blocks: usize,
    pub goodbye: bool,
}

impl Server {
    /// Takes the bytes at hand. Whether they begin a connection.
    pub fn take(&mut self) -> bool {
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

pub fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_settings(&mut out, entries);
    out
}

/// An answer of `length` bytes.
pub fn answer(stream: u32, status: u16, length: usize) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    put_status(status, &mut block);
    put_static(HeaderField::new(b"content-length", length.to_string().as_bytes()), &mut block);
    frame::write(&mut out, Kind::Headers, END_HEADERS, stream, &block);
    frame::write(&mut out, Kind::Data, END_STREAM, stream, &vec![b'x'; length]);
    out
}

/// One connection of so many streams.
pub fn http2(streams: u16) -> Plan {
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
    let unprocessed = figures.counts.traffic.unprocessed;
    assert!((gone - 1..=4 * gone).contains(&unprocessed), "{unprocessed}");
    assert_eq!(errors.total(), errors.failed_requests());
    assert!(connections.established.abs_diff(gone) <= 1);
    assert_accounts(&figures);
    let per_connection = figures.counts.traffic.responses as f64 / gone as f64;
    assert!((6.5..7.5).contains(&per_connection), "{per_connection}");
    drop(world);
    assert!(server.borrow().goodbye || server.borrow().blocks > 0);
}

/// A server that answers so many requests on each connection, and says twice that it goes: that it is about
/// to, and which was the last (RFC 9113 section 6.8).
fn goes_after(count: u32, server: &RefCell<Server>) -> Reply {
    let last = 2 * count - 1;
    let mut server = server.borrow_mut();
    let mut out = if server.take() { settings(&[]) } else { Vec::new() };
    for stream in core::mem::take(&mut server.whole) {
        if stream == last {
            frame::write_go_away(&mut out, frame::MAX_STREAM, ErrorCode::NO_ERROR);
            frame::write_go_away(&mut out, stream, ErrorCode::NO_ERROR);
        }
        if stream <= last {
            out.extend(answer(stream, 200, 1));
        }
    }
    if out.is_empty() { Reply::nothing() } else { Reply::bytes(us(100), out) }
}

#[test]
fn what_a_goaway_leaves_unprocessed_is_sent_again_and_no_failure() {
    // RFC 9113 section 8.7.
    let mut plan = http2(4);
    plan.stop = Stop::Requests { count: 5_000, within: Duration::from_secs(10) };
    plan.warm_up = Duration::ZERO;
    let server = RefCell::new(Server::default());
    let mut world = World::new(&plan, |_, _| goes_after(100, &server));
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!((figures.ended, figures.counts.traffic.responses), (Ended::AsPlanned, 5_000));
    let unprocessed = figures.counts.traffic.unprocessed;
    assert!(unprocessed > 40, "{unprocessed}");
    assert_eq!(figures.counts.errors.total() + figures.before.errors.total(), 0);
    // Once for each connection, whatever is said twice.
    let (connections, before) = (&figures.counts.connections, &figures.before.connections);
    let all = connections.established + before.established;
    assert!((50..=51).contains(&all) && all.abs_diff(connections.go_aways) <= 1, "{all} {connections:?}");
    let report = report(&plan, &figures);
    let spoilt: Vec<_> = report.verdict.reasons.iter().filter(|reason| reason.trust == Trust::No).collect();
    assert!(report.littles_law.off < 0.01, "{:?}", report.littles_law);
    assert!(spoilt.is_empty(), "{spoilt:?}");
}

#[test]
fn what_was_due_keeps_its_time_when_it_is_sent_again() {
    let mut plan = http2(4);
    plan.arrival = Arrival::Open(Schedule::constant(20_000.0));
    let server = RefCell::new(Server::default());
    let mut world = World::new(&plan, |_, _| goes_after(10, &server));
    let figures = world.run();
    assert_accounts(&figures);
    let (traffic, schedule) = (&figures.counts.traffic, &figures.schedule);
    assert!(traffic.unprocessed > 100, "{traffic:?}");
    assert_eq!(figures.counts.errors.total(), 0);
    // Those that were due once are answered once, or wait.
    let waiting = figures.in_flight + schedule.unsent;
    assert!(schedule.due.abs_diff(traffic.responses + waiting) <= 4, "{schedule:?} {traffic:?} {waiting}");
    // Who was taken back waited for an answer that did not come: longer than the lag of who was not.
    assert!(figures.samples.lag.max() >= 100_000, "{}", figures.samples.lag.max());
}

#[test]
fn a_server_that_does_not_speak_http2_is_named() {
    for (said, shown) in [
        ("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "\"HTTP/1.1 400 Bad Request\""),
        ("<!DOCTYPE HTML>\n<html>", "\"<!DOCTYPE HTML>\""),
        ("\x15\x03\x01\0\x02\x02\x46", "a few bytes"),
    ] {
        let plan = http2(4);
        let mut world = World::new(&plan, |_, _| Reply::bytes(us(100), said).then(crate::world::Then::Finish));
        let figures = world.run();
        assert_eq!(figures.ended, Ended::NotHttp2, "{said}");
        let why = figures.connection_failure.clone().expect("a reason");
        assert!(why.contains("does not speak HTTP/2") && why.ends_with(shown), "{why}");
        // No more than one stream is opened before the server's settings came.
        assert_eq!(figures.before.errors.misspoken, 1);
        assert_eq!(figures.before.errors.malformed + figures.before.traffic.responses, 0);
        assert_accounts(&figures);
    }
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
    refused(&|plan| plan.requests[0].item.headers = vec![("TE".into(), "gzip".into())], "TE");
    refused(&|plan| (plan.connections, plan.active) = (2, Some(1)), "active");
    // RFC 9113 section 8.2.2.
    let mut plan = http2(250);
    plan.requests[0].item.headers = vec![("TE".into(), "trailers".into())];
    assert!(plan.check().is_ok());
}

/// Calls of a method that is sent `message`.
pub fn calls(streams: u16, message: &[u8], deadline: Option<Duration>) -> Plan {
    let mut plan = http2(streams);
    plan.http2 = Some(Http2 { grpc: Some(Grpc { deadline }), ..Http2::default() });
    let method = "/pkg.Service/Method";
    plan.requests[0].item =
        Request { method: "POST".into(), body: message.to_vec(), ..Request::get("a.example", method) };
    plan
}

/// The answer to a call: content, and trailers.
pub fn call_answer(stream: u32, content: &[u8], status: &str) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    put_status(200, &mut block);
    put_static(HeaderField::new(b"content-type", b"application/grpc"), &mut block);
    frame::write(&mut out, Kind::Headers, END_HEADERS, stream, &block);
    frame::write(&mut out, Kind::Data, 0, stream, content);
    block.clear();
    put_static(HeaderField::new(b"grpc-status", status.as_bytes()), &mut block);
    frame::write(&mut out, Kind::Headers, END_HEADERS | END_STREAM, stream, &block);
    out
}

/// One that has no content: its head is its trailers.
pub fn trailers_only(stream: u32, http: u16, status: Option<&str>) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    put_status(http, &mut block);
    if let Some(status) = status {
        put_static(HeaderField::new(b"grpc-status", status.as_bytes()), &mut block);
    }
    frame::write(&mut out, Kind::Headers, END_HEADERS | END_STREAM, stream, &block);
    out
}

#[test]
fn a_call_is_a_message_and_its_answer_is_what_the_trailers_say() {
    let plan = calls(10, b"hello", Some(ms(50)));
    let server = RefCell::new(Server::default());
    let mut world = World::new(&plan, |_, _| {
        let mut server = server.borrow_mut();
        let mut out = if server.take() { settings(&[]) } else { Vec::new() };
        for stream in core::mem::take(&mut server.whole) {
            assert_eq!(server.requests[&stream].1, 5 + 5, "a prefix and the message");
            if stream > 1 {
                // The first is kept to be looked at.
                server.requests.remove(&stream);
            }
            // Of each twenty, one of each kind; the others are right.
            out.extend(match stream / 2 % 20 {
                0 => call_answer(stream, b"", "14"),
                1 => trailers_only(stream, 200, Some("12")),
                2 => trailers_only(stream, 503, None),
                3 => trailers_only(stream, 200, None),
                4 => call_answer(stream, b"\0\0\0\0\x02x", "0"),
                _ => call_answer(stream, b"\0\0\0\0\x02xy", "0"),
            });
        }
        if out.is_empty() { Reply::nothing() } else { Reply::bytes(us(100), out) }
    });
    let figures = world.run();
    drop(world);
    assert_accounts(&figures);
    let (counts, all) = (&figures.counts, figures.counts.traffic.responses);
    assert!(all > 5_000, "{all}");
    let is_share = |count: u64, of_twenty: u64| count.abs_diff(all * of_twenty / 20) <= 2 * of_twenty;
    for (status, of_twenty) in
        [(GrpcStatus::Ok, 16), (GrpcStatus::Unavailable, 2), (GrpcStatus::Unimplemented, 1), (GrpcStatus::Unknown, 1)]
    {
        assert!(is_share(counts.grpc.of(status), of_twenty), "{status:?} {:?}", counts.grpc);
    }
    assert_eq!(counts.grpc.iter().map(|(_, count)| count).sum::<u64>(), all);
    assert!(is_share(counts.errors.wrong_message, 1), "{:?}", counts.errors);
    assert_eq!(counts.errors.total(), counts.errors.wrong_message);
    // Of classes as their statuses are, whatever HTTP says.
    assert!(is_share(counts.statuses.success, 16) && is_share(counts.statuses.server_error, 4));
    assert!(is_share(figures.samples.class(Class::ServerError).len(), 4));
    let report = report(&plan, &figures);
    assert!(report.warnings.iter().any(|warning| matches!(warning, Warning::NotOk { fraction } if *fraction > 0.19)));
    assert!(report.warnings.iter().any(|warning| matches!(warning, Warning::WrongAnswers { .. })));
    // What is asked of errors is asked of calls, whatever their status of HTTP.
    let errors = "notok<24%".parse::<Objective>().expect("an objective").judge(&report);
    assert!(!errors.met && errors.measured.is_some_and(|share| (0.24..0.26).contains(&share)), "{errors:?}");
    let server = server.borrow();
    let expected = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "/pkg.Service/Method"),
        ("te", "trailers"),
        ("grpc-timeout", "50000000n"),
        ("content-type", "application/grpc"),
    ];
    let (fields, _) = &server.requests[&1];
    assert!(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected), "{fields:?}");
}

#[test]
fn a_call_that_is_not_answered_by_its_deadline_is_cancelled_alone() {
    // Of each ten calls one is never answered; the others take 1 ms.
    for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(2_000.0))] {
        let mut plan = calls(10, b"", Some(ms(20)));
        plan.arrival = arrival;
        plan.stop = Stop::After(ms(500));
        let server = RefCell::new(Server::default());
        let mut world = World::new(&plan, |_, _| {
            let mut server = server.borrow_mut();
            let mut out = if server.take() { settings(&[]) } else { Vec::new() };
            for stream in core::mem::take(&mut server.whole) {
                if stream / 2 % 10 != 0 {
                    out.extend(call_answer(stream, b"\0\0\0\0\0", "0"));
                }
            }
            if out.is_empty() { Reply::nothing() } else { Reply::bytes(ms(1), out) }
        });
        let figures = world.run();
        drop(world);
        assert_accounts(&figures);
        let (errors, grpc) = (&figures.counts.errors, &figures.counts.grpc);
        assert!(errors.deadlines > 50, "{errors:?}");
        assert_eq!(errors.total(), errors.deadlines);
        assert_eq!(grpc.of(GrpcStatus::DeadlineExceeded), errors.deadlines);
        assert!((grpc.of(GrpcStatus::Ok) / 9).abs_diff(errors.deadlines) <= 10, "{grpc:?}");
        let expired = figures.samples.class(Class::TimedOut);
        // The timer has a resolution; never before, and a millisecond late at most.
        assert!(expired.min() >= 20_000_000 && figures.samples.class(Class::Success).max() < 20_000_000);
        assert!(expired.max() < 22_000_000, "{}", expired.max());
        // The connection stays.
        assert_eq!((figures.open, figures.counts.connections.closed), (1, 0));
    }
}

#[test]
fn what_is_no_call_is_refused() {
    let refused = |change: &dyn Fn(&mut Plan), word: &str| {
        let mut plan = calls(1, b"x", None);
        change(&mut plan);
        let why = plan.check().expect_err(word).to_string();
        assert!(why.contains(word), "{why}");
    };
    refused(&|plan| plan.requests[0].item.method = "GET".into(), "POST");
    refused(&|plan| plan.requests[0].item.headers = vec![("Grpc-Timeout".into(), "1S".into())], "deadline");
    refused(&|plan| *plan = calls(1, b"x", Some(Duration::from_secs(1_001))), "1,000 s");
    assert!(calls(250, b"", Some(ms(1))).check().is_ok());
}
