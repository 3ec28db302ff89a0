//! The outcome of a run, in figures that can be compared, and what speaks
//! against them.

use crate::checks::WrongAnswer;
use crate::figures::{Connections, Cookies, Ended, Errors, Figures, Phase, Redirects, Statuses, Traffic};
use crate::grpc::{GrpcStatus, GrpcStatuses};
use crate::heads::Heads;
use crate::plan::{Http2, Plan, Reuse};
use crate::recorder::{LONGEST, Recorder};
use crate::samples::Class;
use crate::schedule::Arrival;
use core::time::Duration;
use hdrhistogram::Histogram;
use serde::Serialize;

mod client;
mod secured;
mod urls;
mod verdict;
mod warnings;

pub use client::{Busy, BusySource, ClientCpu, Cpu, Floor, Outside, PortUse, Ports, Sibling};
pub use secured::{AgreedReport, EarlyReport, SecuredReport};
pub use urls::UrlReport;
pub use verdict::{Reason, Spoils, Trust, Verdict};
pub use warnings::Warning;

/// Version of the JSON form; raised when a field changes its meaning or goes.
pub const SCHEMA: u32 = 1;

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
    /// Request due (in a closed loop: sent) to response complete. See the
    /// crate's documentation for what is measured, and how exactly.
    pub latency: Latency,
    /// In an open loop, request sent to its end, of the requests that are in
    /// [`Report::latency`]: what is called uncorrected. It leaves out the time
    /// that requests waited because all connections were busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Latency>,
    /// In an open loop, request due to request sent: schedule lag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<Latency>,
    /// How late the generator was called, beside the time that it asked for.
    pub delay: Latency,
    /// Latency by what became of the request; those that occurred.
    pub classes: Vec<ClassLatency>,
    /// In an open loop, what was asked for, and what became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleReport>,
    /// Requests in progress, measured twice.
    pub littles_law: LittlesLaw,
    /// The opening of connections.
    pub ramp_phase: PhaseReport,
    /// The warm-up.
    pub warm_up_phase: PhaseReport,
    /// Connect started to established, over the whole run.
    pub connect: Latency,
    /// Connection established to secured, over the whole run, and what was agreed on; over
    /// HTTPS alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secured: Option<SecuredReport>,
    /// Request sent to the first byte of its response, if the plan asks for the
    /// parts of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Latency>,
    /// Request sent, or the connect before it started, to response complete;
    /// likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Latency>,
    /// The name that the server gives itself; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Requests, responses and bytes.
    pub traffic: Traffic,
    /// Responses by status class.
    pub statuses: Statuses,
    /// Calls of gRPC by their status, those among them that we ended at their deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcStatuses>,
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
    /// The interfaces that requests went by, from the first connect to the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<PortUse>,
    /// Intervals that grew together, as their collector was too slow.
    pub intervals_merged: u64,
    /// Redirects, where they are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<Redirects>,
    /// Cookies, where they are kept; of the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// The figures of requests apart, where the plan asks for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<UrlReport>,
    /// Some of the answers that were not as they were to be, of the whole run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong_answers: Vec<WrongAnswer>,
    /// What speaks against the figures.
    pub warnings: Vec<Warning>,
    /// Whether they can be trusted.
    pub verdict: Verdict,
    /// All latencies, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
    /// The uncorrected ones; empty in a closed loop.
    #[serde(skip)]
    pub service_histogram: Histogram<u64>,
    /// Schedule lag; empty in a closed loop.
    #[serde(skip)]
    pub lag_histogram: Histogram<u64>,
    /// Times to connect.
    #[serde(skip)]
    pub connect_histogram: Histogram<u64>,
    /// The whole times; empty where they were not asked for.
    #[serde(skip)]
    pub total_histogram: Histogram<u64>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// `http` or `https`.
    pub scheme: &'static str,
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
    /// How HTTP/2 is spoken; none over HTTP/1.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2>,
    /// What happens to a connection after its response.
    pub reuse: Reuse,
    /// Different requests; with more than one, method, path and bytes are
    /// those of the first.
    pub requests: usize,
    /// Which fields requests carry beside those that were asked for, and
    /// whether each connection has values of its own.
    pub heads: Heads,
    /// Closed loop, or the schedule of an open one.
    pub arrival: Arrival,
    /// Bytes of a request, without what [`Setup::heads`] adds.
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
    /// Complete responses per second, whatever their status; in an open loop with
    /// [`ScheduleReport::under_way`], and without the wait for the last of a number of requests.
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
    /// The distribution that a recorder holds.
    #[must_use]
    pub fn of(recorder: &Recorder) -> Self {
        if recorder.is_empty() { Self::default() } else { Self::new(recorder, &recorder.histogram()) }
    }

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

/// The latency of requests that became the same.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ClassLatency {
    /// What they became.
    pub class: Class,
    /// From due to ended.
    pub latency: Latency,
}

/// What the schedule of an open loop asked for, and what became of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ScheduleReport {
    /// Requests per second that came due.
    pub target_rate: f64,
    /// Requests that came due.
    pub due: u64,
    /// Responses, and requests under way as ever ÷ requests due.
    pub achieved_fraction: f64,
    /// How many more requests were under way at the end than at the beginning, as far as that is
    /// what is under way on average.
    pub under_way: u64,
    /// Requests that were due at the end, and never sent. They are in no
    /// latency.
    pub unsent: u64,
    /// Time since the oldest of them was due.
    pub oldest_unsent_ns: u64,
}

/// Requests in progress on average, measured in two ways: by a count of them
/// and the clock, and as rate × mean latency (Little 1961).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct LittlesLaw {
    /// Their number, integrated over the window ÷ its length.
    pub in_progress: f64,
    /// Requests that ended per second × their mean time from sent to ended,
    /// less what of it was before the window, and with the time so far of
    /// those still in progress at its end, or taken back.
    pub rate_times_latency: f64,
    /// The difference as a share of the first; zero if nothing was in
    /// progress.
    pub off: f64,
}

/// What happened before the measured window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PhaseReport {
    /// Its length.
    pub time_ns: u64,
    /// Requests, responses and bytes.
    pub traffic: Traffic,
    /// Connections.
    pub connections: Connections,
    /// As [`Report::latency`].
    pub latency: Latency,
}

impl Report {
    /// The report on a run of `plan`, whole over all silos, with what its
    /// surroundings know; an `Option<`[`Busy`]`>` will do.
    #[must_use]
    pub fn new(plan: &Plan, figures: &Figures, outside: impl Into<Outside>) -> Self {
        let outside = outside.into();
        let open = plan.is_open();
        let samples = &figures.samples;
        let histogram = figures.latency.histogram();
        let service_histogram = samples.service.histogram();
        let lag_histogram = samples.lag.histogram();
        let connect_histogram = figures.connect.histogram();
        let total_histogram = samples.total.histogram();
        let mut report = Self {
            schema: SCHEMA,
            setup: Setup::new(plan),
            ended: figures.ended,
            silos: figures.silos,
            ramp_ns: nanos(figures.ramp),
            warm_up_ns: nanos(figures.warm_up),
            window_ns: nanos(figures.window),
            throughput: Throughput::new(figures),
            latency: Latency::new(&figures.latency, &histogram),
            service: open.then(|| Latency::new(&samples.service, &service_histogram)),
            lag: open.then(|| Latency::new(&samples.lag, &lag_histogram)),
            delay: Latency::of(&samples.delay),
            classes: classes(figures),
            schedule: open.then(|| ScheduleReport::new(figures)),
            littles_law: LittlesLaw::new(figures, open),
            ramp_phase: PhaseReport::new(&figures.ramp_phase),
            warm_up_phase: PhaseReport::new(&figures.warm_up_phase),
            connect: Latency::new(&figures.connect, &connect_histogram),
            secured: plan.secured.as_ref().map(|sought| SecuredReport::new(sought, figures)),
            waiting: plan.parts.then(|| Latency::of(&samples.waiting)),
            total: plan.parts.then(|| Latency::new(&samples.total, &total_histogram)),
            server: figures.server.clone(),
            traffic: figures.counts.traffic,
            statuses: figures.counts.statuses,
            grpc: plan.grpc().map(|_| figures.counts.grpc),
            errors: figures.counts.errors,
            errors_before: figures.before.errors,
            connections: figures.counts.connections,
            connections_before: figures.before.connections,
            open: figures.open,
            most_open: figures.most_open,
            in_flight: figures.in_flight,
            oldest_in_flight_ns: nanos(figures.oldest_in_flight),
            client: ClientCpu::new(figures, &outside),
            carried: outside.carried,
            intervals_merged: figures.intervals_merged,
            redirects: (plan.follow > 0).then_some(figures.counts.redirects),
            cookies: plan.cookies.then(|| cookies(figures)),
            urls: UrlReport::all(plan, figures),
            wrong_answers: figures.wrong_answers.clone(),
            warnings: Vec::new(),
            verdict: Verdict::default(),
            histogram,
            service_histogram,
            lag_histogram,
            connect_histogram,
            total_histogram,
        };
        report.warnings = report.find_warnings();
        report.void_floor();
        report.verdict = Verdict::on(&report);
        report
    }

    /// Takes a floor out that lies above what it is the floor of, and says so.
    fn void_floor(&mut self) {
        let report = self;
        // A floor lies below what it is the floor of.
        let mean_ns = report.latency.mean_ns;
        let void = |floor: &Floor| report.traffic.responses > 0 && floor.mean_ns > mean_ns;
        if let Some(floor) = report.client.floor.filter(void) {
            report.client.floor = None;
            let warned = |warning: &Warning| !matches!(warning, Warning::NearFloor { .. });
            report.warnings.retain(warned);
            let (floor_ns, mean_ns) = (floor.mean_ns as u64, mean_ns as u64);
            report.warnings.push(Warning::FloorVoid { floor_ns, mean_ns });
        }
    }

    /// Responses that were what they were to be: 2xx, and of gRPC calls OK.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.grpc.map_or(self.statuses.success, |calls| calls.of(GrpcStatus::Ok))
    }

    /// The schedule lag that `quantile` of the requests did not exceed, in
    /// nanoseconds; `None` in a closed loop, or without samples.
    #[must_use]
    pub fn lag_at(&self, quantile: f64) -> Option<u64> {
        let lag = self.lag.filter(|lag| lag.samples > 0)?;
        Some(self.lag_histogram.value_at_quantile(quantile).clamp(lag.min_ns, lag.max_ns))
    }

    /// The time that `quantile` of the connects did not exceed, in
    /// nanoseconds; `None` without any.
    #[must_use]
    pub fn connect_at(&self, quantile: f64) -> Option<u64> {
        let connect = &self.connect;
        let at = || self.connect_histogram.value_at_quantile(quantile).clamp(connect.min_ns, connect.max_ns);
        (connect.samples > 0).then(at)
    }
}

/// Those of the whole run.
fn cookies(figures: &Figures) -> Cookies {
    let mut cookies = figures.before.cookies;
    cookies.add(&figures.counts.cookies);
    cookies
}

fn classes(figures: &Figures) -> Vec<ClassLatency> {
    let class = |class: Class| {
        let recorder = figures.samples.class(class);
        (!recorder.is_empty()).then(|| ClassLatency { class, latency: Latency::of(recorder) })
    };
    Class::ALL.into_iter().filter_map(class).collect()
}

impl Throughput {
    fn new(figures: &Figures) -> Self {
        let seconds = figures.window.as_secs_f64();
        let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let traffic = &figures.counts.traffic;
        Self {
            requests_per_second: figures.rate,
            connections_per_second: per_second(figures.counts.connections.established),
            received_bytes_per_second: per_second(traffic.received_bytes),
            body_bytes_per_second: per_second(traffic.body_bytes),
            sent_bytes_per_second: per_second(traffic.sent_bytes),
        }
    }
}

impl ScheduleReport {
    fn new(figures: &Figures) -> Self {
        let schedule = &figures.schedule;
        let seconds = figures.window.as_secs_f64();
        let due = schedule.due as f64;
        Self {
            target_rate: if seconds > 0.0 { due / seconds } else { 0.0 },
            due: schedule.due,
            achieved_fraction: (figures.counts.traffic.responses + schedule.under_way) as f64 / due.max(1.0),
            under_way: schedule.under_way,
            unsent: schedule.unsent,
            oldest_unsent_ns: nanos(schedule.oldest_unsent),
        }
    }
}

impl LittlesLaw {
    fn new(figures: &Figures, open: bool) -> Self {
        let window = figures.window.as_nanos() as f64;
        if window == 0.0 {
            return Self::default();
        }
        let samples = &figures.samples;
        let times = if open {
            samples.service.total() + samples.service_failed.total()
        } else {
            samples.classes.iter().map(Recorder::total).sum::<f64>()
        };
        let integral = &figures.in_progress;
        let in_progress = integral.request_ns as f64 / window;
        let outside = integral.after_ns as f64 + integral.taken_back_ns as f64 - integral.before_ns as f64;
        let rate_times_latency = (times + outside) / window;
        let off = (rate_times_latency - in_progress).abs();
        let off = if in_progress > 0.0 { off / in_progress } else { f64::from(u8::from(off > 0.0)) };
        Self { in_progress, rate_times_latency, off }
    }
}

impl PhaseReport {
    fn new(phase: &Phase) -> Self {
        Self {
            time_ns: nanos(phase.time),
            traffic: phase.counts.traffic,
            connections: phase.counts.connections,
            latency: Latency::of(&phase.latency),
        }
    }
}

impl Setup {
    /// What a plan asks for.
    ///
    /// # Panics
    /// If it has no request, which [`Plan::check`] refuses.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let first = plan.first_request();
        let request_bytes = first.bytes(plan.reuse).map_or(0, |bytes| bytes.len());
        Self {
            scheme: if plan.secured.is_some() { "https" } else { "http" },
            method: first.method.clone(),
            host: first.host.clone(),
            path: first.path.clone(),
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            sources: plan.sources.len(),
            connections: plan.connections,
            active: plan.active.unwrap_or(plan.connections),
            pipeline: plan.pipeline,
            http2: plan.http2,
            reuse: plan.reuse,
            requests: plan.requests.len(),
            heads: plan.heads,
            arrival: plan.arrival.clone(),
            request_bytes,
            body_bytes: first.body.len(),
            timeout_ns: nanos(plan.timeout),
            connect_timeout_ns: nanos(plan.connect_timeout),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

const _: () = assert!(LONGEST < 1 << 53, "nanoseconds are exact in a JSON number");
