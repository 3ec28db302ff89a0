//! Whether the figures can be trusted, in one word, with the reasons.

use super::{Report, Warning};
use core::fmt;
use serde::Serialize;
use serde::ser::SerializeStruct;

/// A percentile that few samples are beyond is no reason to doubt the others, from here on.
const TAIL: f64 = 99.5;

/// Whether figures can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Nothing speaks against them.
    #[default]
    Yes,
    /// Something spoils some of them, and says which.
    WithCare,
    /// They are not of what was asked for, or are the generator's own.
    No,
}

impl Trust {
    /// The same, in the word that all results of ours have.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "COMPLETE",
            Self::WithCare => "PARTIAL",
            Self::No => "INVALID",
        }
    }
}

/// The figure that a warning spoils, for it to be shown beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spoils {
    /// All of them: the run was another than asked for.
    All,
    /// The rate.
    Rate,
    /// Latencies, all of them.
    Latency,
    /// The highest percentiles, and the longest latency.
    Tail,
    /// The uncorrected latencies.
    Uncorrected,
    /// Connections.
    Connections,
}

/// Whether the figures of a report can be trusted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Verdict {
    /// Whether they can: as the gravest of the reasons says.
    pub trust: Trust,
    /// What speaks against them, the gravest first.
    pub reasons: Vec<Reason>,
}

/// What speaks against figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reason {
    /// How much.
    pub trust: Trust,
    /// Against which of them.
    pub spoils: Spoils,
    /// In a few words.
    pub what: &'static str,
    /// In a sentence.
    pub sentence: String,
}

impl Verdict {
    /// The verdict on a report whose warnings are found.
    pub(super) fn on(report: &Report) -> Self {
        let weighed = report.warnings.iter().map(|warning| (warning, weight(warning)));
        let mut reasons: Vec<Reason> = weighed
            .filter(|(_, (trust, _))| *trust > Trust::Yes)
            .map(|(warning, (trust, what))| Reason {
                trust,
                spoils: warning.spoils(),
                what,
                sentence: warning.to_string(),
            })
            .collect();
        // Stable: reasons of one weight stay in the order of their warnings.
        reasons.sort_by_key(|reason| core::cmp::Reverse(reason.trust));
        Self { trust: reasons.first().map_or(Trust::Yes, |first| first.trust), reasons }
    }
}

/// How much a warning speaks against figures, and what it is called.
const fn weight(warning: &Warning) -> (Trust, &'static str) {
    match warning {
        Warning::NotBegun { .. } => (Trust::No, "nothing measured"),
        Warning::NoResponses => (Trust::No, "no responses"),
        Warning::ClientSaturated { .. } => (Trust::No, "generator saturated"),
        Warning::LittlesLaw { .. } => (Trust::No, "figures contradict each other"),
        Warning::LoopNotFull { .. } => (Trust::No, "less load than asked for"),
        Warning::RateMissed { .. } => (Trust::No, "rate not reached"),
        Warning::Unsent { .. } => (Trust::No, "requests never sent"),
        Warning::Stalled { .. } => (Trust::No, "requests still waiting at the end"),
        Warning::Failures { .. } => (Trust::No, "requests failed"),
        Warning::WrongAnswers { .. } => (Trust::No, "wrong answers"),
        Warning::RampIncomplete { .. } => (Trust::No, "connections missing"),
        Warning::Stolen { fraction } if *fraction >= MUCH => (Trust::No, "cores stolen by the hypervisor"),
        Warning::Stolen { .. } => (Trust::WithCare, "cores stolen by the hypervisor"),
        Warning::OutOfTime => (Trust::WithCare, "fewer requests than asked for"),
        Warning::Interrupted => (Trust::WithCare, "interrupted"),
        Warning::ClientMaybeSaturated { .. } => (Trust::WithCare, "generator perhaps saturated"),
        Warning::NotOk { .. } => (Trust::WithCare, "calls other than OK"),
        Warning::NotSuccess { .. } => (Trust::WithCare, "answers other than 2xx"),
        Warning::GoneAway { .. } => (Trust::WithCare, "requests delayed by GOAWAY"),
        Warning::ScheduleLag { .. } => (Trust::WithCare, "requests sent late"),
        Warning::SchedulingDelay { .. } => (Trust::WithCare, "generator called late"),
        Warning::GeneratorStalled { .. } => (Trust::WithCare, "generator stood still"),
        Warning::NoCore { fraction } if *fraction >= MUCH => (Trust::No, "generator waited for a core"),
        Warning::NoCore { .. } => (Trust::WithCare, "generator waited for a core"),
        Warning::PortsShort { .. } => (Trust::WithCare, "local ports short"),
        Warning::NearFloor { .. } => (Trust::WithCare, "near the generator's floor"),
        Warning::FloorVoid { .. } => (Trust::WithCare, "machine changed between floor and run"),
        Warning::FewSamples { percentile, .. } if *percentile > TAIL => (Trust::Yes, "few samples"),
        Warning::FewSamples { .. } => (Trust::WithCare, "few samples"),
        Warning::CoarseStamps { .. } => (Trust::WithCare, "coarse time stamps"),
        Warning::ConnectPaused { .. } => (Trust::WithCare, "connecting paused"),
    }
}

/// From this share of the time on, what others had of the cores is what is measured.
const MUCH: f64 = 0.1;

impl Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Verdict", 3)?;
        fields.serialize_field("word", self.trust.word())?;
        fields.serialize_field("trust", &self.trust)?;
        fields.serialize_field("reasons", &self.reasons)?;
        fields.end()
    }
}

impl fmt::Display for Verdict {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.trust {
            Trust::Yes => "the figures can be trusted",
            Trust::WithCare => "the figures can be trusted with care: ",
            Trust::No => "the figures cannot be trusted: ",
        })?;
        for (n, reason) in self.reasons.iter().enumerate() {
            write!(f, "{}{}", if n == 0 { "" } else { ", " }, reason.what)?;
        }
        Ok(())
    }
}
