//! What is known of one worker.

use crate::action::{Action, ChannelId};
use crate::offset::Probes;
use crate::outcome::{Part, WorkerOutcome};
use crate::problem::{Gone, ProblemKind};
use core::time::Duration;
use messages::{Beat, Readiness, Standing, ToWorker};
use wire::Time;

/// A worker that is not heard for so long is lost: it says something twice a second.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);

/// What a process wrote before it ended is waited for so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a load ended before its time is known within this, if whoever ended it is known: pods are listed once a second,
/// many of them every two.
const FATE_PATIENCE: Duration = Duration::from_millis(2_500);

/// The place of one worker.
#[derive(Debug)]
pub(crate) struct Seat<M> {
    /// The way to it, while there is one.
    pub channel: Option<ChannelId>,
    /// Which process has the place, once one came.
    pub instance: Option<u64>,
    /// Its clock.
    pub probes: Probes,
    /// How far it says that it is.
    pub standing: Standing,
    pub ready: Option<Readiness>,
    /// When it begins, by its own clock, as it says: a controller before this one told it.
    pub begins_ns: Option<u64>,
    /// When it was told its start, if it is to be told again.
    pub told: Option<Time>,
    /// Its last sign of life.
    pub heard: Time,
    pub beat: Beat,
    /// Whether it said how far it is: an earlier controller may have told it when to begin.
    pub has_beaten: bool,
    /// The number of the next interval: those below came.
    pub intervals: u64,
    /// How its process ended, and when that was known.
    pub gone: Option<(Gone, Time)>,
    pub part: Option<Part<M>>,
    /// When its part came, where that was before the load's time, and by how much; until it is told why.
    pub early: Option<(Time, Duration)>,
    /// Whether a problem of it is known that ends the test.
    pub has_failed: bool,
}

impl<M> Seat<M> {
    pub fn new(now: Time) -> Self {
        Self {
            channel: None,
            instance: None,
            probes: Probes::new(now),
            standing: Standing::Preparing,
            ready: None,
            begins_ns: None,
            told: None,
            heard: now,
            beat: Beat::default(),
            has_beaten: false,
            intervals: 0,
            gone: None,
            part: None,
            early: None,
            has_failed: false,
        }
    }

    /// Whether nothing more is to come from it, or can.
    pub fn is_done(&self) -> bool {
        self.part.is_some() || self.has_failed && self.channel.is_none() || self.gone.is_some() && self.is_mute()
    }

    fn is_mute(&self) -> bool {
        self.channel.is_none()
    }

    /// Whether the load can begin, as far as this one goes.
    pub fn is_set(&self) -> bool {
        let stands = self.has_beaten && (self.ready.is_some() || self.standing >= Standing::Loading);
        self.part.is_some() || stands && self.probes.is_known() && self.channel.is_some()
    }

    /// Whether it does not know yet when to begin.
    pub fn is_untold(&self) -> bool {
        self.part.is_none() && self.standing < Standing::Loading
    }

    /// That it is to begin then, by its own clock; none while there is no way to it, or its clock is not known.
    pub fn start_told(&self, start: Time) -> Option<Action> {
        let (channel, offset) = (self.channel?, self.probes.offset()?);
        Some(Action::Send { channel, message: ToWorker::Start { at_ns: offset.to_worker(start) } })
    }

    /// Why it is lost, if it is by now.
    pub fn loss(&self, now: Time) -> Option<(Option<Gone>, String)> {
        if self.part.is_some() || self.has_failed {
            return None;
        }
        if let Some((gone, at)) = self.gone
            && (self.is_mute() || now >= at + LAST_WORDS)
        {
            return Some((Some(gone), gone.to_string()));
        }
        let silent = self.instance.is_some() && now >= self.heard + SILENCE_LIMIT;
        silent.then(|| {
            let seconds = now.since(self.heard).as_secs_f64();
            let way = if self.is_mute() { ", and the connection to it is closed" } else { "" };
            (None, format!("nothing was heard from it for {seconds:.1} s{way}"))
        })
    }

    /// Why its load ended before its time, if it did and that is known, or is not to be known any more.
    pub fn early_end(&mut self, now: Time, waits: bool) -> Option<(ProblemKind, String)> {
        let (_, early) = self.early.filter(|(at, _)| !waits || self.gone.is_some() || now >= *at + FATE_PATIENCE)?;
        self.early = None;
        let (kind, why) = match self.gone {
            Some((gone @ (Gone::Evicted | Gone::OutOfMemory | Gone::Signal(_)), _)) => {
                (gone.into(), format!("{gone}: "))
            }
            _ => (ProblemKind::OutOfStep, String::new()),
        };
        Some((kind, format!("{why}its load ended {:.1} s before its time", early.as_secs_f64())))
    }

    /// When [`Seat::loss`] or [`Seat::early_end`] may be another.
    pub fn next_deadline(&self) -> Time {
        if let Some((at, _)) = self.early {
            return at + FATE_PATIENCE;
        }
        if self.part.is_some() || self.has_failed {
            return Time::MAX;
        }
        let gone = self.gone.map_or(Time::MAX, |(_, at)| at + LAST_WORDS);
        let silent = if self.instance.is_some() { self.heard + SILENCE_LIMIT } else { Time::MAX };
        let probe = if self.channel.is_some() { self.probes.next_deadline() } else { Time::MAX };
        gone.min(silent).min(probe)
    }

    /// What is known of it at the end.
    pub fn into_outcome(self) -> WorkerOutcome<M> {
        let offset = self.probes.offset();
        let begun = self.part.as_ref().zip(offset).and_then(|(part, offset)| {
            let all = part.begun_ns.iter().map(|at| offset.to_own(*at));
            Some((all.clone().min()?, all.max()?))
        });
        let (open, silos) = self.ready.map_or((0, 0), |ready| (ready.open, ready.silos));
        WorkerOutcome { measured: self.part.map(|part| part.measured), offset, begun, open, silos }
    }
}
