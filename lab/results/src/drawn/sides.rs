//! The page of two sides compared.

use super::verdict;
use crate::comparison::{FigureCompared, MARGIN, SidesCompared};
use crate::measurement::{KnownResult, Worth};
use environment::{Fingerprint, ResultOrigin};
use pages::{Bar, Bars, Page, PageHead, PagePart, PageTable, TableRow, Tone};

/// The page of a comparison, with the results of both sides in it: their names, and what they hold.
#[must_use]
pub fn compared(
    sides: &SidesCompared,
    (before, after): (&[KnownResult], &[KnownResult]),
    origin: ResultOrigin,
    results: Vec<(String, String)>,
) -> Page {
    let worst =
        before.iter().chain(after).max_by_key(|one| one.verdict.as_ref().map_or(Worth::Partial, |own| own.worth));
    let mut verdict = worst.map_or_else(|| super::not_judged("there is nothing to compare"), verdict);
    verdict.reasons.clone_from(&sides.doubts);
    for one in sides.unlike.iter().filter(|one| one.matters) {
        (verdict.word, verdict.tone) = ("NOT ALIKE".to_owned(), Tone::Bad);
        verdict.reasons.insert(0, one.to_string());
    }
    let names = |side: &[KnownResult]| side.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut page = Page::new(PageHead {
        title: format!("Compared: {}", sides.kind.command()),
        of: format!("{} (before) and {} (after)", names(before), names(after)),
        made: Some(origin.made).filter(|made| *made > 0),
        verdict,
        answer: sides.summary(),
        command: origin.command,
        machine: after.iter().find_map(|one| one.machine.as_ref()).map_or_else(Vec::new, Fingerprint::told),
    });
    let several = sides.figures.windows(2).any(|two| two[0].of != two[1].of);
    let name = |one: &FigureCompared| if several { format!("{}, {}", one.of, one.figure) } else { one.figure.clone() };
    let row = |one: &FigureCompared| {
        let [old, new] = one.shown();
        let [ratio, interval] = one.factors();
        TableRow { cells: vec![name(one), old, new, ratio, interval, word(one)], tone: tone(one) }
    };
    let heads = ["figure", "before", "after", "ratio", "95 % interval", "verdict"];
    page.figures
        .push(PageTable::new("After ÷ before, medians of the runs", &heads).with(sides.figures.iter().map(row)).into());
    let bar = |one: &FigureCompared| {
        let value = one.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
        let [ratio, ends] = one.factors();
        let interval = one.interval.filter(|(low, high)| *low > 0.0 && high.is_finite());
        let told = if interval.is_some() { format!("{ratio} ({ends})") } else { ratio };
        let (group, name) = (if several { one.of.clone() } else { String::new() }, one.figure.clone());
        Some(Bar { group, name, colour: 0, value, interval, told, tone: tone(one), counts: true })
    };
    let bars: Vec<Bar> = sides.figures.iter().filter_map(bar).collect();
    page.curves.push(Bars::ratios("After ÷ before", bars, Some((1.0 - MARGIN, 1.0 + MARGIN))).into());
    let differs = sides.unlike.iter().filter(|one| !one.matters).map(|one| format!("differs: {one}"));
    page.method.push(PagePart::List(differs.collect()));
    page.results = results;
    page
}

fn word(one: &FigureCompared) -> String {
    one.verdict.clone().filter(|_| one.interval.is_some()).unwrap_or_else(|| "too few runs to tell".to_owned())
}

fn tone(one: &FigureCompared) -> Tone {
    match one.verdict.as_deref().filter(|_| one.interval.is_some()) {
        Some("faster" | "better") => Tone::Good,
        Some("slower" | "worse") => Tone::Bad,
        _ => Tone::Plain,
    }
}
