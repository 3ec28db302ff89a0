//! A process that the keeper has started for nothing else: connections of one that was killed are ended.

use super::{LOOK_AFTER_LINK, SeatedWorker};
use crate::kernel::listened_on;
use core::ptr;
use core::time::Duration;
use cpu::Clock;

impl SeatedWorker {
    /// Ends connections that processes left which were killed, until there are none, or the time is
    /// up: this process is there for nothing else.
    pub fn end_lost(&mut self, limit: Duration) {
        let until = Clock.now() + limit;
        // Who asks for a listener that a worker is about to watch is not to hear that nobody is there.
        self.silo.link.set_awaited(&listened_on());
        loop {
            self.turn();
            let left = until.since(Clock.now());
            let is_done = self.silo.stack.connections() == 0 && !self.silo.link.has_lost();
            if is_done || left.is_zero() {
                return;
            }
            let _ = self.wait(&[], left.min(LOOK_AFTER_LINK), ptr::null());
        }
    }
}
