//! What a run is like.

use core::time::Duration;
use random::SplitMix64;

/// What goes wrong beside the API server and controllers, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// A worker is killed; or memory runs out there.
    Killed { out_of_memory: bool },
    /// The pod of a worker is deleted.
    Deleted,
    /// The machine of a worker stands still.
    Node,
    /// The test's Job is deleted, or its Secret; or the Lease of the target.
    Object(&'static str),
}

/// When a controller dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerDeath {
    /// At its call of this number: before it is sent, or before its answer comes.
    AtCall(u32, bool),
    /// So long after it began.
    After(Duration),
}

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Setting {
    pub workers: u32,
    pub tests: usize,
    /// Of a thousand calls, those that are refused, lost, not answered, and done twice: each of them.
    pub trouble: u64,
    /// The longest that an answer takes, in milliseconds.
    pub delay: u64,
    /// From when on the API server is away, and for how long.
    pub outage: Option<(Duration, Duration)>,
    /// When the first test's controller dies, each time it does so, and how much later another begins, if one does.
    pub deaths: Vec<(ControllerDeath, Option<Duration>)>,
    pub fault: Fault,
    /// When, and of which worker.
    pub fault_at: (Duration, u32),
}

impl Setting {
    pub fn quiet(workers: u32) -> Self {
        Self {
            workers,
            tests: 1,
            trouble: 0,
            delay: 20,
            outage: None,
            deaths: Vec::new(),
            fault: Fault::None,
            fault_at: (Duration::ZERO, 0),
        }
    }

    pub fn wild(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x5eed);
        let mut setting = Self::quiet(1 + random.below(4) as u32);
        setting.tests = 1 + random.below(2);
        setting.trouble = [0, 20, 80][random.below(3)];
        setting.delay = [20, 300, 1_500][random.below(3)];
        if random.below(4) == 0 {
            let span = Duration::from_millis(500 + random.up_to(4_500));
            setting.outage = Some((Duration::from_millis(random.up_to(20_000)), span));
        }
        for _ in 0..[0, 0, 1, 1, 2][random.below(5)] {
            let death = match random.below(2) {
                0 => ControllerDeath::AtCall(random.below(24) as u32, random.below(2) == 0),
                _ => ControllerDeath::After(Duration::from_millis(random.up_to(14_000))),
            };
            let again = (random.below(8) > 0).then(|| Duration::from_millis(50 + random.up_to(15_000)));
            setting.deaths.push((death, again));
        }
        setting.fault = match random.below(12) {
            0 => Fault::Killed { out_of_memory: false },
            1 => Fault::Killed { out_of_memory: true },
            2 => Fault::Deleted,
            3 => Fault::Node,
            4 => Fault::Object("jobs/"),
            5 => Fault::Object("secrets/"),
            6 => Fault::Object("leases/"),
            _ => Fault::None,
        };
        setting.fault_at = (Duration::from_millis(random.up_to(14_000)), random.below(4) as u32 % setting.workers);
        setting
    }
}
