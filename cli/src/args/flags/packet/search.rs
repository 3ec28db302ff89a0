//! `nearside packet search`, as typed.

use super::{PortArgs, TesterArgs, percent};
use clap::{Args, ValueHint};
use host::values::{duration, nonzero_duration};
use packet::search::{Goal, TRIALS_LIMIT};
use packet::spec::{IntendedLoad, Spec};
use packet::tester::{Pacing, Stream};
use std::path::PathBuf;
use std::time::Duration;
use testbed::SearchPlan;

/// The most trials, usually.
const TRIALS: u16 = TRIALS_LIMIT as u16;

/// CSIT's trials of the highest rate.
const MRR: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(in crate::args::flags) struct SearchArgs {
    #[command(flatten)]
    ports: PortArgs,

    /// Frames to send: SIZE[,key=value]…, as nearside packet load has them, without a rate
    #[arg(long, value_name = "STREAM", default_value = "64", value_parser = Spec::parse)]
    stream: Spec,

    /// What is searched for: rfc2544, tst009, ndr, pdr, mrr, soak; several with commas
    ///
    /// By RFC 9971: rfc2544 is the highest rate at which a trial of 60 s loses
    /// nothing; tst009 takes a second trial of 60 s where the first loses; ndr
    /// and pdr take 21 trials of 1 s, of which less than half may lose
    /// anything, or more than half a percent. Goals share their trials. mrr is
    /// what comes at the highest rate, 10 times 1 s (or the first time of --trial); soak fits curves to trials of
    /// growing length (PLRsearch) and tells the load that loses 1e-7 of its frames.
    #[arg(long, value_name = "GOAL,…", value_delimiter = ',', default_value = "ndr,pdr", value_parser = goal)]
    goal: Vec<Wanted>,

    /// How long a soak takes
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = nonzero_duration)]
    soak: Duration,

    /// How near the bounds are in the end, as a share of the upper one
    #[arg(long, value_name = "PERCENT", default_value = "0.5%", value_parser = percent)]
    width: f64,

    /// Seconds of a goal's trials, and of all at one load, in place of the goal's own, as in 2s,10s
    #[arg(long, value_name = "TIME,TIME", value_delimiter = ',', value_parser = nonzero_duration)]
    trial: Vec<Duration>,

    /// The lowest rate, in frames per second and direction
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = IntendedLoad::parse)]
    min_rate: IntendedLoad,

    /// The highest rate, in frames, or bits as in 10Gbit [default: what the tester can send through it]
    #[arg(long, value_name = "RATE", value_parser = IntendedLoad::parse)]
    max_rate: Option<IntendedLoad>,

    /// Let the device settle between trials (RFC 2544 section 23: five seconds)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    settle: Duration,

    /// A trial of which the tester sent more than this share late, or not at all, is repeated, and then INVALID
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent)]
    late_limit: f64,

    /// The most trials
    #[arg(long, value_name = "N", default_value_t = TRIALS, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    trials: u16,

    #[command(flatten)]
    tester: TesterArgs,

    /// Keep the results in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// What is searched for.
#[derive(Clone, Debug)]
enum Wanted {
    Bounds(Goal),
    Mrr,
    Soak,
}

fn goal(text: &str) -> Result<Wanted, String> {
    match text {
        "mrr" => Ok(Wanted::Mrr),
        "soak" => Ok(Wanted::Soak),
        _ => Goal::named(text)
            .map(Wanted::Bounds)
            .ok_or_else(|| format!("there is no goal {text}: rfc2544, tst009, ndr, pdr, mrr and soak are")),
    }
}

impl SearchArgs {
    pub(super) fn plan(self) -> Result<SearchPlan, String> {
        let links = self.ports.plan(driver::Role::Client)?;
        if self.stream.asked.is_some() {
            return Err("--stream: a search chooses the rate".to_owned());
        }
        if self.width < 1e-4 {
            return Err("--width is at least 0.01%".to_owned());
        }
        let mrr = self.goal.iter().any(|wanted| matches!(wanted, Wanted::Mrr));
        let mrr = mrr.then(|| self.trial.first().copied().unwrap_or(MRR));
        let soak = self.goal.iter().any(|wanted| matches!(wanted, Wanted::Soak)).then_some(self.soak);
        let bounds = self.goal.into_iter().filter_map(|wanted| match wanted {
            Wanted::Bounds(goal) => Some(goal),
            Wanted::Mrr | Wanted::Soak => None,
        });
        let mut goals: Vec<Goal> = bounds.collect();
        for goal in &mut goals {
            goal.width = self.width;
            match self.trial.as_slice() {
                [] => {}
                [each, sum] if each <= sum => {
                    (goal.final_duration, goal.duration_sum) = (each.as_secs_f64(), sum.as_secs_f64());
                }
                _ => {
                    return Err("--trial takes the time of a trial and of all at one load, which is no less".to_owned());
                }
            }
        }
        let rate = |asked: IntendedLoad| match asked.pacing(self.stream.shape.mean_size(), 1)? {
            Pacing::Rate { milli, .. } => Ok(milli as f64 / 1e3),
            _ => Err("--min-rate and --max-rate are rates".to_owned()),
        };
        let (min_rate, max_rate) = (rate(self.min_rate)?, self.max_rate.map(rate).transpose()?);
        if max_rate.is_some_and(|max| max <= min_rate) {
            return Err("--max-rate is above --min-rate".to_owned());
        }
        let ways = self.stream.ways.unwrap_or([true, links.len() > 1]);
        if ways[1] && links.len() < 2 {
            return Err("with one link there is one direction".to_owned());
        }
        let stream = Stream { name: "load".to_owned(), shape: self.stream.shape, pacing: Pacing::Max, ways };
        Ok(SearchPlan {
            links,
            stream,
            goals,
            mrr,
            soak,
            min_rate,
            max_rate,
            drain: self.tester.drain,
            settle: self.settle,
            late_limit: self.late_limit,
            trials: usize::from(self.trials),
            link_limit: self.tester.link_limit,
            pace: self.tester.pace(),
            out: self.out,
            html: self.html,
            json: self.json,
        })
    }
}
