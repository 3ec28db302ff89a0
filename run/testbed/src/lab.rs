//! `nearside packet lab`: devices that anybody has, each put between the
//! tester's ports in turn, and one table.
//!
//! The ports are ends of veth pairs that the tester has by AF_XDP; the device has
//! the other ends, in a network namespace of its own.

use crate::DevicesPlan;
use crate::child::{Companion, Scratch, call, own, parse};
use crate::keep::write_whole;
use crate::load::{INTERRUPTED, replay};
use crate::zero_loss::Wires;
use demo::pages::HugePages;
use ebpf::{Assembly, Program, XdpAttachment, XdpMode};
use host::stop_signals;
use load::units::{digits, share, si};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use say::{Failure, eprintln, println};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The tester's addresses as its frames have them: of each port, and of the
/// network that it is in.
const MACS: [&str; 2] = ["02:00:00:00:02:00", "02:00:00:00:02:01"];
const NEXT: [&str; 2] = ["198.18.0.2", "198.19.0.2"];
const OWN: [&str; 2] = ["198.18.0.1/24", "198.19.0.1/24"];

/// Until a device is ready; a trial beyond its own time.
const COMING: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

/// A background is such a share of what comes at the highest rate.
const SHARE: f64 = 0.5;

/// What can be put between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
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
}

impl Device {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Bridge, Self::Route, Self::Xdp, Self::Testpmd, Self::Forward];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Route => "route",
            Self::Xdp => "xdp",
            Self::Testpmd => "testpmd",
            Self::Forward => "forward",
        }
    }
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    device: &'static str,
    /// Frames per second and direction that came at the highest rate.
    highest: f64,
    /// Median and 99.9th percentile of a probe's latency, the worse direction,
    /// in nanoseconds: alone, and with a background.
    alone: [Option<f64>; 2],
    beside: [Option<f64>; 2],
    /// The background's rate, and the share of it that was lost.
    background: f64,
    lost: f64,
    damaged: u64,
    /// Why there is no row.
    missing: Option<String>,
}

/// Measures each device, and prints the table.
///
/// # Errors
/// If nothing can be set up.
pub fn lab(plan: &DevicesPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    let scratch = Scratch::make()?;
    let mut rows = Vec::new();
    for device in &plan.devices {
        if signals.load(Ordering::Relaxed) > 0 {
            break;
        }
        eprintln!("{}", device.name());
        rows.push(match one(plan, *device, scratch.path(), &signals) {
            Ok(row) => row,
            // One that cannot be had here is told, and the others are measured.
            Err(why) => Row::missing(*device, why.to_string()),
        });
    }
    let value =
        json!({ "command": replay(), "bytes": plan.size, "seconds": plan.duration.as_secs_f64(), "devices": rows });
    if plan.json {
        println!("{value:#}");
    } else {
        println!("{}", table(plan, &rows));
    }
    // Shown before it is kept: a full disk does not take it away.
    if let Some(path) = &plan.out {
        write_whole(path, &format!("{value:#}\n"))?;
    }
    match rows.iter().find_map(|row| row.missing.as_ref()) {
        _ if signals.load(Ordering::Relaxed) > 0 => Ok(ExitCode::from(INTERRUPTED)),
        Some(why) if rows.iter().all(|row| row.missing.is_some()) => Err(why.clone().into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Row {
    const fn missing(device: Device, why: String) -> Self {
        let none = [None, None];
        Self {
            device: device.name(),
            highest: 0.0,
            alone: none,
            beside: none,
            background: 0.0,
            lost: 0.0,
            damaged: 0,
            missing: Some(why),
        }
    }
}

/// Sends what comes by one interface to another.
const REDIRECT: &str = include_str!("../programs/redirect.bpf");

/// Sets one device up, and measures it.
fn one(plan: &DevicesPlan, device: Device, folder: &Path, signals: &AtomicUsize) -> Result<Row, Failure> {
    let wires = Wires::make()?;
    let mut between = Between::set(plan, device, &wires, folder)?;
    thread::sleep(COMING);
    between.check()?;
    let tester = Tester { plan, folder, signals, links: wires.outer.clone() };
    let most = tester.load(&[format!("--stream={}:max", plan.size)])?;
    let highest = per_second(&most) / 2.0;
    let alone = tester.load(&["--probe=76B".to_owned()])?;
    let background = (SHARE * highest).max(1.0).floor();
    let beside = tester.load(&["--probe=76B".to_owned(), format!("--background={}:{background:.0}", plan.size)])?;
    between.check()?;
    let lanes = |probe: bool| each(&beside, probe);
    let sum = |path: &str| lanes(false).iter().filter_map(|lane| lane.pointer(path)?.as_f64()).sum::<f64>();
    let offered = sum("/sent/frames") + sum("/sent/entrance");
    let lost = sum("/losses/frames") + sum("/sent/entrance");
    let damaged = each(&most, false).iter().filter_map(|lane| lane.get("damaged")?.as_u64()).sum();
    Ok(Row {
        device: device.name(),
        highest,
        alone: latency(&alone),
        beside: latency(&beside),
        background,
        lost: if offered > 0.0 { lost / offered } else { 0.0 },
        damaged,
        missing: None,
    })
}

/// A device between the ports, as long as this lives.
enum Between {
    /// In the kernel: it goes with the namespace.
    Kernel,
    /// Programs at two interfaces.
    Programs([XdpAttachment; 2]),
    /// A process, and what it has of the machine, which is given back after it.
    Process(Box<Companion>, #[expect(dead_code, reason = "held until it is dropped")] Option<HugePages>),
}

impl Between {
    fn set(plan: &DevicesPlan, device: Device, wires: &Wires, folder: &Path) -> Result<Self, Failure> {
        let [near, far] = &wires.inner;
        let ip = |words: &str| {
            let mut all = vec!["ip", "-n", wires.name.as_str()];
            all.extend(words.split_ascii_whitespace());
            call(&all).map(drop)
        };
        match device {
            Device::Bridge => {
                ip("link add bridge0 type bridge")?;
                ip(&format!("link set {near} master bridge0"))?;
                ip(&format!("link set {far} master bridge0"))?;
                ip("link set bridge0 up")?;
            }
            Device::Route => {
                // Frames are sent to the other port's address: the interface that is to take them has it.
                for (port, inner) in wires.inner.iter().enumerate() {
                    ip(&format!("link set {inner} address {}", MACS[1 - port]))?;
                    ip(&format!("addr add {} dev {inner}", OWN[port]))?;
                    ip(&format!("neighbour add {} lladdr {} dev {inner} nud permanent", NEXT[port], MACS[port]))?;
                }
                let forwarding = "echo 1 > /proc/sys/net/ipv4/ip_forward";
                call(&["ip", "netns", "exec", &wires.name, "sh", "-c", forwarding])?;
            }
            Device::Xdp => return redirect(wires).map(Self::Programs),
            Device::Testpmd => {
                // Without them the driver of AF_XDP finds no memory that is in one piece.
                let pages = HugePages::take(folder)?;
                let mut words = ["dpdk-testpmd", "--no-pci", "--no-telemetry", "-m=256"].map(str::to_owned).to_vec();
                words.push(format!("--huge-dir={}", pages.mount().display()));
                words.push(format!("--file-prefix=nearside-lab-{}", std::process::id()));
                if let Some(core) = plan.device_core {
                    words.push(format!("--lcores=(0,1)@{core}"));
                }
                words.extend(
                    wires.inner.iter().enumerate().map(|(n, name)| format!("--vdev=net_af_xdp{n},iface={name}")),
                );
                words.extend(
                    ["--", "--forward-mode=io", "--auto-start", "--stats-period=1", "--total-num-mbufs=16384"]
                        .map(str::to_owned),
                );
                return process(folder, device, wires, &words, Some(pages));
            }
            Device::Forward => {
                let mut words = own(&["packet", "forward", "--mode", "io"])?;
                words.extend(wires.inner.iter().map(|name| format!("--link=af_xdp:{name}")));
                if let Some(core) = plan.device_core {
                    words.extend(["--cores".to_owned(), core.to_string()]);
                }
                return process(folder, device, wires, &words, None);
            }
        }
        Ok(Self::Kernel)
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self {
            Self::Process(process, _) => process.still_runs(),
            Self::Programs(programs) => {
                let _ = programs;
                Ok(())
            }
            Self::Kernel => Ok(()),
        }
    }
}

fn process(
    folder: &Path,
    device: Device,
    wires: &Wires,
    words: &[String],
    pages: Option<HugePages>,
) -> Result<Between, Failure> {
    Ok(Between::Process(Box::new(Companion::start(folder, device.name(), Some(&wires.name), words)?), pages))
}

/// Programs in the namespace that send what comes by one interface to the
/// other.
fn redirect(wires: &Wires) -> Result<[XdpAttachment; 2], Failure> {
    let path = format!("/run/netns/{}", wires.name);
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

/// Our tester at the outer ends.
struct Tester<'a> {
    plan: &'a DevicesPlan,
    folder: &'a Path,
    signals: &'a AtomicUsize,
    links: [String; 2],
}

impl Tester<'_> {
    fn load(&self, streams: &[String]) -> Result<Value, Failure> {
        let mut words = own(&["packet", "load", "--json", "--drain", "500ms"])?;
        words.extend(self.links.iter().map(|name| format!("--link=af_xdp:{name}")));
        words.extend(streams.iter().cloned());
        words.push(format!("--duration={}ms", self.plan.duration.as_millis()));
        if let Some(core) = self.plan.core {
            words.extend(["--core".to_owned(), core.to_string()]);
        }
        let tester = Companion::start(self.folder, "tester", None, &words)?;
        let (said, status) = tester.finish(self.plan.duration + PATIENCE, self.signals)?;
        if !status.success() {
            return Err(format!("the tester ended ({status})").into());
        }
        parse("the tester", &said)
    }
}

/// Streams by direction: probes, or others.
fn each(said: &Value, probe: bool) -> Vec<&Value> {
    let lanes = said.pointer("/result/lanes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    lanes.iter().filter(|lane| lane.get("probe").and_then(Value::as_bool) == Some(probe)).collect()
}

fn per_second(said: &Value) -> f64 {
    let came = |lane: &&Value| lane.pointer("/arrivals/unique").and_then(Value::as_f64);
    let seconds = said.pointer("/result/seconds").and_then(Value::as_f64).unwrap_or(1.0);
    each(said, false).iter().filter_map(came).sum::<f64>() / seconds
}

/// Median and 99.9th percentile of the worse direction's probe.
fn latency(said: &Value) -> [Option<f64>; 2] {
    let summary = said.get("summary").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    ["p50_ns", "p99_9_ns"].map(|key| {
        let probes = summary.iter().filter(|lane| lane.get("stream").and_then(Value::as_str) == Some("probe"));
        probes.filter_map(|lane| lane.get(key)?.as_f64()).reduce(f64::max)
    })
}

fn table(plan: &DevicesPlan, rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{} bytes, two veth pairs by AF_XDP, both directions at once; latency in us, one way, the worse direction",
        plan.size
    )];
    lines.push(format!(
        "{:<8} {:>12} {:>9} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "device", "highest", "p50", "p99.9", "background", "p50", "p99.9", "lost"
    ));
    for row in rows {
        if let Some(why) = &row.missing {
            lines.push(format!("{:<8} n/a: {why}", row.device));
            continue;
        }
        let us = |nanos: Option<f64>| nanos.map_or_else(|| "-".to_owned(), |nanos| digits(nanos / 1e3));
        lines.push(format!(
            "{:<8} {:>12} {:>9} {:>9} {:>12} {:>9} {:>9} {:>9}",
            row.device,
            si(row.highest, "/s"),
            us(row.alone[0]),
            us(row.alone[1]),
            si(row.background, "/s"),
            us(row.beside[0]),
            us(row.beside[1]),
            share(row.lost)
        ));
    }
    lines.join("\n")
}
