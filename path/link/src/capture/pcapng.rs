//! The blocks of pcapng that a capture needs, as draft-ietf-opsawg-pcapng
//! lays them out. All numbers are in this machine's byte order, which the
//! section's magic tells the reader.

/// Which way a frame went, as the flags word of a packet block says it
/// (section 4.3.1, bits 0 and 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// Section header (4.1) and interface description (4.2): one Ethernet
/// interface, times in nanoseconds.
pub(super) fn head(out: &mut Vec<u8>, name: &str, snap_len: u32) {
    block(out, SECTION_HEADER, |out| {
        put32(out, BYTE_ORDER_MAGIC);
        put16(out, 1);
        put16(out, 0);
        // The section's length is not known yet: -1.
        put64(out, u64::MAX);
        option(out, SHB_USER_APPLICATION, b"nearside");
        option(out, OPTION_END, &[]);
    });
    block(out, INTERFACE_DESCRIPTION, |out| {
        put16(out, LINKTYPE_ETHERNET);
        put16(out, 0);
        put32(out, snap_len);
        // An option's length is 16 bits; a name that long helps nobody.
        let name = name.as_bytes();
        option(out, IF_NAME, &name[..name.len().min(255)]);
        option(out, IF_TIMESTAMP_RESOLUTION, &[NANOSECONDS]);
        option(out, OPTION_END, &[]);
    });
}

/// Enhanced packet block (4.3).
pub(super) fn packet(out: &mut Vec<u8>, time: u64, direction: Direction, kept: &[u8], len: usize) {
    block(out, ENHANCED_PACKET, |out| {
        put32(out, INTERFACE);
        put64_high_first(out, time);
        put32(out, kept.len() as u32);
        put32(out, len as u32);
        put_padded(out, kept);
        option(out, EPB_FLAGS, &(direction as u32).to_ne_bytes());
        option(out, OPTION_END, &[]);
    });
}

/// Bytes that [`packet`] takes for `kept` bytes of a frame.
pub(super) const fn packet_len(kept: usize) -> usize {
    // Type, two lengths, interface, time, two frame lengths, flags, end.
    12 + 4 + 8 + 8 + kept.next_multiple_of(4) + 8 + 4
}

/// Interface statistics block (4.6): what was seen, and of it left out.
pub(super) fn statistics(out: &mut Vec<u8>, time: u64, seen: u64, dropped: u64) {
    block(out, INTERFACE_STATISTICS, |out| {
        put32(out, INTERFACE);
        put64_high_first(out, time);
        option(out, ISB_RECEIVED, &seen.to_ne_bytes());
        option(out, ISB_OS_DROPPED, &dropped.to_ne_bytes());
        option(out, OPTION_END, &[]);
    });
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const INTERFACE: u32 = 0;
const NANOSECONDS: u8 = 9;

const OPTION_END: u16 = 0;
const SHB_USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TIMESTAMP_RESOLUTION: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_RECEIVED: u16 = 4;
const ISB_OS_DROPPED: u16 = 7;

/// A block around `body`: type and total length before, total length after.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put32(out, kind);
    put32(out, 0);
    body(out);
    let len = (out.len() - start + 4) as u32;
    put32(out, len);
    out[start + 4..start + 8].copy_from_slice(&len.to_ne_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    put16(out, code);
    put16(out, value.len() as u16);
    put_padded(out, value);
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    let pad = bytes.len().next_multiple_of(4) - bytes.len();
    out.extend_from_slice(&[0; 3][..pad]);
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_ne_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_ne_bytes());
}

fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_ne_bytes());
}

/// Times are two words, the high one first in either byte order.
fn put64_high_first(out: &mut Vec<u8>, value: u64) {
    put32(out, (value >> 32) as u32);
    put32(out, value as u32);
}
