//! What proxies say before a connection's first request.

use crate::support::World;
use app::ConnId;
use core::time::Duration;
use semantics::{Request, Status};
use server::exchange::{
    ExchangeId, Handler, HttpOpening, Listeners, LocalAddress, Piece, Prepared, Replies, Reply, RequestBody, Speaks,
    UpstreamHandler,
};
use server::{Config, Respond};

const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Tells of its clients what a proxy told of them.
struct Behind;

impl Handler for Behind {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _body: RequestBody) {
        let text = replies.opening(id).proxied.map_or_else(|| "nobody".to_owned(), |told| told.source.to_string());
        let reply = Reply { status: Status::OK, length: Some(text.len() as u64), fields: b"", reason: None };
        replies.reply(id, request, &reply, &[Piece::Bytes(text.as_bytes())]);
    }
}

impl UpstreamHandler for Behind {}

impl Prepared for Behind {}

/// Clients of port 80 come through proxies, those of others do not.
fn behind(config: Config) -> World<Behind> {
    let opening = HttpOpening { proxied: true, ..HttpOpening::default() };
    let at = |port| LocalAddress::Inet(([0, 0, 0, 0], port).into());
    let listeners = Listeners::new(vec![(at(8080), Speaks::PLAIN), (at(80), Speaks::Http(opening))]);
    World::speaking(config, Behind, listeners)
}

fn world() -> World<Behind> {
    behind(Config::respond(Respond::Text(String::new())))
}

fn asked(world: &mut World<Behind>, id: ConnId) -> String {
    world.send(id, REQUEST);
    let got = String::from_utf8(world.got(id)).unwrap();
    got.rsplit("\r\n\r\n").next().unwrap().to_owned()
}

/// However the header is cut, and whatever it lies in; it counts for all requests.
#[test]
fn a_proxy_tells_of_its_client() {
    for shares_frames in [false, true] {
        for cut in 0..=HEADER.len() {
            let mut world = world();
            world.net.shares_frames = shares_frames;
            let id = world.open();
            world.send(id, &HEADER[..cut]);
            assert!(world.got(id).is_empty());
            world.send(id, [&HEADER[cut..], REQUEST, REQUEST].concat());
            let got = String::from_utf8(world.got(id)).unwrap();
            assert_eq!(got.matches("192.0.2.1:56324").count(), 2, "{cut}: {got}");
            assert_eq!(asked(&mut world, id), "192.0.2.1:56324");
            // Those after a body, too.
            world.send(id, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
            assert!(world.got(id).ends_with(b"192.0.2.1:56324"));
            assert_eq!(asked(&mut world, id), "192.0.2.1:56324");
            world.end(id);
            assert!(!world.is_open(id));
        }
    }
}

#[test]
fn one_that_tells_of_nobody_is_taken() {
    let mut world = world();
    let id = world.open();
    world.send(id, "PROXY UNKNOWN\r\n");
    assert_eq!(asked(&mut world, id), "nobody");
    // The next connection in its place begins anew.
    world.end(id);
    let id = world.open();
    assert_eq!(asked(&mut world, id), "");
    assert!(world.conn(id).finished);
}

/// No answer, and nothing that follows is one's own.
#[test]
fn who_is_no_proxy_is_not_answered() {
    for bytes in [REQUEST, b"PROXY TCP4 nonsense\r\n", b"\r\n\r\n\0\r\nQUIT\n\x11", b"\x16\x03\x01"] {
        let mut world = world();
        let id = world.open();
        world.send(id, [bytes, REQUEST].concat());
        assert!(world.got(id).is_empty() && world.conn(id).finished, "{}", bytes.escape_ascii());
        world.send(id, REQUEST);
        assert!(world.got(id).is_empty());
        world.end(id);
        assert!(!world.is_open(id));
    }
}

/// Neither one who says nothing nor one who never ends is waited for: the time
/// begins with the connection.
#[test]
fn who_never_sends_the_header_is_closed() {
    let mut config = Config::respond(Respond::Text(String::new()));
    config.timeouts.http.header = Duration::from_secs(10);
    for drip in [&b""[..], HEADER] {
        let mut world = behind(config.clone());
        let id = world.open();
        for byte in drip.iter().take(20) {
            world.send(id, [*byte]);
            world.advance(Duration::from_millis(400));
        }
        world.advance(Duration::from_millis(10_100) - Duration::from_millis(400) * drip.len().min(20) as u32);
        assert!(world.conn(id).finished && world.got(id).is_empty());
    }
    // One who ends within the header is gone at once.
    let mut world = behind(config);
    let id = world.open();
    world.send(id, &HEADER[..9]);
    world.end(id);
    assert!(!world.is_open(id));
}
