//! The statistics page of a program that runs on our stack: a column for each seat, which the worker
//! there fills.

use cpu::Clock;
use page::{Metric, MetricKind, Page, PageError, PageShape, SampleShape, SeriesShape, Writer};
use posix::{Defaults, SocketTable};
use say::Failure;
use seats::WORKER_VALUES;
use sharing::PassingCounters;
use stack::{Config, LinkOffload, SAMPLE_WORDS, Seeds, Stack};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::{Mac, Time};

/// Connections that a worker tells of when it is asked.
const SAMPLES: SampleShape = SampleShape { count: 256, words: SAMPLE_WORDS };

/// Values of a stack that go up and down.
const GAUGES: [&str; 3] = ["stack.connections", "stack.half_open", "stack.receive_memory_bytes"];

/// Of a stack that never runs.
const NO_SEEDS: Seeds = Seeds { table: [0; 4], secret: [0; 4], timestamps: [0; 2] };

/// The page, and what clears a column whose worker is gone.
pub(crate) struct Board {
    /// Removed from its place at the end.
    #[expect(dead_code, reason = "what is there as long as this is")]
    page: Page,
    file: OwnedFd,
    columns: Vec<Writer>,
    values: usize,
}

impl Board {
    /// Makes the page of a program with so many seats.
    pub fn new(program: &str, seats: usize) -> Result<Self, Failure> {
        let metrics = metrics();
        let shape = PageShape { silos: seats, series: SeriesShape::default(), samples: SAMPLES };
        let fail = |why: PageError| Failure::from(format!("the statistics page: {why}"));
        let (page, columns, file, hidden) =
            Page::create_shared(&format!("run {program}"), Clock.unix(), &metrics, shape).map_err(fail)?;
        if let Some(why) = hidden {
            say::warning(format_args!("`nearside status` does not see this program: statistics page: {why}"));
        }
        Ok(Self { page, file, columns, values: metrics.len() })
    }

    /// The process of a seat is gone, whatever it told.
    pub fn clear(&mut self, seat: usize) {
        if let Some(column) = self.columns.get_mut(seat) {
            column.publish(Clock.now(), &vec![0; self.values]);
            column.answer(|| Clock.now(), 0, 0, |_| {});
        }
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What a worker tells, by name.
fn metrics() -> Vec<Metric> {
    // One that is never used tells the names as well as any.
    let stack = Stack::new(Config::new(Mac::BROADCAST, 1_500), LinkOffload::default(), &NO_SEEDS, Time::ZERO);
    let table = SocketTable::new(Defaults::default());
    let of = |layer: &'static str| move |(name, _): (&'static str, u64)| format!("{layer}.{name}");
    let names = WORKER_VALUES.iter().map(|(name, _)| (*name).to_owned());
    let names = names
        .chain(link::Counters::default().iter().map(of("link")))
        .chain(stack.values().map(|(layer, name, _)| format!("{layer}.{name}")))
        .chain(table.figures().iter().map(of("sockets")))
        .chain(table.options_without_effect().map(of("without_effect")))
        .chain(PassingCounters::default().iter().map(of("seats")));
    let is_gauge = |name: &str| {
        GAUGES.contains(&name) || WORKER_VALUES.iter().any(|(known, is_gauge)| *is_gauge && *known == name)
    };
    // The page keeps names for as long as the process lives.
    names
        .map(|name| Metric {
            kind: if is_gauge(&name) { MetricKind::Gauge } else { MetricKind::Counter },
            name: name.leak(),
        })
        .collect()
}
