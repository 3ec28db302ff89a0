//! Request bodies: read, bounded, discarded.

use crate::support::{Response, Site, World};
use server::{Config, Respond};

fn fixed() -> World {
    World::new(Config::respond(Respond::Text("ok".into())))
}

#[test]
fn a_body_is_read_before_the_answer_and_the_next_request_follows_it() {
    for body in [
        "Content-Length: 10\r\n\r\nGET / HTTP/9",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: z\r\n\r\n",
    ] {
        let body = body.replace("HTTP/9", "HTTP");
        let mut world = fixed();
        let id = world.open();
        let stream = format!("POST /a HTTP/1.1\r\nHost: a\r\n{body}GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
        let body_start = stream.find("\r\n\r\n").expect("a head") + 4;
        world.send(id, &stream[..body_start + 3]);
        assert_eq!(world.got(id), b"", "not before the body is over");
        world.send(id, &stream[body_start + 3..]);
        let got = world.got(id);
        let (first, rest) = Response::parse(&got, false);
        let (second, rest) = Response::parse(rest, false);
        assert_eq!((first.text(), second.text(), rest), ("ok", "ok", &b""[..]));
        assert_eq!(world.counter("requests"), 2);
    }
}

#[test]
fn a_file_cannot_be_posted_to_whatever_the_body() {
    let site = Site::new();
    site.write("a", "a");
    let mut world = World::new(site.config());
    let id = world.open();
    world.send(id, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let got = world.got(id);
    let (first, rest) = Response::parse(&got, false);
    let (second, _) = Response::parse(rest, false);
    assert_eq!((first.status, second.status), (405, 200));
}

#[test]
fn a_get_with_a_body_waits_for_the_file_after_it() {
    let site = Site::new();
    site.write("a", "content");
    let mut world = World::new(site.config());
    let id = world.open();
    world.send(id, "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let got = world.got(id);
    let (first, rest) = Response::parse(&got, false);
    let (second, rest) = Response::parse(rest, false);
    assert_eq!((first.text(), second.text(), rest), ("content", "content", &b""[..]));
}

#[test]
fn continue_is_sent_where_the_body_is_wanted() {
    // RFC 9110 §10.1.1
    let mut world = fixed();
    let id = world.open();
    world.send(id, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(world.got(id), b"HTTP/1.1 100 Continue\r\n\r\n");
    world.send(id, "hi");
    assert_eq!(Response::parse(&world.got(id), false).0.text(), "ok");
    assert_eq!(world.counter("responses_1xx"), 1);
}

#[test]
fn where_it_is_not_wanted_the_final_answer_comes_at_once() {
    let site = Site::new();
    let mut world = World::new(site.config());
    let id = world.open();
    world.send(id, "PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    let (response, _) = Response::parse(&world.got(id), false);
    assert_eq!((response.status, response.field("Connection")), (405, Some("close")));
    assert!(world.conn(id).finished);
    world.send(id, "hi");
    world.end(id);
    assert!(!world.is_open(id));
}

#[test]
fn a_body_above_the_limit_is_refused() {
    // RFC 9110 §15.5.14
    let mut config = Config::respond(Respond::Text("ok".into()));
    config.limits.http.body = 100;
    let mut world = World::new(config);
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
    ] {
        let id = world.open();
        world.send(id, request);
        let (response, _) = Response::parse(&world.got(id), false);
        assert_eq!((response.status, response.field("Connection")), (413, Some("close")), "{request}");
        assert!(world.conn(id).finished);
    }
    assert_eq!(world.counter("bodies_refused"), 2);
}

#[test]
fn what_cannot_be_understood_is_answered_and_closed() {
    let mut world = fixed();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000)), 414),
        (&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(20_000)), 431),
    ] {
        let id = world.open();
        // Whatever follows is not taken for a request.
        world.send(id, format!("{request}GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let got = world.got(id);
        let (response, rest) = Response::parse(&got, false);
        assert_eq!((response.status, rest), (status, &b""[..]), "{request}");
        assert_eq!(response.field("Connection"), Some("close"));
        assert!(world.conn(id).finished);
        world.end(id);
        assert!(!world.is_open(id));
    }
    assert_eq!(world.counter("parse_errors"), 10);
    assert_eq!(world.counter("requests"), 0);
}
