//! The first piece of an IPv6 packet.

use crate::ipv6::{HeaderError, Problem, Upper, parameter_problem, walk_fragmented};
use crate::{WireError, icmpv6, protocol, tcp, udp};

/// Whether the first piece of a packet has all headers, the upper layer's
/// included, so that whoever looks at it alone sees what the packet is (RFC 7112
/// section 5, RFC 8200 section 4.5).
///
/// # Errors
/// `Truncated` where a header is not all there, with what the sender is to be
/// told; as [`walk_fragmented`] where the headers cannot be.
pub fn check_first_piece(next_header: u8, piece: &[u8]) -> Result<(), HeaderError> {
    let is_error =
        |upper: &Upper<'_>| upper.protocol == protocol::ICMPV6 && upper.payload.first().is_some_and(|kind| *kind < 128);
    let (missing, tells) = match walk_fragmented(next_header, piece) {
        Ok(upper) => {
            let least = match upper.protocol {
                protocol::TCP => tcp::HEADER_LEN,
                protocol::UDP => udp::HEADER_LEN,
                protocol::ICMPV6 => icmpv6::HEADER_LEN,
                _ => 0,
            };
            (upper.payload.len() < least, !is_error(&upper))
        }
        Err(WireError::Truncated) => (true, true),
        Err(error) => return Err(error.into()),
    };
    if !missing {
        return Ok(());
    }
    let problem = Problem { code: parameter_problem::FIRST_FRAGMENT, pointer: 0, of_groups: false };
    Err(HeaderError { error: WireError::Truncated, problem: tells.then_some(problem) })
}
