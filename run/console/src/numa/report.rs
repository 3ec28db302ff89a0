//! What crossed, from what a process publishes.

use host::arrivals::SEEN;
use host::near::{FAR, NOWHERE, TRAFFIC};
use page::Reader;
use std::collections::BTreeMap;

/// Frames and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    pub frames: u64,
    pub bytes: u64,
}

/// Traffic through memory of one domain: frames received that lay there, and
/// frames sent with content that lies there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    pub received: Amount,
    pub sent: Amount,
}

/// Arrival, memory, departure; `None` for a port that is nowhere in
/// particular.
pub type Way = (Option<u16>, u16, Option<u16>);

/// One process, with all of its silos.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub pid: u32,
    pub label: String,
    /// Those of links.
    pub silos: Vec<SiloFigures>,
    /// Those of kernel sockets.
    pub workers: Vec<WorkerFigures>,
    /// What came and went, by where.
    pub flows: BTreeMap<Way, Flow>,
    /// Content, and the frames that have some, by the domain of the silo that
    /// sent it and the one where it lies, where these are not the same.
    pub content: BTreeMap<(u16, u16), Amount>,
    /// Frames that lay in memory of another domain than their silo's, by the
    /// domain of the silo and that of the memory.
    pub buffers: BTreeMap<(u16, u16), Flow>,
    pub crossed: Crossed,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// Bytes that went from one domain to another, by what they did there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Crossed {
    /// Received by a port of another domain than the silo's.
    pub received: u64,
    /// Sent by a port of another domain.
    pub sent: u64,
    /// Content read from another domain.
    pub content: u64,
    /// Passed to a silo of another domain.
    pub steered: u64,
    /// Received into memory of another domain.
    pub received_memory: u64,
    /// Sent from memory of another domain.
    pub sent_memory: u64,
}

/// What a silo published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiloFigures {
    pub core: Option<u16>,
    pub domain: u16,
    pub interleaved: bool,
    pub pages_local: u64,
    pub pages_remote: u64,
    pub pages_absent: u64,
    pub looks: u64,
}

/// What a worker over kernel sockets published.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerFigures {
    /// The core that it is pinned to, and that core's domain.
    pub place: Option<(u16, u16)>,
    pub accepted: u64,
    pub connections: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// How often a connection was found with its packets coming in on a core
    /// of a domain.
    pub seen: BTreeMap<u16, u64>,
}

impl Process {
    /// Reads a process's page; `None` if it publishes nothing of the kind, or
    /// is gone.
    pub fn read(reader: &Reader) -> Option<Self> {
        let snapshot = reader.snapshot().ok()?;
        let names: Vec<&str> = reader.metrics().iter().map(|(name, _)| name.as_str()).collect();
        let silos: Vec<Vec<u64>> = snapshot.silos.iter().map(|silo| silo.values.clone()).collect();
        Self::of(reader.pid(), reader.label(), &names, &silos)
    }

    /// What the values of its silos come to.
    pub fn of(pid: u32, label: &str, names: &[&str], silos: &[Vec<u64>]) -> Option<Self> {
        let mut process = Self { pid, label: label.to_owned(), ..Self::default() };
        let has = |name: &str| names.contains(&name);
        let add = match (has("silo.pages_local"), has("sockets.accepted") && has("silo.domain")) {
            (true, _) => Self::add,
            (false, true) => Self::add_worker,
            (false, false) => return None,
        };
        for values in silos {
            let values: BTreeMap<&str, u64> = names.iter().copied().zip(values.iter().copied()).collect();
            add(&mut process, &values);
        }
        Some(process)
    }

    fn add_worker(&mut self, values: &BTreeMap<&str, u64>) {
        let get = |name: &str| values.get(name).copied().unwrap_or(0);
        let seen = values.iter().filter_map(|(name, count)| {
            let domain = name.strip_prefix(SEEN)?.strip_prefix('.')?.parse().ok()?;
            Some((domain, *count))
        });
        let worker = WorkerFigures {
            place: (get("silo.pinned") > 0).then_some((get("silo.core") as u16, get("silo.domain") as u16)),
            accepted: get("sockets.accepted"),
            connections: get("sockets.connections"),
            received_bytes: get("sockets.received_bytes"),
            sent_bytes: get("sockets.sent_bytes"),
            seen: seen.collect(),
        };
        self.received_bytes += worker.received_bytes;
        self.sent_bytes += worker.sent_bytes;
        self.workers.push(worker);
    }

    fn add(&mut self, values: &BTreeMap<&str, u64>) {
        let get = |name: &str| values.get(name).copied().unwrap_or(0);
        let domain = get("silo.domain") as u16;
        let silo = SiloFigures {
            core: (get("silo.pinned") > 0).then_some(get("silo.core") as u16),
            domain,
            interleaved: get("silo.interleaved") > 0,
            pages_local: get("silo.pages_local"),
            pages_remote: get("silo.pages_remote"),
            pages_absent: get("silo.pages_absent"),
            looks: get("silo.looks"),
        };
        self.silos.push(silo);
        let places =
            traffic(values, [get("link.rx_frames"), get("link.rx_bytes"), get("link.tx_frames"), get("link.tx_bytes")]);
        let only = |side: fn(&Flow) -> u64| {
            let mut used = places.iter().filter(|(_, flow)| side(flow) > 0);
            match (used.next(), used.next()) {
                (Some((place, _)), None) => Some(*place),
                _ => None,
            }
        };
        // Where all came by ports of one domain and went by those of one, the
        // whole way is known; else each half of it.
        let (arrival, departure) = (only(|flow| flow.received.bytes), only(|flow| flow.sent.bytes));
        for (place, flow) in &places {
            let far = place.is_some_and(|place| place != domain);
            self.crossed.received += if far { flow.received.bytes } else { 0 };
            self.crossed.sent += if far { flow.sent.bytes } else { 0 };
            self.received_bytes += flow.received.bytes;
            self.sent_bytes += flow.sent.bytes;
        }
        let (mut received_far, mut sent_far) = (Amount::default(), Amount::default());
        let (from, to) = (arrival.unwrap_or(None), departure.unwrap_or(None));
        for (other, [content, received, sent]) in far(values, domain) {
            self.content.entry((domain, other)).or_default().add(content);
            let buffers = self.buffers.entry((domain, other)).or_default();
            buffers.received.add(received);
            buffers.sent.add(sent);
            self.crossed.content += content.bytes;
            self.crossed.received_memory += received.bytes;
            self.crossed.sent_memory += sent.bytes;
            received_far.add(received);
            sent_far.add(content);
            self.flow((from, other, to), Flow { received, sent: content });
        }
        self.content.retain(|_, amount| *amount != Amount::default());
        self.buffers.retain(|_, flow| *flow != Flow::default());
        for (place, flow) in &places {
            // What passed through memory of other domains is told there: by
            // which port is known where there is one.
            let received = flow.received.less(if arrival.is_some() { received_far } else { Amount::default() });
            let sent = flow.sent.less(if departure.is_some() { sent_far } else { Amount::default() });
            self.flow((*place, domain, to), Flow { received, ..Flow::default() });
            self.flow((from, domain, *place), Flow { sent, ..Flow::default() });
        }
        self.crossed.steered += get("steer.crossed_bytes");
    }

    fn flow(&mut self, way: Way, more: Flow) {
        if more == Flow::default() {
            return;
        }
        let flow = self.flows.entry(way).or_default();
        flow.received.add(more.received);
        flow.sent.add(more.sent);
    }

    /// The bytes received and sent that crossed, as a share of all.
    pub fn crossed_share(&self) -> f64 {
        let all = self.received_bytes + self.sent_bytes;
        let Crossed { received, sent, received_memory, sent_memory, .. } = self.crossed;
        share((received + sent + received_memory + sent_memory) as f64, all)
    }

    /// How often a byte sent crossed on its way: from the content to the
    /// silo, into the frame's memory, from silo to silo, and to the port.
    pub fn crossings_per_byte_sent(&self) -> f64 {
        let Crossed { sent, content, steered, sent_memory, .. } = self.crossed;
        share((sent + content + steered + sent_memory) as f64, self.sent_bytes)
    }
}

impl Amount {
    fn add(&mut self, more: Self) {
        self.frames += more.frames;
        self.bytes += more.bytes;
    }

    /// Without those: nothing, where they were counted a moment later.
    const fn less(self, those: Self) -> Self {
        Self { frames: self.frames.saturating_sub(those.frames), bytes: self.bytes.saturating_sub(those.bytes) }
    }
}

/// What a silo in `home` has counted of each other domain: content sent, and
/// frames received and sent that lay there.
fn far(values: &BTreeMap<&str, u64>, home: u16) -> BTreeMap<u16, [Amount; 3]> {
    let mut found: BTreeMap<u16, [Amount; 3]> = BTreeMap::new();
    for (at, what) in FAR.into_iter().enumerate() {
        for (name, value) in values {
            let from = name.strip_prefix(what).and_then(|rest| rest.strip_prefix('.')?.parse::<u16>().ok());
            let Some(from) = from.filter(|from| *from != home && *value > 0) else { continue };
            let amount = &mut found.entry(from).or_default()[at / 2];
            // Frames and bytes by turns.
            *(if at % 2 == 0 { &mut amount.frames } else { &mut amount.bytes }) += value;
        }
    }
    found
}

impl WorkerFigures {
    /// How often a connection was looked at, and how often its packets came in
    /// on another domain than the worker's.
    pub fn looks(&self) -> (u64, u64) {
        let all = self.seen.values().sum();
        let near = self.place.and_then(|(_, domain)| self.seen.get(&domain)).copied().unwrap_or(0);
        (all, if self.place.is_some() { all - near } else { 0 })
    }
}

/// Nothing of nothing is nothing.
fn share(part: f64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part / all as f64 }
}

/// A silo's traffic by the domain of the port: the domains that are told
/// apart, or all of it nowhere in particular in a machine of one.
fn traffic(values: &BTreeMap<&str, u64>, all: [u64; 4]) -> Vec<(Option<u16>, Flow)> {
    let mut places: BTreeMap<Option<u16>, [u64; 4]> = BTreeMap::new();
    for (at, what) in TRAFFIC.into_iter().enumerate() {
        for (name, value) in values {
            let Some(place) = name.strip_prefix(what).and_then(|rest| rest.strip_prefix('.')) else { continue };
            let place = if place == NOWHERE { None } else { place.parse().ok() };
            places.entry(place).or_default()[at] += value;
        }
    }
    if places.is_empty() {
        places.insert(None, all);
    }
    let flow = |[rx_frames, rx_bytes, tx_frames, tx_bytes]: [u64; 4]| Flow {
        received: Amount { frames: rx_frames, bytes: rx_bytes },
        sent: Amount { frames: tx_frames, bytes: tx_bytes },
    };
    places.into_iter().map(|(place, values)| (place, flow(values))).collect()
}

/// Crossings for each byte sent, as one reckons them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Read, encrypted, written and sent, each in another domain than the
    /// last.
    pub worst: f64,
    /// Each silo at its port, and content where it was read first: in this
    /// domain by chance.
    pub siloed: f64,
    /// The same, with a copy in each domain of what is asked for often.
    pub hot_cache: f64,
}

impl Model {
    /// For so many domains.
    pub fn of(domains: usize) -> Self {
        let domains = domains.max(1) as f64;
        let worst = if domains > 1.0 { 4.0 } else { 0.0 };
        Self { worst, siloed: (domains - 1.0) / domains, hot_cache: 0.0 }
    }
}
