//! What pacing costs: instructions of the sender's whole turn for each segment,
//! with few flows and with many, each at one rate. All of them send over a pair in
//! memory and in virtual time, which goes on to whatever is due next.

use crate::BenchError;
use crate::callgrind::{self, Profile};
use crate::rig::{PORT, SERVER, counted_turn, host, host_config};
use app::{App, Body, ConnId, Net, Opened, Wake};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use link::{Pair, PairConfig, PairLink};
use silo::{Silo, Turn};
use wire::Time;

/// What a segment may cost more where the flows are many, as a factor.
pub const GROWTH: f64 = 1.15;

/// Segments of each flow at least: what its first costs more is not what pacing does.
const SEGMENTS_EACH: u64 = 4;

/// Each flow's rate in bytes per second: 1 Mbit/s.
const RATE: u64 = 125_000;

/// Flows of one source address: there are some 64,000 ports.
const PER_SOURCE: usize = 50_000;

/// Connections opened in one turn.
const OPENED_AT_ONCE: usize = 16;

/// What is queued at a time: more than the low-water mark, below which the application is told.
const PIECE: u32 = 4 * app::SEND_LOW_WATER as u32;

/// Time that a turn takes in which something happens.
const STEP: Duration = Duration::from_micros(1);

/// Rounds without an end after which something is stuck.
const PATIENCE: u64 = 20_000_000;

/// What `bench pace` is asked.
#[derive(Debug, clap::Args)]
pub struct PaceArgs {
    /// With each of these numbers of flows
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10,10000,100000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: Vec<u32>,
    /// Segments counted of each number of flows; four of each flow at least
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    segments: u64,
    /// Functions told of each
    #[arg(long, value_name = "N", default_value_t = 0)]
    functions: usize,
}

impl PaceArgs {
    /// Measures, and prints it. Returns whether the promised bound holds.
    ///
    /// # Errors
    /// If callgrind cannot be run, or the flows do not flow.
    pub fn run(&self) -> Result<bool, BenchError> {
        println!("instructions of a paced sender's turns for each segment sent, 1 Mbit/s a flow, wire to wire");
        println!("    flows  segments     turns  instructions/segment");
        let mut costs = Vec::new();
        for flows in &self.flows {
            let segments = self.segments.max(SEGMENTS_EACH * u64::from(*flows));
            let arguments = ["pace-case", &flows.to_string(), &segments.to_string()].map(str::to_owned);
            let profile = callgrind::profile(&arguments, "*counted_turn*")?;
            let each = self.print(*flows, &profile)?;
            costs.push(each);
        }
        let Some(first) = costs.first() else { return Ok(true) };
        let dearest = costs.iter().fold(*first, |most, each| most.max(*each)) / first;
        let kept = dearest <= GROWTH;
        let word = if kept { "kept" } else { "NOT KEPT" };
        println!("{dearest:.3} times what it costs with the fewest, at most {GROWTH}: {word}");
        Ok(kept)
    }

    fn print(&self, flows: u32, profile: &Profile) -> Result<f64, BenchError> {
        let (segments, turns) = (profile.said("segments")?, profile.said("turns")?);
        let each = profile.total() as f64 / segments as f64;
        println!("{flows:9} {segments:9} {turns:9} {each:21.1}");
        for (name, count) in profile.by_function().into_iter().take(self.functions) {
            println!("          {:9.1}  {name}", count as f64 / segments as f64);
        }
        Ok(each)
    }
}

/// What the profiler runs: `flows` flows, of which `segments` segments are counted.
///
/// # Errors
/// If they do not flow.
pub fn run_case(flows: u32, segments: u64) -> Result<(), BenchError> {
    let mut rig = PacedRig::new(flows as usize);
    rig.until("open its connections", |rig| rig.sender.app.opened == rig.sender.app.wanted)?;
    // Each has its place in the calendar.
    let open = rig.now;
    rig.until("begin", |rig| rig.now >= open + Duration::from_millis(50))?;
    let before = rig.segments();
    rig.counts = true;
    rig.until("send", |rig| rig.segments() >= before + segments)?;
    println!("segments {}", rig.segments() - before);
    println!("turns {}", rig.turns);
    Ok(())
}

/// Opens connections, and always has something to send on each.
struct Sources {
    wanted: usize,
    asked: usize,
    opened: usize,
    body: Body,
}

impl Sources {
    fn fill<N: Net>(&self, net: &mut N, id: ConnId) {
        if net.unsent(id) < PIECE as usize {
            net.send_body(id, &self.body, 0..PIECE);
        }
    }
}

impl App for Sources {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        self.opened += 1;
        self.fill(net, id);
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        data.len()
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.fill(net, id);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let to = SocketAddr::from((SERVER, PORT));
        for _ in 0..OPENED_AT_ONCE {
            if self.asked == self.wanted || net.connect(Some(source(self.asked / PER_SOURCE)), to).is_err() {
                break;
            }
            self.asked += 1;
        }
        if self.asked < self.wanted { Wake::Now } else { Wake::Idle }
    }
}

/// Takes what comes.
struct Sink;

impl App for Sink {
    fn on_open<N: Net>(&mut self, _net: &mut N, _id: ConnId, _how: Opened) {}

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        data.len()
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}
}

/// The sender's addresses.
fn source(index: usize) -> IpAddr {
    IpAddr::from([10, 0, 1, 1 + index as u8])
}

/// Both sides.
struct PacedRig {
    sender: Silo<PairLink, Sources>,
    receiver: Silo<PairLink, Sink>,
    now: Time,
    counts: bool,
    turns: u64,
}

impl PacedRig {
    fn new(flows: usize) -> Self {
        let (near, far) = Pair::new(PairConfig { ring: 4_096, ..PairConfig::default() });
        let (now, room) = (Time::from_millis(1), flows + 1_024);
        let own: Vec<_> = (0..flows.div_ceil(PER_SOURCE)).map(source).collect();
        let mut config = host_config(1, &near, &own, &[], room);
        config.tcp.max_pacing_rate = Some(RATE);
        let body = Body::new(vec![0x5a; PIECE as usize]);
        let sources = Sources { wanted: flows, asked: 0, opened: 0, body };
        let sender = Silo { stack: host(1, config, &near, now), link: near, app: sources };
        let config = host_config(2, &far, &[SERVER.into()], &[PORT], room);
        let receiver = Silo { stack: host(2, config, &far, now), link: far, app: Sink };
        Self { sender, receiver, now, counts: false, turns: 0 }
    }

    /// Segments that the sender has sent.
    fn segments(&self) -> u64 {
        self.sender.stack.tcp_counters().segments_out
    }

    /// A turn of each, and the time until something is due.
    fn round(&mut self) {
        let sent = if self.counts {
            counted_turn(&mut self.sender, self.now, &mut self.turns)
        } else {
            self.sender.turn(self.now)
        };
        let taken = self.receiver.turn(self.now);
        let busy = |turn: &Turn| turn.frames > 0 || turn.more;
        let due = if busy(&sent) || busy(&taken) {
            self.now
        } else {
            let asleep = self.sender.stack_deadline().min(self.receiver.stack_deadline());
            asleep.min(sent.deadline).min(taken.deadline)
        };
        self.now = due.max(self.now + STEP);
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), BenchError> {
        for _ in 0..PATIENCE {
            self.round();
            if done(self) {
                return Ok(());
            }
        }
        Err(format!("the sender does not {what}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows have their rate, however many they are.
    #[test]
    fn flows_have_their_rate() {
        for flows in [1, 300] {
            let mut rig = PacedRig::new(flows);
            rig.until("open", |rig| rig.sender.app.opened == flows).unwrap();
            let (open, before) = (rig.now, rig.segments());
            rig.until("flow", |rig| rig.now >= open + Duration::from_secs(5)).unwrap();
            let each = (rig.segments() - before) as f64 / flows as f64;
            let wanted = 5.0 * RATE as f64 / 1_448.0;
            assert!((wanted - 3.0..=wanted + 3.0).contains(&each), "{flows}: {each} of {wanted}");
        }
    }
}
