//! What a result of ours says at its head, whichever command wrote it: its kind and the
//! version of its form. Beside them stand the machine (`environment`) and the verdict.

use serde::{Deserialize, Serialize};

/// The version of the forms that this program writes and reads.
pub const SCHEMA: u32 = 1;

/// Which measurement a result is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// A load, closed or open.
    Load,
    /// The highest rate that meets objectives.
    FindMax,
    /// Loads of several numbers of connections and threads.
    LoadSweep,
    /// Streams without end.
    Bulk,
    /// A trial of frames.
    PacketLoad,
    /// A search for rates.
    PacketSearch,
    /// A probe beside backgrounds.
    PacketLatency,
    /// The whole of RFC 2544.
    Rfc2544,
    /// The published measurement.
    ZeroLoss,
    /// Devices compared.
    PacketLab,
    /// A device's settings, one changed at a time.
    PacketSweep,
    /// What a forwarder counted.
    PacketForward,
    /// An experiment of the lab.
    Experiment,
    /// What takes a busy core's time.
    Noise,
    /// A recording of `nearside watch`.
    Recording,
}

impl ResultKind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Load,
        Self::FindMax,
        Self::LoadSweep,
        Self::Bulk,
        Self::PacketLoad,
        Self::PacketSearch,
        Self::PacketLatency,
        Self::Rfc2544,
        Self::ZeroLoss,
        Self::PacketLab,
        Self::PacketSweep,
        Self::PacketForward,
        Self::Experiment,
        Self::Noise,
        Self::Recording,
    ];

    /// As results write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::FindMax => "find-max",
            Self::LoadSweep => "load-sweep",
            Self::Bulk => "bulk",
            Self::PacketLoad => "packet-load",
            Self::PacketSearch => "packet-search",
            Self::PacketLatency => "packet-latency",
            Self::Rfc2544 => "rfc2544",
            Self::ZeroLoss => "zero-loss",
            Self::PacketLab => "packet-lab",
            Self::PacketSweep => "packet-sweep",
            Self::PacketForward => "packet-forward",
            Self::Experiment => "experiment",
            Self::Noise => "noise",
            Self::Recording => "recording",
        }
    }

    /// The command that writes it.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Load => "nearside load",
            Self::FindMax => "nearside load --find-max",
            Self::LoadSweep => "nearside load --sweep",
            Self::Bulk => "nearside load --bulk",
            Self::PacketLoad => "nearside packet load",
            Self::PacketSearch => "nearside packet search",
            Self::PacketLatency => "nearside packet latency",
            Self::Rfc2544 => "nearside packet rfc2544",
            Self::ZeroLoss => "nearside packet run zero-loss",
            Self::PacketLab => "nearside packet lab",
            Self::PacketSweep => "nearside packet sweep",
            Self::PacketForward => "nearside packet forward",
            Self::Experiment => "nearside lab run",
            Self::Noise => "nearside node noise",
            Self::Recording => "nearside watch --record",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
