//! The experiments that come with the program.

use crate::Failure;
use crate::experiment::{Experiment, Set};

/// Their files, in the order of the list.
const FILES: &[(&str, &str)] = &[
    ("accept-order", include_str!("../experiments/accept-order.toml")),
    ("accept-queue", include_str!("../experiments/accept-queue.toml")),
    ("accept-queue-keep-alive", include_str!("../experiments/accept-queue-keep-alive.toml")),
    ("allocator", include_str!("../experiments/allocator.toml")),
    ("idle", include_str!("../experiments/idle.toml")),
    ("tx-delay", include_str!("../experiments/tx-delay.toml")),
    ("internet", include_str!("../experiments/internet.toml")),
    ("offload", include_str!("../experiments/offload.toml")),
    ("kernel-vs-bypass", include_str!("../experiments/kernel-vs-bypass.toml")),
    ("media", include_str!("../experiments/media.toml")),
    ("steer-queue", include_str!("../experiments/steer-queue.toml")),
    ("steer-queue-keep-alive", include_str!("../experiments/steer-queue-keep-alive.toml")),
    ("scaling", include_str!("../experiments/scaling.toml")),
];

/// All of them.
///
/// # Errors
/// Never in a program that passed its tests: one reads every file.
pub fn all() -> Result<Vec<Experiment>, Failure> {
    FILES.iter().map(|(name, text)| Experiment::parse(name, text, &[])).collect()
}

/// The text of one.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in experiment by its name, or one from a file.
///
/// # Errors
/// If there is neither, or what the file says makes no sense.
pub fn find(name: &str, sets: &[Set]) -> Result<Experiment, Failure> {
    if let Some(text) = text(name) {
        return Experiment::parse(name, text, sets);
    }
    let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(name)
        .map_err(|why| format!("'{name}' is none of {} and cannot be read as a file: {why}", known.join(", ")))?;
    Experiment::parse(name, &text, sets)
}
