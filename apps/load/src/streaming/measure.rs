//! What is measured of streams, whoever carries them.

use super::figures::{LeftOut, StreamingFigures};
use super::live::StreamingLive;
use super::plan::StreamingPlan;
use super::player::{Heard, PlayRate, Player, SEGMENT, nanos};
use super::window::{Due, Seconds, Window};
use crate::live::Stage;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// How often the generator asks to be called: each time tells how late that is.
const HEARTBEAT: Duration = Duration::from_millis(5);

/// How late it may be called where a second ends, without harm: half of a segment's time at the
/// streams' rate, within these. Amid a second it does no harm: what waits is counted in the same one.
const AT_AN_END: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(10));

/// How late a player may be called: for an eighth of its buffer, within these. What lies in sockets
/// meanwhile has not run dry.
const PLAYING: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Later than this, windows may be closed to servers.
const ANYWHERE: Duration = Duration::from_millis(100);

/// What disturbs a moment is known this much later.
pub const KNOWN_AFTER: Duration = Duration::from_millis(250);

/// What one stream plays, and what it was given second by second.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// When its first connection was to be opened.
    begun: Option<Time>,
    /// When the request at hand was asked, until the first byte of its answer is there.
    asked: Option<Time>,
    /// Whether anything was answered.
    answered: bool,
    player: Option<Player>,
    seconds: Seconds,
}

impl Flow {
    pub fn new(plan: &StreamingPlan) -> Self {
        let player = plan.player.map(|player| Player::new(plan.rate, player.buffer, player.share));
        Self { begun: None, asked: None, answered: false, player, seconds: Seconds::default() }
    }

    /// A connection is to be opened: what it waits for begins here.
    pub fn begin(&mut self, now: Time) {
        self.begun.get_or_insert(now);
    }

    /// It asks for something.
    pub const fn ask(&mut self, now: Time) {
        self.asked = Some(now);
    }

    /// It asks for the same again, elsewhere.
    pub const fn take_back(&mut self) {
        self.asked = None;
    }

    /// Bytes of content that are taken, at most.
    pub fn room(&self, now: Time) -> u64 {
        self.player.as_ref().map_or(u64::MAX, |player| player.room(now))
    }

    /// When a player has played so many bytes more; none where nothing plays.
    pub fn plays_until(&self, now: Time, bytes: u64) -> Option<Time> {
        self.player.as_ref()?.plays_until(now, bytes)
    }

    /// Bytes of room for which it is worth telling a server that there is more: an eighth of the buffer.
    pub fn worth(&self) -> u64 {
        self.player.as_ref().map_or(u64::MAX, Player::worth)
    }

    /// When there is room again; now, where there always is.
    pub fn has_room_at(&self, now: Time) -> Time {
        self.player.as_ref().map_or(now, |player| player.has_room_at(now))
    }

    /// What is due of it.
    fn due(&self, rate: PlayRate) -> Due {
        let playing = self.player.as_ref().and_then(|player| Some((player.started()?, player.received())));
        playing.map_or(Due::EachSecond(rate), |(since, received)| Due::Since { rate, since, received })
    }
}

/// Nothing was to play on a stream, from one time to the other.
#[derive(Clone, Copy, Debug)]
struct UnderRun {
    stream: usize,
    since: Time,
    until: Time,
}

/// The account of one silo or thread.
#[derive(Debug)]
pub struct Measure {
    rate: PlayRate,
    window: Window,
    /// Those that ended, until it is known whether their seconds count.
    under_runs: VecDeque<UnderRun>,
    /// By stream, whether it had one.
    dried: Vec<bool>,
    /// By second, how long there was nothing to play, in nanoseconds.
    dry: Vec<u64>,
    /// When the generator is to be called.
    due: Time,
    tolerance: Duration,
    plays: bool,
    stolen: u64,
    live: StreamingLive,
    /// What it comes to.
    pub figures: StreamingFigures,
}

impl Measure {
    pub fn new(plan: &StreamingPlan) -> Self {
        let tolerance = match &plan.player {
            Some(player) => (player.buffer / 8).clamp(PLAYING.0, PLAYING.1),
            None => (plan.rate.time_of(SEGMENT) / 2).clamp(AT_AN_END.0, AT_AN_END.1),
        };
        Self {
            rate: plan.rate,
            window: Window::new(plan.duration()),
            under_runs: VecDeque::new(),
            dried: vec![false; plan.streams() as usize],
            dry: Vec::new(),
            due: Time::ZERO,
            tolerance,
            plays: plan.player.is_some(),
            stolen: 0,
            live: StreamingLive::default(),
            figures: StreamingFigures { streams: plan.streams().into(), ..StreamingFigures::default() },
        }
    }

    pub const fn live(&self) -> &StreamingLive {
        &self.live
    }

    /// When the generator is to be called again at the latest.
    pub const fn due(&self) -> Time {
        self.due
    }

    /// The window begins.
    pub fn begin(&mut self, now: Time) {
        self.window.begin(now);
        self.stolen = self.live.stolen();
    }

    /// When it ends; none before it began.
    pub fn ends(&self) -> Option<Time> {
        self.window.ends()
    }

    /// It ends before its time.
    pub fn end(&mut self, now: Time) {
        self.window.end(now);
    }

    /// Tells who watches how far it is.
    pub fn publish(&self, stage: Stage) {
        self.live.publish(stage, &self.figures);
    }

    /// Notes what time it is, and whether the generator was called as it had asked.
    pub fn look(&mut self, now: Time, stage: Stage) {
        if now < self.due {
            return;
        }
        // The first call was not asked for.
        if self.due > Time::ZERO && self.window.has(now) {
            let late = now.since(self.due);
            self.figures.delay.record(nanos(late));
            let matters = self.plays || self.window.index(self.due) != self.window.index(now);
            if late > ANYWHERE || late > self.tolerance && matters {
                self.window.leave_out(self.due, now, LeftOut::Late);
            }
        }
        self.due = now + HEARTBEAT;
        let stolen = self.live.stolen();
        if core::mem::replace(&mut self.stolen, stolen) != stolen {
            let from = Time::from_nanos(now.as_nanos().saturating_sub(nanos(KNOWN_AFTER)));
            self.window.leave_out(from, now, LeftOut::Stolen);
        }
        self.judge_under_runs(now);
        self.publish(stage);
    }

    /// A connection that was begun then is ready.
    pub fn on_connected(&mut self, now: Time, begun: Time) {
        self.figures.connect.record(nanos(now.since(begun)));
    }

    /// The first byte is there of what a stream asked for.
    pub fn on_first_byte(&mut self, now: Time, flow: &mut Flow) {
        if let Some(asked) = flow.asked.take() {
            flow.answered = true;
            self.figures.first_byte.record(nanos(now.since(asked)));
        }
    }

    /// What a stream asked for is not answered any more.
    pub fn on_unanswered(&mut self, now: Time, flow: &mut Flow) {
        if let Some(asked) = flow.asked.take() {
            self.figures.no_first_byte.record(nanos(now.since(asked)));
        }
    }

    /// Content came on a stream.
    pub fn on_content(&mut self, now: Time, stream: usize, flow: &mut Flow, bytes: u64) {
        if self.window.has(now) {
            self.figures.bytes += bytes;
        }
        let due = flow.due(self.rate);
        flow.seconds.advance(&self.window, now, due, &mut self.figures);
        flow.seconds.on_bytes(&self.window, now, bytes);
        let heard = flow.player.as_mut().map(|player| {
            player.look(now);
            player.on_content(now, bytes)
        });
        match heard {
            None if flow.seconds.is_begun() => {}
            // What begins behind the window did not begin in it. It goes on as it was: nothing is taken faster.
            None | Some(Heard::Started) if self.window.is_over(now) => {}
            None | Some(Heard::Started) => {
                flow.seconds.begin(&self.window, now);
                self.figures.under_way += 1;
                if let (Some(_), Some(begun)) = (heard, flow.begun) {
                    self.figures.start.record(nanos(now.since(begun)));
                }
            }
            Some(Heard::Resumed(length)) => {
                let since = Time::from_nanos(now.as_nanos().saturating_sub(nanos(length)));
                self.note_under_run(stream, since, now);
            }
            Some(Heard::Same) => {}
        }
    }

    /// One that ended, or the window did. It may have begun before the window.
    fn note_under_run(&mut self, stream: usize, since: Time, until: Time) {
        let Some(ends) = self.window.ends() else { return };
        let until = until.min(ends);
        if self.window.parts(since, until).next().is_some() {
            self.under_runs.push_back(UnderRun { stream, since, until });
        }
    }

    /// Counts those of which is known by `now` which of their seconds count: one that touches such a second, with all
    /// of its length.
    fn judge_under_runs(&mut self, now: Time) {
        while let Some(one) = self.under_runs.front().copied() {
            if one.until + KNOWN_AFTER > now {
                return;
            }
            self.under_runs.pop_front();
            let mut counts = false;
            for (second, part) in self.window.parts(one.since, one.until) {
                add(&mut self.dry, second, part);
                counts |= self.window.left_out(second).is_none();
            }
            if !counts {
                self.figures.disturbed_under_runs += 1;
                continue;
            }
            self.figures.under_runs.record(nanos(one.until.since(one.since)));
            let was = core::mem::replace(&mut self.dried[one.stream], true);
            self.figures.dried += u64::from(!was);
        }
    }

    /// All is over.
    pub fn finish(mut self, flows: impl Iterator<Item = Flow>) -> StreamingFigures {
        let Some(ends) = self.window.ends() else { return self.figures };
        let mut to_play = Vec::new();
        for (stream, flow) in flows.enumerate() {
            self.finish_stream(stream, flow, ends, &mut to_play);
        }
        self.judge_under_runs(Time::MAX);
        let of = |times: &[u64], second: u32| times.get(second as usize).copied().unwrap_or(0);
        for second in 0..self.window.seconds() {
            let left_out = self.window.left_out(second);
            let (dry, due) = (of(&self.dry, second), of(&to_play, second));
            let one = self.figures.second(second);
            one.left_out = left_out;
            if left_out.is_some() {
                self.figures.disturbed += Duration::from_nanos(dry);
            } else {
                one.stalled_ns = dry;
                self.figures.stalled += Duration::from_nanos(dry);
                self.figures.to_play += Duration::from_nanos(due);
            }
        }
        self.figures
    }

    /// The account of a stream that is over. One that did not begin waits still, since its first connect.
    fn finish_stream(&mut self, stream: usize, mut flow: Flow, ends: Time, to_play: &mut Vec<u64>) {
        // One that was not even to be opened is due all the time.
        let begun = flow.begun.or(self.window.begins()).unwrap_or(ends).min(ends);
        let asked = if flow.answered { flow.asked } else { Some(begun) };
        if let Some(asked) = asked.filter(|asked| *asked < ends) {
            self.figures.no_first_byte.record(nanos(ends.since(asked)));
        }
        let mut due = flow.due(self.rate);
        if let Some(player) = &mut flow.player {
            player.look(ends);
            let started = player.started().filter(|at| *at < ends);
            let since = started.unwrap_or(begun);
            for (second, part) in self.window.parts(since, ends) {
                add(to_play, second, part);
            }
            let dry_since = if started.is_some() {
                player.dry_since()
            } else {
                self.figures.no_start.record(nanos(ends.since(begun)));
                due = Due::Since { rate: self.rate, since: begun, received: 0 };
                Some(begun)
            };
            if let Some(since) = dry_since {
                self.note_under_run(stream, since, ends);
            }
        }
        flow.seconds.begin(&self.window, begun);
        flow.seconds.finish(&self.window, due, &mut self.figures);
    }
}

/// Adds a span to that of its second.
fn add(seconds: &mut Vec<u64>, second: u32, part: Duration) {
    let second = second as usize;
    if seconds.len() <= second {
        seconds.resize(second + 1, 0);
    }
    seconds[second] += nanos(part);
}
