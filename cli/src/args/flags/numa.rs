//! `nearside numa`, as typed.

use super::lab::bits;
use budget::{BudgetAsk, CpuCost, PUBLISHED, Siloing};
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
    #[arg(long, value_name = "RATE", value_parser = bits, conflicts_with = "topology")]
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

    /// Processor time that you saw, in percent of all cores, at a rate: as in 62%@190G
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

/// The help of `--published`, with the names that there are.
fn published() -> String {
    let names = PUBLISHED.map(|(name, _)| name).join(", ");
    format!("Not this machine, but one of published figures: {names}, or a file as docs/node.md shows one")
}

impl NumaArgs {
    pub(super) fn plan(self) -> Result<NumaPlan, String> {
        let Self { page, json, topology, measure, html, svg, record, root, budget, tls, disk, siloed, cpu, published } =
            self;
        if root.is_some() && !topology && !record && budget.is_none() {
            return Err("--root goes with --topology, --budget or --record".to_owned());
        }
        if html.is_some() && !topology && budget.is_none() {
            return Err("--html goes with --topology or --budget".to_owned());
        }
        // What conflicts with --budget is given in place of it, and clap asks no more for it then.
        if budget.is_none() && (tls || disk || cpu.is_some() || published.is_some()) {
            return Err("--tls, --disk, --cpu and --published go with --budget".to_owned());
        }
        let siloing = match siloed {
            TypedSiloing::No => Siloing::No,
            TypedSiloing::Network => Siloing::Network,
            TypedSiloing::Disk => Siloing::Disk,
        };
        let budget = budget.map(|bits| BudgetPlan { ask: BudgetAsk { bits, tls, disk, siloing, cpu }, published });
        Ok(NumaPlan { page, json, topology, measure, html, svg, record, root, budget })
    }
}
