//! A sample of this machine: its files, its system calls, and what processes of
//! ours publish.

use super::mallocs::Callers;
use super::process::Looker;
use crate::plan::WatchPlan;
use ::watch::{Bypass, ChannelCounter, ReadOptions, Reader, Sample};
use cpu::Clock;
use page::living_of_user;
use perf::counter::{Count, What, Whose};
use perf::{Tracefs, cost};
use rustix::time::{ClockId, clock_gettime};
use say::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Takes samples.
pub(super) struct Gatherer {
    reader: Reader,
    own: bool,
    calls: Result<Calls, String>,
    looker: Option<Looker>,
    callers: Option<Callers>,
    callers_nanos: u64,
    channels: Result<Channels, String>,
    ticks: u64,
    last: u64,
    /// Whether tables by core are asked for, and for how many samples they are
    /// left as they were.
    tables: bool,
    left: u64,
    samples: u64,
    interval: Duration,
}

/// Of a core's time, what samples with tables may take: on machines of hundreds of
/// cores the kernel spends tens of milliseconds on making them.
const TABLES_SHARE: f64 = 0.004;

/// The most samples that are taken without reading them again.
const LEFT_LIMIT: u64 = 60;

/// For how many samples tables are left as they are, if reading them took so long.
fn left(took: Duration, interval: Duration) -> u64 {
    let intervals = took.as_secs_f64() / (interval.as_secs_f64().max(1e-3) * TABLES_SHARE);
    (intervals.ceil() as u64).saturating_sub(1).min(LEFT_LIMIT)
}

/// System calls of all cores.
struct Calls {
    counts: Vec<Count>,
    nanos_each: f64,
}

impl Gatherer {
    /// `live`: any table may be looked at.
    pub(super) fn new(plan: &WatchPlan, live: bool) -> Result<Self, Failure> {
        let root = plan.root.as_deref().unwrap_or(Path::new("/"));
        let own = plan.root.is_none();
        let calls = match (own, plan.syscalls) {
            (false, _) => Err("another machine's files have none".to_owned()),
            (true, false) => Err("not asked for".to_owned()),
            (true, true) => Calls::count(),
        };
        let wanted = ReadOptions { interrupts: false };
        let looker = plan.pid.map(|pid| Looker::new(pid, plan.tracing)).transpose()?;
        let mut reader = Reader::new(root, wanted);
        let channels = match own {
            true => reader.channel_counters().and_then(Channels::count),
            false => Err("another machine's files have none".to_owned()),
        };
        Ok(Self {
            reader,
            own,
            calls,
            looker,
            callers: (plan.pid.is_none() && plan.tracing.mallocs).then(Callers::new),
            callers_nanos: 0,
            channels,
            ticks: rustix::param::clock_ticks_per_second(),
            last: 0,
            tables: plan.cores || live,
            left: 0,
            samples: 0,
            interval: plan.interval,
        })
    }

    /// As it is now.
    pub(super) fn sample(&mut self) -> Sample {
        let calls = self.callers.as_mut().map(Callers::look);
        let probes = self.looker.as_mut().map(|looker| looker.look());
        let now = perf::clock::raw().max(self.last + 1);
        self.last = now;
        let unix_ms = u64::try_from(Clock.unix().as_millis()).unwrap_or(u64::MAX);
        let mut sample = self.read(now, unix_ms);
        match &mut self.calls {
            Ok(calls) => {
                let count = calls.read();
                sample.counts.insert("syscalls".to_owned(), count);
                sample.probe_nanos = (count as f64 * calls.nanos_each) as u64;
            }
            Err(why) => drop(sample.missing.insert("syscalls".to_owned(), why.clone())),
        }
        match &mut self.channels {
            Ok(channels) => channels.read(&mut sample),
            Err(why) => drop(sample.missing.insert("channels".to_owned(), why.clone())),
        }
        if self.own {
            sample.bypass = pages();
        }
        if let Some(calls) = calls {
            self.callers_nanos += calls.cost_nanos;
            sample.probe_nanos = sample.probe_nanos.saturating_add(self.callers_nanos);
            sample.mallocs = calls.by_process;
            sample.missing.extend(calls.untold.map(|why| ("mallocs".to_owned(), why)));
        }
        if let Some((process, nanos)) = probes {
            sample.process = process;
            sample.probe_nanos = sample.probe_nanos.saturating_add(nanos);
            let page = sample.process.as_ref().and_then(|process| sample.bypass.get(&process.pid));
            let asked = page.and_then(|page| page.silos.iter().map(|silo| silo.get("app.requests").copied()).sum());
            if let (Some(asked), Some(process)) = (asked, &mut sample.process) {
                process.counts.insert("requests".to_owned(), asked);
            }
        }
        sample.make_plain();
        sample.own_nanos = spent(ClockId::ProcessCPUTime);
        sample
    }

    /// The machine's files, with tables as often as their cost allows.
    fn read(&mut self, now: u64, unix_ms: u64) -> Sample {
        let tables = self.tables && self.left == 0;
        self.reader.ask(ReadOptions { interrupts: tables });
        let before = spent(ClockId::ThreadCPUTime);
        let sample = self.reader.sample(now, unix_ms, self.ticks);
        let took = Duration::from_nanos(spent(ClockId::ThreadCPUTime).saturating_sub(before));
        // The first of all also opens what the others find open.
        self.left = match tables && self.samples > 0 {
            true => left(took, self.interval),
            false => self.left.saturating_sub(1),
        };
        self.samples += 1;
        sample
    }
}

/// Processor time, nanoseconds.
fn spent(which: ClockId) -> u64 {
    let time = clock_gettime(which);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Calls {
    fn count() -> Result<Self, String> {
        let format = Tracefs::open()?.format("raw_syscalls/sys_enter")?;
        let cores = perf::thread::online();
        let counts: Result<Vec<Count>, String> =
            cores.into_iter().map(|core| Count::start(What::Tracepoint(format.id), Whose::Core(core))).collect();
        Ok(Self { counts: counts?, nanos_each: cost::of_a_tracepoint(false).unwrap_or(0.0) })
    }

    /// A core that went off line keeps what it had.
    fn read(&mut self) -> u64 {
        self.counts.iter_mut().filter_map(|count| count.read().ok()).fold(0, u64::wrapping_add)
    }
}

/// Counters of memory's controllers.
struct Channels(Vec<(ChannelCounter, Count)>);

impl Channels {
    fn count(counters: Vec<ChannelCounter>) -> Result<Self, String> {
        let begun = counters.into_iter().map(|counter| {
            let what = What::Pmu(&counter.pmu, &counter.event);
            let count = Count::start(what, Whose::Core(counter.core));
            Ok((counter, count?))
        });
        Ok(Self(begun.collect::<Result<_, String>>()?))
    }

    /// Adds what each domain's counted; one that does not answer leaves its
    /// domain without.
    fn read(&mut self, sample: &mut Sample) {
        let mut sums: BTreeMap<u16, Option<f64>> = BTreeMap::new();
        for (counter, count) in &mut self.0 {
            let bytes = count.read().ok().map(|count| count as f64 * counter.bytes);
            let sum = sums.entry(counter.domain).or_insert(Some(0.0));
            *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
        for (domain, sum) in sums {
            if let (Some(domain), Some(sum)) = (sample.domains.get_mut(&domain), sum) {
                domain.channels = Some(sum as u64);
            }
        }
    }
}

/// What of a page is looked at: the rest is for `nearside status`.
const LOOKED_AT: [&str; 13] = [
    "link.rx_bytes",
    "link.tx_bytes",
    "link.rx_frames",
    "link.tx_frames",
    "link.rx_dropped",
    "link.tx_dropped",
    "stack.connections",
    "sockets.connections",
    "silo.busy_ns",
    "packet.busy_cycles",
    "tcp.retransmits",
    "app.requests",
    "app.connections_open",
];

/// What this user's processes publish; they may come and go meanwhile.
fn pages() -> BTreeMap<u32, Bypass> {
    let readers = living_of_user().unwrap_or_default();
    let page = |reader: &::page::Reader| {
        let snapshot = reader.snapshot().ok()?;
        let silo = |silo: &::page::SiloSnapshot| {
            let values = reader.metrics().iter().zip(&silo.values);
            values
                .filter(|((name, _), _)| LOOKED_AT.contains(&name.as_str()))
                .map(|((name, _), value)| (name.clone(), *value))
                .collect()
        };
        let silos = snapshot.silos.iter().map(silo).collect();
        Some((reader.pid(), Bypass { label: reader.label().to_owned(), silos }))
    };
    readers.iter().filter_map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_often_as_their_cost_allows() {
        let second = Duration::from_secs(1);
        let all = [0, 1, 4, 5, 32, 10_000].map(|millis| left(Duration::from_millis(millis), second));
        assert_eq!(all, [0, 0, 0, 1, 7, LEFT_LIMIT]);
        assert_eq!(left(Duration::from_millis(4), Duration::from_millis(100)), 9);
    }
}
