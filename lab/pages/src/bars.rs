//! Values by name, each with its interval: bars from zero, or places on a logarithmic axis (a forest
//! plot: Lewis and Clarke, BMJ 322, 2001). Names stand above their bars, so that no name is cut.

use crate::chart::Axis;
use crate::drawing::{Drawing, TEXT, class};
use crate::scale::{AxisScale, Range, label};
use crate::table::PageTable;
use crate::text::width;
use figures::factor;

/// Intervals that are wider are cut: one of great noise would press all others into a point.
const WIDEST: f64 = 100.0;

/// A row for each value.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// From left to right: linear, bars from zero; logarithmic, a mark for each value and a line at one.
    pub axis: Axis,
    /// The rows.
    pub rows: Vec<Bar>,
    /// Where a difference does not matter.
    pub band: Option<(f64, f64)>,
}

/// One value.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// What several rows belong to; empty: none.
    pub group: String,
    /// Its name.
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
    /// A value of this group and name, in this colour, as it is told.
    #[must_use]
    pub fn new(name: [&str; 2], colour: usize, value: f64, told: String) -> Self {
        let [group, name] = name.map(str::to_owned);
        Self { group, name, colour, value, interval: None, told, counts: true }
    }

    /// A ratio, as far as there is one, with its interval and what else is told of it.
    #[must_use]
    pub fn ratio(name: [&str; 2], ratio: Option<f64>, interval: Option<(f64, f64)>, also: &str) -> Option<Self> {
        let value = ratio.filter(|ratio| AxisScale::Logarithmic.holds(*ratio))?;
        let interval =
            interval.filter(|(low, high)| [low, high].into_iter().all(|end| AxisScale::Logarithmic.holds(*end)));
        let ends = interval.map_or_else(String::new, |(low, high)| format!(" ({} to {})", factor(low), factor(high)));
        Some(Self { interval, ..Self::new(name, 0, value, format!("{}{ends}{also}", factor(value))) })
    }

    fn told(&self) -> String {
        format!("{}{}", self.told, if self.counts { "" } else { ", does not count" })
    }
}

impl Bars {
    /// Bars from zero, without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, label: &str, format: fn(f64) -> String) -> Self {
        Self { title: title.into(), axis: Axis::new(label, AxisScale::Linear, format), rows: Vec::new(), band: None }
    }

    /// Ratios around one.
    #[must_use]
    pub fn ratios(title: &str, rows: Vec<Bar>, band: Option<(f64, f64)>) -> Self {
        let label = if band.is_some() { "ratio; within the band a difference does not matter" } else { "ratio" };
        let short = |value: f64| format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
        Self { title: title.to_owned(), axis: Axis::new(label, AxisScale::Logarithmic, short), rows, band }
    }

    /// What is drawn, as a table.
    pub(crate) fn table(&self) -> PageTable {
        let row = |bar: &Bar| vec![[&*bar.group, &*bar.name].join(" "), bar.told()];
        PageTable::new(self.title.clone(), &["", &self.axis.label]).with(self.rows.iter().map(row))
    }

    fn range(&self) -> Option<Range> {
        let ends = self.rows.iter().flat_map(|bar| {
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            [bar.value, low.max(bar.value / WIDEST), high.min(bar.value * WIDEST)]
        });
        let band = self.band.map_or([1.0, 1.0], |(low, high)| [low, high]);
        let fixed = if self.axis.scale == AxisScale::Logarithmic { band.to_vec() } else { Vec::new() };
        Range::over(ends.chain(fixed), self.axis.scale).map(Range::roomy)
    }

    pub(crate) fn draw(&self, drawing: &mut Drawing) {
        let Some(range) = self.range() else { return };
        drawing.top += 6.0;
        let (from, right) = (drawing.top, drawing.width - 8.0);
        let at = move |value: f64| 4.0 + range.place(value) * (right - 4.0);
        // Lines and the band lie behind the rows, whose height is not known before: drawn apart.
        let mut rows = Drawing::new(drawing.width);
        rows.top = from;
        let mut group = "";
        for bar in &self.rows {
            if bar.group != group {
                rows.top += 6.0;
                rows.paragraph(0.0, "strong", &bar.group);
                group = &bar.group;
            }
            self.row(&mut rows, bar, &at);
        }
        let bottom = rows.top;
        if let Some((low, high)) = self.band {
            drawing.rect("band", (at(low), from), (at(high) - at(low), bottom - from));
        }
        let ticks = range.ticks().into_iter().map(|tick| (at(tick), label(self.axis.format, tick)));
        drawing.ticks(ticks.collect(), (from, bottom), drawing.width);
        if self.axis.scale == AxisScale::Logarithmic {
            drawing.line("one", (at(1.0), from), (at(1.0), bottom));
        }
        drawing.put(rows.inner());
        drawing.top = bottom + 22.0;
        drawing.paragraph(0.0, "label", &self.axis.label);
    }

    fn row(&self, drawing: &mut Drawing, bar: &Bar, at: &dyn Fn(f64) -> f64) {
        let told = bar.told();
        let room = drawing.width - width(&told, TEXT) - 12.0;
        drawing.top += 3.0;
        drawing.paragraph(0.0, "name", &bar.name);
        match width(&bar.name, TEXT) <= room {
            true => drawing.text((drawing.width, drawing.top - 4.0), "end", &told),
            false => drawing.paragraph(0.0, "name", &told),
        }
        let middle = drawing.top + 6.0;
        let (class, counts) = (class(bar.colour), if bar.counts { "" } else { " open" });
        if self.axis.scale == AxisScale::Logarithmic {
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            drawing.line(&format!("interval {class}"), (at(low), middle), (at(high), middle));
            drawing.mark(bar.colour, (at(bar.value), middle), bar.counts, "");
        } else {
            let (x, wide) = (at(0.0), (at(bar.value) - at(0.0)).max(1.0));
            drawing.rect(&format!("bar {class}{counts}"), (x, middle - 4.5), (wide, 9.0));
            if let Some((low, high)) = bar.interval {
                drawing.line("interval ink", (at(low), middle), (at(high), middle));
            }
        }
        drawing.top += 13.0;
    }
}
