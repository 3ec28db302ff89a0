//! Answers with pages.

use semantics::{Request, Status};
use server::exchange::{ExchangeId, Page, Replies};

/// Answers a request with the page of a status.
pub fn answer_page<R: Replies>(replies: &mut R, id: ExchangeId, request: &Request<'_>, status: Status) {
    let page = Page::new(status, b"");
    replies.reply(id, request, &page.reply(), &page.body());
}
