//! Figures of runs as curves: a curve for each arm, through the medians of its runs.

use crate::number::number;
use crate::results::Results;
use crate::runs::{ArmResults, FigurePoint};
use pages::{Axis, AxisScale, Chart, CurvePoint, Series};

/// The curves of a result that have a point.
#[must_use]
pub(crate) fn charts(results: &Results) -> Vec<Chart> {
    let arms = || results.arms.iter().filter(|arm| arm.repeats.is_none() && !arm.runs.is_empty());
    let charts = results.curves.iter().map(|curve| {
        let shown = arms().filter(|arm| curve.arms.contains(&arm.name));
        let series = |arm: &ArmResults| Series::new(&arm.name, curve.points.iter().filter_map(|at| point(arm, at)));
        let [x, y] = [&curve.x, &curve.y].map(|label| Axis::new(label, AxisScale::Linear, number));
        Chart::new(curve.title.clone(), x, y, shown.map(series).collect())
    });
    charts.filter(|chart| !chart.series.is_empty()).collect()
}

/// A point of an arm, with the least and the most of its runs, where it was measured.
fn point(arm: &ArmResults, at: &FigurePoint) -> Option<CurvePoint> {
    let (x, y, heights) = (arm.median(&at.x)?, arm.median(&at.y)?, arm.values(&at.y));
    let low = heights.iter().copied().fold(f64::INFINITY, f64::min);
    let high = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let spoilt = at.spoilt_by.as_ref().and_then(|figure| arm.median(figure)).unwrap_or(0.0);
    Some(CurvePoint {
        x,
        y,
        interval: (heights.len() > 1).then_some((low, high)),
        counts: spoilt <= 0.0 && arm.invalid().is_empty(),
    })
}
