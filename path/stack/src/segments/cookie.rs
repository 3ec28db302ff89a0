//! SYN cookies (RFC 4987 section 3.6): a handshake of which nothing is kept.

use super::Tcp;
use super::flows::{Keyed, Owner};
use crate::egress::Egress;
use crate::flow::{Envelope, Flow};
use crate::ip::Ip;
use crate::secret::STAMP_BITS;
use app::ConnId;
use core::time::Duration;
use tcp::{Agreed, agree_on};
use wire::tcp::{SeqNum, TcpHeader, Timestamps};

/// Cookies are looked for this long after the last was sent: what the peer's
/// last retransmission may take.
const COOKIE_LIFETIME: Duration = Duration::from_secs(192);

/// In a cookie's timestamp: no window scaling.
const NO_SHIFT: u32 = 15;
const SACK_BIT: u32 = 1 << 4;

const _: () = assert!(SACK_BIT | NO_SHIFT == (1 << STAMP_BITS) - 1);

/// What an acknowledgement is, where cookies are in use.
pub(super) enum Cookie {
    /// It proves a cookie of ours: here is the connection.
    Accepted(ConnId),
    /// It proves one, and there is no room for the connection yet.
    Deferred,
    /// It proves one, and the client has as many connections as it may have.
    Refused,
    /// It proves none.
    Wrong,
}

impl Tcp {
    /// Answers a SYN without keeping anything (RFC 4987 section 3.6).
    #[cold]
    pub(super) fn send_cookie(
        &mut self,
        ip: &mut Ip,
        flow: &Flow,
        envelope: &Envelope,
        header: &TcpHeader,
        out: &mut impl Egress,
    ) {
        let mut agreed = agree_on(&self.common.config, !flow.is_v4(), SeqNum(0), header.seq, &header.options);
        agreed.iss = self.secret.cookie(flow, header.seq, agreed.peer_mss, self.common.now);
        let timestamps = agreed.timestamps.map(|echo| {
            // What the cookie has no room for goes into our timestamp's low
            // bits; it is moved back, never ahead of the clock.
            let shift = agreed.peer_shift.map_or(NO_SHIFT, u32::from);
            let bits = shift | if agreed.sack { SACK_BIT } else { 0 };
            let mask = (1 << STAMP_BITS) - 1;
            let clock = self.common.now_ms;
            let mut coded = (clock & !mask) | bits;
            if coded > clock {
                coded = coded.wrapping_sub(1 << STAMP_BITS);
            }
            Timestamps { value: coded.wrapping_add(self.common.offsets.of(flow)), echo }
        });
        if timestamps.is_none() {
            agreed.peer_shift = None;
            agreed.sack = false;
        }
        self.last_cookie = Some(self.common.now);
        self.counters.cookies_sent += 1;
        let opening = self.syn_ack(ip, flow, &agreed, timestamps);
        // Nothing is kept of it, so nothing can be sent later: the peer's SYN
        // comes again.
        let sent = self.send_opening(ip, out, flow, envelope.mac, &opening);
        if !sent {
            ip.drop_reply();
        }
    }

    pub(super) fn cookies_in_use(&self) -> bool {
        self.last_cookie.is_some_and(|last| self.common.now.since(last) < COOKIE_LIFETIME)
    }

    /// A connection from an acknowledgement that proves our cookie.
    #[cold]
    pub(super) fn accept_cookie(&mut self, ip: &mut Ip, key: Keyed, envelope: &Envelope, header: &TcpHeader) -> Cookie {
        let Keyed { flow, hash } = key;
        let irs = header.seq.minus(1);
        let iss = header.ack.minus(1);
        let Some(peer_mss) = self.secret.check_cookie(&flow, irs, iss, self.common.now) else { return Cookie::Wrong };
        if !self.admits(&flow) {
            return Cookie::Refused;
        }
        if self.slots.is_full() {
            self.want_room();
            return Cookie::Deferred;
        }
        let mut agreed = Agreed::bare(iss, irs, peer_mss);
        if let Some(ts) = header.options.timestamps.filter(|_| self.common.config.timestamps) {
            let bits = ts.echo.wrapping_sub(self.common.offsets.of(&flow));
            let shift = bits & NO_SHIFT;
            agreed.peer_shift = (shift != NO_SHIFT).then_some(shift as u8);
            agreed.sack = bits & SACK_BIT != 0;
            agreed.timestamps = Some(ts.value);
        }
        let neighbour = ip.neighbour_of(envelope);
        let window = u32::from(header.window) << agreed.peer_shift.unwrap_or(0).min(tcp::config::MAX_WINDOW_SHIFT);
        let id = self.create(ip, flow, neighbour, &agreed, window.min(0xffff) as u16);
        if !self.flows.insert(hash, Owner::Connection(id.index() as u32)) {
            ip.neighbours.unpin(neighbour);
            self.sources.closed(flow.remote());
            self.slots.remove(id.index() as u32);
            return Cookie::Deferred;
        }
        self.counters.cookies_accepted += 1;
        Cookie::Accepted(id)
    }
}
