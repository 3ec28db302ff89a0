//! Segments into transmit slots: nearly every one in one go
//! ([`wire::plain`]), the others layer by layer.

use crate::flow::Flow;
use crate::ip::{Outgoing, network_len};
use core::hint::cold_path;
use tcp::{Connection, Context, Emit, EmitOptions, Path};
use wire::offload::PartialChecksum;
use wire::plain;
use wire::tcp::{self as wire_tcp, Established, Flags, Opening, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{Offload, Sum, protocol};

/// A segment that belongs to no connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub seq: SeqNum,
    pub ack: SeqNum,
    pub flags: Flags,
    pub window: u16,
    pub options: TcpOptions,
}

impl Reply {
    /// A reset; `ack` where it must acknowledge (RFC 9293 section 3.10.7.1).
    pub fn reset(seq: SeqNum, ack: Option<SeqNum>) -> Self {
        let flags = if ack.is_some() { Flags::RST.union(Flags::ACK) } else { Flags::RST };
        Self { seq, ack: ack.unwrap_or(SeqNum(0)), flags, window: 0, options: TcpOptions::default() }
    }
}

/// Who writes the payload of a connection's segments.
pub(super) trait Payload {
    /// Whether that are records.
    const SEALED: bool;

    /// Segments beyond its share that a connection may send to end what it has begun.
    const MORE: usize = 0;

    /// The connection's next segment.
    fn poll(connection: &mut Connection, cx: &mut Context<'_>, path: Path, burst: u32) -> Option<Emit>;

    /// Writes the payload of `emit` into `out`, and sums it.
    fn write(&mut self, connection: &mut Connection, emit: &Emit, out: &mut [u8]) -> Sum;

    /// Whether something could not be written: no frame with it is sent.
    #[inline(always)]
    fn failed(&self) -> bool {
        false
    }

    /// Whether something is begun that is made anew, or kept, if it does not end in this turn.
    #[inline(always)]
    fn is_amid(&self) -> bool {
        false
    }

    /// The connection's turn to send is over.
    #[inline(always)]
    fn end(&mut self, _connection: &mut Connection) {}
}

/// Payload is what is queued.
pub(super) struct Queued;

impl Payload for Queued {
    const SEALED: bool = false;

    #[inline(always)]
    fn poll(connection: &mut Connection, cx: &mut Context<'_>, path: Path, burst: u32) -> Option<Emit> {
        connection.poll_segment(cx, path, burst)
    }

    #[inline(always)]
    fn write(&mut self, connection: &mut Connection, emit: &Emit, out: &mut [u8]) -> Sum {
        connection.copy_payload(emit, out)
    }
}

/// What all frames of one connection share.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a>(pub Outgoing<'a>);

impl Frame<'_> {
    /// Builds a connection's segment. Returns the frame's length and what the
    /// link is to finish.
    #[inline]
    pub fn build<P: Payload>(
        &self,
        out: &mut [u8],
        flow: &Flow,
        emit: &Emit,
        connection: &mut Connection,
        payload: &mut P,
    ) -> (usize, Offload) {
        let plain = matches!(emit.options, EmitOptions::Plain) && flow.is_v4() && self.0.is_usual();
        if plain && emit.len <= u32::from(connection.mss()) {
            let len = if P::SEALED {
                self.build_piece_of(out, flow, emit, connection, payload)
            } else {
                self.build_plain(out, flow, emit, connection)
            };
            return (len, Offload::NONE);
        }
        if matches!(emit.options, EmitOptions::Syn(_)) {
            return (self.build_syn(out, flow, emit), Offload::NONE);
        }
        self.build_by_layers(out, flow, emit, connection, payload)
    }

    /// A connection's SYN or SYN,ACK; 0 for any other segment.
    #[inline(always)]
    pub fn build_syn(&self, out: &mut [u8], flow: &Flow, emit: &Emit) -> usize {
        match opening_of(flow, emit) {
            Some(opening) => self.build_opening(out, flow, &opening),
            None => 0,
        }
    }

    /// Nearly every segment: see [`wire::plain`].
    #[inline(always)]
    pub fn build_plain(&self, out: &mut [u8], flow: &Flow, emit: &Emit, connection: &mut Connection) -> usize {
        let Some((bytes, sum)) = connection.whole_payload(emit) else {
            cold_path();
            if emit.len == 0 {
                return self.plain_head(out, flow, emit, Sum::ZERO);
            }
            return self.build_summed(out, *flow, *emit, connection);
        };
        let head = self.plain_head(out, flow, emit, sum);
        // Copied last: the header's words are on their way by then.
        let Some(body) = out.get_mut(head..head + bytes.len()) else { return 0 };
        body.copy_from_slice(bytes);
        head + bytes.len()
    }

    /// As [`Frame::build_plain`], where the payload is a piece of a body or of
    /// several. Takes copies, so that the caller need not keep the originals
    /// in memory.
    #[inline(never)]
    fn build_summed(self, out: &mut [u8], flow: Flow, emit: Emit, connection: &mut Connection) -> usize {
        self.build_piece(out, &flow, &emit, connection)
    }

    /// As [`Frame::build_plain`], where the payload is known to be a piece.
    #[inline(always)]
    pub fn build_piece(&self, out: &mut [u8], flow: &Flow, emit: &Emit, connection: &mut Connection) -> usize {
        self.build_piece_of(out, flow, emit, connection, &mut Queued)
    }

    /// The same, of whatever payload.
    #[inline(always)]
    pub fn build_piece_of(
        &self,
        out: &mut [u8],
        flow: &Flow,
        emit: &Emit,
        connection: &mut Connection,
        payload: &mut impl Payload,
    ) -> usize {
        let timestamps =
            if emit.timestamps.is_some() { wire_tcp::ESTABLISHED_HEADER_LEN } else { wire_tcp::HEADER_LEN };
        let at = plain::HEADERS_LEN - wire_tcp::HEADER_LEN + timestamps;
        let len = emit.len as usize;
        let Some(body) = out.get_mut(at..at + len) else { return 0 };
        let sum = if len > 0 { payload.write(connection, emit, body) } else { Sum::ZERO };
        self.plain_head(out, flow, emit, sum) + len
    }

    #[inline(always)]
    fn plain_head(&self, out: &mut [u8], flow: &Flow, emit: &Emit, sum: Sum) -> usize {
        let timestamps = emit.timestamps.map(|(value, echo)| Timestamps { value, echo });
        plain::emit(out, &self.0.ends(flow), &established(flow, emit, timestamps), emit.len as usize, sum)
    }

    #[inline(never)]
    pub fn build_by_layers(
        &self,
        out: &mut [u8],
        flow: &Flow,
        emit: &Emit,
        connection: &mut Connection,
        payload: &mut impl Payload,
    ) -> (usize, Offload) {
        let timestamps = emit.timestamps.map(|(value, echo)| Timestamps { value, echo });
        let (header_len, options) = match emit.options {
            EmitOptions::Plain => (if timestamps.is_some() { wire_tcp::ESTABLISHED_HEADER_LEN } else { 20 }, None),
            _ => {
                let options = options_of(emit, timestamps);
                (wire_tcp::HEADER_LEN + options.len(), Some(options))
            }
        };
        let len = emit.len as usize;
        let identification = if self.0.is_fragmented() { number(emit.seq, connection.mss()) } else { 0 };
        let (at, pseudo) = self.0.headers_of(out, flow, protocol::TCP, header_len + len, identification);
        let (head, body) = out[at..].split_at_mut(header_len);
        let text = if len > 0 { payload.write(connection, emit, &mut body[..len]) } else { Sum::ZERO };
        let sum = pseudo.add(text);
        match &options {
            None => {
                established(flow, emit, timestamps).emit(head, sum);
            }
            Some(options) => {
                let header = header_of(flow, emit, *options);
                header.emit(head);
                wire_tcp::set_checksum(head, sum);
            }
        }
        let total = at + header_len + len;
        let most = usize::from(self.0.mtu()).saturating_sub(network_len(flow) + header_len);
        let offload = if self.0.offload().checksum && len > most {
            wire_tcp::set_partial_checksum(head, pseudo);
            let checksum = Some(PartialChecksum { start: at as u16, field: wire_tcp::CHECKSUM_OFFSET });
            Offload { checksum, segment: Some((connection.mss().min(most as u16)).max(1)) }
        } else {
            Offload::NONE
        };
        (total, offload)
    }

    /// Builds a segment that belongs to no connection.
    pub fn build_reply(&self, out: &mut [u8], flow: &Flow, reply: &Reply) -> usize {
        let header = TcpHeader {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: reply.seq,
            ack: reply.ack,
            flags: reply.flags,
            window: reply.window,
            urgent: 0,
            options: reply.options,
        };
        let header_len = header.header_len();
        let (at, pseudo) = self.0.headers(out, flow, protocol::TCP, header_len);
        let head = &mut out[at..at + header_len];
        header.emit(head);
        wire_tcp::set_checksum(head, pseudo);
        at + header_len
    }

    /// Builds a segment that opens a connection.
    #[inline]
    pub fn build_opening(&self, out: &mut [u8], flow: &Flow, opening: &Opening) -> usize {
        if flow.is_v4() && self.0.is_usual() {
            let len = plain::emit_opening(out, &self.0.ends(flow), opening);
            if len > 0 {
                return len;
            }
        }
        self.build_opening_by_layers(out, flow, opening)
    }

    #[inline(never)]
    pub fn build_opening_by_layers(&self, out: &mut [u8], flow: &Flow, opening: &Opening) -> usize {
        let header_len = opening.header_len();
        let (at, pseudo) = self.0.headers(out, flow, protocol::TCP, header_len);
        opening.emit(&mut out[at..at + header_len], pseudo);
        at + header_len
    }
}

/// What tells a segment's packet from the others of its flow where they may be
/// fragmented: another for each full segment of `mss` bytes, the same for what
/// is sent again, and for the pieces that a link makes of several, one more
/// each.
fn number(seq: SeqNum, mss: u16) -> u16 {
    (seq.0 / u32::from(mss).max(1)) as u16
}

/// What a SYN or SYN,ACK of a connection says; none for any other segment.
#[inline(always)]
pub(super) fn opening_of(flow: &Flow, emit: &Emit) -> Option<Opening> {
    let EmitOptions::Syn(offer) = emit.options else { return None };
    Some(Opening {
        src_port: flow.local_port,
        dst_port: flow.remote_port,
        seq: emit.seq,
        ack: emit.ack,
        flags: emit.flags,
        window: emit.window,
        offer,
        timestamps: emit.timestamps.map(|(value, echo)| Timestamps { value, echo }),
    })
}

#[inline]
fn established(flow: &Flow, emit: &Emit, timestamps: Option<Timestamps>) -> Established {
    Established {
        src_port: flow.local_port,
        dst_port: flow.remote_port,
        seq: emit.seq,
        ack: emit.ack,
        flags: emit.flags,
        window: emit.window,
        timestamps,
    }
}

fn options_of(emit: &Emit, timestamps: Option<Timestamps>) -> TcpOptions {
    let mut options = TcpOptions { timestamps, ..TcpOptions::default() };
    match emit.options {
        // A SYN's are written by `build_opening`.
        EmitOptions::Plain | EmitOptions::Syn(_) => {}
        EmitOptions::Sack(blocks) => options.sack = blocks,
    }
    options
}

fn header_of(flow: &Flow, emit: &Emit, options: TcpOptions) -> TcpHeader {
    TcpHeader {
        src_port: flow.local_port,
        dst_port: flow.remote_port,
        seq: emit.seq,
        ack: emit.ack,
        flags: emit.flags,
        window: emit.window,
        urgent: 0,
        options,
    }
}
