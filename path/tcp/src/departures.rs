//! When what is in flight left, and in what pieces: taken down where the cold
//! part exists.

use crate::connection::Connection;
use crate::context::Context;
use crate::flags::Flags;
use wire::tcp::SeqNum;

impl Connection {
    /// Takes down when new data from `seq` on leaves, where the cold part
    /// exists: for RACK, and for its round trip to the microsecond, which a
    /// peer without timestamps would not tell.
    #[inline]
    pub(crate) fn time_segment(&mut self, cx: &Context<'_>, seq: SeqNum) {
        if self.cold.is_none() {
            return;
        }
        let (una, end, last) = (self.una, self.nxt, self.last_of(seq));
        if let Some(cold) = &mut self.cold {
            let state = cold.sampler.on_sent(cx.now, seq == una);
            cold.rack.begin(una, seq, cx.now);
            cold.rack.on_sent(end, cx.now, state);
            cold.last_segment = Some(last);
            if let Some(pacing) = &mut cold.pacing {
                pacing.pacer.on_sent(cx.now, end.forward_from(seq));
            }
            if seq == una {
                cold.unanswered_since = None;
            }
        }
    }

    /// Nothing more waits to be sent: if the windows would let more go, what is
    /// delivered tells of the application, not of the path.
    pub(crate) fn note_app_limited(&mut self) {
        let in_flight = self.nxt.forward_from(self.una);
        if let Some(cold) = &mut self.cold
            && !self.flags.has(Flags::CWND_LIMITED)
        {
            cold.sampler.on_app_limited(in_flight);
        }
    }

    /// Where the last segment of all that was sent from `seq` on begins, if
    /// that left in one piece.
    fn last_of(&self, seq: SeqNum) -> SeqNum {
        let fin = u32::from(self.flags.has(Flags::FIN_SENT));
        let data = self.nxt.forward_from(seq).saturating_sub(fin);
        let last = if data == 0 { 0 } else { (data - 1) % u32::from(self.mss).max(1) + 1 };
        self.nxt.minus(last + fin)
    }

    /// The last segment in flight: where it begins, and its length, a FIN
    /// included. Of a flight that nobody took notes of, each piece but the
    /// last is taken for a full segment.
    pub(crate) fn last_segment(&self) -> (SeqNum, u32) {
        let noted = self.cold.as_ref().and_then(|cold| cold.last_segment);
        let start = match noted {
            Some(start) if start.before(self.nxt) => start.latest(self.una),
            _ => self.last_of(self.una),
        };
        // Segments may have become shorter since.
        let most = u32::from(self.mss) + u32::from(self.flags.has(Flags::FIN_SENT));
        let len = self.nxt.forward_from(start).min(most);
        (self.nxt.minus(len), len)
    }
}
