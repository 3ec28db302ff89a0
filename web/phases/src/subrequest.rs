//! What is known of a request within another, and of one that has made such.

use exchange::{ExchangeId, ExchangePlace};
use proxy::slices::SliceAsked;
use semantics::Method;

/// A subrequest: an exchange within another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SubId(ExchangeId);

impl SubId {
    /// That of an exchange, if it is one.
    pub const fn of(id: ExchangeId) -> Option<Self> {
        if matches!(id.place(), ExchangePlace::Within(_)) { Some(Self(id)) } else { None }
    }

    pub const fn exchange_id(self) -> ExchangeId {
        self.0
    }
}

/// What a subrequest is for.
#[derive(Debug)]
pub(crate) enum SubUse {
    /// Whether another may go on (`auth_request`).
    Permission,
    /// Nothing that anybody waits for (`mirror`).
    Mirror,
    /// Content at a place in that of another; where it has none, this is.
    Content(Option<Vec<u8>>),
    /// What a variable of SSI is set to.
    Memory(Vec<u8>),
    /// A slice of a long answer.
    Slice(Box<SliceAsked>),
}

impl SubUse {
    /// Whether its head alone counts.
    pub const fn is_head_only(&self) -> bool {
        matches!(self, Self::Permission | Self::Mirror)
    }
}

/// How a subrequest ended, as who asked has it.
#[derive(Debug, Default)]
pub(crate) struct SubResult {
    pub status: u16,
    /// Its content is longer than may be kept.
    pub is_too_long: bool,
    /// The fields of its answer that challenge its client.
    pub challenges: Vec<Vec<u8>>,
    /// What `auth_request_set` sets, in its order.
    pub values: Vec<Vec<u8>>,
    /// The slice that it was, and which is next.
    pub slice: Option<Box<SliceAsked>>,
}

/// What a subrequest is, of its state.
#[derive(Debug)]
pub(crate) struct Subrequest {
    pub id: SubId,
    pub parent: (u32, ExchangeId),
    pub main: (u32, ExchangeId),
    pub purpose: SubUse,
    /// The method of the main request.
    pub method: Method,
    /// Of content that has no type of its own.
    pub media_type: Vec<u8>,
    pub left: u8,
}

/// What a request has made of subrequests, while any are of interest.
#[derive(Debug, Default)]
pub(crate) struct Subrequests {
    /// Those in all, of a main request with those of its subrequests.
    pub count: u32,
    /// Whether it may go on: who is asked, or what was said.
    pub permission: Option<Permission>,
    /// Copies of it were made; or its body is read for them.
    pub mirrored: bool,
}

/// Whether a request may go on.
#[derive(Debug)]
pub(crate) enum Permission {
    Asked { code: u16, fields: usize },
    Said { code: u16, fields: usize, result: SubResult },
}

impl Subrequests {
    /// Something was said of whether the request may go on. Whether it asked.
    pub fn say(&mut self, result: SubResult) -> bool {
        match self.permission.take() {
            Some(Permission::Asked { code, fields }) => {
                self.permission = Some(Permission::Said { code, fields, result });
                true
            }
            other => {
                self.permission = other;
                false
            }
        }
    }
}
