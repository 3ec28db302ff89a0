//! Event messages of PTP over Ethernet that carry a mark: what some NICs stamp,
//! and nothing else. No clock is set by them.
//!
//! Source: IEEE 1588-2008, sections 7.1, 7.5.2.2 and 13.3, annex F.

use crate::layers::ETHER_PTP;
use crate::mark::{self, Mark, Read};
use wire::Mac;

/// The header of a message, and where the message's number is in it.
pub(crate) const HEADER: usize = 34;
const SEQUENCE: usize = 30;

/// What they are: Sync, which NICs stamp, of version 2, in a domain that no
/// clock of a network is in unless it was told to.
pub(crate) const SYNC: u8 = 0;
pub(crate) const VERSION: u8 = 2;
const DOMAIN: u8 = 127;

/// Begins the message of a frame of `len` bytes behind its addresses and tag:
/// where a Sync message has its time, ours has room for the mark.
pub(crate) fn begin(bytes: &mut Vec<u8>, from: Mac, len: usize) {
    bytes.extend_from_slice(&ETHER_PTP.to_be_bytes());
    let message = (len - bytes.len()) as u16;
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&[SYNC, VERSION]);
    header[2..4].copy_from_slice(&message.to_be_bytes());
    header[4] = DOMAIN;
    // Whose it is: the address as EUI-64, port 1. The interval of messages is not told.
    let [a, b, c, d, e, f] = from.0;
    header[20..28].copy_from_slice(&[a, b, c, 0xff, 0xfe, d, e, f]);
    header[29] = 1;
    header[33] = 0x7f;
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&[0; mark::LEN]);
}

/// Writes a mark into a message that begins at `at`.
#[cold]
pub(crate) fn write_mark(frame: &mut [u8], at: usize, mark: &Mark) -> Option<()> {
    let (first, second, check) = mark.words();
    let out = frame.get_mut(at..)?.first_chunk_mut::<{ HEADER + mark::LEN }>()?;
    out[SEQUENCE..SEQUENCE + 2].copy_from_slice(&(mark.sequence as u16).to_be_bytes());
    let out = &mut out[HEADER..];
    out[..8].copy_from_slice(&first.to_be_bytes());
    out[8..16].copy_from_slice(&second.to_be_bytes());
    out[16..].copy_from_slice(&check.to_be_bytes());
    Some(())
}

/// Reads a mark in a message that begins at `at`, and where it is.
#[cold]
pub(crate) fn look(frame: &[u8], at: usize, signature: u32) -> Option<(Read, usize)> {
    let at = at + HEADER;
    let bytes = frame.get(at..)?.first_chunk::<{ mark::LEN }>()?;
    Some((Mark::read(bytes, signature), at))
}
