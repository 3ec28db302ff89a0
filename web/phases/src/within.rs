//! What a request within a request sees of the carrier: its answer goes to whoever asked,
//! all else to the carrier.

use super::subrequest::SubId;
use super::subs::{SubEvent, SubTable};
use app::{Body, ConnectError};
use core::net::IpAddr;
use core::time::Duration;
use exchange::{
    About, ExchangeId, ExchangeSettings, Opening, Piece, Ready, Replies, Reply, ReplyEnd, ReplyFlow, Stop, Totals,
    UpstreamAddress, UpstreamId, Upstreams,
};
use handshake::Sought;
use semantics::{Request, Status};
use wire::Time;

/// A carrier whose exchanges are others, but for those of subrequests: what these are
/// answered is told to their records in `table`.
///
/// The carrier is of any kind, so that what answers subrequests is there but once.
pub(super) struct SubReplies<'a> {
    pub replies: &'a mut dyn Replies,
    pub table: &'a mut SubTable,
}

impl SubReplies<'_> {
    fn push(&mut self, id: SubId, event: SubEvent) {
        if let Some(one) = self.table.get_mut(&id) {
            one.push(event);
        }
    }

    /// An answer ends before it is whole.
    fn push_cut(&mut self, id: SubId) {
        let is_slice = self.table.get(&id).is_some_and(|one| one.is_slice);
        self.push(id, if is_slice { SubEvent::HangUp } else { SubEvent::Over });
    }

    /// The exchange that a subrequest is for.
    fn main(&self, id: ExchangeId) -> ExchangeId {
        SubId::of(id).and_then(|id| self.table.get(&id)).map_or(id, |one| one.main.1)
    }
}

impl Replies for SubReplies<'_> {
    fn now(&self) -> Time {
        self.replies.now()
    }

    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        let Some(sub) = SubId::of(id) else { return self.replies.reply(id, request, reply, body) };
        for piece in body {
            self.body(id, *piece);
        }
        self.push(sub, SubEvent::Over);
        0
    }

    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        match SubId::of(id) {
            // None is answered with what is ready.
            Some(sub) => self.push(sub, SubEvent::Over),
            None => self.replies.reply_ready(id, request, ready),
        }
    }

    fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) -> u64 {
        let Some(sub) = SubId::of(id) else { return self.replies.begin(id, request, reply, end) };
        if reply.status == Status::SWITCHING_PROTOCOLS {
            self.push(sub, SubEvent::Over);
        }
        0
    }

    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        let Some(sub) = SubId::of(id) else { return self.replies.body(id, piece) };
        let (body, range) = match piece {
            Piece::Bytes(bytes) => {
                let body = Body::new(bytes.to_vec());
                let length = body.len();
                (body, 0..length)
            }
            Piece::Body(body, (start, end)) => (body.clone(), start..end),
            Piece::File(..) => return false,
        };
        self.push(sub, SubEvent::Content(body, range));
        true
    }

    fn take_back(&mut self, id: ExchangeId, most: usize) -> usize {
        if SubId::of(id).is_some() { 0 } else { self.replies.take_back(id, most) }
    }

    fn finish(&mut self, id: ExchangeId, trailers: &[u8]) {
        match SubId::of(id) {
            Some(sub) => self.push(sub, SubEvent::Over),
            None => self.replies.finish(id, trailers),
        }
    }

    fn pace(&mut self, id: ExchangeId, rate: u64) -> bool {
        SubId::of(id).is_none() && self.replies.pace(id, rate)
    }

    fn end(&mut self, id: ExchangeId) {
        match SubId::of(id) {
            Some(sub) => self.push(sub, SubEvent::Over),
            None => self.replies.end(id),
        }
    }

    fn stop(&mut self, id: ExchangeId, how: Stop) {
        match SubId::of(id) {
            Some(sub) if how == Stop::HangUp => self.push(sub, SubEvent::HangUp),
            Some(sub) => self.push_cut(sub),
            None => self.replies.stop(id, how),
        }
    }

    fn read(&mut self, id: ExchangeId, most: Option<u64>) {
        if SubId::of(id).is_none() {
            self.replies.read(id, most);
        }
    }

    fn about(&self, id: ExchangeId) -> About {
        self.replies.about(self.main(id))
    }

    fn opening(&self, id: ExchangeId) -> Opening<'_> {
        self.replies.opening(self.main(id))
    }

    fn totals(&self) -> Totals {
        self.replies.totals()
    }

    fn flow(&self, id: ExchangeId) -> ReplyFlow {
        let Some(sub) = SubId::of(id) else { return self.replies.flow(id) };
        let Some(record) = self.table.get(&sub) else { return ReplyFlow::default() };
        // Whoever takes the main answer will take this, and what that has no room for is not asked for.
        let taken = self.replies.flow(record.main.1).taken;
        ReplyFlow { unsent: record.unsent, room: ReplyFlow::UNBOUNDED, ahead: 0, taken, received: 0 }
    }

    fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings) {
        // Latencies and times are those of exchanges.
        if SubId::of(id).is_none() {
            self.replies.set(id, settings);
        }
    }

    fn mark(&self, id: ExchangeId) -> Option<u32> {
        match SubId::of(id) {
            Some(sub) => self.table.get(&sub).map(|one| one.token),
            None => self.replies.mark(id),
        }
    }
}

impl Upstreams for SubReplies<'_> {
    fn dial(&mut self, to: UpstreamAddress<'_>, from: Option<IpAddr>, mark: u32) -> Result<UpstreamId, ConnectError> {
        self.replies.dial(to, from, mark)
    }

    fn secure_upstream(&mut self, id: UpstreamId, sought: Sought) {
        self.replies.secure_upstream(id, sought);
    }

    fn set_upstream_mark(&mut self, id: UpstreamId, mark: u32) {
        self.replies.set_upstream_mark(id, mark);
    }

    fn send_upstream(&mut self, id: UpstreamId, piece: Piece<'_>) -> bool {
        self.replies.send_upstream(id, piece)
    }

    fn unsent_upstream(&self, id: UpstreamId) -> usize {
        self.replies.unsent_upstream(id)
    }

    fn receive_upstream(&mut self, id: UpstreamId, most: usize) {
        self.replies.receive_upstream(id, most);
    }

    fn set_upstream_timer(&mut self, id: UpstreamId, at: Option<Time>) {
        self.replies.set_upstream_timer(id, at);
    }

    fn let_go(&mut self, id: UpstreamId, patience: Duration) {
        self.replies.let_go(id, patience);
    }
}
