//! What a process did between two looks at its page.

use core::fmt::Write;
use core::time::Duration;
use cpu::Clock;
use figures::si;
use latency::Series;
use page::{Reader, Snapshot};
use serde_json::{Value, json};
use wire::Time;

/// A page at one moment.
#[derive(Clone, Debug)]
pub(super) struct PageLook {
    pid: u32,
    label: String,
    at: Time,
    names: Vec<String>,
    snapshot: Snapshot,
    places: Vec<Series>,
}

/// A silo or worker between two looks.
#[derive(Clone, PartialEq, Debug)]
pub struct SiloChange {
    /// Share of the time with something to do; where that is known.
    pub busy: Option<f64>,
    /// Requests a second.
    pub requests: f64,
    /// Bytes of answers a second.
    pub bytes: f64,
    /// Connections that are open.
    pub connections: u64,
    /// Connections accepted a second.
    pub accepted: f64,
}

/// A host and a location between two looks.
#[derive(Clone, PartialEq, Debug)]
pub struct PlaceChange {
    /// The host.
    pub host: String,
    /// The location of it.
    pub location: String,
    /// Requests a second.
    pub requests: f64,
    /// Bytes of answers a second.
    pub bytes: f64,
    /// Responses a second, from 2xx on.
    pub classes: [f64; latency::CLASSES],
    /// Nanoseconds; none where nothing was answered.
    pub p50: Option<u64>,
    /// Likewise.
    pub p99: Option<u64>,
}

/// A process between two looks.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcessChange {
    /// The process.
    pub pid: u32,
    /// What it calls itself.
    pub label: String,
    /// From look to look.
    pub span: Duration,
    /// Its silos or workers, in order.
    pub silos: Vec<SiloChange>,
    /// Hosts and locations that were asked for, most requests first.
    pub places: Vec<PlaceChange>,
    /// What was at its limit, what weighs most first.
    pub limits: Vec<String>,
}

/// A silo that has something to do for so much of its time has no room left.
const FULL: f64 = 0.95;

/// Counters that grow only where something is at its limit, and what that is.
const LIMITS: [(&str, &str); 10] = [
    ("app.file_hangs", "the file system hangs"),
    ("app.connections_refused", "connections were refused"),
    ("sockets.accept_limits", "accepting stopped at the limit on connections"),
    ("sockets.accepts_no_descriptors", "there were no descriptors for connections"),
    ("app.overloads", "requests were answered 503 at a limit"),
    ("app.log_drops", "log lines were lost"),
    ("link.rx_dropped", "the link dropped received frames"),
    ("link.tx_full", "no transmit slot was free"),
    ("steer.ring_full", "a ring between silos was full"),
    ("app.streams_evicted", "streams were ended for want of memory"),
];

impl PageLook {
    pub(super) fn take(reader: &Reader) -> Option<Self> {
        Some(Self {
            pid: reader.pid(),
            label: reader.label().to_owned(),
            at: Clock.now(),
            names: reader.metrics().iter().map(|(name, _)| name.clone()).collect(),
            snapshot: reader.snapshot().ok()?,
            places: metrics::places(reader),
        })
    }

    fn value(&self, silo: usize, name: &str) -> Option<u64> {
        let place = self.names.iter().position(|known| known == name)?;
        self.snapshot.silos.get(silo)?.values.get(place).copied()
    }
}

impl ProcessChange {
    /// `None` if these are two processes, or no time passed.
    pub(super) fn between(before: &PageLook, now: &PageLook) -> Option<Self> {
        let span = now.at.since(before.at);
        let same = before.pid == now.pid && before.names == now.names;
        if !same || span.is_zero() {
            return None;
        }
        let seconds = span.as_secs_f64();
        let silos: Vec<SiloChange> =
            (0..now.snapshot.silos.len()).map(|silo| SiloChange::between(before, now, silo, seconds)).collect();
        let mut places: Vec<PlaceChange> = now
            .places
            .iter()
            .map(|place| {
                let known = |other: &&Series| other.host == place.host && other.location == place.location;
                let change = before.places.iter().find(known).map_or_else(|| place.clone(), |old| place.since(old));
                PlaceChange::of(&change, seconds)
            })
            .filter(|place| place.requests > 0.0)
            .collect();
        places.sort_by(|one, other| other.requests.total_cmp(&one.requests));
        let limits = limits(before, now, &silos);
        Some(Self { pid: now.pid, label: now.label.clone(), span, silos, places, limits })
    }

    /// For a program.
    pub fn json(&self, first: Option<&str>) -> Value {
        let silo = |silo: &SiloChange| {
            json!({ "busy": silo.busy, "requests_per_s": silo.requests, "bytes_per_s": silo.bytes,
                    "connections": silo.connections, "connections_per_s": silo.accepted })
        };
        let place = |place: &PlaceChange| {
            let micros = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e3);
            let [ok, redirected, refused, failed] = place.classes;
            json!({ "host": place.host, "location": place.location, "requests_per_s": place.requests,
                    "bytes_per_s": place.bytes, "p50_us": micros(place.p50), "p99_us": micros(place.p99),
                    "responses_per_s": { "2xx": ok, "3xx": redirected, "4xx": refused, "5xx": failed } })
        };
        json!({
            "pid": self.pid, "label": self.label, "seconds": self.span.as_secs_f64(),
            "silos": self.silos.iter().map(silo).collect::<Vec<_>>(),
            "places": self.places.iter().map(place).collect::<Vec<_>>(),
            "at_their_limits": self.limits, "first_at_its_limit": first,
        })
    }

    /// For people who have no screen.
    pub fn text(&self, first: Option<&str>) -> String {
        let mut text = format!("{} {}\n{}", self.pid, self.label, self.tables());
        if let Some(first) = first {
            // A text takes what is written to it.
            let _ = writeln!(text, "first at its limit: {first}");
        }
        text
    }

    /// Silos, and places below them.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<9} {:>6} {:>12} {:>12} {:>12} {:>10}",
            "silo", "busy", "requests", "sent", "connections", "new"
        );
        for (index, silo) in self.silos.iter().enumerate() {
            let busy = silo.busy.map_or_else(|| "-".to_owned(), |busy| format!("{:.0} %", busy * 100.0));
            let _ = writeln!(
                text,
                "{index:<9} {busy:>6} {:>12} {:>12} {:>12} {:>10}",
                si(silo.requests, "/s"),
                si(silo.bytes, "B/s"),
                silo.connections,
                si(silo.accepted, "/s")
            );
        }
        if self.places.is_empty() {
            return text;
        }
        let _ = writeln!(
            text,
            "\n{:<40} {:>12} {:>12} {:>10} {:>10} {:>9} {:>9}",
            "host and location", "requests", "sent", "p50", "p99", "4xx", "5xx"
        );
        for place in &self.places {
            let whose: String = format!("{} {}", place.host, place.location).chars().take(40).collect();
            let took = |nanos: Option<u64>| nanos.map_or_else(|| "-".to_owned(), si_time);
            let [_, _, refused, failed] = place.classes;
            let _ = writeln!(
                text,
                "{whose:<40} {:>12} {:>12} {:>10} {:>10} {:>9} {:>9}",
                si(place.requests, "/s"),
                si(place.bytes, "B/s"),
                took(place.p50),
                took(place.p99),
                si(refused, "/s"),
                si(failed, "/s")
            );
        }
        text
    }
}

impl SiloChange {
    fn between(before: &PageLook, now: &PageLook, silo: usize, seconds: f64) -> Self {
        // A seat of a program that another process has by now begins anew.
        let grown = |name: &str| Some(now.value(silo, name)?.saturating_sub(before.value(silo, name)?) as f64);
        let times = ["silo.busy_ns", "silo.idle_ns", "silo.asleep_ns"].map(grown);
        let all: f64 = times.iter().flatten().sum();
        // The second is what a program on our stack has of it, which is not ours.
        let rate = |names: [&str; 2]| names.into_iter().find_map(grown).unwrap_or(0.0) / seconds;
        let open = ["app.connections_open", "stack.connections"].into_iter().find_map(|name| now.value(silo, name));
        Self {
            // Nothing is published by one that sleeps: then it has nothing to do.
            busy: times[0].map(|busy| if all > 0.0 { busy / all } else { 0.0 }),
            requests: rate(["app.requests", "sockets.exchanges"]),
            bytes: rate(["app.bytes_queued", "link.tx_bytes"]),
            connections: open.unwrap_or(0),
            accepted: rate(["app.connections", "stack.accepted"]),
        }
    }
}

impl PlaceChange {
    fn of(change: &Series, seconds: f64) -> Self {
        let classes = change.classes.map(|count| count as f64 / seconds);
        Self {
            host: change.host.clone(),
            location: change.location.clone(),
            requests: classes.iter().sum(),
            bytes: change.bytes as f64 / seconds,
            classes,
            p50: change.latency.quantile(0.5),
            p99: change.latency.quantile(0.99),
        }
    }
}

fn limits(before: &PageLook, now: &PageLook, silos: &[SiloChange]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, what) in LIMITS {
        let grown: u64 = (0..silos.len())
            .filter_map(|silo| Some(now.value(silo, name)?.saturating_sub(before.value(silo, name)?)))
            .fold(0, u64::wrapping_add);
        if grown > 0 {
            found.push(format!("{what} ({name} {grown})"));
        }
    }
    for (index, silo) in silos.iter().enumerate() {
        if let Some(busy) = silo.busy.filter(|busy| *busy >= FULL) {
            found.push(format!("silo {index} had something to do for {:.0} % of its time", busy * 100.0));
        }
    }
    found
}

fn si_time(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{:.0} us", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latency::Histogram;
    use page::SiloSnapshot;

    const NAMES: [&str; 8] = [
        "app.requests",
        "app.bytes_queued",
        "app.connections_open",
        "app.connections",
        "silo.busy_ns",
        "silo.idle_ns",
        "silo.asleep_ns",
        "app.log_drops",
    ];

    fn look(pid: u32, seconds: u64, values: [u64; 8], places: Vec<Series>) -> PageLook {
        let silo = SiloSnapshot { time: None, values: values.to_vec(), consistent: true };
        PageLook {
            pid,
            label: "serve".to_owned(),
            at: Time::from_millis(seconds * 1_000),
            names: NAMES.iter().map(|name| (*name).to_owned()).collect(),
            snapshot: Snapshot { silos: vec![silo] },
            places,
        }
    }

    fn place(location: &str, count: u64, micros: u64) -> Series {
        let mut latency = Histogram::default();
        latency.counts[latency::bucket_of(micros * 1_000)] = count;
        latency.sum = count * micros * 1_000;
        Series {
            host: "a".to_owned(),
            location: location.to_owned(),
            latency,
            bytes: count * 100,
            classes: [count, 0, 0, 0],
        }
    }

    fn two_processes() -> Vec<ProcessChange> {
        let idle = ProcessChange::between(&look(7, 0, [0; 8], vec![]), &look(7, 1, [0; 8], vec![]));
        let lossy = [1_000, 5_000, 3, 10, 990_000_000, 10_000_000, 0, 4];
        let busy = ProcessChange::between(&look(8, 0, [0; 8], vec![]), &look(8, 1, lossy, vec![place("/", 900, 40)]));
        [idle, busy].into_iter().flatten().collect()
    }

    #[test]
    fn rates_are_what_grew_in_the_time_between() {
        let before = look(1, 10, [100, 0, 9, 5, 0, 0, 0, 0], vec![place("/", 50, 10_000)]);
        let after =
            look(1, 12, [300, 4_000, 7, 9, 500, 1_000, 500, 0], vec![place("/", 51, 10_000), place("/x", 6, 40)]);
        let change = ProcessChange::between(&before, &after).expect("time passed");
        let expected = SiloChange { busy: Some(0.25), requests: 100.0, bytes: 2_000.0, connections: 7, accepted: 2.0 };
        assert_eq!(change.silos, [expected]);
        let places: Vec<(&str, f64)> = change.places.iter().map(|one| (one.location.as_str(), one.requests)).collect();
        assert_eq!(places, [("/x", 3.0), ("/", 0.5)], "the most asked for first");
        let p99 = change.places[0].p99.expect("some");
        assert!((30_000..50_000).contains(&p99), "{p99}");
        assert_eq!(change.limits, Vec::<String>::new());
        let line = change.json(None);
        assert_eq!(
            (line["silos"][0]["requests_per_s"].as_f64(), line["first_at_its_limit"].is_null()),
            (Some(100.0), true)
        );
        assert!(change.text(None).contains("a /x"), "{}", change.text(None));
        assert_eq!(ProcessChange::between(&after, &after), None, "no time passed");
        assert_eq!(ProcessChange::between(&look(2, 0, [0; 8], vec![]), &after), None, "another process");
    }

    #[test]
    fn what_is_at_its_limit_is_named() {
        let busy = &two_processes()[1];
        assert_eq!(busy.limits.len(), 2, "{:?}", busy.limits);
        assert_eq!(busy.limits[0], "log lines were lost (app.log_drops 4)");
        assert!(busy.limits[1].starts_with("silo 0 had something to do for 99 %"), "{:?}", busy.limits);
    }
}
