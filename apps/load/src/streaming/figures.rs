//! What streams that are to have a rate came to.

use super::plan::StreamingPlan;
use super::player::{SEGMENT, nanos};
use crate::checks::{SAMPLES_LIMIT, WrongAnswer};
use crate::figures::{Errors, Redirects};
use crate::plan::Http2;
use crate::recorder::Recorder;
use crate::report::{Latency, PortUse};
use core::time::Duration;
use serde::Serialize;

/// Parts of one in which deviations over a stretch of seconds are recorded.
pub(super) const DRIFT_PARTS: f64 = 1e9;

/// Why a second does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// The hypervisor had a core.
    Stolen,
    /// The generator itself was called too late to tell one second's bytes from another's.
    Late,
}

/// One second of the window, of all streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SecondFigures {
    /// Streams that were under way for the whole of it, and those that were to be and never were.
    pub streams: u32,
    /// Bytes of content that they received.
    pub bytes: u64,
    /// Streams that had not received by its end what was due by then.
    pub late: u32,
    /// With players: how long there was nothing to play, of all streams together.
    pub stalled_ns: u64,
    /// Without a player: streams that received what was due within one segment.
    pub within_one: u32,
    /// The same within two.
    pub within_two: u32,
    /// Why it does not count, if it does not; nothing of it stands in the other figures then, but
    /// of those threads or silos for which it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// What went wrong with streams: each is started anew, and goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StreamErrors {
    /// Connections that could not be opened, or secured.
    pub connects: u64,
    /// Answers that came in part or not at all: their connection ended, or by HTTP/2 their stream.
    pub lost: u64,
    /// Nothing came for as long as a request may take.
    pub timeouts: u64,
    /// Answers with another status than 2xx.
    pub statuses: u64,
    /// Answers that are none, by HTTP/1.1 or HTTP/2.
    pub malformed: u64,
}

impl StreamErrors {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.connects + self.lost + self.timeouts + self.statuses + self.malformed
    }

    fn merge(&mut self, other: &Self) {
        self.connects += other.connects;
        self.lost += other.lost;
        self.timeouts += other.timeouts;
        self.statuses += other.statuses;
        self.malformed += other.malformed;
    }
}

/// What one thread or silo counted; those of several add up.
#[derive(Clone, Debug, Default)]
pub struct StreamingFigures {
    /// Streams that were to be.
    pub streams: u64,
    /// Those that were under way by the end: that played, or to which something came.
    pub under_way: u64,
    /// Bytes of content in the window, of all seconds.
    pub bytes: u64,
    /// Answers that came whole, since the first.
    pub answers: u64,
    /// From a connect to the connection that is ready, secured if it is to be.
    pub connect: Recorder,
    /// From a request to the first byte of its answer.
    pub first_byte: Recorder,
    /// How long was waited for first bytes that did not come: at all, or by the end.
    pub no_first_byte: Recorder,
    /// From a stream's first connect to its playing.
    pub start: Recorder,
    /// How long streams had waited by the end that did not play by then.
    pub no_start: Recorder,
    /// How long streams had nothing to play, each time, where that touches a second that counts. One that
    /// never played has not since its first connect.
    pub under_runs: Recorder,
    /// Streams that this happened to.
    pub dried: u64,
    /// Under-runs that lie in seconds alone that do not count.
    pub disturbed_under_runs: u64,
    /// Time without anything to play in seconds that count, of all streams.
    pub stalled: Duration,
    /// The same in those that do not.
    pub disturbed: Duration,
    /// How far each stream was behind at the end of each second.
    pub late: Recorder,
    /// Bytes by which each stream's second differs from its rate.
    pub off: Recorder,
    /// The same of stretches of seconds, in parts of what was due.
    pub drift: Recorder,
    /// How much later than it had asked for the generator was called.
    pub delay: Recorder,
    /// Time that streams were to play in the seconds that count, all added up.
    pub to_play: Duration,
    /// What went wrong, since the first turn.
    pub errors: StreamErrors,
    /// Kept connections that the server had closed when they were to be used again: no failures.
    pub reopened: u64,
    /// Streams without a connection at the end whose last connect failed.
    pub unconnected: u64,
    /// Redirects, where they are followed.
    pub redirects: Redirects,
    /// Answers that were not as they were to be.
    pub wrong: u64,
    /// In which way, each by itself.
    pub wrong_by: Errors,
    /// The first of them.
    pub wrong_answers: Vec<WrongAnswer>,
    /// The last thing that went wrong, in words.
    pub failure: Option<String>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// The window, second by second.
    pub seconds: Vec<SecondFigures>,
}

impl StreamingFigures {
    /// A second of the window, by its number.
    pub(super) fn second(&mut self, number: u32) -> &mut SecondFigures {
        let number = number as usize;
        if self.seconds.len() <= number {
            self.seconds.resize(number + 1, SecondFigures::default());
        }
        &mut self.seconds[number]
    }

    /// Adds those of another thread or silo.
    pub fn merge(&mut self, other: &Self) {
        self.streams += other.streams;
        self.under_way += other.under_way;
        self.bytes += other.bytes;
        self.answers += other.answers;
        self.dried += other.dried;
        self.disturbed_under_runs += other.disturbed_under_runs;
        self.stalled += other.stalled;
        self.disturbed += other.disturbed;
        self.to_play += other.to_play;
        self.reopened += other.reopened;
        self.unconnected += other.unconnected;
        self.redirects.add(&other.redirects);
        self.wrong += other.wrong;
        self.wrong_by.add(&other.wrong_by);
        let room = SAMPLES_LIMIT.saturating_sub(self.wrong_answers.len());
        self.wrong_answers.extend(other.wrong_answers.iter().take(room).cloned());
        self.interrupted |= other.interrupted;
        self.errors.merge(&other.errors);
        self.failure = self.failure.take().or_else(|| other.failure.clone());
        let pairs = [
            (&mut self.connect, &other.connect),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.no_first_byte, &other.no_first_byte),
            (&mut self.start, &other.start),
            (&mut self.no_start, &other.no_start),
            (&mut self.under_runs, &other.under_runs),
            (&mut self.late, &other.late),
            (&mut self.off, &other.off),
            (&mut self.drift, &other.drift),
            (&mut self.delay, &other.delay),
        ];
        pairs.into_iter().for_each(|(mine, theirs)| mine.merge(theirs));
        for (number, theirs) in other.seconds.iter().enumerate() {
            // A window has 2^32 seconds at most.
            let mine = self.second(number as u32);
            mine.streams += theirs.streams;
            mine.bytes += theirs.bytes;
            mine.late += theirs.late;
            mine.stalled_ns += theirs.stalled_ns;
            mine.within_one += theirs.within_one;
            mine.within_two += theirs.within_two;
            mine.left_out = mine.left_out.or(theirs.left_out);
        }
    }
}

/// What was asked for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StreamingSetup {
    /// http or https.
    pub scheme: &'static str,
    /// The Host field.
    pub host: String,
    /// Path and query of the first request.
    pub path: String,
    /// The servers' addresses.
    pub targets: Vec<String>,
    /// What bytes go by.
    pub way: String,
    /// Connections.
    pub connections: u32,
    /// Streams: one on each connection, or over HTTP/2 as many as were to share each.
    pub streams: u32,
    /// How HTTP/2 is spoken, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2>,
    /// Bits per second that each plays, or is to have.
    pub rate: u64,
    /// What a player's buffer holds, in nanoseconds of playing; none without players.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_ns: Option<u64>,
    /// The share of it with which playing begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_share: Option<f64>,
    /// Different requests, which each stream makes in turn.
    pub requests: usize,
    /// Whether each stream begins with another of them.
    pub spread: bool,
    /// Seconds that were to be measured.
    pub seconds: u64,
    /// The payload that a segment is taken to have.
    pub segment: u64,
}

impl StreamingSetup {
    /// What a plan asks for, over `way`.
    #[must_use]
    pub fn new(plan: &StreamingPlan, way: String) -> Self {
        let request = plan.load.first_request();
        Self {
            scheme: if plan.load.secured.is_some() { "https" } else { "http" },
            host: request.host.clone(),
            path: request.path.clone(),
            targets: plan.load.targets.iter().map(ToString::to_string).collect(),
            way,
            connections: plan.load.connections,
            streams: plan.streams(),
            http2: plan.load.http2,
            rate: plan.rate.bits(),
            buffer_ns: plan.player.map(|player| nanos(player.buffer)),
            start_share: plan.player.map(|player| player.share),
            requests: plan.load.requests.len(),
            spread: plan.spread,
            seconds: plan.duration().as_secs(),
            segment: SEGMENT,
        }
    }
}

/// How far streams were off, in bytes or in parts of what was due.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Off {
    /// Seconds, or stretches of seconds, of streams.
    pub samples: u64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

impl Off {
    fn of(recorder: &Recorder, scale: f64) -> Self {
        let at = |quantile| recorder.quantile(quantile) as f64 / scale;
        Self {
            samples: recorder.len(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: recorder.max() as f64 / scale,
        }
    }
}

/// How near streams without players came to their rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Evenness {
    /// Seconds of streams that had what was due within one segment ÷ all that count.
    pub within_one: f64,
    /// The same within two.
    pub within_two: f64,
    /// By how many bytes seconds were off.
    pub off_bytes: Off,
    /// By which part of what was due ten seconds in a row were off.
    pub off_over_10s: Off,
}

/// How players fared.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Playing {
    /// From a stream's first connect to its playing.
    pub start: Latency,
    /// How long streams had waited by the end that never played.
    pub no_start: Latency,
    /// How long streams had nothing to play, each time, where that touches a second that counts.
    pub under_runs: Latency,
    /// Streams that this happened to, those that never played included.
    pub streams_with_under_runs: u64,
    /// Time without anything to play ÷ time that was to be played, in seconds that count.
    pub stalled: f64,
    /// Time without anything to play in seconds that count, of all streams together.
    pub stalled_ns: u64,
    /// Time that was to be played in these.
    pub to_play_ns: u64,
    /// Under-runs that lie in seconds alone that do not count.
    pub disturbed_under_runs: u64,
    /// Time without anything to play in these.
    pub disturbed_ns: u64,
}

/// Seconds that count, and those that do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CountedSeconds {
    /// Whole seconds of the window.
    pub window: u64,
    /// Left out because the hypervisor had a core.
    pub stolen: u64,
    /// Left out because the generator was late.
    pub generator_late: u64,
}

impl CountedSeconds {
    /// Those left out.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.stolen + self.generator_late
    }
}

/// What streams came to.
#[derive(Clone, Debug, Serialize)]
pub struct StreamingReport {
    /// What was asked for.
    pub setup: StreamingSetup,
    /// Streams that played, or to which something came.
    pub under_way: u64,
    /// Bits of content per second of all streams, over the whole window.
    pub bits_per_second: f64,
    /// Answers that came whole.
    pub answers: u64,
    /// Which seconds count.
    pub counted: CountedSeconds,
    /// From a connect to the connection that is ready, secured if it is to be.
    pub connect: Latency,
    /// From a request to the first byte of its answer.
    pub first_byte: Latency,
    /// How long was waited for first bytes that did not come: at all, or by the end.
    pub no_first_byte: Latency,
    /// How far streams were behind what was due at the ends of seconds.
    pub late: Latency,
    /// With players.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub playing: Option<Playing>,
    /// Without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evenness: Option<Evenness>,
    /// What went wrong.
    pub errors: StreamErrors,
    /// Kept connections that the server had closed when they were to be used again.
    pub reopened: u64,
    /// Whether no stream had a connection at the end, and none could be opened.
    pub server_gone: bool,
    /// Redirects, where they are followed.
    #[serde(skip_serializing_if = "is_none")]
    pub redirects: Redirects,
    /// Answers that were not as they were to be.
    pub wrong: u64,
    /// In which way, and the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong_answers: Vec<WrongAnswer>,
    /// The last of it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// How much later than it had asked for the generator was called.
    pub own_delay: Latency,
    /// The generator's own time in user mode ÷ time: 1 is one core.
    pub cpu_user: f64,
    /// The same in the kernel.
    pub cpu_system: f64,
    /// The interfaces that bytes went by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<PortUse>,
    /// The window, second by second.
    pub seconds: Vec<SecondFigures>,
    /// What it is made of.
    #[serde(skip)]
    pub figures: StreamingFigures,
}

impl StreamingReport {
    /// Of figures, with the generator's time ÷ time, in user mode and in the kernel.
    #[must_use]
    pub fn new(
        setup: StreamingSetup,
        figures: StreamingFigures,
        (cpu_user, cpu_system): (f64, f64),
        carried: Vec<PortUse>,
    ) -> Self {
        let count = |why| figures.seconds.iter().filter(|second| second.left_out == Some(why)).count() as u64;
        let counted = CountedSeconds {
            window: figures.seconds.len() as u64,
            stolen: count(LeftOut::Stolen),
            generator_late: count(LeftOut::Late),
        };
        let span = (counted.window as f64).max(1e-9);
        let (playing, evenness) =
            if setup.buffer_ns.is_some() { (Some(playing(&figures)), None) } else { (None, Some(evenness(&figures))) };
        Self {
            setup,
            under_way: figures.under_way,
            bits_per_second: if counted.window > 0 { figures.bytes as f64 * 8.0 / span } else { 0.0 },
            answers: figures.answers,
            counted,
            connect: Latency::of(&figures.connect),
            first_byte: Latency::of(&figures.first_byte),
            no_first_byte: Latency::of(&figures.no_first_byte),
            late: Latency::of(&figures.late),
            playing,
            evenness,
            errors: figures.errors,
            reopened: figures.reopened,
            server_gone: figures.streams > 0 && figures.unconnected == figures.streams,
            redirects: figures.redirects,
            wrong: figures.wrong,
            wrong_answers: figures.wrong_answers.clone(),
            failure: figures.failure.clone(),
            interrupted: figures.interrupted,
            own_delay: Latency::of(&figures.delay),
            cpu_user,
            cpu_system,
            carried,
            seconds: figures.seconds.clone(),
            figures,
        }
    }

    /// Seconds of streams that count.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.late.samples
    }
}

fn is_none(redirects: &Redirects) -> bool {
    *redirects == Redirects::default()
}

fn playing(figures: &StreamingFigures) -> Playing {
    let to_play = figures.to_play.as_secs_f64();
    Playing {
        start: Latency::of(&figures.start),
        no_start: Latency::of(&figures.no_start),
        under_runs: Latency::of(&figures.under_runs),
        streams_with_under_runs: figures.dried,
        stalled: if to_play > 0.0 { figures.stalled.as_secs_f64() / to_play } else { 0.0 },
        stalled_ns: nanos(figures.stalled),
        to_play_ns: nanos(figures.to_play),
        disturbed_under_runs: figures.disturbed_under_runs,
        disturbed_ns: nanos(figures.disturbed),
    }
}

fn evenness(figures: &StreamingFigures) -> Evenness {
    let sum = |of: fn(&SecondFigures) -> u32| figures.seconds.iter().map(|second| u64::from(of(second))).sum::<u64>();
    let all = sum(|second| second.streams).max(1) as f64;
    Evenness {
        within_one: sum(|second| second.within_one) as f64 / all,
        within_two: sum(|second| second.within_two) as f64 / all,
        off_bytes: Off::of(&figures.off, 1.0),
        off_over_10s: Off::of(&figures.drift, DRIFT_PARTS),
    }
}
