//! What is recorded of a trial, lane by lane.

use crate::trial::{Gaps, LatencyDistribution, TrialResult};
use load::Recorder;

/// The distributions of one lane. Apart from the rest, so that a thread that
/// polls can hand them over by a swap, and go on with empty ones.
#[derive(Clone, Debug, Default)]
pub struct Recorders {
    /// One-way latency of frames that came for the first time.
    pub latency: Recorder,
    /// Times between two frames sent.
    pub gaps: Recorder,
    /// How late frames were sent after they were due.
    pub behind: Recorder,
    /// By how much the time between two frames was another than it should be,
    /// where one is due at a time.
    pub deviation: Recorder,
    /// One-way latency by the tester's clock, where `latency` is by stamps.
    pub beside: Recorder,
}

impl Recorders {
    /// Takes in what another has recorded, and empties it.
    pub fn take(&mut self, other: &mut Self) {
        let pairs = [
            (&mut self.latency, &mut other.latency),
            (&mut self.gaps, &mut other.gaps),
            (&mut self.behind, &mut other.behind),
            (&mut self.deviation, &mut other.deviation),
            (&mut self.beside, &mut other.beside),
        ];
        for (mine, theirs) in pairs {
            mine.merge(theirs);
            theirs.clear();
        }
    }
}

/// Puts the distributions of all lanes into a result.
pub fn fill(result: &mut TrialResult, recorders: &[Recorders]) {
    for (lane, recorded) in result.lanes.iter_mut().zip(recorders) {
        lane.latency = LatencyDistribution::of(&recorded.latency);
        if let Some(stamped) = &mut lane.stamped {
            stamped.tester = LatencyDistribution::of(&recorded.beside);
        }
        lane.gaps = Gaps::of(&recorded.gaps, &recorded.behind, &recorded.deviation);
    }
}
