//! Requests run until they wait or were answered, wait in their table, and go on.

use super::Engine;
use super::passing::Passing;
use super::request_state::{RequestStage, RequestState};
use super::runner::{Flow, Runner};
use asking::AskStage;
use exchange::{Page, Replies};
use features::ErrorLevel;
use semantics::{OwnedRequest, Request, Status};
use std::rc::Rc;

impl Engine {
    /// A request, and all that it takes to run it.
    #[inline]
    fn runner<'a>(
        &'a mut self,
        replies: &'a mut dyn Replies,
        (token, state): (u32, &'a mut RequestState),
        request: &'a Request<'a>,
    ) -> Runner<'a> {
        self.rest.clock.now = replies.now();
        let loaded = Rc::clone(&state.loaded);
        let (files, rest) = (&mut self.files, &mut self.rest);
        Runner { files, rest, replies, state, request, loaded, token, location: None }
    }

    /// Runs a request until it waits or was answered.
    pub(super) fn run(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        state: Box<RequestState>,
        request: &Request<'_>,
    ) {
        self.run_from(replies, token, state, request, |_| None);
    }

    /// The same, from what `enter` comes to.
    fn run_from(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        mut state: Box<RequestState>,
        request: &Request<'_>,
        enter: impl FnOnce(&mut Runner<'_>) -> Option<Flow>,
    ) {
        let mut runner = self.runner(replies, (token, &mut state), request);
        let first = enter(&mut runner);
        let answered = runner.run(first);
        if !answered {
            state.wait.stage = RequestStage::Looks;
            self.keep(replies, token, state, request);
            return;
        }
        match self.rest.stream.take() {
            None if state.reply.rated.is_some() => {
                self.keep(replies, token, state, request);
                self.send_rated(replies, token);
            }
            None if state.passed.relay.as_ref().is_some_and(|relay| relay.ask.stage() == AskStage::Tunnel) => {
                state.wait.stage = RequestStage::Sends;
                self.keep(replies, token, state, request);
            }
            None if state.passed.left_behind.is_some() && state.passed.relay.is_some() => {
                state.wait.stage = RequestStage::Sends;
                self.keep(replies, token, state, request);
            }
            None if state.reply.filtering.is_some() => {
                self.keep(replies, token, state, request);
                self.begin_making(replies, token);
            }
            Some((file, what)) if state.wait.stage == RequestStage::Sends => {
                let (id, is_made) = (state.id, state.reply.filtering.is_some());
                self.keep(replies, token, state, request);
                let mut passing = Passing { replies, rest: &mut self.rest };
                let sent = self.files.send_stream(&mut passing, (id, request), file, what, token);
                self.rest.limit_wait(replies, token);
                if sent.is_ok() && is_made {
                    self.begin_making(replies, token);
                }
                if sent.is_err() {
                    self.refuse_stream(replies, token, Some("answers from files have all that they may"));
                }
            }
            _ => {
                self.rest.log(&mut state, request);
                self.rest.give_back(token, state);
            }
        }
    }

    fn keep(&mut self, replies: &mut dyn Replies, token: u32, mut state: Box<RequestState>, request: &Request<'_>) {
        if state.request.is_none() {
            // Of one of many on a connection no more is kept than it has.
            let memory = if state.about.http2 { Vec::new() } else { self.rest.spare.bytes() };
            state.request = Some(OwnedRequest::within(memory, *request));
        }
        // What is left with it changes otherwise where it is left.
        let mut is_left = state.settings.mark == Some(token);
        state.settings.mark = Some(token);
        if state.loaded.finds_clients() {
            let told = state.client.peer.filter(|_| state.client.peer != state.about.peer).map(|told| told.ip());
            is_left &= state.settings.client == told;
            state.settings.client = told;
        }
        if !is_left {
            replies.set(state.id, &state.settings);
        }
        let is_unlimited = state.is_unlimited();
        self.rest.requests.put(token, state);
        if is_unlimited {
            self.rest.limit_wait(replies, token);
        }
    }

    /// A request that waits goes on, from what `enter` comes to. Whether there is one.
    pub(super) fn resume(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        enter: impl FnOnce(&mut Runner<'_>) -> Option<Flow>,
    ) -> bool {
        let Some((mut state, request)) = self.rest.requests.take_apart(token) else { return false };
        state.wait.stage = RequestStage::Runs;
        self.run_from(replies, token, state, &request.get(), enter);
        self.rest.spare.give_bytes(request.into_memory());
        true
    }

    /// The same, before its upstream's answer has a body.
    pub(super) fn run_early(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        act: impl FnOnce(&mut Runner<'_>) -> Flow,
    ) {
        if self.resume(replies, token, |runner| Some(act(runner))) {
            // What of a body came with its head is offered again.
            let _ = self.rest.ask_for(replies, token, |ask, turn| ask.resume(turn));
        }
    }

    /// One that has waited goes on where it was.
    pub(super) fn go_on(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        if state.reply.rated.is_some() {
            self.send_rated(replies, token);
            return;
        }
        if state.request.is_none() {
            return;
        }
        let waited = state.wait.inner.take().is_some();
        (state.wait.limit, state.wait.moved) = (None, None);
        if state.wait.stage == RequestStage::Sends {
            // The file was another when it was to be sent.
            if core::mem::replace(&mut state.wait.again.sent, true) {
                let why = "a file was another each time that it was to be sent";
                let why = (!state.wait.again.failed).then_some(why);
                self.refuse_stream(replies, token, why);
                return;
            }
            state.reply.filtering = None;
            state.sent.fields.clear();
        } else {
            state.wait.waited = waited;
        }
        self.resume(replies, token, |_| None);
    }

    /// Its file was waited for as long as may be: 503, and if its page is waited for as long, a status alone.
    #[cold]
    pub(super) fn refuse_late(&mut self, replies: &mut dyn Replies, token: u32) {
        self.refuse_stream(replies, token, Some("the file system did not answer in time"));
    }

    /// What was settled cannot be sent, and nothing of it was: an error page goes in its place, or, where that
    /// cannot be sent either, a status alone. It is logged by what was sent.
    #[cold]
    fn refuse_stream(&mut self, replies: &mut dyn Replies, token: u32, why: Option<&'static str>) {
        let state = self.rest.requests.get_mut(token).filter(|state| state.request.is_some());
        let Some(state) = state else { return };
        (state.reply.filtering, state.wait.inner) = (None, None);
        state.sent.forget();
        if !core::mem::replace(&mut state.wait.again.refused, true) {
            self.resume(replies, token, |runner| {
                if let Some(why) = why {
                    runner.tell(ErrorLevel::ERROR, || why.into());
                }
                Some(Flow::Status(503))
            });
            return;
        }
        let Some((mut state, request)) = self.rest.requests.take_apart(token) else { return };
        let unavailable = Status::SERVICE_UNAVAILABLE;
        (state.sent.status, state.sent.complete) = (unavailable.code(), true);
        let page = Page::new(unavailable, b"Retry-After: 1\r\n");
        // Of what is within another, nothing.
        let body = if state.within.sub.is_some() { &[][..] } else { &page.body() };
        replies.reply(state.id, &request.get(), &page.reply(), body);
        self.rest.log(&mut state, &request.get());
        self.rest.give_back(token, state);
    }

    /// Acts on a request that waits, and goes on waiting.
    pub(super) fn with_runner<T>(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        act: impl FnOnce(&mut Runner<'_>) -> T,
    ) -> Option<T> {
        let (mut state, request) = self.rest.requests.take_apart(token)?;
        let done = act(&mut self.runner(replies, (token, &mut state), &request.get()));
        state.request = Some(request);
        self.rest.requests.put(token, state);
        Some(done)
    }
}
