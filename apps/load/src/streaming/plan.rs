//! What streams are to do.

use super::order::{self, ORDER_LIMIT};
use super::player::{PlayRate, SEGMENT};
use crate::plan::{CONNECTIONS_LIMIT, Plan, PlanError, Request, Reuse, Stop, Weighted};
use crate::schedule::Arrival;
use core::ops::Range;
use core::time::Duration;

/// The longest buffer, and the longest window.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The highest rate: a terabit per second.
const RATE_LIMIT: u64 = 1_000_000_000_000;

/// A run of streams, for one silo or thread.
#[derive(Clone, Debug)]
pub struct StreamingPlan {
    /// Where to, from where, how many connections, each with a stream, or over HTTP/2 with so many; what each asks for
    /// in turn, when they start and how long is measured.
    pub load: Plan,
    /// The rate at which each plays, or that it is to have.
    pub rate: PlayRate,
    /// How each plays; none: all that comes is taken at once, and held against the rate.
    pub player: Option<PlayerPlan>,
    /// Whether each stream begins with another request: the n-th of all threads and silos with the n-th in turn.
    /// Else all begin with the first.
    pub spread: bool,
}

/// A player.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayerPlan {
    /// What its buffer holds, in time of playing; a segment at least.
    pub buffer: Duration,
    /// The share of it with which playing begins, and goes on after an under-run: above 0, at most 1.
    pub share: f64,
}

impl StreamingPlan {
    /// The part of silo `index` of `silos`; none if no stream is left for it.
    #[must_use]
    pub fn share(&self, index: u32, silos: u32) -> Option<Self> {
        Some(Self { load: self.load.share(index, silos)?, ..self.clone() })
    }

    /// How long is measured.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        match self.load.stop {
            Stop::After(time) | Stop::Requests { within: time, .. } => time,
        }
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// The first setting that cannot be, in words for the user.
    pub fn check(&self) -> Result<(), PlanError> {
        self.load.check()?;
        let load = &self.load;
        let asks = |is: fn(&Request) -> bool| load.requests.iter().any(|one: &Weighted<Request>| is(&one.item));
        let rules = [
            (self.rate.bits() > RATE_LIMIT, "a stream has 1 Tbit/s at most"),
            (
                self.duration().subsec_nanos() > 0 || self.duration() > LONGEST,
                "streams are measured for whole seconds, a week at most",
            ),
            (matches!(load.stop, Stop::Requests { .. }), "streams are measured for a time, and not for requests"),
            (load.warm_up_requests > 0, "streams warm up for a time, and not for requests"),
            (
                self.player.is_some_and(|player| player.buffer.is_zero() || player.buffer > LONGEST),
                "a player's buffer holds more than nothing, and a week at most",
            ),
            (
                self.player.is_some_and(|player| !(player.share > 0.0 && player.share <= 1.0)),
                "playing begins with more than nothing of the buffer, and at most all of it",
            ),
            (load.grpc().is_some(), "streams are no calls of gRPC"),
            (
                u64::from(load.connections) * u64::from(self.streams_on_each()) > CONNECTIONS_LIMIT.into(),
                "there may be 16,777,216 streams for each silo",
            ),
            (asks(Request::is_head), "an answer to HEAD has no content to play"),
            (
                order::length(&load.requests) > ORDER_LIMIT,
                "each request is asked for as often as its weight says, and all in turn: 4,194,304 times at most",
            ),
            (load.cookies, "a stream keeps no cookies: what it asks for goes by its turn, and not by who it is"),
            (load.url_rows.is_some(), "streams have figures of their seconds, and none of each URL"),
            (asks(|request| request.script.is_some()), "streams are asked for without templates"),
            (
                load.reuse != Reuse::KeepAlive || load.http2.is_none() && load.pipeline > 1 || load.active.is_some(),
                "a stream keeps its connection, and asks on it for one thing after the other",
            ),
            (load.arrival != Arrival::Closed, "streams have a rate of their own"),
            (load.secured.as_ref().is_some_and(|sought| sought.tls.sends_early()), "streams send no early data"),
        ];
        match rules.into_iter().find(|(broken, _)| *broken) {
            Some((_, reason)) => Err(PlanError::new(reason)),
            None => Ok(()),
        }
    }

    /// Streams that share a connection: over HTTP/2 as many as the plan has on each, over HTTP/1.1 none does.
    #[must_use]
    pub fn streams_on_each(&self) -> u16 {
        if self.load.http2.is_some() { self.load.pipeline } else { 1 }
    }

    /// The streams that a connection has, by its number.
    pub(super) fn carried(&self, number: usize) -> Range<usize> {
        let each = usize::from(self.streams_on_each());
        number * each..(number + 1) * each
    }

    /// All streams.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.load.connections.saturating_mul(self.streams_on_each().into())
    }

    /// Bytes of content that all streams take in a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate.bytes_in(Duration::from_secs(1)).saturating_mul(self.streams().into()).max(SEGMENT)
    }
}
