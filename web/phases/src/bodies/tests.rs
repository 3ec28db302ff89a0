//! Bodies on their way from a client that sends them in any pieces to what echoes them.

use crate::{Engine, EngineParts, NewProgram};
use access_log::LogPlace;
use app::ConnId;
use configuration::logging::{ErrorLogUse, LogTarget};
use configuration::program::{Block, BodyFiles, BodyRules, ContentRules, ListenerRules, Program, TempFolderRules};
use configuration::program::{BlockId, ServerId, VirtualServer};
use configuration::proxying::ProxyPass;
use core::time::Duration;
use exchange::Names;
use exchange::{
    About, BodyCut, ExchangeId, ExchangeSettings, Gone, Handler, HeadWriter, Piece, Ready, Replies, Reply, ReplyEnd,
    ReplyFlow, RequestBody, Stop, Totals,
};
use features::{ErrorLevel, Value};
use files::{Directory, FileLimits, ReaderKind};
use h1::Framing;
use h1::server::{RequestEvent, RequestLimits, RequestReader};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use semantics::{Request, Status};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Time;

/// How long a helper thread may take for anything.
const PATIENCE: i64 = 60;

const ID: ExchangeId = ExchangeId::of_connection(ConnId::new(0, 1), 0);

/// What a carrier knows of the one connection there is.
#[derive(Debug, Default)]
struct Carried {
    asked: bool,
    mark: Option<u32>,
    resumed: bool,
    /// Bytes that the body that is read may have.
    reads: Option<u64>,
    received: u64,
    answers: Vec<(u16, Vec<u8>)>,
    /// The exchange is over.
    over: bool,
    hung_up: bool,
    last: bool,
}

/// None here.
impl exchange::Upstreams for Carried {}

impl Replies for Carried {
    fn now(&self) -> Time {
        Time::from_millis(5_000)
    }
    fn reply(&mut self, _: ExchangeId, _: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        let mut bytes = Vec::new();
        for piece in body {
            match piece {
                Piece::Bytes(some) => bytes.extend_from_slice(some),
                Piece::Body(body, (start, end)) => {
                    bytes.extend_from_slice(&body.as_slice()[*start as usize..*end as usize]);
                }
                Piece::File(..) => panic!("a whole answer has no files"),
            }
        }
        self.answers.push((reply.status.code(), bytes));
        self.over = true;
        1
    }
    fn reply_ready(&mut self, _: ExchangeId, _: &Request<'_>, _: &Ready) {
        panic!("nothing is ready");
    }
    fn begin(&mut self, _: ExchangeId, _: &Request<'_>, _: &Reply<'_>, _: ReplyEnd) -> u64 {
        panic!("answers are whole");
    }
    fn body(&mut self, _: ExchangeId, _: Piece<'_>) -> bool {
        false
    }
    fn take_back(&mut self, _: ExchangeId, _: usize) -> usize {
        0
    }
    fn finish(&mut self, _: ExchangeId, _: &[u8]) {}
    fn pace(&mut self, _: ExchangeId, _: u64) -> bool {
        false
    }
    fn end(&mut self, _: ExchangeId) {}
    fn stop(&mut self, _: ExchangeId, how: Stop) {
        (self.hung_up, self.over) = (self.hung_up || how == Stop::HangUp, self.over || how == Stop::HangUp);
    }
    fn read(&mut self, _: ExchangeId, most: Option<u64>) {
        (self.reads, self.resumed) = (most.or(self.reads), true);
    }
    fn about(&self, _: ExchangeId) -> About {
        About { goes_on: true, ..About::default() }
    }
    fn totals(&self) -> Totals {
        Totals::default()
    }
    fn flow(&self, _: ExchangeId) -> ReplyFlow {
        ReplyFlow { received: self.received, room: ReplyFlow::UNBOUNDED, ..ReplyFlow::default() }
    }
    fn set(&mut self, _: ExchangeId, settings: &ExchangeSettings) {
        (self.mark, self.last) = (settings.mark, self.last || settings.last);
    }
    fn mark(&self, _: ExchangeId) -> Option<u32> {
        self.mark
    }
}

/// An engine that echoes, and one client.
struct World {
    engine: Engine,
    event: Arc<OwnedFd>,
    carried: Carried,
    reader: RequestReader,
    /// What the client sent and nobody took.
    held: Vec<u8>,
    folder: PathBuf,
}

struct Rules {
    body: BodyRules,
    most: u64,
    streamed: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { body: BodyRules { buffer: 100, ..BodyRules::default() }, most: 1 << 20, streamed: false }
    }
}

impl World {
    fn new(name: &str, rules: Rules) -> Self {
        super::super::echo::ANSWERS.set(Some(rules.streamed));
        let folder = std::env::temp_dir().join(format!("nearside-bodies-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("temp")).expect("a folder");
        let file =
            |name: &str| LogTarget { place: LogPlace::File { path: folder.join(name), buffering: None }, path: None };
        let block = Block {
            // Bodies are read for it.
            content: ContentRules::Proxy(Arc::new(ProxyPass::Computed { url: Value::default(), location: None })),
            body: rules.body,
            body_max: rules.most,
            error_logs: [ErrorLogUse { log: 0, level: ErrorLevel::INFO }].into(),
            ..Block::default()
        };
        let server = VirtualServer {
            name: Box::default(),
            block: BlockId(0),
            security: None,
            certificates: None,
            verifies: None,
            locations: configuration::Locations::default(),
            merge_slashes: true,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            head: configuration::program::HeadRules::default(),
        };
        let listener = ListenerRules {
            address: None,
            path: None,
            names: Names::default(),
            servers: vec![ServerId(0)],
            proxy_protocol: false,
            http2: None,
            tls: false,
        };
        let program = Program {
            listeners: vec![listener],
            servers: vec![server],
            blocks: vec![block],
            logs: vec![file("error.log")],
            temp_folders: vec![TempFolderRules { path: folder.join("temp"), levels: [1, 2, 0] }],
            ..Program::default()
        };
        let directory = Directory { reader: ReaderKind::Inline, ..Directory::new("/") };
        let program = NewProgram::prepare(Arc::new(program), &[]).expect("a folder that is there");
        let parts = EngineParts::new(program, &directory, &[]).expect("a root");
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event"));
        let limits = FileLimits { streams: 1, stream_bytes: 1 << 20, stream_window: 1 << 20, waiting: 1 };
        let engine = Engine::new(parts, limits, &HeadWriter::nothing(), &event);
        let carried = Carried::default();
        Self { engine, event, carried, reader: RequestReader::new(), held: Vec::new(), folder }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        self.offer();
    }

    /// As a carrier does.
    fn offer(&mut self) {
        let limits = RequestLimits::default();
        loop {
            if !self.carried.over && self.reader.waiting() != h1::server::Waiting::Body && self.carried.asked {
                // The next one waits.
                return;
            }
            self.carried.resumed = false;
            let held = self.held.clone();
            let (consumed, left) = match self.reader.on_bytes(&held, &limits) {
                RequestEvent::NeedMore => return,
                RequestEvent::Request { request, transfer, consumed } => {
                    let body = match transfer.framing() {
                        Framing::None => RequestBody::None,
                        Framing::Length(length) => RequestBody::Length(length),
                        _ => RequestBody::Unknown,
                    };
                    self.carried = Carried {
                        asked: true,
                        answers: core::mem::take(&mut self.carried.answers),
                        ..Carried::default()
                    };
                    self.engine.on_request(&mut self.carried, ID, &request, body);
                    (consumed, 0)
                }
                RequestEvent::Body { consumed, .. } if self.carried.over => (consumed, 0),
                RequestEvent::Body { bytes, consumed } => {
                    let taken = self.engine.on_body(&mut self.carried, ID, bytes);
                    let left = bytes.len() - taken;
                    if left > 0 {
                        self.reader.put_back(left as u64);
                    }
                    (consumed - left, left)
                }
                RequestEvent::EndOfBody { consumed } => {
                    self.carried.received += consumed as u64;
                    if !self.carried.over {
                        self.engine.on_body_end(&mut self.carried, ID, b"");
                    }
                    self.held.drain(..consumed);
                    continue;
                }
                RequestEvent::Reject { status, .. } => {
                    self.cut(if status == Status::BAD_REQUEST { BodyCut::Malformed } else { BodyCut::TooLong });
                    return;
                }
                RequestEvent::LineFeeds { .. } | RequestEvent::Ignored { .. } => return,
            };
            self.carried.received += consumed as u64;
            self.held.drain(..consumed);
            if left > 0 && !self.carried.resumed {
                return;
            }
        }
    }

    fn cut(&mut self, why: BodyCut) {
        if !self.carried.over && !self.engine.on_body_cut(&mut self.carried, ID, why) {
            self.engine.on_gone(ID, self.carried.mark, Gone::Cut);
        }
    }

    /// Turns until nothing is under way for the one request.
    fn settle(&mut self) {
        while !self.carried.over {
            let mut ready = [PollFd::new(&*self.event, PollFlags::IN)];
            let patience = rustix::event::Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
            assert_eq!(poll(&mut ready, Some(&patience)), Ok(1), "a helper is at work");
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.engine.on_turn(&mut self.carried);
        if self.carried.resumed {
            self.offer();
        }
    }

    fn answers(&mut self) -> Vec<(u16, Vec<u8>)> {
        core::mem::take(&mut self.carried.answers)
    }

    /// Bytes that are held, and files that are there.
    fn is_empty(&self) -> bool {
        let held = self.engine.loaded.bodies.borrow().as_ref().expect("a store").held();
        held == (0, 0)
    }

    /// What was being written is over, and nothing is held.
    fn let_go(&mut self) {
        for _ in 0..PATIENCE * 100 {
            if self.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
            self.turn();
        }
        panic!("something is held");
    }

    /// What the error log says, once its writer has written `lines` lines.
    fn told(&mut self, lines: usize) -> String {
        for _ in 0..PATIENCE * 100 {
            self.engine.write_logs(Time::from_millis(1_000_000));
            let told = std::fs::read_to_string(self.folder.join("error.log")).unwrap_or_default();
            if told.lines().count() >= lines {
                return told;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing is told");
    }

    fn files(&self) -> Vec<PathBuf> {
        fn below(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).expect("there").flatten() {
                match entry.file_type().expect("known").is_dir() {
                    true => below(&entry.path(), found),
                    false => found.push(entry.path()),
                }
            }
        }
        let mut found = Vec::new();
        below(&self.folder.join("temp"), &mut found);
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn post(body: &[u8]) -> Vec<u8> {
    [format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(size) {
        out.extend_from_slice(format!("{:x};a=b\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(&[chunk, b"\r\n"].concat());
    }
    out.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
    out
}

/// In memory up to the buffer (a quarter more where the length is told), in a file
/// beyond; whole or as it comes; with another request right behind.
#[test]
fn what_is_sent_is_read_whatever_its_length_and_pieces() {
    for streamed in [false, true] {
        let mut world = World::new(&format!("lengths-{streamed}"), Rules { streamed, ..Rules::default() });
        for length in [0, 1, 99, 100, 101, 124, 125, 126, 200, 201, 1_000, 6_000, 20_000] {
            let body = bytes(length);
            for stream in [post(&body), chunked(&body, 64), chunked(&body, 1_000)] {
                for piece in [1, 7, 100, usize::MAX] {
                    if piece == 1 && length > 1_000 {
                        continue;
                    }
                    let both = [stream.as_slice(), &post(b"next")].concat();
                    both.chunks(piece.min(both.len())).for_each(|piece| world.send(piece));
                    world.settle();
                    let mut answers = world.answers();
                    while answers.len() < 2 {
                        world.offer();
                        world.settle();
                        answers.extend(world.answers());
                    }
                    assert!(answers[0] == (200, body.clone()), "{length} in pieces of {piece}");
                    assert_eq!(answers[1], (200, b"next".to_vec()));
                }
            }
        }
        assert!(world.files().is_empty() && world.held.is_empty());
        world.let_go();
    }
}

/// Told by its length before it comes, by a chunk's, or found out as it comes.
#[test]
fn what_is_too_long_is_answered_413_and_nothing_follows() {
    for streamed in [false, true] {
        let mut world = World::new(&format!("long-{streamed}"), Rules { most: 1_000, streamed, ..Rules::default() });
        let body = bytes(1_001);
        world.send(&post(&bytes(1_000)));
        world.settle();
        assert_eq!(world.answers(), [(200, bytes(1_000))]);
        for (at, stream) in [post(&body), chunked(&body, 10_000), chunked(&body, 300)].iter().enumerate() {
            world.carried.last = false;
            world.send(stream);
            world.settle();
            let answers = world.answers();
            assert_eq!((answers.len(), answers[0].0, world.carried.last), (1, 413, true), "{at}");
            // As a carrier does with one that is the last.
            (world.reader, world.held) = (RequestReader::new(), Vec::new());
        }
        world.let_go();
        let told = world.told(3);
        assert!(told.contains("client intended to send too large body: 1001 bytes, client: "), "{told}");
        assert!(told.contains("client intended to send too large chunked body: "), "{told}");
    }
}

/// A client that leaves at any byte leaves no memory and no file; what it asked for is
/// over without an answer.
#[test]
fn a_client_that_leaves_leaves_nothing() {
    for streamed in [false, true] {
        let mut world = World::new(&format!("leaves-{streamed}"), Rules { streamed, ..Rules::default() });
        let body = bytes(400);
        for stream in [post(&body), chunked(&body, 90)] {
            let head = stream.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            for end in (head..stream.len()).step_by(3) {
                for orderly in [true, false] {
                    world.send(&stream[..end]);
                    if end % 2 == 0 {
                        world.turn();
                    }
                    if orderly {
                        world.cut(BodyCut::Ended);
                        assert!(world.carried.hung_up && world.answers().is_empty(), "{end}");
                    } else {
                        world.engine.on_gone(ID, world.carried.mark, Gone::Cut);
                    }
                    (world.reader, world.held, world.carried) = (RequestReader::new(), Vec::new(), Carried::default());
                }
            }
        }
        world.let_go();
        assert!(world.files().is_empty());
    }
}

#[test]
fn what_does_not_come_or_is_no_body_ends_its_request() {
    let mut world = World::new("broken", Rules::default());
    let head = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    world.send(head);
    world.cut(BodyCut::Late);
    assert!(world.carried.hung_up && world.answers().is_empty(), "nobody waits for an answer");
    (world.reader, world.held, world.carried) = (RequestReader::new(), Vec::new(), Carried::default());
    world.send(&[&head[..], b"no chunk\r\n"].concat());
    assert_eq!((world.answers()[0].0, world.carried.last), (400, true));
    assert!(world.told(1).contains("[error]") && world.told(1).contains("client sent invalid chunked body, client: "));
    assert!(world.is_empty());
}

/// Its folder is gone, as where a disk is full: an error for the client, a line for the
/// operator, and the next request is answered.
#[test]
fn a_body_without_a_place_is_answered_500() {
    for in_file in [BodyFiles::Long, BodyFiles::Removed] {
        let body = BodyRules { in_file, ..Rules::default().body };
        let mut world = World::new(&format!("place-{in_file:?}"), Rules { body, ..Rules::default() });
        std::fs::remove_dir_all(world.folder.join("temp")).expect("removed");
        for stream in [post(&bytes(1_000)), chunked(&bytes(101), 101)] {
            world.send(&stream);
            world.settle();
            assert_eq!((world.answers()[0].0, world.carried.last), (500, true));
            (world.reader, world.held) = (RequestReader::new(), Vec::new());
        }
        let told = world.told(2);
        assert!(told.contains(" [crit] ") && told.contains("mkdir() \""), "{told}");
        assert!(told.contains("failed (2: No such file or directory), client: "), "{told}");
        world.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(world.answers(), [(200, Vec::new())]);
        assert!(world.is_empty());
    }
}

/// Files that stay, and files that go with their requests, whatever they are as long.
#[test]
fn bodies_are_in_files_where_they_are_to_be() {
    for (in_file, left) in [(BodyFiles::Kept, 4), (BodyFiles::Removed, 0)] {
        let body = BodyRules { in_file, ..Rules::default().body };
        let mut world = World::new(&format!("filed-{in_file:?}"), Rules { body, ..Rules::default() });
        for length in [0, 1, 100, 1_000] {
            world.send(&post(&bytes(length)));
            world.settle();
            assert_eq!(world.answers(), [(200, bytes(length))]);
        }
        assert!(world.told(3).lines().all(|line| line.contains("[notice]") && line.contains("to a temporary file")));
        for _ in 0..PATIENCE * 100 {
            if world.files().len() == left {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut lengths: Vec<u64> = world.files().iter().map(|at| at.metadata().expect("there").len()).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, if left == 0 { vec![] } else { vec![0, 1, 100, 1_000] });
        assert!(world.is_empty());
    }
}
