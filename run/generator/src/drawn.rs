//! Results drawn: as a page, as SVG, and in plain characters.

use crate::plan::OutputPlan;
use pages::PagePart;
use say::Failure;
use std::path::PathBuf;

/// Where drawings go; that they can be written there was seen before the run.
#[derive(Debug)]
pub struct Drawings {
    svg: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Drawings {
    /// Looks at the places of those that are asked for.
    ///
    /// # Errors
    /// If one cannot be written, with its name.
    pub fn prepare(output: &OutputPlan) -> Result<Self, Failure> {
        [&output.svg, &output.html].into_iter().flatten().try_for_each(|place| results::expect_writable(place))?;
        Ok(Self { svg: output.svg.clone(), html: output.html.clone() })
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
        svg.map_or(Ok(()), |place| results::write_whole(&place, &pages::svg_page(&page.curves)))?;
        Ok(html.map_or(Ok(()), |place| results::write_whole(&place, &page.render()))?)
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
