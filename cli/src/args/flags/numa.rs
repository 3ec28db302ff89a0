//! `nearside numa`, as typed.

use super::lab::bits;
use budget::{BudgetAsk, CarrierChoice, CpuCost, PUBLISHED, PortSplit, RING_SLOTS, Siloing};
use clap::{Args, ValueEnum, ValueHint};
use console::{BudgetPlan, NumaPlan};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct NumaArgs {
    /// The statistics page to read [default: those of all running processes]
    #[arg(value_name = "PAGE", value_hint = ValueHint::FilePath, conflicts_with_all = ["topology", "record", "budget"])]
    page: Option<PathBuf>,

    /// Print JSON
    #[arg(long, conflicts_with = "record")]
    json: bool,

    /// Print the machine's domains, cores, network interfaces and disks, and how these are attached
    #[arg(long)]
    topology: bool,

    /// Measure latency and bandwidth from each domain to each first: some seconds, in which all cores
    /// are busy; what was measured is remembered, and a budget uses it
    #[arg(long, requires = "topology", conflicts_with = "root")]
    measure: bool,

    /// Write the topology, or the budget, to this file, as one page of HTML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Write the topology to this file as a picture, as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "topology")]
    svg: Option<PathBuf>,

    /// Print what sysfs says of the topology, to be read again with --root
    #[arg(long, conflicts_with_all = ["topology", "budget"])]
    record: bool,

    /// Print what sending so many bits per second, as in 190G, costs in memory, fabric, PCI Express
    /// and disks, and what is full first
    #[arg(long, value_name = "RATE", value_parser = content_rate, conflicts_with = "topology")]
    budget: Option<f64>,

    /// The content is encrypted
    #[arg(long, requires = "budget", help_heading = "Budget")]
    tls: bool,

    /// The content comes from disks, not from memory
    #[arg(long, requires = "budget", help_heading = "Budget")]
    disk: bool,

    /// What keeps a connection in one NUMA domain: nothing, the port that it came by, or (a model
    /// only) the disk of its content
    #[arg(
        long,
        value_enum,
        value_name = "BY",
        default_value = "network",
        requires = "budget",
        help_heading = "Budget"
    )]
    siloed: TypedSiloing,

    /// Content in memory has a copy in each NUMA domain (serve --cache-copies)
    #[arg(long, requires = "budget", conflicts_with = "disk", help_heading = "Budget")]
    copies: bool,

    /// The ports that carry content, as in eth0,eth1 [default: those that have a link of a known rate, but
    /// for much slower ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "budget", help_heading = "Budget")]
    ports: Option<Vec<String>>,

    /// The disks that content is on, as in nvme0n1,nvme1n1 [default: those of NVMe, or all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "budget", help_heading = "Budget")]
    disks: Option<Vec<String>>,

    /// How traffic is split over ports: evenly, as a hash of flows does, or by their rates
    #[arg(long, value_enum, value_name = "HOW", default_value = "even", requires = "budget", help_heading = "Budget")]
    split: TypedSplit,

    /// Slots of each silo's ring
    #[arg(long, value_name = "SLOTS", default_value_t = RING_SLOTS, requires = "budget", help_heading = "Budget",
          value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    ring: u64,

    /// The ports' MTU
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, requires = "budget", help_heading = "Budget",
          value_parser = clap::value_parser!(u16).range(576..=9_216))]
    mtu: u16,

    /// Processor time that you saw, in percent of all cores, at a rate: as in 62%@190G, or of one way of
    /// sending 62%@190G:kernel (:slot, :nic)
    #[arg(
        long,
        value_name = "PERCENT@RATE",
        value_parser = CpuCost::parse,
        requires = "budget",
        help_heading = "Budget"
    )]
    cpu: Option<CpuCost>,

    #[arg(
        long,
        value_name = "NAME|FILE",
        requires = "budget",
        conflicts_with = "root",
        help_heading = "Budget",
        help = published()
    )]
    published: Option<PathBuf>,

    /// Look at another machine: a folder with its sys/, or what --record printed
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    root: Option<PathBuf>,
}

/// What `--siloed` takes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TypedSiloing {
    /// Nothing
    No,
    /// The port that its packets come by
    Network,
    /// The disk of its content
    Disk,
}

/// What `--split` takes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TypedSplit {
    /// Evenly
    Even,
    /// By the ports' rates
    Rate,
}

/// A rate that somebody means to send: 190 is 190 bit/s, and forgotten of its G.
fn content_rate(text: &str) -> Result<f64, String> {
    const LEAST: f64 = 1e6;
    let rate = bits(text)?;
    if rate >= LEAST { Ok(rate) } else { Err(format!("{text} is {rate} bit/s: give at least 1M, as in 190G or 400M")) }
}

/// The help of `--published`, with the names that there are.
fn published() -> String {
    let names = PUBLISHED.map(|(name, _)| name).join(", ");
    format!("Not this machine, but one of published figures: {names}, or a file as docs/node.md shows one")
}

impl NumaArgs {
    pub(super) fn plan(self) -> Result<NumaPlan, String> {
        let Self {
            page,
            json,
            topology,
            measure,
            html,
            svg,
            record,
            root,
            budget,
            tls,
            disk,
            siloed,
            cpu,
            published,
            ..
        } = self;
        if root.is_some() && !topology && !record && budget.is_none() {
            return Err("--root goes with --topology, --budget or --record".to_owned());
        }
        if html.is_some() && !topology && budget.is_none() {
            return Err("--html goes with --topology or --budget".to_owned());
        }
        if measure && !topology {
            return Err("--measure goes with --topology; a budget uses what that measured".to_owned());
        }
        // What conflicts with --budget is given in place of it, and clap asks no more for it then.
        let carriers = CarrierChoice { ports: self.ports, disks: self.disks };
        let is_chosen = carriers != CarrierChoice::default() || self.copies;
        if budget.is_none() && (tls || disk || cpu.is_some() || published.is_some() || is_chosen) {
            return Err("--tls, --disk, --copies, --ports, --disks, --cpu and --published go with --budget".to_owned());
        }
        let siloing = match siloed {
            TypedSiloing::No => Siloing::No,
            TypedSiloing::Network => Siloing::Network,
            TypedSiloing::Disk => Siloing::Disk,
        };
        let split = match self.split {
            TypedSplit::Even => PortSplit::Even,
            TypedSplit::Rate => PortSplit::Rate,
        };
        let (copies, ring, mtu) = (self.copies, self.ring, self.mtu);
        let ask = |bits| BudgetAsk { bits, tls, disk, siloing, copies, split, ring, mtu, cpu };
        let budget = budget.map(|bits| BudgetPlan { ask: ask(bits), published, carriers });
        Ok(NumaPlan { page, json, topology, measure, html, svg, record, root, budget })
    }
}
