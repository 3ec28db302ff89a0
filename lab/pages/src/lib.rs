//! Pages of results that a person hands to another: one model for all of them, and its charts.
//!
//! A page begins with its head, which nobody can leave out: what was measured, of whom, when, the
//! verdict with its reasons, the command quoted for a shell, the machine. Figures follow, then
//! curves, then how it was measured, and the result itself, to be taken out again. A page is one
//! file: no script, nothing fetched; light, dark and on paper, from 400 pixels on. Its markup is
//! XML as well, so that any parser checks it.
//!
//! | module | for |
//! | --- | --- |
//! | `page` | the model, and its HTML |
//! | `table` | tables that become lists where they would be cut |
//! | `chart` | curves: as SVG, and in plain characters |
//! | `scale` | axes: values to places, and round values on them |
//! | `bars` | values by name, with their intervals: tables with a drawn column |
//! | `places` | what lies where: frames, and what is in them |
//! | `drawing` | SVG in a narrow and a wide form, of which a page shows one |
//! | `text` | text that is no markup: escaped, measured, wrapped |
//! | `tone` | how good or bad something is |
//! | `shell` | commands quoted for a shell |
//! | `inside` | results put into a page, and taken out |
#![forbid(unsafe_code)]

mod bars;
mod chart;
mod drawing;
mod inside;
mod page;
mod places;
mod scale;
mod shell;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod tone;

pub use bars::Bar;
pub use chart::{Axis, Chart, CurvePoint, Series};
pub use inside::{named_results_in, results_in};
pub use page::{Page, PageHead, PagePart, PageVerdict, svg_page};
pub use places::{PlaceFrame, Placed, Places};
pub use scale::{AxisScale, is_sound, percentile};
pub use shell::quoted;
pub use table::PageTable;
pub use text::escaped;
pub use tone::Tone;
