//! What is done to frames on their way.

use core::fmt;
use core::str::FromStr;

/// A forwarding mode, named as testpmd names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Frames pass as they are.
    Io,
    /// Ethernet addresses are set: the port's own and its peer's.
    Mac,
    /// Ethernet addresses are swapped.
    MacSwap,
    /// Ethernet and IP addresses and ports are swapped.
    FiveTuple,
    /// Frames of many flows are sent, and what comes is dropped.
    FlowGen,
    /// What comes is dropped.
    RxOnly,
    /// Frames are sent, and nothing is received.
    TxOnly,
    /// Checksums are verified, counted and computed again.
    Csum,
    /// ARP requests and ICMP echo requests are answered, all else dropped.
    IcmpEcho,
    /// IP packets are routed by the longest prefix.
    L3,
}

impl Mode {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 10] = [
        Self::Io,
        Self::Mac,
        Self::MacSwap,
        Self::FiveTuple,
        Self::FlowGen,
        Self::RxOnly,
        Self::TxOnly,
        Self::Csum,
        Self::IcmpEcho,
        Self::L3,
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Mac => "mac",
            Self::MacSwap => "macswap",
            Self::FiveTuple => "5tswap",
            Self::FlowGen => "flowgen",
            Self::RxOnly => "rxonly",
            Self::TxOnly => "txonly",
            Self::Csum => "csum",
            Self::IcmpEcho => "icmpecho",
            Self::L3 => "l3",
        }
    }

    /// Whether a frame leaves by the port that it came by, however many there
    /// are.
    pub(crate) const fn answers(self) -> bool {
        matches!(self, Self::IcmpEcho)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| format!("the modes are {}", names()))
    }
}
