//! What is known of requests within a request, and of the one that a request is within.

use crate::subrequest::{Subrequest, Subrequests};
use filters::{Include, SsiValues};
use proxy::slices::Slices;

/// What ties a request to others.
#[derive(Debug, Default)]
pub(crate) struct Within {
    /// It is a request within another.
    pub sub: Option<Box<Subrequest>>,
    /// It has made such.
    pub children: Option<Box<Subrequests>>,
    /// Its answer is asked for by slices.
    pub slices: Option<Box<Slices>>,
    /// What commands of SSI have set: of a main request, all of those within it.
    pub ssi: Option<Box<SsiValues>>,
    /// What is to be included before anything more is made.
    pub include: Option<Box<Include>>,
}

impl Within {
    pub(super) fn forget(&mut self) {
        let Self { sub, children, slices, ssi, include } = self;
        (*sub, *children, *slices, *ssi, *include) = (None, None, None, None, None);
    }

    /// What was found out for one place is found out again in another.
    pub fn forget_place(&mut self) {
        self.slices = None;
        self.children.iter_mut().for_each(|children| (children.permission, children.mirrored) = (None, false));
    }
}
