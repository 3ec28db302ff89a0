//! The command line as typed: one definition per flag, and the rules between
//! flags that turn it into a plan. One file per command.

mod compare;
mod demo;
mod host;
mod import;
mod lab;
mod links;
mod load;
mod nginx;
mod node;
mod numa;
mod packet;
mod privileges;
mod profile;
mod run;
mod serve;
mod sockets;
mod status;
mod watch;

use super::Command;
use ::host::CONNECTIONS_MAX;
use ::host::values::Count;
use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// A web server and a load generator on a TCP/IP stack of their own.
#[derive(Parser)]
#[command(name = "nearside", version, max_term_width = 100, arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Typed,
}

/// The same as the program that serves knows it.
#[derive(Parser)]
#[command(name = "nearside", version, max_term_width = 100, arg_required_else_help = true)]
pub(super) struct ServingCli {
    #[command(subcommand)]
    pub(super) command: Serving,
}

/// Commands of the program that serves.
#[derive(Subcommand)]
pub(super) enum Serving {
    /// Serve a folder, or one fixed answer, over kernel sockets or over a link
    Serve(Box<serve::ServeArgs>),
    /// Serve what an nginx.conf says, with nginx's own command line
    Nginx(Box<nginx::NginxArgs>),
    /// Run a program that was not made for it on our own stack
    // Until it is installed with its library, and has more than one worker.
    #[command(hide = true)]
    Run(run::RunArgs),
    /// Print the statistics of running processes
    Status(status::StatusArgs),
    /// List the links that this machine can have, and what is missing for them
    Links(links::LinksArgs),
    /// Turn F-Stack's configuration into a command line, and explain every key
    Import(import::ImportArgs),
}

/// Commands of both programs.
#[derive(Subcommand)]
pub(super) enum Typed {
    #[command(flatten)]
    Serving(Serving),
    /// Load a server over kernel sockets or over a link, and measure its latency
    Load(Box<load::LoadArgs>),
    /// Measure Nearside versus nginx, on one veth pair and over shared memory
    Demo(demo::DemoArgs),
    /// Compare two servers: load both by turns, refuse unlike answers, and say which is faster
    Compare(compare::CompareArgs),
    /// Run experiments, and compare and show what came of them
    Lab(lab::LabArgs),
    /// Forward frames between links, as dpdk-testpmd does
    Packet(packet::PacketArgs),
    /// Show what the machine does, interval by interval: traffic, cores, memory, and what filled first
    Watch(Box<watch::WatchArgs>),
    /// Print what crosses between NUMA domains, and the machine's topology
    Numa(numa::NumaArgs),
    /// Judge the machine's settings: what matters for a server, and what is folklore
    Node(node::NodeArgs),
    /// Measure on many machines: `nearside cluster --help` has more
    // Until it knows Kubernetes.
    #[command(hide = true, disable_help_flag = true)]
    Cluster {
        /// What is to be done
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Results are judged by `nearside lab judge`
    #[command(hide = true)]
    Judge {
        /// What a tool printed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command into a folder
    Man {
        /// The folder; made if missing
        #[arg(value_hint = ValueHint::DirPath)]
        folder: Option<PathBuf>,
    },
}

impl Serving {
    /// What is meant, or what makes no sense together.
    pub(super) fn plan(self) -> Result<Command, String> {
        Ok(match self {
            Self::Serve(args) if args.is_site() => Command::Site(Box::new(args.site_plan()?)),
            Self::Serve(args) => Command::Serve(Box::new(args.plan()?)),
            Self::Nginx(args) => Command::Nginx(args.plan()?),
            Self::Run(args) => Command::Run(args.plan()?),
            Self::Links(args) => Command::Links(args.plan()),
            Self::Status(args) => Command::Status(args.plan()?),
            Self::Import(args) => Command::Import(args.plan()),
        })
    }
}

impl Typed {
    /// What is meant, or what makes no sense together.
    pub(super) fn plan(self) -> Result<Command, String> {
        Ok(match self {
            Self::Serving(serving) => serving.plan()?,
            Self::Load(args) => Command::Load(Box::new(args.plan()?)),
            Self::Demo(args) => Command::Demo(args.plan()),
            Self::Compare(args) => Command::Compare(args.plan()?),
            Self::Cluster { .. } => Command::Cluster,
            Self::Judge { .. } => return Err("results are judged by nearside lab judge FILE…".to_owned()),
            Self::Lab(args) => Command::Lab(args.plan()?),
            Self::Packet(args) => args.command()?,
            Self::Watch(args) => Command::Watch(Box::new(args.plan()?)),
            Self::Numa(args) => Command::Numa(args.plan()?),
            Self::Node(args) => Command::Node(args.plan()),
            Self::Completions { shell } => Command::Completions(shell),
            Self::Man { folder } => Command::Man(folder),
        })
    }
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

fn connections(count: Count, flag: &str) -> Result<u32, String> {
    u32::try_from(count.0)
        .ok()
        .filter(|count| *count <= CONNECTIONS_MAX)
        .ok_or_else(|| format!("{flag} can be at most {CONNECTIONS_MAX}"))
}
