//! `--stream`: streams that are to have a rate, played or held against it.
//!
//! A thread beside those that carry them prints a line for each interval, and looks ten times a second
//! whether the hypervisor took a core: such seconds do not count.

mod links;

pub use links::over_links;

use super::account::{CLOSE_LIMIT, CLOSING_ROOM};
use super::kernel::Sockets;
use super::noise::stolen;
use super::own::ThreadTime;
use crate::plan::Form;
use core::time::Duration;
use cpu::Clock;
use environment::{Fingerprint, ResultOrigin};
use host::machine::raise_descriptors;
use load::{
    Judged, Objective, PortUse, Stage, Streaming, StreamingFigures, StreamingLive, StreamingPlan, StreamingProgress,
    StreamingReport, StreamingSetup,
};
use report::{
    StreamsVerdict, render_streaming_json, streaming_heading, streaming_line, streaming_text, streaming_verdict,
};
use say::Failure;
use silo::{Next, Usage};
use sockets::fleet::{self, FleetError, Stop};
use sockets::{Attendant, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use wire::Time;

/// How often the machine is looked at, and progress.
const LOOK: Duration = Duration::from_millis(100);

/// What one thread or silo measured, and what it took: its time ÷ that of its window, in user mode and in the kernel.
#[derive(Debug, Default)]
pub struct StreamingSide {
    figures: StreamingFigures,
    cpu: (f64, f64),
}

/// Marks where one thread's or silo's window began and ended.
#[derive(Debug)]
struct Marks {
    signals: Arc<AtomicUsize>,
    began: Option<(Time, Option<ThreadTime>)>,
    ended: Option<Time>,
    cpu: (f64, f64),
}

impl Marks {
    fn new(signals: &Arc<AtomicUsize>) -> Self {
        Self { signals: Arc::clone(signals), began: None, ended: None, cpu: (0.0, 0.0) }
    }

    /// Takes note of how far the streams are. Since when it is over, once it is.
    fn look(&mut self, app: &mut Streaming, now: Time) -> Option<Time> {
        if self.signals.load(Ordering::Relaxed) > 0 {
            app.stop(now);
        }
        let stage = app.stage();
        if stage == Stage::Measuring && self.began.is_none() {
            self.began = Some((now, ThreadTime::now().ok()));
        }
        if stage == Stage::Ended && self.ended.is_none() {
            self.ended = Some(now);
            if let Some((began, Some(time))) = self.began
                && let Ok(spent) = ThreadTime::now().map(|after| after.since(&time))
            {
                let span = now.since(began).as_secs_f64().max(1e-9);
                self.cpu = (spent.user.as_secs_f64() / span, spent.system.as_secs_f64() / span);
            }
        }
        self.ended
    }

    fn side(&self, app: Streaming) -> StreamingSide {
        StreamingSide { figures: app.into_figures(Clock.now()), cpu: self.cpu }
    }
}

/// Streams over kernel sockets.
///
/// # Errors
/// If a thread cannot start, or the kernel ends its waiting.
pub fn over_sockets(
    sockets: &Sockets,
    plan: &StreamingPlan,
    signals: &Arc<AtomicUsize>,
    sender: &Sender<StreamingLive>,
) -> Result<Vec<StreamingSide>, Failure> {
    let (seats, stop) = (sockets.seats(), Stop::default());
    let mut short = Vec::new();
    raise_descriptors(plan.load.connections as usize, sockets.workers(&plan.load), &mut short);
    if let Some(why) = short.pop() {
        return Err(why.into());
    }
    let body = |index: usize| {
        let Some(mine) = plan.share(index as u32, seats.len() as u32) else { return Ok(StreamingSide::default()) };
        sockets.be_scheduled()?;
        let mut config = sockets.config().clone();
        config.max_connections = most_connections(&mine) as usize;
        let app = Streaming::new(mine).map_err(|why| why.to_string())?;
        // The collector outlives this, unless it failed.
        let _ = sender.send(app.live());
        let mut attendant = OnSockets { marks: Marks::new(signals), stop: &stop };
        let mut worker = Worker::new(config, Vec::new(), app).map_err(|why| why.to_string())?;
        worker.run(&mut attendant).map_err(|why| why.to_string())?;
        Ok(attendant.marks.side(worker.app))
    };
    fleet::run(seats, &stop, body).map_err(|why: FleetError<String>| match why {
        FleetError::Worker(_, why) => Failure::from(why),
        other => Failure::from(other.to_string()),
    })
}

/// Beside the streams' connections there are those that are closing.
fn most_connections(plan: &StreamingPlan) -> u32 {
    let streams = plan.load.connections;
    streams.saturating_add(streams).saturating_add(CLOSING_ROOM)
}

struct OnSockets<'a> {
    marks: Marks,
    stop: &'a Stop,
}

impl Attendant<Streaming> for OnSockets<'_> {
    fn attend(&mut self, worker: &mut Worker<Streaming>, now: Time, _: &Usage) -> Next {
        let over = self.marks.look(&mut worker.app, now);
        let closed =
            over.is_some_and(|since| worker.drain() && worker.connections() == 0 || now.since(since) >= CLOSE_LIMIT);
        if closed || self.stop.is_set() { Next::Stop } else { Next::Go }
    }
}

/// What is to be measured, and told.
#[derive(Debug)]
pub struct Streamed<'a> {
    /// The streams, all of them.
    pub plan: &'a StreamingPlan,
    /// Over what.
    pub way: String,
    /// What is to be met.
    pub expect: &'a [Objective],
    /// The form.
    pub form: Form,
    /// The length of an interval.
    pub every: Duration,
    /// Whether each has a line.
    pub lines: bool,
    /// Where it goes.
    pub put: fn(&str) -> Result<(), Failure>,
}

/// What streams came to.
#[derive(Debug)]
pub struct StreamingMeasured {
    /// The figures.
    pub report: StreamingReport,
    /// How the objectives were met.
    pub judged: Vec<Judged>,
    /// What they are worth.
    pub verdict: StreamsVerdict,
    /// As it is kept.
    pub json: String,
}

/// Runs the streams by `work`, prints a line for each interval and what it came to.
///
/// # Errors
/// What the user is to know.
pub fn measure(
    told: &Streamed<'_>,
    environment: &Fingerprint,
    work: impl FnOnce(Sender<StreamingLive>) -> Result<Vec<StreamingSide>, Failure> + Send,
    carried: impl FnOnce() -> Vec<PortUse>,
) -> Result<StreamingMeasured, Failure> {
    let setup = StreamingSetup::new(told.plan, told.way.clone());
    let text = told.form != Form::Json;
    let lines = text && told.lines;
    if text {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let spans = (nanos(told.plan.load.warm_up), nanos(told.plan.duration()));
        (told.put)(&streaming_heading(&setup, spans))?;
    }
    let (sender, lives) = channel();
    let sides = thread::scope(|scope| {
        let collector = thread::Builder::new().name("near-collect".into());
        let setup = &setup;
        let collector = collector.spawn_scoped(scope, move || collect(&lives, setup, told, lines))?;
        let sides = work(sender);
        collector.join().map_err(|_| "the collector of intervals panicked")??;
        sides
    })?;
    let (mut figures, mut cpu) = (StreamingFigures::default(), (0.0, 0.0));
    for side in &sides {
        figures.merge(&side.figures);
        cpu = (cpu.0 + side.cpu.0, cpu.1 + side.cpu.1);
    }
    let report = StreamingReport::new(setup, figures, cpu, carried());
    let verdict = streaming_verdict(&report);
    let counts = verdict.word != "INVALID";
    let judged = told.expect.iter().map(|objective| Judged { counts, ..objective.judge_streaming(&report) });
    let judged: Vec<Judged> = judged.collect();
    let json = render_streaming_json(&report, &judged, environment, &ResultOrigin::now());
    (told.put)(&if text { streaming_text(&report, &judged) } else { json.clone() })?;
    Ok(StreamingMeasured { verdict, report, judged, json })
}

/// Looks after the streams of all threads or silos until they are gone.
fn collect(
    lives: &Receiver<StreamingLive>,
    setup: &StreamingSetup,
    told: &Streamed<'_>,
    lines: bool,
) -> Result<(), String> {
    let mut all: Vec<StreamingLive> = Vec::new();
    let (mut began, mut last): (Option<Time>, _) = (None, (Time::ZERO, StreamingProgress::default()));
    loop {
        match lives.recv_timeout(LOOK) {
            Ok(live) => {
                all.push(live);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let nanos = u64::try_from(stolen().as_nanos()).unwrap_or(u64::MAX);
        all.iter().for_each(|live| live.set_stolen(nanos));
        let now = Clock.now();
        let progress = all.iter().map(StreamingLive::progress).fold(StreamingProgress::default(), added);
        if progress.ended || !progress.measuring {
            continue;
        }
        let began = *began.get_or_insert_with(|| {
            last = (now, progress);
            now
        });
        let span = now.since(last.0);
        if lines && span >= told.every {
            let times = (now.since(began).as_secs_f64(), span.as_secs_f64());
            let line = streaming_line(setup, &progress, &last.1, times);
            (told.put)(&line).map_err(|why| why.to_string())?;
            last = (now, progress);
        }
    }
}

/// Several threads or silos at a moment: whether one of them measures, and whether one has ended.
fn added(one: StreamingProgress, other: StreamingProgress) -> StreamingProgress {
    StreamingProgress {
        measuring: one.measuring || other.measuring,
        ended: one.ended || other.ended,
        bytes: one.bytes + other.bytes,
        under_way: one.under_way + other.under_way,
        dried: one.dried + other.dried,
        errors: one.errors + other.errors,
    }
}
