//! A machine's domains as a picture: cores, memory, interfaces and disks where they are, links of
//! PCI Express beside what they could be, and what was measured from each domain to the memory of each.

use crate::cells::{list, number, ranges, text, texts};
use figures::{many, seconds, si};
use pages::{PlaceFrame, Placed, Places};
use serde_json::Value;

/// Colours of kinds.
const CORES: usize = 0;
const MEMORY: usize = 2;
const INTERFACES: usize = 1;
const DISKS: usize = 3;
const REACHES: usize = 4;

/// The picture of a topology.
pub fn places(whole: &Value) -> Places {
    let domains = list(whole, "/domains");
    let mut frames: Vec<PlaceFrame> = domains.iter().map(|domain| frame(whole, domain)).collect();
    let nowhere: Vec<Placed> = attached(whole, None);
    if !nowhere.is_empty() {
        frames.push(PlaceFrame { name: "No domain that is known".to_owned(), things: nowhere });
    }
    Places { title: title(whole), frames }
}

fn title(whole: &Value) -> String {
    let domains = many(list(whole, "/domains").len() as u64, "NUMA domain");
    match text(whole, "/processor") {
        processor if processor.is_empty() => domains,
        processor => format!("{processor}: {domains}"),
    }
}

fn frame(whole: &Value, domain: &Value) -> PlaceFrame {
    let number_of = number(domain, "/domain");
    let own = |core: &&Value| number(core, "/domain") == number_of;
    let cores: Vec<&Value> = list(whole, "/cores").iter().filter(own).collect();
    let package = cores.iter().find_map(|core| number(core, "/package"));
    let socket = package.map_or_else(String::new, |package| format!(", socket {package}"));
    let mut things = Vec::new();
    if !cores.is_empty() {
        let is = |core: &Value, path: &str| core.pointer(path).and_then(Value::as_bool).unwrap_or(false);
        let used: Vec<bool> = cores.iter().map(|core| is(core, "/online") && is(core, "/allowed")).collect();
        let isolated = cores.iter().filter(|core| is(core, "/isolated")).count();
        let mut told = vec![format!("{} to use of {}", used.iter().filter(|used| **used).count(), used.len())];
        told.extend((isolated > 0).then(|| format!("{isolated} isolated")));
        told.push(ranges(list(domain, "/cores")));
        things.push(Placed { squares: used, ..Placed::new(CORES, "cores", &told) });
    }
    if let Some(total) = number(domain, "/memory_total").filter(|total| *total > 0.0) {
        let free = number(domain, "/memory_free").unwrap_or(0.0).min(total);
        let told = [si(total, "B"), format!("{} free", si(free, "B"))];
        things.push(Placed { share: Some(1.0 - free / total), ..Placed::new(MEMORY, "memory", &told) });
    }
    things.extend(attached(whole, number_of));
    things.extend(reaches(whole, domain));
    PlaceFrame { name: format!("Domain {}{socket}", text(domain, "/domain")), things }
}

/// Interfaces with a device and disks of a domain; or of none.
fn attached(whole: &Value, domain: Option<f64>) -> Vec<Placed> {
    let is_here = |one: &&Value| number(one, "/domain") == domain;
    let is_real = |one: &&Value| one.pointer("/device").and_then(Value::as_bool) == Some(true);
    let interface = |one: &Value| {
        let speed = number(one, "/speed_bits").map(|bits| si(bits, "bit/s"));
        device(one, INTERFACES, speed.into_iter().collect())
    };
    let disk = |one: &Value| {
        let size = number(one, "/bytes").filter(|bytes| *bytes > 0.0).map(|bytes| si(bytes, "B"));
        let named = [text(one, "/kind"), text(one, "/model")].into_iter().filter(|word| !word.is_empty());
        device(one, DISKS, named.chain(size).collect())
    };
    let interfaces = list(whole, "/interfaces").iter().filter(is_here).filter(is_real).map(interface);
    interfaces.chain(list(whole, "/disks").iter().filter(is_here).map(disk)).collect()
}

/// Something that is plugged in: the bar is its link beside the most that it could have.
fn device(one: &Value, colour: usize, mut told: Vec<String>) -> Placed {
    let mut share = None;
    if let Some(bytes) = number(one, "/pci/bytes_per_second") {
        told.push(format!("{} ({} each way)", text(one, "/pci/link"), si(bytes, "B/s")));
        share = number(one, "/pci/device_bytes").filter(|most| *most > 0.0).map(|most| bytes / most);
    }
    Placed { faults: texts(one, "/pci/faults"), share, ..Placed::new(colour, text(one, "/name"), &told) }
}

/// From a domain's cores to the memory of each: what was measured, and how far firmware says that it is. The bar is the
/// bandwidth beside the most that was measured.
fn reaches(whole: &Value, from: &Value) -> Vec<Placed> {
    let (domains, reach) = (list(whole, "/domains"), list(whole, "/reach"));
    let most = reach.iter().filter_map(|pair| number(pair, "/bytes_per_second")).fold(0.0, f64::max);
    let placed = |(at, to): (usize, &Value)| {
        let ends = [from, to].map(|domain| number(domain, "/domain"));
        let pair =
            reach.iter().find(|pair| [number(pair, "/from"), number(pair, "/to")] == ends).unwrap_or(&Value::Null);
        let bytes = number(pair, "/bytes_per_second");
        let distance = number(from, &format!("/distances/{at}")).map(|far| format!("distance {far} by firmware"));
        let told = [number(pair, "/latency_nanos").map(seconds), bytes.map(|bytes| si(bytes, "B/s")), distance];
        let name = format!("to the memory of domain {}", text(to, "/domain"));
        let told: Vec<String> = told.into_iter().flatten().collect();
        Placed { share: bytes.map(|bytes| bytes / most), ..Placed::new(REACHES, name, &told) }
    };
    let others = domains.iter().enumerate().filter(|_| domains.len() > 1);
    others.map(placed).filter(|one| !one.told.is_empty()).collect()
}
