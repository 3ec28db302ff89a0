//! Several hosts on one listener: each has its own files, log and limits.

use crate::logging::lines;
use crate::support::{Response, Site, World};
use app::{App, Closed};
use core::time::Duration;
use server::{AccessLog, Change, Config, Content, Host, Respond};
use std::path::Path;

/// A host that serves `site`.
fn host(names: &[&str], site: &Site) -> Host {
    Host {
        names: names.iter().map(ToString::to_string).collect(),
        content: site.config().content,
        access_log: AccessLog::Off,
        body: 1 << 20,
    }
}

fn get(world: &mut World, host: &str, path: &str) -> Response {
    world.fetch(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

/// Two sites with the same paths, in all orders, the short way and the long.
#[test]
fn hosts_never_see_each_others_files() {
    let (one, two) = (Site::new(), Site::new());
    for (site, text) in [(&one, "one"), (&two, "two")] {
        site.write("index.html", text);
        site.write("same", text);
        site.write("large", text.repeat(700_000));
        site.write(&format!("only-{text}"), text);
    }
    let mut config = one.config();
    config.hosts.push(host(&["two.example", "[2001:db8::2]", "*.wild.example"], &two));
    let mut world = World::new(config);
    for round in 0..3 {
        for (name, text) in [
            ("one.example", "one"),
            ("two.example", "two"),
            ("TWO.example:8080", "two"),
            ("[2001:db8::2]:80", "two"),
            ("two.example.", "two"),
            ("a.b.wild.example", "two"),
            ("wild.example", "one"),
            ("three.example", "one"),
            ("two.example.org", "one"),
        ] {
            let other = if text == "one" { "only-two" } else { "only-one" };
            assert_eq!(get(&mut world, name, "/same").text(), text, "{name} in round {round}");
            assert_eq!(get(&mut world, name, "/").text(), text);
            assert_eq!(get(&mut world, name, &format!("/{other}")).status, 404);
            assert_eq!(get(&mut world, name, &format!("/only-{text}")).text(), text);
            assert_eq!(get(&mut world, name, "/large").text(), text.repeat(700_000));
            // The target's authority goes before Host's (RFC 9112 section 3.2.2).
            let absolute = format!("GET http://{name}/same HTTP/1.1\r\nHost: two.example\r\n\r\n");
            assert_eq!(world.fetch(absolute).text(), text);
            let conditional = format!("GET /same HTTP/1.1\r\nHost: {name}\r\nRange: bytes=0-1\r\n\r\n");
            assert_eq!(world.fetch(conditional).text(), &text[..2]);
        }
        assert_eq!(world.fetch("GET /same HTTP/1.0\r\n\r\n").text(), "one", "who names no host gets the first");
        world.advance(Duration::from_millis(700));
    }
    // Pipelined, in one piece, for both in turn.
    let id = world.open();
    let both = "GET /same HTTP/1.1\r\nHost: two.example\r\n\r\nGET /same HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
    world.send(id, both);
    let got = world.got(id);
    let mut rest = got.as_slice();
    for text in ["two", "one"].repeat(20) {
        let (response, after) = Response::parse(rest, false);
        assert_eq!(response.text(), text);
        rest = after;
    }
    assert_eq!(rest, b"");
}

/// The requests in a log of so many lines.
fn requests(log: &Path, count: usize) -> Vec<String> {
    lines(log, count).iter().map(|line| line.split('"').nth(1).expect("a request").to_string()).collect()
}

#[test]
fn each_host_has_its_log_and_its_limits() {
    let (one, two) = (Site::new(), Site::new());
    one.write("a", "one");
    two.write("a", "two");
    two.write("large", vec![b'x'; 2 << 20]);
    let logs = [one.outside().join("one"), one.outside().join("two")];
    let mut config = one.config();
    config.access_log = AccessLog::File(logs[0].clone());
    let second = Host { access_log: AccessLog::File(logs[1].clone()), body: 10, ..host(&["two"], &two) };
    config.hosts.push(second);
    let mut world = World::new(config);
    for name in ["two", "one", "two", "one"] {
        get(&mut world, name, &format!("/a?{name}"));
    }
    get(&mut world, "two", "/large");
    for body in
        ["Content-Length: 11\r\n\r\nhello world", "Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n"]
    {
        for (name, status) in [("one", 405), ("two", 413)] {
            let id = world.open();
            world.send(id, format!("PUT /b HTTP/1.1\r\nHost: {name}\r\n{body}"));
            let got = world.got(id);
            assert_eq!(Response::parse(&got, false).0.status, status, "{name}: {body}");
            assert_eq!(world.conn(id).finished, status == 413, "what follows is not known");
        }
    }
    world.advance(Duration::from_millis(101));
    assert_eq!(requests(&logs[0], 4)[..2], ["GET /a?one HTTP/1.1", "GET /a?one HTTP/1.1"]);
    assert_eq!(requests(&logs[1], 4)[..3], ["GET /a?two HTTP/1.1", "GET /a?two HTTP/1.1", "GET /large HTTP/1.1"]);
}

/// Hosts come, go and are told otherwise, while what has begun goes on.
#[test]
fn a_site_is_taken_up_between_two_requests() {
    let (one, two, three) = (Site::new(), Site::new(), Site::new());
    for (site, text) in [(&one, "1"), (&two, "2"), (&three, "3")] {
        site.write("a", text);
        site.write("large", text.repeat(2 << 20));
    }
    let sites = |hosts: Vec<Host>| {
        let mut config = one.config();
        config.hosts = hosts;
        config
    };
    let mut now = sites(vec![host(&["two"], &two), host(&["three"], &three)]);
    let mut world = World::new(now.clone());
    let mut change = |world: &mut World, next: Config| {
        drop(world.server.change(Change::prepare(&now, &next).expect("valid")));
        world.server.reload();
        world.settle();
        now = next;
    };
    // A reply that is begun, and a request whose body is on its way.
    let streaming = world.open();
    world.conn(streaming).acks = false;
    world.send(streaming, "GET /large HTTP/1.1\r\nHost: two\r\n\r\n");
    let sending = world.open();
    world.send(sending, "GET /a HTTP/1.1\r\nHost: two\r\nContent-Length: 5\r\n\r\nhel");
    // `two` goes, `three` is told otherwise and keeps its name.
    change(
        &mut world,
        sites(vec![Host { content: Content::Respond(Respond::Text("x".into())), ..host(&["three"], &three) }]),
    );
    assert_eq!([get(&mut world, "two", "/a").text(), get(&mut world, "three", "/a").text()], ["1", "x"]);
    world.conn(streaming).acks = true;
    world.settle();
    let got = world.got(streaming);
    assert_eq!(Response::parse(&got, false).0.text(), "2".repeat(2 << 20), "ended as it was begun");
    world.send(sending, "lo");
    let got = world.got(sending);
    assert_eq!(Response::parse(&got, false).0.text(), "1", "by the site of when it was whole");
    // They come back, in another order, twice.
    for _ in 0..2 {
        let looks = world.counter("cache_looks");
        change(&mut world, sites(vec![host(&["three"], &three), host(&["two"], &two)]));
        assert_eq!([get(&mut world, "two", "/a").text(), get(&mut world, "three", "/a").text()], ["2", "3"]);
        change(&mut world, sites(vec![host(&["two"], &two)]));
        assert_eq!([get(&mut world, "two", "/a").text(), get(&mut world, "three", "/a").text()], ["2", "1"]);
        assert!(world.counter("cache_looks") > looks, "what was counted is not forgotten");
    }
    // A client that leaves in the middle of a reply of a host that has gone.
    let leaving = world.open();
    world.conn(leaving).acks = false;
    world.send(leaving, "GET /large HTTP/1.1\r\nHost: two\r\n\r\n");
    change(&mut world, sites(Vec::new()));
    world.close(leaving, Closed::Reset);
    world.settle();
    change(&mut world, sites(vec![host(&["three"], &three)]));
    assert_eq!([get(&mut world, "two", "/a").text(), get(&mut world, "three", "/a").text()], ["1", "3"]);
    assert_eq!(world.counter("streams_open"), 0);
    assert_eq!(world.server.working(), 0);
}

#[test]
fn one_name_is_one_hosts() {
    let site = Site::new();
    let mut config = site.config();
    config.hosts = vec![host(&["a"], &site), host(&["b", "A"], &site)];
    let clock = server::WallClock::new(wire::Time::ZERO, Duration::ZERO);
    let refused = server::Server::new(config.clone(), clock).err();
    assert!(matches!(refused, Some(server::ConfigError::HostName(why)) if why.to_string().contains("\"A\"")));
    config.hosts[1].names = vec!["no name".into()];
    let refused = server::Server::new(config.clone(), clock).err();
    assert!(matches!(refused, Some(server::ConfigError::HostName(why)) if why.to_string().contains("\"no name\"")));
}
