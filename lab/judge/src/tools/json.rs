//! JSON: of `nearside load`, iperf3, vegeta, k6, fortio and oha.

use super::{fortio, iperf3, k6, vegeta};
use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{ReadError, Text};
use results::Worth;
use serde_json::Value;

/// Numbers in JSON are printed with all their digits.
const DIGITS: f64 = 1e-6;

/// HdrHistogram's buckets, of three digits.
const BUCKETS: f64 = 0.01;

/// How far the windows of silos may differ, as a share.
const WINDOWS: f64 = 0.02;

/// A document that knows its lines.
struct Document<'a> {
    text: &'a Text,
    root: Value,
}

impl Document<'_> {
    /// The line where the last of these keys stands, searched one after the
    /// other.
    fn line(&self, path: &[&str]) -> usize {
        let mut at = 0;
        for key in path {
            let quoted = format!("\"{key}\"");
            let found = self.text.lines[at..].iter().position(|line| line.contains(&quoted));
            at += found.unwrap_or(0);
        }
        at + 1
    }

    fn value(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.root, |value, key| value.get(key))
    }

    fn find(&self, path: &[&str]) -> Option<Interval> {
        let value = self.value(path)?.as_f64()?;
        let figure = Interval::exact(value, self.line(path));
        Some(if value.fract() == 0.0 { figure } else { figure.loose(DIGITS) })
    }

    fn need(&self, path: &[&str]) -> Result<Interval, ReadError> {
        let why = || format!("{} is missing: another version's", path.join("."));
        self.find(path).ok_or_else(|| ReadError::new(self.line(&path[..path.len() - 1]), why()))
    }

    fn count_of(&self, path: &[&str]) -> Option<Interval> {
        let all = self.value(path)?.as_object()?;
        let sum = all.values().filter_map(Value::as_f64).sum();
        Some(Interval::exact(sum, self.line(path)))
    }
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let whole = text.lines.join("\n");
    let root: Value = serde_json::from_str(&whole)
        .map_err(|why| ReadError::new(why.line().max(1), format!("no JSON, or cut off: {why}")))?;
    let document = Document { text, root };
    let has = |path: &[&str]| document.value(path).is_some();
    if let Some(why) = document.value(&["error"]).and_then(Value::as_str)
        && has(&["start"])
    {
        return Err(ReadError::new(document.line(&["error"]), format!("iperf3 failed: {why}")));
    }
    match () {
        () if has(&["littles_law"]) && has(&["window_ns"]) => ours(&document),
        () if has(&["end", "streams"]) => iperf(&document),
        () if has(&["latencies", "mean"]) && has(&["status_codes"]) => vegeta(&document),
        () if has(&["metrics", "http_reqs"]) => k6(&document),
        () if has(&["DurationHistogram", "Count"]) => fortio(&document),
        () if has(&["summary", "requestsPerSec"]) => oha(&document),
        () => own(&document),
    }
}

/// Any other result of ours: its own verdict is what there is to judge.
fn own(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let found = results::of_value("", &document.root).map_err(|why| {
        let tools = "JSON of no tool of ours, nor of iperf3, vegeta, k6, fortio and oha";
        ReadError::new(1, format!("{tools}: {why}"))
    })?;
    let mut run =
        PublishedRun { name: found.kind.command().into(), tool: found.kind.name(), ..PublishedRun::default() };
    verdict(document, &found, &mut run);
    Ok(run)
}

/// What a result of ours says against itself.
fn verdict(document: &Document<'_>, found: &results::KnownResult, run: &mut PublishedRun) {
    let Some(own) = found.verdict.as_ref().filter(|own| own.worth > Worth::Complete) else { return };
    let says = match own.worth {
        Worth::Invalid => "it says itself that its figures are not to be used",
        _ => "it says itself that its figures are to be read with care",
    };
    let reasons = if own.reasons.is_empty() { "no reason is given".to_owned() } else { own.reasons.join("; ") };
    let line = document.line(&["verdict"]);
    let proof = "a run that nothing spoils: on a quiet machine, with a load that the tool can make";
    run.relations.push(Relation::missing("verdict", line, format!("{says}: {reasons}"), proof));
}

fn ours(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let schema = document.need(&["schema"])?;
    if schema.middle() != 1.0 {
        return Err(ReadError::new(schema.line, format!("schema {schema} is not known here; 1 is")));
    }
    let closed = document.value(&["setup", "arrival"]).and_then(Value::as_str) == Some("closed");
    let mut run =
        PublishedRun { name: "nearside".into(), tool: "nearside", sized_with_head: true, ..PublishedRun::default() };
    run.little = if closed { Little::Holds } else { Little::Not };
    run.connections = Some(document.need(&["setup", "active"])? * document.need(&["setup", "pipeline"])?);
    run.path = document.value(&["setup", "path"]).and_then(Value::as_str).map(str::to_owned);
    let reuse = document.value(&["setup", "reuse"]);
    run.keep_alive = reuse.and_then(Value::as_str).map(|reuse| reuse == "keep-alive");
    run.seconds = Some(document.need(&["window_ns"])?.times(1e-9));
    run.requests = Some(document.need(&["traffic", "responses"])?);
    // The rate is the sum of the silos' own, each over its own window; the
    // window that is told is the longest.
    let silos = document.need(&["silos"])?.middle();
    let rate = document.need(&["throughput", "requests_per_second"])?;
    run.rate = Some(if silos > 1.0 { rate.loose(WINDOWS) } else { rate });
    run.received = Some(document.need(&["traffic", "received_bytes"])?);
    run.received_rate = Some(document.need(&["throughput", "received_bytes_per_second"])?);
    let mut latency = Latency { name: "latency".into(), off: Some(BUCKETS), ..Latency::default() };
    let time = |key: &str| document.need(&["latency", key]).map(|figure| figure.times(1e-9));
    let samples = document.need(&["latency", "samples"])?;
    (latency.min, latency.mean, latency.max) = (Some(time("min_ns")?), Some(time("mean_ns")?), Some(time("max_ns")?));
    (latency.deviation, latency.samples) = (Some(time("stdev_ns")?), Some(samples.middle()));
    for (share, key) in [(0.5, "p50_ns"), (0.75, "p75_ns"), (0.9, "p90_ns"), (0.99, "p99_ns"), (0.999, "p999_ns")] {
        latency.percentiles.push((share, time(key)?));
    }
    let (responses, body) = (document.need(&["traffic", "responses"])?, document.need(&["traffic", "body_bytes"])?);
    let mut relate = |check, left: Interval, right: Interval, says: &str| {
        let arithmetic = format!("{left} of {right}");
        let proof = "the same run's .hgrm and its results by interval";
        run.relations.push(Relation::new(check, (left, AtMost, right), says, arithmetic, proof));
    };
    // A request that failed is a sample, too, of the time until then.
    run.failed = Some(failed(document));
    let most = responses + document.count_of(&["errors"]).unwrap_or(Interval::exact(0.0, responses.line));
    relate("count", samples, most, "more samples than responses and failures");
    relate("transfer", body, document.need(&["traffic", "received_bytes"])?, "more content than bytes in all");
    run.latency.push(latency.of_buckets());
    if let Ok(found) = results::of_value("", &document.root) {
        verdict(document, &found, &mut run);
    }
    Ok(run)
}

/// Requests of ours that failed, and answers that say so or are not what was asked for: of the last, one
/// answer may be in several counts.
fn failed(document: &Document<'_>) -> Interval {
    let sum = |name: &str, counts: fn(&str) -> bool| -> f64 {
        let all = document.value(&[name]).and_then(Value::as_object).into_iter().flatten();
        all.filter(|(key, _)| counts(key)).filter_map(|(_, count)| count.as_f64()).sum()
    };
    let errors = sum("errors", |key| !key.starts_with("wrong_"));
    let wrong = sum("errors", |key| key == "wrong_status").max(sum("errors", |key| key == "wrong_length"));
    let refused = sum("statuses", |key| key != "success" && key != "redirection").max(wrong);
    Interval::exact(errors + refused, document.line(&[if errors > 0.0 { "errors" } else { "statuses" }]))
}

fn iperf(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "iperf3".into(), tool: "iperf3", ..PublishedRun::default() };
    let end = |name: &'static str, key: &'static str| document.find(&["end", name, key]);
    for name in ["sum_sent", "sum_received"] {
        let (Some(bytes), Some(seconds), Some(bits)) =
            (end(name, "bytes"), end(name, "end"), end(name, "bits_per_second"))
        else {
            continue;
        };
        let right = bytes.times(8.0) / seconds;
        let says = format!("the bit rate of {name} is not the bytes divided by the time");
        let arithmetic = format!("{bytes} B × 8 / {seconds} s = {right} bit/s; {bits} bit/s is said");
        run.relations.push(Relation::new("rate", (bits, Equal, right.loose(0.005)), says, arithmetic, iperf3::PROOF));
        run.received_rate = Some(bits.times(0.125));
    }
    if let (Some(sent), Some(received)) = (end("sum_sent", "bytes"), end("sum_received", "bytes")) {
        iperf3::received(&mut run, sent, received);
    }
    if let (Some(lost), Some(all), Some(share)) =
        (end("sum", "lost_packets"), end("sum", "packets"), end("sum", "lost_percent"))
        && all.middle() > 0.0
    {
        let right = (lost / all).times(100.0);
        let says = "the share of loss is not lost by all";
        let arithmetic = format!("{lost} / {all} = {right} %; {share} % is said");
        run.relations.push(Relation::new("loss", (share, Equal, right.loose(0.001)), says, arithmetic, iperf3::PROOF));
    }
    let streams = document.value(&["end", "streams"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let sent = |stream: &Value| stream.get("sender")?.get("bytes")?.as_f64();
    let all: Option<f64> = streams.iter().map(sent).sum();
    if let (Some(all), Some(sum)) = (all, end("sum_sent", "bytes"))
        && !streams.is_empty()
    {
        let left = Interval::exact(all, sum.line);
        let arithmetic = format!("{left} B; {sum} B are said");
        let says = "the streams do not add up to the sum";
        run.relations.push(Relation::new("count", (left, Equal, sum), says, arithmetic, iperf3::PROOF));
    }
    match run.relations.is_empty() {
        true => {
            Err(ReadError::new(document.line(&["end"]), "iperf3's sums are missing: cut off, or another version's"))
        }
        false => Ok(run),
    }
}

fn vegeta(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let mut report = vegeta::Report::default();
    let time = |path: &[&str]| document.need(path).map(|figure| figure.times(1e-9));
    report.total = Some(document.need(&["requests"])?);
    report.rate = Some(document.need(&["rate"])?);
    report.throughput = Some(document.need(&["throughput"])?);
    let (attack, wait) = (time(&["duration"])?, time(&["wait"])?);
    (report.attack, report.wait, report.duration) = (Some(attack), Some(wait), Some(attack + wait));
    report.bytes = Some((document.need(&["bytes_in", "total"])?, document.need(&["bytes_in", "mean"])?));
    report.success = document.find(&["success"]);
    let codes = document.value(&["status_codes"]).and_then(Value::as_object);
    for (code, count) in codes.into_iter().flatten() {
        let (Ok(code), Some(count)) = (code.parse(), count.as_f64()) else {
            return Err(ReadError::new(document.line(&["status_codes"]), format!("{code:?} is no code and count")));
        };
        report.codes.push((code, Interval::exact(count, document.line(&["status_codes"]))));
    }
    let latency = &mut report.latency;
    // Means are cut to whole nanoseconds.
    let mean = time(&["latencies", "mean"])?;
    latency.mean = Some(Interval { high: mean.high + 1e-9, ..mean });
    latency.max = Some(time(&["latencies", "max"])?);
    latency.min = document.find(&["latencies", "min"]).map(|min| min.times(1e-9));
    for (share, key) in [(0.5, "50th"), (0.9, "90th"), (0.95, "95th"), (0.99, "99th")] {
        if let Some(value) = document.find(&["latencies", key]) {
            latency.percentiles.push((share, value.times(1e-9)));
        }
    }
    Ok(report.run())
}

fn k6(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let mut run =
        PublishedRun { name: "k6".into(), tool: "k6", little: Little::Batches(k6::BATCH), ..PublishedRun::default() };
    let metric = |name: &str, key: &str| {
        document.find(&["metrics", name, key]).or_else(|| document.find(&["metrics", name, "values", key]))
    };
    let need = |name: &str, key: &str| {
        metric(name, key).ok_or_else(|| ReadError::new(document.line(&[name]), format!("{name} has no {key}")))
    };
    run.requests = Some(need("http_reqs", "count")?);
    run.rate = Some(need("http_reqs", "rate")?);
    run.connections = metric("vus_max", "max").or_else(|| metric("vus_max", "value"));
    (run.received, run.received_rate) = (metric("data_received", "count"), metric("data_received", "rate"));
    let time = |key: &str| metric("http_req_duration", key).map(|value| value.times(1e-3));
    let mut latency = Latency { name: "request".into(), off: Some(0.02), ..Latency::default() };
    latency.mean = Some(need("http_req_duration", "avg")?.times(1e-3));
    (latency.min, latency.median, latency.max) = (time("min"), time("med"), time("max"));
    for (share, key) in [(0.9, "p(90)"), (0.95, "p(95)"), (0.99, "p(99)")] {
        latency.percentiles.extend(time(key).map(|value| (share, value)));
    }
    latency.samples = run.requests.map(Interval::middle);
    // The export's share is its value; a handler of summaries is told a rate.
    let failed = metric("http_req_failed", "value").or_else(|| metric("http_req_failed", "rate"));
    run.failed = failed.zip(run.requests).map(|(share, requests)| Interval { line: share.line, ..share * requests });
    if let (Some(requests), Some(rate), Some(received), Some(received_rate)) =
        (run.requests, run.rate, run.received, run.received_rate)
    {
        let (left, right) = (requests / rate, received / received_rate);
        let says = "requests and bytes were counted over different times";
        let arithmetic = format!("{left} s and {right} s");
        let proof = "both rates over one and the same phase";
        run.relations.push(Relation::new("rate", (left, Equal, right.loose(0.01)), says, arithmetic, proof));
    }
    run.latency.push(latency);
    Ok(run)
}

fn fortio(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "fortio".into(), tool: "fortio", ..PublishedRun::default() };
    run.connections = Some(document.need(&["NumThreads"])?);
    run.rate = Some(document.need(&["ActualQPS"])?);
    run.seconds = Some(document.need(&["ActualDuration"])?.times(1e-9));
    let histogram = |key: &str| document.need(&["DurationHistogram", key]);
    let count = histogram("Count")?;
    run.requests = Some(count);
    let mut latency = Latency { name: "function time".into(), ..Latency::default() };
    (latency.min, latency.max) = (Some(histogram("Min")?), Some(histogram("Max")?));
    (latency.mean, latency.deviation) = (Some(histogram("Avg")?), Some(histogram("StdDev")?));
    latency.samples = Some(count.middle());
    let line = document.line(&["DurationHistogram", "Percentiles"]);
    let shares = document.value(&["DurationHistogram", "Percentiles"]).and_then(Value::as_array);
    for share in shares.into_iter().flatten() {
        let find = |key: &str| share.get(key).and_then(Value::as_f64);
        let (Some(percent), Some(value)) = (find("Percentile"), find("Value")) else {
            return Err(ReadError::new(line, "a percentile without its value"));
        };
        latency.percentiles.push((percent / 100.0, Interval::exact(value, line).loose(DIGITS)));
    }
    let sum = histogram("Sum")?;
    let errors = document.find(&["ErrorsDurationHistogram", "Count"]);
    let codes = document.value(&["RetCodes"]).and_then(Value::as_object).map(|codes| {
        let line = document.line(&["RetCodes"]);
        let mut all = fortio::Codes::none(line);
        codes.iter().for_each(|(code, n)| all.add(code, Interval::exact(n.as_f64().unwrap_or(0.0), line)));
        // Of what is no HTTP there are words in the place of codes.
        match document.value(&["RunType"]).and_then(Value::as_str) {
            None | Some("HTTP") => all,
            Some(_) => all.with_failed(errors),
        }
    });
    Ok(fortio::finish(run, latency, Some(sum), (codes, errors)))
}

fn oha(document: &Document<'_>) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "oha".into(), tool: "oha", little: Little::Not, ..PublishedRun::default() };
    let summary = |key: &str| document.need(&["summary", key]);
    let (rate, seconds) = (summary("requestsPerSec")?, summary("total")?);
    let counted = document.count_of(&["statusCodeDistribution"]);
    let failed = document.count_of(&["errorDistribution"]).unwrap_or(Interval::exact(0.0, rate.line));
    let mut latency = Latency { name: "response time".into(), off: Some(0.02), ..Latency::default() };
    // Null, where nothing was answered.
    let answered = counted.is_some_and(|counted| counted.high > 0.0);
    if answered {
        (latency.min, latency.max) = (Some(summary("fastest")?), Some(summary("slowest")?));
        latency.mean = Some(summary("average")?);
    }
    for (share, key) in
        [(0.1, "p10"), (0.25, "p25"), (0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")]
    {
        latency.percentiles.extend(document.find(&["latencyPercentiles", key]).map(|value| (share, value)));
    }
    if let Some(counted) = counted {
        // Errors count; those that the end cut off, in some versions.
        let cut = document.find(&["errorDistribution", "aborted due to deadline"]).map_or(0.0, |cut| cut.high);
        let all = Interval { low: counted.low + failed.low - if answered { cut } else { 0.0 }, ..counted + failed };
        run.requests = Some(all);
        let says = "the rate is not the responses divided by the duration";
        let arithmetic = format!("{counted} / {seconds} s = {}/s; {rate}/s is said", counted / seconds);
        let proof = "count and duration of one and the same phase";
        run.relations.push(Relation::new("rate", (rate, Equal, all / seconds), says, arithmetic, proof));
        if let Some(total) = document.find(&["summary", "totalData"])
            && let Some(size) = document.find(&["summary", "sizePerRequest"])
        {
            let each = Interval { high: size.high + 1.0, ..size };
            let says = "the total is not the responses times the size of one";
            let arithmetic = format!("{counted} × {size} B; {total} B are said");
            let proof = "bytes counted at the interface";
            run.relations.push(Relation::new("transfer", (total, Equal, counted * each), says, arithmetic, proof));
        }
        latency.samples = Some(counted.middle());
    }
    run.rate = Some(rate);
    run.failed = Some(oha_failed(document, answered));
    run.latency.extend(answered.then_some(latency));
    Ok(run)
}

/// Errors and refusals; what was under way when the time was over did not fail, unless nothing was answered.
fn oha_failed(document: &Document<'_>, answered: bool) -> Interval {
    let sum = |name: &str, counts: &dyn Fn(&str) -> bool| -> f64 {
        let all = document.value(&[name]).and_then(Value::as_object).into_iter().flatten();
        all.filter(|(key, _)| counts(key)).filter_map(|(_, count)| count.as_f64()).sum()
    };
    let errors = sum("errorDistribution", &|key| !answered || key != "aborted due to deadline");
    let refused = sum("statusCodeDistribution", &|code| !code.starts_with(['2', '3']));
    let line = document.line(&[if errors > 0.0 { "errorDistribution" } else { "statusCodeDistribution" }]);
    Interval::exact(errors + refused, line)
}
