//! A protocol beside HTTP/1.1, agreed on in the handshake, that carries many exchanges on a
//! connection.

mod echo;
mod http2;
mod world;

use app::Net;
use echo::echo;
use many::{Kind, NAME, WINDOW, frame};
use silo::Silo;
use std::collections::HashMap;
use world::{Folder, Frame, LARGE, World, large};

/// A large file was asked for first, and has all the room that there is: what is asked for later is
/// there long before its end, for nothing of a body is with the connection before it was chosen.
#[test]
fn what_is_asked_for_late_overtakes_ten_megabytes() {
    let folder = Folder::new("late");
    let mut world = World::new(folder.server(), NAME);
    world.client.app.get(1, 5, "/large");
    world.client.app.room(1, LARGE);
    world.until("some of it", |client| client.body(1).len() > 1 << 20);
    world.client.app.get(3, 2, "/small.txt");
    world.until("the small one", |client| client.end(3).is_some());
    let before = world.client.app.body(1).len();
    assert!(before < LARGE / 2, "{before} bytes of the large one came first");
    assert_eq!((world.client.app.status(3), world.client.app.body(3)), (Some(200), b"small".to_vec()));
    world.until("the large one", |client| client.end(1).is_some());
    assert!(world.client.app.body(1) == large(), "as it is in the file");
}

/// What fills one window leaves the others', and what is opened again goes on.
#[test]
fn each_stream_has_a_window_of_its_own() {
    let folder = Folder::new("windows");
    let mut world = World::new(folder.server(), NAME);
    for stream in [1, 3, 5] {
        world.client.app.get(stream, 3, "/large");
    }
    world.settle();
    for stream in [1, 3, 5] {
        assert_eq!(world.client.app.body(stream).len(), WINDOW.0, "stream {stream}");
    }
    world.client.app.room(3, 100_000);
    world.settle();
    let lengths = [1, 3, 5].map(|stream| world.client.app.body(stream).len());
    assert_eq!(lengths, [WINDOW.0, WINDOW.0 + 100_000, WINDOW.0]);
    // That of all together is one, too: of 256 KiB and what was opened 192 and 98 are taken.
    for stream in [1, 3, 5] {
        world.client.app.send(Kind::Window, stream, &(LARGE as u32).to_be_bytes());
    }
    world.settle();
    let all: usize = [1, 3, 5].iter().map(|stream| world.client.app.body(*stream).len()).sum();
    assert_eq!(all, WINDOW.1 + 100_000);
    world.client.app.send(Kind::Window, 0, &(3 * LARGE as u32).to_be_bytes());
    let large = large();
    world.until("all of them", |client| [1, 3, 5].iter().all(|stream| client.end(*stream).is_some()));
    assert!([1, 3, 5].iter().all(|stream| world.client.app.body(*stream) == large));
}

/// RFC 9218 section 10: the more urgent goes first, those that are useful in parts take turns, others
/// go one after the other; and a client may change its mind.
#[test]
fn priorities_say_whose_bytes_are_next() {
    let folder = Folder::new("priorities");
    let mut world = World::new(folder.server(), NAME);
    let app = &mut world.client.app;
    for (stream, urgency) in [(1, 3), (3, 3), (5, 4 | 8), (7, 4 | 8), (9, 7)] {
        app.get(stream, urgency, "/large");
        app.send(Kind::Window, stream, &(LARGE as u32).to_be_bytes());
    }
    app.send(Kind::Priority, 9, &[1]);
    app.send(Kind::Window, 0, &(6 * LARGE as u32).to_be_bytes());
    let all = [1, 3, 5, 7, 9];
    world.until("all of them", |client| all.iter().all(|stream| client.end(*stream).is_some()));
    let app = &world.client.app;
    let mut ends: Vec<_> = all.iter().map(|stream| (app.end(*stream), *stream)).collect();
    ends.sort_unstable();
    let order: Vec<u32> = ends.iter().map(|(_, stream)| *stream).collect();
    assert_eq!(order[..3], [9, 1, 3]);
    let first = |stream: u32| app.frames.iter().position(|(kind, of, _)| *kind == Kind::Body && *of == stream);
    assert!(first(7) < app.end(5) && first(5) < app.end(7), "they take turns");
    assert!(first(5) > app.end(3), "what is less urgent waits");
}

/// A client of the same listener that agrees on HTTP/1.1 has that, and who agrees on the other may
/// send what is none of its frames.
#[test]
fn the_handshake_chooses_the_protocol() {
    let folder = Folder::new("alpn");
    let mut world = World::new(folder.server(), b"http/1.1");
    world.client.app.to_send = b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec();
    world.until("an answer", |client| client.came.ends_with(b"small"));
    assert!(world.client.app.came.starts_with(b"HTTP/1.1 200 OK\r\n"));

    for wrong in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &frame(Kind::GoAway, 0, b""), &[b'Q'; 4]] {
        let mut world = World::new(folder.server(), NAME);
        world.client.app.get(1, 3, "/small.txt");
        world.until("an answer", |client| client.end(1).is_some());
        world.client.app.to_send = wrong.to_vec();
        world.client.app.ends = true;
        world.until("its end", |client| client.closed);
        let counted = world.server.app.counted();
        assert_eq!((counted.parse_errors, counted.connections_open), (1, 0), "{wrong:?}");
    }
}

/// What is ready is no exchange: heads that are made once, and one shared body.
#[test]
fn what_is_ready_makes_no_exchange() {
    let folder = Folder::new("ready");
    let mut world = World::new(folder.server(), NAME);
    for stream in [1, 3, 5, 7] {
        world.client.app.get(stream, 3, "/small.txt");
        world.until("an answer", |client| client.end(stream).is_some());
        assert_eq!(world.client.app.body(stream), b"small");
        assert_eq!(world.client.app.fields(stream), world.client.app.fields(1));
    }
    let fields = world.client.app.fields(1);
    let names: Vec<_> = fields.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(names, ["Date", "Server", "Content-Type", "Last-Modified", "ETag", "Accept-Ranges"]);
    let counters: HashMap<_, _> = world.server.app.counters().collect();
    // The first was looked up.
    assert_eq!((counters["requests"], counters["cache_misses"], counters["cache_hits"]), (4, 1, 3));
}

/// Bodies and what is behind them go both ways, each at the pace of its own reader.
#[test]
fn bodies_and_trailers_go_both_ways() {
    let mut world = echo();
    let app = &mut world.client.app;
    app.ask(1, 2 | 8, (true, "POST /a HTTP/1.1\r\nHost: a\r\n\r\n"));
    app.ask(3, 5, (true, "POST /b HTTP/1.1\r\nHost: a\r\n\r\n"));
    app.get(5, 3, "/c");
    app.send(Kind::Body, 3, b"a short one");
    app.send(Kind::End, 3, b"Sum: 11\r\n");
    let body: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    for some in body.chunks(10_000) {
        app.send(Kind::Body, 1, some);
    }
    app.send(Kind::End, 1, b"");
    world.until("the short ones", |client| client.end(3).is_some() && client.end(5).is_some());
    world.settle();
    let app = &mut world.client.app;
    assert_eq!(
        (app.body(3), app.frames[app.end(3).expect("its end")].2.as_slice()),
        (b"a short one".to_vec(), &b"Seen: yes\r\nSum: 11\r\n"[..])
    );
    assert_eq!(app.body(1).len(), WINDOW.0, "its client has taken no more, and so has its handler");
    let taken: u32 = app.frames.iter().filter(|(kind, of, _)| *kind == Kind::Window && *of == 1).map(told).sum();
    assert!(taken as usize <= WINDOW.0 + (40 << 10), "{taken} bytes were taken");
    app.room(1, 200_000);
    world.until("the long one", |client| client.end(1).is_some());
    let app = &world.client.app;
    assert!(app.body(1) == body, "as it was sent");
    let heads: Vec<_> = app.frames.iter().filter(|(kind, of, _)| *kind == Kind::Head && *of == 1).collect();
    assert_eq!(heads.iter().map(|head| u16::from_be_bytes([head.2[0], head.2[1]])).collect::<Vec<_>>(), [103, 200]);
    let handler = world.server.app.handler();
    assert_eq!(handler.priorities, [(2, true), (5, false), (3, false)]);
    assert!(handler.gone.is_empty(), "{:?}", handler.gone);
}

fn told((_, _, content): &Frame) -> u32 {
    u32::from_be_bytes(content.as_slice().try_into().expect("a number"))
}

/// An exchange that is reset, broken or refused takes none of the others with it.
#[test]
fn one_exchange_ends_without_the_others() {
    let mut world = echo();
    let app = &mut world.client.app;
    app.get(1, 3, "/never");
    app.get(3, 3, "/broken");
    app.ask(5, 3, (true, "POST /refused HTTP/1.1\r\nHost: a\r\n\r\n"));
    app.ask(7, 3, (true, "POST /long HTTP/1.1\r\nHost: a\r\n\r\n"));
    for _ in 0..150 {
        app.send(Kind::Body, 7, &[7; 10_000]);
        app.room(7, 10_000);
    }
    app.send(Kind::Reset, 1, b"");
    app.get(9, 3, "/whole");
    world.until("the last", |client| client.end(9).is_some() && client.end(5).is_some() && client.has(Kind::Reset, 7));
    let app = &world.client.app;
    assert!(app.has(Kind::Reset, 3) && app.end(3).is_none());
    assert_eq!((app.status(5), app.status(9)), (Some(413), Some(200)));
    assert!(!app.has(Kind::Head, 1) && app.end(1).is_none());
    let mut gone = world.server.app.handler().gone.clone();
    gone.sort_unstable();
    assert_eq!(gone, ["left", "too long"]);
    // Who ends may still be answered, and who leaves takes the rest along.
    world.client.app.get(11, 3, "/never");
    world.settle();
    world.client.app.ends = true;
    world.settle();
    assert_eq!(world.server.app.handler().gone.len(), 2);
    let Silo { app, stack, .. } = &mut world.client;
    stack.abort(app.conn.expect("a connection"));
    world.settle();
    assert_eq!(world.server.app.handler().gone[2..], ["left"]);
    assert_eq!(world.server.app.counted().connections_open, 0);
}

/// Each exchange has its own times: who waits for too long, and whose client takes nothing, is ended,
/// while others go on; and a connection without any is closed, and told so.
#[test]
fn each_exchange_has_times_of_its_own() {
    let mut world = echo();
    let app = &mut world.client.app;
    app.get(1, 3, "/never");
    app.ask(3, 3, (true, "POST /stuck HTTP/1.1\r\nHost: a\r\n\r\n"));
    for _ in 0..10 {
        app.send(Kind::Body, 3, &[3; 10_000]);
    }
    app.ask(5, 3, (true, "POST /slow HTTP/1.1\r\nHost: a\r\n\r\n"));
    world.settle();
    assert_eq!(world.client.app.body(3).len(), WINDOW.0);
    for second in 0..100 {
        world.client.app.send(Kind::Body, 5, b"more");
        world.client.app.room(5, 4);
        world.pass(1);
        assert!(second > 50 || world.server.app.handler().late == 0, "after {second} s");
    }
    let app = &mut world.client.app;
    assert!(app.has(Kind::Reset, 1) && app.has(Kind::Reset, 3) && !app.has(Kind::Reset, 5));
    assert_eq!(app.body(5).len(), 400);
    app.send(Kind::End, 5, b"");
    world.until("the slow one", |client| client.end(5).is_some());
    let counted = *world.server.app.counted();
    assert_eq!((counted.timeouts_file, counted.timeouts_send), (1, 1));
    assert_eq!((world.server.app.handler().late, counted.timeouts_keep_alive), (1, 0));
    world.pass(60);
    assert!(!world.client.app.has(Kind::GoAway, 5), "it may ask again");
    world.pass(10);
    world.until("the word", |client| client.has(Kind::GoAway, 5));
    assert_eq!(world.server.app.counted().timeouts_keep_alive, 1);
}

/// A drain announces itself, answers what has begun, and begins nothing more.
#[test]
fn a_drain_ends_what_has_begun_and_begins_nothing() {
    let folder = Folder::new("drain");
    let mut world = World::new(folder.server(), NAME);
    world.client.app.get(1, 3, "/large");
    world.until("some of it", |client| client.body(1).len() == WINDOW.0);
    world.drain();
    world.until("the word", |client| client.has(Kind::GoAway, 1));
    world.client.app.get(3, 3, "/small.txt");
    world.until("its refusal", |client| client.has(Kind::Reset, 3));
    world.client.app.room(1, LARGE);
    world.until("all of it", |client| client.end(1).is_some());
    assert!(world.client.app.body(1) == large());
    world.until("the end", |client| {
        client.ends = true;
        client.closed
    });
    assert!(world.drain());
}
