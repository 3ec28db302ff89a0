//! A turn of the server's own, and the second that begins in it.

use crate::Server;
use crate::rest::Rest;
use app::{Net, Wake};
use exchange::Handler;
use wire::Time;

impl<H: Handler> Server<H> {
    /// A new second began: `Date` changes, and what is held is looked over.
    #[cold]
    pub(crate) fn on_second(&mut self, now: Time) {
        self.h1.on_second(now);
    }

    #[inline(never)]
    pub(crate) fn own_turn<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        if now >= self.h1.connections.next_second {
            self.on_second(now);
        }
        let mut wake = self.make_way(net, now);
        self.rest = if wake == Wake::Idle { self.may_rest } else { Rest::Never };
        if self.handshakes.on {
            wake = wake.earlier(self.handshakes_turn(net));
        }
        wake = wake.earlier(self.h1.on_turn(net, now));
        self.stirred(net);
        if !self.services.is_empty() {
            wake = wake.earlier(self.services_turn(net));
        }
        // A handler may have taken the signal along, which is the same for all helpers.
        if self.handshakes.has_arrived() { Wake::Now } else { wake }
    }
}
