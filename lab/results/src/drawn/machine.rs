//! Pages of machines: their noise, what they did over time, their settings, their topology.

use super::ReadResult;
use crate::cells::{curve, list, number, pairs, ranges, table, text, texts};
use crate::measurement::ResultError;
use figures::{digits, grouped, many, seconds, si};
use pages::{Axis, AxisScale, Bar, Chart, Page, PagePart, PageTable, Series, Tone};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use watch::{Change, Figure, Sample, SampleReader, Saturation};

const CORE: &str = "core: core count; gaps: gaps count; together: gap_nanos ns; longest: longest_nanos ns; \
                    seconds: seconds digits; a step: step_nanos ns; stolen, ms: stolen_ms count; \
                    gaps without room: dropped count; events lost: lost_events count";

const CAUSE: &str = "cause: cause; gaps: gaps count; parts: parts count; time: nanos ns; longest: longest_nanos ns";

const WORST: &str = "at, s: at_seconds digits; long: nanos ns; it went to: cause";

/// From a row of a histogram of gaps to the next, at most: they begin at 1, 2 and 5 times powers of ten.
const NOISE_STEP: f64 = 2.5;

/// What takes busy cores' time.
pub fn noise(page: &mut Page, whole: &Value) {
    let cores = list(whole, "/cores");
    let of = |path: &'static str| cores.iter().filter_map(move |core| number(core, path));
    if of("/seconds").fold(0.0, f64::max) <= 0.0 {
        return page.tell(PagePart::List(texts(whole, "/notes")));
    }
    page.head.answer.push(format!(
        "{} of {} and longer on {}, the longest {}",
        many(of("/gaps").sum::<f64>() as u64, "gap"),
        seconds(number(whole, "/threshold_nanos").unwrap_or(0.0)),
        many(cores.len() as u64, "core"),
        seconds(of("/longest_nanos").fold(0.0, f64::max))
    ));
    let mut expected = Vec::new();
    for one in list(whole, "/expect") {
        let (bound, broken) = (text(one, "/bound"), texts(one, "/broken_by").join(", "));
        let verdict = if broken.is_empty() { "kept".to_owned() } else { format!("MISSED by core {broken}") };
        page.head.answer.extend((!broken.is_empty()).then(|| format!("{bound}: {verdict}")));
        expected.push(vec![bound, verdict]);
    }
    page.figure(PageTable::new("What was expected", &["", "verdict"]).with(expected));
    page.figure(table("Cores", CORE, cores));
    for core in cores {
        let name = format!("Core {}", text(core, "/core"));
        page.figure(table(&format!("{name}: what its gaps went to"), CAUSE, list(core, "/causes")));
        page.tell(table(&format!("{name}: the longest gaps"), WORST, list(core, "/worst")));
    }
    let line = |core: &Value| {
        let name = format!("core {}", text(core, "/core"));
        curve(name, list(core, "/histogram"), ["/from_nanos", "/gaps"], |_| true).of_bins(NOISE_STEP)
    };
    let gaps = Axis { scale: AxisScale::Logarithmic, ..Axis::whole("gaps") };
    let lines = cores.iter().map(line).collect();
    page.curve(Chart::new("Gaps by their length", Axis::times("how long, from"), gaps, lines));
    let sources = list(whole, "/sources").iter().map(|one| vec![text(one, "/name"), text(one, "/sight")]);
    page.tell(PageTable::new("Sources of latency", &["", "seen"]).with(sources));
    page.tell(PagePart::List(texts(whole, "/notes")));
}

/// Figures of the whole machine, by their names and units; the first are drawn.
const MACHINE: &str = "cpu: Processor time, %; interrupts: Interrupts, /s; switches: Context switches, /s; \
                       syscalls: System calls, /s; in_bits: Received, bit/s; out_bits: Sent, bit/s; \
                       in_packets: Packets received, /s; out_packets: Packets sent, /s; connections: TCP connections; \
                       retransmissions: Segments sent again, /s; drops: Packets dropped, /s; \
                       overflows: Connections lost to full accept queues, /s; memory_free: Free memory, B; \
                       memory_traffic: Memory traffic, B/s; remote: Accesses to another domain's memory, %; \
                       own_cpu: This program's own time, % of a core; probe_cpu: Its probes' time, % of a core";
const DRAWN: usize = 4;

/// A machine over time.
pub fn recording(page: &mut Page, all: &[ReadResult]) -> Result<(), ResultError> {
    let changes = changes(&all[0].text)?;
    // Of one sample there is nothing to be said.
    if changes.is_empty() {
        return Ok(());
    }
    let mut saturation = Saturation::default();
    changes.iter().for_each(|change| saturation.on_change(change));
    page.head.answer.push(saturation.words());
    page.head.made = changes.last().map_or(0, |change| change.unix_ms / 1_000);
    let began = changes.first().map_or(0, |change| change.unix_ms);
    let value = |change: &Change, key: &str| change.machine.get(key)?.value();
    let row = |(key, name): (&str, &str)| {
        let spans = changes.iter().filter_map(|change| Some((value(change, key)?, change.seconds)));
        let (values, seconds): (Vec<f64>, Vec<f64>) = spans.unzip();
        let (least, most) = values.iter().fold((f64::INFINITY, 0.0), |(low, high), one| (one.min(low), one.max(high)));
        // Over time, as comparisons have it: intervals may be of any length.
        let whole = values.iter().zip(&seconds).map(|(value, seconds)| value * seconds).sum::<f64>();
        let mean = whole / seconds.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let told = [mean, least, most].map(|value| if value < 1e5 { digits(value) } else { si(value, "") });
        let intervals = grouped(values.len() as u64);
        (!values.is_empty()).then(|| [vec![name.to_owned()], told.into(), vec![intervals]].concat())
    };
    let heads = ["", "mean", "least", "most", "intervals"];
    page.figure(PageTable::new("The whole machine", &heads).with(pairs(MACHINE).filter_map(row)));
    // A line over time; none of what never was.
    let line = |name: &str, value: &dyn Fn(&Change) -> Option<f64>| {
        let at = |change: &Change| change.unix_ms.saturating_sub(began) as f64 / 1e3;
        let points: Vec<_> = changes.iter().filter_map(|change| Some((at(change), value(change)?))).collect();
        points.iter().any(|(_, value)| *value > 0.0).then(|| Series::new(name, points))
    };
    let seconds = Axis::new("seconds", AxisScale::Near, digits);
    for (key, name) in pairs(MACHINE).take(DRAWN) {
        let series = line(name, &|change| value(change, key)).into_iter().collect();
        page.curve(Chart::new(name, seconds.clone(), Axis::counts(""), series));
    }
    let ports: BTreeSet<&str> = changes.iter().flat_map(|change| &change.ports).map(|port| &*port.name).collect();
    let port = |name: &&str| {
        line(name, &|change| {
            let port = change.ports.iter().find(|port| port.name == *name)?;
            Some(port.bits[0].value()? + port.bits[1].value()?)
        })
    };
    let bits = Axis::new("", AxisScale::Linear, |bits| si(bits, "bit/s"));
    page.curve(Chart::new("Interfaces, both ways", seconds, bits, ports.iter().filter_map(port).collect()));
    // By the last that was said of each.
    let missing = |(key, name): (&'static str, &'static str)| {
        let mut said = changes.iter().rev().filter_map(|change| change.machine.get(key));
        let why = said.find_map(|figure| if let Figure::Missing(why) = figure { Some(&**why) } else { None })?;
        Some((name, why))
    };
    page.tell(PageTable::pairs("What is missing", ["", "why"], pairs(MACHINE).filter_map(missing)));
    Ok(())
}

/// What passed between each two samples of a recording.
fn changes(text: &str) -> Result<Vec<Change>, ResultError> {
    let mut samples = SampleReader::new(text.as_bytes());
    let (mut changes, mut before): (Vec<Change>, Option<Sample>) = Default::default();
    loop {
        match samples.read() {
            Ok(Some(sample)) => {
                changes.extend(before.as_ref().and_then(|before| Change::between(before, &sample).ok()));
                before = Some(sample);
            }
            // Whoever was made while it wrote leaves a part of a line.
            Err(why) if before.is_none() => return Err(ResultError(why)),
            Ok(None) | Err(_) => return Ok(changes),
        }
    }
}

/// Verdicts of the audit that ask for something, as it writes them, the gravest first.
const ASKS: [&str; 8] =
    ["dangerous", "worse than default", "conflicts", "refused", "removed", "improvable", "cannot be read", "not known"];

const ADVICE: &str = "better: want; why: why; set by: set_by; overruling: overruled; see: counters; \
                      gain: gain; risk: risk; undo: undo; source: source";

/// Settings judged, those that ask for something first.
pub fn audit(page: &mut Page, whole: &Value) {
    let rows = list(whole, "/rows");
    let word = |row: &Value| text(row, "/verdict").replace(['-', '_'], " ");
    let rank = |row: &Value| ASKS.iter().position(|name| *name == word(row)).unwrap_or(ASKS.len());
    let name = |row: &Value| {
        let of = |path: &str, before: &str, after: &str| match text(row, path) {
            found if found.is_empty() => found,
            found => format!("{before}{found}{after}"),
        };
        format!("{}{}{}", text(row, "/key"), of("/subject", " [", "]"), of("/value", " = ", ""))
    };
    let mut ranked: Vec<&Value> = rows.iter().collect();
    ranked.sort_by_key(|row| rank(row));
    let verdict = &mut page.head.verdict;
    let worst = ranked.first().and_then(|row| ASKS.get(rank(row)));
    verdict.word = worst.unwrap_or(&"ok").to_uppercase();
    let bad = ranked.iter().filter(|row| Tone::of(&word(row)) == Tone::Bad);
    verdict.reasons = bad.map(|row| format!("{}: {}", name(row), text(row, "/why"))).collect();
    let (asking, quiet) = ranked.split_at(ranked.partition_point(|row| rank(row) < ASKS.len()));
    let count = |asked: &&str| asking.iter().filter(|row| word(row) == **asked).count();
    let counts = ASKS.iter().map(|asked| (count(asked), asked)).filter(|(count, _)| *count > 0);
    let mut counts: Vec<String> = counts.map(|(count, asked)| format!("{count} {asked}")).collect();
    counts.push(format!("{} ask for nothing", quiet.len()));
    page.head.answer.push(counts.join(", "));
    let kernel = Some(text(whole, "/kernel")).filter(|kernel| !kernel.is_empty());
    let kernel = kernel.unwrap_or_else(|| "of an unknown version".to_owned());
    page.head.of = format!("the role {}, on Linux {kernel}", text(whole, "/role"));
    for (caption, rows) in [("What asks for something", asking), ("What asks for nothing", quiet)] {
        let mut made = table(caption, ADVICE, rows.iter().copied());
        made.heads.insert(0, "setting".to_owned());
        made.rows.iter_mut().zip(rows).for_each(|(made, row)| made.insert(0, name(row)));
        page.figure(made.judged(rows.iter().map(|row| word(row))));
    }
}

const WAY: &str = "content is: way; reads, B/s: reads B; writes, B/s: writes B; crossing, B/s: crossing B; \
                   remote: remote_share share";

const PASS: &str = "pass: pass; memory, B/s: memory B; crossing, B/s: crossing B";

const CARRIER: &str = "part: part; which: name; asked, B/s: asked B; carries, B/s: carried B; from: from; \
                       full at: full_at_bits bit/s";

const CROSSING: &str = "siloed: siloed; at worst: worst digits; expected: expected digits; : why_not";

const SEEN: &str = "siloed: siloed; remote: remote_share share; : why";

/// What a rate costs.
pub fn budget(page: &mut Page, whole: &Value) {
    page.head.of = text(whole, "/of/name");
    page.head.answer.extend(texts(whole, "/to_change"));
    page.figure(table("Ways of sending", WAY, list(whole, "/ways")));
    let mut bars = Vec::new();
    for (colour, way) in list(whole, "/ways").iter().enumerate() {
        let name = text(way, "/way");
        page.figure(table(&format!("{name}: passes over memory"), PASS, list(way, "/passes")));
        let loads = list(way, "/loads").iter().map(|load| {
            let carried = if load["carries"].is_null() { json!("not known") } else { load["carries"].clone() };
            let mut load = load.clone();
            load.as_object_mut().into_iter().for_each(|load| drop(load.insert("carried".to_owned(), carried.clone())));
            load
        });
        let loads: Vec<Value> = loads.collect();
        page.figure(table(&format!("{name}: what carries it, the fullest first"), CARRIER, &loads));
        for part in list(way, "/loads") {
            if let Some(rate) = number(part, "/full_at_bits") {
                let part = format!("{name}: {} {}", text(part, "/part"), text(part, "/name"));
                bars.push(Bar::new(part, colour, rate, si(rate, "bit/s")));
            }
        }
    }
    page.figure(table("Crossings of each byte sent", CROSSING, list(whole, "/crossings")));
    page.figure(table("Published beside the model", SEEN, list(whole, "/seen")));
    let title = "The rate of content at which each part is full";
    page.curve(PageTable::bars(title, "bit/s", |rate| si(rate, "bit/s"), &bars));
    let from = texts(whole, "/of/published_from");
    if !from.is_empty() {
        page.tell(PagePart::Text("Published figures; nothing of them was measured:".to_owned()));
        page.tell(PagePart::List(from));
    }
    page.tell(PagePart::List(texts(whole, "/notes")));
}

const DOMAIN: &str = "domain: domain count; memory: memory_total B; free: memory_free B; cores: cores ranges; \
                      distances: distances";

const LOGICAL_CORE: &str = "core: core count; domain: domain count; package: package count; siblings: siblings ranges; \
                            shares its cache with: cache ranges; online: online; allowed: allowed; isolated: isolated";

const INTERFACE: &str = "interface: name; domain: domain count; device: device; speed: speed_bits bit/s; \
                         PCI Express: pci/link; could be: pci/faults; receive queues: rx_queues count; \
                         transmit queues: tx_queues count; interrupts: interrupts";

const DISK: &str = "disk: name; kind: kind; model: model; domain: domain count; bytes: bytes B; \
                    PCI Express: pci/link; could be: pci/faults";

/// What a topology has: name, where it stands, columns.
const PARTS: [(&str, &str, &str); 4] = [
    ("NUMA domain", "/domains", DOMAIN),
    ("core", "/cores", LOGICAL_CORE),
    ("interface", "/interfaces", INTERFACE),
    ("disk", "/disks", DISK),
];

const REACH: &str =
    "cores of: from count; memory of: to count; latency: latency_nanos ns; reads, B/s: bytes_per_second B";

/// Cores, domains, interfaces and disks.
pub fn topology(page: &mut Page, whole: &Value) {
    page.head.answer.push(PARTS.map(|(name, path, _)| many(list(whole, path).len() as u64, name)).join(", "));
    page.curve(super::domains::places(whole));
    for (name, path, columns) in PARTS {
        let mut rows = list(whole, path).to_vec();
        for interrupts in rows.iter_mut().filter_map(|row| row.get_mut("interrupts")) {
            let on = |one: &Value| format!("{} on {}", text(one, "/number"), ranges(list(one, "/cores")));
            *interrupts = list(interrupts, "").iter().map(on).collect();
        }
        page.figure(table(&format!("The {name}s"), columns, &rows));
    }
    page.figure(table("Measured between domains", REACH, list(whole, "/reach")));
    page.head.answer.extend(Some(text(whole, "/division")).filter(|division| !division.is_empty()));
    page.tell(PagePart::List(texts(whole, "/notes")));
}
