//! What is sent beside content: headers, gaps, records, packets of PCI Express.

/// Bytes of IPv4 (20) and of TCP with its timestamps (20 and 12) in each packet.
pub const HEADERS: f64 = 52.0;

/// Bytes of an Ethernet frame's header.
pub const FRAME: f64 = 14.0;

/// Bytes of a frame on the wire: with its checksum, its preamble and the gap behind it (IEEE 802.3).
pub const WIRE: f64 = FRAME + 4.0 + 8.0 + 12.0;

/// Bytes of a full record of TLS on the wire, by those of its content: a header of 5, a type of 1, a
/// tag of 16 (RFC 8446, section 5.2).
pub const RECORD: f64 = (16_384.0 + 22.0) / 16_384.0;

/// Bytes of PCI Express for each that a device reads of memory: completions of 256 with 20 more,
/// which are 8 of framing, sequence number and checksum, and a header of 12 (PCI Express Base 3.0;
/// Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018). What
/// acknowledges them and what describes buffers is not counted.
pub const MEMORY_TO_PCI: f64 = (256.0 + 20.0) / 256.0;

/// The same of what a device writes to memory: its header has 16, as addresses have 64 bits.
pub const DISK_TO_PCI: f64 = (256.0 + 24.0) / 256.0;
