//! The command line, in two steps: as typed ([`flags`]) and as meant (the
//! plans here). Help, man pages and completions come from the same
//! definitions; the rest of the program sees plans only.

mod flags;
#[cfg(test)]
mod tests;
mod values;

pub use flags::{Congestion, Idle, Symlinks};
pub use values::{AccessLog, AddressRange, Cidr, Header, LinkSpec, Mac, Respond, Target};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use demo::DemoPlan;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One call of the program.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Serve a website.
    Serve(ServePlan),
    /// Load a server and measure its latency.
    Load(LoadPlan),
    /// Measure Nearside beside nginx on kernel sockets.
    Demo(DemoPlan),
    /// Print the statistics of running processes.
    Status(StatusPlan),
    /// Print a shell's completion script.
    Completions(clap_complete::Shell),
    /// Print the manual, or write a page per command into a folder.
    Man(Option<PathBuf>),
}

/// One side's link, addresses and core: what `serve` and `load` share.
#[derive(Clone, PartialEq, Debug)]
pub struct HostPlan {
    /// Where frames come from and go to.
    pub link: LinkSpec,
    /// Our addresses, at least one, each with its subnet.
    pub addresses: Vec<Cidr>,
    /// Next hops for what is in no subnet of ours, at most one per family.
    pub gateways: Vec<IpAddr>,
    /// Our Ethernet address; `None`: a local one made from the first address.
    pub mac: Option<Mac>,
    /// The core to pin to; `None`: not pinned.
    pub core: Option<u16>,
    /// What to do while there is nothing to do.
    pub idle: Idle,
    /// Congestion control of new connections.
    pub congestion: Congestion,
    /// The most connections held at once.
    pub max_connections: u32,
    /// Write every frame to this pcapng file.
    pub capture: Option<PathBuf>,
    /// Harm done to frames on purpose; `None`: none.
    pub faults: Option<FaultPlan>,
    /// Where the statistics page lies; `None`: the usual place.
    pub status_page: Option<PathBuf>,
    /// Print results as JSON.
    pub json: bool,
}

/// Harm done to frames on purpose, in both directions of this side's link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultPlan {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame comes after its successors.
    pub reorder: f64,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that a bit of a frame is flipped.
    pub corrupt: f64,
    /// Added to every frame's way, one direction.
    pub delay: Duration,
    /// Bits per second; `None`: unlimited.
    pub rate: Option<u64>,
    /// The same seed and the same frames give the same faults.
    pub seed: u64,
}

/// What `serve` is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct ServePlan {
    /// Link, addresses and core.
    pub host: HostPlan,
    /// What is served.
    pub content: Content,
    /// Ports to listen on, on every address.
    pub ports: Vec<u16>,
    /// Bytes of file contents kept in memory.
    pub cache_size: u64,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Where the access log goes.
    pub access_log: AccessLog,
}

/// What is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The files of this folder.
    Files(PathBuf),
    /// The same answer to every request.
    Fixed(Respond),
}

/// What `load` is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadPlan {
    /// Link, addresses and core.
    pub host: HostPlan,
    /// What is asked for, and of whom.
    pub target: Target,
    /// Addresses to connect from; never empty, all of the target's family.
    pub sources: Vec<AddressRange>,
    /// Connections held open.
    pub connections: u32,
    /// Of these, how many send requests; the others stay open and idle.
    pub active: u32,
    /// How long is measured, after the warm-up.
    pub duration: Duration,
    /// Ends earlier, after this many measured requests.
    pub requests: Option<u64>,
    /// Runs before the measurement and is not counted.
    pub warmup: Duration,
    /// A request that takes longer has failed.
    pub timeout: Duration,
    /// A new connection for every request.
    pub close: bool,
    /// Sent with every request.
    pub headers: Vec<Header>,
    /// Write the latency distribution to this file.
    pub hgrm: Option<PathBuf>,
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
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(arguments)?;
    let typed = flags::Cli::from_arg_matches(&matches)?;
    let name = matches.subcommand_name().unwrap_or_default();
    typed.command.plan().map_err(|why| {
        let command = definition.find_subcommand_mut(name);
        command.map_or_else(
            || clap::Error::raw(ErrorKind::ValueValidation, &why),
            |command| command.error(ErrorKind::ValueValidation, &why),
        )
    })
}

/// The whole command line's definition: for man pages and completions.
#[must_use]
pub fn definition() -> clap::Command {
    flags::Cli::command()
}
