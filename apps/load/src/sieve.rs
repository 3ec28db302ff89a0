//! Which parts of a run count, on a machine that others use too.
//!
//! A run is cut into slices of some milliseconds, and somebody tells which
//! spans of time were disturbed: the hypervisor had a core, or a thread of the
//! generator or of the server was ready and had none. What they tell stands on
//! evidence of cores alone, never on a latency: a server that is slow because
//! it has too much to do is not disturbed.
//!
//! ```text
//!  loaded     ┌ settle ┬──── stretch: its slices count ────┐ disturbed
//! ────────────┴────────┴───────────────────────────────────┴──────────┐
//!        ▲                                                   no request falls due
//!        └────────────── undisturbed, and all are answered ◄──────────┘
//! ```
//!
//! A disturbance leaves a backlog. A server at nine tenths of its capacity
//! needs nine times the disturbance to work it off, and one at its capacity
//! never does, so waiting for that under load would leave out the very rates
//! that are in question. Instead no request falls due until all are answered
//! and the machine is undisturbed; then the load is back, and what follows is
//! what a quiet machine would show from an empty server on. Three things keep
//! that honest:
//!
//! - An overload shows itself with time only: at a rate 10 % beyond the
//!   capacity the latency is a tenth of the time since the server was empty.
//!   So a stretch counts if it is long enough for that overload to miss the
//!   objective ([`SieveConfig::stretch`]), and shorter ones are left out.
//! - Requests that are unanswered when a stretch ends have been due for some
//!   time, and those older than the objective's bound have missed it whatever
//!   becomes of them: of N unanswered ones at most rate × bound fell due within
//!   the bound, so the others count, with the age that they have at least.
//! - The start of a stretch is left out, as the server is emptier there than at
//!   its rate ([`SieveConfig::settle`]).

mod slices;

pub use slices::{Cause, Disturbance, Sifted};

use crate::figures::Figures;
use crate::interval::Interval;
use crate::objective::{Metric, Objective, Relation};
use core::time::Duration;
use slices::Sums;
use wire::Time;

/// The length of a slice.
const SLICE: Duration = Duration::from_millis(10);

/// The overload that is not to pass unseen.
const OVERLOAD: f64 = 0.1;

/// Room above the shortest stretch that shows it, for slices are cut where they
/// are.
const STRETCH_ROOM: f64 = 1.2;

/// The shortest start of a stretch that does not count.
const SETTLE: Duration = Duration::from_millis(10);

/// Requests are waited for this long at least while none falls due.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much longer than asked for a run may take.
const PROLONGED: u32 = 5;

/// A disturbance this long before the window may have left a backlog.
const AFTERMATH: Duration = Duration::from_millis(100);

/// Of the time asked for, this much counts at least, or the run says nothing.
const LEAST: f64 = 0.2;

/// Disturbances that are kept; beyond, the earliest are one.
const KEPT: usize = 256;

/// What counts, and how much of it is wanted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SieveConfig {
    /// The length of a slice. Default 10 ms.
    pub slice: Duration,
    /// Requests per second of all silos together.
    pub rate: f64,
    /// The time after the load is back that does not count: five times the
    /// bound, 10 ms at least and 100 ms at most.
    pub settle: Duration,
    /// The shortest stretch that counts: 10 times the bound ÷ the quantile, as
    /// a rate 10 % too high exceeds the bound after 10 times it. Zero where no
    /// latency is bounded.
    pub stretch: Duration,
    /// The lowest bound of a latency, in nanoseconds.
    pub bound_ns: Option<f64>,
    /// The time that is to count.
    pub enough: Duration,
    /// The requests that are to fall due in it.
    pub least: u64,
    /// The run is over after this time in any case.
    pub limit: Duration,
}

impl SieveConfig {
    /// For a run at `rate` that is to meet these, and would last for `asked` on
    /// a quiet machine.
    #[must_use]
    pub fn new(objectives: &[Objective], rate: f64, asked: Duration) -> Self {
        let bounded = objectives.iter().filter_map(|objective| {
            let bounds = matches!(objective.relation, Relation::Less | Relation::AtMost);
            let share = match objective.metric {
                Metric::Latency(quantile) | Metric::Lag(quantile) => quantile,
                Metric::Mean | Metric::Stdev => 0.5,
                Metric::Max | Metric::Min => 1.0,
                _ => return None,
            };
            bounds.then_some((objective.bound, share))
        });
        let (mut bound_ns, mut highest, mut stretch) = (None::<f64>, 0.0_f64, 0.0_f64);
        for (bound, share) in bounded {
            bound_ns = Some(bound_ns.map_or(bound, |least| least.min(bound)));
            highest = highest.max(bound);
            stretch = stretch.max(bound / OVERLOAD / share.max(0.5) * STRETCH_ROOM);
        }
        let span = |nanos: f64| Duration::from_nanos(nanos.min(1e12) as u64);
        Self {
            slice: SLICE,
            rate,
            settle: span(5.0 * highest).clamp(SETTLE, 10 * SETTLE),
            stretch: span(stretch),
            bound_ns,
            enough: asked,
            least: objectives.iter().map(Objective::least_samples).max().unwrap_or(0),
            limit: asked.max(span(stretch)).saturating_mul(PROLONGED),
        }
    }
}

/// What is to be done with the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// As it is.
    Go,
    /// No request is to fall due.
    Pause,
    /// Requests are to fall due at the rate.
    Resume,
    /// The run may end.
    Enough,
}

/// Takes the slices of a run, and keeps what counts. Call order, again and
/// again: [`Sieve::on_disturbance`] for all that is known of the time until
/// now, [`Sieve::on_slice`] for slices that ended before, in the order of each
/// silo's time, [`Sieve::poll_wish`].
#[derive(Debug)]
pub struct Sieve {
    config: SieveConfig,
    /// When the window opened; `None` before.
    opened: Option<Time>,
    /// When requests began to fall due.
    loaded: Time,
    /// Since when none does.
    paused: Option<Time>,
    /// Where the stretch ends, if it has.
    disturbed: Option<Time>,
    /// The latest end of a disturbance.
    calm: Time,
    /// Those that slices may still meet.
    spans: Vec<Disturbance>,
    /// What became of each silo.
    silos: Vec<Silo>,
    /// Of the stretch at hand, while it is too short.
    pending: Sums,
    /// Whether the stretch at hand is long enough.
    counts: bool,
    kept: Sums,
    sifted: Sifted,
}

#[derive(Clone, Copy, Default, Debug)]
struct Silo {
    /// The end of its last slice, and its requests that were unanswered then.
    until: Time,
    unanswered: u64,
    /// The same of the last slice of the stretch.
    left: u64,
}

impl Sieve {
    /// For a run of `silos` silos.
    #[must_use]
    pub fn new(config: SieveConfig, silos: usize) -> Self {
        Self {
            config,
            opened: None,
            loaded: Time::ZERO,
            paused: None,
            disturbed: None,
            calm: Time::ZERO,
            spans: Vec::new(),
            silos: vec![Silo::default(); silos],
            pending: Sums::new(silos),
            counts: false,
            kept: Sums::new(silos),
            sifted: Sifted::default(),
        }
    }

    /// What it was made for.
    #[must_use]
    pub fn config(&self) -> &SieveConfig {
        &self.config
    }

    /// Whether what happens now may count.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.opened.is_some() && self.paused.is_none() && self.disturbed.is_none()
    }

    /// A span of time was disturbed.
    pub fn on_disturbance(&mut self, span: Disturbance) {
        if self.config.bound_ns.is_none() {
            // Rates and errors are what they are, whoever had the cores.
            return;
        }
        self.calm = self.calm.max(span.until);
        if self.opened.is_some() && span.until > self.loaded && self.paused.is_none() {
            let from = span.from.max(self.loaded);
            self.disturbed = Some(self.disturbed.map_or(from, |earlier| earlier.min(from)));
        }
        // What was counted by then cannot be taken back, but told.
        let counted = self.kept.until.max(self.pending.until);
        self.sifted.late_ns += counted.since(span.from.max(self.loaded)).as_nanos() as u64;
        if self.spans.len() >= KEPT {
            let second = self.spans.remove(1);
            self.spans[0].until = self.spans[0].until.max(second.until);
        }
        self.spans.push(span);
    }

    /// A slice of the window of `silo`; all that disturbed it was told.
    pub fn on_slice(&mut self, silo: usize, slice: &Interval) {
        let (from, until) = (slice.began + slice.start, slice.began + slice.end);
        if self.opened.is_none() {
            (self.opened, self.loaded) = (Some(from), from);
            // What the warm-up left behind is not of this run.
            self.disturbed = (self.calm + AFTERMATH > from).then_some(from);
        }
        let unanswered = slice.in_flight + slice.backlog;
        if let Some(silo) = self.silos.get_mut(silo) {
            (silo.until, silo.unanswered) = (until, unanswered);
        }
        self.sifted.slices += u64::from(slice.spans.max(1));
        let by = self.spans.iter().find(|span| span.from < until && from < span.until).map(|span| span.by);
        let first = self.silos.iter().map(|silo| silo.until).min().unwrap_or(until);
        self.spans.retain(|span| span.until + 2 * self.config.slice > first);
        if let Some(by) = by {
            self.sifted.note(by, slice.spans);
            return;
        }
        let begins = self.loaded + if Some(self.loaded) == self.opened { Duration::ZERO } else { self.config.settle };
        let outside = self.paused.is_some_and(|paused| until > paused)
            || self.disturbed.is_some_and(|disturbed| until > disturbed)
            || from < begins;
        if outside {
            self.sifted.recovering += u64::from(slice.spans.max(1));
            return;
        }
        if let Some(silo) = self.silos.get_mut(silo) {
            silo.left = unanswered;
        }
        self.pending.add(silo, slice, until);
        self.counts |= until.since(begins) >= self.config.stretch;
        if self.counts {
            self.kept.take(&mut self.pending);
        }
    }

    /// What the load is to do now. [`Wish::Pause`] and [`Wish::Resume`] are
    /// told once, and hold from then on.
    pub fn poll_wish(&mut self, now: Time) -> Wish {
        let Some(opened) = self.opened else { return Wish::Go };
        if now.since(opened) >= self.config.limit || self.has_enough() {
            return Wish::Enough;
        }
        match self.paused {
            None if self.disturbed.is_some() => {
                self.end_stretch();
                self.paused = Some(now);
                Wish::Pause
            }
            None => Wish::Go,
            Some(since) => {
                let answered = self.silos.iter().all(|silo| silo.until > since && silo.unanswered == 0);
                let calm = self.calm + self.config.slice <= now;
                let bound = Duration::from_nanos(self.config.bound_ns.unwrap_or(0.0).min(1e12) as u64);
                // A server that never answers is not excused for ever.
                let waited = now.since(since) >= PATIENCE.max(20 * bound);
                if (answered && calm) || waited {
                    (self.paused, self.disturbed, self.loaded) = (None, None, now);
                    Wish::Resume
                } else {
                    Wish::Go
                }
            }
        }
    }

    /// What counted, in the form of a run: `whole` has what is not told by
    /// slices. And how much was left out.
    #[must_use]
    pub fn finish(mut self, whole: Figures) -> (Figures, Sifted) {
        self.end_stretch();
        self.sifted.counted = self.kept.slices;
        self.sifted.enough =
            self.kept.time(self.silos.len()) >= self.config.enough.mul_f64(LEAST) && self.kept.due >= self.config.least;
        (self.kept.figures(whole, self.silos.len()), self.sifted)
    }

    fn has_enough(&self) -> bool {
        self.kept.time(self.silos.len()) >= self.config.enough && self.kept.due >= self.config.least
    }

    /// The stretch at hand is over.
    fn end_stretch(&mut self) {
        self.sifted.too_short += self.pending.slices;
        self.pending.clear();
        let left = self.silos.iter().map(|silo| silo.left).sum::<u64>();
        if core::mem::take(&mut self.counts)
            && let Some(bound_ns) = self.config.bound_ns
        {
            self.kept.overdue(left, self.config.rate, bound_ns);
        }
        self.silos.iter_mut().for_each(|silo| silo.left = 0);
    }
}

#[cfg(test)]
mod tests;
