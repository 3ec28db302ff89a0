//! SVG whose text keeps its size: each drawing is made for a narrow and for a wide place, and a
//! page shows the one that fits.

use crate::table::PageTable;
use crate::text::{escaped, width, wrapped};
use core::fmt::Write;

/// The two widths, in pixels.
pub(crate) const WIDTHS: [(f64, &str); 2] = [(360.0, "small"), (760.0, "large")];

/// Colours, for pages and for drawings that stand by themselves.
pub(crate) const COLOURS: &str = include_str!("colours.css");

/// The size of text, and of titles.
pub(crate) const TEXT: f64 = 12.0;
const TITLE: f64 = 14.0;

/// How many curves have a colour of their own; the next ones are dashed.
const CLASSES: usize = 8;

/// The colour of the curve of this number, and its dashes.
pub(crate) fn class(curve: usize) -> String {
    format!("s{} d{}", curve % CLASSES, curve / CLASSES % 3)
}

/// A drawing under way.
pub(crate) struct Drawing {
    out: String,
    pub(crate) width: f64,
    /// Where the next thing begins.
    pub(crate) top: f64,
}

impl Drawing {
    pub(crate) const fn new(width: f64) -> Self {
        Self { out: String::new(), width, top: 0.0 }
    }

    /// One that stands by itself, as wide as the wider of a page, with its own colours.
    pub(crate) fn alone() -> Self {
        let mut drawing = Self::new(WIDTHS[1].0);
        drawing.put(&format!("<style>{COLOURS}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>"));
        drawing
    }

    /// Anything; numbers are the caller's, text is escaped.
    pub(crate) fn put(&mut self, markup: &str) {
        self.out.push_str(markup);
        self.out.push('\n');
    }

    /// A line of text on its base line.
    pub(crate) fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let _ = writeln!(self.out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
    }

    /// Text over as many lines as it needs.
    pub(crate) fn paragraph(&mut self, left: f64, class: &str, text: &str) {
        let size = if class == "title" { TITLE } else { TEXT };
        for line in wrapped(text, size, self.width - left) {
            self.top += size + 5.0;
            self.text((left, self.top - 4.0), class, &line);
        }
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ =
            writeln!(self.out, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    /// Lines up from an axis at these places, each with its label, as far as there is room for it
    /// before `end`. A label at an end is moved in.
    pub(crate) fn ticks(&mut self, ticks: Vec<(f64, String)>, (top, bottom): (f64, f64), end: f64) {
        let mut free = 0.0;
        for (at, text) in ticks {
            let half = 0.5 * width(&text, TEXT);
            let middle = at.clamp(half, (self.width - half).max(half));
            if middle - half >= free && middle + half <= end {
                self.line("grid", (at, top), (at, bottom));
                self.text((middle, bottom + 17.0), "middle", &text);
                free = middle + half + 8.0;
            }
        }
    }

    /// A filled rectangle: its corner, its width and its height.
    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.put(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    /// The mark of a curve: its form is another for each of four. One of what does not count is a
    /// cross. `told` is what a pointer over it shows.
    pub(crate) fn mark(&mut self, curve: usize, (x, y): (f64, f64), counts: bool, told: &str) {
        let form = match curve % 4 {
            _ if !counts => "m-4-4l8 8m-8 0l8-8",
            0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
            1 => "m-3.2-3.2h6.4v6.4h-6.4z",
            2 => "m0-4.2l4.2 7.4h-8.4z",
            _ => "m0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
        };
        let class = if counts { format!("mark {}", class(curve)) } else { format!("cross {}", class(curve)) };
        let title = if told.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(told)) };
        let _ = writeln!(self.out, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}{form}\">{title}</path>");
    }

    /// What marks mean, in as many lines as they need: names, and the curves that they are of.
    pub(crate) fn legend(&mut self, names: &[(String, Option<(usize, bool)>)]) {
        const SWATCH: f64 = 30.0;
        let mut left = 0.0;
        self.top += 4.0;
        for (name, curve) in names {
            let room = self.width - SWATCH;
            let lines = wrapped(name, TEXT, room);
            let wide = lines.iter().map(|line| width(line, TEXT)).fold(0.0, f64::max) + SWATCH + 12.0;
            if left == 0.0 || left + wide > self.width {
                left = 0.0;
                self.top += TEXT + 6.0;
            }
            match curve {
                Some((curve, counts)) => {
                    if *counts {
                        let at = self.top - 4.0;
                        self.line(&format!("line {}", class(*curve)), (left, at), (left + 22.0, at));
                    }
                    self.mark(*curve, (left + 11.0, self.top - 4.0), *counts, "");
                }
                None => self.line("interval s6", (left + 11.0, self.top - 10.0), (left + 11.0, self.top + 2.0)),
            }
            for (number, line) in lines.iter().enumerate() {
                self.top += if number > 0 { TEXT + 3.0 } else { 0.0 };
                self.text((left + SWATCH - 4.0, self.top), "name", line);
            }
            left += wide;
        }
        self.top += 8.0;
    }

    /// The drawing, described by a text.
    pub(crate) fn finish(self, class: &str, label: &str) -> String {
        let (width, height, label) = (self.width, self.top + 6.0, escaped(label));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"img\" aria-label=\"{label}\">\n{}</svg>\n",
            self.out
        )
    }
}

/// A drawing for a page, in both forms, and what it shows as a table.
pub(crate) fn figure(out: &mut String, title: &str, table: &PageTable, draw: impl Fn(&mut Drawing)) {
    out.push_str("<figure>\n");
    for (width, class) in WIDTHS {
        let mut drawing = Drawing::new(width);
        drawing.paragraph(0.0, "title", title);
        draw(&mut drawing);
        out.push_str(&drawing.finish(class, title));
    }
    out.push_str("<details><summary>The figures of this chart</summary>\n");
    table.write(out, usize::MAX);
    out.push_str("</details>\n</figure>\n");
}
