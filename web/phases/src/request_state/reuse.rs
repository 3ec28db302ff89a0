//! Who else may have an answer: what of a request decided of it.

use features::Reach;
use files::Stamp;
use std::cell::Cell;

/// Paths that an answer which is dated anew may depend on.
const STAMPS_MAX: usize = 6;

/// What an answer depends on beside the server, the path, and the class of
/// encodings that the client takes: as far as it does, it is this request's
/// alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Depends(u8);

impl Depends {
    /// On the query: it is that of all requests that have none, if this one has
    /// none.
    pub const QUERY: u8 = 1;
    /// On the class of encodings.
    pub const ENCODING: u8 = 2;
    /// On something that other requests do not share.
    pub const OTHER: u8 = 4;
    /// On the time, or on what is to be looked at in each second: it is not dated anew.
    pub const SECOND: u8 = 8;

    /// What an answer depends on that was made of a variable of this reach.
    #[inline]
    pub const fn of(reach: Reach) -> u8 {
        match reach {
            Reach::Second => Self::SECOND,
            _ if reach.is_shared() => 0,
            Reach::Query => Self::QUERY,
            _ => Self::OTHER,
        }
    }

    pub const fn on(&mut self, what: u8) {
        self.0 |= what;
    }

    pub const fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }
}

/// What an answer depends on, as far as the request has come.
#[derive(Debug, Default)]
pub(crate) struct Reuse {
    /// What its client takes, as ready answers are told apart by it.
    pub class: u8,
    pub depends: Depends,
    /// Where paths led that decided of its answer.
    pub stamps: Vec<Stamp>,
    /// `Expires` is so many seconds after the date.
    pub expires_after: Option<i64>,
    /// The error log has a line about it: another request is to have its own.
    pub is_told: Cell<bool>,
}

impl Reuse {
    /// Forgets all but the memory.
    pub(super) fn forget(&mut self) {
        let Self { class, depends, stamps, expires_after, is_told } = self;
        (*class, *depends, *expires_after) = (0, Depends::default(), None);
        is_told.set(false);
        stamps.clear();
    }

    /// Notes where a path led. An answer that many decide of is made in each second.
    pub fn looked(&mut self, stamp: Stamp) {
        if self.stamps.len() < STAMPS_MAX {
            self.stamps.push(stamp);
        } else {
            self.depends.on(Depends::SECOND);
        }
    }
}
