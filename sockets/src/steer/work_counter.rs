//! A worker's own line of the shared map: what it has taken and finished.

use super::{OUT_FROM, OUT_OF_SERVICE, WORK_BESIDES, WORK_CHOSEN, WORK_FINISHED, WORK_LINE};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use wire::Time;

/// Connections that were chosen for a worker and did not come are written off
/// after this: handshakes that were reset, or never completed. One that comes
/// all the same is taken back. Longer than a handshake that loses its SYN-ACK
/// once (RFC 6298 §2.1: a second).
const WRITE_OFF: Duration = Duration::from_secs(3);

/// How often the worker looks for them.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks that one span of [`WRITE_OFF`] has at least: a worker that was held
/// up has not seen enough of it.
const LOOKS_MIN: u32 = 50;

/// How soon an idle worker looks, while some are on their way and while none is:
/// it does not hear of those that are chosen for it meanwhile.
const LOOK_IDLE: Duration = Duration::from_millis(50);
const LOOK_NONE: Duration = Duration::from_secs(1);

const _: () = assert!(LOOK_IDLE.as_millis() * (LOOKS_MIN as u128) < WRITE_OFF.as_millis());

/// The most that a worker says that it has besides: with its connections it
/// must stay below what means out of service.
const BESIDES_MAX: u32 = OUT_FROM / 2;

/// A worker's part in steering: whoever has it counts the worker's work.
/// Dropped, the worker is out of service, and is chosen no more.
///
/// Call [`WorkCounter::taken`] for each connection accepted, [`WorkCounter::finished`] for
/// each of these that closes, and [`WorkCounter::look`] now and then while nothing
/// waits to be accepted.
#[derive(Debug)]
pub struct WorkCounter {
    work: Arc<ebpf::Shared>,
    line: usize,
    taken: u32,
    closed: u32,
    /// Written off, less those that nobody was chosen for (as the kernel's
    /// hash chose). Wraps, as all these do.
    lost: u32,
    besides: u32,
    in_service: bool,
    span: Span,
}

/// What was seen of connections on their way, since some time.
#[derive(Clone, Copy, Debug)]
struct Span {
    since: Time,
    last: Time,
    looks: u32,
    fewest: u32,
}

impl Span {
    const fn new(now: Time) -> Self {
        Self { since: now, last: now, looks: 0, fewest: u32::MAX }
    }
}

impl WorkCounter {
    pub(super) fn new(work: Arc<ebpf::Shared>, worker: usize) -> Self {
        let line = worker * WORK_LINE;
        Self { work, line, taken: 0, closed: 0, lost: 0, besides: 0, in_service: true, span: Span::new(Time::ZERO) }
    }

    /// A connection was accepted.
    #[inline]
    pub fn taken(&mut self) {
        self.taken = self.taken.wrapping_add(1);
        if self.coming() < 0 {
            // Nobody was chosen for it, or it was written off: it counts now.
            self.lost = self.lost.wrapping_sub(1);
            self.tell();
        }
    }

    /// A connection that was taken is closed.
    #[inline]
    pub fn finished(&mut self) {
        self.closed = self.closed.wrapping_add(1);
        self.tell();
    }

    /// Work that the worker has besides its connections, in connections:
    /// requests under way, say. Default 0.
    pub fn publish(&mut self, besides: u32) {
        self.besides = besides.min(BESIDES_MAX);
        self.tell_besides();
    }

    /// Whether the worker is to be chosen. At the start it is.
    pub fn set_in_service(&mut self, in_service: bool) {
        self.in_service = in_service;
        self.tell_besides();
    }

    /// Nothing waits to be accepted now: what is still on its way are
    /// handshakes. Writes off those that do not come.
    #[inline]
    pub fn look(&mut self, now: Time) {
        if now.since(self.span.last) >= LOOK_EVERY {
            self.look_closely(now);
        }
    }

    /// How long an idle worker may sleep before it looks again.
    pub(crate) fn patience(&self) -> Duration {
        if self.coming() > 0 { LOOK_IDLE } else { LOOK_NONE }
    }

    fn look_closely(&mut self, now: Time) {
        let coming = u32::try_from(self.coming()).unwrap_or(0);
        if coming == 0 || self.span.since == Time::ZERO {
            // Nothing is on its way, so nothing is lost.
            self.span = Span::new(now);
            return;
        }
        self.span.last = now;
        self.span.looks += 1;
        self.span.fewest = self.span.fewest.min(coming);
        if now.since(self.span.since) >= WRITE_OFF && self.span.looks >= LOOKS_MIN {
            // At each look so many were on their way: no handshake takes that long.
            self.lost = self.lost.wrapping_add(self.span.fewest);
            self.tell();
            self.span = Span::new(now);
        }
    }

    /// Connections chosen for this worker that it has not seen. Below zero by
    /// what nobody was chosen for.
    fn coming(&self) -> i32 {
        let chosen = self.word(WORK_CHOSEN).load(Relaxed);
        chosen.wrapping_sub(self.taken).wrapping_sub(self.lost).cast_signed()
    }

    fn tell(&self) {
        self.word(WORK_FINISHED).store(self.closed.wrapping_add(self.lost), Relaxed);
    }

    fn tell_besides(&self) {
        let besides = if self.in_service { self.besides } else { OUT_OF_SERVICE };
        self.word(WORK_BESIDES).store(besides, Relaxed);
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        self.work.word(self.line + at)
    }
}

impl Drop for WorkCounter {
    fn drop(&mut self) {
        self.set_in_service(false);
    }
}

#[cfg(test)]
mod tests;
