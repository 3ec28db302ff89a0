//! How long requests take, where somebody asks.

use crate::answering::H1Replies;
use app::{ConnId, Net};
use connections::Connections;
use core::hint::cold_path;
use exchange::Ready;
use latency::{Pace, Recorder};
use wire::Time;

/// A response that was ready was queued, of this `series` or of what has none of its `own`.
/// Without a recorder it is one comparison, and what is not wanted then is not kept for it.
#[inline(always)]
pub fn record_ready(recorder: &mut Option<Box<Recorder>>, own: &u16, series: u16, bytes: u32, now: Time) {
    if recorder.is_some() {
        cold_path();
        record_one(recorder, *own, series, bytes, now);
    }
}

#[inline(never)]
fn record_one(recorder: &mut Option<Box<Recorder>>, own: u16, series: u16, bytes: u32, now: Time) {
    if let Some(recorder) = recorder {
        let series = if series == Ready::OF_HOST { own } else { series };
        recorder.on_ready(series, bytes.into(), now);
    }
}

impl<N: Net> H1Replies<'_, N> {
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
