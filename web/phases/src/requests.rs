//! The requests of a silo that are under way: each waits in its place, known by a token, or runs
//! and is nobody's but its runner's.
//!
//! Who takes a request out of its place ends it or puts it back, within the same call. Where it
//! runs on, that is [`Engine::resume`](super::Engine::resume); where something is done with it, or
//! its answer is made, that puts it back in any case.

use super::request_state::RequestState;
use exchange::{ExchangeId, Replies};
use semantics::OwnedRequest;

/// Requests under way, subrequests among them.
#[derive(Debug, Default)]
pub(crate) struct RequestTable {
    places: Vec<Option<Box<RequestState>>>,
    free: Vec<u32>,
}

impl RequestTable {
    /// A place for a request that runs.
    pub fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        })
    }

    /// Its request is over: it is the next one's.
    pub fn release(&mut self, token: u32) {
        self.free.push(token);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len().saturating_sub(self.free.len())
    }

    /// Places that there are, free ones among them.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// How many wait: what runs is in no place.
    pub fn waiting(&self) -> usize {
        self.places.iter().flatten().count()
    }

    pub fn get(&self, token: u32) -> Option<&RequestState> {
        self.places.get(token as usize)?.as_deref()
    }

    pub fn get_mut(&mut self, token: u32) -> Option<&mut RequestState> {
        self.places.get_mut(token as usize)?.as_deref_mut()
    }

    /// The request of this exchange, if it is still the one in its place.
    pub fn of(&self, (token, id): (u32, ExchangeId)) -> Option<&RequestState> {
        self.get(token).filter(|state| state.id == id)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, (token, id): (u32, ExchangeId)) -> Option<&mut RequestState> {
        self.get_mut(token).filter(|state| state.id == id)
    }

    /// The request of an exchange, which its carrier knows the place of.
    pub fn of_exchange(&mut self, replies: &dyn Replies, id: ExchangeId) -> Option<&mut RequestState> {
        self.of_mut((replies.mark(id)?, id))
    }

    /// The request that waits by this ticket, which is used up, and its place.
    pub fn by_ticket(&mut self, ticket: u64) -> Option<(u32, &mut RequestState)> {
        let state = self.get_mut(ticket as u32).filter(|state| state.wait.ticket == Some(ticket))?;
        state.wait.ticket = None;
        Some((ticket as u32, state))
    }

    /// The place of the request whose patience with a file ends by this ticket.
    pub fn limited_by(&self, ticket: u64) -> Option<u32> {
        self.get(ticket as u32).filter(|state| state.wait.limit == Some(ticket)).map(|_| ticket as u32)
    }

    /// Takes a request out of its place.
    pub fn take(&mut self, token: u32) -> Option<Box<RequestState>> {
        self.places.get_mut(token as usize)?.take()
    }

    /// The same, apart from its head.
    pub fn take_apart(&mut self, token: u32) -> Option<(Box<RequestState>, OwnedRequest)> {
        let place = self.places.get_mut(token as usize)?;
        let request = place.as_deref_mut()?.request.take()?;
        Some((place.take()?, request))
    }

    /// Puts a request into its place.
    pub fn put(&mut self, token: u32, state: Box<RequestState>) {
        if let Some(place) = self.places.get_mut(token as usize) {
            *place = Some(state);
        }
    }
}
