//! Calls of gRPC, streams and rates: what counts, and as what.

use crate::http2::{Server, answer, call_answer, calls, http2, settings, trailers_only};
use crate::world::{Reply, World, assert_accounts, ms, report, us};
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, END_HEADERS, END_STREAM, Kind, setting};
use hpack::{HeaderField, put_static, put_status};
use load::{Arrival, Class, Figures, GrpcStatus, Objective, Plan, Schedule, Stop, Warning};
use std::cell::RefCell;

/// Runs a plan against a server that answers each stream as it is told to.
fn run(plan: &Plan, mut reply: impl FnMut(u32) -> (Duration, Vec<u8>)) -> Figures {
    let server = RefCell::new(Server::default());
    let mut world = World::new(plan, |_, _| {
        let mut server = server.borrow_mut();
        let mut parts = Vec::new();
        if server.take() {
            parts.push((us(1), settings(&[])));
        }
        parts.extend(core::mem::take(&mut server.whole).into_iter().map(&mut reply));
        Reply { parts, ..Reply::nothing() }
    });
    let figures = world.run();
    assert_accounts(&figures);
    figures
}

fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_reset(&mut out, stream, code);
    out
}

#[test]
fn a_server_that_cancels_a_call_at_its_deadline_has_it_exceed_that() {
    let mut plan = calls(10, b"", Some(ms(20)));
    plan.stop = Stop::After(ms(500));
    // Of each ten calls one is cancelled by the server's clock, one before.
    let figures = run(&plan, |stream| match stream / 2 % 10 {
        0 => (us(19_500), reset(stream, ErrorCode::CANCEL)),
        1 => (ms(10), reset(stream, ErrorCode::CANCEL)),
        2 => (us(19_500), reset(stream, ErrorCode::INTERNAL_ERROR)),
        _ => (ms(1), call_answer(stream, b"\0\0\0\0\0", "0")),
    });
    let (errors, expired) = (&figures.counts.errors, figures.samples.class(Class::TimedOut));
    assert!(errors.deadlines > 40 && errors.reset_streams.abs_diff(2 * errors.deadlines) < 20, "{errors:?}");
    assert_eq!(figures.counts.grpc.of(GrpcStatus::DeadlineExceeded), errors.deadlines);
    assert_eq!((expired.len(), expired.min()), (errors.deadlines, 19_500_000));
    assert!(figures.latency.max() < 19_600_000, "{}", figures.latency.max());
}

#[test]
fn the_uncorrected_times_are_of_the_same_requests() {
    let mut plan = calls(4, b"", None);
    plan.arrival = Arrival::Open(Schedule::constant(2_000.0));
    let figures = run(&plan, |stream| match stream / 2 % 4 {
        0 => (ms(3), reset(stream, ErrorCode::INTERNAL_ERROR)),
        _ => (us(500), call_answer(stream, b"\0\0\0\0\0", "0")),
    });
    assert!(figures.counts.errors.reset_streams > 40);
    assert_eq!(figures.samples.service.len(), figures.latency.len());
    assert!(figures.samples.service.max() < 600_000, "{}", figures.samples.service.max());
    let report = report(&plan, &figures);
    assert!(report.littles_law.off < 0.01, "{:?}", report.littles_law);
    let uncorrected = report.service.expect("an open loop");
    assert!(uncorrected.mean_ns <= report.latency.mean_ns);
}

/// An answer with a message of two bytes.
fn flagged(stream: u32, flag: u8, encoding: Option<&str>) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    put_status(200, &mut block);
    if let Some(encoding) = encoding {
        put_static(HeaderField::new(b"grpc-encoding", encoding.as_bytes()), &mut block);
    }
    frame::write(&mut out, Kind::Headers, END_HEADERS, stream, &block);
    frame::write(&mut out, Kind::Data, 0, stream, &[flag, 0, 0, 0, 2, b'x', b'y']);
    block.clear();
    put_static(HeaderField::new(b"grpc-status", b"0"), &mut block);
    frame::write(&mut out, Kind::Headers, END_HEADERS | END_STREAM, stream, &block);
    out
}

#[test]
fn a_compressed_message_is_right_where_its_head_says_how() {
    for (flag, encoding, why) in [
        (1, Some("gzip"), None),
        (0, Some("gzip"), None),
        (1, None, Some("compressed, without a grpc-encoding")),
        (1, Some("identity"), Some("compressed, without a grpc-encoding")),
        (2, Some("gzip"), Some("a flag that is neither 0 nor 1")),
    ] {
        let plan = calls(2, b"", None);
        let figures = run(&plan, |stream| (us(500), flagged(stream, flag, encoding)));
        let wrong = if why.is_some() { figures.counts.traffic.responses } else { 0 };
        assert!(figures.counts.traffic.responses > 100);
        assert_eq!((figures.counts.errors.wrong_flag, figures.counts.errors.total()), (wrong, wrong), "{flag}");
        let told = figures.wrong_answers.first().map(|one| one.wrong.to_string());
        assert_eq!(told.as_deref(), why);
    }
}

#[test]
fn objectives_see_answers_that_are_wrong() {
    let plan = calls(2, b"", None);
    let figures = run(&plan, |stream| (us(500), call_answer(stream, b"\0\0\0\0\x07", "0")));
    let report = report(&plan, &figures);
    let judge = |text: &str| text.parse::<Objective>().expect("an objective").judge(&report);
    assert!(judge("errors=0").met && judge("wrong>=100%").met);
    assert!(!judge("wrong=0").met && !judge("notok=0").met);
    assert_eq!(judge("notok<50%").measured, Some(1.0));
}

#[test]
fn a_call_is_of_one_class_everywhere() {
    let mut plan = calls(2, b"", None);
    plan.url_rows = Some(10);
    let figures = run(&plan, |stream| match stream / 2 % 2 {
        0 => (us(500), trailers_only(stream, 200, Some("5"))),
        _ => (us(500), call_answer(stream, b"\0\0\0\0\x07", "0")),
    });
    let (calls, statuses) = (figures.counts.grpc, figures.counts.statuses);
    let missing = calls.of(GrpcStatus::NotFound);
    assert!(missing > 100);
    assert_eq!((statuses.client_error, statuses.success), (missing, calls.of(GrpcStatus::Ok)));
    assert_eq!(figures.samples.class(Class::ClientError).len(), missing);
    let report = report(&plan, &figures);
    let [row] = &*report.urls else { panic!("one row") };
    assert_eq!((row.client_error, row.success, row.wrong), (missing, statuses.success, statuses.success));
    assert!(!report.warnings.iter().any(|warning| matches!(warning, Warning::NotSuccess { .. })));
}

#[test]
fn no_more_streams_than_a_server_takes_are_opened_before_it_says_so() {
    let mut plan = http2(20);
    plan.stop = Stop::Requests { count: 1_000, within: Duration::from_secs(10) };
    plan.warm_up = Duration::ZERO;
    let server = RefCell::new(Server::default());
    let (mut held, mut lowered) = (Vec::new(), false);
    let mut world = World::new(&plan, |n, _| {
        let (mut server, mut reply) = (server.borrow_mut(), Reply::nothing());
        if server.take() {
            assert_eq!(server.whole.len(), 1, "before the settings came");
            reply.parts.push((us(50), settings(&[(setting::MAX_CONCURRENT_STREAMS, 5)])));
        }
        held.append(&mut server.whole);
        if n > 200 && !lowered {
            if held.len() < 5 {
                return reply;
            }
            // It takes two from now on, and has refused what is more.
            lowered = true;
            let mut out = settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)]);
            held.drain(2..).for_each(|stream| out.extend(reset(stream, ErrorCode::REFUSED_STREAM)));
            reply.parts.push((us(60), out));
        }
        reply.parts.extend(held.drain(..).map(|stream| (us(100), answer(stream, 200, 1))));
        reply
    });
    let figures = world.run();
    drop(world);
    assert!(lowered);
    assert_accounts(&figures);
    assert_eq!((figures.counts.traffic.responses, figures.counts.errors.total()), (1_000, 0));
    assert_eq!(figures.counts.traffic.unprocessed, 3, "they are sent again");
}

/// 200 calls a second that take 50 ms, without a warm-up.
fn cold(stop: Stop) -> Plan {
    let mut plan = calls(250, b"", None);
    plan.arrival = Arrival::Open(Schedule::constant(200.0));
    (plan.warm_up, plan.stop) = (Duration::ZERO, stop);
    plan
}

#[test]
fn what_was_sent_in_time_is_the_rate_of_an_open_loop() {
    let within = Duration::from_secs(10);
    for stop in [Stop::After(Duration::from_secs(4)), Stop::Requests { count: 800, within }] {
        let plan = cold(stop);
        let figures = run(&plan, |stream| (ms(50), call_answer(stream, b"\0\0\0\0\0", "0")));
        let report = report(&plan, &figures);
        let rate = report.throughput.requests_per_second;
        assert!((199.0..=200.5).contains(&rate), "{rate}");
        let schedule = report.schedule.expect("an open loop");
        assert!(schedule.achieved_fraction > 0.998, "{schedule:?}");
        assert!(!report.warnings.iter().any(|warning| matches!(warning, Warning::RateMissed { .. })), "{stop:?}");
    }
    // A server that is behind from the first has not carried what piles up.
    let plan = cold(Stop::After(Duration::from_secs(4)));
    let mut free = Duration::ZERO;
    let mut due = Duration::ZERO;
    let figures = run(&plan, |stream| {
        due += ms(5);
        free = free.max(due) + us(5_500);
        (free - due, call_answer(stream, b"\0\0\0\0\0", "0"))
    });
    let report = report(&plan, &figures);
    assert!(
        report.warnings.iter().any(|warning| matches!(warning, Warning::RateMissed { .. })),
        "{:?}",
        report.schedule
    );
}
