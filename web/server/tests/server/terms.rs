//! How long clients may take, by where they connected and what they asked for.

use crate::support::World;
use app::{App as _, ConnId};
use core::time::Duration;
use semantics::{Request, Status};
use server::exchange::{
    ExchangeId, ExchangeSettings, Handler, HttpOpening, Listeners, Piece, Prepared, Replies, Reply, RequestBody,
    Speaks, UpstreamHandler,
};
use server::{Config, ExchangeTerms, HeadTerms, Respond};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// `/N` is answered by the terms of number N; heads have those with number 1.
struct Told;

impl Handler for Told {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _body: RequestBody) {
        let terms = Some(request.path()[1] - b'0');
        replies.set(id, &ExchangeSettings { terms, ..ExchangeSettings::default() });
        let long = vec![b'x'; 400_000];
        let body = if request.path().ends_with(b"long") { &long[..] } else { b"short" };
        let reply = Reply { status: Status::OK, length: Some(body.len() as u64), fields: b"", reason: None };
        replies.reply(id, request, &reply, &[Piece::Bytes(body)]);
    }
}

impl UpstreamHandler for Told {}

impl Prepared for Told {}

fn world() -> World<Told> {
    let mut config = Config::respond(Respond::Text(String::new()));
    let head = HeadTerms { limits: config.limits.http, timeout: seconds(60) };
    let mut strict = HeadTerms { timeout: seconds(5), ..head };
    (strict.limits.head, strict.limits.request_line) = (200, 100);
    config.head_terms = vec![head, strict];
    let terms = |keep_alive, send| ExchangeTerms {
        body: seconds(60),
        send: seconds(send),
        keep_alive: seconds(keep_alive),
        linger: seconds(5),
        linger_most: seconds(30),
        lingers: true,
    };
    let closes = ExchangeTerms { lingers: false, ..terms(60, 60) };
    config.exchange_terms = vec![terms(60, 60), terms(10, 16), terms(100, 160), terms(2, 60), closes];
    let opening = HttpOpening { terms: (1, 2), ..HttpOpening::default() };
    World::speaking(config, Told, Listeners::everywhere(Speaks::Http(opening)))
}

fn ask(world: &mut World<Told>, id: ConnId, path: &str) {
    world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(world.got(id).starts_with(b"HTTP/1.1 200 "), "{path}");
}

/// Whether the connection is ended in the last tenth of `span`, and not before.
fn ends_after(world: &mut World<Told>, id: ConnId, span: Duration) {
    world.advance(span * 9 / 10);
    assert!(!world.conn(id).finished, "{span:?} are not over");
    world.advance(span / 10 + Duration::from_millis(10));
    assert!(world.conn(id).finished, "{span:?} are over");
}

#[test]
fn the_next_request_is_waited_for_as_the_last_one_says() {
    for (paths, span) in [
        (&["/0"][..], 60),
        (&["/1"], 10),
        (&["/2"], 100),
        (&["/2", "/3"], 2),
        (&["/3", "/1"], 10),
        (&["/1", "/2"], 100),
    ] {
        let mut world = world();
        let id = world.open();
        for path in paths {
            ask(&mut world, id, path);
            world.advance(Duration::from_millis(1_500));
        }
        ends_after(&mut world, id, seconds(span) - Duration::from_millis(1_500));
    }
}

#[test]
fn heads_have_the_terms_of_their_address() {
    let mut world = world();
    let id = world.open();
    world.send(id, "GET /");
    ends_after(&mut world, id, seconds(5));
    // And their limits, also where a plain head would be taken at once.
    for (path, field, status) in
        [("/1", "", "200"), (&*format!("/1{}", "x".repeat(120)), "", "414"), ("/1", &*"x".repeat(200), "431")]
    {
        let id = world.open();
        world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\nX: {field}\r\n\r\n"));
        let got = String::from_utf8(world.got(id)).unwrap();
        assert_eq!(&got[9..12], status, "{path} {field}");
    }
}

/// `lingering_close off`: what still comes is not waited for.
#[test]
fn where_nothing_is_lingered_for_the_last_answer_closes() {
    for (path, closes) in [("/1", false), ("/4", true)] {
        let mut world = world();
        let id = world.open();
        world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert!(world.conn(id).finished);
        assert_eq!(world.conn(id).closes, closes, "{path}");
    }
}

/// At the limit on connections, those that have their last answer and go on sending give way.
#[test]
fn who_only_goes_on_sending_gives_way() {
    let mut world = world();
    let id = world.open();
    world.send(id, "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    world.advance(seconds(2));
    world.send(id, "more");
    let now = world.net.now;
    let idle = world.server.idle(id, now).expect("it waits for the client's end alone");
    assert!(idle >= seconds(2) - Duration::from_millis(10) && idle <= seconds(2), "{idle:?}");
}

/// A peer that takes nothing is given up after the time of what it is sent.
#[test]
fn what_is_sent_has_terms_of_its_own() {
    for (path, span) in [("/1long", 16), ("/2long", 160)] {
        let mut world = world();
        let id = world.open();
        world.conn(id).acks = false;
        world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.advance(seconds(span) * 9 / 10);
        assert!(world.is_open(id), "{path}");
        world.advance(seconds(span) / 4);
        assert!(!world.is_open(id), "{path}");
    }
}

/// What a client sends behind its last request is read for a while, and for longer
/// while more of it comes; not without end.
#[test]
fn the_rest_is_read_as_long_as_it_comes() {
    let mut world = world();
    let id = world.open();
    world.send(id, "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(world.conn(id).finished);
    for second in 0..29 {
        assert!(world.is_open(id), "{second}");
        world.send(id, "more");
        world.advance(seconds(1));
    }
    world.send(id, "more");
    world.advance(Duration::from_millis(1_100));
    assert!(!world.is_open(id));
    // One that says nothing more is gone soon.
    let id = world.open();
    world.send(id, "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    world.advance(Duration::from_millis(4_900));
    assert!(world.is_open(id));
    world.advance(Duration::from_millis(200));
    assert!(!world.is_open(id));
}

/// Whatever is answered, by the short way or another, and however long it was silent.
/// Its keys, say, are nearly used up.
#[test]
fn a_worn_connection_ends_with_its_next_answer() {
    for path in ["/", "/?x"] {
        let mut world = World::new(Config::respond(Respond::Text("short".to_owned())));
        let id = world.open();
        for is_last in [false, true] {
            assert!(!world.conn(id).finished, "{path}: nothing is under way, and it may ask");
            world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let got = String::from_utf8(world.got(id)).unwrap();
            assert_eq!((got.contains("Connection: close"), world.conn(id).finished), (is_last, is_last), "{path}");
            world.server.on_worn(&mut world.net, id);
        }
    }
}

#[test]
fn a_connection_of_an_age_ends_with_its_next_answer() {
    for (path, keep_alive, asked_at) in [
        ("/", 65, &[30, 60, 90, 120][..]),
        ("/", 1_000, &[10, 500]),
        ("/", 1_000, &[10, 99, 101]),
        ("/?x", 1_000, &[10, 150]),
    ] {
        let mut config = Config::respond(Respond::Text("short".to_owned()));
        config.timeouts.http.keep_alive = seconds(keep_alive);
        config.limits.connection_age = Some(seconds(100));
        let mut world = World::new(config);
        let id = world.open();
        let mut now = 0;
        for at in asked_at {
            world.advance(seconds(at - now));
            now = *at;
            assert!(!world.conn(id).finished, "{path} {at}: it is silent, and no more");
            world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let got = String::from_utf8(world.got(id)).unwrap();
            let is_last = *at > 100;
            assert_eq!((got.contains("Connection: close"), world.conn(id).finished), (is_last, is_last), "{path} {at}");
        }
    }
}
