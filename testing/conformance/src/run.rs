//! Runs a script against a target.

use crate::frames::{Family, Seen, Wire};
use crate::script::{Script, Segment, Step};
use app::Closed;
use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// A host under test, and its clock.
pub trait Target {
    /// The time.
    fn now(&self) -> Time;

    /// What carries its segments.
    fn family(&self) -> Family;

    /// Delivers a frame to it.
    fn inject(&mut self, frame: &[u8]);

    /// The next frame that it sends, and when, waiting no longer than
    /// `until`; time has then passed to the frame, or to `until`.
    fn next_frame(&mut self, until: Time) -> Option<(Time, Vec<u8>)>;

    /// Tells its application what to do.
    ///
    /// # Errors
    /// If the application cannot.
    fn act(&mut self, act: Act) -> Result<(), String>;

    /// What its application has been told.
    fn told(&mut self) -> Told;

    /// How far its clock may be off what a script says.
    fn slack(&self) -> Duration;
}

/// What an application is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Accept connections.
    Listen,
    /// Connect to the peer.
    Connect,
    /// Send so many bytes of the pattern.
    Send(u32),
    /// Stop or start reading.
    Hold(bool),
    /// Finish.
    Finish,
    /// Abort.
    Abort,
}

/// What an application has been told, of the connection opened last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Connections opened.
    pub opened: u32,
    /// Bytes read, and right.
    pub received: u64,
    /// The first byte that was wrong.
    pub wrong: Option<u64>,
    /// The peer has finished.
    pub ended: bool,
    /// How the connection ended.
    pub closed: Option<Closed>,
}

/// A step that did not go as the script says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The script's line.
    pub line: usize,
    /// What happened instead.
    pub what: String,
    /// All segments so far, as a script would write them.
    pub log: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)?;
        for line in &self.log {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// A segment without `at` may take this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What an application is told may take this long: giving up takes minutes.
const LONG_PATIENCE: Duration = Duration::from_secs(3_600);

/// While waiting for the application, frames are looked for this often.
const STEP: Duration = Duration::from_millis(1);

/// Runs `script`.
///
/// # Errors
/// The first step that does not go as the script says.
pub fn run(script: &Script, target: &mut impl Target) -> Result<(), Failure> {
    let connects = script.steps.iter().any(|(_, step)| *step == Step::Connect);
    let family = target.family();
    let wire = if connects { Wire::connecting(family) } else { Wire::listening(family) };
    let before = target.now();
    let (seen, log) = (VecDeque::new(), Vec::new());
    let mut runner = Runner { target, wire, seen, start: before, before, opened: 0, received: 0, log };
    for (line, step) in &script.steps {
        if let Err(what) = runner.step(step) {
            return Err(Failure { line: *line, what, log: runner.log });
        }
    }
    Ok(())
}

struct Runner<'a, T> {
    target: &'a mut T,
    wire: Wire,
    /// Segments of ours that no step has looked at.
    seen: VecDeque<(Time, Segment)>,
    start: Time,
    /// When the step before happened.
    before: Time,
    opened: u32,
    received: u64,
    log: Vec<String>,
}

impl<T: Target> Runner<'_, T> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Listen => self.target.act(Act::Listen)?,
            Step::Connect => {
                self.before = self.target.now();
                self.target.act(Act::Connect)?;
            }
            Step::Send(len) => self.act(Act::Send(*len))?,
            Step::Hold(hold) => self.act(Act::Hold(*hold))?,
            Step::Finish => self.act(Act::Finish)?,
            Step::Abort => self.act(Act::Abort)?,
            Step::Opened => {
                self.opened += 1;
                self.received = 0;
                let opened = self.opened;
                self.await_told("an open connection", PATIENCE, |told| told.opened >= opened)?;
            }
            Step::Receive(len) => {
                self.received += u64::from(*len);
                let all = self.received;
                self.await_told(&format!("{all} bytes in all"), PATIENCE, |told| told.received >= all)?;
                let got = self.target.told().received;
                if got > all {
                    return Err(format!("{got} bytes in all came, not {all}"));
                }
            }
            Step::Ended => self.await_told("the peer's end", PATIENCE, |told| told.ended)?,
            Step::Closed(why) => {
                self.await_told("the connection's end", LONG_PATIENCE, |told| told.closed.is_some())?;
                match self.target.told().closed {
                    Some(got) if got == *why => {}
                    got => return Err(format!("the connection ended as {got:?}")),
                }
            }
            Step::Wait(time) => {
                let until = self.target.now() + *time;
                self.gather(until)?;
                self.before = until;
            }
            Step::Quiet(time) => self.quiet(*time)?,
            Step::IsnAfter(low, high) => self.isn(|step| (*low..=*high).contains(&step))?,
            Step::IsnApart(least) => self.isn(|step| step.min(step.wrapping_neg()) >= *least)?,
            Step::Inject(segment) => self.inject(segment)?,
            Step::Expect(segment) => self.expect(segment)?,
        }
        Ok(())
    }

    fn isn(&self, fits: impl Fn(u32) -> bool) -> Result<(), String> {
        match self.wire.isn_step() {
            Some(step) if fits(step) => Ok(()),
            Some(step) => Err(format!("the initial sequence number is {step} after the one before it")),
            None => Err("there are no two initial sequence numbers".into()),
        }
    }

    fn act(&mut self, act: Act) -> Result<(), String> {
        self.before = self.target.now();
        self.target.act(act)
    }

    fn await_told(&mut self, what: &str, patience: Duration, enough: impl Fn(&Told) -> bool) -> Result<(), String> {
        let limit = self.target.now() + patience + self.target.slack();
        loop {
            let told = self.target.told();
            if let Some(at) = told.wrong {
                return Err(format!("the application's byte {at} is not what the peer sent"));
            }
            if enough(&told) {
                return Ok(());
            }
            let now = self.target.now();
            if now >= limit {
                return Err(format!("the application waits for {what}; it was told {told:?}"));
            }
            // An hour is not waited out in single steps.
            let step = if patience > PATIENCE && self.target.slack().is_zero() { PATIENCE } else { STEP };
            self.gather(now + step)?;
        }
    }

    /// Takes what ours sends until `until`, without judging it.
    fn gather(&mut self, until: Time) -> Result<(), String> {
        while let Some(seen) = self.next_segment(until)? {
            self.seen.push_back(seen);
        }
        Ok(())
    }

    /// The next segment that ours sends until `until`. Answers what is asked
    /// on the way.
    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, String> {
        while let Some((at, frame)) = self.target.next_frame(until) {
            match self.wire.decode(&frame) {
                Seen::Segment(segment) => {
                    self.note(at, '>', &segment);
                    return Ok(Some((at, segment)));
                }
                Seen::Answer(answer) => self.target.inject(&answer),
                Seen::Other => {}
                Seen::Broken(why) => return Err(format!("a broken frame came: {why}")),
            }
        }
        Ok(None)
    }

    fn inject(&mut self, segment: &Segment) -> Result<(), String> {
        if !self.wire.resolved() {
            self.target.inject(&self.wire.ask());
            let limit = self.target.now() + PATIENCE;
            while !self.wire.resolved() {
                let now = self.target.now();
                if now >= limit {
                    return Err("our hardware address is not to be learned".into());
                }
                self.gather(now + STEP)?;
            }
        }
        self.before = self.target.now();
        self.note(self.before, '<', segment);
        self.target.inject(&self.wire.encode(segment));
        Ok(())
    }

    fn note(&mut self, at: Time, direction: char, segment: &Segment) {
        let since = at.since(self.start).as_secs_f64() * 1_000.0;
        self.log.push(format!("{since:10.3} ms {direction} {segment}"));
    }

    fn expect(&mut self, expected: &Segment) -> Result<(), String> {
        let slack = self.target.slack();
        let patience = expected.at.map_or(PATIENCE, |(_, high)| high) + slack;
        let next = match self.seen.pop_front() {
            Some(seen) => Some(seen),
            None => self.next_segment((self.before + patience).max(self.target.now()))?,
        };
        let Some((at, got)) = next else {
            return Err(format!("expected {expected}, and nothing came"));
        };
        if let Some(field) = self.wire.mismatch(expected, &got) {
            return Err(format!("expected {expected}, got {got}: {field} differs"));
        }
        let after = at.since(self.before);
        if let Some((low, high)) = expected.at
            && (after + slack < low || after > high + slack)
        {
            return Err(format!("{got} came after {after:?}, not {low:?} to {high:?}"));
        }
        self.before = at;
        Ok(())
    }

    fn quiet(&mut self, time: Duration) -> Result<(), String> {
        let until = self.target.now() + time;
        let next = match self.seen.pop_front() {
            Some(seen) => Some(seen),
            None => self.next_segment(until)?,
        };
        match next {
            Some((_, got)) => Err(format!("expected nothing, got {got}")),
            None => {
                self.before = until;
                Ok(())
            }
        }
    }
}
