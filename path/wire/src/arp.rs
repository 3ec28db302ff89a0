//! Address resolution for IPv4 over Ethernet (RFC 826).

use crate::{Mac, WireError};
use core::net::Ipv4Addr;

/// An ARP packet for Ethernet and IPv4.
pub const PACKET_LEN: usize = 28;

/// What an ARP packet wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: Operation,
    /// Hardware address of the one who sent it.
    pub sender_mac: Mac,
    /// Its protocol address; unspecified in a probe (RFC 5227 section 1.1).
    pub sender_ip: Ipv4Addr,
    /// Hardware address asked about or answered to; of no meaning in a request.
    pub target_mac: Mac,
    /// Protocol address asked about or answered to.
    pub target_ip: Ipv4Addr,
}

/// Hardware type Ethernet, protocol type IPv4, lengths 6 and 4.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

impl ArpPacket {
    /// The packet; what follows it is link padding.
    ///
    /// # Errors
    /// `Truncated`; `Unsupported` for other hardware, protocols or
    /// operations; `BadAddress` if the sender claims a group's hardware
    /// address or none (RFC 1812 section 3.3.2).
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let Some(packet) = bytes.first_chunk::<PACKET_LEN>() else {
            return Err(WireError::Truncated);
        };
        if packet[..6] != ETHERNET_IPV4 {
            return Err(WireError::Unsupported);
        }
        let operation = match u16::from_be_bytes([packet[6], packet[7]]) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(WireError::Unsupported),
        };
        let p = packet;
        let sender_mac = Mac([p[8], p[9], p[10], p[11], p[12], p[13]]);
        if !sender_mac.is_unicast() {
            return Err(WireError::BadAddress);
        }
        Ok(Self {
            operation,
            sender_mac,
            sender_ip: Ipv4Addr::new(p[14], p[15], p[16], p[17]),
            target_mac: Mac([p[18], p[19], p[20], p[21], p[22], p[23]]),
            target_ip: Ipv4Addr::new(p[24], p[25], p[26], p[27]),
        })
    }

    /// Writes the packet and returns its length; 0 if `out` is shorter.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(packet) = out.first_chunk_mut::<PACKET_LEN>() else { return 0 };
        let operation: u16 = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        packet[..6].copy_from_slice(&ETHERNET_IPV4);
        packet[6..8].copy_from_slice(&operation.to_be_bytes());
        packet[8..14].copy_from_slice(&self.sender_mac.0);
        packet[14..18].copy_from_slice(&self.sender_ip.octets());
        packet[18..24].copy_from_slice(&self.target_mac.0);
        packet[24..28].copy_from_slice(&self.target_ip.octets());
        PACKET_LEN
    }
}
