//! Results drawn: as a page, as SVG, and in plain characters.

use super::files::Later;
use crate::plan::OutputPlan;
use pages::PagePart;
use say::Failure;

/// Files for drawings, which are there before the run.
#[derive(Debug)]
pub struct Drawings {
    svg: Option<Later>,
    html: Option<Later>,
}

impl Drawings {
    /// Opens or makes those that are asked for.
    ///
    /// # Errors
    /// If one cannot be written, with its name.
    pub fn prepare(output: &OutputPlan) -> Result<Self, Failure> {
        let file = |path: &Option<std::path::PathBuf>| path.as_deref().map(Later::prepare).transpose();
        Ok(Self { svg: file(&output.svg)?, html: file(&output.html)? })
    }

    /// Draws a result, which is JSON, into them.
    ///
    /// # Errors
    /// If one cannot be written, with its name.
    pub fn write(self, json: &str) -> Result<(), Failure> {
        let Self { svg, html } = self;
        if svg.is_none() && html.is_none() {
            return Ok(());
        }
        let page = results::page(&[("result.json".to_owned(), json.to_owned())])?;
        svg.map_or(Ok(()), |file| file.write(&pages::svg_page(&page.curves)))?;
        html.map_or(Ok(()), |file| file.write(&page.render()))
    }
}

/// The first curves of a result, which is JSON, in plain characters.
///
/// # Errors
/// None, of a result of ours.
pub fn ascii(json: &str) -> Result<String, Failure> {
    let page = results::page(&[("result.json".to_owned(), json.to_owned())])?;
    let first =
        page.curves.iter().find_map(|part| if let PagePart::Chart(chart) = part { Some(chart.ascii()) } else { None });
    Ok(first.map_or_else(String::new, |chart| format!("\n{chart}")))
}
