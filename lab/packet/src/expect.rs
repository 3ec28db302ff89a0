//! What a test is to show: `loss=0,max<20us,p99.9<12us`.

use crate::trial::{LaneResult, TrialResult};
use crate::verdict::Word;
use core::fmt;
use core::str::FromStr;
use serde::Serialize;

/// A bound on a figure of every stream and direction.
///
/// | figure | what | value |
/// | --- | --- | --- |
/// | `loss` | frames lost, at the entrance or within | a number, or a share with % |
/// | `duplicates`, `reordered`, `damaged` | frames | a number |
/// | `min`, `mean`, `max`, `p50`, `p99.9`, … | latency: of probes, where there are any | a time with ns, us, ms or s |
/// | `rate` | frames sent per second | a number, with k, M or G |
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Expectation {
    /// As it was written.
    pub text: String,
    #[serde(skip)]
    figure: Figure,
    #[serde(skip)]
    relation: Relation,
    #[serde(skip)]
    bound: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Figure {
    Loss,
    LossShare,
    Duplicates,
    Reordered,
    Damaged,
    Min,
    Mean,
    Max,
    Quantile(f64),
    Rate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// An expectation beside what was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// What was asked.
    pub expectation: String,
    /// The worst that was measured; `None`: there is no such figure, or too
    /// few samples for it.
    pub measured: Option<f64>,
    /// It is a time, in nanoseconds.
    pub is_time: bool,
    /// Whether it was met. What was not measured was not; `None`: it is measured, and does not count, as
    /// the result is INVALID.
    pub met: Option<bool>,
}

/// Why an expectation cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadExpectation {
    text: String,
    /// It is a count that is not whole: perhaps a share was meant.
    fraction: bool,
}

impl Judged {
    /// In a word, whether it was met.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "does not count",
        }
    }
}

impl fmt::Display for BadExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fraction {
            let text = &self.text;
            return write!(f, "'{text}': a count is a whole number, and a share has its sign, as in loss<0.1%");
        }
        write!(
            f,
            "'{}' is not understood; write a figure (loss, duplicates, reordered, damaged, min, mean, max, p99.9, \
             rate), =, <, <=, > or >=, and a value, as in loss=0,max<20us",
            self.text
        )
    }
}

impl core::error::Error for BadExpectation {}

impl FromStr for Expectation {
    type Err = BadExpectation;

    fn from_str(text: &str) -> Result<Self, BadExpectation> {
        let bad = || BadExpectation { text: text.to_owned(), fraction: false };
        let at = text.find(['<', '>', '=']).ok_or_else(bad)?;
        let (name, rest) = text.split_at(at);
        let (relation, value) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Relation::AtMost, &rest[2..]),
            [b'>', b'=', ..] => (Relation::AtLeast, &rest[2..]),
            [b'<', ..] => (Relation::Less, &rest[1..]),
            [b'>', ..] => (Relation::More, &rest[1..]),
            _ => (Relation::Equal, &rest[1..]),
        };
        let (figure, bound) = match name.trim() {
            "loss" => match value.strip_suffix('%') {
                Some(share) => (Figure::LossShare, number(share).map(|share| share / 100.0)),
                None => (Figure::Loss, number(value)),
            },
            "duplicates" => (Figure::Duplicates, number(value)),
            "reordered" => (Figure::Reordered, number(value)),
            "damaged" => (Figure::Damaged, number(value)),
            "min" => (Figure::Min, nanos(value)),
            "mean" => (Figure::Mean, nanos(value)),
            "max" => (Figure::Max, nanos(value)),
            "rate" => (Figure::Rate, number(value)),
            name => {
                let percent = name.strip_prefix('p').and_then(number).filter(|p| *p > 0.0 && *p < 100.0);
                (Figure::Quantile(percent.ok_or_else(bad)? / 100.0), nanos(value))
            }
        };
        let bound = bound.ok_or_else(bad)?;
        let counted = matches!(figure, Figure::Loss | Figure::Duplicates | Figure::Reordered | Figure::Damaged);
        if counted && bound.fract() != 0.0 {
            return Err(BadExpectation { fraction: true, ..bad() });
        }
        Ok(Self { text: text.to_owned(), figure, relation, bound })
    }
}

/// A number, with k, M or G for powers of a thousand.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.parse::<f64>().ok().filter(|_| plain).map(|value| value * scale)
}

/// A time with its unit, in nanoseconds.
fn nanos(text: &str) -> Option<f64> {
    let text = text.trim();
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]
        .into_iter()
        .find_map(|(unit, scale)| Some(number(text.strip_suffix(unit)?)? * scale))
}

impl Expectation {
    /// Compares each stream and direction; the worst is told. In a result that is INVALID only what came
    /// wrong counts, whoever was late.
    #[must_use]
    pub fn judge(&self, result: &TrialResult, worth: Word) -> Judged {
        let probes = result.lanes.iter().any(|lane| lane.probe);
        let of_latency = matches!(self.figure, Figure::Min | Figure::Mean | Figure::Max | Figure::Quantile(_));
        let lanes = result.lanes.iter().filter(|lane| !of_latency || !probes || lane.probe);
        let measured: Vec<Option<f64>> = lanes.map(|lane| self.figure.of(lane)).collect();
        let met = !measured.is_empty() && measured.iter().all(|value| value.is_some_and(|value| self.holds(value)));
        let highest = !matches!(self.relation, Relation::More | Relation::AtLeast);
        let known = measured.iter().flatten().copied();
        let worst = if highest { known.reduce(f64::max) } else { known.reduce(f64::min) };
        let measured = if measured.iter().all(Option::is_some) { worst } else { None };
        let came_wrong = matches!(self.figure, Figure::Duplicates | Figure::Reordered | Figure::Damaged);
        let counts = worth < Word::Invalid || came_wrong || measured.is_none();
        Judged { expectation: self.text.clone(), measured, is_time: of_latency, met: counts.then_some(met) }
    }

    fn holds(&self, value: f64) -> bool {
        match self.relation {
            Relation::Equal => value == self.bound,
            Relation::Less => value < self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::More => value > self.bound,
            Relation::AtLeast => value >= self.bound,
        }
    }
}

impl Figure {
    fn of(self, lane: &LaneResult) -> Option<f64> {
        let latency = |value: f64| (lane.latency.samples > 0).then_some(value);
        Some(match self {
            Self::Loss => lane.lost() as f64,
            Self::LossShare => lane.loss_ratio(),
            Self::Duplicates => lane.arrivals.duplicates as f64,
            Self::Reordered => lane.arrivals.reordered as f64,
            Self::Damaged => lane.damaged as f64,
            Self::Min => latency(lane.latency.min_ns as f64)?,
            Self::Mean => latency(lane.latency.mean_ns)?,
            Self::Max => latency(lane.latency.max_ns as f64)?,
            Self::Quantile(at) => lane.latency.sound_quantile(at)? as f64,
            Self::Rate => lane.rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{LatencyDistribution, Losses, Sent};

    fn lane(probe: bool, lost: u64, max_ns: u64) -> LaneResult {
        LaneResult {
            probe,
            rate: 1_000.0,
            sent: Sent { frames: 1_000, ..Sent::default() },
            losses: Losses { frames: lost, ..Losses::default() },
            latency: LatencyDistribution {
                samples: 1_000,
                min_ns: 10,
                mean_ns: 20.0,
                max_ns,
                buckets: vec![(max_ns, 1_000)],
            },
            ..LaneResult::default()
        }
    }

    fn judge(text: &str, lanes: &[LaneResult]) -> bool {
        let result = TrialResult { lanes: lanes.to_vec(), ..TrialResult::default() };
        text.parse::<Expectation>().expect(text).judge(&result, Word::Partial).met == Some(true)
    }

    #[test]
    fn in_an_invalid_result_only_what_came_wrong_counts() {
        let result = TrialResult { lanes: vec![lane(true, 0, 19_000)], ..TrialResult::default() };
        let met = |text: &str| text.parse::<Expectation>().expect(text).judge(&result, Word::Invalid).met;
        for text in ["loss=0", "loss=1", "max<20us", "rate>1"] {
            assert_eq!(met(text), None, "{text}");
        }
        assert_eq!((met("damaged=0"), met("duplicates=1")), (Some(true), Some(false)));
        assert_eq!(met("p99.9<1s"), Some(false), "it was not measured");
    }

    #[test]
    fn every_stream_is_to_meet_it_and_latency_is_the_probes() {
        let lanes = [lane(true, 0, 19_000), lane(false, 1, 90_000)];
        for (text, met) in [
            ("loss=0", false),
            ("loss<=1", true),
            ("loss<=0.1%", true),
            ("loss<0.1%", false),
            ("max<20us", true),
            ("max<19us", false),
            ("p99<=0.019ms", true),
            ("rate>=1k", true),
            ("rate>1k", false),
            ("damaged=0", true),
        ] {
            assert_eq!(judge(text, &lanes), met, "{text}");
        }
    }

    #[test]
    fn what_was_not_measured_was_not_met() {
        let empty = LaneResult { probe: true, ..LaneResult::default() };
        assert!(!judge("max<1s", core::slice::from_ref(&empty)) && !judge("loss=0", &[]));
        // One sample beyond p99.9 is not enough for it.
        assert!(!judge("p99.9<1s", &[lane(true, 0, 5)]) && judge("p99<1s", &[lane(true, 0, 5)]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["", "loss", "max<20", "p100<1us", "px<1us", "loss=-1", "speed>1", "loss=1e3", "max<us"] {
            assert!(text.parse::<Expectation>().is_err(), "{text}");
        }
        // A tenth of a frame, or 0.1%: whoever wrote it is asked.
        for text in ["loss<0.1", "duplicates=0.5", "reordered<1.5", "damaged<0.001"] {
            let why = text.parse::<Expectation>().expect_err(text).to_string();
            assert!(why.contains(text) && why.contains("loss<0.1%"), "{why}");
        }
        for text in ["loss<0.1%", "loss<1", "loss<1.5k", "rate>0.5", "max<0.5us"] {
            assert!(text.parse::<Expectation>().is_ok(), "{text}");
        }
    }
}
