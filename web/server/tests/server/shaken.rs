//! Handshakes whose last step is put off to another turn, and those that never end.

use crate::support::World;
use crate::support::page::answer_page;
use app::{App, ConnId, Net};
use core::time::Duration;
use exchange::{
    ChooseTls, ChosenTls, ExchangeId, Handler, HttpOpening, Listeners, LocalAddress, Prepared, Replies, RequestBody,
    Speaks, Turn, UpstreamHandler,
};
use handshake::{ClientRules, ClientTls, ConnectOutcome, ConnectStep, Connector, Groups, Hello, Identity};
use handshake::{ServerRules, ServerTls, Sought, Suites, TicketKeys};
use semantics::{Request, Status};
use server::exchange;
use server::{Config, Respond};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use x509::{read_certificates, read_key};

/// Knows nothing.
struct Nothing;

impl Handler for Nothing {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _: RequestBody) {
        answer_page(replies, id, request, Status::NOT_FOUND);
    }
}

impl UpstreamHandler for Nothing {}

impl Prepared for Nothing {}

/// With a key that a turn has room for one signature by.
fn server() -> Arc<ServerTls> {
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=a -days 30 \
                  -keyout /dev/stdout 2> /dev/null";
    let made = Command::new("sh").arg("-c").arg(script).output().expect("openssl").stdout;
    let (chain, key) = (read_certificates(&made).expect("one"), read_key(&made, &[]).expect("its key"));
    let rules = ServerRules {
        identities: vec![Identity { chain, key, stapled: None }],
        tls12: false,
        tls13: true,
        suites12: Suites::none(),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        prefers_own: false,
        kernel: false,
        compresses: None,
        tickets: Some(Arc::new(TicketKeys::rotating())),
        sessions: None,
        early: None,
        lifetime: 300,
        clients: None,
        rejects: false,
        protocols: Vec::new(),
    };
    Arc::new(ServerTls::new(rules).expect("a server"))
}

fn client() -> Connector {
    let rules = ClientRules {
        identity: None,
        tls12: false,
        tls13: true,
        suites12: Suites::none(),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        servers: None,
        tickets: 0,
        protocols: Vec::new(),
    };
    let tls = Arc::new(ClientTls::new(rules).expect("a client"));
    Connector::new(Sought { tls, name: [].into(), told: None, shows: None, peer: [].into() })
}

/// What a client says first.
fn hello(connector: &mut Connector) -> Vec<u8> {
    connector.on_bytes(&[]).out
}

/// One that has the server's answer, and what it says last.
fn answered(world: &mut World<Nothing>) -> (ConnId, Vec<u8>) {
    let (id, mut connector) = (world.open(), client());
    world.send(id, hello(&mut connector));
    let ConnectStep { out, outcome, .. } = connector.on_bytes(&world.got(id));
    assert!(matches!(outcome, ConnectOutcome::Done(_)), "{outcome:?}");
    (id, out)
}

/// Tickets are a segment of their own, if they are sent before what stands behind the client's last word.
#[test]
fn what_is_said_last_waits_for_the_answer_to_what_came_with_it() {
    let listeners = Listeners::everywhere(Speaks::https(server()));
    let mut world = World::speaking(Config::respond(Respond::Text(String::new())), Nothing, listeners);
    let (at_once, last) = answered(&mut world);
    world.send(at_once, last);
    let tickets = world.got(at_once).len();
    assert!(tickets > 100, "{tickets}");

    let (put_off, last) = answered(&mut world);
    let now = world.net.now;
    world.server.on_turn_over(now);
    let other = world.open();
    // A signature, and the turn has no room for more.
    world.arrive(other, hello(&mut client()));
    world.arrive(put_off, [&last[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    let unsent = [other, put_off].map(|id| world.net.unsent(id));
    assert!(unsent[0] > 0 && unsent[1] == 0, "{unsent:?}");
    for _ in 0..4 {
        world.server.on_turn(&mut world.net);
        world.server.on_turn_over(now);
        assert_eq!(world.net.unsent(put_off), 0, "what is held is offered first");
    }
    world.settle();
    let got = world.got(put_off);
    let answer = got.windows(12).position(|some| some == b"HTTP/1.1 404");
    assert_eq!(answer, Some(tickets), "behind the tickets");
}

/// No server is there for a whole ClientHello.
#[derive(Debug)]
struct NoServer;

impl ChooseTls for NoServer {
    fn choose(&self, _: LocalAddress, _: &Hello, _: &Turn) -> Option<ChosenTls> {
        unreachable!("no ClientHello is whole")
    }
}

/// Clients that send their ClientHello byte by byte keep nobody out for long where all places are taken, and
/// keep theirs where there are others.
#[test]
fn handshakes_that_do_not_end_give_way() {
    for (most, stay) in [(8, false), (9, false), (10, true)] {
        let mut config = Config::respond(Respond::Text(String::new()));
        config.limits.connections = most;
        let opening = HttpOpening { tls: Some(Rc::new(NoServer)), ..HttpOpening::default() };
        let mut world = World::speaking(config, Nothing, Listeners::everywhere(Speaks::Http(opening)));
        let all: Vec<_> = (0..8).map(|_| world.open()).collect();
        for byte in [22, 3, 1, 2, 0, 1] {
            all.iter().for_each(|id| world.send(*id, [byte]));
            world.advance(Duration::from_millis(490));
        }
        assert!(all.iter().all(|id| world.is_open(*id)), "they have only begun");
        for _ in 0..4 {
            world.advance(Duration::from_millis(300));
            world.turn();
        }
        let open = all.iter().filter(|id| world.is_open(**id)).count();
        assert_eq!(open, if stay { 8 } else { 0 }, "of {most}");
    }
}
