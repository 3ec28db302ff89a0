//! SIGHUP: the content is read again, and the log opened again. Connections
//! notice nothing.

use super::orders::Orders;
use super::supervisor::count;
use super::systemd;
use signal_hook::consts::SIGHUP;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What watches for the signal.
pub struct Reload {
    signals: Arc<AtomicUsize>,
    /// How many of them were seen to.
    seen: usize,
    /// What is served, if it is a directory.
    root: Option<PathBuf>,
}

impl Reload {
    /// Takes the signal from its default, which would end the process.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn new(orders: &Orders, content: &server::Content) -> std::io::Result<Self> {
        let root = match content {
            server::Content::Directory(directory) => Some(directory.root.clone()),
            server::Content::Respond(_) => None,
        };
        Ok(Self { signals: count(&[SIGHUP], orders)?, seen: 0, root })
    }

    /// Has all workers read the content again, if it was asked for and can be
    /// read.
    pub fn look(&mut self, orders: &Orders) {
        let signals = self.signals.load(Ordering::Relaxed);
        if signals == self.seen {
            return;
        }
        self.seen = signals;
        systemd::reloading("reading the content again");
        let gone = self.root.as_ref().and_then(|root| Some((root, std::fs::read_dir(root).err()?)));
        let status = match gone {
            Some((root, why)) => format!("cannot read {} again: {why}; what was served is served on", root.display()),
            None => {
                orders.reload();
                "reloaded: content is looked for again, and the log opened again".to_owned()
            }
        };
        eprintln!("{status}");
        systemd::ready(&format!("serving; {status}"));
    }
}
