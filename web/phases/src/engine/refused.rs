//! What came that is no request, or not all of one.

use super::Engine;
use super::course::Course;
use super::host::names_a_host;
use exchange::{ExchangeId, Refused, Replies, Stop};
use semantics::Request;
use std::rc::Rc;

impl Course {
    /// The first line of what is refused is a request's: that is told of it.
    pub(super) fn tells_line(&self, request: &Request<'_>) -> bool {
        !self.is_refused() || !request.target().is_empty()
    }
}

impl Engine {
    /// Answers what is no request by the default server of its listener; logs what there is of a
    /// head of which no more comes, and hangs up.
    pub(super) fn refuse(&mut self, replies: &mut dyn Replies, id: ExchangeId, refused: Refused<'_>) -> bool {
        let loaded = Rc::clone(&self.loaded);
        let listener = Self::listener(&loaded, self.single, || replies.about(id).local);
        let program = &loaded.program;
        let Some(terms) = program.listeners.get(usize::from(listener)) else { return false };
        let request = *refused.request;
        let authority = request.authority();
        let is_named = refused.is_cut && !authority.is_empty() && names_a_host(&request, authority);
        let mut find = |expression: u32, name: &[u8]| loaded.matches(expression, name);
        let place = if is_named { terms.names.find(authority, &mut find) } else { 0 };
        let server = terms.servers.get(usize::from(place)).copied();
        let block = server.and_then(|server| program.servers.get(usize::from(server.0))).map(|server| server.block);
        let Some((server, block)) = server.zip(block) else { return false };
        let token = self.rest.token();
        let mut course = self.rest.begin(&loaded, id, &request, replies);
        (course.listener, course.server, course.block, course.place) = (listener, server, block, block);
        course.about.http10 = request.line().ends_with(b"HTTP/1.0");
        self.rest.clock.now = replies.now();
        let status = refused.status.code();
        if refused.is_cut {
            // Where its line is none, or its host, nothing is believed.
            let is_believed = !request.target().is_empty() && (is_named || authority.is_empty());
            course.refused = (!is_believed).then_some(status);
            course.sent.status = status;
            self.rest.log(&mut course, &request);
            self.rest.give_back(token, course);
            replies.stop(id, Stop::HangUp);
            return true;
        }
        course.refused = Some(match status {
            // nginx's number for it.
            431 => 494,
            code => code,
        });
        self.run(replies, token, course, &request);
        true
    }
}
