//! Requests per second over memif, beside the frames per second that the same
//! kind of memif carries between two programs that do nothing else.

use crate::BenchError;
use demo::DemoPlan;
use std::path::Path;

/// Requests for each frame, at least.
pub const BOUND: f64 = 0.12;

/// Measures by turns and prints. Returns whether the bound holds.
///
/// # Errors
/// If either cannot be measured.
pub fn run(plan: &DemoPlan, nearside: &Path) -> Result<bool, BenchError> {
    println!("  requests/s     frames/s   ratio");
    let rounds = demo::requests_and_frames(plan, nearside)?;
    let mut ratios = Vec::new();
    for (requests, frames) in rounds {
        println!("{requests:12.0} {frames:12.0}  {:6.3}", requests / frames);
        ratios.push(requests / frames);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return Err("no rounds".into()) };
    let median = ratios[ratios.len() / 2];
    let kept = median >= BOUND;
    let word = if kept { "kept" } else { "NOT KEPT" };
    println!("{median:.3} requests per frame ({least:.3} to {most:.3}), at least {BOUND}: {word}");
    Ok(kept)
}
