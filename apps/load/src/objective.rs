//! What a run is to meet: `p99<1ms`, `errors<0.1%`, `rate>10k`.

use crate::report::{Reason, Report, Spoils, Trust};
use crate::streaming::{StreamingReport, Waited, quantile};
use core::fmt;
use core::str::FromStr;
use figures as units;
use serde::Serialize;

/// A percentile is judged by as many samples beyond it, at least.
const SAMPLES_BEYOND: f64 = 10.0;

/// The most objectives of one list.
pub const OBJECTIVES_LIMIT: usize = 64;

/// A bound on one figure of a [`Report`].
///
/// Written as a figure, `<`, `<=`, `>` or `>=`, and a value:
///
/// | figure | what | value |
/// | --- | --- | --- |
/// | `p50`, `p99`, `p99.9`, … | a percentile of latency, from the time that requests were due | a time |
/// | `mean`, `min`, `max`, `stdev` | of the same | a time |
/// | `lag99`, `lag99.9`, … | a percentile of schedule lag | a time |
/// | `connect99`, … | a percentile of the time to connect | a time |
/// | `errors` | requests that failed, timeouts included | a share of all that ended, or a number |
/// | `timeouts` | requests not answered in time | the same |
/// | `notok` | those that failed, were not answered with 2xx (calls: with OK), or wrongly | the same |
/// | `wrong` | those answered otherwise than they were to be, whatever their status | the same |
/// | `rate` | responses per second ([`Throughput`](crate::Throughput)) | a rate: 10k, 1.5M |
/// | `achieved` | of an open loop, [`ScheduleReport::achieved_fraction`](crate::ScheduleReport) | a share |
///
/// Of streams (`--stream`) there are others, and of those above `errors` as a number, `wrong` and `connect99`:
///
/// | figure | what | value |
/// | --- | --- | --- |
/// | `ttfb99`, … | a percentile of the time from a request to the first byte of its answer | a time |
/// | `start99`, … | of the time from a stream's first connect to its playing | a time |
/// | `late99`, … | of how far streams are behind at the ends of seconds | a time |
/// | `underrun99`, … | of how long streams have nothing to play, each time; none is 0 | a time |
/// | `underruns` | streams that this happens to ÷ all, or how often it happens | a share, or a number |
/// | `stalled` | time in under-runs ÷ time to be played | a share |
/// | `within1`, `within2` | seconds of streams within one, two segments of their rate ÷ all | a share |
/// | `drift99`, … | a percentile of the part by which ten seconds of a stream are off | a share |
///
/// Who never had a first byte, or never played, waited longer than anybody looked: a percentile that falls on one of
/// them is known from below alone, and bounded by nothing.
///
/// A time has its unit (`ns`, `us`, `ms`, `s`), a share its `%`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Objective {
    /// The figure.
    pub metric: Metric,
    /// How it is compared.
    pub relation: Relation,
    /// The bound: nanoseconds, a fraction, a number, or per second.
    pub bound: f64,
}

/// A figure that can be bounded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// A percentile of latency, as a fraction.
    Latency(f64),
    /// The mean latency.
    Mean,
    /// The shortest latency.
    Min,
    /// The longest latency.
    Max,
    /// The standard deviation of latency.
    Stdev,
    /// A percentile of schedule lag, as a fraction.
    Lag(f64),
    /// A percentile of the time to connect, as a fraction.
    Connect(f64),
    /// Failed requests ÷ requests that ended.
    ErrorShare,
    /// Failed requests.
    Errors,
    /// Requests not answered in time ÷ requests that ended.
    TimeoutShare,
    /// Requests not answered in time.
    Timeouts,
    /// Requests that failed, were not answered with 2xx (calls: with OK), or wrongly ÷ those that ended.
    NotOkShare,
    /// Requests that failed, were not answered with 2xx (calls: with OK), or wrongly.
    NotOk,
    /// Requests that were answered wrongly ÷ those that ended.
    WrongShare,
    /// Requests that were answered wrongly.
    Wrong,
    /// Responses per second.
    Rate,
    /// Responses ÷ requests that were due.
    Achieved,
    /// Of streams: a percentile of the time to the first byte.
    FirstByte(f64),
    /// A percentile of the time to playing.
    Start(f64),
    /// A percentile of how far streams are behind.
    Late(f64),
    /// A percentile of how long there is nothing to play.
    UnderRun(f64),
    /// Streams with under-runs ÷ all.
    UnderRunShare,
    /// Under-runs.
    UnderRuns,
    /// Time in under-runs ÷ time to be played.
    Stalled,
    /// Seconds of streams within one segment of their rate ÷ all.
    WithinOne,
    /// Within two.
    WithinTwo,
    /// A percentile of the part by which ten seconds are off.
    Drift(f64),
}

/// How a figure is compared with its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Relation {
    /// Less than.
    #[serde(rename = "<")]
    Less,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// More than.
    #[serde(rename = ">")]
    More,
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// Exactly: for what is counted, as in `errors=0`.
    #[serde(rename = "=")]
    Equal,
}

/// An objective beside what was measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// What was asked.
    pub objective: Objective,
    /// What was measured, in the bound's unit; `None` if there is no such
    /// figure, as there is no latency without a response.
    pub measured: Option<f64>,
    /// It is so much at least: how much nobody knows.
    pub at_least: bool,
    /// Whether it is met. What was not measured is not met.
    pub met: bool,
    /// Whether the figure is that of what was asked for. Where the report calls its figures none, only counts of
    /// what failed are, as long as something was measured.
    pub counts: bool,
}

impl Objective {
    /// Reads a list, separated by commas.
    ///
    /// # Errors
    /// If one of them cannot be read, or there is none, or too many.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ObjectiveError> {
        let all: Vec<Self> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if all.len() > OBJECTIVES_LIMIT { Err(ObjectiveError::new(text, "at most 64 can be checked")) } else { Ok(all) }
    }

    /// Compares the report's figure with the bound.
    #[must_use]
    pub fn judge(&self, report: &Report) -> Judged {
        let judged = self.compare(self.metric.of(report), false);
        let void = |reason: &Reason| {
            reason.trust == Trust::No && (reason.spoils == Spoils::All || !self.metric.is_of_failures())
        };
        Judged { counts: !report.verdict.reasons.iter().any(void), ..judged }
    }

    /// Compares the figure of streams with the bound.
    #[must_use]
    pub fn judge_streaming(&self, report: &StreamingReport) -> Judged {
        match self.metric.waited(report) {
            Some(waited) => self.compare(Some(waited.nanos as f64), waited.at_least),
            None => self.compare(self.metric.of_streaming(report), false),
        }
    }

    fn compare(&self, measured: Option<f64>, at_least: bool) -> Judged {
        let measured = measured.filter(|value| value.is_finite());
        let is_bounded = !at_least || matches!(self.relation, Relation::More | Relation::AtLeast);
        let met = measured.is_some_and(|value| match self.relation {
            Relation::Less => value < self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::More => value > self.bound,
            Relation::AtLeast => value >= self.bound,
            Relation::Equal => value == self.bound,
        });
        Judged { objective: *self, measured, at_least, met: met && is_bounded, counts: true }
    }
}

impl Judged {
    /// The figure in words, if there is one.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        let value = self.objective.metric.value(self.measured?);
        Some(if self.at_least { format!("at least {value}") } else { value })
    }
}

impl Objective {
    /// The samples that it takes to judge it: of a percentile, so many that
    /// ten are beyond it; of all else one, since a run in which nothing was due
    /// says nothing.
    #[must_use]
    pub fn least_samples(&self) -> u64 {
        let beyond = self.metric.quantile().map_or(1.0, |quantile| 1.0 - quantile);
        // Of the longest there is one, whatever their number.
        if beyond < 1e-9 || self.metric.quantile().is_none() { 1 } else { (SAMPLES_BEYOND / beyond).round() as u64 }
    }
}

impl Metric {
    /// The figure, if the report has it.
    #[must_use]
    pub fn of(self, report: &Report) -> Option<f64> {
        let latency = &report.latency;
        let measured = latency.samples > 0;
        let failed = report.errors.failed_requests() as f64;
        let responses = report.traffic.responses as f64;
        let ended = failed + responses;
        let share = |n: f64| (ended > 0.0).then(|| n / ended);
        let not_ok = failed + responses - report.successes() as f64 + report.traffic.wrong_success as f64;
        let wrong = report.traffic.wrong as f64;
        match self {
            Self::Latency(quantile) => measured
                .then(|| report.histogram.value_at_quantile(quantile).clamp(latency.min_ns, latency.max_ns) as f64),
            Self::Mean => measured.then_some(latency.mean_ns),
            Self::Min => measured.then_some(latency.min_ns as f64),
            Self::Max => measured.then_some(latency.max_ns as f64),
            Self::Stdev => measured.then_some(latency.stdev_ns),
            Self::Lag(quantile) => report.lag_at(quantile).map(|ns| ns as f64),
            Self::Connect(quantile) => report.connect_at(quantile).map(|ns| ns as f64),
            Self::ErrorShare => share(failed),
            Self::Errors => Some(failed),
            Self::TimeoutShare => share(report.errors.timeouts as f64),
            Self::Timeouts => Some(report.errors.timeouts as f64),
            Self::NotOkShare => share(not_ok),
            Self::NotOk => Some(not_ok),
            Self::WrongShare => share(wrong),
            Self::Wrong => Some(wrong),
            Self::Rate => Some(report.throughput.requests_per_second),
            Self::Achieved => report.schedule.map(|schedule| schedule.achieved_fraction),
            _ => None,
        }
    }

    /// A time that some of the streams may have waited for in vain.
    fn waited(self, report: &StreamingReport) -> Option<Waited> {
        let figures = &report.figures;
        match self {
            Self::FirstByte(at) => quantile(&figures.first_byte, &figures.no_first_byte, at),
            Self::Start(at) => report.playing.and(quantile(&figures.start, &figures.no_start, at)),
            _ => None,
        }
    }

    /// The figure of streams, if the report has it, but for times that some may have waited for.
    #[must_use]
    pub fn of_streaming(self, report: &StreamingReport) -> Option<f64> {
        let figures = &report.figures;
        let at = |recorder: &crate::recorder::Recorder, quantile| {
            (!recorder.is_empty()).then(|| recorder.quantile(quantile) as f64)
        };
        // Where nothing was counted, no under-run is none that was seen.
        let seen = |value: f64| (report.samples() > 0).then_some(value);
        match self {
            Self::Errors => Some(report.errors.total() as f64),
            Self::Wrong => Some(report.wrong as f64),
            Self::WrongShare => {
                // Those of another status than 2xx were answers, too.
                let answers = report.answers + report.errors.statuses;
                (answers > 0).then(|| report.wrong as f64 / answers as f64)
            }
            Self::Connect(quantile) => at(&figures.connect, quantile),
            Self::Late(quantile) => at(&figures.late, quantile),
            Self::UnderRun(quantile) => report.playing.and(seen(figures.under_runs.quantile(quantile) as f64)),
            Self::UnderRuns => seen(report.playing?.under_runs.samples as f64),
            Self::UnderRunShare => {
                seen(report.playing?.streams_with_under_runs as f64 / f64::from(report.setup.streams.max(1)))
            }
            Self::Stalled => seen(report.playing?.stalled),
            Self::WithinOne => seen(report.evenness?.within_one),
            Self::WithinTwo => seen(report.evenness?.within_two),
            Self::Drift(quantile) => report.evenness.and(at(&figures.drift, quantile)).map(|parts| parts / 1e9),
            _ => None,
        }
    }

    /// Whether streams may have it: those that play, or those that are held against their rate.
    #[must_use]
    pub const fn is_of_streams(self, play: bool) -> bool {
        match self {
            Self::Errors | Self::FirstByte(_) | Self::Late(_) => true,
            Self::Wrong | Self::WrongShare | Self::Connect(_) => true,
            Self::Start(_) | Self::UnderRun(_) | Self::UnderRuns | Self::UnderRunShare | Self::Stalled => play,
            Self::WithinOne | Self::WithinTwo | Self::Drift(_) => !play,
            _ => false,
        }
    }

    /// Whether requests may have it.
    #[must_use]
    pub const fn is_of_requests(self) -> bool {
        let is_of_both = matches!(self, Self::Errors | Self::Wrong | Self::WrongShare | Self::Connect(_));
        is_of_both || !(self.is_of_streams(true) || self.is_of_streams(false))
    }

    /// The percentile that it is of, as a fraction.
    const fn quantile(self) -> Option<f64> {
        match self {
            Self::Latency(quantile)
            | Self::Lag(quantile)
            | Self::Connect(quantile)
            | Self::FirstByte(quantile)
            | Self::Start(quantile)
            | Self::Late(quantile)
            | Self::UnderRun(quantile)
            | Self::Drift(quantile) => Some(quantile),
            _ => None,
        }
    }

    /// Whether it is counted, one by one.
    const fn is_count(self) -> bool {
        matches!(self, Self::Errors | Self::Timeouts | Self::NotOk | Self::Wrong | Self::UnderRuns)
    }

    fn unit(self) -> Unit {
        match self {
            Self::Latency(_) | Self::Mean | Self::Min | Self::Max | Self::Stdev | Self::Lag(_) | Self::Connect(_) => {
                Unit::Time
            }
            Self::FirstByte(_) | Self::Start(_) | Self::Late(_) | Self::UnderRun(_) => Unit::Time,
            Self::ErrorShare | Self::TimeoutShare | Self::NotOkShare | Self::WrongShare | Self::Achieved => Unit::Share,
            Self::UnderRunShare | Self::Stalled | Self::WithinOne | Self::WithinTwo | Self::Drift(_) => Unit::Share,
            Self::Errors | Self::Timeouts | Self::NotOk | Self::Wrong | Self::Rate | Self::UnderRuns => Unit::Number,
        }
    }
}

/// What a bound is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    /// Nanoseconds.
    Time,
    /// A fraction, written in percent.
    Share,
    /// A plain number.
    Number,
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let bad = |why: &'static str| ObjectiveError::new(text, why);
        let at = text.find(['<', '>', '=']).ok_or_else(|| bad("it has no < or >, nor ="))?;
        let (name, rest) = text.split_at(at);
        let (relation, value) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Relation::AtMost, &rest[2..]),
            [b'>', b'=', ..] => (Relation::AtLeast, &rest[2..]),
            [b'<', ..] => (Relation::Less, &rest[1..]),
            [b'=', ..] => (Relation::Equal, &rest[1..]),
            _ => (Relation::More, &rest[1..]),
        };
        let value = value.trim();
        let share = value.ends_with('%');
        let metric = metric(name.trim(), share).ok_or_else(|| bad("there is no figure of this name"))?;
        if relation == Relation::Equal && metric.unit() == Unit::Time {
            return Err(bad("a time is never exactly another: write < or >"));
        }
        let bound = match metric.unit() {
            Unit::Time => time(value).ok_or_else(|| bad("write a time with its unit, as in 300us or 1ms"))?,
            Unit::Share => fraction(value).ok_or_else(|| bad("write a share from 0 to 100 %, as in 0.1%"))?,
            Unit::Number => number(value).ok_or_else(|| bad("write a number, as in 10 or 10k"))?,
        };
        if metric.is_count() && bound.fract() != 0.0 {
            return Err(bad("a count is a whole number, and a share has its sign, as in 0.1%"));
        }
        Ok(Self { metric, relation, bound })
    }
}

fn metric(name: &str, share: bool) -> Option<Metric> {
    let either = |fraction: Metric, count: Metric| Some(if share { fraction } else { count });
    match name {
        "mean" | "avg" => Some(Metric::Mean),
        "median" => Some(Metric::Latency(0.5)),
        "min" => Some(Metric::Min),
        "max" => Some(Metric::Max),
        "stdev" => Some(Metric::Stdev),
        "errors" => either(Metric::ErrorShare, Metric::Errors),
        "timeouts" => either(Metric::TimeoutShare, Metric::Timeouts),
        "notok" => either(Metric::NotOkShare, Metric::NotOk),
        "wrong" => either(Metric::WrongShare, Metric::Wrong),
        "rate" => Some(Metric::Rate),
        "achieved" => Some(Metric::Achieved),
        "underruns" => either(Metric::UnderRunShare, Metric::UnderRuns),
        "stalled" => Some(Metric::Stalled),
        "within1" => Some(Metric::WithinOne),
        "within2" => Some(Metric::WithinTwo),
        _ => {
            let percentile = |prefix: &str| {
                let percent = decimal(name.strip_prefix(prefix)?)?;
                (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
            };
            percentile("p")
                .map(Metric::Latency)
                .or_else(|| percentile("lag").map(Metric::Lag))
                .or_else(|| percentile("connect").map(Metric::Connect))
                .or_else(|| percentile("ttfb").map(Metric::FirstByte))
                .or_else(|| percentile("start").map(Metric::Start))
                .or_else(|| percentile("late").map(Metric::Late))
                .or_else(|| percentile("underrun").map(Metric::UnderRun))
                .or_else(|| percentile("drift").map(Metric::Drift))
        }
    }
}

/// Nanoseconds.
fn time(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    UNITS.iter().find_map(|(unit, nanos)| Some(decimal(text.strip_suffix(unit)?.trim_end())? * nanos))
}

fn fraction(text: &str) -> Option<f64> {
    let percent = decimal(text.strip_suffix('%')?.trim_end())?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Powers of 1,000.
fn number(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 3] = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let scaled = UNITS.iter().find_map(|(unit, factor)| Some(decimal(text.strip_suffix(unit)?)? * factor));
    scaled.or_else(|| decimal(text))
}

/// Digits with at most one point: no sign, exponent or infinity, which the
/// standard parser would all take.
fn decimal(text: &str) -> Option<f64> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let plain = digits > 0 && text.len() - digits <= 1 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.metric, self.relation, self.metric.value(self.bound))
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.objective)?;
        f.write_str(self.told().as_deref().unwrap_or("not measured"))?;
        f.write_str(if self.met { ", met" } else { ", not met" })?;
        f.write_str(if self.counts { "" } else { ", which does not count" })
    }
}

impl Metric {
    /// Whether it counts what failed: how fast the generator was does not matter to it.
    const fn is_of_failures(self) -> bool {
        matches!(
            self,
            Self::ErrorShare
                | Self::Errors
                | Self::TimeoutShare
                | Self::Timeouts
                | Self::NotOkShare
                | Self::NotOk
                | Self::WrongShare
                | Self::Wrong
        )
    }

    /// A value of this figure in its unit.
    #[must_use]
    pub fn value(self, value: f64) -> String {
        match self.unit() {
            Unit::Time => units::seconds(value),
            Unit::Share => units::share(value),
            Unit::Number if self == Self::Rate => units::si(value, "/s"),
            Unit::Number => format!("{value:.0}"),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded: 0.999 × 100 is not 99.9 in binary.
        let percent = |quantile: f64| (quantile * 1e8).round() / 1e6;
        match *self {
            Self::Latency(quantile) => write!(f, "p{}", percent(quantile)),
            Self::Lag(quantile) => write!(f, "lag{}", percent(quantile)),
            Self::Connect(quantile) => write!(f, "connect{}", percent(quantile)),
            Self::Mean => f.write_str("mean"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Stdev => f.write_str("stdev"),
            Self::ErrorShare | Self::Errors => f.write_str("errors"),
            Self::TimeoutShare | Self::Timeouts => f.write_str("timeouts"),
            Self::NotOkShare | Self::NotOk => f.write_str("notok"),
            Self::WrongShare | Self::Wrong => f.write_str("wrong"),
            Self::Rate => f.write_str("rate"),
            Self::Achieved => f.write_str("achieved"),
            Self::FirstByte(quantile) => write!(f, "ttfb{}", percent(quantile)),
            Self::Start(quantile) => write!(f, "start{}", percent(quantile)),
            Self::Late(quantile) => write!(f, "late{}", percent(quantile)),
            Self::UnderRun(quantile) => write!(f, "underrun{}", percent(quantile)),
            Self::Drift(quantile) => write!(f, "drift{}", percent(quantile)),
            Self::UnderRunShare | Self::UnderRuns => f.write_str("underruns"),
            Self::Stalled => f.write_str("stalled"),
            Self::WithinOne => f.write_str("within1"),
            Self::WithinTwo => f.write_str("within2"),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Equal => "=",
        })
    }
}

/// Why a text is no objective: the user's to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectiveError {
    text: String,
    why: &'static str,
}

impl ObjectiveError {
    fn new(text: &str, why: &'static str) -> Self {
        Self { text: text.to_owned(), why }
    }
}

impl fmt::Display for ObjectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no objective: {}; write it as in p99<1ms, errors<0.1% or rate>10k", self.text, self.why)
    }
}

impl core::error::Error for ObjectiveError {}

#[cfg(test)]
mod tests;
