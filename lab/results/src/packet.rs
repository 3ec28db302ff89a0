//! What results of `nearside packet` have that can be compared: of trials, searches, RFC 2544,
//! devices and factors.

use ::packet::compare::{Better, RunFigure, Unit, figures as of_trial};
use ::packet::kept::Kept;
use environment::ResultKind;
use serde_json::{Value, json};

/// Whether a kind is the packet tester's.
pub fn is_one(kind: ResultKind) -> bool {
    use ResultKind::{
        PacketForward, PacketLab, PacketLatency, PacketLoad, PacketSearch, PacketSweep, Rfc2544, ZeroLoss,
    };
    matches!(
        kind,
        PacketLoad | PacketSearch | PacketLatency | Rfc2544 | ZeroLoss | PacketLab | PacketSweep | PacketForward
    )
}

/// The figures of a result of this kind.
///
/// # Errors
/// If what is to be a trial is none.
pub fn figures(kind: ResultKind, whole: &Value) -> Result<Vec<RunFigure>, serde_json::Error> {
    let list = |path: &str| whole.pointer(path).and_then(Value::as_array).into_iter().flatten();
    Ok(match kind {
        ResultKind::PacketLoad | ResultKind::PacketLatency | ResultKind::ZeroLoss => {
            let of_run = |(name, kept): (String, Kept)| {
                // One that stands alone has no name.
                let before = if name.is_empty() { name } else { format!("{name}: ") };
                of_trial(&kept.result)
                    .into_iter()
                    .map(move |one| RunFigure { of: format!("{before}{}", one.of), ..one })
            };
            runs(kind, whole)?.into_iter().flat_map(of_run).collect()
        }
        ResultKind::PacketSearch => of_search(whole, list("/found")),
        ResultKind::Rfc2544 => list("/results").flat_map(of_size).collect(),
        ResultKind::PacketSweep => list("/points").flat_map(of_point).collect(),
        ResultKind::PacketLab => list("/devices").flat_map(of_device).collect(),
        ResultKind::PacketForward => {
            at(whole, "/cycles_per_packet", "all ports", ("cycles per packet", Better::Lower, Unit::Plain))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    })
}

/// More than a trial counts, of frames or of nanoseconds: sums of such counts have no place.
const COUNT_LIMIT: u64 = 1 << 50;

/// The trials in a result, by what they were beside; one alone may have no name.
///
/// # Errors
/// If one is none.
pub fn runs(kind: ResultKind, whole: &Value) -> Result<Vec<(String, Kept)>, serde_json::Error> {
    fn is_counted(value: &Value) -> bool {
        match value {
            Value::Array(all) => all.iter().all(is_counted),
            Value::Object(all) => all.values().all(is_counted),
            value => value.as_u64().is_none_or(|count| count < COUNT_LIMIT),
        }
    }
    let all_of = |path: &str| whole.pointer(path).cloned().unwrap_or_else(|| json!([]));
    let all: Vec<(String, Value)> = match kind {
        ResultKind::PacketLoad => vec![(whole["beside"].as_str().unwrap_or_default().to_owned(), whole.clone())],
        ResultKind::PacketLatency => serde_json::from_value(all_of("/runs"))?,
        _ => serde_json::from_value(all_of("/measured/runs"))?,
    };
    let read = |(name, kept): (String, Value)| match is_counted(&kept["result"]) {
        true => Ok((name, serde_json::from_value(kept)?)),
        false => Err(serde::de::Error::custom(format!("{name}: it counts more than a trial does"))),
    };
    all.into_iter().map(read).collect()
}

/// A figure that a result has at `path`, if it has.
fn at(value: &Value, path: &str, of: &str, (figure, better, unit): (&str, Better, Unit)) -> Option<RunFigure> {
    let value = value.pointer(path)?.as_f64()?;
    Some(RunFigure { of: of.to_owned(), figure: figure.to_owned(), better: Some(better), unit, value })
}

/// Of each goal what is an answer.
fn of_search<'a>(value: &Value, found: impl Iterator<Item = &'a Value>) -> Vec<RunFigure> {
    let mut all: Vec<RunFigure> = Vec::new();
    for (path, name) in [("/highest_sent", "highest sent"), ("/highest_received", "highest received")] {
        all.extend(at(value, path, "all streams", (name, Better::Higher, Unit::FramesPerSecond)));
    }
    for one in found.filter(|one| one.get("open").is_some_and(Value::is_null)) {
        let goal = one.pointer("/goal/name").and_then(Value::as_str).unwrap_or("a goal");
        let rate = |name| (name, Better::Higher, Unit::FramesPerSecond);
        all.extend(at(one, "/lower", goal, rate("rate")));
        all.extend(at(one, "/conditional_throughput", goal, rate("conditional throughput")));
    }
    all
}

/// A frame size of RFC 2544.
fn of_size(size: &Value) -> Vec<RunFigure> {
    let condition =
        size.get("condition").map_or_else(String::new, |it| it.as_str().map_or(it.to_string(), str::to_owned));
    let of = format!("{} bytes, {condition}", size.get("size").and_then(Value::as_u64).unwrap_or(0));
    let mut all = Vec::new();
    if size.pointer("/throughput/open").is_some_and(Value::is_null) {
        all.extend(at(size, "/throughput/lower", &of, ("throughput", Better::Higher, Unit::FramesPerSecond)));
    }
    for way in size.get("latency").and_then(Value::as_array).into_iter().flatten() {
        let of = format!("{of}, {}", way.get("way").and_then(Value::as_str).unwrap_or(""));
        for (path, name) in
            [("/mean_ns", "latency mean"), ("/typical_ns", "latency typical"), ("/worst_ns", "latency worst")]
        {
            all.extend(at(way, path, &of, (name, Better::Lower, Unit::Nanoseconds)));
        }
    }
    for point in size.get("loss").and_then(Value::as_array).into_iter().flatten() {
        let figure = |name: &str| point.get(name).and_then(Value::as_f64);
        if let (Some(share), Some(offered), Some(lost)) = (figure("share"), figure("offered"), figure("lost"))
            && offered > 0.0
        {
            let of = format!("{of}, at {:.0} % of the highest rate", share * 100.0);
            let value = lost / offered;
            all.push(RunFigure { of, figure: "loss".into(), better: Some(Better::Lower), unit: Unit::Share, value });
        }
    }
    all
}

/// A value of a factor.
fn of_point(point: &Value) -> Vec<RunFigure> {
    if !point.get("missing").is_some_and(Value::is_null) {
        return Vec::new();
    }
    let of = point.get("point").and_then(Value::as_str).unwrap_or("a point");
    let figures = [
        ("/rate", "rate", Better::Higher, Unit::FramesPerSecond),
        ("/cpu_ns", "processor time of a frame", Better::Lower, Unit::Nanoseconds),
        ("/energy_uj", "energy of a frame, uJ", Better::Lower, Unit::Plain),
    ];
    figures.into_iter().filter_map(|(path, name, better, unit)| at(point, path, of, (name, better, unit))).collect()
}

/// A device of the table.
fn of_device(row: &Value) -> Vec<RunFigure> {
    let of = row.get("device").and_then(Value::as_str).unwrap_or("a device");
    let rate = |name| (name, Better::Higher, Unit::FramesPerSecond);
    let time = |name| (name, Better::Lower, Unit::Nanoseconds);
    let figures = [
        ("/mrr", rate("highest received")),
        ("/ndr", rate("ndr")),
        ("/pdr", rate("pdr")),
        ("/alone/0", time("latency median alone")),
        ("/alone/1", time("latency p99.9 alone")),
        ("/beside/0", time("latency median beside a background")),
        ("/beside/1", time("latency p99.9 beside a background")),
    ];
    figures.into_iter().filter_map(|(path, what)| at(row, path, of, what)).collect()
}
