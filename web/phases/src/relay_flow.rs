//! How much of an upstream's body is taken, by what its client has room for.

use super::Rest;
use super::filtered_body::Filtering;
use super::request_state::RequestState;
use asking::{AskLink, AskStage, BodyEnd};
use exchange::{Piece, Replies, ReplyFlow};

/// What is shorter is passed on by way of this process: it takes fewer system calls.
const PASSED_FROM: u64 = if cfg!(test) { 6 << 10 } else { 128 << 10 };

impl Rest {
    /// The client has taken some: what waits at the data path is asked for again.
    pub(super) fn read_more(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(state) = self.requests.get_mut(token) else { return };
        let (id, room, little) = (state.id, state.room_to_read(replies), state.is_shut(replies));
        let is_direct = state.reply.filtering.as_deref().is_some_and(Filtering::is_direct);
        if !is_direct || replies.flow(id).unsent <= app::SEND_LOW_WATER {
            let _ = self.ask_for(replies, token, |ask, turn| ask.read_more(turn, room, little));
        }
    }

    /// Takes some of a body: as much as may wait for its client. How many bytes were
    /// taken, and whether it is over.
    pub(super) fn take_body(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> (usize, BodyEnd) {
        if let Some(came) = self.take_left(replies, token, bytes) {
            let _ = self.ask_for(replies, token, |ask, turn| ask.watch_body(turn, false));
            return came;
        }
        let most = self.makings.relayed_max();
        let Some(state) = self.requests.get_mut(token) else {
            return (bytes.len(), BodyEnd::Not);
        };
        let came = state.take_body(replies, most, bytes);
        let little = state.is_shut(replies);
        let _ = self.ask_for(replies, token, |ask, turn| ask.watch_body(turn, little));
        came
    }

    /// Where nothing looks at the rest of a body, and it is long, it goes to the client by
    /// itself from here on, if the data path can.
    pub(super) fn pass_on(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        let Some(state) = self.requests.get_mut(token) else { return };
        let (Some(relay), Some(filtering)) = (state.passed.relay.as_deref_mut(), state.reply.filtering.as_deref())
        else {
            return;
        };
        let (kept, groups) = (&mut self.kept, &state.loaded.groups);
        let mut turn = asking::AskTurn { io: replies, kept, groups, now };
        relay.ask.pass_to(&mut turn, state.id, |left| left >= PASSED_FROM && filtering.passes_as_it_is(left));
    }

    /// Bytes of a body went to the client by themselves.
    pub(super) fn take_passed(&mut self, replies: &mut dyn Replies, token: u32, bytes: u64) {
        let Some(state) = self.requests.get_mut(token) else { return };
        let (Some(_), Some(filtering)) = (&state.passed.relay, state.reply.filtering.as_deref_mut()) else { return };
        replies.note_passed(state.id, bytes);
        state.sent.body += bytes;
        filtering.told += bytes;
        let _ = self.ask_for(replies, token, |ask, turn| ask.on_passed(turn, bytes));
    }

    /// Where what is asked by this connection is; none if nothing is.
    pub(super) fn stage_of(&mut self, token: u32, id: AskLink) -> Option<AskStage> {
        let relay = self.relay_of(token)?;
        (relay.ask.link() == Some(id)).then(|| relay.ask.stage())
    }
}

/// Bytes of a body that wait to be changed while their client takes nothing: for what comes of them there is room.
const CHANGED_AHEAD: usize = 1 << 10;

/// Bytes that a carrier takes of what is made.
fn carried(flow: ReplyFlow) -> usize {
    flow.welcome().max(flow.room.min(CHANGED_AHEAD))
}

impl RequestState {
    /// Bytes that may be read ahead of the client, for whose carrier there is this much.
    fn room_ahead(&self, flow: ReplyFlow) -> usize {
        let waiting = self.reply.filtering.as_ref().map_or(0, |filtering| filtering.waiting_bytes());
        self.ahead_max().min(carried(flow)).saturating_sub(waiting)
    }

    fn ahead_max(&self) -> usize {
        self.passed.relay.as_ref().map_or(0, |relay| relay.ask.ahead_max())
    }

    /// The same, for who asks whether it is worth to read on: where the carrier has less room than
    /// may be read ahead, some is enough.
    fn room_to_read(&self, replies: &dyn Replies) -> usize {
        let (most, flow) = (self.ahead_max(), replies.flow(self.id));
        let room = self.room_ahead(flow);
        if room > 0 && carried(flow) < most { most } else { room }
    }

    /// Takes some of a body. What nothing changes or delays goes to the client as it is,
    /// up to `most` bytes that are unsent; all else waits until it is made.
    pub(super) fn take_body(&mut self, replies: &mut dyn Replies, most: usize, bytes: &[u8]) -> (usize, BodyEnd) {
        let is_direct = self.reply.filtering.as_deref().is_some_and(Filtering::is_direct);
        let flow = replies.flow(self.id);
        let room = if is_direct { most.saturating_sub(flow.unsent).min(flow.room) } else { self.room_ahead(flow) };
        let (Some(relay), Some(filtering)) = (self.passed.relay.as_deref_mut(), self.reply.filtering.as_deref_mut())
        else {
            return (0, BodyEnd::Not);
        };
        let (id, slices) = (self.id, &mut self.within.slices);
        let (now, mut passed) = (replies.now(), 0);
        let came = relay.ask.read_body(now, bytes, room, &mut |bytes| {
            if is_direct {
                replies.body(id, Piece::Bytes(bytes));
                passed += bytes.len() as u64;
                return;
            }
            filtering.add_copy(slices.as_deref_mut().map_or(bytes, |slices| slices.cut(bytes)));
        });
        filtering.told += passed;
        self.sent.body += passed;
        came
    }
}
