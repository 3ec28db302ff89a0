//! Interfaces: drivers, firmware, queues, settings, interrupts.

use crate::{line, names};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::path::Path;
use sysroot::Sysroot;

/// More interfaces than a machine has that measures; containers' hosts have
/// thousands of virtual ones, which have no device.
const MOST_INTERFACES: usize = 64;

const FOLDER: &str = "sys/class/net";

/// Those that have a device, and those named; what drivers tell only if this is the machine
/// itself, and no folder of another's.
pub fn read(root: &Sysroot, also: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let all = names(root, FOLDER).into_iter();
    let wanted =
        |name: &String| root.kind(&format!("{FOLDER}/{name}/device/driver")).is_some() || also.contains(&name.as_str());
    for name in all.filter(wanted).take(MOST_INTERFACES) {
        let own = format!("{FOLDER}/{name}");
        let number = |file: &str| line(root, &format!("{own}/{file}"))?.parse::<i64>().ok().filter(|n| *n > 0);
        let driver = root.link(&format!("{own}/device/driver")).ok();
        let driver = driver
            .as_deref()
            .and_then(|link| Path::new(link).file_name())
            .map(|name| name.to_string_lossy().into_owned());
        let driver = driver.unwrap_or_else(|| "without a device".to_owned());
        let receive = names(root, &format!("{own}/queues")).iter().filter(|name| name.starts_with("rx-")).count();
        let speed = number("speed").map_or_else(|| "of unknown speed".to_owned(), |speed| format!("{speed} Mbit/s"));
        let mtu = number("mtu").unwrap_or(0);
        let mut put = |what: &str, value: String| found.insert(format!("interface {name}{what}"), value);
        put("", format!("{driver}, {speed}, MTU {mtu}, {receive} receive queues"));
        if let Some(interrupts) = interrupts(root, &own) {
            put(" interrupts", interrupts);
        }
        if root.is_this_machine() {
            if let Some(driver) = driver_of(&name) {
                put(" driver", driver);
            }
            for (group, settings) in settings(&name) {
                put(&format!(" {group}"), settings);
            }
        }
    }
    found
}

/// Where its interrupts go: how many of them, and the cores.
fn interrupts(root: &Sysroot, own: &str) -> Option<String> {
    let all = names(root, &format!("{own}/device/msi_irqs"));
    let cores: BTreeSet<String> =
        all.iter().filter_map(|irq| line(root, &format!("proc/irq/{irq}/smp_affinity_list"))).collect();
    let cores: Vec<String> = cores.into_iter().collect();
    (!all.is_empty()).then(|| format!("{} on cores {}", all.len(), cores.join("; ")))
}

/// Rings, channels, coalescing, pause frames, offloads: by group, as the driver tells.
fn settings(name: &str) -> BTreeMap<String, String> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (setting, value) in ethtool::settings(name).unwrap_or_default() {
        if let Some((group, setting)) = setting.split_once('/') {
            groups.entry(group.to_owned()).or_default().push(format!("{setting} {value}"));
        }
    }
    groups.into_iter().map(|(group, all)| (group, all.join(", "))).collect()
}

/// `struct ethtool_drvinfo` (include/uapi/linux/ethtool.h).
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// `ETHTOOL_GDRVINFO`.
const GET_DRIVER: u32 = 3;

/// The driver's name and version, and its device's firmware.
fn driver_of(name: &str) -> Option<String> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None).ok()?;
    let mut info = DriverInfo {
        command: GET_DRIVER,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus: [0; 32],
        erom: [0; 32],
        reserved: [0; 12],
        counts: [0; 5],
    };
    // SAFETY: all zeros are a request without a name.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: the request is the kernel's structure, its name ends by a zero within it, and its pointer leads
    // to a structure of the size that this command writes, which lives until the call returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    };
    let parts = [("", text(&info.driver)), ("version ", text(&info.version)), ("firmware ", text(&info.firmware))];
    let parts = parts.into_iter().filter(|(_, value)| !value.is_empty() && value != "N/A");
    (done == 0).then(|| parts.map(|(what, value)| format!("{what}{value}")).collect::<Vec<_>>().join(", "))
}
