//! Connections: persistence, pipelining, back-pressure, deadlines, drain.

use crate::support::{Response, Site, World, directory};
use app::{App, Net};
use core::time::Duration;
use server::{Config, Respond};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

fn fixed(config: impl FnOnce(&mut Config)) -> World {
    let mut it = Config::respond(Respond::Text("ok".into()));
    config(&mut it);
    World::new(it)
}

fn responses(mut got: &[u8]) -> Vec<Response> {
    let mut all = Vec::new();
    while !got.is_empty() {
        let (response, rest) = Response::parse(got, false);
        all.push(response);
        got = rest;
    }
    all
}

#[test]
fn persistence_follows_version_and_connection() {
    // RFC 9112 §9.3
    for (version, field, persists, says) in [
        ("1.1", "", true, None),
        ("1.1", "Connection: close\r\n", false, Some("close")),
        ("1.1", "Connection: x, CLOSE\r\n", false, Some("close")),
        ("1.0", "", false, None),
        ("1.0", "Connection: keep-alive\r\n", true, Some("keep-alive")),
    ] {
        let site = Site::new();
        site.write("index.html", "ok");
        let mut large = site.config();
        directory(&mut large).cache_file_bytes = 1;
        for mut world in [fixed(|_| {}), World::new(site.config()), World::new(large)] {
            let id = world.open();
            for round in 0..2 {
                world.send(id, format!("GET / HTTP/{version}\r\nHost: a\r\n{field}\r\n"));
                let got = world.got(id);
                let (response, rest) = Response::parse(&got, false);
                assert_eq!((response.text(), rest.len(), response.field("Connection")), ("ok", 0, says));
                assert_eq!(world.conn(id).finished, !persists, "{version} {field} {round}");
                if !persists {
                    break;
                }
            }
        }
    }
}

/// The prepared message that says `Connection: close` is dated anew each
/// second, also while someone still has the one before to take, and follows
/// the content; equal heads in a row mean the same each time.
#[test]
fn last_requests_in_a_row_are_answered_alike() {
    let site = Site::new();
    site.write("index.html", "ok");
    for mut world in [fixed(|_| {}), World::new(site.config())] {
        let slow = world.open();
        world.conn(slow).acks = false;
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        world.send(slow, request);
        let mut dates = Vec::new();
        for _ in 0..3 {
            for _ in 0..3 {
                let id = world.open();
                world.send(id, request);
                // RFC 9112 §9.6: what follows the last request is not for us.
                world.send(id, request);
                let got = world.got(id);
                let (response, rest) = Response::parse(&got, false);
                assert_eq!((response.text(), response.field("Connection"), rest.len()), ("ok", Some("close"), 0));
                assert!(world.conn(id).finished);
                dates.push(response.field("Date").map(str::to_owned));
            }
            world.advance(SECOND);
        }
        dates.dedup();
        assert_eq!(dates.len(), 3);
        let kept = world.open();
        world.send(kept, GET);
        let got = world.got(kept);
        assert_eq!(Response::parse(&got, false).0.field("Connection"), None);
        assert!(!world.conn(kept).finished);
        assert_eq!((world.counter("requests"), world.counter("responses_2xx")), (11, 11));
    }
    // No room in memory for a second message: written for each.
    let mut tight = site.config();
    directory(&mut tight).cache_bytes = 300;
    let mut world = World::new(tight);
    for _ in 0..3 {
        let response = world.get_with("/", "Connection: close\r\n");
        assert_eq!((response.text(), response.field("Connection")), ("ok", Some("close")));
    }
}

#[test]
fn it_does_not_matter_how_requests_are_cut_into_segments() {
    let site = Site::new();
    site.write("index.html", "home");
    site.write("big.bin", vec![7; 30_000]);
    let stream = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /big.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=9-11\r\n\r\n\
                  POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
                  GET /none HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x/../big.bin HTTP/1.1\r\nHost: a\r\n\r\n\
                  GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let whole = {
        let mut world = World::new(site.config());
        let id = world.open();
        world.send(id, stream);
        world.got(id)
    };
    let mut seed = 1_u64;
    for cut in 0..stream.len() + 200 {
        let mut world = World::new(site.config());
        let id = world.open();
        let mut rest = stream;
        while !rest.is_empty() {
            // Once at every place, then at many.
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let length = if cut < stream.len() { cut.max(1) } else { 1 + seed as usize % 40 }.min(rest.len());
            world.send(id, &rest[..length]);
            rest = &rest[length..];
        }
        assert_eq!(world.got(id), whole, "cut at {cut}");
        assert!(world.conn(id).finished);
        assert_eq!(world.counter("requests"), 6);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::new();
    for at in 0..100 {
        site.write(&format!("{at}.txt"), at.to_string());
    }
    let mut world = World::new(site.config());
    let id = world.open();
    let requests: String = (0..100).map(|at| format!("GET /{at}.txt HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    for _ in 0..2 {
        world.send(id, &requests);
        let got = responses(&world.got(id));
        assert!(got.iter().enumerate().all(|(at, response)| response.text() == at.to_string()));
        assert_eq!(got.len(), 100);
    }
    // Most were looked up ahead, and did not wait.
    assert_eq!(world.counter("cache_looks"), 100);
    assert_eq!(world.counter("cache_misses") + world.counter("cache_hits"), 200);
    assert!(world.counter("cache_hits") > 100);
}

#[test]
fn a_peer_that_takes_nothing_is_answered_only_so_far() {
    let mut world = World::new(Config::respond(Respond::Size(10_000)));
    let id = world.open();
    world.conn(id).acks = false;
    for _ in 0..100 {
        world.send(id, GET.repeat(10));
    }
    let unsent = world.net.unsent(id);
    assert!((256 << 10..(256 << 10) + 11_000).contains(&unsent), "{unsent}");
    assert!(world.counter("back_pressure") > 0);
    world.conn(id).acks = true;
    world.ack(id, usize::MAX);
    world.settle();
    assert_eq!(responses(&world.got(id)).len(), 1000, "and all of them in the end");
}

#[test]
fn a_connection_can_be_limited_in_requests() {
    let mut world = fixed(|config| config.limits.requests_per_connection = Some(3));
    let id = world.open();
    world.send(id, GET.repeat(5));
    let got = responses(&world.got(id));
    let says: Vec<_> = got.iter().map(|response| response.field("Connection")).collect();
    assert_eq!(says, [None, None, Some("close")]);
    assert!(world.conn(id).finished);
}

#[test]
fn connections_above_the_limit_are_refused() {
    let mut world = fixed(|config| config.limits.connections = 2);
    let ids = [world.open(), world.open(), world.open()];
    assert_eq!(ids.map(|id| world.is_open(id)), [true, true, false]);
    assert_eq!(world.counter("connections_refused"), 1);
    world.send(ids[0], GET);
    assert_eq!(responses(&world.got(ids[0])).len(), 1);
    assert_eq!(world.counter("connections_open"), 2);
}

#[test]
fn a_peer_that_half_closes_is_answered() {
    let site = Site::new();
    site.write("index.html", "ok");
    let mut world = World::new(site.config());
    let id = world.open();
    world.arrive(id, GET.repeat(2));
    world.conn(id).acks = false;
    world.end(id);
    assert!(world.conn(id).finished);
    assert_eq!(world.counter("responses_2xx"), 2);
}

#[test]
fn half_of_a_request_and_a_fin_is_the_end() {
    for part in ["", "GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"] {
        let mut world = fixed(|_| {});
        let id = world.open();
        world.arrive(id, part);
        world.end(id);
        assert!(!world.is_open(id), "{part}");
        assert_eq!(world.counter("requests"), 0);
    }
}

#[test]
fn a_head_that_does_not_come_is_not_waited_for() {
    let mut world = fixed(|_| {});
    let silent = world.open();
    let slow = world.open();
    for byte in GET.bytes().take(5) {
        world.send(slow, [byte]);
        world.advance(10 * SECOND);
    }
    assert!(!world.conn(slow).finished, "60 s from its first byte");
    world.advance(11 * SECOND);
    // RFC 9110 §15.5.9
    assert_eq!(Response::parse(&world.got(slow), false).0.status, 408);
    assert!(world.conn(slow).finished);
    assert!(world.conn(silent).finished);
    assert_eq!(world.got(silent), b"", "who said nothing is told nothing");
    assert_eq!(world.counter("timeouts_header"), 2);
}

#[test]
fn keep_alive_ends_65_seconds_after_the_last_response() {
    let mut world = fixed(|_| {});
    let id = world.open();
    let timers = world.net.timers_set;
    for _ in 0..100 {
        world.send(id, GET);
        world.advance(Duration::from_millis(100));
    }
    assert_eq!(world.net.timers_set, timers, "a request sets no timer");
    world.advance(64 * SECOND);
    world.send(id, GET);
    world.advance(64 * SECOND);
    assert!(!world.conn(id).finished);
    world.advance(2 * SECOND);
    assert!(world.conn(id).finished);
    assert_eq!(world.counter("timeouts_keep_alive"), 1);
    assert_eq!(world.got(id).len() % 101, 0);
}

#[test]
fn a_keep_alive_time_below_the_head_s_is_kept_too() {
    let mut world = fixed(|config| config.timeouts.http.keep_alive = 5 * SECOND);
    let id = world.open();
    world.advance(3 * SECOND);
    for _ in 0..3 {
        world.send(id, GET);
        world.advance(4 * SECOND);
        world.send(id, &GET[..9]);
        world.advance(7 * SECOND);
        assert!(!world.conn(id).finished, "a head that began has its own time");
        world.send(id, &GET[9..]);
    }
    world.advance(4 * SECOND);
    assert!(!world.conn(id).finished);
    world.advance(2 * SECOND);
    assert!(world.conn(id).finished);
}

#[test]
fn a_body_that_stops_coming_is_not_waited_for() {
    let mut world = fixed(|_| {});
    let id = world.open();
    world.send(id, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..5 {
        world.advance(50 * SECOND);
        world.send(id, "x");
    }
    assert!(!world.conn(id).finished, "each piece starts the time anew");
    world.advance(62 * SECOND);
    assert_eq!(Response::parse(&world.got(id), false).0.status, 408);
    assert_eq!(world.counter("timeouts_body"), 1);
}

#[test]
fn a_response_that_is_not_taken_is_given_up() {
    let mut world = World::new(Config::respond(Respond::Size(1 << 20)));
    let [dead, slow] = [world.open(), world.open()];
    for id in [dead, slow] {
        world.conn(id).acks = false;
        world.send(id, GET);
    }
    for _ in 0..10 {
        world.advance(30 * SECOND);
        world.ack(slow, 1000);
    }
    assert!(!world.is_open(dead));
    assert!(world.is_open(slow), "a little each minute is enough");
    assert_eq!(world.counter("timeouts_send"), 1);
    world.advance(121 * SECOND);
    assert!(!world.is_open(slow));
}

/// However late in the time something was taken, the next is due within it.
#[test]
fn a_peer_that_stops_taking_is_given_up_within_the_send_timeout() {
    for taken_after in [1, 17, 30, 44, 59] {
        let mut world = World::new(Config::respond(Respond::Size(1 << 20)));
        let id = world.open();
        world.conn(id).acks = false;
        world.send(id, GET);
        world.advance(taken_after * SECOND);
        world.ack(id, 1000);
        world.advance(55 * SECOND);
        assert!(world.is_open(id), "not before its time");
        world.advance(Duration::from_millis(5_100));
        assert!(!world.is_open(id), "something was taken after {taken_after} s");
        assert_eq!(world.counter("timeouts_send"), 1);
    }
}

#[test]
fn a_small_response_that_is_not_taken_is_given_up_later() {
    let mut world = fixed(|_| {});
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, GET);
    world.advance(60 * SECOND);
    assert!(world.is_open(id));
    world.advance(70 * SECOND);
    assert!(!world.is_open(id));
}

#[test]
fn after_the_last_response_the_peer_s_fin_is_waited_for_a_little() {
    // RFC 9112 §9.6: what still comes is read, so that no reset overtakes the
    // response.
    let mut world = fixed(|_| {});
    let id = world.open();
    world.send(id, "GET / HTTP/1.0\r\n\r\n");
    assert!(world.conn(id).finished);
    world.send(id, GET.repeat(1000));
    assert_eq!(responses(&world.got(id)).len(), 1);
    world.advance(4 * SECOND);
    assert!(world.is_open(id));
    world.advance(2 * SECOND);
    assert!(!world.is_open(id));
    assert_eq!(world.counter("timeouts_linger"), 1);
}

#[test]
fn a_drain_finishes_what_is_under_way() {
    let site = Site::new();
    site.write("index.html", "ok");
    site.write("large", vec![b'x'; 8 << 20]);
    let mut world = World::new(site.config());
    let [idle, partial, streaming] = [world.open(), world.open(), world.open()];
    world.send(idle, GET);
    world.got(idle);
    world.send(partial, &GET[..10]);
    world.conn(streaming).acks = false;
    world.send(streaming, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!world.server.drain(&mut world.net));
    assert!(world.conn(idle).finished && !world.conn(partial).finished && !world.conn(streaming).finished);
    let late = world.open();
    assert!(world.conn(late).finished, "no new work");
    assert_eq!(world.counter("connections_refused"), 1);
    world.send(partial, &GET[10..]);
    // RFC 9112 §9.6
    assert_eq!(responses(&world.got(partial))[0].field("Connection"), Some("close"));
    world.conn(streaming).acks = true;
    world.settle();
    assert_eq!(responses(&world.got(streaming))[0].body.len(), 8 << 20);
    for id in [idle, partial, streaming, late] {
        assert!(world.conn(id).finished);
        assert!(!world.server.drain(&mut world.net));
        world.end(id);
    }
    assert!(world.server.drain(&mut world.net));
}

#[test]
fn a_drain_has_an_end() {
    let mut world = fixed(|_| {});
    let id = world.open();
    world.send(id, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert!(!world.server.drain(&mut world.net));
    world.advance(29 * SECOND);
    assert!(!world.server.drain(&mut world.net));
    world.settle();
    assert!(world.is_open(id));
    world.advance(2 * SECOND);
    world.server.drain(&mut world.net);
    world.settle();
    assert!(!world.is_open(id));
    assert!(world.server.drain(&mut world.net));
}

/// Nothing that a client has sent, or may be sending, is lost: it is told
/// with an answer that there will be no further one (RFC 9112 §9.6).
#[test]
fn a_retired_server_ends_connections_with_an_answer() {
    let site = Site::new();
    site.write("index.html", "ok");
    site.write("large", vec![b'x'; 8 << 20]);
    let mut world = World::new(site.config());
    let [idle, partial, streaming] = [world.open(), world.open(), world.open()];
    world.send(idle, GET);
    world.got(idle);
    world.send(partial, &GET[..10]);
    world.conn(streaming).acks = false;
    world.send(streaming, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    world.server.retire();
    world.conn(streaming).acks = true;
    world.settle();
    // What was promised to go on goes on; what was accepted is served.
    assert_eq!(responses(&world.got(streaming))[0].body.len(), 8 << 20);
    let late = world.open();
    for id in [idle, partial, streaming, late] {
        assert!(!world.conn(id).finished);
        world.send(id, if id == partial { &GET[10..] } else { GET });
        let got = responses(&world.got(id));
        assert_eq!((got.len(), got[0].text(), got[0].field("Connection")), (1, "ok", Some("close")));
        assert!(world.conn(id).finished);
        world.end(id);
    }
    assert_eq!((world.counter("connections_open"), world.counter("connections_refused")), (0, 0));
    // One that stays silent is closed when it always would have been.
    let silent = world.open();
    world.advance(59 * SECOND);
    assert!(world.is_open(silent) && !world.conn(silent).finished);
}

#[test]
fn a_slot_s_next_connection_has_nothing_of_the_last_one() {
    let site = Site::new();
    let mut world = World::new(site.config());
    for _ in 0..3 {
        let id = world.open();
        world.arrive(id, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        world.close(id, app::Closed::Reset);
        // The answer for the one that went comes to this one's slot.
        let next = world.open();
        assert_eq!(next.index(), id.index());
        assert_eq!(world.got(next), b"");
        world.close(next, app::Closed::Reset);
    }
    assert_eq!(world.counter("connections_open"), 0);
}

/// Random bytes and random cuts of valid requests: no panic, and the
/// connection is answered or closed.
#[test]
fn no_input_panics() {
    let site = Site::new();
    site.write("index.html", "ok");
    site.write("large", vec![b'x'; 2 << 20]);
    let mut world = World::new(site.config());
    let pieces: [&[u8]; 16] = [
        b"GET / HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"\r\n",
        b"Range: bytes=0-1,3-4\r\n",
        b"If-None-Match: *\r\n",
        b"POST /large HTTP/1.1\r\n",
        b"Content-Length: 7\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"GET /large HTTP/1.0\r\n",
        b"Expect: 100-continue\r\n",
        b"\0\xff",
        b"HEAD /../ HTTP/1.1\r\n",
        b"Connection: close\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"GET /%00 HTTP/1.1\r\n",
    ];
    let mut seed = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    for _ in 0..3000 {
        let id = world.open();
        for _ in 0..1 + random() % 12 {
            if !world.is_open(id) {
                break;
            }
            world.conn(id).counts_only = true;
            world.conn(id).acks = random() % 2 == 0;
            match random() % 20 {
                0 => world.advance(Duration::from_secs(random() as u64 % 100)),
                1 if world.net.conns.len() > 1 => world.close(id, app::Closed::Reset),
                2 => world.ack(id, random() % 100_000),
                _ => world.send(id, pieces[random() % pieces.len()]),
            }
        }
        if world.is_open(id) {
            world.conn(id).acks = true;
            world.settle();
            if world.is_open(id) {
                world.end(id);
            }
            world.settle();
            assert!(!world.is_open(id), "both sides are done");
        }
    }
    assert_eq!((world.counter("connections_open"), world.counter("streams_open")), (0, 0));
}

/// Clients that send their heads byte by byte keep nobody out for long where all places are taken, and keep
/// theirs where there are others: they are told 408, and the connection makes room from then on.
#[test]
fn heads_that_do_not_end_give_way() {
    for (most, stay) in [(8, false), (10, true)] {
        let mut world = fixed(|config| config.limits.connections = most);
        let all: Vec<_> = (0..8).map(|_| world.open()).collect();
        // One has had its answer, and waits for nothing but what it may ask next.
        world.send(all[7], GET);
        world.got(all[7]);
        for byte in b"GET / " {
            all[..7].iter().for_each(|id| world.send(*id, [*byte]));
            world.advance(Duration::from_millis(490));
        }
        assert!(all.iter().all(|id| !world.conn(*id).finished), "they have only begun");
        for _ in 0..4 {
            world.advance(Duration::from_millis(300));
            world.turn();
        }
        let now = world.net.now;
        for id in &all[..7] {
            assert_eq!(world.conn(*id).finished, !stay, "of {most}");
            assert_eq!(world.got(*id).starts_with(b"HTTP/1.1 408 "), !stay);
            assert_eq!(world.server.idle(*id, now).is_some(), !stay);
        }
        assert!(!world.conn(all[7]).finished, "it keeps nobody out");
    }
}
