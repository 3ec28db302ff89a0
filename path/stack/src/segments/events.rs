//! What applications are to be told at the end of a turn, or in the next.

use app::{Closed, ConnId};
use std::collections::VecDeque;

/// In the order in which it happened.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Connections whose application timer ran out.
    pub app_timers: VecDeque<ConnId>,
    /// Those whose held bytes the application asked for.
    pub resumed: VecDeque<ConnId>,
    /// Those that are over, and why.
    pub over: VecDeque<(ConnId, Closed)>,
}

impl Events {
    /// Whether there is something to tell.
    pub fn has_some(&self) -> bool {
        !self.over.is_empty() || !self.resumed.is_empty() || !self.app_timers.is_empty()
    }
}
