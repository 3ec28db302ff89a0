//! How long requests take, by host.

use crate::support::{Site, World};
use ::latency::{Series, SeriesHeap, SeriesTable, bucket_of};
use app::App;
use core::time::Duration;
use server::{AccessLog, Host};

fn of<'a>(all: &'a [Series], host: &str) -> &'a Series {
    all.iter().find(|series| series.host == host).unwrap_or_else(|| panic!("no {host} in {all:?}"))
}

#[test]
fn what_is_ready_takes_its_turn_and_what_waits_its_time() {
    let (one, two) = (Site::new(), Site::new());
    for site in [&one, &two] {
        site.write("a", "content");
        site.write("large", vec![b'x'; 3 << 20]);
    }
    let memory = SeriesHeap::default();
    let mut config = one.config();
    config.hosts.push(Host {
        names: vec!["two.example".to_owned()],
        content: two.config().content,
        access_log: AccessLog::Off,
        body: 1 << 20,
    });
    config.latency = Some(SeriesTable::new(memory.clone()).board(0));
    let mut world = World::new(config);
    let turn = |world: &mut World, nanos: u64| {
        world.net.now = world.net.now + Duration::from_nanos(nanos);
        world.server.on_turn_over(world.net.now);
    };
    // The first of each looks for the file, and does not count below.
    let get = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for host in ["one.example", "two.example"] {
        world.fetch(get(host, "/a"));
    }
    turn(&mut world, 1);
    let before = memory.read();
    assert_eq!((of(&before, "_").classes, of(&before, "two.example").classes), ([1, 0, 0, 0], [1, 0, 0, 0]));

    let bytes = world.fetch(get("two.example", "/a")).text().len();
    world.fetch(get("two.example", "/a"));
    turn(&mut world, 5_000);
    let after = memory.read();
    let two_only = of(&after, "two.example").since(of(&before, "two.example"));
    assert_eq!((two_only.classes, two_only.latency.sum), ([2, 0, 0, 0], 10_000));
    assert_eq!(two_only.latency.counts[bucket_of(5_000)], 2);
    assert!(two_only.bytes > 2 * bytes as u64, "with heads: {}", two_only.bytes);
    assert_eq!(of(&after, "_"), of(&before, "_"), "no other host's");

    // Not there; and what is no request at all.
    assert_eq!(world.fetch(get("one.example", "/none")).status, 404);
    assert_eq!(world.fetch("NONSENSE\r\n\r\n").status, 400);
    turn(&mut world, 1);
    let all = memory.read();
    assert_eq!(of(&all, "_").classes, [1, 0, 1, 0]);
    assert_eq!((of(&all, "other").classes, of(&all, "other").latency.count()), ([0, 0, 1, 0], 0));

    // A stream is over when its last byte is queued, which its peer decides.
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, get("two.example", "/large"));
    world.settle();
    turn(&mut world, 1);
    let began = of(&memory.read(), "two.example").latency.count();
    world.advance(Duration::from_millis(250));
    world.conn(id).acks = true;
    while world.got(id).len() < 3 << 20 {
        world.settle();
    }
    turn(&mut world, 1);
    let streamed = of(&memory.read(), "two.example").since(of(&after, "two.example"));
    assert_eq!((began, streamed.latency.count(), streamed.classes), (3, 1, [1, 0, 0, 0]));
    assert!(streamed.latency.sum >= 250_000_000 && streamed.bytes > 3 << 20, "{streamed:?}");
}
