//! Flows that share a path, in virtual time: a bottleneck with its queue, delays,
//! loss and reordering, black holes, outages, routes that change, and others who
//! compete.
//!
//! Each flow has a host of its own before the path; all end at one host behind
//! it. Their senders always have something to send. What is told is what the
//! receiver got, in each tenth of a second, and what the path did.

mod flow;
mod table;

pub use table::table;

use crate::fabric::{Fabric, Host, Node};
use crate::rng::Rng;
use crate::scenario::{PORT, addresses, cut, host_config};
use core::net::SocketAddr;
use core::time::Duration;
use flow::{Record, Sink, Source};
use link::{FaultCounters, FaultPlan, Impairment, Rate};
use std::cell::RefCell;
use std::rc::Rc;
use wire::Time;

/// What is received is counted for each of these.
pub const TICK: Duration = Duration::from_millis(100);

/// Packets of hosts.
const MTU: u16 = 1_500;

/// Frames that wait at a host's own link.
const RING: usize = 4_096;

/// How much of the bottleneck's queue there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// So many bytes of frames.
    Bytes(u64),
    /// So many frames.
    Frames(u32),
}

/// A path, and the flows that share it.
#[derive(Clone, Debug)]
pub struct Internet {
    /// The bottleneck on the way there, in bits per second of Ethernet frames;
    /// back there is none. None: there is none there either.
    pub rate: Option<u64>,
    /// Its queue, dropped at the tail.
    pub queue: Queue,
    /// The round trip, without queues.
    pub rtt: Duration,
    /// What else happens to frames there: rate, queue and delay of it are
    /// those above.
    pub there: Impairment,
    /// The same of the way back.
    pub back: Impairment,
    /// The flows.
    pub flows: Vec<Flow>,
    /// What happens to the path, by time.
    pub changes: Vec<Change>,
    /// Settings of the receiver.
    pub receiver: tcp::Config,
    /// It ends when all flows have, or then.
    pub until: Duration,
    /// What random choices follow from.
    pub seed: u64,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// When it begins.
    pub at: Duration,
    /// What it carries; [`u64::MAX`] does not end.
    pub bytes: u64,
    /// What its round trip is longer than the path's.
    pub farther: Duration,
    /// Settings of its sender.
    pub tcp: tcp::Config,
}

impl Default for Flow {
    fn default() -> Self {
        Self { at: Duration::ZERO, bytes: u64::MAX, farther: Duration::ZERO, tcp: tcp::Config::default() }
    }
}

/// Something that happens to the path.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// What.
    pub what: PathChange,
}

/// What happens to a path.
#[derive(Clone, Copy, Debug)]
pub enum PathChange {
    /// Nothing passes, in either direction.
    Outage,
    /// Packets of more bytes vanish there.
    BlackHole(u16),
    /// All is as it was at the start.
    Mended,
    /// Frames go another way from now on, with this round trip.
    Route(Duration),
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Each flow.
    pub flows: Vec<FlowRan>,
    /// What the path did to frames there and back.
    pub path: [FaultCounters; 2],
    /// How long it took.
    pub took: Duration,
}

/// How a flow went.
#[derive(Clone, Debug)]
pub struct FlowRan {
    /// Bytes that the receiver got in each [`TICK`] since the start of all.
    pub received: Vec<u64>,
    /// When it got the last, if the flow ended.
    pub ended: Option<Duration>,
    /// What its sender counted.
    pub counters: tcp::Counters,
    /// Payload of its full segments in each [`TICK`], at the sender.
    pub mss: Vec<u16>,
}

impl Default for Internet {
    /// One flow over 20 Mbit/s, 40 ms, and a queue of one bandwidth-delay product.
    fn default() -> Self {
        Self {
            rate: Some(20_000_000),
            queue: Queue::Bytes(100_000),
            rtt: Duration::from_millis(40),
            there: Impairment::default(),
            back: Impairment::default(),
            flows: vec![Flow::default()],
            changes: Vec::new(),
            receiver: tcp::Config::default(),
            until: Duration::from_secs(10),
            seed: 1,
        }
    }
}

impl Internet {
    /// The impairments of both directions, with this round trip.
    fn impairments(&self, rtt: Duration) -> (Impairment, Impairment) {
        let (bytes, frames) = match self.queue {
            Queue::Bytes(bytes) => (bytes, None),
            Queue::Frames(frames) => (u64::MAX, Some(frames)),
        };
        let rate = self.rate.map(|bits| Rate { bytes_per_second: bits / 8, queue_bytes: bytes });
        let there = Impairment { rate, queue_frames: frames, delay: rtt / 2, ..self.there };
        (there, Impairment { delay: rtt / 2, ..self.back })
    }

    /// Runs it.
    ///
    /// # Panics
    /// If a flow breaks off.
    #[must_use]
    pub fn run(&self) -> Ran {
        let (there, back) = self.impairments(self.rtt);
        let mut rng = Rng::new(self.seed);
        let mut fabric = Fabric::with_path(MTU, there, back, rng.next());
        let record = Rc::new(RefCell::new(Record::new(self.flows.len())));
        let mut config = host_config(self.flows.len(), MTU);
        config.tcp = self.receiver.clone();
        let sink = Sink::new(Rc::clone(&record));
        let mut receiver = fabric.host_beyond(config, FaultPlan::default(), RING, rng.next(), sink);
        let to = SocketAddr::new(addresses(self.flows.len())[0], PORT);
        let mut senders: Vec<_> = self
            .flows
            .iter()
            .enumerate()
            .map(|(index, flow)| {
                let mut config = host_config(index, MTU);
                config.tcp = flow.tcp.clone();
                let farther = Impairment { delay: flow.farther / 2, ..Impairment::default() };
                let source = Source::new(to, Time::ZERO + flow.at, flow.bytes);
                fabric.host(config, FaultPlan::both(farther, rng.next()), RING, rng.next(), source)
            })
            .collect();
        let mut mss = vec![Vec::new(); senders.len()];
        let mut changes = self.changes.iter().peekable();
        while fabric.elapsed() < self.until && !record.borrow().is_over() {
            while let Some(change) = changes.next_if(|change| change.at <= fabric.elapsed()) {
                self.change(&mut fabric, change.what);
            }
            note_mss(&mut mss, &senders, fabric.elapsed());
            let tick = TICK * (mss.first().map_or(0, Vec::len) as u32);
            let next = changes.peek().map_or(self.until, |change| change.at.min(self.until)).min(tick);
            let mut nodes: Vec<&mut dyn Node> = vec![&mut receiver];
            nodes.extend(senders.iter_mut().map(|sender| sender as &mut dyn Node));
            fabric.step(&mut nodes, Time::ZERO + next);
            for (index, sender) in senders.iter().enumerate() {
                assert!(sender.silo.app.broken.is_none(), "flow {index}: {:?}: {self:?}", sender.silo.app.broken);
            }
        }
        let record = record.borrow();
        let flows = senders.iter().zip(mss).enumerate().map(|(index, (sender, mss))| FlowRan {
            received: record.received(index, fabric.elapsed()),
            ended: record.ended(index),
            counters: *sender.silo.stack.tcp_counters(),
            mss,
        });
        Ran { flows: flows.collect(), path: fabric.path_counters(), took: fabric.elapsed() }
    }

    fn change(&self, fabric: &mut Fabric, what: PathChange) {
        let (there, back) = self.impairments(self.rtt);
        match what {
            PathChange::Outage => fabric.change_path(cut(), cut(), false),
            PathChange::BlackHole(longest) => {
                fabric.change_path(Impairment { longest_packet: Some(longest), ..there }, back, false);
            }
            PathChange::Mended => fabric.change_path(there, back, false),
            PathChange::Route(rtt) => {
                let (there, back) = self.impairments(rtt);
                fabric.change_path(there, back, true);
            }
        }
    }
}

/// Notes the segments of each sender, once a [`TICK`].
fn note_mss(mss: &mut [Vec<u16>], senders: &[Host<Source>], now: Duration) {
    for (noted, sender) in mss.iter_mut().zip(senders) {
        while TICK * (noted.len() as u32) <= now {
            let stack = &sender.silo.stack;
            let info = stack.connection_ids().next().and_then(|id| stack.info(id));
            noted.push(info.map_or(0, |info| info.mss));
        }
    }
}

impl FlowRan {
    /// What it received from one time to another, in bits per second.
    #[must_use]
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        let [first, end] = [from, to].map(|at| (at.as_nanos() / TICK.as_nanos()) as usize);
        let bytes: u64 = self.received.iter().take(end).skip(first).sum();
        bytes as f64 * 8.0 / to.saturating_sub(from).as_secs_f64()
    }

    /// The longest time without a byte, from one time to another.
    #[must_use]
    pub fn longest_gap(&self, from: Duration, to: Duration) -> Duration {
        let [first, end] = [from, to].map(|at| (at.as_nanos() / TICK.as_nanos()) as usize);
        let ticks = self.received.get(first..end.min(self.received.len())).unwrap_or(&[]);
        let longest = ticks.split(|bytes| *bytes > 0).map(<[u64]>::len).max().unwrap_or(0);
        TICK * longest as u32
    }
}

impl Ran {
    /// Frames dropped because the bottleneck's queue was full.
    #[must_use]
    pub const fn drops(&self) -> u64 {
        self.path[0].queue_dropped
    }

    /// What stood in the bottleneck's queue on average, in bytes.
    #[must_use]
    pub fn mean_queue(&self) -> f64 {
        self.path[0].queued as f64 / self.took.as_nanos() as f64
    }

    /// Jain's index of what flows received from one time to another: 1 where
    /// all got as much, and one part of their number where one got all.
    #[must_use]
    pub fn jain(&self, from: Duration, to: Duration) -> f64 {
        stats::jain(&self.flows.iter().map(|flow| flow.goodput(from, to)).collect::<Vec<_>>())
    }

    /// From when on Jain's index stays at `least` or above, in each stretch of
    /// `over`, till the end; none if it does not.
    #[must_use]
    pub fn convergence(&self, least: f64, over: Duration) -> Option<Duration> {
        let mut from = None;
        let mut at = self.took.checked_sub(over)?;
        while self.jain(at, at + over) >= least {
            from = Some(at);
            let Some(earlier) = at.checked_sub(TICK) else { break };
            at = earlier;
        }
        from
    }
}
