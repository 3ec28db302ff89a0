//! Ends: of upstreams while their clients take nothing, of clients, and of bodies that are not what was told.

use crate::world::{Folder, LARGE, World, request};
use crate::{COUNTED, PoisonError};
use app::{App, Closed, ConnId, Opened};
use h2::frame::{self, FrameHead, Kind, setting};

impl World {
    /// Upstreams that were asked say what they have to say, so many bytes of as many as they tell. How many of all
    /// were taken.
    fn answer(&mut self, bytes: usize) -> (Vec<ConnId>, usize) {
        let asked = core::mem::take(&mut self.net.upstreams);
        let mut taken = 0;
        for id in &asked {
            self.server.on_open(&mut self.net, *id, Opened::Connected);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            assert_eq!(self.server.on_data(&mut self.net, *id, head.as_bytes()), head.len());
            let _ = self.server.on_turn(&mut self.net);
            // What is left of it waits with the data path.
            taken += self.server.on_data(&mut self.net, *id, &vec![b'w'; bytes]);
            let _ = self.server.on_turn(&mut self.net);
        }
        (asked, taken)
    }

    /// The same, and they reset their connections behind that.
    fn answer_and_reset(&mut self, bytes: usize) {
        for id in self.answer(bytes).0 {
            self.server.on_close(&mut self.net, id, Closed::Reset);
        }
        self.rest();
    }

    /// A request with a body, of which these bytes come, and its end perhaps.
    fn upload(&mut self, id: ConnId, (stream, path): (u32, &str), told: &str, body: &[u8], ends: bool) {
        let mut block = vec![0x83, 0x86, 0x01, 1, b'a', 0x04, path.len() as u8];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(&[0x0f, 0x0d, told.len() as u8]);
        block.extend_from_slice(told.as_bytes());
        let mut out = Vec::new();
        frame::write_headers(&mut out, stream, &block, false, 1 << 14);
        let flags = if ends { frame::END_STREAM } else { 0 };
        frame::write(&mut out, Kind::Data, flags, stream, body);
        self.say(id, &out);
        self.rest();
    }

    /// The lines of a log, once there are so many.
    fn lines(&mut self, folder: &Folder, name: &str, count: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for _ in 0..1_000 {
            self.second(ConnId::new(1, 1));
            let text = std::fs::read_to_string(folder.0.join(name)).unwrap_or_default();
            lines = text.lines().map(str::to_owned).collect();
            if lines.len() >= count {
                break;
            }
        }
        lines
    }
}

/// What an upstream has said before it reset its connection comes whole, though its client takes nothing until then:
/// of the first of a connection 32 KiB, of all others a kilobyte.
#[test]
fn answers_are_read_ahead_of_shut_windows() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    for (path, streams, bytes) in
        [("/asked/a", 1, 1_000), ("/asked/a", 1, 32 << 10), ("/asked/a", 40, 1_000), ("/asked/changed/a", 40, 1_000)]
    {
        let mut world = World::new(&folder);
        let (id, mut out) = world.connect(0);
        for stream in 0..streams {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        world.say(id, &out);
        world.answer_and_reset(bytes);
        let came = &world.net.clients[&1];
        assert_eq!((came.heads, came.body, came.resets), (streams as usize, 0, 0), "{path}");
        let mut out = Vec::new();
        frame::write_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, 1 << 20)]);
        world.say(id, &out);
        world.until("the ends", |came| came.ends + came.resets == streams as usize);
        let came = &world.net.clients[&1];
        assert_eq!((came.body, came.resets), (streams as u64 * bytes as u64, 0), "{path}");
    }
}

/// And no more than these are held, whatever upstreams have said.
#[test]
fn what_is_read_ahead_has_a_bound() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    let (id, mut out) = world.connect(0);
    for stream in 0..8 {
        out.extend_from_slice(&request(2 * stream + 1, "/asked/a"));
    }
    world.say(id, &out);
    let before = crate::live();
    let (asked, taken) = world.answer(60 << 10);
    let held = crate::live().saturating_sub(before);
    assert_eq!((asked.len(), taken), (8, (32 << 10) + 7 * (1 << 10)));
    assert!(held <= taken, "{held} bytes: what heads needed is given back");
}

/// A client that sends no more has what is at hand, as far as its windows let it; what others would answer it has
/// not.
#[test]
fn who_sends_no_more_has_what_is_at_hand() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::serving(&folder, true);
    world.net.port = Some(81);
    let (id, mut out) = world.connect(1 << 22);
    for (stream, path) in [(1, "/large.html"), (3, "/short.html"), (5, "/asked/a"), (7, "/none.html")] {
        out.extend_from_slice(&request(stream, path));
    }
    world.say(id, &out);
    world.server.on_end(&mut world.net, id, 0);
    world.net.upstreams.clear();
    world.until("the ends", |came| came.ends == 3);
    let came = &world.net.clients[&1];
    assert!(came.body > LARGE + (30 << 10) && came.resets == 0);
    // The second has a window that would have to open.
    let (id, mut out) = world.connect(100);
    out.extend_from_slice(&request(1, "/large.html?2"));
    world.say(id, &out);
    world.server.on_end(&mut world.net, id, 0);
    world.until("what its window takes", |came| came.number != 2 || came.body == 100);
    let came = &world.net.clients[&2];
    assert_eq!((came.heads, came.body, came.ends), (1, 100, 0));
    let mut lines = world.lines(&folder, "access.log", 5);
    lines.sort_unstable();
    let expected = ["200 GET /large.html HTTP/2.0", "200 GET /large.html?2 HTTP/2.0", "200 GET /short.html HTTP/2.0"];
    assert_eq!(lines[..3], expected);
    assert_eq!(lines[3..], ["404 GET /none.html HTTP/2.0", "499 GET /asked/a HTTP/2.0"]);
}

/// A body that is not as long as was told is of no concern to who does not read it, and has 400 from who does; one
/// that its client cancels while it is kept has 499.
#[test]
fn bodies_that_are_not_as_told_are_answered_and_logged() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::serving(&folder, true);
    world.net.port = Some(81);
    let (id, out) = world.connect(1 << 20);
    world.say(id, &out);
    world.upload(id, (1, "/short.html?a"), "1000", &[b'x'; 500], true);
    world.upload(id, (3, "/short.html?b"), "100", &[b'x'; 500], true);
    world.upload(id, (5, "/asked/a"), "1000", &[b'x'; 500], true);
    world.upload(id, (7, "/asked/b"), "1000", &[b'x'; 500], false);
    let mut out = Vec::new();
    frame::write_reset(&mut out, 7, h2::ErrorCode::CANCEL);
    out.extend_from_slice(&FrameHead { length: 8, kind: Kind::Ping, flags: 0, stream: 0 }.bytes());
    out.extend_from_slice(&[0; 8]);
    world.say(id, &out);
    world.until("answers", |came| came.heads == 3 && came.ends == 3);
    let mut lines = world.lines(&folder, "access.log", 4);
    lines.sort_unstable();
    assert_eq!(lines[..2], ["400 POST /asked/a HTTP/2.0", "405 POST /short.html?a HTTP/2.0"]);
    assert_eq!(lines[2..], ["405 POST /short.html?b HTTP/2.0", "499 POST /asked/b HTTP/2.0"]);
}

/// `$bytes_sent` is what was sent: heads as they are on the wire, and bodies, of what is passed on as well.
#[test]
fn the_log_counts_heads_as_they_are_sent() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::serving(&folder, true);
    world.net.port = Some(81);
    let (id, mut out) = world.connect(1 << 20);
    out.extend_from_slice(&request(1, "/counted/a"));
    world.say(id, &out);
    world.answer_and_reset(5_000);
    world.until("the end", |came| came.ends == 1);
    let came = &world.net.clients[&1];
    let expected = format!("{} 5000", came.head_bytes as u64 + 5_000);
    assert!(came.head_bytes > 9 + 20 && came.body == 5_000);
    assert_eq!(world.lines(&folder, "counted.log", 1), [expected]);
}

/// Where nothing is lent any more, what its client may have already is asked for beside the eight that it takes
/// nothing of: one at a time, as long as that is so.
#[test]
fn what_is_likely_empty_waits_behind_nobody() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    world.exhaust();
    let (id, mut out) = world.connect(0);
    for stream in 0..10 {
        out.extend_from_slice(&request(2 * stream + 1, "/large.html"));
    }
    for stream in 10..20 {
        let mut block = b"\x82\x86\x01\x01a\x04\x0b/large.html".to_vec();
        block.extend_from_slice(&[0x0f, 41 - 15, 1, b'*']);
        frame::write_headers(&mut out, 2 * stream + 1, &block, true, 1 << 14);
    }
    world.say(id, &out);
    let mine = world.next;
    world.until("all that are empty", |came| came.number != mine || came.ends == 10);
    world.rest();
    assert_eq!(world.net.clients[&mine].heads, 18);
}
