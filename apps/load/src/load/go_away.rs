//! Connections that a server tells to go (GOAWAY, RFC 9113 section 6.8), and those in their place.

use super::Load;
use app::ConnId;
use std::collections::VecDeque;
use wire::Time;

/// Connections that were told to go, and who waits for what they had.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// Connections that were told to go, and have not ended.
    count: u32,
    /// Places whose next connection is not there.
    empty: u32,
    /// The last time in which there was such a place: since when, and until when.
    gap: Option<(Time, Option<Time>)>,
    /// In a closed loop, connections that could send more, while as many requests as the plan asks
    /// for are under way elsewhere. Each once: as many as there are connections.
    short: VecDeque<ConnId>,
}

impl Going {
    /// A connection is there, in a place that was empty.
    pub fn fill(&mut self, now: Time) {
        self.empty = self.empty.saturating_sub(1);
        if self.empty == 0
            && let Some((_, until @ None)) = &mut self.gap
        {
            *until = Some(now);
        }
    }

    /// Whether a request that was due then had to wait for a connection in place of one that was
    /// told to go.
    pub fn delayed(&self, due: Time) -> bool {
        matches!(self.gap, Some((from, Some(until))) if (from..until).contains(&due))
    }

    /// One less of those told to go.
    pub fn end(&mut self) {
        self.count -= 1;
    }

    pub fn begin(&mut self, now: Time) {
        self.count += 1;
        if self.empty == 0 {
            self.gap = Some((now, None));
        }
        self.empty += 1;
    }

    /// A connection could send more than it may at present.
    pub fn wait(&mut self, id: ConnId) {
        self.short.push_back(id);
    }

    /// The next of those.
    pub fn next_short(&mut self) -> Option<ConnId> {
        self.short.pop_front()
    }
}

impl Load {
    /// Connections that have a place of those that the plan asks for. Who was told to go gives its
    /// place up at once, so that another opens beside it, as RFC 9113 section 6.8 has it. At most as
    /// many as the plan has do so at a time: a server that sends GOAWAY on each connection has no more
    /// than twice as many.
    pub(super) fn standing(&self) -> u32 {
        let going = self.http2.as_ref().map_or(0, |http2| http2.going.count);
        self.serving - going.min(self.plan.connections)
    }

    /// In a closed loop, whether as many requests are under way as the plan asks for: with those on
    /// connections that were told to go, the others have fewer.
    pub(super) fn is_full(&self) -> bool {
        let most = u64::from(self.plan.connections) * u64::from(self.plan.pipeline);
        self.open_loop.is_none() && self.progress.count() >= most
    }

    /// Whether a connection waits to send what may be sent now.
    pub(super) fn is_short(&self) -> bool {
        self.http2.as_ref().is_some_and(|http2| !http2.going.short.is_empty()) && !self.is_full()
    }
}
