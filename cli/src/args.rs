//! The command line, in two steps: as typed ([`flags`]) and as meant (the
//! plans here). Help, man pages and completions come from the same
//! definitions; the rest of the program sees plans only.

mod examples;
mod flags;
mod kernel;
mod load_plan;
mod rates;
mod settings;
mod silos;
mod target;
#[cfg(test)]
mod tests;
mod values;

pub use kernel::{Control, Cores, KernelPlan, Listen, RestartPlan, TakeOver, Workers};
pub use load_plan::{Form, LoadPath, LoadPlan, LoadSockets, OutputPlan, ProgressKind, ServerPlan, SweepPlan, Task};
pub use settings::Settings;
pub use silos::Silos;
pub use target::Place;
pub use values::{Cidr, DriverSpec, LinkSpec};

use crate::lab::LabPlan;
use clap::builder::{Resettable, Str};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use demo::DemoPlan;
use link::FaultPlan;
use silo::{Idle, Pace};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tcp::congestion::Algorithm;
use wire::Mac;

/// One call of the program.
#[derive(Clone, Debug)]
pub enum Command {
    /// Serve a website.
    Serve(Box<ServePlan>),
    /// Load a server and measure its latency.
    Load(Box<LoadPlan>),
    /// Measure Nearside versus nginx, on one veth pair and over shared memory.
    Demo(DemoPlan),
    /// Run experiments.
    Lab(LabPlan),
    /// List the links of this machine.
    Links(LinksPlan),
    /// Print the statistics of running processes.
    Status(StatusPlan),
    /// Print what crosses between NUMA domains.
    Numa(NumaPlan),
    /// Judge the machine's settings.
    Node(NodePlan),
    /// Turn another stack's configuration into ours.
    Import(ImportPlan),
    /// Print a shell's completion script.
    Completions(clap_complete::Shell),
    /// Print the manual, or write a page per command into a folder.
    Man(Option<PathBuf>),
}

/// One side's links, addresses and silos: what `serve` and `load` share.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Where frames come from and go to: at least one, all of one kind.
    pub links: Vec<LinkSpec>,
    /// Our addresses, each with its subnet; none: those that the host has on
    /// the interface.
    pub addresses: Vec<Cidr>,
    /// Next hops for what is in no subnet of ours, at most one per family.
    pub gateways: Vec<IpAddr>,
    /// What is done about others who have our addresses.
    pub detection: stack::Detection,
    /// What becomes of the process when its links' interfaces are gone.
    pub on_link_loss: OnLinkLoss,
    /// Our Ethernet address, a unicast one; `None`: a local one made from the
    /// first address.
    pub mac: Option<Mac>,
    /// How many silos there are, and where.
    pub silos: Silos,
    /// How connections are spread over silos.
    pub steer: steer::Policy,
    /// How several links are one.
    pub bond: bond::Setup,
    /// Whether connections are opened here, rather than accepted.
    pub opens: bool,
    /// Whether silos, queues and memory are kept together by NUMA domain.
    pub numa: bool,
    /// Print which silo has which core and queues, and do nothing.
    pub plan_only: bool,
    /// What to do while there is nothing to do.
    pub idle: Idle,
    /// How long frames to send may be held back; zero: not at all.
    pub tx_delay: Duration,
    /// Leave checksums and segmentation to links that do them.
    pub offload: bool,
    /// Congestion control of new connections.
    pub congestion: Algorithm,
    /// How long sent data may go unacknowledged; `None`: as long as it is
    /// sent again.
    pub user_timeout: Option<Duration>,
    /// The most connections held at once, by all silos together.
    pub max_connections: u32,
    /// How many of one client, in each silo; `None`: any number.
    pub per_source: Option<app::SourceRule>,
    /// Write every frame to this pcapng file; a file per silo where there are
    /// several.
    pub capture: Option<PathBuf>,
    /// Harm done to frames on purpose, both ways; `None`: none.
    pub faults: Option<FaultPlan>,
    /// Where the statistics page lies; `None`: the usual place.
    pub status_page: Option<PathBuf>,
    /// Another process's connections come by the same links.
    pub follows: bool,
}

/// What becomes of a process whose links' interfaces are gone, all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum OnLinkLoss {
    /// Wait for interfaces of the same names, and go on
    #[default]
    Wait,
    /// End with a failure, for whoever supervises the process
    End,
}

impl HostPlan {
    /// Whether the addresses are those that the host has on its interface:
    /// where none are given.
    #[must_use]
    pub const fn uses_host_addresses(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Whether links are aggregated by the control protocol: also one alone.
    #[must_use]
    pub const fn speaks_lacp(&self) -> bool {
        matches!(self.bond.mode, bond::Mode::Lacp(_))
    }

    /// How a silo trades latency for processor time.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        Pace { idle: self.idle, tx_delay: self.tx_delay }
    }
}

/// What `serve` is asked to do.
#[derive(Clone, Debug)]
pub struct ServePlan {
    /// What is served, and how.
    pub server: server::Config,
    /// By which data path.
    pub path: ServePath,
    /// The options that it is made of.
    pub settings: Settings,
    /// Only say whether all is as it should be.
    pub check: bool,
}

impl ServePlan {
    /// Whether it is to serve, and not only to tell.
    #[must_use]
    pub const fn serves(&self) -> bool {
        let plan_only = matches!(&self.path, ServePath::Link { host, .. } if host.plan_only);
        !self.check && !plan_only
    }
}

/// How connections reach the server.
#[derive(Clone, Debug)]
pub enum ServePath {
    /// Over a link and our own stack.
    Link {
        /// Links, addresses and silos.
        host: HostPlan,
        /// Ports to listen on, on every address; no port twice.
        ports: Vec<u16>,
        /// The most bytes of content held in more than one NUMA domain;
        /// `None`: the usual.
        copies: Option<usize>,
        /// How to restart; `None` where another process cannot have the links.
        restart: Option<Box<RestartPlan>>,
        /// Where the plan is only printed: as JSON.
        json: bool,
    },
    /// Over kernel sockets.
    Kernel(KernelPlan),
}

/// What `numa` is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumaPlan {
    /// The page to read; `None`: those of all running processes.
    pub page: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
    /// Print the machine's topology.
    pub topology: bool,
    /// Print what sysfs says of it.
    pub record: bool,
    /// Another machine's; `None`: this one's.
    pub root: Option<PathBuf>,
}

/// What `node` is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodePlan {
    /// Which of its tasks.
    pub task: NodeTask,
    /// Another machine's files; `None`: this one's.
    pub root: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// A task of `node`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeTask {
    /// Judge what is in force, or files.
    Audit {
        /// What the machine is for.
        role: audit::Role,
        /// The files; none: what is in force.
        of: Vec<PathBuf>,
        /// Print also what is as it should be.
        all: bool,
    },
    /// Say what is true of a setting; `None`: list them.
    Explain(Option<String>),
    /// Print what audit looks at.
    Record,
    /// Print what would change.
    Plan(Tuning),
    /// Make a plan true.
    Apply {
        /// The plan's id.
        id: String,
        /// Which plan.
        tuning: Tuning,
        /// Whether it undoes itself unless it is confirmed.
        trial: Trial,
        /// Write files instead.
        persist: Option<apply::PersistTo>,
    },
    /// Put back what was changed.
    Undo {
        /// Every plan, not only the last.
        all: bool,
        /// Also what somebody else wrote since.
        force: bool,
    },
    /// Let a plan stay that would undo itself.
    Confirm,
    /// Undo a plan that nobody confirms; what apply starts.
    Guard {
        /// The plan's journal.
        journal: String,
        /// How long to wait.
        seconds: u64,
    },
}

/// Which settings a plan is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// What the machine is for; `None`: web-kernel for a plan, whichever fits
    /// the id for apply.
    pub role: Option<audit::Role>,
    /// Just these settings; none: all that the role's rules would change.
    pub only: Vec<(String, String)>,
    /// Rules that are left out.
    pub except: Vec<String>,
}

/// Whether a plan undoes itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// If a step may cut the connection, after 120 s.
    Default,
    /// After so many seconds.
    Seconds(u64),
    /// Never.
    No,
}

/// What `import` is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportPlan {
    /// The configuration.
    pub file: PathBuf,
    /// Say of every key what it means here.
    pub explain: bool,
    /// Print JSON.
    pub json: bool,
}

/// What `links` is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinksPlan {
    /// Print JSON.
    pub json: bool,
}

/// What `status` is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusPlan {
    /// The page to read; `None`: those of all running processes.
    pub page: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// Reads the process's own command line. Where it asks for help, or makes no
/// sense, this says so and ends the process, as is usual.
#[must_use]
pub fn from_env() -> Command {
    parse(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// With clap's message for the user, which is also how help comes out.
pub fn parse<I, T>(arguments: I) -> Result<Command, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let arguments = joined(arguments.into_iter().map(Into::into).collect());
    let merged = settings::merge(arguments).map_err(|why| refusal("serve", &why))?;
    let matches = definition().try_get_matches_from(&merged.arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error,
        _ if !merged.has_file() => error,
        _ => refusal("serve", &merged.place(&settings::sentence(&error))),
    })?;
    let typed = flags::Cli::from_arg_matches(&matches)?;
    let mut command = typed.command.plan().map_err(|why| {
        let name = matches.subcommand_name().unwrap_or_default();
        refusal(name, &merged.place(&why))
    })?;
    if let Command::Serve(plan) = &mut command {
        plan.settings.take(&matches);
    }
    Ok(command)
}

/// What `serve` is asked to do by this process's command line and the file
/// that it names, as that is now.
///
/// # Errors
/// What is wrong with them; a sentence for the user.
pub fn serve_again() -> Result<ServePlan, String> {
    match parse(std::env::args_os()) {
        Ok(Command::Serve(plan)) => Ok(*plan),
        Ok(_) => Err("the command line is not that of serve".to_owned()),
        Err(error) => Err(settings::sentence(&error)),
    }
}

/// The message that a command line makes no sense.
fn refusal(name: &str, why: &str) -> clap::Error {
    let mut definition = definition();
    definition.build();
    match definition.find_subcommand_mut(name) {
        Some(command) => command.error(ErrorKind::ValueValidation, why),
        None => clap::Error::raw(ErrorKind::ValueValidation, why),
    }
}

/// A number below zero after an option is its value, to be refused as such: for
/// clap alone it would be another option.
fn joined(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let bytes = argument.as_encoded_bytes();
        let negative = matches!(bytes, [b'-', b'0'..=b'9' | b'.', ..]);
        match joined.last_mut().filter(|last| negative && awaits_value(last.as_encoded_bytes())) {
            Some(last) => {
                last.push("=");
                last.push(argument);
            }
            None => joined.push(argument),
        }
    }
    joined
}

/// Whether this is an option without a value in it.
const fn awaits_value(argument: &[u8]) -> bool {
    match argument {
        [b'-', b'-', rest @ ..] => {
            let mut at = 0;
            while at < rest.len() && rest[at] != b'=' {
                at += 1;
            }
            at > 0 && at == rest.len()
        }
        [b'-', letter] => letter.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The whole command line's definition: for completions.
#[must_use]
pub fn definition() -> clap::Command {
    examples::add(definition_alone(), "")
}

/// The same without examples, which a manual page has in a section of its own.
#[must_use]
pub fn definition_alone() -> clap::Command {
    // Of the group for links, these are for kernel sockets too: a heading holds
    // for all that follows it.
    let common = ["idle", "congestion", "user_timeout", "status_page"];
    let alone = |command: clap::Command, arg| command.mut_arg(arg, |arg| arg.help_heading(Resettable::<Str>::Reset));
    ["serve", "load"].into_iter().fold(flags::Cli::command(), |definition, name| {
        definition.mut_subcommand(name, |command| common.into_iter().fold(command, alone))
    })
}

/// Examples of the command with these words, as in `lab run`.
#[must_use]
pub fn examples(words: &str) -> &'static [&'static str] {
    examples::of(words)
}
