//! Pages of machines: their noise, what they did over time, their settings, their topology.

use super::cells::{Column, Shown, judged, list, number, table, text, texts};
use crate::measurement::ResultError;
use figures::{digits, grouped, seconds, si};
use pages::{Axis, AxisScale, Chart, Page, PagePart, PageTable, Series, Tone};
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

/// What takes busy cores' time.
pub fn noise(page: &mut Page, whole: &Value) {
    let cores = list(whole, "/cores");
    let longest = cores.iter().filter_map(|core| number(core, "/longest_nanos")).fold(0.0, f64::max);
    let threshold = number(whole, "/threshold_nanos").unwrap_or(0.0);
    let gaps: f64 = cores.iter().filter_map(|core| number(core, "/gaps")).sum();
    page.head.answer.push(format!(
        "{} gaps of {} and longer on {} cores, the longest {}",
        grouped(gaps as u64),
        seconds(threshold),
        cores.len(),
        seconds(longest)
    ));
    let expected = list(whole, "/expect").iter().map(|one| {
        let broken = texts(one, "/broken_by");
        let against = (!broken.is_empty()).then(|| format!("MISSED by core {}", broken.join(", ")));
        page.head.answer.extend(against.iter().map(|missed| format!("{}: {missed}", text(one, "/bound"))));
        judged(vec![text(one, "/bound")], against, "kept")
    });
    let expected: Vec<_> = expected.collect();
    page.figures.push(PageTable::new("What was expected", &["", "verdict"]).with(expected).into());
    page.figures.push(table("", &CORE, cores).into());
    for core in cores {
        let name = format!("Core {}", text(core, "/core"));
        page.figures.push(table(&format!("{name}: what its gaps went to"), &CAUSE, list(core, "/causes")).into());
        let columns = [
            ("at, s", "/at_seconds", Shown::Plain),
            ("long", "/nanos", Shown::Time),
            ("it went to", "/cause", Shown::Text),
        ];
        page.method.push(table(&format!("{name}: the longest gaps"), &columns, list(core, "/worst")).into());
    }
    let curve = |core: &Value| {
        let rows = list(core, "/histogram").iter();
        let points = rows.filter_map(|row| Some((number(row, "/from_nanos")?, number(row, "/gaps")?)));
        Series::new(format!("core {}", text(core, "/core")), points)
    };
    let x = Axis::new("how long, from", AxisScale::Logarithmic, seconds);
    let y = Axis::new("gaps", AxisScale::Logarithmic, |count| si(count, ""));
    page.curves.push(
        Chart { title: "Gaps by their length".to_owned(), x, y, series: cores.iter().map(curve).collect() }.into(),
    );
    let sources = list(whole, "/sources").iter().map(|one| vec![text(one, "/name"), text(one, "/sight")]);
    page.method.push(PageTable::new("Sources of latency", &["", "seen"]).with(sources).into());
    page.method.push(PagePart::List(texts(whole, "/notes")));
}

/// Figures of the whole machine that are drawn, with their titles and units.
const DRAWN: [(&str, &str); 4] = [
    ("cpu", "Processor time, %"),
    ("interrupts", "Interrupts, /s"),
    ("switches", "Context switches, /s"),
    ("syscalls", "System calls, /s"),
];

/// A machine over time.
pub fn recording(page: &mut Page, text: &str) -> Result<(), ResultError> {
    let mut samples = SampleReader::new(text.as_bytes());
    let (mut saturation, mut changes): (Saturation, Vec<Change>) = Default::default();
    let mut before: Option<Sample> = None;
    loop {
        match samples.read() {
            Ok(Some(sample)) => {
                let change = before.as_ref().and_then(|before| Change::between(before, &sample).ok());
                changes.extend(change.inspect(|change| saturation.on_change(change)));
                before = Some(sample);
            }
            Ok(None) => break,
            // Whoever was made while it wrote leaves a part of a line.
            Err(_) if before.is_some() => break,
            Err(why) => return Err(ResultError(why)),
        }
    }
    page.head.answer.push(saturation.words());
    page.head.made = changes.last().map(|change| change.unix_ms / 1_000);
    let began = changes.first().map_or(0, |change| change.unix_ms);
    let at = |change: &Change| change.unix_ms.saturating_sub(began) as f64 / 1e3;
    let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut missing: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, figure) in changes.iter().flat_map(|change| &change.machine) {
        match figure {
            Figure::Is(value) => figures.entry(name).or_default().push(*value),
            Figure::Missing(why) => _ = missing.insert(name, why),
        }
    }
    let rows = figures.iter().map(|(name, values)| {
        let (low, high) =
            values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let [mean, low, high] = [mean, low, high].map(|value| if value < 1e5 { digits(value) } else { si(value, "") });
        vec![name.replace('_', " "), mean, low, high, grouped(values.len() as u64)]
    });
    page.figures
        .push(PageTable::new("The whole machine", &["", "mean", "least", "most", "intervals"]).with(rows).into());
    let mut chart = |title: &str, format: fn(f64) -> String, series: Vec<Series>| {
        let (x, y) = (Axis::new("seconds", AxisScale::Near, digits), Axis::new("", AxisScale::Linear, format));
        if series.iter().any(|series| series.points.iter().any(|point| point.y > 0.0)) {
            page.curves.push(Chart { title: title.to_owned(), x, y, series }.into());
        }
    };
    for (name, title) in DRAWN {
        let points = changes.iter().filter_map(|change| Some((at(change), change.machine.get(name)?.value()?)));
        chart(title, |value| si(value, ""), vec![Series::new(name, points)]);
    }
    let mut ports: Vec<String> =
        changes.iter().flat_map(|change| &change.ports).map(|port| port.name.clone()).collect();
    ports.sort_unstable();
    ports.dedup();
    let port = |name: &String| {
        let points = changes.iter().filter_map(|change| {
            let port = change.ports.iter().find(|port| port.name == *name)?;
            Some((at(change), port.bits[0].value()? + port.bits[1].value()?))
        });
        Series::new(name.clone(), points)
    };
    let busy = ports.iter().map(port).filter(|series| series.points.iter().any(|point| point.y > 0.0));
    chart("Interfaces, both ways", |bits| si(bits, "bit/s"), busy.collect());
    page.method.push(PageTable::pairs("What is missing", ["", "why"], missing).into());
    Ok(())
}

/// Verdicts of the audit that ask for something, and how much; as it writes them.
const ASKS: [(&str, Tone); 8] = [
    ("dangerous", Tone::Bad),
    ("worse than default", Tone::Bad),
    ("conflicts", Tone::Bad),
    ("refused", Tone::Bad),
    ("removed", Tone::Bad),
    ("improvable", Tone::Mind),
    ("cannot be read", Tone::Mind),
    ("not known", Tone::Mind),
];

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
    let asks = |row: &Value| ASKS.iter().position(|(name, _)| *name == word(row));
    let name = |row: &Value| {
        let of = |path: &str, before: &str, after: &str| match text(row, path) {
            found if found.is_empty() => found,
            found => format!("{before}{found}{after}"),
        };
        format!("{}{}{}", text(row, "/key"), of("/subject", " [", "]"), of("/value", " = ", ""))
    };
    let tone = |row: &Value| asks(row).map_or(Tone::Good, |at| ASKS[at].1);
    let mut ranked: Vec<&Value> = rows.iter().collect();
    ranked.sort_by_key(|row| asks(row).unwrap_or(ASKS.len()));
    let verdict = &mut page.head.verdict;
    (verdict.word, verdict.tone) = match ranked.first().and_then(|row| asks(row)) {
        Some(at) => (ASKS[at].0.to_uppercase(), ASKS[at].1),
        None => ("OK".to_owned(), Tone::Good),
    };
    let worst = ranked.iter().filter(|row| tone(row) == Tone::Bad);
    verdict.reasons = worst.map(|row| format!("{}: {}", name(row), text(row, "/why"))).collect();
    let count = |word_of: &str| rows.iter().filter(|row| word(row) == word_of).count();
    let counts: Vec<String> = ASKS
        .iter()
        .map(|(name, _)| (count(name), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let others = rows.iter().filter(|row| asks(row).is_none()).count();
    page.head.answer.push(format!(
        "{}{}{others} ask for nothing",
        counts.join(", "),
        if counts.is_empty() { "" } else { "; " }
    ));
    let kernel = text(whole, "/kernel");
    page.head.of = format!(
        "the role {}, on Linux {}",
        text(whole, "/role"),
        if kernel.is_empty() { "of an unknown version" } else { &kernel }
    );
    let mut put = |caption: &str, rows: &[&Value]| {
        let mut made = table(caption, &ADVICE, rows.iter().copied());
        made.heads.insert(0, "setting".to_owned());
        made.heads.push("verdict".to_owned());
        for (made, row) in made.rows.iter_mut().zip(rows) {
            made.cells.insert(0, name(row));
            made.cells.push(word(row));
            made.tone = tone(row);
        }
        page.figures.push(made.into());
    };
    let (asking, quiet): (Vec<&Value>, Vec<&Value>) = ranked.into_iter().partition(|row| asks(row).is_some());
    put("What asks for something", &asking);
    put("What asks for nothing", &quiet);
}

/// Cores, domains and interfaces.
pub fn topology(page: &mut Page, whole: &Value) {
    let count = |path: &str| list(whole, path).len();
    page.head.answer.push(format!(
        "{} NUMA domains, {} cores, {} interfaces",
        count("/domains"),
        count("/cores"),
        count("/interfaces")
    ));
    let columns = [
        ("domain", "/domain", Shown::Count),
        ("memory", "/memory_total", Shown::Bytes),
        ("free", "/memory_free", Shown::Bytes),
        ("cores", "/cores", Shown::Text),
        ("distances", "/distances", Shown::Text),
    ];
    page.figures.push(table("Domains", &columns, list(whole, "/domains")).into());
    let columns = [
        ("core", "/core", Shown::Count),
        ("domain", "/domain", Shown::Count),
        ("package", "/package", Shown::Count),
        ("siblings", "/siblings", Shown::Text),
        ("shares its cache with", "/cache", Shown::Text),
        ("online", "/online", Shown::Text),
        ("allowed", "/allowed", Shown::Text),
        ("isolated", "/isolated", Shown::Text),
    ];
    page.figures.push(table("Cores", &columns, list(whole, "/cores")).into());
    let columns = [
        ("interface", "/name", Shown::Text),
        ("domain", "/domain", Shown::Count),
        ("device", "/device", Shown::Text),
        ("receive queues", "/rx_queues", Shown::Count),
        ("transmit queues", "/tx_queues", Shown::Count),
        ("interrupts", "/interrupts", Shown::Text),
    ];
    page.figures.push(table("Interfaces", &columns, list(whole, "/interfaces")).into());
}
