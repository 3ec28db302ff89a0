//! Segments of flows that another silo may own.

use crate::egress::Reply;
use crate::flow::Flow;
use crate::ingress::{Arrival, Arrived, Envelope, reset_for};
use crate::{Egress, Stack};
use core::net::SocketAddr;
use wire::Mac;
use wire::tcp::TcpHeader;

/// A segment of an unknown flow, as far as it is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stray {
    flow: Flow,
    mac: Mac,
    /// The reset that answers it, if one does.
    reset: Option<Reply>,
}

impl Stack {
    /// Notes a segment of an unknown flow if it may be another silo's, with
    /// the reset that is due if it is not. Returns whether it was noted.
    #[cold]
    pub(crate) fn note_stray(&mut self, flow: &Flow, envelope: &Envelope, reset: Option<Reply>) -> bool {
        if self.config.steered {
            self.counters.strays += 1;
            self.strayed = true;
            self.stray = Some(Stray { flow: *flow, mac: envelope.mac, reset });
        }
        self.config.steered
    }

    /// Answers a segment that belongs to nothing here, or notes it if it may
    /// be another silo's.
    #[inline(never)]
    pub(crate) fn refuse_or_note(
        &mut self,
        flow: &Flow,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &[u8],
        out: &mut impl Egress,
    ) {
        if !self.note_stray(flow, envelope, reset_for(header, payload)) {
            self.reset_unknown(flow, envelope.mac, header, payload, out);
        }
    }

    /// What a frame that is not of the fast path means.
    #[inline]
    pub(crate) fn or_stray<'f>(&mut self, arrival: Option<Arrival<'f>>) -> Arrived<'f> {
        match arrival {
            None if self.strayed => {
                self.strayed = false;
                Arrived::Stray
            }
            None if self.crowd.wanted => {
                self.crowd.wanted = false;
                Arrived::Full
            }
            arrival => arrival.into(),
        }
    }

    /// The last stray is nobody's: it is answered as RFC 9293 section
    /// 3.10.7.1 says.
    #[cold]
    pub fn refuse(&mut self, out: &mut impl Egress) {
        if let Some(Stray { flow, mac, reset: Some(reset) }) = self.stray.take() {
            self.send_reset(&flow, mac, &reset, out);
        }
    }

    /// Whether a reassembled segment is of a flow that is known here.
    pub(crate) fn knows_segment(&self, envelope: &Envelope, segment: &[u8]) -> bool {
        let Some([a, b, c, d]) = segment.first_chunk() else { return false };
        let (remote_port, local_port) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        self.knows(&Flow::new(envelope.src, remote_port, envelope.local, local_port))
    }

    /// Whether a flow belongs to a connection, a handshake or a TIME-WAIT
    /// record here.
    #[must_use]
    pub fn owns(&self, remote: SocketAddr, local: SocketAddr) -> bool {
        self.addresses
            .index(local.ip())
            .is_some_and(|index| self.knows(&Flow::new(remote.ip(), remote.port(), index, local.port())))
    }

    fn knows(&self, flow: &Flow) -> bool {
        self.find(self.hasher.hash(flow), flow).is_some()
    }
}

#[cfg(test)]
mod tests;
