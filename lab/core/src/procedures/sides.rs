//! The servers that are put side by side, the generators that ask them, and
//! what joins them.

use super::stand::{Asked, SATURATED, Server, Stand, words};
use crate::Failure;
use crate::results::{Figure, Run};
use demo::child::Interrupt;
use demo::machine::is_root;
use demo::measure::SMALL_BODY;
use demo::netns::{Alone, DEVICE, Namespaces, SERVER};
use silo::memory::HugePages;
use std::path::Path;
use std::time::Duration;

/// A server of ours, by the way that its frames take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// The kernel's stack, over the veth pair.
    Kernel,
    /// Our stack over the veth pair.
    AfXdp,
    /// Our stack over a tap device to the kernel.
    Tap,
    /// Our stack over shared memory.
    Memif,
    /// The same by DPDK's driver.
    Dpdk,
}

/// What asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Generator {
    /// Kernel sockets, as most clients have: as heavy as a kernel server.
    Sockets,
    /// The bypass path, which leaves the most to the server: over AF_XDP on
    /// the client's end of the veth pair, or over shared memory.
    Bypass,
}

impl Link {
    pub(crate) const ALL: [Self; 5] = [Self::Kernel, Self::AfXdp, Self::Tap, Self::Memif, Self::Dpdk];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel sockets",
            Self::AfXdp => "af_xdp",
            Self::Tap => "tap",
            Self::Memif => "memif",
            Self::Dpdk => "dpdk memif",
        }
    }

    /// What joins it to its generator, as a condition of the comparison.
    pub(crate) const fn joins(self) -> &'static str {
        match self {
            Self::Kernel | Self::AfXdp => "veth between two network namespaces",
            Self::Tap => "tap into a network namespace",
            Self::Memif | Self::Dpdk => "shared memory between two processes",
        }
    }

    /// Why it cannot be measured here, if so.
    pub(crate) fn missing(self, program: &str) -> Option<String> {
        match self {
            Self::Kernel | Self::AfXdp | Self::Tap if !is_root() => Some("network namespaces need root".to_owned()),
            Self::Tap if !Path::new("/dev/net/tun").exists() => {
                Some("there is no /dev/net/tun: modprobe tun".to_owned())
            }
            Self::Dpdk => built_without_dpdk(program),
            Self::Kernel | Self::AfXdp | Self::Tap | Self::Memif => None,
        }
    }

    /// What takes part in a closed loop with it.
    pub(crate) const fn generators(self) -> &'static [Generator] {
        match self {
            Self::Kernel | Self::AfXdp => &[Generator::Sockets, Generator::Bypass],
            Self::Tap => &[Generator::Sockets],
            Self::Memif | Self::Dpdk => &[Generator::Bypass],
        }
    }
}

/// Whether this program was built without DPDK: opening a port that needs
/// nothing says so. Where it opens, it is ended.
fn built_without_dpdk(program: &str) -> Option<String> {
    let link = "--link=dpdk:net_null0,huge=off";
    let call = ["timeout", "3", program, "serve", "--respond=1", "--addr=10.0.0.1/24", link];
    let why = demo::child::call(&call).err()?.to_string();
    why.contains("built without DPDK").then(|| "this program was built without DPDK: make build DPDK=1".to_owned())
}

/// Whether there are huge pages free for DPDK's packet memory: it is slower
/// without.
pub(crate) fn has_huge_pages() -> bool {
    /// More than a server with one queue takes.
    const ENOUGH: u64 = 256 << 20;
    HugePages::probe().reserved.iter().any(|pages| pages.size == 2 << 20 && pages.size * pages.free >= ENOUGH)
}

/// Server cores and the generator's, and the namespaces of those that need
/// some.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    pub(crate) stand: &'a Stand,
    pub(crate) veth: Option<&'a Namespaces>,
    pub(crate) tap: Option<&'a Alone>,
    /// Cores of the server, one for each silo or worker.
    pub(crate) servers: &'a [u16],
    pub(crate) interrupt: &'a Interrupt,
}

/// Our servers over the veth pair, beside a server on port 80.
const PORT: u16 = 8_000;
/// The address of a server, and of a generator, over AF_XDP.
const OWN_SERVER: &str = "10.77.0.22";
const OWN_CLIENT: &str = "10.77.0.11";
const TAP_SERVER: &str = "10.79.0.2";
const TAP_KERNEL: &str = "10.79.0.1";
const MEMIF_SERVER: &str = "10.78.0.2";
const MEMIF_CLIENT: &str = "10.78.0.1";

impl Field<'_> {
    fn memif(&self) -> String {
        self.stand.folder().join("memif.sock").display().to_string()
    }

    /// Who polls takes the whole of a core, and two on one core starve each
    /// other: there both sleep while there is nothing to do.
    fn idle(&self) -> String {
        let shared = self.servers.contains(&self.stand.cores.1);
        if shared { "--idle=adaptive".to_owned() } else { "--idle=spin".to_owned() }
    }

    /// Starts our server.
    pub(crate) fn serve(&self, link: Link) -> Result<Server, Failure> {
        let cores: Vec<String> = self.servers.iter().map(u16::to_string).collect();
        let mut words = words(["--respond", &format!("text:{SMALL_BODY}"), "--max-connections=20k"]);
        if link == Link::Kernel {
            words.push(format!("--listen={SERVER}:{PORT}"));
            words.push(format!("--workers={}", cores.len()));
            words.push(format!("--cores={}", cores.join(",")));
            words.extend(["--control=off", "--backlog=65535"].map(str::to_owned));
        } else {
            words.push(self.idle());
            match &cores[..] {
                [one] => words.push(format!("--core={one}")),
                many => words.push(format!("--silos={}", many.join(","))),
            }
        }
        let (link, address) = match link {
            Link::Kernel => {
                return self.stand.serve(self.veth.map(|names| names.server.as_str()), &words, self.interrupt);
            }
            Link::AfXdp => (format!("af_xdp:{DEVICE}"), OWN_SERVER),
            Link::Tap => (format!("tap:{DEVICE},addr={TAP_KERNEL}/24"), TAP_SERVER),
            Link::Memif => (format!("memif:{}", self.memif()), MEMIF_SERVER),
            Link::Dpdk => (
                format!(
                    "dpdk:net_memif0,dev.role=server,dev.socket={},dev.socket-abstract=no,huge={}",
                    self.memif(),
                    if has_huge_pages() { "on" } else { "off" }
                ),
                MEMIF_SERVER,
            ),
        };
        let _ = std::fs::remove_file(self.memif());
        let netns = match address {
            OWN_SERVER => self.veth.map(|names| names.server.as_str()),
            TAP_SERVER => self.tap.map(Alone::name),
            _ => None,
        };
        words.push(format!("--link={link}"));
        words.push(format!("--addr={address}/24"));
        self.stand.serve(netns, &words, self.interrupt)
    }

    /// Asks a server of ours, or another one at `port` of the kernel's address.
    pub(crate) fn ask(
        &self,
        server: &mut Server,
        (link, port): (Link, Option<u16>),
        generator: Generator,
        connections: u32,
        duration: Duration,
    ) -> Result<Asked, Failure> {
        let url = match link {
            Link::Kernel => format!("http://{SERVER}:{}/small", port.unwrap_or(PORT)),
            Link::AfXdp => format!("http://{OWN_SERVER}/small"),
            Link::Tap => format!("http://{TAP_SERVER}/small"),
            Link::Memif | Link::Dpdk => format!("http://{MEMIF_SERVER}/small"),
        };
        let mut words = vec![url, format!("--connections={connections}")];
        let core = self.stand.cores.1;
        let mut own = |link: String, address: &str| {
            words.push(format!("--link={link}"));
            words.push(format!("--addr={address}/24"));
            words.push(format!("--core={core}"));
            words.push(self.idle());
        };
        match (link, generator) {
            (Link::Memif | Link::Dpdk, _) => own(format!("memif:{}", self.memif()), MEMIF_CLIENT),
            (_, Generator::Bypass) => own(format!("af_xdp:{DEVICE}"), OWN_CLIENT),
            (_, Generator::Sockets) => {
                words.extend(["--threads=1", "--no-floor"].map(str::to_owned));
                words.push(format!("--cores={core}"));
            }
        }
        let netns = match link {
            Link::Kernel | Link::AfXdp => self.veth.map(|names| names.client.as_str()),
            Link::Tap => self.tap.map(Alone::name),
            Link::Memif | Link::Dpdk => None,
        };
        self.stand.ask(server, netns, &words, duration, self.interrupt)
    }
}

/// How far rate × mean latency may be off the connections before latencies are
/// not believed.
pub(crate) const LITTLE: f64 = 0.05;

/// From this share of a core on, what other programs took is said.
const OTHERS: f64 = 0.1;

/// The figures of a measurement, by the names that [`enter`] gives them.
pub(crate) fn figures(pass: &str) -> Vec<Figure> {
    let name = |what: &str| format!("{pass} {what}");
    let mut figures = vec![Figure::higher(&name("rate"), "requests/s")];
    figures.extend(["mean", "p50", "p99", "p99.9"].map(|what| Figure::lower(&name(what), "µs")));
    figures.extend(["stdev", "max"].map(|what| Figure::plain(&name(what), "µs")));
    figures.push(Figure::plain(&name("transfer"), "MB/s"));
    figures.push(Figure::lower(&name("server CPU"), "µs/request"));
    figures.push(Figure::plain(&name("server busy"), "% of its time"));
    figures.push(Figure::plain(&name("generator busy"), "% of its time"));
    figures
}

/// Enters a measurement into its run. Latencies that contradict Little's law
/// are not: of figures that cannot be there is no verdict.
pub(crate) fn enter(run: &mut Run, pass: &str, asked: &Asked, connections: u32, servers: usize) {
    let mut put = |name: &str, value: f64| super::stand::put_in(run, pass, name, value);
    put("rate", asked.rate);
    put("transfer", asked.transfer / 1e6);
    put("server CPU", asked.server_busy * servers as f64 * 1e6 / asked.rate);
    put("server busy", 100.0 * asked.server_busy);
    put("generator busy", 100.0 * asked.client_busy);
    let believed = agrees(asked, connections);
    if believed {
        put("mean", asked.mean);
        put("stdev", asked.stdev);
        for (name, percentile) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
            put(name, asked.at(percentile));
        }
        put("max", asked.latency.max);
    }
    let mut said = format!("limited by {}", limit(asked));
    let (server, client) = (100.0 * asked.server.others, 100.0 * asked.client.others);
    if servers == 1 && server.max(client) > 100.0 * OTHERS {
        said +=
            &format!("; other programs had {server:.0} % of the server's core and {client:.0} % of the generator's");
    }
    if !believed {
        let found = asked.in_progress();
        said += &format!(
            "; latencies left out: rate × mean is {found:.1}, and there are {connections} connections (Little's law)"
        );
    }
    run.details.insert(pass.to_owned(), said);
    run.errors += asked.errors;
}

fn agrees(asked: &Asked, connections: u32) -> bool {
    (asked.in_progress() / f64::from(connections) - 1.0).abs() <= LITTLE
}

/// What limited a closed loop.
fn limit(asked: &Asked) -> &'static str {
    match (asked.server_busy >= SATURATED, asked.client_busy >= SATURATED) {
        (false, false) => "neither core: by the way between them, and the connections that wait for it",
        _ => asked.saturated(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Distribution;
    use demo::machine::CpuShare;

    fn asked(rate: f64, mean: f64) -> Asked {
        let latency =
            Distribution { curve: vec![mean; demo::measure::PERCENTILES.len()], max: mean, count: 9, hdr: None };
        Asked {
            rate,
            goodput: 0.0,
            transfer: 1e6,
            mean,
            stdev: 1.0,
            latency,
            errors: 0,
            server_busy: 1.0,
            frames_sent: 0.0,
            server: CpuShare::default(),
            client_busy: 0.5,
            client: CpuShare::default(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn latencies_that_cannot_be_are_left_out() {
        let mut run = Run::default();
        enter(&mut run, "good", &asked(100_000.0, 640.0), 64, 1);
        enter(&mut run, "bad", &asked(100_000.0, 320.0), 64, 1);
        assert_eq!(run.figures.get("good mean"), Some(&640.0));
        assert_eq!((run.figures.get("bad mean"), run.figures.get("bad rate")), (None, Some(&100_000.0)));
        assert!(run.details["good"] == "limited by the server's core", "{:?}", run.details);
        assert!(run.details["bad"].contains("Little's law"), "{:?}", run.details);
        assert_eq!(run.figures.get("good server CPU"), Some(&10.0));
        for figure in figures("good") {
            assert!(run.figures.contains_key(&figure.name), "{}", figure.name);
        }
    }

    #[test]
    fn every_link_has_a_generator_and_a_name_of_its_own() {
        for (at, link) in Link::ALL.iter().enumerate() {
            assert!(!link.generators().is_empty() && !link.joins().is_empty());
            assert!(Link::ALL[..at].iter().all(|other| other.name() != link.name()));
        }
    }
}
