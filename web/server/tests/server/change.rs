//! Settings that change while connections are open.

use crate::support::{Response, Site, World, directory};
use app::{App, Closed, ConnId};
use core::time::Duration;
use server::{AccessLog, Change, Config, ConfigError, Respond};

const GET: &str = "GET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

fn change(world: &mut World, now: &Config, next: &Config) {
    let replaced = world.server.change(Change::prepare(now, next).unwrap());
    world.server.reload();
    while !world.server.settle(&mut world.net) {}
    world.settle();
    drop(replaced);
}

fn body(world: &mut World, id: ConnId) -> String {
    world.send(id, GET);
    let got = world.got(id);
    let (response, rest) = Response::parse(&got, false);
    assert!(rest.is_empty());
    response.text().to_owned()
}

#[test]
fn another_response_is_sent_and_the_one_under_way_is_finished() {
    let config = |text: &str| Config::respond(Respond::Text(text.to_owned()));
    let long = "long ".repeat(10_000);
    let (one, two) = (config(&long), config("two"));
    let mut world = World::new(one.clone());
    let (slow, quick) = (world.open(), world.open());
    world.conn(slow).acks = false;
    world.send(slow, GET);
    assert_eq!(body(&mut world, quick), long);
    change(&mut world, &one, &two);
    assert_eq!(body(&mut world, quick), "two");
    world.conn(slow).acks = true;
    world.settle();
    assert_eq!(Response::parse(&world.got(slow), false).0.text(), long);
    for (next, text) in [(config("three"), "three"), (config(&long), &long), (Config::respond(Respond::Size(3)), "012")]
    {
        change(&mut world, &config("other"), &next);
        assert_eq!((body(&mut world, quick), body(&mut world, slow)), (text.to_owned(), text.to_owned()));
        // The head's date goes on.
        world.advance(SECOND);
        assert_eq!(body(&mut world, quick), text);
    }
}

/// Whatever a connection waits for, it waits as long as the limits say now.
#[test]
fn shorter_limits_count_for_waits_that_began_before() {
    let with = |seconds: [u64; 4]| {
        let mut config = Config::respond(Respond::Size(1 << 20));
        let [header, body, keep_alive, send] = seconds.map(Duration::from_secs);
        let http = &mut config.timeouts.http;
        (http.header, http.body, http.keep_alive, http.send) = (header, body, keep_alive, send);
        config
    };
    let (long, short) = (with([60, 60, 65, 60]), with([2, 3, 4, 3]));
    let mut world = World::new(long.clone());
    let [fresh, partial, idle, in_body, slow, late] = core::array::from_fn(|_| world.open());
    world.send(partial, "GET / HT");
    world.send(idle, GET);
    world.send(in_body, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
    world.conn(slow).acks = false;
    // The second waits until some of the first is taken.
    world.send(slow, [GET, GET].concat());
    world.advance(SECOND);
    change(&mut world, &long, &short);
    // Opened before; its first request comes only now.
    world.send(late, GET);
    // How long each is left alone, counted from the change.
    let waits = [(fresh, 1), (partial, 1), (in_body, 2), (idle, 3), (late, 4), (slow, 3)];
    for quarter in 1..=22 {
        world.advance(SECOND / 4);
        for (id, seconds) in waits {
            let over = !world.is_open(id) || world.conn(id).finished;
            // To the tick, it may be either.
            if quarter != 4 * seconds {
                assert_eq!(over, quarter > 4 * seconds, "{id:?} after {quarter} quarters");
            }
        }
    }
    let counters = ["timeouts_header", "timeouts_body", "timeouts_keep_alive", "timeouts_send"];
    assert_eq!(counters.map(|name| world.counter(name)), [2, 1, 2, 1]);
}

/// Nobody is cut off for a limit that changed, and a longer one holds.
#[test]
fn longer_limits_hold_for_connections_that_were_there() {
    let with = |seconds: u64| {
        let mut config = Config::respond(Respond::Text("ok".into()));
        config.timeouts.http.keep_alive = Duration::from_secs(seconds);
        config
    };
    let mut world = World::new(with(5));
    let id = world.open();
    body(&mut world, id);
    change(&mut world, &with(5), &with(50));
    world.advance(Duration::from_secs(40));
    assert!(!world.conn(id).finished);
    body(&mut world, id);
    world.advance(Duration::from_secs(45));
    assert!(!world.conn(id).finished);
    world.advance(Duration::from_secs(20));
    assert!(!world.is_open(id));
}

#[test]
fn more_connections_than_at_the_start() {
    let with = |connections: usize| {
        let mut config = Config::respond(Respond::Text("ok".into()));
        config.limits.connections = connections;
        config
    };
    let mut world = World::new(with(2));
    let ids: Vec<_> = (0..3).map(|_| world.open()).collect();
    assert!(world.is_open(ids[1]) && !world.is_open(ids[2]));
    change(&mut world, &with(2), &with(100));
    let more: Vec<_> = (0..60).map(|_| world.open()).collect();
    for id in more {
        assert_eq!(body(&mut world, id), "ok");
    }
    // Fewer are for the data path to keep.
    change(&mut world, &with(100), &with(1));
    let id = world.open();
    assert_eq!((body(&mut world, id), world.counter("connections_refused")), ("ok".to_owned(), 1));
}

#[test]
fn fewer_requests_on_a_connection_that_was_there() {
    let with = |requests: u32| {
        let mut config = Config::respond(Respond::Text("ok".into()));
        config.limits.requests_per_connection = Some(requests);
        config
    };
    let mut world = World::new(with(100));
    let id = world.open();
    body(&mut world, id);
    change(&mut world, &with(100), &with(2));
    body(&mut world, id);
    assert!(world.conn(id).finished, "the second was the last");
    // One that ends all connections goes on doing so.
    world.server.retire();
    change(&mut world, &with(2), &with(100));
    let id = world.open();
    body(&mut world, id);
    assert!(world.conn(id).finished);
}

#[test]
fn another_root_and_other_rules_for_it() {
    let (one, two) = (Site::new(), Site::new());
    one.write("page.txt", "one");
    two.write("page.txt", "two");
    let mut world = World::new(one.config());
    let id = world.open();
    assert_eq!(body(&mut world, id), "one");
    change(&mut world, &one.config(), &two.config());
    assert_eq!(body(&mut world, id), "two");
    // Now too large to be held; and with next to nothing to hold.
    let mut streamed = two.config();
    directory(&mut streamed).cache_file_bytes = 1;
    change(&mut world, &two.config(), &streamed);
    assert_eq!((body(&mut world, id), world.counter("streams")), ("two".to_owned(), 1));
    let mut small = two.config();
    directory(&mut small).cache_bytes = 8;
    change(&mut world, &streamed, &small);
    assert_eq!(body(&mut world, id), "two");
    assert_eq!(world.counter("reloads"), 3);
    // One that cannot be had is an error before anything has changed.
    assert!(Change::prepare(&small, &Config::directory("/nonexistent/root")).is_err());
    assert_eq!(body(&mut world, id), "two");
}

/// What has begun goes on meanwhile.
#[test]
fn a_folder_is_taken_up_between_two_requests() {
    let (one, two) = (Site::new(), Site::new());
    for (site, text) in [(&one, "1"), (&two, "2")] {
        site.write("page.txt", text);
        site.write("large", text.repeat(2 << 20));
    }
    let mut world = World::new(one.config());
    // A reply that is begun, and a request whose body is on its way.
    let streaming = world.open();
    world.conn(streaming).acks = false;
    world.send(streaming, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    let sending = world.open();
    world.send(sending, "GET /page.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    change(&mut world, &one.config(), &two.config());
    let id = world.open();
    assert_eq!(body(&mut world, id), "2");
    world.conn(streaming).acks = true;
    world.settle();
    let got = world.got(streaming);
    assert_eq!(Response::parse(&got, false).0.text(), "1".repeat(2 << 20), "ended as it was begun");
    world.send(sending, "lo");
    let got = world.got(sending);
    assert_eq!(Response::parse(&got, false).0.text(), "2", "by the folder of when it was whole");
    // A client that leaves in the middle of a reply from the folder of before.
    let leaving = world.open();
    world.conn(leaving).acks = false;
    world.send(leaving, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    change(&mut world, &two.config(), &one.config());
    world.close(leaving, Closed::Reset);
    world.settle();
    assert_eq!((body(&mut world, id), world.counter("streams_open"), world.server.working()), ("1".to_owned(), 0, 0));
}

/// Another kind of content is another server's.
#[test]
fn a_server_stays_of_its_kind() {
    let site = Site::new();
    site.write("page.txt", "one");
    let text = Config::respond(Respond::Text("two".to_owned()));
    for (now, next) in [(site.config(), text.clone()), (text, site.config())] {
        assert!(matches!(Change::prepare(&now, &next), Err(ConfigError::OtherKind)));
    }
}

/// A look at the old root that is under way is nothing that who comes after
/// the change could be answered with.
#[test]
fn a_look_that_began_before_a_change_answers_nobody() {
    let (one, two) = (Site::new(), Site::new());
    one.write("page.txt", "one");
    two.write("page.txt", "two");
    let mut world = World::new(one.config());
    let (before, after) = (world.open(), world.open());
    world.arrive(before, GET);
    let replaced = world.server.change(Change::prepare(&one.config(), &two.config()).unwrap());
    world.server.reload();
    world.arrive(after, GET);
    world.settle();
    for id in [after, before] {
        assert_eq!(Response::parse(&world.got(id), false).0.text(), "two");
    }
    assert_eq!(body(&mut world, after), "two");
    drop(replaced);
}

#[test]
fn each_request_is_in_the_log_of_its_time() {
    let site = Site::new();
    site.write("page.txt", "one");
    let with = |name: &str| {
        let mut config = site.config();
        config.access_log = match name {
            "" => AccessLog::Off,
            name => AccessLog::File(site.outside().join(name)),
        };
        config
    };
    let mut world = World::new(with("first.log"));
    let id = world.open();
    for (now, next) in [("first.log", "second.log"), ("second.log", ""), ("", "third.log"), ("third.log", "")] {
        assert_eq!(body(&mut world, id), "one");
        change(&mut world, &with(now), &with(next));
    }
    for name in ["first.log", "second.log", "third.log"] {
        let text = std::fs::read_to_string(site.outside().join(name)).unwrap();
        assert!(text.lines().count() == 1 && text.contains("[21/Oct/2015:07:28:0"), "{name}: {text}");
    }
    let nowhere = Config { access_log: AccessLog::File("/nonexistent/log".into()), ..with("") };
    assert!(Change::prepare(&with(""), &nowhere).is_err());
}
