//! Pages of RFC 2544, of searches, of devices and of a device's settings.

use super::cells::{Column, Shown, judged, list, number, object, plain, table, text, texts};
use figures::{digits, seconds, si};
use pages::{Axis, AxisScale, Bar, Bars, Chart, CurvePoint, Page, PagePart, PageTable, Series, TableRow, Tone};
use serde_json::Value;

const SIZE: [Column; 12] = [
    ("bytes", "/size", Shown::Count),
    ("condition", "/condition", Shown::Text),
    ("line", "/theoretical", Shown::Rate),
    ("tester", "/sendable", Shown::Rate),
    ("throughput", "/throughput/lower", Shown::Rate),
    ("fails at", "/throughput/upper", Shown::Rate),
    ("latency mean", "/latency/0/mean_ns", Shown::Time),
    ("typical", "/latency/0/typical_ns", Shown::Time),
    ("worst", "/latency/0/worst_ns", Shown::Time),
    ("burst, frames", "/back_to_back/mean", Shown::Count),
    ("recovery, s", "/recovery/seconds", Shown::Text),
    ("reset, s", "/reset/silent_seconds", Shown::Text),
];

const TRIAL: [Column; 8] = [
    ("trial of bytes", "/ask/size", Shown::Count),
    ("condition", "/ask/condition", Shown::Text),
    ("test", "/ask/test", Shown::Text),
    ("asked for", "/trial/intended_rate", Shown::Rate),
    ("seconds", "/trial/intended_seconds", Shown::Plain),
    ("lost A→B", "/trial/lanes/0/lost", Shown::Count),
    ("lost B→A", "/trial/lanes/1/lost", Shown::Count),
    ("late", "/trial/late_share", Shown::Share),
];

/// The whole method.
pub fn rfc2544(page: &mut Page, whole: &Value) {
    let results = list(whole, "/results");
    let mut sizes = table("Rates in frames/s of each direction; latency of the first", &SIZE, results);
    sizes.heads.push("verdict".to_owned());
    for (row, result) in sizes.rows.iter_mut().zip(results) {
        *row = judged(core::mem::take(&mut row.cells), texts(result, "/fails").first().cloned(), "counts");
    }
    page.figures.push(sizes.into());
    let mut conditions: Vec<String> = results.iter().map(|result| text(result, "/condition")).collect();
    conditions.dedup();
    let counts = |result: &Value| list(result, "/fails").is_empty();
    let by_size = |condition: &str, path: &str, name: &str| {
        let own = results.iter().filter(|result| text(result, "/condition") == condition);
        let point = |result: &Value| {
            Some(CurvePoint { counts: counts(result), ..(number(result, "/size")?, number(result, path)?).into() })
        };
        Series { name: format!("{name}, {condition}"), points: own.filter_map(point).collect(), largest: None }
    };
    let of = |lines: &[(&str, &str)]| -> Vec<Series> {
        let all = conditions
            .iter()
            .flat_map(|condition| lines.iter().map(move |(path, name)| by_size(condition, path, name)));
        all.filter(|series| !series.points.is_empty()).collect()
    };
    let bytes = Axis::new("bytes of a frame", AxisScale::Logarithmic, |size| format!("{size:.0}"));
    let mut chart = |title: &str, x: &Axis, y: Axis, series: Vec<Series>| {
        if !series.is_empty() {
            page.curves.push(Chart { title: title.to_owned(), x: x.clone(), y, series }.into());
        }
    };
    let rates = Axis::new("frames/s of each direction", AxisScale::Linear, |rate| si(rate, ""));
    let lines = [("/throughput/lower", "throughput"), ("/sendable", "the tester"), ("/theoretical", "the line")];
    chart("Throughput by frame size (section 26.1)", &bytes, rates, of(&lines));
    let times = Axis::new("latency", AxisScale::Logarithmic, seconds);
    let lines = [("/latency/0/mean_ns", "mean of tagged frames"), ("/latency/0/worst_ns", "worst (RFC 8219)")];
    chart("Latency by frame size (section 26.2)", &bytes, times, of(&lines));
    let loss = |result: &Value| {
        let points = list(result, "/loss").iter().filter_map(|point| {
            let (offered, lost) = (number(point, "/offered")?, number(point, "/lost")?);
            Some(CurvePoint {
                counts: counts(result),
                ..(100.0 * number(point, "/share")?, 100.0 * lost / offered.max(1.0)).into()
            })
        });
        let name = format!("{} bytes, {}", text(result, "/size"), text(result, "/condition"));
        Series { name, points: points.collect(), largest: None }
    };
    let series: Vec<Series> = results.iter().map(loss).filter(|series| !series.points.is_empty()).collect();
    let offered = Axis::new("% of the highest rate offered", AxisScale::Near, digits);
    chart("Loss by load (section 26.3)", &offered, Axis::new("% lost", AxisScale::Linear, digits), series);
    for (path, word) in [("/lacks", "missing"), ("/not_applicable", "n/a")] {
        let told = results.iter().flat_map(|result| {
            texts(result, path).into_iter().map(move |why| format!("{} bytes: {word}: {why}", text(result, "/size")))
        });
        page.method.push(PagePart::List(told.collect()));
    }
    page.method.push(PagePart::Text(text(whole, "/latency_definition")));
    page.method.push(object("Settings", whole.get("settings").unwrap_or(&Value::Null)).into());
    page.method.push(trials(whole, &TRIAL));
}

/// Every trial, those that do not count with the reason.
fn trials(whole: &Value, columns: &[Column]) -> PagePart {
    let all = list(whole, "/trials");
    let mut table = table("Every trial", columns, all);
    table.heads.push("counts".to_owned());
    for (row, trial) in table.rows.iter_mut().zip(all) {
        let spoilt = Some(text(trial, "/trial/spoilt") + &text(trial, "/spoilt")).filter(|why| !why.is_empty());
        *row = judged(core::mem::take(&mut row.cells), spoilt, "yes");
    }
    table.into()
}

/// A search for rates.
pub fn search(page: &mut Page, whole: &Value) {
    let found = list(whole, "/found");
    let columns = [
        ("goal", "/goal/name", Shown::Text),
        ("passes", "/lower", Shown::Rate),
        ("fails", "/upper", Shown::Rate),
        ("conditional throughput", "/conditional_throughput", Shown::Rate),
    ];
    let mut table = table("Frames/s of each direction", &columns, found);
    table.heads.push("verdict".to_owned());
    for (row, found) in table.rows.iter_mut().zip(found) {
        let open = Some(text(found, "/open")).filter(|why| !why.is_empty());
        *row = judged(core::mem::take(&mut row.cells), open, "an answer");
    }
    page.figures.push(table.into());
    let columns = [
        ("trial at", "/intended_rate", Shown::Rate),
        ("seconds", "/intended_seconds", Shown::Plain),
        ("lost A→B", "/lanes/0/lost", Shown::Count),
        ("lost B→A", "/lanes/1/lost", Shown::Count),
        ("late", "/late_share", Shown::Share),
    ];
    page.method.push(trials(whole, &columns));
    page.method.push(object("What was sent", whole.get("stream").unwrap_or(&Value::Null)).into());
}

/// Devices between the tester's ports.
pub fn devices(page: &mut Page, whole: &Value) {
    let devices = list(whole, "/devices");
    let columns = [
        ("device", "/device", Shown::Text),
        ("MRR", "/mrr", Shown::Rate),
        ("NDR", "/ndr", Shown::Rate),
        ("PDR", "/pdr", Shown::Rate),
        ("p50 alone", "/alone/0", Shown::Time),
        ("p99.9 alone", "/alone/1", Shown::Time),
        ("background", "/background", Shown::Rate),
        ("p50 beside it", "/beside/0", Shown::Time),
        ("p99.9 beside it", "/beside/1", Shown::Time),
        ("lost", "/lost", Shown::Share),
        ("damaged", "/damaged", Shown::Count),
        ("search", "/search/word", Shown::Text),
    ];
    let missing = |device: &&Value| device.get("missing").is_none_or(Value::is_null);
    let measured: Vec<&Value> = devices.iter().filter(missing).collect();
    let caption = format!("Frames of {} bytes, both directions at once; rates of each", text(whole, "/bytes"));
    let mut table = table(&caption, &columns, measured.iter().copied());
    for (row, device) in table.rows.iter_mut().zip(&measured) {
        row.tone = if is_invalid(device) { Tone::Bad } else { Tone::Plain };
    }
    page.figures.push(table.into());
    let mut bars = |title: &str, label: &str, format: fn(f64) -> String, of: &[(&str, &str)]| {
        let mut rows = Vec::new();
        for device in &measured {
            for (colour, (path, name)) in of.iter().enumerate() {
                let Some(value) = number(device, path) else { continue };
                let (group, told, counts) = (text(device, "/device"), format(value), !is_invalid(device));
                rows.push(Bar {
                    group,
                    name: (*name).to_owned(),
                    colour,
                    value,
                    interval: None,
                    told,
                    tone: Tone::Plain,
                    counts,
                });
            }
        }
        let (title, label) = (title.to_owned(), label.to_owned());
        page.curves.push(Bars { title, label, scale: AxisScale::Linear, format, rows, band: None }.into());
    };
    let rates = [("/mrr", "highest received"), ("/ndr", "NDR: nothing lost"), ("/pdr", "PDR: half a percent lost")];
    bars("Rates", "frames/s of each direction", |rate| si(rate, "/s"), &rates);
    let times = [("/alone/1", "p99.9 alone"), ("/beside/1", "p99.9 beside a background")];
    bars("Latency of a probe", "one way, the worse direction", seconds, &times);
}

fn is_invalid(device: &Value) -> bool {
    text(device, "/search/word") == "INVALID"
}

/// A device's settings, one changed at a time.
pub fn factors(page: &mut Page, whole: &Value) {
    let points = list(whole, "/points");
    let columns = [
        ("setting", "/point", Shown::Text),
        ("received", "/rate", Shown::Rate),
        ("ratio", "/ratio", Shown::Plain),
        ("interval", "/interval", Shown::Text),
        ("CPU of a frame, ns", "/cpu_ns", Shown::Plain),
        ("energy of a frame, µJ", "/energy_uj", Shown::Plain),
        ("missing", "/missing", Shown::Text),
    ];
    page.figures.push(table("Medians; ratio to the first line's, by rounds", &columns, points).into());
    let bar = |point: &Value| {
        let value = number(point, "/ratio").filter(|ratio| *ratio > 0.0)?;
        let interval = number(point, "/interval/0").zip(number(point, "/interval/1")).filter(|ends| ends.0 > 0.0);
        let ends = interval.map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
        let (name, told) = (text(point, "/point"), format!("{value:.3}{ends}"));
        Some(Bar { group: String::new(), name, colour: 0, value, interval, told, tone: Tone::Plain, counts: true })
    };
    let rows: Vec<Bar> = points.iter().filter_map(bar).collect();
    page.curves.push(Bars::ratios("Frames received, for one of the first line's", rows, None).into());
    let missing: Vec<TableRow> = [("rounds", "/rounds"), ("energy is missing", "/energy_missing")]
        .iter()
        .filter_map(|(name, path)| Some(vec![(*name).to_owned(), plain(whole.pointer(path)?)].into()))
        .collect();
    page.method.push(PageTable::new("", &["", "value"]).with(missing).into());
}
