//! `nearside packet load`, as typed.

use super::{ClockArgs, PortArgs, TesterArgs};
use clap::{Args, ValueHint};
use host::values::{duration, nonzero_duration};
use packet::expect::Expectation;
use packet::spec::{ReplaySpec, Spec};
use packet::tester::{Plan, Stream};
use std::path::PathBuf;
use std::time::Duration;
use testbed::TesterPlan;

#[derive(Args)]
pub(in crate::args::flags) struct LoadArgs {
    #[command(flatten)]
    ports: PortArgs,

    /// Frames to send: SIZE[:RATE][,key=value]…, as in 64:1M or imix:10Gbit,flows=1000; repeat for more
    ///
    /// SIZE is bytes with the frame check sequence, or imix (28 of 64, 16 of
    /// 570, 4 of 1518). RATE is frames per second in each direction, bits per
    /// second on a wire (preamble and gap included) as in 10Gbit, or max (the
    /// usual): as many as the ring takes. Keys: flows=N or flows=random:N (1;
    /// by source port), vlan=ID, ip=4|6 (4), networks=N (1; destinations drawn
    /// from so many), burst=N (1: frames due at one time), way=ab|ba|both
    /// (both, with two links), as=udp|ptp (udp). Frames are UDP between
    /// 198.18.0.2 and 198.19.0.2, or 2001:2::2 and 2001:2:0:1::2, or event
    /// messages of PTP over Ethernet, each with the run's signature, its number
    /// and its time.
    ///
    /// Each frame is due at a time of its own. One that finds the ring full
    /// then is lost at the entrance of the device under test, as a NIC would
    /// drop it: it is told apart, and never sent late.
    #[arg(long, value_name = "STREAM", value_parser = Spec::parse)]
    stream: Vec<Spec>,

    /// The same, called the background
    #[arg(long, value_name = "STREAM", value_parser = Spec::parse)]
    background: Option<Spec>,

    /// A probe: SIZE[:RATE][,key=value]…, with one frame in flight in each direction
    ///
    /// The next leaves when the last has come, or --probe-timeout after it
    /// left, and no sooner than RATE says.
    #[arg(long, value_name = "STREAM", value_parser = Spec::parse)]
    probe: Option<Spec>,

    /// Send the frames of a capture file, pcap or pcapng: FILE[,key=value]…; repeat for more
    ///
    /// As they were captured, at the capture's own times. Keys: rate=RATE (as
    /// of --stream, in place of these times; original is the usual), loop=N (how
    /// often, 1; on: until the end), way=ab|ba|both (both, with two links).
    /// They carry no mark: what came is told by its bytes behind the Ethernet
    /// addresses, has no latency and no order, and a device that changes more
    /// than addresses makes others of them.
    #[arg(long, value_name = "CAPTURE", value_parser = ReplaySpec::parse)]
    replay: Vec<ReplaySpec>,

    /// When a probe counts as lost
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = nonzero_duration)]
    probe_timeout: Duration,

    /// Send late what was due while the tester was away for this long at most; what was due before is not sent
    ///
    /// Either is counted: late frames come in a burst, which is not what was
    /// asked for, and frames that were not sent make the rate a lower one.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    catch_up: Duration,

    /// Send for this long
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = nonzero_duration)]
    duration: Duration,

    #[command(flatten)]
    tester: TesterArgs,

    #[command(flatten)]
    clock: ClockArgs,

    /// What the run is to show, as in 'loss=0,max<20us'; else the exit status is 2
    ///
    /// Of every stream and direction: loss (frames, or a share as 0.1%),
    /// duplicates, reordered, damaged, rate; of probes, where there are any:
    /// min, mean, max, p50, p99.9 and the like, with ns, us, ms or s. What
    /// was not measured, as a percentile with fewer than ten samples beyond
    /// it, is not met.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    expect: Vec<Expectation>,

    /// Count latencies above this time
    #[arg(long, value_name = "TIME", default_value = "15us", value_parser = nonzero_duration)]
    threshold: Duration,

    /// Keep the results in this file, and renew it every --checkpoint: what was measured survives a kill
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// How often
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = nonzero_duration, requires = "out")]
    checkpoint: Duration,

    /// Print a line this often, on standard error; 0s: none [default: 1s on a terminal, else none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    stats_period: Option<Duration>,

    /// Draw random flows, and the run's signature, from this seed [default: another at each run]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

impl LoadArgs {
    pub(super) fn plan(self) -> Result<TesterPlan, String> {
        let links = self.ports.plan(driver::Role::Client)?;
        let usual = [true, links.len() > 1];
        let mut streams = Vec::new();
        let mut add = |name: String, spec: &Spec, probe: bool| {
            let pacing = if probe { spec.probe() } else { spec.pacing() };
            let pacing = pacing.map_err(|why| format!("{name}: {why}"))?;
            streams.push(Stream { name, shape: spec.shape.clone(), pacing, ways: spec.ways.unwrap_or(usual) });
            Ok::<(), String>(())
        };
        // Probes first: what they wait for in a turn is measured as theirs.
        if let Some(spec) = &self.probe {
            add("probe".to_owned(), spec, true)?;
        }
        if let Some(spec) = &self.background {
            add("background".to_owned(), spec, false)?;
        }
        for (number, spec) in self.stream.iter().enumerate() {
            add(format!("stream {}", number + 1), spec, false)?;
        }
        if streams.is_empty() && self.replay.is_empty() {
            return Err("give frames to send: --stream, --background, --probe or --replay".to_owned());
        }
        let plan = Plan {
            streams,
            duration: self.duration,
            drain: self.tester.drain,
            probe_timeout: self.probe_timeout,
            give_up: self.catch_up,
            ..Plan::default()
        };
        if !plan.streams.is_empty() {
            plan.check(links.len())?;
        }
        Ok(TesterPlan {
            links,
            plan,
            replays: self.replay,
            seed: self.seed,
            pace: self.tester.pace(),
            clock: self.clock.asked(),
            link_limit: self.tester.link_limit,
            expect: self.expect,
            threshold: self.threshold,
            out: self.out,
            checkpoint: self.checkpoint,
            stats_period: self.stats_period,
            html: self.html,
            json: self.json,
        })
    }
}
