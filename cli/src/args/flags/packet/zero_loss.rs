//! `nearside packet run zero-loss`, as typed.

use super::{ClockArgs, ProbedArgs, TesterArgs};
use clap::{Args, ValueEnum};
use host::drivers;
use host::values::{duration, nonzero_duration};
use packet::forward::Mode;
use packet::spec::{IntendedLoad, Spec};
use packet::tester::{Pacing, Stream};
use std::time::Duration;
use testbed::{Medium, Pace, ZeroLossPlan};

#[derive(Args)]
pub(in crate::args::flags) struct ZeroLossArgs {
    /// The background's rate, in frames per second and direction, as in 1M
    #[arg(long, value_name = "RATE", value_parser = IntendedLoad::parse)]
    rate: IntendedLoad,

    /// Measure with the background for this long (the published measurement: 8h)
    #[arg(long, short, value_name = "TIME", default_value = "8h", value_parser = nonzero_duration)]
    duration: Duration,

    /// And without it before, for this long [default: as --duration, ten minutes at most]
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    alone: Option<Duration>,

    /// Ports to a forwarder elsewhere, twice [default: one of ours is set up beside the tester]
    #[arg(long = "link", value_name = "LINK", value_parser = drivers::known)]
    links: Vec<String>,

    /// What lies between the tester and a forwarder of ours; veth needs root
    #[arg(long, value_name = "MEDIUM", value_enum, default_value_t = TypedMedium::Memif, conflicts_with = "links")]
    over: TypedMedium,

    /// What a forwarder of ours does to frames
    #[arg(long, value_name = "MODE", default_value = "macswap", conflicts_with = "links")]
    mode: Mode,

    /// Pin a forwarder of ours to this core
    #[arg(long, value_name = "N", conflicts_with = "links")]
    forwarder_core: Option<u16>,

    /// The probe: SIZE[:RATE][,key=value]…, with one frame in flight in each direction
    #[arg(long, value_name = "STREAM", default_value = "76:10k", value_parser = Spec::parse)]
    probe: Spec,

    /// The background's frames: SIZE[,key=value]…
    #[arg(long, value_name = "STREAM", default_value = "64", value_parser = Spec::parse)]
    background: Spec,

    /// Listen to the noise on the cores named for this long before; 0s: not at all
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    noise: Duration,

    #[command(flatten)]
    tester: TesterArgs,

    #[command(flatten)]
    clock: ClockArgs,

    #[command(flatten)]
    told: ProbedArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedMedium {
    Memif,
    Veth,
}

/// What is measured without a background takes no longer, unless it is asked for.
const ALONE: Duration = Duration::from_secs(600);

impl ZeroLossArgs {
    pub(super) fn plan(self) -> Result<ZeroLossPlan, String> {
        let links = super::each_once(&self.links, driver::Role::Client)?;
        if !links.is_empty() && links.len() != 2 {
            return Err("--link comes twice, or not at all".to_owned());
        }
        let rate = match self.rate.pacing(self.background.shape.mean_size(), 1)? {
            Pacing::Rate { milli, .. } => milli as f64 / 1e3,
            _ => return Err("--rate is a rate".to_owned()),
        };
        if self.background.asked.is_some() {
            return Err("--background: its rate is that of --rate".to_owned());
        }
        let stream = |name: &str, spec: &Spec, pacing: Pacing| Stream {
            name: name.to_owned(),
            shape: spec.shape.clone(),
            pacing,
            ways: spec.ways.unwrap_or([true, true]),
        };
        Ok(ZeroLossPlan {
            links,
            medium: match self.over {
                TypedMedium::Memif => Medium::Memif,
                TypedMedium::Veth => Medium::Veth,
            },
            forwarder_mode: self.mode,
            forwarder: Pace { cores: vec![self.forwarder_core], fifo: self.tester.pace().fifo },
            probe: stream("probe", &self.probe, self.probe.probe()?),
            background: stream("background", &self.background, Pacing::Max),
            rate,
            alone: self.alone.unwrap_or(self.duration.min(ALONE)),
            duration: self.duration,
            noise: self.noise,
            drain: self.tester.drain,
            late_limit: self.told.late_limit,
            threshold: self.told.threshold,
            clock: self.clock.asked(),
            link_limit: self.tester.link_limit,
            pace: self.tester.pace(),
            out: self.told.out,
            checkpoint: self.told.checkpoint,
            html: self.told.html,
            json: self.told.json,
        })
    }
}
