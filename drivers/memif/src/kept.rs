//! An interface whose queues several processes have: one runs its control channel and keeps what its
//! peer shares, the others map it ([`crate::SeatMemif`]).

use crate::config::Config;
use crate::control::Control;
use crate::{MemifError, guard};
use ::link::Reopened;
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;
use wire::Time;

/// The interface, for whoever keeps it.
#[derive(Debug)]
pub struct KeptMemif {
    control: Control,
    /// The epoch that was last told of.
    told: u32,
}

impl KeptMemif {
    /// Opens the control socket; no peer is waited for.
    ///
    /// # Errors
    /// [`MemifError`]; nothing is left behind.
    pub fn open(config: Config) -> Result<Self, MemifError> {
        config.check().map_err(MemifError::Config)?;
        let refused = |source| MemifError::Io { what: "take SIGBUS", socket: config.socket.clone(), source };
        guard::take_signal().map_err(refused)?;
        let mut control = Control::open(config)?;
        control.export();
        let told = control.epoch();
        Ok(Self { control, told })
    }

    /// Greets a new peer, follows the one there is, notices that it went. Never blocks. Whether what
    /// is shared is another since the last call.
    pub fn poll(&mut self, now: Time) -> bool {
        self.control.poll(now);
        let epoch = self.control.epoch();
        core::mem::replace(&mut self.told, epoch) != epoch
    }

    /// Becomes readable when [`KeptMemif::poll`] has something to do; `None` between two attempts to
    /// connect.
    #[must_use]
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.control.readable()
    }

    /// The longest time until the next [`KeptMemif::poll`].
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.control.patience()
    }

    /// A process has found the peer of this epoch to break the protocol: its connection ends. Whether
    /// there was one: another process may have said so.
    pub fn refuse(&mut self, epoch: u32) -> bool {
        self.control.refuse(epoch)
    }

    /// All of it, as it is now, for another process.
    ///
    /// # Errors
    /// The system's, where it gives no descriptor.
    pub fn share(&self) -> io::Result<Reopened> {
        let epoch = self.control.epoch();
        let Some(exported) = self.control.exported() else {
            return Ok(Reopened { text: epoch.to_string(), descriptors: Vec::new() });
        };
        let Reopened { text, descriptors } = exported.share()?;
        Ok(Reopened { text: format!("{epoch} {text}"), descriptors })
    }
}
