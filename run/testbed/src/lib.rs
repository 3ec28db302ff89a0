//! `nearside packet`: frames forwarded, sent and followed.
//!
//! | module | for |
//! | --- | --- |
//! | `ends` | links opened, and dealt out to threads |
//! | `forward` | the forwarder's threads, and what they tell |
//! | `load` | the tester's thread, checkpoints, what is printed |
//! | `look` | the machine before a measurement: audit and noise |
//! | `latency` | a probe beside a background, rate by rate |
//! | `search` | trials, until bounds are near |
//! | `rfc2544` | the whole method, trial by trial |
//! | `zero_loss` | the published measurement as one command |
//! | `lab` | devices that anybody has, one after the other, in a table |
//! | `sweep` | a device's settings, one changed at a time |
//! | `clocks` | stamps of a NIC or the kernel in place of the counter |
//! | `child` | programs beside this one |
//! | `pause` | pause frames of the links |
//! | `pages` | results drawn and compared |
//! | `rig` | a tester's links and clock, and trials over them |
//! | `place` | a thread's place: core, real-time policy |
//! | `published` | what `nearside watch` and `nearside status` are told |

mod child;
mod clocks;
mod commands;
mod ends;
mod forward;
mod lab;
mod latency;
mod load;
mod look;
mod pages;
mod pause;
mod place;
mod published;
mod rfc2544;
mod rig;
mod search;
mod sweep;
mod zero_loss;

pub use lab::Device;
pub use sweep::Factor;
pub use zero_loss::Medium;

use host::drivers::LinkSpec;
use packet::expect::Expectation;
use packet::forward::{Mode, Settings};
use packet::rfc2544::Settings as MethodSettings;
use packet::search::Goal;
use packet::spec::ReplaySpec;
use packet::tester::{Plan, Stream};
use say::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What `packet` is asked to do.
#[derive(Clone, Debug)]
pub enum PacketPlan {
    /// Forward frames.
    Forward(Box<ForwardPlan>),
    /// Send frames and follow them.
    Load(Box<TesterPlan>),
    /// Search for rates.
    Search(Box<SearchPlan>),
    /// Measure latency rate by rate.
    Latency(Box<LatencyPlan>),
    /// Follow RFC 2544 as a whole.
    Rfc2544(Box<MethodPlan>),
    /// Do the published measurement again.
    ZeroLoss(Box<ZeroLossPlan>),
    /// Compare devices that anybody has.
    Lab(DevicesPlan),
    /// Change one setting at a time.
    Sweep(FactorsPlan),
    /// Draw results.
    Report(ReportPlan),
}

impl PacketPlan {
    /// The files that are written at the end: the page and the result.
    fn written(&self) -> [Option<&Path>; 2] {
        let (html, out) = match self {
            Self::Forward(plan) => (&plan.html, &plan.out),
            Self::Load(plan) => (&plan.html, &plan.out),
            Self::Search(plan) => (&plan.html, &plan.out),
            Self::Rfc2544(plan) => (&plan.html, &plan.out),
            Self::Lab(plan) => (&plan.html, &plan.out),
            Self::Sweep(plan) => (&plan.html, &plan.out),
            // Theirs is a folder, which is made at the beginning.
            Self::Latency(plan) => (&plan.html, &None),
            Self::ZeroLoss(plan) => (&plan.html, &None),
            // It measures nothing.
            Self::Report(_) => (&None, &None),
        };
        [html.as_deref(), out.as_deref()]
    }
}

/// What times a probe's frames, and tagged ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedClock {
    /// The best that all links have and that runs.
    Auto,
    /// Stamps of NICs.
    Hardware,
    /// Stamps of the kernel.
    Kernel,
    /// The processor's counter, read by the tester.
    Tsc,
}

/// Where threads run, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    /// A thread for each, pinned if a core is named.
    pub cores: Vec<Option<u16>>,
    /// The priority of SCHED_FIFO; `None`: the usual policy.
    pub fifo: Option<u8>,
}

/// How frames are forwarded.
#[derive(Clone, Debug)]
pub struct ForwardPlan {
    /// One link, or two.
    pub links: Vec<LinkSpec>,
    /// What is done to frames.
    pub settings: Settings,
    /// Where.
    pub pace: Pace,
    /// For how long; `None`: until it is stopped.
    pub duration: Option<Duration>,
    /// How often a line is written; `None`: as usual.
    pub stats_period: Option<Duration>,
    /// Where the statistics go as JSON, too.
    pub out: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// What is sent, and what is told of it.
#[derive(Clone, Debug)]
pub struct TesterPlan {
    /// One link, or two.
    pub links: Vec<LinkSpec>,
    /// The trial, but for its signature and seed.
    pub plan: Plan,
    /// Captures that are sent, too.
    pub replays: Vec<ReplaySpec>,
    /// What these are drawn from; `None`: the operating system's bits.
    pub seed: Option<u64>,
    /// Where.
    pub pace: Pace,
    /// What times a probe.
    pub clock: AskedClock,
    /// How long the links' other side is waited for.
    pub link_limit: Duration,
    /// What is to come out.
    pub expect: Vec<Expectation>,
    /// Latencies above it are counted.
    pub threshold: Duration,
    /// Where the results go, too.
    pub out: Option<PathBuf>,
    /// How often.
    pub checkpoint: Duration,
    /// How often a line is written; `None`: as usual.
    pub stats_period: Option<Duration>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// What is searched for.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// One link, or two.
    pub links: Vec<LinkSpec>,
    /// What is sent, but for its rate.
    pub stream: Stream,
    /// The goals.
    pub goals: Vec<Goal>,
    /// Measure what comes at the highest rate, too, in trials of so long.
    pub mrr: Option<Duration>,
    /// Look for so long for the load that loses a ten millionth.
    pub soak: Option<Duration>,
    /// The lowest rate, in frames per second and direction.
    pub min_rate: f64,
    /// The highest; `None`: what the tester can send.
    pub max_rate: Option<f64>,
    /// How long stragglers are waited for.
    pub drain: Duration,
    /// How long nothing is done between trials.
    pub settle: Duration,
    /// The share of frames that may be late in a trial that counts.
    pub late_limit: f64,
    /// The most trials.
    pub trials: usize,
    /// How long the links' other side is waited for.
    pub link_limit: Duration,
    /// Where.
    pub pace: Pace,
    /// Where the results go, too.
    pub out: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// How RFC 2544 is followed.
#[derive(Clone, Debug)]
pub struct MethodPlan {
    /// One link, or two.
    pub links: Vec<LinkSpec>,
    /// What is sent, but for sizes and rates.
    pub stream: Stream,
    /// How.
    pub settings: MethodSettings,
    /// Puts a filter into the device.
    pub filter_command: Option<String>,
    /// Makes them 25.
    pub many_filters_command: Option<String>,
    /// Resets it.
    pub reset_command: Option<String>,
    /// What times tagged frames.
    pub clock: AskedClock,
    /// How long the links' other side is waited for.
    pub link_limit: Duration,
    /// Where.
    pub pace: Pace,
    /// How long the cores' noise is listened to before; zero: not at all.
    pub noise: Duration,
    /// Where the results go, too.
    pub out: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// What latency is measured beside.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// One link, or two.
    pub links: Vec<LinkSpec>,
    /// The probe.
    pub probe: Stream,
    /// The background, but for its rate.
    pub background: Stream,
    /// Its rates, in frames per second and direction; zero is none.
    pub rates: Vec<f64>,
    /// For how long at each.
    pub duration: Duration,
    /// For how long at those of this place, instead.
    pub durations: Vec<Duration>,
    /// How long stragglers are waited for.
    pub drain: Duration,
    /// The share of frames that may be late in a result that is valid.
    pub late_limit: f64,
    /// Latencies above it are counted.
    pub threshold: Duration,
    /// What times a probe.
    pub clock: AskedClock,
    /// How long the links' other side is waited for.
    pub link_limit: Duration,
    /// Where.
    pub pace: Pace,
    /// The folder for results and page.
    pub out: Option<PathBuf>,
    /// How often results are written on the way.
    pub checkpoint: Duration,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// The published measurement.
#[derive(Clone, Debug)]
pub struct ZeroLossPlan {
    /// To a forwarder elsewhere; none: one of ours is set up.
    pub links: Vec<LinkSpec>,
    /// What lies between, where one is set up.
    pub medium: Medium,
    /// What that does to frames.
    pub forwarder_mode: Mode,
    /// Where it runs.
    pub forwarder: Pace,
    /// The probe.
    pub probe: Stream,
    /// The background, but for its rate.
    pub background: Stream,
    /// That, in frames per second and direction.
    pub rate: f64,
    /// For how long without a background.
    pub alone: Duration,
    /// For how long with it.
    pub duration: Duration,
    /// How long noise is listened to before; zero: not at all.
    pub noise: Duration,
    /// How long stragglers are waited for.
    pub drain: Duration,
    /// The share of frames that may be late in a result that is valid.
    pub late_limit: f64,
    /// Latencies above it are counted.
    pub threshold: Duration,
    /// What times a probe.
    pub clock: AskedClock,
    /// How long the links' other side is waited for.
    pub link_limit: Duration,
    /// Where the tester runs.
    pub pace: Pace,
    /// The folder for results and page.
    pub out: Option<PathBuf>,
    /// How often results are written on the way.
    pub checkpoint: Duration,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// Devices that are compared.
#[derive(Clone, Debug)]
pub struct DevicesPlan {
    /// Which.
    pub devices: Vec<Device>,
    /// Bytes of frames, with the frame check sequence.
    pub size: u16,
    /// How long each trial is.
    pub duration: Duration,
    /// The most trials of a search.
    pub trials: u16,
    /// The share of frames that may be late in a trial that counts.
    pub late_limit: f64,
    /// Where the tester runs.
    pub core: Option<u16>,
    /// Where a device runs that is a process.
    pub device_core: Option<u16>,
    /// Where the results go, too.
    pub out: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// Settings of a device, one changed at a time.
#[derive(Clone, Debug)]
pub struct FactorsPlan {
    /// Which.
    pub factors: Vec<Factor>,
    /// The device; `None`: our forwarder.
    pub device_command: Option<String>,
    /// That one's options.
    pub device: Vec<String>,
    /// The tester's links, with places for values.
    pub links: Vec<String>,
    /// What is sent.
    pub stream: String,
    /// How often each point is measured.
    pub rounds: u32,
    /// For how long.
    pub duration: Duration,
    /// Where the tester runs.
    pub core: Option<u16>,
    /// Where the results go, too.
    pub out: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// What is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportPlan {
    /// Results.
    pub files: Vec<PathBuf>,
    /// The page; `None`: beside the first.
    pub out: Option<PathBuf>,
}

/// Does what was asked.
///
/// # Errors
/// What the user is to know.
pub fn packet(plan: PacketPlan) -> Result<ExitCode, Failure> {
    // What cannot be written is told before hours of frames, and not after them.
    plan.written().into_iter().flatten().try_for_each(results::expect_writable)?;
    match plan {
        PacketPlan::Forward(plan) => forward::forward(&plan),
        PacketPlan::Load(plan) => load::load(&plan),
        PacketPlan::Search(plan) => search::search(&plan),
        PacketPlan::Latency(plan) => latency::latency(&plan),
        PacketPlan::Rfc2544(plan) => rfc2544::rfc2544(&plan),
        PacketPlan::ZeroLoss(plan) => zero_loss::zero_loss(&plan),
        PacketPlan::Lab(plan) => lab::lab(&plan),
        PacketPlan::Sweep(plan) => sweep::sweep(&plan),
        PacketPlan::Report(plan) => pages::report(&plan),
    }
}
