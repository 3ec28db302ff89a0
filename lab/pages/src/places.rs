//! What lies where: frames beside each other, each with what is in it. How far something is from what it could be is a
//! bar in a frame of its own.

use crate::drawing::{Drawing, class};
use crate::table::PageTable;
use core::fmt::Write;

/// Frames that are drawn, and things of one; of the others it is told how many there are.
const FRAMES: usize = 32;
const THINGS: usize = 24;

/// Squares of a thing that are drawn, and how large they are.
const SQUARES: usize = 512;
const SQUARE: f64 = 9.0;

/// Between frames, and within them.
const GAP: f64 = 12.0;
const INSET: f64 = 10.0;

/// What the mark of a thing takes.
const MARK: f64 = 14.0;

/// The narrowest frame of which two stand beside each other.
const NARROWEST: f64 = 300.0;

/// Frames with what is in them.
#[derive(Clone, PartialEq, Debug)]
pub struct Places {
    /// What it shows.
    pub title: String,
    /// The frames.
    pub frames: Vec<PlaceFrame>,
}

/// A frame.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlaceFrame {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub things: Vec<Placed>,
}

/// Something in a frame.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Placed {
    /// Which colour its kind has.
    pub colour: usize,
    /// Its name.
    pub name: String,
    /// What is told of it.
    pub told: String,
    /// What is wrong with it.
    pub faults: Vec<String>,
    /// How much it has of what it could, from 0 to 1.
    pub share: Option<f64>,
    /// A square for each of its parts: whether it is in use.
    pub squares: Vec<bool>,
}

impl Places {
    /// What is drawn, as a table.
    pub(crate) fn table(&self) -> PageTable {
        let rows = self.frames.iter().flat_map(|frame| frame.things.iter().map(move |thing| thing.row(frame)));
        PageTable::new(self.title.clone(), &["where", "what", "told of it"]).with(rows)
    }

    /// Draws all of it.
    pub(crate) fn draw(&self, drawing: &mut Drawing) {
        let width = drawing.width;
        let columns = if width >= 2.0 * NARROWEST + GAP && self.frames.len() > 1 { 2 } else { 1 };
        let wide = (width - GAP * (columns as f64 - 1.0)) / columns as f64;
        let left = |at: usize| at as f64 * (wide + GAP);
        for row in self.frames.chunks(columns).take(FRAMES.div_ceil(columns)) {
            let top = drawing.top + 6.0;
            let mut bottom = top;
            for (at, frame) in row.iter().enumerate() {
                (drawing.top, drawing.width) = (top + 4.0, left(at) + wide - INSET);
                frame.draw(drawing, left(at) + INSET);
                bottom = bottom.max(drawing.top + INSET);
            }
            for at in 0..row.len() {
                drawing.rect("frame", (left(at) + 0.5, top + 0.5), (wide - 1.0, bottom - top - 1.0));
            }
            (drawing.top, drawing.width) = (bottom + 6.0, width);
        }
        rest(drawing, 0.0, (self.frames.len(), FRAMES));
    }
}

/// Says that not all are drawn.
fn rest(drawing: &mut Drawing, left: f64, (all, drawn): (usize, usize)) {
    if let Some(more) = all.checked_sub(drawn).filter(|more| *more > 0) {
        drawing.paragraph(left, "label", &format!("and {more} more, which are not drawn"));
    }
}

impl PlaceFrame {
    /// Draws it from this place on, as far as the drawing is wide.
    fn draw(&self, drawing: &mut Drawing, left: f64) {
        drawing.paragraph(left, "strong", &self.name);
        self.things.iter().take(THINGS).for_each(|thing| thing.draw(drawing, left));
        rest(drawing, left, (self.things.len(), THINGS));
    }
}

impl Placed {
    /// Of this kind's colour and this name, of which this is told.
    #[must_use]
    pub fn new(colour: usize, name: impl Into<String>, told: &[String]) -> Self {
        Self { colour, name: name.into(), told: told.join(", "), ..Self::default() }
    }

    fn row(&self, frame: &PlaceFrame) -> Vec<String> {
        let told = [core::slice::from_ref(&self.told), &self.faults].concat();
        vec![frame.name.clone(), self.name.clone(), told.join("; ")]
    }

    fn draw(&self, drawing: &mut Drawing, left: f64) {
        let left = left + MARK;
        drawing.top += 5.0;
        drawing.mark(self.colour, (left - 9.0, drawing.top + 9.0), true, "");
        let text = if self.told.is_empty() { self.name.clone() } else { format!("{}: {}", self.name, self.told) };
        drawing.paragraph(left, "name", &text);
        self.draw_squares(drawing, left);
        if let Some(share) = self.share.filter(|share| share.is_finite()) {
            let (room, colour) = (drawing.width - left, class(self.colour));
            let long = room * share.clamp(0.0, 1.0);
            drawing.rect(&format!("bar {colour}"), (left, drawing.top), (long, 6.0));
            drawing.rect("frame", (left + 0.5, drawing.top + 0.5), (room - 1.0, 5.0));
            drawing.top += 10.0;
        }
        for fault in &self.faults {
            drawing.paragraph(left, "fault", fault);
        }
    }

    /// A square for each part, filled where it is in use.
    fn draw_squares(&self, drawing: &mut Drawing, left: f64) {
        if self.squares.is_empty() {
            return;
        }
        let step = SQUARE + 3.0;
        let columns = (((drawing.width - left) / step) as usize).max(1);
        let shown = self.squares.len().min(SQUARES);
        let mut path = [String::new(), String::new()];
        for (at, used) in self.squares.iter().enumerate().take(shown) {
            let (x, y) = (left + (at % columns) as f64 * step, drawing.top + (at / columns) as f64 * step);
            let _ = write!(path[usize::from(*used)], "M{x:.1} {y:.1}h{SQUARE}v{SQUARE}h-{SQUARE}z");
        }
        for (path, kind) in path.iter().zip([" open", ""]).filter(|(path, _)| !path.is_empty()) {
            drawing.put(&format!("<path class=\"bar {}{kind}\" d=\"{path}\"/>", class(self.colour)));
        }
        drawing.top += shown.div_ceil(columns) as f64 * step + 2.0;
        rest(drawing, left, (self.squares.len(), SQUARES));
    }
}
