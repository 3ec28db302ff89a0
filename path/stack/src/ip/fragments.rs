//! Packets that arrive in pieces: reassembly for IPv4 (RFC 791 section 3.2,
//! RFC 815) and IPv6 (RFC 8200 section 4.5).
//!
//! Pieces are kept as they came and joined once, when the last one is there,
//! so that memory is what was received and not what a piece claims to be a
//! part of.

use crate::flow::Envelope;
use app::SourceKey;
use core::net::IpAddr;
use core::time::Duration;
use wire::Time;

/// Packets being put together; beyond, the oldest is given up.
pub(crate) const MAX_PACKETS: usize = 256;

/// Of one sender, an IPv4 address or an IPv6 /64; beyond, its own oldest is given up, so that one who only
/// ever sends first pieces does not displace the others'.
pub(crate) const MAX_PACKETS_PER_SOURCE: usize = 16;

/// Bytes of all pieces, [`PIECE_COST`] for each included; beyond, the oldest
/// packet is given up. Linux holds 4 MiB for a whole machine.
pub(crate) const MAX_BYTES: usize = 2 << 20;

/// Of one sender; beyond, its own oldest packet is given up.
pub(crate) const MAX_BYTES_PER_SOURCE: usize = MAX_BYTES / 4;

/// Pieces of one packet: enough for the largest one in pieces of 1,040 bytes.
/// Beyond, the packet is given up.
pub(crate) const MAX_PIECES: usize = 64;

/// How long pieces wait for the rest, from the first one on. RFC 1122 section
/// 3.3.2 asks for a fixed time and suggests 60 s or more, from a time of
/// slower links; we side with Linux, because a sender of TCP has long
/// retransmitted.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// What a piece costs beside its bytes.
const PIECE_COST: usize = 64;

/// Bytes of headers in front of a first piece that are kept, to be quoted when
/// the rest stays out: any IPv4 header, and IPv6 with some extensions. Of a
/// packet with more of them, the sender is not told.
pub(crate) const MAX_HEAD: usize = 128;

// The largest packet fits a sender's share, with the cost of its pieces.
const _: () = assert!(u16::MAX as usize + MAX_PIECES * PIECE_COST + MAX_HEAD <= MAX_BYTES_PER_SOURCE);
const _: () = assert!(MAX_PACKETS_PER_SOURCE < MAX_PACKETS);

/// Which packet a piece belongs to: for IPv4 by source, destination, protocol
/// and identification (RFC 791 section 2.3), for IPv6 without the protocol
/// (RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub identification: u32,
    /// The protocol for IPv4, zero for IPv6.
    pub protocol: u8,
}

/// A piece of a packet, as the headers describe it. The parsers have checked
/// that it ends within 65,535 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    pub key: Key,
    /// What the packet holds; that of the first piece counts.
    pub protocol: u8,
    /// Where the piece belongs, in bytes.
    pub offset: u16,
    /// It is not the last.
    pub more: bool,
    pub payload: &'a [u8],
    /// The headers in front of the payload, from IP's on.
    pub head: &'a [u8],
    /// Where an answer goes.
    pub envelope: Envelope,
}

/// A packet put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Whole {
    /// What the packet holds.
    pub protocol: u8,
    /// All of its payload.
    pub payload: Vec<u8>,
}

/// A packet of which the beginning came, and the rest did not in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TimedOut {
    /// Where the first piece came from.
    pub envelope: Envelope,
    /// What the packet holds.
    pub protocol: u8,
    /// Length of the first piece's headers.
    pub head_len: usize,
    /// The first piece, headers included.
    pub first: Vec<u8>,
}

app::counters! {
    /// What reassembly counts.
    pub(crate) FragmentCounters {
        /// Pieces taken in.
        pieces,
        /// Packets put together.
        reassembled,
        /// Pieces that no packet can have.
        malformed,
        /// Pieces that came twice.
        duplicates,
        /// Packets refused because pieces overlap.
        overlapping,
        /// Packets given up after [`TIMEOUT`].
        timed_out,
        /// Packets given up at a limit.
        limited,
    }
}

/// Packets being put together, the oldest first: all wait equally long, so
/// that is the order of their deadlines too.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    packets: Vec<Packet>,
    bytes: usize,
    counters: FragmentCounters,
}

#[derive(Debug)]
struct Packet {
    key: Key,
    source: SourceKey,
    deadline: Time,
    /// Known from the first piece.
    protocol: Option<u8>,
    /// The same, unless its headers are longer than [`MAX_HEAD`].
    head: Option<Head>,
    /// Known from the last piece.
    len: Option<usize>,
    /// Payload bytes in `pieces`.
    received: usize,
    /// In order, without overlap.
    pieces: Vec<Piece>,
    /// Pieces overlapped: the packet is refused, and so is what still comes
    /// of it (RFC 5722 section 4).
    refused: bool,
}

#[derive(Debug)]
struct Head {
    envelope: Envelope,
    bytes: Box<[u8]>,
}

#[derive(Debug)]
struct Piece {
    offset: usize,
    bytes: Box<[u8]>,
}

impl Piece {
    fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

/// How a piece fits a packet.
enum Fit {
    /// At this place among the pieces.
    Place(usize),
    Duplicate,
    Overlap,
}

impl Reassembly {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a piece; the whole packet if it was the one that was missing. To
    /// be called when [`Reassembly::poll_timed_out`] has no more.
    pub fn on_fragment(&mut self, fragment: &Fragment<'_>, now: Time) -> Option<Whole> {
        self.counters.pieces += 1;
        let len = fragment.payload.len();
        // RFC 791 section 3.2: all but the last are multiples of eight bytes.
        let ragged = fragment.more && !len.is_multiple_of(8);
        if len == 0 || ragged || usize::from(fragment.offset) + len > usize::from(u16::MAX) {
            self.counters.malformed += 1;
            return None;
        }
        let at = self.find_or_start(fragment.key, now);
        let packet = &mut self.packets[at];
        if packet.refused {
            return None;
        }
        match packet.fit(fragment) {
            Fit::Duplicate => {
                self.counters.duplicates += 1;
                return None;
            }
            Fit::Overlap => {
                self.bytes -= packet.refuse();
                self.counters.overlapping += 1;
                return None;
            }
            Fit::Place(_) if packet.pieces.len() >= MAX_PIECES => {
                self.bytes -= packet.refuse();
                self.counters.limited += 1;
                return None;
            }
            Fit::Place(place) => {
                let before = packet.cost();
                packet.take(place, fragment);
                self.bytes += packet.cost() - before;
            }
        }
        if packet.len == Some(packet.received) {
            self.counters.reassembled += 1;
            return Some(self.remove(at).join());
        }
        self.keep_within_bytes(SourceKey::of(fragment.key.src));
        None
    }

    /// Whether something waited too long.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.packets.first().is_some_and(|oldest| oldest.deadline <= now)
    }

    /// Gives up what waited too long; the next of it whose sender is to be
    /// told.
    pub fn poll_timed_out(&mut self, now: Time) -> Option<TimedOut> {
        while self.is_due(now) {
            let packet = self.remove(0);
            self.counters.timed_out += u64::from(!packet.refused);
            if let Some(told) = packet.timed_out() {
                return Some(told);
            }
        }
        None
    }

    /// When the next packet is given up.
    pub fn next_deadline(&self) -> Option<Time> {
        self.packets.first().map(|oldest| oldest.deadline)
    }

    /// What was counted.
    pub fn counters(&self) -> &FragmentCounters {
        &self.counters
    }

    /// The place of the packet of `key`, made if there is none. A search
    /// through all is bounded by [`MAX_PACKETS`].
    fn find_or_start(&mut self, key: Key, now: Time) -> usize {
        if let Some(at) = self.packets.iter().position(|packet| packet.key == key) {
            return at;
        }
        let source = SourceKey::of(key.src);
        let of_source = self.packets.iter().filter(|packet| packet.source == source).count();
        if of_source >= MAX_PACKETS_PER_SOURCE {
            self.give_up_oldest_of(Some(source));
        } else if self.packets.len() >= MAX_PACKETS {
            self.give_up_oldest_of(None);
        }
        let deadline = now + TIMEOUT;
        // Time given out of order must not break the order of deadlines.
        let deadline = self.packets.last().map_or(deadline, |newest| newest.deadline.max(deadline));
        let pieces = Vec::new();
        self.packets.push(Packet {
            key,
            source,
            deadline,
            protocol: None,
            head: None,
            len: None,
            received: 0,
            pieces,
            refused: false,
        });
        self.packets.len() - 1
    }

    /// Keeps the sender of the latest piece within its share, and all within
    /// the limit.
    fn keep_within_bytes(&mut self, source: SourceKey) {
        let of_source = |packet: &&Packet| packet.source == source;
        while self.packets.iter().filter(of_source).map(Packet::cost).sum::<usize>() > MAX_BYTES_PER_SOURCE {
            self.give_up_oldest_of(Some(source));
        }
        while self.bytes > MAX_BYTES {
            self.give_up_oldest_of(None);
        }
    }

    /// Gives up the oldest packet, of one source or of all. One that holds
    /// nothing any more is as good as another: its place is what is wanted.
    fn give_up_oldest_of(&mut self, source: Option<SourceKey>) {
        let matches = |packet: &Packet| source.is_none_or(|source| packet.source == source);
        if let Some(at) = self.packets.iter().position(matches) {
            self.counters.limited += u64::from(!self.remove(at).refused);
        }
    }

    fn remove(&mut self, at: usize) -> Packet {
        let packet = self.packets.remove(at);
        self.bytes -= packet.cost();
        packet
    }
}

impl Packet {
    /// Where a piece belongs among the others (RFC 815, by pieces instead of
    /// holes).
    fn fit(&self, fragment: &Fragment<'_>) -> Fit {
        let start = usize::from(fragment.offset);
        let end = start + fragment.payload.len();
        let place = self.pieces.partition_point(|piece| piece.offset < start);
        let (before, after) = self.pieces.split_at(place);
        if let Some(same) = after.first()
            && same.offset == start
            && same.bytes[..] == *fragment.payload
            && fragment.more != (self.len == Some(end))
        {
            // The network may duplicate a packet (RFC 8200 section 4.5).
            return Fit::Duplicate;
        }
        let overlaps =
            before.last().is_some_and(|piece| piece.end() > start) || after.first().is_some_and(|p| p.offset < end);
        // A second end, an end before what is there, or a piece beyond it.
        let misfits = match (self.len, fragment.more) {
            (Some(len), true) => end > len,
            (Some(_), false) => true,
            (None, true) => false,
            (None, false) => self.pieces.last().is_some_and(|last| last.end() > end),
        };
        if overlaps || misfits { Fit::Overlap } else { Fit::Place(place) }
    }

    fn take(&mut self, place: usize, fragment: &Fragment<'_>) {
        let piece = Piece { offset: usize::from(fragment.offset), bytes: fragment.payload.into() };
        if piece.offset == 0 {
            self.protocol = Some(fragment.protocol);
            self.head = (fragment.head.len() <= MAX_HEAD)
                .then(|| Head { envelope: fragment.envelope, bytes: fragment.head.into() });
        }
        if !fragment.more {
            self.len = Some(piece.end());
        }
        self.received += piece.bytes.len();
        self.pieces.insert(place, piece);
    }

    /// Forgets the pieces and takes no more; returns what they cost.
    fn refuse(&mut self) -> usize {
        let cost = self.cost();
        self.refused = true;
        self.received = 0;
        self.pieces = Vec::new();
        self.head = None;
        cost
    }

    fn cost(&self) -> usize {
        let head = self.head.as_ref().map_or(0, |head| head.bytes.len());
        self.received + self.pieces.len() * PIECE_COST + head
    }

    /// RFC 1122 section 3.3.2, RFC 8200 section 4.5: an error is sent if the
    /// first piece is there.
    fn timed_out(self) -> Option<TimedOut> {
        let Head { envelope, bytes } = self.head?;
        let piece = self.pieces.first().filter(|piece| piece.offset == 0)?;
        let protocol = self.protocol?;
        Some(TimedOut { envelope, protocol, head_len: bytes.len(), first: [&bytes[..], &piece.bytes].concat() })
    }

    /// The whole: called when as many bytes are there as the last piece
    /// promised, without overlap, so that there is no hole.
    fn join(self) -> Whole {
        let mut payload = Vec::with_capacity(self.received);
        for piece in &self.pieces {
            payload.extend_from_slice(&piece.bytes);
        }
        Whole { protocol: self.protocol.unwrap_or(self.key.protocol), payload }
    }
}

#[cfg(test)]
mod tests;
