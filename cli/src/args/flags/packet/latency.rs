//! `nearside packet latency`, as typed.

use super::{ClockArgs, PortArgs, ProbedArgs, TesterArgs};
use clap::Args;
use host::values::nonzero_duration;
use packet::spec::{IntendedLoad, Spec};
use packet::tester::{Pacing, Stream};
use std::time::Duration;
use testbed::LatencyPlan;

#[derive(Args)]
pub(in crate::args::flags) struct LatencyArgs {
    #[command(flatten)]
    ports: PortArgs,

    /// The probe: SIZE[:RATE][,key=value]…, with one frame in flight in each direction
    #[arg(long, value_name = "STREAM", default_value = "76", value_parser = Spec::parse)]
    probe: Spec,

    /// The background: SIZE[,key=value]…, without a rate
    #[arg(long, value_name = "STREAM", default_value = "64", value_parser = Spec::parse)]
    background: Spec,

    /// The background's rates, in frames per second and direction, with commas; 0 is none
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', required_unless_present = "pdr", value_parser = rate)]
    rates: Vec<f64>,

    /// In place of --rates: none, 10, 50 and 90 % of this rate, which a search has found (its pdr)
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "rates")]
    pdr: Option<f64>,

    /// Measure at each rate for this long (RFC 2544 section 26.2: 120 s)
    #[arg(long, short, value_name = "TIME", default_value = "120s", value_parser = nonzero_duration)]
    duration: Duration,

    #[command(flatten)]
    tester: TesterArgs,

    #[command(flatten)]
    clock: ClockArgs,

    #[command(flatten)]
    told: ProbedArgs,
}

/// Backgrounds, as shares of the PDR.
const SHARES: [f64; 4] = [0.0, 0.1, 0.5, 0.9];

/// Frames per second; zero is none.
fn rate(text: &str) -> Result<f64, String> {
    if text == "0" {
        return Ok(0.0);
    }
    match IntendedLoad::parse(text)?.pacing(64.0, 1)? {
        Pacing::Rate { milli, .. } if !text.ends_with("bit") => Ok(milli as f64 / 1e3),
        _ => Err("write frames per second, as in 0 or 1M".to_owned()),
    }
}

impl LatencyArgs {
    pub(super) fn plan(self) -> Result<LatencyPlan, String> {
        let links = self.ports.plan(driver::Role::Client)?;
        if self.background.asked.is_some() {
            return Err("--background: its rates are those of --rates".to_owned());
        }
        let usual = [true, links.len() > 1];
        let stream = |name: &str, spec: &Spec, pacing: Pacing| {
            let ways = spec.ways.unwrap_or(usual);
            let stream = Stream { name: name.to_owned(), shape: spec.shape.clone(), pacing, ways };
            if ways[1] && links.len() < 2 { Err("with one link there is one direction".to_owned()) } else { Ok(stream) }
        };
        Ok(LatencyPlan {
            probe: stream("probe", &self.probe, self.probe.probe()?)?,
            background: stream("background", &self.background, Pacing::Max)?,
            links: links.clone(),
            rates: self.pdr.map_or(self.rates, |pdr| SHARES.map(|share| share * pdr).to_vec()),
            duration: self.duration,
            durations: Vec::new(),
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
