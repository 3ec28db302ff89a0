//! The drain: what is under way ends, and nothing begins.

use crate::Server;
use app::Net;
use exchange::Handler;

impl<H: Handler> Server<H> {
    /// One step of the drain; whether nothing is left. Responses under way
    /// are finished, and are the last on their connections; connections that
    /// wait for a request are closed.
    pub(crate) fn drain_more<N: Net>(&mut self, net: &mut N) -> bool {
        let over = self.h1.connections.drain_more(net);
        self.stirred(net);
        over
    }
}
