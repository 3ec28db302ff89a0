//! Requests that are over are logged.

use super::Rest;
use super::course::{Course, Loaded};
use super::values::{Clock, Scope};
use exchange::{ExchangeId, Replies};
use semantics::{Offsets, Request, Status};
use std::rc::Rc;

impl Rest {
    /// Logs a request that is over.
    pub(super) fn log(&self, course: &mut Course, request: &Request<'_>) {
        let loaded = Rc::clone(&course.loaded);
        let Some(block) = loaded.program.blocks.get(course.block.0 as usize) else { return };
        if block.logs.is_empty() {
            return;
        }
        let mut logs = loaded.logs.borrow_mut();
        let Some(logs) = logs.as_mut() else { return };
        let clock: &Clock = &self.clock;
        let mut scope = Scope { loaded: &loaded, course, request, clock, depth: 0, escapes_captures: false };
        for line in block.logs.iter() {
            let (Some(format), Some(target)) =
                (loaded.program.formats.get(usize::from(line.format)), loaded.program.logs.get(usize::from(line.log)))
            else {
                continue;
            };
            if line.condition.as_ref().is_some_and(|condition| !scope.is_true(condition)) {
                continue;
            }
            match &target.path {
                None => logs.line(line.log, clock.now, |out| format.write(&mut scope, out)),
                Some(path) => {
                    let path = scope.get(path);
                    let root = scope.get(&block.root.path);
                    logs.named_line(line.log, &path, &root, clock.now, |out| format.write(&mut scope, out));
                }
            }
        }
    }

    /// Logs a request that was answered with what is ready.
    pub(super) fn log_ready<R: Replies>(
        &mut self,
        (replies, loaded): (&R, &Rc<Loaded>),
        id: ExchangeId,
        request: &Request<'_>,
        (head, body): (u64, u64),
    ) {
        self.clock.now = replies.now();
        let mut course = self.begin(loaded, id, request, (replies.about(id), self.clock.now));
        // It was counted already.
        course.about.requests = course.about.requests.saturating_sub(1);
        if let Some((server, note)) = self.ready.noted() {
            course.server = server;
            (course.block, course.place) = (note.block, note.block);
            course.uri.extend_from_slice(&note.uri);
            course.slots.clone_from(&note.slots);
            course.sent.fields.extend_from_slice(&note.fields);
        }
        (course.sent.status, course.sent.head, course.sent.body) = (200, head, body);
        (course.sent.length, course.sent.complete) = (Some(body), true);
        self.log(&mut course, request);
        self.recycle(course);
    }

    /// Logs what was no request: its first line, and what it was answered with.
    pub(super) fn log_rejected<R: Replies>(
        &mut self,
        (replies, loaded, listener): (&R, &Rc<Loaded>, u16),
        id: ExchangeId,
        (status, line, page): (Status, &[u8], u64),
    ) {
        let program = &loaded.program;
        let server = program.listeners.get(usize::from(listener)).and_then(|listener| listener.servers.first());
        let Some(server) = server else { return };
        let Some(block) = program.servers.get(usize::from(server.0)).map(|server| server.block) else { return };
        let line = line.get(..line.len().min(LINE_MAX)).unwrap_or_default();
        let image = [line, b"\r\n\r\n"].concat();
        let mut offsets = Offsets::NONE;
        offsets.fields_start = line.len() as u16 + 2;
        let request = Request::new(&image, offsets);
        self.clock.now = replies.now();
        let mut course = self.begin(loaded, id, &request, (replies.about(id), self.clock.now));
        (course.server, course.block, course.place) = (*server, block, block);
        (course.sent.status, course.sent.head, course.sent.body) = (status.code(), replies.head_len(), page);
        (course.sent.length, course.sent.complete) = (Some(page), true);
        self.log(&mut course, &request);
        self.recycle(course);
    }
}

/// Of what was no request, at most this much is logged.
const LINE_MAX: usize = 8 << 10;
