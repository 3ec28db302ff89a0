//! What of an answer its client wants, by what it has: conditions, and ranges.

use super::answer::Answer;
use super::request_state::{Depends, KeptContent};
use super::runner::{Flow, Runner};
use configuration::program::{Block, IfModifiedSince};
use exchange::FieldLines;
use formats::ranges;
use formats::ranges::Ranged;
use semantics::{Known, Method, date};

impl Runner<'_> {
    /// Looks at the request's conditions: an answer whose content its client has goes without
    /// it, and where one fails there is another.
    pub(super) fn heed_conditions(&mut self, answer: &mut Answer, block: &Block) -> Option<Flow> {
        match self.precondition(answer, block) {
            Precondition::Holds => {}
            Precondition::NotModified => {
                answer.status = 304;
                (answer.media_type, answer.coding) = (None, None);
                answer.takes_ranges = false;
            }
            Precondition::Fails => {
                self.clear_kept();
                if answer.vary {
                    // What nginx knows of the file stays with the page in its place.
                    let mut lines = FieldLines::default();
                    lines.field("Vary", b"Accept-Encoding");
                    self.state.reply.kept_fields = lines.into_bytes();
                }
                return Some(Flow::Status(412));
            }
        }
        None
    }

    /// What stays of an answer that was given up for another (`X-Accel-Redirect`) goes, too.
    fn clear_kept(&mut self) {
        let state = &mut *self.state;
        state.reply.kept_fields.clear();
        state.sent.front.clear();
        (state.passed.kept, state.sent.location) = (KeptContent::default(), None);
    }

    /// Whether the request's conditions hold, in nginx's order.
    fn precondition(&mut self, answer: &Answer, block: &Block) -> Precondition {
        let (request, second) = (self.request, self.rest.clock.second);
        if request.is_plain() || self.state.within.sub.is_some() {
            return Precondition::Holds;
        }
        self.state.reuse.depends.on(Depends::OTHER);
        let etag = answer.etag.as_deref().unwrap_or_default().as_bytes();
        let time = |known: Known| request.known(known).map(|value| date::parse_leniently(value, second));
        if let Some(since) = time(Known::IfUnmodifiedSince)
            && since.zip(answer.modified).is_none_or(|(since, modified)| modified > since)
        {
            return Precondition::Fails;
        }
        if let Some(wanted) = request.known(Known::IfMatch)
            && !matches_etag(wanted, etag, false)
        {
            return Precondition::Fails;
        }
        let since = time(Known::IfModifiedSince);
        let none_match = request.known(Known::IfNoneMatch);
        if since.is_none() && none_match.is_none() {
            return Precondition::Holds;
        }
        if let Some(since) = since {
            let is_modified = match (block.fields.if_modified_since, since) {
                (IfModifiedSince::Off, _) | (_, None) => true,
                (_, Some(since)) if answer.modified == Some(since) => false,
                (IfModifiedSince::Exact, _) => true,
                (IfModifiedSince::Before, Some(since)) => answer.modified.is_none_or(|modified| since < modified),
            };
            if is_modified {
                return Precondition::Holds;
            }
        }
        if none_match.is_some_and(|wanted| !matches_etag(wanted, etag, true)) {
            return Precondition::Holds;
        }
        Precondition::NotModified
    }

    /// Which ranges of so many bytes a client asks for.
    pub(super) fn ranges(&mut self, answer: &Answer, length: u64, most: Option<u32>) -> Ranged {
        let value = self.request.known(Known::Range).filter(|_| self.state.within.sub.is_none());
        let Some(value) = value else { return Ranged::Whole };
        self.state.reuse.depends.on(Depends::OTHER);
        // Of what an upstream gives by slices there are parts for any method.
        let any = answer.of_upstream && self.state.within.slices.is_some();
        if !any && self.state.method != Method::Get && self.state.method != Method::Head {
            return Ranged::Whole;
        }
        if let Some(wanted) = self.request.known(Known::IfRange) {
            let same = if wanted.len() >= 2 && wanted.ends_with(b"\"") {
                answer.etag.as_deref().is_some_and(|etag| etag.as_bytes() == wanted)
            } else {
                date::parse_leniently(wanted, self.rest.clock.second)
                    .is_some_and(|wanted| Some(wanted) == answer.modified)
            };
            if !same {
                return Ranged::Whole;
            }
        }
        ranges::parse(value, length, most)
    }
}

/// Whether a request's conditions hold.
enum Precondition {
    Holds,
    NotModified,
    Fails,
}

/// Whether a list of entity tags has this one, or is `*`.
fn matches_etag(list: &[u8], etag: &[u8], weak: bool) -> bool {
    if list == b"*" {
        return true;
    }
    if etag.is_empty() {
        return false;
    }
    let bare = |tag: &'_ [u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    if !weak && etag.starts_with(b"W/") {
        return false;
    }
    let etag = if weak { bare(etag) } else { etag.to_vec() };
    list.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|tag| if weak { bare(tag) == etag } else { tag == etag })
}
