//! Work that each request costs before it is answered, for experiments: what a
//! program behind the server would do on its core.

use crate::config::RequestWork;
use app::Wake;
use exchange::{
    Asked, ExchangeId, ExchangeSettings, Gone, Handler, HandlerRules, Page, Prepared, Replies, RequestBody,
    UpstreamHandler,
};
use semantics::date::HttpDate;
use semantics::{OwnedRequest, Request, Status};
use std::collections::VecDeque;
use wire::Time;

/// Places of clients who left that may stand among those who wait, beside as
/// many as wait.
const LEFT_MAX: usize = 1_024;

/// Another handler, whose requests wait for their work to be done.
///
/// One request's work is done in a turn, and it is answered in the next. So the
/// data path has its turn after each: acknowledgements and timers are late by
/// one request's work at most, however many wait, and an answer has the time
/// at which its work was over. Requests are worked on in the order in which they came.
/// There is one of each connection at most; who leaves before its work has begun
/// costs nothing.
#[derive(Debug)]
pub struct Worked<H> {
    inner: H,
    work: RequestWork,
    /// `None`: its client left.
    queue: VecDeque<Option<(ExchangeId, OwnedRequest)>>,
    /// The number of the first in the queue, modulo 2^32: each has the next one's,
    /// as its mark.
    first: u32,
    /// How many of the queue are there.
    waiting: usize,
    /// The work of the first is done.
    is_done: bool,
}

impl<H> Worked<H> {
    pub(crate) const fn new(inner: H, work: RequestWork) -> Self {
        Self { inner, work, queue: VecDeque::new(), first: 0, waiting: 0, is_done: false }
    }

    /// How many places the queue has: of those who wait, and of some who left.
    #[must_use]
    pub fn places(&self) -> usize {
        self.queue.len()
    }

    pub(crate) const fn inner(&self) -> &H {
        &self.inner
    }

    pub(crate) const fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }

    /// The place of an exchange that waits, and has this mark.
    fn place(&mut self, id: ExchangeId, mark: Option<u32>) -> Option<&mut Option<(ExchangeId, OwnedRequest)>> {
        let place = self.queue.get_mut(mark?.wrapping_sub(self.first) as usize)?;
        if place.as_ref().is_some_and(|(waits, _)| *waits == id) { Some(place) } else { None }
    }

    fn take_first(&mut self) -> Option<(ExchangeId, OwnedRequest)> {
        let first = self.queue.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.waiting -= usize::from(first.is_some());
        first
    }

    /// Gives up the places of those who left: all before the first who is there, and
    /// the others once they are more than those who wait.
    fn close_ranks<R: Replies>(&mut self, replies: &mut R) {
        while !self.is_done && matches!(self.queue.front(), Some(None)) {
            self.take_first();
        }
        if self.is_done || self.queue.len() <= 2 * self.waiting + LEFT_MAX {
            return;
        }
        self.queue.retain(Option::is_some);
        for (place, (id, _)) in self.queue.iter().flatten().enumerate() {
            replies.set(*id, &ExchangeSettings::marked(self.first.wrapping_add(place as u32)));
        }
    }
}

// Each stands apart: a handler that may be one of these holds another of its own kind, and what calls
// itself is inlined nowhere, not even into the path of requests that cost nothing.
impl<H: Handler> Handler for Worked<H> {
    #[cold]
    #[inline(never)]
    fn rules(&self) -> HandlerRules {
        HandlerRules { intake: self.inner.rules().intake, ..HandlerRules::default() }
    }

    #[cold]
    #[inline(never)]
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _body: RequestBody) {
        self.close_ranks(replies);
        replies.set(id, &ExchangeSettings::marked(self.first.wrapping_add(self.queue.len() as u32)));
        self.queue.push_back(Some((id, OwnedRequest::from(*request))));
        self.waiting += 1;
    }

    #[cold]
    #[inline(never)]
    fn on_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        self.inner.on_room(replies, id);
    }

    /// It has waited for as long as clients do.
    #[cold]
    #[inline(never)]
    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let mark = replies.mark(id);
        match self.place(id, mark).and_then(Option::take) {
            Some((id, request)) => {
                self.waiting -= 1;
                let page = Page::new(Status::SERVICE_UNAVAILABLE, b"");
                replies.reply(id, &request.get(), &page.reply(), &page.body());
                false
            }
            None => self.inner.on_late(replies, id),
        }
    }

    #[cold]
    #[inline(never)]
    fn on_gone(&mut self, id: ExchangeId, mark: Option<u32>, why: Gone) {
        match self.place(id, mark).and_then(Option::take) {
            Some(_) => self.waiting -= 1,
            None => self.inner.on_gone(id, mark, why),
        }
    }

    #[cold]
    #[inline(never)]
    fn on_turn<R: Replies>(&mut self, replies: &mut R) -> Wake {
        let mut wake = self.inner.on_turn(replies);
        if self.is_done {
            self.is_done = false;
            // What answers may have begun with something that its own turn is for.
            wake = Wake::Now;
            // Nothing, if its client left meanwhile.
            if let Some((id, request)) = self.take_first() {
                self.inner.on_request(replies, id, &request.get(), RequestBody::None);
            }
            self.close_ranks(replies);
        } else {
            self.close_ranks(replies);
            if self.waiting > 0 {
                (self.work.burn)(self.work.span);
                self.is_done = true;
            }
        }
        if self.queue.is_empty() { wake } else { Wake::Now }
    }

    #[cold]
    #[inline(never)]
    fn on_second(&mut self, second: u64, date: &HttpDate, now: Time) {
        self.inner.on_second(second, date, now);
    }

    fn has_work(&self) -> bool {
        self.inner.has_work()
    }

    /// A new request waits behind all of them.
    #[cold]
    #[inline(never)]
    fn working(&self) -> u32 {
        u32::try_from(self.waiting).unwrap_or(u32::MAX).saturating_add(self.inner.working())
    }
}

impl<H: Handler> UpstreamHandler for Worked<H> {}

impl<H: Handler> Prepared for Worked<H> {
    #[cold]
    #[inline(never)]
    fn make_closing<A: Asked>(&mut self, asked: &A) -> bool {
        self.inner.make_closing(asked)
    }
}
