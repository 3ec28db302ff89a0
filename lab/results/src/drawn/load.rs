//! Pages of loads, of searches for the highest rate, and of sweeps.

use super::cells::{Column, Shown, judged, list, number, object, plain, table, text, texts};
use figures::{seconds, si};
use pages::{Axis, AxisScale, Chart, CurvePoint, Page, PagePart, PageTable, Series, Tone, nines};
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

/// One load.
pub fn load(page: &mut Page, whole: &Value) {
    let time = |path: &str| number(whole, path).map_or_else(|| "-".to_owned(), seconds);
    let rate = number(whole, "/throughput/requests_per_second").unwrap_or(0.0);
    let [p50, p99, max] = ["/latency/p50_ns", "/latency/p99_ns", "/latency/max_ns"].map(time);
    page.head.answer = vec![format!("{}: p50 {p50}, p99 {p99}, max {max}", si(rate, "requests/s"))];
    let objectives = list(whole, "/objectives").iter().map(|one| {
        let missed = one.get("met") != Some(&Value::Bool(true));
        judged(vec![text(one, "/objective")], missed.then(|| "MISSED".to_owned()), "met")
    });
    page.figures.push(PageTable::new("Objectives", &["", "met"]).with(objectives).into());
    let per_second = [
        ("requests", "/throughput/requests_per_second", Shown::Rate),
        ("connections", "/throughput/connections_per_second", Shown::Rate),
        ("received", "/throughput/received_bytes_per_second", Shown::Bytes),
        ("content of it", "/throughput/body_bytes_per_second", Shown::Bytes),
        ("sent", "/throughput/sent_bytes_per_second", Shown::Bytes),
    ];
    let per_second =
        per_second.map(|(name, path, shown)| (name.to_owned(), whole.pointer(path).map(|value| shown.show(value))));
    let known = per_second.into_iter().filter_map(|(name, value)| Some((name, value?)));
    page.figures.push(PageTable::pairs("In a second", ["", "value"], known).into());
    let mut times: Vec<Value> =
        TIMES.iter().map(|(path, name)| json!({ "name": name, "of": whole.pointer(path) })).collect();
    times.extend(
        list(whole, "/classes").iter().map(|one| json!({ "name": text(one, "/class"), "of": one.get("latency") })),
    );
    times.retain(|one| number(one, "/of/samples").is_some_and(|samples| samples > 0.0));
    page.figures.push(table("", &LATENCY, &times).into());
    for (caption, key) in [("Answers by status", "statuses"), ("What failed", "errors")] {
        let mut counts = object(caption, whole.get(key).unwrap_or(&Value::Null));
        counts.rows.retain(|row| row.cells[1] != "0");
        page.figures.push(counts.into());
    }
    let samples = number(whole, "/latency/samples").unwrap_or(0.0);
    let curve =
        list(whole, "/percentiles").iter().filter_map(|one| Some((one.get(0)?.as_f64()?, one.get(1)?.as_f64()?)));
    let points =
        curve.filter(|(share, _)| (1.0 - share) * samples >= 10.0 - 1e-6).map(|(share, at)| (nines(share), at));
    let series = Series { largest: number(whole, "/latency/max_ns"), ..Series::new("request due to answered", points) };
    if samples > 0.0 && !series.points.is_empty() {
        page.curves.push(Chart::by_percentile("Latency by percentile", vec![series]).into());
    }
    page.method.push(object("What was asked for", whole.get("setup").unwrap_or(&Value::Null)).into());
}

/// The highest rate that meets objectives.
pub fn found(page: &mut Page, whole: &Value) {
    page.head.answer = texts(whole, "/told");
    let points = list(whole, "/found/points");
    let rate = |point: &Value| number(point, "/rate").unwrap_or(0.0);
    let curve = |name: &str, path: &str| {
        let mut all = Vec::new();
        for point in points {
            let (spoilt, counted): (Vec<&Value>, Vec<&Value>) =
                list(point, "/trials").iter().partition(|trial| is_void(trial));
            let values =
                |trials: &[&Value]| trials.iter().filter_map(|trial| number(trial, path)).collect::<Vec<f64>>();
            let (x, mut values, spoilt) = (rate(point), values(&counted), values(&spoilt));
            values.sort_by(f64::total_cmp);
            if let (Some(low), Some(high)) = (values.first(), values.last()) {
                let interval = (values.len() > 1).then_some((*low, *high));
                all.push(CurvePoint { interval, ..CurvePoint::from((x, values[(values.len() - 1) / 2])) });
            }
            all.extend(spoilt.into_iter().map(|y| CurvePoint { counts: false, ..CurvePoint::from((x, y)) }));
        }
        Series { name: name.to_owned(), points: all, largest: None }
    };
    let x = Axis::new("requests/s asked for", AxisScale::Linear, |rate| si(rate, ""));
    let y = Axis::new("latency: the median run, from the least to the most", AxisScale::Logarithmic, seconds);
    let series = vec![curve("p50", "/p50_ns"), curve("p99", "/p99_ns"), curve("p99.9", "/p999_ns")];
    page.curves.push(Chart { title: "Latency over load".to_owned(), x: x.clone(), y, series }.into());
    let asked = Series::new("asked for", points.iter().map(|point| (rate(point), rate(point))));
    let y = Axis::new("responses/s", AxisScale::Linear, |rate| si(rate, ""));
    let series = vec![curve("answered", "/achieved"), asked];
    page.curves.push(Chart { title: "Answered over load".to_owned(), x, y, series }.into());
    let mut rows = Vec::new();
    for (point, trial) in points.iter().flat_map(|point| list(point, "/trials").iter().map(move |trial| (point, trial)))
    {
        let told = |value: Option<f64>, as_text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), as_text);
        let mut cells = vec![si(rate(point), "/s"), told(number(trial, "/achieved"), |rate| si(rate, "/s"))];
        cells.extend(["/mean_ns", "/p50_ns", "/p99_ns", "/p999_ns"].map(|path| told(number(trial, path), seconds)));
        let met = trial.get("met") == Some(&Value::Bool(true));
        let against = match (met, is_void(trial)) {
            (true, _) => None,
            (false, true) => Some(format!("does not count: {}", text(trial, "/spoilt"))),
            (false, false) => Some("missed".to_owned()),
        };
        rows.push(judged(cells, against, "met"));
    }
    let heads = ["asked for", "answered", "mean", "p50", "p99", "p99.9", "verdict"];
    page.figures.push(PageTable::new("Runs", &heads).with(rows).into());
    page.method.push(PagePart::List(vec![format!("To be met: {}", texts(whole, "/objectives").join(", "))]));
    page.method.push(object("Slices of the runs", whole.get("slices").unwrap_or(&Value::Null)).into());
}

/// Whether a run says nothing: the machine spoilt it, and it did not meet the objectives nevertheless.
fn is_void(trial: &Value) -> bool {
    trial.get("spoilt").is_some_and(|spoilt| !spoilt.is_null()) && trial.get("met") != Some(&Value::Bool(true))
}

const ROW: [Column; 15] = [
    ("threads", "/procs", Shown::Count),
    ("connections", "/connections", Shown::Count),
    ("rate", "/rps_avg", Shown::Rate),
    ("best interval", "/rps_max", Shown::Rate),
    ("p50", "/lat50_ns", Shown::Time),
    ("p75", "/lat75_ns", Shown::Time),
    ("p90", "/lat90_ns", Shown::Time),
    ("p99", "/lat99_ns", Shown::Time),
    ("max", "/latmax_ns", Shown::Time),
    ("client CPU", "/cpu_client/all", Shown::Share),
    ("its system", "/cpu_client/system", Shown::Share),
    ("server CPU", "/cpu_server/all", Shown::Share),
    ("its system", "/cpu_server/system", Shown::Share),
    ("errors", "/errors", Shown::Count),
    ("what speaks against it", "/warnings", Shown::Text),
];

/// Loads by connections and threads.
pub fn sweep(page: &mut Page, whole: &Value) {
    let rows = list(whole, "/rows");
    let mut figures = table("", &ROW, rows);
    for (row, made) in rows.iter().zip(&mut figures.rows) {
        made.tone = if counts(row) { Tone::Plain } else { Tone::Bad };
    }
    let best = rows.iter().filter(|row| counts(row)).max_by(|a, b| f64::total_cmp(&rate(a), &rate(b)));
    page.head.answer.extend(best.map(|row| {
        let (rate, connections) = (si(rate(row), "requests/s"), text(row, "/connections"));
        format!("at most {rate}, with {connections} connections and {} threads", text(row, "/procs"))
    }));
    page.figures.push(figures.into());
    let mut procs: Vec<u64> = rows.iter().filter_map(|row| row.get("procs")?.as_u64()).collect();
    procs.sort_unstable();
    procs.dedup();
    let chart = |title: &str, y: Axis, of: &[(&str, &str)]| {
        let curve = |threads: u64, (name, path): &(&str, &str)| {
            let own = rows.iter().filter(|row| row.get("procs").and_then(Value::as_u64) == Some(threads));
            let point = |row: &Value| {
                let place = (number(row, "/connections")?, number(row, path)?);
                Some(CurvePoint { counts: counts(row), ..CurvePoint::from(place) })
            };
            let name = format!("{name}{threads} thread{}", if threads == 1 { "" } else { "s" });
            Series { name, points: own.filter_map(point).collect(), largest: None }
        };
        let series = procs.iter().flat_map(|threads| of.iter().map(|one| curve(*threads, one))).collect();
        let x = Axis::new("connections", AxisScale::Logarithmic, |value| format!("{value:.0}"));
        PagePart::from(Chart { title: title.to_owned(), x, y, series })
    };
    let rates = Axis::new("requests/s", AxisScale::Linear, |value| si(value, ""));
    page.curves.push(chart("Requests per second", rates, &[("", "/rps_avg")]));
    let times = Axis::new("latency", AxisScale::Logarithmic, seconds);
    page.curves.push(chart("Latency", times, &[("p50, ", "/lat50_ns"), ("p99, ", "/lat99_ns")]));
    if let Some(why) = whole.get("server_unknown") {
        page.method.push(PagePart::Text(format!("The server's CPU is not known: {}", plain(why))));
    }
}

fn rate(row: &Value) -> f64 {
    number(row, "/rps_avg").unwrap_or(0.0)
}

/// Whether a row may be used.
fn counts(row: &Value) -> bool {
    row.get("trust").and_then(Value::as_str) != Some("no")
}
