//! What is asked of a process that serves: by signals, or by the parent that
//! signals go to.

use super::orders::Orders;
use super::ward;
use crate::plan::SignalRules;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often each was asked for.
#[derive(Debug)]
pub struct Asked {
    /// To stop: once to drain, twice to end.
    pub stops: Arc<AtomicUsize>,
    /// To start a successor.
    pub restarts: Arc<AtomicUsize>,
    /// To read settings and content again.
    pub reloads: Arc<AtomicUsize>,
    /// To open the log again: workers look at it.
    pub reopens: Arc<AtomicUsize>,
}

impl Asked {
    /// Takes the signals from their defaults, which would end the process. With
    /// a parent only those that stop count: it is told of the others, and opens
    /// what they need.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn new(orders: &Orders, rules: SignalRules) -> std::io::Result<Self> {
        let heard = |signal: i32| {
            let counted = count(&[(signal, 1)], orders)?;
            Ok::<_, std::io::Error>(if ward::here().is_some() { Arc::default() } else { counted })
        };
        Ok(Self {
            stops: count(rules.stops(), orders)?,
            restarts: heard(SIGUSR2)?,
            reloads: heard(SIGHUP)?,
            reopens: heard(SIGUSR1)?,
        })
    }

    /// It was asked to stop so often, by whichever way: one that comes by two
    /// ways counts once.
    pub fn stop(&self, times: usize) {
        self.stops.fetch_max(times, Ordering::Relaxed);
    }

    /// The log is to be opened again.
    pub fn reopen(&self) {
        self.reopens.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was to stop.
    pub fn stops(&self) -> usize {
        self.stops.load(Ordering::Relaxed)
    }
}

/// Counts signals, and has each ring.
fn count(signals: &[(i32, usize)], orders: &Orders) -> std::io::Result<Arc<AtomicUsize>> {
    let count = host::count_signals_as(signals)?;
    // Handlers run in the order of their registration: it is counted when this
    // wakes.
    let numbers: Vec<i32> = signals.iter().map(|(signal, _)| *signal).collect();
    orders.bell().on(&numbers)?;
    Ok(count)
}
