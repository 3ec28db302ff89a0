//! `nearside packet rfc2544`, as typed.

use super::{ClockArgs, PortArgs, TesterArgs, percent};
use clap::{Args, ValueHint};
use host::values::{duration, nonzero_duration};
use packet::modifiers::Managed;
use packet::rfc2544::{Condition, Repeated, Settings, Test};
use packet::spec::{IntendedLoad, Spec};
use packet::stream::Shape;
use packet::tester::{Pacing, Stream};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use testbed::MethodPlan;

#[derive(Args)]
pub(in crate::args::flags) struct Rfc2544Args {
    #[command(flatten)]
    ports: PortArgs,

    /// What is measured, in place of all: throughput, latency, loss, back-to-back, recovery, reset
    #[arg(long, value_name = "TEST,…", value_delimiter = ',')]
    test: Vec<Test>,

    /// Frame sizes, with the frame check sequence [default: 64,128,256,512,1024,1280,1518]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(64..=9018))]
    sizes: Vec<u16>,

    /// A look of minutes: three sizes, short trials, few of them; the verdict says what that leaves out
    #[arg(long)]
    quick: bool,

    /// What the medium carries, as in 10Gbit [default: what the tester can send stands in its place]
    #[arg(long, value_name = "RATE", value_parser = line_rate)]
    line_rate: Option<f64>,

    /// Trials of this long for throughput and loss (RFC 2544 section 24: 60 s)
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    trial: Option<Duration>,

    /// Latency: trials of this long (section 26.2: 120 s)
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    latency_trial: Option<Duration>,

    /// Latency: so many trials (section 26.2: 20)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    latency_times: Option<u32>,

    /// Bursts of at most this long (section 26.4: 2 s)
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    burst: Option<Duration>,

    /// So many searches for the longest burst (section 26.4: 50)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    burst_times: Option<u32>,

    /// Recovery: an overload of this long, and as long after it (section 26.5: 60 s)
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    overload: Option<Duration>,

    /// Measure again with destinations drawn from 256 networks (section 12)
    #[arg(long)]
    networks: bool,

    /// Measure again with a broadcast as every hundredth frame (section 11.1)
    #[arg(long)]
    broadcast: bool,

    /// Measure again while the device at this address is asked for its sysUpTime each second (section 11.2)
    ///
    /// By SNMP version 1, in the place of the first frame of each second. Two addresses: of the device at the
    /// first port, and at the second.
    #[arg(long, value_name = "ADDRESS[,ADDRESS]", value_delimiter = ',')]
    management: Vec<IpAddr>,

    /// The community of those queries
    #[arg(long, value_name = "NAME", default_value = "public", requires = "management")]
    community: String,

    /// Measure again while RIP updates change routes to networks beside the test's, every 30 s (section 11.3)
    ///
    /// Routers that speak RIP take them: only where nobody else is (RFC 6815). The networks are in 198.18.0.0/15
    /// (IPv6: 2001:2::/48).
    #[arg(long)]
    routing: bool,

    /// A command that puts one filter into the device, which permits the test's frames: measure again with it
    /// (section 11.4)
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    filter_command: Option<String>,

    /// A command that makes them 25, of which the last permits the test's frames: measure again with them
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    many_filters_command: Option<String>,

    /// A command that resets the device (section 26.6); it may take two minutes
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    reset_command: Option<String>,

    /// The lowest rate, in frames per second and direction
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = IntendedLoad::parse)]
    min_rate: IntendedLoad,

    /// How near the throughput's bounds are in the end [default: 0.5%]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    width: Option<f64>,

    /// Let the device settle between trials (section 23: five seconds)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    settle: Option<Duration>,

    /// A trial of which the tester sent more than this share late, or not at all, is repeated, and then INVALID
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent)]
    late_limit: f64,

    /// What frames are like but for size and rate: key=value,…, as nearside packet load has them
    #[arg(long, value_name = "KEYS", value_parser = keys)]
    stream: Option<Spec>,

    /// Listen to the noise on the tester's cores (--core) for this long before; 0s: not at all
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    noise: Duration,

    #[command(flatten)]
    tester: TesterArgs,

    #[command(flatten)]
    clock: ClockArgs,

    /// Keep results and all trials in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the result to this file, as one page of HTML: verdict, figures, curves, and the result in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Bits per second.
fn line_rate(text: &str) -> Result<f64, String> {
    match IntendedLoad::parse(text) {
        Ok(IntendedLoad::Bits(bits)) => Ok(bits),
        _ => Err("write bits per second, as in 10Gbit".to_owned()),
    }
}

/// A stream without its size, which the method chooses.
fn keys(text: &str) -> Result<Spec, String> {
    // The largest headers have room in it.
    Spec::parse(&format!("128,{text}"))
}

impl Rfc2544Args {
    pub(super) fn plan(self) -> Result<MethodPlan, String> {
        let links = self.ports.plan(driver::Role::Client)?;
        let spec = match &self.stream {
            Some(spec) => spec.clone(),
            None => Spec::parse("64")?,
        };
        let ways = spec.ways.unwrap_or([true, links.len() > 1]);
        if ways[1] && links.len() < 2 {
            return Err("with one link there is one direction".to_owned());
        }
        let mut settings = if self.quick { Settings::quick() } else { Settings::default() };
        self.what(&mut settings, spec.shape.smallest())?;
        self.how(&mut settings)?;
        settings.managed = self.managed(&spec.shape)?;
        let stream = Stream { name: "load".to_owned(), shape: spec.shape, pacing: Pacing::Max, ways };
        Ok(MethodPlan {
            links,
            stream,
            settings,
            filter_command: self.filter_command,
            many_filters_command: self.many_filters_command,
            reset_command: self.reset_command,
            clock: self.clock.asked(),
            link_limit: self.tester.link_limit,
            pace: self.tester.pace(),
            noise: self.noise,
            out: self.out,
            html: self.html,
            json: self.json,
        })
    }

    /// Sizes, tests and conditions.
    fn what(&self, settings: &mut Settings, least: u16) -> Result<(), String> {
        if !self.sizes.is_empty() {
            settings.sizes.clone_from(&self.sizes);
            settings.sizes.sort_unstable();
            settings.sizes.dedup();
        }
        settings.sizes.retain(|size| *size >= least);
        if settings.sizes.is_empty() {
            return Err(format!("--sizes: headers and mark take {least} bytes at least"));
        }
        let wanted = |test: &Test| self.test.is_empty() || self.test.contains(test);
        settings.tests = Test::ALL.into_iter().filter(wanted).collect();
        // Whoever asks for what rests on the throughput gets that, too.
        if !settings.tests.contains(&Test::Throughput) && settings.tests != [Test::Loss] {
            settings.tests.insert(0, Test::Throughput);
        }
        if self.reset_command.is_none() {
            if self.test.contains(&Test::Reset) {
                return Err("--test reset needs --reset-command".to_owned());
            }
            settings.tests.retain(|test| *test != Test::Reset);
        }
        let conditions = [
            (true, Condition::Plain),
            (self.networks, Condition::Networks),
            (self.broadcast, Condition::Broadcast),
            (!self.management.is_empty(), Condition::Management),
            (self.routing, Condition::Routing),
            // Last: nobody takes filters out of the device.
            (self.filter_command.is_some(), Condition::Filters),
            (self.many_filters_command.is_some(), Condition::ManyFilters),
        ];
        settings.conditions =
            conditions.into_iter().filter_map(|(asked, condition)| asked.then_some(condition)).collect();
        Ok(())
    }

    /// The device that is asked.
    fn managed(&self, shape: &Shape) -> Result<Option<Managed>, String> {
        let addresses = match self.management.as_slice() {
            [] => return Ok(None),
            [one] => [*one; 2],
            [one, other] => [*one, *other],
            _ => return Err("--management: a device has one address, or one at each port".to_owned()),
        };
        let managed = Managed { addresses, community: self.community.clone() };
        managed.check(shape).map_err(|why| format!("--management: {why}"))?;
        Ok(Some(managed))
    }

    /// Times, rates and bounds.
    fn how(&self, settings: &mut Settings) -> Result<(), String> {
        settings.line_rate = self.line_rate;
        settings.min_rate = match self.min_rate.pacing(64.0, 1)? {
            Pacing::Rate { milli, .. } => milli as f64 / 1e3,
            _ => return Err("--min-rate is a rate".to_owned()),
        };
        settings.width = self.width.unwrap_or(settings.width);
        if settings.width < 1e-4 {
            return Err("--width is at least 0.01%".to_owned());
        }
        let set = |place: &mut f64, asked: Option<Duration>| {
            if let Some(asked) = asked {
                *place = asked.as_secs_f64();
            }
        };
        set(&mut settings.throughput, self.trial);
        set(&mut settings.loss, self.trial);
        set(&mut settings.settle, self.settle);
        repeated(&mut settings.latency, self.latency_trial, self.latency_times);
        repeated(&mut settings.bursts, self.burst, self.burst_times);
        repeated(&mut settings.recovery, self.overload, None);
        let drain = self.tester.drain.as_secs_f64();
        settings.drain = if self.quick { settings.drain.min(drain) } else { drain };
        settings.late_limit = self.late_limit;
        Ok(())
    }
}

fn repeated(place: &mut Repeated, seconds: Option<Duration>, times: Option<u32>) {
    if let Some(seconds) = seconds {
        place.seconds = seconds.as_secs_f64();
    }
    place.times = times.unwrap_or(place.times);
}
