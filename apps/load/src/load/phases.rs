//! Phases and figures: what happens a few times in a run.

use super::{HEARTBEAT, Load, PUBLISH_EVERY, Phase, PhaseStart, Published};
use crate::conn::State;
use crate::figures::{self, Counts, Ended, Figures, Scheduled};
use crate::live::Progress;
use crate::plan::Stop;
use crate::recorder::Recorder;
use crate::samples::Class;
use core::time::Duration;
use wire::Time;

/// How many more requests may be under way at the end of an open loop than on average, from when none
/// were, to count as if they were answered. A server that is behind from the first has twice as many.
const UNDER_WAY_TOLERANCE: f64 = 1.25;

impl Load {
    /// Moves to the phase that the time calls for, cuts intervals and
    /// publishes progress.
    #[cold]
    pub(super) fn advance(&mut self, now: Time) {
        while let Some(next) = self.next_phase(now) {
            self.phase = next;
        }
        if let Phase::Ended = self.phase {
            self.due = Time::MAX;
            return;
        }
        self.cut_if_due(now, (self.stage(), self.counts_so_far()));
        if now >= self.published.next {
            self.publish(now);
        }
        let cut = self.cuts.as_ref().map_or(Time::MAX, |cuts| cuts.next);
        let phase = match self.phase {
            Phase::Ended | Phase::Waiting => Time::MAX,
            Phase::Ramp { ready: Some(_), .. } => self.live.start().unwrap_or(Time::MAX),
            Phase::WarmUp { until, .. } if now >= until => until + self.plan.ramp_limit,
            Phase::Ramp { until, .. } | Phase::WarmUp { until, .. } | Phase::Window { until, .. } => until,
        };
        self.due = (now + HEARTBEAT).min(self.published.next).min(cut).min(phase);
    }

    fn next_phase(&mut self, now: Time) -> Option<Phase> {
        match self.phase {
            Phase::Waiting => {
                self.started = now;
                self.published.at = now;
                self.begin_cuts(now);
                Some(Phase::Ramp { until: now + self.plan.ramp + self.plan.ramp_limit, ready: None })
            }
            Phase::Ramp { until, ready } => {
                let opened = self.counts.connections.established;
                // An open loop with a new connection for each request opens
                // none before one is due.
                // Nor does one that is held.
                let none = (self.open_loop.is_some() || self.plan.held) && self.reuse.per_connection() == Some(1);
                let opening = now < until && opened < u64::from(self.plan.connections) && !none;
                if opening && ready.is_none() {
                    return None;
                }
                let from = self.begin_at(now, (until, ready))?;
                if self.mixing {
                    self.busy_wanted = self.plan.active.unwrap_or(self.plan.connections);
                }
                let ramp = ready.unwrap_or(now).since(self.started);
                self.ramp_phase = self.end_phase(now, 2, ramp);
                if let Some(open) = &mut self.open_loop {
                    open.start(self.plan.seed, from);
                }
                self.live.say_begun(now);
                Some(Phase::WarmUp { ramp, until: from + self.plan.warm_up, from })
            }
            Phase::WarmUp { ramp, until, from } => {
                let warm = now >= until && (self.warm || now >= until + self.plan.ramp_limit);
                warm.then(|| self.open_window(now, ramp, now.since(from)))
            }
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

    /// Since when the load is on, once it is: a load that is held says that it is ready, and waits. Requests
    /// fall due from the very time that was set, however late this turn comes, so that parts of one load on many
    /// machines keep their places.
    fn begin_at(&mut self, now: Time, (until, ready): (Time, Option<Time>)) -> Option<Time> {
        if !self.plan.held {
            return Some(now);
        }
        if ready.is_none() {
            self.phase = Phase::Ramp { until, ready: Some(now) };
            // Whoever sees that it is ready sees what is open.
            self.publish(now);
            self.live.say_ready();
        }
        let from = self.live.start().filter(|start| *start <= now)?;
        self.allowance = u64::MAX;
        if self.open_loop.is_none() && !self.mixing {
            self.unasked = self.table.slots();
        }
        Some(from)
    }

    /// What happened in the phase that ends; `left` end after it.
    fn end_phase(&mut self, now: Time, left: usize, time: Duration) -> figures::Phase {
        if let Some(open) = &mut self.open_loop {
            open.count_due_before(now);
        }
        let latency = self.end_cuts(now, (self.stage(), self.counts_so_far()), left).latency();
        self.begin_cuts(now);
        let counts = self.counts_so_far().since(&self.phase_start.counts);
        self.start_phase(now);
        figures::Phase { time, counts, latency }
    }

    /// The accounts of a phase begin.
    fn start_phase(&mut self, now: Time) {
        self.phase_start = PhaseStart {
            counts: self.counts_so_far(),
            in_progress: self.progress.mark(now),
            due: self.open_loop.as_ref().map_or(0, |open| open.due()),
            backlog: self.open_loop.as_ref().map_or(0, |open| open.backlog()),
        };
    }

    fn open_window(&mut self, now: Time, ramp: Duration, warm_up: Duration) -> Phase {
        self.warm_up_phase = self.end_phase(now, 1, warm_up);
        self.turns.restart();
        if let Some(rows) = &mut self.rows {
            rows.clear();
        }
        self.begin_cuts(now);
        if let Some(open) = &mut self.open_loop {
            open.begin(now);
        }
        let until = match self.plan.stop {
            Stop::After(time) => {
                self.quota = u64::MAX;
                now + time
            }
            Stop::Requests { count, within } => {
                self.allowance = count.saturating_sub(self.progress.count());
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
        match self.phase {
            Phase::Ended => return,
            Phase::Waiting => {}
            Phase::Ramp { .. } => {
                figures.ramp = now.since(self.started);
                self.ramp_phase = self.end_phase(now, 0, figures.ramp);
            }
            Phase::WarmUp { ramp, from, .. } => {
                (figures.ramp, figures.warm_up) = (ramp, now.since(from));
                self.warm_up_phase = self.end_phase(now, 0, figures.warm_up);
            }
            Phase::Window { ramp, warm_up, from, .. } => {
                (figures.ramp, figures.warm_up) = (ramp, warm_up);
                figures.window = now.since(from);
                self.end_window(now, &mut figures);
            }
        }
        figures.before = self.counts_so_far().since(&figures.counts);
        figures.ramp_phase = core::mem::take(&mut self.ramp_phase);
        figures.warm_up_phase = core::mem::take(&mut self.warm_up_phase);
        figures.connect = core::mem::take(&mut self.connect);
        if let Some(securing) = &mut self.securing {
            securing.end(&mut figures);
        }
        if let Some(why) = self.http2.as_mut().and_then(|http2| http2.failure.take()) {
            figures.connection_failure = Some(why);
        }
        figures.intervals_merged = self.cuts.as_ref().map_or(0, |cuts| cuts.merged);
        figures.server = self.parts.take().and_then(|parts| parts.into_server());
        figures.wrong_answers = core::mem::take(&mut self.wrong_answers);
        figures.open = self.open;
        figures.most_open = self.most_open;
        for slot in 0..self.table.slots() {
            self.refresh_oldest(self.table.at(slot).0);
        }
        for conn in self.table.iter().filter(|conn| conn.state == State::Busy) {
            figures.in_flight += u64::from(conn.asked);
            figures.oldest_in_flight = figures.oldest_in_flight.max(conn.age(now));
        }
        self.figures = Some(figures);
        self.phase = Phase::Ended;
        self.starts_each_turn = true;
        self.allowance = 0;
        self.quota = u64::MAX;
        self.busy_wanted = 0;
        // The collector may look for the end of all intervals.
        self.cuts = None;
        self.publish(now);
    }

    /// The figures of the measured window.
    fn end_window(&mut self, now: Time, figures: &mut Figures) {
        figures.schedule = self.end_schedule(now);
        figures.urls = self.rows.take().map_or(Vec::new(), |rows| rows.into_figures());
        figures.turns = self.turns.sum();
        figures.samples = self.end_cuts(now, (self.stage(), self.counts_so_far()), 0);
        figures.latency = figures.samples.latency();
        figures.counts = self.counts_so_far().since(&self.phase_start.counts);
        figures.in_progress = self.progress.mark(now).since(&self.phase_start.in_progress);
        figures.schedule.under_way = self.under_way_as_ever(figures);
        let answered = figures.counts.traffic.responses + figures.schedule.under_way;
        let seconds = self.sent_within(now, figures.window).as_secs_f64();
        if seconds > 0.0 {
            figures.rate = answered as f64 / seconds;
        }
    }

    /// In an open loop, how many more requests are under way than at the window's beginning, as far as
    /// that is what is under way on average. Without a warm-up the first have to be waited for; what piles
    /// up beyond that was not carried.
    fn under_way_as_ever(&self, figures: &Figures) -> u64 {
        let window = figures.window.as_nanos() as f64;
        let Counts { traffic, errors, .. } = &figures.counts;
        if self.open_loop.is_none() || window == 0.0 || traffic.responses == 0 {
            return 0;
        }
        let ended = traffic.responses + errors.failed_requests() + traffic.unprocessed;
        let average = figures.in_progress.request_ns as f64 / window;
        // With the deviation of as many that are independent.
        let most = UNDER_WAY_TOLERANCE * average + 2.0 * average.sqrt() + 1.0;
        traffic.sent.saturating_sub(ended).min(most as u64)
    }

    /// The time over which requests were sent: in an open loop of a number of requests without the wait
    /// for the last.
    fn sent_within(&self, now: Time, window: Duration) -> Duration {
        match &self.open_loop {
            Some(open) if self.allowance == 0 => {
                let until = open.next_due().max(open.last_taken()).min(now);
                window.saturating_sub(now.since(until))
            }
            _ => window,
        }
    }

    fn end_schedule(&mut self, now: Time) -> Scheduled {
        let Some(open) = &mut self.open_loop else {
            return Scheduled::default();
        };
        let PhaseStart { due, backlog: unsent_before, .. } = self.phase_start;
        // After the last of a number of requests none is sent, nor missing.
        let unsent = if self.allowance == 0 {
            0
        } else {
            open.count_due_before(now);
            open.backlog()
        };
        let oldest_unsent = if unsent > 0 { now.since(open.next()) } else { Duration::ZERO };
        Scheduled { due: open.due() - due, unsent_before, unsent, oldest_unsent, under_way: 0 }
    }

    /// What was counted since the first turn.
    pub(super) fn counts_so_far(&self) -> Counts {
        let mut counts = self.counts;
        if self.plain && self.single {
            counts.traffic.sent_bytes = counts.traffic.sent * u64::from(self.request.len());
        }
        counts
    }

    fn publish(&mut self, now: Time) {
        let progress = self.progress(now);
        self.live.publish(&progress);
        self.published = Published { next: now + PUBLISH_EVERY, at: now, responses: self.counts.traffic.responses };
    }

    /// The run at this moment. Walks histograms: not for every turn.
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
            in_flight: self.progress.count(),
            ..Progress::default()
        };
        if let Some(open) = &self.open_loop {
            progress.target_rate = open.rate(now);
            progress.backlog = open.backlog();
        }
        if let Phase::Window { from, .. } = self.phase {
            progress.measured = now.since(from);
            progress.responses = self.counts.traffic.responses - self.phase_start.counts.traffic.responses;
            progress.p99_ns = self.p99();
        } else if let Some(figures) = &self.figures {
            progress.measured = figures.window;
            progress.responses = figures.counts.traffic.responses;
            progress.p99_ns = figures.latency.quantile(0.99);
        }
        progress
    }

    /// Of the window so far; where intervals are cut, up to the last cut.
    fn p99(&self) -> u64 {
        let cut = self.cuts.as_ref().map(|cuts| &cuts.total).filter(|total| total.ended() > 0);
        let samples = cut.unwrap_or(&self.samples);
        let latencies = Class::ALL.map(|class| samples.class(class)).into_iter();
        Recorder::quantile_of_all(latencies.take(Class::Failed as usize).chain([samples.class(Class::TimedOut)]), 0.99)
    }
}
