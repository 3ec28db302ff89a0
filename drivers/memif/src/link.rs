//! The packet path of one queue pair.

use crate::config::{Config, HEADER_ROOM};
use crate::control::{Control, Status};
use crate::{Memif, OpenError};
use ::link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;
use wire::{Offload, Time};

/// One queue pair of a memif interface.
#[derive(Debug)]
pub struct MemifLink {
    rx: MemifRx,
    tx: MemifTx,
    control: Option<Control>,
    capabilities: Capabilities,
}

impl MemifLink {
    /// Opens an interface of one queue pair, control channel included.
    ///
    /// # Errors
    /// [`OpenError`], also if more than one queue is configured; use
    /// [`Memif::open`] for those.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        if config.queues != 1 {
            let error = crate::ConfigError::Value { key: String::from("queues"), takes: "1 where one link is opened" };
            return Err(OpenError::Config(error));
        }
        let (control, mut links) = Memif::open(config)?.split_control();
        let mut link = links.remove(0);
        link.adopt(control);
        Ok(link)
    }

    pub(crate) fn new(config: &Config) -> Self {
        let capabilities = Capabilities {
            mtu: config.mtu,
            receive_checksum: false,
            transmit_checksum: false,
            segmentation: None,
            queues: config.queues,
        };
        Self {
            rx: MemifRx {},
            tx: MemifTx { scratch: vec![0; (u32::from(config.mtu) + HEADER_ROOM) as usize], dropped: 0 },
            control: None,
            capabilities,
        }
    }

    pub(crate) fn adopt(&mut self, control: Control) {
        self.control = Some(control);
    }

    /// Where the interface stands, if this link runs its control channel.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.control.as_ref().map(Control::status)
    }
}

impl Link for MemifLink {
    type Rx = MemifRx;
    type Tx = MemifTx;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn split(&mut self) -> (&mut MemifRx, &mut MemifTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.control.as_mut().map_or(LinkState::Down, |control| control.poll(now))
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let _ = (wake, timeout);
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters { tx_dropped: self.tx.dropped, ..Counters::default() }
    }
}

/// The receive half.
#[derive(Debug)]
pub struct MemifRx {}

impl Receive for MemifRx {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let _ = (now, max);
        0
    }

    fn frame(&self, index: usize) -> &[u8] {
        panic!("frame {index} of an empty burst")
    }

    fn release(&mut self) {}
}

/// The transmit half.
#[derive(Debug)]
pub struct MemifTx {
    scratch: Vec<u8>,
    dropped: u64,
}

impl Transmit for MemifTx {
    fn room(&self) -> usize {
        1
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.scratch)
    }

    fn commit(&mut self, len: usize, offload: Offload) {
        let _ = (len, offload);
        self.dropped += 1;
    }

    fn flush(&mut self, now: Time) {
        let _ = now;
    }
}
