//! The cache: what changes is noticed, and what is held is bounded.

use crate::support::{Response, START, Site, World, directory};
use app::App;
use core::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_changed_file_is_noticed() {
    let site = Site::new();
    site.write("a.txt", "one");
    let mut world = World::new(site.config());
    let first = world.get("/a.txt");
    assert_eq!(first.text(), "one");
    site.write("a.txt", "other");
    world.advance(2 * SECOND);
    let second = world.get("/a.txt");
    assert_eq!(second.text(), "other", "the last check was too long ago: it is waited for");
    assert_ne!(first.field("ETag"), second.field("ETag"));
    assert_eq!(world.counter("cache_refreshes"), 1);
}

#[test]
fn a_hot_file_is_checked_while_it_is_served() {
    let site = Site::new();
    site.write("a.txt", "one");
    let mut world = World::new(site.config());
    let id = world.open();
    let mut noticed = None;
    for tenth in 0..50 {
        if tenth == 12 {
            site.write("a.txt", "two");
        }
        world.send(id, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        if world.got(id).ends_with(b"two") {
            noticed = noticed.or(Some(tenth));
        }
        world.advance(Duration::from_millis(100));
    }
    let noticed = noticed.expect("the change is noticed");
    assert!(noticed - 12 <= 20, "after {} ms", (noticed - 12) * 100);
    assert_eq!(world.counter("cache_misses"), 1, "only the first request waited");
}

/// A silo that had nothing to do took no turn in between.
#[test]
fn a_change_while_the_server_was_idle_is_noticed() {
    let site = Site::new();
    site.write("a.txt", "one");
    let mut world = World::new(site.config());
    let id = world.open();
    world.send(id, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.got(id).ends_with(b"one"));
    site.write("a.txt", "two");
    world.net.now = world.net.now + Duration::from_secs(30);
    world.send(id, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.got(id).ends_with(b"two"));
}

/// The reader of this test does nothing, since no turn is taken.
#[test]
fn a_file_system_that_hangs_is_not_waited_for_for_ever() {
    let site = Site::new();
    site.write("a.txt", "one");
    let mut world = World::new(site.config());
    let id = world.open();
    world.arrive(id, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    for (after, status) in [(59, None), (3, Some(b"503"))] {
        world.net.now = world.net.now + Duration::from_secs(after);
        world.server.on_timer(&mut world.net, id);
        let all = usize::MAX;
        world.ack(id, all);
        let got = world.got(id);
        assert_eq!(got.get(9..12), status.map(|it| &it[..]));
    }
    assert_eq!(world.counter("timeouts_file"), 1);
    world.settle();
    assert_eq!(world.got(id), b"", "and not answered twice");
    world.send(id, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.got(id).ends_with(b"one"));
}

/// What `least` steering goes by: what waits for the reader, until it is
/// answered, given up, or its connection is gone.
#[test]
fn requests_that_wait_for_the_reader_are_work() {
    let site = Site::new();
    site.write("a.txt", "one");
    site.write("b.txt", "two");
    let mut world = World::new(site.config());
    let ids: Vec<_> = (0..4).map(|_| world.open()).collect();
    assert_eq!(world.server.working(), 0, "connections are none");
    for (id, path) in ids.iter().zip(["/a.txt", "/a.txt", "/b.txt", "/none"]) {
        world.arrive(*id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    assert_eq!((world.server.working(), world.counter("requests_waiting")), (4, 4));
    world.close(ids[0], app::Closed::Reset);
    assert_eq!(world.server.working(), 3);
    world.net.now = world.net.now + Duration::from_secs(62);
    world.server.on_timer(&mut world.net, ids[1]);
    assert_eq!(world.server.working(), 2, "it was given up");
    world.settle();
    assert_eq!(world.server.working(), 0);
    world.arrive(ids[2], "GET /b.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(world.server.working(), 0, "answered from memory, at once");
}

#[test]
fn files_that_come_and_go_are_noticed() {
    let site = Site::new();
    let mut world = World::new(site.config());
    assert_eq!(world.get("/a.txt").status, 404);
    site.write("a.txt", "here");
    world.advance(2 * SECOND);
    assert_eq!(world.get("/a.txt").text(), "here");
    std::fs::remove_file(site.root().join("a.txt")).expect("removed");
    world.advance(2 * SECOND);
    assert_eq!(world.get("/a.txt").status, 404);
    site.write("a.txt/index.html", "a directory now");
    world.advance(2 * SECOND);
    assert_eq!(world.get("/a.txt").status, 301);
    assert_eq!(world.get("/a.txt/").text(), "a directory now");
}

#[test]
fn a_file_renamed_over_another_is_noticed() {
    let site = Site::new();
    site.write("a.txt", "one");
    site.write("new", "two");
    site.touch("a.txt", START - 100);
    site.touch("new", START - 100);
    let mut world = World::new(site.config());
    assert_eq!(world.get("/a.txt").text(), "one");
    std::fs::rename(site.root().join("new"), site.root().join("a.txt")).expect("renamed");
    world.advance(2 * SECOND);
    assert_eq!(world.get("/a.txt").text(), "two", "same size, same time of modification");
}

/// The content is compared while a change within the resolution of the file
/// system's times is possible.
#[test]
fn a_file_that_was_just_written_is_read_again() {
    let site = Site::new();
    site.write("a.txt", "one");
    site.touch("a.txt", START);
    let mut world = World::new(site.config());
    assert_eq!(world.get("/a.txt").text(), "one");
    let held = world.counter("cache_bytes");
    world.advance(2 * SECOND);
    assert_eq!(world.get("/a.txt").text(), "one");
    assert_eq!(world.counter("cache_refreshes"), 0, "read again, and the same");
    assert_eq!(world.counter("cache_bytes"), held, "and not held twice");
}

#[test]
fn paths_that_lead_nowhere_are_bounded() {
    let site = Site::new();
    site.write("hot.txt", "hot");
    let mut config = site.config();
    directory(&mut config).cache_entries = 64;
    let mut world = World::new(config);
    world.get("/hot.txt");
    world.get("/hot.txt");
    let misses = world.counter("cache_misses");
    for at in 0..1000 {
        assert_eq!(world.get(&format!("/none-{at}")).status, 404);
        assert!(world.counter("cache_entries") <= 64);
        if at % 16 == 0 {
            assert_eq!(world.get("/hot.txt").status, 200);
        }
    }
    assert_eq!(world.counter("cache_misses"), misses + 1000, "what is asked for again and again stays");
    assert!(world.counter("cache_evictions") >= 900);
}

#[test]
fn content_is_bounded() {
    let site = Site::new();
    for at in 0..50 {
        site.write(&format!("{at}.bin"), vec![at as u8; 50_000]);
    }
    let mut config = site.config();
    directory(&mut config).cache_bytes = 500_000;
    directory(&mut config).cache_file_bytes = 100_000;
    let mut world = World::new(config);
    for round in 0..3 {
        for at in 0..50 {
            let response = world.get(&format!("/{at}.bin"));
            assert_eq!(response.body, vec![at as u8; 50_000], "round {round}");
            world.turn();
            assert!(world.counter("cache_bytes") <= 500_000);
        }
    }
    assert!(world.counter("cache_evictions") > 100);
}

/// Content that was evicted, but is still being sent, counts; when it alone
/// is above the limit nothing more is loaded.
#[test]
fn slow_peers_cannot_make_us_hold_more_and_more() {
    let site = Site::new();
    for at in 0..40 {
        site.write(&format!("{at}.bin"), vec![at as u8; 50_000]);
    }
    let mut config = site.config();
    directory(&mut config).cache_bytes = 200_000;
    directory(&mut config).cache_file_bytes = 100_000;
    let mut world = World::new(config);
    let mut refused = 0;
    let mut slow = Vec::new();
    for at in 0..40 {
        let id = world.open();
        world.conn(id).acks = false;
        world.send(id, format!("GET /{at}.bin HTTP/1.1\r\nHost: a\r\n\r\n"));
        world.turn();
        refused += usize::from(world.net.conns[&id.index()].1.most_unsent < 50_000);
        slow.push(id);
        assert!(world.counter("cache_bytes") <= 3 * 200_000, "{}", world.counter("cache_bytes"));
    }
    assert!(refused > 20 && world.counter("overloads") == refused as u64);
    for id in slow {
        world.ack(id, usize::MAX);
    }
    world.advance(2 * SECOND);
    assert_eq!(world.get("/39.bin").status, 200, "and when they have taken it, it goes on");
}

#[test]
fn more_paths_than_may_wait_are_refused() {
    let site = Site::new();
    let mut config = site.config();
    config.limits.waiting = 4;
    let mut world = World::new(config);
    let ids: Vec<_> = (0..6).map(|_| world.open()).collect();
    for (at, &id) in ids.iter().enumerate() {
        world.arrive(id, format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    world.settle();
    let statuses: Vec<_> = ids.iter().map(|&id| world.got(id)[9..12].to_vec()).collect();
    assert_eq!(statuses, [b"404", b"404", b"404", b"404", b"503", b"503"]);
    assert_eq!(world.counter("overloads"), 2);
}

/// A client that sends many requests at once does not wait for the reader
/// once for each of them.
#[test]
fn pipelined_requests_are_looked_up_ahead() {
    let site = Site::new();
    for at in 0..50 {
        site.write(&format!("{at}.txt"), format!("number {at}"));
    }
    let mut world = World::new(site.config());
    let id = world.open();
    let requests: String = (0..50).map(|at| format!("GET /{at}.txt HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    world.arrive(id, requests);
    let mut turns = 0;
    while world.turn() {
        turns += 1;
    }
    let got = world.got(id);
    let mut rest = got.as_slice();
    for at in 0..50 {
        let (response, next) = Response::parse(rest, false);
        assert_eq!(response.text(), format!("number {at}"));
        rest = next;
    }
    assert_eq!(rest, b"");
    assert_eq!(world.counter("cache_looks"), 50, "one for each");
    assert!(turns <= 12, "{turns} turns for 50 requests");
}

/// No more is looked for ahead than may wait at all.
#[test]
fn looks_ahead_are_bounded() {
    let site = Site::new();
    let mut config = site.config();
    config.limits.waiting = 4;
    let mut world = World::new(config);
    let id = world.open();
    let requests: String = (0..50).map(|at| format!("GET /none-{at} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    world.arrive(id, requests);
    world.settle();
    let got = String::from_utf8(world.got(id)).expect("text");
    assert_eq!(got.matches("HTTP/1.1 404 ").count(), 50);
    assert_eq!(world.counter("overloads"), 0);
}

/// The same over the helper thread, as in production.
#[test]
fn the_reader_thread_serves_and_wakes() {
    let site = Site::new();
    for at in 0..200 {
        site.write(&format!("{at}.txt"), format!("number {at}"));
    }
    site.write("large", vec![b'x'; 3 << 20]);
    let mut config = site.config();
    directory(&mut config).reader = server::ReaderKind::Thread;
    let mut world = World::new(config);
    let mut ids: Vec<_> = (0..200).map(|_| world.open()).collect();
    for (at, &id) in ids.iter().enumerate() {
        world.arrive(id, format!("GET /{at}.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    let large = world.open();
    world.arrive(large, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    let done = |world: &mut World, ids: &[app::ConnId]| {
        ids.iter().all(|&id| !world.conn(id).got.is_empty()) && world.conn(large).got.len() > 3 << 20
    };
    while !done(&mut world, &ids) {
        world.settle();
        // As a silo that has nothing to do: until the reader has something.
        let fd = world.server.wake_fd().expect("there is a helper thread");
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        rustix::event::poll(&mut fds, Some(&wait)).expect("a poll");
        world.turn();
    }
    for (at, id) in ids.drain(..).enumerate() {
        assert!(world.got(id).ends_with(format!("\r\n\r\nnumber {at}").as_bytes()));
    }
    assert!(world.got(large).ends_with(&[b'x'; 3 << 20]));
}
