//! Stamps of frames that left, as links tell them.

use super::Tester;
use super::lane::Lane;
use crate::stamps::Apart;
use crate::stream::{Seen, look};
use link::{Link, Transmit};

impl Tester {
    /// From now on stamps of the two ports are by clocks that are so far apart.
    pub const fn set_apart(&mut self, apart: Apart) {
        self.apart = apart;
    }

    /// Takes stamps of frames that left, where one is waited for.
    #[cold]
    pub(super) fn take_departures<L: Link>(&mut self, links: &mut [L], now: u64) {
        let (signature, apart, wait) = (self.plan.signature, self.apart, self.stamp_wait);
        for (port, link) in links.iter_mut().enumerate() {
            let waits =
                |lane: &Lane| lane.from == port && lane.stamps.as_ref().is_some_and(|it| it.is_awaited(now, wait));
            if !self.lanes.iter().any(waits) {
                continue;
            }
            let (lanes, recorders) = (&mut self.lanes, &mut self.recorders);
            link.split().1.departed(&mut |frame, stamp| {
                let Seen::Ours(mark, _) = look(frame, signature) else { return };
                let number = usize::from(mark.lane);
                let Some(lane) = lanes.get_mut(number).filter(|lane| lane.from == port) else { return };
                let found = lane.stamps.as_mut().and_then(|stamps| stamps.left(mark.sequence, stamp, &apart));
                if let Some(nanos) = found {
                    lane.take_stamped(nanos, &mut recorders[number]);
                }
            });
        }
    }
}
