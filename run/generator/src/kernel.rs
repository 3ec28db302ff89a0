//! Load over kernel sockets: pinned threads, each with its share of the plan.

use super::account::{Account, CLOSE_LIMIT, CLOSING_ROOM, Side};
use super::collect::Source;
use crate::plan::{LoadSockets, Place};
use core::time::Duration;
use cpu::Clock;
use host::Workers;
use host::machine::{raise_descriptors, seats};
use host::sched::{self, Scheduling};
use load::{Load, Plan};
use say::{Failure, eprintln};
use silo::{Next, Usage};
use sockets::fleet::{self, FleetError, Stop};
use sockets::{Attendant, Config, StreamOptions, Worker};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use wire::Time;

/// Threads on kernel sockets, ready to run plans.
pub struct Sockets {
    /// The core of each thread; `None` where it is not pinned.
    seats: Vec<Option<u16>>,
    config: Config,
    fifo: Option<u8>,
}

impl Sockets {
    /// As many threads as asked for, or as there are cores.
    ///
    /// # Errors
    /// If the kernel does not say which cores there are.
    pub fn new(asked: &LoadSockets, threads: Option<u32>) -> Result<Self, Failure> {
        let count = threads.or(asked.threads).map(|count| Workers::Count(u16::try_from(count).unwrap_or(u16::MAX)));
        let seats = seats(count.unwrap_or(Workers::PerCore), &asked.cores)?;
        let connect_to = match &asked.place {
            Place::Unix(path) => Some(path.clone()),
            Place::Address(_) | Place::Name(..) => None,
        };
        let (congestion, pacing_rate, user_timeout) = (asked.congestion.clone(), asked.pacing_rate, asked.user_timeout);
        let stream = StreamOptions { congestion, pacing_rate, user_timeout, ..StreamOptions::default() };
        let config = Config { engine: asked.engine, spin: asked.spin, stream, connect_to, ..Config::default() };
        if let Some(priority) = asked.fifo {
            eprintln!("warning: --sched: {}", Scheduling::read(Path::new("/")).allows(priority, &seats)?);
        }
        Ok(Self { seats, config, fifo: asked.fifo })
    }

    /// The same threads, connecting to where a plan says.
    pub fn to_addresses(&self) -> Self {
        Self { seats: self.seats.clone(), config: Config { connect_to: None, ..self.config.clone() }, fifo: self.fifo }
    }

    /// What each thread's sockets are.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The core of each thread.
    pub fn seats(&self) -> &[Option<u16>] {
        &self.seats
    }

    /// Gives the calling thread the priority that its like are to have.
    ///
    /// # Errors
    /// If it may not have it.
    pub fn be_scheduled(&self) -> Result<(), String> {
        self.fifo.map_or(Ok(()), sched::of_thread)
    }

    /// The threads that have a share of this plan.
    pub fn workers(&self, plan: &Plan) -> usize {
        let all = self.seats.len() as u32;
        (0..all).filter(|index| plan.share(*index, all).is_some()).count()
    }

    /// The cores that threads are pinned to.
    pub fn cores(&self) -> impl Iterator<Item = u16> {
        self.seats.iter().flatten().copied()
    }

    /// Runs a plan to its end, or until a signal.
    ///
    /// # Errors
    /// If a thread cannot start, or the kernel ends its waiting.
    pub fn run(
        &self,
        plan: &Plan,
        every: Duration,
        signals: &Arc<AtomicUsize>,
        sources: &Sender<Source>,
    ) -> Result<Vec<Side>, Failure> {
        let mut short = Vec::new();
        raise_descriptors(plan.connections as usize, self.workers(plan), &mut short);
        if let Some(why) = short.pop() {
            return Err(why.into());
        }
        let threads = self.seats.len() as u32;
        let stop = Stop::default();
        let body = |index: usize| {
            let Some(mine) = plan.share(index as u32, threads) else { return Ok(Side::default()) };
            self.be_scheduled()?;
            let mut config = self.config.clone();
            let closing = mine.connections.saturating_add(CLOSING_ROOM);
            config.max_connections = mine.connections.saturating_add(closing) as usize;
            let mut app = Load::new(mine).map_err(|why| why.to_string())?;
            let source = Source { live: app.live(), intervals: app.intervals(every) };
            // The collector outlives the threads, unless it failed.
            let _ = sources.send(source);
            let mut attendant = LoadAttendant { account: Account::new(signals), stop: &stop };
            let mut worker = Worker::new(config, Vec::new(), app).map_err(|why| why.to_string())?;
            worker.run(&mut attendant).map_err(|why| why.to_string())?;
            Ok(attendant.account.side(worker.app.into_figures(Clock.now()), self.config.spin.is_zero()))
        };
        fleet::run(&self.seats, &stop, body).map_err(|why: FleetError<String>| match why {
            FleetError::Worker(_, why) => Failure::from(why),
            other => Failure::from(other.to_string()),
        })
    }
}

struct LoadAttendant<'a> {
    account: Account,
    stop: &'a Stop,
}

impl Attendant<Load> for LoadAttendant<'_> {
    fn attend(&mut self, worker: &mut Worker<Load>, now: Time, usage: &Usage) -> Next {
        let over = self.account.look(worker.app.stage(), usage, now);
        let closed =
            over.is_some_and(|since| worker.drain() && worker.connections() == 0 || now.since(since) >= CLOSE_LIMIT);
        if closed || self.stop.is_set() { Next::Stop } else { Next::Go }
    }
}
