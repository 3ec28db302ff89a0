//! What wakes a main thread that waits: signals, and threads of its own.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// See the module.
#[derive(Debug)]
pub struct Bell {
    rings: UnixStream,
    hears: UnixStream,
}

impl Bell {
    /// One that nobody has rung.
    ///
    /// # Errors
    /// If the operating system gives no socket.
    pub fn new() -> std::io::Result<Self> {
        let (rings, hears) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        hears.set_nonblocking(true)?;
        Ok(Self { rings, hears })
    }

    /// Each of these signals rings it, after all that is registered for it by now.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn on(&self, signals: &[i32]) -> std::io::Result<()> {
        for &signal in signals {
            signal_hook::low_level::pipe::register(signal, self.rings.try_clone()?)?;
        }
        Ok(())
    }

    /// Rings it.
    pub fn ring(&self) {
        // A full bell rings already.
        let _ = (&self.rings).write(&[0]);
    }

    /// Readable when it rang; silent again after [`Bell::heard`].
    pub fn hears(&self) -> BorrowedFd<'_> {
        self.hears.as_fd()
    }

    /// It was heard.
    pub fn heard(&self) {
        while matches!((&self.hears).read(&mut [0; 64]), Ok(64)) {}
    }
}
