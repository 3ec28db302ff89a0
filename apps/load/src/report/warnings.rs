//! What speaks against the figures of a report.
//!
//! Each warning has a threshold, a constant of this file, and says which
//! figure it spoils.

use super::{BusySource, Cpu, LittlesLaw, Ports, QUANTILES, Report, Spoils};
use crate::figures::{Connections, Ended};
use crate::grpc::GrpcStatus;
use crate::plan::Reuse;
use core::fmt;
use figures::{seconds, share, si};
use serde::Serialize;

/// Above this share of busy time, the generator's own core may be what
/// limited the rate: the rest is too little to absorb bursts.
pub const SATURATED: f64 = 0.9;

/// Tolerance of the check by Little's law. Both sides are measured; what is
/// left are the buckets' widths, 1/1024.
pub const LITTLES_TOLERANCE: f64 = 0.03;

/// A closed loop has fewer requests in progress than planned when this share
/// is missing: the rate is then that of a smaller load.
pub const LOOP_TOLERANCE: f64 = 0.1;

/// An open loop that was answered at less than this share of its rate was
/// not the load that was asked for.
pub const ACHIEVED: f64 = 0.99;

/// Share of the median latency that the 99th percentiles of schedule lag and
/// of scheduling delay may have.
pub const LAG_TOLERANCE: f64 = 0.1;

/// Spans below this are the resolution of timers, not delays, in nanoseconds:
/// the default timer slack of a thread (prctl(2), PR_SET_TIMERSLACK).
pub const DELAY_FLOOR_NS: u64 = 50_000;

/// A generator that stands still for less than this, in nanoseconds, is not
/// worth a warning of its own.
pub const STALL_FLOOR_NS: u64 = 1_000_000;

/// Share of the window that the generator may have been ready to run, and
/// waiting for a core.
pub const RUN_DELAY_TOLERANCE: f64 = 0.01;

/// Share of the local ports in use from which on new connections may have
/// had to wait for one, or to search for it.
pub const PORTS_TOLERANCE: f64 = 0.8;

/// Share of the mean latency that a null server may take with the same
/// generator: above it, most of what is measured is not the server.
pub const FLOOR_TOLERANCE: f64 = 0.5;

/// Share of one core that the hypervisor may have taken from all of them.
pub const STOLEN_TOLERANCE: f64 = 0.01;

/// Share of failed requests, or of answers that are no success, above which
/// the rate does not tell what the server can do.
const FAILURE_TOLERANCE: f64 = 0.01;

/// A percentile means little with fewer samples than this beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

/// Share of the median latency that the stamps may be late by.
const STAMP_TOLERANCE: f64 = 0.1;

/// Something that speaks against the figures.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The run was ended before anything was measured.
    NotBegun {
        /// Responses in the warm-up.
        responses: u64,
    },
    /// Not one response came in the window.
    NoResponses,
    /// The generator's own core was the bottleneck, or close to it.
    ClientSaturated {
        /// Busy time ÷ time.
        busy_fraction: f64,
    },
    /// As before, by an upper bound only.
    ClientMaybeSaturated {
        /// At most this.
        busy_fraction: f64,
    },
    /// Rate × mean latency is not the number of requests in progress, so one
    /// of the three is wrong ([`LITTLES_TOLERANCE`]).
    LittlesLaw {
        /// Requests in progress, counted.
        in_progress: f64,
        /// Rate × mean latency.
        measured: f64,
    },
    /// A closed loop had fewer requests in progress than planned
    /// ([`LOOP_TOLERANCE`]): connections were lost, or the generator took its
    /// time.
    LoopNotFull {
        /// Requests that should have been in progress.
        planned: f64,
        /// Those that were, on average.
        measured: f64,
    },
    /// An open loop was answered at less than its rate ([`ACHIEVED`]).
    RateMissed {
        /// Requests per second that came due.
        target: f64,
        /// Responses per second.
        achieved: f64,
    },
    /// Requests were due at the end, and never sent: they are in no latency.
    /// More than 1 % of those due ([`ACHIEVED`]), or longer than any latency.
    Unsent {
        /// How many.
        unsent: u64,
        /// Time since the oldest was due.
        oldest_ns: u64,
    },
    /// Requests were sent late ([`LAG_TOLERANCE`]): all connections were
    /// busy, or the generator was late. Latencies count from the due time,
    /// and so include it; the uncorrected ones do not.
    ScheduleLag {
        /// The 99th percentile of schedule lag.
        lag_ns: u64,
        /// The median latency.
        median_ns: u64,
    },
    /// In an open loop, requests waited after a GOAWAY: more than 1 %, or one for half the longest latency.
    GoneAway {
        /// How many.
        requests: u64,
    },
    /// The generator was called late ([`LAG_TOLERANCE`], above
    /// [`DELAY_FLOOR_NS`]): its core was taken from it, or its own turns are
    /// long.
    SchedulingDelay {
        /// The 99th percentile of the delay.
        delay_ns: u64,
        /// The median latency.
        median_ns: u64,
    },
    /// The generator stood still once, for at least half as long as the
    /// longest latency: that latency is the generator's own.
    GeneratorStalled {
        /// How long.
        longest_ns: u64,
        /// The longest latency.
        max_ns: u64,
    },
    /// The generator's threads were ready to run and had no core
    /// ([`RUN_DELAY_TOLERANCE`]).
    NoCore {
        /// Their share of the window.
        fraction: f64,
    },
    /// Most local ports were in use ([`PORTS_TOLERANCE`]).
    PortsShort {
        /// In use.
        used: u64,
        /// Of these.
        available: u64,
    },
    /// A null server takes most of the time measured ([`FLOOR_TOLERANCE`]).
    NearFloor {
        /// The null server's mean.
        floor_ns: u64,
        /// The mean measured.
        mean_ns: u64,
    },
    /// The null server took longer than the server: the machine was not the
    /// same in both runs, and the floor says nothing. The report has none.
    FloorVoid {
        /// The null server's mean.
        floor_ns: u64,
        /// The mean measured.
        mean_ns: u64,
    },
    /// Requests were waiting at the end, longer than any that was answered.
    /// The percentiles do not know of them.
    Stalled {
        /// Requests under way.
        in_flight: u64,
        /// Time since the oldest was sent.
        oldest_ns: u64,
    },
    /// Not all connections were ever open at once.
    RampIncomplete {
        /// The most that were open.
        opened: u64,
        /// Those asked for.
        planned: u64,
    },
    /// Requests failed.
    Failures {
        /// Failed ÷ ended.
        fraction: f64,
    },
    /// Responses were not as they were to be.
    WrongAnswers {
        /// Their share.
        fraction: f64,
    },
    /// The hypervisor took time from this machine's cores ([`STOLEN_TOLERANCE`]).
    Stolen {
        /// From all cores together, as a share of one.
        fraction: f64,
    },
    /// Responses were not successes (2xx).
    NotSuccess {
        /// Their share.
        fraction: f64,
    },
    /// Calls of gRPC came to another status than OK.
    NotOk {
        /// Their share of all that were answered.
        fraction: f64,
    },
    /// The number of requests was not reached in time.
    OutOfTime,
    /// The run was ended before its time.
    Interrupted,
    /// The highest percentiles rest on fewer than ten samples.
    FewSamples {
        /// Samples in all.
        samples: u64,
        /// The first percentile concerned.
        percentile: f64,
    },
    /// The stamps are coarse beside the latencies.
    CoarseStamps {
        /// The mean length of a busy turn: latencies are too long by up to
        /// two of them.
        turn_ns: u64,
        /// The median latency.
        median_ns: u64,
    },
    /// Connecting had to pause.
    ConnectPaused {
        /// No free local port: use more source addresses.
        no_port: u64,
        /// The data path's limit of connections.
        full: u64,
        /// No route to the target.
        no_route: u64,
    },
}

impl Warning {
    /// The figure that it spoils.
    #[must_use]
    pub const fn spoils(&self) -> Spoils {
        match self {
            Self::NotBegun { .. }
            | Self::NoResponses
            | Self::Interrupted
            | Self::LoopNotFull { .. }
            | Self::LittlesLaw { .. } => Spoils::All,
            Self::OutOfTime
            | Self::ClientSaturated { .. }
            | Self::ClientMaybeSaturated { .. }
            | Self::RateMissed { .. }
            | Self::Failures { .. }
            | Self::WrongAnswers { .. }
            | Self::NotSuccess { .. }
            | Self::NotOk { .. } => Spoils::Rate,
            Self::CoarseStamps { .. }
            | Self::SchedulingDelay { .. }
            | Self::NoCore { .. }
            | Self::Stolen { .. }
            | Self::NearFloor { .. }
            | Self::FloorVoid { .. } => Spoils::Latency,
            Self::Stalled { .. }
            | Self::Unsent { .. }
            | Self::GoneAway { .. }
            | Self::FewSamples { .. }
            | Self::GeneratorStalled { .. } => Spoils::Tail,
            Self::ScheduleLag { .. } => Spoils::Uncorrected,
            Self::RampIncomplete { .. } | Self::ConnectPaused { .. } | Self::PortsShort { .. } => Spoils::Connections,
        }
    }
}

impl Report {
    /// All that speaks against the figures.
    pub(super) fn find_warnings(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        match self.ended {
            // What could not be secured or understood brought no response: that is told.
            Ended::AsPlanned | Ended::Unsecured | Ended::NotHttp2 => {}
            Ended::OutOfTime => found.push(Warning::OutOfTime),
            Ended::Interrupted => found.push(Warning::Interrupted),
        }
        found.extend(self.ramp_warning());
        let paused = self.paused();
        if (paused.no_port, paused.full, paused.no_route) != (0, 0, 0) {
            found.push(Warning::ConnectPaused {
                no_port: paused.no_port,
                full: paused.full,
                no_route: paused.no_route,
            });
        }
        let not_begun = self.ended == Ended::Interrupted && self.window_ns == 0;
        if not_begun {
            found.push(Warning::NotBegun { responses: self.warm_up_phase.traffic.responses });
        } else if self.traffic.responses == 0 {
            found.push(Warning::NoResponses);
        }
        found.extend(self.failure_warnings());
        if self.oldest_in_flight_ns > self.latency.max_ns && self.in_flight > 0 && !not_begun {
            found.push(Warning::Stalled { in_flight: self.in_flight, oldest_ns: self.oldest_in_flight_ns });
        }
        found.extend(self.schedule_warnings());
        found.extend(self.littles_warning());
        if self.traffic.responses > 0 {
            found.extend(self.client_warnings());
            found.extend(self.delay_warnings());
            found.extend(self.outside_warnings());
            found.extend(self.loop_warning());
            found.extend(self.sample_warning());
        }
        found
    }

    fn ramp_warning(&self) -> Option<Warning> {
        let planned = u64::from(self.setup.connections);
        let ever = self.connections_before.established + self.connections.established;
        let opened = match self.setup.reuse {
            Reuse::KeepAlive | Reuse::ServerClosesAfter(2..) | Reuse::ClientClosesAfter(2..) => self.most_open,
            // Each is open for a moment only: not all need be at once.
            Reuse::ServerCloses | Reuse::ClientCloses | Reuse::ServerClosesAfter(_) | Reuse::ClientClosesAfter(_) => {
                ever
            }
        };
        (opened < planned).then_some(Warning::RampIncomplete { opened, planned })
    }

    fn paused(&self) -> Connections {
        let mut all = self.connections_before;
        all.add(&self.connections);
        all
    }

    fn failure_warnings(&self) -> impl Iterator<Item = Warning> {
        let failed = self.errors.failed_requests() as f64;
        let responses = self.traffic.responses as f64;
        let not_success = responses - self.statuses.success as f64;
        let failures = failed / (failed + responses).max(1.0);
        let refusals = not_success / responses.max(1.0);
        // Of calls their own statuses are told.
        let refusals = if self.grpc.is_some() { 0.0 } else { refusals };
        let one = (failures > FAILURE_TOLERANCE).then_some(Warning::Failures { fraction: failures });
        let two = (refusals > FAILURE_TOLERANCE).then_some(Warning::NotSuccess { fraction: refusals });
        let wrong = self.traffic.wrong as f64 / responses.max(1.0);
        let three = (wrong > FAILURE_TOLERANCE).then_some(Warning::WrongAnswers { fraction: wrong });
        let not_ok = self.grpc.map_or(0.0, |calls| responses - calls.of(GrpcStatus::Ok) as f64) / responses.max(1.0);
        let four = (not_ok > FAILURE_TOLERANCE).then_some(Warning::NotOk { fraction: not_ok });
        one.into_iter().chain(two).chain(three).chain(four)
    }

    fn client_warnings(&self) -> impl Iterator<Item = Warning> {
        let busy_fraction = self.client.busy_fraction;
        let saturated = (busy_fraction >= SATURATED).then_some(match self.client.source {
            BusySource::Runtime => Warning::ClientSaturated { busy_fraction },
            BusySource::UpperBound => Warning::ClientMaybeSaturated { busy_fraction },
        });
        let (turn_ns, median_ns) = (self.client.mean_busy_turn_ns, self.latency.p50_ns);
        let coarse = (turn_ns as f64 > STAMP_TOLERANCE * median_ns as f64)
            .then_some(Warning::CoarseStamps { turn_ns, median_ns });
        saturated.into_iter().chain(coarse)
    }

    /// A closed loop has as many requests in progress as planned: all the
    /// time, but for connecting.
    fn loop_warning(&self) -> Option<Warning> {
        if self.schedule.is_some() {
            return None;
        }
        let planned = f64::from(self.setup.active) * f64::from(self.setup.pipeline);
        let connecting = self.throughput.connections_per_second * self.connect.mean_ns * 1e-9;
        let measured = self.littles_law.in_progress + connecting;
        (measured < (1.0 - LOOP_TOLERANCE) * planned).then_some(Warning::LoopNotFull { planned, measured })
    }

    fn littles_warning(&self) -> Option<Warning> {
        let LittlesLaw { in_progress, rate_times_latency: measured, off } = self.littles_law;
        (off >= LITTLES_TOLERANCE).then_some(Warning::LittlesLaw { in_progress, measured })
    }

    fn schedule_warnings(&self) -> impl Iterator<Item = Warning> {
        let schedule = self.schedule.as_ref();
        let median_ns = self.latency.p50_ns;
        let missed = schedule.filter(|schedule| schedule.due > 0 && schedule.achieved_fraction < ACHIEVED);
        let achieved = self.throughput.requests_per_second;
        let missed = missed.map(|schedule| Warning::RateMissed { target: schedule.target_rate, achieved });
        // A few that came due a moment ago are no loss.
        let many = |unsent: u64, due: u64| unsent as f64 > (1.0 - ACHIEVED) * due as f64;
        let old = |oldest_ns: u64| oldest_ns > self.latency.max_ns;
        let unsent = schedule.filter(|schedule| {
            schedule.unsent > 0 && (many(schedule.unsent, schedule.due) || old(schedule.oldest_unsent_ns))
        });
        let unsent =
            unsent.map(|schedule| Warning::Unsent { unsent: schedule.unsent, oldest_ns: schedule.oldest_unsent_ns });
        let late = self.lag.filter(|lag| lag.p99_ns as f64 > LAG_TOLERANCE * median_ns as f64);
        let late = late.map(|lag| Warning::ScheduleLag { lag_ns: lag.p99_ns, median_ns });
        missed.into_iter().chain(unsent).chain(late).chain(self.go_away_warning())
    }

    fn go_away_warning(&self) -> Option<Warning> {
        let requests = self.traffic.delayed_by_go_away + self.traffic.unprocessed;
        let many = requests as f64 > (1.0 - ACHIEVED) * self.traffic.responses as f64;
        let long = self.lag?.max_ns >= self.latency.max_ns / 2;
        (requests.min(self.connections.go_aways) > 0 && (many || long)).then_some(Warning::GoneAway { requests })
    }

    fn delay_warnings(&self) -> impl Iterator<Item = Warning> {
        let (median_ns, max_ns) = (self.latency.p50_ns, self.latency.max_ns);
        let delay_ns = self.delay.p99_ns;
        let late = delay_ns > DELAY_FLOOR_NS && delay_ns as f64 > LAG_TOLERANCE * median_ns as f64;
        let late = late.then_some(Warning::SchedulingDelay { delay_ns, median_ns });
        let longest_ns = self.delay.max_ns;
        let stalled = longest_ns >= STALL_FLOOR_NS && longest_ns >= max_ns / 2;
        let stalled = stalled.then_some(Warning::GeneratorStalled { longest_ns, max_ns });
        late.into_iter().chain(stalled)
    }

    fn outside_warnings(&self) -> impl Iterator<Item = Warning> {
        let client = &self.client;
        // Of the time that it was looked for, which is a little more than a short window.
        let waited =
            |cpu: Cpu| cpu.run_delay_ns as f64 / cpu.span_ns.max(self.window_ns).max(cpu.run_delay_ns).max(1) as f64;
        let no_core = client.cpu.map(waited).filter(|fraction| *fraction > RUN_DELAY_TOLERANCE);
        let no_core = no_core.map(|fraction| Warning::NoCore { fraction });
        let short = client.ports.filter(|ports| ports.used as f64 >= PORTS_TOLERANCE * ports.available as f64);
        let short = short.map(|Ports { used, available }| Warning::PortsShort { used, available });
        let mean = self.latency.mean_ns;
        let floor = client.floor.filter(|floor| floor.mean_ns > FLOOR_TOLERANCE * mean);
        let floor = floor.map(|floor| Warning::NearFloor { floor_ns: floor.mean_ns as u64, mean_ns: mean as u64 });
        let stolen = client.stolen.filter(|fraction| *fraction > STOLEN_TOLERANCE);
        let stolen = stolen.map(|fraction| Warning::Stolen { fraction });
        no_core.into_iter().chain(stolen).chain(short).chain(floor)
    }

    fn sample_warning(&self) -> Option<Warning> {
        let samples = self.latency.samples;
        let thin = |quantile: &f64| samples as f64 * (1.0 - quantile) < SAMPLES_BEYOND - 1e-6;
        let first = QUANTILES.into_iter().find(thin)?;
        Some(Warning::FewSamples { samples, percentile: first * 100.0 })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoResponses => f.write_str("no response came in the measured window"),
            Self::NotBegun { responses } => {
                write!(
                    f,
                    "nothing was measured: it was over before its warm-up was, in which {responses} responses came"
                )
            }
            Self::LittlesLaw { in_progress, measured } => write!(
                f,
                "rate × latency gives {measured:.2} requests in progress where {in_progress:.2} were counted: \
                 some of the time is missing in one of the figures"
            ),
            Self::LoopNotFull { planned, measured } => write!(
                f,
                "{measured:.1} requests were in progress on average where {planned:.0} were planned: \
                 the load was smaller than asked for"
            ),
            Self::PortsShort { used, available } => {
                write!(f, "{used} of {available} local ports were in use: use more source addresses")
            }
            Self::RampIncomplete { opened, planned } => {
                write!(f, "only {opened} of {planned} connections were ever open at once")
            }
            Self::Failures { fraction } => write!(f, "{} of the requests failed", share(fraction)),
            Self::NotSuccess { fraction } => {
                write!(f, "{} of the responses were not 2xx", share(fraction))
            }
            Self::NotOk { fraction } => write!(f, "{} of the calls came to another status than OK", share(fraction)),
            Self::WrongAnswers { fraction } => {
                write!(f, "{} of the responses were not as they were to be", share(fraction))
            }
            Self::OutOfTime => f.write_str("the time ran out before the number of requests was reached"),
            Self::Interrupted => f.write_str("the run was ended before its time"),
            Self::FewSamples { samples, percentile } => {
                write!(f, "{samples} samples: percentiles from {percentile} % up rest on fewer than ten")
            }
            Self::ConnectPaused { no_port, full, no_route } => fmt_paused(f, no_port, full, no_route),
            _ => self.fmt_waiting(f),
        }
    }
}

fn fmt_paused(f: &mut fmt::Formatter<'_>, no_port: u64, full: u64, no_route: u64) -> fmt::Result {
    f.write_str("connecting paused:")?;
    for (times, why) in [
        (no_port, "no free local port (use more source addresses)"),
        (full, "the data path's connection limit was reached"),
        (no_route, "no route to the target"),
    ] {
        if times > 0 {
            write!(f, " {times}× {why};")?;
        }
    }
    Ok(())
}

impl Warning {
    /// Of requests that waited.
    fn fmt_waiting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RateMissed { target, achieved } => {
                write!(f, "{} were due, and {} were answered", si(target, "/s"), si(achieved, "/s"))
            }
            Self::Unsent { unsent, oldest_ns } => {
                let requests = if unsent == 1 { "request was" } else { "requests were" };
                let oldest = seconds(oldest_ns as f64);
                write!(f, "{unsent} {requests} due and never sent, the oldest {oldest} ago: in no latency above")
            }
            Self::ScheduleLag { lag_ns, median_ns } => write!(
                f,
                "1 % of the requests were sent {} or more after they were due, beside a median of {}: \
                 the uncorrected latencies leave that out",
                seconds(lag_ns as f64),
                seconds(median_ns as f64)
            ),
            Self::GoneAway { requests } => {
                write!(f, "{requests} requests waited for another connection, as theirs was told to go (GOAWAY)")
            }
            Self::Stalled { in_flight, oldest_ns } => write!(
                f,
                "{in_flight} requests were still waiting at the end, the oldest for {}, longer \
                 than any latency above",
                seconds(oldest_ns as f64)
            ),
            _ => self.fmt_own(f),
        }
    }

    /// Of the generator itself.
    fn fmt_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ClientSaturated { busy_fraction } => write!(
                f,
                "the generator's own core was busy {} of the time: the figures may be its limit, \
                 not the server's",
                share(busy_fraction)
            ),
            Self::ClientMaybeSaturated { busy_fraction } => write!(
                f,
                "the generator's own core may have been busy up to {} of the time: the figures \
                 may be its limit, not the server's",
                share(busy_fraction)
            ),
            Self::SchedulingDelay { delay_ns, median_ns } => write!(
                f,
                "1 % of the time the generator was called {} or more too late, beside a median of {}: \
                 latencies are its own in part",
                seconds(delay_ns as f64),
                seconds(median_ns as f64)
            ),
            Self::GeneratorStalled { longest_ns, max_ns } => write!(
                f,
                "the generator stood still for {}, beside a longest latency of {}: that one is its own",
                seconds(longest_ns as f64),
                seconds(max_ns as f64)
            ),
            Self::NoCore { fraction } => {
                write!(f, "the generator waited for a core for {} of the time", share(fraction))
            }
            Self::Stolen { fraction } => {
                write!(f, "the hypervisor took {} of a core from this machine meanwhile", share(fraction))
            }
            Self::NearFloor { floor_ns, mean_ns } => write!(
                f,
                "a server that does nothing takes {} of the mean of {}: most of it is not the server's",
                seconds(floor_ns as f64),
                seconds(mean_ns as f64)
            ),
            Self::FloorVoid { floor_ns, mean_ns } => write!(
                f,
                "a server that does nothing took {}, the server {} on average: the machine was not the same in both \
                 runs, and the floor is left out",
                seconds(floor_ns as f64),
                seconds(mean_ns as f64)
            ),
            Self::CoarseStamps { turn_ns, median_ns } => write!(
                f,
                "a busy turn of the generator took {}, beside a median of {}: latencies are too \
                 long by up to two turns",
                seconds(turn_ns as f64),
                seconds(median_ns as f64)
            ),
            _ => unreachable!("the callers name all others"),
        }
    }
}
