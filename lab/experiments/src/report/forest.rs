//! Effects with their intervals: a row for each arm and figure, so that it is
//! seen at a glance what differs, by how much and how surely (a forest plot:
//! Lewis and Clarke, BMJ 322, 2001).

use super::escape;
use crate::compare::Comparison;
use crate::results::Results;
use crate::table;
use std::fmt::Write;

// The plot's place in its drawing, 920 wide.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 12.0;
const ROW: f64 = 22.0;

/// Intervals that are wider are cut: one figure of great noise would press all
/// others into a point.
const WIDEST: f64 = 100.0;

/// Draws the comparisons that have an effect; nothing without one.
pub(super) fn draw(page: &mut String, results: &Results, comparisons: &[Comparison]) {
    let rows: Vec<Row> = comparisons.iter().filter_map(Row::of).collect();
    if rows.is_empty() {
        return;
    }
    let margin = results.experiment.margin_percent / 100.0;
    let scale = Scale::around(&rows, margin);
    let mut lines: Vec<(Option<&str>, Option<&Row>)> = Vec::new();
    for figure in figures(&rows) {
        lines.push((Some(figure), None));
        lines.extend(rows.iter().filter(|row| row.figure == figure).map(|row| (None, Some(row))));
    }
    let bottom = TOP + ROW * lines.len() as f64;
    let _ = writeln!(
        page,
        "<div class=\"card scroll\">\n<svg viewBox=\"0 0 920 {}\" role=\"img\" aria-label=\"Ratios with their \
         intervals\">",
        bottom + 42.0
    );
    axis(page, &scale, margin, bottom);
    for (index, (figure, row)) in lines.iter().enumerate() {
        let middle = TOP + ROW * (index as f64 + 0.5);
        if let Some(figure) = figure {
            let at = middle + 4.0;
            let _ = writeln!(page, "<text class=\"label\" x=\"0\" y=\"{at:.1}\">{}</text>", escape(figure));
        }
        if let Some(row) = row {
            row.draw(page, &scale, middle);
        }
    }
    page.push_str("</svg>\n</div>\n");
}

/// The figures in the order of the comparisons.
fn figures<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut figures: Vec<&str> = Vec::new();
    for row in rows {
        if !figures.contains(&row.figure) {
            figures.push(row.figure);
        }
    }
    figures
}

struct Row<'a> {
    arm: &'a str,
    figure: &'a str,
    ratio: f64,
    /// `None` where the runs are too few for one.
    interval: Option<(f64, f64)>,
    class: &'static str,
    word: String,
}

impl<'a> Row<'a> {
    fn of(comparison: &'a Comparison) -> Option<Self> {
        let effect = comparison.effect.filter(|effect| effect.ratio.is_finite() && effect.ratio > 0.0)?;
        let interval = effect.interval.filter(|(low, high)| *low > 0.0 && high.is_finite());
        Some(Self {
            arm: &comparison.arm,
            figure: &comparison.figure.name,
            ratio: effect.ratio,
            interval,
            class: comparison.verdict.map_or("control", |verdict| verdict.name()),
            word: table::word(comparison),
        })
    }

    fn draw(&self, page: &mut String, scale: &Scale, middle: f64) {
        let (x, class, below) = (scale.x(self.ratio), self.class, middle + 4.0);
        let _ = writeln!(page, "<text x=\"12\" y=\"{below:.1}\">{}</text>", escape(self.arm));
        if let Some((low, high)) = self.interval {
            let (from, to) = (scale.x(low), scale.x(high));
            let _ = writeln!(
                page,
                "<line class=\"effect {class}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>"
            );
        }
        let said = match self.interval {
            Some((low, high)) => format!("{:.3} ({low:.3} to {high:.3})", self.ratio),
            None => format!("{:.3}", self.ratio),
        };
        let _ = writeln!(
            page,
            "<circle class=\"effect {class}\" cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"4\"><title>{}: {}</title></circle>\n\
             <text x=\"{:.1}\" y=\"{below:.1}\">{said}</text>",
            escape(self.arm),
            escape(&self.word),
            RIGHT + 12.0
        );
    }
}

/// The ratio's axis: logarithmic, so that twice and half are as far from one.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn around(rows: &[Row], margin: f64) -> Self {
        let ends = rows.iter().flat_map(|row| {
            let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
            [row.ratio, low.max(row.ratio / WIDEST), high.min(row.ratio * WIDEST)]
        });
        let around = [1.0 / (1.0 + 2.0 * margin).max(1.05), (1.0 + 2.0 * margin).max(1.05)];
        let (low, high) = ends.chain(around).fold((1.0_f64, 1.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        // A little room, so that no point stands on the edge.
        let room = (high / low).powf(0.03);
        Self { low: (low / room).ln(), high: (high * room).ln() }
    }

    fn x(&self, ratio: f64) -> f64 {
        let at = (ratio.max(1e-9).ln() - self.low) / (self.high - self.low);
        LEFT + at.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    /// Round ratios within it, at most some ten.
    fn ticks(&self) -> Vec<f64> {
        let span = self.high - self.low;
        // Near one, steps of equal size; else 1, 2 and 5 times powers of ten.
        if span < 1.0 {
            let step = [0.01, 0.02, 0.05, 0.1, 0.2].into_iter().find(|step| span / step <= 10.0).unwrap_or(0.2);
            let (first, last) = ((self.low.exp() / step).ceil() as i64, (self.high.exp() / step).floor() as i64);
            return (first..=last).map(|n| n as f64 * step).collect();
        }
        let digits: &[f64] = if span > 5.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = (-9..=9).flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
        all.filter(|tick| (self.low..=self.high).contains(&tick.ln())).collect()
    }
}

fn axis(page: &mut String, scale: &Scale, margin: f64, bottom: f64) {
    let (from, to) = (scale.x(1.0 - margin), scale.x(1.0 + margin));
    let _ = writeln!(
        page,
        "<rect class=\"margin\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        to - from,
        bottom - TOP
    );
    for tick in scale.ticks() {
        let (x, below) = (scale.x(tick), bottom + 17.0);
        let text = format!("{tick:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{text}</text>"
        );
    }
    let (one, below) = (scale.x(1.0), bottom + 34.0);
    let _ = writeln!(
        page,
        "<line class=\"one\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
         <text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">times the baseline's (the band does not \
         matter)</text>",
        f64::midpoint(LEFT, RIGHT)
    );
}
