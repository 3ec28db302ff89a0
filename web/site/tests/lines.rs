//! The program's handlers, carried by another protocol than HTTP/1.1: a line
//! with a path is asked, and a line with status and length and the body are
//! answered. So no handler knows who carries it.

use app::{Body, ConnId, Wake};
use core::ops::Range;
use exchange::{ExchangeId, Handler, HeadWriter, Piece, Ready, Replies, Reply, RequestBody};
use files::{Directory, ReaderKind};
use semantics::date::HttpDate;
use semantics::{Method, Offsets, Request, Status};
use site::{Config, Content, Making, Respond, SiteHandler};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Time;

/// One connection, whose peer takes everything at once.
#[derive(Debug, Default)]
struct Lines {
    out: Vec<u8>,
    mark: Option<u32>,
    /// A request is not answered yet; a reply is not ended yet.
    asked: bool,
    begun: bool,
}

impl Lines {
    fn head(&mut self, status: Status, length: Option<u64>) {
        self.asked = false;
        self.out.extend_from_slice(format!("{} {}\n", status.code(), length.unwrap_or(0)).as_bytes());
    }
}

/// None here.
impl exchange::Upstreams for Lines {}

impl Replies for Lines {
    fn now(&self) -> Time {
        Time::from_millis(5000)
    }
    fn second(&self) -> u64 {
        1_445_412_480
    }
    fn date(&self) -> HttpDate {
        HttpDate::from_unix(self.second())
    }
    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) {
        self.begin(id, request, reply);
        for piece in body {
            match piece {
                Piece::Bytes(bytes) => self.bytes(id, bytes),
                Piece::Body(body, (start, end)) => self.body(id, body, *start..*end),
            }
        }
        self.end(id);
    }
    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        // Of what HTTP/1.1 has ready, the content alone.
        let (body, start) = ready.content();
        let reply = Reply { status: Status::OK, length: Some(u64::from(body.len() - start)), fields: b"" };
        self.reply(id, request, &reply, &[Piece::Body(body, (start, body.len()))]);
    }
    fn reply_status(&mut self, id: ExchangeId, request: &Request<'_>, status: Status, fields: &[u8]) {
        self.reply(id, request, &Reply { status, length: None, fields }, &[]);
    }
    fn begin(&mut self, _id: ExchangeId, _request: &Request<'_>, reply: &Reply<'_>) {
        assert!(core::mem::take(&mut self.asked), "one answer to one request");
        self.begun = true;
        self.head(reply.status, reply.length);
    }
    fn begin_open(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, _chunked: bool) {
        self.begin(id, request, reply);
    }
    fn body(&mut self, id: ExchangeId, body: &Body, range: Range<u32>) {
        self.bytes(id, &body.as_slice()[range.start as usize..range.end as usize]);
    }
    fn bytes(&mut self, _id: ExchangeId, bytes: &[u8]) {
        assert!(self.begun);
        self.out.extend_from_slice(bytes);
    }
    fn file(&mut self, _id: ExchangeId, _file: &Arc<OwnedFd>, _range: Range<u64>) -> bool {
        false
    }
    fn take_back(&mut self, _id: ExchangeId, _most: usize) -> usize {
        0
    }
    fn finish(&mut self, _id: ExchangeId) {}
    fn finish_with(&mut self, _id: ExchangeId, _trailers: &[u8]) {}
    fn end(&mut self, _id: ExchangeId) {
        assert!(core::mem::take(&mut self.begun), "ended once");
    }
    fn abort(&mut self, _id: ExchangeId) {
        panic!("nothing breaks here");
    }
    fn resume(&mut self, _id: ExchangeId) {}
    fn about(&self, _id: ExchangeId) -> exchange::About {
        exchange::About::default()
    }

    fn totals(&self) -> exchange::Totals {
        exchange::Totals::default()
    }

    fn head_len(&self) -> u64 {
        0
    }

    fn set_last(&mut self, _id: ExchangeId) {}

    fn hang_up(&mut self, _id: ExchangeId) {}

    fn unsent(&self, _id: ExchangeId) -> usize {
        0
    }
    fn taken(&self, _id: ExchangeId) -> u32 {
        self.out.len() as u32
    }
    fn set_mark(&mut self, _id: ExchangeId, mark: u32) {
        self.mark = Some(mark);
    }
    fn mark(&self, _id: ExchangeId) -> Option<u32> {
        self.mark
    }
}

/// Asks a handler for `path`.
fn ask(handler: &mut SiteHandler, path: &str) -> (String, Vec<u8>) {
    let mut lines = Lines { asked: true, ..Lines::default() };
    // The image of a request that was never HTTP/1.1.
    let image = format!("GET {path}\r\n\r\n").into_bytes();
    let end = 4 + path.len() as u16;
    let mut at = Offsets::NONE;
    (at.method, at.path_start, at.path_end, at.target_end, at.fields_start) = (Method::Get, 4, end, end, end + 2);
    let id = ExchangeId::of(ConnId::new(0, 1));
    handler.on_second(lines.second(), &lines.date(), lines.now());
    handler.on_request(&mut lines, id, &Request::new(&image, at), RequestBody::None);
    while lines.asked || lines.begun {
        let wake = handler.on_turn(&mut lines);
        assert!(wake == Wake::Now || !lines.asked && !lines.begun, "the reader is at work");
    }
    assert_eq!(handler.working(), 0);
    let line = lines.out.iter().position(|&byte| byte == b'\n').expect("a line");
    let body = lines.out.split_off(line + 1);
    (String::from_utf8(lines.out).expect("text"), body)
}

#[test]
fn handlers_do_not_know_who_carries_them() {
    let root = std::env::temp_dir().join(format!("nearside-site-lines-{}", std::process::id()));
    std::fs::create_dir_all(root.join("folder")).expect("a folder");
    let large: Vec<u8> = (0..3 << 20).map(|at: u32| at as u8).collect();
    std::fs::write(root.join("small"), "small").expect("a file");
    std::fs::write(root.join("large"), &large).expect("a file");
    let heads = HeadWriter::new(0, |out, meta, date| {
        out.extend_from_slice(date.as_bytes());
        out.extend_from_slice(meta.content_type.as_bytes());
    });
    let event = Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("an event"));
    let config = Config::directory(&root);
    let making = Making { heads: &heads, event: &event, limits: config.limits.files(), work: None };
    let directory = Directory { reader: ReaderKind::Inline, ..Directory::new(&root) };
    let mut files = SiteHandler::new(&Content::Directory(directory), &making, &[]).expect("a root");
    for _ in 0..2 {
        assert_eq!(ask(&mut files, "/small"), ("200 5\n".into(), b"small".to_vec()));
        assert_eq!(ask(&mut files, "/none"), ("404 0\n".into(), Vec::new()));
        assert_eq!(ask(&mut files, "/folder"), ("301 0\n".into(), Vec::new()));
        assert_eq!(ask(&mut files, "/../small"), ("400 0\n".into(), Vec::new()));
        let (line, body) = ask(&mut files, "/large");
        assert_eq!((line.as_str(), body == large), ("200 3145728\n", true));
    }
    let mut fixed = SiteHandler::new(&Content::Respond(Respond::Text("ok".into())), &making, &[]).expect("text");
    assert_eq!(ask(&mut fixed, "/any"), ("200 2\n".into(), b"ok".to_vec()));
    std::fs::remove_dir_all(root).expect("what was made");
}
