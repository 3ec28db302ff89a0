//! Films that are being cut, and those that wait for that.

use crate::cut::CutOutcome;
use crate::excerpt::Excerpt;
use crate::ids::{Stamp, WorkId};
use crate::reader::CutOf;
use app::Body;
use mp4::{Cut, Cutter, Span};
use std::collections::VecDeque;

/// What becomes of a file that is to be cut.
#[derive(Debug)]
pub enum Cutting {
    /// This is sent in its place; or it is sent as it is.
    Cut(Option<Excerpt>),
    /// It is no such file.
    Refused(mp4::Error),
    /// It cannot be read.
    Failed,
    /// It is not what it was: once it was looked at anew ([`crate::Files::look_anew`]), it may be cut.
    Changed,
    /// It is being cut: [`crate::Files::next_woken`] tells when it is. Until then the exchange has this
    /// mark.
    Waits(u32),
    /// There is too much to do.
    Full,
}

/// A file that waits to be cut.
#[derive(Debug)]
pub struct CutAsked {
    pub work: WorkId,
    pub wanted: (Stamp, Span),
    pub of: CutOf,
    pub cutter: Box<Cutter>,
}

/// What the reader cuts.
#[derive(Debug, Default)]
pub struct Cuts {
    /// With the reader now, and of what state of which file which span.
    pub under_way: Vec<(WorkId, (Stamp, Span))>,
    pub line: VecDeque<CutAsked>,
    /// What came of it, until who waited takes it in the same turn.
    pub done: Vec<(u32, (Stamp, Span), CutOutcome)>,
}

impl Cuts {
    /// What came of what `waiter` has asked for, if it is this. What it asked for before is
    /// forgotten.
    pub fn take(&mut self, waiter: u32, wanted: (Stamp, Span)) -> Option<CutOutcome> {
        let at = self.done.iter().position(|(whose, ..)| *whose == waiter)?;
        let (_, asked, outcome) = self.done.swap_remove(at);
        (asked == wanted).then_some(outcome)
    }

    /// Forgets what nobody has taken.
    pub fn sweep(&mut self) {
        self.done.clear();
    }
}

impl From<CutOutcome> for Cutting {
    fn from(outcome: CutOutcome) -> Self {
        let excerpt = |Cut { head, media }: Cut| Excerpt { before: Body::new(head), content: media };
        match outcome {
            CutOutcome::Cut(cut) => Self::Cut(cut.map(excerpt)),
            CutOutcome::Refused(why) => Self::Refused(why),
            CutOutcome::Changed => Self::Changed,
            CutOutcome::Failed => Self::Failed,
        }
    }
}
