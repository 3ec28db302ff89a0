//! Pages of RFC 2544, of searches, of devices and of a device's settings, of forwarders.

use super::cells::{Column, Shown, counted, curve, list, number, object, table, text, texts, texts_of, values};
use figures::{digits, grouped, seconds, si};
use pages::{Axis, AxisScale, Bar, Bars, Chart, CurvePoint, Page, PagePart, PageTable, Series};
use serde_json::{Value, json};

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
    let fails = |result: &Value| counted(&texts(result, "/fails").first().cloned().unwrap_or_default());
    let sizes = table("Rates in frames/s of each direction; latency of the first", &SIZE, results);
    page.figure(sizes.judged(results.iter().map(fails)));
    let answer = |result: &Value| {
        let of = ["/size", "/condition"].map(|path| text(result, path));
        let rate = number(result, "/throughput/lower").filter(|_| list(result, "/fails").is_empty())?;
        Some(format!("{} ({} bytes, {})", si(rate, "frames/s"), of[0], of[1]))
    };
    let answers: Vec<String> = results.iter().filter_map(answer).collect();
    page.head.answer.extend(Some(format!("Throughput: {}", answers.join("; "))).filter(|_| !answers.is_empty()));
    let mut conditions = texts_of(results, "/condition");
    conditions.dedup();
    let counts = |result: &Value| list(result, "/fails").is_empty();
    let mut chart = |title: &str, y: Axis, lines: &[(&str, &str)]| {
        let line = |condition: &String, (path, name): &(&str, &str)| {
            let own = results.iter().filter(|result| text(result, "/condition") == *condition);
            curve(format!("{name}, {condition}"), own, ["/size", path], counts)
        };
        let series = conditions.iter().flat_map(|condition| lines.iter().map(move |one| line(condition, one)));
        let bytes = Axis::new("bytes of a frame", AxisScale::Logarithmic, |size| format!("{size:.0}"));
        page.curve(Chart::new(title, bytes, y, series.collect()));
    };
    let lines = [("/throughput/lower", "throughput"), ("/sendable", "the tester"), ("/theoretical", "the line")];
    chart("Throughput by frame size (section 26.1)", Axis::counts("frames/s of each direction"), &lines);
    let lines = [("/latency/0/mean_ns", "mean of tagged frames"), ("/latency/0/worst_ns", "worst (RFC 8219)")];
    chart("Latency by frame size (section 26.2)", Axis::times("latency"), &lines);
    let loss = |result: &Value| {
        let shares = list(result, "/loss").iter().filter_map(|point| {
            let (offered, lost) = (number(point, "/offered")?, number(point, "/lost")?);
            Some((100.0 * number(point, "/share")?, 100.0 * lost / offered.max(1.0)))
        });
        let name = format!("{} bytes, {}", text(result, "/size"), text(result, "/condition"));
        Series::new(name, shares).counting(counts(result))
    };
    let (offered, lost) = (
        Axis::new("% of the highest rate offered", AxisScale::Near, digits),
        Axis::new("% lost", AxisScale::Linear, digits),
    );
    let series = results.iter().map(loss).collect();
    page.curve(Chart::new("Loss by load (section 26.3)", offered, lost, series));
    for (path, word) in [("/lacks", "missing"), ("/not_applicable", "n/a")] {
        let told = results.iter().flat_map(|result| {
            texts(result, path).into_iter().map(move |why| format!("{} bytes: {word}: {why}", text(result, "/size")))
        });
        page.tell(PagePart::List(told.collect()));
    }
    page.tell(PagePart::Text(text(whole, "/latency_definition")));
    page.tell(object("Settings", whole, "/settings"));
    page.tell(trials(list(whole, "/trials").to_vec()));
}

/// Every trial, those that do not count with the reason.
fn trials(all: Vec<Value>) -> PageTable {
    let verdict = |trial: &Value| counted(&(text(trial, "/trial/spoilt") + &text(trial, "/spoilt")));
    table("Every trial", &TRIAL, &all).judged(all.iter().map(verdict))
}

const GOAL: [Column; 4] = [
    ("goal", "/goal/name", Shown::Text),
    ("passes", "/lower", Shown::Rate),
    ("fails", "/upper", Shown::Rate),
    ("conditional throughput", "/conditional_throughput", Shown::Rate),
];

/// A search for rates.
pub fn search(page: &mut Page, whole: &Value) {
    let found = list(whole, "/found");
    let verdict = |found: &Value| found["open"].as_str().map_or("an answer".to_owned(), counted);
    page.figure(table("Frames/s of each direction", &GOAL, found).judged(found.iter().map(verdict)));
    let answered = found.iter().filter(|found| found["open"].is_null());
    let answer = |found: &Value| {
        let least = if found["upper"].is_null() { "at least " } else { "" };
        Some(format!("{}: {least}{}", text(found, "/goal/name"), si(number(found, "/lower")?, "frames/s")))
    };
    page.head.answer.extend(answered.filter_map(answer));
    let loss = |trial: &Value| {
        let of = |path: &str| (0..2).filter_map(|lane| number(trial, &format!("/lanes/{lane}/{path}"))).sum::<f64>();
        let place = (number(trial, "/intended_rate")?, 100.0 * of("lost") / of("offered").max(1.0));
        Some(CurvePoint { counts: trial["spoilt"].is_null(), ..CurvePoint::from(place) })
    };
    let mut points: Vec<CurvePoint> = list(whole, "/trials").iter().filter_map(loss).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let series = vec![Series { name: "trials".to_owned(), points, largest: None }];
    let lost = Axis::new("% lost, both directions", AxisScale::Linear, digits);
    page.curve(Chart::new("Loss by rate", Axis::counts("frames/s of each direction, asked for"), lost, series));
    page.tell(trials(list(whole, "/trials").iter().map(|trial| json!({ "trial": trial })).collect()));
    page.tell(object("What was sent", whole, "/stream"));
}

const DEVICE: [Column; 12] = [
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
    ("verdict", "/search/word", Shown::Text),
];

/// Devices between the tester's ports.
pub fn devices(page: &mut Page, whole: &Value) {
    let devices = list(whole, "/devices").iter().filter(|device| device["missing"].is_null());
    page.head.of = devices.clone().map(|device| text(device, "/device")).collect::<Vec<_>>().join(", ");
    let caption = format!("Frames of {} bytes, both directions at once; rates of each", text(whole, "/bytes"));
    page.figure(table(&caption, &DEVICE, devices.clone()));
    let mut bars = |title: &str, label: &str, format: fn(f64) -> String, of: &[(&str, &str)]| {
        let mut bars = Bars::new(title, label, format);
        for device in devices.clone() {
            for (colour, (path, name)) in of.iter().enumerate() {
                let Some(value) = number(device, path) else { continue };
                let (told, counts) = (format(value), text(device, "/search/word") != "INVALID");
                let bar = Bar::new([&text(device, "/device"), name], colour, value, told);
                bars.rows.push(Bar { counts, ..bar });
            }
        }
        page.curve(bars);
    };
    let rates = [("/mrr", "highest received"), ("/ndr", "NDR: nothing lost"), ("/pdr", "PDR: half a percent lost")];
    bars("Rates", "frames/s of each direction", |rate| si(rate, "/s"), &rates);
    let times = [("/alone/1", "p99.9 alone"), ("/beside/1", "p99.9 beside a background")];
    bars("Latency of a probe", "one way, the worse direction", seconds, &times);
}

const POINT: [Column; 7] = [
    ("setting", "/point", Shown::Text),
    ("received", "/rate", Shown::Rate),
    ("ratio", "/ratio", Shown::Plain),
    ("interval", "/interval", Shown::Text),
    ("CPU of a frame, ns", "/cpu_ns", Shown::Plain),
    ("energy of a frame, µJ", "/energy_uj", Shown::Plain),
    ("missing", "/missing", Shown::Text),
];

/// A device's settings, one changed at a time.
pub fn factors(page: &mut Page, whole: &Value) {
    let points = list(whole, "/points");
    page.figure(table("Medians; ratio to the first line's, by rounds", &POINT, points));
    let bar = |point: &Value| {
        let ends = number(point, "/interval/0").zip(number(point, "/interval/1"));
        Bar::ratio(["", &text(point, "/point")], number(point, "/ratio"), ends, "")
    };
    let rows = points.iter().filter_map(bar).collect();
    page.curve(Bars::ratios("Frames received, for one of the first line's", rows, None));
    let told = [("rounds", "/rounds", Shown::Count), ("energy is missing", "/energy_missing", Shown::Text)];
    page.tell(values("", &told, whole));
}

const PORT: [Column; 11] = [
    ("link", "/link", Shown::Text),
    ("received", "/totals/rx_packets", Shown::Count),
    ("dropped before", "/totals/rx_dropped", Shown::Count),
    ("sent", "/totals/tx_packets", Shown::Count),
    ("dropped after", "/totals/tx_dropped", Shown::Count),
    ("too long", "/refused/too_long", Shown::Count),
    ("no route", "/refused/no_route", Shown::Count),
    ("hops used up", "/refused/expired", Shown::Count),
    ("bad IP sum", "/refused/bad_ip_checksum", Shown::Count),
    ("bad TCP or UDP sum", "/refused/bad_l4_checksum", Shown::Count),
    ("taken by the mode", "/refused/consumed", Shown::Count),
];

const FORWARDER: [Column; 7] = [
    ("mode", "/mode", Shown::Text),
    ("frames at a time, at most", "/burst", Shown::Count),
    ("threads", "/threads", Shown::Count),
    ("it ran for", "/duration_ns", Shown::Time),
    ("busy cycles for each frame", "/cycles_per_packet", Shown::Plain),
    ("busy cycles", "/cycles/busy", Shown::Count),
    ("all cycles", "/cycles/total", Shown::Count),
];

/// What a forwarder counted.
pub fn forwarder(page: &mut Page, whole: &Value) {
    let mut ports = list(whole, "/ports").to_vec();
    let links = texts_of(&ports, "/link");
    // Two ends of one link are told apart by their numbers.
    if links.windows(2).any(|two| two[0] == two[1]) {
        let told = |(port, link): (usize, &String)| format!("{link} ({port})").into();
        let told = links.iter().enumerate().map(told);
        ports.iter_mut().filter_map(|port| port.get_mut("link")).zip(told).for_each(|(link, told)| *link = told);
    }
    let sum = |path: &'static str| ports.iter().filter_map(|port| number(port, path)).sum::<f64>();
    let [received, sent] = ["/totals/rx_packets", "/totals/tx_packets"].map(sum);
    let dropped = sum("/totals/rx_dropped") + sum("/totals/tx_dropped");
    let seconds = number(whole, "/duration_ns").unwrap_or(0.0).max(1.0) / 1e9;
    let rates = [received, sent].map(|frames| si(frames / seconds, "frames/s"));
    page.head.of = texts_of(&ports, "/link").join(" and ");
    page.head.answer.push(format!(
        "{} received, {} sent, {} dropped on all links",
        rates[0],
        rates[1],
        grouped(dropped as u64)
    ));
    page.figure(table("Frames by link", &PORT, &ports));
    page.figure(values("The forwarder", &FORWARDER, whole));
    let line = |(path, word): (&'static str, &'static str)| {
        let of = move |port: &Value| {
            let sizes = list(port, path).iter().filter_map(|one| Some((one[0].as_f64()?, one[1].as_f64()?)));
            Series::new(format!("{word} {}", text(port, "/link")), sizes)
        };
        ports.iter().map(of)
    };
    let bursts = [("/rx_bursts", "received by"), ("/tx_bursts", "sent by")].into_iter().flat_map(line).collect();
    let times = Axis { scale: AxisScale::Logarithmic, ..Axis::counts("turns of the loop") };
    page.curve(Chart::new("Frames at a time", Axis::new("frames of a burst", AxisScale::Near, digits), times, bursts));
    page.tell(object("The clock", whole, "/clock"));
}
