//! Pages of machines: their noise, what they did over time, their settings, their topology.

use super::ReadResult;
use super::cells::{Column, Shown, curve, list, number, ranges, table, text, texts};
use crate::measurement::ResultError;
use figures::{digits, grouped, seconds, si};
use pages::{Axis, AxisScale, Bar, Bars, Chart, Page, PagePart, PageTable, Series, Tone};
use serde_json::Value;
use std::collections::BTreeMap;
use watch::{Change, Figure, Sample, SampleReader, Saturation};

const CORE: [Column; 9] = [
    ("core", "/core", Shown::Count),
    ("gaps", "/gaps", Shown::Count),
    ("together", "/gap_nanos", Shown::Time),
    ("longest", "/longest_nanos", Shown::Time),
    ("seconds", "/seconds", Shown::Plain),
    ("a step", "/step_nanos", Shown::Time),
    ("stolen, ms", "/stolen_ms", Shown::Count),
    ("gaps without room", "/dropped", Shown::Count),
    ("events lost", "/lost_events", Shown::Count),
];

const CAUSE: [Column; 5] = [
    ("cause", "/cause", Shown::Text),
    ("gaps", "/gaps", Shown::Count),
    ("parts", "/parts", Shown::Count),
    ("time", "/nanos", Shown::Time),
    ("longest", "/longest_nanos", Shown::Time),
];

const WORST: [Column; 3] =
    [("at, s", "/at_seconds", Shown::Plain), ("long", "/nanos", Shown::Time), ("it went to", "/cause", Shown::Text)];

/// What takes busy cores' time.
pub fn noise(page: &mut Page, whole: &Value) {
    let cores = list(whole, "/cores");
    let of = |path: &'static str| cores.iter().filter_map(move |core| number(core, path));
    page.head.answer.push(format!(
        "{} gaps of {} and longer on {} cores, the longest {}",
        grouped(of("/gaps").sum::<f64>() as u64),
        seconds(number(whole, "/threshold_nanos").unwrap_or(0.0)),
        cores.len(),
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
    page.figure(table("", &CORE, cores));
    for core in cores {
        let name = format!("Core {}", text(core, "/core"));
        page.figure(table(&format!("{name}: what its gaps went to"), &CAUSE, list(core, "/causes")));
        page.tell(table(&format!("{name}: the longest gaps"), &WORST, list(core, "/worst")));
    }
    let line = |core: &Value| {
        let name = format!("core {}", text(core, "/core"));
        curve(name, list(core, "/histogram"), ["/from_nanos", "/gaps"], |_| true)
    };
    let gaps = Axis { scale: AxisScale::Logarithmic, ..Axis::counts("gaps") };
    let lines = cores.iter().map(line).collect();
    page.curve(Chart::new("Gaps by their length", Axis::times("how long, from"), gaps, lines));
    let sources = list(whole, "/sources").iter().map(|one| vec![text(one, "/name"), text(one, "/sight")]);
    page.tell(PageTable::new("Sources of latency", &["", "seen"]).with(sources));
    page.tell(PagePart::List(texts(whole, "/notes")));
}

/// Figures of the whole machine, with their names and units; the first are drawn.
const MACHINE: [(&str, &str); 17] = [
    ("cpu", "Processor time, %"),
    ("interrupts", "Interrupts, /s"),
    ("switches", "Context switches, /s"),
    ("syscalls", "System calls, /s"),
    ("in_bits", "Received, bit/s"),
    ("out_bits", "Sent, bit/s"),
    ("in_packets", "Packets received, /s"),
    ("out_packets", "Packets sent, /s"),
    ("connections", "TCP connections"),
    ("retransmissions", "Segments sent again, /s"),
    ("drops", "Packets dropped, /s"),
    ("overflows", "Connections lost to full accept queues, /s"),
    ("memory_free", "Free memory, B"),
    ("memory_traffic", "Memory traffic, B/s"),
    ("remote", "Accesses to another domain's memory, %"),
    ("own_cpu", "This program's own time, % of a core"),
    ("probe_cpu", "Its probes' time, % of a core"),
];
const DRAWN: usize = 4;

/// A machine over time.
pub fn recording(page: &mut Page, all: &[ReadResult]) -> Result<(), ResultError> {
    let changes = changes(&all[0].text)?;
    let mut saturation = Saturation::default();
    changes.iter().for_each(|change| saturation.on_change(change));
    page.head.answer.push(saturation.words());
    page.head.made = changes.last().map_or(0, |change| change.unix_ms / 1_000);
    let began = changes.first().map_or(0, |change| change.unix_ms);
    let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut missing: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, figure) in changes.iter().flat_map(|change| &change.machine) {
        match figure {
            Figure::Is(value) => figures.entry(name).or_default().push(*value),
            Figure::Missing(why) => _ = missing.insert(name, why),
        }
    }
    let known = MACHINE.iter().filter_map(|(key, name)| Some((name, figures.get(key)?)));
    let rows = known.map(|(name, values)| {
        let (low, high) =
            (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max));
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let [mean, low, high] = [mean, low, high].map(|value| if value < 1e5 { digits(value) } else { si(value, "") });
        vec![(*name).to_owned(), mean, low, high, grouped(values.len() as u64)]
    });
    page.figure(PageTable::new("The whole machine", &["", "mean", "least", "most", "intervals"]).with(rows));
    // A line over time; none of what never was.
    let line = |name: &str, value: &dyn Fn(&Change) -> Option<f64>| {
        let at = |change: &Change| change.unix_ms.saturating_sub(began) as f64 / 1e3;
        let points: Vec<_> = changes.iter().filter_map(|change| Some((at(change), value(change)?))).collect();
        points.iter().any(|(_, value)| *value > 0.0).then(|| Series::new(name, points))
    };
    let seconds = Axis::new("seconds", AxisScale::Near, digits);
    for (name, title) in &MACHINE[..DRAWN] {
        let series = line(name, &|change| change.machine.get(name)?.value()).into_iter().collect();
        page.curve(Chart::new(*title, seconds.clone(), Axis::counts(""), series));
    }
    let mut ports: Vec<&str> = changes.iter().flat_map(|change| &change.ports).map(|port| &*port.name).collect();
    ports.sort_unstable();
    ports.dedup();
    let port = |name: &&str| {
        line(name, &|change| {
            let port = change.ports.iter().find(|port| port.name == *name)?;
            Some(port.bits[0].value()? + port.bits[1].value()?)
        })
    };
    let bits = Axis::new("", AxisScale::Linear, |bits| si(bits, "bit/s"));
    page.curve(Chart::new("Interfaces, both ways", seconds, bits, ports.iter().filter_map(port).collect()));
    let missing = MACHINE.iter().filter_map(|(key, name)| Some((*name, *missing.get(key)?)));
    page.tell(PageTable::pairs("What is missing", ["", "why"], missing));
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

const ADVICE: [Column; 9] = [
    ("better", "/want", Shown::Text),
    ("why", "/why", Shown::Text),
    ("set by", "/set_by", Shown::Text),
    ("overruling", "/overruled", Shown::Text),
    ("see", "/counters", Shown::Text),
    ("gain", "/gain", Shown::Text),
    ("risk", "/risk", Shown::Text),
    ("undo", "/undo", Shown::Text),
    ("source", "/source", Shown::Text),
];

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
        let mut made = table(caption, &ADVICE, rows.iter().copied());
        made.heads.insert(0, "setting".to_owned());
        made.rows.iter_mut().zip(rows).for_each(|(made, row)| made.insert(0, name(row)));
        page.figure(made.judged(rows.iter().map(|row| word(row))));
    }
}

const DOMAIN: [Column; 5] = [
    ("domain", "/domain", Shown::Count),
    ("memory", "/memory_total", Shown::Bytes),
    ("free", "/memory_free", Shown::Bytes),
    ("cores", "/cores", Shown::Ranges),
    ("distances", "/distances", Shown::Text),
];

const PLACE: [Column; 8] = [
    ("core", "/core", Shown::Count),
    ("domain", "/domain", Shown::Count),
    ("package", "/package", Shown::Count),
    ("siblings", "/siblings", Shown::Ranges),
    ("shares its cache with", "/cache", Shown::Ranges),
    ("online", "/online", Shown::Text),
    ("allowed", "/allowed", Shown::Text),
    ("isolated", "/isolated", Shown::Text),
];

const INTERFACE: [Column; 9] = [
    ("interface", "/name", Shown::Text),
    ("domain", "/domain", Shown::Count),
    ("device", "/device", Shown::Text),
    ("speed", "/speed_bits", Shown::Bits),
    ("PCI Express", "/pci/link", Shown::Text),
    ("could be", "/pci/faults", Shown::Text),
    ("receive queues", "/rx_queues", Shown::Count),
    ("transmit queues", "/tx_queues", Shown::Count),
    ("interrupts", "/interrupts", Shown::Text),
];

const DISK: [Column; 7] = [
    ("disk", "/name", Shown::Text),
    ("kind", "/kind", Shown::Text),
    ("model", "/model", Shown::Text),
    ("domain", "/domain", Shown::Count),
    ("bytes", "/bytes", Shown::Bytes),
    ("PCI Express", "/pci/link", Shown::Text),
    ("could be", "/pci/faults", Shown::Text),
];

const WAY: [Column; 5] = [
    ("content is", "/way", Shown::Text),
    ("reads, B/s", "/reads", Shown::Bytes),
    ("writes, B/s", "/writes", Shown::Bytes),
    ("crossing, B/s", "/crossing", Shown::Bytes),
    ("remote", "/remote_share", Shown::Share),
];

const PASS: [Column; 3] = [
    ("pass", "/pass", Shown::Text),
    ("memory, B/s", "/memory", Shown::Bytes),
    ("crossing, B/s", "/crossing", Shown::Bytes),
];

const CARRIER: [Column; 6] = [
    ("part", "/part", Shown::Text),
    ("which", "/name", Shown::Text),
    ("asked, B/s", "/asked", Shown::Bytes),
    ("carries, B/s", "/carries", Shown::Bytes),
    ("from", "/from", Shown::Text),
    ("full at", "/full_at_bits", Shown::Bits),
];

const CROSSING: [Column; 4] = [
    ("siloed", "/siloed", Shown::Text),
    ("at worst", "/worst", Shown::Plain),
    ("expected", "/expected", Shown::Plain),
    ("", "/why_not", Shown::Text),
];

const SEEN: [Column; 3] =
    [("siloed", "/siloed", Shown::Text), ("remote", "/remote_share", Shown::Share), ("", "/why", Shown::Text)];

/// What a rate costs.
pub fn budget(page: &mut Page, whole: &Value) {
    page.head.of = text(whole, "/of/name");
    page.head.answer.extend(texts(whole, "/to_change"));
    page.figure(table("Ways of sending", &WAY, list(whole, "/ways")));
    let mut bars = Vec::new();
    for (colour, way) in list(whole, "/ways").iter().enumerate() {
        let name = text(way, "/way");
        page.figure(table(&format!("{name}: passes over memory"), &PASS, list(way, "/passes")));
        page.figure(table(&format!("{name}: what carries it, the fullest first"), &CARRIER, list(way, "/loads")));
        for part in list(way, "/loads") {
            if let Some(rate) = number(part, "/full_at_bits") {
                let part = format!("{} {}", text(part, "/part"), text(part, "/name"));
                bars.push(Bar::new([&name, &part], colour, rate, si(rate, "bit/s")));
            }
        }
    }
    page.figure(table("Crossings of each byte sent", &CROSSING, list(whole, "/crossings")));
    page.figure(table("Published beside the model", &SEEN, list(whole, "/seen")));
    let title = "The rate of content at which each part is full";
    page.curve(Bars { rows: bars, ..Bars::new(title, "bit/s", |rate| si(rate, "bit/s")) });
    let from = texts(whole, "/of/published_from");
    if !from.is_empty() {
        page.tell(PagePart::Text("Published figures; nothing of them was measured:".to_owned()));
        page.tell(PagePart::List(from));
    }
    page.tell(PagePart::List(texts(whole, "/notes")));
}

const REACH: [Column; 4] = [
    ("cores of", "/from", Shown::Count),
    ("memory of", "/to", Shown::Count),
    ("latency", "/latency_nanos", Shown::Time),
    ("reads, B/s", "/bytes_per_second", Shown::Bytes),
];

/// Cores, domains, interfaces and disks.
pub fn topology(page: &mut Page, whole: &Value) {
    let parts: [(&str, &str, &[Column]); 4] = [
        ("NUMA domain", "/domains", &DOMAIN),
        ("core", "/cores", &PLACE),
        ("interface", "/interfaces", &INTERFACE),
        ("disk", "/disks", &DISK),
    ];
    let count = |(name, path, _): (&str, &str, _)| match list(whole, path).len() {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    page.head.answer.push(parts.map(count).join(", "));
    page.curve(super::domains::places(whole));
    for (name, path, columns) in parts {
        let mut rows = list(whole, path).to_vec();
        for row in &mut rows {
            let on = |one: &Value| format!("{} on {}", text(one, "/number"), ranges(list(one, "/cores")));
            let told: Vec<String> = list(row, "/interrupts").iter().map(on).collect();
            if let Some(interrupts) = row.get_mut("interrupts") {
                *interrupts = told.into();
            }
        }
        page.figure(table(&format!("The {name}s"), columns, &rows));
    }
    page.figure(table("Measured between domains", &REACH, list(whole, "/reach")));
    page.head.answer.extend(Some(text(whole, "/division")).filter(|division| !division.is_empty()));
    page.tell(PagePart::List(texts(whole, "/notes")));
}
