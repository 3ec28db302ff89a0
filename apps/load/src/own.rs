//! Heads as clients send them: each connection has fields of its own.
//!
//! A connection's request is written once, with room in front for the lines
//! that may differ between its requests (request line and Host). So a request
//! costs a copy of these lines, a connection keeps its fields as a client
//! does, and memory is bounded by the connections that have sent something.

use crate::heads::{Heads, UserAgent, choose, number};
use crate::plan::{Plan, PlanError, Request};
use app::{Body, ConnId};
use core::ops::Range;

/// The longest request line with Host and the user's own fields, in bytes,
/// where heads differ: each connection has room for it.
const FRONT_LIMIT: usize = 8_192;

/// The lines of one request that stand before those of its connection.
#[derive(Debug)]
pub struct Front {
    /// As one of several on its connection.
    usual: Vec<u8>,
    /// As the last on its connection.
    last: Vec<u8>,
}

impl Front {
    /// The lines of `request`, which was checked.
    pub fn new(plan: &Plan, request: &Request) -> Self {
        let closes = plan.reuse.server_closes();
        let front = |last: bool| front(plan.heads, request, last && closes);
        Self { usual: front(plan.reuse.per_connection() == Some(1)), last: front(true) }
    }

    /// The lines to send.
    #[inline]
    pub fn lines(&self, last: bool) -> &[u8] {
        if last { &self.last } else { &self.usual }
    }

    fn longest(&self) -> usize {
        self.usual.len().max(self.last.len())
    }
}

/// The lines of a request that stand before those of its connection.
/// `close`: the last on its connection.
fn front(heads: Heads, request: &Request, close: bool) -> Vec<u8> {
    let mut out = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.path, request.host);
    if close {
        out.push_str("Connection: close\r\n");
    } else if heads == Heads::Browser {
        out.push_str("Connection: keep-alive\r\n");
    }
    for (name, value) in &request.headers {
        out.extend([name, ": ", value, "\r\n"]);
    }
    out.into_bytes()
}

/// The requests of connections, each as it was last sent.
#[derive(Debug)]
pub struct Own {
    agents: Vec<UserAgent>,
    /// Room for the longest front.
    room: usize,
    seed: u64,
    slots: Vec<Option<Written>>,
}

#[derive(Debug)]
struct Written {
    /// Room, the connection's fields and the empty line. The front stands at
    /// the room's end.
    body: Body,
    generation: u32,
}

impl Own {
    /// For the requests of a plan that was checked.
    ///
    /// # Errors
    /// If they cannot be sent with heads that differ.
    pub fn new<'a>(plan: &Plan, fronts: impl Iterator<Item = &'a Front>) -> Result<Self, PlanError> {
        let room = fronts.map(Front::longest).max().unwrap_or(0);
        if room > FRONT_LIMIT {
            return Err(PlanError::new("request line, Host and headers must be at most 8 KiB long where heads differ"));
        }
        let named: Vec<&str> = plan
            .requests
            .iter()
            .flat_map(|request| request.item.headers.iter().map(|(name, _)| name.as_str()))
            .collect();
        // Not the sequences that connections and requests are drawn with.
        let seed = plan.seed ^ 0x6865_6164_7300_0000;
        let slots = Vec::with_capacity(plan.connections as usize);
        Ok(Self { agents: UserAgent::all(plan.heads, &named), room, seed, slots })
    }

    /// The request that begins with `front` on a connection: a body, and the
    /// part of it that is to be sent.
    #[inline]
    pub fn request(&mut self, id: ConnId, front: &[u8]) -> (&Body, Range<u32>) {
        let slot = id.index();
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let room = self.room;
        let written = self.slots[slot].as_mut().filter(|written| written.generation == id.generation());
        match written.and_then(|written| written.body.get_mut()) {
            Some(bytes) => put(bytes, room, front),
            None => self.write(id, front),
        }
        let body =
            self.slots[slot].as_ref().map(|written| &written.body).unwrap_or_else(|| unreachable!("just written"));
        (body, (room - front.len().min(room)) as u32..body.len())
    }

    /// A new connection's request, or one whose predecessor is still on its
    /// way.
    #[cold]
    fn write(&mut self, id: ConnId, front: &[u8]) {
        let number = number(self.seed, id);
        let Some(slot) = self.slots.get_mut(id.index()) else { return };
        let mut body = match slot.take() {
            Some(Written { body, .. }) if body.is_free() => body,
            _ => Body::new(Vec::new()),
        };
        let agent = choose(&self.agents, number);
        // Nobody else holds it.
        if let Some(bytes) = body.get_mut() {
            bytes.clear();
            bytes.reserve_exact(self.room + agent.map_or(0, UserAgent::len) + 2);
            bytes.resize(self.room, b' ');
            put(bytes, self.room, front);
            if let Some(agent) = agent {
                agent.write(number, bytes);
            }
            bytes.extend_from_slice(b"\r\n");
        }
        *slot = Some(Written { body, generation: id.generation() });
    }
}

/// Puts `front` at the end of the room.
#[inline]
fn put(bytes: &mut [u8], room: usize, front: &[u8]) {
    if let Some(place) = bytes.get_mut(room - front.len().min(room)..room) {
        place.copy_from_slice(front);
    }
}

#[cfg(test)]
mod tests;
