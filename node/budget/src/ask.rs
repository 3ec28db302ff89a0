//! What is asked of a machine.

use crate::framing::{HEADERS, RECORD, WIRE};
use crate::machine::CpuCost;
use crate::siloing::{PortSplit, Siloing};

/// Slots of a silo's ring, as links have them by default.
pub const RING_SLOTS: u64 = 512;

/// Every host takes packets of so many bytes (RFC 791, section 3.1): no link that serves has less.
const MTU_LEAST: u16 = 576;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetAsk {
    /// Bits per second of content.
    pub bits: f64,
    /// Content is encrypted.
    pub tls: bool,
    /// Content comes from disks, rather than from memory.
    pub disk: bool,
    /// What keeps a connection in one domain.
    pub siloing: Siloing,
    /// Content in memory has a copy in each domain.
    pub copies: bool,
    /// How traffic is split over ports.
    pub split: PortSplit,
    /// Slots of each silo's ring.
    pub ring: u64,
    /// Bytes of a packet at most.
    pub mtu: u16,
    /// Processor time that somebody saw; `None`: what the machine's own figures say.
    pub cpu: Option<CpuCost>,
}

impl BudgetAsk {
    /// Content in memory without TLS, siloed by network, as Nearside sends it by default.
    #[must_use]
    pub const fn new(bits: f64) -> Self {
        Self {
            bits,
            tls: false,
            disk: false,
            siloing: Siloing::Network,
            copies: false,
            split: PortSplit::Even,
            ring: RING_SLOTS,
            mtu: 1_500,
            cpu: None,
        }
    }

    /// Bytes on a port's wire for each of content: full frames, and records of TLS.
    #[must_use]
    pub fn wire(&self) -> f64 {
        self.frames(WIRE)
    }

    pub(crate) fn frames(&self, beside: f64) -> f64 {
        let mtu = f64::from(self.mtu.max(MTU_LEAST));
        (mtu + beside) / (mtu - HEADERS) * if self.tls { RECORD } else { 1.0 }
    }
}
