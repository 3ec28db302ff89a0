//! What was measured between domains, kept for the next time on the same machine.

use reach::{Reach, Reaches};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{IsTerminal, Read as _, Write as _};
use std::path::{Path, PathBuf};
use topology::Topology;

/// Longer files are none of ours.
const FILE_LIMIT: u64 = 1 << 20;

/// Measures now, tells how far it is, and keeps what was found. Why it is not kept is told.
pub fn measured(topology: &Topology) -> Reaches {
    let mut error = std::io::stderr();
    let terminal = error.is_terminal();
    let mut reaches = reach::measure(topology, &mut |done, all| {
        if terminal {
            let _ = write!(error, "\r\x1b[Kmeasures memory from domain to domain: {done} of {all}");
            let _ = error.flush();
        }
    });
    if terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    if cfg!(debug_assertions) {
        let why = "this program was built without optimization: it measures itself, and remembers nothing";
        reaches.missing.push(why.to_owned());
        return reaches;
    }
    let kept = place().ok_or_else(|| "neither XDG_CACHE_HOME nor HOME is set".to_owned());
    if let Err(why) = kept.and_then(|place| keep(&place, topology, &reaches)) {
        reaches.missing.push(format!("what was measured is not remembered: {why}"));
    }
    reaches
}

/// What was measured on this machine before; nothing where that was never done, or on another one.
pub fn known(topology: &Topology) -> Vec<Reach> {
    place().map(|place| read(&place, topology)).unwrap_or_default()
}

fn place() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")))?;
    Some(folder.join("nearside/reach.json"))
}

/// What tells machines apart, and one whose memory or processors were changed.
fn machine(topology: &Topology) -> String {
    let domains = topology
        .domains
        .iter()
        .map(|domain| format!("{} {} {}", domain.number, domain.cores.len(), domain.memory_total));
    format!("{}; {}", topology.processor, domains.collect::<Vec<_>>().join("; "))
}

fn keep(place: &Path, topology: &Topology, reaches: &Reaches) -> Result<(), String> {
    let told = |why: std::io::Error| format!("{}: {why}", place.display());
    let folder = place.parent().ok_or("it has no folder")?;
    std::fs::create_dir_all(folder).map_err(told)?;
    let value = json!({ "machine": machine(topology), "pairs": pairs_json(&reaches.pairs) });
    // Whoever reads meanwhile has the one before, or this one.
    let draft = folder.join(format!("reach.{}.next", std::process::id()));
    let written = std::fs::write(&draft, format!("{value:#}\n")).and_then(|()| std::fs::rename(&draft, place));
    written.map_err(|why| {
        let _ = std::fs::remove_file(&draft);
        told(why)
    })
}

fn read(place: &Path, topology: &Topology) -> Vec<Reach> {
    let mut text = String::new();
    let read = File::open(place).and_then(|file| file.take(FILE_LIMIT).read_to_string(&mut text));
    let value: Value = read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    if value["machine"].as_str() != Some(&machine(topology)) {
        return Vec::new();
    }
    let pair = |pair: &Value| {
        let domain = |name: &str| {
            let number = u16::try_from(pair[name].as_u64()?).ok()?;
            topology.domain(number).map(|domain| domain.number)
        };
        let figure = |name: &str| pair[name].as_f64().filter(|value| value.is_finite() && *value > 0.0);
        Some(Reach {
            from: domain("from")?,
            to: domain("to")?,
            nanos: figure("latency_nanos")?,
            bytes: figure("bytes_per_second")?,
        })
    };
    value["pairs"].as_array().map(|pairs| pairs.iter().filter_map(pair).collect()).unwrap_or_default()
}

/// Pairs as JSON.
pub fn pairs_json(pairs: &[Reach]) -> Value {
    let pair = |pair: &Reach| {
        let Reach { from, to, nanos, bytes } = pair;
        json!({ "from": from, "to": to, "latency_nanos": nanos, "bytes_per_second": bytes })
    };
    Value::Array(pairs.iter().map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Recording;

    fn topology(memory: u64) -> Topology {
        let node = |number| {
            format!(
                "sys/devices/system/node/node{number}/cpulist {number}\nsys/devices/system/node/node{number}/meminfo Node {number} MemTotal: {memory} kB\n"
            )
        };
        let text = format!("sys/devices/system/cpu/possible 0-1\n{}{}", node(0), node(1));
        Topology::of(&Recording::parse(&text).unwrap(), None).unwrap()
    }

    #[test]
    fn what_is_kept_is_read_on_the_same_machine_alone() {
        let folder = std::env::temp_dir().join(format!("nearside-reach-{}", std::process::id()));
        let place = folder.join("deep/reach.json");
        let (one, other) = (topology(1_000), topology(2_000));
        let pair = Reach { from: 0, to: 1, nanos: 130.5, bytes: 3e10 };
        assert!(read(&place, &one).is_empty(), "nobody measured");
        keep(&place, &one, &Reaches { pairs: vec![pair], missing: Vec::new() }).unwrap();
        assert_eq!(read(&place, &one), [pair]);
        assert!(read(&place, &other).is_empty(), "its memory was changed");
        for (text, count) in [
            ("{", 0),
            ("[]", 0),
            (r#"{"machine": 1, "pairs": []}"#, 0),
            (r#"{"machine": "M", "pairs": [{"from": 9, "to": 0, "latency_nanos": 1, "bytes_per_second": 1}, 7]}"#, 0),
            (r#"{"machine": "M", "pairs": [{"from": 0, "to": 0, "latency_nanos": -1, "bytes_per_second": 1}]}"#, 0),
            (r#"{"machine": "M", "pairs": [{"from": 1, "to": 0, "latency_nanos": 1, "bytes_per_second": 1}]}"#, 1),
        ] {
            std::fs::write(&place, text.replace("\"M\"", &json!(machine(&one)).to_string())).unwrap();
            assert_eq!(read(&place, &one).len(), count, "{text}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
