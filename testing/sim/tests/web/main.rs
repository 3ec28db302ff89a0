//! The web server and the load generator, as they are, over a faulty network:
//! every request is answered whole, and nothing is left.

mod quiet;

use app::App;
use core::net::SocketAddr;
use core::time::Duration;
use link::{FaultPlan, Impairment, Probability};
use load::{Expect, Figures, Load, Plan, Request, Reuse, Stop};
use server::{Config, Respond, Server, WallClock};
use silo::Silo;
use sim::fabric::{Fabric, Node};
use sim::proxied::{Protocol, Proxied, Spoken, simulate_proxied};
use sim::scenario::{PORT, addresses, host_config};
use wire::Time;

/// Bytes of a response's content.
const SIZE: u64 = 2_649;
const REQUESTS: u64 = 2_000;
/// Virtual time that a run may take.
const LIMIT: Duration = Duration::from_secs(1_200);

fn run(reuse: Reuse, connections: u32, impairment: Impairment) -> Figures {
    let mut fabric = Fabric::default();
    let target = SocketAddr::new(addresses(0)[0], PORT);
    let mut plan = Plan::new(target, Request::get("host", "/"));
    plan.connections = connections;
    plan.reuse = reuse;
    plan.warm_up = Duration::ZERO;
    plan.timeout = Duration::from_secs(900);
    plan.stop = Stop::Requests { count: REQUESTS, within: LIMIT };
    plan.expect = Expect { length: Some(SIZE), status: None };
    let config = Config::respond(Respond::Size(SIZE));
    let server = Server::new(config, WallClock::new(Time::ZERO, Duration::from_secs(1_700_000_000)))
        .unwrap_or_else(|e| panic!("{e}"));
    let load = Load::new(plan).unwrap_or_else(|e| panic!("{e}"));
    let mut server = fabric.host(host_config(0, 1_500), FaultPlan::both(impairment, 1), 1_024, 2, server);
    let mut client = fabric.host(host_config(1, 1_500), FaultPlan::default(), 1_024, 3, load);
    loop {
        let Silo { stack, app, .. } = &mut client.silo;
        if app.figures().is_some() && app.drain(stack) {
            break;
        }
        assert!(fabric.elapsed() < LIMIT, "stuck: {:?}", app.live().read());
        let mut nodes: [&mut dyn Node; 2] = [&mut server, &mut client];
        fabric.step(&mut nodes, Time::MAX);
    }
    let end = fabric.now() + Duration::from_secs(300);
    while fabric.now() < end {
        let mut nodes: [&mut dyn Node; 2] = [&mut server, &mut client];
        fabric.step(&mut nodes, end);
    }
    for stack in [&server.silo.stack, &client.silo.stack] {
        assert_eq!((stack.connections(), stack.half_open(), stack.time_wait()), (0, 0, 0));
    }
    client.silo.app.into_figures(fabric.now())
}

/// Upstreams that fail in every way behind the server as a proxy: nobody has another's
/// answer, and nothing is left. `sim -- --upstream-faults` runs many more.
fn nothing_leaks_or_mixes(spoken: Spoken) {
    let mut all = Proxied::default();
    for seed in 0..8 {
        let outcome = simulate_proxied(seed, spoken);
        assert_eq!(outcome.objections, [""; 0], "seed {seed}");
        if seed % 4 == 0 {
            assert_eq!(outcome, simulate_proxied(seed, spoken), "seed {seed} is one world");
        }
        all.add(&outcome);
    }
    assert!(all.faults() > 200 && all.injected.len() > 15, "{all:?}");
    assert!(all.seen.get("200") > Some(&100) && all.seen.len() > 4, "{all:?}");
}

#[test]
fn upstreams_fail_and_nothing_leaks_or_mixes() {
    nothing_leaks_or_mixes(Spoken::HTTP1);
}

/// Many requests share a connection: one fails, and the others go on; what was not processed is
/// asked again.
#[test]
fn upstreams_by_http2_fail_and_nothing_leaks_or_mixes() {
    nothing_leaks_or_mixes(Spoken { upstreams: Protocol::Http2, ..Spoken::HTTP1 });
}

/// One that takes nothing holds up nobody else.
#[test]
fn clients_by_http2_have_what_is_theirs_of_upstreams_that_fail() {
    nothing_leaks_or_mixes(Spoken { clients: Protocol::Http2, ..Spoken::HTTP1 });
    nothing_leaks_or_mixes(Spoken { clients: Protocol::Http2, upstreams: Protocol::Http2 });
}

/// Where what a place reads of a body (`proxy_limit_rate`) ended within a chunk's line,
/// nothing asked for the rest of it: the upstream was said to time out.
#[test]
fn a_chunk_s_line_is_read_in_two_at_a_rate() {
    assert_eq!(simulate_proxied(107, Spoken::HTTP1).objections, [""; 0]);
}

/// A window that opens by less than may be read ahead has some read: nothing would open it further.
#[test]
fn a_window_that_opens_a_little_has_its_answer_go_on() {
    let spoken = Spoken { clients: Protocol::Http2, ..Spoken::HTTP1 };
    for seed in [104, 244] {
        assert_eq!(simulate_proxied(seed, spoken).objections, [""; 0], "seed {seed}");
    }
}

/// Each request is answered whole, whatever the network does, on kept and on
/// new connections, closed by either side.
#[test]
fn every_request_is_answered() {
    let lossy = Impairment {
        loss: Probability::new(0.01),
        duplicate: Probability::new(0.01),
        reorder: Probability::new(0.01),
        delay: Duration::from_millis(1),
        ..Impairment::default()
    };
    for impairment in [Impairment::default(), lossy] {
        for reuse in [Reuse::KeepAlive, Reuse::ServerCloses, Reuse::ClientCloses] {
            let figures = run(reuse, 32, impairment);
            assert_eq!(figures.counts.errors.failed_requests(), 0, "{reuse:?}: {:?}", figures.counts);
            assert_eq!(figures.counts.errors.failed_connects(), 0, "{reuse:?}: {:?}", figures.counts);
        }
    }
}
