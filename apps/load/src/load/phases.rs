//! Phases and figures: what happens a few times in a run.

use super::{Load, PUBLISH_EVERY, Phase, Published};
use crate::conn::State;
use crate::figures::{Ended, Figures};
use crate::live::Progress;
use crate::plan::Stop;
use core::time::Duration;
use wire::Time;

impl Load {
    /// Moves to the phase that the time calls for, and publishes progress.
    #[cold]
    pub(super) fn advance(&mut self, now: Time) {
        loop {
            let next = self.next_phase(now);
            let Some(next) = next else { break };
            self.phase = next;
        }
        if now >= self.published.next {
            self.publish(now);
        }
        self.due = match self.phase {
            Phase::Ended => Time::MAX,
            Phase::Waiting => self.published.next,
            Phase::Ramp { until } | Phase::WarmUp { until, .. } | Phase::Window { until, .. } => {
                until.min(self.published.next)
            }
        };
    }

    pub(super) fn next_phase(&mut self, now: Time) -> Option<Phase> {
        match self.phase {
            Phase::Waiting => {
                self.started = now;
                self.published.at = now;
                Some(Phase::Ramp { until: now + self.plan.ramp_limit })
            }
            Phase::Ramp { until } => {
                let opened = self.counts.connections.established;
                if now < until && opened < u64::from(self.plan.connections) {
                    return None;
                }
                if self.mixing {
                    self.busy_wanted = self.plan.active.unwrap_or(self.plan.connections);
                }
                let ramp = now.since(self.started);
                Some(Phase::WarmUp { ramp, until: now + self.plan.warm_up, from: now })
            }
            Phase::WarmUp { ramp, until, from } => (now >= until).then(|| self.open_window(now, ramp, now.since(from))),
            Phase::Window { until, .. } => {
                if now >= until {
                    let ended = match self.plan.stop {
                        Stop::After(_) => Ended::AsPlanned,
                        Stop::Requests { .. } => Ended::OutOfTime,
                    };
                    self.end(now, ended);
                }
                None
            }
            Phase::Ended => None,
        }
    }

    pub(super) fn open_window(&mut self, now: Time, ramp: Duration, warm_up: Duration) -> Phase {
        self.latency.clear();
        self.at_start_of_window = self.counts;
        self.turns.restart();
        let until = match self.plan.stop {
            Stop::After(time) => now + time,
            Stop::Requests { count, within } => {
                let under_way: u64 = self.table.iter().map(|conn| u64::from(conn.asked)).sum();
                self.allowance = count.saturating_sub(under_way);
                self.quota = count;
                now + within
            }
        };
        Phase::Window { ramp, warm_up, from: now, until }
    }

    /// Ends the run: no request is sent and nothing is counted from here on.
    #[cold]
    pub(super) fn end(&mut self, now: Time, ended: Ended) {
        let mut figures = Box::new(Figures { ended, silos: 1, ..Figures::default() });
        figures.before = self.counts;
        match self.phase {
            Phase::Ended => return,
            Phase::Waiting => {}
            Phase::Ramp { .. } => figures.ramp = now.since(self.started),
            Phase::WarmUp { ramp, from, .. } => {
                (figures.ramp, figures.warm_up) = (ramp, now.since(from));
            }
            Phase::Window { ramp, warm_up, from, .. } => {
                (figures.ramp, figures.warm_up) = (ramp, warm_up);
                figures.window = now.since(from);
                figures.before = self.at_start_of_window;
                figures.counts = self.counts.since(&self.at_start_of_window);
                figures.latency = core::mem::take(&mut self.latency);
                figures.turns = self.turns.sum();
                let seconds = figures.window.as_secs_f64();
                if seconds > 0.0 {
                    figures.rate = figures.counts.traffic.responses as f64 / seconds;
                }
            }
        }
        let request = u64::from(self.request.len());
        for counts in [&mut figures.counts, &mut figures.before] {
            counts.traffic.sent_bytes = counts.traffic.sent * request;
        }
        figures.connect = core::mem::take(&mut self.connect);
        figures.open = self.open;
        figures.most_open = self.most_open;
        for conn in self.table.iter().filter(|conn| conn.state == State::Busy) {
            figures.in_flight += u64::from(conn.asked);
            figures.oldest_in_flight = figures.oldest_in_flight.max(conn.age(now));
        }
        self.figures = Some(figures);
        self.phase = Phase::Ended;
        self.allowance = 0;
        self.quota = u64::MAX;
        self.busy_wanted = 0;
        self.publish(now);
    }

    pub(super) fn publish(&mut self, now: Time) {
        let progress = self.progress(now);
        self.live.publish(&progress);
        self.published = Published { next: now + PUBLISH_EVERY, at: now, responses: self.counts.traffic.responses };
    }

    /// The run at this moment. Walks the histogram: not for every turn.
    #[must_use]
    pub fn progress(&self, now: Time) -> Progress {
        let span = now.since(self.published.at).as_secs_f64();
        let news = self.counts.traffic.responses - self.published.responses;
        let errors = &self.counts.errors;
        let mut progress = Progress {
            stage: self.stage(),
            elapsed: now.since(self.started),
            rate: if span > 0.0 { (news as f64 / span) as u64 } else { 0 },
            errors: errors.failed_requests() + errors.failed_connects(),
            open: self.open,
            ..Progress::default()
        };
        if let Phase::Window { from, .. } = self.phase {
            progress.measured = now.since(from);
            progress.responses = self.counts.traffic.responses - self.at_start_of_window.traffic.responses;
            progress.p99_ns = self.latency.quantile(0.99);
        } else if let Some(figures) = &self.figures {
            progress.measured = figures.window;
            progress.responses = figures.counts.traffic.responses;
            progress.p99_ns = figures.latency.quantile(0.99);
        }
        progress
    }
}
