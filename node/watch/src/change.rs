//! What happened between two samples.

use crate::read::outward;
use crate::sample::{Bypass, CoreCounters, DomainCounters, Mallocs, PortCounters, Process, Sample};
use std::collections::BTreeMap;

mod rows;

pub use rows::{BypassRow, Change, CoreRow, DomainRow, Figure, MallocRow, PortRow, Presence, ProcessRow, TIMES};

/// How much a counter grew. One that is less than before has wrapped, if it may
/// have 32 bits, or was begun again.
///
/// # Errors
/// Why it is not known.
pub fn grown(before: u64, now: u64) -> Result<u64, &'static str> {
    const NARROW: u64 = u32::MAX as u64;
    match now.checked_sub(before) {
        Some(grown) => Ok(grown),
        None if before <= NARROW && before - now > NARROW / 2 => Ok(now + (NARROW + 1 - before)),
        None => Err("the counter began again"),
    }
}

impl Change {
    /// Between two samples, the earlier first.
    ///
    /// # Errors
    /// If no time passed between them.
    pub fn between(before: &Sample, now: &Sample) -> Result<Self, &'static str> {
        let nanos = now.at.checked_sub(before.at).filter(|nanos| *nanos > 0).ok_or("no time passed")?;
        let span = Span { seconds: nanos as f64 / 1e9, before, now };
        let cores = span.cores();
        let ports = span.ports();
        let domains = span.domains(&cores);
        let bypass = span.bypass();
        let mut change = Self {
            unix_ms: now.unix_ms,
            seconds: span.seconds,
            machine: BTreeMap::new(),
            totals: span.totals(),
            process: span.process(),
            mallocs: span.mallocs(),
            notes: span.notes(),
            cores,
            ports,
            domains,
            bypass,
        };
        change.machine = span.machine(&change);
        // The sum of nothing is -0.0.
        for figure in change.machine.values_mut() {
            if let Figure::Is(value) = figure {
                *value += 0.0;
            }
        }
        Ok(change)
    }
}

/// Two samples, and the time between them.
struct Span<'a> {
    seconds: f64,
    before: &'a Sample,
    now: &'a Sample,
}

/// What was there at one or both of two moments, in order.
fn joined<'a, K: Ord + Copy, V>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (K, Option<&'a V>, Option<&'a V>)> {
    let gone = before.keys().filter(|key| !now.contains_key(key));
    let mut keys: Vec<K> = now.keys().chain(gone).copied().collect();
    keys.sort_unstable();
    keys.into_iter().map(|key| (key, before.get(&key), now.get(&key)))
}

const fn presence<V>(before: Option<&V>, now: Option<&V>) -> Presence {
    match (before, now) {
        (Some(_), Some(_)) => Presence::Here,
        (None, _) => Presence::Came,
        (_, None) => Presence::Gone,
    }
}

impl Span<'_> {
    /// A counter's growth per second.
    fn rate(&self, before: Option<u64>, now: Option<u64>) -> Figure {
        match (before, now) {
            (Some(before), Some(now)) => match grown(before, now) {
                Ok(grown) => Figure::Is(grown as f64 / self.seconds),
                Err(why) => Figure::missing(why),
            },
            (None, Some(_)) => Figure::missing("it was not there before"),
            (_, None) => Figure::missing("it is not there any more"),
        }
    }

    /// That of a counter of the whole machine; `group` says why it may be missing.
    fn counted(&self, key: &str, group: &str) -> Figure {
        match self.now.missing.get(group) {
            Some(why) => Figure::Missing(why.clone()),
            None => match self.rate(self.before.counts.get(key).copied(), self.now.counts.get(key).copied()) {
                Figure::Missing(_) if !self.now.counts.contains_key(key) => {
                    Figure::missing("this kernel does not count it")
                }
                other => other,
            },
        }
    }

    fn level(&self, key: &str, group: &str) -> Figure {
        match (self.now.levels.get(key), self.now.missing.get(group)) {
            (Some(level), _) => Figure::Is(*level as f64),
            (None, Some(why)) => Figure::Missing(why.clone()),
            (None, None) => Figure::missing("this kernel does not tell"),
        }
    }

    fn cores(&self) -> Vec<CoreRow> {
        let row = |(core, before, now): (u16, Option<&CoreCounters>, Option<&CoreCounters>)| {
            let of = |field: fn(&CoreCounters) -> Option<u64>| match now {
                Some(core) if field(core).is_none() => Figure::missing("not asked for: --cores does"),
                _ => self.rate(before.and_then(field), now.and_then(field)),
            };
            // Tables may be read less often than samples are taken.
            let of_table = |field: fn(&CoreCounters) -> Option<u64>| match (self.before.tables_at, self.now.tables_at) {
                (Some(before), Some(now)) if before == now => {
                    Figure::missing("not read in this interval: it would cost too much")
                }
                (Some(before), Some(now)) if now > before => {
                    of(field).map(|rate| rate * self.seconds / ((now - before) as f64 / 1e9))
                }
                _ => of(field),
            };
            let sum = |core: &CoreCounters| (!core.softirqs.is_empty()).then(|| core.softirqs.iter().sum());
            CoreRow {
                core,
                presence: presence(before, now),
                times: before.zip(now).map_or([0.0; 9], |(before, now)| times(&before.ticks, &now.ticks)),
                interrupts: of_table(|core| core.interrupts),
                softirqs: of_table(sum),
                backlog_drops: of(|core| Some(core.backlog[1])),
                squeezed: of(|core| Some(core.backlog[2])),
            }
        };
        joined(&self.before.cores, &self.now.cores).map(row).collect()
    }

    fn ports(&self) -> Vec<PortRow> {
        let outwards = outward(&self.now.ports);
        let keys = |ports: &BTreeMap<String, PortCounters>| ports.keys().cloned().collect::<Vec<String>>();
        let mut names = keys(&self.now.ports);
        names.extend(keys(&self.before.ports).into_iter().filter(|name| !self.now.ports.contains_key(name)));
        names.sort_unstable();
        let row = |name: String| {
            let (before, now) = (self.before.ports.get(&name), self.now.ports.get(&name));
            let pair = |field: fn(&PortCounters) -> [u64; 2]| {
                [0, 1].map(|way| self.rate(before.map(|port| field(port)[way]), now.map(|port| field(port)[way])))
            };
            let bits = pair(|port| port.bytes).map(|rate| rate.map(|bytes| bytes * 8.0));
            let used = match now.and_then(|port| port.speed) {
                None => Figure::missing("the interface tells no speed"),
                Some(speed) => match (&bits[0], &bits[1]) {
                    (Figure::Is(one), Figure::Is(other)) => Figure::Is(one.max(*other) / speed as f64),
                    (missing, _) => missing.clone(),
                },
            };
            PortRow {
                presence: presence(before, now),
                outward: outwards.contains(&name.as_str()),
                bits,
                packets: pair(|port| port.packets),
                errors: pair(|port| port.errors),
                drops: pair(|port| port.drops),
                used,
                name,
            }
        };
        names.into_iter().map(row).collect()
    }

    fn domains(&self, cores: &[CoreRow]) -> Vec<DomainRow> {
        let row = |(number, before, now): (u16, Option<&DomainCounters>, Option<&DomainCounters>)| {
            let of = |field: fn(&DomainCounters) -> Option<u64>| self.rate(before.and_then(field), now.and_then(field));
            let known = now.or(before);
            let own = |row: &&CoreRow| {
                row.presence == Presence::Here && known.is_some_and(|domain| domain.cores.contains(&row.core))
            };
            let busy: Vec<f64> = cores.iter().filter(own).map(CoreRow::busy).collect();
            let busy = match busy.len() {
                0 => Figure::missing("it has no cores on line"),
                count => Figure::Is(busy.iter().sum::<f64>() / count as f64),
            };
            let (traffic, remote) = self.traffic(before, now);
            DomainRow {
                domain: number,
                presence: presence(before, now),
                busy,
                memory: known.map_or(0, |domain| domain.memory),
                free: now.map_or(0, |domain| domain.free),
                local_pages: of(|domain| Some(domain.pages[0])),
                other_pages: of(|domain| Some(domain.pages[1])),
                foreign_pages: of(|domain| Some(domain.foreign)),
                channels: match now.and_then(|domain| domain.channels) {
                    Some(_) => of(|domain| domain.channels),
                    None => Figure::missing(self.why("channels", "nothing asked its memory's controllers")),
                },
                traffic,
                remote,
                cache: match now.and_then(|domain| domain.cache) {
                    Some(filled) => Figure::Is(filled as f64),
                    None => Figure::missing("no resctrl counts it"),
                },
            }
        };
        joined(&self.before.domains, &self.now.domains).map(row).collect()
    }

    /// Why something is missing.
    fn why<'a>(&'a self, key: &str, usual: &'a str) -> &'a str {
        self.now.missing.get(key).map_or(usual, String::as_str)
    }

    /// Bytes per second between a domain's cores and memory, and the share that
    /// went to other domains.
    fn traffic(&self, before: Option<&DomainCounters>, now: Option<&DomainCounters>) -> (Figure, Figure) {
        let at = |domain: Option<&DomainCounters>, which: usize| domain.and_then(|domain| Some(domain.traffic?[which]));
        if at(now, 0).is_none() {
            let why = self.why("traffic", "no resctrl counts it");
            return (Figure::missing(why), Figure::missing(why));
        }
        let [all, own] = [0, 1].map(|which| self.rate(at(before, which), at(now, which)));
        let remote = match (&all, &own) {
            (Figure::Is(all), Figure::Is(own)) if *all > 0.0 => Figure::Is(((all - own) / all).clamp(0.0, 1.0)),
            (Figure::Is(_), Figure::Is(_)) => Figure::missing("no memory was read or written"),
            (missing, _) => missing.clone(),
        };
        (all, remote)
    }

    fn bypass(&self) -> Vec<BypassRow> {
        let row = |(pid, before, now): (u32, Option<&Bypass>, Option<&Bypass>)| {
            // Another process of the same number.
            let before = before.filter(|before| now.is_none_or(|now| now.silos.len() == before.silos.len()));
            let sum = |bypass: Option<&Bypass>, key: &str| -> Option<u64> {
                bypass?.silos.iter().map(|silo| silo.get(key).copied()).sum()
            };
            let rate = |key: &str| match sum(now, key) {
                None if now.is_some() => Figure::missing("it does not count this"),
                _ => self.rate(sum(before, key), sum(now, key)),
            };
            let links = sum(now.or(before), "link.rx_bytes").is_some();
            // A silo may have both.
            let level = |keys: [&str; 2]| match keys.iter().filter_map(|key| sum(now, key)).reduce(|a, b| a + b) {
                Some(level) => Figure::Is(level as f64),
                None => Figure::missing("it does not count this"),
            };
            BypassRow {
                pid,
                label: now.or(before).map_or(String::new(), |bypass| bypass.label.clone()),
                presence: presence(before, now),
                links,
                bits: ["link.rx_bytes", "link.tx_bytes"].map(|key| rate(key).map(|bytes| bytes * 8.0)),
                packets: ["link.rx_frames", "link.tx_frames"].map(rate),
                connections: level(["stack.connections", "sockets.connections"]),
                requests: rate("app.requests"),
                drops: rate("link.rx_dropped").plus(rate("link.tx_dropped")),
                retransmissions: rate("tcp.retransmits"),
                busiest: self.busiest(before, now),
                cycles: match (rate("packet.busy_cycles"), rate("link.rx_frames")) {
                    (Figure::Is(cycles), Figure::Is(frames)) if frames > 0.0 => Figure::Is(cycles / frames),
                    (Figure::Is(_), Figure::Is(_)) => Figure::missing("no frame came"),
                    (Figure::Missing(why), _) | (_, Figure::Missing(why)) => Figure::Missing(why),
                },
            }
        };
        joined(&self.before.bypass, &self.now.bypass).map(row).collect()
    }

    fn busiest(&self, before: Option<&Bypass>, now: Option<&Bypass>) -> Figure {
        let (Some(before), Some(now)) = (before, now) else { return Figure::missing("it was not there at both looks") };
        let busy = |(before, now): (&BTreeMap<String, u64>, &BTreeMap<String, u64>)| {
            let grown = grown(*before.get("silo.busy_ns")?, *now.get("silo.busy_ns")?).ok()?;
            Some(grown as f64 / 1e9 / self.seconds)
        };
        let all = before
            .silos
            .iter()
            .zip(&now.silos)
            .filter_map(busy)
            .fold(None, |most: Option<f64>, share| Some(most.map_or(share, |most| most.max(share))));
        all.map_or_else(|| Figure::missing("it does not count this"), Figure::Is)
    }

    fn process(&self) -> Option<ProcessRow> {
        let same = |before: &&Process| {
            self.now.process.as_ref().is_none_or(|now| (now.pid, now.began) == (before.pid, before.began))
        };
        let before = self.before.process.as_ref().filter(same);
        let now = self.now.process.as_ref();
        let known = now.or(before)?;
        let mut figures: BTreeMap<String, Figure> = BTreeMap::new();
        for (key, count) in &known.counts {
            let earlier = before.and_then(|process| process.counts.get(key)).copied();
            figures.insert(format!("{key}/s"), self.rate(earlier, now.map(|_| *count)));
        }
        for (key, level) in now.iter().flat_map(|process| &process.levels) {
            figures.insert(key.clone(), Figure::Is(*level as f64));
        }
        for (key, why) in &known.missing {
            figures.insert(key.clone(), Figure::Missing(why.clone()));
        }
        if let (Some(Figure::Is(received)), Some(Figure::Is(asked))) =
            (figures.get("receives/s"), figures.get("requests/s"))
            && *asked > 0.0
        {
            figures.insert("receives per request".to_owned(), Figure::Is(received / asked));
        }
        let bytes: u64 = known.placed.values().sum();
        let placed = known.placed.iter().map(|(domain, part)| (*domain, *part as f64 / bytes.max(1) as f64)).collect();
        Some(ProcessRow {
            pid: known.pid,
            name: known.name.clone(),
            presence: presence(before, now),
            figures,
            symbols: shares(before.map(|process| &process.symbols), &known.symbols),
            chains: shares(before.map(|process| &process.chains), &known.chains),
            placed,
        })
    }

    /// What a reader should know once.
    fn notes(&self) -> Vec<String> {
        let mallocs = self.now.missing.get("mallocs").map(|why| format!("mallocs: {why}"));
        let process = self.now.process.iter().flat_map(|process| process.notes.iter().cloned());
        process.chain(mallocs).collect()
    }

    /// Who asks malloc most stands first; who asked for nothing has no row.
    fn mallocs(&self) -> Vec<MallocRow> {
        let row = |(pid, mallocs): (&u32, &Mallocs)| {
            let before = self.before.mallocs.get(pid).filter(|before| before.name == mallocs.name);
            // Who is new has counted from nothing, unless nobody was counted before.
            let earlier = before.map(|before| before.count).or((!self.before.mallocs.is_empty()).then_some(0));
            let per_second = self.rate(earlier, Some(mallocs.count));
            let row = MallocRow { pid: *pid, name: mallocs.name.clone(), per_second };
            (row.per_second != Figure::Is(0.0)).then_some(row)
        };
        let mut rows: Vec<MallocRow> = self.now.mallocs.iter().filter_map(row).collect();
        let rate = |row: &MallocRow| row.per_second.value().unwrap_or(0.0);
        rows.sort_by(|one, other| rate(other).total_cmp(&rate(one)).then(one.pid.cmp(&other.pid)));
        rows
    }

    /// Counters' growth per second, and levels, under the names of samples.
    fn totals(&self) -> BTreeMap<String, Figure> {
        let rate =
            |(key, now): (&String, &u64)| (key.clone(), self.rate(self.before.counts.get(key).copied(), Some(*now)));
        let rates = self.now.counts.iter().map(rate);
        rates.chain(self.now.levels.iter().map(|(key, level)| (key.clone(), Figure::Is(*level as f64)))).collect()
    }

    /// The whole machine's figures.
    fn machine(&self, change: &Change) -> BTreeMap<&'static str, Figure> {
        let outwards = |field: fn(&PortRow) -> &Figure| {
            let ports = change.ports.iter().filter(|port| port.outward && port.presence == Presence::Here);
            let links = |way: fn(&BypassRow) -> &Figure| {
                change.bypass.iter().filter(|row| row.links).filter_map(|row| way(row).value()).sum::<f64>()
            };
            (ports.filter_map(|port| field(port).value()).sum::<f64>(), links)
        };
        let missing_ports = self.now.missing.get("ports");
        let both = |port: fn(&PortRow) -> &Figure, link: fn(&BypassRow) -> &Figure| match missing_ports {
            Some(why) => Figure::Missing(why.clone()),
            None => {
                let (kernel, links) = outwards(port);
                Figure::Is(kernel + links(link))
            }
        };
        let connections = change.bypass.iter().filter(|row| row.links).filter_map(|row| row.connections.value());
        let own_drops: f64 = change.bypass.iter().filter_map(|row| row.drops.value()).sum();
        let own_again: f64 = change.bypass.iter().filter_map(|row| row.retransmissions.value()).sum();
        let here = |row: &&CoreRow| row.presence == Presence::Here;
        let cores: Vec<&CoreRow> = change.cores.iter().filter(here).collect();
        let cpu = match (cores.len(), self.now.missing.get("cpu")) {
            (_, Some(why)) => Figure::Missing(why.clone()),
            (0, _) => Figure::missing("no core was there at both looks"),
            (count, _) => Figure::Is(cores.iter().map(|row| row.busy()).sum::<f64>() / count as f64 * 100.0),
        };
        let backlog: f64 = cores.iter().filter_map(|row| row.backlog_drops.value()).sum();
        let port_drops: f64 = change
            .ports
            .iter()
            .filter(|port| port.outward)
            .flat_map(|port| port.drops.iter().chain(&port.errors))
            .filter_map(Figure::value)
            .sum();
        let (traffic, remote) = self.all_traffic(change);
        let own = grown(self.before.own_nanos, self.now.own_nanos).unwrap_or(0) as f64;
        let probes = grown(self.before.probe_nanos, self.now.probe_nanos).unwrap_or(0) as f64;
        BTreeMap::from([
            ("in_bits", both(|port| &port.bits[0], |row| &row.bits[0])),
            ("out_bits", both(|port| &port.bits[1], |row| &row.bits[1])),
            ("in_packets", both(|port| &port.packets[0], |row| &row.packets[0])),
            ("out_packets", both(|port| &port.packets[1], |row| &row.packets[1])),
            ("connections", self.level("tcp.CurrEstab", "tcp").map(|kernel| kernel + connections.sum::<f64>())),
            ("cpu", cpu),
            ("syscalls", self.counted("syscalls", "syscalls")),
            ("interrupts", self.counted("interrupts", "interrupts")),
            ("switches", self.counted("switches", "switches")),
            ("memory_free", self.level("memory available", "memory")),
            ("remote", remote.map(|share| share * 100.0)),
            ("memory_traffic", traffic),
            ("retransmissions", self.counted("tcp.RetransSegs", "tcp").map(|kernel| kernel + own_again)),
            ("drops", Figure::Is(port_drops + backlog + own_drops)),
            (
                "overflows",
                self.counted("tcp.ListenOverflows", "listen").plus(self.counted_or_none("tcp.TCPReqQFullDrop")),
            ),
            ("own_cpu", Figure::Is((own / 1e9 / self.seconds) * 100.0)),
            ("probe_cpu", Figure::Is((probes / 1e9 / self.seconds) * 100.0)),
        ])
    }

    fn counted_or_none(&self, key: &str) -> Figure {
        match self.counted(key, "listen") {
            Figure::Missing(_) => Figure::Is(0.0),
            known @ Figure::Is(_) => known,
        }
    }

    /// Of all domains together: what the controllers count, or else what the cores
    /// moved; and how much of that was remote.
    fn all_traffic(&self, change: &Change) -> (Figure, Figure) {
        let Some(first) = change.domains.first() else {
            return (Figure::missing("no domains are told"), Figure::missing("no domains are told"));
        };
        let sum = |field: fn(&DomainRow) -> &Figure| {
            let known: Vec<f64> = change.domains.iter().filter_map(|row| field(row).value()).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let (channels, traffic) = (sum(|row| &row.channels), sum(|row| &row.traffic));
        let all = match channels.or(traffic) {
            Some(all) => Figure::Is(all),
            None => Figure::missing(&format!("{}; {}", told(&first.channels), told(&first.traffic))),
        };
        let remote =
            change.domains.iter().filter_map(|row| Some(row.traffic.value()? * row.remote.value().unwrap_or(0.0)));
        let remote: f64 = remote.sum();
        let remote = match traffic {
            _ if change.domains.len() == 1 => Figure::missing("one domain: there is nothing remote"),
            None => first.remote.clone(),
            Some(traffic) if traffic > 0.0 => Figure::Is(remote / traffic),
            Some(_) => Figure::missing("no memory was read or written"),
        };
        (all, remote)
    }
}

/// Why a figure is missing.
const fn told(figure: &Figure) -> &str {
    match figure {
        Figure::Missing(why) => why.as_str(),
        Figure::Is(_) => "",
    }
}

/// Functions told of a process.
const SYMBOLS_SHOWN: usize = 10;

/// Of what was found meanwhile, by name: shares, the largest first.
fn shares(before: Option<&BTreeMap<String, u64>>, now: &BTreeMap<String, u64>) -> Vec<(String, f64)> {
    let meanwhile = |(name, count): (&String, &u64)| {
        let earlier = before.and_then(|before| before.get(name)).copied().unwrap_or(0);
        Some((name.clone(), count.saturating_sub(earlier))).filter(|(_, hits)| *hits > 0)
    };
    let hits: Vec<(String, u64)> = now.iter().filter_map(meanwhile).collect();
    let all: u64 = hits.iter().map(|(_, hits)| hits).sum();
    let mut shares: Vec<(String, f64)> =
        hits.into_iter().map(|(name, hits)| (name, hits as f64 / all.max(1) as f64)).collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    shares.truncate(SYMBOLS_SHOWN);
    shares
}

/// Shares of a core's time, as [`TIMES`]. A tick that was taken back, as the
/// kernel does with waiting for disks, counts as none.
fn times(before: &[u64; 10], now: &[u64; 10]) -> [f64; 9] {
    let grown: [u64; 10] = core::array::from_fn(|at| now[at].saturating_sub(before[at]));
    let [user, nice, system, idle, iowait, irq, soft, steal, guest, guest_nice] = grown;
    let all = (user + nice + system + idle + iowait + irq + soft + steal).max(1) as f64;
    let parts = [
        user.saturating_sub(guest),
        nice.saturating_sub(guest_nice),
        system,
        iowait,
        irq,
        soft,
        steal,
        guest + guest_nice,
        idle,
    ];
    // No ticks at all: as quiet as can be told.
    if grown[..8].iter().all(|ticks| *ticks == 0) {
        return [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    }
    parts.map(|part| part as f64 / all)
}

#[cfg(test)]
mod tests;
