//! What running processes do from one look to the next, by silo or worker, and by
//! host and location: as text, or a line of JSON each.

use super::StatusPlan;
use super::change::{PageLook, ProcessChange};
use core::time::Duration;
use cpu::Clock;
use say::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals are looked for this often.
const PULSE: Duration = Duration::from_millis(200);

/// The last look at each process, by its number.
#[derive(Debug)]
pub struct Looks<'a> {
    plan: &'a StatusPlan,
    before: BTreeMap<u32, PageLook>,
}

impl<'a> Looks<'a> {
    /// Looks for the first time.
    ///
    /// # Errors
    /// If the page named is none.
    pub fn new(plan: &'a StatusPlan) -> Result<Self, Failure> {
        Ok(Self { plan, before: look(plan)? })
    }

    /// Looks again: what each process did that was there before and is there now.
    ///
    /// # Errors
    /// If the page named is none any more.
    pub fn again(&mut self) -> Result<Vec<ProcessChange>, Failure> {
        let now = look(self.plan)?;
        let changes =
            now.iter().filter_map(|(pid, look)| ProcessChange::between(self.before.get(pid)?, look)).collect();
        self.before = now;
        Ok(changes)
    }
}

/// What of each process was at its limit first, by its number.
#[derive(Debug, Default)]
pub struct Firsts(BTreeMap<u32, String>);

impl Firsts {
    /// Notes what is at its limit where nothing was before.
    pub fn note(&mut self, changes: &[ProcessChange]) {
        for change in changes {
            if let Some(limit) = change.limits.first() {
                self.0.entry(change.pid).or_insert_with(|| limit.clone());
            }
        }
    }

    /// Of this process.
    #[must_use]
    pub fn of(&self, pid: u32) -> Option<&str> {
        self.0.get(&pid).map(String::as_str)
    }
}

/// What SIGINT and SIGTERM set from now on.
///
/// # Errors
/// If they cannot be caught.
pub fn stopped_by_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Tells changes until somebody ends it, or so many as were asked for.
pub(super) fn follow(plan: &StatusPlan) -> Result<(), Failure> {
    let stop = stopped_by_signals()?;
    let (mut looks, mut firsts) = (Looks::new(plan)?, Firsts::default());
    let (mut count, mut next) = (0, Clock.now() + plan.interval);
    while plan.count.is_none_or(|most| count < most) {
        while !stop.load(Ordering::Relaxed) && Clock.now() < next {
            std::thread::sleep(next.since(Clock.now()).min(PULSE));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        next = Clock.now().max(next + plan.interval);
        let changes = looks.again()?;
        firsts.note(&changes);
        count += 1;
        write(&changes, &firsts, plan.ndjson)?;
    }
    Ok(())
}

fn look(plan: &StatusPlan) -> Result<BTreeMap<u32, PageLook>, Failure> {
    let readers = plan.whose.readers()?;
    // One may go away meanwhile.
    Ok(readers.iter().filter_map(|reader| Some((reader.pid(), PageLook::take(reader)?))).collect())
}

fn write(changes: &[ProcessChange], firsts: &Firsts, ndjson: bool) -> Result<(), Failure> {
    let mut out = stdout().lock();
    for change in changes {
        let first = firsts.of(change.pid);
        if ndjson {
            writeln!(out, "{}", change.json(first))?;
        } else {
            write!(out, "{}", change.text(first))?;
        }
    }
    // Whoever reads a pipe is to have it now.
    Ok(out.flush()?)
}
