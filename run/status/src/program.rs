//! What a page tells of a program that runs on our stack (`nearside run`): a silo is a worker's seat.

use page::{Reader, SiloSnapshot};

/// The value that says which process has a seat; 0: none.
pub(super) const PROCESS: &str = "program.pid";

/// Values of which the largest counts, and not the sum.
pub(super) const IS_LONGEST: [&str; 1] = ["program.longest_gap_ns"];

/// What a column of a page is called.
pub(super) const fn what_is_a_silo(program: Option<&Program>) -> &'static str {
    if program.is_some() { "seat" } else { "silo" }
}

/// Where the page has what is the program's.
#[derive(Debug)]
pub(super) struct Program {
    process: usize,
    calls: Option<usize>,
    exchanges: Option<usize>,
}

impl Program {
    /// `None` for a page that is of no program.
    pub fn of(reader: &Reader) -> Option<Self> {
        let place = |name: &str| reader.metrics().iter().position(|(known, _)| known == name);
        Some(Self { process: place(PROCESS)?, calls: place("program.calls"), exchanges: place("sockets.exchanges") })
    }

    /// The process that has a seat.
    pub fn process(&self, seat: &SiloSnapshot) -> Option<u32> {
        let process = seat.values.get(self.process).copied()?;
        u32::try_from(process).ok().filter(|process| *process != 0)
    }

    /// Calls for each exchange, of all workers that are there; `None` before the first.
    pub fn calls_per_exchange(&self, seats: &[SiloSnapshot]) -> Option<f64> {
        let sum = |place: Option<usize>| {
            let values = seats.iter().filter_map(|seat| seat.values.get(place?));
            values.fold(0_u64, |sum, value| sum.wrapping_add(*value))
        };
        let (calls, exchanges) = (sum(self.calls), sum(self.exchanges));
        (exchanges > 0).then(|| calls as f64 / exchanges as f64)
    }
}
