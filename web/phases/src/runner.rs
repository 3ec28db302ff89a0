//! A request, and all that it takes to run it.

use super::Rest;
use super::loaded::Loaded;
use super::request_state::RequestState;
use super::scope::Scope;
use super::waits::On;
use configuration::program::VirtualServer;
use exchange::Replies;
use files::Files;
use formats::host::host_of;
use semantics::Request;
use std::rc::Rc;

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// The next phase, or the one that was entered.
    On,
    /// It waits for this: the same again then.
    Waits(On),
    /// Its end, with this status, or its error page.
    Status(u16),
    /// It was answered.
    Done,
    /// Its connection is closed without a word.
    HangUp,
}

/// A request, and all that it takes to run it.
pub(super) struct Runner<'a> {
    pub files: &'a mut Files,
    pub rest: &'a mut Rest,
    pub replies: &'a mut dyn Replies,
    pub state: &'a mut RequestState,
    pub request: &'a Request<'a>,
    pub loaded: Rc<Loaded>,
    /// The number that it waits by.
    pub token: u32,
    /// Where a redirect leads.
    pub location: Option<Vec<u8>>,
}

impl Runner<'_> {
    pub(super) fn scope(&mut self) -> Scope<'_> {
        Scope::new((&self.loaded, self.state), self.request, &self.rest.clock)
    }

    pub(super) fn server(&self) -> Option<&VirtualServer> {
        self.loaded.program.server(self.state.route.server)
    }

    /// The host as it was asked for, or the server's name.
    pub(super) fn host(&mut self, out: &mut Vec<u8>) {
        if !self.state.is_refused() {
            host_of(self.request.authority(), out);
        }
    }

    /// Whether this is a request within another.
    pub(super) const fn is_sub(&self) -> bool {
        self.state.within.sub.is_some()
    }

    /// The connection ends with this answer ([`RequestState::end_connection`]).
    pub(super) fn set_last(&mut self) {
        self.state.about.goes_on = false;
        self.state.end_connection(self.replies);
    }

    /// Its client may take as long as is said where the request has come to.
    pub(super) fn set_terms(&mut self) {
        let number = Some(self.loaded.program.terms.of_block(self.state.route.block));
        if self.state.settings.terms.or(self.state.about.terms) != number {
            self.state.settings.terms = number;
            self.replies.set(self.state.id, &self.state.settings);
        }
    }

    /// The same, of every protocol: it has lasted as long, or answered as many, as it may.
    pub(super) fn set_last_by_terms(&mut self) {
        self.state.about.goes_on = false;
        self.state.settings.last = true;
        self.replies.set(self.state.id, &self.state.settings);
    }
}
