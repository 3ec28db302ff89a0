//! memif: Ethernet frames between two processes over shared memory, protocol
//! version 2.0 as DPDK, VPP and libmemif speak it.
//!
//! [`MemifLink::open`] makes one of `memif:/run/nearside.sock,role=server`.

mod bell;
mod channel;
mod config;
mod control;
mod exported;
mod guard;
mod handshake;
mod kept;
mod link;
mod memory;
mod message;
mod prefetch;
mod receive;
mod ring;
mod row;
mod seat;
mod shared;
mod sizes;
mod slots;
#[cfg(test)]
mod tests;
mod transmit;

pub use config::{
    Address, BUFFER_SIZE_MAX, Config, ConfigError, HEADER_ROOM, LOG2_RING_SIZE_MAX, LOG2_RING_SIZE_MIN, Mode,
    NAME_LIMIT, PATH_LIMIT, PEER_MEMORY, POLL_NAP, Peers, QUEUE_MEMORY, QUEUES_LIMIT, SECRET_LIMIT,
};
pub use control::{Control, GREETING_LIMIT, RETRY_FIRST, RETRY_LONGEST, Status};
pub use driver::Role;
pub use exported::SHARED_QUEUES;
pub use kept::KeptMemif;
pub use link::MemifLink;
pub use memory::MemoryKind;
pub use receive::{BURST_LIMIT, FRAME_LIMIT, MemifRx};
pub use seat::{MemifSeatRx, MemifSeatTx, SeatMemif};
pub use transmit::MemifTx;

use core::fmt;
use std::io;

/// An opened interface, before its queues are given to their silos.
#[derive(Debug)]
pub struct Memif {
    control: Control,
    links: Vec<MemifLink>,
}

impl Memif {
    /// Opens the control socket; no peer is waited for. A server listens from
    /// here on; a client first tries to connect in [`Control::poll`].
    ///
    /// # Errors
    /// [`MemifError`]; nothing is left behind.
    pub fn open(config: Config) -> Result<Self, MemifError> {
        config.check().map_err(MemifError::Config)?;
        let refused = |source| MemifError::Io { what: "take SIGBUS", socket: config.socket.clone(), source };
        guard::take_signal().map_err(refused)?;
        let control = Control::open(config)?;
        let links = control.links(MemifLink::new);
        Ok(Self { control, links })
    }

    /// One link per queue pair, in order. The first also runs the control
    /// channel in its `poll_control`; the others follow within one of their
    /// own `poll_control` calls.
    #[must_use]
    pub fn split_queues(self) -> Vec<MemifLink> {
        let Self { control, mut links } = self;
        if let Some(first) = links.first_mut() {
            first.adopt(control);
        }
        links
    }

    /// The control channel, to be polled by a thread of its own, and one link
    /// per queue pair.
    #[must_use]
    #[cfg(test)]
    pub fn split_control(self) -> (Control, Vec<MemifLink>) {
        (self.control, self.links)
    }
}

/// Why an interface could not be opened.
#[derive(Debug)]
pub enum MemifError {
    /// The configuration is outside its limits: the user's to correct.
    Config(ConfigError),
    /// Another process listens on the socket; retry when it has gone.
    InUse(Address),
    /// The path is taken by something that is no socket; it is left alone.
    NotASocket(Address),
    /// The operating system refused.
    Io {
        /// What was asked of it.
        what: &'static str,
        /// The socket.
        socket: Address,
        /// Its answer.
        source: io::Error,
    },
}

impl fmt::Display for MemifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::InUse(socket) => write!(f, "memif:{socket}: another process listens on this socket"),
            Self::NotASocket(socket) => write!(f, "memif:{socket}: the path exists and is no socket"),
            Self::Io { what, socket, source } => write!(f, "memif:{socket}: cannot {what}: {source}"),
        }
    }
}

impl core::error::Error for MemifError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            Self::InUse(_) | Self::NotASocket(_) => None,
        }
    }
}
