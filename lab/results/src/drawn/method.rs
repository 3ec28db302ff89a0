//! Pages of RFC 2544, of searches, of devices and of a device's settings, of forwarders.

use crate::cells::{counted, curve, curves, list, number, object, table, text, texts, texts_of, values};
use figures::{digits, grouped, seconds, si};
use pages::{Axis, AxisScale, Bar, Chart, Page, PagePart, PageTable, Series};
use serde_json::{Value, json};

const SIZE: &str = "bytes: size count; condition: condition; line: theoretical /s; tester: sendable /s; \
                    throughput: throughput/lower /s; fails at: throughput/upper /s; \
                    latency mean: latency/0/mean_ns ns; typical: latency/0/typical_ns ns; \
                    worst: latency/0/worst_ns ns; burst, frames: back_to_back/mean count; \
                    recovery, s: recovery/seconds; reset, s: reset/silent_seconds";

const TRIAL: &str = "trial of bytes: ask/size count; condition: ask/condition; test: ask/test; \
                     asked for: trial/intended_rate /s; seconds: trial/intended_seconds digits; \
                     lost A→B: trial/lanes/0/lost count; lost B→A: trial/lanes/1/lost count; \
                     late: trial/late_share share";

/// The whole method.
pub fn rfc2544(page: &mut Page, whole: &Value) {
    let mut results = list(whole, "/results").to_vec();
    // What the tester can send stands in the place of a line that nobody knows.
    if whole.pointer("/settings/line_rate").is_some_and(Value::is_null) {
        results.iter_mut().filter_map(Value::as_object_mut).for_each(|size| _ = size.remove("theoretical"));
    }
    let results = results.as_slice();
    let fails = |result: &Value| counted(&text(result, "/fails/0"));
    let sizes = table("Rates in frames/s of each direction; latency of the first", SIZE, results);
    page.figure(sizes.judged(results.iter().map(fails)));
    let answer = |result: &Value| {
        let of = ["/size", "/condition"].map(|path| text(result, path));
        let rate = number(result, "/throughput/lower").filter(|_| list(result, "/fails").is_empty())?;
        Some(format!("{} ({} bytes, {})", si(rate, "frames/s"), of[0], of[1]))
    };
    let answers: Vec<String> = results.iter().filter_map(answer).collect();
    page.head.answer.extend(Some(format!("Throughput: {}", answers.join("; "))).filter(|_| !answers.is_empty()));
    let counts = |result: &Value| list(result, "/fails").is_empty();
    let mut chart = |title: &str, y: Axis, lines: &[(&str, &str)]| {
        let bytes = Axis::new("bytes of a frame", AxisScale::Logarithmic, |size| format!("{size:.0}"));
        let condition = |result: &Value| text(result, "/condition");
        page.curve(Chart::new(title, bytes, y, curves(results, condition, "/size", lines, counts)));
    };
    let lines = [("throughput, ", "/throughput/lower"), ("the tester, ", "/sendable"), ("the line, ", "/theoretical")];
    chart("Throughput by frame size (section 26.1)", Axis::counts("frames/s of each direction"), &lines);
    let lines = [("mean of tagged frames, ", "/latency/0/mean_ns"), ("worst (RFC 8219), ", "/latency/0/worst_ns")];
    chart("Latency by frame size (section 26.2)", Axis::times("latency"), &lines);
    let loss = |result: &Value| {
        let shares = list(result, "/loss").iter().filter_map(|point| {
            let (offered, lost) = (number(point, "/offered")?, number(point, "/lost")?);
            Some((100.0 * number(point, "/share")?, 100.0 * lost / offered.max(1.0)))
        });
        let name = format!("{} bytes, {}", text(result, "/size"), text(result, "/condition"));
        Series::new(name, shares).counting(counts(result))
    };
    let offered = Axis::new("% of the highest rate offered", AxisScale::Near, digits);
    let lost = Axis::new("% lost", AxisScale::Linear, digits);
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
    table("Every trial", TRIAL, &all).judged(all.iter().map(verdict))
}

const GOAL: &str = "goal: goal/name; passes: lower /s; fails: upper /s; \
                    conditional throughput: conditional_throughput /s";

/// What the tester could do, and what the device gave back of it.
const TESTER: &str = "highest rate sent: highest_sent /s; highest rate received: highest_received /s; \
                      sent on time: sendable /s; MRR: mrr/mean /s; its deviation: mrr/deviation /s; \
                      soak, load: soak/load /s; its deviation: soak/deviation /s";

/// A search for rates.
pub fn search(page: &mut Page, whole: &Value) {
    let found = list(whole, "/found");
    let verdict = |found: &Value| found["open"].as_str().map_or("an answer".to_owned(), counted);
    page.figure(table("Frames/s of each direction", GOAL, found).judged(found.iter().map(verdict)));
    let answered = found.iter().filter(|found| found["open"].is_null());
    let answer = |found: &Value| {
        let least = if found["upper"].is_null() { "at least " } else { "" };
        Some(format!("{}: {least}{}", text(found, "/goal/name"), si(number(found, "/lower")?, "frames/s")))
    };
    page.head.answer.extend(answered.filter_map(answer));
    page.figure(values("The tester, frames/s of each direction", TESTER, whole));
    page.tell(PagePart::List(texts(whole, "/told")));
    let loss = |trial: &Value| {
        let of = |path: &str| (0..2).filter_map(|lane| number(trial, &format!("/lanes/{lane}/{path}"))).sum::<f64>();
        let lost = 100.0 * of("lost") / of("offered").max(1.0);
        Some((number(trial, "/intended_rate")?, lost, trial["spoilt"].is_null()))
    };
    let mut trials_lost = Series::new("trials", list(whole, "/trials").iter().filter_map(loss));
    trials_lost.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let lost = Axis::new("% lost, both directions", AxisScale::Linear, digits);
    let rate = Axis::counts("frames/s of each direction, asked for");
    page.curve(Chart::new("Loss by rate", rate, lost, vec![trials_lost]));
    page.tell(object("Pause frames", whole, "/pause_frames"));
    page.tell(trials(list(whole, "/trials").iter().map(|trial| json!({ "trial": trial })).collect()));
    page.tell(object("What was sent", whole, "/stream"));
}

const DEVICE: &str = "device: device; MRR: mrr /s; NDR: ndr /s; PDR: pdr /s; p50 alone: alone/0 ns; \
                      p99.9 alone: alone/1 ns; background: background /s; p50 beside it: beside/0 ns; \
                      p99.9 beside it: beside/1 ns; lost: lost share; damaged: damaged count; verdict: search/word";

/// Devices between the tester's ports.
pub fn devices(page: &mut Page, whole: &Value) {
    let devices = list(whole, "/devices").iter().filter(|device| device["missing"].is_null());
    let names: Vec<String> = devices.clone().map(|device| text(device, "/device")).collect();
    if !names.is_empty() {
        page.head.of = names.join(", ");
    }
    let caption = format!("Frames of {} bytes, both directions at once; rates of each", text(whole, "/bytes"));
    page.figure(table(&caption, DEVICE, devices.clone()));
    let against = devices.clone().flat_map(|device| {
        let reasons = list(device, "/search/reasons").iter().chain(list(device, "/spoilt"));
        reasons.map(|why| format!("{}: {}", text(device, "/device"), text(why, "")))
    });
    page.tell(PagePart::Text(text(whole, "/told")));
    page.tell(PagePart::List(against.collect()));
    let mut bars = |title: &str, label: &str, format: fn(f64) -> String, of: &[(&str, &str)]| {
        let mut bars = Vec::new();
        for device in devices.clone() {
            for (colour, (path, name)) in of.iter().enumerate() {
                let Some(value) = number(device, path) else { continue };
                let named = format!("{}: {name}", text(device, "/device"));
                let counts = text(device, "/search/word") != "INVALID";
                bars.push(Bar { counts, ..Bar::new(named, colour, value, format(value)) });
            }
        }
        page.curve(PageTable::bars(title, label, format, &bars));
    };
    let rates = [("/mrr", "highest received"), ("/ndr", "NDR: nothing lost"), ("/pdr", "PDR: half a percent lost")];
    bars("Rates", "frames/s of each direction", |rate| si(rate, "/s"), &rates);
    let times = [("/alone/1", "p99.9 alone"), ("/beside/1", "p99.9 beside a background")];
    bars("Latency of a probe", "one way, the worse direction", seconds, &times);
}

const POINT: &str = "setting: point; rounds: rounds count; asked for: asked /s; sent: sent /s; received: rate /s; \
                     ratio: ratio factor; interval: interval factor; CPU of a frame, ns: cpu_ns digits; \
                     energy of a frame, µJ: energy_uj digits; missing: missing";

/// A device's settings, one changed at a time.
pub fn factors(page: &mut Page, whole: &Value) {
    let points = list(whole, "/points");
    let verdict = |point: &Value| match (point["missing"].is_null(), point["spoilt"].as_str()) {
        (false, _) => "missing".to_owned(),
        (true, Some(why)) => counted(why),
        (true, None) => "counts".to_owned(),
    };
    let table = table("Medians; ratio to the first line's, by rounds", POINT, points);
    page.figure(table.judged(points.iter().map(verdict)));
    // A ratio is as good as the first line that it is to.
    let is_sound = |point: &Value| point["spoilt"].is_null();
    let first = points.first().is_none_or(is_sound);
    let bar = |point: &Value| {
        let ends = number(point, "/interval/0").zip(number(point, "/interval/1"));
        let bar = Bar::ratio(text(point, "/point"), number(point, "/ratio"), ends, "")?;
        Some(Bar { counts: first && is_sound(point), ..bar })
    };
    let bars: Vec<Bar> = points.iter().filter_map(bar).collect();
    page.curve(PageTable::ratios("Frames received, for one of the first line's", &bars, None));
    page.tell(values("", "rounds asked for: rounds count; energy is missing: energy_missing", whole));
}

/// Of a forwarder's link.
pub const PORT: &str = "link: link; received: totals/rx_packets count; dropped before: totals/rx_dropped count; \
                    sent: totals/tx_packets count; dropped after: totals/tx_dropped count; \
                    too long: refused/too_long count; no route: refused/no_route count; \
                    hops used up: refused/expired count; bad IP sum: refused/bad_ip_checksum count; \
                    bad TCP or UDP sum: refused/bad_l4_checksum count; taken by the mode: refused/consumed count";

/// Of a forwarder.
pub const FORWARDER: &str = "mode: mode; frames at a time, at most: burst count; threads: threads count; \
                         it ran for: duration_ns ns; busy cycles for each frame: cycles_per_packet digits; \
                         busy cycles: cycles/busy count; all cycles: cycles/total count";

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
    let dropped = grouped((sum("/totals/rx_dropped") + sum("/totals/tx_dropped")) as u64);
    let seconds = number(whole, "/duration_ns").unwrap_or(0.0).max(1.0) / 1e9;
    let rates = ["/totals/rx_packets", "/totals/tx_packets"].map(|path| si(sum(path) / seconds, "frames/s"));
    page.head.of = texts_of(&ports, "/link").join(" and ");
    page.head.answer.push(format!("{} received, {} sent, {dropped} dropped on all links", rates[0], rates[1]));
    page.figure(table("Frames by link", PORT, &ports));
    page.figure(values("The forwarder", FORWARDER, whole));
    let line = |(path, word): (&'static str, &'static str)| {
        let name = move |port: &Value| format!("{word} {}", text(port, "/link"));
        ports.iter().map(move |port| curve(name(port), list(port, path), ["/0", "/1"], |_| true))
    };
    let bursts = [("/rx_bursts", "received by"), ("/tx_bursts", "sent by")].into_iter().flat_map(line).collect();
    let times = Axis { scale: AxisScale::Logarithmic, ..Axis::whole("turns of the loop") };
    page.curve(Chart::new("Frames at a time", Axis::new("frames of a burst", AxisScale::Near, digits), times, bursts));
    page.tell(object("The clock", whole, "/clock"));
}
