//! Streams that are to have a rate, in simulated time: what is counted of servers that keep it, that
//! do not, and of a generator that is late itself.

use crate::world::{Reply, Then, World, ms, plan, response, secured, us};
use core::time::Duration;
use load::{
    LeftOut, PlayRate, PlayerPlan, Request, SEGMENT, Stage, Stop, Streaming, StreamingFigures, StreamingPlan,
    StreamingReport, StreamingSetup, Weighted,
};

/// The rate of all streams here: 1 Mbit/s are 125,000 bytes a second.
pub const RATE: u64 = 1_000_000;
pub const BYTES: u64 = RATE / 8;

/// Payload of one piece of an answer.
const PIECE: u64 = 1_448;

/// Four streams, measured for so many seconds, held against their rate.
pub fn held(seconds: u64) -> StreamingPlan {
    let mut load = plan();
    load.stop = Stop::After(Duration::from_secs(seconds));
    StreamingPlan { load, rate: PlayRate::new(RATE), player: None, spread: false }
}

/// The same played, from a buffer of a second.
pub fn played(seconds: u64) -> StreamingPlan {
    StreamingPlan { player: Some(PlayerPlan { buffer: Duration::from_secs(1), share: 1.0 }), ..held(seconds) }
}

/// An answer of so many bytes, which come at a rate (bytes a second), piece by piece; each piece when `at` says.
pub fn paced(bytes: u64, rate: u64, at: impl Fn(Duration) -> Duration) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    let piece = |number: u64| {
        let len = PIECE.min(bytes - number * PIECE);
        (us(100) + at(Duration::from_nanos(number * PIECE * 1_000_000_000 / rate)), vec![b'x'; len as usize])
    };
    Reply {
        parts: [(us(100), head)].into_iter().chain((0..bytes.div_ceil(PIECE)).map(piece)).collect(),
        then: Then::Keep,
    }
}

pub fn streaming(plan: &StreamingPlan) -> Streaming {
    Streaming::new(plan.clone()).expect("the test's plan is sound")
}

/// Turns until streams are as far as this.
pub fn until(world: &mut World<'_, Streaming>, stage: Stage) {
    while world.load.stage() < stage {
        world.turn();
        assert!(world.elapsed() < Duration::from_secs(600), "the run does not end");
    }
}

pub fn turn_for(world: &mut World<'_, Streaming>, span: Duration) {
    let end = world.now() + span;
    while world.now() < end {
        world.turn();
    }
}

pub fn figures(mut world: World<'_, Streaming>) -> StreamingFigures {
    until(&mut world, Stage::Ended);
    let now = world.now();
    world.load.into_figures(now)
}

/// As `run` measures it.
pub fn ran(plan: &StreamingPlan, reply: impl FnMut(u64, wire::Time) -> Reply) -> StreamingFigures {
    figures(World::of(streaming(plan), reply))
}

pub fn report(plan: &StreamingPlan, figures: StreamingFigures) -> StreamingReport {
    StreamingReport::new(StreamingSetup::new(plan, "here".to_owned()), figures, (0.0, 0.0), vec![])
}

/// Which of these objectives are met.
pub fn met(report: &StreamingReport, objectives: &[&str]) -> Vec<bool> {
    let judged = |text: &&str| text.parse::<load::Objective>().expect(text).judge_streaming(report).met;
    objectives.iter().map(judged).collect()
}

fn sums(figures: &StreamingFigures) -> (u64, u64, u64) {
    figures.seconds.iter().fold((0, 0, 0), |sum, second| {
        let one = |count: u32| u64::from(count);
        (sum.0 + one(second.streams), sum.1 + one(second.within_one), sum.2 + one(second.within_two))
    })
}

#[test]
fn flows_that_have_their_rate_are_within_a_segment() {
    let figures = ran(&held(12), |_, _| paced(30 * BYTES, BYTES, |at| at));
    assert_eq!((figures.streams, figures.under_way, figures.errors.total()), (4, 4, 0));
    assert_eq!((figures.seconds.len(), sums(&figures)), (12, (48, 48, 48)));
    assert!(figures.off.len() == 48 && figures.off.max() <= PIECE, "{:?}", figures.off);
    assert!(figures.late.max() <= 12_000_000, "a segment's time is 11.6 ms: {:?}", figures.late);
    // One stretch of ten seconds for each, which is off by a piece at most.
    let most = (PIECE as f64 / (10.0 * BYTES as f64) * 1e9) as u64;
    assert!(figures.drift.len() == 4 && figures.drift.max() <= most, "{:?}", figures.drift);
    assert!(figures.bytes.abs_diff(48 * BYTES) <= 8 * PIECE, "{}", figures.bytes);
    assert_eq!((figures.first_byte.len(), figures.first_byte.max()), (4, 100_000));
    let report = report(&held(12), figures);
    let judged = |text: &str| text.parse::<load::Objective>().expect(text).judge_streaming(&report);
    for text in ["within1>=100%", "within2>=99.9%", "drift100<=0.2%", "late99<12ms", "ttfb99<1ms", "errors=0"] {
        assert!(judged(text).met, "{}", judged(text));
    }
    // Nothing plays here, and no request is timed: that is not measured.
    for text in ["underruns=0", "start99<1s", "stalled<1%", "p99<1s"] {
        assert!(judged(text).measured.is_none() && !judged(text).met, "{}", judged(text));
    }
}

#[test]
fn flows_that_have_less_are_off_by_what_they_lack() {
    let figures = ran(&held(10), |_, _| paced(30 * BYTES, BYTES * 9 / 10, |at| at));
    assert_eq!(sums(&figures), (40, 0, 0));
    let lacks = BYTES / 10;
    assert!(figures.off.quantile(0.5).abs_diff(lacks) <= PIECE, "{:?}", figures.off);
    assert!((figures.drift.quantile(0.5) as f64 / 1e9 - 0.1).abs() < 0.002, "{:?}", figures.drift);
    assert!(figures.late.quantile(0.5).abs_diff(100_000_000) < 13_000_000, "{:?}", figures.late);
    assert!(figures.seconds.iter().all(|second| second.late == 4), "{:?}", figures.seconds);
}

/// A flow that stands still for a second has one without anything, and one with twice its bytes if
/// those come then.
#[test]
fn a_flow_that_stands_still_is_seen_in_its_seconds() {
    let hole = |at: Duration| if at > ms(3_000) && at < ms(5_000) { ms(5_000) } else { at };
    let figures = ran(&held(10), |_, _| paced(30 * BYTES, BYTES, hole));
    // The window begins after 100 ms: one second lacks a tenth, the next has nothing, and one has all that.
    assert!(figures.off.max().abs_diff(BYTES * 11 / 10) <= SEGMENT, "{:?}", figures.off);
    assert_eq!(sums(&figures), (40, 28, 28), "{:?}", figures.seconds);
    assert!(figures.late.max().abs_diff(1_000_000_000) < 20_000_000, "{:?}", figures.late);
}

/// Seconds at whose end the generator was called late do not count, nor do those in which it was for
/// long, or of which another thread says that a core was stolen. Amid a second a moment does no harm.
#[test]
fn seconds_that_say_nothing_of_the_server_are_left_out() {
    let plan = held(12);
    let mut world = World::of(streaming(&plan), |_, _| paced(30 * BYTES, BYTES, |at| at));
    until(&mut world, Stage::Measuring);
    // From 2.5 to 2.8 s, from 4.5 to 4.55 s, and from 5.98 to 6.03 s.
    for (turns, pause) in [(2_500, 300), (1_700, 50), (1_430, 50)] {
        turn_for(&mut world, ms(turns));
        world.pause(ms(pause));
    }
    turn_for(&mut world, ms(2_470));
    world.load.live().set_stolen(7);
    let figures = figures(world);
    let left_out: Vec<Option<LeftOut>> = figures.seconds.iter().map(|second| second.left_out).collect();
    let expected = |second| match second {
        2 | 5 | 6 => Some(LeftOut::Late),
        8 => Some(LeftOut::Stolen),
        _ => None,
    };
    assert_eq!(left_out, (0..12).map(expected).collect::<Vec<_>>());
    assert_eq!(sums(&figures), (32, 32, 32), "the others are as they were: {:?}", figures.seconds);
    assert!(figures.delay.max() >= 295_000_000, "{:?}", figures.delay);
    // Ten seconds in a row are nowhere.
    assert!(figures.drift.is_empty());
}

/// A player takes what its buffer holds as fast as it comes, and its rate from then on, whatever
/// lies ready.
#[test]
fn a_player_fills_its_buffer_and_takes_its_rate() {
    let figures = ran(&played(6), |_, _| paced(4_000_000, 8 * BYTES, |at| at));
    assert_eq!((figures.under_way, figures.start.len(), figures.under_runs.len(), figures.dried), (4, 4, 0, 0));
    // A second's worth, eight times as fast.
    assert!(figures.start.min() >= 120_000_000 && figures.start.max() <= 130_000_000, "{:?}", figures.start);
    assert!(figures.bytes.abs_diff(24 * BYTES) <= 4 * BYTES / 8, "{}", figures.bytes);
    // They begin to play within the first second.
    assert_eq!((figures.late.len(), figures.late.max()), (20, 0), "{:?}", figures.late);
    assert!(figures.to_play > ms(23_800) && figures.to_play <= ms(24_000), "{:?}", figures.to_play);
}

/// Two seconds of content come, and the rest when it is too late: an under-run is as long as nothing
/// plays, the time in which the buffer fills again with it.
#[test]
fn an_under_run_has_its_length() {
    let hole = |at: Duration| if at < ms(250) { at } else { at + ms(3_750) };
    let plan = played(8);
    let figures = ran(&plan, |_, _| paced(4_000_000, 8 * BYTES, hole));
    assert_eq!((figures.under_runs.len(), figures.dried, figures.disturbed_under_runs), (4, 4, 0));
    // Played from 125 ms to 2,125 ms, and again once a second's worth is there, at 4,125 ms.
    let (min, max) = (figures.under_runs.min(), figures.under_runs.max());
    assert!(min >= 1_980_000_000 && max <= 2_020_000_000, "{:?}", figures.under_runs);
    assert!(figures.late.max() > 1_000_000_000, "{:?}", figures.late);
    let playing = report(&plan, figures).playing.expect("it plays");
    assert!((playing.stalled - 8.0 / 31.9).abs() < 0.005, "{playing:?}");
}

/// One that is not over by the end of the window is as long as it was until then; one that lies in a second
/// that does not count is none of the server's, and of one that goes on behind it what lies behind it is.
#[test]
fn under_runs_at_the_end_and_in_seconds_left_out() {
    let stops = |at: Duration| if at < ms(250) { at } else { at + Duration::from_secs(100) };
    let figures = ran(&played(4), |_, _| paced(4_000_000, 8 * BYTES, stops));
    assert_eq!((figures.under_runs.len(), figures.dried), (4, 4));
    // The window begins 100 ms after the last connection is there.
    assert!(figures.under_runs.max().abs_diff(1_975_000_000) < 20_000_000, "{:?}", figures.under_runs);
    let plan = played(4);
    let mut world = World::of(streaming(&plan), |_, _| paced(4_000_000, 8 * BYTES, stops));
    until(&mut world, Stage::Measuring);
    turn_for(&mut world, ms(2_300));
    world.load.live().set_stolen(7);
    let figures = self::figures(world);
    assert_eq!((figures.under_runs.len(), figures.disturbed_under_runs, figures.dried), (4, 0, 4));
    // The third second does not count. Each plays for two seconds and a bit, and lacks the rest.
    assert!(figures.stalled.abs_diff(ms(4_000)) < ms(1), "{:?}", figures.stalled);
    assert!(figures.disturbed.abs_diff(ms(4 * 975)) < ms(80), "{:?}", figures.disturbed);
    assert!(figures.to_play > ms(4 * 2_900) && figures.to_play <= ms(4 * 3_000), "{:?}", figures.to_play);
    let dry: Vec<u64> = figures.seconds.iter().map(|second| second.stalled_ns / 1_000_000).collect();
    assert_eq!(dry, [0, 0, 0, 4_000]);
    let report = report(&plan, figures);
    assert_eq!(
        met(&report, &["stalled<33%", "stalled<35%", "underruns<1%", "underrun99<1s"]),
        [false, true, false, false]
    );
}

/// Where it ends in the second that does not count, it is told apart.
#[test]
fn under_runs_in_seconds_left_out_are_told_apart() {
    let hole = |at: Duration| if at < ms(250) { at } else { at + ms(2_100) };
    let plan = played(5);
    let mut world = World::of(streaming(&plan), |_, _| paced(4_000_000, 8 * BYTES, hole));
    until(&mut world, Stage::Measuring);
    turn_for(&mut world, ms(2_600));
    world.load.live().set_stolen(7);
    let figures = self::figures(world);
    assert_eq!((figures.under_runs.len(), figures.disturbed_under_runs, figures.dried), (0, 4, 0));
    assert!(figures.stalled.is_zero() && figures.disturbed > ms(1_000), "{figures:?}");
    assert_eq!(figures.seconds[2].left_out, Some(LeftOut::Stolen));
    let report = report(&plan, figures);
    assert_eq!(met(&report, &["stalled<=0%", "underruns=0", "underrun99<1ms"]), [true; 3]);
}

/// Segments of media are asked for one behind the other, over and over.
#[test]
fn paths_are_asked_for_in_turn() {
    let mut plan = played(5);
    let path = |name: &str| Weighted { weight: 1, item: Request::get("10.0.0.2", name) };
    plan.load.requests = vec![path("/1"), path("/2"), path("/3")];
    let mut world = World::of(streaming(&plan), |_, _| paced(BYTES / 2, 8 * BYTES, |at| at));
    until(&mut world, Stage::Ended);
    let asked: Vec<u64> = world.path.requests.values().copied().collect();
    // Some six seconds of half a second each, and of four streams.
    assert!(asked.len() == 3 && asked[0] - asked[2] <= 4 && asked.iter().all(|n| (12..=20).contains(n)), "{asked:?}");
    let figures = figures(world);
    assert!(figures.answers.abs_diff(asked.iter().sum()) <= 4 && figures.under_runs.is_empty());
    assert!(figures.first_byte.len().abs_diff(asked.iter().sum()) <= 4 && figures.late.max() == 0);
}

/// A stream that fails is counted, and started anew; what it lacks is seen in its seconds.
#[test]
fn streams_that_fail_are_counted_and_go_on() {
    let figures = ran(&held(4), |n, _| match n {
        1 => Reply::bytes(us(100), response("404 Not Found", 10)),
        2 => Reply::bytes(us(100), &response("200 OK", 5_000)[..2_000]).then(Then::Finish),
        3 => Reply::bytes(us(100), &b"what is this\r\n\r\n"[..]),
        4 => Reply::bytes(us(100), &response("200 OK", 5_000)[..2_000]).then(Then::Reset),
        _ => paced(30 * BYTES, BYTES, |at| at),
    });
    let errors = figures.errors;
    assert_eq!((errors.statuses, errors.lost, errors.malformed, errors.connects, errors.timeouts), (1, 2, 1, 0, 0));
    assert!(figures.failure.is_some() && figures.under_way == 4);
    // The pause behind a failure is as long as the warm-up: later seconds are whole.
    let second = figures.seconds[3];
    assert_eq!((second.streams, second.within_one), (4, 4), "{:?}", figures.seconds);
}

/// Where nobody listens, or nothing is sent, it ends, and says why.
#[test]
fn a_server_that_is_not_there_ends_it() {
    let mut plan = held(2);
    plan.load.ramp_limit = ms(800);
    let refused = World::of(streaming(&plan), |_, _| Reply::nothing()).dial(|_| crate::world::Dial::Refuse(us(50)));
    let figures = figures(refused);
    // All are tried again as long as --ramp-limit says.
    assert!(figures.failure.as_ref().is_some_and(|why| why.contains("refused")), "{figures:?}");
    assert!((24..=40).contains(&figures.errors.connects), "{:?}", figures.errors);
    assert!(!figures.interrupted && figures.seconds.is_empty());
    assert!(report(&plan, figures).server_gone);
    let mut plan = held(2);
    plan.load.timeout = ms(500);
    let figures = ran(&plan, |_, _| Reply::nothing());
    assert!(figures.under_way == 0 && figures.errors.timeouts >= 8, "{:?}", figures.errors);
    // All of them lack both seconds.
    assert_eq!((figures.seconds.len(), figures.late.len(), figures.late.min()), (2, 8, 1_000_000_000));
}

#[test]
fn streams_are_secured() {
    let (server, mut plan) = (secured::server(), played(3));
    let mut sought = secured::sought();
    assert!(
        StreamingPlan { load: load::Plan { secured: Some(sought.clone()), ..plan.load.clone() }, ..plan.clone() }
            .check()
            .is_err_and(|why| why.to_string().contains("early data"))
    );
    sought.tls = secured::client();
    plan.load.secured = Some(sought);
    let world = World::of(streaming(&plan), |_, _| paced(2_000_000, 8 * BYTES, |at| at));
    let figures = figures(world.shakes(move |_| (server.clone(), us(300))));
    assert_eq!((figures.errors.total(), figures.failure), (0, None));
    assert_eq!((figures.under_way, figures.under_runs.len(), figures.late.max()), (4, 0, 0));
}

#[test]
fn plans_of_streams_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut StreamingPlan)| {
        let mut plan = held(2);
        change(&mut plan);
        plan.check().expect_err("it is refused").to_string()
    };
    for (change, why) in [
        ((|plan| plan.load.stop = Stop::After(ms(1_500))) as fn(&mut StreamingPlan), "whole seconds"),
        (|plan| plan.load.warm_up_requests = 5, "for a time"),
        (|plan| plan.rate = PlayRate::new(u64::MAX), "1 Tbit/s"),
        (|plan| plan.load.requests[0].item.method = "HEAD".to_owned(), "HEAD"),
        (|plan| plan.load.requests[0].weight = 0, "a weight above zero"),
        (|plan| plan.load.cookies = true, "no cookies"),
        (|plan| plan.load.url_rows = Some(3), "none of each URL"),
        (
            |plan| {
                let more = Weighted { weight: 1, item: plan.load.requests[0].item.clone() };
                plan.load.requests[0].weight = 5_000_000;
                plan.load.requests.push(more);
            },
            "4,194,304",
        ),
        (|plan| plan.load.pipeline = 2, "one thing after the other"),
        (|plan| plan.player = Some(PlayerPlan { buffer: Duration::ZERO, share: 1.0 }), "more than nothing"),
        (|plan| plan.player = Some(PlayerPlan { buffer: ms(10), share: 0.0 }), "more than nothing of the buffer"),
    ] {
        assert!(refused(change).contains(why), "{why}: {}", refused(change));
    }
}
