//! Bytes that go from one connection to another without the application.

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{PATIENCE, client, is_asleep, listen, wait_for};
use app::{Closed, ConnId, Opened};
use sockets::{Config, Model};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

const LONG: usize = 20 << 20;

fn byte(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]
}

fn bytes(range: core::ops::Range<usize>) -> Vec<u8> {
    range.map(byte).collect()
}

/// A worker with two connections: whoever sends, and whoever is sent to.
struct Stage {
    theatre: Theatre,
    source: TcpStream,
    sink: TcpStream,
    from: ConnId,
    to: ConnId,
}

impl Stage {
    fn new() -> Self {
        let (listeners, address) = listen(Model::Reuseport, 1);
        let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
        let source = client(address);
        let from = theatre.opened();
        let sink = client(address);
        let to = theatre.opened();
        sink.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { theatre, source, sink, from, to }
    }

    fn pass(&self, len: u64) -> bool {
        self.theatre.tell(Do::Pass(self.from, self.to, len));
        match self.theatre.next() {
            Seen::Passes(begun) => begun,
            other => panic!("whether it begins, not {other:?}"),
        }
    }

    /// Until so many bytes were passed on. What is seen instead is the answer.
    fn passed(&self, len: usize) -> Option<Seen> {
        let mut passed = 0;
        while passed < len as u64 {
            match self.theatre.next() {
                Seen::Passed(id, some) => {
                    assert_eq!(id, self.from);
                    passed += some;
                }
                Seen::Sent(_) => {}
                other => return Some(other),
            }
        }
        assert_eq!(passed, len as u64);
        None
    }

    fn next(&self) -> Seen {
        loop {
            match self.theatre.next() {
                Seen::Passed(..) | Seen::Sent(_) => {}
                seen => return seen,
            }
        }
    }
}

fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    stream.read_exact(&mut all).unwrap();
    all
}

/// What was left goes first, then what comes, and what follows is the application's: as
/// often as it likes.
#[test]
fn so_many_bytes_go_and_no_more() {
    let mut stage = Stage::new();
    stage.theatre.tell(Do::Take(3));
    // So that it was heard.
    let _ = stage.theatre.counters();
    stage.source.write_all(b"onetwo").unwrap();
    assert_eq!(stage.theatre.next(), Seen::Data(stage.from, b"one".to_vec()));
    let [long, short] = [LONG as u64, 1].map(|len| Do::Pass(stage.from, stage.to, len));
    stage.theatre.tell(Do::All(vec![long, short]));
    let begun = [stage.theatre.next(), stage.theatre.next()];
    assert_eq!(begun, [Seen::Passes(true), Seen::Passes(false)], "one at a time");
    let mut source = stage.source.try_clone().unwrap();
    let writer = thread::spawn(move || source.write_all(&[&bytes(3..LONG), &b"end"[..]].concat()).unwrap());
    let got = read(&mut stage.sink, LONG);
    assert!(got.starts_with(b"two") && got[3..] == bytes(3..LONG)[..]);
    writer.join().unwrap();
    assert_eq!(stage.passed(LONG), None);
    assert_eq!(stage.theatre.next(), Seen::Data(stage.from, b"end".to_vec()));
    for again in 0..20_u8 {
        assert!(stage.pass(5));
        stage.source.write_all(&[again; 6]).unwrap();
        assert_eq!(read(&mut stage.sink, 5), [again; 5]);
        assert_eq!(stage.passed(5), None);
        assert_eq!(stage.theatre.next(), Seen::Data(stage.from, vec![again]));
    }
    let counters = stage.theatre.close();
    assert_eq!(counters.passed_bytes, (LONG + 100) as u64);
}

/// Behind what is queued; the one who takes it slowly stops the other, nothing grows
/// meanwhile, and nobody is awake.
#[test]
fn a_slow_reader_stops_the_sender() {
    let mut stage = Stage::new();
    let head = bytes(0..5 << 20);
    stage.theatre.tell(Do::All(vec![Do::Send(stage.to, head.clone()), Do::Pass(stage.from, stage.to, LONG as u64)]));
    assert_eq!(stage.theatre.next(), Seen::Passes(true));
    let mut source = stage.source.try_clone().unwrap();
    let writer = thread::spawn(move || source.write_all(&bytes(0..LONG)).unwrap());
    wait_for("the worker to sleep", || {
        let (before, began) = (stage.theatre.counters().waits, cpu::Clock.now());
        thread::sleep(Duration::from_millis(20));
        is_asleep(stage.theatre.counters().waits - before, cpu::Clock.now().since(began))
    });
    assert_eq!(read(&mut stage.sink, head.len()), head);
    stage.sink.set_nonblocking(false).unwrap();
    let mut at = 0;
    while at < LONG {
        let mut some = vec![0; 300_000];
        let n = stage.sink.read(&mut some).unwrap();
        assert!(n > 0 && some[..n] == bytes(at..at + n)[..], "at {at}");
        at += n;
        if at < 1 << 20 {
            stage.theatre.tell(Do::Unsent(stage.to));
            let unsent = loop {
                match stage.theatre.next() {
                    Seen::Unsent(unsent) => break unsent,
                    Seen::Passed(..) | Seen::Sent(_) => {}
                    other => panic!("what is unsent, not {other:?}"),
                }
            };
            assert!(unsent <= 6 << 20, "{unsent}");
        }
    }
    writer.join().unwrap();
    let _ = stage.theatre.close();
}

/// One who ends early is heard to the end: the application is told what went, and then
/// of the end.
#[test]
fn an_end_before_the_last_byte_is_told() {
    let mut stage = Stage::new();
    assert!(stage.pass(u64::MAX));
    stage.source.write_all(&bytes(0..100_000)).unwrap();
    stage.source.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&mut stage.sink, 100_000), bytes(0..100_000));
    assert_eq!(stage.passed(100_000), None);
    assert_eq!(stage.theatre.next(), Seen::End(stage.from, 0));
    // Both are the application's again.
    assert!(!stage.pass(1), "nothing more can come");
    stage.theatre.tell(Do::Send(stage.to, b"so far".to_vec()));
    assert_eq!(read(&mut stage.sink, 6), b"so far");
    let _ = stage.theatre.close();
}

/// Who is sent to goes away: the rest is the application's.
#[test]
fn a_reader_that_goes_leaves_the_rest_to_the_application() {
    let mut stage = Stage::new();
    assert!(stage.pass(u64::MAX));
    stage.source.write_all(b"some").unwrap();
    assert_eq!(read(&mut stage.sink, 4), b"some");
    // With bytes unread it resets.
    stage.source.write_all(b"more").unwrap();
    stage.sink.set_read_timeout(Some(PATIENCE)).unwrap();
    wait_for("the rest", || stage.sink.peek(&mut [0; 8]).unwrap() == 4);
    let Stage { theatre, mut source, sink, from, to } = stage;
    drop(sink);
    let mut closed = false;
    let began = cpu::Clock.now();
    loop {
        assert!(cpu::Clock.now().since(began) < PATIENCE);
        source.write_all(b"x").unwrap();
        match theatre.try_next() {
            Some(Seen::Close(id, why)) => {
                assert_eq!((id, why), (to, Closed::Reset));
                closed = true;
            }
            Some(Seen::Data(id, data)) => {
                assert!(closed && id == from && data.iter().all(|byte| *byte == b'x'), "{data:?}");
                break;
            }
            Some(Seen::Passed(..) | Seen::Sent(_) | Seen::End(..)) | None => thread::sleep(Duration::from_millis(1)),
            other => panic!("{other:?}"),
        }
    }
    let _ = theatre.close();
}

/// The sender is reset, or ended by the application: whoever is sent to stays.
#[test]
fn a_sender_that_goes_leaves_the_reader() {
    for reset in [true, false] {
        let mut stage = Stage::new();
        assert!(stage.pass(u64::MAX));
        stage.source.write_all(b"some").unwrap();
        assert_eq!(read(&mut stage.sink, 4), b"some");
        assert_eq!(stage.passed(4), None);
        if reset {
            rustix::net::sockopt::set_socket_linger(&stage.source, Some(Duration::ZERO)).unwrap();
            let (source, other) = (stage.source, stage.sink.try_clone().unwrap());
            drop(source);
            stage.source = other;
        } else {
            stage.theatre.tell(Do::Abort(stage.from));
        }
        let why = if reset { Closed::Reset } else { Closed::Aborted };
        assert_eq!(stage.next(), Seen::Close(stage.from, why));
        stage.theatre.tell(Do::Send(stage.to, b"on".to_vec()));
        assert_eq!(read(&mut stage.sink, 2), b"on");
        let _ = stage.theatre.close();
    }
}

/// From a Unix socket, and many at once: some pass, and others are refused.
#[test]
fn from_a_path_and_by_many() {
    let folder = std::env::temp_dir().join(format!("near-passing-{}-{}", std::process::id(), crate::BESIDE));
    let _ = std::fs::remove_file(&folder);
    let upstream = UnixListener::bind(&folder).unwrap();
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut pairs = Vec::new();
    let mut begun = 0;
    for _ in 0..100 {
        let sink = client(address);
        let to = theatre.opened();
        theatre.tell(Do::ConnectUnix(folder.clone()));
        let source = upstream.accept().unwrap().0;
        let mut from = None;
        while from.is_none() {
            match theatre.next() {
                Seen::Open(id, Opened::Connected) => from = Some(id),
                Seen::Connect(outcome) => assert!(outcome.is_ok()),
                other => panic!("a connection, not {other:?}"),
            }
        }
        let from = from.unwrap();
        theatre.tell(Do::Pass(from, to, 200_000));
        match theatre.next() {
            Seen::Passes(true) => {
                begun += 1;
                pairs.push((source, sink, from));
            }
            Seen::Passes(false) => break,
            other => panic!("whether it begins, not {other:?}"),
        }
    }
    assert!((1..=64).contains(&begun), "{begun}");
    let writers: Vec<_> = pairs.iter().map(|(source, ..)| source.try_clone().unwrap()).collect();
    let writers = writers.into_iter().map(|mut to| thread::spawn(move || to.write_all(&bytes(0..200_000)).unwrap()));
    let writers: Vec<_> = writers.collect();
    for (_, sink, _) in &mut pairs {
        assert!(read(sink, 200_000) == bytes(0..200_000));
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let counters = theatre.close();
    assert_eq!(counters.passed_bytes, begun * 200_000);
    std::fs::remove_file(folder).unwrap();
}
