//! Files larger than what is held in memory.

use crate::support::{Response, Site, World, directory};
use core::time::Duration;
use server::Config;
use std::fs::File;
use std::os::unix::fs::FileExt;

const SIZE: u64 = 300 << 20;

fn sparse(site: &Site, name: &str, size: u64) -> File {
    let file = File::options().create(true).truncate(true).read(true).write(true).open(site.root().join(name));
    let file = file.expect("a file");
    file.set_len(size).expect("its size");
    file
}

/// A file with every 32-bit word its own index.
fn pattern(size: u32) -> Vec<u8> {
    (0..size / 4).flat_map(u32::to_le_bytes).collect()
}

fn small(site: &Site) -> Config {
    let mut config = site.config();
    directory(&mut config).cache_file_bytes = 1000;
    config
}

#[test]
fn a_file_of_300_megabytes_takes_a_bounded_queue() {
    let site = Site::new();
    let file = sparse(&site, "big", SIZE);
    file.write_all_at(b"the end", SIZE - 7).expect("written");
    let mut world = World::new(site.config());
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    let window = 2 << 20;
    world.ack(id, 100);
    let head = world.got(id);
    assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
    world.conn(id).counts_only = true;
    while world.conn(id).got_count < SIZE - window as u64 {
        let unsent = world.conn(id).most_unsent;
        assert!(unsent > window / 2 && unsent <= window + 1000, "{unsent}");
        world.ack(id, 1 << 20);
        world.settle();
    }
    world.conn(id).counts_only = false;
    world.conn(id).acks = true;
    world.settle();
    assert!(world.got(id).ends_with(b"the end"));
    let head_len = world.conn(id).got_count - SIZE;
    assert!((100..500).contains(&head_len));
    assert_eq!(world.counter("stream_chunks"), SIZE / (256 << 10));
    assert_eq!(world.counter("bytes_queued"), SIZE + head_len);
    world.send(id, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.got(id).starts_with(b"HTTP/1.1 404"), "and the connection goes on");
}

/// As above, where the data path sends the file by itself.
#[test]
fn a_file_that_the_data_path_sends_is_given_to_it_by_pieces() {
    let site = Site::new();
    let file = sparse(&site, "big", SIZE);
    file.write_all_at(b"the end", SIZE - 7).expect("written");
    let mut world = World::sending_files(site.config());
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    world.ack(id, 100);
    assert!(world.got(id).starts_with(b"HTTP/1.1 200 OK\r\n"));
    world.conn(id).counts_only = true;
    let piece = 1 << 20;
    while world.conn(id).got_count < SIZE - piece as u64 {
        let unsent = world.conn(id).most_unsent;
        assert!(unsent >= piece && unsent <= 2 * piece + 1000, "{unsent}");
        world.ack(id, piece);
        world.settle();
    }
    world.conn(id).counts_only = false;
    world.conn(id).acks = true;
    world.settle();
    assert!(world.got(id).ends_with(b"the end"));
    let head_len = world.conn(id).got_count - SIZE;
    assert!((100..500).contains(&head_len));
    assert_eq!((world.counter("file_pieces"), world.counter("stream_chunks")), (SIZE / piece as u64, 0));
    assert_eq!(world.counter("bytes_queued"), SIZE + head_len);
    world.send(id, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.got(id).starts_with(b"HTTP/1.1 404"), "and the connection goes on");
}

/// The second one finds the file open, and the one after a change does not.
#[test]
fn a_file_stays_open_for_the_next_request_and_is_let_go() {
    let site = Site::new();
    site.write("big", pattern(1 << 20));
    let mut world = World::sending_files(small(&site));
    let first = world.get("/big");
    let id = world.open();
    world.arrive(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(world.conn(id).most_unsent > 1 << 20, "sent without a turn");
    world.settle();
    assert_eq!(Response::parse(&world.got(id), false).0.body, first.body);
    site.write("big.new", pattern(1 << 19));
    std::fs::rename(site.root().join("big.new"), site.root().join("big")).expect("renamed");
    world.advance(Duration::from_secs(3));
    assert_eq!(world.get("/big").body, pattern(1 << 19));
    let open = || std::fs::read_dir("/proc/self/fd").expect("proc").flatten();
    let here = |site: &Site| {
        let ours = site.root();
        open().filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(&ours) && to != ours)).count()
    };
    assert_eq!(here(&site), 2);
    world.advance(Duration::from_secs(20));
    world.get("/none");
    assert_eq!(here(&site), 0, "closed after a while");
}

#[test]
fn ranges_and_conditions_hold_for_large_files_too() {
    let site = Site::new();
    let content = pattern(1 << 20);
    site.write("big", &content);
    check_ranges(World::new(small(&site)), &content);
    check_ranges(World::sending_files(small(&site)), &content);
}

fn check_ranges(mut world: World, content: &[u8]) {
    let whole = world.get("/big");
    assert_eq!(whole.body, content);
    let etag = whole.field("ETag").expect("a tag").to_string();
    assert_eq!(world.get_with("/big", &format!("If-None-Match: {etag}\r\n")).status, 304);
    let part = world.get_with("/big", "Range: bytes=300001-900000\r\n");
    assert_eq!((part.status, part.field("Content-Range")), (206, Some("bytes 300001-900000/1048576")));
    assert_eq!(part.body, &content[300_001..=900_000]);
    assert_eq!(world.get_with("/big", "Range: bytes=1048576-\r\n").field("Content-Range"), Some("bytes */1048576"));
    let head = world.fetch("HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.fields, whole.fields);
    let parts = world.get_with("/big", "Range: bytes=0-9,500000-900000,-5\r\n");
    assert_eq!(parts.status, 206);
    let boundary = parts.field("Content-Type").and_then(|it| it.split_once("boundary=")).expect("a boundary").1;
    let delimiter = format!("\r\n--{boundary}");
    let body = &parts.body[delimiter.len()..];
    let middle = body.windows(4).position(|four| four == b"\r\n\r\n").expect("the first part's head") + 4;
    assert_eq!(&body[middle..middle + 10], &content[..10]);
    assert!(parts.body.ends_with(format!("{delimiter}--\r\n").as_bytes()));
    assert!(parts.body.windows(1000).any(|window| window == &content[500_000..501_000]));
}

#[test]
fn requests_behind_a_stream_wait_for_its_end() {
    let site = Site::new();
    site.write("big", pattern(1 << 20));
    site.write("small", "small");
    check_pipeline(World::new(small(&site)));
    check_pipeline(World::sending_files(small(&site)));
}

fn check_pipeline(mut world: World) {
    let id = world.open();
    world.send(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let got = world.got(id);
    let (first, rest) = Response::parse(&got, false);
    let (second, rest) = Response::parse(rest, false);
    let (third, rest) = Response::parse(rest, false);
    assert_eq!((first.body.len(), second.text(), third.body.len(), rest.len()), (1 << 20, "small", 1 << 20, 0));
    assert_eq!(third.field("Connection"), Some("close"));
    assert!(world.conn(id).finished);
}

#[test]
fn a_peer_that_half_closes_gets_the_whole_file() {
    let site = Site::new();
    site.write("big", pattern(1 << 20));
    let mut world = World::new(small(&site));
    let id = world.open();
    world.arrive(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    world.conn(id).acks = false;
    world.end(id);
    let mut got = Vec::new();
    while world.is_open(id) {
        world.ack(id, 100_000);
        got.extend(world.got(id));
        world.settle();
    }
    assert_eq!(Response::parse(&got, false).0.body.len(), 1 << 20);
}

use app::Net;

/// Both ways of sending a file: the server reads it, and the data path does.
const WAYS: [fn(Config) -> World; 2] = [World::new, World::sending_files];

/// A download of `content` that has begun, and goes on when [`finish`] says so.
fn begin(way: fn(Config) -> World, site: &Site, content: &[u8]) -> (World, app::ConnId) {
    site.write("big", content);
    let mut world = way(small(site));
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    // File systems tell times apart by some milliseconds.
    std::thread::sleep(Duration::from_millis(30));
    (world, id)
}

/// The body of the whole response.
fn finish(world: &mut World, id: app::ConnId) -> Vec<u8> {
    world.conn(id).acks = true;
    world.settle();
    let got = world.got(id);
    let (response, rest) = Response::parse(&got, false);
    assert_eq!((response.status, rest), (200, &b""[..]));
    response.body
}

/// Logs, recordings: what was promised is there, whatever else is.
#[test]
fn a_file_that_grows_or_is_touched_is_sent_as_it_was_promised() {
    let content = pattern(8 << 20);
    let changes: [fn(&Site); 6] = [
        |site| {
            let mut file = File::options().append(true).open(site.root().join("big")).expect("a file");
            std::io::Write::write_all(&mut file, b"one more line\n").expect("appended");
        },
        |site| site.touch("big", 1_000_000),
        |site| site.touch("big", 4_000_000_000),
        |site| std::fs::rename(site.root().join("big"), site.root().join("big.1")).expect("renamed"),
        |site| std::fs::remove_file(site.root().join("big")).expect("removed"),
        |site| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(site.root().join("big"), mode).expect("a mode");
        },
    ];
    for way in WAYS {
        for change in changes {
            let site = Site::new();
            let (mut world, id) = begin(way, &site, &content);
            change(&site);
            assert!(finish(&mut world, id) == content);
            assert_eq!((world.counter("streams_broken"), world.counter("streams_open")), (0, 0));
        }
    }
}

/// Grown between the look at it and the first byte sent: no less than was
/// promised, and not tried for ever.
#[test]
fn a_file_that_never_stops_growing_is_served() {
    let site = Site::new();
    site.write("log", pattern(1 << 20));
    let mut world = World::new(small(&site));
    let mut file = File::options().append(true).open(site.root().join("log")).expect("a file");
    for _ in 0..5 {
        let id = world.open();
        world.arrive(id, "GET /log HTTP/1.1\r\nHost: a\r\n\r\n");
        for _ in 0..10 {
            std::io::Write::write_all(&mut file, b"line").expect("appended");
            world.turn();
        }
        world.settle();
        assert!(Response::parse(&world.got(id), false).0.body.starts_with(&pattern(1 << 20)));
    }
}

#[test]
fn a_file_that_shrinks_under_a_stream_ends_it_with_a_reset() {
    for way in WAYS {
        let site = Site::new();
        let (mut world, id) = begin(way, &site, &pattern(8 << 20));
        // Behind what the data path was already given.
        let file = File::options().write(true).open(site.root().join("big")).expect("a file");
        file.set_len(7 << 20).expect("truncated");
        world.conn(id).acks = true;
        world.settle();
        assert!(!world.is_open(id), "reset, since no other sign says that the body is not whole");
        assert_eq!((world.counter("streams_broken"), world.counter("streams_open")), (1, 0));
    }
}

/// Written over, and its old time put back: no complete response mixes both.
#[test]
fn a_file_that_hides_its_change_ends_the_stream_with_a_reset() {
    for way in WAYS {
        let site = Site::new();
        let (mut world, id) = begin(way, &site, &pattern(8 << 20));
        let file = File::options().write(true).open(site.root().join("big")).expect("a file");
        let modified = file.metadata().and_then(|data| data.modified()).expect("its time");
        file.write_all_at(b"other", 6 << 20).expect("written");
        file.set_modified(modified).expect("its time");
        world.conn(id).acks = true;
        world.settle();
        assert!(!world.is_open(id), "reset");
        assert_eq!((world.counter("streams_broken"), world.counter("streams_open")), (1, 0));
    }
}

#[test]
fn a_file_replaced_under_a_stream_is_sent_as_it_was() {
    let site = Site::new();
    let content = pattern(8 << 20);
    site.write("big", &content);
    let mut world = World::new(small(&site));
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    site.write("new", "replaced");
    std::fs::rename(site.root().join("new"), site.root().join("big")).expect("renamed");
    world.advance(Duration::from_secs(3));
    assert_eq!(world.get("/big").text(), "replaced", "for those who come later");
    world.conn(id).acks = true;
    world.settle();
    assert_eq!(Response::parse(&world.got(id), false).0.body, content);
}

#[test]
fn a_file_that_changed_before_its_stream_began_is_looked_up_again() {
    let site = Site::new();
    site.write("big", pattern(4 << 20));
    let mut world = World::new(small(&site));
    assert_eq!(world.get("/big").body.len(), 4 << 20);
    let content = pattern(2 << 20);
    site.write("big", &content);
    let response = world.get("/big");
    assert_eq!((response.status, response.body), (200, content));
    std::fs::remove_file(site.root().join("big")).expect("removed");
    assert_eq!(world.get("/big").status, 404);
    assert_eq!(world.counter("streams_open"), 0);
}

#[test]
fn many_streams_share_the_memory_for_streams() {
    let site = Site::new();
    sparse(&site, "big", 16 << 20);
    let mut config = site.config();
    config.limits.stream_bytes = 4 << 20;
    config.limits.streams = 64;
    let mut world = World::new(config);
    let ids: Vec<_> = (0..70).map(|_| world.open()).collect();
    for &id in &ids {
        world.conn(id).acks = false;
        world.conn(id).counts_only = true;
        world.arrive(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    world.settle();
    assert_eq!((world.counter("streams_open"), world.counter("overloads")), (64, 6));
    let queued: usize = ids.iter().map(|&id| world.net.unsent(id)).sum();
    assert!(queued <= (4 << 20) + 64 * (16 << 10), "{queued}");
    for _ in 0..2000 {
        for &id in &ids {
            let half = world.net.unsent(id) / 2 + 1;
            world.ack(id, half);
        }
        world.turn();
    }
    world.settle();
    for &id in &ids {
        world.conn(id).acks = true;
    }
    world.settle();
    let whole = ids.iter().filter(|&&id| world.net.conns[&id.index()].1.got_count > 16 << 20).count();
    assert_eq!((whole, world.counter("streams_open")), (64, 0));
}

/// A stream is work while a piece of it is being read, and not while its peer
/// takes what was read: that makes no other request wait.
#[test]
fn a_stream_is_work_while_it_is_read() {
    for sends_files in [false, true] {
        let site = Site::new();
        sparse(&site, "big", 16 << 20);
        let mut world = if sends_files { World::sending_files(site.config()) } else { World::new(site.config()) };
        let id = world.open();
        world.conn(id).acks = false;
        world.send(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((world.counter("streams_open"), world.counter("requests_waiting")), (1, 0), "its peer's turn");
        for _ in 0..3 {
            world.ack(id, usize::MAX);
            assert_eq!(world.counter("requests_waiting"), 1, "the next piece is asked for");
            world.settle();
            assert_eq!(world.counter("requests_waiting"), 0);
        }
        world.ack(id, usize::MAX);
        world.close(id, app::Closed::Reset);
        assert_eq!((world.counter("streams_open"), world.counter("requests_waiting")), (0, 0));
        world.settle();
    }
}

#[test]
fn a_peer_that_goes_away_ends_its_stream() {
    let site = Site::new();
    sparse(&site, "big", 16 << 20);
    let mut world = World::new(site.config());
    for _ in 0..200 {
        let id = world.open();
        world.conn(id).acks = false;
        world.arrive(id, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        world.turn();
        world.close(id, app::Closed::Reset);
        world.turn();
    }
    world.settle();
    assert_eq!((world.counter("streams_open"), world.counter("connections_open")), (0, 0));
}
