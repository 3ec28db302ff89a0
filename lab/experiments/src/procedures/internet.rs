//! A flow over an emulated path, by turns with our stack and Linux's at its
//! ends.
//!
//! The path is in this process: between two TAPs, each in a network namespace
//! of its own, or between one and our stack. Both ways frames are as long as on
//! a wire.

mod flow;
mod kernel;

use super::sides::put;
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{Figure, Run};
use core::time::Duration;
use demo::machine::{find_program, is_root};
use flow::{Hub, Ours, Ran, drive};
use kernel::{Beside, Kernel, Role};
use link::{EmulatedPath, Impairment, Pair, PairConfig, Probability, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The path, and what goes over it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The bottleneck, in Mbit/s of Ethernet frames.
    pub mbit: u32,
    /// The round trip without queues, in milliseconds.
    pub rtt_ms: u32,
    /// The bottleneck's queue in kB, dropped at the tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_kb: Option<u32>,
    /// The same in packets. One bandwidth-delay product if neither is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
    /// Percent of frames that are lost on the way there.
    #[serde(default)]
    pub loss_percent: f64,
    /// Percent of frames that are held back there, for up to half a round trip.
    #[serde(default)]
    pub reorder_percent: f64,
    /// The longest packet that passes there, in bytes; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub black_hole: Option<u16>,
    /// What the flow carries, in MB.
    #[serde(default = "default_megabytes")]
    pub megabytes: u32,
    /// Congestion controls of Linux, as `TCP_CONGESTION` takes them. Ours is
    /// CUBIC.
    #[serde(default = "default_congestion")]
    pub congestion: Vec<String>,
    /// A flow of Linux's that starts with each and shares the bottleneck, by its congestion control;
    /// it goes on as long as the other. None if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

const fn default_megabytes() -> u32 {
    10
}

fn default_congestion() -> Vec<String> {
    vec!["cubic".to_owned(), "bbr".to_owned()]
}

/// Where Linux says which congestion controls it has.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A transfer that takes longer than at this rate is given up, after a while
/// that any may take.
const SLOWEST: u64 = 50_000;
const PATIENCE: Duration = Duration::from_secs(30);

const GOODPUT: &str = "goodput";

/// What the flow had ÷ what the one beside it had meanwhile.
const SHARE: &str = "of its neighbour's rate";

/// Who is at both ends of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Ends {
    /// Linux, with this congestion control, to Linux.
    Linux(String),
    /// Ours to Linux.
    OurSender,
    /// Linux, with this congestion control, to ours.
    OurReceiver(String),
}

impl Ends {
    fn name(&self) -> String {
        match self {
            Self::Linux(congestion) => format!("Linux {congestion} to Linux"),
            Self::OurSender => "Nearside cubic to Linux".to_owned(),
            Self::OurReceiver(congestion) => format!("Linux {congestion} to Nearside"),
        }
    }
}

/// The experiment.
#[derive(Debug)]
pub struct Internet {
    settings: Settings,
    ends: Vec<Ends>,
    available: String,
    missing: Option<String>,
}

impl Internet {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let percent = |share: f64| (0.0..=100.0).contains(&share);
        let good = (1..=10_000).contains(&settings.mbit)
            && settings.rtt_ms <= 10_000
            && percent(settings.loss_percent)
            && percent(settings.reorder_percent)
            && (1..=100_000).contains(&settings.megabytes)
            && !(settings.queue_kb.is_some() && settings.queue_packets.is_some())
            && settings.queue_kb.is_none_or(|kb| (2..=1_000_000).contains(&kb))
            && settings.queue_packets.is_none_or(|packets| (1..=1_000_000).contains(&packets))
            && settings.black_hole.is_none_or(|most| most >= 576)
            && !settings.congestion.is_empty()
            && settings.beside.as_ref().is_none_or(|name| !name.is_empty());
        if !good {
            return Err("internet: write 1 to 10,000 mbit, up to 10,000 rtt-ms, one of queue-kb from 2 and \
                        queue-packets from 1, percents from 0 to 100, a black-hole of 576 bytes or more, 1 to 100,000 \
                        megabytes and a congestion control or more; beside takes the name of one"
                .into());
        }
        let missing = match () {
            () if !is_root() => Some("TAPs in network namespaces need root".to_owned()),
            () if find_program("ip").is_none() => Some("ip is not installed (package iproute2)".to_owned()),
            () if !Path::new("/dev/net/tun").exists() => Some("there is no /dev/net/tun: modprobe tun".to_owned()),
            () => None,
        };
        let linux = settings.congestion.iter().cloned().map(Ends::Linux);
        // How a flow shares a path is its sender's doing.
        let receiver = settings.beside.is_none().then(|| Ends::OurReceiver(settings.congestion[0].clone()));
        Ok(Self {
            settings: settings.clone(),
            ends: linux.chain([Ends::OurSender]).chain(receiver).collect(),
            available: std::fs::read_to_string(AVAILABLE).unwrap_or_default(),
            missing,
        })
    }

    /// Whether this kernel has a congestion control.
    fn has(&self, name: &str) -> bool {
        self.available.split_whitespace().any(|has| has == name)
    }

    /// What happens to frames there, and back.
    fn impairments(&self) -> (Impairment, Impairment) {
        let settings = &self.settings;
        let delay = Duration::from_millis(u64::from(settings.rtt_ms)) / 2;
        let bytes_per_second = u64::from(settings.mbit) * 125_000;
        let product = bytes_per_second * u64::from(settings.rtt_ms) / 1_000;
        let queue_bytes = match (settings.queue_kb, settings.queue_packets) {
            (Some(kb), _) => u64::from(kb) * 1_000,
            (None, Some(_)) => u64::MAX,
            // Two full frames at least.
            (None, None) => product.max(3_028),
        };
        let there = Impairment {
            rate: Some(Rate { bytes_per_second, queue_bytes }),
            queue_frames: settings.queue_packets,
            longest_packet: settings.black_hole,
            loss: Probability::new(settings.loss_percent / 100.0),
            reorder: Probability::new(settings.reorder_percent / 100.0),
            reorder_by: delay,
            delay,
            ..Impairment::default()
        };
        (there, Impairment { delay, ..Impairment::default() })
    }

    fn transfer(&self, ends: &Ends, setting: &Setting) -> Result<Ran, Failure> {
        let bytes = u64::from(self.settings.megabytes) * 1_000_000;
        let limit = PATIENCE + Duration::from_secs(bytes / SLOWEST);
        let (there, back) = self.impairments();
        let pair = || Pair::new(PairConfig { ring: 4_096, ..PairConfig::default() });
        let until = |now: Duration| setting.interrupt.check().is_ok() && now < limit;
        if let Some(neighbour) = &self.settings.beside {
            return self.transfer_beside(ends, neighbour, setting, until);
        }
        // The near end is one that can be slept on: a kernel's.
        match ends {
            Ends::Linux(congestion) => {
                let (receiver, far) = Kernel::start("to", Role::Receiver { bytes, beside: None })?;
                let (sender, near) = Kernel::start("from", Role::Sender { bytes, congestion: congestion.clone() })?;
                let path = EmulatedPath::new(near, far, there, back, setting.seed);
                let ran = drive(path, None, |_| receiver.is_done(), until, |_| false, false)?;
                receiver.end()?;
                sender.end()?;
                Ok(ran)
            }
            Ends::OurSender => {
                let (receiver, near) = Kernel::start("to", Role::Receiver { bytes, beside: None })?;
                let (far, own) = pair();
                let ours = Ours::sender(own, bytes, setting.seed);
                let path = EmulatedPath::new(near, far, back, there, setting.seed);
                let ran = drive(path, Some(ours), |_| receiver.is_done(), until, |_| false, true)?;
                receiver.end()?;
                Ok(ran)
            }
            Ends::OurReceiver(congestion) => {
                let (far, own) = pair();
                let ours = Ours::receiver(own, bytes, setting.seed);
                let (sender, near) = Kernel::start("from", Role::Sender { bytes, congestion: congestion.clone() })?;
                let path = EmulatedPath::new(near, far, there, back, setting.seed);
                let ran = drive(path, Some(ours), |ours| ours.is_some_and(Ours::is_done), until, |_| false, false)?;
                sender.end()?;
                Ok(ran)
            }
        }
    }

    /// A sender, and a neighbour of Linux's that starts with it, meet before the path; both send to one
    /// receiver of Linux's.
    fn transfer_beside(
        &self,
        ends: &Ends,
        neighbour: &str,
        setting: &Setting,
        until: impl Fn(Duration) -> bool,
    ) -> Result<Ran, Failure> {
        let bytes = u64::from(self.settings.megabytes) * 1_000_000;
        let (there, back) = self.impairments();
        let pair = || Pair::new(PairConfig { ring: 4_096, ..PairConfig::default() });
        let beside = Beside::default();
        let (receiver, near) = Kernel::start("to", Role::Receiver { bytes, beside: Some(beside.clone()) })?;
        let (far, trunk) = pair();
        let path = EmulatedPath::new(near, far, back, there, setting.seed);
        let role = Role::Neighbour { congestion: neighbour.to_owned(), beside: beside.clone() };
        let (other, tap) = Kernel::start("by", role)?;
        let done = |_: Option<&Ours>| receiver.is_done();
        let counted = |ran: Result<Ran, Failure>| {
            let received = beside.received.load(Ordering::Acquire);
            beside.over.store(true, Ordering::Release);
            ran.map(|ran| Ran { beside: Some(received), ..ran })
        };
        let (sender, ran) = match ends {
            Ends::Linux(congestion) => {
                let (sender, one) = Kernel::start("from", Role::Sender { bytes, congestion: congestion.clone() })?;
                let mut hub = Hub::new(trunk, one, tap);
                (Some(sender), counted(drive(path, None, done, until, |now| hub.turn(now), true)))
            }
            Ends::OurSender | Ends::OurReceiver(_) => {
                let (one, own) = pair();
                let ours = Ours::sender(own, bytes, setting.seed);
                let mut hub = Hub::new(trunk, one, tap);
                (None, counted(drive(path, Some(ours), done, until, |now| hub.turn(now), true)))
            }
        };
        let ran = ran?;
        receiver.end()?;
        sender.map_or(Ok(()), Kernel::end)?;
        other.end()?;
        Ok(ran)
    }
}

/// What is said of a congestion control that this kernel has not.
fn lacks(name: &str) -> String {
    format!("this kernel has no {name}: modprobe tcp_{name}")
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Internet::new(self)?))
    }
}

impl Procedure for Internet {
    fn arms(&self) -> Vec<Arm> {
        let Settings { mbit, rtt_ms, queue_kb, queue_packets, loss_percent, reorder_percent, black_hole, .. } =
            &self.settings;
        let queue = match (queue_kb, queue_packets) {
            (Some(kb), _) => format!("{kb} kB"),
            (None, Some(packets)) => format!("{packets} packets"),
            (None, None) => "one bandwidth-delay product".to_owned(),
        };
        let mut conditions = BTreeMap::from([
            ("path".to_owned(), format!("{mbit} Mbit/s, {rtt_ms} ms, a queue of {queue}")),
            ("loss".to_owned(), format!("{loss_percent} %")),
            ("reordering".to_owned(), format!("{reorder_percent} %")),
            ("bytes".to_owned(), format!("{} MB", self.settings.megabytes)),
        ]);
        if let Some(name) = &self.settings.beside {
            conditions.insert("beside".to_owned(), format!("a flow of Linux {name}, which starts with it"));
        }
        if let Some(most) = black_hole {
            conditions.insert("black hole".to_owned(), format!("beyond {most} bytes"));
        }
        let left_out = |ends: &Ends| match ends {
            _ if self.missing.is_some() => self.missing.clone(),
            Ends::Linux(name) | Ends::OurReceiver(name) if !self.has(name) => Some(lacks(name)),
            _ => self.settings.beside.as_ref().filter(|name| !self.has(name)).map(|name| lacks(name)),
        };
        let arm = |ends: &Ends| Arm { name: ends.name(), conditions: conditions.clone(), left_out: left_out(ends) };
        self.ends.iter().map(arm).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::higher(GOODPUT, "Mbit/s"),
            Figure::lower("drops", "frames"),
            Figure::lower("mean queue", "kB"),
            Figure::plain("frames there", "per MB"),
            Figure::plain("late", "ms at most"),
            Figure::plain(SHARE, "1 is as much"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "Goodput: from the start of all, the handshake with it, to the last byte received.".to_owned(),
            "Late: the longest that the path was not looked after; as much may be in a round trip.".to_owned(),
            "Of its neighbour's rate: what the flow had carried by its end ÷ what the flow beside it had by then; \
             where there is one (beside)."
                .to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let ran = self.transfer(&self.ends[arm].clone(), setting)?;
        let mut run = Run::default();
        let seconds = ran.took.as_secs_f64();
        let megabytes = f64::from(self.settings.megabytes);
        put(&mut run.figures, GOODPUT, megabytes * 8.0 / seconds);
        put(&mut run.figures, "drops", ran.there.queue_dropped as f64);
        put(&mut run.figures, "mean queue", ran.there.queued as f64 / ran.took.as_nanos() as f64 / 1e3);
        put(&mut run.figures, "frames there", ran.there.entered as f64 / megabytes);
        put(&mut run.figures, "late", ran.late.as_secs_f64() * 1e3);
        if let Some(beside) = ran.beside {
            put(&mut run.figures, SHARE, megabytes * 1e6 / beside as f64);
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    fn settings() -> Settings {
        Settings {
            mbit: 50,
            rtt_ms: 10,
            queue_kb: None,
            queue_packets: None,
            loss_percent: 0.0,
            reorder_percent: 0.0,
            black_hole: None,
            megabytes: 1,
            congestion: vec!["cubic".to_owned()],
            beside: None,
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for bad in [
            Settings { mbit: 0, ..settings() },
            Settings { queue_kb: Some(10), queue_packets: Some(10), ..settings() },
            Settings { loss_percent: f64::NAN, ..settings() },
            Settings { reorder_percent: 101.0, ..settings() },
            Settings { black_hole: Some(40), ..settings() },
            Settings { megabytes: 0, ..settings() },
            Settings { congestion: Vec::new(), ..settings() },
            Settings { beside: Some(String::new()), ..settings() },
        ] {
            assert!(Internet::new(&bad).is_err(), "{bad:?}");
        }
    }

    /// The bottleneck is on the way of the data, and its queue what was asked
    /// for, or one bandwidth-delay product.
    #[test]
    fn the_path_is_what_was_asked_for() {
        let of = |settings: Settings| Internet::new(&settings).expect("they make sense").impairments();
        let (there, back) = of(settings());
        let rate = there.rate.expect("a bottleneck");
        assert_eq!((rate.bytes_per_second, rate.queue_bytes, there.queue_frames), (6_250_000, 62_500, None));
        assert_eq!((there.delay + back.delay, back.rate), (Duration::from_millis(10), None));
        let (there, _) = of(Settings { queue_packets: Some(20), ..settings() });
        assert_eq!((there.rate.map(|rate| rate.queue_bytes), there.queue_frames), (Some(u64::MAX), Some(20)));
    }

    /// What the machine lacks is said for each arm.
    #[test]
    fn a_congestion_control_that_is_not_there_leaves_its_rows_out() {
        let settings = Settings { congestion: vec!["no-such".to_owned()], ..settings() };
        let arms = Internet::new(&settings).expect("they make sense").arms();
        let left: Vec<bool> = arms.iter().map(|arm| arm.left_out.is_some()).collect();
        let ours = !is_root() || !Path::new("/dev/net/tun").exists() || find_program("ip").is_none();
        assert_eq!(left, [true, ours, true], "{arms:?}");
    }

    /// The namespaces of a path have their names of the process: one test at a time.
    static PATH: Mutex<()> = Mutex::new(());

    /// A transfer of each kind; none where this user may make no namespaces and TAPs.
    fn transfers(procedure: &Internet) -> Vec<(Ends, Ran)> {
        let _path = PATH.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &procedure.missing {
            eprintln!("left out: {why}");
            return Vec::new();
        }
        let interrupt = demo::child::Interrupt::of(std::sync::Arc::default());
        let progress = crate::procedure::Progress::default();
        let setting = Setting { seed: 7, interrupt: &interrupt, progress: &progress };
        let ran = |ends: &Ends| procedure.transfer(ends, &setting).unwrap_or_else(|why| panic!("{ends:?}: {why}"));
        procedure.ends.iter().map(|ends| (ends.clone(), ran(ends))).collect()
    }

    /// A flow beside another: both carry something, by Linux's sender and by ours.
    #[test]
    fn flows_share_the_path_with_a_neighbour() {
        let all = Settings { beside: Some("cubic".to_owned()), megabytes: 2, ..settings() };
        let procedure = Internet::new(&all).expect("they make sense");
        assert_eq!(procedure.ends, [Ends::Linux("cubic".to_owned()), Ends::OurSender]);
        let lacking = Internet::new(&Settings { beside: Some("no-such".to_owned()), ..all }).expect("they make sense");
        assert!(lacking.arms().iter().all(|arm| arm.left_out.is_some()));
        for (ends, ran) in transfers(&procedure) {
            let beside = ran.beside.expect("there is one");
            // What passes is both's: the bottleneck is theirs together.
            let least = (2_000_000 + beside) / 1_448;
            assert!(beside > 0 && ran.there.passed >= least, "{ends:?}: {beside}, {:?}", ran.there);
        }
    }

    /// A transfer of each kind, where this user may make namespaces and TAPs.
    #[test]
    fn flows_go_over_the_path_both_ways() {
        let procedure = Internet::new(&settings()).expect("they make sense");
        for (ends, ran) in transfers(&procedure) {
            // At 50 Mbit/s 1 MB takes 160 ms at least.
            assert!(ran.took >= Duration::from_millis(160), "{ends:?}: {:?}", ran.took);
            assert!(ran.there.passed >= 690, "{ends:?}: {:?}", ran.there);
        }
    }
}
