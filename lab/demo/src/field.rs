//! Our servers by the way that their frames take, the generators that ask
//! them, and what joins the two: a veth pair, a tap device or shared memory.

use crate::child::{Interrupt, call};
use crate::error::Error;
use crate::machine::is_root;
use crate::measure::SMALL_BODY;
use crate::netns::{Alone, DEVICE, Namespaces, SERVER};
use crate::played::StreamsPlayed;
use crate::stand::{Asked, Server, Stand, words};
use crate::watched::Watched;
use serde::{Deserialize, Serialize};
use silo::memory::HugePages;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server of ours, by the way that its frames take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// Kernel sockets, as most clients have: as heavy as a kernel server.
    Sockets,
    /// The bypass path, which leaves the most to the server: over AF_XDP on
    /// the client's end of the veth pair, or over shared memory.
    Bypass,
}

impl Link {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Kernel, Self::AfXdp, Self::Tap, Self::Memif, Self::Dpdk];

    /// As tables name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel sockets",
            Self::AfXdp => "af_xdp",
            Self::Tap => "tap",
            Self::Memif => "memif",
            Self::Dpdk => "dpdk memif",
        }
    }

    /// What joins it to its generator, as a condition of the comparison.
    pub const fn joins(self) -> &'static str {
        match self {
            Self::Kernel | Self::AfXdp => "veth between two network namespaces",
            Self::Tap => "tap into a network namespace",
            Self::Memif | Self::Dpdk => "shared memory between two processes",
        }
    }

    /// Why it cannot be measured here, if so.
    pub fn missing(self, program: &str) -> Option<String> {
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
    pub const fn generators(self) -> &'static [Generator] {
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
    let words = ["timeout", "3", program, "serve", "--user=root", "--respond=1", "--addr=10.0.0.1/24", link];
    let why = call(&words).err()?.to_string();
    why.contains("built without DPDK").then(|| "this program was built without DPDK: make build DPDK=1".to_owned())
}

/// Whether there are huge pages free for DPDK's packet memory: it is slower
/// without.
pub fn has_huge_pages() -> bool {
    /// More than a server with one queue takes.
    const ENOUGH: u64 = 256 << 20;
    HugePages::probe().reserved.iter().any(|pages| pages.size == 2 << 20 && pages.size * pages.free >= ENOUGH)
}

/// What `nearside load` asks for, whatever joins it to the server.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The URL's path, with its leading slash.
    pub path: &'a str,
    /// Connections, each with one request under way.
    pub connections: u32,
    /// More of its options.
    pub more: &'a [String],
    /// How long, as [`Stand::ask`] takes it.
    pub duration: Duration,
    /// Whether over TLS.
    pub secured: bool,
}

impl Ask<'_> {
    /// The small answer, on connections that are kept.
    #[must_use]
    pub const fn small(connections: u32, duration: Duration) -> Self {
        Self { path: "/small", connections, more: &[], duration, secured: false }
    }
}

/// Server cores and the generator's, and the namespaces of those that need
/// some.
#[derive(Debug)]
pub struct Field<'a> {
    /// The program and the generator.
    pub stand: &'a Stand,
    /// Two namespaces with a veth pair, where there are any.
    pub veth: Option<&'a Namespaces>,
    /// One with a tap device, where there is one.
    pub tap: Option<&'a Alone>,
    /// Cores of the server, one for each silo or worker.
    pub servers: &'a [u16],
    /// The longest packet on a memif, where it is not as long as Ethernet's (1,500 bytes).
    pub mtu: Option<u16>,
    /// Looked at wherever something is waited for.
    pub interrupt: &'a Interrupt,
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
    fn memif(&self) -> PathBuf {
        self.stand.folder().join("memif.sock")
    }

    /// The memif, with what both of its ends are to agree on.
    #[must_use]
    pub fn memif_link(&self) -> String {
        let path = format!("memif:{}", self.memif().display());
        // A frame is in one buffer, with its Ethernet header and a tag.
        let buffer = |mtu: u16| (u32::from(mtu) + 18).next_multiple_of(64);
        self.mtu.map_or(path.clone(), |mtu| format!("{path},mtu={mtu},buffer={}", buffer(mtu)))
    }

    /// Who polls takes the whole of a core, and two on one core starve each
    /// other: there both sleep while there is nothing to do.
    fn idle(&self) -> String {
        let shared = self.servers.contains(&self.stand.cores.1);
        if shared { "--idle=adaptive".to_owned() } else { "--idle=spin".to_owned() }
    }

    /// Starts our server, with the small answer or with a folder.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn serve(&self, link: Link, folder: Option<&Path>) -> Result<Server, Error> {
        let cores: Vec<String> = self.servers.iter().map(u16::to_string).collect();
        let mut words = match folder {
            Some(folder) => vec![folder.display().to_string()],
            None => words(["--respond", &format!("text:{SMALL_BODY}")]),
        };
        words.push("--max-connections=20k".to_owned());
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
        let netns = self.namespace(link);
        words.extend(self.path(link));
        self.stand.serve(netns, &words, self.interrupt)
    }

    /// Starts our server by an nginx.conf, which has one worker and listens on port
    /// 80 of [`Field::address`], all of it on the server's core.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn serve_configuration(&self, link: Link, configuration: &Path) -> Result<Server, Error> {
        let idle = if link == Link::Kernel { Vec::new() } else { vec![self.idle()] };
        self.serve_configuration_with(link, configuration, &idle)
    }

    /// The same with options that say more: without --idle it has the server's own policy.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn serve_configuration_with(&self, link: Link, configuration: &Path, more: &[String]) -> Result<Server, Error> {
        let configuration = configuration.display().to_string();
        let mut words = words(["nginx", "-e", "stderr", "-c", &configuration]);
        let core = self.servers.first().copied();
        words.extend_from_slice(more);
        if link != Link::Kernel {
            words.extend(core.map(|core| format!("--core={core}")));
        }
        words.extend(self.path(link));
        self.stand.start(self.namespace(link), core, &words, self.interrupt)
    }

    /// Where a server of ours is reached.
    #[must_use]
    pub const fn address(link: Link) -> &'static str {
        match link {
            Link::Kernel => SERVER,
            Link::AfXdp => OWN_SERVER,
            Link::Tap => TAP_SERVER,
            Link::Memif | Link::Dpdk => MEMIF_SERVER,
        }
    }

    /// The options that name a link and its address.
    pub(crate) fn path(&self, link: Link) -> Vec<String> {
        let spec = match link {
            Link::Kernel => return Vec::new(),
            Link::AfXdp => format!("af_xdp:{DEVICE}"),
            Link::Tap => format!("tap:{DEVICE},addr={TAP_KERNEL}/24"),
            Link::Memif => self.memif_link(),
            Link::Dpdk => format!(
                "dpdk:net_memif0,dev.role=server,dev.socket={},dev.socket-abstract=no,huge={}",
                self.memif().display(),
                if has_huge_pages() { "on" } else { "off" }
            ),
        };
        let _ = std::fs::remove_file(self.memif());
        vec![format!("--link={spec}"), format!("--addr={}/24", Self::address(link))]
    }

    /// The namespace that a server is in.
    pub(crate) fn namespace(&self, link: Link) -> Option<&str> {
        match link {
            Link::Kernel | Link::AfXdp => self.veth.map(|names| names.server.as_str()),
            Link::Tap => self.tap.map(Alone::name),
            Link::Memif | Link::Dpdk => None,
        }
    }

    /// Asks a server of ours, or another one at `port` of the kernel's address.
    pub fn ask(
        &self,
        server: &mut Server,
        target: (Link, Option<u16>),
        generator: Generator,
        ask: Ask<'_>,
    ) -> Result<Asked, Error> {
        let asking = self.asking(target, generator, &ask);
        self.stand.ask(server, self.clients(target.0), &asking.words, ask.duration, self.interrupt)
    }

    /// The same with streams that play, which begin to count after `lead`; `mark` as [`Stand::play`] has it.
    ///
    /// # Errors
    /// If there is no report of them.
    pub fn play(
        &self,
        server: &mut Server,
        (target, generator): ((Link, Option<u16>), Generator),
        ask: Ask<'_>,
        lead: Duration,
        mark: &mut dyn FnMut(),
    ) -> Result<(StreamsPlayed, Watched), Error> {
        let Asking { words, has_page } = self.asking(target, generator, &ask);
        let page = has_page.then(|| self.stand.folder().join("load.page"));
        let netns = self.clients(target.0);
        self.stand.play(server, netns, (words, page), (lead, ask.duration), (self.interrupt, mark))
    }

    /// What the generator is started with.
    fn asking(&self, (link, port): (Link, Option<u16>), generator: Generator, ask: &Ask<'_>) -> Asking {
        let host = match link {
            Link::Kernel => format!("{SERVER}:{}", port.unwrap_or(PORT)),
            other => Self::address(other).to_owned(),
        };
        let scheme = if ask.secured { "https" } else { "http" };
        let mut words = vec![format!("{scheme}://{host}{}", ask.path), format!("--connections={}", ask.connections)];
        words.extend_from_slice(ask.more);
        let core = self.stand.cores.1;
        let mut own = |link: String, address: &str| {
            words.push(format!("--link={link}"));
            words.push(format!("--addr={address}/24"));
            words.push(format!("--core={core}"));
            words.push(self.idle());
            true
        };
        let has_page = match (link, generator) {
            (Link::Memif | Link::Dpdk, _) => own(self.memif_link(), MEMIF_CLIENT),
            (_, Generator::Bypass) => own(format!("af_xdp:{DEVICE}"), OWN_CLIENT),
            (_, Generator::Sockets) => {
                words.extend(["--threads=1", "--no-floor"].map(str::to_owned));
                words.push(format!("--cores={core}"));
                false
            }
        };
        Asking { words, has_page }
    }

    /// The namespace that a server's generator is in.
    fn clients(&self, link: Link) -> Option<&str> {
        match link {
            Link::Kernel | Link::AfXdp => self.veth.map(|names| names.client.as_str()),
            Link::Tap => self.tap.map(Alone::name),
            Link::Memif | Link::Dpdk => None,
        }
    }
}

/// Words of the generator's command line, and whether it can have a page of its own.
struct Asking {
    words: Vec<String>,
    has_page: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_a_generator_and_a_name_of_its_own() {
        for (at, link) in Link::ALL.iter().enumerate() {
            assert!(!link.generators().is_empty() && !link.joins().is_empty());
            assert!(Link::ALL[..at].iter().all(|other| other.name() != link.name()));
        }
    }
}
