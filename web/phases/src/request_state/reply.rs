//! How a request is answered: what was sent, and what of it was decided beforehand.

use crate::filtered_body::Filtering;
use crate::limit_rate::RatedBody;

/// What was sent, for the log.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub status: u16,
    /// Bytes of hints that came before it.
    pub hints: u64,
    pub head: u64,
    pub body: u64,
    /// The fields, but for those that are the carrier's.
    pub fields: Vec<u8>,
    /// What stands before all others of an upstream's.
    pub front: Vec<u8>,
    /// Those behind the body; and those of the upstream's, where these go on.
    pub trailers: Vec<u8>,
    pub upstream_trailers: Vec<u8>,
    /// Where a redirect leads that an error page answers.
    pub location: Option<Vec<u8>>,
    pub length: Option<u64>,
    /// The reason phrase of an upstream's answer, which is that of this status.
    pub reason: Option<(u16, Box<[u8]>)>,
    /// All of it was queued.
    pub complete: bool,
    /// Its content is text of the configuration, made of nothing but what it depends on.
    pub is_text: bool,
}

impl Sent {
    /// Forgets all but the memory.
    pub fn forget(&mut self) {
        (self.status, self.hints, self.head, self.body) = (0, 0, 0, 0);
        for bytes in [&mut self.fields, &mut self.front, &mut self.trailers, &mut self.upstream_trailers] {
            bytes.clear();
        }
        (self.location, self.length, self.complete, self.is_text) = (None, None, false, false);
        self.reason = None;
    }

    /// The reason phrase of an answer with this status, where it has one of its own.
    pub fn reason_of(&mut self, status: u16) -> Option<Box<[u8]>> {
        self.reason.take().filter(|(of, _)| *of == status).map(|(_, reason)| reason)
    }
}

/// What was decided of an answer, and how it is sent.
#[derive(Debug, Default)]
pub(crate) struct ReplyState {
    /// The status in place of the one that answers, and an error page answers.
    pub override_status: Option<u16>,
    pub in_error_page: bool,
    /// Fields that whatever answers has.
    pub kept_fields: Vec<u8>,
    pub limit_rate: Option<u64>,
    /// What is sent from memory no faster than it may be.
    pub rated: Option<RatedBody>,
    /// What is made as it is taken.
    pub filtering: Option<Box<Filtering>>,
}

impl ReplyState {
    /// Forgets all but the memory.
    pub(super) fn forget(&mut self) {
        let Self { override_status, in_error_page, kept_fields, limit_rate, rated, filtering } = self;
        (*override_status, *in_error_page, *limit_rate) = (None, false, None);
        (*rated, *filtering) = (None, None);
        kept_fields.clear();
    }
}
