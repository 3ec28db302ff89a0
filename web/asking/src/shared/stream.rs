//! A stream as its asker sees it: what waits for that, and what it is to send.

use super::SharedLinks;
use crate::answer::{HeadOnStream, StreamEnd};
use app::Body;
use handshake::{Failure as HandshakeFailure, ServerVerdict};
use std::collections::VecDeque;
use std::rc::Rc;
use wire::Time;

/// A stream of a connection that is shared. A handle kept past its end names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// What happened to a stream.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// Its connection is there, and is being secured.
    Connected,
    /// Its connection is there, and it may be opened.
    Ready,
    /// Its connection is secured.
    Secured(ServerVerdict),
    /// It cannot be.
    Unsecured(Rc<HandshakeFailure>),
    /// Something of the answer has come.
    Came,
    /// No more will, for this reason ([`SharedLinks::take_end`]).
    Over,
    /// It has taken most of what was queued.
    Room,
    /// Its timer ran out.
    Timer,
}

/// What a stream's asker is to be told of, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Pending(u8);

impl Pending {
    pub const CONNECTED: Self = Self(1);
    pub const READY: Self = Self(1 << 7);
    pub const SECURED: Self = Self(1 << 1);
    pub const UNSECURED: Self = Self(1 << 2);
    pub const CAME: Self = Self(1 << 3);
    pub const OVER: Self = Self(1 << 4);
    pub const ROOM: Self = Self(1 << 5);
    pub const TIMER: Self = Self(1 << 6);

    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    const fn take(&mut self, other: Self) -> bool {
        let has = self.0 & other.0 != 0;
        self.0 &= !other.0;
        has
    }
}

/// Some of a body that waits to be sent.
#[derive(Debug)]
pub(super) enum OutPiece {
    Bytes(Vec<u8>, usize),
    Body(Body, u32, u32),
}

impl OutPiece {
    /// What is left of it.
    pub fn rest(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes, at) => bytes.get(*at..).unwrap_or_default(),
            Self::Body(body, start, end) => body.as_slice().get(*start as usize..*end as usize).unwrap_or_default(),
        }
    }

    pub fn pass(&mut self, bytes: usize) {
        match self {
            Self::Bytes(_, at) => *at += bytes,
            Self::Body(_, start, _) => *start += bytes as u32,
        }
    }
}

/// What came of an answer's body, as its asker takes it. That may be as much as a window that grew: what is left is not
/// moved for each piece that is taken of it.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// Those before this one were taken.
    at: usize,
}

impl Inbox {
    /// What waits.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// More has come; `spare` has memory for it.
    pub(super) fn add(&mut self, more: &[u8], spare: &mut Vec<Vec<u8>>) {
        if self.bytes.capacity() == 0 && !more.is_empty() {
            self.bytes = spare.pop().unwrap_or_default();
        }
        self.bytes.extend_from_slice(more);
    }

    /// So many bytes were taken. Those that are moved are no more than those.
    fn pass(&mut self, taken: usize) {
        self.at = self.at.saturating_add(taken).min(self.bytes.len());
        if self.at >= self.bytes.len() - self.at {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
    }
}

/// A stream, from when its question chooses a connection until that has all of the answer, or gives it up.
#[derive(Debug, Default)]
pub(super) struct StreamSlot {
    pub generation: u32,
    /// The asker's mark.
    pub mark: u32,
    /// Its connection, by number and generation.
    pub link: (u32, u32),
    /// Its number there; 0 until it is opened.
    pub number: u32,
    pub is_used: bool,
    pub is_queued: bool,
    pub pending: Pending,
    pub verdict: Option<ServerVerdict>,
    pub unsecured: Option<Rc<HandshakeFailure>>,
    /// Heads that came: interim ones, and at last the answer's.
    pub heads: VecDeque<HeadOnStream>,
    /// What came of the body.
    pub inbox: Inbox,
    pub end: Option<StreamEnd>,
    /// Something of the answer came, an interim one too.
    pub is_answered: bool,
    /// When its asker is to be told that it is late.
    pub due: Option<Time>,
    /// That is to read more, and nobody is late.
    pub is_paced: bool,
    /// What it is to send, and how much that is.
    pub out: VecDeque<OutPiece>,
    pub unsent: usize,
    /// Behind that it ends; and it has.
    pub ends: bool,
    pub ended: bool,
    /// Where its last frame stands among what is to be sent, and before how many times that was sent.
    pub last: Option<(u32, usize)>,
    /// It waits for the connection.
    pub is_blocked: bool,
    /// The asker is told once there is room.
    pub wants_room: bool,
}

impl StreamSlot {
    /// The next thing that its asker is told of.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        let pending = &mut self.pending;
        Some(match () {
            () if pending.take(Pending::CONNECTED) => StreamEvent::Connected,
            () if pending.take(Pending::SECURED) => StreamEvent::Secured(self.verdict?),
            () if pending.take(Pending::READY) => StreamEvent::Ready,
            () if pending.take(Pending::UNSECURED) => StreamEvent::Unsecured(self.unsecured.take()?),
            () if pending.take(Pending::CAME) => StreamEvent::Came,
            () if pending.take(Pending::OVER) => StreamEvent::Over,
            () if pending.take(Pending::ROOM) => StreamEvent::Room,
            () if pending.take(Pending::TIMER) => StreamEvent::Timer,
            () => return None,
        })
    }
}

impl SharedLinks {
    /// A stream for the asker of this mark.
    pub(super) fn begin_stream(&mut self, mark: u32, link: (u32, u32)) -> StreamId {
        let slot = self.free_streams.pop().unwrap_or_else(|| {
            self.streams.push(StreamSlot::default());
            self.streams.len() as u32 - 1
        });
        let one = &mut self.streams[slot as usize];
        (one.mark, one.link, one.is_used) = (mark, link, true);
        StreamId { slot, generation: one.generation }
    }

    /// A stream names nothing any more.
    pub(super) fn free_stream(&mut self, id: StreamId) {
        let Some(one) = self.streams.get_mut(id.slot as usize).filter(|one| one.generation == id.generation) else {
            return;
        };
        let mut inbox = core::mem::take(&mut one.inbox).bytes;
        *one = StreamSlot { generation: one.generation.wrapping_add(1), ..StreamSlot::default() };
        self.free_streams.push(id.slot);
        if inbox.capacity() > 0 && inbox.capacity() <= super::SPARE_BYTES && self.spare.len() < super::SPARE {
            inbox.clear();
            self.spare.push(inbox);
        }
    }

    /// The next head of an answer, if one came.
    pub(crate) fn take_head(&mut self, id: StreamId) -> Option<HeadOnStream> {
        self.stream_mut(id)?.heads.pop_front()
    }

    /// What came of the body, to be given back by [`Self::give_inbox`].
    pub fn take_inbox(&mut self, id: StreamId) -> Inbox {
        self.stream_mut(id).map(|one| core::mem::take(&mut one.inbox)).unwrap_or_default()
    }

    /// So many bytes of what came were taken; what is left is offered again with more, or after
    /// [`Self::resume`].
    pub fn give_inbox(&mut self, id: StreamId, mut inbox: Inbox, taken: usize) {
        let Some(one) = self.stream_mut(id) else { return };
        let (link, number) = (one.link, one.number);
        inbox.pass(taken);
        // What came meanwhile.
        inbox.bytes.extend_from_slice(one.inbox.bytes());
        one.inbox = inbox;
        let Some(link) =
            self.links.get_mut(link.0 as usize).and_then(Option::as_deref_mut).filter(|one| one.generation == link.1)
        else {
            return;
        };
        if taken > 0 {
            let before = link.out.len();
            link.conn.give_back(number, taken, &mut link.out);
            if link.out.len() > before {
                let number = link.number;
                self.mark_dirty(number);
            }
        }
    }

    /// Its asker takes what comes from now on.
    pub(crate) fn widen(&mut self, id: StreamId) {
        let Some(((number, generation), stream)) = self.stream(id).map(|one| (one.link, one.number)) else { return };
        if let Some(link) = self.link_mut(number).filter(|link| link.generation == generation) {
            link.conn.widen(stream, &mut link.out);
            self.mark_dirty(number);
        }
    }

    /// Why no more comes, once all that came was taken.
    pub(crate) fn take_end(&mut self, id: StreamId) -> Option<StreamEnd> {
        let one = self.stream_mut(id)?;
        let is_next = one.heads.is_empty() && one.inbox.is_empty();
        // What came before counts where the answer is whole alone.
        let is_whole = matches!(one.end, Some(StreamEnd::Whole(_)));
        if is_next || !is_whole { one.end.take() } else { None }
    }

    /// Whether all of the answer has come, and nothing follows its body.
    pub(crate) fn is_whole_at(&self, id: StreamId) -> bool {
        self.stream(id).is_some_and(|one| matches!(&one.end, Some(StreamEnd::Whole(trailers)) if trailers.is_empty()))
    }

    /// What was left of what came is offered again.
    pub(crate) fn resume(&mut self, id: StreamId) {
        if let Some(one) = self.stream(id)
            && (!one.inbox.is_empty() || !one.heads.is_empty() || one.end.is_some())
        {
            self.tell(id.slot, Pending::CAME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is taken of it, what is left is the same, and little stands before that.
    #[test]
    fn an_inbox_gives_what_came_in_pieces() {
        let (mut inbox, mut spare) = (Inbox::default(), vec![Vec::with_capacity(100)]);
        let (mut came, mut taken) = (0_u32, 0_u32);
        for step in 0..2_000_u32 {
            let more: Vec<u8> = (came..came + step * 7 % 90).map(|at| at as u8).collect();
            inbox.add(&more, &mut spare);
            came += more.len() as u32;
            let some = (step * 13 % 85).min(came - taken);
            inbox.pass(some as usize);
            taken += some;
            let left: Vec<u8> = (taken..came).map(|at| at as u8).collect();
            assert_eq!(inbox.bytes(), left);
            assert!(inbox.at <= left.len() && inbox.is_empty() == left.is_empty());
        }
        assert!(came > taken && taken > 50_000);
        inbox.pass(usize::MAX);
        assert!(inbox.is_empty() && inbox.bytes.is_empty());
    }
}
