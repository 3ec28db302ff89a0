//! `nearside load`, as typed.

use super::connections;
use super::host::HostArgs;
use crate::args::LoadPlan;
use crate::args::values::{self, AddressRange, Cidr, Count, Header, Target};
use clap::{Args, ValueHint};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(in crate::args) struct LoadArgs {
    /// What to ask for, as in http://10.0.0.2/index.html
    #[arg(value_name = "URL")]
    target: Target,

    /// Hold this many connections
    #[arg(short, long, value_name = "N", default_value = "64")]
    connections: Count,

    /// Send requests on this many of them, the others stay idle [default: all]
    #[arg(long, value_name = "N")]
    active: Option<Count>,

    /// With --active: choose the connections anew for each request, so that all have their turn
    #[arg(long, requires = "active")]
    mix: bool,

    /// Measure for this long, after the warm-up
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = values::nonzero_duration)]
    duration: Duration,

    /// End after this many measured requests, if that comes first
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<Count>,

    /// Run for this long before measuring
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    warmup: Duration,

    /// Give the connections this long to open; then go on with those that are
    /// open, and say so
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    ramp: Duration,

    /// Count a request that takes longer than this as failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::nonzero_duration)]
    timeout: Duration,

    /// Count a connect that takes longer than this as failed, and try again
    /// [default: as --timeout]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    connect_timeout: Option<Duration>,

    /// Open a new connection for every request
    #[arg(long)]
    close: bool,

    /// Have this many requests under way on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u16,

    /// The request's method
    #[arg(short, long, value_name = "METHOD", default_value = "GET")]
    method: String,

    /// Send this text with every request, or the content of a file if it is
    /// @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// Send this header with every request; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Connect from these addresses: one, first-last, or a subnet; repeat for
    /// more [default: --addr of the target's family]
    #[arg(long = "source", value_name = "ADDRESSES")]
    sources: Vec<AddressRange>,

    /// Write the latency distribution to this file, as HdrHistogram prints it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    hgrm: Option<PathBuf>,

    #[command(flatten)]
    host: HostArgs,
}

impl LoadArgs {
    pub(super) fn plan(self) -> Result<LoadPlan, String> {
        let held = connections(self.connections, "--connections")?;
        let target = self.target.address.ip();
        let host = self.host.plan(memif::Role::Client, held)?;
        let sources = sources(&self.sources, &host.addresses, target)?;
        let reached = host.addresses.iter().any(|ours| ours.contains(target));
        let routed = host.gateways.iter().any(|gateway| gateway.is_ipv4() == target.is_ipv4());
        if !reached && !routed {
            return Err(format!("{target} is in no subnet of --addr, and there is no --gateway"));
        }
        let mut request = load::Request::get(&self.target.host, &self.target.path);
        request.method = self.method;
        request.body = self.body.map_or(Ok(Vec::new()), |body| content(&body))?;
        request.headers = self.headers.into_iter().map(|header| (header.name, header.value)).collect();
        let mut plan = load::Plan::new(self.target.address, request);
        plan.sources = sources;
        plan.connections = held;
        plan.active = self.active.map(|active| connections(active, "--active")).transpose()?;
        plan.mix = self.mix;
        plan.stop = match self.requests {
            Some(Count(count)) => load::Stop::Requests { count, within: self.duration },
            None => load::Stop::After(self.duration),
        };
        plan.warm_up = self.warmup;
        plan.ramp_limit = self.ramp;
        plan.timeout = self.timeout;
        plan.connect_timeout = self.connect_timeout.unwrap_or(self.timeout);
        plan.pipeline = self.pipeline;
        if self.close {
            plan.reuse = load::Reuse::ServerCloses;
        }
        plan.check().map_err(|why| why.to_string())?;
        Ok(LoadPlan { host, load: plan, hgrm: self.hgrm })
    }
}

/// A body: as written, or of the file that `@` names.
fn content(text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix('@') {
        Some(file) => std::fs::read(file).map_err(|why| format!("--body: cannot read {file}: {why}")),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// The addresses to connect from: those asked for, or else our own ones.
fn sources(asked: &[AddressRange], ours: &[Cidr], target: IpAddr) -> Result<Vec<IpAddr>, String> {
    let alike = |address: IpAddr| address.is_ipv4() == target.is_ipv4();
    if let Some(other) = asked.iter().find(|range| !alike(range.first)) {
        return Err(format!("--source {} and the target {target} are of different families", other.first));
    }
    if !asked.is_empty() {
        return Ok(asked.iter().flat_map(AddressRange::iter).collect());
    }
    let own: Vec<IpAddr> = ours.iter().map(|cidr| cidr.address).filter(|address| alike(*address)).collect();
    if own.is_empty() { Err(format!("no --addr is of the family of the target {target}")) } else { Ok(own) }
}
