//! TIME-WAIT: what is left of a connection, and segments that still come for
//! it.

use super::Tcp;
use super::arrive::Arrival;
use super::build::Reply;
use super::challenge;
use super::flows::{Keyed, Owner};
use super::outbox::Pending;
use crate::egress::Egress;
use crate::flow::Envelope;
use crate::ip::{Ip, NeighbourId};
use tcp::LastWord;
use wire::Mac;
use wire::tcp::{Flags, TcpHeader, TcpOptions, Timestamps};

impl Tcp {
    #[inline(always)]
    pub(super) fn begin_time_wait(
        &mut self,
        ip: &mut Ip,
        index: u32,
        key: Keyed,
        neighbour: NeighbourId,
        last: &LastWord,
    ) {
        if let Some(oldest) = self.waits.overdue() {
            self.counters.time_wait_dropped += 1;
            self.drop_time_wait(oldest);
        }
        let Keyed { flow, hash } = key;
        let Some(record) = self.waits.insert(flow, hash, last.nxt, last.rcv_nxt, last.ts_recent, self.common.now_ms)
        else {
            self.flows.remove(hash, Owner::Connection(index));
            return;
        };
        self.flows.replace(hash, Owner::Connection(index), Owner::TimeWait(record));
        if last.owes_ack
            && let Some(mac) = ip.neighbours.mac(neighbour)
        {
            // No slot was free for the last acknowledgement.
            self.reply_later(ip, Pending::TimeWait(record, mac));
        }
    }

    /// A segment for a connection in TIME-WAIT (RFC 9293 section 3.10.7.4).
    pub(super) fn on_time_wait<'f>(
        &mut self,
        ip: &mut Ip,
        record: u32,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let waiting = *self.waits.get(record);
        let (flow, hash) = (waiting.flow, waiting.hash);
        if header.flags.contains(Flags::RST) {
            // RFC 1337: TIME-WAIT is not to be assassinated.
            return None;
        }
        if !header.flags.intersects(Flags::ACK.union(Flags::SYN)) {
            // RFC 9293 section 3.10.7.4, fifth: without ACK it is dropped.
            return None;
        }
        let fresh = header.seq.after(waiting.rcv_nxt);
        let newer = match (waiting.ts_recent, &header.options.timestamps) {
            // RFC 6191 section 2.
            (Some(recent), Some(ts)) => (ts.value.wrapping_sub(recent) as i32) > 0 || (ts.value == recent && fresh),
            (Some(_), None) | (None, _) => fresh,
        };
        let syn = header.flags.contains(Flags::SYN) && !header.flags.intersects(Flags::ACK.union(Flags::FIN));
        if syn && newer && self.listeners.takes(ip, &flow) {
            if self.syns.is_full() && waiting.ts_recent.is_none() {
                // A cookie has no room for a number beyond the old ones, and
                // nothing else would tell the two connections' segments apart.
                self.counters.syn_dropped += 1;
                return None;
            }
            self.counters.time_wait_reused += 1;
            self.drop_time_wait(record);
            self.on_syn_again(ip, Keyed { flow, hash }, envelope, header, waiting.snd_nxt, out);
            return None;
        }
        let bare = payload.is_empty() && !header.flags.intersects(Flags::SYN.union(Flags::FIN));
        if bare && header.seq == waiting.rcv_nxt {
            return None;
        }
        let end = header.seq.plus(tcp::connection::segment_len(header, payload));
        let fin_again = header.flags.contains(Flags::FIN) && end == waiting.rcv_nxt;
        let may = fin_again || self.waits.may_answer(record, challenge::INTERVAL_MS, self.common.now_ms);
        if !may || !self.challenges.take(self.common.now) {
            // The segment may be anybody's, and any number of them; a peer
            // that did not hear of its FIN sends it again.
            self.counters.challenges_limited += 1;
            return None;
        }
        let mut record = record;
        if fin_again && let Some(moved) = self.waits.restart(record, self.common.now_ms) {
            // The peer's FIN again: it did not hear of our acknowledgement,
            // and the wait is as long again (RFC 9293 section 3.10.7.4).
            self.flows.replace(hash, Owner::TimeWait(record), Owner::TimeWait(moved));
            record = moved;
        }
        self.send_time_wait(ip, record, envelope.mac, out);
        None
    }

    /// Acknowledges the peer's FIN once more.
    pub(super) fn send_time_wait(&mut self, ip: &mut Ip, record: u32, mac: Mac, out: &mut impl Egress) {
        if out.slot().is_none() {
            self.reply_later(ip, Pending::TimeWait(record, mac));
            return;
        }
        let waiting = *self.waits.get(record);
        let stamp = self.common.stamp(&waiting.flow);
        let timestamps = waiting.ts_recent.map(|echo| Timestamps { value: stamp, echo });
        let reply = Reply {
            seq: waiting.snd_nxt,
            ack: waiting.rcv_nxt,
            flags: Flags::ACK,
            window: 0,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
        };
        self.reply_as(ip, out, &waiting.flow, mac, &reply, 0);
    }

    pub(super) fn drop_time_wait(&mut self, record: u32) {
        let hash = self.waits.get(record).hash;
        self.flows.remove(hash, Owner::TimeWait(record));
        self.waits.remove(record);
    }
}
