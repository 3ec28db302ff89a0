//! The TCP header.

use super::options::{ALIGNED_TIMESTAMPS, ALIGNED_TIMESTAMPS_LEN, MAX_OPTIONS_LEN};
use super::{SeqNum, TcpOptions, Timestamps};
use crate::WireError;
use crate::checksum::{self, LinkVouched, Sum, Verified, put_words};
use core::fmt;
use core::ops::BitOr;

/// Header without options.
pub const HEADER_LEN: usize = 20;
/// Largest header: the data offset counts fifteen words.
pub const MAX_HEADER_LEN: usize = 60;
/// Header of an established connection's usual segment: timestamps, no more.
pub const ESTABLISHED_HEADER_LEN: usize = HEADER_LEN + ALIGNED_TIMESTAMPS_LEN;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: u16 = 16;

const _: () = assert!(MAX_HEADER_LEN == HEADER_LEN + MAX_OPTIONS_LEN);

/// Control bits (RFC 9293 section 3.1; RFC 3168 section 6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// None set.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push: hand what came so far to the application.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all of `other`'s bits are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other`'s bits is set.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits without `other`'s.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl fmt::Debug for Flags {
    /// As in `SYN|ACK`; `.` if none is set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut first = true;
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 >> bit & 1 == 0 {
                continue;
            }
            if !first {
                f.write_str("|")?;
            }
            f.write_str(name)?;
            first = false;
        }
        if first { f.write_str(".") } else { Ok(()) }
    }
}

/// A TCP header with the options that we understand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte of payload, or of the SYN.
    pub seq: SeqNum,
    /// Next sequence number expected; of no meaning without ACK.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Receive window, not scaled.
    pub window: u16,
    /// Urgent pointer; of no meaning without URG.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
}

impl TcpHeader {
    /// The header and the payload. `pseudo` is the pseudo-header's sum over
    /// the length of `segment`.
    ///
    /// # Errors
    /// `Truncated`, `BadHeaderLength` (a data offset below five words or
    /// beyond the segment) and `BadChecksum`.
    #[inline]
    pub fn parse(segment: &[u8], pseudo: Sum) -> Result<(Self, &[u8], Verified), WireError> {
        if !pseudo.add(checksum::sum(segment)).is_intact() {
            return Err(if segment.len() < HEADER_LEN { WireError::Truncated } else { WireError::BadChecksum });
        }
        let (header, payload) = Self::fields(segment)?;
        Ok((header, payload, Verified(())))
    }

    /// As [`TcpHeader::parse`], for a frame whose checksum the link verified.
    ///
    /// # Errors
    /// `Truncated` and `BadHeaderLength`.
    #[inline]
    pub fn parse_trusted(segment: &[u8], link: LinkVouched) -> Result<(Self, &[u8], Verified), WireError> {
        let _ = link;
        let (header, payload) = Self::fields(segment)?;
        Ok((header, payload, Verified(())))
    }

    #[inline]
    fn fields(segment: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let Some((head, rest)) = segment.split_first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        // The data offset, in bytes: the upper four bits count words.
        let Some(options_len) = usize::from(head[12] >> 4 << 2).checked_sub(HEADER_LEN) else {
            return Err(WireError::BadHeaderLength);
        };
        let Some((options, payload)) = rest.split_at_checked(options_len) else {
            return Err(WireError::BadHeaderLength);
        };
        let header = Self {
            src_port: u16::from_be_bytes([head[0], head[1]]),
            dst_port: u16::from_be_bytes([head[2], head[3]]),
            seq: SeqNum(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
            ack: SeqNum(u32::from_be_bytes([head[8], head[9], head[10], head[11]])),
            flags: Flags(head[13]),
            window: u16::from_be_bytes([head[14], head[15]]),
            urgent: u16::from_be_bytes([head[18], head[19]]),
            options: TcpOptions::parse(options),
        };
        Ok((header, payload))
    }

    /// The header as that of an established connection, if it has no other
    /// options than that has.
    #[inline]
    #[must_use]
    pub fn established(&self) -> Option<Established> {
        let timestamps = self.options.only_timestamps()?;
        let &Self { src_port, dst_port, seq, ack, flags, window, .. } = self;
        Some(Established { src_port, dst_port, seq, ack, flags, window, timestamps })
    }

    /// Bytes that [`TcpHeader::emit`] writes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with a checksum of zero and returns its length; 0
    /// if `out` is shorter. [`set_checksum`] completes it.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let len = self.header_len();
        let Some((head, options)) = out.get_mut(..len).and_then(|out| out.split_first_chunk_mut::<HEADER_LEN>()) else {
            return 0;
        };
        head[..2].copy_from_slice(&self.src_port.to_be_bytes());
        head[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        head[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        head[12] = data_offset(len);
        head[13] = self.flags.0;
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[16..18].copy_from_slice(&[0; 2]);
        head[18..].copy_from_slice(&self.urgent.to_be_bytes());
        self.options.emit(options);
        len
    }
}

/// Completes a header whose checksum field is zero. `segment_header` is the
/// header alone, `sum` that of the pseudo-header and the payload.
#[inline]
pub fn set_checksum(segment_header: &mut [u8], sum: Sum) {
    let checksum = checksum::sum(segment_header).add(sum).finish();
    if let Some(head) = segment_header.first_chunk_mut::<HEADER_LEN>() {
        [head[16], head[17]] = checksum.to_be_bytes();
    }
}

/// Prepares a header for a link that completes the checksum itself: the field
/// holds the pseudo-header's sum (see [`crate::offload::PartialChecksum`]).
#[inline]
pub fn set_partial_checksum(segment_header: &mut [u8], pseudo: Sum) {
    if let Some(head) = segment_header.first_chunk_mut::<HEADER_LEN>() {
        [head[16], head[17]] = pseudo.folded().to_be_bytes();
    }
}

/// A segment of an established connection: no options but timestamps, no
/// urgent data. The fields are those of [`TcpHeader`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Established {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte of payload.
    pub seq: SeqNum,
    /// Next sequence number expected.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Receive window, not scaled.
    pub window: u16,
    /// Timestamps, if the connection uses them.
    pub timestamps: Option<Timestamps>,
}

impl Established {
    /// Bytes that [`Established::emit`] writes: 32 with timestamps, 20 without.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        if self.timestamps.is_some() { ESTABLISHED_HEADER_LEN } else { HEADER_LEN }
    }

    /// Writes the header, its checksum included, and returns its length; 0
    /// if `out` is shorter. `sum` is that of the pseudo-header and the
    /// payload.
    #[inline]
    pub fn emit(&self, out: &mut [u8], sum: Sum) -> usize {
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let control = u32::from_be_bytes([data_offset(self.header_len()), self.flags.0, 0, 0]);
        let control = control | u32::from(self.window);
        let Some(Timestamps { value, echo }) = self.timestamps else {
            let Some(head) = out.first_chunk_mut::<HEADER_LEN>() else { return 0 };
            let mut words = [ports, self.seq.0, self.ack.0, control, 0];
            words[4] = u32::from(Sum::of_words(&words).add(sum).finish()) << 16;
            put_words(head, &words);
            return HEADER_LEN;
        };
        let Some(head) = out.first_chunk_mut::<ESTABLISHED_HEADER_LEN>() else { return 0 };
        let aligned = u32::from_be_bytes(ALIGNED_TIMESTAMPS);
        let mut words = [ports, self.seq.0, self.ack.0, control, 0, aligned, value, echo];
        words[4] = u32::from(Sum::of_words(&words).add(sum).finish()) << 16;
        put_words(head, &words);
        ESTABLISHED_HEADER_LEN
    }
}

/// The byte that holds the data offset, for a header of `len` bytes.
#[inline]
pub(super) const fn data_offset(len: usize) -> u8 {
    (len as u8 / 4) << 4
}
