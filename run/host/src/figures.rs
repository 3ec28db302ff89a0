//! What silos, and workers over kernel sockets, publish on their statistics
//! page.

use crate::arrivals::Arrivals;
use crate::plan::HostPlan;
use crate::published::Take;
use crate::{Layout, Port, SiloPlace, names};
use core::sync::atomic::AtomicU64;
use cpu::Clock;
use latency::{SERIES_MAX, SeriesMemory, SeriesTable, SeriesWords, WORDS};
use link::{Counters, LinkState};
use page::{Metric, MetricKind, Page, PageError, PageShape, SampleShape, SeriesArea, SeriesShape, SiloWords, Writer};
use say::Failure;
use server::Server;
use silo::{Silo, Usage};
use sockets::Worker;
use stack::{LinkOffload, SAMPLE_WORDS, Seeds, Stack};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use wire::Time;

/// Values that go up and down; all others only grow.
const GAUGES: [&str; 20] = [
    "silo.pinned",
    "silo.core",
    "silo.domain",
    "stack.connections",
    "stack.half_open",
    "stack.receive_memory_bytes",
    "link.up",
    "link.lost",
    "link.takeover_wait_ns",
    "app.block_bytes",
    "app.cache_bytes",
    "app.cache_entries",
    "app.cache_common_bytes",
    "app.cache_copy_bytes",
    "app.connections_open",
    "app.requests_waiting",
    "app.streams_open",
    "sockets.connections",
    "sockets.kernel_tls_open",
    "bond.ports",
];

/// The page of a process with silos over links: a column for each.
pub struct Figures {
    page: Page,
    columns: Vec<SiloColumn>,
}

/// One silo's column, with room for one round of values.
pub struct SiloColumn {
    writer: Writer,
    values: Vec<u64>,
    place: [u64; 3],
}

/// The page of a process with workers over kernel sockets: a column for each.
pub struct Board {
    page: Page,
    columns: Vec<Column>,
}

/// One worker's column, with room for one round of values.
pub struct Column {
    writer: Writer,
    values: Vec<u64>,
    usage: Usage,
    arrivals: Arrivals,
}

/// Room for series of latencies, if they are asked for.
fn shape(latencies: bool) -> SeriesShape {
    if latencies { SeriesShape { count: SERIES_MAX, words: WORDS } } else { SeriesShape::default() }
}

/// Connections that a silo tells of when it is asked: what fits on some screens, and costs it some
/// 50 µs where there are 100,000.
const SAMPLES: SampleShape = SampleShape { count: 256, words: SAMPLE_WORDS };

/// Series of latencies on a page.
struct PageSeries(SeriesArea);

/// Those of one silo.
struct SiloSeries(SiloWords);

impl SeriesWords for SiloSeries {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

impl SeriesMemory for PageSeries {
    fn silo(&self, silo: usize) -> Arc<dyn SeriesWords> {
        Arc::new(SiloSeries(self.0.silo(silo)))
    }

    fn set_name(&self, place: u16, generation: u32, name: &str) {
        self.0.set_name(usize::from(place), generation, name);
    }

    fn clear_name(&self, place: u16) {
        self.0.clear_name(usize::from(place));
    }
}

impl Board {
    /// Makes the page at `path`, or else in the usual place, for a process that does `what`, with `latencies` or
    /// without.
    ///
    /// # Errors
    /// If it cannot be made there.
    pub fn new(path: Option<&Path>, what: &str, seats: &[Option<u16>], latencies: bool) -> Result<Self, Failure> {
        let arrivals = Arrivals::at(seats);
        let nothing = (sockets::Counters::default(), server::Counters::default());
        let mut names = Vec::new();
        collect_worker(&Usage::default(), &nothing.0, nothing.1.iter(), &mut |name, value| names.push((name(), value)));
        arrivals
            .first()
            .into_iter()
            .for_each(|first| first.values(&mut |name, value| names.push((name.to_owned(), value))));
        let metrics: Vec<Metric> = names.into_iter().map(metric).collect();
        let shape = (seats.len(), shape(latencies));
        let (page, writers, hidden) = Page::create_somewhere(path, what, Clock.unix(), &metrics, shape)
            .map_err(|why| format!("statistics page {}: {why}", path.unwrap_or(Path::new("")).display()))?;
        tell_place(path, hidden);
        let column = |(writer, arrivals)| Column {
            writer,
            values: Vec::with_capacity(metrics.len()),
            usage: Usage::default(),
            arrivals,
        };
        Ok(Self { page, columns: writers.into_iter().zip(arrivals).map(column).collect() })
    }

    /// Where latencies are counted.
    #[must_use]
    pub fn latencies(&self) -> Arc<SeriesTable> {
        SeriesTable::new(PageSeries(self.page.series()))
    }

    /// The columns, in the order of the workers; they are given out once.
    pub fn columns(&mut self) -> Vec<Column> {
        core::mem::take(&mut self.columns)
    }

    /// The page, for notes on it.
    pub const fn page(&mut self) -> &mut Page {
        &mut self.page
    }
}

impl Column {
    /// Publishes the worker's values, if it is time. Whether it was.
    #[inline]
    pub fn publish(&mut self, now: Time, usage: &Usage, worker: &Worker<Server>) -> bool {
        let due = self.writer.is_due(now);
        if due {
            self.usage = *usage;
            self.arrivals.look(now, worker);
            self.finish(now, worker);
        }
        due
    }

    /// When it is time again.
    pub const fn next(&self) -> Time {
        self.writer.next()
    }

    /// Publishes the worker's values, which may be its last.
    pub fn finish(&mut self, now: Time, worker: &Worker<Server>) {
        self.values.clear();
        let (usage, values) = (self.usage, &mut self.values);
        collect_worker(&usage, &worker.counters(), worker.app.counters(), &mut |_, value| values.push(value));
        self.arrivals.values(&mut |_, value| values.push(value));
        self.writer.publish(now, &self.values);
    }
}

/// Every value of a worker with its name, as [`collect`].
fn collect_worker(
    usage: &Usage,
    sockets: &sockets::Counters,
    app: impl Iterator<Item = (&'static str, u64)>,
    take: &mut impl FnMut(&dyn Fn() -> String, u64),
) {
    let mut group = |prefix: &str, values: &mut dyn Iterator<Item = (&'static str, u64)>| {
        for (name, value) in values {
            take(&|| format!("{prefix}.{name}"), value);
        }
    };
    let mut app = app;
    group("silo", &mut usage_values(usage).into_iter());
    group("sockets", &mut sockets.iter());
    group("app", &mut app);
}

fn usage_values(usage: &Usage) -> [(&'static str, u64); 6] {
    [
        ("turns", usage.turns),
        ("busy_turns", usage.busy_turns),
        ("busy_ns", usage.busy_ns),
        ("idle_ns", usage.idle_ns),
        ("asleep_ns", usage.asleep_ns),
        ("sleeps", usage.sleeps),
    ]
}

/// Of a stack that never runs.
const NO_SEEDS: Seeds = Seeds { table: [0; 4], secret: [0; 4], timestamps: [0; 2] };

/// The usual place of the page could not be had, or is another than one would think.
fn tell_place(path: Option<&Path>, hidden: Option<PageError>) {
    if let Some(why) = hidden {
        say::warning(format_args!("`nearside status` does not see this process: statistics page: {why}"));
    } else if let Some(why) = path.is_none().then(::page::squatted).flatten() {
        say::warning(format_args!("statistics page: {why}"));
    }
}

/// One named value.
type Named = (String, u64);

impl Figures {
    /// Makes the page of a process that does `what`, with `latencies` or without. `app` are the names
    /// of what its applications count.
    ///
    /// # Errors
    /// If it cannot be made where the plan says.
    pub fn new(
        host: &HostPlan,
        layout: &Layout,
        (what, latencies): (&str, bool),
        app: impl Iterator<Item = (&'static str, u64)>,
    ) -> Result<Self, Failure> {
        let ports: Vec<&str> = layout.ports.iter().map(|port| port.name.as_str()).collect();
        let label = format!("{what} {}", ports.join(" "));
        // One that is never used tells the names as well as any.
        let stack =
            Stack::new(stack::Config::new(wire::Mac::BROADCAST, 1_500), LinkOffload::default(), &NO_SEEDS, Time::ZERO);
        let mut named = Vec::new();
        let link = (LinkState::Down, 0, Counters::default());
        collect(
            &[0; 3],
            &Usage::default(),
            link,
            &mut |take| names(host, layout, take),
            &stack,
            app,
            &mut |name, value| named.push((name(), value)),
        );
        crate::near::names(&mut |name, value| named.push((name.to_owned(), value)));
        if host.is_composite() {
            beside(&sockets::Counters::default(), &mut |name, value| named.push((name.to_owned(), value)));
        }
        let metrics: Vec<Metric> = named.into_iter().map(metric).collect();
        let path = host.status_page.as_deref();
        let shape = PageShape { silos: layout.seats.len(), series: shape(latencies), samples: SAMPLES };
        let (page, writers, hidden) = Page::create_somewhere(path, &label, Clock.unix(), &metrics, shape)?;
        tell_place(path, hidden);
        let column = |(writer, seat): (Writer, &SiloPlace)| {
            let number = |value: Option<u16>| value.map_or(0, u64::from);
            let place = [u64::from(seat.core.is_some()), number(seat.core), number(seat.domain)];
            SiloColumn { writer, values: Vec::with_capacity(metrics.len()), place }
        };
        Ok(Self { page, columns: writers.into_iter().zip(&layout.seats).map(column).collect() })
    }

    /// Where latencies are counted.
    #[must_use]
    pub fn latencies(&self) -> Arc<SeriesTable> {
        SeriesTable::new(PageSeries(self.page.series()))
    }

    /// The columns, in the order of the silos; they are given out once.
    pub fn columns(&mut self) -> Vec<SiloColumn> {
        core::mem::take(&mut self.columns)
    }

    /// The page, for notes on it, and its place.
    pub const fn page(&mut self) -> &mut Page {
        &mut self.page
    }
}

impl SiloColumn {
    /// When it is time to publish again.
    pub const fn next(&self) -> Time {
        self.writer.next()
    }

    /// Publishes the silo's values, if it is time. Whether it was.
    pub fn publish<L: Port, A>(
        &mut self,
        silo: &Silo<L, A>,
        now: Time,
        usage: &Usage,
        state: LinkState,
        app: impl Iterator<Item = (&'static str, u64)>,
        near: impl FnOnce(Take<'_>),
    ) -> bool {
        let due = self.writer.is_due(now);
        if due {
            self.finish(silo, now, usage, state, app, near);
        }
        due
    }

    /// Publishes the silo's values, which may be its last.
    pub fn finish<L: Port, A>(
        &mut self,
        silo: &Silo<L, A>,
        now: Time,
        usage: &Usage,
        state: LinkState,
        app: impl Iterator<Item = (&'static str, u64)>,
        near: impl FnOnce(Take<'_>),
    ) {
        self.values.clear();
        let (values, place) = (&mut self.values, self.place);
        let mut lost = 0;
        silo.link.gone(&mut |_, gone| lost += u64::from(gone));
        let link = (state, lost, silo.link.counters());
        collect(&place, usage, link, &mut |take| silo.link.counts(take), &silo.stack, app, &mut |_, value| {
            values.push(value)
        });
        // Last: a generator has none of these.
        near(&mut |_, value| values.push(value));
        self.writer.publish(now, &self.values);
        if let Some(question) = self.writer.asked(now) {
            self.answer(&silo.stack, question);
        }
    }

    /// Somebody asks for a few connections.
    #[cold]
    fn answer(&mut self, stack: &Stack, question: u64) {
        let most = self.writer.most_samples();
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

/// Tells what is counted of kernel sockets beside links, with names.
pub fn beside(counters: &sockets::Counters, take: Take<'_>) {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    let names = || sockets::Counters::default().iter().map(|(name, _)| &*format!("sockets.{name}").leak()).collect();
    let names = NAMES.get_or_init(names);
    names.iter().zip(counters.iter()).for_each(|(name, (_, value))| take(name, value));
}

/// The page keeps names for as long as the process lives.
fn metric((name, _): Named) -> Metric {
    let of_port = crate::aggregation::is_gauge(&name) == Some(true);
    let gauge = GAUGES.contains(&name.as_str()) || of_port || crate::near::is_gauge(&name);
    let kind = if gauge { MetricKind::Gauge } else { MetricKind::Counter };
    Metric { name: name.leak(), kind }
}

/// Every value with its name, which is made only where it is asked for.
fn collect(
    place: &[u64; 3],
    usage: &Usage,
    (state, lost, link): (LinkState, u64, Counters),
    extra: &mut dyn FnMut(Take<'_>),
    stack: &Stack,
    app: impl Iterator<Item = (&'static str, u64)>,
    take: &mut impl FnMut(&dyn Fn() -> String, u64),
) {
    let link_state = [("up", u64::from(state == LinkState::Up)), ("lost", lost)];
    let mut group = |prefix: &str, values: &mut dyn Iterator<Item = (&'static str, u64)>| {
        for (name, value) in values {
            take(&|| format!("{prefix}.{name}"), value);
        }
    };
    group("silo", &mut ["pinned", "core", "domain"].into_iter().zip(*place));
    group("silo", &mut usage_values(usage).into_iter());
    group("link", &mut link_state.into_iter().chain(link.iter()));
    stack.values().for_each(|(layer, name, value)| take(&|| format!("{layer}.{name}"), value));
    app.for_each(|(name, value)| take(&|| format!("app.{name}"), value));
    extra(&mut |name, value| take(&|| name.to_owned(), value));
}
