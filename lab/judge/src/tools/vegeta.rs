//! vegeta's text report (`lib/reporters.go`, `lib/metrics.go`).

use crate::figure::Interval;
use crate::relation::Order::Equal;
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{AtLine, ReadError, Text};

const PROOF: &str = "vegeta's report as it printed it";

/// Percentiles are of a t-digest: estimates.
pub(super) const ESTIMATE: f64 = 0.1;

/// What a report says, in either form.
#[derive(Default)]
pub(super) struct Report {
    pub total: Option<Interval>,
    pub rate: Option<Interval>,
    pub throughput: Option<Interval>,
    pub duration: Option<Interval>,
    pub attack: Option<Interval>,
    pub wait: Option<Interval>,
    pub bytes: Option<(Interval, Interval)>,
    pub success: Option<Interval>,
    pub codes: Vec<(u32, Interval)>,
    pub latency: Latency,
}

/// Whether a line has the latencies, which each report has.
pub(super) fn is_latencies(line: &str) -> bool {
    line.starts_with("Latencies") && line.contains("[m")
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut report = Report::default();
    for (number, line) in text.numbered() {
        let Some((key, rest)) = line.split_once('[') else { continue };
        let Some((names, values)) = rest.split_once(']') else { continue };
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        let figure = |at: usize| -> Result<Interval, ReadError> {
            let value = values.get(at).copied().unwrap_or("");
            Interval::printed(value, number).at(number)
        };
        let time = |at: usize| Interval::time(values.get(at).copied().unwrap_or(""), number).at(number);
        match key.trim() {
            "Requests" if report.total.is_some() => {
                return Err(ReadError::new(number, "a second report begins: give each a file of its own"));
            }
            "Requests" => {
                report.total = Some(Interval::count(values[0], number).at(number)?);
                // Before version 6 the total stood alone, and before 12 without the throughput.
                report.rate = if values.len() > 1 { Some(figure(1)?) } else { None };
                report.throughput = if values.len() > 2 { Some(figure(2)?) } else { None };
            }
            "Duration" => {
                report.duration = Some(time(0)?);
                (report.attack, report.wait) =
                    if values.len() > 2 { (Some(time(1)?), Some(time(2)?)) } else { (None, None) };
            }
            "Latencies" => {
                for (at, name) in names.split(',').map(str::trim).enumerate() {
                    let value = time(at)?;
                    match name {
                        "min" => report.latency.min = Some(value),
                        "mean" => report.latency.mean = Some(value),
                        "max" => report.latency.max = Some(value),
                        share => {
                            let share: f64 = share
                                .parse()
                                .map_err(|_| ReadError::new(number, format!("{share:?} is no percentile")))?;
                            report.latency.percentiles.push((share / 100.0, value));
                        }
                    }
                }
            }
            "Bytes In" => report.bytes = Some((Interval::count(values[0], number).at(number)?, figure(1)?)),
            "Success" => {
                let share = values[0].strip_suffix('%');
                let share = share.ok_or_else(|| ReadError::new(number, "a share in % belongs here"))?;
                report.success = Some(Interval::printed(share, number).at(number)?.times(0.01));
            }
            "Status Codes" => report.codes = codes(values[0], number)?,
            _ => {}
        }
    }
    if report.latency.mean.is_none() {
        return Err(text.cut("the latencies' mean"));
    }
    Ok(report.run())
}

fn codes(text: &str, line: usize) -> Result<Vec<(u32, Interval)>, ReadError> {
    let one = |word: &str| {
        let (code, count) = word.split_once(':')?;
        Some((code.parse().ok()?, Interval::count(count, line).ok()?))
    };
    let wrong = |word: &str| ReadError::new(line, format!("{word:?} is no code and count"));
    text.split_whitespace().map(|word| one(word).ok_or_else(|| wrong(word))).collect()
}

impl Report {
    pub(super) fn run(self) -> PublishedRun {
        let mut run =
            PublishedRun { name: "vegeta".into(), tool: "vegeta", little: Little::Not, ..PublishedRun::default() };
        let mut latency = Latency { name: "latency".into(), off: Some(ESTIMATE), ..self.latency };
        let mut relate = |check, triple, says: &str, arithmetic: String| {
            run.relations.push(Relation::new(check, triple, says, arithmetic, PROOF));
        };
        if let (Some(total), Some(rate), Some(attack)) = (self.total, self.rate, self.attack) {
            let arithmetic = format!("{total} / {attack} s = {}/s; {rate}/s is said", total / attack);
            relate(
                "rate",
                (rate, Equal, total / attack),
                "the rate is not the requests by the attack's time",
                arithmetic,
            );
        }
        if let (Some(duration), Some(attack), Some(wait)) = (self.duration, self.attack, self.wait) {
            let arithmetic = format!("{attack} s + {wait} s = {} s; {duration} s is said", attack + wait);
            let right = (attack + wait).loose(1e-4);
            relate("duration", (duration, Equal, right), "attack and wait do not add up to the duration", arithmetic);
        }
        if let (Some(total), Some((bytes, each))) = (self.total, self.bytes) {
            let arithmetic = format!("{total} × {each} B = {} B; {bytes} B are said", total * each);
            relate(
                "transfer",
                (bytes, Equal, total * each),
                "the bytes are not the requests times their mean",
                arithmetic,
            );
        }
        if let (Some(total), false) = (self.total, self.codes.is_empty()) {
            let sum = self.codes.iter().fold(Interval::exact(0.0, total.line), |sum, (_, count)| sum + *count);
            relate("count", (sum, Equal, total), "the status codes do not add up", format!("{sum} of {total}"));
            let good = self.codes.iter().filter(|(code, _)| (200..400).contains(code));
            let good = good.fold(Interval::exact(0.0, total.line), |sum, (_, count)| sum + *count);
            if let Some(success) = self.success {
                let arithmetic = format!("{good} / {total} = {}; {success} is said", good / total);
                relate(
                    "count",
                    (success, Equal, good / total),
                    "the share of success is not what the codes say",
                    arithmetic,
                );
            }
            if let (Some(throughput), Some(duration)) = (self.throughput, self.duration) {
                let arithmetic = format!("{good} / {duration} s = {}/s; {throughput}/s is said", good / duration);
                let says = "the throughput is not the successes by the duration";
                relate("rate", (throughput, Equal, (good / duration).loose(1e-4)), says, arithmetic);
            }
            run.failed = Some(sum - good);
        }
        latency.samples = self.total.map(Interval::middle);
        run.requests = self.total;
        run.rate = self.rate;
        run.received = self.bytes.map(|(bytes, _)| bytes);
        run.latency.push(latency);
        run
    }
}
