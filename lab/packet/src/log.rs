//! Every trial as it went: asked for, and done.

use crate::table::way;
use crate::trial::{LaneResult, Modified, Stalls, TrialResult};
use figures::{share, si};
use serde::Serialize;

/// One trial.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TrialLog {
    /// Frames per second and direction that were asked for; `None`: as many as
    /// possible.
    pub intended_rate: Option<f64>,
    /// Seconds that were asked for.
    pub intended_seconds: f64,
    /// Seconds of sending.
    pub seconds: f64,
    /// By how much the sending took longer than its frames were to take, as a
    /// share: of the lane that was stretched most (RFC 9971 section 4.3).
    pub stretching: f64,
    /// Streams by direction.
    pub lanes: Vec<LaneLog>,
    /// The tester's absences.
    pub stalls: Stalls,
    /// The share of frames that it sent late or not at all.
    pub late_share: f64,
    /// Why it does not count.
    pub spoilt: Option<String>,
}

/// One stream in one direction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LaneLog {
    /// The direction.
    pub way: String,
    /// Frames per second that went into the ring.
    pub rate: f64,
    /// Frames that the device was offered.
    pub offered: u64,
    /// Of these, into the ring.
    pub sent: u64,
    /// Frames that came.
    pub received: u64,
    /// Frames lost, those at the entrance included.
    pub lost: u64,
    /// Frames that found the ring full.
    pub entrance: u64,
    /// Runs of losses within the device, and the longest of them.
    pub loss_events: u64,
    /// In frames.
    pub loss_longest: u64,
    /// Frames that came again, out of order, and damaged.
    pub duplicates: u64,
    /// Out of order.
    pub reordered: u64,
    /// With other bytes.
    pub damaged: u64,
    /// Frames that were sent late: the tester caught up.
    pub late: u64,
    /// Frames that were due and not sent.
    pub missed: u64,
    /// Frames that took the places of some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Modified>,
}

impl TrialLog {
    /// A trial that was to send at `intended_rate`.
    #[must_use]
    pub fn of(intended_rate: Option<f64>, result: &TrialResult, spoilt: Option<&str>) -> Self {
        let lane = |lane: &LaneResult| LaneLog {
            way: way(lane),
            rate: lane.rate,
            offered: lane.offered(),
            sent: lane.sent.frames,
            received: lane.received,
            lost: lane.lost(),
            entrance: lane.sent.entrance,
            loss_events: lane.losses.events,
            loss_longest: lane.losses.longest,
            duplicates: lane.arrivals.duplicates,
            reordered: lane.arrivals.reordered,
            damaged: lane.damaged,
            late: lane.sent.late,
            missed: lane.sent.missed,
            modified: lane.modified,
        };
        Self {
            intended_rate,
            intended_seconds: result.intended_seconds,
            seconds: result.seconds,
            stretching: result.stretching(),
            lanes: result.lanes.iter().map(lane).collect(),
            stalls: result.stalls,
            late_share: result.late_share(),
            spoilt: spoilt.map(str::to_owned),
        }
    }

    /// A line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let achieved = self.lanes.iter().map(|lane| lane.rate).fold(f64::INFINITY, f64::min);
        let sum = |of: fn(&LaneLog) -> u64| self.lanes.iter().map(of).sum::<u64>();
        let (lost, offered) = (sum(|lane| lane.lost), sum(|lane| lane.offered));
        format!(
            "{:.3} s at {} (sent at {}), lost {lost} of {offered} ({}){}",
            self.intended_seconds,
            self.intended_rate.map_or_else(|| "all it can".to_owned(), |rate| si(rate, "/s")),
            si(achieved, "/s"),
            share(if offered == 0 { 0.0 } else { lost as f64 / offered as f64 }),
            self.spoilt.as_ref().map_or_else(String::new, |why| format!(": does not count, {why}"))
        )
    }
}
