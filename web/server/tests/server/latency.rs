//! How long requests take.

use crate::support::{Site, World};
use ::latency::{Series, SeriesHeap, SeriesTable, bucket_of};
use app::App;
use core::time::Duration;

fn of<'a>(all: &'a [Series], host: &str) -> &'a Series {
    all.iter().find(|series| series.host == host).unwrap_or_else(|| panic!("no {host} in {all:?}"))
}

#[test]
fn what_is_ready_takes_its_turn_and_what_waits_its_time() {
    let site = Site::new();
    site.write("a", "content");
    site.write("large", vec![b'x'; 3 << 20]);
    let memory = SeriesHeap::default();
    let mut config = site.config();
    config.latency = Some(SeriesTable::new(memory.clone()).board(0));
    let mut world = World::new(config);
    let turn = |world: &mut World, nanos: u64| {
        world.net.now = world.net.now + Duration::from_nanos(nanos);
        world.server.on_turn_over(world.net.now);
    };
    // The first looks for the file, and does not count below.
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    world.fetch(get("/a"));
    turn(&mut world, 1);
    let before = memory.read();
    assert_eq!(of(&before, "_").classes, [1, 0, 0, 0]);

    let bytes = world.fetch(get("/a")).text().len();
    world.fetch(get("/a"));
    turn(&mut world, 5_000);
    let after = memory.read();
    let ready = of(&after, "_").since(of(&before, "_"));
    assert_eq!((ready.classes, ready.latency.sum), ([2, 0, 0, 0], 10_000));
    assert_eq!(ready.latency.counts[bucket_of(5_000)], 2);
    assert!(ready.bytes > 2 * bytes as u64, "with heads: {}", ready.bytes);

    // Not there; and what is no request at all.
    assert_eq!(world.fetch(get("/none")).status, 404);
    assert_eq!(world.fetch("NONSENSE\r\n\r\n").status, 400);
    turn(&mut world, 1);
    let all = memory.read();
    assert_eq!(of(&all, "_").classes, [3, 0, 1, 0]);
    assert_eq!((of(&all, "other").classes, of(&all, "other").latency.count()), ([0, 0, 1, 0], 0));

    // A stream is over when its last byte is queued, which its peer decides.
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, get("/large"));
    world.settle();
    turn(&mut world, 1);
    let before = memory.read();
    world.advance(Duration::from_millis(250));
    world.conn(id).acks = true;
    while world.got(id).len() < 3 << 20 {
        world.settle();
    }
    turn(&mut world, 1);
    let streamed = of(&memory.read(), "_").since(of(&all, "_"));
    assert_eq!(of(&before, "_"), of(&all, "_"), "it has begun");
    assert_eq!((streamed.latency.count(), streamed.classes), (1, [1, 0, 0, 0]));
    assert!(streamed.latency.sum >= 250_000_000 && streamed.bytes > 3 << 20, "{streamed:?}");
}
