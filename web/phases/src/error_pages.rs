//! Requests that end with a status: by the error page of their place (`error_page`), or with one
//! of nginx's own.

use super::answer::{Answer, AnswerBody};
use super::put::take_line;
use super::reply::{ACCEPT_RANGES, REDIRECTS};
use super::runner::{Flow, Runner};
use super::subrequest::SubUse;
use configuration::program::{Block, ErrorPage, ErrorTarget};
use formats::pages;
use formats::text::bare_type;
use semantics::{Known, Method};
use std::rc::Rc;

impl Runner<'_> {
    /// Ends with `status`: by its error page, if there is one for it here, or with
    /// nginx's own.
    pub(super) fn fail(&mut self, status: u16) -> Flow {
        if self.state.passed.left_behind.is_some() {
            // Nobody is there who could be told.
            self.state.sent.status = status;
            return Flow::Done;
        }
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return self.page(None, status) };
        if let Some(flow) = self.stub(status).or_else(|| self.refuse_unsliced(status)) {
            return flow;
        }
        (self.state.reply.override_status, self.state.sent.is_text) = (Some(status), false);
        if matches!(status, 408 | 444 | 499) {
            // Nobody waits for an answer, or is to have one.
            self.state.sent.status = status;
            return Flow::HangUp;
        }
        if matches!(status, 400 | 413 | 414 | 495..=497 | 500 | 501) {
            self.set_last();
        }
        if !self.state.reply.in_error_page && !block.error_pages.is_empty() && self.state.route.has_error_pages() {
            self.state.reply.in_error_page = !block.recursive_error_pages;
            if let Some(page) = block.error_pages.iter().find(|page| page.status == status) {
                return self.error_page(page, status);
            }
        }
        if matches!(status, 494..=497) {
            self.state.reply.override_status = Some(400);
        }
        self.page(Some(block), status)
    }

    fn error_page(&mut self, page: &ErrorPage, status: u16) -> Flow {
        match page.told {
            None => {}
            // What answers says.
            Some(None) => self.state.reply.override_status = None,
            Some(Some(told)) => self.state.reply.override_status = Some(told),
        }
        // A redirect that goes on being one leads where it led.
        let location = self.location.take().filter(|_| page.told.is_none() && REDIRECTS.contains(&status));
        self.state.sent.location = location.or_else(|| self.state.sent.location.take());
        let target = match &page.target {
            ErrorTarget::Named(name) => [b"@", &**name].concat(),
            ErrorTarget::Value(value) => self.scope().get(value),
        };
        if matches!(target.first(), Some(b'/' | b'@')) {
            // The type of an answer that was given up (X-Accel-Redirect) is not the page's.
            self.state.passed.kept.media_type = None;
        }
        match target.first() {
            Some(b'/') => {
                if self.state.method != Method::Head {
                    self.state.method = Method::Get;
                }
                let mut parts = target.splitn(2, |byte| *byte == b'?');
                let (uri, args) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                self.redirect(uri, args)
            }
            Some(b'@') => self.enter_named(&target[1..]),
            _ => {
                let told = match page.told {
                    Some(Some(told)) if REDIRECTS.contains(&told) => told,
                    _ => 302,
                };
                self.state.reply.override_status = Some(told);
                self.location = Some(target);
                let loaded = Rc::clone(&self.loaded);
                let block = loaded.program.block(self.state.route.block);
                self.page(block, told)
            }
        }
    }

    /// nginx's own page for a status.
    pub(super) fn page(&mut self, block: Option<&Block>, status: u16) -> Flow {
        // Of an answer that was given up for it (X-Accel-Redirect): no page has ranges.
        if !self.state.reply.kept_fields.is_empty() {
            take_line(&mut self.state.reply.kept_fields, ACCEPT_RANGES);
        }
        let told = self.state.reply.override_status.unwrap_or(status);
        let padded = told >= 400 && block.is_some_and(|block| block.msie_padding) && self.is_padded();
        let text = pages::page(status, padded);
        let mut answer = Answer::new(told, AnswerBody::Bytes(text));
        if let AnswerBody::Bytes(text) = &answer.body
            && !text.is_empty()
        {
            let mut media_type = b"text/html".to_vec();
            // That of an answer which was given up for another stays (X-Accel-Redirect).
            let kept = self.state.passed.kept.media_type.as_deref().unwrap_or_default();
            if let Some((_, charset)) = kept.split_at(bare_type(kept).len()).1.split_first() {
                media_type.extend_from_slice(&[b"; ", charset.trim_ascii()].concat());
            }
            answer.media_type = Some(media_type);
        }
        answer.location = self.location.take();
        self.send_on(answer)
    }

    /// Whether the client is one that has pages of its own for short ones.
    fn is_padded(&self) -> bool {
        let agent = self.request.known(Known::UserAgent).filter(|_| !self.state.is_refused()).unwrap_or_default();
        let has = |needle: &[u8]| agent.windows(needle.len()).any(|window| window == needle);
        has(b"Chrome/") || (has(b"MSIE ") && !has(b"Opera"))
    }

    /// What stands in place of an error, in a subrequest that has such.
    pub(super) fn stub(&mut self, status: u16) -> Option<Flow> {
        let sub = self.state.within.sub.as_deref_mut().filter(|_| !matches!(status, 408 | 499))?;
        let SubUse::Content(stub) = &mut sub.purpose else { return None };
        let text = stub.take()?;
        let media_type = core::mem::take(&mut sub.media_type);
        self.state.reply.override_status = None;
        let mut answer = Answer::new(200, AnswerBody::Bytes(text));
        answer.media_type = Some(media_type);
        Some(self.send(answer))
    }
}
