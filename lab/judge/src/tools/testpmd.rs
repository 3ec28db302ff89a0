//! testpmd's port statistics (`app/test-pmd/config.c`, `nic_stats_display`)
//! and forward statistics.

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::PublishedRun;
use crate::text::{AtLine, ReadError, Text};

const PROOF: &str = "counters of the switch or the other side, over the same time";

/// Counters that fell between two looks.
const FELL: &str = "a counter fell between two looks: it was cleared, or it wrapped; what is counted over it is lost";

/// Frames without their check sequence: the smallest, and the largest that
/// DPDK's drivers take.
const FRAMES: (f64, f64) = (60.0, 16_384.0);

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "testpmd".into(), tool: "testpmd", ..PublishedRun::default() };
    let mut port: Option<(u32, Vec<(String, Interval)>)> = None;
    let mut last: Vec<(u32, String, Interval)> = Vec::new();
    let (mut accumulated, mut sums) = (false, Vec::<(String, Interval)>::new());
    for (number, line) in text.numbered() {
        if let Some((_, rest)) = line.split_once("NIC statistics for port") {
            if port.is_some() {
                return Err(ReadError::new(number, "the statistics before these have no end"));
            }
            let id = rest.split_whitespace().next().and_then(|id| id.parse().ok());
            port = Some((id.ok_or_else(|| ReadError::new(number, "a port's number belongs here"))?, Vec::new()));
        } else if line.trim_start().starts_with("####") {
            if let Some((id, fields)) = port.take() {
                block(&mut run, id, &fields, &mut last);
            }
        } else if let Some((_, fields)) = &mut port {
            cells(line, number, fields)?;
        } else if line.contains("-bursts :") {
            bursts(&mut run, line, number)?;
        } else if line.contains("CPU cycles/packet=") {
            cycles(&mut run, line, number)?;
        } else if line.contains("Accumulated forward statistics") {
            accumulated = true;
        } else if line.trim_start().starts_with(['R', 'T']) && line.contains("-total:") {
            let mut fields = Vec::new();
            cells(line, number, &mut fields)?;
            total(&mut run, &fields);
            for (name, value) in fields {
                match (accumulated, sums.iter_mut().find(|sum| sum.0 == name)) {
                    (true, Some(sum)) => all_ports(&mut run, &name, sum.1, value),
                    (true, None) => {}
                    (false, Some(sum)) => sum.1 = sum.1 + value,
                    (false, None) => sums.push((name, value)),
                }
            }
        }
    }
    if run.relations.is_empty() {
        return Err(text.cut("any counters"));
    }
    match port {
        Some(_) => Err(text.cut("the end of a port's statistics")),
        None => Ok(run),
    }
}

/// `RX-packets: 56498304   RX-missed: 0   RX-bytes:  0`
fn cells(line: &str, number: usize, fields: &mut Vec<(String, Interval)>) -> Result<(), ReadError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    for pair in words.windows(2) {
        if let Some(key) = pair[0].strip_suffix(':') {
            let value = Interval::count(pair[1], number).map_err(|why| format!("{key}: {why}")).at(number)?;
            fields.push((key.to_owned(), value));
        }
    }
    match words.last() {
        Some(word) if word.ends_with(':') => Err(ReadError::new(number, format!("{word} has no value"))),
        _ => Ok(()),
    }
}

fn block(run: &mut PublishedRun, id: u32, fields: &[(String, Interval)], last: &mut Vec<(u32, String, Interval)>) {
    let find = |name: &str| fields.iter().find(|field| field.0 == name).map(|field| field.1);
    for side in ["RX", "TX"] {
        if let (Some(packets), Some(bytes)) = (find(&format!("{side}-packets")), find(&format!("{side}-bytes"))) {
            size(run, &format!("port {id} {side}"), packets, bytes);
        }
        let rate = if side == "RX" { "Rx" } else { "Tx" };
        if let (Some(pps), Some(bps)) = (find(&format!("{rate}-pps")), find(&format!("{rate}-bps"))) {
            size(run, &format!("port {id} {rate} per second"), pps, bps.times(0.125));
        }
    }
    for (name, value) in fields.iter().filter(|field| !field.0.ends_with("ps")) {
        match last.iter_mut().find(|old| old.0 == id && old.1 == *name) {
            Some(old) => {
                let arithmetic = format!("port {id} {name}: {} in line {}, then {value}", old.2, old.2.line);
                let proof = "one run without clearing, read often enough";
                run.relations
                    .push(Relation::new("counter", (old.2, AtMost, *value), FELL, arithmetic, proof).unproven());
                old.2 = *value;
            }
            None => last.push((id, name.clone(), *value)),
        }
    }
}

/// Bytes for each packet; drivers that count none print 0.
fn size(run: &mut PublishedRun, what: &str, packets: Interval, bytes: Interval) {
    if packets.middle() <= 0.0 && bytes.middle() > 0.0 {
        let says = format!("{what}: bytes without packets");
        let arithmetic = format!("{bytes} B in {packets} packets");
        run.relations.push(Relation::new("frame-size", (bytes, AtMost, packets), says, arithmetic, PROOF));
    }
    if packets.middle() <= 1.0 || bytes.middle() <= 0.0 {
        return;
    }
    // Rates are cut to whole packets, and read one after the other.
    let each = (bytes / packets).loose(0.01);
    let arithmetic = format!("{bytes} B / {packets} packets = {} B", bytes / packets);
    let least = Interval::exact(FRAMES.0, packets.line);
    let most = Interval::exact(FRAMES.1, packets.line);
    let says = format!("{what}: frames are smaller than Ethernet's smallest");
    run.relations.push(Relation::new("frame-size", (least, AtMost, each), says, arithmetic.clone(), PROOF));
    let says = format!("{what}: frames are larger than any that a driver takes");
    run.relations.push(Relation::new("frame-size", (each, AtMost, most), says, arithmetic, PROOF));
}

/// What is added up over all ports.
fn all_ports(run: &mut PublishedRun, name: &str, sum: Interval, said: Interval) {
    let arithmetic = format!("{sum} in all; {said} is said");
    let says = format!("the ports' {name} are more than that of all ports");
    run.relations.push(Relation::new("count", (sum, AtMost, said), says, arithmetic.clone(), PROOF));
    let says = format!("the ports' {name} are less than that of all ports: a port is left out, or one is wrong");
    run.relations.push(Relation::new("count", (said, AtMost, sum), says, arithmetic, PROOF).unproven());
}

/// `RX-bursts : 5150 [82% of 0 pkts + 18% of 1 pkts + 0% of others]`: shares that are cut to
/// whole percents, so that few of them lack a little.
fn bursts(run: &mut PublishedRun, line: &str, number: usize) -> Result<(), ReadError> {
    let (head, rest) = line.split_once('[').unwrap_or((line, ""));
    let count = head.split_once(':').map_or("", |(_, count)| count.trim());
    let count = Interval::count(count, number).at(number)?;
    let mut sum = Interval::exact(0.0, number);
    let mut parts = 0.0;
    for part in rest.trim_end().trim_end_matches(']').split('+').filter(|part| !part.trim().is_empty()) {
        let Some((share, _)) = part.split_once("% of") else {
            return Err(ReadError::new(number, format!("{:?} is no share of bursts", part.trim())));
        };
        let share = Interval::printed(share.trim(), number).at(number)?.middle();
        sum = sum + Interval::exact(share, number);
        parts += 1.0;
    }
    if count.middle() > 0.0 && parts > 0.0 {
        let says = "the shares of bursts do not add up";
        let right = Interval { low: 100.0 - parts, high: 100.0 + parts, line: number };
        run.relations.push(Relation::new("share", (sum, Equal, right), says, format!("{sum} %"), PROOF));
    }
    Ok(())
}

/// `CPU cycles/packet=602.98 (busy cycles=… / total io packets=…) at 2300 MHz Clock`, or `total
/// cycles`, or `total RX packets`, by version and mode.
fn cycles(run: &mut PublishedRun, line: &str, number: usize) -> Result<(), ReadError> {
    let after = |key: &str| {
        let rest = line.split_once(key)?.1.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        Some(Interval::printed(&rest[..end], number).at(number))
    };
    let each = after("cycles/packet=").transpose()?;
    let cycles = after(" cycles=").or_else(|| after("(cycles=")).transpose()?;
    let packets = after("packets=").transpose()?;
    let (Some(each), Some(cycles), Some(packets)) = (each, cycles, packets) else {
        return Err(ReadError::new(number, "cycles, packets and their ratio belong here: it is cut off"));
    };
    if packets.middle() > 0.0 {
        let exact = |figure: Interval| Interval::exact(figure.middle(), number);
        let right = exact(cycles) / exact(packets);
        let says = "the cycles of a packet are not the cycles by the packets";
        let arithmetic = format!("{cycles} / {packets} = {right}; {each} is said");
        // Before version 20, testpmd cut the ratio to whole cycles.
        let each = Interval { high: each.high + 1.0, ..each };
        run.relations.push(Relation::new("cycles", (each, Equal, right), says, arithmetic, PROOF));
    }
    Ok(())
}

/// `RX-packets: 10  RX-dropped: 2  RX-total: 12`
fn total(run: &mut PublishedRun, fields: &[(String, Interval)]) {
    let [(name, packets), (_, dropped), (_, total)] = fields else { return };
    let says = format!("{name} and dropped ones do not add up to the total");
    let arithmetic = format!("{packets} + {dropped} = {}; {total} is said", *packets + *dropped);
    run.relations.push(Relation::new("count", (*packets + *dropped, Equal, *total), says, arithmetic, PROOF));
}
