//! Figures of each request apart, where the plan asks for them.

use crate::figures::UrlFigures;
use crate::samples::Class;

/// The rows of a run: as many as the plan asks for, and one for all other requests.
#[derive(Debug)]
pub struct Rows {
    rows: Vec<UrlFigures>,
    /// Requests that have a row of their own.
    own: usize,
}

impl Rows {
    /// For the first `limit` of so many requests.
    pub fn new(requests: usize, limit: usize) -> Self {
        let own = requests.min(limit);
        let others = usize::from(requests > own);
        let rows = (0..own + others).map(|_| UrlFigures::default()).collect();
        Self { rows, own }
    }

    /// The measured window begins.
    pub fn clear(&mut self) {
        self.rows.iter_mut().for_each(UrlFigures::clear);
    }

    /// What was counted.
    pub fn into_figures(self) -> Vec<UrlFigures> {
        self.rows
    }

    /// A request of a kind ended after so many nanoseconds.
    #[inline]
    pub fn end(&mut self, kind: u16, class: Class, nanos: u64) {
        if let Some(row) = self.row(kind) {
            row.classes[class as usize] += 1;
            if class.is_latency() {
                row.latency.record(nanos);
            }
        }
    }

    /// An answer had so many bytes of content.
    #[inline]
    pub fn content(&mut self, kind: u16, bytes: u64) {
        if let Some(row) = self.row(kind) {
            row.body_bytes += bytes;
        }
    }

    /// An answer was not as it was to be.
    pub fn wrong(&mut self, kind: u16) {
        if let Some(row) = self.row(kind) {
            row.wrong += 1;
        }
    }

    fn row(&mut self, kind: u16) -> Option<&mut UrlFigures> {
        // Behind the last own one stands that of all others.
        self.rows.get_mut(usize::from(kind).min(self.own))
    }
}
