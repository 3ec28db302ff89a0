//! The page of two sides compared.

use super::verdict;
use crate::comparison::{FigureCompared, MARGIN, SidesCompared};
use crate::measurement::{KnownResult, Worth};
use crate::read::{SIDES, whole_of};
use environment::{Fingerprint, ResultOrigin};
use pages::{Bar, Page, PageHead, PagePart, PageTable};
use serde_json::Value;

/// What is said of a comparison in the place of a verdict.
pub const NO_VERDICT: &str = "No verdict: figures that do not count, or of sides that are not alike, decide nothing";

/// The page of a comparison, with the results of both sides in it, as they stand in `texts`.
#[must_use]
pub fn compared(
    sides: &SidesCompared,
    (before, after): (&[KnownResult], &[KnownResult]),
    origin: ResultOrigin,
    texts: [Vec<String>; 2],
) -> Page {
    let (unlike, differs): (Vec<_>, Vec<_>) = sides.unlike.iter().partition(|one| one.matters);
    let wholes: Vec<Value> = texts.iter().flatten().map(|text| whole_of(text)).collect();
    let all = || before.iter().chain(after).zip(&wholes);
    let worth = |(one, _): &(&KnownResult, &Value)| one.verdict.as_ref().map_or(Worth::Partial, |own| own.worth);
    let worst = all().max_by_key(worth);
    let mut verdict =
        worst.map_or_else(|| super::not_judged("there is nothing to compare"), |(one, whole)| verdict(one, whole));
    verdict.reasons = sides.doubts.clone();
    sides.undecided().into_iter().for_each(|why| verdict.lacks(why));
    verdict.unless_alike(unlike.iter().map(ToString::to_string));
    let counts = verdict.counts();
    let names = |side: &[KnownResult]| side.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut page = Page::new(PageHead {
        title: format!("Compared: {}", sides.kind.command()),
        of: format!("{} (before) and {} (after)", names(before), names(after)),
        made: origin.made,
        verdict,
        answer: if counts { sides.summary() } else { vec![NO_VERDICT.to_owned()] },
        command: origin.command,
        machine: after.iter().find_map(|one| one.machine.as_ref()).map_or_else(Vec::new, Fingerprint::told),
    });
    let word = |one: &FigureCompared| match &one.verdict {
        _ if !counts => "does not count".to_owned(),
        Some(word) if one.interval.is_some() => word.clone(),
        _ => "too few runs to tell".to_owned(),
    };
    let row = |one: &FigureCompared| [vec![sides.name(one)], one.shown().into(), one.factors().into()].concat();
    let rows = sides.figures.iter().map(row);
    let table =
        PageTable::new("After ÷ before, medians of the runs", &["figure", "before", "after", "ratio", "95 % interval"]);
    page.figure(table.with(rows).judged(sides.figures.iter().map(word)));
    let bar = |one: &FigureCompared| Some(Bar { counts, ..Bar::ratio(sides.name(one), one.ratio, one.interval, "")? });
    let bars: Vec<Bar> = sides.figures.iter().filter_map(bar).collect();
    page.curve(PageTable::ratios("After ÷ before", &bars, Some((1.0 - MARGIN, 1.0 + MARGIN))));
    page.figure(PagePart::List(differs.iter().map(|one| format!("differs: {one}")).collect()));
    let of_side = |(at, (one, whole)): (usize, (&KnownResult, &Value))| {
        (format!("{}: {}", SIDES[usize::from(at >= before.len())], one.name), super::head("", one, whole))
    };
    page.tell(super::runs("The results", all().enumerate().map(of_side)));
    for (stem, texts) in SIDES.into_iter().zip(texts) {
        page.results.extend(super::named(sides.kind, stem, texts));
    }
    page
}
