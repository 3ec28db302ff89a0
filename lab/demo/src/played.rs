//! What `nearside load --stream` reports of players.

use crate::error::Error;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A report, as far as it is read here.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct StreamsPlayed {
    /// Streams that were to be.
    #[serde(rename = "setup")]
    pub asked: StreamsAsked,
    /// Those that played.
    pub under_way: u64,
    /// Bits of content in a second, of all streams.
    pub bits_per_second: f64,
    /// From a request to the first byte of its answer.
    pub first_byte: StreamTimes,
    /// How far streams were behind what was due at the ends of seconds.
    pub late: StreamTimes,
    playing: Playing,
    counted: Counted,
    errors: BTreeMap<String, u64>,
}

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct StreamsAsked {
    /// Streams.
    pub streams: u64,
}

/// Times, nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct StreamTimes {
    samples: u64,
    /// The 99th percentile.
    pub p99_ns: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
struct Playing {
    streams_with_under_runs: u64,
    disturbed_under_runs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
struct Counted {
    window: u64,
    stolen: u64,
    generator_late: u64,
}

impl StreamTimes {
    /// The 99th percentile in milliseconds; no number where there is no time.
    #[must_use]
    pub const fn p99_ms(&self) -> f64 {
        if self.samples > 0 { self.p99_ns / 1e6 } else { f64::NAN }
    }
}

impl StreamsPlayed {
    /// Reads a report: what stands before it is for people.
    ///
    /// # Errors
    /// If it is not whole.
    pub fn read(said: &str) -> Result<Self, Error> {
        let report = said.find('{').map(|begin| &said[begin..]);
        let report = report.and_then(|report| serde_json::from_str(report).ok());
        report.ok_or_else(|| Error::output("nearside load", "whole report of streams that play"))
    }

    /// Streams that ran dry, and under-runs in seconds that do not count.
    #[must_use]
    pub const fn dry(&self) -> u64 {
        self.playing.streams_with_under_runs + self.playing.disturbed_under_runs
    }

    /// Whether all streams played, and none ran dry.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.dry() == 0 && self.under_way == self.asked.streams
    }

    /// Answers, connections and requests that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The share of the seconds that do not count; all where there is none.
    #[must_use]
    pub fn left_out(&self) -> f64 {
        let Counted { window, stolen, generator_late } = self.counted;
        if window == 0 { 1.0 } else { (stolen + generator_late) as f64 / window as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `load --json` prints it, without what nobody reads here.
    const REPORT: &str = r#"{"kind":"streams","setup":{"scheme":"https","streams":40,"rate":5000000},
        "under_way":40,"bits_per_second":2e8,"counted":{"window":8,"stolen":1,"generator_late":1},
        "first_byte":{"samples":40,"min_ns":1,"p99_ns":2500000},"late":{"samples":240,"p99_ns":0},
        "playing":{"streams_with_under_runs":0,"stalled":0.0,"disturbed_under_runs":0},
        "errors":{"connects":0,"lost":1,"timeouts":2}}"#;

    #[test]
    fn a_report_of_players_is_read_whole_or_not_at_all() {
        let played = StreamsPlayed::read(&format!("a warning\n{REPORT}")).expect("it is whole");
        assert_eq!((played.asked.streams, played.bits_per_second, played.first_byte.p99_ms()), (40, 2e8, 2.5));
        assert_eq!((played.dry(), played.failed(), played.left_out(), played.holds()), (0, 3, 0.25, true));
        let dry = StreamsPlayed::read(&REPORT.replace("_under_runs\":0", "_under_runs\":2")).expect("it is whole");
        assert_eq!((dry.dry(), dry.holds()), (4, false));
        let few = StreamsPlayed::read(&REPORT.replace("\"under_way\":40", "\"under_way\":39")).expect("it is whole");
        assert!(!few.holds());
        let none = StreamsPlayed::read(&REPORT.replace("\"window\":8", "\"window\":0")).expect("it is whole");
        assert_eq!(none.left_out(), 1.0);
        let untimed = StreamsPlayed::read(&REPORT.replace("\"samples\":240", "\"samples\":0")).expect("it is whole");
        assert!(untimed.late.p99_ms().is_nan() && played.late.p99_ms() == 0.0);
        for name in ["playing", "late", "counted", "bits_per_second"] {
            assert!(StreamsPlayed::read(&REPORT.replace(name, "other")).is_err(), "without {name}");
        }
        assert!(StreamsPlayed::read("").is_err());
    }
}
