//! Requests that are over: logged, counted no more, and their memory kept for others.

use super::Rest;
use super::course::{Course, CourseState};
use super::log::CLIENT_LEFT;
use exchange::Replies;
use wire::Time;

/// That of a request whose body is read and will not be whole.
const BODY_CUT: u16 = 400;

impl Rest {
    /// One that was being sent is over.
    pub fn end(&mut self, replies: &mut dyn Replies, token: u32, complete: bool) {
        let Some(mut course) = self.requests.take(token) else { return };
        course.sent.complete = complete;
        course.wait.state = CourseState::Over;
        self.clock.now = replies.now();
        if course.loaded.asks_for_paths {
            course.client.path = replies.path_figures(course.id);
        }
        if let Some(request) = course.request.take() {
            self.log(&mut course, &request.get());
        }
        self.give_back(token, course);
    }

    pub(super) fn give_back(&mut self, token: u32, course: Box<Course>) {
        self.requests.release(token);
        self.recycle(course);
    }

    pub(super) fn recycle(&mut self, mut course: Box<Course>) {
        // What it counted as, counts no more.
        self.end_sub(&mut course);
        course.features.limits.held.clear();
        if course.passed.left_behind.take().is_some() {
            self.left_behind.leave();
        }
        (course.reply.filtering, course.body, course.client.session) = (None, None, None);
        self.abandon(&mut course);
        self.spare.give_course(course);
    }

    /// Logs a request whose client has left: with what was sent of its answer, if that
    /// was begun.
    pub(super) fn log_left(&mut self, token: u32, unsent: u64, now: Time, status: u16) {
        let Some(mut course) = self.requests.take(token) else { return };
        if let Some(request) = course.request.take().filter(|_| course.wait.state != CourseState::Over) {
            course.sent.complete = false;
            if let Some(relay) = &mut course.passed.relay {
                // It was asked until now.
                relay.ask.note_end(now);
            }
            if course.wait.state == CourseState::Sends {
                course.sent.body = course.sent.body.saturating_sub(unsent);
            } else {
                let is_cut = course.body.as_ref().is_some_and(|body| body.is_read() && !body.ended);
                // By HTTP/2 that of one which is kept before anybody is asked is no more than a stream's end.
                let is_cut = is_cut && !(course.about.http2 && course.passed.relay.is_none());
                course.sent.status = if is_cut && status == CLIENT_LEFT { BODY_CUT } else { status };
            }
            self.clock.now = now;
            self.log(&mut course, &request.get());
        }
        self.requests.put(token, course);
    }
}
