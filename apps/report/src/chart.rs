//! Curves, drawn: as SVG for a page, and in plain characters for a terminal.

use core::fmt::{self, Write};

/// Curves over a pair of axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The curves; the first ones in colours of their own.
    pub series: Vec<Series>,
}

/// One direction.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Each step is a factor; values of zero and below are left out.
    pub logarithmic: bool,
    /// How a value is written.
    pub format: fn(f64) -> String,
}

/// One curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// Colours of curves that people with any colour vision tell apart, on white
/// and on black (Okabe and Ito 2008).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Letters of curves in plain characters.
const MARKS: [char; 6] = ['*', 'o', '+', 'x', '#', '@'];

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 340.0;

/// Columns and rows of a drawing in plain characters, axes apart.
const COLUMNS: usize = 64;
const ROWS: usize = 16;

/// Lines across the drawing, about.
const TICKS: f64 = 6.0;

/// Drawings below each other, as one SVG document.
#[must_use]
pub fn svg_page(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut out = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">\n");
    for (n, chart) in charts.iter().enumerate() {
        let top = HEIGHT * n as f64;
        out.push_str(&chart.svg().replacen("<svg ", &format!("<svg y=\"{top}\" height=\"{HEIGHT}\" "), 1));
    }
    out + "</svg>\n"
}

impl Chart {
    /// The drawing as an SVG document that stands by itself.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_svg(&mut out);
        out
    }

    /// The drawing in plain characters: a letter for each curve, one for each
    /// point.
    #[must_use]
    pub fn ascii(&self) -> String {
        let mut out = String::new();
        let _ = self.write_ascii(&mut out);
        out
    }

    fn scales(&self) -> Option<(Scale, Scale)> {
        let points = || self.points().map(|(_, point)| point);
        let x = Scale::over(points().map(|(x, _)| x), self.x.logarithmic)?;
        let y = Scale::over(points().map(|(_, y)| y), self.y.logarithmic)?;
        Some((x, y))
    }

    /// The points that can be drawn, with their curves' numbers.
    fn points(&self) -> impl Iterator<Item = (usize, (f64, f64))> {
        let shown = |value: f64, axis: &Axis| value.is_finite() && (!axis.logarithmic || value > 0.0);
        self.series
            .iter()
            .enumerate()
            .flat_map(|(curve, series)| series.points.iter().map(move |point| (curve, *point)))
            .filter(move |(_, (x, y))| shown(*x, &self.x) && shown(*y, &self.y))
    }

    fn write_svg(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{0}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#555\">\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{0}</text>",
            escape(&self.title)
        )?;
        if let Some((x, y)) = self.scales() {
            self.write_grid(out, &x, &y)?;
            for (curve, series) in self.series.iter().enumerate() {
                self.write_curve(out, curve, series, &x, &y)?;
            }
        } else {
            // Who sees an empty place would wait for what does not come.
            writeln!(out, "<text x=\"{LEFT}\" y=\"48\">(no points)</text>")?;
        }
        out.write_str("</svg>\n")
    }

    fn write_grid(&self, out: &mut String, x: &Scale, y: &Scale) -> fmt::Result {
        for value in x.ticks() {
            let at = LEFT + x.place(value) * (RIGHT - LEFT);
            let text = escape(&(self.x.format)(value));
            writeln!(
                out,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\" stroke=\"#8884\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                BOTTOM + 18.0
            )?;
        }
        for value in y.ticks() {
            let at = BOTTOM - y.place(value) * (BOTTOM - TOP);
            let text = escape(&(self.y.format)(value));
            writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#8884\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 8.0,
                at + 4.0
            )?;
        }
        let (middle, centre) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {centre}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 40.0,
            escape(&self.x.label),
            escape(&self.y.label)
        )
    }

    fn write_curve(&self, out: &mut String, curve: usize, series: &Series, x: &Scale, y: &Scale) -> fmt::Result {
        let colour = COLOURS[curve % COLOURS.len()];
        let places = self.points().filter(|(owner, _)| *owner == curve).map(|(_, point)| point);
        let places: Vec<(f64, f64, (f64, f64))> = places
            .map(|point| {
                let (left, low) = (x.place(point.0), y.place(point.1));
                (LEFT + left * (RIGHT - LEFT), BOTTOM - low * (BOTTOM - TOP), point)
            })
            .collect();
        let path: Vec<String> = places.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            path.join(" ")
        )?;
        for (left, top, (a, b)) in &places {
            writeln!(
                out,
                "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {}, {}</title></circle>",
                escape(&series.name),
                escape(&(self.x.format)(*a)),
                escape(&(self.y.format)(*b))
            )?;
        }
        let line = TOP + 10.0 + 20.0 * curve as f64;
        writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{line}\">{}</text>",
            RIGHT + 16.0,
            line - 6.0,
            RIGHT + 34.0,
            escape(&series.name)
        )
    }

    fn write_ascii(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "{}", self.title)?;
        let Some((x, y)) = self.scales() else { return writeln!(out, "(no points)") };
        let mut cells = vec![[' '; COLUMNS]; ROWS];
        for (curve, point) in self.points() {
            let column = (x.place(point.0) * (COLUMNS - 1) as f64).round() as usize;
            let row = (y.place(point.1) * (ROWS - 1) as f64).round() as usize;
            cells[ROWS - 1 - row.min(ROWS - 1)][column.min(COLUMNS - 1)] = MARKS[curve % MARKS.len()];
        }
        let names = |value: f64| (self.y.format)(value);
        let width = [y.low(), y.middle(), y.high()].map(|value| names(value).chars().count());
        let width = width.into_iter().max().unwrap_or(0);
        for (row, line) in cells.iter().enumerate() {
            let label = match row {
                0 => names(y.high()),
                _ if row == ROWS / 2 => names(y.value(0.5 - 0.5 / (ROWS - 1) as f64)),
                _ if row == ROWS - 1 => names(y.low()),
                _ => String::new(),
            };
            let line: String = line.iter().collect();
            writeln!(out, "{label:>width$} |{}", line.trim_end())?;
        }
        let (first, last) = ((self.x.format)(x.low()), (self.x.format)(x.high()));
        let gap = COLUMNS.saturating_sub(first.chars().count());
        writeln!(out, "{:>width$} +{}\n{:>width$}  {first}{last:>gap$}", "", "-".repeat(COLUMNS), "")?;
        writeln!(out, "{:>width$}  {} (across), {} (up)", "", self.x.label, self.y.label)?;
        for (curve, series) in self.series.iter().enumerate() {
            writeln!(out, "{:>width$}  {} {}", "", MARKS[curve % MARKS.len()], series.name)?;
        }
        Ok(())
    }
}

/// How values become places between 0 and 1.
struct Scale {
    from: f64,
    span: f64,
    logarithmic: bool,
}

impl Scale {
    /// From the smallest to the largest value, and from zero where that is
    /// linear; `None` without values.
    fn over(values: impl Iterator<Item = f64>, logarithmic: bool) -> Option<Self> {
        let own = |value: f64| if logarithmic { value.log10() } else { value };
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(own(value)), high.max(own(value)));
        }
        if low > high {
            return None;
        }
        if !logarithmic {
            low = low.min(0.0);
        }
        let span = if high > low { high - low } else { 1.0 };
        Some(Self { from: low, span, logarithmic })
    }

    fn place(&self, value: f64) -> f64 {
        let own = if self.logarithmic { value.log10() } else { value };
        ((own - self.from) / self.span).clamp(0.0, 1.0)
    }

    fn value(&self, place: f64) -> f64 {
        let own = self.from + place * self.span;
        if self.logarithmic { 10_f64.powf(own) } else { own }
    }

    fn low(&self) -> f64 {
        self.value(0.0)
    }

    fn middle(&self) -> f64 {
        self.value(0.5)
    }

    fn high(&self) -> f64 {
        self.value(1.0)
    }

    /// Round values within the scale: 1, 2 and 5 times powers of ten.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = self.from.floor() as i32..=(self.from + self.span).ceil() as i32;
            let all = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
            let within = |value: &f64| {
                let own = value.log10();
                own >= self.from - 1e-9 && own <= self.from + self.span + 1e-9
            };
            let ticks: Vec<f64> = all.filter(within).collect();
            // Over many decades, one line each is enough.
            let whole = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-9;
            let many = ticks.len() as f64 > 2.0 * TICKS;
            return ticks.into_iter().filter(|value| !many || whole(value)).collect();
        }
        let rough = self.span / TICKS;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let (first, last) = ((self.from / step).ceil() as i64, ((self.from + self.span) / step + 1e-9).floor() as i64);
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: f64) -> String {
        format!("{value:.0}")
    }

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "latency <p99>".into(),
            x: Axis { label: "rate".into(), logarithmic: false, format: plain },
            y: Axis { label: "ms".into(), logarithmic: true, format: plain },
            series: vec![Series { name: "p99".into(), points }, Series { name: "none".into(), points: vec![] }],
        }
    }

    #[test]
    fn a_curve_in_plain_characters() {
        let drawn = chart(vec![(0.0, 1.0), (500.0, 10.0), (1_000.0, 1_000.0), (100.0, 0.0)]).ascii();
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "latency <p99>");
        assert_eq!(lines[1].trim_end(), format!("1000 |{}*", " ".repeat(63)));
        assert_eq!(lines[16], "   1 |*");
        assert_eq!(lines[11], format!("     |{}*", " ".repeat(32)));
        assert_eq!(lines[18], format!("      0{:>63}", 1000));
        assert_eq!(drawn.matches('*').count(), 4, "zero has no place on a logarithmic axis:\n{drawn}");
    }

    #[test]
    fn a_curve_as_svg() {
        let drawn = chart(vec![(0.0, 1.0), (1_000.0, 100.0), (2_000.0, f64::NAN)]).svg();
        assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>\n"));
        assert!(drawn.contains("latency &lt;p99&gt;"), "{drawn}");
        assert!(drawn.contains("points=\"84.0,340.0 560.0,44.0\""), "{drawn}");
        assert!(!drawn.contains("NaN"));
        let opened = drawn.matches('<').count() - drawn.matches("</").count() - drawn.matches("/>").count();
        assert_eq!(opened, drawn.matches("</").count(), "every element is closed");
    }

    #[test]
    fn several_curves_on_a_page() {
        let page = svg_page(&[chart(vec![(1.0, 2.0)]), chart(vec![(1.0, 2.0)])]);
        assert_eq!((page.matches("<svg ").count(), page.matches("</svg>").count()), (3, 3));
        assert!(page.contains("viewBox=\"0 0 720 800\"") && page.contains("<svg y=\"400\" height=\"400\" "));
    }

    #[test]
    fn nothing_to_draw_is_drawn_empty_and_says_so() {
        for drawn in [chart(vec![]).svg(), chart(vec![]).ascii(), chart(vec![(1.0, f64::NAN)]).svg()] {
            assert!(drawn.contains("(no points)"), "{drawn}");
        }
        for drawn in [chart(vec![]).svg(), chart(vec![]).ascii(), chart(vec![(3.0, 3.0)]).ascii()] {
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }

    #[test]
    fn lines_stand_at_round_values() {
        let ticks = |low: f64, high: f64, log| Scale::over([low, high].into_iter(), log).map(|s| s.ticks());
        assert_eq!(ticks(0.0, 1_000.0, false), Some(vec![0.0, 200.0, 400.0, 600.0, 800.0, 1_000.0]));
        assert_eq!(ticks(1.0, 100.0, true), Some(vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]));
        let many = ticks(1.0, 1e9, true).map(|ticks| ticks.len());
        assert_eq!(many, Some(10));
    }
}
