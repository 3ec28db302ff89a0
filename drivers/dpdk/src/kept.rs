//! Ports that are opened to be asked what they stamp, and kept for who opens them
//! next; and their clocks.

use crate::config::{Config, Device};
use crate::error::DpdkError;
use crate::facts::StampedFrames;
use crate::ffi;
use crate::port::{self, Port};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Ports that were opened to find out what they stamp, and wait to be opened for
/// what they are to do.
static KEPT: Mutex<Vec<(Config, Arc<Port>)>> = Mutex::new(Vec::new());

/// Which frames a port stamps. It stays open for who opens it next in the same way.
pub(crate) fn stamped_frames(config: &Config) -> Result<StampedFrames, String> {
    let port = open(config).map_err(|why| why.to_string())?;
    let found = port.facts.stamps.clone();
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push((config.clone(), port));
    found.unwrap_or_else(|| Err(format!("{} was not asked for stamps", config.device)))
}

/// A port, open: the one that was kept, if it is open in this way.
pub(crate) fn open(config: &Config) -> Result<Arc<Port>, DpdkError> {
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = all.iter().position(|(known, _)| known.device == config.device).map(|at| all.swap_remove(at));
    drop(all);
    match kept {
        Some((known, port)) if known == *config => Ok(port),
        kept => {
            // It is closed before it is opened again.
            drop(kept);
            Ok(Arc::new(Port::open(config)?))
        }
    }
}

/// The time of an open port's clock.
pub(crate) fn clock_of(device: &Device) -> io::Result<u64> {
    let mut now = 0;
    // SAFETY: a number is written, which lives during the call.
    let read = port::with_open(device, |id, _| unsafe { ffi::near_clock(id, &raw mut now) });
    match read {
        Some(0) => Ok(now),
        Some(code) => Err(io::Error::other(ffi::text(ffi::near_reason(code)))),
        None => Err(io::Error::new(io::ErrorKind::NotConnected, "the port is not open")),
    }
}
