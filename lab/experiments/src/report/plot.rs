//! The latency curves of all arms on one plot.

use super::escape;
use crate::results::Results;
use crate::runs::ArmResults;
use std::fmt::Write;

// The plot's place in its 920 × 380 drawing.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 800.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 340.0;

/// Nines that the axis holds, and the place of the maximum behind them.
const NINES: f64 = 5.0;
const MAX_AT: f64 = 5.35;

/// Least distance between the names at the curves' ends.
const LINE: f64 = 14.0;

/// Draws the arms that have latencies of this pass, at least one.
pub(super) fn percentiles(page: &mut String, results: &Results, arms: &[&(String, &ArmResults)], pass: Option<&str>) {
    let curves: Vec<Curve> = arms.iter().filter_map(|(class, arm)| Curve::of(class, arm, results, pass)).collect();
    let values = || curves.iter().flat_map(|curve| curve.points.iter().map(|(_, micros)| *micros).chain([curve.max]));
    let scale = Scale::around(values());
    let what = pass.map_or_else(String::new, |pass| format!(": {}", escape(pass)));
    let _ = writeln!(page, "<svg viewBox=\"0 0 920 380\" role=\"img\" aria-label=\"Latency by percentile{what}\">");
    axes(page, &scale);
    for curve in &curves {
        let path: Vec<String> =
            curve.points.iter().map(|(nines, micros)| format!("{:.1},{:.1}", x(*nines), scale.y(*micros))).collect();
        let _ = writeln!(page, "<polyline class=\"line {}\" points=\"{}\"/>", curve.class, path.join(" "));
        let _ = writeln!(
            page,
            "<circle class=\"dot {}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{} max {}</title></circle>",
            curve.class,
            x(MAX_AT),
            scale.y(curve.max),
            escape(curve.name),
            duration(curve.max)
        );
    }
    names(page, &curves, &scale);
    page.push_str("</svg>\n");
}

struct Curve<'a> {
    class: &'a str,
    name: &'a str,
    /// Nines and microseconds.
    points: Vec<(f64, f64)>,
    max: f64,
}

impl<'a> Curve<'a> {
    fn of(class: &'a str, arm: &'a ArmResults, results: &Results, pass: Option<&str>) -> Option<Self> {
        let (curve, max) = arm.curve(pass)?;
        let least = arm.latencies(pass).iter().map(|latency| latency.count).min()?;
        let above = |percentile: f64| 1.0 - percentile / 100.0;
        // Up to where at least one sample of a run lies above.
        let kept = results.percentiles.iter().zip(curve).filter(|(p, _)| above(**p) * least as f64 >= 1.0);
        let points = kept.map(|(percentile, micros)| ((-above(*percentile).log10()).max(0.0), micros)).collect();
        Some(Self { class, name: &arm.name, points, max })
    }
}

/// The latency's axis: whole decades, or parts of one where all are close.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|v| *v > 0.0)
            .fold((f64::INFINITY, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let low = low.clamp(0.1, high).log10().floor();
        Self { low, high: high.log10().ceil().max(low + 1.0) }
    }

    fn y(&self, micros: f64) -> f64 {
        let at = (micros.max(1e-3).log10() - self.low) / (self.high - self.low);
        BOTTOM - at.clamp(0.0, 1.0) * (BOTTOM - TOP)
    }
}

fn x(nines: f64) -> f64 {
    LEFT + nines / MAX_AT * (RIGHT - LEFT)
}

fn axes(page: &mut String, scale: &Scale) {
    let few = scale.high - scale.low <= 2.0;
    let steps: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
    for decade in scale.low as i32..=scale.high as i32 {
        for step in steps {
            let micros = step * 10.0_f64.powi(decade);
            if micros.log10() > scale.high + 1e-9 {
                continue;
            }
            let at = scale.y(micros);
            let _ = writeln!(page, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
            let (left, below, label) = (LEFT - 7.0, at + 4.0, duration(micros));
            let _ = writeln!(page, "<text x=\"{left}\" y=\"{below:.1}\" text-anchor=\"end\">{label}</text>");
        }
    }
    let ticks =
        [(0.0, "0"), (std::f64::consts::LOG10_2, "50"), (1.0, "90"), (2.0, "99"), (3.0, "99.9"), (4.0, "99.99")];
    for (nines, label) in ticks.into_iter().chain([(NINES, "99.999"), (MAX_AT, "max")]) {
        let at = x(nines);
        // The last two would touch: the maximum's label is a line lower.
        let below = BOTTOM + if nines > NINES { 31.0 } else { 17.0 };
        let _ = writeln!(page, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>");
        let _ = writeln!(page, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>");
    }
    let _ = writeln!(page, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>");
}

/// Names beside the maxima, moved apart where they would lie on each other.
fn names(page: &mut String, curves: &[Curve], scale: &Scale) {
    let mut order: Vec<&Curve> = curves.iter().collect();
    order.sort_by(|a, b| b.max.total_cmp(&a.max));
    let mut next = f64::NEG_INFINITY;
    let mut places: Vec<f64> = Vec::new();
    for curve in &order {
        next = (scale.y(curve.max) + 4.0).max(next + LINE);
        places.push(next);
    }
    // Those that were moved below the axis move up together.
    let over = (places.last().copied().unwrap_or(0.0) - BOTTOM).max(0.0);
    for (curve, place) in order.iter().zip(places) {
        let (left, at) = (x(MAX_AT) + 9.0, place - over);
        let (class, name) = (curve.class, escape(curve.name));
        let _ = writeln!(page, "<text class=\"label {class}\" x=\"{left:.1}\" y=\"{at:.1}\">{name}</text>");
    }
}

/// Microseconds in the unit that suits them.
fn duration(micros: f64) -> String {
    match micros {
        1e6.. => format!("{} s", trimmed(micros / 1e6)),
        1e3.. => format!("{} ms", trimmed(micros / 1e3)),
        _ => format!("{} µs", trimmed(micros)),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
