//! Why an application cannot run.

use core::fmt;
use sockets::{BindError, StartError};
use std::io;

/// Why an application cannot run, or ended before it was told to.
#[derive(Debug)]
pub enum RunError {
    /// An endpoint cannot be listened on: the caller's choice of it.
    Bind(BindError),
    /// The kernel refuses what a worker needs.
    Start(StartError),
    /// The operating system gives no random bits.
    #[cfg(feature = "bypass")]
    Random(io::Error),
    /// The data path cannot be waited on any more.
    Wait(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(why) => write!(f, "{why}"),
            Self::Start(why) => write!(f, "{why}"),
            #[cfg(feature = "bypass")]
            Self::Random(why) => write!(f, "no random bits from the operating system: {why}"),
            Self::Wait(why) => write!(f, "cannot wait for the network: {why}"),
        }
    }
}

impl core::error::Error for RunError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Bind(why) => Some(why),
            Self::Start(why) => Some(why),
            #[cfg(feature = "bypass")]
            Self::Random(why) => Some(why),
            Self::Wait(why) => Some(why),
        }
    }
}
