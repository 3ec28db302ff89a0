//! Values by name: a table whose last column is drawn, as bars from zero, or as places on a logarithmic axis (a forest
//! plot: Lewis and Clarke, BMJ 322, 2001). What is drawn lies at shares of the column's width, which are right in any.

use crate::chart::Axis;
use crate::drawing::{TEXT, class};
use crate::scale::{AxisScale, Range, label};
use crate::table::PageTable;
use crate::text::{escaped, width};
use figures::factor;

/// Intervals that are wider are cut: one of great noise would press all others into a point.
const WIDEST: f64 = 100.0;

/// The drawn column is never narrower, in pixels: labels that have room there have it everywhere.
const NARROWEST: f64 = 320.0;

/// One value.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Its name, and before it what several belong to.
    pub name: String,
    /// Which colour it has.
    pub colour: usize,
    /// The value.
    pub value: f64,
    /// The ends of its interval.
    pub interval: Option<(f64, f64)>,
    /// The value in words, with its unit and interval.
    pub told: String,
    /// Whether it counts.
    pub counts: bool,
}

impl Bar {
    /// A value of this name, in this colour, as it is told.
    #[must_use]
    pub const fn new(name: String, colour: usize, value: f64, told: String) -> Self {
        Self { name, colour, value, interval: None, told, counts: true }
    }

    /// A ratio, as far as there is one, with its interval and what else is told of it.
    #[must_use]
    pub fn ratio(name: String, ratio: Option<f64>, interval: Option<(f64, f64)>, also: &str) -> Option<Self> {
        let holds = |value: f64| AxisScale::Logarithmic.holds(value);
        let value = ratio.filter(|ratio| holds(*ratio))?;
        let interval = interval.filter(|(low, high)| holds(*low) && holds(*high));
        let ends = interval.map_or_else(String::new, |(low, high)| format!(" ({} to {})", factor(low), factor(high)));
        Some(Self { interval, ..Self::new(name, 0, value, format!("{}{ends}{also}", factor(value))) })
    }
}

impl PageTable {
    /// Values as bars from zero.
    #[must_use]
    pub fn bars(title: &str, label: &str, format: fn(f64) -> String, bars: &[Bar]) -> Self {
        drawn(title, &Axis::new(label, AxisScale::Linear, format), bars, None)
    }

    /// Ratios as places around one, and a band in which a difference does not matter.
    #[must_use]
    pub fn ratios(title: &str, bars: &[Bar], band: Option<(f64, f64)>) -> Self {
        let label = if band.is_some() { "ratio; within the band a difference does not matter" } else { "ratio" };
        let short = |value: f64| format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
        drawn(title, &Axis::new(label, AxisScale::Logarithmic, short), bars, band)
    }
}

/// All that is drawn, with zero, or the one that ratios are around.
fn range(axis: &Axis, bars: &[Bar], band: Option<(f64, f64)>) -> Option<Range> {
    let ends = bars.iter().flat_map(|bar| {
        let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
        [bar.value, low.max(bar.value / WIDEST), high.min(bar.value * WIDEST)]
    });
    let none = if axis.scale == AxisScale::Logarithmic { 1.0 } else { 0.0 };
    let (low, high) = band.unwrap_or((none, none));
    Range::over(ends.chain([low, high]), axis.scale).map(Range::roomy)
}

fn drawn(title: &str, axis: &Axis, bars: &[Bar], band: Option<(f64, f64)>) -> PageTable {
    let mut table = PageTable::new(title, &["", &axis.label]);
    let Some(range) = range(axis, bars, band) else { return table };
    let piece = |class: &str, from: f64, to: f64, text: &str| {
        let (from, to) = (100.0 * range.place(from), 100.0 * range.place(to));
        let wide = (to - from).max(0.0);
        format!("<span class=\"{class}\" style=\"--at:{from:.2}%;--wide:{wide:.2}%\">{text}</span>")
    };
    let (mut labels, mut free) = (String::new(), 0.0);
    let mut behind = band.map_or_else(String::new, |(low, high)| piece("band", low, high, ""));
    for tick in range.ticks() {
        behind += &piece("grid", tick, tick, "");
        let text = label(axis.format, tick);
        // A label begins so much before its place as it is far from the column's beginning: within it at both ends.
        let left = range.place(tick) * (NARROWEST - width(&text, TEXT));
        if left >= free {
            labels += &piece("tick", tick, tick, &escaped(&text));
            free = left + width(&text, TEXT) + 8.0;
        }
    }
    let is_ratio = axis.scale == AxisScale::Logarithmic;
    if is_ratio {
        behind += &piece("one", 1.0, 1.0, "");
    }
    table.drawn.push(labels);
    for bar in bars {
        let (form, word) = if bar.counts { ("", "") } else { (" open", ", does not count") };
        let own = class(bar.colour) + form;
        let (kind, from) = if is_ratio { ("mark", bar.value) } else { ("bar", 0.0) };
        let value = piece(&format!("{kind} {own}"), from, bar.value, "");
        let ends = bar.interval.map(|(low, high)| piece(&format!("interval {own}"), low, high, ""));
        table.rows.push(vec![bar.name.clone(), format!("{}{word}", bar.told)]);
        table.drawn.push(format!("{behind}{value}{}", ends.unwrap_or_default()));
    }
    table
}
