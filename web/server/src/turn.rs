//! A turn of the server's own, and the second that begins in it.

use crate::answering::Answering;
use crate::rest::Rest;
use crate::{Server, trace};
use app::{Net, Wake};
use exchange::Handler;
use semantics::date::HttpDate;
use wire::Time;

impl<H: Handler> Server<H> {
    /// A new second began: `Date` changes, and what is held is looked over.
    #[cold]
    pub(crate) fn on_second(&mut self, now: Time) {
        let carrier = &mut self.carrier;
        carrier.second = carrier.clock.unix_seconds(now);
        carrier.next_second = carrier.clock.next_second(now);
        carrier.date = HttpDate::from_unix(carrier.second);
        carrier.tells_all = carrier.log.is_some() || trace::is_on();
        if let Some(log) = &mut carrier.log {
            log.set_time(&carrier.date);
        }
        self.handler.on_second(carrier.second, &carrier.date, now);
    }

    #[inline(never)]
    pub(crate) fn own_turn<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        if now >= self.carrier.next_second {
            self.on_second(now);
        }
        let mut wake = self.make_way(net, now);
        self.rest = if wake == Wake::Idle { self.may_rest } else { Rest::Never };
        if self.handshakes.on {
            wake = wake.earlier(self.handshakes_turn(net));
        }
        if let Some(log) = &mut self.carrier.log {
            wake = log.on_turn(now).map_or(wake, |at| wake.earlier(Wake::At(at)));
        }
        let mut replies = Answering { net: &mut *net, carrier: &mut self.carrier, within: None, series: None };
        wake = wake.earlier(self.handler.on_turn(&mut replies));
        if !self.services.is_empty() {
            wake = wake.earlier(self.services_turn(net));
        }
        // A handler may have taken the signal along, which is the same for all helpers.
        if self.handshakes.has_arrived() { Wake::Now } else { wake }
    }
}
