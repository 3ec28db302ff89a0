//! Figures of runs as curves: a curve for each arm, through the medians of its runs.

use crate::number::number;
use crate::results::Results;
use crate::runs::{ArmResults, FigurePoint};
use pages::{Axis, AxisScale, Chart, CurvePoint, Series};

/// The curves of a result that have a point.
#[must_use]
pub(crate) fn charts(results: &Results) -> Vec<Chart> {
    let charts = results.curves.iter().map(|curve| {
        let shown = results.measured().filter(|arm| curve.arms.contains(&arm.name));
        let series = |arm: &ArmResults| Series::new(&arm.name, curve.points.iter().filter_map(|at| point(arm, at)));
        let [x, y] = [&curve.x, &curve.y].map(|label| Axis::new(label, AxisScale::Linear, number));
        Chart::new(curve.title.clone(), x, y, shown.map(series).collect())
    });
    charts.filter(|chart| !chart.series.is_empty()).collect()
}

/// A point of an arm, with the least and the most of its runs, where it was measured.
fn point(arm: &ArmResults, at: &FigurePoint) -> Option<CurvePoint> {
    let spoilt = at.spoilt_by.as_ref().and_then(|figure| arm.median(figure)).unwrap_or(0.0);
    let counts = spoilt <= 0.0 && arm.invalid().is_empty();
    Some(CurvePoint { x: arm.median(&at.x)?, y: arm.median(&at.y)?, interval: arm.extent(&at.y), counts })
}
