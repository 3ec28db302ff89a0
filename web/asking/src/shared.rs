//! Connections that carry many questions at a time (HTTP/2, RFC 9113).
//!
//! ```text
//!  Ask ── join, or dial ─► SharedLink ── streams ─► data path
//!   ▲        open, send, finish, reset                │
//!   └── StreamEvent ◄── ready ◄── frames ◄────────────┘
//! ```
//!
//! A question has a stream of a connection to the server that was chosen for it, in its group, secured as
//! it is to be: of one that has room for it, else of a further one. To the question the stream is what a
//! connection of its own would be: what it sends waits in the stream's queue, and what comes in its inbox,
//! which no more is put into than the stream's window has. So a client that takes nothing holds up its
//! own stream alone.
//!
//! What is to be sent is gathered for each connection and goes out once for each turn
//! ([`SharedLinks::flush`]); what came for streams waits in a list of those that something happened to
//! ([`SharedLinks::poll_ready`]).

mod coming;
mod events;
mod going;
mod link;
mod stream;

pub(crate) use going::Opening;
pub use link::LinkFigures;
pub(crate) use link::{Joined, LinkKey};
pub use stream::{Inbox, StreamEvent, StreamId};

use crate::groups::KeptLink;
use crate::marks::{IDLE, SHARED};
use core::time::Duration;
use h2::HeadMemory;
use link::{LinkStage, SharedLink};
use std::collections::VecDeque;
use stream::{Pending, StreamSlot};

/// One that has said nothing for so long is asked by PING before more is asked of it.
const TRUSTED: Duration = Duration::from_secs(10);

/// The same of one of which answers are awaited: who goes silent then may be gone.
const TRUSTED_BUSY: Duration = Duration::from_secs(2);

/// How long it may take to answer that.
const PONG: Duration = Duration::from_secs(2);

/// Bytes that wait at the data path and here before streams wait with theirs.
const LINK_AHEAD: usize = app::SEND_LOW_WATER + (64 << 10);

/// Inboxes whose memory is kept for others, and the most of it.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 64 << 10;

/// The connections of a silo that are shared, and their streams.
#[derive(Debug, Default)]
pub struct SharedLinks {
    links: Vec<Option<Box<SharedLink>>>,
    free_links: Vec<u32>,
    streams: Vec<StreamSlot>,
    free_streams: Vec<u32>,
    /// Streams that something happened to.
    ready: VecDeque<StreamId>,
    /// Links that have something to send, or are to be closed.
    dirty: Vec<u32>,
    memory: Option<Box<HeadMemory>>,
    spare: Vec<Vec<u8>>,
    /// Connections that are not shared, and gave way to ones that are.
    pub(crate) others: Vec<KeptLink>,
    figures: LinkFigures,
    generation: u32,
}

impl SharedLinks {
    /// How many connections there are.
    #[must_use]
    pub fn open(&self) -> usize {
        self.links.len() - self.free_links.len()
    }

    /// Streams that are open, or of whose answers something is left.
    #[must_use]
    pub fn streams_open(&self) -> usize {
        self.streams.len() - self.free_streams.len()
    }

    /// Whether a stream's asker is told when it is late, or before.
    #[must_use]
    pub fn is_watched(&self, id: StreamId) -> bool {
        self.stream(id).is_some_and(|one| one.due.is_some() || one.is_queued)
    }

    /// Whether a connection, by its mark, has a time to end by itself: nothing is asked of it.
    #[must_use]
    pub fn rests(&self, mark: u32) -> bool {
        let link = self.links.get((mark & !(IDLE | SHARED)) as usize).and_then(Option::as_deref);
        link.is_some_and(|link| link.is_idle() || link.stage == LinkStage::Begins)
    }

    /// What has become of connections so far.
    #[must_use]
    pub const fn figures(&self) -> &LinkFigures {
        &self.figures
    }

    /// Whether something is to be sent, or to be told.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.ready.is_empty()
    }

    fn link_mut(&mut self, number: u32) -> Option<&mut SharedLink> {
        self.links.get_mut(number as usize)?.as_deref_mut()
    }

    /// The next stream that something happened to: whose it is, and what.
    pub fn poll_ready(&mut self) -> Option<(u32, StreamId, StreamEvent)> {
        while let Some(id) = self.ready.front().copied() {
            let slot = self.streams.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation);
            if let Some(slot) = slot
                && let Some(event) = slot.next_event()
            {
                return Some((slot.mark, id, event));
            }
            self.ready.pop_front();
            if let Some(slot) = self.stream_mut(id) {
                slot.is_queued = false;
            }
        }
        None
    }

    fn stream_mut(&mut self, id: StreamId) -> Option<&mut StreamSlot> {
        self.streams.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)
    }

    fn stream(&self, id: StreamId) -> Option<&StreamSlot> {
        self.streams.get(id.slot as usize).filter(|slot| slot.generation == id.generation)
    }

    /// Something happened to a stream, which is told when its asker is reached.
    fn tell(&mut self, slot: u32, what: Pending) {
        let Some(one) = self.streams.get_mut(slot as usize) else { return };
        one.pending.add(what);
        if !core::mem::replace(&mut one.is_queued, true) {
            self.ready.push_back(StreamId { slot, generation: one.generation });
        }
    }

    fn mark_dirty(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(number as usize).and_then(Option::as_deref_mut) else { return };
        if !core::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(number);
        }
    }
}
