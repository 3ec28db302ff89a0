//! How a run is shown while it lasts: the whole terminal, lines, or nothing.

use super::terminal::{Screen, Wish};
use super::view::{History, Moment, stage_name};
use crate::plan::ProgressKind;
use core::time::Duration;
use figures::{grouped, seconds, si};
use load::{Interval, Latency, Live, Plan, Stage, Stop};
use std::io::{IsTerminal, Write, stderr, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How often the picture changes.
const FRAME: Duration = Duration::from_millis(100);

/// How often a line is written.
const LINE: Duration = Duration::from_secs(1);

/// What a key changes the rate by.
const RATE_STEP: f64 = 1.1;

/// What shows a run.
pub struct Show {
    kind: Kind,
    title: String,
    planned: Duration,
    connections: u64,
    signals: Arc<AtomicUsize>,
    latest: Option<Interval>,
    history: History,
    since_last: Duration,
}

enum Kind {
    /// The whole terminal.
    Live(Box<Screen>),
    /// Lines; on a terminal, one that is written over.
    Lines { terminal: bool },
    /// Nothing.
    Nothing,
}

impl Show {
    /// What shows a run of this plan. Stopping it by a key counts as a signal.
    pub fn new(kind: ProgressKind, plan: &Plan, title: String, signals: &Arc<AtomicUsize>) -> Self {
        let terminal = stderr().is_terminal();
        let live = match kind {
            ProgressKind::Live => true,
            // Keys come from standard input.
            ProgressKind::Auto => terminal && stdin().is_terminal(),
            ProgressKind::Lines | ProgressKind::None => false,
        };
        let screen = if live { Screen::take().ok() } else { None };
        let kind = match (screen, kind) {
            (Some(screen), _) => Kind::Live(Box::new(screen)),
            (None, ProgressKind::None) => Kind::Nothing,
            // A terminal that cannot be had still takes lines.
            (None, _) => Kind::Lines { terminal },
        };
        let planned = match plan.stop {
            Stop::After(time) | Stop::Requests { within: time, .. } => time,
        };
        Self {
            kind,
            title,
            planned,
            connections: u64::from(plan.connections),
            signals: Arc::clone(signals),
            latest: None,
            history: History::default(),
            since_last: Duration::ZERO,
        }
    }

    /// Whether others may write to the terminal.
    pub fn is_live(&self) -> bool {
        matches!(self.kind, Kind::Live(_))
    }

    /// The last interval of all workers.
    pub fn interval(&mut self, interval: Interval) {
        self.latest = Some(interval);
    }

    /// Shows how the run is now, if it is time.
    pub fn moment(&mut self, lives: &[Live]) {
        let every = match self.kind {
            Kind::Live(_) => FRAME,
            Kind::Lines { .. } => LINE,
            Kind::Nothing => return,
        };
        if self.since_last < every || lives.is_empty() {
            return;
        }
        self.since_last = Duration::ZERO;
        let moment = self.now(lives);
        match &mut self.kind {
            Kind::Live(screen) => {
                self.history.push(&moment);
                if screen.show(&self.title, &moment, &self.history).is_err() {
                    // The terminal is gone; the run is not.
                    self.kind = Kind::Nothing;
                }
            }
            Kind::Lines { terminal } if moment.stage != Stage::Ended => {
                let line = line(&moment);
                // Nobody to tell is no reason to stop.
                let _ = match terminal {
                    true => write!(stderr(), "\r\x1b[K{line}"),
                    false => writeln!(stderr(), "{line}"),
                };
            }
            Kind::Lines { .. } | Kind::Nothing => {}
        }
    }

    /// Passes the time until the next look; a key may end it, and the run.
    pub fn wait(&mut self, lives: &[Live], patience: Duration) {
        self.since_last += patience;
        let Kind::Live(screen) = &self.kind else {
            thread::sleep(patience);
            return;
        };
        match screen.wish(patience) {
            Ok(None) => {}
            Ok(Some(Wish::Stop)) => {
                self.signals.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(Wish::Faster)) => change_rate(lives, RATE_STEP),
            Ok(Some(Wish::Slower)) => change_rate(lives, 1.0 / RATE_STEP),
            Err(_) => thread::sleep(patience),
        }
    }

    fn now(&self, lives: &[Live]) -> Moment {
        let all: Vec<load::Progress> = lives.iter().map(Live::read).collect();
        let sum = |of: fn(&load::Progress) -> u64| all.iter().map(of).sum::<u64>();
        let target: f64 = all.iter().map(|one| one.target_rate).sum();
        let backlog = sum(|one| one.backlog);
        let mut warnings = Vec::new();
        if backlog > 0 {
            warnings.push(format!("{} requests are due and not sent: all connections are busy", grouped(backlog)));
        }
        Moment {
            stage: all.iter().map(|one| one.stage).min().unwrap_or_default(),
            elapsed: all.iter().map(|one| one.elapsed).max().unwrap_or_default(),
            measured: all.iter().map(|one| one.measured).max().unwrap_or_default(),
            planned: self.planned,
            rate: sum(|one| one.rate) as f64,
            target: (target > 0.0).then_some(target),
            open: sum(|one| one.open),
            connections: self.connections,
            latency: self.latest.as_ref().map_or_else(Vec::new, latency),
            errors: sum(|one| one.errors),
            warnings,
        }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        if let Kind::Lines { terminal: true } = self.kind {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Each worker asks for as much more, or less.
fn change_rate(lives: &[Live], factor: f64) {
    for live in lives {
        let rate = live.read().target_rate;
        if rate > 0.0 {
            live.set_rate(rate * factor);
        }
    }
}

/// The percentiles of an interval.
fn latency(interval: &Interval) -> Vec<(&'static str, u64)> {
    let recorder = interval.samples.latency();
    if recorder.is_empty() {
        return Vec::new();
    }
    let of = Latency::new(&recorder, &recorder.histogram());
    vec![("p50", of.p50_ns), ("p90", of.p90_ns), ("p99", of.p99_ns), ("p99.9", of.p999_ns), ("max", of.max_ns)]
}

fn line(moment: &Moment) -> String {
    let p99 = moment.latency.iter().find(|(name, _)| *name == "p99");
    let p99 = p99.map_or("-".to_owned(), |(_, nanos)| seconds(*nanos as f64));
    let target = moment.target.map_or(String::new(), |target| format!(" of {}", si(target, "/s")));
    format!(
        "{} {:.0} s  {} connections  {}{target}  p99 {p99}  {} errors",
        stage_name(moment.stage),
        moment.elapsed.as_secs_f64(),
        grouped(moment.open),
        si(moment.rate, "/s"),
        grouped(moment.errors)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_the_run_goes() {
        let mut moment = Moment {
            stage: Stage::Measuring,
            elapsed: Duration::from_secs(3),
            rate: 114_034.0,
            open: 1_000,
            latency: vec![("p99", 493_000)],
            errors: 2,
            ..Moment::default()
        };
        assert_eq!(line(&moment), "measuring 3 s  1,000 connections  114 k/s  p99 493 µs  2 errors");
        (moment.target, moment.latency) = (Some(120_000.0), Vec::new());
        assert_eq!(line(&moment), "measuring 3 s  1,000 connections  114 k/s of 120 k/s  p99 -  2 errors");
    }
}
