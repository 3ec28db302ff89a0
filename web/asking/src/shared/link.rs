//! A connection that is shared: how it begins, rests between questions, and ends.

use super::stream::{Pending, StreamId};
use super::{PONG, SharedLinks, TRUSTED, TRUSTED_BUSY};
use crate::answer::{StreamEnd, UnprocessedBy};
use crate::clock::millis;
use crate::groups::{KeptLink, ServerGroups};
use crate::marks::{IDLE, SHARED};
use core::net::IpAddr;
use core::time::Duration;
use exchange::{LINGER, UpstreamId, Upstreams};
use h2::{ErrorCode, Flood, UpstreamConnection, UpstreamSettings};
use handshake::{Failure as HandshakeFailure, ServerVerdict, Sought};
use std::collections::VecDeque;
use std::rc::Rc;
use upstream::{IdleId, KeptConnection, PeerAddress, PutBack};
use wire::Time;

/// What has become of connections that are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkFigures {
    /// Connections that were begun.
    pub begun: u64,
    /// Streams that were opened.
    pub streams: u64,
    /// Questions that servers said not to have processed.
    pub unprocessed: u64,
    /// Connections of servers that broke the protocol.
    pub faults: u64,
    /// Streams of answers that were none.
    pub streams_at_fault: u64,
    /// Connections that were floods, by their kinds.
    pub floods: [u64; Flood::ALL.len()],
    /// Connections that did not answer PING.
    pub silent: u64,
}

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkStage {
    /// It is being made, and secured.
    Begins,
    Open,
    /// It is of no use any more, and closed at the end of the turn.
    Over,
}

/// What connections serve the same questions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LinkKey {
    pub address: PeerAddress,
    /// How it is secured ([`crate::KeptLinks`]).
    pub way: u32,
    /// From where.
    pub from: Option<IpAddr>,
}

/// A connection that is shared.
#[derive(Debug)]
pub(super) struct SharedLink {
    pub number: u32,
    pub generation: u32,
    pub id: UpstreamId,
    pub key: LinkKey,
    /// Its group; none where it is of one question alone.
    pub group: Option<u16>,
    pub stage: LinkStage,
    /// The data path has it open; and it has gone.
    pub was_open: bool,
    pub is_gone: bool,
    /// How it is to be secured.
    pub sought: Option<Sought>,
    pub conn: UpstreamConnection<u32>,
    /// What is to be sent.
    pub out: Vec<u8>,
    /// Bytes that answer the server's frames, since all that was sent was taken last.
    pub replies: usize,
    /// How often what was gathered was sent.
    pub flushes: u32,
    pub is_dirty: bool,
    /// Streams whose askers have not let go of them, the whole ones too: their timers run by this.
    pub attached: u32,
    /// Streams that are not opened yet.
    pub waiting: VecDeque<StreamId>,
    /// Streams that wait for the connection's window, or for the data path.
    pub blocked: VecDeque<StreamId>,
    /// Questions so far, and since when it is open, milliseconds.
    pub carried: u32,
    pub opened: u64,
    /// When it said something last, and by when it is to answer a PING.
    pub heard: Time,
    pub pong: Option<Time>,
    /// When the first of its streams is late; never later than that.
    pub streams_due: Option<Time>,
    pub armed: Option<Time>,
    /// Its place among those that are kept, and how long that is.
    pub idle: Option<IdleId>,
    pub idle_until: Option<Time>,
    /// No further question is asked of it.
    pub is_leaving: bool,
}

impl SharedLink {
    /// When its timer is to run out.
    pub fn due(&self) -> Option<Time> {
        [self.pong, self.streams_due, self.idle_until].into_iter().flatten().min()
    }

    pub fn is_unused(&self) -> bool {
        self.attached == 0 && self.conn.open_streams() == 0 && self.waiting.is_empty()
    }

    pub const fn is_idle(&self) -> bool {
        self.idle.is_some()
    }

    /// Whether one more question fits.
    fn has_room(&self) -> bool {
        let is_fit = self.stage != LinkStage::Over && !self.is_leaving && !self.is_gone;
        // Where nobody's body goes on, none of a further question would.
        is_fit && !self.conn.is_shut() && self.conn.room() > self.waiting.len()
    }

    /// Whether it has said nothing for so long that it may be gone.
    fn is_quiet(&self, now: Time) -> bool {
        let trusted = if self.conn.open_streams() > 0 { TRUSTED_BUSY } else { TRUSTED };
        let is_asked = self.pong.is_some() || self.is_leaving;
        self.stage == LinkStage::Open && !is_asked && now.since(self.heard) >= trusted
    }
}

/// A stream of a connection, and whether that is open already.
pub(crate) struct Joined {
    pub stream: StreamId,
    pub is_open: bool,
    pub carried: u32,
    pub opened: u64,
}

impl SharedLinks {
    /// A stream of a connection that has room for one more question. `list` are those of the group.
    pub(crate) fn join_busy(&mut self, list: &[(u32, u32)], key: &LinkKey, mark: u32, now: Time) -> Option<Joined> {
        let fits = |&&(number, generation): &&(u32, u32)| {
            let link = self.links.get(number as usize).and_then(Option::as_deref);
            link.is_some_and(|link| {
                link.generation == generation && link.has_room() && !link.is_idle() && link.key == *key
            })
        };
        let number = list.iter().find(fits)?.0;
        self.join_link(number, mark, now)
    }

    /// A stream of this one.
    fn join_link(&mut self, number: u32, mark: u32, now: Time) -> Option<Joined> {
        let link = self.link_mut(number)?;
        (link.idle, link.idle_until) = (None, None);
        let (carried, opened, generation) = (link.carried, link.opened, link.generation);
        link.carried += 1;
        link.attached += 1;
        if link.is_quiet(now) {
            // Whether it is there still is asked first.
            link.conn.ping(&mut link.out);
            link.pong = Some(now + PONG);
        }
        let is_open = link.stage == LinkStage::Open && link.pong.is_none();
        let stream = self.begin_stream(mark, (number, generation));
        if !is_open && let Some(link) = self.link_mut(number) {
            link.waiting.push_back(stream);
        }
        self.mark_dirty(number);
        Some(Joined { stream, is_open, carried, opened })
    }

    /// Whether one that is kept, by its mark, serves questions like these.
    pub(crate) fn is_fit(&self, mark_of_link: u32, key: &LinkKey) -> bool {
        let link = self.links.get((mark_of_link & !(IDLE | SHARED)) as usize).and_then(Option::as_deref);
        link.is_some_and(|link| link.has_room() && link.key == *key)
    }

    /// A connection that was kept is taken for a question.
    pub(crate) fn take_idle(&mut self, mark_of_link: u32, mark: u32, now: Time) -> Option<Joined> {
        self.join_link(mark_of_link & !(IDLE | SHARED), mark, now)
    }

    /// The mark of the next connection that is made.
    pub(crate) fn next_mark(&mut self) -> u32 {
        let number = self.free_links.pop().unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() as u32 - 1
        });
        self.free_links.push(number);
        number | IDLE | SHARED
    }

    /// The data path makes a connection, by [`Self::next_mark`]: a stream of it.
    pub(crate) fn begin(
        &mut self,
        id: UpstreamId,
        (key, group, sought): (LinkKey, Option<u16>, Option<Sought>),
        mark: u32,
        now: Time,
    ) -> (StreamId, (u32, u32)) {
        let number = self.free_links.pop().unwrap_or_default();
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let mut out = Vec::new();
        let conn = UpstreamConnection::new(UpstreamSettings::default(), &mut out);
        let stream = self.begin_stream(mark, (number, generation));
        self.figures.begun += 1;
        let link = SharedLink {
            number,
            generation,
            id,
            key,
            group,
            stage: LinkStage::Begins,
            was_open: false,
            is_gone: false,
            sought,
            conn,
            out,
            replies: 0,
            flushes: 0,
            is_dirty: false,
            attached: 1,
            waiting: VecDeque::from([stream]),
            blocked: VecDeque::new(),
            carried: 1,
            opened: millis(now),
            heard: now,
            pong: None,
            streams_due: None,
            armed: None,
            idle: None,
            idle_until: None,
            is_leaving: false,
        };
        if let Some(place) = self.links.get_mut(number as usize) {
            *place = Some(Box::new(link));
        }
        (stream, (number, generation))
    }

    pub(super) fn on_opened(&mut self, io: &mut dyn Upstreams, number: u32, now: Time) {
        let Some(link) = self.link_mut(number) else { return };
        link.heard = now;
        match link.sought.take() {
            Some(sought) => {
                io.secure_upstream(link.id, sought);
                self.tell_waiting(number, Pending::CONNECTED);
            }
            None => {
                (link.stage, link.was_open) = (LinkStage::Open, true);
                self.tell_waiting(number, Pending::READY);
            }
        }
    }

    /// All that wait for the connection are told.
    fn tell_waiting(&mut self, number: u32, what: Pending) {
        let Some(link) = self.link_mut(number) else { return };
        let waiting = core::mem::take(&mut link.waiting);
        for id in &waiting {
            self.tell(id.slot, what);
        }
        if let Some(link) = self.link_mut(number) {
            link.waiting = waiting;
        }
        self.mark_dirty(number);
    }

    pub(super) fn on_secured(&mut self, number: u32, verdict: ServerVerdict, now: Time) {
        let Some(link) = self.link_mut(number) else { return };
        (link.stage, link.was_open, link.heard) = (LinkStage::Open, true, now);
        link.is_leaving |= !matches!(verdict, ServerVerdict::NotAsked | ServerVerdict::Trusted);
        for id in link.waiting.clone() {
            if let Some(one) = self.stream_mut(id) {
                one.verdict = Some(verdict);
            }
        }
        self.tell_waiting(number, Pending::SECURED);
    }

    pub(super) fn on_unsecured(&mut self, number: u32, why: &HandshakeFailure) {
        let Some(link) = self.link_mut(number) else { return };
        link.stage = LinkStage::Over;
        let why = Rc::new(why.clone());
        for id in core::mem::take(&mut link.waiting) {
            if let Some(one) = self.stream_mut(id) {
                one.unsecured = Some(Rc::clone(&why));
            }
            self.tell(id.slot, Pending::UNSECURED);
        }
        self.mark_dirty(number);
    }

    /// A PING was answered, or something else said: who waited for that goes on.
    pub(super) fn on_heard(&mut self, number: u32, now: Time) {
        let Some(link) = self.link_mut(number) else { return };
        link.heard = now;
        if link.pong.take().is_some() {
            self.tell_waiting(number, Pending::READY);
        }
    }

    /// Its timer ran out: streams are late, it has rested long enough, or has not answered.
    pub(super) fn on_timer(&mut self, groups: &ServerGroups, number: u32, now: Time) {
        let Some(link) = self.link_mut(number) else { return };
        link.armed = None;
        if link.pong.is_some_and(|until| now >= until) {
            let is_busy = link.conn.open_streams() > 0;
            // It may be slow alone: what was asked of it has times of its own. Nothing more is.
            link.pong = link.pong.filter(|_| !is_busy);
            self.figures.silent += 1;
            if !is_busy {
                return self.end_link(number, &StreamEnd::Closed(app::Closed::TimedOut));
            }
            self.leave_link(number, ErrorCode::NO_ERROR);
        }
        let Some(link) = self.link_mut(number) else { return };
        if link.idle_until.is_some_and(|until| now >= until) {
            self.forget_idle(groups, number);
            return self.close_link(number);
        }
        let reference = (number, link.generation);
        let is_due = link.streams_due.is_some_and(|due| now >= due);
        if is_due {
            let (mut next, mut late, mut is_dead) = (None::<Time>, Vec::new(), false);
            for (slot, one) in (0..).zip(&mut self.streams) {
                if !one.is_used || one.link != reference {
                    continue;
                }
                match one.due {
                    Some(due) if due <= now => {
                        one.due = None;
                        is_dead |= !one.is_paced;
                        late.push(slot);
                    }
                    Some(due) => next = Some(next.map_or(due, |next| next.min(due))),
                    None => {}
                }
            }
            for slot in late {
                self.tell(slot, Pending::TIMER);
            }
            if let Some(link) = self.link_mut(number) {
                link.streams_due = next;
                // One that says nothing at all may be dead: that is asked for.
                if is_dead && link.is_quiet(now) {
                    link.conn.ping(&mut link.out);
                    link.pong = Some(now + PONG);
                }
            }
        }
        self.mark_dirty(number);
    }

    /// A stream's asker is to be told when this time has come.
    pub(crate) fn set_timer(&mut self, id: StreamId, at: Option<Time>) {
        self.tell_at(id, at, false);
    }

    /// The same where that is to read more: its server is not asked whether it is alive.
    pub(crate) fn set_pace(&mut self, id: StreamId, at: Option<Time>) {
        self.tell_at(id, at, true);
    }

    fn tell_at(&mut self, id: StreamId, at: Option<Time>, is_paced: bool) {
        let Some(one) = self.stream_mut(id) else { return };
        (one.due, one.is_paced) = (at, is_paced);
        let ((number, generation), Some(at)) = (one.link, at) else { return };
        let Some(link) = self.link_mut(number).filter(|link| link.generation == generation) else { return };
        if link.streams_due.is_none_or(|due| at < due) {
            link.streams_due = Some(at);
            self.mark_dirty(number);
        }
    }

    /// The server said something that none may: its connection ends.
    pub(super) fn on_fault(&mut self, number: u32, fault: h2::UpstreamFault) {
        self.figures.faults += 1;
        if let Some(flood) = fault.flood {
            self.figures.floods[flood as usize] += 1;
        }
        self.end_link(number, &StreamEnd::Fault(fault.told));
    }

    /// The server takes no more questions, and has not processed some.
    pub(super) fn on_go_away(&mut self, number: u32, code: ErrorCode) {
        while let Some(slot) = self.link_mut(number).and_then(|link| link.conn.unprocessed()) {
            self.end_stream_by(slot, StreamEnd::Unprocessed(code, UnprocessedBy::GoAway));
        }
        self.leave_link(number, code);
    }

    /// Nothing more is asked of it: what has not begun there goes elsewhere.
    fn leave_link(&mut self, number: u32, code: ErrorCode) {
        let Some(link) = self.link_mut(number) else { return };
        link.is_leaving = true;
        for id in core::mem::take(&mut link.waiting) {
            self.end_stream_by(id.slot, StreamEnd::Unprocessed(code, UnprocessedBy::Us));
        }
        self.mark_dirty(number);
    }

    /// No more comes on a stream, unless its answer is whole already.
    pub(super) fn end_stream_by(&mut self, slot: u32, end: StreamEnd) {
        if matches!(end, StreamEnd::Unprocessed(..)) {
            self.figures.unprocessed += 1;
        }
        let Some(one) = self.streams.get_mut(slot as usize) else { return };
        one.out.clear();
        one.unsent = 0;
        if !matches!(one.end, Some(StreamEnd::Whole(_))) {
            one.end = Some(end);
        }
        self.tell(slot, Pending::OVER);
    }

    /// The connection is of no use any more: its streams are told why.
    pub(super) fn end_link(&mut self, number: u32, why: &StreamEnd) {
        let Some(link) = self.link_mut(number) else { return };
        link.stage = LinkStage::Over;
        let reference = (number, link.generation);
        let is_asked = link.pong.is_some();
        let waiting = core::mem::take(&mut link.waiting);
        let open = link.conn.drain();
        for slot in open {
            self.end_stream_by(slot, why.clone());
        }
        for id in waiting {
            // One that was open before, and that nothing of this was sent to.
            let end =
                if is_asked { StreamEnd::Unprocessed(ErrorCode::NO_ERROR, UnprocessedBy::Us) } else { why.clone() };
            self.end_stream_by(id.slot, end);
        }
        // All of the others' answers is here, and no timer of theirs runs any more.
        for slot in 0..self.streams.len() as u32 {
            let one = &self.streams[slot as usize];
            if one.is_used && one.link == reference {
                self.tell(slot, Pending::OVER);
            }
        }
        self.mark_dirty(number);
    }

    /// The connection is closed in good order.
    pub(super) fn close_link(&mut self, number: u32) {
        if let Some(link) = self.link_mut(number) {
            if link.was_open {
                link.conn.leave(&mut link.out);
            }
            link.stage = LinkStage::Over;
            self.mark_dirty(number);
        }
    }

    /// Closes one that was kept, by its mark.
    pub(crate) fn close_kept(&mut self, mark: u32) {
        let number = mark & !(IDLE | SHARED);
        if let Some(link) = self.link_mut(number) {
            (link.idle, link.idle_until) = (None, None);
        }
        self.close_link(number);
    }

    /// Whether a stream's connection is over: no more comes, and its timer runs no more.
    pub(crate) fn has_lost_link(&self, id: StreamId) -> bool {
        let Some(one) = self.stream(id) else { return true };
        let link = self.links.get(one.link.0 as usize).and_then(Option::as_deref);
        link.is_none_or(|link| link.generation != one.link.1 || link.stage == LinkStage::Over)
    }

    /// No connection is used for further questions.
    pub(crate) fn retire(&mut self) {
        for number in 0..self.links.len() as u32 {
            if let Some(link) = self.link_mut(number) {
                link.is_leaving = true;
                self.mark_dirty(number);
            }
        }
    }

    /// Nothing is asked of a connection: it is kept for further questions, or closed.
    pub(super) fn rest_link(&mut self, groups: &ServerGroups, number: u32, now: Time) {
        let Some(link) = self.links.get_mut(number as usize).and_then(Option::as_deref_mut) else { return };
        let (generation, mut gone, mut is_kept) = (link.generation, None, false);
        if let Some(group) = link.group.filter(|_| !link.is_leaving && !groups.is_replaced.get()) {
            let mut list = groups.list.borrow_mut();
            let group = list.get_mut(usize::from(group)).filter(|one| one.shared.contains(&(number, generation)));
            if let Some(group) = group
                && let Some(peer) = group.balancer.group().peer_at(&link.key.address)
                && let Some(idle) = group.idle.as_mut()
            {
                let conn = KeptLink { id: link.id, mark: number | IDLE | SHARED, way: link.key.way };
                let kept = KeptConnection { conn, requests: link.carried, opened: link.opened };
                if let PutBack::Kept(id, other) = idle.put(peer, kept, millis(now)) {
                    (link.idle, link.idle_until, gone, is_kept) = (Some(id), Some(now + group.kept_for), other, true);
                }
            }
        }
        if !is_kept {
            self.close_link(number);
        }
        if let Some(gone) = gone {
            match gone.mark & SHARED {
                0 => self.others.push(gone),
                _ => self.close_kept(gone.mark),
            }
        }
    }

    /// It is none of those that are kept any more.
    fn forget_idle(&mut self, groups: &ServerGroups, number: u32) {
        let Some(link) = self.link_mut(number) else { return };
        link.idle_until = None;
        let (Some(id), Some(group)) = (link.idle.take(), link.group) else { return };
        let mut list = groups.list.borrow_mut();
        if let Some(idle) = list.get_mut(usize::from(group)).and_then(|one| one.idle.as_mut()) {
            let _ = idle.remove(id);
        }
    }

    /// The connection is over, and so is what is known of it.
    pub(super) fn remove_link(&mut self, groups: &ServerGroups, io: &mut dyn Upstreams, number: u32) {
        self.forget_idle(groups, number);
        let Some(link) = self.links.get_mut(number as usize).and_then(Option::take) else { return };
        self.free_links.push(number);
        if let Some(group) = link.group
            && let Some(group) = groups.list.borrow_mut().get_mut(usize::from(group))
        {
            group.shared.retain(|one| *one != (number, link.generation));
        }
        match () {
            () if link.is_gone => {}
            () if link.was_open => io.let_go(link.id, LINGER),
            // Nobody waits for it any more.
            () => io.let_go(link.id, Duration::ZERO),
        }
    }
}
