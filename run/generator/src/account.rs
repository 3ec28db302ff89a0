//! What a thread of the generator keeps of its run, whichever the data path.

use super::own::ThreadTime;
use core::time::Duration;
use load::{Busy, Cpu, Figures, Outside, Stage};
use silo::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::Time;

/// Connections are given this long to close after the last measurement.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Connections that may be closing beside those that are open, at least.
pub const CLOSING_ROOM: u32 = 4_096;

/// The marks of one thread: where its window began and ended.
#[derive(Debug)]
pub struct Account {
    signals: Arc<AtomicUsize>,
    opened: Option<Mark>,
    ended: Option<(Mark, Time)>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    usage: Usage,
    time: Option<ThreadTime>,
}

impl Mark {
    fn new(usage: &Usage) -> Self {
        // Without the kernel's account a figure is missing, and no more.
        Self { usage: *usage, time: ThreadTime::now().ok() }
    }
}

impl Account {
    /// An account of a run that `signals` above zero ends.
    pub fn new(signals: &Arc<AtomicUsize>) -> Self {
        Self { signals: Arc::clone(signals), opened: None, ended: None }
    }

    /// Takes note of how far the run is. Answers since when it is over, once
    /// it is: then connections are to be closed.
    pub fn look(&mut self, stage: Stage, usage: &Usage, now: Time) -> Option<Time> {
        if stage == Stage::Measuring && self.opened.is_none() {
            self.opened = Some(Mark::new(usage));
        }
        if stage != Stage::Ended && self.signals.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.ended.get_or_insert_with(|| (Mark::new(usage), now)).1)
    }

    /// What the thread's surroundings know of its window. A thread that
    /// `sleeps_in_kernel` is busy for as long as the kernel charged it, system
    /// calls and the waits that found something included; one that polls is
    /// charged for all of the time, and only its own account tells.
    pub fn side(&self, figures: Figures, sleeps_in_kernel: bool) -> Side {
        let marks = self.opened.zip(self.ended.map(|(mark, _)| mark));
        let time = marks.and_then(|(opened, ended)| Some(ended.time?.since(&opened.time?)));
        let charged = time.filter(|_| sleeps_in_kernel).map_or(Duration::ZERO, |time| time.user + time.system);
        let busy = marks.map(|(opened, ended)| {
            let window = ended.usage.since(&opened.usage);
            let (busy, total) = (Duration::from_nanos(window.busy_ns), Duration::from_nanos(window.total_ns()));
            Busy { busy: busy.max(charged).min(total), total }
        });
        Side { figures, busy, time }
    }
}

/// What one thread measured, and what it took.
#[derive(Debug, Default)]
pub struct Side {
    /// The run's figures.
    pub figures: Figures,
    /// How busy the thread was.
    pub busy: Option<Busy>,
    /// What the kernel charged it.
    pub time: Option<ThreadTime>,
}

/// All sides as one: figures add up, and the busiest thread speaks for all.
pub fn merge(sides: Vec<Side>) -> (Figures, Outside) {
    let mut figures = Figures::default();
    let mut outside = Outside::default();
    let share = |busy: &Busy| busy.busy.as_secs_f64() / busy.total.as_secs_f64().max(1e-9);
    for side in sides {
        figures.merge(&side.figures);
        let busier = side.busy.filter(|busy| outside.busy.is_none_or(|most| share(busy) > share(&most)));
        outside.busy = busier.or(outside.busy);
        let Some(time) = side.time else { continue };
        let cpu = outside.cpu.get_or_insert_with(Cpu::default);
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        cpu.user_ns += nanos(time.user);
        cpu.system_ns += nanos(time.system);
        cpu.run_delay_ns = cpu.run_delay_ns.max(time.waited.map_or(0, nanos));
        cpu.span_ns = cpu.span_ns.max(side.busy.map_or(0, |busy| nanos(busy.total)));
    }
    (figures, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_between_its_marks() {
        let signals = Arc::new(AtomicUsize::new(0));
        let mut account = Account::new(&signals);
        let usage = |busy_ns, asleep_ns| Usage { busy_ns, asleep_ns, ..Usage::default() };
        assert_eq!(account.look(Stage::WarmUp, &usage(5, 5), Time::from_nanos(10)), None);
        assert_eq!(account.look(Stage::Measuring, &usage(10, 10), Time::from_nanos(20)), None);
        assert_eq!(account.look(Stage::Measuring, &usage(20, 30), Time::from_nanos(30)), None);
        for at in [50, 60] {
            let over = account.look(Stage::Ended, &usage(at, at), Time::from_nanos(at));
            assert_eq!(over, Some(Time::from_nanos(50)), "the first time counts");
        }
        let side = account.side(Figures::default(), false);
        let nanos = Duration::from_nanos;
        assert_eq!(side.busy, Some(Busy { busy: nanos(40), total: nanos(80) }));
        assert!(side.time.is_some());
        let charged = account.side(Figures::default(), true).busy.expect("it has both marks");
        assert!(charged.busy >= nanos(40) && charged.busy <= charged.total, "{charged:?}");
    }

    #[test]
    fn a_signal_ends_a_run_and_the_busiest_thread_speaks_for_all() {
        let signals = Arc::new(AtomicUsize::new(1));
        let over = Account::new(&signals).look(Stage::Ramp, &Usage::default(), Time::from_nanos(7));
        assert_eq!(over, Some(Time::from_nanos(7)));
        let side = |busy, waited: u64| Side {
            busy: Some(Busy { busy: Duration::from_nanos(busy), total: Duration::from_nanos(100) }),
            time: Some(ThreadTime {
                user: Duration::from_nanos(1),
                system: Duration::from_nanos(2),
                waited: Some(Duration::from_nanos(waited)),
            }),
            ..Side::default()
        };
        let (_, outside) = merge(vec![side(10, 5), side(90, 3), Side::default()]);
        assert_eq!(outside.busy.map(|busy| busy.busy.as_nanos()), Some(90));
        assert_eq!(outside.cpu, Some(Cpu { user_ns: 2, system_ns: 4, run_delay_ns: 5, span_ns: 100 }));
    }
}
