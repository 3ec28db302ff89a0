//! Upstreams over HTTP/2 that answer as much as windows let them, for clients that take nothing.

use crate::world::{Folder, STREAMS, World};
use crate::{COUNTED, PoisonError};
use app::{App, ConnId, Opened};
use core::ops::ControlFlow;
use h2::frame::{self, FrameHead, HEAD, Kind, PREFACE, setting};
use std::collections::BTreeMap;

/// A server at the other end of a connection.
struct Answering {
    id: ConnId,
    /// The window that streams begin with.
    first: u32,
    /// Of each stream its window, and bytes that are left to send.
    streams: BTreeMap<u32, (u32, usize)>,
}

impl Answering {
    /// Reads what it was sent, and writes what it answers: bodies of so many bytes.
    fn answer(&mut self, passed: &[u8], bytes: usize) -> Vec<u8> {
        let mut at = if passed.starts_with(PREFACE) { PREFACE.len() } else { 0 };
        let mut out = Vec::new();
        while let Some(head) = FrameHead::read(&passed[at..]) {
            let payload = &passed[at + HEAD..at + HEAD + head.length as usize];
            at += HEAD + payload.len();
            let increment = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            match (head.kind, self.streams.get_mut(&head.stream)) {
                (Kind::Settings, _) if !head.has(frame::ACK) => {
                    let told = frame::settings(payload).find(|(name, _)| *name == setting::INITIAL_WINDOW_SIZE);
                    self.first = told.map_or(65_535, |(_, value)| value);
                }
                (Kind::Headers, _) => {
                    self.streams.insert(head.stream, (self.first, bytes));
                    frame::write_headers(&mut out, head.stream, &[0x88], false, 1 << 14);
                }
                (Kind::WindowUpdate, Some((window, _))) => *window += increment,
                _ => {}
            }
        }
        for (stream, (window, left)) in &mut self.streams {
            while *left > 0 && *window > 0 {
                let some = (*window as usize).min(*left).min(1 << 14);
                (*window, *left) = (*window - some as u32, *left - some);
                let flags = if *left == 0 { frame::END_STREAM } else { 0 };
                frame::write(&mut out, Kind::Data, flags, *stream, &vec![b'w'; some]);
            }
        }
        out
    }
}

impl World {
    /// Has servers that are asked answer with so many bytes, until `done` says that it is enough.
    fn serve(&mut self, servers: &mut Vec<Answering>, bytes: usize, done: impl Fn(&Self) -> ControlFlow<()>) {
        let mut turns = 0;
        while done(self).is_continue() {
            let _ = self.server.on_turn(&mut self.net);
            for id in core::mem::take(&mut self.net.upstreams) {
                self.server.on_open(&mut self.net, id, Opened::Connected);
                let mut settings = Vec::new();
                frame::write_settings(&mut settings, &[]);
                self.hear(id, &settings);
                servers.push(Answering { id, first: 65_535, streams: BTreeMap::new() });
            }
            for server in &mut *servers {
                let passed = self.net.passed.remove(&server.id.index()).unwrap_or_default();
                let out = server.answer(&passed, bytes);
                self.hear(server.id, &out);
            }
            turns += 1;
            assert!(turns < 10_000, "it stands still");
        }
    }
}

/// Bytes of a stream whose client takes nothing, whatever its upstream would send.
const EACH: usize = 8 << 10;

/// Of what an upstream would send nobody who takes nothing holds more than a piece. Once clients take it, all of it
/// comes.
#[test]
fn who_takes_nothing_has_little_sent_by_upstreams() {
    const BYTES: usize = 300_000;
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    let mut servers = Vec::new();
    let came = |ends: usize| {
        move |world: &World| {
            let all = &mut world.net.clients.values();
            match all.all(|came| (came.heads, came.ends) == (STREAMS as usize, ends)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    };
    // Tables grow by the first.
    let first = world.open("/streams/a", 0);
    world.serve(&mut servers, BYTES, came(0));
    let before = crate::live();
    let second = world.open("/streams/a", 0);
    world.serve(&mut servers, BYTES, came(0));
    // And what would still come.
    let turns = core::cell::Cell::new(0);
    world.serve(&mut servers, BYTES, |_| {
        turns.set(turns.get() + 1);
        if turns.get() > 50 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let held = crate::live().saturating_sub(before);
    assert!(held <= STREAMS as usize * EACH, "{held} bytes");
    let mut out = Vec::new();
    frame::write_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, 1 << 20)]);
    world.say(first, &out);
    world.say(second, &out);
    world.serve(&mut servers, BYTES, came(STREAMS as usize));
    for came in world.net.clients.values() {
        assert_eq!((came.body, came.resets), (u64::from(STREAMS) * BYTES as u64, 0));
    }
}
