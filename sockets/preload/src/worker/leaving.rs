//! What the program has written, or ended, leaves.

use super::SeatedWorker;
use cpu::Clock;

/// Bytes that wait to be sent, at most, before a turn is taken for them: 16 full frames.
const MOST_PENDING: usize = 16 * 1448;

impl SeatedWorker {
    /// Takes a turn where much waits to leave.
    #[inline]
    pub fn turn_if_full(&mut self) {
        if self.silo.app.pending() >= MOST_PENDING {
            self.turn();
        }
    }

    /// The program has written, or finished: at once it leaves where more of the same does not follow
    /// and nobody else waits for the program, for all that it was last told of has its answer. So what
    /// comes of one look for events leaves together, and who then computes keeps nobody waiting. Else
    /// it leaves with the next wait, with so many bytes, or by the deputy.
    #[inline]
    pub fn leave_soon(&mut self, more: bool) {
        self.to_leave = true;
        if self.silo.app.pending() >= MOST_PENDING || (!more && self.silo.app.is_all_answered()) {
            self.leave_now();
        }
    }

    #[inline(never)]
    fn leave_now(&mut self) {
        self.turn();
    }

    /// The program has ended a connection: as [`SeatedWorker::leave_soon`], but nothing is looked at that came. It may
    /// be about to end more of them, and what it was not told of before is not to stand unread there, for which their
    /// peers would be reset.
    pub fn leave_ended(&mut self) {
        self.to_leave = true;
        if self.silo.app.pending() >= MOST_PENDING {
            self.turn();
        } else if self.silo.app.is_all_answered() && !self.is_left {
            // It is said by now.
            let _ = self.silo.app.take_ends();
            self.pace.send_said(&mut self.silo, Clock.now());
            self.to_leave = false;
        }
    }
}
