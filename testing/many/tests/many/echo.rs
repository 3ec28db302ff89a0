//! A handler that answers by what it is sent.

use crate::world::{World, clock};
use many::NAME;
use semantics::{Request, Status};
use server::exchange::{
    Bodies, BodyCut, ExchangeId, ExchangeSettings, FieldLines, Gone, Handler, HandlerRules, Intake, Page, Piece,
    Prepared, Replies, Reply, ReplyEnd, RequestBody, Stop, UpstreamHandler,
};
use server::{Config, Respond, Server};
use std::collections::HashMap;

/// Answers each request with its body, in pieces, and with its trailers; tells how each ended.
#[derive(Default)]
pub struct Echo {
    pub next: u32,
    /// By mark: whether all of the answer is queued.
    pub whole: HashMap<u32, bool>,
    pub gone: Vec<&'static str>,
    pub late: u32,
    /// Priorities, as they were told.
    pub priorities: Vec<(u8, bool)>,
}

impl Handler for Echo {
    fn rules(&self) -> HandlerRules {
        let intake = Intake { bodies: Bodies::Asked, ..Intake::default() };
        HandlerRules { intake, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        let priority = replies.about(id).priority;
        self.priorities.push((priority.urgency, priority.incremental));
        self.next += 1;
        let last = request.path() == b"/last";
        replies.set(id, &ExchangeSettings { last, ..ExchangeSettings::marked(self.next) });
        self.whole.insert(self.next, body == RequestBody::None);
        match request.path() {
            b"/never" => {}
            b"/refused" => {
                replies.read(id, Some(0));
                let page = Page::new(Status::CONTENT_TOO_LARGE, b"");
                replies.reply(id, request, &page.reply(), &page.body());
            }
            b"/broken" => {
                let reply = Reply { status: Status::OK, length: Some(100), fields: b"", reason: None };
                replies.begin(id, request, &reply, ReplyEnd::Length);
                replies.body(id, Piece::Bytes(b"half"));
                replies.stop(id, Stop::Cut);
            }
            _ => {
                let fields = FieldLines::over(b"A: b\r\n".to_vec());
                let hints =
                    Reply { status: Status::EARLY_HINTS, length: None, fields: b"Link: </a>\r\n", reason: None };
                replies.begin(id, request, &hints, ReplyEnd::Length);
                let reply = Reply { status: Status::OK, length: None, fields: fields.as_bytes(), reason: None };
                replies.begin(id, request, &reply, ReplyEnd::Chunk);
                replies.read(id, Some(1 << 20));
                if body == RequestBody::None {
                    replies.finish(id, b"");
                }
            }
        }
    }

    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        // No more than what its client takes: what is behind waits with the connection's window.
        let taken = bytes.len().min((32_usize << 10).saturating_sub(replies.flow(id).unsent));
        replies.body(id, Piece::Bytes(&bytes[..taken]));
        taken
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, trailers: &[u8]) {
        replies.finish(id, &[b"Seen: yes\r\n", trailers].concat());
        self.whole.insert(replies.mark(id).expect("one that was told of"), true);
    }

    fn on_body_cut<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, why: BodyCut) -> bool {
        self.gone.push(if why == BodyCut::TooLong { "too long" } else { "cut" });
        replies.stop(id, Stop::Reset);
        true
    }

    fn on_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        replies.read(id, None);
        if replies.flow(id).unsent == 0 && replies.mark(id).is_some_and(|mark| self.whole[&mark]) {
            replies.end(id);
        }
    }

    fn on_late<R: Replies>(&mut self, _: &mut R, _: ExchangeId) -> bool {
        self.late += 1;
        false
    }

    fn on_gone(&mut self, _: ExchangeId, mark: Option<u32>, why: Gone) {
        self.whole.remove(&mark.expect("one that was told of"));
        self.gone.push(match why {
            Gone::Left { .. } => "left",
            Gone::FileFailed { .. } => "failed",
            Gone::Cut => "over",
            Gone::GivenUp { .. } => "given up",
        });
    }
}

impl UpstreamHandler for Echo {}

impl Prepared for Echo {}

pub fn echo() -> World<Echo> {
    let config = Config::respond(Respond::Text(String::new()));
    World::new(Server::with_handler(config, Echo::default(), clock()).expect("a server"), NAME)
}
