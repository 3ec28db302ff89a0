//! What must hold between figures, and what is said where it does not.

use crate::figure::{Interval, Show};
use serde::Serialize;

/// How bad a finding is, from mild to bad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// What is said may be true, but is not shown by what is printed.
    Unproven,
    /// No run prints this.
    Impossible,
}

/// Something impossible or unproven.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// The file.
    pub file: String,
    /// The tool, or the claim's name.
    pub run: String,
    /// The line of it, from 1; 0 if it is about none.
    pub line: usize,
    /// The check, as a short name.
    pub check: &'static str,
    /// What is wrong.
    pub says: String,
    /// By how much.
    pub by: String,
    /// The arithmetic.
    pub arithmetic: String,
    /// What would prove it.
    pub proof: String,
}

/// How two figures must stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The same.
    Equal,
    /// The left one no more than the right one.
    AtMost,
    /// Nothing: this is found whatever they are.
    Never,
}

/// What must hold between two figures.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub check: &'static str,
    pub severity: Severity,
    pub left: Interval,
    pub order: Order,
    pub right: Interval,
    pub says: String,
    pub arithmetic: String,
    pub proof: &'static str,
}

impl Relation {
    pub(crate) fn new(
        check: &'static str,
        (left, order, right): (Interval, Order, Interval),
        says: impl Into<String>,
        arithmetic: impl Into<String>,
        proof: &'static str,
    ) -> Self {
        let (says, arithmetic) = (says.into(), arithmetic.into());
        Self { check, severity: Severity::Impossible, left, order, right, says, arithmetic, proof }
    }

    /// Found whatever the figures are: something is missing or not alike.
    pub(crate) fn missing(check: &'static str, line: usize, says: impl Into<String>, proof: &'static str) -> Self {
        let nothing = Interval::exact(0.0, line);
        Self::new(check, (nothing, Order::Never, nothing), says, "", proof).unproven()
    }

    pub(crate) fn unproven(mut self) -> Self {
        self.severity = Severity::Unproven;
        self
    }

    /// What is said if it does not hold for any values behind the figures.
    pub(crate) fn finding(&self, file: &str, run: &str) -> Option<Finding> {
        let (left, right) = (self.left, self.right);
        // The last bits of sums are not the file's fault.
        let noise = 1e-9 * left.high.abs().max(right.high.abs());
        let above = left.low > right.high + noise;
        let below = right.low > left.high + noise;
        let broken = match self.order {
            Order::Equal => above || below,
            Order::AtMost => above,
            Order::Never => true,
        };
        broken.then(|| Finding {
            severity: self.severity,
            file: file.to_owned(),
            run: run.to_owned(),
            line: left.line.max(right.line),
            check: self.check,
            says: self.says.clone(),
            by: if self.order == Order::Never { String::new() } else { distance(left.middle(), right.middle()) },
            arithmetic: self.arithmetic.clone(),
            proof: self.proof.to_owned(),
        })
    }
}

/// How far apart two figures are, in words.
pub(crate) fn distance(left: f64, right: f64) -> String {
    let gap = (left - right).abs();
    if right <= 0.0 || left <= 0.0 {
        return format!("by {}", Show(gap));
    }
    let (more, less) = (left.max(right), left.min(right));
    match more / less {
        ratio if ratio >= 2.0 => format!("{} times", Show((ratio * 100.0).round() / 100.0)),
        ratio => format!("by {} ({:.2} %)", Show(gap), (ratio - 1.0) * 100.0),
    }
}
