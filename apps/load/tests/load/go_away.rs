//! Connections that are told to go (RFC 9113 section 6.8), and those in their place.

use crate::http2::{Server, answer, http2, settings};
use crate::world::{Dial, Reply, Then, World, assert_accounts, current_connection, ms, report, us};
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, MAX_STREAM};
use load::{Arrival, Plan, Schedule, Stop, Trust, Warning};
use std::collections::BTreeMap;

/// A server of several connections at a time.
#[derive(Default)]
struct Servers(BTreeMap<(usize, u32), Server>);

impl Servers {
    /// Takes the bytes at hand: what its connection begins with, and the streams that are whole. Nothing where
    /// the client said good bye.
    fn take(&mut self) -> Option<(Vec<u8>, Vec<u32>)> {
        let server = self.0.entry(current_connection()).or_default();
        let out = if server.take() { settings(&[]) } else { Vec::new() };
        (!server.goodbye).then(|| (out, core::mem::take(&mut server.whole)))
    }

    /// Answers at once, but for stream `last` of each connection: then it says that it goes, and answers that
    /// one after `slow`.
    fn reply(&mut self, last: u32, slow: Duration) -> Reply {
        let Some((mut out, whole)) = self.take() else { return Reply::nothing().then(Then::Finish) };
        let mut reply = Reply::nothing();
        for stream in whole {
            if stream == last {
                frame::write_go_away(&mut out, MAX_STREAM, ErrorCode::NO_ERROR);
                reply.parts.push((slow, answer(stream, 200, 1)));
            } else {
                out.extend(answer(stream, 200, 1));
            }
        }
        reply.parts.insert(0, (us(100), out));
        reply
    }
}

/// 2,000 requests a second, on one connection of ten streams.
fn open_loop() -> Plan {
    let mut plan = http2(10);
    plan.arrival = Arrival::Open(Schedule::constant(2_000.0));
    plan.stop = Stop::After(ms(500));
    plan
}

#[test]
fn another_opens_at_once_beside_one_that_is_told_to_go() {
    let (plan, mut servers) = (open_loop(), Servers::default());
    let mut world = World::new(&plan, |_, _| servers.reply(41, ms(8)));
    let figures = world.run();
    assert_accounts(&figures);
    let gone = figures.counts.connections.go_aways;
    assert!(gone > 30, "{gone}");
    assert_eq!(figures.counts.errors.total() + figures.counts.traffic.unprocessed, 0);
    // What fell due meanwhile waits for a connect, and not for the last answer of the other.
    assert!(figures.samples.lag.max() < 200_000, "{}", figures.samples.lag.max());
    assert!(figures.latency.quantile(0.94) < 400_000, "{}", figures.latency.quantile(0.94));
    assert_eq!(figures.most_open, 2);
    let all = figures.before.connections.established + figures.counts.connections.established;
    let replaced = figures.before.connections.reconnects + figures.counts.connections.reconnects;
    assert!(all.abs_diff(1 + replaced) <= 1, "each but the first is in place of one: {all} {replaced}");
    let report = report(&plan, &figures);
    assert!(report.verdict.reasons.iter().all(|reason| reason.trust < Trust::No), "{}", report.verdict);
}

#[test]
fn as_many_are_under_way_as_were_asked_for_with_those_on_one_that_goes() {
    let (plan, mut servers) = (http2(10), Servers::default());
    let mut world = World::new(&plan, |_, _| servers.reply(2_001, ms(5)));
    let figures = world.run();
    assert_accounts(&figures);
    assert!(figures.counts.connections.go_aways >= 8);
    let law = report(&plan, &figures).littles_law;
    // Less while another connects, and never more, though one takes half of the time.
    assert!((9.5..=10.0).contains(&law.in_progress) && law.off < 0.01, "{law:?}");
    assert!(figures.in_flight <= 10, "{}", figures.in_flight);
}

#[test]
fn a_server_that_sends_goaway_on_each_connection_makes_no_storm() {
    // Before any request: connects pause as if they had failed.
    let mut plan = open_loop();
    let mut servers = Servers::default();
    let mut world = World::new(&plan, |_, _| {
        let Some((mut out, _)) = servers.take() else { return Reply::nothing().then(Then::Finish) };
        frame::write_go_away(&mut out, 0, ErrorCode::NO_ERROR);
        Reply::bytes(us(100), out)
    });
    let figures = world.run();
    assert_accounts(&figures);
    let all = figures.before.connections.established + figures.counts.connections.established;
    assert!((6..=14).contains(&all), "{all}");
    // Behind the first request of each, which takes long: two are open.
    plan.connections = 3;
    let mut servers = Servers::default();
    let mut world = World::new(&plan, |_, _| {
        let Some((mut out, whole)) = servers.take() else { return Reply::nothing().then(Then::Finish) };
        let mut reply = Reply::nothing();
        if whole.contains(&1) {
            frame::write_go_away(&mut out, MAX_STREAM, ErrorCode::NO_ERROR);
        }
        reply.parts.push((us(100), out));
        reply.parts.extend(whole.into_iter().map(|stream| (ms(20), answer(stream, 200, 1))));
        reply
    });
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.most_open, 6);
    let all = figures.counts.connections.established;
    assert!((100..=160).contains(&all), "each lasts for 20 ms: {all}");
    assert_eq!(figures.counts.errors.total(), 0);
}

#[test]
fn the_verdict_names_it_where_requests_wait_all_the_same() {
    let (plan, mut servers) = (open_loop(), Servers::default());
    let dial = |n| Dial::Accept(if n == 1 { us(50) } else { ms(5) });
    let mut world = World::new(&plan, |_, _| servers.reply(41, us(200))).dial(dial);
    let figures = world.run();
    assert_accounts(&figures);
    let delayed = figures.counts.traffic.delayed_by_go_away;
    // Ten fall due while a connect lasts.
    assert!((8.0..=12.0).contains(&(delayed as f64 / figures.counts.connections.go_aways as f64)), "{delayed}");
    let report = report(&plan, &figures);
    let found = report.warnings.iter().any(|warning| matches!(warning, Warning::GoneAway { .. }));
    assert!(found && report.verdict.to_string().contains("GOAWAY"), "{}", report.verdict);
}
