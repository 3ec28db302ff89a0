//! What a run is like.

use control::Gone;
use core::time::Duration;
use random::SplitMix64;

/// How something dies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Death {
    /// The process, and whoever started it knows how.
    Process(Gone),
    /// All that is there, and nobody is told.
    Machine,
}

/// What a run is like.
pub struct Setting {
    pub workers: u32,
    /// The longest way of a message, in microseconds.
    pub delay: u64,
    /// Of a thousand messages, those lost, and those that come twice.
    pub lost: u64,
    pub twice: u64,
    /// Breaks of connections, one after the other.
    pub breaks: u32,
    pub death: Option<(u32, Death)>,
    /// The earliest of it, in milliseconds.
    pub dies_after: u64,
    /// When the controller dies, and when another takes its place.
    pub controller: Option<(Duration, Option<Duration>)>,
    pub strangers: u32,
    /// Whether workers say at once that they measured something else.
    pub liars: bool,
}

impl Setting {
    pub fn quiet(workers: u32) -> Self {
        let (delay, lost, twice, breaks) = (300, 0, 0, 0);
        Self {
            workers,
            delay,
            lost,
            twice,
            breaks,
            death: None,
            dies_after: 0,
            controller: None,
            strangers: 0,
            liars: false,
        }
    }

    pub fn wild(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x77);
        let mut setting = Self::quiet(1 + random.below(6) as u32);
        setting.delay = [300, 5_000, 40_000, 300_000][random.below(4)];
        setting.lost = [0, 0, 5, 60][random.below(4)];
        setting.twice = [0, 200][random.below(2)];
        setting.breaks = [0, 0, 1, 3][random.below(4)];
        setting.strangers = random.below(4) as u32;
        if random.below(3) == 0 {
            let deaths = [Death::Machine, Death::Process(Gone::Signal(9)), Death::Process(Gone::OutOfMemory)];
            setting.death = Some((random.below(setting.workers as usize) as u32, deaths[random.below(3)]));
        }
        if random.below(4) == 0 {
            let at = Duration::from_millis(random.up_to(16_000));
            let again = (random.below(8) > 0).then(|| at + Duration::from_millis(50 + random.up_to(2_000)));
            setting.controller = Some((at, again));
        }
        setting
    }
}
