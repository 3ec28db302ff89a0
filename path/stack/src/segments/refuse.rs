//! Segments that belong to nothing here: resets within their limit, and flows
//! that another silo may own.

use super::Tcp;
use super::arrive::{Arrival, Arrived};
use super::build::{Frame, Reply};
use super::outbox::PendingReset;
use crate::config::{Config, Seeds};
use crate::egress::Egress;
use crate::flow::{Envelope, Flow};
use crate::ip::Ip;
use crate::reset_limit::ResetLimit;
use app::ConnId;
use core::net::SocketAddr;
use tcp::Treatment;
use wire::tcp::{Flags, TcpHeader};
use wire::{Mac, Offload};

/// What is refused, and how.
#[derive(Debug)]
pub(super) struct Refusals {
    resets: ResetLimit,
    /// Other silos have the same addresses.
    steered: bool,
    /// The segment of an unknown flow that [`Tcp::refuse`] would answer.
    stray: Option<Stray>,
    /// The frame at hand is that segment.
    strayed: bool,
}

/// A segment of an unknown flow, as far as it is to be answered.
#[derive(Clone, Copy, Debug)]
struct Stray {
    flow: Flow,
    mac: Mac,
    /// The reset that answers it, if one does.
    reset: Option<Reply>,
}

impl Refusals {
    pub fn new(config: &Config, seeds: &Seeds) -> Self {
        let seed = [seeds.secret[2], seeds.table[1]];
        let resets = ResetLimit::new(config.resets_per_source, config.resets, seed);
        Self { resets, steered: config.steered, stray: None, strayed: false }
    }

    /// Whether other silos have the same addresses.
    pub const fn is_steered(&self) -> bool {
        self.steered
    }
}

impl Tcp {
    /// Notes a segment of an unknown flow if it may be another silo's, with
    /// the reset that is due if it is not. Returns whether it was noted.
    #[cold]
    pub(super) fn note_stray(&mut self, flow: &Flow, envelope: &Envelope, reset: Option<Reply>) -> bool {
        let refusals = &mut self.refusals;
        if refusals.steered {
            self.counters.strays += 1;
            refusals.strayed = true;
            refusals.stray = Some(Stray { flow: *flow, mac: envelope.mac, reset });
        }
        refusals.steered
    }

    /// Answers a segment that belongs to nothing here, or notes it if it may
    /// be another silo's.
    #[inline(never)]
    pub(super) fn refuse_or_note(
        &mut self,
        ip: &mut Ip,
        flow: &Flow,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &[u8],
        out: &mut impl Egress,
    ) {
        if !self.note_stray(flow, envelope, reset_for(header, payload)) {
            self.reset_unknown(ip, flow, envelope.mac, header, payload, out);
        }
    }

    /// What a frame that is not of the fast path means.
    #[inline]
    pub fn or_stray<'f>(&mut self, arrival: Option<Arrival<'f>>) -> Arrived<'f> {
        match arrival {
            None if self.refusals.strayed => {
                self.refusals.strayed = false;
                Arrived::Stray
            }
            None if self.crowd.take_wanted() => Arrived::Full,
            arrival => arrival.into(),
        }
    }

    /// The last stray is nobody's: it is answered as RFC 9293 section
    /// 3.10.7.1 says.
    #[cold]
    pub fn refuse(&mut self, ip: &mut Ip, out: &mut impl Egress) {
        if let Some(Stray { flow, mac, reset: Some(reset) }) = self.refusals.stray.take() {
            self.send_reset(ip, &flow, mac, &reset, out);
        }
    }

    /// Whether a reassembled segment is of a flow that is known here.
    pub(super) fn knows_segment(&self, envelope: &Envelope, segment: &[u8]) -> bool {
        let Some([a, b, c, d]) = segment.first_chunk() else { return false };
        let (remote_port, local_port) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        self.knows(&Flow::new(envelope.src, remote_port, envelope.local, local_port))
    }

    /// Whether a flow belongs to a connection, a handshake or a TIME-WAIT
    /// record here.
    pub fn owns(&self, ip: &Ip, remote: SocketAddr, local: SocketAddr) -> bool {
        ip.addresses
            .index(local.ip())
            .is_some_and(|index| self.knows(&Flow::new(remote.ip(), remote.port(), index, local.port())))
    }

    fn knows(&self, flow: &Flow) -> bool {
        self.find(self.flows.hash(flow), flow).is_some()
    }

    /// RFC 9293 section 3.10.7.1: a segment of no connection.
    pub(super) fn reset_unknown(
        &mut self,
        ip: &mut Ip,
        flow: &Flow,
        mac: Mac,
        header: &TcpHeader,
        payload: &[u8],
        out: &mut impl Egress,
    ) {
        if let Some(reset) = reset_for(header, payload) {
            self.send_reset(ip, flow, mac, &reset, out);
        }
    }

    /// Sends a reset that somebody else's segment may have asked for, as far as
    /// their limit allows.
    pub(super) fn send_reset(&mut self, ip: &mut Ip, flow: &Flow, mac: Mac, reset: &Reply, out: &mut impl Egress) {
        if self.refusals.resets.take(flow.remote(), self.common.now) {
            self.reply_as(ip, out, flow, mac, reset, 0);
        } else {
            ip.limit_answer();
        }
    }

    /// Writes a segment that belongs to no connection, if a slot is free.
    pub(super) fn reply_as(
        &mut self,
        ip: &mut Ip,
        out: &mut impl Egress,
        flow: &Flow,
        mac: Mac,
        reply: &Reply,
        traffic_class: u8,
    ) {
        let Some(buffer) = out.slot() else {
            ip.drop_reply();
            return;
        };
        let len = Frame(ip.to(mac, Treatment::new(traffic_class, false))).build_reply(buffer, flow, reply);
        out.commit(len, Offload::NONE);
        self.counters.resets_out += u64::from(reply.flags.contains(Flags::RST));
    }

    /// Ends a connection at once, with a reset to the peer.
    pub(super) fn reset_connection(&mut self, id: ConnId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let info = slot.tcp.info();
        let reset = PendingReset::new(slot.flow(), slot.neighbour, &info, slot.tcp.traffic_class());
        let before = slot.tcp.buffered();
        if slot.tcp.abort() {
            self.outbox.push_reset(reset);
        }
        self.account(id.index() as u32, before);
    }
}

/// The answer to a segment of no connection (RFC 9293 section 3.10.7.1): none
/// to a reset.
fn reset_for(header: &TcpHeader, payload: &[u8]) -> Option<Reply> {
    if header.flags.contains(Flags::RST) {
        return None;
    }
    if header.flags.contains(Flags::ACK) {
        return Some(Reply::reset(header.ack, None));
    }
    let end = header.seq.plus(tcp::connection::segment_len(header, payload));
    Some(Reply::reset(wire::tcp::SeqNum(0), Some(end)))
}
