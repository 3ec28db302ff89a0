//! Frames that a mode makes itself: one template, and a counter that tells
//! flows apart.

use crate::layers::{ETHERNET, IPV4, put16};
use wire::Mac;
use wire::checksum::{sum, update};

/// The source port of the first flow, and the destination port.
const PORTS: (u16, u16) = (9, 9);

/// Where the last half of the destination address, and the header's checksum,
/// are.
const FLOW: usize = ETHERNET + 18;
const CHECKSUM: usize = ETHERNET + 10;

/// Frames of so many flows, by their destination address: 198.18.0.1 to
/// 198.18.x.y (RFC 2544 section 12 gives 198.18.0.0/15 to tests).
#[derive(Clone, Debug)]
pub(super) struct Flows {
    frame: Vec<u8>,
    flows: u16,
    next: u16,
    checksum: u16,
}

impl Flows {
    /// Frames of `len` bytes without the frame check sequence, 60 at least.
    pub fn new(len: usize, flows: u16, destination: Mac, source: Mac) -> Self {
        let len = len.max(60);
        let mut frame = vec![0; len];
        frame[..6].copy_from_slice(&destination.0);
        frame[6..12].copy_from_slice(&source.0);
        put16(&mut frame, 12, 0x0800);
        let total = (len - ETHERNET) as u16;
        // Version and header length, hop limit 64, UDP; 198.19.0.1 to 198.18.0.0.
        let header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 198, 19, 0, 1, 198, 18, 0, 0];
        frame[ETHERNET..ETHERNET + IPV4].copy_from_slice(&header);
        put16(&mut frame, ETHERNET + 2, total);
        let checksum = sum(&frame[ETHERNET..ETHERNET + IPV4]).finish();
        put16(&mut frame, ETHERNET + IPV4, PORTS.0);
        put16(&mut frame, ETHERNET + IPV4 + 2, PORTS.1);
        put16(&mut frame, ETHERNET + IPV4 + 4, total - IPV4 as u16);
        Self { frame, flows: flows.max(1), next: 0, checksum }
    }

    /// Writes the next frame; its length, or nothing where it does not fit.
    #[inline]
    pub fn write(&mut self, slot: &mut [u8]) -> Option<usize> {
        if !crate::layers::copy(&self.frame, slot) {
            return None;
        }
        let flow = self.next + 1;
        self.next = if flow >= self.flows { 0 } else { flow };
        put16(slot, FLOW, flow);
        put16(slot, CHECKSUM, update(self.checksum, 0, flow));
        Some(self.frame.len())
    }
}
