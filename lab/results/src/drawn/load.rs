//! Pages of loads, of searches for the highest rate, of sweeps, and of streams, without end or with a rate.

use super::cells::{Column, Shown, counted, curve, expected, list, number, object, table, text, texts, values};
use figures::{digits, seconds, si};
use pages::{Axis, AxisScale, Chart, CurvePoint, Page, PagePart, Series};
use serde_json::{Value, json};

const LATENCY: [Column; 10] = [
    ("latency", "/name", Shown::Text),
    ("samples", "/of/samples", Shown::Count),
    ("min", "/of/min_ns", Shown::Time),
    ("mean", "/of/mean_ns", Shown::Time),
    ("p50", "/of/p50_ns", Shown::Time),
    ("p90", "/of/p90_ns", Shown::Time),
    ("p99", "/of/p99_ns", Shown::Time),
    ("p99.9", "/of/p999_ns", Shown::Time),
    ("p99.99", "/of/p9999_ns", Shown::Time),
    ("max", "/of/max_ns", Shown::Time),
];

/// Times that a load may tell, by where they stand.
const TIMES: [(&str, &str); 7] = [
    ("/latency", "request due to answered"),
    ("/service", "sent to answered (uncorrected)"),
    ("/lag", "due to sent (schedule lag)"),
    ("/waiting", "sent to first byte"),
    ("/total", "connect and request"),
    ("/connect", "connect"),
    ("/secured/handshake", "TLS handshake"),
];

const PER_SECOND: [Column; 5] = [
    ("requests", "/throughput/requests_per_second", Shown::Rate),
    ("connections", "/throughput/connections_per_second", Shown::Rate),
    ("received", "/throughput/received_bytes_per_second", Shown::Bytes),
    ("content of it", "/throughput/body_bytes_per_second", Shown::Bytes),
    ("sent", "/throughput/sent_bytes_per_second", Shown::Bytes),
];

/// One load.
pub fn load(page: &mut Page, whole: &Value) {
    let time = |path: &str| number(whole, path).map_or_else(|| "-".to_owned(), seconds);
    let rate = number(whole, "/throughput/requests_per_second").unwrap_or(0.0);
    let [p50, p99, max] = ["/latency/p50_ns", "/latency/p99_ns", "/latency/max_ns"].map(time);
    page.head.answer = vec![format!("{}: p50 {p50}, p99 {p99}, max {max}", si(rate, "requests/s"))];
    page.figure(expected("Objectives", list(whole, "/objectives"), "/objective", "MISSED"));
    page.figure(values("In a second", &PER_SECOND, whole));
    let times = TIMES.iter().map(|(path, name)| json!({ "name": name, "of": whole.pointer(path) }));
    // Where there is one class, it is what stands above.
    let classes = Some(list(whole, "/classes")).filter(|classes| classes.len() > 1).unwrap_or_default();
    let classes = classes.iter().map(|one| json!({ "name": one["class"], "of": one["latency"] }));
    let mut times: Vec<Value> = times.chain(classes).collect();
    times.retain(|one| number(one, "/of/samples").is_some_and(|samples| samples > 0.0));
    page.figure(table("", &LATENCY, &times));
    for (caption, path) in
        [("Answers by status", "/statuses"), ("Calls by grpc-status", "/grpc"), ("What failed", "/errors")]
    {
        let mut counts = object(caption, whole, path);
        counts.rows.retain(|row| row[1] != "0");
        page.figure(counts);
    }
    let shares = list(whole, "/percentiles").iter().filter_map(|one| Some((one[0].as_f64()?, one[1].as_f64()?)));
    let (samples, max) = (number(whole, "/latency/samples").unwrap_or(0.0), number(whole, "/latency/max_ns"));
    let series = Series::by_share("request due to answered", shares, samples, max);
    page.curve(Chart::by_percentile("Latency by percentile", vec![series.counting(page.head.verdict.counts())]));
    page.tell(object("What was asked for", whole, "/setup"));
}

const RUN: [Column; 6] = [
    ("asked for", "/rate", Shown::Rate),
    ("answered", "/of/achieved", Shown::Rate),
    ("mean", "/of/mean_ns", Shown::Time),
    ("p50", "/of/p50_ns", Shown::Time),
    ("p99", "/of/p99_ns", Shown::Time),
    ("p99.9", "/of/p999_ns", Shown::Time),
];

/// The highest rate that meets objectives.
pub fn found(page: &mut Page, whole: &Value) {
    page.head.answer = texts(whole, "/told");
    let points = list(whole, "/found/points");
    let curve = |name: &str, path: &str| {
        let mut all = Vec::new();
        for point in points {
            let (spoilt, counted): (Vec<&Value>, Vec<&Value>) =
                list(point, "/trials").iter().partition(|trial| is_void(trial));
            let x = number(point, "/rate").unwrap_or(0.0);
            let mut values: Vec<f64> = counted.into_iter().filter_map(|trial| number(trial, path)).collect();
            values.sort_by(f64::total_cmp);
            if let (Some(low), Some(high)) = (values.first(), values.last()) {
                let interval = (values.len() > 1).then_some((*low, *high));
                all.push(CurvePoint { interval, ..CurvePoint::from((x, values[(values.len() - 1) / 2])) });
            }
            let spoilt = spoilt.into_iter().filter_map(|trial| number(trial, path));
            all.extend(spoilt.map(|y| CurvePoint { counts: false, ..CurvePoint::from((x, y)) }));
        }
        Series { name: name.to_owned(), points: all, largest: None }
    };
    let x = Axis::new("requests/s asked for", AxisScale::Linear, |rate| si(rate, ""));
    let y = Axis::times("latency: the median run, from the least to the most");
    let series = vec![curve("p50", "/p50_ns"), curve("p99", "/p99_ns"), curve("p99.9", "/p999_ns")];
    page.curve(Chart::new("Latency over load", x.clone(), y, series));
    let asked = super::cells::curve("asked for", points, ["/rate", "/rate"], |_| true);
    let series = vec![curve("answered", "/achieved"), asked];
    page.curve(Chart::new("Answered over load", x, Axis::counts("responses/s"), series));
    let runs = |point: &Value| {
        let trials = list(point, "/trials").iter();
        trials.map(|trial| json!({ "rate": point["rate"], "of": trial })).collect::<Vec<_>>()
    };
    let runs: Vec<Value> = points.iter().flat_map(runs).collect();
    let verdict = |run: &Value| match (run["of"]["met"] == true, is_void(&run["of"])) {
        (true, _) => "met".to_owned(),
        (false, true) => counted(&text(run, "/of/spoilt")),
        (false, false) => "missed".to_owned(),
    };
    page.figure(table("Runs", &RUN, &runs).judged(runs.iter().map(verdict)));
    page.tell(PagePart::List(vec![format!("To be met: {}", texts(whole, "/objectives").join(", "))]));
    page.tell(object("Slices of the runs", whole, "/slices"));
}

/// Whether a run says nothing: the machine spoilt it, and it did not meet the objectives nevertheless.
fn is_void(trial: &Value) -> bool {
    !trial["spoilt"].is_null() && trial["met"] != true
}

const ROW: [Column; 13] = [
    ("threads", "/procs", Shown::Count),
    ("connections", "/connections", Shown::Count),
    ("rate", "/rps_avg", Shown::Rate),
    ("best interval", "/rps_max", Shown::Rate),
    ("p50", "/lat50_ns", Shown::Time),
    ("p90", "/lat90_ns", Shown::Time),
    ("p99", "/lat99_ns", Shown::Time),
    ("max", "/latmax_ns", Shown::Time),
    ("client CPU", "/cpu_client/all", Shown::Share),
    ("its system", "/cpu_client/system", Shown::Share),
    ("server CPU", "/cpu_server/all", Shown::Share),
    ("its system", "/cpu_server/system", Shown::Share),
    ("errors", "/errors", Shown::Count),
];

/// Loads by connections and threads.
pub fn sweep(page: &mut Page, whole: &Value) {
    let rows = list(whole, "/rows");
    let counts = |row: &Value| row["trust"] != "no";
    let rate = |row: &Value| number(row, "/rps_avg").unwrap_or(0.0);
    let best = rows.iter().filter(|row| counts(row)).max_by(|a, b| f64::total_cmp(&rate(a), &rate(b)));
    page.head.answer.extend(best.map(|row| {
        let (rate, connections) = (si(rate(row), "requests/s"), text(row, "/connections"));
        format!("at most {rate}, with {connections} connections and {} threads", text(row, "/procs"))
    }));
    let verdict = |row: &Value| if counts(row) { "counts" } else { "does not count" }.to_owned();
    page.figure(table("", &ROW, rows).judged(rows.iter().map(verdict)));
    let mut procs: Vec<u64> = rows.iter().filter_map(|row| row["procs"].as_u64()).collect();
    procs.sort_unstable();
    procs.dedup();
    let mut chart = |title: &str, y: Axis, of: &[(&str, &str)]| {
        let curve = |threads: &u64, (name, path): &(&str, &str)| {
            let own = rows.iter().filter(|row| row["procs"] == *threads);
            let name = format!("{name}{threads} thread{}", if *threads == 1 { "" } else { "s" });
            curve(name, own, ["/connections", path], counts)
        };
        let series = procs.iter().flat_map(|threads| of.iter().map(move |one| curve(threads, one))).collect();
        let x = Axis::new("connections", AxisScale::Logarithmic, |value| format!("{value:.0}"));
        page.curve(Chart::new(title, x, y, series));
    };
    chart("Requests per second", Axis::counts("requests/s"), &[("", "/rps_avg")]);
    chart("Latency", Axis::times("latency"), &[("p50, ", "/lat50_ns"), ("p99, ", "/lat99_ns")]);
    let against = |row: &Value| {
        let of = format!("{} threads, {} connections", text(row, "/procs"), text(row, "/connections"));
        Some(format!("{of}: {}", text(row, "/warnings"))).filter(|_| !list(row, "/warnings").is_empty())
    };
    page.tell(PagePart::List(rows.iter().filter_map(against).collect()));
    if let Some(why) = whole["server_unknown"].as_str() {
        page.tell(PagePart::Text(format!("The server's CPU is not known: {why}")));
    }
}

const SPAN: [Column; 10] = [
    ("from, s", "/start_s", Shown::Plain),
    ("to, s", "/end_s", Shown::Plain),
    ("sent", "/up/bytes", Shown::Bytes),
    ("rate up", "/up/bits_per_second", Shown::Bits),
    ("sent again", "/up/retransmits", Shown::Count),
    ("window of all", "/up/cwnd", Shown::Bytes),
    ("streams up", "/up/streams", Shown::Count),
    ("received", "/down/bytes", Shown::Bytes),
    ("rate down", "/down/bits_per_second", Shown::Bits),
    ("out of order", "/down/out_of_order", Shown::Count),
];

const CARRIED: [Column; 4] = [
    ("interface", "/name", Shown::Text),
    ("sent", "/sent", Shown::Bits),
    ("received", "/received", Shown::Bits),
    ("its speed", "/speed", Shown::Bits),
];

/// Streams without end.
pub fn bulk(page: &mut Page, whole: &Value) {
    let ways = [("up", "/up/bits_per_second"), ("down", "/down/bits_per_second")];
    let rate = |(name, path)| Some(format!("{} {name}", si(number(whole, path)?, "bit/s")));
    page.head.answer.push(ways.into_iter().filter_map(rate).collect::<Vec<_>>().join(", "));
    page.figure(values("The whole measured time", &SPAN, whole));
    page.figure(table("Interfaces", &CARRIED, list(whole, "/carried")));
    let spans = list(whole, "/intervals");
    // Each begins where the one before it ends.
    page.figure(table("Intervals", &SPAN[1..], spans));
    let (x, y) = (Axis::new("until, s", AxisScale::Near, digits), Axis::counts("bit/s"));
    // What is left at the end may be a moment, of which a rate says nothing.
    let length = |span: &Value| number(span, "/end_s").unwrap_or(0.0) - number(span, "/start_s").unwrap_or(0.0);
    let valid = page.head.verdict.counts();
    let whole_ones = |span: &Value| valid && length(span) > 0.5 * spans.first().map_or(0.0, length);
    let curves = ways.map(|(name, path)| curve(name, spans, ["/end_s", path], whole_ones));
    page.curve(Chart::new("Carried, interval by interval", x, y, curves.into()));
    let own = [("own CPU, user", "/cpu_user", Shown::Share), ("own CPU, system", "/cpu_system", Shown::Share)];
    page.tell(values("The generator", &own, whole));
    page.tell(object("What was asked for", whole, "/setup"));
}

/// Times of streams that are to have a rate.
const STREAM_TIMES: [(&str, &str); 8] = [
    ("/connect", "connect, and TLS handshake"),
    ("/first_byte", "request to first byte"),
    ("/no_first_byte", "waited for first bytes that did not come"),
    ("/playing/start", "first connect to playing"),
    ("/playing/no_start", "waited by those that never played"),
    ("/playing/under_runs", "nothing to play"),
    ("/late", "behind at the end of a second"),
    ("/own_delay", "generator called late"),
];

const OFF: [Column; 6] = [
    ("off by", "/name", Shown::Text),
    ("samples", "/of/samples", Shown::Count),
    ("p50", "/of/p50", Shown::Plain),
    ("p99", "/of/p99", Shown::Plain),
    ("p99.9", "/of/p999", Shown::Plain),
    ("max", "/of/max", Shown::Plain),
];

const STREAM_SHARES: [Column; 9] = [
    ("within one segment", "/evenness/within_one", Shown::Share),
    ("within two", "/evenness/within_two", Shown::Share),
    ("of the time without anything to play", "/playing/stalled", Shown::Share),
    ("under-runs", "/playing/under_runs/samples", Shown::Count),
    ("streams with under-runs", "/playing/streams_with_under_runs", Shown::Count),
    ("streams that never played", "/playing/no_start/samples", Shown::Count),
    ("streams under way", "/under_way", Shown::Count),
    ("answers", "/answers", Shown::Count),
    ("answers not as wanted", "/wrong", Shown::Count),
];

/// What lies in seconds that do not count.
const STREAM_DISTURBED: [Column; 2] = [
    ("under-runs", "/playing/disturbed_under_runs", Shown::Count),
    ("without anything to play, all streams together", "/playing/disturbed_ns", Shown::Time),
];

/// Streams that are to have a rate.
pub fn streams(page: &mut Page, whole: &Value) {
    // Results of before HTTP/2 was spoken have a stream on each connection.
    let all = if whole.pointer("/setup/streams").is_some() { "/setup/streams" } else { "/setup/connections" };
    let (all, rate) = (text(whole, all), number(whole, "/setup/rate").unwrap_or(0.0));
    let streams = if all == "1" { "stream" } else { "streams" };
    let urls = match number(whole, "/setup/requests") {
        Some(urls) if urls > 1.0 => format!(", of {urls:.0} URLs in turn"),
        _ => String::new(),
    };
    let received = si(number(whole, "/bits_per_second").unwrap_or(0.0), "bit/s");
    page.head.answer.push(format!("{all} {streams} of {}{urls}: {received} received", si(rate, "bit/s")));
    page.figure(expected("Objectives", list(whole, "/objectives"), "/objective", "MISSED"));
    page.figure(values("The whole measured time", &STREAM_SHARES, whole));
    let times = STREAM_TIMES.iter().map(|(path, name)| json!({ "name": name, "of": whole.pointer(path) }));
    let times: Vec<Value> = times.filter(|one| number(one, "/of/samples").is_some_and(|n| n > 0.0)).collect();
    page.figure(table("", &LATENCY, &times));
    if number(whole, "/playing/disturbed_ns").is_some_and(|time| time > 0.0) {
        page.figure(values("In seconds that do not count", &STREAM_DISTURBED, whole));
    }
    let off =
        [("/evenness/off_bytes", "bytes, in a second"), ("/evenness/off_over_10s", "parts of what was due, in 10 s")];
    let off = off.iter().map(|(path, name)| json!({ "name": name, "of": whole.pointer(path) }));
    let off: Vec<Value> = off.filter(|one| number(one, "/of/samples").is_some_and(|n| n > 0.0)).collect();
    page.figure(table("How far from the rate", &OFF, &off));
    for (caption, path) in [("Seconds", "/counted"), ("What failed", "/errors")] {
        page.figure(object(caption, whole, path));
    }
    let seconds: Vec<Value> = list(whole, "/seconds")
        .iter()
        .enumerate()
        .map(|(at, one)| {
            let bits = number(one, "/bytes").unwrap_or(0.0) * 8.0;
            json!({ "end_s": at + 1, "bits": bits, "late": one["late"], "left_out": one["left_out"] })
        })
        .collect();
    let counts = |one: &Value| one["left_out"].is_null();
    let x = Axis::new("until, s", AxisScale::Near, digits);
    let received = curve("received by streams that were under way", &seconds, ["/end_s", "/bits"], counts);
    page.curve(Chart::new("Received, second by second", x.clone(), Axis::counts("bit/s"), vec![received]));
    let late = curve("streams behind", &seconds, ["/end_s", "/late"], counts);
    page.curve(Chart::new("Streams behind what was due", x, Axis::counts("streams"), vec![late]));
    page.figure(table("Interfaces", &CARRIED, list(whole, "/carried")));
    let own = [("own CPU, user", "/cpu_user", Shown::Share), ("own CPU, system", "/cpu_system", Shown::Share)];
    page.tell(values("The generator", &own, whole));
    page.tell(object("What was asked for", whole, "/setup"));
}
