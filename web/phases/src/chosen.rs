//! Which listener a client came to, and which server its requests are for.

use super::Engine;
use super::loaded::Loaded;
use super::request_state::{Depends, RequestState};
use super::scope::Scope;
use configuration::program::ServerId;
use exchange::{Asked, LocalAddress};
use formats::host::has_empty_label;
use semantics::Request;

impl Engine {
    /// The listener that a client came to.
    pub(super) fn listener(loaded: &Loaded, single: Option<u16>, local: impl FnOnce() -> LocalAddress) -> u16 {
        match single {
            Some(listener) => listener,
            None => loaded.program.listener_at(local()),
        }
    }

    /// The server that has a request's host, for what may be ready; none if it may be no host's name.
    pub(super) fn server_for<A: Asked>(&self, asked: &A) -> Option<ServerId> {
        let authority = asked.authority();
        let at = Self::listener(&self.loaded, self.single, || asked.local());
        let listener = self.loaded.program.listeners.get(usize::from(at))?;
        let by_name = match listener.servers.len() {
            1 => None,
            _ => self.loaded.last_host.place(at, authority, &listener.names),
        };
        let place = match (by_name, listener.servers.as_slice()) {
            // Most are written as names are.
            (Some(place), _) => place,
            _ if has_empty_label(authority) => return None,
            (None, [_]) => 0,
            (None, _) => listener.names.find(authority, |expression, name| self.loaded.matches(expression, name)),
        };
        listener.servers.get(usize::from(place)).copied()
    }

    /// What an expression found in the name of a request's host is the request's.
    #[cold]
    pub(super) fn take_groups(
        &self,
        loaded: &Loaded,
        state: &mut RequestState,
        request: &Request<'_>,
        (expression, name): (u32, Vec<u8>),
    ) {
        state.reuse.depends.on(Depends::OTHER);
        let clock = &self.rest.clock;
        let mut scope = Scope::new((loaded, state), request, clock);
        let _ = scope.matches(expression, &name);
    }
}
