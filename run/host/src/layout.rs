//! Which silo has which core, memory domain and queues.

use super::sched::Scheduling;
use super::spread::spread;
use super::{quota, random, unlike};
use crate::drivers::LinkSpec;
use crate::plan::HostPlan;
use crate::silos::Silos;
use core::fmt::{self, Write as _};
use cpu::pin::allowed_cores;
use say::{Failure, print, println};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;
use steer::{Mesh, MeshConfig, MeshEnd, Policy, Spread};
use topology::{Ask, Memory, Queue, Queues, Topology, plan};

/// Who works where.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The silos, by index; at least one.
    pub seats: Vec<SiloPlace>,
    /// The ports, in the order of the plan's links.
    pub ports: Vec<PortLayout>,
    /// How connections are to find their silo, and why so; `None` where there
    /// is nothing to choose.
    planned: Option<String>,
    /// How they do, once the ports are open and have told what they can.
    joined: OnceLock<String>,
    /// How several links are one; `None` of one that is used as it is.
    bond: Option<bond::Setup>,
    /// What limits the processor time of all silos together, if anything.
    pub quota: Option<String>,
    /// What is not as one would wish it.
    pub warnings: Vec<String>,
}

/// Where a silo is, and what it owns.
#[derive(Clone, Debug)]
pub struct SiloPlace {
    /// Which one it is.
    pub index: usize,
    /// The core that it is pinned to, if it is.
    pub core: Option<u16>,
    /// That core's domain.
    pub domain: Option<u16>,
    /// Where its memory is to be; `None`: wherever the kernel puts it.
    pub memory: Option<Memory>,
    /// Its queues.
    pub queues: Vec<Queue>,
    /// The ports that its connections' frames leave by.
    pub egress: Vec<u16>,
}

/// A port, and what is opened of it.
#[derive(Clone, Debug)]
pub struct PortLayout {
    /// Its name.
    pub name: String,
    /// The domain that it is attached to, if to any.
    pub domain: Option<u16>,
    /// The queue pairs to open.
    pub queues: u16,
}

impl Layout {
    /// What a plan asks for on this machine.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn new(host: &HostPlan) -> Result<Self, Failure> {
        let mut layout = Self::planned(host)?;
        for (link, port) in host.links.iter().zip(&layout.ports) {
            link.driver.check_queues(port.queues)?;
        }
        if host.links.len() > 1 || host.bond != bond::Setup::default() {
            // Where sysfs is hidden nothing is known of them.
            let topology = Topology::read(Path::new("/"), None).unwrap_or_default();
            let warnings = unlike::check(host, &topology)?;
            layout.warnings.extend(warnings);
        }
        // What answers a connection that a silo opened comes back to it where
        // the other side answers by the queue that was asked through, or where
        // the software's hash, which the local port is chosen by, says so.
        let by_peer = || layout.is_plain() && spread(host, &layout.queues()).0 == Spread::Peer;
        if host.opens_any() && layout.seats.len() > 1 && host.steer != Policy::Hash && !by_peer() {
            return Err("to open connections over such a link, several silos need --steer hash".into());
        }
        if let Some(priority) = host.fifo {
            let said = Scheduling::read(Path::new("/")).allows(priority, &layout.cores())?;
            layout.warnings.push(format!("--sched: {said}"));
        }
        if !layout.is_single() {
            layout.planned = Some(layout.mesh(host, 0)?.1);
        }
        Ok(layout)
    }

    fn planned(host: &HostPlan) -> Result<Self, Failure> {
        let silos = match &host.silos {
            Silos::One => return Ok(Self::unpinned(host)),
            Silos::Count(count) => topology::Silos::Count(*count),
            Silos::Cores(cores) => topology::Silos::On(cores.clone()),
            Silos::Auto => topology::Silos::Auto,
        };
        let topology = Topology::read(Path::new("/"), Some(&allowed_cores()?))?;
        let ports = host.links.iter().map(port).collect();
        let mut ask = Ask { ports, silos, numa: host.numa };
        let mut planned = plan(&topology, &ask)?;
        let asked = ask.silos != topology::Silos::Auto;
        let heeded = quota::heed(quota::here().as_ref(), planned.silos.len(), asked, "silos");
        if heeded.threads < planned.silos.len() {
            ask.silos = topology::Silos::Count(u16::try_from(heeded.threads).unwrap_or(u16::MAX));
            planned = plan(&topology, &ask)?;
        }
        let seat = |(index, seat): (usize, topology::PlannedSilo)| SiloPlace {
            index,
            core: Some(seat.core),
            domain: Some(seat.domain),
            memory: Some(seat.memory),
            queues: seat.queues,
            egress: seat.egress,
        };
        let opened = ask.ports.into_iter().zip(planned.queues);
        Ok(Self {
            seats: planned.silos.into_iter().enumerate().map(seat).collect(),
            ports: opened.map(|(port, queues)| PortLayout { name: port.name, domain: port.domain, queues }).collect(),
            planned: None,
            joined: OnceLock::new(),
            bond: bond_of(host),
            quota: heeded.note,
            warnings: planned.warnings.iter().map(ToString::to_string).chain(heeded.warning).collect(),
        })
    }

    /// One silo for everything, where the kernel has it run.
    fn unpinned(host: &HostPlan) -> Self {
        let ports = host.links.iter().map(|link| PortLayout {
            name: link.name(),
            domain: None,
            queues: link.wanted_queues().unwrap_or(1),
        });
        let ports: Vec<PortLayout> = ports.collect();
        let all = (0_u16..).zip(&ports);
        let queues = all.clone().flat_map(|(port, it)| (0..it.queues).map(move |queue| Queue { port, queue }));
        let seat = SiloPlace {
            index: 0,
            core: None,
            domain: None,
            memory: None,
            queues: queues.collect(),
            egress: all.map(|(port, _)| port).collect(),
        };
        let (planned, joined, bond) = (None, OnceLock::new(), bond_of(host));
        let heeded = quota::heed(quota::here().as_ref(), 1, true, "silos");
        let (quota, warnings) = (heeded.note, heeded.warning.into_iter().collect());
        Self { seats: vec![seat], ports, planned, joined, bond, quota, warnings }
    }

    /// Whether ports speak the control protocol of link aggregation, even one alone.
    fn speaks_lacp(&self) -> bool {
        self.bond.is_some_and(|bond| matches!(bond.mode, bond::Mode::Lacp(_)))
    }

    /// Whether there is one queue in all, and one silo: nothing is between the
    /// two.
    pub fn is_single(&self) -> bool {
        !self.speaks_lacp() && matches!(self.seats.as_slice(), [seat] if seat.queues.len() == 1)
    }

    /// Whether each silo has one queue, of the only port, which is used as it
    /// is.
    pub fn is_plain(&self) -> bool {
        !self.speaks_lacp() && self.ports.len() == 1 && self.seats.iter().all(|seat| seat.queues.len() == 1)
    }

    /// The ends of the mesh that joins the silos of open links, in their
    /// order, for links that take packets of `longest` bytes.
    ///
    /// # Errors
    /// If the operating system gives no memory for its rings, or there are
    /// too many silos.
    pub fn join(&self, host: &HostPlan, longest: usize) -> Result<Vec<MeshEnd>, Failure> {
        let (mesh_ends, steering) = self.mesh(host, longest)?;
        self.joined.get_or_init(|| steering);
        Ok(mesh_ends)
    }

    /// How connections find their silo, and why so; `None` where there is
    /// nothing to choose.
    pub fn steering(&self) -> Option<&str> {
        self.joined.get().or(self.planned.as_ref()).map(String::as_str)
    }

    /// The ends of the mesh, and how connections find their silo by what is known now.
    fn mesh(&self, host: &HostPlan, longest: usize) -> Result<(Vec<MeshEnd>, String), Failure> {
        let seats = self.seats.iter().map(|seat| steer::SiloSpec {
            domain: seat.domain.unwrap_or(0),
            queues: u16::try_from(seat.queues.len()).unwrap_or(u16::MAX),
        });
        let seats: Vec<steer::SiloSpec> = seats.collect();
        let usual = MeshConfig::default();
        let ring = usual.ring.max(longest * PACKETS_IN_RING);
        let (spread, why) = spread(host, &self.queues());
        let config = MeshConfig { policy: host.steer, spread, key: random()?, ring, ..usual };
        let mesh_ends = Mesh::new(&seats, &config)?;
        let mut steering = mesh_ends.first().map_or(String::new(), |mesh_end| mesh_end.steering().to_owned());
        // Where a silo has no queue, or another way is asked for, it is not for
        // that reason.
        let would = host.steer == Policy::Hash && seats.len() > 1 && seats.iter().all(|seat| seat.queues > 0);
        if let Some(why) = why.filter(|_| would) {
            let _ = write!(steering, "; {why}");
        }
        Ok((mesh_ends, steering))
    }

    /// How many queues each port has.
    fn queues(&self) -> Vec<u16> {
        self.ports.iter().map(|port| port.queues).collect()
    }

    /// The cores of the silos, in their order.
    pub fn cores(&self) -> Vec<Option<u16>> {
        self.seats.iter().map(|seat| seat.core).collect()
    }

    /// Tells a server's log of it.
    pub fn say(&self) {
        self.table().lines().for_each(say::info);
        self.warnings.iter().for_each(say::warning);
    }

    /// Prints it, and nothing else.
    pub fn print(&self, json: bool) {
        if json { println!("{}", self.json()) } else { print!("{self}") }
    }

    /// As JSON: what the table shows, and the ports that frames leave by.
    pub fn json(&self) -> Value {
        let name = |port: u16| self.ports.get(usize::from(port)).map_or("", |port| port.name.as_str());
        let seat = |seat: &SiloPlace| {
            let queue = |queue: &Queue| json!({ "port": name(queue.port), "queue": queue.queue });
            json!({
                "silo": seat.index,
                "core": seat.core,
                "domain": seat.domain,
                "memory": seat.memory.map(|memory| match memory {
                    Memory::Domain(domain) => json!({ "domain": domain }),
                    Memory::Interleave => json!("interleave"),
                }),
                "queues": seat.queues.iter().map(queue).collect::<Vec<_>>(),
                "leaves_by": seat.egress.iter().map(|port| name(*port)).collect::<Vec<_>>(),
            })
        };
        let port = |port: &PortLayout| json!({ "name": port.name, "domain": port.domain, "queues": port.queues });
        json!({
            "silos": self.seats.iter().map(seat).collect::<Vec<_>>(),
            "ports": self.ports.iter().map(port).collect::<Vec<_>>(),
            "bond": self.bond.map(|bond| json!({
                "mode": if self.speaks_lacp() { "lacp" } else { "static" },
                "min_links": bond.min_links,
                "weights": self.weights(&bond),
                "written": bond.to_string(),
            })),
            "steering": self.steering(),
            "quota": self.quota,
            "warnings": self.warnings,
        })
    }

    /// What part of the flows each port has: 1, where nothing else is said.
    fn weights(&self, bond: &bond::Setup) -> Vec<u8> {
        bond.weights.iter().take(self.ports.len()).map(|weight| *weight.max(&1)).collect()
    }

    /// The rows of the table: a silo's ports each have one.
    fn rows(&self) -> Vec<[String; COLUMNS]> {
        let mut rows = Vec::new();
        for seat in &self.seats {
            let or_dash = |number: Option<u16>| number.map_or("-".to_owned(), |number| number.to_string());
            let memory = match seat.memory {
                Some(Memory::Domain(domain)) => format!("domain {domain}"),
                Some(Memory::Interleave) => "interleaved".to_owned(),
                None => "-".to_owned(),
            };
            let mut first = Some([seat.index.to_string(), or_dash(seat.core), or_dash(seat.domain)]);
            let mut row = |port: &str, queues: String| {
                let memory = if first.is_some() { memory.clone() } else { String::new() };
                let [silo, core, domain] = first.take().unwrap_or_default();
                rows.push([silo, core, domain, port.to_owned(), queues, memory]);
            };
            for (index, port) in (0_u16..).zip(&self.ports) {
                let mine = seat.queues.iter().filter(|queue| queue.port == index);
                let mine: Vec<String> = mine.map(|queue| queue.queue.to_string()).collect();
                if !mine.is_empty() {
                    row(&port.name, mine.join(","));
                }
            }
            if seat.queues.is_empty() {
                row("shared", "-".to_owned());
            }
        }
        rows
    }
}

const COLUMNS: usize = 6;

const HEADS: [&str; COLUMNS] = ["silo", "core", "domain", "port", "queues", "memory"];

/// As a table, and the warnings below it.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table())?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

impl Layout {
    /// The table, and what is said below it.
    fn table(&self) -> String {
        let rows = self.rows();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADS[column].len()]).max().unwrap_or(0)
        };
        let heads = HEADS.map(str::to_owned);
        let mut table = String::new();
        for row in core::iter::once(&heads).chain(&rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = width(column);
                // Numbers to the right, names to the left.
                let _ = if column < 3 { write!(line, "  {cell:>width$}") } else { write!(line, "  {cell:<width$}") };
            }
            table.extend([line.trim_end(), "\n"]);
        }
        if let Some(bond) = &self.bond {
            let mode = if self.speaks_lacp() { "lacp" } else { "static" };
            let weights: Vec<String> = self.weights(bond).iter().map(ToString::to_string).collect();
            let (links, weights) = (self.ports.len(), weights.join(":"));
            let _ = writeln!(table, "  bond of {links} links: {mode}, min-links {}, weights {weights}", bond.min_links);
        }
        if let Some(steering) = self.steering() {
            table.extend(["  steering by ", steering, "\n"]);
        }
        if let Some(quota) = &self.quota {
            table.extend(["  ", quota, "\n"]);
        }
        table
    }
}

/// The longest packets that are to fit a ring between silos: so many that a
/// stack which sends through another silo's queue has room beyond what it
/// keeps for acknowledgements, however long its packets may be.
const PACKETS_IN_RING: usize = 24;

/// How a plan's links are one; `None` of one that is used as it is.
fn bond_of(host: &HostPlan) -> Option<bond::Setup> {
    (host.links.len() > 1 || host.speaks_lacp()).then_some(host.bond)
}

/// A link as the planner sees it.
fn port(link: &LinkSpec) -> topology::Port {
    let queues = link.wanted_queues().map_or(Queues::UpTo(link.driver.most_queues()), Queues::Fixed);
    topology::Port { name: link.name(), domain: link.driver.domain(), queues }
}
