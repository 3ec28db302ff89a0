//! The memory for streams, which belongs to those who read.

use crate::support::{Response, Site, World, directory};
use app::{ConnId, Net};
use core::time::Duration;
use server::Config;

const FILE: usize = 6 << 20;
/// For all streams together.
const LIMIT: usize = 4 << 20;
/// Enough for all blocks of the file, and their alignment.
const MEDIA: usize = 8 << 20;
/// For one, at most.
const WINDOW: usize = 512 << 10;
/// What a stream has whatever the others hold.
const LEAST: usize = 16 << 10;
const SECOND: Duration = Duration::from_secs(1);
/// Long enough to have stalled; eight of them are too short to be gone.
const A_WHILE: Duration = Duration::from_millis(1_100);

fn site() -> (Site, Vec<u8>) {
    let site = Site::new();
    let content: Vec<u8> = (0..FILE as u32 / 4).flat_map(u32::to_le_bytes).collect();
    site.write("big", &content);
    (site, content)
}

/// Where each stream has what is read for it alone, and where all send from blocks.
fn configs(site: &Site) -> [Config; 2] {
    [0, MEDIA].map(|media_bytes| {
        let mut config = site.config();
        directory(&mut config).cache_file_bytes = 1000;
        directory(&mut config).media_bytes = media_bytes;
        config.limits.stream_bytes = LIMIT;
        config.limits.stream_window = WINDOW;
        config
    })
}

/// A download that does not go on by itself. At most `flight` bytes of what is
/// queued are sent.
fn begin(world: &mut World, flight: usize, fields: &str) -> ConnId {
    let id = world.open();
    let conn = world.conn(id);
    (conn.acks, conn.flight) = (false, flight);
    world.send(id, format!("GET /big HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    id
}

/// The peer takes what is queued, so many times.
fn take(world: &mut World, id: ConnId, times: usize) {
    for _ in 0..times {
        world.ack(id, usize::MAX);
        world.settle();
    }
}

fn queued(world: &World, ids: &[ConnId]) -> usize {
    ids.iter().map(|&id| world.net.unsent(id)).sum()
}

/// The rest of a download, and its end.
pub(crate) fn finish(world: &mut World, id: ConnId) -> Response {
    world.conn(id).acks = true;
    world.settle();
    let got = world.got(id);
    let (response, rest) = Response::parse(&got, false);
    assert_eq!(rest, b"");
    response
}

/// Peers that never take more than a window leave half of the memory to those
/// who do.
#[test]
fn any_number_of_stalled_readers_leaves_a_good_one_its_window() {
    const STALLED: usize = 200;
    let (site, content) = site();
    for config in configs(&site) {
        let mut world = World::new(config);
        let stalled: Vec<_> = (0..STALLED).map(|_| begin(&mut world, 0, "")).collect();
        assert!(queued(&world, &stalled) <= LIMIT + STALLED * (LEAST + 1_000));
        world.advance(2 * SECOND);
        let good = begin(&mut world, 0, "");
        take(&mut world, good, 3);
        assert!(world.net.unsent(good) >= WINDOW / 2, "{} bytes at a time", world.net.unsent(good));
        assert_eq!(finish(&mut world, good).body, content);
        assert_eq!(world.counter("streams_broken") + world.counter("streams_evicted"), 0);
        // And they lose nothing.
        assert_eq!(finish(&mut world, stalled[STALLED / 2]).body, content);
    }
}

/// Peers that read, and were given much, and then stop: it is taken back, and
/// they get every byte if they go on.
#[test]
fn what_readers_leave_lying_is_taken_back_and_sent_again() {
    let (site, content) = site();
    for (flight, config) in [0, 1, 100_000].into_iter().flat_map(|flight| configs(&site).map(|config| (flight, config)))
    {
        let mut world = World::new(config);
        let mut stalled = Vec::new();
        for _ in 0..8 {
            let id = begin(&mut world, flight, "");
            take(&mut world, id, 4);
            stalled.push(id);
            // Their seconds are not the same.
            world.advance(A_WHILE);
        }
        let held = queued(&world, &stalled);
        assert!(held <= LIMIT + 8 * (LEAST + 1_000), "{held}");
        let good = begin(&mut world, flight, "");
        take(&mut world, good, 6);
        assert!(world.net.unsent(good) >= WINDOW / 2, "{} bytes at a time", world.net.unsent(good));
        assert!(world.counter("stream_bytes_taken_back") > 0);
        assert_eq!(finish(&mut world, good).body, content);
        for id in stalled {
            assert_eq!(finish(&mut world, id).body, content);
        }
        assert_eq!(world.counter("streams_evicted"), 0, "{flight} bytes in flight");
        assert_eq!(world.counter("streams_open"), 0);
    }
}

/// Delimiters are not kept to be sent again.
#[test]
fn parts_of_several_ranges_are_whole_whatever_is_taken_back() {
    let (site, content) = site();
    for config in configs(&site) {
        let mut world = World::new(config);
        let ranges = "Range: bytes=0-3000000,3500000-3500004,4000000-\r\n";
        let stalled: Vec<_> = (0..8).map(|_| begin(&mut world, 1_000, ranges)).collect();
        for &id in &stalled {
            take(&mut world, id, 3);
            world.advance(A_WHILE);
        }
        let good = begin(&mut world, 1_000, "");
        take(&mut world, good, 4);
        assert_eq!(finish(&mut world, good).body, content);
        let bodies: Vec<_> = stalled.iter().map(|&id| finish(&mut world, id)).collect();
        for response in bodies {
            assert_eq!(response.status, 206);
            let at = |needle: &[u8], from: usize| {
                from + response.body[from..]
                    .windows(needle.len())
                    .position(|part| part == needle)
                    .expect("a part's head")
            };
            let first = at(b"\r\n\r\n", 0) + 4;
            assert!(response.body[first..first + 3_000_001] == content[..3_000_001]);
            let second = at(b"\r\n\r\n", first + 3_000_001 + 2) + 4;
            assert_eq!(response.body[second..second + 5], content[3_500_000..3_500_005]);
            let third = at(b"\r\n\r\n", second + 5 + 2) + 4;
            assert!(response.body[third..third + FILE - 4_000_000] == content[4_000_000..]);
        }
    }
}

/// What was sent cannot be taken back; a peer that acknowledges none of it for
/// long is reset, where others want the memory, and only there.
#[test]
fn who_takes_nothing_of_what_was_sent_is_reset_where_others_need_the_memory() {
    let (site, content) = site();
    for config in configs(&site) {
        let mut world = World::new(config);
        let mut gone = Vec::new();
        for _ in 0..8 {
            let id = begin(&mut world, usize::MAX, "");
            take(&mut world, id, 4);
            gone.push(id);
            world.advance(2 * SECOND);
        }
        assert_eq!(world.counter("streams_evicted"), 0);
        world.advance(20 * SECOND);
        assert_eq!(world.counter("streams_evicted"), 0, "nobody asks for it");
        let good = begin(&mut world, usize::MAX, "");
        take(&mut world, good, 6);
        assert!(world.net.unsent(good) >= WINDOW / 2, "{} bytes at a time", world.net.unsent(good));
        assert_eq!(finish(&mut world, good).body, content);
        let left = gone.iter().filter(|&&id| world.is_open(id)).count();
        assert_eq!(world.counter("streams_evicted"), 8 - left as u64);
        assert!((1..8).contains(&left), "{left} are left: no more than needed go");
    }
}
