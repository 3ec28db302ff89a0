//! Large files by blocks that streams share.

use crate::sharing::finish;
use crate::support::{Site, World, directory};
use app::ConnId;
use core::time::Duration;
use server::Config;

const BLOCK: usize = 256 << 10;
const FILE: usize = 20 * BLOCK + 12_345;
const BLOCKS: u64 = 21;

fn content(seed: u32) -> Vec<u8> {
    (0..FILE.div_ceil(4) as u32)
        .flat_map(|at| (at.wrapping_mul(2_654_435_761) ^ seed).to_le_bytes())
        .take(FILE)
        .collect()
}

fn config(site: &Site, blocks: usize) -> Config {
    let mut config = site.config();
    directory(&mut config).cache_file_bytes = 1000;
    directory(&mut config).media_bytes = blocks * (BLOCK + 4096);
    config.limits.stream_bytes = 64 << 20;
    config
}

fn begin(world: &mut World, path: &str, fields: &str) -> ConnId {
    let id = world.open();
    world.conn(id).acks = false;
    world.send(id, format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    id
}

#[test]
fn each_block_is_read_once_for_all() {
    let site = Site::new();
    let film = content(1);
    site.write("film", &film);
    let mut world = World::new(config(&site, 40));
    for _ in 0..3 {
        let ids: Vec<_> = (0..10).map(|_| begin(&mut world, "/film", "")).collect();
        for id in ids {
            assert!(finish(&mut world, id).body == film);
        }
    }
    assert_eq!((world.counter("block_reads"), world.counter("block_misses")), (BLOCKS, 0));
    assert!(world.counter("block_hits") >= 29 * BLOCKS, "{}", world.counter("block_hits"));
    assert_eq!(world.counter("block_bytes"), BLOCKS * (BLOCK as u64 + 4096));
    // Some of it, and some more of it.
    let id = begin(&mut world, "/film", "Range: bytes=262143-262145\r\n");
    assert!(finish(&mut world, id).body == film[262_143..=262_145]);
    let id = begin(&mut world, "/film", "Range: bytes=-12346\r\n");
    assert!(finish(&mut world, id).body == film[20 * BLOCK - 1..]);
    assert_eq!((world.counter("block_reads"), world.counter("streams_open")), (BLOCKS, 0));
}

/// Clients that take nothing hold blocks; whoever finds none is sent what is read for it alone.
#[test]
fn where_all_blocks_are_being_sent_each_goes_on_alone() {
    let site = Site::new();
    let films = [0, 1, 2, 3].map(content);
    for (file, film) in films.iter().enumerate() {
        site.write(&format!("film{file}"), film);
    }
    let mut world = World::new(config(&site, 16));
    let part = |at: usize| (at % 4, at / 4 * BLOCK);
    let stalled: Vec<_> = (0..60)
        .map(|at| {
            let (file, from) = part(at);
            begin(&mut world, &format!("/film{file}"), &format!("Range: bytes={from}-\r\n"))
        })
        .collect();
    assert!(world.counter("block_misses") > 0);
    let good = begin(&mut world, "/film3", "");
    assert!(finish(&mut world, good).body == films[3]);
    world.advance(Duration::from_secs(30));
    for (at, id) in stalled.into_iter().enumerate() {
        let (file, from) = part(at);
        assert!(finish(&mut world, id).body == films[file][from..], "{at}");
    }
    assert!(world.counter("block_bytes") <= 16 * (BLOCK as u64 + 4096));
    assert_eq!((world.counter("streams_open"), world.counter("streams_broken")), (0, 0));
}

/// What peers leave lying that take nothing holds no blocks where others want them.
#[test]
fn beside_readers_that_stall_each_block_is_read_once_for_all() {
    let site = Site::new();
    (0..5).for_each(|file| site.write(&format!("film{file}"), content(file)));
    // Less than a block for each of those who stall.
    let mut world = World::new(config(&site, 48));
    let stalled: Vec<_> = (0..60)
        .map(|at| {
            let id = begin(&mut world, &format!("/film{}", at % 4), &format!("Range: bytes={}-\r\n", at / 4 * BLOCK));
            world.conn(id).flight = 0;
            // Every other one has taken some before.
            if at % 2 == 0 {
                world.ack(id, 100_000);
                world.settle();
            }
            id
        })
        .collect();
    // Some of them are looked at in each turn.
    (0..8).for_each(|_| world.advance(Duration::from_millis(300)));
    let counted = |world: &World| (world.counter("block_reads"), world.counter("block_misses"));
    let before = counted(&world);
    let ids: Vec<_> = (0..10).map(|_| begin(&mut world, "/film4", "")).collect();
    // At one time: what one alone has asked for is not kept for the others.
    ids.iter().for_each(|id| world.conn(*id).acks = true);
    for id in ids {
        assert!(finish(&mut world, id).body == content(4));
    }
    let after = counted(&world);
    assert_eq!((after.0 - before.0, after.1 - before.1), (BLOCKS, 0), "each once, and none for one alone");
    // Whoever goes on has every byte, from blocks again.
    for at in [0, 1, 30, 59] {
        let from = at / 4 * BLOCK;
        assert!(finish(&mut world, stalled[at]).body == content(at as u32 % 4)[from..], "{at}");
    }
    assert_eq!((world.counter("streams_broken"), world.counter("streams_evicted")), (0, 0));
}

/// What is in memory is of one state of the file, and never beside another's.
#[test]
fn a_file_that_is_replaced_has_blocks_of_its_own() {
    let site = Site::new();
    let [first, second, third] = [1, 2, 3].map(content);
    site.write("film", &first);
    // Enough for both of its states.
    let mut world = World::new(config(&site, 60));
    let old = begin(&mut world, "/film", "");
    std::fs::remove_file(site.root().join("film")).expect("removed");
    site.write("film", &second);
    world.advance(Duration::from_secs(3));
    let new = begin(&mut world, "/film", "");
    assert!(finish(&mut world, new).body == second);
    assert!(finish(&mut world, old).body == first, "it is open as it was");
    // What is in memory goes on, whatever becomes of the file.
    let shrinks = |name: &str| {
        let file = std::fs::OpenOptions::new().write(true).open(site.root().join(name)).expect("it is there");
        file.set_len(300_000).expect("shorter");
    };
    let kept = begin(&mut world, "/film", "Range: bytes=1000-\r\n");
    shrinks("film");
    world.advance(Duration::from_secs(3));
    let id = begin(&mut world, "/film", "");
    assert!(finish(&mut world, id).body == second[..300_000]);
    assert!(finish(&mut world, kept).body == second[1_000..]);
    // What is not is broken off, and nobody has it.
    site.write("other", &third);
    let broken = begin(&mut world, "/other", "");
    shrinks("other");
    world.conn(broken).acks = true;
    world.settle();
    assert_eq!((world.counter("streams_broken"), world.counter("streams_open")), (1, 0));
    world.advance(Duration::from_secs(3));
    let id = begin(&mut world, "/other", "");
    assert!(finish(&mut world, id).body == third[..300_000]);
}
