//! iperf3's text: `MBytes` count 1024 to the step, `Mbits` 1000.

use crate::figure::{Interval, prefix_power};
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::PublishedRun;
use crate::text::{AtLine, ReadError, Text};

pub(super) const PROOF: &str = "iperf3's output as JSON";

/// One line at the end, of a stream or of all.
#[derive(Clone)]
struct Row {
    all: bool,
    sender: bool,
    bytes: Interval,
}

/// Whether a line is an interval of a stream or of all, as an excerpt has it.
pub(super) fn is_row(line: &str) -> bool {
    line.starts_with('[') && line.contains(" sec ") && line.contains("bits/sec")
}

pub(super) fn is_head(line: &str) -> bool {
    line.starts_with("Connecting to host") || line.starts_with("Accepted connection from")
}

/// Whether a line is of a whole run: all of these stand at its end.
pub(super) fn is_end(line: &str) -> bool {
    is_row(line) && matches!(line.split_whitespace().next_back(), Some("sender" | "receiver"))
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "iperf3".into(), tool: "iperf3", ..PublishedRun::default() };
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in text.numbered() {
        let Some((id, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [interval, "sec", amount, unit, rate, rate_unit, ..] = words[..] else { continue };
        let (from, to) = interval.split_once('-').ok_or_else(|| ReadError::new(number, "an interval belongs here"))?;
        let seconds = Interval::printed(to, number).at(number)? - Interval::printed(from, number).at(number)?;
        // The start of a run is exact.
        let seconds = if from == "0.00" { Interval::printed(to, number).at(number)? } else { seconds };
        let bytes = Interval::bytes(&format!("{amount}{unit}"), 1024.0, number).at(number)?;
        let bits = bits(rate, rate_unit, number)?;
        let right = bytes.times(8.0) / seconds;
        let says = "the bit rate is not the transfer divided by the interval";
        let arithmetic = format!("{bytes} B × 8 / {seconds} s = {right} bit/s; {bits} bit/s is said");
        run.relations.push(Relation::new("rate", (bits, Equal, right.loose(0.002)), says, arithmetic, PROOF));
        if let Some(lost) = words.iter().position(|word| word.starts_with('(') && word.ends_with("%)")) {
            loss(&mut run, &words, lost, number)?;
        }
        let ends = words.last().copied();
        if ends == Some("sender") || ends == Some("receiver") {
            let sender = ends == Some("sender");
            rows.push(Row { all: id.trim() == "SUM", sender, bytes });
            if !sender {
                (run.received, run.received_rate) = (None, Some(bits));
            }
        }
    }
    // An excerpt may have intervals alone.
    if rows.is_empty() && run.relations.is_empty() {
        return Err(text.cut("the lines of sender and receiver"));
    }
    sums(&mut run, &rows, text.has(" connected to "));
    Ok(run)
}

fn bits(digits: &str, unit: &str, line: usize) -> Result<Interval, ReadError> {
    let power = unit.strip_suffix("bits/sec").and_then(prefix_power);
    let power =
        power.ok_or_else(|| ReadError::new(line, format!("{unit:?} is no unit of bit rates: it is cut off")))?;
    Ok(Interval::printed(digits, line).at(line)?.times(1000_f64.powi(power)))
}

/// `3/382 (0.79%)`
fn loss(run: &mut PublishedRun, words: &[&str], at: usize, line: usize) -> Result<(), ReadError> {
    let counts = at.checked_sub(1).and_then(|at| words[at].split_once('/'));
    let (lost, total) = counts.ok_or_else(|| ReadError::new(line, "lost and all datagrams belong here"))?;
    let (lost, total) = (Interval::count(lost, line).at(line)?, Interval::count(total, line).at(line)?);
    let text = words[at].trim_matches(['(', ')']).trim_end_matches('%');
    // Printed with two significant digits.
    let share = Interval::printed(text.split("e-").next().unwrap_or(text), line).at(line)?;
    let share = if text.contains("e-") { Interval { low: 0.0, high: 0.001, line } } else { share };
    let right = lost / total * Interval::exact(100.0, line);
    if total.middle() > 0.0 {
        let says = "the share of loss is not lost by all";
        let arithmetic = format!("{lost} / {total} = {right} %; {share} % is said");
        run.relations.push(Relation::new("loss", (share, Equal, right.loose(0.05)), says, arithmetic, PROOF));
        let arithmetic = format!("{lost} of {total}");
        run.relations.push(Relation::new("loss", (lost, AtMost, total), "more lost than sent", arithmetic, PROOF));
    }
    Ok(())
}

fn sums(run: &mut PublishedRun, rows: &[Row], whole: bool) {
    for sender in [true, false] {
        let of = |all: bool| rows.iter().filter(move |row| row.all == all && row.sender == sender);
        if let (Some(sum), Some(first)) = (of(true).next(), of(false).next()) {
            let parts = of(false).skip(1).fold(first.bytes, |sum, row| sum + row.bytes);
            let says = "the streams do not add up to the sum";
            let arithmetic = format!("{parts} B; {} B are said", sum.bytes);
            // An excerpt may leave streams out.
            let order = if whole { (sum.bytes, Equal, parts) } else { (parts, AtMost, sum.bytes) };
            run.relations.push(Relation::new("count", order, says, arithmetic, PROOF));
        }
    }
    for pair in rows.windows(2) {
        if pair[0].all == pair[1].all && pair[0].sender && !pair[1].sender {
            received(run, pair[0].bytes, pair[1].bytes);
        }
    }
}

pub(super) fn received(run: &mut PublishedRun, sent: Interval, received: Interval) {
    let says = "more was received than sent";
    let arithmetic = format!("{received} B of {sent} B");
    run.relations.push(Relation::new("transfer", (received, AtMost, sent), says, arithmetic, PROOF));
}
