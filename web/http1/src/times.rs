//! How long requests take, where somebody asks.

use crate::answering::H1Replies;
use app::{ConnId, Net};
use connections::Connections;
use latency::Pace;

impl<N: Net + ?Sized> H1Replies<'_, N> {
    /// The last byte of a response was queued.
    pub(crate) fn record(&mut self, id: ConnId, status: u16, bytes: u64) {
        let Connections { recorder: Some(recorder), conns, series, .. } = &mut *self.connections else { return };
        let more = conns.get(id.index()).and_then(|conn| conn.more.as_deref());
        let own = self.series.or(more.and_then(|more| more.exchange.series)).unwrap_or(*series);
        let now = self.net.now();
        let began = more.and_then(|more| more.exchange.began).unwrap_or(now);
        recorder.on_end(Pace { series: own, status, bytes, began }, now);
    }
}
