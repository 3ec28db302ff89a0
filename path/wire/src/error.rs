//! What was wrong with a frame.

use core::fmt;

/// Why a frame, packet or segment was refused. The sender, or the way here,
/// is to blame in every case, and a retry of the same bytes does not help.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WireError {
    /// Fewer bytes than the header, or a length field within it, asks for.
    Truncated,
    /// The version field does not fit the protocol that it was sent as.
    BadVersion,
    /// A header length below the protocol's minimum, or beyond the data.
    BadHeaderLength,
    /// A length field that contradicts the header that carries it.
    BadLength,
    /// The checksum does not match the data.
    BadChecksum,
    /// An option or extension header that must not be passed over.
    BadOption,
    /// More extension headers than [`crate::ipv6::MAX_EXTENSION_HEADERS`].
    TooManyHeaders,
    /// A fragment that reaches beyond the largest packet, or is not a
    /// multiple of eight bytes although more follow.
    BadFragment,
    /// Addresses or ports that the protocol does not allow there.
    BadAddress,
    /// A message that is for one link only came from beyond a router.
    BadHopLimit,
    /// A type, code or hardware kind that we do not handle.
    Unsupported,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "truncated",
            Self::BadVersion => "wrong version",
            Self::BadHeaderLength => "wrong header length",
            Self::BadLength => "wrong length field",
            Self::BadChecksum => "wrong checksum",
            Self::BadOption => "option that must not be passed over",
            Self::TooManyHeaders => "too many extension headers",
            Self::BadFragment => "impossible fragment",
            Self::BadAddress => "address not allowed there",
            Self::BadHopLimit => "link-local message from beyond a router",
            Self::Unsupported => "unsupported type",
        })
    }
}

impl core::error::Error for WireError {}
