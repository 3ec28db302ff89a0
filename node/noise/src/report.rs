//! What a run found, for people and for programs.

use crate::bound::{Bound, Figures};
use crate::sources::{Source, grouped};
use crate::tally::{ROWS, Tally};
use crate::witness::{Beside, Witness};
use core::fmt;
use serde::Serialize;

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct NoiseReport {
    /// What took longer was a gap, nanoseconds.
    pub threshold_nanos: u64,
    /// How long the loops ran.
    pub seconds: f64,
    /// By core.
    pub cores: Vec<CoreReport>,
    /// The sources of latency that people list.
    pub sources: Vec<Source>,
    /// Processor time of the thread that listened; `None` where the kernel keeps
    /// no account of it.
    pub listener_seconds: Option<f64>,
    /// What is missing.
    pub notes: Vec<String>,
}

/// A core.
#[derive(Clone, Debug, Serialize)]
pub struct CoreReport {
    /// Its number.
    pub core: u16,
    /// How long its loop ran.
    pub seconds: f64,
    /// A step of the loop, nanoseconds: nothing shorter is seen.
    pub step_nanos: f64,
    /// Gaps.
    pub gaps: u64,
    /// Their time, nanoseconds.
    pub gap_nanos: u64,
    /// The longest, nanoseconds.
    pub longest_nanos: u64,
    /// Causes, those that took most first.
    pub causes: Vec<CauseReport>,
    /// How many gaps were how long.
    pub histogram: Vec<RowReport>,
    /// The longest gaps.
    pub worst: Vec<GapReport>,
    /// Gaps from whose time events are missing.
    pub incomplete: u64,
    /// Gaps for which there was no room: they are in none of these figures.
    pub dropped: u64,
    /// Events that were lost.
    pub lost_events: u64,
    /// What its interrupts and softirqs were counted, by the kernel.
    pub counts: Vec<(String, u64)>,
    /// What the hypervisor took of it, as far as it says so; in steps of 10 ms.
    pub stolen_ms: Option<u64>,
    /// What the kernel's own tracer of noise found, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub osnoise: Option<Vec<Beside>>,
    /// What looking cost.
    pub cost: Cost,
}

/// What gaps went to one cause.
#[derive(Clone, Debug, Serialize)]
pub struct CauseReport {
    /// The kind of cause.
    pub kind: &'static str,
    /// The cause.
    pub cause: String,
    /// Gaps that went mostly to it.
    pub gaps: u64,
    /// The longest of them, nanoseconds.
    pub longest_nanos: u64,
    /// Gaps in which it had a part.
    pub parts: u64,
    /// Its time in all gaps, nanoseconds.
    pub nanos: u64,
    /// Of a thread, what interrupts took while it had the core: no part of its
    /// time here, but of what the kernel counts as its.
    #[serde(skip_serializing_if = "is_zero")]
    pub interrupted_nanos: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(nanos: &u64) -> bool {
    *nanos == 0
}

/// A row of the histogram.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RowReport {
    /// Where it begins, nanoseconds.
    pub from_nanos: u64,
    /// Gaps that were so long, and not as long as the next row's.
    pub gaps: u64,
}

/// One gap.
#[derive(Clone, Debug, Serialize)]
pub struct GapReport {
    /// Since the loops began, seconds.
    pub at_seconds: f64,
    /// How long, nanoseconds.
    pub nanos: u64,
    /// What most of it went to.
    pub cause: String,
    /// All of it: causes and nanoseconds.
    pub parts: Vec<(String, u64)>,
}

/// What looking cost a core.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// Tracepoints that came by.
    pub hits: u64,
    /// Nanoseconds for each, measured here; `None` where there are none.
    pub nanos_per_hit: Option<f64>,
    /// What they took together: it is a part of the gaps.
    pub hits_nanos: f64,
    /// What writing gaps down took: it is no part of them.
    pub writing_nanos: f64,
}

impl CoreReport {
    /// What a core's gaps were.
    #[expect(clippy::too_many_arguments, reason = "each is a figure of its own, and this is the only caller's list")]
    #[must_use]
    pub(crate) fn new(
        core: u16,
        nanos: f64,
        step_nanos: f64,
        began: u64,
        tally: &Tally,
        cost: Cost,
        dropped: u64,
        lost_events: u64,
    ) -> Self {
        let one = |cause: String, kind: &'static str, account: &crate::Account, interrupted_nanos: u64| CauseReport {
            kind,
            cause,
            gaps: account.gaps,
            longest_nanos: account.longest,
            parts: account.parts,
            nanos: account.nanos,
            interrupted_nanos,
        };
        let mut causes: Vec<CauseReport> = tally
            .causes()
            .into_iter()
            .map(|(cause, account)| one(cause.to_string(), cause.kind(), account, tally.interrupted(cause)))
            .collect();
        if tally.others.parts > 0 {
            causes.push(one("others".to_owned(), "others", &tally.others, 0));
        }
        let worst = tally.worst.iter().map(|named| GapReport {
            at_seconds: named.gap.from.saturating_sub(began) as f64 / 1e9,
            nanos: named.gap.nanos(),
            cause: named.verdict.cause.to_string(),
            parts: named.verdict.parts.iter().map(|(cause, nanos)| (cause.to_string(), *nanos)).collect(),
        });
        let rows = ROWS.into_iter().zip(tally.rows).filter(|(_, gaps)| *gaps > 0);
        Self {
            core,
            seconds: nanos / 1e9,
            step_nanos,
            gaps: tally.gaps,
            gap_nanos: tally.nanos,
            longest_nanos: tally.longest(),
            causes,
            histogram: rows.map(|(from_nanos, gaps)| RowReport { from_nanos, gaps }).collect(),
            worst: worst.collect(),
            incomplete: tally.incomplete,
            dropped,
            lost_events,
            counts: Vec::new(),
            stolen_ms: None,
            osnoise: None,
            cost,
        }
    }

    /// What the kernel's tracer found, beside the causes here.
    pub(crate) fn beside(&self, witness: &Witness) -> Vec<Beside> {
        witness.beside(self.causes.iter().map(|one| (one.kind, one.nanos)))
    }

    /// What bounds are about.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let seconds = self.seconds.max(1e-9);
        Figures {
            max: self.longest_nanos as f64,
            share: self.gap_nanos as f64 / 1e9 / seconds,
            rate: (self.gaps + self.dropped) as f64 / seconds,
        }
    }
}

/// What became of a bound.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The bound.
    pub bound: Bound,
    /// Cores that do not keep it.
    pub broken_by: Vec<u16>,
}

impl NoiseReport {
    /// Holds every core against bounds. A core whose loop did not run, or that
    /// had gaps without room for them, keeps none.
    #[must_use]
    pub fn judge(&self, bounds: &[Bound]) -> Vec<Judged> {
        let broken = |bound: &Bound| {
            let breaks =
                |core: &&CoreReport| core.seconds <= 0.0 || core.dropped > 0 || !bound.is_kept(&core.figures());
            self.cores.iter().filter(breaks).map(|core| core.core).collect()
        };
        bounds.iter().map(|bound| Judged { bound: bound.clone(), broken_by: broken(bound) }).collect()
    }
}

impl fmt::Display for NoiseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for core in &self.cores {
            core.show(f, self.threshold_nanos)?;
            writeln!(f)?;
        }
        writeln!(f, "sources of latency")?;
        for hardware in [true, false] {
            writeln!(f, "  {}", if hardware { "hardware" } else { "software" })?;
            for source in self.sources.iter().filter(|source| source.hardware == hardware) {
                writeln!(f, "    {:<34} {:<14} {}", source.name, source.sight.word(), source.sight.detail())?;
            }
        }
        writeln!(f)?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        match self.listener_seconds {
            Some(seconds) => writeln!(f, "listening took {} of processor time elsewhere", nanos(seconds * 1e9)),
            None => Ok(()),
        }
    }
}

/// Rows of a table that has no end of its own.
const SHOWN: usize = 20;

impl CoreReport {
    fn show(&self, f: &mut fmt::Formatter<'_>, threshold: u64) -> fmt::Result {
        let share = self.figures().share * 100.0;
        writeln!(
            f,
            "core {}: {:.1} s; {} gaps of {} and longer, {} together ({share:.4} %), the longest {}",
            self.core,
            self.seconds,
            grouped(self.gaps),
            nanos(threshold as f64),
            nanos(self.gap_nanos as f64),
            nanos(self.longest_nanos as f64)
        )?;
        self.show_causes(f)?;
        if !self.histogram.is_empty() {
            let most = self.histogram.iter().map(|row| row.gaps).max().unwrap_or(1).max(1);
            writeln!(f, "  {:>8}  {:>10}", "from", "gaps")?;
            for row in &self.histogram {
                let bar = "#".repeat(((row.gaps * 40).div_ceil(most)) as usize);
                writeln!(f, "  {:>8}  {:>10}  {bar}", nanos(row.from_nanos as f64), grouped(row.gaps))?;
            }
        }
        if !self.worst.is_empty() {
            writeln!(f, "  the longest: at, how long, what it went to")?;
        }
        for gap in self.worst.iter().take(SHOWN / 2) {
            let parts: Vec<String> =
                gap.parts.iter().take(4).map(|(cause, part)| format!("{cause} {}", nanos(*part as f64))).collect();
            writeln!(f, "  {:>9.4} s  {:>8}  {}", gap.at_seconds, nanos(gap.nanos as f64), parts.join(", "))?;
        }
        if !self.counts.is_empty() {
            let counts: Vec<String> =
                self.counts.iter().take(12).map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
            writeln!(f, "  the kernel counted: {}", counts.join("; "))?;
        }
        self.show_limits(f)
    }

    fn show_causes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.causes.is_empty() {
            return Ok(());
        }
        writeln!(f, "  {:>9} {:>9} {:>9}  {:>9}  cause", "gaps", "parts", "time", "longest")?;
        for one in self.causes.iter().take(SHOWN) {
            let longest = if one.gaps > 0 { nanos(one.longest_nanos as f64) } else { "-".to_owned() };
            let time = nanos(one.nanos as f64);
            writeln!(f, "  {:>9} {:>9} {time:>9}  {longest:>9}  {}", grouped(one.gaps), grouped(one.parts), one.cause)?;
        }
        match self.causes.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(f, "  and {more} more; --json has all"),
        }
    }

    fn show_limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stolen) = self.stolen_ms.filter(|stolen| *stolen > 0) {
            writeln!(f, "  the hypervisor took {stolen} ms, as far as it says so")?;
        }
        for one in self.osnoise.iter().flatten().filter(|one| one.times > 0) {
            let (theirs, here) = (nanos(one.nanos as f64), nanos(one.here_nanos as f64));
            let times = grouped(one.times);
            writeln!(f, "  the kernel's tracer osnoise found {times} {} of {theirs} in all, {here} here", one.kind)?;
        }
        if self.incomplete + self.dropped + self.lost_events > 0 {
            writeln!(
                f,
                "  {} events were lost: {} gaps are named by a part of them; {} gaps had no room and are left out",
                grouped(self.lost_events),
                grouped(self.incomplete),
                grouped(self.dropped)
            )?;
        }
        let cost = &self.cost;
        let hits = match cost.nanos_per_hit {
            Some(each) => format!(
                "{} tracepoints of {} each, {} of the gaps' time; ",
                grouped(cost.hits),
                nanos(each),
                nanos(cost.hits_nanos)
            ),
            None => String::new(),
        };
        writeln!(
            f,
            "  what looking cost: {hits}writing gaps down {}, not in them; a step of the loop takes {}",
            nanos(cost.writing_nanos),
            nanos(self.step_nanos)
        )
    }
}

/// Nanoseconds in the unit that suits, three digits of them.
#[must_use]
pub fn nanos(value: f64) -> String {
    let (value, unit) = match value {
        v if v < 1e3 => (v, "ns"),
        v if v < 1e6 => (v / 1e3, "us"),
        v if v < 1e9 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    let places = match value {
        v if unit == "ns" && v >= 10.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A line for each gap, for programs: what `--gaps` writes.
#[derive(Clone, Debug, Serialize)]
pub struct GapLine {
    core: u16,
    /// When it began, nanoseconds of CLOCK_MONOTONIC_RAW.
    raw_nanos: u64,
    nanos: u64,
    kind: &'static str,
    cause: String,
    parts: Vec<(String, u64)>,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    incomplete: bool,
}

impl GapLine {
    /// Of a core's gap.
    #[must_use]
    pub fn new(core: u16, named: &crate::Named) -> Self {
        let verdict = &named.verdict;
        Self {
            core,
            raw_nanos: named.gap.from,
            nanos: named.gap.nanos(),
            kind: verdict.cause.kind(),
            cause: verdict.cause.to_string(),
            parts: verdict.parts.iter().map(|(cause, nanos)| (cause.to_string(), *nanos)).collect(),
            incomplete: verdict.incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::sources::{Sight, sources};
    use crate::{Attribution, Gap, Named};

    fn report() -> NoiseReport {
        let mut tally = Tally::default();
        for (at, length, cause) in [(1_000, 3_000, Cause::Tick), (900_000, 200_000, Cause::Unknown)] {
            let verdict = Attribution {
                cause: cause.clone(),
                parts: vec![(cause, length)],
                interrupted: vec![],
                incomplete: false,
            };
            tally.add(Named { gap: Gap { from: at, until: at + length }, verdict });
        }
        let cost = Cost { hits: 12, nanos_per_hit: Some(250.0), hits_nanos: 3_000.0, writing_nanos: 80.0 };
        NoiseReport {
            threshold_nanos: 2_000,
            seconds: 2.0,
            cores: vec![CoreReport::new(3, 2e9, 12.0, 500, &tally, cost, 0, 0)],
            sources: sources(core::array::from_fn(|at| Sight::NotSeen(format!("by {at}")))),
            listener_seconds: Some(0.012),
            notes: vec!["something is missing".into()],
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        let text = report().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "core 3: 2.0 s; 2 gaps of 2 us and longer, 203 us together (0.0101 %), the longest 200 us"
        );
        assert_eq!(lines[2], "          1         1    200 us     200 us  unknown");
        assert!(lines.contains(&"      2 us           1  ########################################"), "{text}");
        assert!(lines.contains(&"     0.0009 s    200 us  unknown 200 us"), "{text}");
        assert!(
            text.contains("12 tracepoints of 250 ns each, 3 us of the gaps' time; writing gaps down 80 ns"),
            "{text}"
        );
        assert!(text.contains("    cache misses                       not seen       by 5\n"), "{text}");
        assert!(text.ends_with("note: something is missing\nlistening took 12 ms of processor time elsewhere\n"));
    }

    #[test]
    fn bounds_are_every_cores() {
        let bounds = Bound::parse_list("max<150us,share<1%,rate<=1").expect("bounds");
        let mut report = report();
        let broken =
            |report: &NoiseReport| report.judge(&bounds).into_iter().map(|one| one.broken_by).collect::<Vec<_>>();
        assert_eq!(broken(&report), [vec![3], vec![], vec![]]);
        // What was not seen is not known to be quiet.
        report.cores[0].dropped = 1;
        assert_eq!(broken(&report), [vec![3], vec![3], vec![3]]);
        (report.cores[0].dropped, report.cores[0].seconds) = (0, 0.0);
        assert_eq!(broken(&report), [vec![3], vec![3], vec![3]]);
    }

    #[test]
    fn times_have_their_unit() {
        let all = [0.0, 3.25, 12.4, 999.0, 1_500.0, 12_340.0, 200_000.0, 5e6, 1.25e9].map(nanos);
        assert_eq!(all, ["0 ns", "3.25 ns", "12 ns", "999 ns", "1.5 us", "12.3 us", "200 us", "5 ms", "1.25 s"]);
    }
}
