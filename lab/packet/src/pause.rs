//! Pause frames (IEEE 802.3x): a device that sends them turns loss into
//! latency, and a tester that heeds them does not send what it says.

use crate::verdict::Validity;
use serde::{Deserialize, Serialize};

/// What is known of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseFrames {
    /// There are none on such a link.
    NotApplicable(String),
    /// The interface neither heeds nor sends them.
    Off(String),
    /// They were counted.
    Counted {
        /// How many came and went, as the interface tells.
        frames: u64,
        /// Where that is from.
        told: String,
    },
    /// Nobody tells.
    Unknown(String),
}

impl PauseFrames {
    /// Of several links, the one that says least for the result.
    #[must_use]
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let rank = |of: &Self| match of {
            Self::NotApplicable(_) => 0,
            Self::Off(_) => 1,
            Self::Counted { frames: 0, .. } => 2,
            Self::Unknown(_) => 3,
            Self::Counted { .. } => 4,
        };
        all.into_iter().max_by_key(rank)
    }

    /// A result that claims that nothing was lost is nothing worth with pause
    /// frames, or where nobody knows.
    pub fn judge(&self, nothing_lost: bool, verdict: &mut Validity) {
        let told = match self {
            Self::NotApplicable(_) | Self::Off(_) | Self::Counted { frames: 0, .. } => return,
            Self::Counted { frames, told } => {
                format!("{frames} pause frames ({told}): they turn loss into latency")
            }
            Self::Unknown(why) => format!("pause frames are neither off nor counted: {why}"),
        };
        if nothing_lost {
            verdict.fails(told);
        } else {
            verdict.lacks(told);
        }
    }

    /// A line for people.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::NotApplicable(why) => format!("pause frames: n/a ({why})"),
            Self::Off(told) => format!("pause frames: off ({told})"),
            Self::Counted { frames, told } => format!("pause frames: {frames} ({told})"),
            Self::Unknown(why) => format!("pause frames: not known ({why})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Word;

    #[test]
    fn a_claim_of_no_loss_is_worth_nothing_beside_pause_frames() {
        let counted = |frames| PauseFrames::Counted { frames, told: "ethtool -S".to_owned() };
        let unknown = || PauseFrames::Unknown("no driver".to_owned());
        for (pause, lossless, lossy) in [
            (PauseFrames::NotApplicable("memory".to_owned()), Word::Complete, Word::Complete),
            (PauseFrames::Off("autoneg off".to_owned()), Word::Complete, Word::Complete),
            (counted(0), Word::Complete, Word::Complete),
            (counted(1), Word::Invalid, Word::Partial),
            (unknown(), Word::Invalid, Word::Partial),
        ] {
            for (nothing_lost, word) in [(true, lossless), (false, lossy)] {
                let mut verdict = Validity::default();
                pause.judge(nothing_lost, &mut verdict);
                assert_eq!(verdict.word, word, "{}", pause.told());
            }
        }
        assert_eq!(PauseFrames::worst([counted(1), unknown(), counted(0)]), Some(counted(1)));
        assert_eq!(PauseFrames::worst([counted(0), unknown()]), Some(unknown()));
    }
}
