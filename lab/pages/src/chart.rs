//! Curves, drawn: as SVG for a page, and in plain characters for a terminal.

use crate::drawing::{Drawing, TEXT, class};
use crate::scale::{AxisScale, Range, is_sound, label, nines, percentile};
use crate::table::PageTable;
use crate::text::{width, wrapped};

/// Curves over a pair of axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
}

/// One direction.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// How it is divided.
    pub scale: AxisScale,
    /// How a value is written.
    pub format: fn(f64) -> String,
    /// Whether all values are whole: no line stands between two of them.
    pub whole: bool,
}

impl Axis {
    /// An axis of this quantity.
    #[must_use]
    pub fn new(label: &str, scale: AxisScale, format: fn(f64) -> String) -> Self {
        Self { label: label.to_owned(), scale, format, whole: false }
    }

    /// Times, which are nanoseconds, by factors.
    #[must_use]
    pub fn times(label: &str) -> Self {
        Self::new(label, AxisScale::Logarithmic, figures::seconds)
    }

    /// Counts or rates, from zero on.
    #[must_use]
    pub fn counts(label: &str) -> Self {
        Self::new(label, AxisScale::Linear, |value| match figures::si(value, "") {
            // Of some single things no part is counted.
            _ if value.fract() == 0.0 && value.abs() < 1e3 => format!("{value}"),
            text => text.trim_end().to_owned(),
        })
    }

    /// Counts of things that have no parts.
    #[must_use]
    pub fn whole(label: &str) -> Self {
        Self { whole: true, ..Self::counts(label) }
    }
}

/// One curve.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Points, in the order in which those that count are joined.
    pub points: Vec<CurvePoint>,
    /// The largest value, for which there is no place on the axis of percentiles.
    pub largest: Option<f64>,
    /// Points are joined where the next one lies no further than by this factor: in bins between them there is nothing.
    pub step: Option<f64>,
}

/// A point of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    /// From left to right.
    pub x: f64,
    /// From bottom to top.
    pub y: f64,
    /// The ends of its interval.
    pub interval: Option<(f64, f64)>,
    /// Whether it counts; else it is shown, and no curve goes through it.
    pub counts: bool,
}

impl From<(f64, f64)> for CurvePoint {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, interval: None, counts: true }
    }
}

/// A place, and whether it counts.
impl From<(f64, f64, bool)> for CurvePoint {
    fn from((x, y, counts): (f64, f64, bool)) -> Self {
        Self { x, y, interval: None, counts }
    }
}

impl Series {
    /// Of points, without a largest.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item: Into<CurvePoint>>) -> Self {
        Self { name: name.into(), points: points.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The same, of bins each of which begins this factor behind the one before; empty ones are left out.
    #[must_use]
    pub const fn of_bins(mut self, factor: f64) -> Self {
        self.step = Some(factor);
        self
    }

    /// The same, of a run that counts or does not.
    #[must_use]
    pub fn counting(mut self, counts: bool) -> Self {
        self.points.iter_mut().for_each(|point| point.counts = counts);
        self
    }

    /// Whether something of it counts.
    fn counts(&self) -> bool {
        self.points.iter().any(|point| point.counts)
    }

    /// Times in nanoseconds by shares of so many samples: cut where fewer than ten lie beyond.
    #[must_use]
    pub fn by_share(name: &str, shares: impl Iterator<Item = (f64, f64)>, samples: f64, largest: Option<f64>) -> Self {
        let kept = shares.filter(|(share, _)| is_sound(*share, samples));
        Self { largest, ..Self::new(name, kept.map(|(share, time)| (nines(share), time))) }
    }

    /// Points that are numbers; of many the lowest and the highest of each part, so that none of
    /// them is missed.
    fn thinned(&self) -> Vec<CurvePoint> {
        let is_number = |point: &&CurvePoint| [point.x, point.y].into_iter().all(|value| AxisScale::Near.holds(value));
        let points: Vec<CurvePoint> = self.points.iter().filter(is_number).copied().collect();
        if points.len() <= 2 * PARTS {
            return points;
        }
        let ends = |part: &[CurvePoint]| {
            let by_height = |a: &&CurvePoint, b: &&CurvePoint| a.y.total_cmp(&b.y);
            let ends = [part.iter().min_by(by_height), part.iter().max_by(by_height)];
            let mut ends: Vec<CurvePoint> = ends.into_iter().flatten().copied().collect();
            ends.sort_by(|a, b| a.x.total_cmp(&b.x));
            ends
        };
        points.chunks(points.len().div_ceil(PARTS)).flat_map(ends).collect()
    }
}

/// Parts that a curve of very many points is drawn by.
const PARTS: usize = 180;

/// Marks stand at points as long as they are no more than these.
const MARKED: usize = 40;

/// Each of at most so many places of points has its tick.
const OWN_TICKS: usize = 14;

/// Letters of curves in plain characters.
const MARKS: [char; 6] = ['*', 'o', '+', 'x', '#', '@'];

/// Columns and rows of a drawing in plain characters, axes apart.
const COLUMNS: usize = 64;
const ROWS: usize = 16;

impl Chart {
    /// Of these axes and curves, without those that have no point.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, mut series: Vec<Series>) -> Self {
        series.retain(|series| !series.points.is_empty());
        Self { title: title.into(), x, y, series }
    }

    /// Times by percentile, in nanoseconds: points are nines and times.
    #[must_use]
    pub fn by_percentile(title: &str, series: Vec<Series>) -> Self {
        let label = "percentile; cut where fewer than ten samples lie beyond";
        let x = Axis::new(label, AxisScale::Percentiles, percentile);
        Self::new(title, x, Axis::times("latency"), series)
    }

    /// What is drawn, as a table.
    pub(crate) fn table(&self) -> PageTable {
        let columns: Vec<Vec<CurvePoint>> = self.series.iter().map(Series::thinned).collect();
        let mut xs: Vec<f64> = columns.iter().flatten().map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let names = self.series.iter().map(|series| series.name.clone());
        let heads = [self.x.label.clone()].into_iter().chain(names).collect();
        let row = |x: &f64| {
            let cell = |points: &Vec<CurvePoint>| {
                let all = points.iter().filter(|point| point.x == *x).map(|point| self.told(point));
                all.collect::<Vec<_>>().join("; ")
            };
            [vec![(self.x.format)(*x)], columns.iter().map(cell).collect()].concat()
        };
        let mut rows: Vec<Vec<String>> = [heads].into_iter().chain(xs.iter().map(row)).collect();
        if self.has_largest() {
            let largest = self.series.iter().map(|series| self.largest(series));
            rows.push(["max".to_owned()].into_iter().chain(largest).collect());
        }
        let title = [self.title.as_str(), &self.y.label].join(": ");
        PageTable::headed(title.trim_end_matches(": "), rows)
    }

    fn has_largest(&self) -> bool {
        self.series.iter().any(|series| series.largest.is_some())
    }

    /// The largest of a curve, as it is told.
    fn largest(&self, series: &Series) -> String {
        let told = |y| self.told(&CurvePoint { y, interval: None, x: 0.0, counts: series.counts() });
        series.largest.map_or_else(String::new, told)
    }

    /// A point's height, its interval, and whether it counts.
    fn told(&self, point: &CurvePoint) -> String {
        let interval = point.interval.map(|(low, high)| [low, high].map(self.y.format));
        let interval = interval.map_or_else(String::new, |[low, high]| format!(" ({low} to {high})"));
        let counts = if point.counts { "" } else { ", does not count" };
        format!("{}{interval}{counts}", (self.y.format)(point.y))
    }

    fn ranges(&self) -> Option<(Range, Range)> {
        let x = Range::over(self.points().map(|(_, point)| point.x), self.x.scale)?;
        let ends = self.points().flat_map(|(_, point)| {
            let (low, high) = point.interval.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let y = Range::over(ends.chain(self.series.iter().filter_map(|series| series.largest)), self.y.scale)?;
        Some((x, y))
    }

    /// The points that can be drawn, with their curves' numbers.
    fn points(&self) -> impl Iterator<Item = (usize, CurvePoint)> {
        let all = self.series.iter().enumerate();
        all.flat_map(|(curve, series)| series.thinned().into_iter().map(move |point| (curve, point)))
            .filter(|(_, point)| self.x.scale.holds(point.x) && self.y.scale.holds(point.y))
    }

    pub(crate) fn draw(&self, drawing: &mut Drawing) {
        let own = |(curve, series): (usize, &Series)| {
            let counts = if series.counts() { "" } else { ", does not count" };
            (format!("{}{counts}", series.name), Some((curve, series.counts())))
        };
        let mut names: Vec<(String, Option<(usize, bool)>)> = self.series.iter().enumerate().map(own).collect();
        let all = || self.series.iter().flat_map(|series| &series.points);
        let is_mixed = |series: &Series| series.counts() && series.points.iter().any(|point| !point.counts);
        if let Some(curve) = self.series.iter().position(is_mixed) {
            names.push(("does not count".to_owned(), Some((curve, false))));
        }
        if all().any(|point| point.interval.is_some()) {
            names.push(("interval".to_owned(), None));
        }
        drawing.legend(&names);
        match self.ranges() {
            Some(ranges) => self.plot(drawing, ranges),
            // Who sees an empty place would wait for what does not come.
            None => drawing.paragraph(0.0, "name", "(no points)"),
        }
    }

    fn plot(&self, drawing: &mut Drawing, (x, y): (Range, Range)) {
        let has_largest = self.has_largest();
        let x = if has_largest { x.longer(0.2) } else { x.roomy() };
        let y = y.roomy();
        drawing.paragraph(0.0, "label", &self.y.label);
        // Where all is zero, no other height was measured.
        let zero = self.y.scale == AxisScale::Linear && self.points().all(|(_, point)| point.y == 0.0);
        let mut heights = if zero { vec![0.0] } else { y.ticks() };
        heights.retain(|height| !self.y.whole || height.fract() == 0.0);
        let labels: Vec<(f64, String)> = heights.into_iter().map(|tick| (tick, label(self.y.format, tick))).collect();
        let left = labels.iter().map(|(_, text)| width(text, TEXT)).fold(0.0, f64::max) + 8.0;
        let (right, top) = (drawing.width - 8.0, drawing.top + 10.0);
        let bottom = top + if drawing.width < 500.0 { 190.0 } else { 250.0 };
        let at_x = |value: f64| left + x.place(value) * (right - left);
        let at_y = |value: f64| bottom - y.place(value) * (bottom - top);
        let mut above = f64::INFINITY;
        for (tick, text) in &labels {
            let at = at_y(*tick);
            drawing.line("grid", (left, at), (right, at));
            // Where decades are close, not every one has its label.
            if above - at > TEXT + 2.0 {
                drawing.text((left - 6.0, at + 4.0), "end", text);
                above = at;
            }
        }
        let ticks = self.ticks(&x).into_iter().map(|tick| (at_x(tick), label(self.x.format, tick)));
        let end = if has_largest { right - 34.0 } else { drawing.width };
        drawing.ticks(ticks.collect(), (top, bottom), end);
        if has_largest {
            drawing.line("grid", (right - 10.0, top), (right - 10.0, bottom));
            drawing.text((drawing.width - width("max", TEXT), bottom + 17.0), "name", "max");
        }
        drawing.line("axis", (left, bottom), (right, bottom));
        for curve in 0..self.series.len() {
            self.curve(drawing, curve, &|x, y| (at_x(x), at_y(y)));
            let series = &self.series[curve];
            if let Some(largest) = series.largest {
                let told = format!("{}: max {}", series.name, self.largest(series));
                drawing.mark(curve, (right - 10.0, at_y(largest)), series.counts(), &told);
            }
        }
        drawing.top = bottom + 24.0;
        for line in wrapped(&self.x.label, TEXT, drawing.width - left) {
            drawing.top += TEXT + 3.0;
            drawing.text((f64::midpoint(left, right), drawing.top - 3.0), "middle label", &line);
        }
        drawing.top += 6.0;
    }

    /// Where lines go up: at the points, as long as these are few, else at round values.
    fn ticks(&self, x: &Range) -> Vec<f64> {
        let mut own: Vec<f64> = self.points().map(|(_, point)| point.x).collect();
        own.sort_by(f64::total_cmp);
        own.dedup();
        let round = x.ticks();
        // Of percentiles only some have names; where there are few samples, none of these.
        let is_own = own.len() <= OWN_TICKS && (self.x.scale != AxisScale::Percentiles || round.is_empty());
        if is_own { own } else { round }
    }

    fn curve(&self, drawing: &mut Drawing, curve: usize, at: &dyn Fn(f64, f64) -> (f64, f64)) {
        let points: Vec<CurvePoint> =
            self.points().filter(|(owner, _)| *owner == curve).map(|(_, point)| point).collect();
        let counting: Vec<CurvePoint> = points.iter().filter(|point| point.counts).copied().collect();
        // Bins' places are rounded.
        let step = self.series[curve].step.map_or(f64::INFINITY, |step| step * 1.01);
        for piece in counting.chunk_by(|one, next| step.is_infinite() || next.x <= one.x * step) {
            // One by itself is a dot.
            let all = if step.is_finite() && piece.len() == 1 { [piece, piece].concat() } else { piece.to_vec() };
            let places = all.iter().map(|point| at(point.x, point.y));
            let path: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            drawing.put(&format!("<polyline class=\"line {}\" points=\"{}\"/>", class(curve), path.join(" ")));
        }
        for point in &points {
            if let Some((low, high)) = point.interval {
                drawing.line(&format!("interval {}", class(curve)), at(point.x, low), at(point.x, high));
            }
            if points.len() <= MARKED || !point.counts {
                let told = format!("{}: {}, {}", self.series[curve].name, (self.x.format)(point.x), self.told(point));
                drawing.mark(curve, at(point.x, point.y), point.counts, &told);
            }
        }
    }

    /// The drawing in plain characters: a letter for each curve, one for each
    /// point.
    #[must_use]
    pub fn ascii(&self) -> String {
        let Some((x, y)) = self.ranges() else { return format!("{}\n(no points)\n", self.title) };
        let mut cells = vec![[' '; COLUMNS]; ROWS];
        for (curve, point) in self.points().filter(|(_, point)| point.counts) {
            let column = (x.place(point.x) * (COLUMNS - 1) as f64).round() as usize;
            let row = (y.place(point.y) * (ROWS - 1) as f64).round() as usize;
            cells[ROWS - 1 - row][column] = MARKS[curve % MARKS.len()];
        }
        let middle = 0.5 - 0.5 / (ROWS - 1) as f64;
        let heights =
            [(0, 1.0), (ROWS / 2, middle), (ROWS - 1, 0.0)].map(|(row, at)| (row, (self.y.format)(y.value(at))));
        let width = heights.iter().map(|(_, height)| height.chars().count()).max().unwrap_or(0);
        let mut lines = vec![self.title.clone()];
        for (row, cells) in cells.iter().enumerate() {
            let height = heights.iter().find(|(at, _)| *at == row).map_or("", |(_, height)| height);
            let line: String = cells.iter().collect();
            lines.push(format!("{height:>width$} |{}", line.trim_end()));
        }
        let [first, last] = [0.0, 1.0].map(|at| (self.x.format)(x.value(at)));
        let gap = COLUMNS.saturating_sub(first.chars().count());
        lines.push(format!("{:>width$} +{}", "", "-".repeat(COLUMNS)));
        lines.push(format!("{:>width$}  {first}{last:>gap$}", ""));
        lines.push(format!("{:>width$}  {} (across), {} (up)", "", self.x.label, self.y.label));
        for (curve, series) in self.series.iter().enumerate() {
            lines.push(format!("{:>width$}  {} {}", "", MARKS[curve % MARKS.len()], series.name));
        }
        lines.join("\n") + "\n"
    }
}
