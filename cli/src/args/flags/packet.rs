//! `nearside packet`, as typed.

mod forward;
mod lab;
mod latency;
mod load;
mod rfc2544;
mod search;
mod sweep;
mod zero_loss;

use super::host::{each_once, fifo};
use crate::args::Command;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use console::{ComparisonPlan, LabPlan, ResultsSide};
use driver::Role;
use host::drivers::{self, LinkSpec};
use host::values::{duration, nonzero_duration};
use std::path::PathBuf;
use std::time::Duration;
use testbed::{AskedClock, Pace, PacketPlan, ReportPlan};

#[derive(Args)]
pub(in crate::args) struct PacketArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Forward frames between two links, or back by the one they came by
    ///
    /// A busy poller on one core for each queue: it takes a burst from one
    /// link and writes each frame once, into a slot of the other. At the end
    /// (--duration, Ctrl-C) it prints statistics as dpdk-testpmd prints them.
    Forward(Box<forward::ForwardArgs>),
    /// Send frames at exact rates and follow each of them through a device
    ///
    /// Over one link, which is to bring back what it took, or two, both ways
    /// at once. Lost, duplicated, reordered and damaged frames are counted by
    /// stream and direction, and one-way latency of every frame is kept. The
    /// exit status is 0, 2 if something was not as expected (--expect), 130
    /// after Ctrl-C (what was measured is printed), 1 if it failed.
    Load(Box<load::LoadArgs>),
    /// Search for the rates that a device bears, by RFC 9971
    ///
    /// Several goals in one search, each with its own loss, time and width.
    /// Every trial is told, with the rate asked for and the rate sent. The
    /// result is COMPLETE, PARTIAL (what was left out is named) or INVALID;
    /// the exit status is 0, 2 if INVALID, 130 after Ctrl-C, 1 if it failed.
    Search(Box<search::SearchArgs>),
    /// Measure a probe's latency beside a background, at one rate after the other
    ///
    /// One-way latency of every frame of the probe, of which one is in flight
    /// in each direction: without a background (0) and with. Told are the
    /// figures of RFC 8219, the whole distribution, and the curves of all rates
    /// over each other (--out). The exit status is 0, 2 if INVALID, 130 after
    /// Ctrl-C, 1 if it failed.
    Latency(Box<latency::LatencyArgs>),
    /// Follow RFC 2544 as a whole: throughput, latency, loss, back-to-back, recovery, reset
    ///
    /// For each of seven frame sizes, back-to-back frames by RFC 9004; again
    /// with 256 networks and with filters, if asked for. Every trial is told.
    /// The verdict is COMPLETE, PARTIAL with the clauses that are missing, or
    /// INVALID; a shortened run (--quick) cannot be COMPLETE. Only on networks
    /// of your own (RFC 6815). The exit status is 0, 2 if INVALID, 130 after
    /// Ctrl-C, 1 if it failed.
    Rfc2544(Box<rfc2544::Rfc2544Args>),
    /// Do a whole measurement as one command
    Run {
        #[command(subcommand)]
        what: Measurement,
    },
    /// Put devices that anybody has between the tester's ports, in namespaces, and compare them
    ///
    /// The kernel's bridge and forwarding, an XDP program that redirects,
    /// dpdk-testpmd and nearside packet forward, in turn, each between two
    /// veth pairs whose other ends the tester has by AF_XDP; the last two over
    /// memif as well; and a bare wire of each kind, which shows what the tester
    /// alone makes. Told are MRR, NDR and PDR by a short search, and latency of
    /// a probe alone and beside 70 % of the NDR. Needs root, and ip; a device
    /// that cannot be had is told. The exit status is 0, 130 after Ctrl-C, 1
    /// if none could be measured.
    Lab(lab::LabArgs),
    /// Change one setting of a device at a time: frames, processor time and energy for each
    ///
    /// The device is set up anew for each value and measured at the highest
    /// rate, in rounds over all of them. Energy is RAPL's, where the machine
    /// has it. A value that the device refuses is told. The exit status is 0,
    /// 130 after Ctrl-C, 1 if none could be measured.
    Sweep(sweep::SweepArgs),
    /// Turn results into one page of HTML: verdict, tables and curves
    Report {
        /// Results; those of several runs are drawn over each other
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,

        /// The page [default: beside the first file, ending in .html]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// Compare results of two sides: ratio, 95 % interval and verdict of each figure
    ///
    /// Results are what --out of load, latency, search, rfc2544 and sweep keeps, or
    /// their --json. A side is a file, or a folder of them: a run each. Of searches
    /// only what is an answer is compared. Of fewer than five
    /// runs there is a ratio, and no verdict. Runs of unlike machines, drivers
    /// or interfaces are refused, and what differs is told.
    Compare {
        /// The earlier
        #[arg(value_name = "BEFORE", value_hint = ValueHint::AnyPath)]
        before: PathBuf,

        /// The later
        #[arg(value_name = "AFTER", value_hint = ValueHint::AnyPath)]
        after: PathBuf,

        /// Compare also runs that are not alike
        #[arg(long)]
        force: bool,

        /// Write the comparison to this file, as one page of HTML with both sides' results in it
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        html: Option<PathBuf>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
enum Measurement {
    /// A probe beside a background through a forwarder, for hours, no frame lost
    ///
    /// The published measurement (76-byte probes, one in flight; 64-byte
    /// background; both directions): judges this machine as a forwarder,
    /// listens to the noise on its cores, measures without and with the
    /// background, and tells latencies, losses and the forwarder's own
    /// statistics. What was measured survives a kill (--out). The exit status
    /// is 0, 2 if INVALID, 130 after Ctrl-C, 1 if it failed.
    ZeroLoss(Box<zero_loss::ZeroLossArgs>),
}

impl PacketArgs {
    pub(super) fn command(self) -> Result<Command, String> {
        Ok(Command::Packet(match self.what {
            What::Forward(args) => PacketPlan::Forward(Box::new(args.plan()?)),
            What::Load(args) => PacketPlan::Load(Box::new(args.plan()?)),
            What::Search(args) => PacketPlan::Search(Box::new(args.plan()?)),
            What::Latency(args) => PacketPlan::Latency(Box::new(args.plan()?)),
            What::Rfc2544(args) => PacketPlan::Rfc2544(Box::new(args.plan()?)),
            What::Run { what: Measurement::ZeroLoss(args) } => PacketPlan::ZeroLoss(Box::new(args.plan()?)),
            What::Lab(args) => PacketPlan::Lab(args.plan()?),
            What::Sweep(args) => PacketPlan::Sweep(args.plan()?),
            What::Report { files, out } => PacketPlan::Report(ReportPlan { files, out }),
            What::Compare { before, after, force, html, json } => {
                let [before, after] = [before, after].map(|folder| ResultsSide { folder, arm: None });
                let plan = ComparisonPlan { before, after, force, html, json };
                return Ok(Command::Lab(LabPlan::Compare(plan)));
            }
        }))
    }
}

fn port_help() -> String {
    format!("A port: {}; once or twice", drivers::forms())
}

const PORTS: &str = "With the options that nearside serve --help lists. An af_xdp interface gives every frame that \
                     comes to the queues taken, promiscuously: the kernel sees none of them.";

/// Links of one command: one, or two.
#[derive(Args)]
struct PortArgs {
    #[arg(long = "link", value_name = "LINK", value_parser = drivers::known, required = true)]
    #[arg(help = port_help(), long_help = format!("{}\n\n{PORTS}", port_help()))]
    links: Vec<String>,
}

impl PortArgs {
    fn plan(&self, role: Role) -> Result<Vec<LinkSpec>, String> {
        match self.links.as_slice() {
            // The two ends of one memif are a wire, at which the tester is looped on itself.
            [one, other] => {
                let links = [one, other].map(|text| each_once(core::slice::from_ref(text), role));
                let [one_end, other_end] = links;
                let (mut links, far) = (one_end?, other_end?);
                let connects = |links: &[LinkSpec]| links.iter().any(|link| link.driver.connects());
                if connects(&links) == connects(&far) {
                    return each_once(&self.links, role);
                }
                links.extend(far);
                Ok(links)
            }
            [_] => each_once(&self.links, role),
            _ => Err("there are one or two links".to_owned()),
        }
    }
}

/// How the one thread of a tester runs, and what it waits for.
#[derive(Args)]
struct TesterArgs {
    /// Wait this long for stragglers (RFC 2544 section 23: two seconds)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    drain: Duration,

    /// Wait this long for the links' other side
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = nonzero_duration)]
    link_limit: Duration,

    /// Pin the one thread that has all ports to this core [default: not pinned]
    #[arg(long, value_name = "N")]
    core: Option<u16>,

    /// Run with a real-time policy: fifo:PRIORITY from 1 to 98, as in fifo:50
    #[arg(long = "sched", value_name = "POLICY", value_parser = fifo)]
    fifo: Option<u8>,
}

impl TesterArgs {
    fn pace(&self) -> Pace {
        Pace { cores: vec![self.core], fifo: self.fifo }
    }
}

/// What times a probe, as typed.
#[derive(Clone, Copy, ValueEnum)]
enum TypedClock {
    Auto,
    Hardware,
    Kernel,
    Tsc,
}

#[derive(Args)]
struct ClockArgs {
    /// Time probes, and RFC 2544's tagged frames, by stamps of NICs (hardware) or of the kernel, or by the tester's
    /// own clock (tsc)
    ///
    /// Stamps are had by af_packet links: the NIC's where it has a PTP clock that
    /// runs and stamps frames of both ways (ethtool -T), the kernel's with most
    /// drivers; by af_xdp links, the NIC's alone, where its driver tells when
    /// frames come and leave without a copy (nearside links: rx-stamps, tx-stamps,
    /// zero-copy); and by dpdk links, the NIC's, where DPDK's driver has timesync for
    /// both ways. auto takes the best that all links have. Where NICs stamp PTP's
    /// event messages alone, probes are such; tagged frames cannot be. A clock that
    /// stands, steps or runs at another rate, and stamps that are missing, are
    /// refused, or make the result INVALID.
    #[arg(long, value_name = "CLOCK", default_value = "auto", value_enum)]
    clock: TypedClock,
}

impl ClockArgs {
    const fn asked(&self) -> AskedClock {
        match self.clock {
            TypedClock::Auto => AskedClock::Auto,
            TypedClock::Hardware => AskedClock::Hardware,
            TypedClock::Kernel => AskedClock::Kernel,
            TypedClock::Tsc => AskedClock::Tsc,
        }
    }
}

/// What is told of a probe's latency, and what makes it INVALID; where it is
/// kept.
#[derive(Args)]
struct ProbedArgs {
    /// With more than this share of frames late or not sent by the tester the result is INVALID
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent)]
    late_limit: f64,

    /// Count latencies above this time
    #[arg(long, value_name = "TIME", default_value = "15us", value_parser = nonzero_duration)]
    threshold: Duration,

    /// Keep a file of results for each rate, and a page of all curves, in this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// How often the file of the rate under way is renewed: what was measured survives a kill
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = nonzero_duration, requires = "out")]
    checkpoint: Duration,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// A share, with its percent sign.
fn percent(text: &str) -> Result<f64, String> {
    let value = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
    let value = value.filter(|value| (0.0..=50.0).contains(value));
    value.map(|value| value / 100.0).ok_or_else(|| "write a share with its sign, as in 0.5%, at most 50%".to_owned())
}
