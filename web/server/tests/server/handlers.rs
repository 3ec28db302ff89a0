//! A handler of one's own: bodies with back-pressure, replies in pieces.

use crate::support::page::answer_page;
use crate::support::{Response, World};
use app::{Body, Closed};
use core::time::Duration;
use semantics::{Method, OwnedRequest, Request, Status};
use server::Config;
use server::exchange::{
    Asked, Bodies, BodyCut, ExchangeId, ExchangeSettings, Gone, Handler, HandlerRules, Intake, MethodRules, Piece,
    Prepared, Ready, Replies, Reply, ReplyEnd, RequestBody, Stop, UpstreamHandler,
};
use std::collections::HashMap;

/// Answers with what it is sent: `PUT /echo`, a reply of the body's length;
/// `GET /late` waits until it is told to answer; all else is 404.
#[derive(Debug, Default)]
struct Echo {
    /// By mark: what is still to come, and the request until it is answered.
    begun: HashMap<u32, (ExchangeId, usize, Option<OwnedRequest>)>,
    next: u32,
    /// Bytes taken of a body in one call, at most.
    most: usize,
    gone: Vec<u32>,
    late: u32,
}

impl Echo {
    fn keep<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, left: usize, request: &Request<'_>) {
        self.next += 1;
        replies.set(id, &ExchangeSettings::marked(self.next));
        assert_eq!(replies.mark(id), Some(self.next));
        self.begun.insert(self.next, (id, left, Some((*request).into())));
    }
}

impl Handler for Echo {
    fn rules(&self) -> HandlerRules {
        let methods = MethodRules { answered: &[Method::Get, Method::Put], allow: b"Allow: GET, PUT\r\n" };
        HandlerRules { intake: Intake { methods, bodies: Bodies::Taken }, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        assert_eq!(body != RequestBody::None, matches!(request.path(), b"/echo" | b"/early"));
        match request.path() {
            b"/echo" => self.keep(replies, id, 0, request),
            b"/late" => self.keep(replies, id, 0, request),
            b"/now" => {
                let reply = Reply { status: Status::OK, length: Some(3), fields: b"X-Field: v\r\n", reason: None };
                replies.reply(id, request, &reply, &[Piece::Bytes(b"now")]);
                // All that follows the end is harmless.
                replies.body(id, Piece::Bytes(b"more"));
                replies.end(id);
                replies.stop(id, Stop::Reset);
                answer_page(replies, id, request, Status::OK);
            }
            b"/early" => answer_page(replies, id, request, Status::FORBIDDEN),
            _ => answer_page(replies, id, request, Status::NOT_FOUND),
        }
    }

    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        let mark = replies.mark(id).expect("it was left");
        let (_, _, request) = self.begun.get_mut(&mark).expect("it is under way");
        if let Some(request) = request.take() {
            let reply = Reply { status: Status::OK, length: Some(20), fields: b"", reason: None };
            replies.begin(id, &request.get(), &reply, ReplyEnd::Length);
        }
        let taken = bytes.len().min(self.most);
        if replies.flow(id).unsent < 1 << 20 {
            let body = Body::new(bytes[..taken].to_vec());
            replies.body(id, Piece::Body(&body, (0, body.len())));
            return taken;
        }
        0
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, _: &[u8]) {
        let mark = replies.mark(id).expect("it was left");
        self.begun.remove(&mark);
        replies.finish(id, b"");
        replies.end(id);
    }

    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        self.late += 1;
        let mark = replies.mark(id).expect("it was left");
        if let Some((_, _, Some(request))) = self.begun.remove(&mark) {
            answer_page(replies, id, &request.get(), Status::GATEWAY_TIMEOUT);
        }
        false
    }

    fn on_gone(&mut self, _id: ExchangeId, mark: Option<u32>, _: Gone) {
        let mark = mark.expect("it was left");
        assert!(self.begun.remove(&mark).is_some(), "told once");
        self.gone.push(mark);
    }
}

impl UpstreamHandler for Echo {}

impl Prepared for Echo {}

fn world(most: usize) -> World<Echo> {
    let config = Config::respond(server::Respond::Text(String::new()));
    World::with_handler(config, Echo { most, ..Echo::default() })
}

const BODIES: [&str; 2] = [
    "Content-Length: 20\r\n\r\nabcdefghijklmnopqrst",
    "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n1\r\nf\r\ne;x=y\r\nghijklmnopqrst\r\n0\r\nT: z\r\n\r\n",
];

/// However it comes, and however little is taken at once.
#[test]
fn a_body_is_the_handlers_and_what_it_leaves_is_offered_again() {
    for body in BODIES {
        for most in [1, 3, 100] {
            for step in [1, 2, 7, 1000] {
                let mut world = world(most);
                let id = world.open();
                let stream = format!("PUT /echo HTTP/1.1\r\nHost: a\r\n{body}GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
                for piece in stream.as_bytes().chunks(step) {
                    world.send(id, piece);
                    // What was left is offered with what comes next, or as the
                    // data path does on its own account.
                    for _ in 0..30 {
                        world.send(id, "");
                    }
                }
                let got = world.got(id);
                let (first, rest) = Response::parse(&got, false);
                let (second, rest) = Response::parse(rest, false);
                assert_eq!((first.text(), second.text(), rest), ("abcdefghijklmnopqrst", "now", &b""[..]));
                assert_eq!(second.field("X-Field"), Some("v"));
            }
        }
    }
}

#[test]
fn an_early_reply_goes_before_the_rest_of_a_body_and_the_next_request_after_it() {
    let mut world = world(1);
    for body in BODIES {
        let id = world.open();
        let (head, rest) = body.split_at(body.find("\r\n\r\n").expect("a head") + 6);
        world.send(id, format!("PUT /early HTTP/1.1\r\nHost: a\r\n{head}"));
        world.send(id, format!("{rest}GET /now HTTP/1.1\r\nHost: a\r\n\r\n"));
        let got = world.got(id);
        let (first, rest) = Response::parse(&got, false);
        let (second, rest) = Response::parse(rest, false);
        assert_eq!((first.status, second.text(), rest), (403, "now", &b""[..]));
    }
}

#[test]
fn who_leaves_is_told_once() {
    for cut in ["", "abc"] {
        for way in ["reset", "end", "rubbish"] {
            let mut world = world(100);
            let id = world.open();
            world.send(id, format!("PUT /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{cut}"));
            match way {
                "reset" => world.close(id, Closed::Reset),
                "end" => world.end(id),
                // Where a chunk's size is to stand, or behind its last byte.
                _ => world.send(id, if cut.is_empty() { "abcX\r\n\r\n" } else { "X\r\n\r\n" }),
            }
            world.advance(Duration::from_secs(10));
            let handler = world.server.handler();
            assert_eq!((handler.gone.as_slice(), handler.begun.len()), (&[1][..], 0), "{way} after {cut:?}");
            assert!(!world.is_open(id), "{way} after {cut:?}");
        }
    }
}

#[test]
fn a_request_that_waits_too_long_is_told_and_its_connection_goes_on() {
    let mut world = world(100);
    let id = world.open();
    world.send(id, "GET /late HTTP/1.1\r\nHost: a\r\n\r\nGET /now HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(world.got(id), b"");
    world.advance(Duration::from_secs(61));
    let got = world.got(id);
    let (first, rest) = Response::parse(&got, false);
    let (second, rest) = Response::parse(rest, false);
    assert_eq!((first.status, second.text(), rest), (504, "now", &b""[..]));
    let handler = world.server.handler();
    assert_eq!((handler.late, handler.begun.len()), (1, 0));
}

#[test]
fn what_is_refused_by_its_method_is_told_before_its_body() {
    let mut world = world(100);
    let id = world.open();
    world.send(id, "DELETE / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let got = world.got(id);
    let (response, rest) = Response::parse(&got, false);
    assert_eq!((response.status, response.field("Allow"), rest), (405, Some("GET, PUT"), &b""[..]));
    assert!(world.conn(id).finished);
}

/// Reads a body once it is told to, and says what became of it.
#[derive(Debug, Default)]
struct Reads {
    begun: Option<(ExchangeId, OwnedRequest)>,
    /// It takes what comes.
    reads: bool,
    /// Bytes that it may have; it reads at once.
    most: Option<u64>,
    bytes: Vec<u8>,
    cut: Option<BodyCut>,
    gone: u32,
}

impl Handler for Reads {
    fn rules(&self) -> HandlerRules {
        let intake = Intake { bodies: Bodies::Asked, ..Intake::default() };
        HandlerRules { intake, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        if request.path() == b"/long" {
            replies.read(id, Some(0));
            answer_page(replies, id, request, Status::CONTENT_TOO_LARGE);
            return;
        }
        if request.path() == b"/refused" || body == RequestBody::None {
            answer_page(replies, id, request, Status::FORBIDDEN);
            return;
        }
        replies.set(id, &ExchangeSettings::marked(1));
        self.begun = Some((id, (*request).into()));
        if let Some(most) = self.most {
            self.reads = true;
            replies.read(id, Some(most));
        }
    }

    fn on_body<R: Replies>(&mut self, _: &mut R, _: ExchangeId, bytes: &[u8]) -> usize {
        let taken = if self.reads { bytes.len() } else { 0 };
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, _: &[u8]) {
        let Some((_, request)) = self.begun.take() else { panic!("it is under way") };
        let text = format!("{} {}", String::from_utf8_lossy(&self.bytes), replies.flow(id).received);
        let reply = Reply { status: Status::OK, length: Some(text.len() as u64), fields: b"", reason: None };
        replies.reply(id, &request.get(), &reply, &[Piece::Bytes(text.as_bytes())]);
    }

    fn on_body_cut<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, why: BodyCut) -> bool {
        self.cut = Some(why);
        match (self.begun.take(), why) {
            (Some((_, request)), BodyCut::TooLong | BodyCut::Malformed) => {
                answer_page(replies, id, &request.get(), Status::CONTENT_TOO_LARGE);
            }
            _ => replies.stop(id, Stop::HangUp),
        }
        true
    }

    fn on_gone(&mut self, _: ExchangeId, _: Option<u32>, _: Gone) {
        self.gone += 1;
    }
}

impl UpstreamHandler for Reads {}

impl Prepared for Reads {}

fn reading(most: Option<u64>) -> World<Reads> {
    let config = Config::respond(server::Respond::Text(String::new()));
    World::with_handler(config, Reads { most, ..Reads::default() })
}

/// At once, or when a part of it waits already.
#[test]
fn a_body_is_read_from_when_its_handler_asks_for_it() {
    for (body, wire) in [("Content-Length: 5\r\n\r\nhello", 5), (CHUNKS, 20)] {
        for early in [true, false] {
            let mut world = reading(early.then_some(100));
            let id = world.open();
            let stream = format!("PUT / HTTP/1.1\r\nHost: a\r\n{body}");
            let (first, rest) = stream.split_at(stream.len() - 3);
            world.send(id, first);
            if !early {
                // It waits for no body meanwhile, but for its handler.
                let handler = world.server.handler();
                assert!(handler.bytes.is_empty() && handler.begun.is_some());
                handler.reads = true;
            }
            world.send(id, rest);
            let got = world.got(id);
            assert_eq!(Response::parse(&got, false).0.text(), format!("hello {wire}"), "{body}");
        }
    }
}

/// It is not asked for, and its connection ends behind the answer.
#[test]
fn a_body_that_its_handler_refuses_is_the_last_on_its_connection() {
    let mut world = reading(Some(100));
    let id = world.open();
    world.send(id, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(Response::parse(&world.got(id), false).0.text(), "hello 5");
    assert!(world.is_open(id) && world.server.counted().bodies_refused == 0);
    world.send(id, "PUT /long HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let got = world.got(id);
    let (response, _) = Response::parse(&got, false);
    assert_eq!((response.status, response.field("Connection")), (413, Some("close")));
    assert!(world.conn(id).finished && world.server.counted().bodies_refused == 1);
    // What comes of it all the same is no request.
    world.send(id, "hello");
    assert_eq!(world.got(id), b"");
}

const CHUNKS: &str = "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";

#[test]
fn a_body_that_will_not_be_whole_is_its_handlers_to_end() {
    for (way, why) in [
        ("late", BodyCut::Late),
        ("end", BodyCut::Ended),
        ("9\r\n123456789", BodyCut::TooLong),
        ("X\r\n", BodyCut::Malformed),
    ] {
        let mut world = reading(Some(8));
        let id = world.open();
        world.send(id, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n");
        match way {
            "late" => {
                world.advance(Duration::from_secs(55));
                assert!(world.is_open(id));
                world.send(id, "1\r\nl\r\n");
                world.advance(Duration::from_secs(55));
                let handler = world.server.handler();
                assert_eq!(handler.cut, None, "from the last of it on");
                world.advance(Duration::from_secs(6));
            }
            "end" => world.end(id),
            _ => world.send(id, way),
        }
        let handler = world.server.handler();
        assert_eq!((handler.cut, handler.gone, handler.begun.is_some()), (Some(why), 0, false), "{way}");
        if why == BodyCut::Ended {
            // Both have said all.
            assert!(!world.is_open(id));
            continue;
        }
        let got = world.got(id);
        if why != BodyCut::Late {
            let (response, rest) = Response::parse(&got, false);
            assert_eq!((response.status, response.field("Connection"), rest), (413, Some("close"), &b""[..]));
        } else {
            assert_eq!(got, b"", "{way}");
        }
        assert!(world.conn(id).finished, "{way}");
        world.advance(Duration::from_secs(60));
        assert!(!world.is_open(id), "{way}");
    }
}

/// A client that waits for a word has it when its body is read, and none where it is not:
/// its framing says that the body comes all the same, or the connection ends.
#[test]
fn who_waits_for_a_word_has_it_once_the_body_is_wanted() {
    let fields = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut world = reading(Some(100));
    let id = world.open();
    world.send(id, format!("PUT / HTTP/1.1\r\n{fields}"));
    assert_eq!(world.got(id), b"HTTP/1.1 100 Continue\r\n\r\n");
    world.send(id, "hello");
    assert_eq!(Response::parse(&world.got(id), false).0.text(), "hello 5");
    world.send(id, format!("PUT /refused HTTP/1.1\r\n{fields}"));
    assert_eq!(Response::parse(&world.got(id), false).0.status, 403);
    world.send(id, "helloGET /refused HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(Response::parse(&world.got(id), false).0.status, 403);
}

/// Keeps the name of the first exchange, and uses it in the next one.
#[derive(Debug, Default)]
struct Late {
    first: Option<ExchangeId>,
}

impl Handler for Late {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _: RequestBody) {
        if let Some(first) = self.first.replace(id) {
            assert_ne!(first, id);
            replies.set(id, &ExchangeSettings::marked(7));
            // The connection is the same, but the exchange is another.
            answer_page(replies, first, request, Status::FORBIDDEN);
            replies.set(first, &ExchangeSettings { last: true, ..ExchangeSettings::marked(8) });
            replies.stop(first, Stop::HangUp);
            replies.stop(first, Stop::Reset);
            assert_eq!((replies.mark(first), replies.mark(id)), (None, Some(7)));
            assert_eq!((replies.about(first).peer, replies.about(id).peer.is_some()), (None, true));
            let reply = Reply { status: Status::OK, length: Some(2), fields: b"", reason: None };
            replies.begin(id, request, &reply, ReplyEnd::Length);
            replies.body(first, Piece::Bytes(b"no"));
            replies.end(first);
            replies.body(id, Piece::Bytes(b"ok"));
            assert_eq!((replies.flow(first).unsent, replies.flow(id).unsent > 0), (0, true));
            replies.finish(id, b"");
            replies.end(id);
        } else {
            answer_page(replies, id, request, Status::NOT_FOUND);
        }
    }
}

impl UpstreamHandler for Late {}

impl Prepared for Late {}

#[test]
fn the_name_of_an_exchange_names_no_other_of_its_connection() {
    let config = Config::respond(server::Respond::Text(String::new()));
    let mut world = World::with_handler(config, Late::default());
    let id = world.open();
    for (at, status) in [404, 200, 200].into_iter().enumerate() {
        world.send(id, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let got = world.got(id);
        let (response, rest) = Response::parse(&got, false);
        assert_eq!((response.status, rest), (status, &b""[..]), "{at}");
        assert!(!world.conn(id).finished, "it goes on");
    }
    // Nor of the connection that has its slot behind it.
    world.end(id);
    let next = world.open();
    assert_eq!((next.index(), world.is_open(next)), (id.index(), true));
    world.send(next, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(Response::parse(&world.got(next), false).0.text(), "ok");
}

/// Has nothing ready, or one answer for everything; and counts who asks for that.
#[derive(Debug, Default)]
struct Seldom {
    ready: Option<Ready>,
    /// By a path alone, and by all that is known of a head.
    asked: (u32, u32),
}

impl Handler for Seldom {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _: RequestBody) {
        answer_page(replies, id, request, Status::NOT_FOUND);
    }
}

impl UpstreamHandler for Seldom {}

impl Prepared for Seldom {
    fn ready<'a>(&mut self, _: &[u8], _: impl FnOnce() -> &'a [u8], _: u64) -> Option<&mut Ready> {
        self.asked.0 += 1;
        self.ready.as_mut()
    }

    fn ready_for<A: Asked>(&mut self, _: &A, _: u64) -> Option<&mut Ready> {
        self.asked.1 += 1;
        self.ready.as_mut()
    }
}

/// Where nothing is ready, sixteen plain heads are looked at for that, and then no more until something is.
#[test]
fn heads_for_which_nothing_is_ready_are_parsed_once() {
    const LOOKS: u32 = 16;
    let mut world = World::with_handler(Config::respond(server::Respond::Text(String::new())), Seldom::default());
    let id = world.open();
    let ask = |world: &mut World<Seldom>| {
        world.send(id, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let got = world.got(id);
        let status = Response::parse(&got, false).0.status;
        (status, world.server.handler().asked)
    };
    for asked in 1..40 {
        assert_eq!(ask(&mut world), (404, (asked.min(LOOKS), asked)));
    }
    let message = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    let length = message.len();
    world.server.handler().ready = Some(Ready::new(message, length, 0, None));
    // It is found by a head that is parsed, and from then on by plain ones.
    assert_eq!(ask(&mut world), (200, (LOOKS, 40)));
    assert_eq!(ask(&mut world), (200, (LOOKS + 1, 40)));
    world.server.handler().ready = None;
    for asked in 1..40 {
        assert_eq!(ask(&mut world), (404, (LOOKS + 1 + asked.min(LOOKS), 40 + asked)));
    }
}
