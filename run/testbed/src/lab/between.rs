//! What can be put between two ports, set up and taken away again.

use crate::DevicesPlan;
use crate::child::{own, program};
use demo::child::{Interrupt, Running, call};
use demo::netns::{BareWire, Wires};
use demo::pages::HugePages;
use ebpf::{Assembly, Program, XdpAttachment, XdpMode};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use say::Failure;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The tester's addresses as its frames have them: of each port, and of the
/// network that it is in.
const MACS: [&str; 2] = ["02:00:00:00:02:00", "02:00:00:00:02:01"];
const NEXT: [&str; 2] = ["198.18.0.2", "198.19.0.2"];
const OWN: [&str; 2] = ["198.18.0.1/24", "198.19.0.1/24"];

/// Until a device at interfaces is ready: nothing shows that it is.
const COMING: Duration = Duration::from_secs(3);
/// Until a device has its sockets.
const SOCKETS: Duration = Duration::from_secs(20);

/// Sends what comes by one interface to another.
const REDIRECT: &str = include_str!("../../programs/redirect.bpf");

/// What can be put between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// Nothing: a veth pair from one port to the other.
    Wire,
    /// The kernel's bridge.
    Bridge,
    /// The kernel's forwarding of IP.
    Route,
    /// An XDP program that redirects frames to the other interface.
    Xdp,
    /// dpdk-testpmd by AF_XDP, in mode io.
    Testpmd,
    /// Our forwarder by AF_XDP, in mode io.
    Forward,
    /// Nothing: shared memory from one port to the other.
    MemifWire,
    /// dpdk-testpmd over shared memory, in mode io.
    MemifTestpmd,
    /// Our forwarder over shared memory, in mode io.
    MemifForward,
}

impl Device {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Wire,
        Self::Bridge,
        Self::Route,
        Self::Xdp,
        Self::Testpmd,
        Self::Forward,
        Self::MemifWire,
        Self::MemifTestpmd,
        Self::MemifForward,
    ];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Bridge => "bridge",
            Self::Route => "route",
            Self::Xdp => "xdp",
            Self::Testpmd => "testpmd",
            Self::Forward => "forward",
            Self::MemifWire => "memif-wire",
            Self::MemifTestpmd => "memif-testpmd",
            Self::MemifForward => "memif-forward",
        }
    }
}

/// A device between the ports, as long as this lives. What it has of the
/// machine is given back after it.
pub(super) struct Between {
    /// The tester's links.
    pub links: [String; 2],
    kind: Kind,
    _pages: Option<HugePages>,
    place: Place,
}

/// What forwards.
enum Kind {
    /// The kernel, or nothing.
    Nothing,
    /// Programs at two interfaces.
    Programs { _attached: [XdpAttachment; 2] },
    /// A process.
    Process(Box<Running>),
}

/// What its ports are.
enum Place {
    Wires(Wires),
    Bare(BareWire),
    Memory,
}

impl Between {
    /// Sets a device up, and waits until it is ready.
    pub fn set(plan: &DevicesPlan, device: Device, folder: &Path, interrupt: &Interrupt) -> Result<Self, Failure> {
        let socket = |name: &str| folder.join(format!("{}-{name}.sock", device.name())).display().to_string();
        let sockets = [socket("a"), socket("b")];
        for path in &sockets {
            let _ = fs::remove_file(path);
        }
        let interfaces = |names: &[String; 2]| names.clone().map(|name| format!("af_xdp:{name}"));
        let memory = |role: &str| sockets.clone().map(|path| format!("memif:{path},role={role}"));
        let (place, links) = match device {
            Device::Wire => {
                let wire = BareWire::make()?;
                let links = interfaces(&wire.ends);
                (Place::Bare(wire), links)
            }
            Device::MemifWire => {
                let of = |role: &str| format!("memif:{},role={role}", sockets[0]);
                (Place::Memory, [of("server"), of("client")])
            }
            Device::MemifTestpmd | Device::MemifForward => (Place::Memory, memory("client")),
            Device::Bridge | Device::Route | Device::Xdp | Device::Testpmd | Device::Forward => {
                let wires = Wires::apart()?;
                let links = interfaces(&wires.outer);
                (Place::Wires(wires), links)
            }
        };
        let mut this = Self { links, kind: Kind::Nothing, _pages: None, place };
        match device {
            Device::Wire | Device::MemifWire => return Ok(this),
            Device::Bridge => bridge(this.wires()?)?,
            Device::Route => route(this.wires()?)?,
            Device::Xdp => this.kind = Kind::Programs { _attached: redirect(this.wires()?)? },
            Device::Testpmd | Device::MemifTestpmd => {
                // Without them the driver of AF_XDP finds no memory that is in one piece.
                let pages = HugePages::take(folder)?;
                let ports = match &this.place {
                    Place::Wires(wires) => {
                        wires.inner.clone().map(|name| ("net_af_xdp".to_owned(), format!("iface={name}")))
                    }
                    _ => sockets.clone().map(|path| {
                        ("net_memif".to_owned(), format!("role=server,id=0,socket={path},socket-abstract=no"))
                    }),
                };
                let words = testpmd(plan, &pages, ports);
                this._pages = Some(pages);
                this.start(folder, device, words)?;
            }
            Device::Forward | Device::MemifForward => {
                let ports = match &this.place {
                    Place::Wires(wires) => interfaces(&wires.inner),
                    _ => memory("server"),
                };
                let mut words = own(&["packet", "forward", "--mode", "io"])?;
                words.extend(ports.iter().map(|link| format!("--link={link}")));
                if let Some(core) = plan.device_core {
                    words.extend(["--cores".to_owned(), core.to_string()]);
                }
                this.start(folder, device, words)?;
            }
        }
        match (&this.place, &mut this.kind) {
            (Place::Memory, Kind::Process(process)) => {
                let there = || sockets.iter().all(|path| Path::new(path).exists());
                process.wait_until("open its sockets", SOCKETS, interrupt, there)?;
            }
            _ => interrupt.sleep(COMING)?,
        }
        this.check()?;
        Ok(this)
    }

    /// An error if the device is gone.
    pub fn check(&mut self) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Process(process) => Ok(process.still_runs()?),
            Kind::Programs { .. } | Kind::Nothing => Ok(()),
        }
    }

    /// Where the tester's links are, if not here.
    pub fn netns(&self) -> Option<&str> {
        match &self.place {
            Place::Wires(wires) => wires.outside(),
            Place::Bare(wire) => Some(wire.inside()),
            Place::Memory => None,
        }
    }

    fn wires(&self) -> Result<&Wires, Failure> {
        match &self.place {
            Place::Wires(wires) => Ok(wires),
            Place::Bare(_) | Place::Memory => Err("this device has no interfaces".into()),
        }
    }

    fn start(&mut self, folder: &Path, device: Device, words: Vec<String>) -> Result<(), Failure> {
        let netns = match &self.place {
            Place::Wires(wires) => Some(wires.inside()),
            Place::Bare(_) | Place::Memory => None,
        };
        self.kind = Kind::Process(Box::new(program(device.name(), netns, words).start(folder)?));
        Ok(())
    }
}

/// dpdk-testpmd with two ports: driver, and what it is told.
fn testpmd(plan: &DevicesPlan, pages: &HugePages, ports: [(String, String); 2]) -> Vec<String> {
    let mut words = ["dpdk-testpmd", "--no-pci", "--no-telemetry", "-m=256"].map(str::to_owned).to_vec();
    words.push(format!("--huge-dir={}", pages.mount().display()));
    words.push(format!("--file-prefix=nearside-lab-{}", std::process::id()));
    if let Some(core) = plan.device_core {
        words.push(format!("--lcores=(0,1)@{core}"));
    }
    words.extend(ports.iter().enumerate().map(|(n, (driver, rest))| format!("--vdev={driver}{n},{rest}")));
    let rest = ["--", "--forward-mode=io", "--auto-start", "--stats-period=1", "--total-num-mbufs=16384"];
    words.extend(rest.map(str::to_owned));
    words
}

fn ip(wires: &Wires, words: &str) -> Result<(), Failure> {
    let mut all = vec!["ip", "-n", wires.inside()];
    all.extend(words.split_ascii_whitespace());
    call(&all)?;
    Ok(())
}

fn bridge(wires: &Wires) -> Result<(), Failure> {
    ip(wires, "link add bridge0 type bridge")?;
    for inner in &wires.inner {
        ip(wires, &format!("link set {inner} master bridge0"))?;
    }
    ip(wires, "link set bridge0 up")
}

fn route(wires: &Wires) -> Result<(), Failure> {
    // Frames are sent to the other port's address: the interface that is to take them has it.
    for (port, inner) in wires.inner.iter().enumerate() {
        ip(wires, &format!("link set {inner} address {}", MACS[1 - port]))?;
        ip(wires, &format!("addr add {} dev {inner}", OWN[port]))?;
        ip(wires, &format!("neighbour add {} lladdr {} dev {inner} nud permanent", NEXT[port], MACS[port]))?;
    }
    let forwarding = "echo 1 > /proc/sys/net/ipv4/ip_forward";
    call(&["ip", "netns", "exec", wires.inside(), "sh", "-c", forwarding])?;
    Ok(())
}

/// Programs in the namespace that send what comes by one interface to the
/// other.
fn redirect(wires: &Wires) -> Result<[XdpAttachment; 2], Failure> {
    let path = format!("/run/netns/{}", wires.inside());
    let namespace = File::open(&path).map_err(|why| format!("cannot open {path}: {why}"))?;
    // A thread of its own, which ends there: no other may find itself in another network.
    let inside = thread::scope(|scope| {
        let enter = || -> Result<[XdpAttachment; 2], String> {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|why| why.to_string())?;
            let index = |name: &str| {
                let path = format!("{name}: it has no number");
                rustix::net::netdevice::name_to_index(socket()?.as_fd(), name).map_err(|why| format!("{path}: {why}"))
            };
            let [near, far] = [index(&wires.inner[0])?, index(&wires.inner[1])?];
            Ok([attach(near, far)?, attach(far, near)?])
        };
        scope.spawn(enter).join()
    });
    inside.map_err(|_| "the thread in the namespace panicked")?.map_err(|why| format!("xdp: {why}").into())
}

fn socket() -> Result<std::os::fd::OwnedFd, String> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(|why| why.to_string())
}

fn attach(from: u32, to: u32) -> Result<XdpAttachment, String> {
    let assembly = Assembly::new(REDIRECT, &[("INTERFACE", i64::from(to))]).map_err(|why| why.to_string())?;
    let program = Program::load("redirect", &assembly, &[]).map_err(|why| why.to_string())?;
    program.attach_xdp(from, XdpMode::Native).map_err(|why| why.to_string())
}
