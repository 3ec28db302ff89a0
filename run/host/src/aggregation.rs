//! The ports of an aggregation on the statistics page: what each silo
//! publishes of them, and how `nearside status` shows it.
//!
//! What the machines have come to is the same at every silo. Frames are each
//! silo's own: those of its queues of the port.

use crate::published::Take;
use bond::lacp::{Mux, ReceiveState, Selected};
use bond::{Bond, MAX_PORTS, Mode, PortView, Setup};
use core::fmt;
use link::Link;
use page::{LABEL_LIMIT, Reader, SiloSnapshot, Snapshot};
use serde_json::{Value, json};
use std::sync::OnceLock;
use wire::Mac;

/// What is published of each port; from [`PLAIN`] on with LACP only.
const FIELDS: [&str; 16] = [
    "up",
    "distributing",
    "joined",
    "left",
    "dropped_not_collecting",
    "rx_frames",
    "tx_frames",
    "receive",
    "selected",
    "mux",
    "key",
    "partner_system",
    "partner_key",
    "partner_port",
    "lacp_in",
    "lacp_out",
];

/// Fields of a port without machines.
const PLAIN: usize = 7;

/// Fields that only grow.
const COUNTERS: [&str; 7] =
    ["joined", "left", "dropped_not_collecting", "rx_frames", "tx_frames", "lacp_in", "lacp_out"];

/// The names of what is published of so many ports.
pub fn names(setup: &Setup, ports: usize, take: Take<'_>) {
    let fields = fields(&setup.mode);
    (0..ports.min(MAX_PORTS)).flat_map(|port| (0..fields).map(move |field| (port, field))).for_each(|(port, field)| {
        take(name(port, field), 0);
    });
}

/// What a silo publishes, in the order of [`names`].
pub fn counts<L: Link>(bond: &Bond<L>, take: Take<'_>) {
    let config = bond.aggregator().config();
    let fields = fields(&config.mode);
    for port in 0..config.ports.len() {
        let (mut rx, mut tx) = (0, 0);
        for member in bond.members().filter(|member| usize::from(member.port) == port) {
            let counters = member.link.counters();
            (rx, tx) = (rx + counters.rx_frames, tx + counters.tx_frames);
        }
        let values = values(&bond.aggregator().view(port), rx, tx);
        values.into_iter().take(fields).enumerate().for_each(|(field, value)| take(name(port, field), value));
    }
}

/// Whether a published value goes up and down; `None` if it is none of a
/// port's.
pub fn is_gauge(name: &str) -> Option<bool> {
    let (port, field) = name.strip_prefix("bond.")?.split_once('.')?;
    port.parse::<usize>().is_ok().then(|| !COUNTERS.contains(&field))
}

fn fields(mode: &Mode) -> usize {
    if matches!(mode, Mode::Lacp(_)) { FIELDS.len() } else { PLAIN }
}

/// `bond.1.up`: ports are counted from 1, as LACP does.
fn name(port: usize, field: usize) -> &'static str {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    let all = || (1..=MAX_PORTS).flat_map(|port| FIELDS.map(|field| &*format!("bond.{port}.{field}").leak())).collect();
    NAMES.get_or_init(all)[port * FIELDS.len() + field]
}

fn values(view: &PortView, rx: u64, tx: u64) -> [u64; FIELDS.len()] {
    let PortView { up, distributing, counters, lacp } = *view;
    let mut values = [0; FIELDS.len()];
    let plain =
        [up.into(), distributing.into(), counters.joined, counters.left, counters.dropped_not_collecting, rx, tx];
    values[..PLAIN].copy_from_slice(&plain);
    if let Some(lacp) = lacp {
        let [a, b, c, d, e, f] = lacp.partner.0;
        let machines = [
            lacp.receive as u64,
            lacp.selected as u64,
            lacp.mux as u64,
            lacp.key.into(),
            u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            lacp.partner_key.into(),
            lacp.partner_port.into(),
            lacp.pdus_in,
            lacp.pdus_out,
        ];
        values[PLAIN..].copy_from_slice(&machines);
    }
    values
}

/// A port, as its process publishes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BondPort {
    /// Counted from 1.
    number: usize,
    /// Its link, where the page's label has room for it.
    name: Option<String>,
    /// In the order of [`FIELDS`].
    values: [u64; FIELDS.len()],
    /// It has machines.
    lacp: bool,
}

impl BondPort {
    /// The ports on a page: none where nothing is aggregated.
    pub fn all(reader: &Reader, snapshot: &Snapshot) -> Vec<Self> {
        let find = |name: &str| reader.metrics().iter().position(|(known, _)| known == name);
        let places = (0..MAX_PORTS).map(|port| core::array::from_fn(|field| find(name(port, field))));
        let mut ports: Vec<Self> = Vec::new();
        for (port, places) in places.enumerate().take_while(|(_, places)| places[0].is_some()) {
            let values = read(&snapshot.silos, &places);
            ports.push(Self { number: port + 1, name: None, values, lacp: places[PLAIN].is_some() });
        }
        let links = links(reader.label(), ports.len());
        for (port, name) in ports.iter_mut().zip(links) {
            port.name = Some(name);
        }
        ports
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let [up, distributing, joined, left, dropped, rx, tx, .., lacp_in, lacp_out] = self.values;
        let mut port = json!({
            "port": self.number,
            "name": self.name,
            "state": self.state(),
            "up": up != 0,
            "distributing": distributing != 0,
            "joined": joined,
            "left": left,
            "dropped_not_collecting": dropped,
            "rx_frames": rx,
            "tx_frames": tx,
        });
        if self.lacp {
            let (receive, selected, mux) = self.machines();
            let (key, system, partner_key, partner_port) = self.partner();
            port["lacp"] = json!({
                "receive": word(receive),
                "selected": word(selected),
                "mux": word(mux),
                "actor_key": key,
                "partner": { "system": system.to_string(), "key": partner_key, "port": partner_port },
                "in": lacp_in,
                "out": lacp_out,
            });
        }
        port
    }

    /// In one word.
    fn state(&self) -> String {
        match self.values {
            [0, ..] => "down".to_owned(),
            [_, 1, ..] => "distributing".to_owned(),
            // All that could be, and there are too few of them.
            _ if !self.lacp => "standing by".to_owned(),
            _ => word(self.machines().2),
        }
    }

    fn machines(&self) -> (ReceiveState, Selected, Mux) {
        let [receive, selected, mux] = [PLAIN, PLAIN + 1, PLAIN + 2].map(|field| self.values[field] as u8);
        (ReceiveState::from_number(receive), Selected::from_number(selected), Mux::from_number(mux))
    }

    /// This side's key; the partner's system, key and port.
    fn partner(&self) -> (u64, Mac, u64, u64) {
        let [key, system, partner_key, partner_port] = [3, 4, 5, 6].map(|field| self.values[PLAIN + field]);
        let [_, _, a, b, c, d, e, f] = system.to_be_bytes();
        (key, Mac([a, b, c, d, e, f]), partner_key, partner_port)
    }
}

/// One line, for people.
impl fmt::Display for BondPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, _, joined, left, dropped, rx, tx, .., lacp_in, lacp_out] = self.values;
        write!(f, "port {}", self.number)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, ": {}", self.state())?;
        if self.lacp {
            let (receive, selected, _) = self.machines();
            let (key, system, partner_key, partner_port) = self.partner();
            write!(f, ", {}, {}, key {key}", word(selected), word(receive))?;
            if receive == ReceiveState::Current {
                write!(f, ", partner {system} key {partner_key} port {partner_port}")?;
            }
            write!(f, ", LACP in {lacp_in} out {lacp_out}")?;
        }
        write!(f, ", frames in {rx} out {tx}, joined {joined}, left {left}")?;
        if dropped > 0 {
            write!(f, ", dropped while not collecting {dropped}")?;
        }
        Ok(())
    }
}

/// A port's values: its frames of all silos together, and what all silos
/// agree on from the first one that has published.
fn read(silos: &[SiloSnapshot], places: &[Option<usize>; FIELDS.len()]) -> [u64; FIELDS.len()] {
    let value = |silo: &SiloSnapshot, place: Option<usize>| {
        place.and_then(|place| silo.values.get(place).copied()).unwrap_or(0)
    };
    let first = silos.iter().find(|silo| silo.time.is_some());
    core::array::from_fn(|field| match FIELDS[field] {
        "rx_frames" | "tx_frames" => silos.iter().fold(0, |sum, silo| sum + value(silo, places[field])),
        _ => first.map_or(0, |silo| value(silo, places[field])),
    })
}

/// The links that a page's label names, if they are so many and none is cut
/// off.
fn links(label: &str, ports: usize) -> Vec<String> {
    let links: Vec<String> = label.split(' ').skip(1).map(str::to_owned).collect();
    if label.len() < LABEL_LIMIT && links.len() == ports { links } else { Vec::new() }
}

/// A state as a word: `PortDisabled` as `port disabled`.
fn word(state: impl fmt::Debug) -> String {
    let mut words = String::new();
    for letter in format!("{state:?}").chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use bond::{LacpView, PortCounters};
    use wire::Time;

    fn view() -> PortView {
        let lacp = LacpView {
            receive: ReceiveState::Current,
            selected: Selected::Standby,
            mux: Mux::Waiting,
            key: 7,
            partner: Mac([2, 0, 0, 0xab, 0, 9]),
            partner_key: 65_535,
            partner_port: 3,
            pdus_in: 11,
            pdus_out: 12,
        };
        let counters = PortCounters { joined: 2, left: 1, dropped_not_collecting: 5 };
        PortView { up: true, distributing: false, counters, lacp: Some(lacp) }
    }

    fn port(view: &PortView) -> BondPort {
        let lacp = view.lacp.is_some();
        BondPort { number: 1, name: Some("af_xdp:near0".to_owned()), values: values(view, 100, 200), lacp }
    }

    #[test]
    fn a_port_is_a_line() {
        assert_eq!(
            port(&view()).to_string(),
            "port 1 af_xdp:near0: waiting, standby, current, key 7, partner 02:00:00:ab:00:09 key 65535 port 3, LACP \
             in 11 out 12, frames in 100 out 200, joined 2, left 1, dropped while not collecting 5"
        );
        let mut plain = PortView { lacp: None, distributing: true, ..view() };
        plain.counters.dropped_not_collecting = 0;
        assert_eq!(
            port(&plain).to_string(),
            "port 1 af_xdp:near0: distributing, frames in 100 out 200, joined 2, left 1"
        );
        plain.distributing = false;
        assert!(port(&plain).to_string().contains("near0: standing by, "));
        plain.up = false;
        assert!(port(&plain).to_string().contains("near0: down, "));
        let mut alone = view();
        if let Some(lacp) = &mut alone.lacp {
            lacp.receive = ReceiveState::PortDisabled;
        }
        let line = port(&alone).to_string();
        assert!(line.contains("port disabled, key 7, LACP in 11"), "{line}");
    }

    #[test]
    fn a_port_is_an_object() {
        let json = port(&view()).json();
        assert_eq!(
            (&json["state"], &json["up"], &json["name"]),
            (&json!("waiting"), &json!(true), &json!("af_xdp:near0"))
        );
        let partner = json!({ "system": "02:00:00:ab:00:09", "key": 65_535, "port": 3 });
        assert_eq!((&json["lacp"]["partner"], &json["lacp"]["actor_key"]), (&partner, &json!(7)));
        assert_eq!((&json["lacp"]["in"], &json["lacp"]["out"], &json["left"]), (&json!(11), &json!(12), &json!(1)));
        assert!(port(&PortView { lacp: None, ..view() }).json()["lacp"].is_null());
    }

    #[test]
    fn frames_are_of_all_silos_and_states_of_one() {
        let places = core::array::from_fn(Some);
        let silo =
            |time: Option<Time>, rx| SiloSnapshot { time, values: values(&view(), rx, 1).to_vec(), consistent: true };
        let unborn = SiloSnapshot { time: None, values: vec![0; FIELDS.len()], consistent: true };
        let read = read(&[unborn, silo(Some(Time::ZERO), 5), silo(Some(Time::ZERO), 6)], &places);
        assert_eq!(read, values(&view(), 11, 2));
    }

    #[test]
    fn names_are_told_from_others() {
        let mut all = Vec::new();
        names(&"lacp".parse().unwrap(), 40, &mut |name, _| all.push(name));
        assert_eq!(all.len(), MAX_PORTS * FIELDS.len());
        assert_eq!((all[0], all[FIELDS.len()]), ("bond.1.up", "bond.2.up"));
        assert!(all.iter().all(|name| is_gauge(name).is_some()));
        assert_eq!((is_gauge("bond.16.lacp_in"), is_gauge("bond.2.mux")), (Some(false), Some(true)));
        assert_eq!((is_gauge("bond.ports"), is_gauge("bond.x.up"), is_gauge("tcp.1.up")), (None, None, None));
        let mut few = Vec::new();
        names(&"static".parse().unwrap(), 2, &mut |name, _| few.push(name));
        assert_eq!((few.len(), few[PLAIN]), (2 * PLAIN, "bond.2.up"));
    }

    #[test]
    fn links_are_named_where_none_is_cut_off() {
        assert_eq!(links("serve a b", 2), ["a", "b"]);
        assert!(links("serve a b", 3).is_empty());
        assert!(links(&format!("serve a {}", "b".repeat(LABEL_LIMIT - 8)), 2).is_empty());
    }
}
