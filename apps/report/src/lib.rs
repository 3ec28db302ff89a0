//! What a run of the load generator measured, in the forms that people and
//! other tools read. All of them come from the same [`load::Report`], and a
//! form has no line for what was not measured.
//!
//! | module | form |
//! | --- | --- |
//! | `text` | for people |
//! | `json` | one JSON object |
//! | `hgrm` | HdrHistogram's percentile table |
#![forbid(unsafe_code)]

mod hgrm;
mod json;
mod text;

pub use hgrm::render_hgrm;
pub use json::render_json;
pub use text::render_text;
