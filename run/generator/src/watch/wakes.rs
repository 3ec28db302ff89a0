//! Cores that the hypervisor had: a thread on each core sleeps for a
//! millisecond at a time, and sees how late it is woken. A timer's interrupt
//! comes whatever else the core does, so that one which is late found no core;
//! the wait between the interrupt and the thread's turn, which other threads
//! cause, is the kernel's account of it, and is taken off.

use super::threads::own_wait;
use core::hint::black_box;
use core::time::Duration;
use cpu::Clock;
use cpu::pin::pin;
use std::collections::HashMap;
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use wire::Time;

/// How long a wake is slept for. 1,000 wakes a second take some 0.5 % of a
/// core; what the hypervisor takes for longer is met for certain.
const PERIOD: Duration = Duration::from_millis(1);

/// Of so many wakes, one does the fixed piece of work.
const WORKS: u32 = 4;

/// Its steps, of six sums that do not wait for each other: what shares the
/// core's units shows. Some 5 µs.
const STEPS: u64 = 5_000;

/// The threads that sleep.
#[derive(Debug)]
pub struct Sleepers {
    cores: Vec<u16>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    late: Receiver<Late>,
    /// What the fixed piece of work took, by core.
    worked: Receiver<(u16, Duration)>,
    paces: HashMap<u16, Vec<Duration>>,
    /// Since the run began, of each core.
    seen: HashMap<u16, Duration>,
    before: HashMap<u16, Duration>,
    began: Time,
}

/// A wake that was late.
#[derive(Clone, Copy, Debug)]
struct Late {
    core: u16,
    from: Time,
    until: Time,
    by: Duration,
}

impl Sleepers {
    /// One on each of these cores, for wakes that are late by `limit` or more.
    /// A core that cannot be had is not watched.
    pub fn start(cores: &[u16], limit: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ((sender, late), (works, worked)) = (channel(), channel());
        let start = |core: &u16| {
            let (core, over, tell) = (*core, Arc::clone(&over), (sender.clone(), works.clone()));
            thread::Builder::new().name("near-wakes".into()).spawn(move || sleep(core, limit, &over, &tell)).ok()
        };
        let threads = cores.iter().filter_map(start).collect();
        let mut wakes = Self {
            cores: cores.to_vec(),
            over,
            threads,
            late,
            worked,
            paces: HashMap::new(),
            seen: HashMap::new(),
            before: HashMap::new(),
            began: Clock.now(),
        };
        wakes.begin();
        wakes
    }

    /// A run begins.
    pub fn begin(&mut self) {
        self.late.try_iter().for_each(drop);
        self.worked.try_iter().for_each(drop);
        self.paces.clear();
        self.seen.clear();
        self.before = stolen();
        self.began = Clock.now();
    }

    /// The spans in which cores were away, since the last call.
    pub fn found(&mut self) -> Vec<(Time, Time)> {
        let late: Vec<Late> = self.late.try_iter().collect();
        for late in &late {
            *self.seen.entry(late.core).or_default() += late.by;
        }
        late.iter().map(|late| (late.from, late.until)).collect()
    }

    /// Takes note of how fast the cores were since the last call, if the load
    /// was on.
    pub fn note_pace(&mut self, loaded: bool) {
        for (core, took) in self.worked.try_iter().filter(|_| loaded) {
            self.paces.entry(core).or_default().push(took);
        }
    }

    /// What the fixed piece of work took on the slowest core, in nanoseconds: of
    /// each core's the median, for it may be interrupted.
    pub fn pace(&self) -> Option<f64> {
        let median = |took: &Vec<Duration>| {
            let mut order = took.clone();
            order.sort_unstable();
            order.get(order.len() / 2).map(Duration::as_nanos)
        };
        self.paces.values().filter_map(median).max().map(|nanos| nanos as f64)
    }

    /// What the kernel counts as stolen from these cores beyond what was
    /// found, as a share of one core's time.
    pub fn unseen(&self) -> f64 {
        let now = stolen();
        let tick = Duration::from_secs_f64(1.0 / rustix::param::clock_ticks_per_second().max(1) as f64);
        let of = |core: &u16| {
            let taken = now.get(core)?.saturating_sub(*self.before.get(core)?);
            let seen = self.seen.get(core).copied().unwrap_or_default();
            Some(taken.saturating_sub(seen).saturating_sub(tick))
        };
        let unseen = self.cores.iter().filter_map(of).max().unwrap_or_default();
        unseen.as_secs_f64() / Clock.now().since(self.began).as_secs_f64().max(1e-9)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It ends within a millisecond, and has nothing to say.
            let _ = thread.join();
        }
    }
}

fn sleep(core: u16, limit: Duration, over: &AtomicBool, (late, works): &(Sender<Late>, Sender<(u16, Duration)>)) {
    if pin(core).is_err() {
        return;
    }
    let Ok(account) = File::open("/proc/thread-self/schedstat") else { return };
    let mut waited = own_wait(&account);
    let mut last = Clock.now();
    let mut wakes = 0_u32;
    while !over.load(Ordering::Relaxed) {
        thread::sleep(PERIOD);
        let (now, wait) = (Clock.now(), own_wait(&account));
        let behind = now.since(last).saturating_sub(PERIOD);
        let queued = wait.zip(waited).map_or(Duration::ZERO, |(now, then)| now.saturating_sub(then));
        let by = behind.saturating_sub(queued);
        // Whoever listened is gone.
        if by >= limit && late.send(Late { core, from: last, until: now, by }).is_err() {
            return;
        }
        wakes = wakes.wrapping_add(1);
        // Whoever listened is gone, here too.
        if wakes.is_multiple_of(WORKS) && works.send((core, work())).is_err() {
            return;
        }
        (waited, last) = (own_wait(&account), Clock.now());
    }
}

/// The fixed piece of work, and what it took.
fn work() -> Duration {
    let begins = Clock.now();
    let mut sums = [1_u64, 2, 3, 4, 5, 6];
    for step in 0..STEPS {
        for (place, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_mul(3).wrapping_add(step ^ place as u64);
        }
        black_box(&mut sums);
    }
    Clock.now().since(begins)
}

/// What the hypervisor took from each core (proc_stat(5): the eighth figure).
fn stolen() -> HashMap<u16, Duration> {
    let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
    let line = |line: &str| {
        let core = line.strip_prefix("cpu")?.split_whitespace().next()?.parse().ok()?;
        let taken: f64 = line.split_whitespace().nth(8)?.parse().ok()?;
        Some((core, Duration::from_secs_f64(taken / ticks)))
    };
    fs::read_to_string("/proc/stat").unwrap_or_default().lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_watched_and_let_go() {
        let core = cpu::pin::allowed_cores().expect("Linux")[0];
        let mut wakes = Sleepers::start(&[core, u16::MAX], Duration::ZERO);
        let until = Clock.now() + Duration::from_secs(10);
        let mut found = Vec::new();
        while found.is_empty() {
            assert!(Clock.now() < until, "a wake is late by some nanoseconds");
            thread::sleep(PERIOD);
            found = wakes.found();
        }
        assert!(found.iter().all(|(from, until)| from < until));
        assert!(wakes.unseen() >= 0.0);
        while wakes.pace().is_none() {
            assert!(Clock.now() < until, "some wakes work");
            thread::sleep(PERIOD);
            wakes.note_pace(true);
        }
        assert!(wakes.pace().is_some_and(|nanos| nanos > 0.0));
        wakes.begin();
        assert_eq!(wakes.pace(), None);
    }
}
