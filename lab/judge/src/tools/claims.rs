//! Claims of articles: what no tool's output carries, in TOML.
//!
//! ```toml
//! [[claim]]
//! name = "the bypass side"
//! connections = 1000
//! requests_per_second = 379046
//! latency_mean_ms = "21.73"
//! ```
//!
//! Figures are numbers, taken as exact, or strings, taken as rounded to their
//! last digit. A key that is not known is an error.

use crate::checks::AT_LIMIT;
use crate::figure::{Interval, Show};
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, PublishedRun};
use crate::text::{AtLine, ReadError, Text, once};
use serde::Deserialize;

/// Of all claims in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Claim>,
}

/// A number, or one as it was printed.
#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Real(f64),
    Text(String),
}

/// One claim. Times carry their unit in the key; rates are per second; sizes
/// in bytes.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Claim {
    /// What it is called in findings.
    name: String,
    /// Where it was published.
    source: Option<String>,
    /// The comparison that this is a side of.
    comparison: Option<String>,
    connections: Option<Number>,
    requests: Option<Number>,
    requests_per_second: Option<Number>,
    duration_s: Option<Number>,
    response_bytes: Option<Number>,
    transfer_bytes: Option<Number>,
    transfer_bytes_per_second: Option<Number>,
    logs: Option<bool>,
    compression: Option<String>,
    latency_min_ms: Option<Number>,
    latency_mean_ms: Option<Number>,
    latency_deviation_ms: Option<Number>,
    latency_p50_ms: Option<Number>,
    latency_p99_ms: Option<Number>,
    latency_p999_ms: Option<Number>,
    latency_max_ms: Option<Number>,
    /// The smallest latency without load, of a claim whose own is under load.
    idle_latency_min_ms: Option<Number>,
    /// Share of the link's rate that was used.
    link_used_percent: Option<Number>,
    link_bits_per_second: Option<Number>,
    /// What `printed` is of: one quantity of one state.
    quantity: Option<String>,
    /// All values that are given for it.
    printed: Vec<Number>,
    /// The library that a function was counted in, and those in use.
    counted_in: Option<String>,
    loaded: Vec<String>,
    packets_per_second: Option<Number>,
    /// `one` or `both`: what a rate of packets counts.
    direction: Option<String>,
    /// What the counters show for the whole duration.
    packets_counted: Option<Number>,
    frame_bytes: Option<Number>,
    cycles_per_packet: Option<Number>,
    clock_hz: Option<Number>,
    cores: Option<Number>,
    polls_per_second: Option<Number>,
    /// Whether the poller never sleeps.
    busy_poller: Option<bool>,
    packets_lost: Option<Number>,
    packets_sent: Option<Number>,
    /// The bound on the share lost that is claimed.
    loss_below: Option<Number>,
    pause_frames: Option<bool>,
}

pub(super) fn parse(text: &Text) -> Result<Vec<PublishedRun>, ReadError> {
    let whole = text.lines.join("\n");
    let line_of = |at: usize| whole[..at.min(whole.len())].matches('\n').count() + 1;
    let file: File = toml::from_str(&whole)
        .map_err(|why| ReadError::new(why.span().map_or(1, |span| line_of(span.start)), why.message().to_owned()))?;
    let heads: Vec<usize> =
        text.numbered().filter(|(_, line)| line.trim() == "[[claim]]").map(|(number, _)| number).collect();
    let runs = file.claim.iter().enumerate();
    runs.map(|(at, claim)| claim.run(heads.get(at).copied().unwrap_or(0))).collect()
}

impl Claim {
    fn run(&self, line: usize) -> Result<PublishedRun, ReadError> {
        if self.name.is_empty() {
            return Err(ReadError::new(line, "a claim has to have a name"));
        }
        let get = |number: &Option<Number>| number.as_ref().map(|number| number.figure(line)).transpose();
        let name = match &self.source {
            Some(source) => format!("{} ({source})", self.name),
            None => self.name.clone(),
        };
        let mut run = PublishedRun {
            name,
            tool: "claim",
            claim: true,
            group: self.comparison.clone(),
            ..PublishedRun::default()
        };
        for (place, value, what) in [
            (&mut run.connections, &self.connections, "connections"),
            (&mut run.requests, &self.requests, "requests"),
            (&mut run.rate, &self.requests_per_second, "rate"),
            (&mut run.seconds, &self.duration_s, "duration"),
            (&mut run.size, &self.response_bytes, "size"),
            (&mut run.received, &self.transfer_bytes, "transfer"),
            (&mut run.received_rate, &self.transfer_bytes_per_second, "transfer rate"),
        ] {
            if let Some(value) = get(value)? {
                once(place, value, what)?;
            }
        }
        (run.logs, run.compression) = (self.logs, self.compression.clone());
        self.latency(&mut run, line)?;
        self.link(&mut run, line)?;
        self.repeated(&mut run, line)?;
        self.packets(&mut run, line)?;
        self.cycles(&mut run, line)?;
        self.loss(&mut run, line)?;
        Ok(run)
    }

    fn latency(&self, run: &mut PublishedRun, line: usize) -> Result<(), ReadError> {
        let milli = |number: &Option<Number>| -> Result<Option<Interval>, ReadError> {
            Ok(number.as_ref().map(|number| number.figure(line)).transpose()?.map(|figure| figure.times(1e-3)))
        };
        let mut latency = Latency { name: "latency".into(), off: Some(0.02), ..Latency::default() };
        (latency.min, latency.mean) = (milli(&self.latency_min_ms)?, milli(&self.latency_mean_ms)?);
        (latency.deviation, latency.max) = (milli(&self.latency_deviation_ms)?, milli(&self.latency_max_ms)?);
        for (share, value) in
            [(0.5, &self.latency_p50_ms), (0.99, &self.latency_p99_ms), (0.999, &self.latency_p999_ms)]
        {
            latency.percentiles.extend(milli(value)?.map(|value| (share, value)));
        }
        if let (Some(idle), Some(loaded)) = (milli(&self.idle_latency_min_ms)?, latency.min) {
            let says = "the smallest latency under load is below the smallest without";
            let arithmetic =
                format!("{} µs under load, {} µs without", Show(loaded.middle() * 1e6), Show(idle.middle() * 1e6));
            let proof =
                "idle states and frequency held fixed, the same path and the same stamps in both, in several rounds";
            run.relations
                .push(Relation::new("minimum-under-load", (idle, AtMost, loaded), says, arithmetic, proof).unproven());
        }
        latency.samples = run.requests.map(Interval::middle);
        run.latency.push(latency);
        Ok(())
    }

    fn link(&self, run: &mut PublishedRun, line: usize) -> Result<(), ReadError> {
        if let Some(used) = &self.link_used_percent {
            let used = used.figure(line)?;
            let proof = "the same load over a faster link: where the figure then stays, it is the server's";
            let full = Interval::exact(100.0, line);
            let says = "more than the whole link is used";
            run.relations.push(Relation::new("link", (used, AtMost, full), says, format!("{used} %"), proof));
            let says = "the link was at its limit: this is its figure, not the server's";
            let right = Interval::exact(AT_LIMIT * 100.0, line);
            run.relations
                .push(Relation::new("link", (used, AtMost, right), says, format!("{used} %"), proof).unproven());
        }
        if let (Some(link), Some(rate)) = (&self.link_bits_per_second, run.received_rate) {
            let link = link.figure(line)?;
            let says = "more was received than the link carries";
            let arithmetic = format!("{} bit/s over {link} bit/s", rate.times(8.0));
            let proof = "the interface's counters";
            run.relations.push(Relation::new("link", (rate.times(8.0), AtMost, link), says, arithmetic, proof));
        }
        Ok(())
    }

    /// One quantity of one state has one value.
    fn repeated(&self, run: &mut PublishedRun, line: usize) -> Result<(), ReadError> {
        let figures: Result<Vec<Interval>, ReadError> = self.printed.iter().map(|number| number.figure(line)).collect();
        let figures = figures?;
        if let Some(first) = figures.first() {
            let what = self.quantity.as_deref().unwrap_or("one quantity");
            let list: Vec<String> = figures.iter().map(|figure| Show(figure.middle()).to_string()).collect();
            let far = figures.iter().copied().find(|other| other.low > first.high || other.high < first.low);
            let says = format!("{what} is given with different values for one state");
            let arithmetic = list.join(", ");
            let proof = "one value with its run, or all rounds with their spread";
            let triple = (*first, Equal, far.unwrap_or(*first));
            run.relations.push(Relation::new("printed-twice", triple, says, arithmetic, proof));
        }
        if let Some(library) = &self.counted_in
            && !self.loaded.contains(library)
        {
            let says = format!(
                "counted in {library}, which the process did not use (it had {}): the count is of other callers",
                self.loaded.join(", ")
            );
            let proof = "the process's own /proc/PID/maps, and the count in the library that is in it";
            run.relations.push(Relation::missing("library", line, says, proof));
        } else if let Some(library) = &self.counted_in
            && let Some(other) = self.loaded.iter().find(|other| takes_the_calls(other))
            && !takes_the_calls(library)
        {
            // A C library is in every map; whose malloc is called is another question (ld.so(8)).
            let says = format!("counted in {library}, while {other} is loaded too, and takes malloc's calls first");
            let proof = "the count in the library whose symbol the process is bound to (LD_DEBUG=bindings)";
            run.relations.push(Relation::missing("library", line, says, proof));
        }
        Ok(())
    }

    fn packets(&self, run: &mut PublishedRun, line: usize) -> Result<(), ReadError> {
        let Some(rate) = &self.packets_per_second else { return Ok(()) };
        let rate = rate.figure(line)?;
        match self.direction.as_deref() {
            Some("one" | "both") => {}
            Some(other) => return Err(ReadError::new(line, format!("direction = {other:?}; it is one or both"))),
            None => {
                let says = format!("{rate} packets/s of one direction or of both is not said: a factor of two");
                let proof = "the rate of each port and direction";
                run.relations.push(Relation::missing("direction", line, says, proof));
            }
        }
        if let (Some(counted), Some(seconds)) = (&self.packets_counted, run.seconds) {
            let counted = counted.figure(line)?;
            let needed = rate * seconds;
            let says = "the counters do not hold the packets that were to pass";
            let arithmetic = format!("{rate}/s × {seconds} s = {needed}; {counted} were counted");
            let proof = "counters of every port at the start and the end, of both sides";
            run.relations.push(Relation::new("counter", (needed, AtMost, counted), says, arithmetic, proof));
        }
        if let (Some(bytes), Some(link)) = (&self.frame_bytes, &self.link_bits_per_second) {
            // Preamble, delimiter and gap are 20 bytes (IEEE 802.3, 4.4.2 and 3.2).
            let bits = (bytes.figure(line)? + Interval::exact(20.0, line)).times(8.0);
            let most = link.figure(line)? / bits;
            let most = if self.direction.as_deref() == Some("both") { most.times(2.0) } else { most };
            let says = "more packets than the link carries";
            let arithmetic = format!("at most {most}/s of {bits} bits each; {rate}/s is said");
            run.relations.push(Relation::new("link", (rate, AtMost, most), says, arithmetic, "the ports' counters"));
        }
        Ok(())
    }

    /// Cycles by packet against the clock; what a poll takes.
    fn cycles(&self, run: &mut PublishedRun, line: usize) -> Result<(), ReadError> {
        if let (Some(cycles), Some(clock), Some(rate)) =
            (&self.cycles_per_packet, &self.clock_hz, &self.packets_per_second)
        {
            let cores = self.cores.clone().unwrap_or(Number::Whole(1)).figure(line)?;
            let (cycles, clock, rate) = (cycles.figure(line)?, clock.figure(line)?, rate.figure(line)?);
            let most = clock * cores / cycles;
            let says = "the cycles per packet do not allow this rate";
            let arithmetic =
                format!("{clock} Hz × {cores} cores / {cycles} cycles = {most}/s at most; {rate}/s is said");
            let proof = "cycles and packets counted on the same cores over the same time";
            run.relations.push(Relation::new("cycles", (rate, AtMost, most), says, arithmetic, proof));
        }
        if let (Some(polls), Some(true)) = (&self.polls_per_second, self.busy_poller) {
            let polls = polls.figure(line)?;
            // An empty poll of a ring takes tens to hundreds of nanoseconds;
            // below this rate each takes more than ten microseconds.
            let least = Interval::exact(100_000.0, line);
            let says = "a poller that never sleeps polls far more often: either it sleeps, or each turn is long";
            let arithmetic = format!("1 / {polls} = {} µs for each poll", Show(1e6 / polls.middle()));
            let proof = "empty and full polls counted apart, with the time of a turn";
            run.relations.push(Relation::new("polls", (least, AtMost, polls), says, arithmetic, proof).unproven());
        }
        Ok(())
    }

    /// No loss in n packets shows, at 95 % confidence, a share below 3/n (the
    /// rule of three: Hanley and Lippman-Hand 1983).
    fn loss(&self, run: &mut PublishedRun, line: usize) -> Result<(), ReadError> {
        let Some(lost) = &self.packets_lost else { return Ok(()) };
        let lost = lost.figure(line)?;
        let sent = self.packets_sent.as_ref().map(|sent| sent.figure(line)).transpose()?;
        if let Some(sent) = sent {
            let arithmetic = format!("{lost} of {sent}");
            let says = "more lost than sent";
            run.relations.push(Relation::new("loss", (lost, AtMost, sent), says, arithmetic, "both sides' counters"));
        }
        if lost.high > 0.0 {
            return Ok(());
        }
        match (sent, &self.loss_below) {
            (None, _) => {
                let says = "no loss of how many packets is not said";
                run.relations.push(Relation::missing("zero-loss", line, says, "the number of packets sent"));
            }
            (Some(sent), Some(bound)) => {
                let (bound, shown) = (bound.figure(line)?, Interval::exact(3.0, line) / sent);
                let says = "so few packets without loss do not show so small a share of loss";
                let arithmetic = format!("3 / {sent} = {shown} at 95 %; {bound} is claimed");
                let relation =
                    Relation::new("zero-loss", (shown, AtMost, bound), says, arithmetic, "3 / bound packets or more");
                run.relations.push(relation.unproven());
            }
            (Some(_), None) => {}
        }
        if self.pause_frames.is_none() {
            let says = "no loss, and whether pause frames (IEEE 802.3x) held the sender back is not said";
            let proof = "flow control off on every port, or its counters";
            run.relations.push(Relation::missing("pause-frames", line, says, proof));
        }
        Ok(())
    }
}

/// Whether a library exists to stand before the C library's malloc.
fn takes_the_calls(library: &str) -> bool {
    ["jemalloc", "tcmalloc", "mimalloc", "hoard", "snmalloc", "rpmalloc"].iter().any(|name| library.contains(name))
}

impl Number {
    fn figure(&self, line: usize) -> Result<Interval, ReadError> {
        let figure = match self {
            Self::Whole(value) => Interval::exact(*value as f64, line),
            Self::Real(value) if value.is_finite() => Interval::exact(*value, line),
            Self::Real(_) => return Err(ReadError::new(line, "a figure is not finite")),
            Self::Text(text) => Interval::printed(text, line).at(line)?,
        };
        match figure.high < 0.0 {
            true => Err(ReadError::new(line, "a figure is negative")),
            false => Ok(figure),
        }
    }
}
