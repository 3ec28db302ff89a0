//! Streams whose server does not do what it should, in simulated time: none of it is left out of the figures.

use crate::streaming::{BYTES, figures, held, met, paced, played, ran, report, streaming, until};
use crate::world::{Dial, Reply, Then, World, ms, response, secured, us};
use core::time::Duration;
use load::StreamingPlan;

/// Two seconds of content, and nothing more.
fn hangs() -> Reply {
    paced(4_000_000, 8 * BYTES, |at| if at < ms(250) { at } else { at + Duration::from_secs(1_000) })
}

/// Nothing plays in all of the window: the under-runs that began before it are its.
#[test]
fn an_under_run_that_begins_in_the_warm_up_counts() {
    let mut plan = played(4);
    plan.load.warm_up = ms(3_000);
    let figures = ran(&plan, |_, _| hangs());
    assert_eq!((figures.under_runs.len(), figures.dried, figures.disturbed_under_runs), (4, 4, 0));
    // Played until 2.1 s, and not until 7 s: with its whole length.
    assert!(figures.under_runs.min().abs_diff(4_880_000_000) < 20_000_000, "{:?}", figures.under_runs);
    assert_eq!((figures.stalled, figures.to_play), (ms(16_000), ms(16_000)));
    let report = report(&plan, figures);
    let missed = ["underruns=0", "underruns<0.1%", "underrun99<4s", "stalled<99%"];
    assert_eq!(met(&report, &missed), [false; 4], "{:?}", report.playing);
    assert!(report.playing.is_some_and(|playing| playing.stalled == 1.0));
}

/// One that is over before the window is none of it, and without any nothing is less than zero.
#[test]
fn an_under_run_that_ends_in_the_warm_up_does_not() {
    let hole = |at: Duration| if at < ms(125) { at } else { at + ms(1_500) };
    let mut plan = played(3);
    plan.load.warm_up = ms(3_000);
    let figures = ran(&plan, |_, _| paced(4_000_000, 8 * BYTES, hole));
    assert_eq!((figures.under_runs.len(), figures.disturbed_under_runs), (0, 0));
    let report = report(&plan, figures);
    assert!(report.playing.is_some_and(|playing| playing.stalled.is_sign_positive() && playing.stalled == 0.0));
    assert_eq!(met(&report, &["underruns=0", "stalled<0.1%"]), [true; 2]);
}

/// Two of four are given a few bytes and no more: they wait to the end, for all that was to be.
#[test]
fn streams_that_never_play_are_in_each_figure() {
    let some = |n: u64| match n {
        1 | 2 => Reply::bytes(us(100), &response("200 OK", 4_000_000)[..100]),
        _ => paced(4_000_000, 8 * BYTES, |at| at),
    };
    let plan = played(6);
    let figures = ran(&plan, |n, _| some(n));
    assert_eq!((figures.under_way, figures.start.len(), figures.no_start.len(), figures.dried), (2, 2, 2, 2));
    let report = report(&plan, figures);
    // Whatever the bound: nobody knows how long it would have taken.
    let missed =
        ["start99<100s", "start75<100s", "underruns=0", "underruns<49%", "stalled<49%", "late99<5s", "underrun99<6s"];
    assert_eq!(met(&report, &missed), [false; 7], "{report:?}");
    // What holds of the others holds.
    let holds = ["start50<200ms", "ttfb100<1s", "stalled<51%", "start99>5s"];
    assert_eq!(met(&report, &holds), [true; 4], "{report:?}");
    let judged = "start99<100s".parse::<load::Objective>().expect("an objective").judge_streaming(&report);
    assert!(judged.to_string().contains("at least 6.1"), "{judged}");
}

/// What comes behind the window did not come in it.
#[test]
fn streams_that_begin_too_late_never_played() {
    let figures = ran(&played(2), |_, _| Reply::bytes(ms(2_200), response("200 OK", 200_000)));
    assert_eq!((figures.under_way, figures.start.len(), figures.no_start.len(), figures.dried), (0, 0, 4, 4));
    assert_eq!((figures.stalled, figures.to_play), (ms(8_000), ms(8_000)));
}

/// The same without a byte, and without players: seconds without content are seconds.
#[test]
fn flows_that_never_begin_are_in_each_figure() {
    let figures = ran(&held(6), |n, _| if n < 3 { Reply::nothing() } else { paced(30 * BYTES, BYTES, |at| at) });
    assert_eq!((figures.under_way, figures.first_byte.len(), figures.no_first_byte.len()), (2, 2, 2));
    let report = report(&held(6), figures);
    let missed = ["ttfb99<100s", "late99<900ms", "within2>=51%"];
    assert_eq!(met(&report, &missed), [false; 3], "{report:?}");
    assert_eq!(met(&report, &["ttfb50<1s", "within1>=49%"]), [true; 2], "{report:?}");
}

/// A request that was asked for at the last moment is no wait of the server's, and one that timed out is.
#[test]
fn times_that_were_not_over_are_bounds() {
    let mut plan = played(3);
    let figures = ran(&plan, |_, _| paced(BYTES / 4, 8 * BYTES, |at| at));
    assert!(figures.first_byte.len() > 20, "{figures:?}");
    assert_eq!(met(&report(&plan, figures), &["ttfb100<1ms"]), [true]);
    plan.load.timeout = ms(700);
    let figures = ran(&plan, |n, _| if n == 10 { Reply::nothing() } else { paced(BYTES / 4, 8 * BYTES, |at| at) });
    assert_eq!((figures.errors.timeouts, figures.no_first_byte.max()), (1, 700_000_000), "{figures:?}");
    assert_eq!(met(&report(&plan, figures), &["ttfb100<100s", "ttfb50<1ms"]), [false, true]);
}

/// A server that is gone by the end is told of, whatever it did before; one that comes back is not gone.
#[test]
fn a_server_that_goes_away_is_told_of() {
    for comes_back in [false, true] {
        let plan = held(4);
        let world = World::of(streaming(&plan), |n, _| {
            let mut reply = paced(30 * BYTES, BYTES, |at| at);
            if n <= 4 {
                reply.parts.truncate(100);
                return reply.then(Then::Reset);
            }
            reply
        });
        let figures = figures(world.dial(move |n| match n {
            1..=4 => Dial::Accept(us(50)),
            60.. if comes_back => Dial::Accept(us(50)),
            _ => Dial::Refuse(us(50)),
        }));
        assert_eq!((figures.errors.lost, figures.under_way), (4, 4), "{figures:?}");
        assert_eq!(report(&plan, figures).server_gone, !comes_back);
    }
}

/// A kept connection that the server closes while nothing is asked on it, or as it is asked, is no failure
/// (RFC 9112 sections 9.3.1 and 9.5): the same is asked for on another one.
#[test]
fn a_kept_connection_may_be_closed() {
    for reset in [false, true] {
        let mut plan = played(8);
        plan.load.connections = 1;
        let path = |name: &str| load::Weighted { weight: 1, item: load::Request::get("10.0.0.2", name) };
        plan.load.requests = vec![path("/1"), path("/2"), path("/3")];
        let mut asked = Vec::new();
        let mut slots = std::collections::BTreeMap::new();
        let figures = ran(&plan, |_, _| {
            let times = slots.entry(crate::world::current_connection()).or_insert(0);
            *times += 1;
            // The fourth request finds the connection closed.
            if *times == 4 {
                return Reply::nothing().then(if reset { Then::Reset } else { Then::Finish });
            }
            asked.push(crate::world::current_request()[5] - b'0');
            paced(BYTES / 4, 8 * BYTES, |at| at)
        });
        assert_eq!((figures.errors.total(), &figures.failure), (0, &None));
        assert!(figures.reopened >= 8 && figures.under_runs.is_empty(), "{figures:?}");
        // None is left out.
        let in_turn = asked.iter().enumerate().all(|(place, one)| usize::from(*one) == place % 3 + 1);
        assert!(in_turn && asked.len() > 24, "{asked:?}");
    }
}

/// But a connection that was closed before its first answer is lost, and one that is closed within an answer.
#[test]
fn connections_that_end_without_an_answer_are_lost() {
    let figures = ran(&held(3), |n, _| match n {
        1 => Reply::nothing().then(Then::Finish),
        _ => paced(30 * BYTES, BYTES, |at| at),
    });
    assert_eq!((figures.errors.lost, figures.reopened), (1, 0));
    assert_eq!(figures.failure.as_deref(), Some("the server closed a connection before it answered"));
    let figures = ran(&held(3), |n, _| match n {
        1 => Reply::bytes(us(100), &response("200 OK", 5_000)[..2_000]).then(Then::Finish),
        _ => paced(30 * BYTES, BYTES, |at| at),
    });
    assert_eq!(figures.failure.as_deref(), Some("the server closed a stream within an answer"));
}

/// All first connects time out: they are tried again, and it is measured then.
#[test]
fn connects_that_time_out_are_tried_again() {
    let mut plan = held(3);
    plan.load.connect_timeout = ms(400);
    let world = World::of(streaming(&plan), |_, _| paced(30 * BYTES, BYTES, |at| at));
    let figures = figures(world.dial(|n| if n <= 8 { Dial::Ignore } else { Dial::Accept(us(50)) }));
    assert_eq!((figures.errors.connects, figures.under_way, figures.seconds.len()), (8, 4, 3), "{figures:?}");
}

/// A server that cannot be secured will not be a moment later.
#[test]
fn a_server_that_speaks_no_tls_ends_it_at_once() {
    let plan = StreamingPlan { load: load::Plan { secured: Some(sought()), ..held(3).load }, ..held(3) };
    let mut world = World::of(streaming(&plan), |_, _| Reply::bytes(us(100), &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]));
    until(&mut world, load::Stage::Ended);
    assert!(world.elapsed() < Duration::from_secs(1), "{:?}", world.elapsed());
    let figures = figures(world);
    assert!(figures.failure.is_some() && figures.errors.connects == 4 && figures.seconds.is_empty(), "{figures:?}");
}

/// The time to playing is that of who plays: with the connect, and the handshake of TLS.
#[test]
fn the_time_to_playing_begins_with_the_connect() {
    let plan = played(2);
    let fast = |_: u64, _: wire::Time| paced(4_000_000, 8 * BYTES, |at| at);
    let figures = self::figures(World::of(streaming(&plan), fast).dial(|_| Dial::Accept(ms(500))));
    assert!(figures.start.min() >= 620_000_000 && figures.start.max() < 640_000_000, "{:?}", figures.start);
    assert_eq!((figures.connect.len(), figures.connect.min() / 1_000_000), (4, 500));
    let (server, mut plan) = (secured::server(), played(2));
    plan.load.secured = Some(sought());
    let world = World::of(streaming(&plan), fast).shakes(move |_| (server.clone(), ms(300)));
    let figures = self::figures(world);
    assert!(figures.start.min() >= 420_000_000 && figures.connect.min() >= 300_000_000, "{figures:?}");
    assert_eq!(met(&report(&plan, figures), &["connect99<100ms", "connect99<1s"]), [false, true]);
}

fn sought() -> handshake::Sought {
    let mut sought = secured::sought();
    sought.tls = secured::client();
    sought
}

/// An answer without a length that ends without close_notify may have been cut off by anybody (RFC 9112 section 9.8).
#[test]
fn a_secured_answer_that_is_cut_off_is_lost() {
    let until_close = |_: u64, _: wire::Time| {
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
        Reply { parts: vec![(us(100), head), (ms(20), vec![b'x'; 10_000])], then: Then::Finish }
    };
    let plain = ran(&played(2), until_close);
    assert_eq!((plain.errors.total(), plain.answers > 8), (0, true), "{plain:?}");
    let server = secured::server();
    let plan = StreamingPlan { load: load::Plan { secured: Some(sought()), ..played(2).load }, ..played(2) };
    let world = World::of(streaming(&plan), until_close).shakes(move |_| (server.clone(), us(300)));
    let cut = figures(world);
    assert!(cut.answers == 0 && cut.errors.lost >= 8, "{:?}", cut.errors);
    assert!(cut.failure.is_some_and(|why| why.contains("close_notify")));
}
