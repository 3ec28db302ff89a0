//! How long requests take, where somebody asks.

use crate::Server;
use crate::answering::Answering;
use crate::connections::Carrier;
use crate::trace;
use app::{ConnId, Net};
use core::hint::cold_path;
use exchange::{Handler, Ready};
use latency::{Pace, Recorder};
use semantics::Status;
use site::Content;
use wire::Time;

impl<H: Handler> Server<H> {
    /// Which series what has no location of its own is counted with.
    pub(crate) fn settle_series(&mut self) {
        let Some(recorder) = &self.h1.carrier.recorder else { return };
        self.h1.carrier.series = match self.config.content {
            // A configuration's have locations.
            Content::Program(..) => latency::OTHER,
            _ => recorder.board().series(b"_", b"/"),
        };
    }
}

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

impl Carrier {
    /// What is no request was answered.
    pub(crate) fn record_rejected(&self, id: ConnId, status: Status, bytes: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.on_rejected(status.code(), bytes);
        }
        trace::refused(&self.beginnings, id, status, bytes);
    }
}

impl<N: Net> Answering<'_, N> {
    /// The last byte of a response was queued.
    pub(crate) fn record(&mut self, id: ConnId, status: u16, bytes: u64) {
        let Carrier { recorder: Some(recorder), conns, series, .. } = &mut *self.carrier else { return };
        let more = conns.get(id.index()).and_then(|conn| conn.more.as_deref());
        let own = self.series.or(more.and_then(|more| more.series)).unwrap_or(*series);
        let now = self.net.now();
        let began = more.and_then(|more| more.began).unwrap_or(now);
        recorder.on_end(Pace { series: own, status, bytes, began }, now);
    }
}
