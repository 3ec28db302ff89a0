//! `--bulk`: a link measured by streams without end.
//!
//! Each thread or silo looks at its streams at the ends of intervals, which all
//! count from their own first measured moment; the collector adds those of one
//! number up and prints a line for each.

mod info;
mod links;

use super::kernel::Sockets;
use super::own::ThreadTime;
use crate::plan::Form;
use core::time::Duration;
use environment::{Fingerprint, ResultOrigin};
use load::{Bulk, BulkInterval, BulkPlan, BulkReport, BulkSetup, BulkStage, BulkWay, PortUse, StreamState, Way};
use report::{StreamsVerdict, bulk_heading, bulk_line, bulk_text, bulk_verdict, render_bulk_json};
use say::Failure;
use silo::{Next, Usage};
use sockets::fleet::{self, FleetError, Stop};
use sockets::{Attendant, Worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use wire::Time;

pub use links::over_links;

/// How long streams are given to end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// What one thread or silo saw of an interval.
#[derive(Debug)]
pub struct Piece {
    number: u64,
    whole: BulkInterval,
}

/// A thread's or silo's streams at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    up: BulkWay,
    down: BulkWay,
    streams: u32,
}

/// What is known of one stream's connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transport {
    /// Bytes that the peer acknowledged.
    pub acknowledged: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The smoothed round-trip time.
    pub rtt_us: u64,
    /// Segments that came out of order.
    pub out_of_order: u64,
}

impl Look {
    fn add(&mut self, stream: &StreamState, transport: &Transport) {
        self.streams += 1;
        let way = if stream.way == Way::Up { &mut self.up } else { &mut self.down };
        way.bytes += if stream.way == Way::Up { transport.acknowledged } else { stream.received };
        way.answers += stream.answers;
        way.retransmits += transport.retransmits;
        way.out_of_order += transport.out_of_order;
        way.cwnd += transport.cwnd;
        way.rtt_us += transport.rtt_us;
        way.streams += 1;
    }
}

/// Cuts the intervals of one thread or silo.
#[derive(Debug)]
pub struct Cutter {
    every: Duration,
    signals: Arc<AtomicUsize>,
    sender: Sender<Piece>,
    first: Option<(Time, Look)>,
    last: (Time, Look),
    number: u64,
    time: Option<ThreadTime>,
    spent: Option<ThreadTime>,
    ended: Option<Time>,
}

impl Cutter {
    fn new(every: Duration, signals: &Arc<AtomicUsize>, sender: Sender<Piece>) -> Self {
        Self {
            every,
            signals: Arc::clone(signals),
            sender,
            first: None,
            last: (Time::ZERO, Look::default()),
            number: 0,
            time: None,
            spent: None,
            ended: None,
        }
    }

    /// When the next interval ends.
    fn due(&self) -> Time {
        self.first.map_or(Time::MAX, |(began, _)| began + self.every * (self.number as u32 + 1))
    }

    /// Takes note of how far the streams are; `look` looks at them. Whether all is over.
    fn attend(&mut self, bulk: &mut Bulk, now: Time, look: impl FnOnce(&Bulk) -> Look) -> bool {
        if self.signals.load(Ordering::Relaxed) > 0 {
            bulk.stop(now);
        }
        if bulk.began.is_none() || self.ended.is_some() {
            self.ended = self.ended.or((bulk.stage() == BulkStage::Over).then_some(now));
            return self.ended.is_some();
        }
        let over = bulk.stage() == BulkStage::Over;
        if self.first.is_none() {
            let first = (now, look(bulk));
            (self.first, self.last, self.time) = (Some(first), first, ThreadTime::now().ok());
            return false;
        }
        if over || now >= self.due() {
            let seen = look(bulk);
            self.cut(now, seen);
        }
        if over {
            self.spent = self.time.and_then(|time| Some(ThreadTime::now().ok()?.since(&time)));
            self.ended = Some(now);
        }
        over
    }

    fn cut(&mut self, now: Time, seen: Look) {
        let (from, before) = self.last;
        let start = self.first.map_or(now, |(began, _)| began);
        let whole = BulkInterval {
            start: from.since(start),
            end: now.since(start),
            up: seen.up.since(&before.up),
            down: seen.down.since(&before.down),
        };
        // The collector outlives this, unless it failed.
        let _ = self.sender.send(Piece { number: self.number, whole });
        self.number += 1;
        self.last = (now, seen);
    }

    fn side(&self, bulk: &Bulk) -> BulkSide {
        let whole = self.first.zip(self.ended).map(|((began, first), _)| BulkInterval {
            start: Duration::ZERO,
            end: self.last.0.since(began),
            up: self.last.1.up.since(&first.up),
            down: self.last.1.down.since(&first.down),
        });
        BulkSide { whole, spent: self.spent, failure: bulk.failure().map(str::to_owned) }
    }
}

/// What one thread or silo measured.
#[derive(Clone, Debug, Default)]
pub struct BulkSide {
    whole: Option<BulkInterval>,
    spent: Option<ThreadTime>,
    failure: Option<String>,
}

/// Streams over kernel sockets.
///
/// # Errors
/// If a thread cannot start, or the kernel ends its waiting.
pub fn over_sockets(
    sockets: &Sockets,
    plan: &BulkPlan,
    every: Duration,
    signals: &Arc<AtomicUsize>,
    sender: &Sender<Piece>,
) -> Result<Vec<BulkSide>, Failure> {
    let (seats, stop) = (sockets.seats(), Stop::default());
    let body = |index: usize| {
        let Some(mine) = plan.share(index as u32, seats.len() as u32) else { return Ok(BulkSide::default()) };
        sockets.be_scheduled()?;
        let mut attendant = OnSockets { cutter: Cutter::new(every, signals, sender.clone()), stop: &stop };
        let app = Bulk::new(mine);
        let mut worker = Worker::new(sockets.config().clone(), Vec::new(), app).map_err(|why| why.to_string())?;
        worker.run(&mut attendant).map_err(|why| why.to_string())?;
        Ok(attendant.cutter.side(&worker.app))
    };
    fleet::run(seats, &stop, body).map_err(|why: FleetError<String>| match why {
        FleetError::Worker(_, why) => Failure::from(why),
        other => Failure::from(other.to_string()),
    })
}

struct OnSockets<'a> {
    cutter: Cutter,
    stop: &'a Stop,
}

impl Attendant<Bulk> for OnSockets<'_> {
    fn attend(&mut self, worker: &mut Worker<Bulk>, now: Time, _: &Usage) -> Next {
        let mut transports: Vec<Transport> = Vec::new();
        let wanted = worker.app.began.is_some();
        if wanted && (now >= self.cutter.due() || self.cutter.first.is_none() || worker.app.stage() == BulkStage::Over)
        {
            let of = |stream: &StreamState| worker.stream(stream.id).and_then(info::of).unwrap_or_default();
            transports = worker.app.streams().map(of).collect();
        }
        let look = |bulk: &Bulk| {
            let mut look = Look::default();
            bulk.streams().zip(&transports).for_each(|(stream, transport)| look.add(stream, transport));
            look
        };
        let over = self.cutter.attend(&mut worker.app, now, look);
        let ended = self
            .cutter
            .ended
            .is_some_and(|since| worker.drain() && worker.connections() == 0 || now.since(since) >= END_LIMIT);
        if over && ended || self.stop.is_set() { Next::Stop } else { Next::Go }
    }

    fn due(&self, _: &Worker<Bulk>, now: Time, _: &Usage) -> Time {
        self.cutter.due().min(now + Duration::from_millis(100))
    }
}

/// What is to be measured, and told.
#[derive(Debug)]
pub struct Told<'a> {
    /// The streams, all of them.
    pub plan: &'a BulkPlan,
    /// Over what.
    pub path: String,
    /// The form.
    pub form: Form,
    /// Where it goes.
    pub put: Put,
}

/// What streams without end came to.
#[derive(Debug)]
pub struct BulkMeasured {
    /// What it is worth.
    pub verdict: StreamsVerdict,
    /// As it is kept.
    pub json: String,
}

/// Writes to whoever reads.
pub type Put = fn(&str) -> Result<(), Failure>;

/// Runs the streams by `work`, prints a line for each interval and what it came to.
///
/// # Errors
/// What the user is to know.
pub fn measure(
    told: &Told<'_>,
    workers: usize,
    environment: Fingerprint,
    work: impl FnOnce(Sender<Piece>) -> Result<Vec<BulkSide>, Failure> + Send,
    carried: impl FnOnce() -> Vec<PortUse>,
) -> Result<BulkMeasured, Failure> {
    let (lines, put) = (told.form != Form::Json, told.put);
    if lines {
        (told.put)(&bulk_heading(&setup(told)))?;
    }
    let (sender, pieces) = channel();
    let (sides, intervals) = thread::scope(|scope| {
        let collector = thread::Builder::new().name("near-collect".into());
        let collector = collector.spawn_scoped(scope, move || collect(&pieces, workers, lines.then_some(put)))?;
        let sides = work(sender);
        let intervals = collector.join().map_err(|_| "the collector of intervals panicked")?;
        Ok::<_, Failure>((sides?, intervals?))
    })?;
    if let Some(why) = sides.iter().find_map(|side| side.failure.clone()) {
        return Err(why.into());
    }
    let mut whole = BulkInterval::default();
    sides.iter().filter_map(|side| side.whole.as_ref()).for_each(|side| whole.merge(side));
    let spent = sides.iter().filter_map(|side| side.spent);
    let (user, system) =
        spent.fold((Duration::ZERO, Duration::ZERO), |sum, time| (sum.0 + time.user, sum.1 + time.system));
    let report = BulkReport::new(setup(told), whole, intervals, (user, system), carried());
    let verdict = bulk_verdict(&report, told.plan.duration);
    let json = render_bulk_json(&report, &verdict, &environment, &ResultOrigin::now());
    put(&if lines { bulk_text(&report) } else { json.clone() })?;
    Ok(BulkMeasured { verdict, json })
}

fn setup(told: &Told<'_>) -> BulkSetup {
    let plan = told.plan;
    BulkSetup {
        host: plan.host.clone(),
        path: plan.path.clone(),
        target: plan.target.to_string(),
        way: told.path.clone(),
        up_streams: plan.up,
        down_streams: plan.down,
    }
}

/// Adds up the pieces of each interval, and prints it when all are there.
fn collect(pieces: &Receiver<Piece>, workers: usize, put: Option<Put>) -> Result<Vec<BulkInterval>, String> {
    let mut waiting: BTreeMap<u64, (usize, BulkInterval)> = BTreeMap::new();
    let mut done = Vec::new();
    let mut finish = |whole: BulkInterval| {
        if let Some(put) = put {
            put(&bulk_line(&whole)).map_err(|why| why.to_string())?;
        }
        done.push(whole);
        Ok::<_, String>(())
    };
    while let Ok(piece) = pieces.recv() {
        let (count, whole) = waiting.entry(piece.number).or_default();
        *count += 1;
        whole.merge(&piece.whole);
        while let Some(first) = waiting.first_entry().filter(|first| first.get().0 >= workers) {
            finish(first.remove().1)?;
        }
    }
    waiting.into_values().try_for_each(|(_, whole)| finish(whole))?;
    Ok(done)
}
