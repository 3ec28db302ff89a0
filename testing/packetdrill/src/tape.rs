//! A link whose other end is a list: frames are put in, and taken out.

use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use wire::checksum::sum;
use wire::{Offload, Time};

/// Frames that one turn can send; more wait for the next turn, as on a ring.
const ROOM: usize = 1024;

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// The link.
#[derive(Debug)]
pub struct Tape {
    capabilities: Capabilities,
    rx: TapeRx,
    tx: TapeTx,
    counters: Counters,
}

/// Frames on their way to the stack.
#[derive(Debug, Default)]
pub struct TapeRx {
    waiting: VecDeque<Vec<u8>>,
    burst: Vec<Vec<u8>>,
}

/// Frames that the stack sent.
#[derive(Debug)]
pub struct TapeTx {
    slot: Vec<u8>,
    sent: VecDeque<Vec<u8>>,
}

impl Tape {
    /// A link for packets of `mtu` bytes. With `segmentation` it takes larger
    /// ones and leaves them whole: what packetdrill sees is then what Linux
    /// shows it ahead of segmentation in a device.
    pub fn new(mtu: u16, segmentation: bool) -> Self {
        let segmentation = segmentation.then_some(LARGEST_PACKET);
        let slot = segmentation.map_or(usize::from(mtu), |limit| limit as usize) + HEADER_ROOM;
        Self {
            capabilities: Capabilities {
                mtu,
                receive_checksum: false,
                transmit_checksum: segmentation.is_some(),
                segmentation,
                queues: 1,
                shared_frames: false,
            },
            rx: TapeRx::default(),
            tx: TapeTx { slot: vec![0; slot], sent: VecDeque::new() },
            counters: Counters::default(),
        }
    }

    /// A frame for the stack.
    pub fn put(&mut self, frame: Vec<u8>) {
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += frame.len() as u64;
        self.rx.waiting.push_back(frame);
    }

    /// Frames that the stack has not taken yet.
    pub fn waiting(&self) -> usize {
        self.rx.waiting.len()
    }

    /// A frame that the stack sent.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.tx.sent.pop_front()?;
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += frame.len() as u64;
        Some(frame)
    }
}

/// The total length field of an IPv4 packet has 16 bits.
const LARGEST_PACKET: u32 = 0xffff;

impl Link for Tape {
    type Rx<'a>
        = &'a mut TapeRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut TapeTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn split(&mut self) -> (&mut TapeRx, &mut TapeTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, _now: Time) -> LinkState {
        LinkState::Up
    }

    /// Returns at once: nothing arrives by itself.
    fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, _timeout: Duration) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Receive for TapeRx {
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        let count = self.waiting.len().min(max);
        self.burst.extend(self.waiting.drain(..count));
        count
    }

    fn frame(&self, index: usize) -> &[u8] {
        &self.burst[index]
    }

    fn release(&mut self) {
        self.burst.clear();
    }
}

impl Transmit for TapeTx {
    fn room(&self) -> usize {
        ROOM.saturating_sub(self.sent.len())
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        (self.room() > 0).then_some(&mut self.slot)
    }

    fn commit(&mut self, len: usize, offload: Offload) {
        let mut frame = self.slot[..len.min(self.slot.len())].to_vec();
        if let Some(partial) = offload.checksum {
            let start = usize::from(partial.start).min(frame.len());
            let checksum = sum(&frame[start..]).finish();
            if let Some(field) = frame.get_mut(start + usize::from(partial.field)..).and_then(<[u8]>::first_chunk_mut) {
                *field = checksum.to_be_bytes();
            }
        }
        self.sent.push_back(frame);
    }

    fn flush(&mut self, _now: Time) {}
}
