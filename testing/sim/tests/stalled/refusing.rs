//! Upstreams over HTTP/2 that refuse what they are asked.

use crate::world::{Folder, World};
use crate::{COUNTED, PoisonError};
use app::{App, ConnId, Opened};
use h2::frame::{self, FrameHead, HEAD, Kind, PREFACE};

impl World {
    /// A request with this body on a stream, for a server that says its settings first; what that was sent,
    /// frame by frame.
    fn post(&mut self, client: ConnId, stream: u32, body: &[u8]) {
        let mut out = Vec::new();
        let block = *b"\x83\x86\x01\x01a\x04\x07/grpc/a";
        frame::write_headers(&mut out, stream, &block, false, 1 << 14);
        let mut parts = body.chunks(1 << 14).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { frame::END_STREAM } else { 0 };
            frame::write(&mut out, Kind::Data, flags, stream, part);
        }
        self.say(client, &out);
        let _ = self.server.on_turn(&mut self.net);
    }

    /// What an upstream was sent since this was asked last: requests, and bytes of their bodies by stream.
    fn passed(&mut self, upstream: ConnId) -> Vec<(u32, usize, bool)> {
        let bytes = self.net.passed.remove(&upstream.index()).unwrap_or_default();
        let mut at = if bytes.starts_with(PREFACE) { PREFACE.len() } else { 0 };
        let mut all: Vec<(u32, usize, bool)> = Vec::new();
        while let Some(head) = FrameHead::read(&bytes[at..]) {
            at += HEAD + head.length as usize;
            match (head.kind, all.last_mut()) {
                (Kind::Headers, _) => all.push((head.stream, 0, head.has(frame::END_STREAM))),
                (Kind::Data, Some((_, sent, ends))) => {
                    *sent += head.length as usize;
                    *ends = head.has(frame::END_STREAM);
                }
                _ => {}
            }
        }
        all
    }

    pub(crate) fn hear(&mut self, upstream: ConnId, bytes: &[u8]) {
        assert_eq!(self.server.on_data(&mut self.net, upstream, bytes), bytes.len());
        for _ in 0..4 {
            let _ = self.server.on_turn(&mut self.net);
        }
    }
}

/// What an upstream says not to have processed is asked again with its body, as long as that fits
/// `client_body_buffer_size` (8 KiB); what is longer has gone.
#[test]
fn a_refused_call_is_repeated_with_what_was_kept_of_its_body() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    for (length, repeats) in [(5, true), (8_000, true), (20_000, false)] {
        for by_go_away in [false, true] {
            let mut world = World::new(&folder);
            let client = world.begin();
            world.post(client, 1, &vec![b'b'; length]);
            let first = world.net.upstreams.pop().expect("an upstream");
            world.server.on_open(&mut world.net, first, Opened::Connected);
            let mut settings = Vec::new();
            frame::write_settings(&mut settings, &[]);
            world.hear(first, &settings);
            assert_eq!(world.passed(first), [(1, length, true)]);
            let mut refused = Vec::new();
            if by_go_away {
                frame::write_go_away(&mut refused, 0, h2::ErrorCode::NO_ERROR);
            } else {
                frame::write_reset(&mut refused, 1, h2::ErrorCode::REFUSED_STREAM);
            }
            world.hear(first, &refused);
            let mut stream = 3;
            let mut again = first;
            if by_go_away && repeats {
                (again, stream) = (world.net.upstreams.pop().expect("another connection"), 1);
                world.server.on_open(&mut world.net, again, Opened::Connected);
                world.hear(again, &settings);
            }
            let expected: &[_] = if repeats { &[(stream, length, true)] } else { &[] };
            assert_eq!(world.passed(again), expected, "{length} bytes, by GOAWAY: {by_go_away}");
            if repeats {
                let mut answer = Vec::new();
                frame::write_headers(&mut answer, stream, &[0x89], true, 1 << 14);
                world.hear(again, &answer);
            }
            let came = &world.net.clients[&1];
            assert_eq!((came.heads, came.resets), (1, 0));
            assert_eq!(came.body > 0, !repeats, "204, or a page of 502");
        }
    }
}
