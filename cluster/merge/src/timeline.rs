//! The same interval of all workers, as one.

use load::{Interval, Stage};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Intervals that wait for those of other workers, at most: one that is this far behind is not waited for.
const WAITING_LIMIT: usize = 64;

/// Intervals of one stage that a worker may have: a week of the shortest.
const PLACES_LIMIT: u64 = 100_000_000;

/// Puts the intervals of workers together by their place in the stage that they are of: all begin at one time.
#[derive(Debug)]
pub struct Timeline {
    tracks: Vec<Track>,
    waiting: BTreeMap<(Stage, u64), Interval>,
    /// The last place that was given out.
    given: Option<(Stage, u64)>,
    number: u64,
    /// Intervals that came when their place was given out.
    late: u64,
}

/// How far a worker's intervals came.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    stage: Stage,
    next: u64,
    over: bool,
}

impl Timeline {
    /// Of so many workers.
    #[must_use]
    pub fn new(workers: u32) -> Self {
        let tracks = (0..workers).map(|_| Track::default()).collect();
        Self { tracks, waiting: BTreeMap::new(), given: None, number: 0, late: 0 }
    }

    /// A worker's next interval, and its place in its stage; those of one come in their order. Of those that are left
    /// out the others' places are as they were.
    pub fn add(&mut self, worker: u32, place: u64, interval: Interval) {
        let Some(track) = self.tracks.get_mut(worker as usize).filter(|track| !track.over) else { return };
        let place = (interval.stage, place);
        if place < (track.stage, track.next) || place.1 >= PLACES_LIMIT {
            return;
        }
        (track.stage, track.next) = (place.0, place.1.saturating_add(u64::from(interval.spans.max(1))));
        if self.given.is_some_and(|given| place <= given) {
            self.late += 1;
            return;
        }
        match self.waiting.entry(place) {
            Entry::Vacant(free) => {
                free.insert(interval);
            }
            Entry::Occupied(mut sum) => side_by_side(sum.get_mut(), interval),
        }
    }

    /// A worker has no more.
    pub fn end(&mut self, worker: u32) {
        if let Some(track) = self.tracks.get_mut(worker as usize) {
            track.over = true;
        }
    }

    /// The next interval of all workers to which nothing will be added.
    pub fn poll(&mut self) -> Option<Interval> {
        let place = *self.waiting.first_key_value()?.0;
        let is_past = |track: &Track| track.over || (track.stage, track.next) > place;
        if !self.tracks.iter().all(is_past) && self.waiting.len() <= WAITING_LIMIT {
            return None;
        }
        let (_, mut interval) = self.waiting.pop_first()?;
        self.given = Some(place);
        interval.number = self.number;
        self.number += 1;
        Some(interval)
    }

    /// Intervals that came when their place was given out: they are in no line.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }
}

/// Adds another worker's interval of the same place. Their clocks are not those of one machine, so that it is by
/// its place that it is at the same time.
fn side_by_side(sum: &mut Interval, mut other: Interval) {
    let length = other.length();
    (other.start, other.end) = (sum.start, sum.start.saturating_add(length));
    sum.merge(&other);
}
