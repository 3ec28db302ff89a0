//! Memory of requests that are over, for those that follow.

use super::loaded::Loaded;
use super::relay::Relay;
use super::request_state::RequestState;
use asking::AskTry;
use std::rc::Rc;

/// How many of each are kept.
const MAX: usize = 64;

/// And pieces of memory, of which a request that is passed on has up to five.
const PIECES_MAX: usize = 6 * MAX;

/// Memory of more bytes is not kept: few requests need it; nor such that is too small for a
/// head, and would grow each time.
const BYTES: core::ops::RangeInclusive<usize> = 1 << 10..=8 << 10;

/// What a silo keeps to begin requests with.
#[derive(Debug, Default)]
pub(super) struct Spare {
    #[allow(clippy::vec_box, reason = "one is moved to its place as it is")]
    states: Vec<Box<RequestState>>,
    #[allow(clippy::vec_box, reason = "the same")]
    relays: Vec<Box<Relay>>,
    bytes: Vec<Vec<u8>>,
}

impl Spare {
    pub fn state(&mut self) -> Option<Box<RequestState>> {
        self.states.pop()
    }

    pub fn give_state(&mut self, state: Box<RequestState>) {
        if self.states.len() < MAX {
            self.states.push(state);
        }
    }

    /// The place of a request that was passed on, for another; none where none is kept.
    pub fn relay(&mut self) -> Option<Box<Relay>> {
        self.relays.pop()
    }

    /// One that is over, and that has let go of its upstream. Who was asked for it.
    pub fn give_relay(&mut self, mut relay: Box<Relay>) -> Vec<AskTry> {
        let (memory, tries) = relay.ask.into_memory();
        memory.into_iter().for_each(|bytes| self.give_bytes(bytes));
        if self.relays.len() < MAX {
            self.relays.push(relay);
        }
        tries
    }

    /// Some memory, without bytes.
    pub fn bytes(&mut self) -> Vec<u8> {
        self.bytes.pop().unwrap_or_else(|| Vec::with_capacity(*BYTES.start()))
    }

    pub fn give_bytes(&mut self, mut bytes: Vec<u8>) {
        if self.bytes.len() < PIECES_MAX && BYTES.contains(&bytes.capacity()) {
            bytes.clear();
            self.bytes.push(bytes);
        }
    }

    /// Nothing that is kept names another program than `loaded`.
    pub fn name(&mut self, loaded: &Rc<Loaded>) {
        self.states.iter_mut().for_each(|state| state.loaded = Rc::clone(loaded));
        self.relays.clear();
    }
}
