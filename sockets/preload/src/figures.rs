//! What a worker tells of itself on the keeper's statistics page.

use core::time::Duration;
use cpu::Clock;
use link::Counters;
use page::Writer;
use posix::SocketTable;
use sharing::PassingCounters;
use stack::Stack;
use wire::Time;

/// A program that computes for so long without a call keeps its clients waiting.
const LONG_GAP: Duration = Duration::from_millis(1);

/// What a worker counts of itself.
#[derive(Clone, Copy, Default)]
pub struct Counted {
    /// Calls that concerned connections and sets of ours.
    pub calls: u64,
    /// Turns that were taken.
    pub turns: u64,
    /// Between two turns while the program computed: the longest.
    longest_gap: Duration,
    /// How often it was long.
    long_gaps: u64,
}

impl Counted {
    /// A turn begins, so long after the last turn or sleep.
    #[inline]
    pub fn on_turn(&mut self, gap: Duration) {
        self.turns += 1;
        if gap > self.longest_gap {
            self.longest_gap = gap;
        }
        self.long_gaps += u64::from(gap > LONG_GAP);
    }
}

/// What there is to be told.
pub struct Told<'a> {
    pub counted: &'a Counted,
    pub link: (bool, Counters),
    pub stack: &'a Stack,
    pub table: &'a SocketTable,
    pub passing: &'a PassingCounters,
}

impl Told<'_> {
    /// Tells every value by its layer and name.
    fn each(&self, take: &mut dyn FnMut(&'static str, &'static str, u64)) {
        let Self { counted, link: (is_up, link), stack, table, passing } = self;
        take("program", "pid", u64::from(std::process::id()));
        take("program", "calls", counted.calls);
        let longest = u64::try_from(counted.longest_gap.as_nanos()).unwrap_or(u64::MAX);
        take("program", "longest_gap_ns", longest);
        take("program", "gaps_over_1ms", counted.long_gaps);
        take("silo", "turns", counted.turns);
        take("link", "up", u64::from(*is_up));
        link.iter().for_each(|(name, value)| take("link", name, value));
        stack.values().for_each(|(layer, name, value)| take(layer, name, value));
        table.figures().iter().for_each(|(name, value)| take("sockets", name, value));
        table.options_without_effect().for_each(|(name, value)| take("without_effect", name, value));
        passing.iter().for_each(|(name, value)| take("seats", name, value));
    }
}

/// What is to be said of frames that were lost between workers, if any were.
pub fn losses(passing: &PassingCounters) -> Option<String> {
    let PassingCounters { ring_full, limited, nonsense, passed, .. } = *passing;
    (ring_full + limited + nonsense > 0).then(|| {
        format!(
            "process {} lost frames between workers: {ring_full} of {passed} that were another's, for its ring was \
             full; {limited} were not told to all; {nonsense} rings held nonsense",
            std::process::id()
        )
    })
}

/// The worker's column of the page.
pub struct Column {
    writer: Writer,
    /// The names of the page's values.
    names: Vec<String>,
    /// Where each value goes, in the order in which they are told; empty before the first time.
    places: Vec<Option<usize>>,
    values: Vec<u64>,
}

impl Column {
    pub fn new((writer, names): (Writer, Vec<String>)) -> Self {
        let values = vec![0; names.len()];
        Self { writer, names, places: Vec::new(), values }
    }

    /// Whether it is time to publish.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.writer.is_due(now)
    }

    /// Publishes the values, and answers who asks for connections.
    #[cold]
    #[inline(never)]
    pub fn publish(&mut self, now: Time, told: &Told<'_>) {
        if self.places.is_empty() {
            // The keeper may be of another version: what it does not know is told nowhere.
            let (names, places) = (&self.names, &mut self.places);
            told.each(&mut |layer, name, _| {
                let is_it = |known: &String| {
                    known.strip_prefix(layer).and_then(|rest| rest.strip_prefix('.')).is_some_and(|rest| rest == name)
                };
                places.push(names.iter().position(is_it));
            });
        }
        let (values, mut places) = (&mut self.values, self.places.iter());
        told.each(&mut |_, _, value| {
            if let Some(Some(place)) = places.next()
                && let Some(word) = values.get_mut(*place)
            {
                *word = value;
            }
        });
        self.writer.publish(now, &self.values);
        if let Some(question) = self.writer.asked(now) {
            let (stack, most) = (told.stack, self.writer.most_samples());
            self.writer.answer(
                || Clock.now(),
                question,
                stack.connections() as u64,
                |give| {
                    stack.sample(most, question as usize, &mut |sample| give(&sample.words()));
                },
            );
        }
    }
}
