//! A core's time, stretch by stretch: from events to what a gap went to.
//!
//! Events say when something begins and ends. Between two of them the core does
//! one thing, which is a [`Stretch`]. A gap goes to whatever its stretches went
//! to. What no stretch covers went to entering and leaving interrupts, a little
//! for each, or to something that this kernel does not see.

use crate::cause::{Cause, Name, Vector};
use std::collections::VecDeque;

/// Something that happened on a core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Something begins, which interrupts what was.
    Enter(Frame),
    /// It ends.
    Leave(Frame),
    /// Another thread has the core.
    Switch {
        /// Which.
        thread: u32,
        /// Its name.
        name: Name,
    },
    /// What the worker of the kernel that has the core works at is this.
    Does(Name),
    /// What the interrupt from another core is to call is this.
    Calls(Name),
    /// The thread took a page fault.
    PageFault,
    /// An interrupt that cannot be masked is over; it took so long.
    Nmi(u64),
    /// The frequency was changed.
    Frequency,
    /// A machine check was found.
    MachineCheck,
    /// So many events are missing.
    Lost(u64),
}

/// What interrupts a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A device's handler.
    Interrupt(u32, Name),
    /// A softirq's.
    Softirq(Name),
    /// One of the processor's own interrupts.
    Vector(Vector),
    /// A timer's function; whether it is the tick's.
    Timer(Name, bool),
}

impl Frame {
    fn cause(&self) -> Cause {
        match self {
            Self::Interrupt(number, name) => Cause::Interrupt { number: *number, name: name.clone() },
            Self::Softirq(name) => Cause::Softirq(name.clone()),
            // Its functions tell which timer; this is what it takes beside them.
            Self::Vector(Vector::LocalTimer) => Cause::Timer(None),
            Self::Vector(kind) => Cause::Ipi { kind: *kind, function: None },
            Self::Timer(_, true) => Cause::Tick,
            Self::Timer(function, false) => Cause::Timer(Some(function.clone())),
        }
    }

    /// Whether a leave of `other` ends this.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Interrupt(one, _), Self::Interrupt(other, _)) => one == other,
            (Self::Softirq(one), Self::Softirq(other)) => one == other,
            (Self::Vector(one), Self::Vector(other)) => one == other,
            // They do not nest, and the leave may not name the function.
            (Self::Timer(..), Self::Timer(..)) => true,
            _ => false,
        }
    }
}

/// Time during which the core did one thing, other than the watched thread.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stretch {
    from: u64,
    until: u64,
    /// When the core left the watched thread for it, or for what it interrupts.
    left: u64,
    cause: Cause,
    /// Of what interrupts another thread: which.
    within: Option<u32>,
}

/// The thread that has the core.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Running {
    Watched,
    /// The watched thread, in a page fault.
    Faulting,
    Other(Cause),
}

/// What stretches of a gap went to.
struct Covered {
    parts: Vec<(Cause, u64)>,
    /// How often the core left the watched thread.
    leaves: u64,
    interrupted: Vec<(u32, u64)>,
}

/// What a gap went to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribution {
    /// What most of it went to.
    pub cause: Cause,
    /// All of it: causes with their nanoseconds, the largest first.
    pub parts: Vec<(Cause, u64)>,
    /// What interrupts took in it while another thread had the core: the thread,
    /// and nanoseconds. The kernel counts them as that thread's.
    pub interrupted: Vec<(u32, u64)>,
    /// Whether events of that time are missing.
    pub incomplete: bool,
}

/// Nothing of ours, by what counters say of the interval that a gap was in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beyond {
    /// The hypervisor took time.
    pub stolen: bool,
    /// So many SMIs came.
    pub smis: u64,
}

/// An interrupt takes so long beside what its handlers do, nanoseconds, until it
/// is known better: to enter and to leave.
const EDGE: u64 = 4_000;

/// The same in a virtual machine, where the hypervisor has its part.
const EDGE_VIRTUAL: u64 = 40_000;

/// The most that is believed of it.
const EDGE_LIMIT: u64 = 100_000;

/// Clocks of events and of gaps may differ by so much, nanoseconds.
const SLACK: u64 = 1_000;

/// The most stretches held; more are forgotten, the oldest first, and gaps there
/// are incomplete.
const STRETCHES_LIMIT: usize = 1 << 18;

/// Interrupts within interrupts: more are a sign that leaves were lost.
const DEPTH_LIMIT: usize = 16;

/// What entering and leaving takes on this core, as it was with gaps that had one
/// interrupt, or one thread, and nothing else.
#[derive(Debug)]
struct Edge {
    recent: VecDeque<u64>,
    nanos: u64,
}

/// So many are looked at, and from so many on they are believed.
const EDGES: usize = 128;
const EDGES_LEAST: usize = 16;

impl Edge {
    const fn new(virtual_machine: bool) -> Self {
        Self { recent: VecDeque::new(), nanos: if virtual_machine { EDGE_VIRTUAL } else { EDGE } }
    }

    /// What was not covered in such a gap. Stalls are far from the median, and
    /// three times that is what the slower ones take.
    fn on_gap(&mut self, rest: u64) {
        if self.recent.len() == EDGES {
            self.recent.pop_front();
        }
        self.recent.push_back(rest);
        if self.recent.len() >= EDGES_LEAST && self.recent.len().is_multiple_of(EDGES_LEAST) {
            let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
            sorted.sort_unstable();
            self.nanos = (sorted[sorted.len() / 2] * 3).clamp(EDGE, EDGE_LIMIT);
        }
    }
}

/// Nothing that interrupts lasts longer, nanoseconds: its leave was lost.
const FRAME_LIMIT: u64 = 50_000_000;

/// One core's time.
#[derive(Debug)]
pub struct Timeline {
    watched: u32,
    running: Running,
    frames: Vec<Cause>,
    kinds: Vec<Frame>,
    /// When the outermost frame was entered.
    entered: u64,
    /// When the last event was.
    at: u64,
    /// When the core left the watched thread.
    left: u64,
    stretches: VecDeque<Stretch>,
    points: VecDeque<(u64, Cause)>,
    edge: Edge,
    /// Times at which events were lost, or forgotten: none before is certain.
    doubtful_until: u64,
}

impl Timeline {
    /// Of a core that runs the thread `watched`.
    #[must_use]
    pub fn new(watched: u32, virtual_machine: bool) -> Self {
        Self {
            watched,
            running: Running::Watched,
            frames: Vec::new(),
            kinds: Vec::new(),
            entered: 0,
            at: 0,
            left: 0,
            stretches: VecDeque::new(),
            points: VecDeque::new(),
            edge: Edge::new(virtual_machine),
            doubtful_until: 0,
        }
    }

    /// Takes the next event. Those that come with an earlier time than the last
    /// are taken as of that time.
    pub fn on_event(&mut self, at: u64, event: Event) {
        let at = at.max(self.at);
        if let Event::Nmi(took) = event {
            return self.on_nmi(at, took);
        }
        self.close(at);
        let was_watched = self.is_watched();
        match event {
            Event::Enter(frame) => self.enter(at, frame),
            Event::Leave(frame) => self.leave(&frame),
            Event::Switch { thread, name } => self.switch(thread, name),
            Event::Does(name) => self.does(name),
            Event::Calls(name) => self.calls(name),
            Event::PageFault if self.frames.is_empty() && self.running == Running::Watched => {
                self.running = Running::Faulting;
            }
            Event::Frequency => self.point(at, Cause::Frequency),
            Event::MachineCheck => self.point(at, Cause::MachineCheck),
            Event::Lost(_) => {
                self.frames.clear();
                self.kinds.clear();
                self.running = Running::Watched;
                self.doubtful_until = at;
            }
            Event::PageFault | Event::Nmi(_) => {}
        }
        if was_watched && !self.is_watched() {
            self.left = at;
        }
        self.at = at;
    }

    fn is_watched(&self) -> bool {
        self.frames.is_empty() && self.running == Running::Watched
    }

    /// What the core does now, if it is something else than the watched thread.
    fn now(&self) -> Option<Cause> {
        match (self.frames.last(), &self.running) {
            (Some(cause), _) | (None, Running::Other(cause)) => Some(cause.clone()),
            (None, Running::Faulting) => Some(Cause::PageFault),
            (None, Running::Watched) => None,
        }
    }

    /// The thread that has the core, other than the watched one.
    const fn thread(&self) -> Option<u32> {
        match &self.running {
            Running::Other(Cause::Thread { thread, .. }) => Some(*thread),
            _ => None,
        }
    }

    /// That which is interrupted, where something interrupts.
    fn within(&self) -> Option<u32> {
        if self.frames.is_empty() { None } else { self.thread() }
    }

    /// The time until `at` went to what the core does.
    fn close(&mut self, at: u64) {
        let Some(cause) = self.now() else { return };
        if at > self.at {
            self.push(Stretch { from: self.at, until: at, left: self.left, cause, within: self.within() });
        }
        // Nothing says when a fault is over; whatever comes next says that it is.
        if self.running == Running::Faulting && self.frames.is_empty() {
            self.running = Running::Watched;
        }
    }

    fn push(&mut self, stretch: Stretch) {
        if self.stretches.len() >= STRETCHES_LIMIT
            && let Some(forgotten) = self.stretches.pop_front()
        {
            self.doubtful_until = self.doubtful_until.max(forgotten.until);
        }
        self.stretches.push_back(stretch);
    }

    fn point(&mut self, at: u64, cause: Cause) {
        if self.points.len() >= STRETCHES_LIMIT {
            self.points.pop_front();
        }
        self.points.push_back((at, cause));
    }

    fn enter(&mut self, at: u64, frame: Frame) {
        if self.frames.len() >= DEPTH_LIMIT || (!self.frames.is_empty() && at - self.entered > FRAME_LIMIT) {
            self.frames.clear();
            self.kinds.clear();
            if self.running == Running::Watched {
                self.left = at;
            }
        }
        if self.frames.is_empty() {
            self.entered = at;
        }
        self.frames.push(frame.cause());
        self.kinds.push(frame);
    }

    /// Ends the innermost of its kind, and what was entered within and not left:
    /// those leaves were lost. One that was never entered is none.
    fn leave(&mut self, frame: &Frame) {
        if let Some(at) = self.kinds.iter().rposition(|entered| entered.is_like(frame)) {
            self.frames.truncate(at);
            self.kinds.truncate(at);
        }
    }

    /// Nothing that interrupts is left halfway by a switch.
    fn switch(&mut self, thread: u32, name: Name) {
        self.frames.clear();
        self.kinds.clear();
        self.running = match thread {
            _ if thread == self.watched => Running::Watched,
            // The idle thread of every core.
            0 => Running::Other(Cause::Held),
            _ => Running::Other(Cause::Thread { thread, name, work: None }),
        };
    }

    fn does(&mut self, name: Name) {
        if let (true, Running::Other(Cause::Thread { work, .. })) = (self.frames.is_empty(), &mut self.running) {
            *work = Some(name);
        }
    }

    /// Functions that are called when a core wakes up come without an interrupt.
    fn calls(&mut self, name: Name) {
        if let Some(Cause::Ipi { function, .. }) = self.frames.last_mut() {
            *function = Some(name);
        }
    }

    /// It is told of when it is over, whatever it came upon.
    fn on_nmi(&mut self, at: u64, took: u64) {
        let from = at.saturating_sub(took).max(self.at);
        self.close(from);
        let left = if self.is_watched() { from } else { self.left };
        if at > from {
            self.push(Stretch { from, until: at, left, cause: Cause::Nmi, within: self.thread() });
        }
        self.at = at;
    }

    /// What a gap in the watched thread's time went to. Gaps are asked for in
    /// their order, each when the events of its time have been taken; what was
    /// before is forgotten.
    pub fn verdict(&mut self, from: u64, until: u64, beyond: &mut Beyond) -> Attribution {
        let length = until.saturating_sub(from);
        let before = from.saturating_sub(SLACK);
        while self.stretches.front().is_some_and(|stretch| stretch.until <= before) {
            self.stretches.pop_front();
        }
        while self.points.front().is_some_and(|(at, _)| *at < before) {
            self.points.pop_front();
        }
        let Covered { mut parts, leaves, interrupted } = self.covered(from, until);
        let covered: u64 = parts.iter().map(|(_, nanos)| nanos).sum();
        let rest = length.saturating_sub(covered);
        let point =
            self.points.iter().find(|(at, _)| *at <= until.saturating_add(SLACK)).map(|(_, cause)| cause.clone());
        let incomplete = from < self.doubtful_until;
        if leaves == 1 && !incomplete {
            self.edge.on_gap(rest);
        }
        if rest > 0 {
            if leaves > 0 && rest <= self.edge.nanos.saturating_mul(leaves) {
                // Entering and leaving.
                if let Some(largest) = parts.iter_mut().max_by_key(|(_, nanos)| *nanos) {
                    largest.1 += rest;
                }
            } else {
                let cause = point.unwrap_or_else(|| unexplained(beyond));
                parts.push((cause, rest));
            }
        }
        parts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let cause = parts.first().map_or(Cause::Unknown, |(cause, _)| cause.clone());
        Attribution { cause, parts, interrupted, incomplete }
    }

    /// What the stretches of a gap went to, and how often the core left the
    /// watched thread in it.
    fn covered(&self, from: u64, until: u64) -> Covered {
        let mut parts: Vec<(Cause, u64)> = Vec::new();
        let mut interrupted: Vec<(u32, u64)> = Vec::new();
        let mut lefts: Vec<u64> = Vec::new();
        let within = self.within();
        let open = self.now().map(|cause| Stretch { from: self.at, until: u64::MAX, left: self.left, cause, within });
        for stretch in self.stretches.iter().chain(open.iter()) {
            let (start, end) = (stretch.from.max(from), stretch.until.min(until));
            // The watched thread ran when the gap began, so that what is said to
            // have begun earlier was over: its end was lost, or is told by
            // nobody.
            if end <= start || stretch.left.saturating_add(SLACK) < from {
                continue;
            }
            match parts.iter_mut().find(|(cause, _)| *cause == stretch.cause) {
                Some((_, nanos)) => *nanos += end - start,
                None => parts.push((stretch.cause.clone(), end - start)),
            }
            if let Some(thread) = stretch.within {
                match interrupted.iter_mut().find(|(known, _)| *known == thread) {
                    Some((_, nanos)) => *nanos += end - start,
                    None => interrupted.push((thread, end - start)),
                }
            }
            if lefts.last() != Some(&stretch.left) {
                lefts.push(stretch.left);
            }
        }
        Covered { parts: joined(parts), leaves: lefts.len() as u64, interrupted }
    }

    /// Forgets what was before, where no gap asked for it.
    pub fn forget(&mut self, before: u64) {
        while self.stretches.front().is_some_and(|stretch| stretch.until < before) {
            self.stretches.pop_front();
        }
        while self.points.front().is_some_and(|(at, _)| *at < before) {
            self.points.pop_front();
        }
    }
}

/// What says the same less exactly goes to the largest that says it better.
fn joined(mut parts: Vec<(Cause, u64)>) -> Vec<(Cause, u64)> {
    parts.sort_by_key(|(_, nanos)| core::cmp::Reverse(*nanos));
    let mut at = 0;
    while let Some((cause, nanos)) = parts.get(at).cloned() {
        match parts.iter_mut().find(|(other, _)| cause.is_within(other)) {
            Some((_, larger)) => {
                *larger += nanos;
                parts.remove(at);
            }
            None => at += 1,
        }
    }
    parts
}

/// Nothing that this kernel tells of: the firmware, the hypervisor, or unknown.
/// An SMI is one gap's cause and no more.
const fn unexplained(beyond: &mut Beyond) -> Cause {
    if beyond.smis > 0 {
        beyond.smis -= 1;
        return Cause::Smi;
    }
    if beyond.stolen { Cause::Stolen } else { Cause::Unknown }
}

#[cfg(test)]
mod tests;
