//! Protocol numbers: IPv4's protocol and IPv6's next header
//! (IANA, Assigned Internet Protocol Numbers).

/// ICMP for IPv4 (RFC 792).
pub const ICMP: u8 = 1;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// ICMP for IPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
