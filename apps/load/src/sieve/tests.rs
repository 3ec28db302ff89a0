use super::*;
use crate::figures::Counts;
use crate::find_max::{FindMax, FindMaxConfig, Found, Spoilt, Surroundings, Trial};
use crate::live::Stage;
use crate::plan::{Plan, Request};
use crate::random::Random;
use crate::report::{Outside, Report};
use crate::schedule::{Arrival, Schedule};
use std::collections::VecDeque;

const CAPACITY: f64 = 50_000.0;
const MS: u64 = 1_000_000;
/// When the window opens.
const OPENS: u64 = 1_000 * MS;

/// A span in which the server has `speed` of its core.
#[derive(Clone, Copy, Debug)]
struct Burst {
    from: u64,
    until: u64,
    speed: f64,
}

/// A server that takes one request after the other, on a core that others
/// disturb, and a generator that asks as it is told.
struct World {
    bursts: Vec<Burst>,
    /// Whether disturbances are seen.
    seen: bool,
    /// Nanoseconds of work for a request; endless if it hangs.
    service: f64,
    /// When the server has done all that it was asked.
    free: f64,
    /// When each request under way was due, and will be answered.
    under_way: VecDeque<(f64, f64)>,
    next_due: f64,
    random: Random,
    /// Slices to fill anew: each has megabytes of buckets.
    blank: Vec<Interval>,
}

impl World {
    fn new(seed: u64, bursts: Vec<Burst>) -> Self {
        Self {
            bursts,
            seen: true,
            service: 1e9 / CAPACITY,
            free: 0.0,
            under_way: VecDeque::new(),
            next_due: OPENS as f64,
            random: Random::new(seed),
            blank: Vec::new(),
        }
    }

    /// When work that begins at `at` is done.
    fn done(&self, at: f64) -> f64 {
        let (begins, mut at, mut work) = (at, at, self.service);
        let first = self.bursts.partition_point(|burst| burst.until as f64 <= begins);
        for burst in &self.bursts[first..] {
            let whole = (burst.from as f64 - at).max(0.0);
            if work <= whole {
                return at + work;
            }
            work -= whole;
            at = at.max(burst.from as f64);
            let room = (burst.until as f64 - at) * burst.speed;
            if work <= room {
                return at + work / burst.speed;
            }
            work -= room;
            at = burst.until as f64;
        }
        at + work
    }

    fn slice(&mut self, from: u64, rate: f64) -> Interval {
        let until = from + SLICE.as_nanos() as u64;
        let mut slice = self.blank.pop().unwrap_or_default();
        slice.samples.clear();
        (slice.stage, slice.spans, slice.due, slice.counts) = (Stage::Measuring, 1, 0, Counts::default());
        (slice.start, slice.end) = (Duration::from_nanos(from), Duration::from_nanos(until));
        self.next_due = self.next_due.max(from as f64);
        while rate > 0.0 && self.next_due < until as f64 {
            let begins = self.next_due.max(self.free);
            self.free = self.done(begins);
            self.under_way.push_back((self.next_due, self.free));
            slice.due += 1;
            self.next_due += 1e9 / rate * self.random.exponential();
        }
        while let Some((due, done)) = self.under_way.front().copied().filter(|(_, done)| *done <= until as f64) {
            self.under_way.pop_front();
            slice.samples.classes[0].record((done - due) as u64);
            slice.counts.traffic.responses += 1;
        }
        slice.backlog = self.under_way.len() as u64;
        slice
    }

    /// A run, sifted as it goes.
    fn run(&mut self, config: SieveConfig) -> (Figures, Sifted) {
        let mut sieve = Sieve::new(config, 1);
        let (mut rate, mut known, mut now) = (config.rate, Time::ZERO, OPENS);
        let mut held: VecDeque<Interval> = VecDeque::new();
        loop {
            held.push_back(self.slice(now, rate));
            let last = now;
            now += SLICE.as_nanos() as u64;
            for burst in self.bursts.iter().filter(|burst| self.seen && burst.from < now && burst.until > last) {
                let from = Time::from_nanos(burst.from.max(last));
                let until = Time::from_nanos(burst.until.min(now));
                sieve.on_disturbance(Disturbance { from, until, by: Cause::ServerWaited });
            }
            while held.front().is_some_and(|slice| Time::ZERO + slice.end <= known) {
                let Some(slice) = held.pop_front() else { break };
                sieve.on_slice(0, &slice);
                self.blank.push(slice);
            }
            known = Time::from_nanos(now);
            match sieve.poll_wish(known) {
                Wish::Go => {}
                Wish::Pause => rate = 0.0,
                Wish::Resume => rate = config.rate,
                Wish::Enough => return sieve.finish(Figures { silos: 1, ..Figures::default() }),
            }
        }
    }
}

fn objectives(text: &str) -> Vec<Objective> {
    Objective::parse_list(text).expect("objectives")
}

fn trial(world: &mut World, rate: f64, text: &str) -> Trial {
    let objectives = objectives(text);
    let config = SieveConfig::new(&objectives, rate, Duration::from_millis(300));
    let (figures, sifted) = world.run(config);
    let mut plan = Plan::new(([127, 0, 0, 1], 80).into(), Request::get("h", "/"));
    plan.arrival = Arrival::Open(Schedule::constant(rate));
    let report = Report::new(&plan, &figures, Outside::default());
    Trial::judged(&report, &objectives, &sifted, &Surroundings::default())
}

fn search(seed: u64, bursts: impl Fn(&mut Random) -> Vec<Burst>, seen: bool) -> Found {
    let mut random = Random::new(seed);
    let config = FindMaxConfig { start: 5_000.0, precision: 0.03, ..FindMaxConfig::default() };
    let mut search = FindMax::new(config);
    while let Some(rate) = search.propose() {
        let mut world = World::new(random.below(u32::MAX).into(), bursts(&mut random));
        world.seen = seen;
        search.record(trial(&mut world, rate, "p99<1ms"));
    }
    search.found()
}

fn quiet() -> f64 {
    search(1, |_| Vec::new(), true).rate.expect("a quiet machine has an answer")
}

/// Work and rest of so many milliseconds, from a random moment on.
fn bursts(random: &mut Random, work: u64, rest: u64, speed: f64) -> Vec<Burst> {
    let mut at = OPENS - u64::from(random.below(100)) * MS;
    let mut all = Vec::new();
    while at < OPENS + 10_000 * MS {
        all.push(Burst { from: at, until: at + work * MS, speed });
        at += (work + rest) * MS;
    }
    all
}

/// Moments of 3 to 20 ms in which there is no core, `share` of the time.
fn steals(random: &mut Random, share: f64) -> Vec<Burst> {
    let mut at = OPENS;
    let mut all = Vec::new();
    while at < OPENS + 10_000 * MS {
        let length = (3 + u64::from(random.below(18))) * MS;
        at += (length as f64 / share * random.exponential()) as u64;
        all.push(Burst { from: at, until: at + length, speed: 0.0 });
        at += length;
    }
    all
}

/// What disturbs a run, drawn anew for each.
type Kind = fn(&mut Random) -> Vec<Burst>;

#[test]
fn a_disturbed_machine_gives_the_quiet_ones_answer() {
    let quiet = quiet();
    assert!((0.85..1.0).contains(&(quiet / CAPACITY)), "{quiet}");
    let kinds: [(&str, Kind); 4] = [
        ("half a core in bursts", |random| bursts(random, 50, 50, 0.5)),
        ("all of it for moments", |random| bursts(random, 20, 80, 0.0)),
        ("2 % stolen", |random| steals(random, 0.02)),
        ("10 % stolen", |random| steals(random, 0.1)),
    ];
    for (name, kind) in kinds {
        let mut answers = 0;
        for seed in 0..3 {
            let found = search(seed, kind, true);
            answers += u32::from(found.rate.is_some());
            let rate = found.rate.or(found.at_least.filter(|least| *least > quiet)).unwrap_or(quiet);
            assert!((rate / quiet - 1.0).abs() <= 0.1, "{name}, seed {seed}: {rate} for {quiet}");
        }
        assert!(answers >= 2, "{name}: {answers} answers of 3");
    }
    // It is the sieve that keeps it right.
    let unseen = search(1, |random| bursts(random, 50, 50, 0.5), false);
    assert!(unseen.rate.is_none_or(|rate| rate < 0.9 * quiet), "{:?}", unseen.rate);
}

#[test]
fn a_server_with_too_much_to_do_is_not_excused() {
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let all = [bursts(&mut random, 50, 50, 0.5), steals(&mut random, 0.05), Vec::new()];
        for bursts in all {
            for over in [1.1, 2.0] {
                let trial = trial(&mut World::new(seed, bursts.clone()), over * CAPACITY, "p99<1ms");
                assert!(!trial.met && trial.spoilt.is_none(), "{over}, seed {seed}: {trial:?}");
            }
        }
    }
}

#[test]
fn a_server_that_hangs_has_missed() {
    let mut world = World::new(3, Vec::new());
    world.service = 1e15;
    let trial = trial(&mut world, 5_000.0, "p99<1ms");
    assert!(!trial.met && trial.spoilt.is_none(), "{trial:?}");
    assert_eq!(trial.achieved, 0.0);
}

#[test]
fn what_never_ceases_leaves_nothing_to_judge_by() {
    // All of the time, and with rests too short for an overload to show.
    for (work, rest) in [(10_000, 1), (15, 15)] {
        for rate in [5_000.0, 1.1 * CAPACITY] {
            let mut world = World::new(1, bursts(&mut Random::new(5), work, rest, 0.5));
            let trial = trial(&mut world, rate, "p99<1ms");
            assert!(matches!(trial.spoilt, Some(Spoilt::Disturbed { .. })), "{work} ms, {rate}: {trial:?}");
            let sifted = trial.sifted.expect("it was");
            assert_eq!(sifted.counted + sifted.left_out(), sifted.slices, "each slice is told: {sifted:?}");
        }
    }
    assert!(search(1, |random| bursts(random, 15, 15, 0.5), true).invalid);
}

#[test]
fn a_long_bound_needs_long_stretches() {
    // 110 % of the capacity exceeds 20 ms after 200 ms, not in rests of 50.
    let mut world = World::new(1, bursts(&mut Random::new(5), 50, 50, 0.5));
    let trial = trial(&mut world, 1.1 * CAPACITY, "p99<20ms");
    assert!(matches!(trial.spoilt, Some(Spoilt::Disturbed { .. })), "{trial:?}");
    let config = SieveConfig::new(&objectives("p99<20ms,mean<1ms"), 1.0, Duration::from_secs(1));
    assert!(config.stretch > Duration::from_millis(200) && config.bound_ns == Some(1e6), "{config:?}");
    assert_eq!(SieveConfig::new(&objectives("errors<1%"), 1.0, Duration::from_secs(1)).stretch, Duration::ZERO);
}

#[test]
fn unanswered_requests_count_with_the_age_that_they_have_at_least() {
    let mut sums = Sums::new(1);
    // 10,000 a second and a bound of 1 ms: ten may be younger.
    sums.overdue(10, 10_000.0, 1e6);
    assert!(sums.figures(Figures::default(), 1).latency.is_empty());
    sums.overdue(14, 10_000.0, 1e6);
    let latency = sums.figures(Figures::default(), 1).latency;
    assert_eq!((latency.len(), latency.min(), latency.max()), (4, 1_100_000, 1_400_000));
    sums.clear();
    sums.overdue(1_000_000, 10_000.0, 1e6);
    let latency = sums.figures(Figures::default(), 1).latency;
    assert_eq!(latency.len(), 999_990);
    assert!(latency.max() > 99_000_000_000);
}

#[test]
fn disturbances_that_are_told_late_are_counted() {
    let mut sieve = Sieve::new(SieveConfig::new(&objectives("p99<1ms"), 1e3, Duration::from_secs(1)), 1);
    let mut world = World::new(1, Vec::new());
    for n in 0..5 {
        sieve.on_slice(0, &world.slice(OPENS + n * 10 * MS, 1e3));
    }
    let (from, until) = (Time::from_nanos(OPENS + 30 * MS), Time::from_nanos(OPENS + 60 * MS));
    sieve.on_disturbance(Disturbance { from, until, by: Cause::Stolen });
    assert_eq!(sieve.poll_wish(until), Wish::Pause);
    for n in 0..1_000 {
        let at = Time::from_nanos(OPENS + (60 + n) * MS);
        sieve.on_disturbance(Disturbance { from: at, until: at, by: Cause::Stolen });
    }
    assert!(sieve.spans.len() <= KEPT, "what is kept is bounded");
    let (_, sifted) = sieve.finish(Figures::default());
    assert_eq!((sifted.counted, sifted.late_ns, sifted.enough), (5, 20 * MS, false));
    let text = Sifted { slices: 200, counted: 150, stolen: 20, recovering: 30, ..Sifted::default() }.to_string();
    assert_eq!(text, "50 of 200 slices left out: 10 % the hypervisor had a core, 15 % until the load was back");
}
