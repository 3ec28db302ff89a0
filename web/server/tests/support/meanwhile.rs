//! A peer that writes to a frame while the server is at work on it.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;

/// What happens at one of the calls to come.
#[derive(Debug, Default)]
pub struct Meanwhile {
    left: Cell<u32>,
    write: RefCell<Option<(OwnedFd, Vec<u8>)>>,
}

impl Meanwhile {
    /// At the call after `calls` more, `bytes` are written to the start of
    /// `file`.
    pub fn write(&self, calls: u32, file: OwnedFd, bytes: &[u8]) {
        self.left.set(calls);
        self.write.replace(Some((file, bytes.to_vec())));
    }

    /// Whether it has happened, or was not to.
    pub fn is_over(&self) -> bool {
        self.write.borrow().is_none()
    }

    /// One call more.
    pub fn on_call(&self) {
        if self.write.borrow().is_some()
            && self.left.replace(self.left.get().saturating_sub(1)) == 0
            && let Some((file, bytes)) = self.write.take()
        {
            let written = rustix::io::pwrite(&file, &bytes, 0).expect("room for the bytes");
            assert_eq!(written, bytes.len());
        }
    }
}
