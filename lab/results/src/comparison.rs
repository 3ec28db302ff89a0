//! Two sides of results: what changed, what did not, and what is not alike.

use crate::measurement::{KnownResult, ResultError, Worth};
use ::packet::compare::{Better, RunFigure, Unit};
use core::fmt::{self, Write};
use environment::{Fingerprint, ResultKind, SCHEMA, Unlike};
use figures::{by_word, columns, factor, first_of, many};
use serde::Serialize;
use serde_json::{Value, json};
use stats::{Centre, Design, Policy, Verdict, effect, verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Differences up to this share do not matter.
pub(crate) const MARGIN: f64 = 0.02;

/// Of what a result says against itself, so many reasons are shown.
const REASONS_SHOWN: usize = 2;

/// Figures that a line names.
const NAMED: usize = 8;

/// For the resamples: the same runs give the same interval.
const SEED: u64 = 1;

/// Where a side does not tell of its machine.
const NO_LIKENESS: &str = "not all of these tell of their machine: whether they are alike is not known";

/// A figure on both sides.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureCompared {
    /// Of what: a stream and direction, a goal, a frame size, an arm.
    pub of: String,
    /// The figure.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The median over runs, before.
    pub before: f64,
    /// The same, after.
    pub after: f64,
    /// After ÷ before; `None` where there is none.
    pub ratio: Option<f64>,
    /// Its 95 % interval, with five runs or more on each side.
    pub interval: Option<(f64, f64)>,
    /// In words; of a figure that only describes, none.
    pub verdict: Option<String>,
    #[serde(skip)]
    shown: Unit,
}

impl FigureCompared {
    /// The medians with their unit, for people.
    #[must_use]
    pub fn shown(&self) -> [String; 2] {
        [self.before, self.after].map(|value| self.shown.show(value))
    }

    /// The ratio and its interval, for people.
    #[must_use]
    pub fn factors(&self) -> [String; 2] {
        let interval = self.interval.map(|(low, high)| format!("{} to {}", factor(low), factor(high)));
        [self.ratio.map_or_else(|| "-".to_owned(), factor), interval.unwrap_or_else(|| "-".to_owned())]
    }

    /// Whether the medians differ by more than does not matter.
    #[must_use]
    pub fn differs(&self) -> bool {
        match self.ratio {
            Some(ratio) => (ratio - 1.0).abs() > MARGIN,
            None => self.before != self.after,
        }
    }
}

/// Two sides compared: to be shown.
#[derive(Clone, PartialEq, Debug)]
pub struct SidesCompared {
    /// What the results are of.
    pub kind: ResultKind,
    /// The figures that both sides have.
    pub figures: Vec<FigureCompared>,
    /// What is not alike, and what differs and may; the former first.
    pub unlike: Vec<Unlike>,
    /// What the results say against themselves, and what they do not tell.
    pub doubts: Vec<String>,
    /// How many results there are on the side that has fewer.
    pub runs: usize,
    /// All of them tell of their machine.
    likeness_known: bool,
}

impl SidesCompared {
    /// Compares two sides.
    ///
    /// # Errors
    /// If they are results of different measurements, or have no figure in common.
    pub fn of(before: &[KnownResult], after: &[KnownResult]) -> Result<Self, ResultError> {
        let mut all = before.iter().chain(after);
        let Some(first) = all.next() else { return Err(ResultError("there is nothing to compare".to_owned())) };
        if let Some(other) = all.find(|other| other.kind != first.kind) {
            return Err(ResultError(format!(
                "{} is a result of {}, and {} one of {}: give both sides of one measurement",
                first.name,
                first.kind.command(),
                other.name,
                other.kind.command()
            )));
        }
        if !first.kind.is_compared() {
            let why = format!(
                "this is what {} found: it judges a machine, and measures nothing to compare",
                first.kind.command()
            );
            return Err(ResultError(format!("{}: {why}", first.name)));
        }
        let figures = compare(before, after);
        let mut doubts: Vec<String> = before.iter().chain(after).filter_map(KnownResult::doubt).collect();
        // Of two results of one name, or one that is on both sides.
        doubts.dedup();
        // Where the results themselves say that they have no answer, that is what there is to say.
        if figures.is_empty() && doubts.is_empty() {
            let why = "the two have no figure in common: no stream and direction, goal, frame size, arm or point";
            return Err(ResultError(why.to_owned()));
        }
        let likeness_known = before.iter().chain(after).all(|result| result.machine.is_some());
        if !likeness_known {
            doubts.push(NO_LIKENESS.to_owned());
        }
        let runs = before.len().min(after.len());
        Ok(Self { kind: first.kind, figures, unlike: unlike(before, after), doubts, runs, likeness_known })
    }

    /// Why the sides are not to be compared, unless somebody insists.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let matters: Vec<String> = self.unlike.iter().filter(|one| one.matters).map(ToString::to_string).collect();
        (!matters.is_empty()).then(|| {
            format!(
                "these are not alike, so that a difference would say nothing (--force compares them \
                 nevertheless):\n  {}",
                matters.join("\n  ")
            )
        })
    }

    /// Why nothing can be told, if nothing can: of no figure is there an interval that decides, or nobody knows
    /// whether the sides are alike.
    #[must_use]
    pub fn undecided(&self) -> Option<String> {
        let decides = |one: &FigureCompared| {
            one.interval.is_some() && one.verdict.as_ref().is_some_and(|word| !word.starts_with("inconclusive"))
        };
        match () {
            () if !self.likeness_known => Some(NO_LIKENESS.to_owned()),
            () if !self.figures.iter().any(decides) => Some("of no figure can a difference be told".to_owned()),
            () => None,
        }
    }

    /// The same as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let words = |matters: bool| {
            let some = self.unlike.iter().filter(|one| one.matters == matters);
            some.map(ToString::to_string).collect::<Vec<_>>()
        };
        json!({
            "kind": "comparison", "schema": SCHEMA, "of": self.kind.name(), "figures": self.figures,
            "not_alike": words(true), "differs": words(false), "doubts": self.doubts,
        })
    }

    /// What changed and what did not, in sentences: by what the runs say, where there are enough of them, else by how
    /// far medians are apart. None where no figure is on both sides.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let word = |one: &FigureCompared| match &one.verdict {
            Some(verdict) if one.interval.is_some() => verdict.split(':').next().unwrap_or_default().to_owned(),
            _ if one.differs() => "changed by more than 2 %".to_owned(),
            _ => "alike within 2 %".to_owned(),
        };
        let mut all = by_word(self.figures.iter().map(|one| (word(one), self.name(one))), NAMED);
        if !all.is_empty() && self.figures.iter().all(|one| one.interval.is_none()) {
            let runs = many(self.runs.max(1) as u64, "run");
            all.push(format!(
                "{runs} on a side: how much chance there is in it, five on each side tell (nearside lab run)"
            ));
        }
        all
    }

    /// Whether the figures are of several things.
    pub(crate) fn has_several(&self) -> bool {
        self.figures.windows(2).any(|two| two[0].of != two[1].of)
    }

    /// A figure's name, with what it is of, where that may be in doubt.
    pub(crate) fn name(&self, one: &FigureCompared) -> String {
        if self.has_several() { format!("{}, {}", one.of, one.figure) } else { one.figure.clone() }
    }
}

impl fmt::Display for SidesCompared {
    /// A table, what changed and what did not, and what is to be known of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.figures.is_empty() {
            writeln!(f, "no figure is an answer on both sides: what changed cannot be said")?;
        }
        let mut rows = vec![["", "before", "after", "ratio", ""].map(str::to_owned).to_vec()];
        for one in &self.figures {
            let [before, after] = one.shown();
            let [mut ratio, interval] = one.factors();
            if one.interval.is_some() {
                let _ = write!(ratio, " ({interval})");
            }
            // Where no interval can be had, one line below says so for all.
            let word = one.verdict.clone().filter(|_| one.interval.is_some()).unwrap_or_default();
            rows.push(vec![self.name(one), before, after, ratio, word]);
        }
        if !self.figures.is_empty() {
            f.write_str(&columns(&rows, |column| column == 0 || column + 1 == rows[0].len()))?;
        }
        self.summary().iter().try_for_each(|line| writeln!(f, "{line}"))?;
        for doubt in &self.doubts {
            writeln!(f, "note: {doubt}")?;
        }
        for one in &self.unlike {
            writeln!(f, "{}: {one}", if one.matters { "not alike" } else { "differs" })?;
        }
        Ok(())
    }
}

/// Compares two sides, figure by figure. Those that only one side has are left out.
#[must_use]
pub fn compare(before: &[KnownResult], after: &[KnownResult]) -> Vec<FigureCompared> {
    type Of<'a> = (&'a str, &'a str);
    fn by_name(side: &[KnownResult]) -> (Vec<Of<'_>>, BTreeMap<Of<'_>, Vec<&RunFigure>>) {
        let (mut order, mut all) = (Vec::new(), BTreeMap::<Of<'_>, Vec<&RunFigure>>::new());
        for one in side.iter().flat_map(|result| &result.figures) {
            let name = (one.of.as_str(), one.figure.as_str());
            let values = all.entry(name).or_default();
            if values.is_empty() {
                order.push(name);
            }
            values.push(one);
        }
        (order, all)
    }
    let ((order, old), (_, new)) = (by_name(before), by_name(after));
    let one = |name: Of<'_>| {
        let (old, new) = (old.get(&name)?, new.get(&name)?);
        Some(compared(old.first()?, (&values(old), &values(new))))
    };
    order.into_iter().filter_map(one).collect()
}

fn values(figures: &[&RunFigure]) -> Vec<f64> {
    figures.iter().map(|one| one.value).collect()
}

fn compared(like: &RunFigure, (old, new): (&[f64], &[f64])) -> FigureCompared {
    let effect = effect(new, old, Centre::Median, Design::Independent, SEED);
    let word = |better| word(verdict(effect, Policy { better, margin: MARGIN, floor: 0.0 }), better);
    FigureCompared {
        of: like.of.clone(),
        figure: like.figure.clone(),
        unit: like.unit.name(),
        before: stats::median(old),
        after: stats::median(new),
        ratio: effect.map(|effect| effect.ratio),
        interval: effect.and_then(|effect| effect.interval),
        verdict: like.better.map(word),
        shown: like.unit,
    }
}

/// "Faster" is said of rates only.
fn word(verdict: Verdict, better: Better) -> String {
    match (verdict, better) {
        (Verdict::Faster, Better::Lower) => "better".to_owned(),
        (Verdict::Slower, Better::Lower) => "worse".to_owned(),
        (other, _) => other.to_string(),
    }
}

/// What differs in what was asked for, and between the machines of any result and the first
/// one; those things first that matter.
#[must_use]
pub fn unlike(before: &[KnownResult], after: &[KnownResult]) -> Vec<Unlike> {
    let all: Vec<&KnownResult> = before.iter().chain(after).collect();
    let mut found: Vec<Unlike> = Vec::new();
    let mut put = |one: Unlike| {
        if !found.contains(&one) {
            found.push(one);
        }
    };
    if let Some(first) = all.first() {
        for other in &all[1..] {
            asked(first, other).into_iter().for_each(&mut put);
        }
    }
    let machines: Vec<&Fingerprint> = all.iter().filter_map(|result| result.machine.as_ref()).collect();
    if let Some(first) = machines.first() {
        for other in &machines[1..] {
            environment::unlike(first, other).into_iter().for_each(&mut put);
        }
    }
    found.sort_by_key(|one| !one.matters);
    found
}

fn asked(before: &KnownResult, after: &KnownResult) -> Vec<Unlike> {
    let of = |result: &KnownResult, key: &str| {
        result.asked.get(key).map_or_else(|| "not there".to_owned(), |value| short(value))
    };
    let keys: BTreeSet<&String> = before.asked.keys().chain(after.asked.keys()).collect();
    let differing = keys.into_iter().filter(|key| before.asked.get(*key) != after.asked.get(*key));
    let one = |key: &String| {
        let (before, after) = (of(before, key), of(after, key));
        Unlike { what: key.clone(), before, after, matters: true, why: "it was asked for otherwise" }
    };
    differing.map(one).collect()
}

/// Settings of an experiment are long.
fn short(value: &str) -> String {
    const LONGEST: usize = 80;
    match value.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}

impl KnownResult {
    /// What it says against itself, in a line; nothing where it is COMPLETE or says nothing.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.worth > Worth::Complete)?;
        let reasons = first_of(verdict.reasons.clone(), REASONS_SHOWN);
        let (name, word) = (&self.name, verdict.worth.word());
        Some(if reasons.is_empty() { format!("{name} is {word}") } else { format!("{name} is {word}: {reasons}") })
    }
}
