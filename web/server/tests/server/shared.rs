//! Frames that lie in memory which their sender still writes to: a link by
//! shared memory that copies nothing. What it writes there meanwhile may change
//! its own answers, and nobody else's.

use crate::support::{Response, Site, World};
use app::{App, ConnId};
use core::time::Duration;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A page of memory that we read, and others write.
struct Region {
    start: *mut core::ffi::c_void,
    file: OwnedFd,
}

const PAGE: usize = 4096;

impl Region {
    fn new(bytes: &[u8]) -> Self {
        let file = memfd_create("frames", MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&file, PAGE as u64).expect("a page");
        rustix::io::pwrite(&file, bytes, 0).expect("room");
        // SAFETY: a new mapping, placed by the kernel, which overlaps nothing;
        // the file is a page long and is not shortened.
        let start = unsafe { mmap(core::ptr::null_mut(), PAGE, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
        Self { start: start.expect("a mapping"), file }
    }

    fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= PAGE);
        // SAFETY: `PAGE` readable bytes, until `self` is dropped. They change
        // while they are borrowed, by pwrite(2) in calls that the compiler
        // cannot look into: what is tested is that readers bear it.
        unsafe { core::slice::from_raw_parts(self.start.cast(), len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`, and no slice of it outlives us.
        let _ = unsafe { munmap(self.start, PAGE) };
    }
}

/// More calls than the server makes for one frame.
const CALLS: u32 = 40;

/// `first` arrives, and becomes `then` (of the same length) after `calls`
/// calls of the server's. Returns the bytes left unused, and whether it came
/// to that.
fn arrive(world: &mut World, id: ConnId, first: &[u8], then: &[u8], calls: u32) -> bool {
    assert_eq!(first.len(), then.len());
    let region = Region::new(first);
    let file = region.file.try_clone().expect("a descriptor");
    world.net.meanwhile.write(calls, file, then);
    let _ = world.server.on_data(&mut world.net, id, region.bytes(first.len()));
    let over = world.net.meanwhile.is_over();
    world.net.meanwhile = crate::support::Meanwhile::default();
    drop(region);
    world.settle();
    over
}

fn get(path: &str, fields: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

/// Over a link whose frames are shared, both files are known, and in the next second are to be looked at again
/// only when asked for.
fn two_files(log: bool) -> (Site, World) {
    let site = Site::new();
    site.write("a.html", "content of A");
    site.write("b.html", "content of B");
    let mut config = site.config();
    if log {
        config.access_log = server::AccessLog::File(site.outside().join("log"));
    }
    let mut world = World::new(config);
    world.net.shares_frames = true;
    for path in ["/a.html", "/b.html"] {
        world.get(path);
    }
    (site, world)
}

#[test]
fn a_path_that_changes_under_the_server_leads_nobody_else_astray() {
    // In the second of the files' look-up, and in the next, where the path
    // goes the long way once.
    for wait in [Duration::ZERO, Duration::from_millis(995)] {
        for fields in ["", "Range: bytes=0-3\r\n"] {
            for calls in 0.. {
                let (_site, mut world) = two_files(false);
                world.advance(wait);
                let evil = world.open();
                let changed = arrive(&mut world, evil, &get("/a.html", fields), &get("/b.html", fields), calls);
                for _ in 0..2 {
                    assert_eq!(world.get("/b.html").text(), "content of B", "after {calls} calls");
                    assert_eq!(world.get("/a.html").text(), "content of A", "after {calls} calls");
                }
                if !changed {
                    break;
                }
                assert!(calls < CALLS, "so many calls for one frame");
            }
        }
    }
}

#[test]
fn a_body_that_is_announced_too_late_smuggles_nothing_into_others() {
    let without = get("/a.html", "Content-Typo:   30\r\n");
    let with = [b"PUT", &get("/a.html", "Content-Length: 30\r\n")[3..]].concat();
    for (first, then) in [(&without, &with), (&with, &without)] {
        for calls in 0.. {
            let (_site, mut world) = two_files(false);
            let evil = world.open();
            let changed = arrive(&mut world, evil, first, then, calls);
            // Another client's PUT with a body: head and body in two segments.
            let id = world.open();
            world.send(id, &with);
            world.send(id, &get("/b.html", "")[..30]);
            let got = world.got(id);
            let (response, rest) = Response::parse(&got, false);
            assert_eq!((response.status, rest), (405, &b""[..]), "after {calls} calls");
            if !changed {
                break;
            }
            assert!(calls < CALLS, "so many calls for one frame");
        }
    }
}

/// What is not plain is escaped in the log, whenever it came to be so.
#[test]
fn a_line_that_changes_under_the_server_writes_no_second_line_to_the_log() {
    let first = b"GET /missing-file HTTP/1.1\r\nHost: a\r\n\r\n";
    let then = b"GET /mis\n92.0.2.9 HTTP/1.1\r\nHost: a\r\n\r\n";
    let ready = get("/a.html?missing-file", "");
    let then_ready = get("/a.html?mis\n19.0.0.9", "");
    for (first, then) in [(&first[..], &then[..]), (&ready, &then_ready)] {
        for calls in 0.. {
            let (site, mut world) = two_files(true);
            let evil = world.open();
            let changed = arrive(&mut world, evil, first, then, calls);
            drop(world);
            let log = std::fs::read_to_string(site.outside().join("log")).expect("a log");
            assert!(log.lines().all(|line| line.starts_with("192.0.2.7 - - [")), "after {calls} calls: {log}");
            if !changed {
                break;
            }
            assert!(calls < CALLS, "so many calls for one frame");
        }
    }
}

/// A frame that is ours alone is not copied, and its head not parsed a second
/// time: the second parser would see what only this test can write there.
#[test]
fn the_head_of_a_private_frame_is_parsed_once() {
    let first = get("/a.html", "Range: bytes=0-3\r\nContent-Typo:   30\r\n");
    let then = get("/a.html", "Range: bytes=0-3\r\nContent-Length: 30\r\n");
    for shared in [true, false] {
        let mut noticed = false;
        for calls in 0.. {
            let (_site, mut world) = two_files(false);
            world.net.shares_frames = shared;
            let id = world.open();
            let changed = arrive(&mut world, id, &first, &then, calls);
            let errors = world.server.counters().find(|(name, _)| *name == "parse_errors");
            noticed |= errors.is_some_and(|(_, errors)| errors > 0);
            if !changed {
                break;
            }
            assert!(calls < CALLS, "so many calls for one frame");
        }
        assert_eq!(noticed, shared, "shared: {shared}");
    }
}
