//! How long requests take, where somebody asks.

use crate::Server;
use crate::carrier::{Answering, Carrier};
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
        let Some(recorder) = &self.carrier.recorder else { return };
        let mut series = vec![latency::OTHER; self.handlers.len()];
        for (host, slot) in self.hosts.site.hosts().iter().zip(&self.hosts.slots) {
            // A configuration's have locations.
            let own = !matches!(host.content, Content::Program(..));
            if let Some(series) = series.get_mut(usize::from(*slot)).filter(|_| own) {
                *series = recorder.board().series(host.name.as_bytes(), b"/");
            }
        }
        self.carrier.series = series;
    }
}

/// A response that was ready was queued; `own` are the series of hosts. Without a
/// recorder it is one comparison, and what is not wanted then is not kept for it.
#[inline(always)]
pub fn record_ready(recorder: &mut Option<Box<Recorder>>, own: &[u16], whose: (u16, u16), bytes: u32, now: Time) {
    if recorder.is_some() {
        cold_path();
        record_one(recorder, own, whose, bytes, now);
    }
}

#[inline(never)]
fn record_one(recorder: &mut Option<Box<Recorder>>, own: &[u16], (series, slot): (u16, u16), bytes: u32, now: Time) {
    if let Some(recorder) = recorder {
        let series = if series == Ready::OF_HOST { own.get(usize::from(slot)).copied() } else { Some(series) };
        recorder.on_ready(series.unwrap_or(latency::OTHER), bytes.into(), now);
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
        let own = self.series.or(more.and_then(|more| more.series)).or(series.get(self.slot).copied());
        let now = self.net.now();
        let began = more.and_then(|more| more.began).unwrap_or(now);
        recorder.on_end(Pace { series: own.unwrap_or(latency::OTHER), status, bytes, began }, now);
    }
}
