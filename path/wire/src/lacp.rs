//! Link aggregation control and its marker protocol: slow protocols
//! (IEEE 802.1AX-2014 clauses 6.4.2 and 6.5, IEEE 802.3 annex 57A).

use crate::{Mac, WireError};

/// Where slow protocols are sent: a group that no bridge forwards.
pub const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x02]);
/// Ether type of slow protocols.
pub const ETHER_SLOW: u16 = 0x8809;
/// A protocol data unit of either protocol, subtype included.
pub const PDU_LEN: usize = 110;

const SUBTYPE_LACP: u8 = 1;
const SUBTYPE_MARKER: u8 = 2;
const VERSION: u8 = 1;

/// One bit each of how a port is and what it wants (802.1AX-2014 clause
/// 6.4.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PortState(pub u8);

impl PortState {
    /// Speaks without being spoken to.
    pub const ACTIVITY: Self = Self(0x01);
    /// Wants to hear every second, and waits for three.
    pub const SHORT_TIMEOUT: Self = Self(0x02);
    /// Can be aggregated; otherwise it is a link of its own.
    pub const AGGREGATION: Self = Self(0x04);
    /// Is in the right aggregation.
    pub const SYNCHRONIZATION: Self = Self(0x08);
    /// Takes frames.
    pub const COLLECTING: Self = Self(0x10);
    /// Sends frames.
    pub const DISTRIBUTING: Self = Self(0x20);
    /// Has not heard from its partner, and uses what was set up instead.
    pub const DEFAULTED: Self = Self(0x40);
    /// Has not heard from its partner for too long.
    pub const EXPIRED: Self = Self(0x80);

    /// Whether all bits of `bits` are set.
    #[must_use]
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// With the bits of `bits` set, or cleared.
    #[must_use]
    pub const fn with(self, bits: Self, set: bool) -> Self {
        if set { Self(self.0 | bits.0) } else { Self(self.0 & !bits.0) }
    }
}

impl core::ops::BitOr for PortState {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What one side says of a port: its own, or what it knows of the other's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PortInfo {
    /// Lower is more important.
    pub system_priority: u16,
    /// The system that the port belongs to.
    pub system: Mac,
    /// Ports of a system with the same key can be aggregated.
    pub key: u16,
    /// Lower is more important.
    pub port_priority: u16,
    /// The port within its system.
    pub port: u16,
    /// How it is.
    pub state: PortState,
}

/// A link aggregation control data unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LacpPdu {
    /// The sender's port.
    pub actor: PortInfo,
    /// What the sender knows of the receiver's port.
    pub partner: PortInfo,
    /// Longest time for which the sender's collector holds a frame back, in
    /// tens of microseconds.
    pub max_delay: u16,
}

/// Asked for, and answered, once all frames before it have been taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marker {
    /// An answer.
    pub response: bool,
    /// The port that asked.
    pub requester_port: u16,
    /// The system that asked.
    pub requester_system: Mac,
    /// Which of its questions.
    pub transaction: u32,
}

/// A slow protocol's data unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowPdu {
    /// Link aggregation control.
    Lacp(LacpPdu),
    /// The marker protocol.
    Marker(Marker),
}

impl SlowPdu {
    /// The data unit after an Ethernet header with [`ETHER_SLOW`].
    ///
    /// Versions, types and reserved fields are not looked at, so that later
    /// versions of the protocol are understood as this one (802.1AX-2014
    /// clause 6.4.2.3). Lengths are, as everything after them would be
    /// misread.
    ///
    /// # Errors
    /// `Truncated`; `Unsupported` for other slow protocols and for markers
    /// that are neither question nor answer; `BadLength` if a part is not as
    /// long as it must be.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        match bytes.first() {
            None => return Err(WireError::Truncated),
            Some(&(SUBTYPE_LACP | SUBTYPE_MARKER)) => {}
            Some(_) => return Err(WireError::Unsupported),
        }
        let Some(pdu) = bytes.first_chunk::<PDU_LEN>() else { return Err(WireError::Truncated) };
        if pdu[0] == SUBTYPE_MARKER { parse_marker(pdu).map(Self::Marker) } else { parse_lacp(pdu).map(Self::Lacp) }
    }

    /// Writes the data unit and returns its length; 0 if `out` is shorter.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(pdu) = out.first_chunk_mut::<PDU_LEN>() else { return 0 };
        pdu.fill(0);
        pdu[1] = VERSION;
        match self {
            Self::Lacp(lacp) => emit_lacp(lacp, pdu),
            Self::Marker(marker) => emit_marker(marker, pdu),
        }
        PDU_LEN
    }
}

// Offsets of the parts, each of which begins with its type and length.
const ACTOR: usize = 2;
const PARTNER: usize = 22;
const COLLECTOR: usize = 42;
const MARKER: usize = 2;
const INFO_LEN: u8 = 20;
const COLLECTOR_LEN: u8 = 16;
const MARKER_LEN: u8 = 16;
const _: () = assert!(ACTOR + INFO_LEN as usize == PARTNER && PARTNER + INFO_LEN as usize == COLLECTOR);

fn parse_lacp(pdu: &[u8; PDU_LEN]) -> Result<LacpPdu, WireError> {
    if [pdu[ACTOR + 1], pdu[PARTNER + 1], pdu[COLLECTOR + 1]] != [INFO_LEN, INFO_LEN, COLLECTOR_LEN] {
        return Err(WireError::BadLength);
    }
    let max_delay = be16(pdu, COLLECTOR + 2);
    Ok(LacpPdu { actor: parse_info(pdu, ACTOR), partner: parse_info(pdu, PARTNER), max_delay })
}

fn emit_lacp(lacp: &LacpPdu, pdu: &mut [u8; PDU_LEN]) {
    pdu[0] = SUBTYPE_LACP;
    for (kind, at, info) in [(1, ACTOR, &lacp.actor), (2, PARTNER, &lacp.partner)] {
        pdu[at..at + 2].copy_from_slice(&[kind, INFO_LEN]);
        pdu[at + 2..at + 4].copy_from_slice(&info.system_priority.to_be_bytes());
        pdu[at + 4..at + 10].copy_from_slice(&info.system.0);
        pdu[at + 10..at + 12].copy_from_slice(&info.key.to_be_bytes());
        pdu[at + 12..at + 14].copy_from_slice(&info.port_priority.to_be_bytes());
        pdu[at + 14..at + 16].copy_from_slice(&info.port.to_be_bytes());
        pdu[at + 16] = info.state.0;
    }
    pdu[COLLECTOR..COLLECTOR + 2].copy_from_slice(&[3, COLLECTOR_LEN]);
    pdu[COLLECTOR + 2..COLLECTOR + 4].copy_from_slice(&lacp.max_delay.to_be_bytes());
}

fn parse_info(pdu: &[u8; PDU_LEN], at: usize) -> PortInfo {
    PortInfo {
        system_priority: be16(pdu, at + 2),
        system: mac(pdu, at + 4),
        key: be16(pdu, at + 10),
        port_priority: be16(pdu, at + 12),
        port: be16(pdu, at + 14),
        state: PortState(pdu[at + 16]),
    }
}

fn parse_marker(pdu: &[u8; PDU_LEN]) -> Result<Marker, WireError> {
    let response = match pdu[MARKER] {
        1 => false,
        2 => true,
        _ => return Err(WireError::Unsupported),
    };
    if pdu[MARKER + 1] != MARKER_LEN {
        return Err(WireError::BadLength);
    }
    Ok(Marker {
        response,
        requester_port: be16(pdu, MARKER + 2),
        requester_system: mac(pdu, MARKER + 4),
        transaction: u32::from(be16(pdu, MARKER + 10)) << 16 | u32::from(be16(pdu, MARKER + 12)),
    })
}

fn emit_marker(marker: &Marker, pdu: &mut [u8; PDU_LEN]) {
    pdu[0] = SUBTYPE_MARKER;
    pdu[MARKER..MARKER + 2].copy_from_slice(&[1 + u8::from(marker.response), MARKER_LEN]);
    pdu[MARKER + 2..MARKER + 4].copy_from_slice(&marker.requester_port.to_be_bytes());
    pdu[MARKER + 4..MARKER + 10].copy_from_slice(&marker.requester_system.0);
    pdu[MARKER + 10..MARKER + 14].copy_from_slice(&marker.transaction.to_be_bytes());
}

fn be16(pdu: &[u8; PDU_LEN], at: usize) -> u16 {
    u16::from_be_bytes([pdu[at], pdu[at + 1]])
}

fn mac(pdu: &[u8; PDU_LEN], at: usize) -> Mac {
    let p = &pdu[at..at + 6];
    Mac([p[0], p[1], p[2], p[3], p[4], p[5]])
}
