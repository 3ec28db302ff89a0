//! One response for everything.

use crate::config::Respond;
use app::Body;
use core::ops::Range;
use exchange::{
    Asked, ExchangeId, Handler, HandlerRules, HeadWriter, Intake, JOINED_MAX, Meta, MethodRules, Page, Prepared, Ready,
    Replies, RequestBody, Rests, UpstreamHandler,
};
use semantics::date::HttpDate;
use semantics::{Method, Request};

/// Those that name no content are not among them.
const METHODS: MethodRules = MethodRules {
    answered: &[Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete, Method::Options],
    allow: b"Allow: GET, HEAD, OPTIONS\r\n",
};

/// The same bytes for every target and any method but CONNECT and TRACE: for
/// measuring.
#[derive(Debug)]
pub struct Fixed {
    ready: Ready,
    /// The unix second whose date it has.
    second: u64,
    /// Replaced while it was on its way to someone.
    retired: Vec<Body>,
}

impl Fixed {
    /// The response of these bytes.
    #[must_use]
    pub fn new(respond: &Respond, heads: &HeadWriter) -> Self {
        let (content_type, content) = bytes_of(respond);
        let meta = Meta { size: content.len() as u64, content_type: content_type.into(), file: None };
        let mut message = Vec::new();
        heads.write(&mut message, &meta, &HttpDate::from_unix(0));
        let head_len = message.len();
        let content = if content.len() <= JOINED_MAX {
            message.extend_from_slice(&content);
            None
        } else {
            Some(Body::new(content).keeping_sums())
        };
        Self { ready: Ready::new(message, head_len, heads.date_at(), content), second: 0, retired: Vec::new() }
    }
}

impl Fixed {
    /// Becomes the response of these bytes. What is on its way of the other gets to its end.
    pub fn change(&mut self, respond: &Respond, heads: &HeadWriter) {
        let Ready { message, content, closing, .. } = core::mem::replace(self, Self::new(respond, heads)).ready;
        self.retired.extend([Some(message), content, closing].into_iter().flatten());
    }

    /// Tells `each` the address ranges of what requests go through.
    pub fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        for body in [Some(&self.ready.message), self.ready.content.as_ref()].into_iter().flatten() {
            let bytes = body.as_slice().as_ptr_range();
            each(bytes.start.addr()..bytes.end.addr());
        }
    }
}

impl Handler for Fixed {
    fn rules(&self) -> HandlerRules {
        let intake = Intake { methods: METHODS, ..Intake::default() };
        HandlerRules { intake, rests: Rests::Always, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _body: RequestBody) {
        match METHODS.refuse(request.method()) {
            Some((status, fields)) => {
                let page = Page::new(status, fields);
                replies.reply(id, request, &page.reply(), &page.body());
            }
            None => replies.reply_ready(id, request, &self.ready),
        }
    }

    fn on_second(&mut self, second: u64, date: &HttpDate, _now: wire::Time) {
        self.second = second;
        self.retired.retain(|body| !body.is_free());
        let retired = &mut self.retired;
        self.ready.set_date(date, |old| retired.push(old));
    }
}

impl UpstreamHandler for Fixed {}

impl Prepared for Fixed {
    #[inline(always)]
    fn ready<'a>(&mut self, _path: &[u8], _host: impl FnOnce() -> &'a [u8], second: u64) -> Option<&mut Ready> {
        if self.second == second { Some(&mut self.ready) } else { None }
    }

    fn make_closing<A: Asked>(&mut self, _asked: &A) -> bool {
        self.ready.make_closing(usize::MAX).is_some()
    }
}

fn bytes_of(respond: &Respond) -> (&'static str, Vec<u8>) {
    match respond {
        Respond::Text(text) => ("text/plain; charset=utf-8", text.clone().into_bytes()),
        Respond::Size(size) => {
            // Printable, a line feed every 64 bytes.
            let bytes = (0..*size).map(|at| if at % 64 == 63 { b'\n' } else { b'0' + (at % 64 % 10) as u8 });
            ("application/octet-stream", bytes.collect())
        }
    }
}
