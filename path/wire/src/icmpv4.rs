//! ICMP for IPv4 (RFC 792).

use crate::checksum;
use crate::{Original, WireError, ipv4};

/// Type, code, checksum and the four bytes that each type uses its own way.
pub const HEADER_LEN: usize = 8;

/// Bytes of the original packet that an error carries at most, so that the
/// whole stays within what every host takes (RFC 1812 section 4.3.2.3).
pub const MAX_ORIGINAL: usize = ipv4::MIN_REASSEMBLY - ipv4::HEADER_LEN - HEADER_LEN;

/// Codes of [`Icmpv4::DestinationUnreachable`].
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// Nobody handles the protocol there: a hard error (RFC 1122 section 4.2.3.9).
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port: a hard error.
    pub const PORT: u8 = 3;
    /// Administratively prohibited (RFC 1812 section 5.2.7.1).
    pub const PROHIBITED: u8 = 13;
}

/// Codes of [`Icmpv4::TimeExceeded`].
pub mod time_exceeded {
    /// The packet ran out of hops.
    pub const HOPS: u8 = 0;
    /// Fragments stayed out.
    pub const REASSEMBLY: u8 = 1;
}

/// An ICMP message. `original` is the start of the packet that an error is
/// about: see [`Icmpv4::original`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv4<'a> {
    /// Asks for an [`Icmpv4::EchoReply`] with the same fields.
    EchoRequest {
        /// Whose echo it is.
        identifier: u16,
        /// Which of them.
        sequence: u16,
        /// What comes back as it was sent.
        data: &'a [u8],
    },
    /// Answers an echo request.
    EchoReply {
        /// Whose echo it is.
        identifier: u16,
        /// Which of them.
        sequence: u16,
        /// What comes back as it was sent.
        data: &'a [u8],
    },
    /// The packet could not be delivered, for the reason in [`unreachable`].
    DestinationUnreachable {
        /// The code, which says which kind of it.
        code: u8,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// The packet exceeded the next link's MTU and must not be fragmented.
    /// `mtu` is zero from routers older than RFC 1191.
    FragmentationNeeded {
        /// The MTU of the link that it did not fit; 0 from a router that does not say.
        mtu: u16,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// Time ran out, in one of the ways of [`time_exceeded`].
    TimeExceeded {
        /// The code, which says which kind of it.
        code: u8,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// The packet's byte at `pointer` is wrong.
    ParameterProblem {
        /// The code, which says which kind of it.
        code: u8,
        /// The offset of the byte that was not understood.
        pointer: u8,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
}

const ECHO_REPLY: u8 = 0;
const DESTINATION_UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
/// Code of destination unreachable (RFC 1191 section 4).
const FRAGMENTATION_NEEDED: u8 = 4;

impl<'a> Icmpv4<'a> {
    /// The message.
    ///
    /// # Errors
    /// `Truncated`, `BadChecksum`, and `Unsupported` for other types.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let Some((head, rest)) = message.split_first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        if !checksum::sum(message).is_intact() {
            return Err(WireError::BadChecksum);
        }
        let [kind, code, _, _, a, b, c, d] = *head;
        let first = u16::from_be_bytes([a, b]);
        let second = u16::from_be_bytes([c, d]);
        Ok(match kind {
            ECHO_REQUEST => Self::EchoRequest { identifier: first, sequence: second, data: rest },
            ECHO_REPLY => Self::EchoReply { identifier: first, sequence: second, data: rest },
            DESTINATION_UNREACHABLE if code == FRAGMENTATION_NEEDED => {
                Self::FragmentationNeeded { mtu: second, original: rest }
            }
            DESTINATION_UNREACHABLE => Self::DestinationUnreachable { code, original: rest },
            TIME_EXCEEDED => Self::TimeExceeded { code, original: rest },
            PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: a, original: rest },
            _ => return Err(WireError::Unsupported),
        })
    }

    /// What an error tells of the packet that caused it; `None` for other
    /// messages and where too little of the packet came back.
    #[must_use]
    pub fn original(&self) -> Option<Original> {
        match *self {
            Self::EchoRequest { .. } | Self::EchoReply { .. } => None,
            Self::DestinationUnreachable { original, .. }
            | Self::FragmentationNeeded { original, .. }
            | Self::TimeExceeded { original, .. }
            | Self::ParameterProblem { original, .. } => Original::parse_v4(original),
        }
    }

    /// Bytes that [`Icmpv4::emit`] writes.
    #[must_use]
    pub fn emit_len(&self) -> usize {
        HEADER_LEN + self.fields().2.len()
    }

    /// Writes the message, checksum included, and returns its length; 0 if
    /// `out` is shorter. An error's original is cut to [`MAX_ORIGINAL`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let ([kind, code], [a, b, c, d], rest) = self.fields();
        let len = HEADER_LEN + rest.len();
        let Some((head, body)) = out.get_mut(..len).and_then(|out| out.split_first_chunk_mut::<HEADER_LEN>()) else {
            return 0;
        };
        *head = [kind, code, 0, 0, a, b, c, d];
        let sum = checksum::sum(head).add(checksum::copy_and_sum(body, rest));
        head[2..4].copy_from_slice(&sum.finish().to_be_bytes());
        len
    }

    /// Type and code, the type's own four bytes, and what follows them.
    fn fields(&self) -> ([u8; 2], [u8; 4], &'a [u8]) {
        let pair = |a: u16, b: u16| (u32::from(a) << 16 | u32::from(b)).to_be_bytes();
        let cut = |original: &'a [u8]| original.get(..MAX_ORIGINAL).unwrap_or(original);
        match *self {
            Self::EchoRequest { identifier, sequence, data } => ([ECHO_REQUEST, 0], pair(identifier, sequence), data),
            Self::EchoReply { identifier, sequence, data } => ([ECHO_REPLY, 0], pair(identifier, sequence), data),
            Self::DestinationUnreachable { code, original } => ([DESTINATION_UNREACHABLE, code], [0; 4], cut(original)),
            Self::FragmentationNeeded { mtu, original } => {
                ([DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED], pair(0, mtu), cut(original))
            }
            Self::TimeExceeded { code, original } => ([TIME_EXCEEDED, code], [0; 4], cut(original)),
            Self::ParameterProblem { code, pointer, original } => {
                ([PARAMETER_PROBLEM, code], [pointer, 0, 0, 0], cut(original))
            }
        }
    }
}
