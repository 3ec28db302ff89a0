//! What gives way where seven of eight places are taken, and what does not.

use crate::support::World;
use app::{App, Closed, ConnId, Prefix, Wake};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use semantics::{Request, Status};
use server::exchange::{
    Bodies, BodyCut, ExchangeId, ExchangeSettings, Gone, Handler, HandlerRules, HttpOpening, Intake, Listeners,
    Prepared, Replies, Reply, ReplyEnd, RequestBody, Speaks, Stop, UpstreamAddress, UpstreamHandler,
};
use server::{Config, Respond};

/// Waits with every request, or has its connection as a tunnel, and reads bodies.
#[derive(Default)]
struct Holds {
    /// Whether it takes what comes of bodies.
    takes: bool,
    /// Whether clients may leave what they asked for.
    leaves: bool,
    given_up: u32,
    gone: u32,
    marks: u32,
}

impl Handler for Holds {
    fn rules(&self) -> HandlerRules {
        let intake = Intake { bodies: Bodies::Asked, ..Intake::default() };
        HandlerRules { intake, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _: RequestBody) {
        self.marks += 1;
        let told = request.fields().find(|field| field.is("x-client"));
        let client: Option<IpAddr> = told.map(|told| str::from_utf8(told.value).unwrap().parse().unwrap());
        let patient = !matches!(request.path(), b"/tunnel" | b"/begun" | b"/read" | b"/early");
        replies.set(id, &ExchangeSettings { client, patient, ..ExchangeSettings::marked(self.marks) });
        match request.path() {
            b"/tunnel" => {
                let reply = Reply { status: Status::SWITCHING_PROTOCOLS, length: None, fields: b"", reason: None };
                replies.begin(id, request, &reply, ReplyEnd::Connection);
            }
            b"/begun" => {
                let reply = Reply { status: Status::OK, length: Some(1 << 20), fields: b"", reason: None };
                replies.begin(id, request, &reply, ReplyEnd::Length);
            }
            b"/read" => replies.read(id, Some(1 << 20)),
            b"/early" => {
                let reply = Reply { status: Status::FORBIDDEN, length: Some(0), fields: b"", reason: None };
                replies.reply(id, request, &reply, &[]);
            }
            b"/dial" => {
                let to = UpstreamAddress::Inet(SocketAddr::from(([198, 51, 100, 9], 80)));
                replies.dial(to, None, 0).expect("an upstream");
            }
            _ => {}
        }
    }

    fn on_body<R: Replies>(&mut self, _: &mut R, _: ExchangeId, bytes: &[u8]) -> usize {
        if self.takes { bytes.len() } else { 0 }
    }

    fn on_body_end<R: Replies>(&mut self, _: &mut R, _: ExchangeId, _: &[u8]) {}

    fn on_body_cut<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, why: BodyCut) -> bool {
        assert_eq!(why, BodyCut::Late);
        replies.stop(id, Stop::HangUp);
        true
    }

    fn on_gone(&mut self, _: ExchangeId, _: Option<u32>, why: Gone) {
        match why {
            Gone::GivenUp { .. } => self.given_up += 1,
            Gone::Left { .. } => assert!(self.leaves, "nobody leaves"),
            Gone::FileFailed { .. } => panic!("no file is sent"),
            Gone::Cut => {}
        }
        self.gone += 1;
    }
}

impl UpstreamHandler for Holds {}

impl Prepared for Holds {}

fn holding(places: usize, handler: Holds, exempt: &[&str]) -> World<Holds> {
    listening(places, handler, exempt, Listeners::default())
}

/// Proxies say first whom they speak for.
fn proxied(places: usize) -> World<Holds> {
    let opening = HttpOpening { proxied: true, ..HttpOpening::default() };
    listening(places, Holds::default(), &[], Listeners::everywhere(Speaks::Http(opening)))
}

fn listening(places: usize, handler: Holds, exempt: &[&str], listeners: Listeners) -> World<Holds> {
    let mut config = Config::respond(Respond::Text(String::new()));
    config.limits.connections = places;
    config.limits.exempt = exempt.iter().map(|text| text.parse::<Prefix>().unwrap()).collect();
    World::speaking(config, handler, listeners)
}

fn count<H: Handler>(world: &World<H>, name: &str) -> u64 {
    world.server.counted().iter().find(|(found, _)| *found == name).expect("a counter").1
}

/// Connections from these addresses, one each, that ask for `path`.
fn open(world: &mut World<Holds>, from: &str, count: usize, path: &str) -> Vec<ConnId> {
    let (ip, told) = from.split_once(" for ").unwrap_or((from, ""));
    let field = if told.is_empty() { String::new() } else { format!("X-Client: {told}\r\n") };
    let one = |world: &mut World<Holds>| {
        let slot = (0..).find(|slot| !world.net.conns.contains_key(slot)).unwrap();
        world.net.peers.insert(slot, ip.parse().unwrap());
        let id = world.open();
        world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
        id
    };
    (0..count).map(|_| one(world)).collect()
}

/// Seconds pass, with turns as the server wants them; `each` is done in every half of one.
fn pass<H: Handler>(world: &mut World<H>, seconds: u32, mut each: impl FnMut(&mut World<H>)) {
    for _ in 0..2 * seconds {
        world.advance(Duration::from_millis(500));
        each(world);
        while world.turn() {}
    }
}

fn left(world: &mut World<Holds>, all: &[ConnId]) -> Vec<bool> {
    all.iter().map(|id| world.is_open(*id) && !world.conn(*id).finished).collect()
}

/// Bodies that come at less than 500 bytes a second give way behind three seconds, whoever
/// drops or reads them; those that come as fast, or are not read, do not.
#[test]
fn bodies_that_come_too_slowly_give_way() {
    const HEAD: &str = "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    for (places, stay) in [(8, false), (10, true)] {
        let mut config = Config::respond(Respond::Text(String::new()));
        config.limits.connections = places;
        let mut dropping = World::new(config);
        let mut reading = holding(places, Holds { takes: true, ..Holds::default() }, &[]);
        slow_bodies(&mut dropping, HEAD, stay);
        slow_bodies(&mut reading, HEAD, stay);
        assert_eq!(reading.server.handler().gone, 0, "it is told that they are late");
    }
}

fn slow_bodies<H: Handler>(world: &mut World<H>, head: &str, stay: bool) {
    let all: Vec<ConnId> = (0..8).map(|_| world.open()).collect();
    all.iter().for_each(|id| world.send(*id, head));
    // The last one has 500 bytes a second, and comes in pieces.
    let mut step = |world: &mut World<H>| {
        for id in &all {
            if world.is_open(*id) && !world.conn(*id).finished {
                world.send(*id, if *id == all[7] { &[b'x'; 250][..] } else { b"x" });
            }
        }
    };
    pass(world, 2, &mut step);
    assert!(all.iter().all(|id| !world.conn(*id).finished), "they have only begun");
    pass(world, 3, &mut step);
    for id in &all[..7] {
        assert_eq!(world.conn(*id).finished, !stay);
        let now = world.net.now;
        assert_eq!(world.server.idle(*id, now).is_some(), !stay, "it makes room");
    }
    assert_eq!(count(world, "gave_way_bodies"), if stay { 0 } else { 7 });
    pass(world, 30, &mut step);
    assert!(!world.conn(all[7]).finished, "500 bytes a second are enough");
}

/// A handler that does not read for a while is nothing that its client could mend.
#[test]
fn bodies_that_are_not_read_do_not_give_way() {
    // They are all of one client, which is left out.
    let mut world = holding(8, Holds::default(), &["192.0.2.7"]);
    let all: Vec<ConnId> = (0..8).map(|_| world.open()).collect();
    let head = "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    all.iter().for_each(|id| world.send(*id, [head.as_bytes(), &[b'x'; 600]].concat()));
    pass(&mut world, 20, |_| {});
    assert_eq!(left(&mut world, &all), [true; 8]);
    // It goes on, and has what waited.
    world.server.handler().takes = true;
    all.iter().for_each(|id| world.send(*id, "x"));
    pass(&mut world, 2, |_| {});
    assert_eq!(left(&mut world, &all), [true; 8]);
    pass(&mut world, 4, |_| {});
    assert_eq!(left(&mut world, &all), [false; 8], "now they are waited for");
}

/// Of a client with more than a quarter of all places the youngest give way, down to a quarter.
#[test]
fn the_youngest_of_who_has_more_than_a_quarter_give_way() {
    for path in ["/tunnel", "/wait", "/begun"] {
        let mut world = holding(16, Holds::default(), &[]);
        let early = open(&mut world, "192.0.2.1", 3, path);
        let others: Vec<ConnId> =
            (2..8).flat_map(|last| open(&mut world, &format!("192.0.2.{last}"), 1, path)).collect();
        let late = open(&mut world, "::ffff:192.0.2.1", 4, path);
        pass(&mut world, 5, |_| {});
        let all = [early.clone(), others.clone(), late.clone()].concat();
        assert_eq!(left(&mut world, &all), [true; 13], "{path}: there is room");
        let last = open(&mut world, "192.0.2.9", 1, path);
        pass(&mut world, 3, |_| {});
        assert_eq!(left(&mut world, &early), [true; 3], "{path}");
        assert_eq!(left(&mut world, &late), [true, false, false, false], "{path}");
        assert_eq!(left(&mut world, &[others, last].concat()), [true; 7], "{path}");
        let counter = if path == "/tunnel" { "gave_way_tunnels" } else { "gave_way_requests" };
        assert_eq!(count(&world, counter), 3, "{path}");
        let handler = &world.server.handler();
        assert_eq!((handler.given_up, handler.gone), (3, 3));
        if path == "/wait" {
            for id in &late[1..] {
                let now = world.net.now;
                assert!(world.got(*id).starts_with(b"HTTP/1.1 503 "));
                assert!(world.server.idle(*id, now).is_some(), "it makes room");
                world.end(*id);
            }
        }
        // Now nobody has too many, and the server sleeps from look to look.
        open(&mut world, "192.0.2.10", 3, path);
        pass(&mut world, 10, |_| {});
        assert_eq!(count(&world, counter), 3);
        assert!(matches!(world.server.on_turn(&mut world.net), Wake::At(_)));
    }
}

/// What has come behind a request that gives way, of its body or of others, is not kept: nobody
/// reads it any more, and its client, which may wait for room for the rest, is to hear the answer.
#[test]
fn what_waits_behind_who_gives_way_is_dropped() {
    const BODY: &[u8] = b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    const NEXT: &[u8] = b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
    for first in [BODY, NEXT] {
        let mut world = holding(16, Holds::default(), &[]);
        let early = open(&mut world, "192.0.2.1", 12, "/wait");
        let last = world.open();
        world.net.peers.insert(last.index(), IpAddr::from([192, 0, 2, 1]));
        world.send(last, [first, &NEXT.repeat(10)].concat());
        assert_eq!(world.conn(last).held.len(), 10 * NEXT.len(), "its handler does not read");
        open(&mut world, "192.0.2.1", 1, "/wait");
        pass(&mut world, 2, |_| {});
        assert_eq!(left(&mut world, &early)[..3], [true; 3]);
        assert!(world.got(last).starts_with(b"HTTP/1.1 503 "));
        assert_eq!(world.conn(last).held.len(), 0);
    }
}

/// An IPv6 /64 is one client, two are two; a proxy that is believed is none, but those of whom
/// it tells are; who is exempt may have all.
#[test]
fn a_client_is_who_asks() {
    let cases: [(&[&str], u64); 8] = [
        (&["2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::"], 10),
        (&["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1", "2001:db8:0:4::1"], 0),
        (&["198.51.100.1"], 0),
        (&["198.51.100.1 for 192.0.2.1"], 10),
        (&["198.51.100.1 for 192.0.2.1", "198.51.100.1 for 192.0.2.2", "198.51.100.1 for 192.0.2.3", "192.0.2.4"], 0),
        (&["203.0.113.99"], 0),
        // As a socket of IPv6 tells of them.
        (&["::ffff:203.0.113.99"], 0),
        (&["::ffff:198.51.100.1"], 0),
    ];
    for (from, ended) in cases {
        let fronts = vec!["198.51.100.1".parse().unwrap()];
        let mut listeners = Listeners::default();
        listeners.fronts = fronts;
        let mut world = listening(16, Holds::default(), &["203.0.113.0/24"], listeners);
        for at in 0..14 {
            open(&mut world, from[at % from.len()], 1, "/tunnel");
        }
        pass(&mut world, 4, |_| {});
        assert_eq!(count(&world, "gave_way_tunnels"), ended, "{from:?}");
    }
}

/// A tunnel that is made use of stays, and others go in its place; one that has a byte now and
/// then is not made use of.
#[test]
fn tunnels_that_are_used_stay() {
    let mut world = holding(16, Holds { takes: true, ..Holds::default() }, &[]);
    let all = open(&mut world, "192.0.2.1", 14, "/tunnel");
    let step = |world: &mut World<Holds>| {
        for id in all.iter().filter(|id| [all[12], all[13]].contains(id)) {
            if world.is_open(*id) {
                world.send(*id, if *id == all[13] { &[b'x'; 251][..] } else { b"x" });
            }
        }
    };
    pass(&mut world, 5, step);
    let mut stay = [false; 14];
    stay[..3].fill(true);
    stay[13] = true;
    // Ten are too many: of those that are idle the youngest ten.
    assert_eq!(left(&mut world, &all), stay);
}

/// Idle connections make room before tunnels: they do not count.
#[test]
fn idle_connections_do_not_count() {
    let mut world = holding(16, Holds::default(), &[]);
    (0..10).for_each(|_| _ = world.open());
    let tunnels: Vec<ConnId> = (0..4).map(|_| world.open()).collect();
    tunnels.iter().for_each(|id| world.send(*id, "GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n"));
    pass(&mut world, 10, |_| {});
    assert_eq!(left(&mut world, &tunnels), [true; 4]);
}

/// Where kernel sockets stand beside a silo's stack, its own places count: others do not help.
#[test]
fn places_beside_are_no_clients() {
    for (beside, ended) in [(0, 0), (16, 10)] {
        let mut config = Config::respond(Respond::Text(String::new()));
        (config.limits.connections, config.limits.beside) = (32, beside);
        let mut world = World::with_handler(config, Holds::default());
        open(&mut world, "192.0.2.1", 14, "/tunnel");
        pass(&mut world, 4, |_| {});
        assert_eq!(count(&world, "gave_way_tunnels"), ended, "{beside}");
    }
}

/// What a proxy tells at first is who its client is.
#[test]
fn a_client_is_whom_a_proxy_tells_of() {
    for (clients, ended) in [(1, 10), (14, 0)] {
        let mut world = proxied(16);
        for at in 0..14 {
            let id = world.open();
            world.send(id, format!("PROXY TCP4 203.0.113.{} 198.51.100.1 56324 443\r\n", at % clients));
            world.send(id, "GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        pass(&mut world, 4, |_| {});
        assert_eq!(count(&world, "gave_way_tunnels"), ended, "{clients}");
    }
}

/// And where it does not come to an end of that, its connection gives way as those do whose
/// heads do not.
#[test]
fn headers_of_proxies_that_do_not_end_give_way() {
    for (places, ended) in [(8, true), (10, false)] {
        let mut world = proxied(places);
        let all: Vec<ConnId> = (0..8).map(|_| world.open()).collect();
        all.iter().for_each(|id| world.send(*id, "PROXY TCP4 203.0"));
        pass(&mut world, 2, |_| {});
        assert_eq!(left(&mut world, &all), [true; 8]);
        pass(&mut world, 3, |_| {});
        assert_eq!(left(&mut world, &all), [!ended; 8]);
        assert_eq!(count(&world, "gave_way_heads"), if ended { 8 } else { 0 });
    }
}

/// The rest of a body whose request was answered before it is not read for longer than three
/// seconds, however fast it comes.
#[test]
fn rests_of_bodies_that_nobody_needs_give_way() {
    for (places, ended) in [(8, true), (10, false)] {
        let mut world = holding(places, Holds::default(), &[]);
        let all: Vec<ConnId> = (0..8).map(|_| world.open()).collect();
        let head = "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n";
        all.iter().for_each(|id| world.send(*id, head));
        let step = |world: &mut World<Holds>| {
            for id in &all {
                if world.is_open(*id) && !world.conn(*id).finished {
                    world.send(*id, [b'x'; 400]);
                }
            }
        };
        pass(&mut world, 2, step);
        assert_eq!(left(&mut world, &all), [true; 8]);
        pass(&mut world, 3, step);
        assert_eq!(left(&mut world, &all), [!ended; 8]);
        assert_eq!(count(&world, "gave_way_bodies"), if ended { 8 } else { 0 });
    }
}

/// Connections to upstreams take places, unless those have a table of their own.
#[test]
fn connections_to_upstreams_take_places() {
    for (beside, ended) in [(0, 3), (16, 0)] {
        let mut config = Config::respond(Respond::Text(String::new()));
        (config.limits.connections, config.limits.beside) = (16 + beside, beside);
        let mut world = World::with_handler(config, Holds::default());
        world.net.has_upstreams = true;
        open(&mut world, "192.0.2.1", 7, "/dial");
        pass(&mut world, 4, |_| {});
        assert_eq!(count(&world, "gave_way_requests"), ended, "{beside}");
    }
}

/// Tunnels of this client, all opened at once.
fn open_many(world: &mut World<Holds>, count: u32, from: impl Fn(u32) -> IpAddr) -> Vec<ConnId> {
    let mut free = 0;
    let one = |number: u32| {
        let slot = (free..).find(|slot| !world.net.conns.contains_key(slot)).unwrap();
        free = slot + 1;
        world.net.peers.insert(slot, from(number));
        let id = world.open_within_a_turn();
        world.arrive(id, "GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n");
        id
    };
    (0..count).map(one).collect()
}

/// An address for each.
fn apart(number: u32) -> IpAddr {
    IpAddr::from((0x0a00_0000 + number).to_be_bytes())
}

fn crowd() -> World<Holds> {
    holding(2_048, Holds { leaves: true, ..Holds::default() }, &[])
}

/// A client that has too many is left a quarter of all places, and no more, also where room for
/// others would be there sooner; and then nobody gives way who has no more than that.
#[test]
fn who_has_too_many_is_left_a_quarter() {
    let mut world = crowd();
    let all = open_many(&mut world, 1_800, |_| IpAddr::from([192, 0, 2, 1]));
    pass(&mut world, 3, |_| {});
    assert_eq!(count(&world, "gave_way_tunnels"), 1_800 - 512);
    let stay = [vec![true; 512], vec![false; 1_288]].concat();
    assert_eq!(left(&mut world, &all), stay, "the youngest go");
    open_many(&mut world, 1_300, apart);
    pass(&mut world, 4, |_| {});
    assert_eq!(count(&world, "gave_way_tunnels"), 1_800 - 512, "nobody has more than a quarter now");
}

/// Who may have too many is let be where there is room before that is known.
#[test]
fn nobody_gives_way_while_there_is_room() {
    let mut world = crowd();
    let others = open_many(&mut world, 1_048, apart);
    open_many(&mut world, 1_000, |_| IpAddr::from([192, 0, 2, 1]));
    // What goes by is known from the second look on; its first turn finds who may have too many.
    while world.turn() {}
    world.net.now = world.net.now + Duration::from_millis(1_500);
    assert!(world.turn(), "it goes on at once");
    others[..300].iter().for_each(|id| world.close(*id, Closed::Reset));
    while world.turn() {}
    assert_eq!(count(&world, "gave_way_tunnels"), 0);
    // When others come again, it is looked for again.
    open_many(&mut world, 300, |number| apart(50_000 + number));
    pass(&mut world, 4, |_| {});
    assert_eq!(count(&world, "gave_way_tunnels"), 488);
}

/// No newcomer gives way that took the place of another that was to.
#[test]
fn a_newcomer_in_a_place_is_another() {
    let mut world = crowd();
    open_many(&mut world, 1_048, apart);
    let all = open_many(&mut world, 1_000, |_| IpAddr::from([192, 0, 2, 1]));
    let mut newcomers = Vec::new();
    for _ in 0..20 {
        world.net.now = world.net.now + Duration::from_millis(500);
        while world.turn() {
            if count(&world, "gave_way_tunnels") == 256 && newcomers.is_empty() {
                // Some of those that are to go in the next turn leave by themselves.
                all[600..700].iter().for_each(|id| world.close(*id, Closed::Reset));
                newcomers = open_many(&mut world, 100, |number| apart(50_000 + number));
            }
        }
    }
    assert_eq!((newcomers.len(), count(&world, "gave_way_tunnels")), (100, 388));
    assert_eq!(left(&mut world, &newcomers), [true; 100]);
}
