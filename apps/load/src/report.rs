//! The outcome of a run, in figures that can be compared, and what speaks
//! against them.

use crate::figures::{Connections, Ended, Errors, Figures, Statuses, Traffic};
use crate::plan::{Plan, Reuse};
use crate::recorder::{LONGEST, Recorder};
use core::fmt;
use core::time::Duration;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Version of the JSON form; raised when a field changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// Above this share of busy time, the generator's own core may be what
/// limited the rate: the rest is too little to absorb bursts.
pub const SATURATED: f64 = 0.9;

/// Tolerance of the check by Little's law.
const LITTLES_TOLERANCE: f64 = 0.1;

/// Share of failed requests, or of answers that are no success, above which
/// the rate does not tell what the server can do.
const FAILURE_TOLERANCE: f64 = 0.01;

/// A percentile means little with fewer samples than this beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

/// Share of the median latency that the stamps may be late by.
const STAMP_TOLERANCE: f64 = 0.1;

/// The percentiles reported, as fractions.
pub const QUANTILES: [f64; 6] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// The outcome of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was asked for.
    pub setup: Setup,
    /// How the measured window ended.
    pub ended: Ended,
    /// Silos that the load came from.
    pub silos: u32,
    /// Time that opening the connections took.
    pub ramp_ns: u64,
    /// Time under load before the measured window.
    pub warm_up_ns: u64,
    /// Length of the measured window. All that follows is from within it,
    /// unless it says otherwise.
    pub window_ns: u64,
    /// Rates.
    pub throughput: Throughput,
    /// Request sent to response complete. See the crate's documentation for
    /// what is measured, and how exactly.
    pub latency: Latency,
    /// Connect started to established, over the whole run.
    pub connect: Latency,
    /// Requests, responses and bytes.
    pub traffic: Traffic,
    /// Responses by status class.
    pub statuses: Statuses,
    /// What went wrong.
    pub errors: Errors,
    /// What went wrong before the window.
    pub errors_before: Errors,
    /// Connections.
    pub connections: Connections,
    /// Connections before the window.
    pub connections_before: Connections,
    /// Connections open at the end.
    pub open: u64,
    /// The most connections open at once, over the whole run.
    pub most_open: u64,
    /// Requests under way at the end.
    pub in_flight: u64,
    /// Time since the oldest of them was sent.
    pub oldest_in_flight_ns: u64,
    /// The generator's own work.
    pub client: ClientCpu,
    /// What speaks against the figures.
    pub warnings: Vec<Warning>,
    /// All latencies, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// The method.
    pub method: String,
    /// The Host field.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Target addresses.
    pub targets: Vec<String>,
    /// Number of source addresses; zero: the data path chose.
    pub sources: usize,
    /// Connections.
    pub connections: u32,
    /// Of them, those with requests at a time.
    pub active: u32,
    /// Requests under way on each.
    pub pipeline: u16,
    /// What happens to a connection after its response.
    pub reuse: Reuse,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// Bytes of its content.
    pub body_bytes: usize,
    /// How long a response was waited for.
    pub timeout_ns: u64,
    /// How long a connect was waited for.
    pub connect_timeout_ns: u64,
}

/// Rates over the measured window.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Throughput {
    /// Complete responses per second, whatever their status.
    pub requests_per_second: f64,
    /// Connections established per second.
    pub connections_per_second: f64,
    /// Bytes of responses per second, heads included.
    pub received_bytes_per_second: f64,
    /// Bytes of content per second.
    pub body_bytes_per_second: f64,
    /// Bytes of requests per second.
    pub sent_bytes_per_second: f64,
}

/// A distribution of time spans, in nanoseconds, to three significant digits;
/// `min_ns` and `max_ns` are exact. All zero without samples.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// Samples.
    pub samples: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub stdev_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 75th percentile.
    pub p75_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The 99.99th percentile.
    pub p9999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latency {
    /// The figures of what was recorded, and of the same as a histogram.
    #[must_use]
    pub fn new(recorder: &Recorder, histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let max_ns = recorder.max();
        let [p50_ns, p75_ns, p90_ns, p99_ns, p999_ns, p9999_ns] =
            QUANTILES.map(|quantile| histogram.value_at_quantile(quantile).min(max_ns));
        Self {
            samples: histogram.len(),
            min_ns: recorder.min(),
            mean_ns: histogram.mean(),
            stdev_ns: histogram.stdev(),
            p50_ns,
            p75_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            p9999_ns,
            max_ns,
        }
    }

    /// The reported percentiles: fraction and nanoseconds.
    #[must_use]
    pub fn percentiles(&self) -> [(f64, u64); QUANTILES.len()] {
        let values = [self.p50_ns, self.p75_ns, self.p90_ns, self.p99_ns, self.p999_ns, self.p9999_ns];
        core::array::from_fn(|n| (QUANTILES[n], values[n]))
    }
}

/// The runtime's own account of its silo's time, over the measured window
/// (see [`crate::Load::stage`]). For several silos, that of the busiest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Busy {
    /// Time of turns that found work.
    pub busy: Duration,
    /// Time of all turns, and of waiting.
    pub total: Duration,
}

/// The generator's own work in the window, on its busiest silo.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ClientCpu {
    /// Busy time ÷ time.
    pub busy_fraction: f64,
    /// Who says so.
    pub source: BusySource,
    /// Turns.
    pub turns: u64,
    /// Turns that brought something for the generator.
    pub busy_turns: u64,
    /// Responses per such turn and silo.
    pub responses_per_busy_turn: f64,
    /// The mean length of such a turn. A latency is too long by at most two
    /// turns.
    pub mean_busy_turn_ns: u64,
    /// The longest of them.
    pub longest_busy_turn_ns: u64,
}

/// Where a busy fraction comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusySource {
    /// The runtime measured it.
    Runtime,
    /// Seen from the application, which cannot tell a wait at the end of a
    /// busy turn from work: an upper bound.
    UpperBound,
}

/// Something that speaks against the figures.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
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
    /// Rate × mean latency is not the number of requests under way, so some
    /// of the time is in neither.
    LittlesLaw {
        /// Requests that should have been under way.
        planned: f64,
        /// Samples per second × mean latency.
        measured: f64,
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
    /// Responses were not successes (2xx).
    NotSuccess {
        /// Their share.
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

impl Report {
    /// The report on a run of `plan`, whole over all silos. `busy` is the
    /// runtime's account, if it keeps one.
    #[must_use]
    pub fn new(plan: &Plan, figures: &Figures, busy: Option<Busy>) -> Self {
        let histogram = figures.latency.histogram();
        let traffic = figures.counts.traffic;
        let seconds = figures.window.as_secs_f64();
        let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let mut report = Self {
            schema: SCHEMA,
            setup: Setup::new(plan),
            ended: figures.ended,
            silos: figures.silos,
            ramp_ns: nanos(figures.ramp),
            warm_up_ns: nanos(figures.warm_up),
            window_ns: nanos(figures.window),
            throughput: Throughput {
                requests_per_second: figures.rate,
                connections_per_second: per_second(figures.counts.connections.established),
                received_bytes_per_second: per_second(traffic.received_bytes),
                body_bytes_per_second: per_second(traffic.body_bytes),
                sent_bytes_per_second: per_second(traffic.sent_bytes),
            },
            latency: Latency::new(&figures.latency, &histogram),
            connect: Latency::new(&figures.connect, &figures.connect.histogram()),
            traffic,
            statuses: figures.counts.statuses,
            errors: figures.counts.errors,
            errors_before: figures.before.errors,
            connections: figures.counts.connections,
            connections_before: figures.before.connections,
            open: figures.open,
            most_open: figures.most_open,
            in_flight: figures.in_flight,
            oldest_in_flight_ns: nanos(figures.oldest_in_flight),
            client: ClientCpu::new(figures, busy),
            warnings: Vec::new(),
            histogram,
        };
        report.warnings = report.find_warnings();
        report
    }

    fn find_warnings(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        match self.ended {
            Ended::AsPlanned => {}
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
        if self.traffic.responses == 0 {
            found.push(Warning::NoResponses);
        }
        found.extend(self.failure_warnings());
        if self.oldest_in_flight_ns > self.latency.max_ns && self.in_flight > 0 {
            found.push(Warning::Stalled { in_flight: self.in_flight, oldest_ns: self.oldest_in_flight_ns });
        }
        if self.traffic.responses > 0 {
            found.extend(self.client_warnings());
            found.extend(self.littles_law());
            found.extend(self.sample_warning());
        }
        found
    }

    fn ramp_warning(&self) -> Option<Warning> {
        let planned = u64::from(self.setup.connections);
        let ever = self.connections_before.established + self.connections.established;
        let opened = match self.setup.reuse {
            Reuse::KeepAlive => self.most_open,
            // Each is open for a moment only: not all need be at once.
            Reuse::ServerCloses | Reuse::ClientCloses => ever,
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
        let one = (failures > FAILURE_TOLERANCE).then_some(Warning::Failures { fraction: failures });
        let two = (refusals > FAILURE_TOLERANCE).then_some(Warning::NotSuccess { fraction: refusals });
        one.into_iter().chain(two)
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

    /// Little's law: requests under way = rate × time each takes. A closed
    /// loop keeps the left side constant, so the figures check each other.
    fn littles_law(&self) -> Option<Warning> {
        let planned = f64::from(self.setup.active) * f64::from(self.setup.pipeline);
        let seconds = self.window_ns as f64 * 1e-9;
        let mut each = self.latency.mean_ns;
        if self.setup.reuse != Reuse::KeepAlive {
            each += self.connect.mean_ns;
        }
        let measured = self.latency.samples as f64 / seconds * each * 1e-9;
        let off = (measured - planned).abs() > LITTLES_TOLERANCE * planned;
        off.then_some(Warning::LittlesLaw { planned, measured })
    }

    fn sample_warning(&self) -> Option<Warning> {
        let samples = self.latency.samples;
        let thin = |quantile: &f64| samples as f64 * (1.0 - quantile) < SAMPLES_BEYOND - 1e-6;
        let first = QUANTILES.into_iter().find(thin)?;
        Some(Warning::FewSamples { samples, percentile: first * 100.0 })
    }
}

impl Setup {
    fn new(plan: &Plan) -> Self {
        let request_bytes = plan.request.bytes(plan.reuse).map_or(0, |bytes| bytes.len());
        Self {
            method: plan.request.method.clone(),
            host: plan.request.host.clone(),
            path: plan.request.path.clone(),
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            sources: plan.sources.len(),
            connections: plan.connections,
            active: plan.active.unwrap_or(plan.connections),
            pipeline: plan.pipeline,
            reuse: plan.reuse,
            request_bytes,
            body_bytes: plan.request.body.len(),
            timeout_ns: nanos(plan.timeout),
            connect_timeout_ns: nanos(plan.connect_timeout),
        }
    }
}

impl ClientCpu {
    fn new(figures: &Figures, busy: Option<Busy>) -> Self {
        let turns = &figures.turns;
        let bound = turns.busy_fraction();
        let measured =
            busy.filter(|busy| !busy.total.is_zero()).map(|busy| busy.busy.as_secs_f64() / busy.total.as_secs_f64());
        let busy_fraction = measured.unwrap_or(bound);
        // What the runtime knows to be waiting is not part of a turn.
        let worked = if bound > 0.0 { (busy_fraction / bound).min(1.0) } else { 0.0 };
        let responses = figures.counts.traffic.responses as f64 / f64::from(figures.silos.max(1));
        Self {
            busy_fraction,
            source: if measured.is_some() { BusySource::Runtime } else { BusySource::UpperBound },
            turns: turns.all,
            busy_turns: turns.busy,
            responses_per_busy_turn: responses / turns.busy.max(1) as f64,
            mean_busy_turn_ns: (nanos(turns.mean_busy()) as f64 * worked) as u64,
            longest_busy_turn_ns: nanos(turns.longest),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::units::{seconds, share};
        match *self {
            Self::NoResponses => f.write_str("no response came in the measured window"),
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
            Self::LittlesLaw { planned, measured } => write!(
                f,
                "rate × latency gives {measured:.1} requests under way where {planned:.0} were \
                 planned: some of the time is in neither figure"
            ),
            Self::Stalled { in_flight, oldest_ns } => write!(
                f,
                "{in_flight} requests were still waiting at the end, the oldest for {}, longer \
                 than any latency above",
                seconds(oldest_ns as f64)
            ),
            Self::RampIncomplete { opened, planned } => {
                write!(f, "only {opened} of {planned} connections were ever open at once")
            }
            Self::Failures { fraction } => write!(f, "{} of the requests failed", share(fraction)),
            Self::NotSuccess { fraction } => {
                write!(f, "{} of the responses were not 2xx", share(fraction))
            }
            Self::OutOfTime => f.write_str("the time ran out before the number of requests was reached"),
            Self::Interrupted => f.write_str("the run was ended before its time"),
            Self::FewSamples { samples, percentile } => {
                write!(f, "{samples} samples: percentiles from {percentile} % up rest on fewer than ten")
            }
            Self::CoarseStamps { turn_ns, median_ns } => write!(
                f,
                "a busy turn of the generator took {}, beside a median of {}: latencies are too \
                 long by up to two turns",
                seconds(turn_ns as f64),
                seconds(median_ns as f64)
            ),
            Self::ConnectPaused { no_port, full, no_route } => {
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
        }
    }
}

const _: () = assert!(LONGEST < 1 << 53, "nanoseconds are exact in a JSON number");
