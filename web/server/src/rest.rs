//! When a server has nothing to do of itself in a turn.

use crate::Server;
use connections::trace;
use exchange::{Handler, Rests};
use site::Content;

/// When nothing is to be done in a turn of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// There may be at any time.
    Never,
    /// While the handler has nothing to do.
    AsHandler,
    /// There never is.
    Always,
}

impl<H: Handler> Server<H> {
    /// What follows from what the handler is.
    pub(crate) fn settle_handler(&mut self) {
        let rules = self.h1.handler.rules();
        let connections = &mut self.h1.connections;
        (connections.notes_ready, connections.asks_for_paths) = (rules.notes_ready, rules.asks_for_paths);
        self.h1.connections.tells_all = self.h1.connections.log.is_some() || trace::is_on();
        self.h1.forget_misses();
        self.settle_rest();
        self.settle_series();
    }

    /// What follows for it from who answers.
    pub(crate) fn settle_rest(&mut self) {
        self.may_rest = match &self.h1.handler {
            _ if self.handshakes.on || self.h1.connections.log.is_some() || !self.services.is_empty() => Rest::Never,
            handler => match handler.rules().rests {
                Rests::Always => Rest::Always,
                Rests::Sometimes => Rest::AsHandler,
                Rests::Never => Rest::Never,
            },
        };
        // Until the next own turn.
        self.rest = Rest::Never;
    }

    /// Whether its own turn would find nothing to do, and nothing to wait for, before the
    /// next second.
    #[inline(always)]
    pub(crate) fn is_at_rest(&self) -> bool {
        match self.rest {
            Rest::Always => true,
            Rest::AsHandler => self.h1.handler.is_at_rest() && !self.is_crowded(0),
            Rest::Never => false,
        }
    }

    /// Which series what has no location of its own is counted with.
    fn settle_series(&mut self) {
        let Some(recorder) = &self.h1.connections.recorder else { return };
        self.h1.connections.series = match self.config.content {
            // A configuration's have locations.
            Content::Program(..) => latency::OTHER,
            _ => recorder.board().series(b"_", b"/"),
        };
    }
}
