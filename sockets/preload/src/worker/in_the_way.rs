//! Another worker's process that was stopped amid a turn at a queue: the keeper has it go on.

use super::SeatedWorker;
use crate::place::ask;

/// Looks after the link, some milliseconds apart, at which a seat is in the way: then it is no chance.
const LOOKS: u32 = 3;

/// Which seat was in the way at the last looks, and how many these were.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTheWay {
    seat: Option<usize>,
    looks: u32,
}

impl InTheWay {
    /// Tells of the next look. Whether the keeper is to be asked, which it is again and again while
    /// nothing changes.
    fn on_look(&mut self, seat: Option<usize>) -> bool {
        self.looks = if seat.is_some() && seat == self.seat { self.looks + 1 } else { 1 };
        self.seat = seat;
        seat.is_some() && self.looks.is_multiple_of(LOOKS)
    }
}

impl SeatedWorker {
    /// Asks the keeper to look at whoever keeps this one from a queue.
    pub(super) fn look_in_the_way(&mut self) {
        let seat = self.silo.link.link().in_the_way();
        if self.in_the_way.on_look(seat)
            && let Some(seat) = seat
        {
            ask(&seats::Ask::InTheWay(seat));
        }
    }
}
