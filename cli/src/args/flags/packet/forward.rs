//! `nearside packet forward`, as typed.

use super::{PortArgs, fifo};
use clap::{Args, ValueHint};
use host::Cores;
use host::values::Cidr;
use host::values::nonzero_duration;
use packet::forward::{BURST_LIMIT, Hop, Mode, Routes, Settings};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use testbed::{ForwardPlan, Pace};
use wire::Mac;

/// Most frames of a burst.
const MOST: i64 = BURST_LIMIT as i64;

/// Bytes of a frame check sequence: sizes are told with it.
const FCS: usize = 4;

#[derive(Args)]
pub(in crate::args::flags) struct ForwardArgs {
    #[command(flatten)]
    ports: PortArgs,

    /// What is done to frames: io, mac, macswap, 5tswap, flowgen, rxonly, txonly, csum, icmpecho or l3
    ///
    /// io passes them as they are; mac sets both Ethernet addresses, macswap
    /// swaps them, 5tswap swaps IP addresses and ports as well; csum verifies,
    /// counts and writes checksums; icmpecho answers ARP and echo requests by
    /// the port they came by; flowgen and txonly send frames of --flows flows,
    /// flowgen and rxonly drop what comes; l3 routes by --route. All but l3
    /// and icmpecho pass from one link to the other, or back where there is
    /// one. Named as dpdk-testpmd has them.
    #[arg(long, value_name = "MODE", default_value = "io")]
    mode: Mode,

    /// Frames taken from a link at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=MOST))]
    burst: u16,

    /// Pin to these cores, as in 2 or 2,3: a thread for each, with a queue of each link [default: one, not pinned]
    #[arg(long, value_name = "CORES")]
    cores: Option<Cores>,

    /// Run with a real-time policy: fifo:PRIORITY from 1 to 98, as in fifo:50
    ///
    /// On a core that others are kept off (isolcpus, or a cpuset), or they
    /// starve: the kernel's own work on that core included, but for what it
    /// saves by kernel.sched_rt_runtime_us.
    #[arg(long = "sched", value_name = "POLICY", value_parser = fifo)]
    fifo: Option<u8>,

    /// End after this time [default: Ctrl-C]
    #[arg(long, short, value_name = "TIME", value_parser = nonzero_duration)]
    duration: Option<Duration>,

    /// Print a line of rates this often, on standard error; 0s: none [default: 1s on a terminal, else none]
    #[arg(long, value_name = "TIME", value_parser = host::values::duration)]
    stats_period: Option<Duration>,

    /// Bytes of frames that flowgen and txonly make, with the frame check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9000))]
    size: u16,

    /// Flows of such frames
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,

    /// The Ethernet address that frames of a port are sent to, in mode mac; once for each port
    /// [default: 02:00:00:00:00:00 and :01]
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<Mac>,

    /// A route, in mode l3: NETWORK/PREFIX=PORT,ADDRESS, as in 10.1.0.0/16=1,02:00:00:00:00:07
    ///
    /// PORT is 0 for the first --link, 1 for the second; ADDRESS is the
    /// Ethernet address of the next hop. The longest prefix counts.
    #[arg(long, value_name = "ROUTE")]
    route: Vec<Route>,

    /// Keep the statistics as JSON in this file, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the statistics to this file, as one page of HTML: verdict, frames by link, bursts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the statistics as JSON
    #[arg(long)]
    json: bool,
}

/// `NETWORK/PREFIX=PORT,ADDRESS`
#[derive(Clone, Copy, Debug)]
struct Route {
    network: Cidr,
    hop: Hop,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "write NETWORK/PREFIX=PORT,ADDRESS, as in 10.1.0.0/16=1,02:00:00:00:00:07".to_owned();
        let (network, hop) = text.split_once('=').ok_or_else(bad)?;
        let (port, mac) = hop.split_once(',').ok_or_else(bad)?;
        let mac: Mac = mac.parse().map_err(|_| bad())?;
        let port: u8 = port.parse().ok().filter(|port| *port < 2).ok_or_else(bad)?;
        // The route of everything is to the address of no host.
        let network = match network {
            "0.0.0.0/0" => Cidr { address: [0, 0, 0, 0].into(), prefix: 0 },
            "::/0" => Cidr { address: [0_u16; 8].into(), prefix: 0 },
            other => other.parse().map_err(|why| format!("{why}"))?,
        };
        Ok(Self { network, hop: Hop { port, mac } })
    }
}

impl ForwardArgs {
    pub(super) fn plan(self) -> Result<ForwardPlan, String> {
        let links = self.ports.plan(driver::Role::Server)?;
        if (self.mode == Mode::L3) == self.route.is_empty() {
            return Err("--mode l3 and --route go together".to_owned());
        }
        if self.peer.len() > links.len() {
            return Err("there are more --peer than links".to_owned());
        }
        let mut routes = Routes::default();
        for route in &self.route {
            if usize::from(route.hop.port) >= links.len() {
                return Err(format!("--route: there is no port {}", route.hop.port));
            }
            routes
                .add(route.network.address, route.network.prefix, route.hop)
                .map_err(|why| format!("--route: {why}"))?;
        }
        let mut settings = Settings {
            mode: self.mode,
            burst: usize::from(self.burst),
            size: usize::from(self.size) - FCS,
            flows: self.flows,
            routes,
            ..Settings::default()
        };
        for (port, peer) in self.peer.into_iter().enumerate() {
            settings.macs[port].1 = peer;
        }
        let cores = match self.cores {
            Some(Cores::List(cores)) => cores.into_iter().map(Some).collect(),
            Some(Cores::Allowed | Cores::Sets(_) | Cores::NotPinned) | None => vec![None],
        };
        Ok(ForwardPlan {
            links,
            settings,
            pace: Pace { cores, fifo: self.fifo },
            duration: self.duration,
            stats_period: self.stats_period,
            out: self.out,
            html: self.html,
            json: self.json,
        })
    }
}
