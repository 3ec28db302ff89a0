//! Figures that come from elsewhere, held against what a run can have.

use crate::checks::{EXCERPT_LIMIT, SAMPLES_LIMIT, WrongAnswer};
use crate::figures::{Counts, Figures, Integral};
use crate::interval::Interval;
use crate::recorder::COUNTED_LIMIT;
use crate::report::Outside;
use core::time::Duration;

/// The longest time of a run that is believed.
const TIME_LIMIT: Duration = Duration::from_secs(366 * 86_400);

/// Silos of one machine.
const SILOS_LIMIT: u32 = 4_096;

/// The most requests a second.
const RATE_LIMIT: f64 = 1e9;

/// The most bits a second of an interface.
const BITS_LIMIT: f64 = 1e15;

/// Interfaces of one machine that requests go by.
const PORTS_LIMIT: usize = 64;

/// The most bytes, or messages, of a run: exact in a number of JSON's.
const BYTES_LIMIT: u64 = 1 << 52;

/// Handshakes that agreed on different things.
const AGREED_LIMIT: usize = 64;

/// The longest word that may be shown, in bytes: a path and what is around it, each byte escaped.
const WORDS_LIMIT: usize = 8 * EXCERPT_LIMIT;

impl Figures {
    /// The same, if a run can have had them: counts that add up without an overflow, and words that a terminal can
    /// show. What is computed from others is computed.
    ///
    /// # Errors
    /// What no run can have had.
    pub fn admit(mut self) -> Result<Self, &'static str> {
        let times = [self.ramp, self.warm_up, self.window, self.oldest_in_flight, self.schedule.oldest_unsent];
        let phases = [self.ramp_phase.time, self.warm_up_phase.time];
        let counts = [&self.counts, &self.before, &self.ramp_phase.counts, &self.warm_up_phase.counts];
        let schedule = &self.schedule;
        let few = [
            self.open,
            self.most_open,
            self.in_flight,
            self.intervals_merged,
            schedule.due,
            schedule.unsent,
            schedule.unsent_before,
            schedule.under_way,
            self.turns.all,
            self.turns.busy,
        ];
        let agreed = self.agreed.iter().all(|(agreed, count)| {
            let protocol = agreed.protocol.as_deref().unwrap_or_default();
            *count <= COUNTED_LIMIT && [&*agreed.version, &*agreed.suite, protocol].into_iter().all(can_be_shown)
        });
        let words = [&self.connection_failure, &self.server];
        let wrong = |one: &WrongAnswer| can_be_shown(&one.request) && can_be_shown(&one.came);
        let rules = [
            (times.into_iter().chain(phases).all(|time| time <= TIME_LIMIT), "a time longer than a year"),
            (self.turns.time <= TIME_LIMIT && self.turns.busy_time <= TIME_LIMIT, "turns longer than a year"),
            (self.turns.longest <= TIME_LIMIT, "a turn longer than a year"),
            ((0.0..=RATE_LIMIT).contains(&self.rate), "a rate that there cannot be"),
            (self.silos <= SILOS_LIMIT, "more silos than a machine has"),
            (counts.into_iter().all(Counts::is_plausible), "a count that there cannot be"),
            (few.into_iter().all(is_counted), "a number that there cannot be"),
            (self.in_progress.is_plausible(), "more in progress than there can be"),
            (agreed && self.agreed.len() <= AGREED_LIMIT, "handshakes that agreed on what there is not"),
            (words.into_iter().flatten().all(|words| can_be_shown(words)), "words that cannot be shown"),
            (self.wrong_answers.len() <= SAMPLES_LIMIT && self.wrong_answers.iter().all(wrong), "answers as above"),
        ];
        if let Some((_, why)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(why);
        }
        self.latency = self.samples.latency();
        Ok(self)
    }
}

impl Outside {
    /// As [`Figures::admit`].
    ///
    /// # Errors
    /// What no run can have had.
    pub fn admit(self) -> Result<Self, &'static str> {
        let spans = self.busy.map(|busy| [busy.busy, busy.total]).into_iter().flatten();
        let cpu = self.cpu.map(|cpu| [cpu.user_ns, cpu.system_ns, cpu.run_delay_ns, cpu.span_ns]);
        let ports = self.ports.map(|ports| [ports.used, ports.available]);
        let floor = self.floor.map(|floor| [floor.p50_ns, floor.p99_ns]);
        let counts = cpu.into_iter().flatten().chain(ports.into_iter().flatten()).chain(floor.into_iter().flatten());
        let carried = self.carried.iter().all(|port| {
            let rates = [port.sent, port.received, port.speed.unwrap_or(0.0)];
            can_be_shown(&port.name) && rates.into_iter().all(|rate| (0.0..=BITS_LIMIT).contains(&rate))
        });
        let mean = self.floor.map_or(0.0, |floor| floor.mean_ns);
        let busy = self.siblings.iter().all(|sibling| (0.0..=2.0).contains(&sibling.busy));
        let rules = [
            (spans.into_iter().all(|span| span <= TIME_LIMIT), "busy for more than a year"),
            (counts.into_iter().all(|nanos| nanos <= TIME_LIMIT.as_nanos() as u64), "a number that there cannot be"),
            (self.stolen.is_none_or(|stolen| (0.0..=1e6).contains(&stolen)), "more stolen than there is"),
            ((0.0..=1e18).contains(&mean), "a floor that there cannot be"),
            (carried && self.carried.len() <= PORTS_LIMIT, "interfaces that there cannot be"),
            (busy && self.siblings.len() <= SILOS_LIMIT as usize, "cores that there cannot be"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, why)) => Err(why),
            None => Ok(self),
        }
    }
}

impl Interval {
    /// As [`Figures::admit`].
    ///
    /// # Errors
    /// What no run can have had.
    pub fn admit(self) -> Result<Self, &'static str> {
        let few = [self.number, self.open, self.in_flight, self.due, self.backlog, self.turns.all, self.turns.busy];
        let times = [self.start, self.end, self.turns.time, self.turns.busy_time, self.turns.longest];
        let rules = [
            (self.start <= self.end && times.into_iter().all(|time| time <= TIME_LIMIT), "an interval out of time"),
            (self.spans > 0, "an interval that stands for none"),
            (self.counts.is_plausible(), "a count that there cannot be"),
            (few.into_iter().all(is_counted), "a number that there cannot be"),
            (self.in_progress.is_plausible(), "more in progress than there can be"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, why)) => Err(why),
            None => Ok(self),
        }
    }
}

impl Counts {
    fn is_plausible(&self) -> bool {
        let Self { traffic, statuses, grpc, errors, connections, redirects, cookies } = self;
        let calls = grpc.iter().map(|(_, count)| count);
        // Bytes of weeks are more.
        let bytes = traffic.all().all(|count| count <= BYTES_LIMIT);
        let http = statuses.all().chain(errors.all()).chain(connections.all());
        bytes && http.chain(redirects.all()).chain(cookies.all()).chain(calls).all(is_counted)
    }
}

impl Integral {
    fn is_plausible(&self) -> bool {
        // As many requests as there can be, a year long.
        let most = u128::from(COUNTED_LIMIT) * TIME_LIMIT.as_nanos();
        [self.request_ns, self.before_ns, self.after_ns, self.taken_back_ns].into_iter().all(|sum| sum <= most)
    }
}

const fn is_counted(count: u64) -> bool {
    count <= COUNTED_LIMIT
}

/// Printable ASCII, and not much of it.
fn can_be_shown(words: &str) -> bool {
    // The ellipsis is where an excerpt ends.
    let shown = |letter: char| matches!(letter, ' '..='~' | '\u{2026}');
    words.len() <= WORDS_LIMIT && words.chars().all(shown)
}
