//! The program's handlers, carried by another protocol than HTTP/1.1: lines with paths are
//! asked, many at a time on one connection, and each is answered with a line of status and
//! length, and the body. So no handler knows who carries it.

use app::Wake;
use exchange::{
    ExchangeId, ExchangeSettings, ExchangeSlots, Gone, Handler, HeadWriter, Page, Piece, Ready, Replies, Reply,
    ReplyEnd, ReplyFlow, RequestBody, Stop,
};
use files::{Directory, ReaderKind};
use semantics::date::HttpDate;
use semantics::{Method, Offsets, Request, Status};
use site::{Config, Content, Making, Respond, SiteHandler};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Time;

const SECOND: u64 = 1_445_412_480;

/// What its peer takes of each answer in a turn.
const TAKEN: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
struct Lines {
    ids: ExchangeSlots,
    /// By place.
    asked: Vec<Asked>,
    /// What was answered, in the order in which it was over.
    over: Vec<(ExchangeId, String, Vec<u8>)>,
}

#[derive(Clone, Debug, Default)]
struct Asked {
    mark: Option<u32>,
    /// The line, once it is answered.
    line: Option<String>,
    out: Vec<u8>,
    unsent: usize,
}

impl Lines {
    fn get(&mut self, id: ExchangeId) -> Option<&mut Asked> {
        let at = self.ids.find(id)?;
        self.asked.get_mut(at)
    }

    fn begin_exchange(&mut self) -> ExchangeId {
        let id = self.ids.begin().expect("a slot");
        let at = self.ids.find(id).expect("its place");
        self.asked.resize(self.asked.len().max(at + 1), Asked::default());
        self.asked[at] = Asked::default();
        id
    }
}

/// None here.
impl exchange::Upstreams for Lines {}

impl Replies for Lines {
    fn now(&self) -> Time {
        Time::from_millis(5000)
    }
    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        self.begin(id, request, reply, ReplyEnd::Length);
        for piece in body {
            self.body(id, *piece);
        }
        self.end(id);
        1
    }
    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        // Of what HTTP/1.1 has ready, the content alone.
        let (body, start) = ready.content();
        let reply =
            Reply { status: Status::OK, length: Some(u64::from(body.len() - start)), fields: b"", reason: None };
        self.reply(id, request, &reply, &[Piece::Body(body, (start, body.len()))]);
    }
    fn begin(&mut self, id: ExchangeId, _request: &Request<'_>, reply: &Reply<'_>, _end: ReplyEnd) -> u64 {
        if let Some(asked) = self.get(id) {
            let line = format!("{} {}", reply.status.code(), reply.length.unwrap_or(0));
            assert!(asked.line.replace(line).is_none(), "one answer to one request");
        }
        1
    }
    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Body(body, (start, end)) => &body.as_slice()[start as usize..end as usize],
            Piece::File(..) => return false,
        };
        if let Some(asked) = self.get(id) {
            assert!(asked.line.is_some());
            asked.out.extend_from_slice(bytes);
            asked.unsent += bytes.len();
        }
        true
    }
    fn take_back(&mut self, _id: ExchangeId, _most: usize) -> usize {
        0
    }
    fn finish(&mut self, _id: ExchangeId, _trailers: &[u8]) {}
    fn pace(&mut self, _: ExchangeId, _: u64) -> bool {
        false
    }
    fn end(&mut self, id: ExchangeId) {
        if let Some(Asked { line: Some(line), out, .. }) = self.get(id).map(core::mem::take) {
            self.over.push((id, line, out));
            self.ids.end(id);
        }
    }
    fn stop(&mut self, id: ExchangeId, _how: Stop) {
        assert!(!self.ids.end(id), "nothing breaks here");
    }
    fn read(&mut self, _id: ExchangeId, _most: Option<u64>) {}
    fn about(&self, _id: ExchangeId) -> exchange::About {
        exchange::About::default()
    }
    fn totals(&self) -> exchange::Totals {
        exchange::Totals::default()
    }
    fn flow(&self, id: ExchangeId) -> ReplyFlow {
        let Some(Asked { out, unsent, .. }) = self.ids.find(id).map(|at| &self.asked[at]) else {
            return ReplyFlow::default();
        };
        let taken = (out.len() - unsent) as u32;
        ReplyFlow { unsent: *unsent, room: ReplyFlow::UNBOUNDED, ahead: 0, taken, received: 0 }
    }
    fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings) {
        if let Some(asked) = self.get(id) {
            asked.mark = settings.mark;
        }
    }
    fn mark(&self, id: ExchangeId) -> Option<u32> {
        self.asked[self.ids.find(id)?].mark
    }
}

/// A handler, and what asks it.
struct World {
    handler: SiteHandler,
    lines: Lines,
}

impl World {
    fn new(content: &Content) -> Self {
        let heads = HeadWriter::new(0, |out, meta, date| {
            out.extend_from_slice(date.as_bytes());
            out.extend_from_slice(meta.content_type.as_bytes());
        });
        let event = Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("an event"));
        let limits = Config::respond(Respond::Size(0)).file_limits();
        let making = Making { heads: &heads, event: &event, limits, latency: None, work: None };
        let mut handler = SiteHandler::new(content, &making, &[]).expect("what it serves");
        let lines = Lines { ids: ExchangeSlots::carried(), asked: Vec::new(), over: Vec::new() };
        handler.on_second(SECOND, &HttpDate::from_unix(SECOND), lines.now());
        Self { handler, lines }
    }

    /// Asks for a path: its answer may come later.
    fn ask(&mut self, path: &str) -> ExchangeId {
        // The image of a request that was never HTTP/1.1.
        let image = format!("GET {path}\r\n\r\n").into_bytes();
        let end = 4 + path.len() as u16;
        let mut at = Offsets::NONE;
        (at.method, at.path_start, at.path_end, at.target_end, at.fields_start) = (Method::Get, 4, end, end, end + 2);
        let id = self.lines.begin_exchange();
        self.handler.on_request(&mut self.lines, id, &Request::new(&image, at), RequestBody::None);
        id
    }

    /// The answers to all of these, in their order.
    fn answers(&mut self, all: &[ExchangeId]) -> Vec<(ExchangeId, String, Vec<u8>)> {
        while !self.lines.ids.is_empty() {
            let wake = self.handler.on_turn(&mut self.lines);
            let mut took = false;
            for id in all {
                let taken = self.lines.flow(*id).unsent.min(TAKEN);
                if let Some(asked) = self.lines.get(*id).filter(|_| taken > 0) {
                    asked.unsent -= taken;
                    self.handler.on_room(&mut self.lines, *id);
                    took = true;
                }
            }
            assert!(took || wake == Wake::Now || self.lines.ids.is_empty(), "the reader is at work");
        }
        assert_eq!(self.handler.working(), 0);
        core::mem::take(&mut self.lines.over)
    }

    fn answer(&mut self, path: &str) -> (String, Vec<u8>) {
        let id = self.ask(path);
        let mut all = self.answers(&[id]);
        let (answered, line, body) = all.remove(0);
        assert!(answered == id && all.is_empty(), "one answer");
        (line, body)
    }
}

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, large: &[u8]) -> Self {
        let root = std::env::temp_dir().join(format!("nearside-site-lines-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("folder")).expect("a folder");
        std::fs::write(root.join("small"), "small").expect("a file");
        std::fs::write(root.join("large"), large).expect("a file");
        Self(root)
    }

    fn content(&self) -> Content {
        Content::Directory(Directory { reader: ReaderKind::Inline, ..Directory::new(&*self.0 as &Path) })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn large() -> Vec<u8> {
    (0..3 << 20).map(|at: u32| at as u8).collect()
}

/// What a status is answered with.
fn page(status: Status) -> (String, Vec<u8>) {
    let page = Page::new(status, b"");
    let [Piece::Bytes(text)] = page.body() else { panic!("a page is text") };
    (format!("{} {}", status.code(), page.length()), text.to_vec())
}

#[test]
fn handlers_do_not_know_who_carries_them() {
    let large = large();
    let folder = Folder::new("each", &large);
    let mut files = World::new(&folder.content());
    for _ in 0..2 {
        assert_eq!(files.answer("/small"), ("200 5".into(), b"small".to_vec()));
        assert_eq!(files.answer("/none"), page(Status::NOT_FOUND));
        assert_eq!(files.answer("/folder"), page(Status::MOVED_PERMANENTLY));
        assert_eq!(files.answer("/../small"), page(Status::BAD_REQUEST));
        let (line, body) = files.answer("/large");
        assert_eq!((line.as_str(), body == large), ("200 3145728", true));
    }
    let mut fixed = World::new(&Content::Respond(Respond::Text("ok".into())));
    assert_eq!(fixed.answer("/any"), ("200 2".into(), b"ok".to_vec()));
}

/// Many are under way at once, each with an answer of its own: one that is asked for late
/// overtakes a long one, and who is over has no name any more.
#[test]
fn a_connection_carries_many_exchanges() {
    let large = large();
    let folder = Folder::new("many", &large);
    let mut files = World::new(&folder.content());
    let long: Vec<_> = (0..3).map(|_| files.ask("/large")).collect();
    let _ = files.handler.on_turn(&mut files.lines);
    let short = files.ask("/small");
    let all = files.answers(&[&long[..], &[short]].concat());
    let (first, line, body) = all.first().expect("an answer");
    assert_eq!((*first, line.as_str(), body.len()), (short, "200 5", 5));
    for id in &long {
        let (_, line, body) = all.iter().find(|(answered, ..)| answered == id).expect("an answer");
        assert_eq!((line.as_str(), *body == large), ("200 3145728", true));
    }
    assert_eq!(all.len(), 4);
    // Their slots have other exchanges now.
    let next: Vec<_> = (0..4).map(|_| files.ask("/large")).collect();
    for id in long.iter().chain([&short]) {
        assert!(!next.contains(id) && files.lines.mark(*id).is_none());
        files.lines.body(*id, Piece::Bytes(b"late"));
        files.lines.end(*id);
        files.handler.on_gone(*id, Some(0), Gone::Cut);
    }
    let all = files.answers(&next);
    assert!(all.len() == 4 && all.iter().all(|(id, _, body)| next.contains(id) && *body == large));
}
